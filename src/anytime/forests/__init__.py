"""Trees and forests under a budget: growing them with prices, pruning what was grown."""

from anytime.forests.budget import (
    BudgetForestClassifier,
    BudgetForestRegressor,
    BudgetTreeClassifier,
    BudgetTreeRegressor,
)
from anytime.forests.guarantee import TreeGuarantee
from anytime.forests.impurity import (
    AdmissibilityReport,
    ClassPairs,
    CustomImpurity,
    Entropy,
    Gini,
    Impurity,
    Polynomial,
    Powers,
    SquaredError,
    SquaredPairs,
    check_admissible,
)
from anytime.forests.pruning.models import PrunedForestClassifier, PrunedForestRegressor, prune_forest
from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner

__all__ = [
    "AdmissibilityReport",
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
    "Polynomial",
    "Powers",
    "PrunedForestClassifier",
    "PrunedForestRegressor",
    "Pruning",
    "PruningProblem",
    "SquaredError",
    "SquaredPairs",
    "TreeGuarantee",
    "check_admissible",
    "prune_forest",
]
