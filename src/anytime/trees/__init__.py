"""Trees and forests as plans: flat arrays, import from other libraries, ordering for anytime use."""

from anytime.trees.making import make_anytime
from anytime.trees.models import AnytimeClassifier, AnytimeRegressor

__all__ = ["AnytimeClassifier", "AnytimeRegressor", "make_anytime"]
