"""Impurities by their formulas, and which of them are admissible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.forests.impurity import (
    ClassPairs,
    CustomImpurity,
    Entropy,
    Gini,
    Impurity,
    Powers,
    SquaredError,
    SquaredPairs,
)
from anytime_research.forests.impurities import Polynomial, check_admissible

COUNTS = st.lists(st.integers(0, 40), min_size=2, max_size=5)


def of(impurity: Impurity, counts: list[int]) -> float:
    return float(impurity([counts])[0])


@given(COUNTS)
def test_pairs_counts_pairs_of_different_classes(counts: list[int]) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    assert of(ClassPairs(), counts) == (labels[:, None] != labels).sum() / 2


@given(COUNTS, st.sampled_from([0.5, 1, 1.5, 2, 2.75, 7]))
def test_threshold_pairs_is_its_formula(counts: list[int], alpha: float) -> None:
    wanted = sum(
        max(max(a - alpha, 0) * max(b - alpha, 0) - alpha**2, 0) for a, b in itertools.combinations(counts, 2)
    )
    assert of(ClassPairs(alpha), counts) == wanted


@given(COUNTS, st.integers(2, 5))
def test_powers_is_its_formula_and_of_degree_two_twice_pairs(counts: list[int], degree: int) -> None:
    assert of(Powers(degree), counts) == sum(counts) ** degree - sum(n**degree for n in counts)
    assert of(Powers(2), counts) == 2 * of(ClassPairs(), counts)


@given(st.tuples(*[st.integers(0, 40)] * 3))
def test_a_polynomial_is_its_formula_and_pairs_is_one(counts: tuple[int, int, int]) -> None:
    a, b, c = counts
    cubic = Polynomial([(0.5, (2, 1, 0)), (3.0, (1, 1, 1))])
    assert of(cubic, list(counts)) == 0.5 * a * a * b + 3 * a * b * c
    pairs = Polynomial([(1, (1, 1, 0)), (1, (1, 0, 1)), (1, (0, 1, 1))])
    assert of(pairs, list(counts)) == of(ClassPairs(), list(counts))


def test_entropy_and_gini_are_per_example() -> None:
    np.testing.assert_allclose(
        Entropy()([[1, 1], [3, 1], [0, 5], [0, 0]]), [np.log(2), 0.562335, 0, 0], atol=1e-6
    )
    np.testing.assert_allclose(Gini()([[1, 1], [3, 1], [0, 5], [0, 0]]), [0.5, 0.375, 0, 0])
    assert Gini()([[30, 10]]) == Gini()([[3, 1]])


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-9, 9)), min_size=1, max_size=8))
def test_squared_pairs_sums_over_pairs_of_examples(examples: list[tuple[int, int]]) -> None:
    w, y = np.array(examples, dtype=float).T
    sums = [[w.sum(), (w * y).sum(), (w * y * y).sum()]]
    pairs = itertools.combinations(range(len(w)), 2)
    assert SquaredPairs()(sums)[0] == sum(w[i] * w[j] * (y[i] - y[j]) ** 2 for i, j in pairs)
    np.testing.assert_allclose(
        SquaredError()(sums)[0], np.average((y - np.average(y, weights=w)) ** 2, weights=w)
    )


# ---------------------------------------------------------------------- admissibility


@pytest.mark.parametrize("alpha", [0, 0.5, 1, 1.5, 2, 2.7, 3, 4])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_threshold_pairs_is_admissible(alpha: float, n_classes: int) -> None:
    """budgeted_trees 3.6."""
    report = check_admissible(ClassPairs(alpha), n_classes, max_count=12 if n_classes == 2 else 9)
    assert report.admissible, report
    assert report.counterexample is None


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_powers_is_admissible_and_its_least_value_is_two_to_the_degree_less_two(degree: int) -> None:
    """budgeted_trees 3.6."""
    for n_classes in (2, 3):
        assert check_admissible(Powers(degree), n_classes).admissible
    sets = np.array(list(itertools.product(range(5), repeat=3)))
    found = Powers(degree)(sets)
    assert found[found > 0].min() == 2**degree - 2 == {2: 2, 3: 6, 4: 14, 5: 30}[degree]


@pytest.mark.parametrize("impurity", [Gini(), Entropy()])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gini_and_entropy_are_neither_monotone_nor_supermodular(impurity: Impurity, n_classes: int) -> None:
    """budgeted_trees 3.6."""
    report = check_admissible(impurity, n_classes)
    assert (report.non_negative, report.pure) == (True, True)
    assert not report.monotone
    assert not report.supermodular
    assert not report.admissible
    assert "not monotone" in str(report.counterexample)


def test_threshold_pairs_forgives_small_sets() -> None:
    """budgeted_trees 3.6: a balanced set once both counts are at most 2 alpha, an unbalanced one at about alpha."""
    assert of(ClassPairs(3), [6, 6]) == 0 < of(ClassPairs(3), [7, 6])
    assert of(ClassPairs(3), [10_000, 3]) == 0 < of(ClassPairs(3), [10_000, 4])
    integer = ClassPairs(3)(np.array(list(itertools.product(range(20), repeat=2))))
    assert integer[integer > 0].min() == 1


def test_of_numbers_pairs_of_squares_are_admissible_and_the_mean_square_is_not() -> None:
    for values in (2, 3):
        assert check_admissible(SquaredPairs(), values).admissible
        assert not check_admissible(SquaredError(), values).monotone


def test_a_polynomial_is_admissible() -> None:
    assert check_admissible(Polynomial([(0.5, (2, 1)), (1, (1, 3))])).admissible


def broken(kind: str) -> CustomImpurity:
    functions = {
        "non_negative": lambda n: n.prod(axis=1) - 0.5 * (n.sum(axis=1) == 1),
        "pure": lambda n: n.sum(axis=1),
        "monotone": lambda n: n.prod(axis=1) * (n.max(axis=1) < 5),
        "supermodular": lambda n: np.sqrt(n.prod(axis=1)),
    }
    return CustomImpurity(functions[kind])


@pytest.mark.parametrize("kind", ["non_negative", "pure", "monotone", "supermodular"])
def test_the_checker_finds_what_is_broken_and_says_where(kind: str) -> None:
    report = check_admissible(broken(kind))
    assert not getattr(report, kind)
    assert not report.admissible
    where = {
        "non_negative": "F(0, 1) = -0.5",
        "pure": "F(0, 1) = 1",
        "monotone": "F(4, 1) = 4",
        "supermodular": "one of class 0 adds less to the set (0, 1)",
    }
    assert where[kind] in str(report.counterexample)


def test_a_custom_impurity_has_one_number_for_each_set() -> None:
    with pytest.raises(ValueError, match=r"2 sets has the shape \(2, 2\)"):
        CustomImpurity(lambda n: n)([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClassPairs(-1), "alpha is -1"),
        (lambda: ClassPairs(np.inf), "alpha is inf"),
        (lambda: Powers(1), "degree is 1"),
        (lambda: Polynomial([]), "at least one term"),
        (lambda: Polynomial([(-1, (1, 1))]), "term 0 has gamma -1"),
        (lambda: Polynomial([(1, (1, 1)), (1, (2, 0))]), r"term 1 has exponents \(2, 0\); at least two"),
        (lambda: Polynomial([(1, (1, -1))]), "whole and not negative"),
        (lambda: Polynomial([(1, (1, 1)), (1, (1, 1, 1))]), "term 1 has 3 exponents, term 0 has 2"),
        (lambda: Polynomial([(1, (1, 1))])([[1, 2, 3]]), "exponents for 2 classes, there are 3"),
        (lambda: ClassPairs()([1, 2]), r"not of shape \(2,\)"),
        (lambda: SquaredPairs()([[1, 2]]), "not 2 columns"),
        (lambda: check_admissible(ClassPairs(), n_classes=1), "n_classes is 1"),
    ],
)
def test_what_is_no_impurity_is_told(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
