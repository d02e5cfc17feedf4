"""What a loader returns: data and prices that unpack to three, with everything else as attributes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts


class _Triple(NamedTuple):
    X: Any
    y: NDArray[Any]
    costs: FeatureCosts


class Dataset(_Triple):
    """Examples, answers and prices; unpacks to ``X, y, costs``.

    Classes are numbered from 0; ``target_names[k]`` is the name of class ``k``. The groups of ``costs`` name columns
    by position, so they fit ``X`` as a matrix and as a frame.

    Attributes
    ----------
    X : (n, d) array or DataFrame
        NaN where a value is missing.
    y : (n,) array
    costs : FeatureCosts
    name, description : str
    feature_names : tuple of str
    target_names : tuple of str or None
        None for regression and ranking.
    train, valid, test : (k,) int arrays or None
        Row numbers of the official or customary split, if there is one.
    delayed : tuple of str or None
        Groups whose results arrive only the next day.

    Examples
    --------
    >>> data = Dataset(np.eye(2), np.array([0, 1]), FeatureCosts([1.0, 5.0]), name="tiny")
    >>> X, y, costs = data
    >>> data.costs.total, data.name
    (6.0, 'tiny')
    """

    name: str = ""
    description: str = ""
    feature_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] | None = None
    train: NDArray[np.intp] | None = None
    valid: NDArray[np.intp] | None = None
    test: NDArray[np.intp] | None = None
    delayed: tuple[str, ...] | None = None

    def __new__(cls, X: Any, y: NDArray[Any], costs: FeatureCosts, **attributes: Any) -> Self:
        """Make the triple; attributes may be left out, so that copy and pickle can restore them afterwards."""
        self = super().__new__(cls, X, y, costs)
        for key, value in attributes.items():
            if not hasattr(cls, key) or callable(getattr(cls, key)):
                raise TypeError(f"a Dataset has no attribute {key!r}")
            setattr(self, key, value)
        return self

    def with_attributes(self, **changes: Any) -> Self:
        """A copy in which some attributes, or ``X``, ``y`` or ``costs``, are others."""
        fields = {"X": self.X, "y": self.y, "costs": self.costs, **self.__dict__, **changes}
        return type(self)(**fields)

    # Equality of the tuple would compare arrays, which has no single truth value.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:  # tuple has its own, which would not ask the above
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        rows, columns = np.shape(self.X)
        return f"Dataset({self.name!r}, {rows} rows, {columns} columns, {self.costs!r})"


@dataclass(frozen=True, kw_only=True)
class About:
    """Facts about a data set, without loading it.

    Examples
    --------
    >>> About(name="coin", summary="Two sides", rows=2, columns=1, groups=1, task="binary").rows
    2
    """

    name: str
    summary: str
    rows: int
    columns: int
    groups: int
    task: str
    unit: str = "columns"
    prices: str = "uniform"
    split: str = "none"
    licence: str = ""
    source: str = ""
    notes: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        size = f"{self.rows} rows, {self.columns} columns in {self.groups} groups"
        lines = [
            f"{self.name}: {self.summary}",
            f"  size     {size}",
            f"  task     {self.task}",
            f"  prices   {self.prices}; unit: {self.unit}",
            f"  split    {self.split}",
            f"  licence  {self.licence}",
            f"  source   {self.source}",
        ]
        if self.notes:
            lines.append(f"  notes    {self.notes}")
        if self.options:
            lines.append(f"  options  {', '.join(f'{key}={value!r}' for key, value in self.options.items())}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Listing:
    """A data set: what is known about it, and how it is read."""

    about: About
    read: Callable[..., Dataset]

    @classmethod
    def of(
        cls,
        name: str,
        shape: tuple[int, int, int],
        task: str,
        summary: str,
        read: Callable[..., Dataset],
        **facts: Any,
    ) -> Self:
        """An entry; ``shape`` is rows, columns and groups, ``facts`` are further fields of ``About``."""
        rows, columns, groups = shape
        about = About(
            name=name, summary=summary, rows=rows, columns=columns, groups=groups, task=task, **facts
        )
        return cls(about, read)
