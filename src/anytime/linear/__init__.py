"""Anytime linear prediction: group pursuit, generalised linear models, and the baselines they are held against."""

from anytime.linear.models import GroupPursuitClassifier, GroupPursuitRegressor

__all__ = ["GroupPursuitClassifier", "GroupPursuitRegressor"]
