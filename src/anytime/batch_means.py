"""A mean budget for the rows of one call, where sure rows leave early: together they never pay more than the mean allows.

A table of stops says what its policies cost on held-out rows; the rows of a call may be harder or easier. So they go through the
policies from the cheap to the expensive ones: under each, rows that it does not let go buy their next stage, the least sure
first, until the money of the call is spent.
"""

import numpy as np
from numpy.typing import NDArray

from anytime.costs import UNLIMITED
from anytime.engine import Run, Stop
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["spend_by_table"]


def spend_by_table(
    run: Run,
    policies: Array,
    money: int,
    cap: NDArray[np.int64] | int,
    *,
    realised: bool,
    due: float = np.inf,
    stop: Stop | None = None,
) -> None:
    """Take the rows of a fresh run as far as ``money`` ticks, for all together, and ``cap``, for each, allow.

    ``policies``, (m, S), are the margins of a table of stops, from cheap to expensive. Rows pay what they really buy where
    ``realised``, which needs a ledger; else what stages cost at most.
    """
    plan, n = run.plan, len(run.X)
    cap = np.minimum(np.broadcast_to(cap, n), plan.limit_ticks)
    margin, price = np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
    stands = np.zeros(n, dtype=bool)  # rows that have done all stages, or lack what the next one reads
    moved = np.arange(n)
    for enough in policies:
        while True:
            stands[moved] |= run.done[moved] >= plan.n_stages
            moved = moved[~stands[moved]]
            price[moved] = _prices(run, moved, realised)
            paid = _paid(run, realised)
            left = money - int(paid.sum())
            payable = ~stands & (price <= np.minimum(left, cap - paid))
            unsure = (margin < enough[np.maximum(run.done, 1) - 1]) | (run.done == 0)
            rows = np.flatnonzero(payable & unsure)
            rows = rows[np.argsort(margin[rows], kind="stable")]
            moved = rows[np.cumsum(price[rows]) <= left]
            if not moved.size:
                break
            until = run.done.copy()
            until[moved] += 1
            if not run.advance(until, budget=cap if realised else UNLIMITED, deadline=due, stop=stop):
                return
            stands[moved] |= run.done[moved] < until[moved]
            margin[moved] = LINKS[plan.link].margin(run.scores(moved))
        if not payable.any():
            break
    run.finished |= margin >= enough[np.maximum(run.done, 1) - 1]


def _paid(run: Run, realised: bool) -> NDArray[np.int64]:
    """(n,) ticks that rows have paid."""
    if realised:
        assert run.ledger is not None
        return run.ledger.paid
    return np.append(0, run.plan.stage_ticks)[run.answered]  # stages that were left out for them are free


def _prices(run: Run, rows: NDArray[np.intp], realised: bool) -> NDArray[np.int64]:
    """(m,) ticks that the next stage of each of these rows may cost."""
    if not realised:
        return run.plan.stage_ticks[run.done[rows]] - _paid(run, realised)[rows]
    price = np.zeros(rows.size, dtype=np.int64)
    for s in np.unique(run.done[rows]):
        here = run.done[rows] == s
        price[here] = run.quote(int(s), rows[here])
    return price
