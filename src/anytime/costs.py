"""Prices of features, and what an example has already paid for.

Columns belong to groups; a group has a price that an example pays once, at the first use of any of its
columns. A group may require other groups (a blood draw before any blood test), so prices form a directed
acyclic graph: using a group pays for everything it needs that was not bought yet. This is the conditional cost
of Grubb's *Anytime Prediction* (2014, section 6.5.3) with requirements added.

Money is counted in **ticks**, whole multiples of a power of ten chosen for each price list. Sums are exact
and do not depend on the order of purchase: prices 0.1 and 0.2 are affordable with a budget of 0.3, in either
order. A price of up to 12 digits is counted exactly, or the list is rejected. A longer one (2/3, a measured
time) keeps at least 9 digits and is rounded down: a budget equal to a price buys it. A budget that falls short
of a cost by a few roundings of a float (64 units in the last place) still covers it: ``sum(prices)`` buys everything.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import CostTable, Ledger
from anytime.discounts import is_discount_table, prices_with_steps, read_discount_table
from anytime.price_checks import (
    Column,
    by_name,
    checked_prices,
    checked_requirements,
    columns_of,
    decimals,
    has_keys,
    is_integer,
    listing,
    one_group_per_column,
    overlap,
    reject_cycles,
    reject_overlaps,
    repeated,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BoundCosts", "FeatureCosts", "Ledger"]

UNLIMITED = np.iinfo(np.int64).max  # a budget in ticks that buys everything
_POSITION = re.compile("0|[1-9][0-9]{0,17}")  # what a table reads as the position of a column, not as a name


def with_rounding(budget: Any) -> Any:
    """A budget, rounded up a little: a sum of floats may be a few roundings short of the cost that it is meant to pay."""
    return budget * (1.0 + 2.0**-46)


class FeatureCosts:
    """Prices of groups of columns, with requirements between groups.

    Parameters
    ----------
    prices : sequence of float, mapping or Series, default=None
        Without ``groups``: one price per column, in column order, or a mapping from column to price; an
        integer key is a position (3 becomes the group ``"x3"``), any other a name. With ``groups``: a mapping
        from group name to price. A Series is a mapping from its index.
    groups : mapping from str to list of str or int, default=None
        The columns of each group, by name or position; none if it is a step that others require.
    requires : mapping from str to list of str, default=None
        The groups that must be paid before this one.
    unit : str, default=None
        What prices are counted in, such as ``"ms"`` or ``"USD"``.
    tails : mapping from str to float, default=None
        A price per group that is rarely exceeded (the 99th percentile of a measured time). The runtime uses
        it to decide whether a group still fits before a deadline.

    See Also
    --------
    Features : Computes groups on demand and measures their prices.

    Examples
    --------
    >>> costs = FeatureCosts(
    ...     groups={"draw": [], "chol": ["chol"], "fbs": ["fbs"], "ecg": ["st", "slope"]},
    ...     prices={"draw": 2.10, "chol": 5.17, "fbs": 3.10, "ecg": 15.50},
    ...     requires={"chol": ["draw"], "fbs": ["draw"]}, unit="CAD")
    >>> costs.price(["chol"]), costs.price(["chol", "fbs"])
    (7.27, 10.37)
    """

    def __init__(
        self,
        prices: ArrayLike | Mapping[str, float] | Mapping[int, float] | pd.Series[float] | None = None,
        *,
        groups: Mapping[str, Sequence[Column]] | None = None,
        requires: Mapping[str, Sequence[str]] | None = None,
        unit: str | None = None,
        tails: Mapping[str, float] | None = None,
    ) -> None:
        prices = _as_pandas(prices)
        if prices is None:
            raise ValueError(
                "FeatureCosts needs prices: one per column, or a mapping from group name to price"
            )
        if groups is None:
            groups, prices = one_group_per_column(prices)
        elif not has_keys(prices):
            raise ValueError("with groups, prices must be a mapping from group name to price")
        self.groups: dict[str, tuple[Column, ...]] = {
            name: columns_of(name, columns) for name, columns in by_name(groups, "groups").items()
        }
        self.prices: dict[str, float] = checked_prices(self.groups, prices, "price")
        self.requires: dict[str, tuple[str, ...]] = checked_requirements(self.groups, requires or {})
        self.unit = unit
        self.tails: dict[str, float] | None = (
            None if tails is None else checked_prices(self.groups, tails, "tail price")
        )
        reject_overlaps(self.groups)
        reject_cycles(self.requires)
        self._names = tuple(self.groups)
        self.decimals = decimals(self.prices)
        self._per_unit = 10.0 ** max(self.decimals, 0)  # ticks in a unit
        self._units = 10.0 ** max(-self.decimals, 0)  # units in a tick; one of the two is 1

    # ------------------------------------------------------------------ reading prices

    @property
    def names(self) -> tuple[str, ...]:
        """Group names, in the order given."""
        return self._names

    def closure(self, groups: Iterable[str]) -> list[str]:
        """``groups`` and all they require, each once, requirements first."""
        closed: dict[str, None] = {}
        pending = list(groups)[::-1]
        while pending:
            name = pending[-1]
            if name not in self.groups:
                raise ValueError(f"no group {name!r}; the groups are {listing(self.groups)}")
            if needed := [other for other in self.requires.get(name, ()) if other not in closed]:
                pending += needed[::-1]
            else:
                closed[pending.pop()] = None
        return list(closed)

    def price(self, groups: Iterable[str], bought: Iterable[str] = ()) -> float:
        """The price of ``groups`` for an example that already has ``bought``."""
        owned = set(self.closure(bought))
        ticks = sum(self.ticks(self.prices[name]) for name in self.closure(groups) if name not in owned)
        return self.amount(ticks)

    @property
    def total(self) -> float:
        """The price of everything."""
        return self.price(self.names)

    # ------------------------------------------------------------------ ticks

    def ticks(self, amount: float) -> int:
        """The most ticks that do not exceed ``amount``; a positive amount, such as an evaluation cost, is at least one tick."""
        ticks = int(Decimal(repr(float(amount))).scaleb(self.decimals))
        return max(ticks, 1) if amount > 0 else ticks

    def amount(self, ticks: int) -> float:
        """The amount of money that ``ticks`` are."""
        return float(ticks) / self._per_unit * self._units

    def amounts(self, ticks: NDArray[np.int64]) -> NDArray[np.float64]:
        """``amount`` of every entry."""
        return np.asarray(ticks / self._per_unit * self._units, dtype=np.float64)

    def budget_ticks(self, budget: float) -> int:
        """The most ticks that do not exceed ``budget``, roundings of a float apart."""
        budget = float(budget)
        if math.isnan(budget):
            raise ValueError("budget is NaN; give a number of units, or None for everything")
        if budget * self._per_unit / self._units >= 2.0**62:
            return int(UNLIMITED)
        return -1 if budget < 0 else int(with_rounding(budget) * self._per_unit / self._units)

    def budgets_ticks(self, budgets: NDArray[np.float64]) -> NDArray[np.int64]:
        """``budget_ticks`` of every entry, none of them negative or NaN."""
        within = budgets * self._per_unit / self._units < 2.0**62
        scaled = with_rounding(np.where(within, budgets, 0.0)) * self._per_unit / self._units
        return np.where(within, scaled.astype(np.int64), UNLIMITED)

    # ------------------------------------------------------------------ columns of a matrix

    def bind(self, n_columns: int, names: Sequence[str] | None = None) -> BoundCosts:
        """Resolve the columns of the groups against a matrix with ``n_columns`` columns called ``names``."""
        n_prices = len(self.groups)
        # one price after the other, without groups
        is_list = self.groups == {f"x{j}": (j,) for j in range(n_prices)}
        if is_list and n_prices != n_columns:
            prices = "1 price" if n_prices == 1 else f"{n_prices} prices"
            raise ValueError(
                f"costs has {prices} for {n_columns} columns; give each column one (it may be 0)"
            )
        position = {str(name): j for j, name in enumerate(names)} if names is not None else {}
        position |= dict.fromkeys(repeated(() if names is None else names), -1)
        column_group = np.full(n_columns, -1, dtype=np.int32)
        for g, (group, columns) in enumerate(self.groups.items()):
            for column in columns:
                j = self._locate(group, column, position, n_columns, names is not None)
                if column_group[j] >= 0:
                    raise overlap(self.names[column_group[j]], group, column)
                column_group[j] = g
        free = np.flatnonzero(column_group < 0)
        if free.size:
            shown = [repr(str(names[j])) if names is not None else str(j) for j in free[:5]]
            more = f" and {free.size - 5} more" if free.size > 5 else ""
            several = free.size > 1
            raise ValueError(
                f"{'columns' if several else 'column'} {', '.join(shown)}{more} {'have' if several else 'has'} no price; "
                "give every column a price, which may be 0, or a group"
            )
        return BoundCosts(self, column_group)

    def _locate(
        self, group: str, column: Column, position: Mapping[str, int], n_columns: int, named: bool
    ) -> int:
        if isinstance(column, str):
            if position.get(column) == -1:
                raise ValueError(
                    f"group {group!r} names column {column!r}, but X has several columns of that name; "
                    "rename them, or name columns by position"
                )
            if column in position:
                return position[column]
            hint = "; X has no column names: pass a DataFrame, or name columns by position"
            if named:
                near = get_close_matches(column, position, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"group {group!r} names column {column!r}, which X does not have{hint}")
        if not 0 <= column < n_columns:
            raise ValueError(f"group {group!r} names column {column}, but X has {n_columns} columns")
        return column

    # ------------------------------------------------------------------ other forms

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain lists and numbers; ``from_dict`` reads it back."""
        out: dict[str, Any] = {"unit": self.unit, "groups": {}}
        for name, columns in self.groups.items():
            entry: dict[str, Any] = {"price": self.prices[name], "columns": list(columns)}
            if self.requires.get(name):
                entry["requires"] = list(self.requires[name])
            if self.tails is not None:
                entry["tail"] = self.tails[name]
            out["groups"][name] = entry
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureCosts:
        """Read what ``to_dict`` wrote, or a plain mapping from column to price.

        A group whose ``columns`` are left out is the column of its own name; so is one that is a price and nothing else.
        """
        if "groups" not in data:
            return cls(data)
        unknown = set(data) - {"unit", "groups"}
        if unknown:
            raise ValueError(
                f"a cost description has the keys 'unit' and 'groups', not {listing(sorted(unknown))}"
            )
        groups, prices, requires, tails = {}, {}, {}, {}
        for name, entry in by_name(_mapping(data["groups"], "groups"), "groups").items():
            if isinstance(entry, int | float):  # the price of the column of that name
                entry = {"price": entry}
            entry = _mapping(entry, f"group {name!r}")
            unknown = set(entry) - {"price", "columns", "requires", "tail"}
            if unknown:
                raise ValueError(f"group {name!r} has unknown keys {listing(sorted(map(str, unknown)))}")
            if "price" not in entry:
                raise ValueError(f"group {name!r} has no price")
            groups[name] = entry.get("columns", [name])
            prices[name] = entry["price"]
            requires[name] = entry.get("requires", [])
            if "tail" in entry:
                tails[name] = entry["tail"]
        return cls(prices, groups=groups, requires=requires, unit=data.get("unit"), tails=tails or None)

    def to_frame(self) -> pd.DataFrame:
        """One row per group, in the form that ``from_frame`` reads."""
        import pandas as pd

        table = pd.DataFrame(
            {
                "group": list(self.names),
                "price": [self.prices[name] for name in self.names],
                "columns": [_cell(self.groups[name]) for name in self.names],
                "requires": [_cell(self.requires.get(name, ())) for name in self.names],
                "unit": self.unit or "",
            }
        )
        if self.tails is not None:
            table["tail"] = [self.tails[name] for name in self.names]
        return table

    @classmethod
    def from_frame(cls, table: pd.DataFrame) -> FeatureCosts:
        """Read a table with the columns ``group``, ``price`` and, where wanted, those of ``to_frame``.

        These are ``columns``, ``requires``, ``unit``, ``tail``. Semicolons separate lists: ``age;3``. In
        ``columns`` a plain integer is a position, anything else a name. Names that do not fit this (``"3"``,
        ``"a;b"``) stand in a JSON list: ``["3", "a;b", 3]`` is two names and a position. A cell may also hold
        a Python list. Without ``columns`` each group is the column of its own name, or that position.

        A table with the columns ``test``, ``group``, ``full price`` and ``discounted price`` is read too: a test costs its
        discounted price once another of its group is bought. For each group there is then a step without columns that
        costs the difference, which must be the same for all its tests. It may have a column ``unit`` too.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"test": ["chol", "fbs", "age"], "group": ["A", "A", ""],
        ...                       "full price": [7.27, 5.20, 1.00], "discounted price": [5.17, 3.10, 1.00]})
        >>> costs = FeatureCosts.from_frame(table)
        >>> costs.price(["chol"]), costs.price(["fbs"], bought=["chol"]), costs.names
        (7.27, 3.1, ('step A', 'chol', 'fbs', 'age'))
        """
        table = _as_pandas(table)
        table = table.astype(object).where(table.notna(), None)
        units = {u for u in table["unit"].dropna() if u} if "unit" in table.columns else set()
        if len(units) > 1:
            raise ValueError(f"a cost table has one unit, not {listing(sorted(units))}")
        unit = units.pop() if units else None
        records = table.to_dict(orient="records")
        if is_discount_table(table.columns):
            tests = read_discount_table(records, table.columns)
            priced, needs = prices_with_steps(tests)
            of_tests: dict[str, list[str]] = {name: [] for name in priced}
            of_tests |= {test.name: [test.name] for test in tests}
            return cls(priced, groups=of_tests, requires=needs, unit=unit)
        for needed in ("group", "price"):
            if needed not in table.columns:
                raise ValueError(f"a cost table needs a column {needed!r}; it has {listing(table.columns)}")
        groups: dict[str, list[Any]] = {}
        prices, requires, tails = {}, {}, {}
        for row, record in enumerate(records):
            if record["group"] is None:
                raise ValueError(f"row {row} of the cost table names no group")
            name = str(record["group"])
            if name in groups:
                raise ValueError(f"group {name!r} appears twice in the cost table")
            own: Column = int(name) if _POSITION.fullmatch(name) else name
            groups[name] = _listed(record.get("columns", [own]), f"columns of group {name!r}")
            prices[name] = record["price"]
            requires[name] = list(map(str, _listed(record.get("requires"), f"requires of group {name!r}")))
            if "tail" in table.columns:
                tails[name] = record["tail"]
        return cls(prices, groups=groups, requires=requires, unit=unit, tails=tails or None)

    def write(self, path: str | Path) -> None:
        """Write a cost file: YAML, or CSV when the name ends in ``.csv``."""
        path = Path(path)
        if path.suffix == ".csv":
            self.to_frame().to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC)  # names may hold a CR
        else:
            import yaml

            path.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False), encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> FeatureCosts:
        """Read a cost file in YAML (or JSON) or CSV."""
        path = Path(path)
        if path.suffix == ".csv":
            import pandas as pd

            return cls.from_frame(pd.read_csv(path, dtype=str, keep_default_na=False))
        if path.suffix not in (".yaml", ".yml", ".json"):
            raise ValueError(f"{path}: a cost file ends in .csv, .yaml, .yml or .json")
        import yaml

        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not valid YAML: {error}") from None
        return cls.from_dict(_mapping(data, str(path)))

    @classmethod
    def coerce(cls, costs: Any, n_columns: int, names: Sequence[str] | None = None) -> FeatureCosts:
        """``costs`` in any accepted form; ``None``: every column costs 1, under its own name where known."""
        if costs is None:
            if names is None:
                return cls(np.ones(n_columns), unit="columns")
            if twice := repeated(names):
                raise ValueError(f"X has several columns called {listing(twice)}; rename them")
            return cls({str(name): 1.0 for name in names}, unit="columns")
        if isinstance(costs, cls):
            return costs
        costs = _as_pandas(costs)
        if isinstance(costs, (str, Path)):
            return cls.read(costs)
        if isinstance(costs, Mapping):
            return cls.from_dict(costs)
        if not has_keys(costs) and hasattr(costs, "to_dict") and hasattr(costs, "columns"):
            return cls.from_frame(costs)
        return cls(costs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureCosts) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # equal by value, and its dicts could be changed

    def __repr__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        columns = sum(map(len, self.groups.values()))
        return f"FeatureCosts({len(self.groups)} groups, {columns} columns, total {self.total:g}{unit})"


