"""Distributed sensing: devices that decide from what they see alone whether to speak, and a cloud that adds up what they say."""

from anytime.adaptive.sensing.frank_wolfe import frank_wolfe, participation_oracle
from anytime.adaptive.sensing.generators import SensorData, make_adaptive_sparse_regression, make_body_sensors
from anytime.adaptive.sensing.models import (
    SensorNetworkClassifier,
    SensorNetworkRegressor,
    SensorReport,
    SensorVote,
)
from anytime.adaptive.sensing.problem import Gate, Problem, Weights
from anytime.adaptive.sensing.projection import project_scores, recover_gates, within_participation
from anytime.adaptive.sensing.recovery import (
    PANELS,
    Recovery,
    cosine_distances,
    hessian,
    least_curvature,
    recover,
    sampling_gaps,
)
from anytime.adaptive.sensing.solvers import Direct, Projected, Relaxed

__all__ = [
    "PANELS",
    "Direct",
    "Gate",
    "Problem",
    "Projected",
    "Recovery",
    "Relaxed",
    "SensorData",
    "SensorNetworkClassifier",
    "SensorNetworkRegressor",
    "SensorReport",
    "SensorVote",
    "Weights",
    "cosine_distances",
    "frank_wolfe",
    "hessian",
    "least_curvature",
    "make_adaptive_sparse_regression",
    "make_body_sensors",
    "participation_oracle",
    "project_scores",
    "recover",
    "recover_gates",
    "sampling_gaps",
    "within_participation",
]
