"""The best that any gate could do: routing by the losses themselves.

Which rows to send to the costly model if both models' losses were known beforehand. No gate can know them, so this is a curve to
judge gates by (Nan, *Learning to predict under a budget*, 2018, section 5.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

__all__ = ["OracleRouting", "oracle_curve", "route_at_price", "route_within_budget"]


@dataclass(frozen=True, eq=False)
class OracleRouting:
    """Which rows stay with the cheap model, and what that comes to.

    Attributes
    ----------
    cheap : (n,) float
        Chance that a row is left to the cheap model: 0 or 1, but for at most one row on the edge of a budget.
    loss, cost : float
        Means over rows.
    """

    cheap: Array
    loss: float
    cost: float


def route_at_price(
    costly_loss: ArrayLike,
    cheap_loss: ArrayLike,
    evaluation_cost: ArrayLike,
    cheap_evaluation_cost: ArrayLike,
    price: float,
) -> OracleRouting:
    """Send a row to the costly model where it saves at least ``price`` of loss for every unit of cost that it adds.

    Parameters
    ----------
    costly_loss, cheap_loss : (n,)
    evaluation_cost, cheap_evaluation_cost : (n,), or a number
        The costly model costs no row less than the cheap one.
    price : float
        The multiplier eta, not negative.

    Examples
    --------
    >>> route_at_price([0.0, 0.0], [1.0, 0.1], 5.0, 1.0, price=0.1).cheap
    array([0., 1.])
    """
    if not price >= 0:
        raise ValueError(f"price must not be negative; got {price}")
    excess, saving, costly, cost = _checked(costly_loss, cheap_loss, evaluation_cost, cheap_evaluation_cost)
    return _routing((excess < price * saving).astype(np.float64), excess, saving, costly, cost)


def route_within_budget(
    costly_loss: ArrayLike,
    cheap_loss: ArrayLike,
    evaluation_cost: ArrayLike,
    cheap_evaluation_cost: ArrayLike,
    budget: float,
) -> OracleRouting:
    """The least mean loss at a mean cost of at most ``budget``: a fractional knapsack.

    Rows that the cheap model answers no worse stay with it. Of the others those follow that save most cost for the loss they
    add, until the budget is met; of the last one a share.

    Parameters
    ----------
    costly_loss, cheap_loss, evaluation_cost, cheap_evaluation_cost
        As in ``route_at_price``.
    budget : float
        Not below the mean cost of the cheap model.

    Examples
    --------
    >>> routed = route_within_budget([0.0, 0.0], [1.0, 0.1], 5.0, 1.0, budget=2.0)
    >>> routed.cheap, routed.cost
    (array([0.5, 1. ]), 2.0)
    """
    excess, saving, costly, cost = _checked(costly_loss, cheap_loss, evaluation_cost, cheap_evaluation_cost)
    cheapest = float(np.mean(cost - saving))
    if not budget >= cheapest - 1e-12 * abs(cheapest):
        raise ValueError(f"budget is {budget:g}, but the cheap model alone costs {cheapest:g} on average")
    order = _by_rate(excess, saving)
    needed = cost.sum() - budget * cost.size  # cost that has to be saved
    cheap = (excess <= 0).astype(np.float64)
    for row in order[(excess > 0)[order] & (saving > 0)[order]]:
        left = needed - cheap @ saving
        cheap[row] = np.clip(left / saving[row], 0.0, 1.0)
        if cheap[row] < 1.0:
            break
    return _routing(cheap, excess, saving, costly, cost)


def oracle_curve(
    costly_loss: ArrayLike,
    cheap_loss: ArrayLike,
    evaluation_cost: ArrayLike,
    cheap_evaluation_cost: ArrayLike,
) -> tuple[Array, Array]:
    """Mean cost and mean loss of every routing that ``route_at_price`` can give, by rising cost.

    Returns
    -------
    costs, losses : (m,) and (m,)
        From the cheap model for all rows to the costly model for all rows on which it is better.
    """
    excess, saving, costly, cost = _checked(costly_loss, cheap_loss, evaluation_cost, cheap_evaluation_cost)
    order = _by_rate(excess, saving)
    kept = order[excess[order] > 0]  # rows that gain from the costly model, the least worthy first
    always = excess <= 0
    added = np.concatenate(
        [[0.0], np.cumsum(excess[kept])]
    )  # loss with the first rows left to the cheap model
    saved = np.concatenate([[0.0], np.cumsum(saving[kept])])
    losses = costly.mean() + (excess[always].sum() + added) / cost.size
    costs = cost.mean() - (saving[always].sum() + saved) / cost.size
    return costs[::-1], losses[::-1]


def _checked(
    costly_loss: ArrayLike,
    cheap_loss: ArrayLike,
    evaluation_cost: ArrayLike,
    cheap_evaluation_cost: ArrayLike,
) -> tuple[Array, Array, Array, Array]:
    """Excess loss of the cheap model, what it saves, loss and cost of the costly one."""
    given = [
        np.asarray(a, dtype=np.float64)
        for a in (costly_loss, cheap_loss, evaluation_cost, cheap_evaluation_cost)
    ]
    l0, l1, c0, c1 = (np.array(a) for a in np.broadcast_arrays(*given))
    if l0.ndim != 1 or not l0.size or not all(np.isfinite(a).all() for a in (l0, l1, c0, c1)):
        raise ValueError("losses and costs must be finite numbers, one for each of at least one row")
    if (c0 < c1).any():
        row = int(np.argmax(c0 < c1))
        raise ValueError(
            f"row {row}: the costly model costs {c0[row]:g}, less than the cheap one, {c1[row]:g}"
        )
    return l1 - l0, c0 - c1, l0, c0


def _by_rate(excess: Array, saving: Array) -> NDArray[np.intp]:
    """Rows by the loss that the cheap model adds per unit of cost it saves, rising."""
    free = np.where(excess > 0, np.inf, -np.inf)  # nothing is saved
    rate = np.divide(excess, saving, out=free, where=saving > 0)
    return np.argsort(rate, kind="stable")


def _routing(cheap: Array, excess: Array, saving: Array, loss: Array, cost: Array) -> OracleRouting:
    return OracleRouting(
        cheap, float(loss.mean() + (cheap * excess).mean()), float(cost.mean() - (cheap * saving).mean())
    )
