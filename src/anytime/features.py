"""Features of raw examples: named extractors, one per group, called only when a stage asks for the group.

An extractor is a function of the raw example (an image, a patient record, a request); its result fills the columns of
its group. It may be slow, asynchronous, or fail: the runtime then answers with what arrived. Features that are derived from
others form a graph (Grubb, *Anytime Prediction*, section 7.4.3).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.background import in_background, on_event_loop
from anytime.costs import FeatureCosts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExtractionError", "Extractor", "Features", "seconds_per_unit"]

Results = Mapping[str, Any]  # what the extractors of one example have returned, by group

_SECONDS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds_per_unit(unit: str | None) -> float | None:
    """Seconds in one unit of cost; None if costs are not times."""
    return _SECONDS.get(unit or "")


class ExtractionError(RuntimeError):
    """The features of a group could not be computed.

    Attributes
    ----------
    group : str
        Name of the group.
    reason : str
        Why it failed.

    See Also
    --------
    Features : Calls the extractors.

    Examples
    --------
    >>> import anytime as at
    >>> features = at.Features({"ratio": lambda raw: raw[0] / raw[1]})
    >>> features.matrix([(1, 2), (1, 0)])
    Traceback (most recent call last):
        ...
    anytime.features.ExtractionError: group 'ratio': raw example 1: ZeroDivisionError: division by zero
    """

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(f"group {group!r}: {reason}")
        self.group, self.reason = group, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return ExtractionError, (self.group, self.reason)


@dataclass(frozen=True)
class Extractor:
    """A function that computes one group, and how to call it.

    Parameters
    ----------
    function : callable
        Returns a number, a vector, or a mapping from column name to number; anything for a group without columns. May be a
        coroutine function.
    batch : bool, default=False
        The function takes a list of examples and returns one result for each.
    timeout : float, default=None
        Seconds after which a session counts the group as failed. A function that is not a coroutine runs on in its thread, but
        nothing waits for it.
    requires : sequence of str, default=()
        Groups that must be computed first.
    takes : {"raw", "required", "both"}, default="raw"
        What the function is called with: the raw example, what the extractors of ``requires`` returned (one argument for
        each, in that order), or the raw example followed by those.

    See Also
    --------
    Features : A set of named extractors.

    Examples
    --------
    Two groups share an expensive step, which is computed once:

    >>> import anytime as at
    >>> features = at.Features(
    ...     {
    ...         "sorted": sorted,
    ...         "least": at.Extractor(lambda values: values[0], requires="sorted", takes="required"),
    ...         "most": at.Extractor(lambda values: values[-1], requires="sorted", takes="required"),
    ...     },
    ...     columns={"sorted": []},
    ... )
    >>> features.matrix([[3, 1, 2]]).to_dict("records")
    [{'least': 1.0, 'most': 3.0}]
    """

    function: Callable[..., Any]
    batch: bool = False
    timeout: float | None = None
    requires: Sequence[str] = ()
    takes: Literal["raw", "required", "both"] = "raw"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"an extractor must be a function of the raw example, not {self.function!r}")
        if self.takes not in ("raw", "required", "both"):
            raise ValueError(f"takes must be 'raw', 'required' or 'both', not {self.takes!r}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, not {self.timeout}")
        listed = (self.requires,) if isinstance(self.requires, str) else tuple(self.requires)
        object.__setattr__(self, "requires", listed)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        call = getattr(self.function, "__call__", None)  # noqa: B004  # an object with an async __call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    def arguments(self, raw: Any, results: Results) -> tuple[Any, ...]:
        """List the arguments of the function for one example."""
        own = () if self.takes == "required" else (raw,)
        return own if self.takes == "raw" else (*own, *(results[name] for name in self.requires))


class Features:
    """Named extractors over raw examples.

    Parameters
    ----------
    extractors : mapping from str to callable or Extractor
        One per group.
    columns : mapping from str to list of str, default=None
        Names of a group's columns. Not given: ``"hog[0]", "hog[1]", ...`` for a vector, ``"age"`` for a single number, the keys
        for a mapping. An empty list marks a step that fills no column and only provides input for others.
    requires : mapping from str to list of str, default=None
        Groups that must be computed first, for extractors that do not say so themselves.
    timeout : float, default=None
        Seconds after which a group counts as failed, for extractors that do not say so themselves.
    batch : bool or sequence of str, default=False
        Groups whose function takes a list of examples; True: all.
    clock : callable, default=time.perf_counter
        What ``profile`` measures with.

    See Also
    --------
    Session : Calls extractors only when a stage needs them.
    FeatureCosts : What the groups cost.

    Examples
    --------
    >>> features = Features({"size": len, "letters": lambda text: [text.count(c) for c in "aeiou"]})
    >>> X = features.matrix(["anytime", "budget"])
    >>> features.groups("anytime")["letters"]
    ['letters[0]', 'letters[1]', 'letters[2]', 'letters[3]', 'letters[4]']
    >>> X["size"].tolist()
    [7.0, 6.0]
    """

    def __init__(
        self,
        extractors: Mapping[str, Callable[..., Any] | Extractor],
        *,
        columns: Mapping[str, Sequence[str]] | None = None,
        requires: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,
        batch: bool | Iterable[str] = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        names = [str(name) for name in extractors]
        together = (set(names) if batch else set()) if isinstance(batch, bool) else set(batch)
        needs = dict(requires or {})
        _reject_unknown("batch", together, names)
        _reject_unknown("columns", columns or {}, names)
        _reject_unknown("requires", needs, names)
        self.extractors: dict[str, Extractor] = {}
        for name, function in zip(names, extractors.values(), strict=True):
            extractor = function if isinstance(function, Extractor) else Extractor(function)
            self.extractors[name] = replace(
                extractor,
                batch=extractor.batch or name in together,
                timeout=timeout if extractor.timeout is None else extractor.timeout,
                requires=extractor.requires or needs.get(name, ()),
            )
        self.columns = {name: [str(c) for c in listed] for name, listed in (columns or {}).items()}
        self.requires = {name: list(e.requires) for name, e in self.extractors.items() if e.requires}
        self._clock = clock
        # FeatureCosts checks names and circles, and knows the order in which requirements come first.
        graph = FeatureCosts(dict.fromkeys(names, 1.0), groups={n: [] for n in names}, requires=self.requires)
        self._order = graph.closure(names)

    @property
    def names(self) -> tuple[str, ...]:
        """Group names, in the order given."""
        return tuple(self.extractors)

    # ------------------------------------------------------------------ calling extractors

    def compute(self, group: str, raws: Sequence[Any], results: Sequence[Results]) -> list[Any]:
        """Call the extractor of a group for every example.

        Parameters
        ----------
        group : str
            Its name.
        raws : sequence
            Raw examples.
        results : sequence of mapping
            Results of the extractors that it requires, per example.

        Returns
        -------
        list
            One result per example; an ``ExtractionError`` where the extractor failed.
        """
        extractor = self.extractors[group]
        if extractor.is_async:
            return self.submit(group, raws, results).result()
        calls = _calls(extractor, raws, results)
        return _outcomes(
            group, extractor, [_attempt(group, extractor.function, call) for call in calls], len(raws)
        )

    def submit(self, group: str, raws: Sequence[Any], results: Sequence[Results]) -> Future[list[Any]]:
        """``compute`` in the background: an asynchronous extractor on the event loop, any other in a worker thread."""
        if self.extractors[group].is_async:
            return on_event_loop(self._compute_async(group, raws, results))
        return in_background(lambda: self.compute(group, raws, results))

    async def _compute_async(self, group: str, raws: Sequence[Any], results: Sequence[Results]) -> list[Any]:
        extractor = self.extractors[group]
        calls = _calls(extractor, raws, results)
        waits = [_attempt_async(group, extractor, call) for call in calls]
        return _outcomes(group, extractor, await asyncio.gather(*waits), len(raws))

    # ------------------------------------------------------------------ all groups of many examples

    def matrix(self, raws: Sequence[Any]) -> pd.DataFrame:
        """All features of all examples: a training matrix, computed by the extractors used in prediction.

        Parameters
        ----------
        raws : sequence of n raw examples
            All extractors are called for each of them.

        Returns
        -------
        (n, d) DataFrame
            Columns are named after their group; ``groups`` says which belong to which.
        """
        import pandas as pd

        if not len(raws):
            raise ValueError("at least one raw example is needed to determine the columns")
        results = self._computed(raws)
        groups = self._columns_by_group(results[0])
        parts = [
            np.array([self._row(name, i, result[name], groups[name]) for i, result in enumerate(results)])
            for name in self.names
        ]
        names = [column for name in self.names for column in groups[name]]
        return pd.DataFrame(np.column_stack(parts).reshape(len(raws), len(names)), columns=names)

    def groups(self, raw: Any) -> dict[str, list[str]]:
        """Column names of each group, as ``FeatureCosts`` takes them, determined by computing one raw example."""
        return self._columns_by_group(self._computed([raw])[0])

    def _computed(self, raws: Sequence[Any]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = [{} for _ in raws]
        for group in self._order:
            for i, outcome in enumerate(self.compute(group, raws, results)):
                if isinstance(outcome, ExtractionError):
                    raise ExtractionError(group, f"raw example {i}: {outcome.reason}")
                results[i][group] = outcome
        return results

    def _columns_by_group(self, result: Mapping[str, Any]) -> dict[str, list[str]]:
        return {name: self._column_names(name, result[name]) for name in self.names}

    def _row(self, group: str, i: int, result: Any, columns: list[str]) -> NDArray[np.float64]:
        try:
            return np.asarray(group_values(result, columns), dtype=np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise ExtractionError(group, f"raw example {i}: {error}") from None

    def _column_names(self, group: str, result: Any) -> list[str]:
        if group in self.columns:
            return self.columns[group]
        if result is None:
            return []
        if isinstance(result, Mapping):
            return [str(column) for column in result]
        try:
            values = np.asarray(result, dtype=np.float64)
        except (TypeError, ValueError):
            raise ExtractionError(
                group,
                f"returned a {type(result).__name__}, not a vector of numbers; if it is only a step for other "
                f"groups, say columns={{{group!r}: []}}",
            ) from None
        return [group] if values.ndim == 0 else [f"{group}[{j}]" for j in range(values.size)]

    # ------------------------------------------------------------------ measured costs

    def profile(
        self, raws: Sequence[Any], *, n_repeats: int = 3, unit: str = "ms", path: str | Path | None = None
    ) -> FeatureCosts:
        """Measure how long each group takes on this machine, one example at a time.

        Parameters
        ----------
        raws : sequence of raw examples
            Typical examples: the time often depends on the example.
        n_repeats : int, default=3
            How often each example is measured.
        unit : {"s", "ms", "us", "ns"}, default="ms"
        path : str or Path, default=None
            Where to write a cost file (``.yaml`` or ``.csv``).

        Returns
        -------
        FeatureCosts
            The price of a group is its median time, requirements not included; its tail is the 99th percentile. The columns are
            those of ``matrix``.
        """
        scale = seconds_per_unit(unit)
        if scale is None:
            raise ValueError(f"unit must be one of {', '.join(_SECONDS)}, not {unit!r}")
        if n_repeats < 1:
            raise ValueError(f"n_repeats must be at least 1, not {n_repeats}")
        if not len(raws):
            raise ValueError("there is no raw example to measure; give at least one")
        groups = self.groups(raws[0])  # also a warm-up: a first call may import or open things
        seconds: dict[str, list[float]] = {name: [] for name in self.names}
        for i, raw in enumerate(raws):
            for _ in range(n_repeats):
                self._measure(i, raw, seconds)
        prices = {name: _rounded(np.median(taken) / scale) for name, taken in seconds.items()}
        tails = {
            name: _rounded(np.quantile(taken, 0.99, method="higher") / scale)
            for name, taken in seconds.items()
        }
        costs = FeatureCosts(prices, groups=groups, requires=self.requires, unit=unit, tails=tails)
        if path is not None:
            costs.write(path)
        return costs

    def _measure(self, i: int, raw: Any, seconds: dict[str, list[float]]) -> None:
        results: dict[str, Any] = {}
        for group in self._order:
            began = self._clock()
            (outcome,) = self.compute(group, [raw], [results])
            seconds[group].append(self._clock() - began)
            if isinstance(outcome, ExtractionError):
                raise ExtractionError(group, f"raw example {i}: {outcome.reason}")
            results[group] = outcome

    def __repr__(self) -> str:
        return f"Features({', '.join(self.names)})"


def group_values(result: Any, columns: Sequence[Any]) -> Any:
    """The result of an extractor as one value per column; raises ``ValueError`` if it does not fit."""
    if not columns:
        return np.empty(0)
    if isinstance(result, Mapping):
        if missing := [column for column in columns if column not in result]:
            raise ValueError(
                f"returned no value for column {missing[0]!r}; it returned {', '.join(map(repr, result))}"
            )
        result = [result[column] for column in columns]
    if isinstance(result, (str, bytes)) or not hasattr(result, "__len__"):
        result = [result]
    try:
        values = result.reshape(-1) if isinstance(result, np.ndarray) else list(result)
    except TypeError:  # such as an array without dimensions
        values = [result]
    if len(values) != len(columns):
        raise ValueError(f"returned {len(values)} numbers, but the group has {len(columns)} columns")
    return values


# ---------------------------------------------------------------------- one call


def _calls(extractor: Extractor, raws: Sequence[Any], results: Sequence[Results]) -> list[tuple[Any, ...]]:
    calls = [extractor.arguments(raw, result) for raw, result in zip(raws, results, strict=True)]
    return [tuple(map(list, zip(*calls, strict=True)))] if extractor.batch else calls


def _attempt(group: str, function: Callable[..., Any], call: tuple[Any, ...]) -> Any:
    try:
        return function(*call)
    except Exception as error:
        return ExtractionError(group, f"{type(error).__name__}: {error}")


async def _attempt_async(group: str, extractor: Extractor, call: tuple[Any, ...]) -> Any:
    try:
        return await asyncio.wait_for(extractor.function(*call), extractor.timeout)
    except TimeoutError:
        return ExtractionError(group, timed_out(extractor.timeout))
    except Exception as error:
        return ExtractionError(group, f"{type(error).__name__}: {error}")


def timed_out(timeout: float | None) -> str:
    """The reason given for a group that took too long."""
    return "timed out" if timeout is None else f"timed out after {timeout:g} s"


def _outcomes(group: str, extractor: Extractor, outcomes: list[Any], n: int) -> list[Any]:
    """One outcome per example, also when all were computed together."""
    if not extractor.batch:
        return outcomes
    (together,) = outcomes
    if isinstance(together, ExtractionError):
        return [together] * n
    if isinstance(together, Mapping):
        return [{column: values[i] for column, values in together.items()} for i in range(n)]
    rows = list(together.to_numpy() if hasattr(together, "to_numpy") else together)
    if len(rows) != n:
        return [ExtractionError(group, f"returned {len(rows)} results for a batch of {n} examples")] * n
    return rows


def _reject_unknown(what: str, groups: Iterable[str], names: Sequence[str]) -> None:
    for name in groups:
        if name not in names:
            raise ValueError(
                f"{what} names {name!r}, which has no extractor; the extractors are {', '.join(map(repr, names))}"
            )


def _rounded(value: float) -> float:
    # a fifth digit of a measured time is noise, and makes a cost file hard to read
    return float(f"{value:.4g}")
