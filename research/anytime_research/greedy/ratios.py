"""Constants of set functions, by which the bounds of greedy selection are known.

How far a function is from submodular, over all sets or over a sample of them; what the covariance of the columns promises of
least squares is in ``anytime.greedy.spectrum``.

The set ratio (Grubb, *Anytime Prediction*, Definition 4.2.1) and the elementwise ratio (Hu's thesis, equation 3.15) are
different things: the spectral constants bound the first from below and say nothing of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.greedy.selection import GainOracle, checked_gains

Array = NDArray[np.float64]
SetValues = Callable[[frozenset[int]], float] | GainOracle | Array

__all__ = [
    "elementwise_ratio",
    "submodularity_ratio",
    "submodularity_slack",
    "value_table",
]

_MOST_ELEMENTS = 16  # 3**16 pairs of sets
_NEGLIGIBLE = 1e-12  # a gain below this share of the function's range is a rounding error


# ---------------------------------------------------------------------- by enumeration


def value_table(function: Callable[[frozenset[int]], float], n_elements: int) -> Array:
    """The function at all sets, (2**n,): element ``x`` is in set number ``i`` if bit ``x`` of ``i`` is 1."""
    if n_elements > _MOST_ELEMENTS:
        raise ValueError(
            f"{n_elements} elements have too many subsets to look at them all (at most {_MOST_ELEMENTS} do); "
            "method='sampled' looks at some"
        )
    sets = [[x for x in range(n_elements) if i >> x & 1] for i in range(1 << n_elements)]
    return np.array([function(frozenset(s)) for s in sets], dtype=np.float64)


def submodularity_ratio(
    function: SetValues,
    n_elements: int | None = None,
    *,
    delta: float = 0.0,
    method: Literal["exact", "sampled"] = "exact",
    n_samples: int = 1000,
    random_state: Any = None,
) -> float:
    """The largest ``gamma`` up to 1 with which a function is (gamma, delta)-approximately submodular (Definition 4.2.1).

    ``gamma (F(A + S) - F(A)) - delta <= sum over x in S of (F(A + x) - F(A))`` for all sets A and S.

    Parameters
    ----------
    function : callable, GainOracle or (2**n,) float
        Monotone; from a frozenset of element numbers to a number, or all its values as ``value_table`` has them.
    n_elements : int, default=None
        Not needed with a table or an oracle.
    delta : float, default=0.0
    method : {"exact", "sampled"}, default="exact"
        "exact" looks at all pairs of sets, 3**n of them. "sampled" looks at some: what it returns is **only an upper estimate**,
        for the worst pair may not be among them, and proves no bound.
    n_samples : int, default=1000
        Pairs; of an oracle of true gains, which is cheap to lead along an order, random orders of all elements: pairs of
        prefixes are looked at then.
    random_state : int, Generator or None, default=None

    Examples
    --------
    >>> submodularity_ratio(lambda s: len(s) ** 2, 3)  # three together gain 9, one by one 3
    0.3333333333333333
    """
    ratio = 1.0
    for joint, single in _joint_and_single(function, n_elements, method, n_samples, random_state):
        ratio = min(ratio, ((single + delta) / joint).min(initial=1.0))
    return float(ratio)


def submodularity_slack(
    function: SetValues,
    n_elements: int | None = None,
    *,
    gamma: float = 1.0,
    method: Literal["exact", "sampled"] = "exact",
    n_samples: int = 1000,
    random_state: Any = None,
) -> float:
    """The smallest ``delta`` with which a function is (gamma, delta)-approximately submodular.

    Parameters are those of ``submodularity_ratio``. A sampled slack is **only a lower estimate** of the true one.
    """
    slack = 0.0
    for joint, single in _joint_and_single(function, n_elements, method, n_samples, random_state):
        slack = max(slack, (gamma * joint - single).max(initial=0.0))
    return float(slack)


def elementwise_ratio(
    function: SetValues,
    n_elements: int | None = None,
    *,
    method: Literal["exact", "sampled"] = "exact",
    n_samples: int = 1000,
    random_state: Any = None,
) -> float:
    """The largest ``gamma`` up to 1 with ``gamma (F(A + x) - F(A)) <= F(A' + x) - F(A')`` for all A' within A (3.15).

    What Theorem 3.4.3 needs. Parameters are those of ``submodularity_ratio``; here too a sample gives **only an upper estimate**.

    Examples
    --------
    >>> elementwise_ratio([0.0, 0.0, 0.32, 0.5])  # the first gains 0 alone and 0.18 beside the second
    0.0
    """
    if method == "exact":
        return _elementwise_of_table(_checked_table(function, n_elements))
    if isinstance(function, GainOracle):
        return min(
            (_elementwise_along(*order) for order in _orders(function, method, n_samples, random_state)),
            default=1.0,
        )
    value, n, negligible = _cached(function, n_elements, method)
    random = np.random.default_rng(random_state)
    ratio = 1.0
    for _ in range(n_samples if n else 0):
        shuffled = random.permutation(n)
        x, outer = shuffled[-1], shuffled[: random.integers(n)]
        inner = outer[: random.integers(outer.size + 1)]
        late, early = (value(frozenset([*some, x])) - value(frozenset(some)) for some in (outer, inner))
        if late > negligible:
            ratio = min(ratio, max(early, 0.0) / late)
    return float(ratio)


def _elementwise_of_table(table: Array) -> float:
    n = table.size.bit_length() - 1
    ratio = 1.0
    for x in range(n):
        halves = table.reshape(-1, 2, 1 << x)  # without x, with x
        gains = (halves[:, 1] - halves[:, 0]).ravel()  # over the sets of the other elements
        least = gains.copy()  # over all subsets of each set
        for y in range(n - 1):
            without_with = least.reshape(-1, 2, 1 << y)
            np.minimum(without_with[:, 1], without_with[:, 0], out=without_with[:, 1])
        real = gains > _NEGLIGIBLE * np.ptp(table)
        ratio = min(ratio, (np.maximum(least[real], 0.0) / gains[real]).min(initial=1.0))
    return float(ratio)


def _joint_and_single(
    function: SetValues, n_elements: int | None, method: str, n_samples: int, random_state: Any
) -> Iterator[tuple[Array, Array]]:
    """Pairs of arrays: what sets S gain on top of some A, and what their elements gain there one by one, summed."""
    if method == "exact":
        return _of_all_pairs(_checked_table(function, n_elements))
    if isinstance(function, GainOracle):
        return (_of_prefixes(*order) for order in _orders(function, method, n_samples, random_state))
    value, n, negligible = _cached(function, n_elements, method)
    return _of_some_pairs(value, n, negligible, n_samples, np.random.default_rng(random_state))


def _of_all_pairs(table: Array) -> Iterator[tuple[Array, Array]]:
    n, negligible = table.size.bit_length() - 1, _NEGLIGIBLE * np.ptp(table)
    for base in range(table.size):
        union, single = np.array([base]), np.zeros(1)
        for x in range(n):
            if not base >> x & 1:
                gain = max(table[base | 1 << x] - table[base], 0.0)
                union = np.concatenate([union, union | 1 << x])
                single = np.concatenate([single, single + gain])
        joint = table[union] - table[base]
        yield joint[joint > negligible], single[joint > negligible]


def _of_some_pairs(
    value: Callable[[frozenset[int]], float],
    n: int,
    negligible: float,
    n_samples: int,
    random: np.random.Generator,
) -> Iterator[tuple[Array, Array]]:
    for _ in range(n_samples if n else 0):
        shuffled = random.permutation(n)
        split = random.integers(n)
        base, added = shuffled[:split], shuffled[split : split + random.integers(1, n - split + 1)]
        there = value(frozenset(base))
        joint = value(frozenset([*base, *added])) - there
        single = sum(max(value(frozenset([*base, x])) - there, 0.0) for x in added)
        if joint > negligible:
            yield np.array([joint]), np.array([single])


def _orders(
    oracle: GainOracle, method: str, n_samples: int, random_state: Any
) -> Iterator[tuple[Array, Array]]:
    """Along random orders: (n + 1,) values before the steps and at the end; (n, n) gains there of those still to come."""
    _check_sampled(method)
    random, n = np.random.default_rng(random_state), oracle.n_elements
    for _ in range(n_samples if n else 0):
        oracle, order = oracle.restart(), random.permutation(n)
        values, gains = np.zeros(n + 1), np.zeros((n, n))
        for i in range(n):
            values[i] = oracle.value
            gains[i, i:] = checked_gains(oracle, order[i:])
            oracle.add(int(order[i]))
        values[n] = oracle.value
        yield values, np.where(gains > _NEGLIGIBLE * values[n], gains, 0.0)


def _of_prefixes(values: Array, gains: Array) -> tuple[Array, Array]:
    joint = values[None, 1:] - values[:-1, None]  # of the elements i to t
    real = (joint > _NEGLIGIBLE * values[-1]) & np.triu(np.ones_like(gains, dtype=bool))
    return joint[real], np.cumsum(gains, axis=1)[real]


def _elementwise_along(values: Array, gains: Array) -> float:
    least = np.minimum.accumulate(np.where(np.triu(np.ones_like(gains)) > 0, gains, np.inf), axis=0)
    real = gains > 0
    return float((least[real] / gains[real]).min(initial=1.0))


def _checked_table(function: SetValues, n_elements: int | None) -> Array:
    if callable(function):
        if n_elements is None:
            raise ValueError("give n_elements, the number of elements of the function")
        return value_table(function, n_elements)
    if isinstance(function, GainOracle):
        raise ValueError("an oracle is led along orders only: use method='sampled', or give all values")
    table = np.asarray(function, dtype=np.float64)
    n = table.size.bit_length() - 1
    if table.ndim != 1 or table.size != 1 << n or n_elements not in (None, n):
        raise ValueError(
            f"a table of values has 2**n entries, one per subset; this one has shape {table.shape}"
        )
    return table


def _cached(
    function: SetValues, n_elements: int | None, method: str
) -> tuple[Callable[[frozenset[int]], float], int, float]:
    """The function with a memory, its number of elements, and the gain that counts as none."""
    _check_sampled(method)
    if not callable(function):
        raise ValueError("a table holds all values: use method='exact'")
    if n_elements is None:
        raise ValueError("give n_elements, the number of elements of the function")

    @cache
    def value(elements: frozenset[int]) -> float:
        return float(function(frozenset(map(int, elements))))

    whole = value(frozenset(range(n_elements))) - value(frozenset())
    return value, n_elements, _NEGLIGIBLE * whole


def _check_sampled(method: str) -> None:
    if method != "sampled":
        raise ValueError(f"method is {method!r}; it is 'exact' or 'sampled'")
