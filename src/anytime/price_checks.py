"""Checks of price lists: groups, their columns, requirements, and prices that can be counted exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

Column = str | int

_ROOMY_TICKS = 10**13  # a total that leaves ample room below 2**62 for the cost of evaluating stages
_MOST_TICKS = 2**53  # whole numbers up to this, and powers of ten up to 10**22, are exact as floats
_MOST_ZEROS = 22


def by_name(mapping: Any, what: str) -> dict[str, Any]:
    """``mapping`` with its keys as text, none of them twice."""
    listed = [(str(name), value) for name, value in mapping.items()]
    if twice := repeated(name for name, _ in listed):
        raise ValueError(f"{what} given twice for {listing(twice)}")
    return dict(listed)


def repeated(names: Iterable[object]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, count in Counter(map(str, names)).items() if count > 1]


def one_group_per_column(prices: Any) -> tuple[dict[str, list[Column]], dict[str, Any]]:
    """Columns and prices of groups of one column each."""
    if has_keys(prices):
        keyed = [(f"x{k}" if is_integer(k) else str(k), k, price) for k, price in prices.items()]
        if twice := repeated(name for name, _, _ in keyed):
            raise ValueError(f"price given twice for {listing(twice)} (the group of position 0 is 'x0')")
        columns: dict[str, list[Column]] = {n: [int(k) if is_integer(k) else n] for n, k, _ in keyed}
        return columns, {name: price for name, _, price in keyed}
    values = np.asarray(prices)
    if values.ndim != 1:
        raise ValueError(f"prices must be one number per column, not an array of shape {values.shape}")
    names = [f"x{j}" for j in range(values.size)]
    return {name: [j] for j, name in enumerate(names)}, dict(zip(names, values.tolist(), strict=True))


def columns_of(group: object, columns: Any) -> tuple[Column, ...]:
    """The columns that are listed for a group."""
    if isinstance(columns, str) or is_integer(columns):
        columns = [columns]
    if columns is None or isinstance(columns, Mapping):
        raise ValueError(f"group {group!r}: columns must be a list of names or positions")
    out: list[Column] = []
    for column in columns:
        if not isinstance(column, str) and not is_integer(column):
            raise ValueError(f"group {group!r}: a column is a name or a position, not {column!r}")
        out.append(str(column) if isinstance(column, str) else int(column))
    return tuple(out)


def is_integer(value: object) -> bool:
    """Whether a value is a whole number, and not a truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def checked_prices(groups: Mapping[str, Any], prices: Any, what: str) -> dict[str, float]:
    """A finite price for each of the groups, and for nothing else."""
    price_by_group = by_name(prices, what)
    if missing := [name for name in groups if name not in price_by_group]:
        raise ValueError(f"no {what} for {listing(missing)}")
    if unknown := [name for name in price_by_group if name not in groups]:
        raise ValueError(
            f"{what} given for {listing(unknown)}, which is not a group; the groups are {listing(groups)}"
        )
    out = {}
    for name in groups:
        try:
            value = float(price_by_group[name])
        except (TypeError, ValueError):
            raise ValueError(
                f"the {what} of {name!r} is {price_by_group[name]!r}, which is not a number"
            ) from None
        if not np.isfinite(value) or value < 0:
            raise ValueError(f"the {what} of {name!r} is {value}; a price must be finite and not negative")
        out[name] = value
    return out


def checked_requirements(
    groups: Mapping[str, Any], requires: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """What each group requires, each of it once."""
    out: dict[str, tuple[str, ...]] = {}
    for name, needed in requires.items():
        listed = [needed] if isinstance(needed, str) else list(needed)
        for group in [name, *listed]:
            if str(group) not in groups:
                raise ValueError(
                    f"requires names {group!r}, which is not a group; the groups are {listing(groups)}"
                )
        if listed:
            out[str(name)] = tuple(dict.fromkeys(map(str, listed)))
    return out


def reject_overlaps(groups: Mapping[str, tuple[Column, ...]]) -> None:
    """Raise where two groups name the same column."""
    owner: dict[Column, str] = {}
    for name, columns in groups.items():
        for column in columns:
            if column in owner:
                raise overlap(owner[column], name, column)
            owner[column] = name


def reject_cycles(requires: Mapping[str, tuple[str, ...]]) -> None:
    """Raise where groups require each other."""
    finished: set[str] = set()
    for root in requires:
        path, pending = [root], [iter(requires[root])]
        while path:
            needed = None if path[-1] in finished else next(pending[-1], None)
            if needed is None:
                finished.add(path.pop())
                pending.pop()
            elif needed in path:
                cycle = [*path[path.index(needed) :], needed]
                raise ValueError("groups require each other in a cycle: " + " -> ".join(map(repr, cycle)))
            elif needed not in finished:
                path.append(needed)
                pending.append(iter(requires.get(needed, ())))


def decimals(prices: Mapping[str, float]) -> int:
    """Decimals of a tick: enough for every price, and where possible coarse enough for evaluation costs far above them."""
    exact = {name: Decimal(repr(price)).normalize() for name, price in prices.items() if price > 0}
    if not exact:
        return 8  # for stages of 1e-8 seconds, and for those of networks of 1e10 multiplications
    total = sum(exact.values(), Decimal(0))
    most = (_MOST_TICKS / total).adjusted()  # the finest tick at which the total can be counted
    if most < -_MOST_ZEROS:
        raise ValueError(f"the prices add up to {total:.3g}; count them in a larger unit")
    needed = {name: -int(price.as_tuple().exponent) for name, price in exact.items()}
    length = {name: len(price.as_tuple().digits) for name, price in exact.items()}
    if max(length.values()) > 15 or max(needed.values()) > min(most, _MOST_ZEROS):
        # some are computed numbers, whose last digits mean little
        needed = {name: n if length[name] <= 12 else 8 - exact[name].adjusted() for name, n in needed.items()}
    finest = max(needed, key=lambda name: needed[name])
    if needed[finest] > _MOST_ZEROS:
        raise ValueError(
            f"the price {prices[finest]!r} of {finest!r} is too small to be counted; count prices in a smaller unit"
        )
    if needed[finest] > most:
        largest = max(exact, key=lambda name: exact[name])
        raise ValueError(
            f"the prices {prices[finest]!r} of {finest!r} and {prices[largest]!r} of {largest!r} are too far apart to be "
            "counted exactly in one list; round the smaller one, or make it 0"
        )
    return max(needed[finest], min((_ROOMY_TICKS / total).adjusted(), 15))


def overlap(one: str, other: str, column: Column) -> ValueError:
    """The error about two groups that name the same column."""
    return ValueError(f"groups {one!r} and {other!r} both name column {column!r}: groups may not overlap")


def has_keys(prices: Any) -> bool:
    """Whether ``prices`` go by key: a mapping or a pandas Series."""
    return hasattr(prices, "items") and getattr(prices, "ndim", 1) == 1


def listing(names: Iterable[Any]) -> str:
    """Names for a message: the first eight, and how many more there are."""
    listed = [repr(str(name)) for name in names]
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
