"""Boosting: gradient descent in a space of functions, one weak learner at a time, for its gain per cost."""

from anytime.boosting.cascade import CascadeClassifier
from anytime.boosting.filters import entropy_filters, function_filters, margin_filters
from anytime.boosting.gradient_boosting import GradientBoostingClassifier, GradientBoostingRegressor
from anytime.boosting.learners import FunctionLearner, KernelLearner, LinearLearner, TreeLearner
from anytime.boosting.speedboost import SpeedBoostClassifier, SpeedBoostRanker, SpeedBoostRegressor

__all__ = [
    "CascadeClassifier",
    "FunctionLearner",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "KernelLearner",
    "LinearLearner",
    "SpeedBoostClassifier",
    "SpeedBoostRanker",
    "SpeedBoostRegressor",
    "TreeLearner",
    "entropy_filters",
    "function_filters",
    "margin_filters",
]
