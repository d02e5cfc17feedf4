"""Cascades of services: paid answers, asked for row by row as long as they are worth their price.

A service is a function that gives a label, or a label and a score; its answer is a priced group of columns like any other. So a
cascade is an :class:`~anytime.ExpectedCostClassifier` over recorded answers, with extractors that call the services when a row
wants them. What this room adds is calling: time-outs, further attempts, and a bill.

FrugalML (Chen, Zaharia and Zou, NeurIPS 2020) has a base service and one add-on; here any number may be asked, and answers
are combined.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anytime.acquisition import AlgorithmSelector, ExpectedCostClassifier
from anytime.answer import Answer
from anytime.costs import FeatureCosts
from anytime.features import Extractor, Features, in_background
from anytime.runtime import Session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ServiceCascade", "ServicedAnswer", "cascade"]

_INPUT = "input"  # the group of what is known of a request before any service is asked


def cascade(
    services: Mapping[str, Callable[[Any], Any] | None],
    *,
    prices: Mapping[str, float | Callable[[Any, Any], float]],
    unit: str | None = None,
    inputs: Callable[[Any], Mapping[str, Any]] | None = None,
    timeout: float | None = None,
    retries: int = 0,
    **settings: Any,
) -> ServiceCascade:
    """Services that are asked one after the other, as far as each request needs it.

    Parameters
    ----------
    services : mapping from str to callable or None
        Functions of a raw request, which may be coroutine functions. Each gives a label, or a label and a score. None: there are
        recorded answers only.
    prices : mapping from str to float or callable
        What a call costs; or a function of the request and of what the service returned, such as a price by token.
    unit : str, default=None
        Of the prices.
    inputs : callable, default=None
        From a request to a mapping of what is known of it for free: its length, its kind.
    timeout : float, default=None
        Seconds after which a call has failed. It is paid for.
    retries : int, default=0
        Further attempts after one that has failed. They are paid for, and made only where the budget allows.
    **settings
        Of the model: ``mean_budget``, ``accuracy``, ``cost_matrix``, ``random_state``, ...

    Returns
    -------
    ServiceCascade

    Examples
    --------
    >>> import anytime as at
    >>> def small(n):  # knows even numbers, and says so
    ...     return (n % 3 == 0, 0.9) if n % 2 == 0 else (False, 0.5)
    >>> services = {"small": small, "large": lambda n: n % 3 == 0}
    >>> numbers = list(range(400))
    >>> cascade = at.cascade(services, prices={"small": 1, "large": 20}, random_state=0)
    >>> cascade = cascade.fit(cascade.record(numbers), [n % 3 == 0 for n in numbers])
    >>> [(bool(answer.prediction), answer.services, answer.cost) for answer in map(cascade.predict, [8, 9])]
    [(False, ['small'], 1.0), (True, ['small', 'large'], 21.0)]
    """
    return ServiceCascade(services, prices, unit, inputs, timeout, retries, settings)


@dataclass(frozen=True)
class ServicedAnswer:
    """What a cascade says of one request.

    Attributes
    ----------
    prediction : object
        A label; where the services are graded by themselves, what the chosen one has answered.
    services : list of str
        Those that were asked, in order.
    cost : float
        The bill: every attempt at its own price.
    attempts : dict from str to int
    failures : mapping from str to str
        Services that did not answer, and why.
    answer : Answer
        All else that the model knows.
    """

    prediction: Any
    services: list[str]
    cost: float
    attempts: dict[str, int]
    failures: Mapping[str, str]
    answer: Answer


@dataclass
class _PricedRequest:
    """A raw request under way, and what was spent on it."""

    raw: Any
    budget: float = np.inf
    spent: float = 0.0
    attempts: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)


class ServiceCascade:
    """What :func:`cascade` gives.

    ``record`` asks all services, ``fit`` learns from recorded answers, ``predict`` asks those that it needs.

    Attributes
    ----------
    model : ExpectedCostClassifier or AlgorithmSelector
        Over tables of answers: for predictions in bulk, files and curves.
    features : Features
        The services as extractors: for sessions and the server.
    """

    model: ExpectedCostClassifier | AlgorithmSelector

    def __init__(
        self,
        services: Mapping[str, Callable[[Any], Any] | None],
        prices: Mapping[str, float | Callable[[Any, Any], float]],
        unit: str | None,
        inputs: Callable[[Any], Mapping[str, Any]] | None,
        timeout: float | None,
        retries: int,
        settings: Mapping[str, Any],
    ) -> None:
        if set(services) != set(prices) or not services:
            raise ValueError(f"there are services {sorted(services)}, but prices of {sorted(prices)}")
        if _INPUT in services:
            raise ValueError(f"no service can be called {_INPUT!r}: that is what is known of a request")
        if retries < 0:
            raise ValueError(f"retries must not be negative, but is {retries}")
        self.services, self.prices, self.unit, self.inputs = dict(services), dict(prices), unit, inputs
        self.timeout, self.retries, self.settings = timeout, int(retries), dict(settings)

    # ------------------------------------------------------------------ recording and learning

    def record(self, requests: Sequence[Any]) -> pd.DataFrame:
        """Ask all services about all requests: a table of their answers, scores and prices, from which ``fit`` learns.

        A call that fails leaves missing values, and is paid for like any other.
        """
        import pandas as pd

        rows = []
        for raw in requests:
            request, row = _PricedRequest(raw), dict(self._known(raw))
            for name in self.services:
                before = request.spent
                try:
                    label, score = self._ask(name, request)
                except Exception:
                    label, score = None, np.nan
                row |= {
                    f"{name} label": label,
                    f"{name} score": score,
                    f"{name} price": request.spent - before,
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def fit(self, answers: pd.DataFrame, y: Any) -> Self:
        """Learn from recorded answers.

        Parameters
        ----------
        answers : table
            For every service a column "NAME label" and perhaps "NAME score" and "NAME price"; all other columns are free.
        y : (n,), or a table with a column per service
            The true labels; or how good each service's answer was, between 0 and 1, where answers cannot be compared.
        """
        import pandas as pd

        graded = isinstance(y, pd.DataFrame)
        columns: dict[str, list[str]] = {}
        priced = {}
        for name in self.services:
            parts = [f"{name} score"] if graded else [f"{name} label", f"{name} score"]
            columns[name] = [
                column for column in parts if column in answers and answers[column].notna().any()
            ]
            price = self.prices[name]
            known = answers.get(f"{name} price")
            if known is None and callable(price):
                raise ValueError(
                    f"the price of {name!r} is a function: answers need the column '{name} price'"
                )
            priced[name] = np.full(len(answers), price) if known is None else known.to_numpy(dtype=np.float64)
        told = {f"{name} {part}" for name in self.services for part in ("label", "score", "price")}
        free = [str(column) for column in answers if column not in told]
        groups: dict[str, list[str]] = {**({_INPUT: free} if free else {}), **columns}
        prices = {name: float(np.mean(priced[name])) if name in priced else 0.0 for name in groups}
        costs = FeatureCosts(prices, groups=groups, unit=self.unit)
        X = answers[[column for listed in groups.values() for column in listed]].copy()
        for name in () if graded else self.services:
            X[f"{name} label"] = X[f"{name} label"].astype("category")
        row_prices = np.column_stack([priced.get(name, np.zeros(len(X))) for name in groups])
        if graded:
            options = {name: name for name in self.services}
            given = {"cost_penalty": 0.0, **self.settings}
            self.model = AlgorithmSelector(costs=costs, option_groups=options, **given)
            self.model.fit(X, 1.0 - y[list(self.services)], row_prices=row_prices)
        else:
            self.model = ExpectedCostClassifier(costs=costs, **self.settings)
            self.model.fit(X, y, row_prices=row_prices)
        self.groups = groups
        return self

    # ------------------------------------------------------------------ asking

    @property
    def features(self) -> Features:
        """The services as extractors of raw requests; each answer is paid for once, and asked for again where it fails."""
        return self._features(lambda raw: _PricedRequest(raw))

    def _features(self, of: Callable[[Any], _PricedRequest]) -> Features:
        self._check_fitted()
        silent = [name for name, service in self.services.items() if service is None]
        if silent:
            raise ValueError(f"{silent[0]!r} has recorded answers only, and cannot be asked")
        extractors = {name: Extractor(self._extractor(name, of)) for name in self.services}
        if _INPUT in self.groups:
            extractors[_INPUT] = Extractor(lambda raw: self._known(of(raw).raw))
        return Features(extractors, columns=self.groups)

    def _extractor(self, name: str, of: Callable[[Any], _PricedRequest]) -> Callable[[Any], Any]:
        columns = self.groups[name]

        def said(raw: Any) -> dict[str, Any]:
            label, score = self._ask(name, of(raw))
            return {c: label if c.endswith(" label") else score for c in columns}

        return said

    def predict(self, raw: Any, *, budget: float | None = None) -> ServicedAnswer:
        """Ask the services that a request needs.

        Parameters
        ----------
        raw : object
        budget : float, default=None
            The most that the request may cost, further attempts included. None: that of the model.
        """
        self._check_fitted()
        limit = self.model.budget if budget is None else budget
        request = _PricedRequest(raw, np.inf if limit is None else float(limit))
        session = Session(self.model, self._features(lambda given: given)).start(request)
        answer, listed = session.read(), self.model.costs_.prices
        for purchase in range(1, self.model.n_stages_ + 1):
            again = sum((n - 1) * listed[name] for name, n in request.attempts.items())
            left = None if limit is None else max(float(limit) - again, 0.0)
            answer = session.resume(budget=left, max_stages=purchase)
            if session.reason not in ("stages", "failed"):
                break
        prediction = answer.prediction
        if isinstance(self.model, AlgorithmSelector):
            prediction = request.answers.get(prediction)
        return ServicedAnswer(
            prediction, list(request.attempts), request.spent, dict(request.attempts), answer.failures, answer
        )

    def _ask(self, name: str, request: _PricedRequest) -> tuple[Any, float]:
        """What a service says, after as many attempts as it takes and the budget allows; the last error where none succeeds."""
        service, price = self.services[name], self.prices[name]
        if service is None:
            raise ValueError(f"{name!r} has recorded answers only, and cannot be asked")
        for attempt in range(self.retries + 1):
            request.attempts[name] = attempt + 1
            try:
                said = _called(service, request.raw, self.timeout)
            except Exception:
                request.spent += self._listed(name)
                if attempt == self.retries or request.spent + self._listed(name) > request.budget:
                    raise
                continue
            request.spent += float(price(request.raw, said) if callable(price) else price)
            label, score = said if isinstance(said, tuple) else (said, np.nan)
            request.answers[name] = label
            return label, float(score)
        raise AssertionError("there is at least one attempt")

    def _listed(self, name: str) -> float:
        """What a call costs that returns nothing: as much as one does on average."""
        price = self.prices[name]
        if not callable(price):
            return float(price)
        return float(self.model.costs_.prices[name]) if hasattr(self, "model") else 0.0

    def _known(self, raw: Any) -> Mapping[str, Any]:
        return {} if self.inputs is None else self.inputs(raw)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model"):
            raise AttributeError("this cascade is not fitted yet; call fit with recorded answers first")

    def __repr__(self) -> str:
        return f"ServiceCascade({', '.join(self.services)})"


def _called(service: Callable[[Any], Any], raw: Any, timeout: float | None) -> Any:
    """What a service returns, within its time."""
    call = getattr(service, "__call__", None)  # noqa: B004  # an object with an async __call__
    if inspect.iscoroutinefunction(service) or inspect.iscoroutinefunction(call):
        waited = in_background(lambda: asyncio.run(asyncio.wait_for(service(raw), timeout)))
        return waited.result()
    return service(raw) if timeout is None else in_background(lambda: service(raw)).result(timeout)
