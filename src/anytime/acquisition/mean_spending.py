"""A mean budget for the rows of one call: the money goes to the rows that gain most by it.

For gains that add up over rows one price of money for all is optimal. Rows buy in the order of expected gain per price until the
money of the batch is spent, so that the mean is kept whatever the expectations are worth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anytime.acquisition.purchase_block import FINISHED, PurchaseBlock
from anytime.blocks import Memory
from anytime.engine import Run, Stop, interrupted

__all__ = ["spend_mean"]

_SHARE = 0.25  # of the money that is left goes to the best offers, before all are compared again


def spend_mean(
    run: Run,
    money: int,
    cap: NDArray[np.int64],
    *,
    due: float = np.inf,
    stop: Stop | None = None,
    relax: Callable[[Memory], bool] | None = None,
) -> None:
    """Take the rows of a fresh run as far as ``money`` ticks, for all together, and ``cap``, (n,) for each, allow.

    Where nobody wants to buy any more, ``relax`` may change that; it says whether it has tried.
    """
    block = run.plan.blocks[0]
    assert isinstance(block, PurchaseBlock)
    assert run.ledger is not None
    memory = run.memory_of(0)
    run.bound(cap, run.absent)
    hurried = np.isfinite(due) or stop is not None
    while True:
        in_time = block.choose(run.X, memory, go_on=(lambda: not interrupted(due, stop)) if hurried else None)
        if not in_time:
            run.advance(budget=cap, deadline=-np.inf)  # all are partial
            return
        paid = run.ledger.paid
        left = money - int(paid.sum())
        price = _prices(run)
        settled = (memory["next"] == FINISHED) | block.can_only_lack(memory)  # they buy nothing more
        can = ~settled & ~run.finished & (run.done < run.plan.n_stages)
        can &= paid + price <= np.minimum(cap, paid + left)
        rows = np.flatnonzero(can)
        if not rows.size:
            if relax is not None and left > 0 and relax(memory):
                continue
            until = np.where(settled, run.plan.n_stages, run.done)
            run.advance(until, budget=np.minimum(cap, paid + left), deadline=due, stop=stop)
            return
        gain, whole = memory["gain"][rows], np.maximum(memory["price"][rows], 1)
        rate = np.where(gain > 0, gain / whole, gain * whole)
        rate[price[rows] == 0] = np.inf
        rows = rows[np.lexsort((rows, price[rows], -rate))]
        spent = np.cumsum(price[rows])
        taken = max(int(np.searchsorted(spent, _SHARE * left, side="right")), 1)
        until = run.done.copy()
        until[rows[:taken]] += 1
        before = run.done.copy()
        if not run.advance(until, budget=cap, deadline=due, stop=stop) or (run.done == before).all():
            return


def _prices(run: Run) -> NDArray[np.int64]:
    """(n,) ticks that the next stage of each row may cost, its rules included."""
    prices = np.zeros(len(run.X), dtype=np.int64)
    for s in np.unique(run.done[run.done < run.plan.n_stages]):
        rows = np.flatnonzero(run.done == s)
        prices[rows] = run.quote(int(s), rows)
    return prices
