"""Asking on the fly: bounds, conjectures, EXP3.G on any feedback graph, and worlds to play against."""

from anytime_research.online.bounds import (
    HardCase,
    class_regret_upper_bound,
    log_patterns,
    regret_lower_bound,
)
from anytime_research.online.environments import BernoulliEnvironment, hard_environment
from anytime_research.online.exp3g import Exp3G
from anytime_research.online.graphs import FeedbackGraph
from anytime_research.online.patterns import (
    ASK,
    LabelDistribution,
    ball_size,
    fano_regret_bound,
    pattern_matrix,
    split_fano_regret_bound,
)
from anytime_research.online.regret import ExpertRegret

__all__ = [
    "ASK",
    "BernoulliEnvironment",
    "Exp3G",
    "ExpertRegret",
    "FeedbackGraph",
    "HardCase",
    "LabelDistribution",
    "ball_size",
    "class_regret_upper_bound",
    "fano_regret_bound",
    "hard_environment",
    "log_patterns",
    "pattern_matrix",
    "regret_lower_bound",
    "split_fano_regret_bound",
]