class BoundCosts:
    """``FeatureCosts`` resolved against the columns of one matrix, with its native twin."""

    def __init__(self, costs: FeatureCosts, column_group: NDArray[np.int32]) -> None:
        self.costs = costs
        self.column_group = column_group  # (d,): the group of each column
        # (G,): in ticks
        self.prices = np.array([costs.ticks(costs.prices[name]) for name in costs.names], dtype=np.int64)
        number = {name: g for g, name in enumerate(costs.names)}
        self._required = [[number[r] for r in costs.requires.get(name, ())] for name in costs.names]
        self.table = self._table(self._required)  # for native code, which checks the groups
        self.has_columns = np.bincount(column_group, minlength=self.n_groups) > 0  # (G,)

    def _table(self, required: list[list[int]]) -> CostTable:
        start = np.concatenate([[0], np.cumsum([len(r) for r in required])]).astype(np.int64)
        flat = np.array([r for row in required for r in row], dtype=np.int32)
        return CostTable(self.prices, start, flat, self.column_group)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.prices.size

    def groups_of(self, columns: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """The groups that ``columns`` belong to, increasing, requirements not included."""
        return np.unique(self.column_group[columns]).astype(np.int32)

    def closure(self, groups: NDArray[np.int32]) -> NDArray[np.bool_]:
        """(G,) mask of ``groups`` and all they require."""
        mask = np.zeros(self.n_groups, dtype=bool)
        for g in groups:
            mask[self.table.closure(int(g))] = True
        return mask

    def prices_of_rows(self, row_prices: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
        """(n, G) what each group costs each row, in units; ``row_prices`` None: the same for all."""
        if row_prices is None:
            return np.tile(self.costs.amounts(self.prices), (n_rows, 1))
        prices = np.asarray(row_prices, dtype=np.float64)
        if prices.shape != (n_rows, self.n_groups):
            raise ValueError(f"row_prices has shape {prices.shape}, but needs ({n_rows}, {self.n_groups})")
        if not np.isfinite(prices).all() or (prices < 0).any():
            raise ValueError("row_prices must be finite and not negative")
        return prices

    def ledger(
        self, n_rows: int, absent: NDArray[np.bool_] | None = None, bought: NDArray[np.bool_] | None = None
    ) -> Ledger:
        """A ledger for ``n_rows`` examples that lack some groups (``absent``, (G,)) and have ``bought`` others (G,).

        A group that is there needs no other that is absent, and one that was bought needs nothing more.
        """
        if absent is None and bought is None:
            return Ledger(self.table, n_rows)
        absent, bought = (np.zeros(self.n_groups, dtype=bool) if a is None else a for a in (absent, bought))
        kept = [
            [r for r in row if (bought[r] if bought[g] else absent[g] or not absent[r])]
            for g, row in enumerate(self._required)
        ]
        ledger = Ledger(self._table(kept), n_rows)
        ledger.buy(np.flatnonzero(bought & (self.prices > 0)).astype(np.int32))
        return ledger

    def with_free_columns(self, n: int) -> BoundCosts:
        """The same prices for a matrix with ``n`` more columns at its end, which are one group and cost nothing."""
        wider = copy(self)
        wider.column_group = np.append(self.column_group, np.full(n, self.n_groups)).astype(np.int32)
        wider.prices = np.append(self.prices, 0).astype(np.int64)
        wider._required = [*self._required, []]
        wider.table = wider._table(wider._required)
        return wider

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundCosts, (self.costs, self.column_group)


# ---------------------------------------------------------------------- checks


def _as_pandas(prices: Any) -> Any:
    """A table or column of another library (pyarrow, polars) as one of pandas; all else as it is."""
    return prices.to_pandas() if hasattr(prices, "to_pandas") else prices


def _mapping(data: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{what} must be a mapping, not {type(data).__name__}")
    return data


def _cell(labels: Sequence[Column]) -> str:
    """The text from which ``_listed`` reads ``labels`` back."""
    text = ";".join(map(str, labels))
    plain = text.isprintable() and not text.lstrip().startswith("[") and _listed(text, "") == list(labels)
    return text if plain else json.dumps(list(labels))


def _listed(cell: Any, where: str) -> list[Any]:
    """The entries of a cell of a cost table, as ``from_frame`` describes."""
    if cell is None:
        return []
    if isinstance(cell, (list, tuple, np.ndarray)):
        return list(cell)
    if is_integer(cell) or (isinstance(cell, float) and cell.is_integer()):
        return [int(cell)]  # a column of integers with gaps is one of floats
    if not isinstance(cell, str):
        raise ValueError(f"{where} is {cell!r}, which is not a list of names or positions")
    text = cell.strip()
    if not text.startswith("["):
        parts = [part.strip() for part in text.split(";")]
        return [int(part) if _POSITION.fullmatch(part) else part for part in parts if part]
    try:
        return list(json.loads(text))
    except (ValueError, RecursionError):
        raise ValueError(f"{where} begins with '[' but is not a list in JSON: {text[:60]!r}") from None
