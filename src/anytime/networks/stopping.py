"""When a row may leave a network: thresholds on confidence, one per exit, for what rows may cost on average.

With a price on cost, whether to stop at an exit is a question of what comes after it, so thresholds are chosen from the last exit
to the first. What an answer is worth is its calibrated confidence: the labels of validation rows, which would say the same with
more noise, are needed for temperatures only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

Array = NDArray[np.float64]

__all__ = ["exits_taken", "stopping_thresholds", "temperature"]

_HALVINGS = 40  # of the interval in which the price of cost is sought


def stopping_thresholds(
    confidence: ArrayLike, costs: ArrayLike, mean_cost: float, measure: ArrayLike | None = None
) -> Array:
    """(L,) thresholds for which rows cost at most ``mean_cost`` on average and are as likely to be right as can be.

    Parameters
    ----------
    confidence : (L, n)
        Calibrated probability, at every exit, that the answer for each validation row is right.
    costs : (L,)
        Of a row that leaves at each exit; increasing.
    mean_cost : float
    measure : (L, n), default=None
        What thresholds are compared with, larger for surer rows, such as margins. None: confidence.

    Returns
    -------
    (L,) float
        A row leaves at the first exit where its measure is at least the threshold; the last one is minus infinity. Where not
        even the first exit is affordable, all rows leave there.

    Examples
    --------
    >>> from anytime.networks.stopping import exits_taken, stopping_thresholds
    >>> confidence = [[0.9, 0.5, 0.6, 0.8], [0.9, 0.9, 0.7, 0.8], [0.9, 0.9, 0.9, 0.9]]
    >>> thresholds = stopping_thresholds(confidence, [1.0, 2.0, 3.0], 1.5)
    >>> exits_taken(confidence, thresholds)
    array([0, 1, 0, 0])
    """
    confidence, costs = np.asarray(confidence, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    if confidence.ndim != 2 or costs.shape != (len(confidence),) or not confidence.size:
        raise ValueError(
            f"confidence is (exits, rows) and costs (exits,); they have shapes {confidence.shape} and {costs.shape}"
        )
    measure = confidence if measure is None else np.asarray(measure, dtype=np.float64)
    if not (np.diff(costs) > 0).all() or costs[0] < 0:
        raise ValueError("costs must not be negative and must increase from exit to exit")

    def spent(thresholds: Array) -> float:
        return float(costs[exits_taken(measure, thresholds)].mean())

    dearer = _thresholds_at_price(confidence, measure, costs, 0.0)
    if spent(dearer) <= mean_cost:
        return dearer
    cheaper = _thresholds_at_price(confidence, measure, costs, np.inf)
    low, high = 1e-6 / costs[-1], 1e4 / np.diff(costs, prepend=0.0).min()
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        thresholds = _thresholds_at_price(confidence, measure, costs, middle)
        if spent(thresholds) <= mean_cost:
            high, cheaper = middle, thresholds
        else:
            low, dearer = middle, thresholds
    return _between(cheaper, dearer, measure, lambda thresholds: spent(thresholds) <= mean_cost)


def exits_taken(measure: ArrayLike, thresholds: ArrayLike) -> NDArray[Any]:
    """(n,) the exit, counted from 0, at which each row leaves; ``measure`` is (L, n) and ``thresholds`` (L,)."""
    leaves = np.asarray(measure) >= np.asarray(thresholds)[:, None]
    leaves[-1] = True
    return np.asarray(leaves.argmax(axis=0))


def _between(cheaper: Array, dearer: Array, measure: Array, is_affordable: Callable[[Array], bool]) -> Array:
    """As much of the step from affordable thresholds to dearer ones as is affordable too, from the last exit to the first."""
    thresholds = cheaper.copy()
    for i in range(len(thresholds) - 2, -1, -1):
        within = (measure[i] > cheaper[i]) & (measure[i] < dearer[i])
        steps = [*np.unique(measure[i][within]), dearer[i]] if dearer[i] > cheaper[i] else [dearer[i]]
        first, last = 0, len(steps)  # of the steps, so many are affordable
        while first < last:
            middle = (first + last) // 2
            trial = thresholds.copy()
            trial[i] = steps[middle]
            if is_affordable(trial):
                first = middle + 1
            else:
                last = middle
        if first:
            thresholds[i] = steps[first - 1]
    return thresholds


def _thresholds_at_price(confidence: Array, measure: Array, costs: Array, price: float) -> Array:
    """Thresholds that make confidence less ``price`` times cost largest, each for what those after it do."""
    thresholds = np.full(len(costs), -np.inf)
    if np.isinf(price):
        return thresholds
    value = confidence[-1] - price * costs[-1]  # of going on, to the end of what was decided so far
    for i in range(len(costs) - 2, -1, -1):
        stopping = confidence[i] - price * costs[i]
        order = np.argsort(-measure[i], kind="stable")
        surest = measure[i][order]
        gains = np.concatenate([[0.0], np.cumsum((stopping - value)[order])])
        gains[1:-1][surest[1:] == surest[:-1]] = -np.inf  # rows that measure the same leave together
        n_leaving = int(gains.argmax())
        if n_leaving == 0:
            thresholds[i] = np.inf
        elif n_leaving < len(order):
            thresholds[i] = (surest[n_leaving - 1] + surest[n_leaving]) / 2
        value = np.where(measure[i] >= thresholds[i], stopping, value)
    return thresholds


def temperature(said: Array, codes: NDArray[Any], weight: Array | None = None) -> float:
    """What (n, K) scores have to be divided by so that probabilities are most likely to be right (Guo et al. 2017)."""
    own = said[np.arange(len(said)), codes]

    def loss(logarithm: float) -> float:
        scale = np.exp(-logarithm)
        return float(np.average(logsumexp(scale * said, axis=1) - scale * own, weights=weight))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
