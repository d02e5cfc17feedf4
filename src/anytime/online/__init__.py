"""Learn online when to ask a remote model, if only its answer reveals the truth."""

from anytime.online.experts import Expert, Experts
from anytime.online.request_learner import Decisions, RequestLearner
from anytime.online.schedule import regret_upper_bound
from anytime.online.selector import OnlineSelector, Verdicts

__all__ = [
    "Decisions",
    "Expert",
    "Experts",
    "OnlineSelector",
    "RequestLearner",
    "Verdicts",
    "regret_upper_bound",
]
