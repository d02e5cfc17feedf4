"""Cascades of services: paid calls, made row by row as long as they are worth their price.

A service is a function that returns a label, or a label and a score; its answer is a priced group of columns like any other. So
a cascade is an :class:`~anytime.ExpectedCostClassifier` over recorded answers, with extractors that call the services on demand.
This module adds the calls: time-outs, retries, and a bill.

FrugalML (Chen, Zaharia and Zou, NeurIPS 2020) has a base service and one add-on; here any number may be called, and answers
are combined.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anytime.acquisition import AlgorithmSelector, ExpectedCostClassifier
from anytime.answer import Answer
from anytime.background import in_background, on_event_loop
from anytime.costs import FeatureCosts
from anytime.features import Extractor, Features, timed_out
from anytime.runtime import Session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CascadeAnswer", "ServiceCascade", "cascade"]

_PARTS = ("label", "score", "answered", "price")  # columns of a service
_INPUT = "input"  # the group of the inputs of a request, before any service is called


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
    """Create a cascade that calls services one after the other, as far as each request needs them.

    Parameters
    ----------
    services : mapping from str to callable or None
        Functions of a raw request. Each returns a label, or a label and a score. None: only recorded answers exist. Coroutines
        share one event loop, which none of them may block.
    prices : mapping from str to float or callable
        Price of a call; or a function of the request and of the returned value, such as a price per token.
    unit : str, default=None
        Unit of the prices.
    inputs : callable, default=None
        Function from a request to a mapping of its free features, such as its length or kind.
    timeout : float, default=None
        Seconds after which a call counts as failed. It is paid for.
    retries : int, default=0
        Further attempts after a failed call. They are paid for, and made only if the budget allows.
    **settings
        Parameters of :class:`~anytime.ExpectedCostClassifier`, such as ``mean_budget``, ``accuracy`` or ``cost_penalty``.

    Returns
    -------
    ServiceCascade
        Not fitted: ``record`` and ``fit`` come next.

    See Also
    --------
    ServiceCascade : The class that it returns.
    ExpectedCostClassifier : The model inside it.
    LadderClassifier : Cheap models in front of one costly model.

    Examples
    --------
    >>> import anytime as at
    >>> def small(n):  # knows even numbers, and says so
    ...     return (n % 3 == 0, 0.9) if n % 2 == 0 else (False, 0.5)
    >>> services = {"small": small, "large": lambda n: n % 3 == 0}
    >>> numbers = list(range(400))
    >>> cascade = at.cascade(services, prices={"small": 1, "large": 20}, cost_penalty=0.005, random_state=0)
    >>> cascade = cascade.fit(cascade.record(numbers), [n % 3 == 0 for n in numbers])
    >>> [(bool(answer.prediction), answer.services, answer.cost) for answer in map(cascade.predict, [8, 9])]
    [(False, ['small'], 1.0), (True, ['small', 'large'], 21.0)]
    """
    return ServiceCascade(services, prices, unit, inputs, timeout, retries, settings)


@dataclass(frozen=True)
class CascadeAnswer:
    """The answer of a cascade to one request.

    Attributes
    ----------
    prediction : object
        A label; if services were graded individually, the answer of the chosen one.
    services : list of str
        The services that were called, in order.
    cost : float
        Total price of all attempts.
    attempts : dict from str to int
    failures : mapping from str to str
        Services that did not answer, and why.
    answer : Answer
        The full record of the model.
    """

    prediction: Any
    services: list[str]
    cost: float
    attempts: dict[str, int]
    failures: Mapping[str, str]
    answer: Answer


@dataclass
class _PricedRequest:
    """A raw request in progress, and what was spent on it."""

    raw: Any
    budget: float = np.inf
    retries: int = 0
    spent: float = 0.0
    attempts: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)


class ServiceCascade:
    """A cascade of services, created by :func:`cascade`.

    ``record`` calls all services, ``fit`` learns from recorded answers, ``predict`` calls the services that a request needs.

    Attributes
    ----------
    model : ExpectedCostClassifier or AlgorithmSelector
        The model over tables of answers: for bulk predictions, files and curves.
    features : Features
        The services as extractors: for sessions and the server.

    See Also
    --------
    cascade : Creates a cascade.
    ExpectedCostClassifier : The model inside it.

    Examples
    --------
    >>> import anytime as at
    >>> def small(n):  # recognises multiples of 3 among even numbers only, and says so
    ...     return (n % 3 == 0, 0.9) if n % 2 == 0 else (False, 0.5)
    >>> services = {"small": small, "large": lambda n: n % 3 == 0}
    >>> cascade = at.cascade(services, prices={"small": 1, "large": 20}, cost_penalty=0.005, random_state=0)
    >>> list(cascade.record([8, 9])["large price"])
    [20.0, 20.0]
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
            raise ValueError(
                f"services and prices need the same names, not {sorted(services)} and {sorted(prices)}"
            )
        if _INPUT in services:
            raise ValueError(
                f"{_INPUT!r} is reserved for the inputs of a request; give the service another name"
            )
        if retries < 0:
            raise ValueError(f"retries must be at least 0, not {retries}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, not {timeout}")
        # refused here, and not in fit: recording in between is paid for
        ExpectedCostClassifier(costs=None, **settings)._validate_params()
        self.services, self.prices, self.unit, self.inputs = dict(services), dict(prices), unit, inputs
        self.timeout, self.retries, self.settings = timeout, int(retries), dict(settings)

    # ------------------------------------------------------------------ recording and learning

    def record(self, requests: Sequence[Any]) -> pd.DataFrame:
        """Call all services for all requests; return a table of answers, scores and prices, from which ``fit`` learns.

        A failed call leaves missing values and is paid for like any other. If its price is a function, the price is missing too,
        and ``fit`` uses the mean.
        """
        import pandas as pd

        rows = []
        for raw in requests:
            row = dict(self._inputs_of(raw))
            for name in self.services:
                request = _PricedRequest(raw, retries=self.retries)
                try:
                    label, score = self._ask(name, request)
                except Exception:
                    label, score = None, np.nan
                row |= {
                    f"{name} label": label,
                    f"{name} score": score,
                    f"{name} answered": float(label is not None),
                    f"{name} price": request.spent,
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def fit(self, answers: pd.DataFrame, y: Any) -> Self:
        """Learn from recorded answers.

        Parameters
        ----------
        answers : table
            For every service a column "NAME label" and optionally "NAME score", "NAME price" and "NAME answered" (1 or 0);
            all other columns are free. Missing prices count as the mean.
        y : (n,), or a table with a column per service
            The true labels; or how good each service's answer was, between 0 and 1, where answers cannot be compared.
        """
        import pandas as pd

        if not len(answers):
            raise ValueError("answers has no rows to learn from")
        graded = isinstance(y, pd.DataFrame)
        groups = {name: self._columns(name, answers, graded) for name in self.services}
        columns = {f"{name} {part}" for name in self.services for part in _PARTS}
        if free := [str(column) for column in answers if column not in columns]:
            groups = {_INPUT: free, **groups}
        X = pd.DataFrame(
            {column: self._column(column, answers) for listed in groups.values() for column in listed}
        )
        row_prices = np.column_stack([self._row_prices(name, answers) for name in groups])
        prices = dict(zip(groups, map(_rounded, row_prices.mean(axis=0)), strict=True))
        costs = FeatureCosts(prices, groups=groups, unit=self.unit)
        if graded:
            options = {name: name for name in self.services}
            settings = {"cost_penalty": 0.0, **self.settings}
            model: Any = AlgorithmSelector(costs=costs, option_groups=options, **settings)
            y = 1.0 - y[list(self.services)]
        else:
            model = ExpectedCostClassifier(costs=costs, **self.settings)
        self.model, self.groups = model.fit(X, y, row_prices=row_prices), groups
        self._labels = {
            column: set(X[column].cat.categories)
            for column in X
            if column in columns and column.endswith(" label")
        }
        return self

    @staticmethod
    def _columns(name: str, answers: pd.DataFrame, graded: bool) -> list[str]:
        """What the model reads of a service. There is always a column: without any, its group would be had for nothing."""
        parts = [f"{name} score"] if graded else [f"{name} label", f"{name} score"]
        columns = [column for column in parts if column in answers and answers[column].notna().any()]
        return columns if columns and not graded else [f"{name} answered", *columns]

    def _column(self, column: str, answers: pd.DataFrame) -> Any:
        name, _, part = column.rpartition(" ")
        if name not in self.services or part not in _PARTS:
            return answers[column]
        if part == "label":
            return answers[column].astype("category")
        if part == "answered" and column not in answers:
            label = answers.get(f"{name} label")
            return np.ones(len(answers)) if label is None else label.notna().astype(float)
        return answers[column]

    def _row_prices(self, name: str, answers: pd.DataFrame) -> Any:
        """(n,) what a group costs each row."""
        price = self.prices.get(name, 0.0)
        recorded = None if name == _INPUT else answers.get(f"{name} price")
        if recorded is not None:
            if recorded.isna().all():
                raise ValueError(f"the price of {name!r} is unknown, because none of its calls succeeded")
            return recorded.fillna(recorded.mean()).to_numpy(dtype=np.float64)
        if callable(price):
            raise ValueError(f"the price of {name!r} is a function: answers need the column '{name} price'")
        return np.full(len(answers), float(price))

    # ------------------------------------------------------------------ asking

    @property
    def features(self) -> Features:
        """The services as extractors of raw requests. They ignore budgets, so a failed call is not retried."""
        return self._features(lambda raw: _PricedRequest(raw))

    def _features(self, of: Callable[[Any], _PricedRequest]) -> Features:
        self._check_fitted()
        silent = [name for name, service in self.services.items() if service is None]
        if silent:
            raise ValueError(f"{silent[0]!r} has only recorded answers and cannot be called")
        extractors = {name: Extractor(self._extractor(name, of)) for name in self.services}
        if _INPUT in self.groups:
            extractors[_INPUT] = Extractor(lambda raw: self._inputs_of(of(raw).raw))
        return Features(extractors, columns=self.groups)

    def _extractor(self, name: str, of: Callable[[Any], _PricedRequest]) -> Callable[[Any], Any]:
        columns = self.groups[name]

        def values_of(raw: Any) -> dict[str, Any]:
            label, score = self._ask(name, of(raw))
            if label not in self._labels.get(f"{name} label", (label,)):
                raise _no_label(name, label)
            values = {"label": label, "score": score, "answered": 1.0}
            return {column: values[column.rpartition(" ")[2]] for column in columns}

        return values_of

    def predict(self, raw: Any, *, budget: float | None = None) -> CascadeAnswer:
        """Call the services that a request needs.

        Parameters
        ----------
        raw : object
            The request, as the services take it.
        budget : float, default=None
            The most that the request may cost, retries included. None: the budget of the model. If a price is a function, it is
            known only after the call: the last call may then exceed the budget, and no call follows it.
        """
        self._check_fitted()
        limit = self.model.budget if budget is None else budget
        request = _PricedRequest(raw, np.inf if limit is None else float(limit), self.retries)
        session = Session(self.model, self._features(lambda priced: priced)).start(request)
        answer = session.read()
        for purchase in range(1, self.model.n_stages_ + 1):
            # what the bill is above the list prices that the session counts
            left = None if limit is None else max(_rounded(limit - request.spent + answer.cost), 0.0)
            answer = session.resume(budget=left, max_stages=purchase)
            if session.reason not in ("stages", "failed"):
                break
        prediction = answer.prediction
        if isinstance(self.model, AlgorithmSelector):
            prediction = request.answers.get(prediction)
        return CascadeAnswer(
            prediction, list(request.attempts), request.spent, dict(request.attempts), answer.failures, answer
        )

    def _ask(self, name: str, request: _PricedRequest) -> tuple[Any, float]:
        """The answer of a service, after as many attempts as the budget allows; raises the last error if none succeeds."""
        service = self.services[name]
        if service is None:
            raise ValueError(f"{name!r} has only recorded answers and cannot be called")
        while True:
            request.attempts[name] = request.attempts.get(name, 0) + 1
            returned = None
            try:
                returned = _called(service, request.raw, self.timeout)
                label, score = returned if isinstance(returned, tuple) else (returned, None)
                if label is None:
                    raise _no_label(name, label)
                score = np.nan if score is None else float(score)
            except Exception:
                request.spent += self._price(name, request.raw, returned)
                again = _rounded(request.spent + self._listed(name)) <= request.budget
                if request.attempts[name] > request.retries or not again:
                    raise
                continue
            request.spent += self._price(name, request.raw, returned)
            request.answers[name] = label
            return label, score

    def _price(self, name: str, raw: Any, returned: Any) -> float:
        """What a call costs: by the price function where there is one and it knows, otherwise the list price."""
        price = self.prices[name]
        if callable(price) and returned is not None:
            try:
                return float(price(raw, returned))
            except Exception:
                return self._listed(name)
        return self._listed(name)

    def _listed(self, name: str) -> float:
        """What a call costs on average; before that is known, NaN."""
        price = self.prices[name]
        if not callable(price):
            return float(price)
        return float(self.model.costs_.prices[name]) if hasattr(self, "model") else np.nan

    def _inputs_of(self, raw: Any) -> Mapping[str, Any]:
        return {} if self.inputs is None else self.inputs(raw)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model"):
            raise AttributeError("this cascade is not fitted yet; call fit with recorded answers first")

    def __repr__(self) -> str:
        return f"ServiceCascade({', '.join(self.services)})"


def _no_label(name: str, label: Any) -> ValueError:
    return ValueError(f"{name!r} returned {label!r}, which is not among the recorded labels")


def _rounded(amount: float) -> float:
    """An amount without the last digits, in which sums of decimal prices are off: three times 0.1 is 0.3."""
    return float(f"{amount:.12g}")


def _called(service: Callable[[Any], Any], raw: Any, timeout: float | None) -> Any:
    """What a service returns, within its time."""
    began = time.monotonic()

    def within(future: Future[Any]) -> Any:
        if not wait([future], None if timeout is None else began + timeout - time.monotonic()).done:
            future.cancel()
            raise TimeoutError(timed_out(timeout))
        return future.result()

    returned = service(raw) if timeout is None else within(in_background(lambda: service(raw)))
    return within(on_event_loop(returned)) if inspect.isawaitable(returned) else returned
