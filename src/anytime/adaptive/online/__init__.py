"""Learning on the fly when to ask a remote model, if only asking reveals the truth: EXP3.G, its bounds, and worlds to test it."""

from anytime.adaptive.online.bounds import (
    HardCase,
    Rates,
    class_regret_upper_bound,
    exp3g_rates,
    log_patterns,
    regret_lower_bound,
    regret_upper_bound,
)
from anytime.adaptive.online.environments import BernoulliEnvironment, hard_environment
from anytime.adaptive.online.exp3g import Decisions, Exp3G, RequestLearner
from anytime.adaptive.online.experts import Expert, Experts
from anytime.adaptive.online.graphs import FeedbackGraph
from anytime.adaptive.online.patterns import (
    ASK,
    LabelDistribution,
    ball_size,
    fano_regret_bound,
    pattern_matrix,
    split_fano_regret_bound,
)
from anytime.adaptive.online.regret import RegretTracker
from anytime.adaptive.online.selector import OnlineSelector, Verdicts

__all__ = [
    "ASK",
    "BernoulliEnvironment",
    "Decisions",
    "Exp3G",
    "Expert",
    "Experts",
    "FeedbackGraph",
    "HardCase",
    "LabelDistribution",
    "OnlineSelector",
    "Rates",
    "RegretTracker",
    "RequestLearner",
    "Verdicts",
    "ball_size",
    "class_regret_upper_bound",
    "exp3g_rates",
    "fano_regret_bound",
    "hard_environment",
    "log_patterns",
    "pattern_matrix",
    "regret_lower_bound",
    "regret_upper_bound",
    "split_fano_regret_bound",
]
