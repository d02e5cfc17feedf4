"""Trees and forests under a budget: growing with prices, and pruning."""

from anytime.forests.budget import (
    BudgetForestClassifier,
    BudgetForestRegressor,
    BudgetTreeClassifier,
    BudgetTreeRegressor,
)
from anytime.forests.guarantee import TreeGuarantee
from anytime.forests.impurity import (
    ClassPairs,
    CustomImpurity,
    Entropy,
    Gini,
    Impurity,
    Powers,
    SquaredError,
    SquaredPairs,
)
from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.pruned_forests import PrunedForestClassifier, PrunedForestRegressor, prune_forest
from anytime.forests.pruning.solvers import BudgetPruner

__all__ = [
    "BudgetForestClassifier",
    "BudgetForestRegressor",
    "BudgetPruner",
    "BudgetTreeClassifier",
    "BudgetTreeRegressor",
    "ClassPairs",
    "CustomImpurity",
    "Entropy",
    "Gini",
    "Impurity",
    "Powers",
    "PrunedForestClassifier",
    "PrunedForestRegressor",
    "Pruning",
    "PruningProblem",
    "SquaredError",
    "SquaredPairs",
    "TreeGuarantee",
    "prune_forest",
]
