"""Price lists in which the first test of a group costs its full price and every later one a discounted price.

Turney (*Cost-sensitive classification*, JAIR 2, 1995) prices medical tests so: once blood is drawn, the next blood test is
cheaper. Where full price less discount is the same for all tests of a group, this is a shared step (the blood draw) that costs
the difference and that every test of the group requires. The bill then does not depend on the order of purchase.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import inf
from typing import Any, NamedTuple

_NAMES = {  # how the columns of such a table may be called, in small letters
    "name": ("test", "feature"),
    "full": ("full price", "full", "full cost", "cost full"),
    "discount": (
        "discounted price",
        "discount price",
        "discount",
        "discounted",
        "discount cost",
        "cost discount",
    ),
}


class DiscountedPrice(NamedTuple):
    """One test: its full price, the group it shares a step with, and its price once that step is paid."""

    name: str
    full: float
    group: str = ""
    discount: float | None = None


def is_discount_table(columns: Iterable[Any]) -> bool:
    """Whether a table with these columns lists full and discounted prices."""
    return set(_places(columns)) >= {"full", "discount"}


def read_discount_table(
    records: Sequence[Mapping[Any, Any]], columns: Iterable[Any]
) -> list[DiscountedPrice]:
    """The rows of a table with columns for test, group, full price and discounted price; the group is empty for a test alone."""
    places = _places(columns)
    if "name" not in places:
        raise ValueError(
            "a table of full and discounted prices needs a column 'test' with the names of the tests"
        )
    tests = []
    for row, record in enumerate(records):
        name = str(record[places["name"]] or "")
        if not name:
            raise ValueError(f"row {row} of the price table names no test")
        group = str(record.get(places.get("group"), "") or "")
        full = _number(record[places["full"]], f"the full price of test {name!r}")
        discount = None
        if group:
            discount = _number(record[places["discount"]], f"the discounted price of test {name!r}")
        tests.append(DiscountedPrice(name, full, group, discount))
    return tests


def prices_with_steps(
    tests: Sequence[DiscountedPrice], steps: Mapping[str, str] | None = None
) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Prices, and what each test requires, with a step for each group of tests: "step A" for "A", or as ``steps`` names it.

    Examples
    --------
    >>> tests = [DiscountedPrice("chol", 7.27, "A", 5.17), DiscountedPrice("fbs", 5.20, "A", 3.10), DiscountedPrice("age", 1.00)]
    >>> prices_with_steps(tests)
    ({'step A': 2.1, 'chol': 5.17, 'fbs': 3.1, 'age': 1.0}, {'chol': ['step A'], 'fbs': ['step A']})
    """
    shared: dict[str, float] = {}
    for test in tests:
        if not test.group:
            continue
        if test.discount is None:
            raise ValueError(f"test {test.name!r} is in group {test.group!r} but has no discounted price")
        saved = float(Decimal(repr(float(test.full))) - Decimal(repr(float(test.discount))))
        if saved < 0:
            raise ValueError(
                f"test {test.name!r} costs {test.full:g} in full but {test.discount:g} with discount"
            )
        if shared.setdefault(test.group, saved) != saved:
            raise ValueError(
                f"the tests of group {test.group!r} save different amounts ({shared[test.group]} and {saved}), "
                "so no single shared step has that price"
            )
    names = {group: f"step {group}" if steps is None else steps[group] for group in shared}
    prices = {names[group]: price for group, price in shared.items()}
    for test in tests:
        if test.name in prices:
            raise ValueError(
                f"test {test.name!r} appears twice in the price list, or has the name of a shared step"
            )
        prices[test.name] = test.full if test.discount is None else test.discount
    return prices, {test.name: [names[test.group]] for test in tests if test.group}


def _places(columns: Iterable[Any]) -> dict[str, Any]:
    """Which column holds what."""
    by_name = {str(column).strip().lower().replace("_", " "): column for column in columns}
    terms = {what: by_name[name] for what, names in _NAMES.items() for name in names if name in by_name}
    return terms | ({"group": by_name["group"]} if "group" in by_name else {})


def _number(value: Any, what: str) -> float:
    try:
        number = float(Decimal(str(value).strip()))
    except InvalidOperation:
        raise ValueError(f"{what} is {value!r}, which is not a number") from None
    if not 0 <= number < inf:
        raise ValueError(f"{what} is {number}; a price must be finite and not negative")
    return number
