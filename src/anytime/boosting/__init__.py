"""Boosting: gradient descent in a space of functions, with weak learners chosen by gain per cost."""

from anytime.boosting.additive import (
    AdditiveSpeedBoostClassifier,
    AdditiveSpeedBoostRanker,
    AdditiveSpeedBoostRegressor,
)
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.cascade import CascadeClassifier
from anytime.boosting.filters import entropy_filters, function_filters, margin_filters
from anytime.boosting.gradient_boosting import GradientBoostingClassifier, GradientBoostingRegressor
from anytime.boosting.learners import FunctionLearner, LinearLearner, TreeLearner
from anytime.boosting.objective import MeanLoss
from anytime.boosting.speedboost import SpeedBoostClassifier, SpeedBoostRanker, SpeedBoostRegressor
from anytime.boosting.trainer import BoostingRules, Trainer

__all__ = [
    "AdditiveSpeedBoostClassifier",
    "AdditiveSpeedBoostRanker",
    "AdditiveSpeedBoostRegressor",
    "BoostingRules",
    "CascadeClassifier",
    "FittedCandidates",
    "FunctionLearner",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "LinearLearner",
    "MeanLoss",
    "SpeedBoostClassifier",
    "SpeedBoostRanker",
    "SpeedBoostRegressor",
    "Trainer",
    "TreeLearner",
    "entropy_filters",
    "function_filters",
    "margin_filters",
]
