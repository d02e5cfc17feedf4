"""Anytime linear prediction: group pursuit, generalised linear models, and trees of linear classifiers."""

from anytime.linear.classifier_tree import SubmodularTreeClassifier
from anytime.linear.cost_sensitive_tree import CostSensitiveTreeClassifier
from anytime.linear.pursuit_estimators import GroupPursuitClassifier, GroupPursuitRegressor

__all__ = [
    "CostSensitiveTreeClassifier",
    "GroupPursuitClassifier",
    "GroupPursuitRegressor",
    "SubmodularTreeClassifier",
]
