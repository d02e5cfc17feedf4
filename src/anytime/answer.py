"""The answer for some rows after some stages: the one record that models, sessions, batches and the server share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.ragged import Ragged

__all__ = ["Answer"]

_PER_ROW = (
    *("scores", "stage", "paid", "finished", "partial", "branch"),
    *("prediction", "probabilities", "cost", "model_cost"),  # once they have been worked out
)


class _derived(cached_property):  # type: ignore[type-arg]  # noqa: N801
    """Worked out when it is first read; without the lock of Python 3.11, which takes half a microsecond."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


@dataclass(eq=False, repr=False)  # not frozen, which takes a microsecond for each
class Answer:
    """The answer after some stages, with its cost by all three meters.

    ``answer``, ``stages``, sessions and the server return this record, for one example or for many rows. It stores scores and
    payments and computes everything else when it is first read, so making one after every stage is cheap. It is immutable:
    other threads may keep it.

    Attributes
    ----------
    prediction : (n,) or (n, K) array, or one value for a single example
        Labels or numbers. If an example has many elements: a list with one array per example.
    scores : (n, K), (K,) or Ragged
        Raw scores.
    probabilities : (n, C), (C,) or None
        For classifiers.
    confidence : (n,), float or None
        The probability of the leading class.
    stage : int or (n,) int
        Stages done; one number if it is the same for all rows.
    branch : int or (n,) int
        The branch of the plan that answered a budget known in advance; -1: the chain.
    cost : (n,) or float
        What each row actually paid (realised cost); the model cost where payments are not counted, as in a server whose model
        has ``meter="model"``.
    model_cost : float or (n,)
        The cumulative cost of these stages, fixed in training; never less than ``cost``.
    groups : list of str
        Groups bought, in the order of purchase (one example), or bought by any row, in the order of the plan (many rows).
    elapsed : float
        Seconds since the computation began.
    complete : bool
        Whether nothing was left to do.
    partial : bool or (n,) bool
        Whether a row could continue within its budget: time ran out, features failed, or work is in progress.
    reason : str
        Why the run ended: "complete", "budget", "deadline", "stop", "stages", "confidence", "groups" (rows lack some), or
        "failed" (an extractor did). Empty while work continues.
    failures : mapping from str to str
        Groups whose features are unavailable, and why.

    See Also
    --------
    Session : Publishes an answer after every stage.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> answer = model.answer(X[:2], budget=20)
    >>> answer.cost.tolist(), answer.groups, answer.reason
    ([13.0, 13.0], ['colour', 'alcohol'], 'budget')
    """

    plan: Plan
    classes: NDArray[Any] | None  # labels, of a classifier
    scores: Any
    stage: Any
    paid: Any = None  # ticks, (n,) or of one example; None: not counted
    bought: Any = None  # groups in the order of purchase, or a mask, (G,) or (n, G)
    finished: Any = False  # rows that have nothing left to do
    partial: Any = False
    elapsed: float = 0.0
    reason: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)
    branch: Any = -1

    @_derived
    def prediction(self) -> Any:
        """Labels or numbers."""
        return self._of_rows(self.plan.decide, self.classes, self.stage)

    @_derived
    def probabilities(self) -> Any:
        """Probability of each class; None for a regressor."""
        link = LINKS[self.plan.link]
        if not link.classifies:
            return None
        if self.plan.calibration is None:
            return self._of_rows(link.transform)
        if isinstance(self.branch, np.ndarray):
            shares = np.empty(link.transform(self.scores).shape)
            for number in np.unique(self.branch):
                here = self.branch == number
                stages = np.broadcast_to(self.stage, here.shape)[here]
                shares[here] = self._plan_of(number).probabilities(self.scores[here], stages)
            return shares
        shares = self._plan_of(self.branch).probabilities(self._rows, self.stage)
        return shares if self.scores.ndim == 2 else shares[0]

    @property
    def confidence(self) -> Any:
        """The probability of the leading class, or None for a regressor."""
        probabilities = self.probabilities
        if isinstance(probabilities, list):
            return [np.max(part, axis=-1) for part in probabilities]
        return None if probabilities is None else np.max(probabilities, axis=-1)

    @property
    def _rows(self) -> Any:
        return self.scores if self.scores.ndim == 2 else self.scores[None]

    def _of_rows(self, of_rows: Callable[..., NDArray[Any]], *more: Any) -> Any:
        scores = self.scores
        if isinstance(scores, Ragged):
            return scores.like(of_rows(scores.values, *more)).parts()
        return of_rows(scores, *more) if scores.ndim == 2 else of_rows(scores[None], *more)[0]

    @_derived
    def cost(self) -> Any:
        """Cost that each row paid."""
        if self.paid is None:
            return self.model_cost
        costs = self.plan.costs.costs
        return costs.amounts(self.paid) if isinstance(self.paid, np.ndarray) else costs.amount(self.paid)

    @_derived
    def model_cost(self) -> Any:
        """The cost of the stages, fixed in training."""
        if isinstance(self.branch, np.ndarray):
            cost = np.empty(len(self.branch))
            for number in np.unique(self.branch):
                here = self.branch == number
                cost[here] = self._plan_of(number).prefix_costs[self.stage[here]]
            return cost
        cost = self._plan_of(self.branch).prefix_costs[self.stage]
        return cost if isinstance(cost, np.ndarray) else float(cost)

    def _plan_of(self, branch: int) -> Plan:
        return self.plan if branch < 0 else self.plan.branches[branch]

    @_derived
    def groups(self) -> list[str]:
        """Names of the groups bought."""
        names = self.plan.costs.costs.names
        if isinstance(self.bought, tuple):
            return [names[g] for g in self.bought]
        mask = self._mask.tolist()
        orders = [self._plan_of(number).purchases.order for number in np.unique(self.branch).tolist()]
        return [names[g] for g in dict.fromkeys(g for order in orders for g in order) if mask[g]]

    @property
    def _mask(self) -> NDArray[np.bool_]:
        """(G,) groups that any row has bought; where that is not counted, those that the stages may buy."""
        bought = self.bought
        if isinstance(bought, np.ndarray):
            return np.asarray(bought.any(axis=0)) if bought.ndim == 2 else bought
        if bought is None:
            bought = set()
            for number in np.unique(self.branch).tolist():
                purchases = self._plan_of(number).purchases
                done = np.max(self.stage, initial=0, where=np.asarray(self.branch) == number)
                bought.update(purchases.order[: purchases.groups[done]])
        mask = np.zeros(self.plan.costs.n_groups, dtype=bool)
        mask[list(bought)] = True
        return mask

    @property
    def complete(self) -> bool:
        """Whether nothing was left to do."""
        return bool(np.all(self.finished))

    def rows(self, which: slice | NDArray[Any]) -> Answer:
        """The answer of some rows, with what has been worked out of them already."""
        some = self.__dict__.copy()
        some.pop("groups", None)
        for name in _PER_ROW:
            value: Any = some.get(name)
            kind = type(value)
            if kind is np.ndarray or kind is Ragged:
                some[name] = value[which]
            elif kind is list:  # one entry per structure: worked out again when it is read
                del some[name]
        if getattr(self.bought, "ndim", 0) == 2:
            some["bought"] = self.bought[which]
        answer = object.__new__(Answer)
        answer.__dict__ = some
        return answer

    def on_the_way(self, plan: Plan, branch: int, before: int) -> Answer:
        """An answer of ``plan.by_way_of(branch, before)``, told as one of ``plan``."""
        arrived = np.asarray(self.stage) > before
        answer = self.changed(
            plan=plan,
            stage=np.where(arrived, np.asarray(self.stage) - before, self.stage),
            branch=np.where(arrived, branch, -1),
        )
        for name in ("probabilities", "cost", "model_cost", "groups"):  # which go by the plan and the stage
            answer.__dict__.pop(name, None)
        if not np.ndim(self.stage):
            answer.stage, answer.branch = int(answer.stage), int(answer.branch)
        return answer

    def work_out(self) -> None:
        """Compute predictions and costs now: once for all rows, before they are taken apart."""
        _ = self.prediction, self.probabilities, self.cost

    def changed(self, **changes: Any) -> Answer:
        """The same scores with another time or end: elapsed, reason, partial, finished, failures."""
        answer = object.__new__(Answer)
        answer.__dict__ = {**self.__dict__, **changes}
        return answer

    @classmethod
    def joined(cls, parts: Sequence[Answer], **changes: Any) -> Answer:
        """The answers of several parts, examples or rows, one after the other; with ``changes`` as in ``changed``."""
        first = parts[0]
        if len(parts) == 1 and first.scores.ndim == 2:
            return first.changed(**changes)
        columns: dict[str, Any] = {
            name: np.concatenate([np.atleast_1d(getattr(part, name)) for part in parts])
            for name in ("stage", "finished", "partial", "paid")
            if getattr(first, name) is not None
        }
        if any(np.ndim(part.branch) or part.branch >= 0 for part in parts):
            columns["branch"] = np.concatenate(
                [np.broadcast_to(part.branch, len(part._rows)) for part in parts]
            )
        rows = [part._rows for part in parts]
        scores = rows[0].joined(rows) if isinstance(rows[0], Ragged) else np.concatenate(rows)
        bought = np.any([part._mask for part in parts], axis=0)
        return cls(first.plan, first.classes, scores, bought=bought, **{**columns, **changes})

    def __getstate__(self) -> dict[str, Any]:
        """The values derived from the scores, instead of the plan: an answer is pickled without its model."""
        derived = ("prediction", "probabilities", "cost", "model_cost", "groups")
        read = {name: getattr(self, name) for name in derived}
        return {**self.__dict__, **read, "plan": None, "classes": None}

    def __repr__(self) -> str:
        shown = ("prediction", "stage", "cost", "elapsed", "groups", "reason")
        return f"Answer({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
