"""Trees and forests as plans: flat arrays, import from other libraries, ordering for anytime use."""

from anytime.trees.models import AnytimeClassifier, AnytimeRegressor, make_anytime

__all__ = ["AnytimeClassifier", "AnytimeRegressor", "make_anytime"]
