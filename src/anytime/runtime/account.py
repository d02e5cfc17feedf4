"""A mean budget over a stream of single examples: what was saved on some of them is spent on others."""

from __future__ import annotations

import threading

import numpy as np

from anytime.validation import is_amount

_HORIZON = 20  # examples over which what was saved, or spent too much, is made up for


class Account:
    """What examples of a stream have cost so far, and what the next one may cost on average.

    A model turns a mean budget into thresholds that held-out rows have set. New rows are not those rows, so what they really
    cost drifts from it. The account tells the model a little more than ``mean_budget`` while money is left over, and a little
    less while too much was spent. After T examples the mean is off by at most some tens of the largest step between two budgets
    that buy something else, divided by T. Any thread may use it.

    Parameters
    ----------
    mean_budget : float

    Attributes
    ----------
    count : int
        Examples so far.
    spent : float
        What they have cost.

    Examples
    --------
    >>> from anytime.runtime.account import Account
    >>> account = Account(2.0)
    >>> account.note(0.0)
    >>> account.allowance()
    2.1
    """

    def __init__(self, mean_budget: float) -> None:
        if not is_amount(mean_budget) or not np.isfinite(mean_budget):
            raise ValueError(f"mean_budget must be a non-negative number, not {mean_budget!r}")
        self.mean_budget = float(mean_budget)
        self.count, self.spent = 0, 0.0
        self._lock = threading.Lock()

    @property
    def saved(self) -> float:
        """What examples so far have left over; negative where they have spent too much."""
        return self.mean_budget * self.count - self.spent

    @property
    def mean(self) -> float:
        """What examples have cost on average."""
        return self.spent / self.count if self.count else 0.0

    def allowance(self, first: float = 0.0) -> float:
        """The mean budget for the next example; ``first``: what the cheapest purchase costs, for which money may be saved up."""
        allowed = max(self.mean_budget + self.saved / _HORIZON, 0.0)
        return self.mean_budget + self.saved if allowed < first <= self.mean_budget + self.saved else allowed

    def note(self, cost: float, count: int = 1) -> None:
        """Examples have been answered at this cost, all of them together."""
        with self._lock:
            self.count, self.spent = self.count + count, self.spent + float(cost)
