"""Scores at a budget, for grid search and cross-validation of scikit-learn."""

import copy
from collections.abc import Callable
from typing import Any

from sklearn.metrics import check_scoring

__all__ = ["budget_scorer"]


def budget_scorer(
    budget: float | None = None,
    scoring: str | Callable[..., float] | None = None,
    *,
    mean_budget: float | None = None,
) -> Callable[..., float]:
    """Make a scorer that evaluates a model at a budget, for grid search and cross-validation.

    Parameters
    ----------
    budget : float, default=None
        The most that any row may pay.
    scoring : str or scorer, default=None
        A scorer name of scikit-learn, a scorer, or None for the model's own ``score``.
    mean_budget : float, default=None
        What rows may pay on average. At least one of the two is required.

    Returns
    -------
    callable
        A scorer ``f(estimator, X, y)``.

    Raises
    ------
    ValueError
        If neither budget is given.

    See Also
    --------
    curve : Quality at every budget.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> import anytime as at
    >>> search = GridSearchCV(at.AnytimeClassifier(), {"n_jobs": [1]}, scoring=at.budget_scorer(10, "accuracy"))
    """
    if budget is None and mean_budget is None:
        raise ValueError("budget_scorer needs a budget or a mean_budget, a number of units")
    return _BudgetScorer(budget, scoring, mean_budget)


class _BudgetScorer:
    """A class, not a closure, so that it can be pickled to other processes."""

    def __init__(
        self,
        budget: float | None,
        scoring: str | Callable[..., float] | None,
        mean_budget: float | None = None,
    ) -> None:
        self.budget, self.scoring, self.mean_budget = budget, scoring, mean_budget

    def __call__(self, estimator: Any, X: Any, y: Any = None, **parameters: Any) -> float:
        limited = self._limited(estimator)
        return float(check_scoring(limited, scoring=self.scoring)(limited, X, y, **parameters))

    def _limited(self, estimator: Any) -> Any:
        if hasattr(estimator, "best_estimator_"):  # a finished search answers through its best model
            return self._limited(estimator.best_estimator_)
        limited = copy.copy(estimator)
        if hasattr(estimator, "steps"):  # a pipeline: the model is its last step
            name, model = estimator.steps[-1]
            limited.steps = [*estimator.steps[:-1], (name, self._limited(model))]
        elif hasattr(estimator, "budget"):
            limited.budget, limited.mean_budget = self.budget, self.mean_budget
        else:
            raise TypeError(
                f"{type(estimator).__name__} takes no budget; budget_scorer is for anytime models"
            )
        return limited

    def __repr__(self) -> str:
        return f"budget_scorer({self.budget!r}, {self.scoring!r}, mean_budget={self.mean_budget!r})"
