"""How far rows can go that lack some groups, and whether a model keeps count of what rows pay."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anytime._native import CostTable
from anytime.blocks import Block
from anytime.costs import BoundCosts, FeatureCosts
from anytime.estimator import AnytimeModel
from anytime.plan import Plan

__all__ = ["Reach", "keeps_ledger"]


class Reach:
    """How far rows of a plan can go that lack some groups: each as far as its own path reads only what it has.

    What a group requires is left out: who holds it has no need to compute it.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        costs, evaluation = plan.costs.costs, plan.evaluation_costs
        self._costs = BoundCosts(
            FeatureCosts(costs.prices, groups=costs.groups, unit=costs.unit), plan.costs.column_group
        )
        self._plan = replace(plan, costs=self._costs, expected_costs=None)
        self._most = 1.0 + costs.total + float(np.sum(evaluation if evaluation is not None else 0.0))
        self._beyond = max(2 * self._costs.costs.budget_ticks(self._most), 1)  # more than anybody has
        self._needs = _needs(plan)

    def of(self, held: NDArray[np.bool_]) -> tuple[Plan, float, int]:
        """A plan in which groups that are not held cannot be paid for, a budget for all others, and the last stage in reach.

        It is made for every question anew, in some microseconds: sets of groups are too many to remember.
        """
        plan, bound = copy.copy(self._plan), object.__new__(BoundCosts)
        bound.__dict__.update(self._costs.__dict__)
        bound.prices = np.where(held, bound.prices, self._beyond)
        nothing = np.zeros(0, dtype=np.int32)
        start = np.zeros(held.size + 1, dtype=np.int64)
        bound.table = CostTable(bound.prices, start, nothing, bound.column_group)
        object.__setattr__(plan, "costs", bound)
        out = (self._needs & ~held).any(axis=1)
        return plan, self._most, int(out.argmax()) if out.any() else plan.n_stages


def _needs(plan: Plan) -> NDArray[np.bool_]:
    """(S, G) groups without which no row gets through a stage: of trees those at the roots."""
    needs = np.zeros((plan.n_stages, plan.costs.n_groups), dtype=bool)
    if plan.stops:  # rows may end before, and for another reason
        return needs
    for b, block in enumerate(plan.blocks):
        arrays = None if block.forest is None else block.forest.arrays()
        for within in range(block.n_stages):
            s = plan.block_start[b] + within
            if s in plan.passes or (arrays is None and type(block).reads is not Block.reads):
                continue
            if arrays is None:
                columns = block.columns(within)
            else:
                trees = slice(*arrays["stage_start"][within : within + 2].tolist())
                columns = arrays["feature"][arrays["tree_start"][:-1][trees]]
            needs[s, plan.costs.column_group[columns[columns >= 0]]] = True
    return needs


def keeps_ledger(model: AnytimeModel) -> bool:
    """Whether it is counted what each row pays."""
    return model.meter == "realised"
