"""The best of several kinds of models at every budget, without a method to choose."""

from anytime.auto.estimators import AutoClassifier, AutoRegressor

__all__ = ["AutoClassifier", "AutoRegressor"]
