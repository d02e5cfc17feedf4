"""When a row may leave a network: margins that are enough, one per exit, for what rows may cost on average.

With a price on cost, whether to stop at an exit is a question of what comes after it, so margins are chosen from the last exit
to the first. What an answer is worth is its calibrated confidence: the labels of validation rows, which would say the same with
more noise, are needed for temperatures only. Every price gives a policy; those of all prices, and steps between them, are the
table that answers any mean budget.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from anytime.rules import StopTable

Array = NDArray[np.float64]

__all__ = ["exits_taken", "stop_table", "temperature"]

_PRICES = 48  # of cost, over all that make a difference
_POLICIES = 96  # of a table, at equal steps of mean cost
_HALVINGS = 12  # of a step between two policies


def stop_table(confidence: ArrayLike, margins: ArrayLike, costs: ArrayLike) -> StopTable:
    """Policies for many mean costs, from all rows at the first exit to all at the last; answers are as sure as can be.

    Parameters
    ----------
    confidence : (L, n)
        Calibrated probability, at every exit, that the answer for each validation row is right.
    margins : (L, n)
        What decides whether a row leaves, larger for surer rows.
    costs : (L,)
        Of a row that leaves at each exit; never falling.

    Returns
    -------
    StopTable
        In increasing order of mean cost on these rows.

    Raises
    ------
    ValueError
        Where shapes differ, there is no row, or costs fall.

    Examples
    --------
    >>> import numpy as np
    >>> from anytime.stopping import exits_taken, stop_table
    >>> confidence = np.array([[0.9, 0.5, 0.6, 0.8], [0.9, 0.9, 0.7, 0.8], [0.9, 0.9, 0.9, 0.9]])
    >>> table = stop_table(confidence, confidence, [1.0, 2.0, 3.0])
    >>> (table.leaving @ [1.0, 2.0, 3.0])[[0, 1, -1]]
    array([1.  , 1.25, 3.  ])
    >>> exits_taken(confidence, table.margins[1])
    array([0, 1, 0, 0])
    """
    confidence, margins = np.asarray(confidence, dtype=np.float64), np.asarray(margins, dtype=np.float64)
    costs = np.asarray(costs, dtype=np.float64)
    if confidence.ndim != 2 or margins.shape != confidence.shape or not confidence.size:
        raise ValueError(
            f"confidence and margins are (exits, rows); they have shapes {confidence.shape} and {margins.shape}"
        )
    if costs.shape != (len(confidence),) or not (np.diff(costs) >= 0).all() or costs[0] < 0:
        raise ValueError(
            "costs must be one number per exit, not negative and not decreasing from exit to exit"
        )
    policies = _Policies(confidence, margins, costs)
    candidates = [policies.all_at(0), *map(policies.at_price, _prices(costs)), policies.all_at(-1)]
    candidates.sort(key=policies.mean_cost)
    spent = np.array([policies.mean_cost(counts) for counts in candidates])
    least_margins, leaving, dearest = [], [], -1.0
    for most in np.linspace(costs[0], costs[-1], _POLICIES):
        cheaper = int(np.searchsorted(spent, most * (1 + 1e-12), side="right")) - 1
        counts = (
            policies.between(candidates[cheaper], candidates[cheaper + 1], most)
            if cheaper + 1 < len(candidates)
            else candidates[-1]
        )
        if (cost := policies.mean_cost(counts)) > dearest:
            dearest = cost
            least_margins.append(policies.margins_of(counts))
            leaving.append(policies.leaving(counts))
    return StopTable(np.array(least_margins), np.array(leaving))


def exits_taken(margins: ArrayLike, least_margins: ArrayLike) -> NDArray[Any]:
    """(n,) the exit, counted from 0, at which each row leaves; ``margins`` is (L, n) and ``least_margins`` (L,)."""
    leaves = np.asarray(margins) >= np.asarray(least_margins)[:, None]
    leaves[-1] = True
    return np.asarray(leaves.argmax(axis=0))


class _Policies:
    """Policies as (L,) numbers of rows: so many, those with the largest margins, may leave at each exit if they get there."""

    def __init__(self, confidence: Array, margins: Array, costs: Array) -> None:
        self.confidence, self.margins, self.costs = confidence, margins, costs
        self.order = np.argsort(-margins, axis=1, kind="stable")
        self.falling = np.take_along_axis(margins, self.order, axis=1)
        self.n_exits, self.n_rows = margins.shape

    def all_at(self, exit: int) -> Array:
        """All rows leave at one exit."""
        counts = np.zeros(self.n_exits)
        counts[exit] = counts[-1] = self.n_rows
        return counts

    def at_price(self, price: float) -> Array:
        """What makes confidence less ``price`` times cost largest, each exit for what those after it do."""
        counts = self.all_at(-1)
        # of going on, to the end of what was decided so far
        value = self.confidence[-1] - price * self.costs[-1]
        for i in range(self.n_exits - 2, -1, -1):
            stopping, order = self.confidence[i] - price * self.costs[i], self.order[i]
            gains = np.concatenate([[0.0], np.cumsum((stopping - value)[order])])
            alike = self.falling[i, 1:] == self.falling[i, :-1]
            gains[1:-1][alike] = -np.inf  # rows with the same margin leave together
            counts[i] = gains.argmax()
            leave = order[: int(counts[i])]
            value[leave] = stopping[leave]
        return counts

    def margins_of(self, counts: Array) -> Array:
        """(L,) the margins that are enough where so many rows may leave."""
        least_margins = np.full(self.n_exits, -np.inf)
        for i, count in enumerate(np.rint(counts[:-1]).astype(int).tolist()):
            if count == 0:
                least_margins[i] = np.inf
            elif count < self.n_rows:
                least_margins[i] = (self.falling[i, count - 1] + self.falling[i, count]) / 2
        return least_margins

    def mean_cost(self, counts: Array) -> float:
        """What rows cost on average."""
        return float(self.leaving(counts) @ self.costs)

    def leaving(self, counts: Array) -> Array:
        """(L,) share of the rows that leave at each exit."""
        taken = exits_taken(self.margins, self.margins_of(counts))
        return np.asarray(np.bincount(taken, minlength=self.n_exits) / self.n_rows)

    def between(self, cheaper: Array, dearer: Array, most: float) -> Array:
        """As much of the step from a policy to a more expensive one as costs at most ``most``."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.mean_cost(cheaper + middle * (dearer - cheaper)) <= most:
                low = middle
            else:
                high = middle
        return np.asarray(cheaper + low * (dearer - cheaper))


def _prices(costs: Array) -> Array:
    """Prices of cost, from one for which nothing is worth a step to one that hardly matters, and zero."""
    steps = np.diff(costs)
    dearest = 1.0 / steps[steps > 0].min() if (steps > 0).any() else 1.0
    return np.concatenate([[0.0], np.geomspace(1e-5 / max(costs[-1], 1e-300), dearest, _PRICES)])


def temperature(scores: Array, codes: NDArray[Any], weight: Array | None = None) -> float:
    """What (n, K) scores have to be divided by so that probabilities are most likely to be right (Guo et al. 2017)."""
    own = scores[np.arange(len(scores)), codes]

    def loss(logarithm: float) -> float:
        scale = np.exp(-logarithm)
        return float(np.average(logsumexp(scale * scores, axis=1) - scale * own, weights=weight))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
