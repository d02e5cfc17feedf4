"""Sensors that decide whether to speak: made-up data, recovery and its diagnostics, other solvers, the vote of all."""

from anytime_research.sensing.generators import (
    SensorData,
    make_adaptive_sparse_regression,
    make_body_sensors,
)
from anytime_research.sensing.projection import ProjectedGates, project_scores, recover_gates
from anytime_research.sensing.recovery import (
    PANELS,
    Recovery,
    cosine_distances,
    hessian,
    least_curvature,
    recover,
    sampling_gaps,
)
from anytime_research.sensing.relaxation import RelaxedGates
from anytime_research.sensing.votes import SensorVote

__all__ = [
    "PANELS",
    "ProjectedGates",
    "Recovery",
    "RelaxedGates",
    "SensorData",
    "SensorVote",
    "cosine_distances",
    "hessian",
    "least_curvature",
    "make_adaptive_sparse_regression",
    "make_body_sensors",
    "project_scores",
    "recover",
    "recover_gates",
    "sampling_gaps",
]
