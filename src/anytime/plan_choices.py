"""What answers a budget that is known in advance: a prefix of the chain, or a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anytime.plan import Plan


class Choice(NamedTuple):
    """What answers a known budget; arrays where there is one budget per row."""

    branch: Any  # its number; -1: the chain
    stages: Any  # of the chain or the branch


def offers_of(
    plan: Plan, held: NDArray[np.bool_] | None, owned: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], Choice]:
    """(m,) budgets, in ticks, from which on something else answers, and what it is, for ``Plan.choice``.

    Rows have the groups ``held``, None: all, and ``owned`` some before, None: none.
    """
    offers = [(ticks, -1, stages) for stages, ticks in enumerate(ticks_after(plan, owned).tolist())]
    offers += [
        (int(ticks_after(branch, owned)[-1]), number, branch.n_stages)
        for number, branch in enumerate(plan.branches)
    ]
    choice_of: dict[int, tuple[int, int]] = {}
    chain, best, in_branch = -np.inf, -np.inf, (-1, 0)
    for ticks, number, stages in sorted(offers):  # of those that cost the same the chain comes first
        if ticks > plan.limit_ticks and choice_of:
            break
        of = plan if number < 0 else plan.branches[number]
        assert of.quality is not None
        can_be_done = held is None or not stages or bool(held[required_by(of, stages - 1)].all())
        if number < 0:
            # a stage that cannot be done leaves the answer as it is
            chain = max(chain, of.quality[stages]) if can_be_done else chain
            choice_of[ticks] = in_branch if best > chain else (-1, stages)
        elif can_be_done and of.quality[stages] > max(best, chain):
            best, in_branch = of.quality[stages], (number, stages)
            choice_of[ticks] = in_branch
    numbers, stages_done = np.array(list(choice_of.values()), dtype=np.int64).T
    return np.array(list(choice_of), dtype=np.int64), Choice(numbers, stages_done)


def ticks_after(plan: Plan, owned: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """(S + 1,) the most that a row has paid before the first stage and after each, if it ``owned`` groups before."""
    if owned is None:
        return np.append(0, plan.stage_ticks)
    prices, order = plan.costs.prices, np.array(plan.purchases.order, dtype=np.intp)
    bought = np.cumsum([0, *np.where(owned[order], 0, prices[order])])[plan.purchases.groups]
    return np.asarray(owned @ prices + bought + np.cumsum([0, *plan.evaluation_ticks]), dtype=np.int64)


def required_by(plan: Plan, s: int) -> list[int]:
    """Groups that the answer after stage ``s`` needs: its own, and those of stages since the last replacing one."""
    first = s
    while first and (plan.replaces is None or not plan.replaces[first]):
        first -= 1
    groups = (g for used in plan.stage_groups[first : s + 1] for g in used.tolist())
    return sorted({needed for g in groups for needed in plan.costs.table.closure(g)})
