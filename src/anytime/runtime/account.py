"""A mean budget over a stream of single examples: what some save, others spend."""

from __future__ import annotations

import threading

import numpy as np

from anytime.validation import is_amount

_HORIZON = 20  # examples over which what was saved, or spent too much, is made up for


class Account:
    """The cost of a stream of examples so far, and the mean budget for the next one.

    A model turns a mean budget into thresholds learned on held-out rows. The cost of new rows drifts from it, because they are
    other rows. The account gives the model a little more than ``mean_budget`` while money is left over, and a little less after
    too much was spent. After T examples the mean is off by at most some tens of the largest step between two budgets that buy
    something else, divided by T. Any thread may use it.

    Parameters
    ----------
    mean_budget : float

    Attributes
    ----------
    count : int
        Examples so far.
    spent : float
        Their total cost.

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
        """Money left over so far; negative if too much was spent."""
        return self.mean_budget * self.count - self.spent

    @property
    def mean(self) -> float:
        """Mean cost of the examples so far."""
        return self.spent / self.count if self.count else 0.0

    def allowance(self, first: float = 0.0) -> float:
        """The mean budget for the next example; ``first``: price of the cheapest purchase, for which money may be saved up."""
        allowed = max(self.mean_budget + self.saved / _HORIZON, 0.0)
        return self.mean_budget + self.saved if allowed < first <= self.mean_budget + self.saved else allowed

    def note(self, cost: float, count: int = 1) -> None:
        """Record the total cost of answered examples."""
        with self._lock:
            self.count, self.spent = self.count + count, self.spent + float(cost)
