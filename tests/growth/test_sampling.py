"""growth_and_streaming B.5: which model is grown next."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from anytime.growth.sampling import (
    SAMPLING_RULES,
    CostLimitError,
    Pool,
    draw_parent,
    hull_probabilities,
    parent_probabilities,
)


def falling_pool(n_selected: list[int]) -> Pool:
    """Models on a hull, given from the most accurate to the least."""
    n = len(n_selected)
    costs = np.arange(n, 0, -1.0)
    return Pool(costs, 1 / costs, np.array(n_selected))


def literal_draw(pool: Pool, generator: np.random.Generator) -> int:
    """The loop as the paper has it, on models that stand from the most accurate to the least."""
    while True:
        for m, n in enumerate(pool.n_selected):
            if generator.random() < 1 / (n + 1):
                return m


@pytest.mark.parametrize(
    ("n_selected", "expected"),
    [
        ([0, 0, 0], [1, 0, 0]),
        ([1, 0, 3], [1 / 2, 1 / 2, 0]),
        ([1, 1, 1], [4 / 7, 2 / 7, 1 / 7]),
        ([3, 1, 0, 2], [1 / 4, 3 / 8, 3 / 8, 0]),
    ],
)
def test_golden_probabilities(n_selected: list[int], expected: list[float]) -> None:
    """B.5, the four examples."""
    np.testing.assert_allclose(hull_probabilities(n_selected), expected, rtol=1e-14)
    np.testing.assert_allclose(parent_probabilities(falling_pool(n_selected)), expected, rtol=1e-14)


@pytest.mark.parametrize("draw", [draw_parent, literal_draw])
def test_frequencies_match_the_formula(draw: object) -> None:
    """B-P23, chi-square: of what is drawn here, and of the paper's loop."""
    pool, generator = falling_pool([2, 4, 1, 3]), np.random.default_rng(0)
    counts = np.bincount([draw(pool, generator) for _ in range(6000)], minlength=4)
    expected = hull_probabilities(pool.n_selected)
    assert stats.chisquare(counts, 6000 * expected).pvalue > 0.01
    assert stats.chisquare(counts, 6000 * np.full(4, 0.25)).pvalue < 1e-6  # negative control: not uniform


def test_no_model_above_the_limit_is_ever_drawn() -> None:
    """B-P24, with its negative control: without the limit some are."""
    rng = np.random.default_rng(1)
    for rule in SAMPLING_RULES:
        above = 0
        for _ in range(200):
            pool = Pool(rng.random(12), rng.random(12), rng.integers(0, 3, 12))
            limit = float(np.median(pool.costs))
            try:
                drawn = draw_parent(pool, rng, rule=rule, tolerance=0.1, cost_limit=limit)
                assert pool.costs[drawn] <= limit
            except CostLimitError:
                pytest.fail("the hull begins with the cheapest model, which is below the median")
            above += pool.costs[draw_parent(pool, rng, rule=rule, tolerance=0.1)] > limit
        assert above > 10


def test_a_limit_below_all_models_is_a_clear_error() -> None:
    """B-P24."""
    with pytest.raises(CostLimitError, match=r"cheapest costs 1, more than the cost limit of 0\.5"):
        parent_probabilities(falling_pool([0, 0]), cost_limit=0.5)


def test_other_rules() -> None:
    pool = Pool(np.array([1.0, 2.0, 3.0, 2.5]), np.array([0.5, 0.3, 0.2, 0.6]), np.array([0, 5, 5, 0]))
    assert list(parent_probabilities(pool, rule="uniform_hull")) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert list(parent_probabilities(pool, rule="greedy_best")) == [0, 0, 1, 0]
    assert list(parent_probabilities(pool, rule="greedy_best", cost_limit=2)) == [0, 1, 0, 0]
    assert list(parent_probabilities(pool, rule="latest")) == [0, 0, 0, 1]
    with pytest.raises(
        ValueError, match="must be one of hull, uniform_hull, greedy_best, latest; not 'best'"
    ):
        parent_probabilities(pool, rule="best")


def test_the_band_takes_part() -> None:
    pool = Pool(np.array([1.0, 2.0, 3.0]), np.array([0.4, 0.305, 0.2]), np.array([9, 0, 9]))
    assert parent_probabilities(pool, tolerance=0.025)[1] == pytest.approx(0.9)
    assert parent_probabilities(pool)[1] == 0


def test_next_child_is_the_best_with_probability_one_over_n_plus_one() -> None:
    """B-P26: the reason for 1/(n+1), for children of equal distribution; not so when later ones get better."""
    scores = np.random.default_rng(2).random((20000, 6))
    for n in range(1, 6):
        best = scores[:, n] > scores[:, :n].max(axis=1)
        assert stats.binomtest(int(best.sum()), best.size, 1 / (n + 1)).pvalue > 0.001
        rising = scores[:, n] + 0.1 > scores[:, :n].max(axis=1)
        assert stats.binomtest(int(rising.sum()), rising.size, 1 / (n + 1)).pvalue < 1e-6
