"""Filters that a boosting step can choose from, so that it works only on the rows that are still undecided.

A filtered step costs only what the rows that pass have to pay, ``E[φ(x) τ_x(h)]``, and a later step can work on a row that an
earlier one skipped: decisions are revocable, unlike those of a cascade (Grubb, *Anytime Prediction*, section 6.5.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.losses import Link
from anytime.plan import Array
from anytime.rules import EntropyRule, FunctionRule, MarginRule, Rule, ThresholdRule

# the filters to try, given scores (n, K); None: no filter
Filters = Callable[[Array, Link], Sequence[Rule | None]]

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # the grid is ours: the papers give none
_EQUAL = 1e-9  # numbers that differ by less, in proportion, are taken for equal: a model's sums are rounded otherwise


@dataclass(frozen=True)
class ThresholdGrid:
    """Candidates: no filter, and one rule at several thresholds, which depend on the scores of each step.

    Parameters
    ----------
    rule : ThresholdRule
        Its own threshold is ignored.
    shares : sequence of float
        Approximate shares of the rows that pass.
    """

    rule: ThresholdRule
    shares: Sequence[float] = SHARES

    def __post_init__(self) -> None:
        if not all(0 < share < 1 for share in self.shares):
            raise ValueError(f"shares of the rows must lie between 0 and 1, not {tuple(self.shares)}")

    def __call__(self, scores: Array, link: Link) -> list[Rule | None]:
        """The filters to try at these scores (n, K)."""
        below = np.array(self.shares) if self.rule.below else 1.0 - np.array(self.shares)
        thresholds = _cuts(self.rule.measure(scores, link), below)
        return [None, *(replace(self.rule, threshold=float(t)) for t in thresholds)]


def margin_filters(shares: Sequence[float] = SHARES) -> ThresholdGrid:
    """Filters that pass rows with a small margin.

    Parameters
    ----------
    shares : sequence of float
        Approximate shares of the rows that pass.

    Examples
    --------
    >>> from anytime.losses import LINKS
    >>> grid = margin_filters([0.5])
    >>> grid(np.array([[0.1], [-0.2], [3.0], [-5.0]]), LINKS["logistic"])
    [None, MarginRule(threshold=1.6, below=True)]
    """
    return ThresholdGrid(MarginRule(np.inf), shares)


def entropy_filters(shares: Sequence[float] = SHARES) -> ThresholdGrid:
    """Filters that pass rows with a large entropy; for two classes, the same rows as ``margin_filters``.

    Parameters
    ----------
    shares : sequence of float
        Approximate shares of the rows that pass.
    """
    return ThresholdGrid(EntropyRule(0.0), shares)


def function_filters(
    function: Callable[[Array], ArrayLike], shares: Sequence[float] = SHARES, *, below: bool = True
) -> ThresholdGrid:
    """Filters that pass rows for which your function is small (or, without ``below``, large).

    Parameters
    ----------
    function : callable
        From scores (n, K) to (n,), row by row; see :class:`anytime.rules.FunctionRule`.
    shares : sequence of float
        Approximate shares of the rows that pass.
    below : bool, default=True
    """
    return ThresholdGrid(FunctionRule(function=function, below=below), shares)


def _cuts(numbers: Array, shares: Array) -> NDArray[np.float64]:
    """Thresholds with about these shares of the numbers below, half-way between different numbers; none where all are equal.

    A threshold that many rows meet exactly would be decided by the last digit of their scores.
    """
    values = np.sort(numbers[~np.isnan(numbers)])
    apart = np.diff(values) > _EQUAL * (1.0 + np.abs(values[1:]))
    at = np.flatnonzero(apart) + 1  # so many values lie below such a gap
    if not at.size:
        return np.empty(0)
    wanted = np.asarray(shares) * values.size
    chosen = np.unique([at[np.argmin(np.abs(at - count))] for count in wanted])
    return np.asarray(values[chosen - 1] / 2 + values[chosen] / 2)
