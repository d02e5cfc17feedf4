"""Explain answers: which purchase changed an answer and by how much, and which groups the score at a budget depends on.

``explain`` follows one row through the plan. The explanation is additive: the value before the first stage plus the changes of
all stages is the value of the last answer. A stage that buys nothing computes more from the groups already bought, and has its
own change. ``permutation_importances`` shuffles groups of a table and measures how much the score at a budget falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.parameters import keywords_checked
from anytime.rows import reader_of, warn_of_mistakes
from anytime.scoring import budget_scorer

__all__ = ["Explanation", "ExplanationStep", "Importances", "explain", "permutation_importances"]


@dataclass(frozen=True)
class ExplanationStep:
    """One stage of an answer: its purchases, their cost, and the change of the value.

    Attributes
    ----------
    stage : int
        Its number, from 1.
    groups : tuple of str
        Groups that this row bought for the stage; empty if it uses only groups bought before.
    cost : float
        What the row paid for the stage.
    value : float
        The probability of the label, or the prediction, after the stage.
    change : float
        ``value`` minus the value after the previous stage.

    See Also
    --------
    explain : Makes an explanation.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> step = at.explain(model, X[0]).steps[0]
    >>> step.stage, step.groups, step.cost
    (1, ('colour',), 8.0)
    """

    stage: int
    groups: tuple[str, ...]
    cost: float
    value: float
    change: float


@dataclass(frozen=True)
class Explanation:
    """How the answer for one row came about.

    Attributes
    ----------
    label : label or None
        The class whose probability is followed; None for numbers.
    base : float
        The value before the first stage.
    steps : tuple of ExplanationStep
        One for every stage that the row went through.

    See Also
    --------
    explain : Makes an explanation.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> explanation = at.explain(model, X[0])
    >>> changes = sum(step.change for step in explanation.steps)
    >>> bool(abs(explanation.base + changes - explanation.value) < 1e-12)
    True
    """

    label: Any
    base: float
    steps: tuple[ExplanationStep, ...]

    @property
    def value(self) -> float:
        """The value of the last answer: ``base`` and all changes."""
        return self.steps[-1].value if self.steps else self.base

    def by_purchase(self) -> list[tuple[tuple[str, ...], float, float]]:
        """Groups, cost and change of every purchase, with the stages that live on it until the next one."""
        merged: list[tuple[tuple[str, ...], float, float]] = []
        for step in self.steps:
            if step.groups or not merged:
                merged.append((step.groups, step.cost, step.change))
            else:
                groups, cost, change = merged[-1]
                merged[-1] = (groups, cost + step.cost, change + step.change)
        return merged

    def table(self) -> list[dict[str, Any]]:
        """One dict per purchase, after one for the start: what was bought, the cumulative cost, the change and the value."""
        lines: list[dict[str, Any]] = [{"bought": None, "cost": 0.0, "change": 0.0, "value": self.base}]
        for groups, cost, change in self.by_purchase():
            lines.append(
                {
                    "bought": ", ".join(groups) or "nothing new",
                    "cost": lines[-1]["cost"] + cost,
                    "change": change,
                    "value": lines[-1]["value"] + change,
                }
            )
        return lines

    @property
    def what(self) -> str:
        """What ``value`` is, in words."""
        return "prediction" if self.label is None else f"probability of {self.label}"

    def __str__(self) -> str:
        lines = [f"{self.what}: {self.base:.4g} before anything is bought"]
        for line, (_, cost, _) in zip(self.table()[1:], self.by_purchase(), strict=True):
            lines.append(f"{line['change']:+.4g} -> {line['value']:.4g}  {line['bought']} (cost {cost:g})")
        return "\n".join(lines)


def explain(model: Any, row: Any, *, label: Any = None, budget: float | None = None) -> Explanation:
    """Explain which purchases changed the answer for one row, and by how much.

    Parameters
    ----------
    model : fitted model
        Any model of this package that has a plan.
    row : (d,) array or sequence, mapping, or row of a table
        As in ``predict_one``.
    label : label, default=None
        The class whose probability is followed. None: the predicted class.
    budget : float, default=None
        Follow ``answer(row, budget=budget)``, which may use a branch. None: all stages of the chain.

    Returns
    -------
    Explanation
        The value before the first stage, and one step per stage; the changes add up to the last value.

    Raises
    ------
    ValueError
        If there is more than one row or more than one predicted number, the label is not a class of the model, or the budget
        is negative.

    See Also
    --------
    permutation_importances : Which groups the score depends on, over many rows.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.SpeedBoostClassifier(costs=costs, random_state=0).fit(X, y)
    >>> path = at.explain(model, X[0])
    >>> abs(path.base + sum(step.change for step in path.steps) - path.value) < 1e-9
    True
    """
    check_is_fitted(model, "plan_")
    rows = reader_of(model).one(row)
    warn_of_mistakes(rows)
    plan, cap = model.plan_, UNLIMITED
    if budget is not None:
        plan, cap = model._plan_within(budget, np.zeros(plan.costs.n_groups, dtype=bool))
    run = Run(plan, rows.X, metered=True, held=rows.held)
    answers, bought = [model._read(run, 0.0, 0)], [_bought(run)]
    for stage in range(1, plan.n_stages + 1):
        run.advance(stage, budget=cap)
        if budget is not None and run.done[0] < stage:  # its money has ended
            break
        answers.append(model._read(run, 0.0, stage))
        bought.append(_bought(run))
    values, label = _followed(model, answers, label)
    names, paid = model.plan_.costs.costs.names, [float(answer.cost[0]) for answer in answers]
    steps = [
        ExplanationStep(
            stage=s,
            groups=tuple(names[g] for g in np.flatnonzero(bought[s] & ~bought[s - 1])),
            cost=paid[s] - paid[s - 1],
            value=values[s],
            change=values[s] - values[s - 1],
        )
        for s in range(1, len(answers))
    ]
    return Explanation(label=label, base=values[0], steps=tuple(steps))


def _bought(run: Run) -> NDArray[np.bool_]:
    assert run.ledger is not None
    return np.array(run.ledger.bought[0], dtype=bool)


def _followed(model: Any, answers: Sequence[Any], label: Any) -> tuple[list[float], Any]:
    """The value that is followed from answer to answer: the probability of a class, or the prediction."""
    if answers[-1].probabilities is None:
        if np.size(answers[-1].prediction) != 1:
            raise ValueError("explain needs a single output, but this model predicts several numbers per row")
        return [float(np.ravel(answer.prediction)[0]) for answer in answers], None
    label = np.ravel(answers[-1].prediction)[0] if label is None else label
    place = np.flatnonzero(model.classes_ == label)
    if not place.size:
        raise ValueError(
            f"{label!r} is not a class of this model; its classes are {', '.join(map(repr, model.classes_.tolist()))}"
        )
    return [float(answer.probabilities[0, place[0]]) for answer in answers], label


@dataclass(frozen=True)
class Importances:
    """How much the score at each budget depends on each group.

    Attributes
    ----------
    budgets : (B,) array
        The budgets.
    groups : list of str
        The groups, in the order of the price list.
    scores : (B,) array
        Scores without shuffling.
    mean, deviation : (B, G) array
        Mean and standard deviation, over repeats, of the fall of the score when the group is shuffled.

    See Also
    --------
    permutation_importances : Measures importances.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> importances = at.permutation_importances(model, X, y, budgets=[5, 40], random_state=0)
    >>> importances.mean.shape == (2, len(importances.groups))
    True
    """

    budgets: NDArray[np.float64]
    groups: list[str]
    scores: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def to_frame(self) -> Any:
        """A pandas table: one row per group, one column per budget."""
        import pandas as pd

        return pd.DataFrame(self.mean.T, index=self.groups, columns=self.budgets)


@keywords_checked
def permutation_importances(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    budgets: ArrayLike,
    scoring: str | Callable[..., float] | None = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> Importances:
    """Measure how much the score at each budget falls when the columns of a group are shuffled together.

    A group that no row buys within a budget has importance 0 there. Groups that can replace each other may each look unimportant.

    Parameters
    ----------
    model : fitted model
        Any model of this package that takes a budget.
    X : (n, d) array-like or table
        Rows that the model was not trained on.
    y : (n,) array-like
        Their labels or values.
    budgets : array-like of float
        The budgets at which to score.
    scoring : str or scorer, default=None
        As in :func:`budget_scorer`. None: the model's own ``score``.
    n_repeats : int, default=5
        How often each group is shuffled.
    random_state : int, RandomState or None, default=None
        Seed of the shuffles.

    Returns
    -------
    Importances
        Means and deviations by budget and group.

    See Also
    --------
    explain : The same question for the answer of one row.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.SpeedBoostClassifier(costs=costs, random_state=0).fit(X, y)
    >>> table = at.permutation_importances(model, X, y, budgets=[0, 40], n_repeats=1, random_state=0)
    >>> bool((table.mean[0] == 0).all())  # nothing is bought with nothing
    True
    """
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be at least 1, not {n_repeats}")
    random = check_random_state(random_state)
    wanted = np.atleast_1d(np.asarray(budgets, dtype=float))
    scorers = [budget_scorer(float(budget), scoring) for budget in wanted]
    scores = np.array([scorer(model, X, y) for scorer in scorers])
    if hasattr(model, "feature_names_in_") and hasattr(X, "columns"):
        X = X[list(model.feature_names_in_)]  # columns are shuffled by position
    bound = model.plan_.costs
    names = list(bound.costs.names)
    falls = np.zeros((n_repeats, len(wanted), len(names)))
    for g in range(len(names)):
        columns = np.flatnonzero(np.asarray(bound.column_group) == g)
        for repeat in range(n_repeats):
            shuffled = _with_shuffled(X, columns, random)
            falls[repeat, :, g] = [
                score - scorer(model, shuffled, y) for score, scorer in zip(scores, scorers, strict=True)
            ]
    return Importances(wanted, names, scores, falls.mean(axis=0), falls.std(axis=0))


def _with_shuffled(X: Any, columns: NDArray[np.intp], random: np.random.RandomState) -> Any:
    """A copy whose rows have these columns of another row, all of the same one."""
    order = random.permutation(len(X))
    if hasattr(X, "iloc"):
        changed = X.copy()
        for j in columns:
            changed.isetitem(int(j), X.iloc[order, int(j)].set_axis(X.index))
        return changed
    changed = np.array(X)
    changed[:, columns] = changed[order][:, columns]
    return changed
