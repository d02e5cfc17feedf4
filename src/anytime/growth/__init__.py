"""Architecture search by growth: from a small model to a family of models over cost, which can be stopped at any time.

What needs torch is loaded when it is first used, so that searches of other things work without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anytime.growth.hull import error_at, hull_area, hull_band, hull_values, lower_hull
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

if TYPE_CHECKING:
    from anytime.growth.architecture import Architecture, CellPlan, GrownLayer, Shortcut
    from anytime.growth.candidates import CandidateSet, add_candidates, remove_candidates
    from anytime.growth.cells import GrownNetwork, build
    from anytime.growth.estimators import GrowingNetworkClassifier, GrowingNetworkRegressor
    from anytime.growth.network_growth import NetworkGrowth, Scaling, module_seed
    from anytime.growth.phases import PRESETS, GrowthSettings, Phases, for_tables
    from anytime.growth.skeletons import doubled, image_seed, scaled, table_seed

__all__ = [
    "PRESETS",
    "Architecture",
    "CandidateSet",
    "CellPlan",
    "CostLimitError",
    "FailedJob",
    "FixedEpochs",
    "GradientEvidence",
    "GrowingNetworkClassifier",
    "GrowingNetworkRegressor",
    "GrownLayer",
    "GrownNetwork",
    "GrowthError",
    "GrowthProblem",
    "GrowthSearch",
    "GrowthSettings",
    "GrowthTrigger",
    "Interrupted",
    "Job",
    "JournalError",
    "LocalWorkers",
    "Model",
    "NetworkGrowth",
    "Outcome",
    "Phases",
    "Plateau",
    "Pool",
    "RayWorkers",
    "ReportWords",
    "Scaling",
    "Shortcut",
    "add_candidates",
    "build",
    "doubled",
    "draw_parent",
    "error_at",
    "for_tables",
    "hull_area",
    "hull_band",
    "hull_probabilities",
    "hull_values",
    "image_seed",
    "lower_hull",
    "module_seed",
    "parent_probabilities",
    "remove_candidates",
    "scaled",
    "table_seed",
    "whole_file",
]

_HOMES = {
    "architecture": ["Architecture", "CellPlan", "GrownLayer", "Shortcut"],
    "candidates": ["CandidateSet", "add_candidates", "remove_candidates"],
    "cells": ["GrownNetwork", "build"],
    "estimators": ["GrowingNetworkClassifier", "GrowingNetworkRegressor"],
    "network_growth": ["NetworkGrowth", "Scaling", "module_seed"],
    "phases": ["PRESETS", "GrowthSettings", "Phases", "for_tables"],
    "skeletons": ["doubled", "image_seed", "scaled", "table_seed"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'anytime.growth' has no attribute {name!r}")
    import importlib

    try:
        value = getattr(importlib.import_module(f"anytime.growth.{_HOME_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise ImportError(f"anytime.growth.{name} needs PyTorch: pip install 'anytime[torch]'") from None
    globals()[name] = value
    return value
