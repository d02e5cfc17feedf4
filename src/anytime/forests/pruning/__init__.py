"""Pruning forests so that rows read less: one problem, solved exactly by a minimum cut or nearly by a primal-dual method."""

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner, min_cut, primal_dual

__all__ = ["BudgetPruner", "Pruning", "PruningProblem", "min_cut", "primal_dual"]
