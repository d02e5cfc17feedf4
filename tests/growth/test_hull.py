"""growth_and_streaming B.5: the lower convex hull against its definition, and what it measures."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.growth.hull import error_at, hull_area, hull_band, hull_values, lower_hull

points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)


def split(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c for c, _ in pairs], dtype=float), np.array([e for _, e in pairs], dtype=float)


def mixture_dominates(i: int, c: np.ndarray, e: np.ndarray) -> bool:
    """Whether others, or two of them mixed, are as cheap and as accurate as model i (an equal model: only an earlier one)."""
    others = [j for j in range(c.size) if j != i and ((c[j], e[j]) != (c[i], e[i]) or j < i)]
    for j, k in combinations_with_replacement(others, 2):
        low, high = (j, k) if c[j] <= c[k] else (k, j)
        if c[low] > c[i]:
            continue
        most = 1.0 if c[high] <= c[i] else (c[i] - c[low]) / (c[high] - c[low])  # weight of the costlier one
        if min(e[low], e[low] + most * (e[high] - e[low])) <= e[i] + 1e-12:
            return True
    return False


@given(points)
def test_hull_holds_what_no_mixture_dominates(pairs: list[tuple[int, int]]) -> None:
    """B-P21: monotone chain against the definition, equal and collinear points included."""
    c, e = split(pairs)
    expected = [i for i in range(c.size) if not mixture_dominates(i, c, e)]
    assert sorted(lower_hull(c, e)) == expected


def test_pareto_frontier_is_not_the_hull() -> None:
    """Negative control of B-P21: (2, 5) is dominated by no single model, but by a mixture of the two others."""
    c, e = [1.0, 2.0, 3.0], [6.0, 5.0, 0.0]
    assert list(lower_hull(c, e)) == [0, 2]
    assert error_at(c, e, 2.5) < error_at([1, 3], [6, 0], 2.5)


@given(points, points)
def test_hull_value_never_rises_as_models_are_added(
    pairs: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    """B-P22: anytime monotonicity, at any cost."""
    at = np.linspace(0, 10, 41)
    before, after = hull_values(*split(pairs), at), hull_values(*split(pairs + more), at)
    assert (after <= before + 1e-12).all()
    assert (error_at(*split(pairs + more), at) <= error_at(*split(pairs), at)).all()


def test_leaving_a_model_of_the_hull_out_raises_its_value() -> None:
    """Negative control of B-P22: every model of the hull is needed."""
    rng = np.random.default_rng(0)
    c, e = rng.random(60), rng.random(60)
    for i in lower_hull(c, e):
        rest = np.arange(60) != i
        assert hull_values(c[rest], e[rest], c[i]) > hull_values(c, e, c[i])


def test_only_the_falling_part_is_kept_and_first_of_equals() -> None:
    c, e = [3, 1, 1, 2, 5, 4], [1, 4, 4, 2, 0.5, 0.5]
    assert list(lower_hull(c, e)) == [1, 3, 0, 5]
    assert list(lower_hull([0, 1, 2], [2, 1, 0])) == [0, 2]  # the middle one is on the line
    assert list(lower_hull([1, 2], [0.1, 0.9])) == [0]


def test_band_admits_models_just_above_the_hull_and_no_others() -> None:
    c, e = [1.0, 2.0, 2.0, 3.0, 3.0], [0.4, 0.305, 0.31, 0.2, 0.2]  # the hull's value at 2 is 0.3
    assert list(hull_band(c, e, 0.025)) == [3, 1, 0]
    assert list(hull_band(c, e, 0.04)) == [3, 1, 2, 0]
    assert list(hull_band(c, e)) == [3, 0]
    with pytest.raises(ValueError, match="tolerance"):
        hull_band(c, e, -0.1)


@given(points, st.floats(0, 1))
def test_band_contains_the_hull_and_comes_most_accurate_first(
    pairs: list[tuple[int, int]], tolerance: float
) -> None:
    c, e = split(pairs)
    band = hull_band(c, e, tolerance)
    assert set(lower_hull(c, e)) <= set(band)
    assert (np.diff(e[band]) >= 0).all()
    assert len(set(band)) == len(band)


@given(points, st.integers(0, 10), st.integers(0, 10))
def test_area_equals_a_numeric_integral(pairs: list[tuple[int, int]], most: int, worst: int) -> None:
    c, e = split(pairs)
    at = (np.arange(0, 10, 1 / 512) + 1 / 1024)[: most * 512]
    height = np.maximum(worst - hull_values(c, e, at), 0)
    assert hull_area(c, e, (most, worst)) == pytest.approx(height.sum() / 512, abs=2e-3)


def test_bad_points_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        lower_hull([1, 2], [1])
    with pytest.raises(ValueError, match="same length"):
        lower_hull([], [])
    with pytest.raises(ValueError, match="finite"):
        lower_hull([1, np.nan], [1, 2])
