"""Trees and forests as plans: flat arrays, import from other libraries, ordering by gain per cost."""

from anytime.trees.imported_models import AnytimeClassifier, AnytimeRegressor
from anytime.trees.making import make_anytime

__all__ = ["AnytimeClassifier", "AnytimeRegressor", "make_anytime"]
