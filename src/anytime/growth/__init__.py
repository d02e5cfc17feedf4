"""Architecture search by growth: from a small model to a family of models over cost, which can be stopped at any time.

Nothing here needs torch before a network is grown.
"""

from __future__ import annotations

from anytime.growth.hull import error_at, hull_area, hull_band, hull_values, hypervolume, lower_hull
from anytime.growth.journal import FailedJob, JournalError, Model
from anytime.growth.problem import GrowthProblem, Interrupted, Job, Outcome, whole_file
from anytime.growth.report import ReportWords
from anytime.growth.sampling import (
    CostLimitError,
    Pool,
    draw_parent,
    hull_probabilities,
    parent_probabilities,
)
from anytime.growth.search import GrowthError, GrowthSearch
from anytime.growth.triggers import FixedEpochs, GradientEvidence, GrowthTrigger, Plateau
from anytime.growth.workers import LocalWorkers, RayWorkers

__all__ = [
    "CostLimitError",
    "FailedJob",
    "FixedEpochs",
    "GradientEvidence",
    "GrowthError",
    "GrowthProblem",
    "GrowthSearch",
    "GrowthTrigger",
    "Interrupted",
    "Job",
    "JournalError",
    "LocalWorkers",
    "Model",
    "Outcome",
    "Plateau",
    "Pool",
    "RayWorkers",
    "ReportWords",
    "draw_parent",
    "error_at",
    "hull_area",
    "hull_band",
    "hull_probabilities",
    "hull_values",
    "hypervolume",
    "lower_hull",
    "parent_probabilities",
    "whole_file",
]
