"""Pruning forests so that rows read less: one linear program, solved exactly or nearly."""

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner, min_cut, primal_dual

__all__ = ["BudgetPruner", "Pruning", "PruningProblem", "min_cut", "primal_dual"]
