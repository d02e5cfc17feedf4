"""What stages compute: runs of consecutive stages that share an evaluator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import Forest, linear_outputs

Array = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # JSON-able description, arrays
# what stages leave for later ones: arrays, or what is indexed by rows as arrays are
Memory = dict[str, Any]

# seconds of linear stages: several times what cores of today take
_CAUTIOUS_ROW, _CAUTIOUS_PRODUCT = 1e-6, 5e-9

__all__ = ["Block", "DetachedModelError", "FunctionBlock", "LinearBlock", "Memory", "State"]


class DetachedModelError(RuntimeError):
    """A model that stages ask is not there: a file holds its name, or its weights, and not its code.

    Attributes
    ----------
    name : str
    enough : float or None
        What the average row pays for an answer without it, where there is one: a budget of that is enough.
    keyword : str
        By which ``load`` takes it: "costly", or "module" for a network.
    """

    def __init__(self, name: str, enough: float | None = None, keyword: str = "costly") -> None:
        if keyword == "costly":
            budget = (
                "a budget that does not reach it"
                if enough is None
                else f"a mean_budget of at most {enough:.6g}"
            )
            message = (
                f"the costly model {name!r} is not attached: its name is all that is known here. Give it, with "
                f"attach(model) or load(path, costly=model), or {budget}"
            )
        else:
            message = (
                f"the file holds the weights of {name!r}, a module of your own, and not the module: give it, with "
                f"load(path, module=network) or attach(network)"
            )
        super().__init__(message)
        self.name, self.enough, self.keyword = name, enough, keyword

    def __reduce__(self) -> tuple[type, tuple[str, float | None, str]]:
        return type(self), (self.name, self.enough, self.keyword)


class Block(ABC):
    """One or more consecutive stages that share an evaluator.

    ``columns`` and ``outputs`` are all that most blocks have. Where stages read other columns of other rows, or continue from
    what earlier stages of the same row have computed, there are also ``remember``, ``reads`` and ``proceed``; then ``outputs`` is
    ``proceed`` from the first stage on. Where what they read depends on what a row may still spend, there is ``bound``.
    """

    kind: ClassVar[str]
    n_stages: int
    width: int  # how many numbers a stage gives per row
    forest: Forest | None = None  # given by a block of trees: the engine then runs its stages natively
    uses_answer: bool = (
        False  # stages continue from the scores so far: all that ``memory`` then holds, as "answer"
    )
    batch_rows: int | None = (
        None  # rows that are best computed together, even before a deadline; None: a slice of time decides
    )

    @property
    def detached(self) -> DetachedModelError | None:
        """The error that stages raise because a model that they call is not attached; None: nothing is missing."""
        return None

    @property
    def times_itself(self) -> bool:
        """Whether ``seconds`` learns from every run, so that callers need not measure time."""
        return False

    @property
    def can_be_forked(self) -> bool:
        """Whether stages can be computed in a forked process after they were in the process that it was forked from."""
        return True

    @abstractmethod
    def columns(self, stage: int) -> NDArray[np.int32]:
        """Columns that ``stage`` may read, increasing."""

    @abstractmethod
    def outputs(self, stage: int, X: Array) -> Array:
        """Outputs of ``stage`` for each row of ``X``, (n, width). It may read only ``columns(stage)``."""

    def remember(self, n_rows: int) -> Memory | None:
        """The state of rows before the first stage, which ``proceed`` changes; None: stages keep no state."""
        return None

    def reads(self, stage: int, X: Array, memory: Memory) -> NDArray[np.bool_] | None:
        """(n, d) columns that ``stage`` will read of each row; None: all of ``columns(stage)``.

        It is asked before these columns are there: the answer may depend only on ``memory`` and on what earlier stages have read,
        and has to stay the same until the stage is done. What it works out may be kept in ``memory``.
        """
        return None

    def bound(self, memory: Memory, cap: NDArray[np.int64], absent: NDArray[np.bool_] | None) -> None:
        """Take note, in ``memory``, of what rows may spend and have: what a stage reads of a row may depend on that.

        Parameters
        ----------
        memory : dict
            As in ``reads``.
        cap : (n,) int
            Ticks that each row may have paid in all.
        absent : (G,) or (n, G) bool, or None
            Groups that cannot be had; None: all can.
        """
        return  # most stages read the same whatever the budget

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        """Take rows through stages ``first`` to ``stage``, changing ``memory`` in place; (n, width) what the last one gives.

        ``first`` is ``stage``, except where nobody pays or reads on the way and all stages replace the answer.
        """
        return self.outputs(stage, X)

    def proceed_while(
        self, first: int, end: int, X: Array, memory: Memory, has_time: Callable[[float], bool]
    ) -> tuple[int, Array | None]:
        """Take one batch of rows through stages from ``first`` to ``end`` as ``proceed`` does, as long as there is time.

        Parameters
        ----------
        first, end : int
            The stage before which rows stand, and the one that is not done any more.
        X, memory
            As in ``proceed``; at most ``batch_rows`` rows.
        has_time : callable
            Whether there is time for something that takes so many seconds.

        Returns
        -------
        stage : int
            The first that was not done.
        outputs : (n, width) or None
            What the last one gives; None where none was done.
        """
        stage, outputs = first, None
        while stage < end and has_time(self.seconds(stage, len(X))):
            outputs = self.proceed(stage, stage, X, memory)
            stage += 1
        return stage, outputs

    def seconds(self, stage: int, n_rows: int) -> float:
        """Upper estimate of the seconds that ``stage`` takes for this many rows; 0 if unknown.

        A run that has less left does not begin it. Where stages replace each other, one that has enough goes straight to it.
        """
        return 0.0

    def rows_in_time(self, stage: int, n_rows: int, seconds: float) -> int:
        """How many of ``n_rows`` rows to take together through ``stage`` where so much time is left; 0: there is none for one."""
        size = min(n_rows, self.batch_rows or n_rows)
        while size and self.seconds(stage, size) > seconds:
            size //= 2
        return size

    @abstractmethod
    def head(self, n_stages: int) -> Block:
        """The first ``n_stages`` stages."""

    def scaled(self, by: float) -> Block:
        """The same stages with all outputs multiplied."""
        raise TypeError(f"the outputs of a {type(self).__name__} cannot be scaled")

    def state(self) -> State:
        """The contents of a file for this block."""
        raise TypeError(f"a {type(self).__name__} holds a Python function and cannot be saved to a file")


class LinearBlock(Block):
    """Linear stages over columns in the order of purchase: stage ``t`` reads the first ``ends[t]`` of them, with its own weights.

    It gives ``intercepts[t] + (x[columns[:ends[t]]] - centres[:ends[t]]) @ coefficients[t]``. One stage is a plain linear step;
    several that each replace the answer before are a path of refitted prefixes, of which only the last one asked for is computed.

    Parameters
    ----------
    columns : (m,) int
    coefficients : (m, width), or a sequence of (ends[t], width)
        One table per stage; a single table is a single stage.
    intercepts : (S, width), default=None
        Zero when not given.
    centres : (m,) float, default=None
        Subtracted from the columns, and what a missing value counts as. When not given a missing value spoils the sum.
    """

    kind = "linear"

    def __init__(
        self,
        columns: ArrayLike,
        coefficients: Any,
        *,
        intercepts: ArrayLike | None = None,
        centres: ArrayLike | None = None,
    ) -> None:
        self._columns = np.asarray(columns, dtype=np.int32)
        single = len(coefficients) == 0 or np.ndim(coefficients[0]) < 2
        tables = [np.atleast_2d(np.asarray(coefficients))] if single else coefficients
        self.coefficients = tuple(np.ascontiguousarray(table, dtype=np.float64) for table in tables)
        self.n_stages = len(self.coefficients)
        self.width = self.coefficients[0].shape[1]
        added = np.zeros((self.n_stages, self.width)) if intercepts is None else intercepts
        self.intercepts = np.ascontiguousarray(added, dtype=np.float64)
        self.centres = None if centres is None else np.ascontiguousarray(centres, dtype=np.float64)
        self._check()

    def _check(self) -> None:
        m = self._columns.size
        ends = [len(table) for table in self.coefficients]
        if ends[-1] != m or ends != sorted(ends):
            raise ValueError(f"{m} columns but {', '.join(map(str, ends[-3:]))} rows of coefficients")
        if any(table.shape[1] != self.width for table in self.coefficients):
            raise ValueError("all stages of a linear block have the same width")
        if self.intercepts.shape != (self.n_stages, self.width):
            raise ValueError(f"intercepts must have shape ({self.n_stages}, {self.width})")
        if self.centres is not None and self.centres.shape != (m,):
            raise ValueError(f"{m} columns but {self.centres.size} centres")
        if m and self._columns.min() < 0:
            raise ValueError("a column's position is not negative")
        if not all(np.isfinite(table).all() for table in self.coefficients):
            raise ValueError("coefficients must be finite")
        if (
            not np.isfinite(self.intercepts).all()
            or not np.isfinite(0.0 if self.centres is None else self.centres).all()
        ):
            raise ValueError("intercepts and centres must be finite")

    def columns(self, stage: int) -> NDArray[np.int32]:
        return np.unique(self._columns[: len(self.coefficients[stage])])

    def outputs(self, stage: int, X: Array) -> Array:
        table = self.coefficients[stage]
        m = len(table)
        centres = None if self.centres is None else self.centres[:m]
        return linear_outputs(X, self._columns[:m], centres, table, self.intercepts[stage])

    def seconds(self, stage: int, n_rows: int) -> float:
        return n_rows * (_CAUTIOUS_ROW + _CAUTIOUS_PRODUCT * self.coefficients[stage].size)

    def head(self, n_stages: int) -> LinearBlock:
        if n_stages == self.n_stages:
            return self
        tables = self.coefficients[:n_stages]
        m = len(tables[-1])
        centres = None if self.centres is None else self.centres[:m]
        return LinearBlock(self._columns[:m], tables, intercepts=self.intercepts[:n_stages], centres=centres)

    def scaled(self, by: float) -> LinearBlock:
        tables = [table * by for table in self.coefficients]
        return LinearBlock(self._columns, tables, intercepts=self.intercepts * by, centres=self.centres)

    def state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            "columns": self._columns,
            "coefficients": np.concatenate(self.coefficients),
        }
        if self.n_stages > 1:
            arrays["ends"] = np.array([len(table) for table in self.coefficients], dtype=np.int64)
        if self.intercepts.any():
            arrays["intercepts"] = self.intercepts
        if self.centres is not None:
            arrays["centres"] = self.centres
        return {}, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LinearBlock:
        """Read what ``state`` gave."""
        tables = [arrays["coefficients"]]
        if "ends" in arrays:
            ends = [int(end) for end in arrays["ends"]]
            if not ends or min(ends) < 0 or sum(ends) != len(tables[0]):
                raise ValueError("the table of a linear block does not fit its stages")
            tables = np.split(tables[0], np.cumsum(ends)[:-1])
        return cls(
            arrays["columns"], tables, intercepts=arrays.get("intercepts"), centres=arrays.get("centres")
        )


class FunctionBlock(Block):
    """One stage given by a Python function of ``X[:, columns]``: another library's model, a network's exit.

    Parameters
    ----------
    columns : (m,) int
    function : callable
        From (n, m) to (n, width), or (n,) when ``width`` is 1. Row by row: what it says of a row may not depend on the
        other rows, because rows are worked on in whatever company time and budget allow.
    width : int
    """

    kind = "function"
    n_stages = 1

    def __init__(self, columns: ArrayLike, function: Callable[[Array], ArrayLike], width: int = 1) -> None:
        self._columns = np.asarray(columns, dtype=np.int32)
        self.function = function
        self.width = width

    def columns(self, stage: int) -> NDArray[np.int32]:
        return np.unique(self._columns)

    def outputs(self, stage: int, X: Array) -> Array:
        out = np.asarray(self.function(X[:, self._columns]), dtype=np.float64)
        if self.width == 1 and out.ndim == 1:
            out = out[:, None]
        if out.shape != (len(X), self.width):
            raise ValueError(
                f"the function of a stage returned shape {out.shape}, but needs {(len(X), self.width)}"
            )
        return out

    def head(self, n_stages: int) -> FunctionBlock:
        return self

    def scaled(self, by: float) -> FunctionBlock:
        function = self.function
        return FunctionBlock(self._columns, lambda X: by * np.asarray(function(X)), self.width)
