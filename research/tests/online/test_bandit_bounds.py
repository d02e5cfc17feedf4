"""Rates and bounds of on-line adaptive approximation (adaptive_approximation 15, 16 and 18)."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from anytime.online.schedule import best_rates, regret_upper_bound
from anytime_research.online import (
    ASK,
    HardCase,
    LabelDistribution,
    ball_size,
    class_regret_upper_bound,
    fano_regret_bound,
    log_patterns,
    pattern_matrix,
    regret_lower_bound,
    split_fano_regret_bound,
)


@pytest.mark.parametrize(
    ("n_experts", "horizon", "evaluation_cost", "learning", "exploration", "bound"),
    [
        (10, 1000, 1.0, 0.0174372, 0.1320500, 396.150),
        (10, 1000, 0.5, 0.0219695, 0.2096164, 314.425),
        (100, 100_000, 0.1, 0.0027680, 0.1663726, 4991.18),
    ],
)
def test_values_of_section_15(n_experts, horizon, evaluation_cost, learning, exploration, bound):
    rates = best_rates(math.log(n_experts), horizon, evaluation_cost)
    assert float(rates.learning) == pytest.approx(learning, abs=5e-8)
    assert float(rates.exploration) == pytest.approx(exploration, abs=5e-8)
    assert regret_upper_bound(n_experts, horizon, evaluation_cost) == pytest.approx(bound, rel=2e-6)


@given(st.integers(2, 10**6), st.integers(1, 10**7), st.floats(0.01, 1.0), st.integers(1, 20))
def test_the_three_terms_of_the_bound_are_equal_at_the_rates(
    n_experts, horizon, evaluation_cost, n_explorers
):
    log_experts = math.log(n_experts)
    horizon = max(horizon, math.ceil(n_explorers * log_experts / evaluation_cost**2))
    rates = best_rates(log_experts, horizon, evaluation_cost, n_explorers=n_explorers)
    eta, gamma = float(rates.learning), float(rates.exploration)
    terms = [log_experts / eta, eta * n_explorers * horizon / gamma, evaluation_cost * gamma * horizon]
    np.testing.assert_allclose(terms, np.mean(terms), rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # T is long enough
        assert sum(terms) == pytest.approx(
            regret_upper_bound(n_experts, horizon, evaluation_cost, n_explorers=n_explorers)
        )


def test_too_few_rounds_explore_always_and_warn():
    rates = best_rates(math.log(100), 400, 0.1)  # needs 460.5
    assert float(rates.exploration) == 1.0
    with pytest.warns(UserWarning, match=r"fewer than 460\.5"):
        bound = regret_upper_bound(100, 400, 0.1)
    assert bound >= 0.1 * 400  # what asking every time loses at most


def test_costs_above_one_are_a_unit_of_loss():
    assert regret_upper_bound(10, 1000, 5.0) == pytest.approx(5 * regret_upper_bound(10, 1000, 1.0))
    with pytest.raises(ValueError, match="divide all losses"):
        best_rates(1.0, 10, 5.0)


def test_unknown_horizons_cost_a_constant():
    known = regret_upper_bound(10, 1000, 0.5)
    assert regret_upper_bound(10, 1000, 0.5, schedule="doubling") / known == pytest.approx(2.70, abs=0.005)
    assert regret_upper_bound(10, 1000, 0.5, schedule="decreasing") / known == pytest.approx(3.25 / 3)
    with pytest.raises(ValueError, match="schedule"):
        regret_upper_bound(10, 1000, schedule="weekly")


@pytest.mark.parametrize("arguments", [(0, 10, 1.0), (2, 0, 1.0), (2, 10, 0.0), (2, 10, -1.0)])
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(ValueError, match=r"at least one|positive"):
        regret_upper_bound(*arguments)


TABLE_16 = [  # K, T, eps, m*, lower, the source's last display, upper
    (4, 1000, 0.0409, 3.676, 3.6688, 5.5066, 334.51),
    (8, 1000, 0.0495, 24.084, 23.7939, 35.8359, 382.92),
    (20, 1000, 0.0569, 37.562, 36.8569, 55.6380, 432.47),
    (100, 1000, 0.0660, 51.619, 50.2867, 76.0961, 499.12),
    (100, 100_000, 0.0142, 1112.096, 1105.9119, 1661.9597, 10753.17),
    (1000, 100_000, 0.0163, 1392.493, 1382.7975, 2079.0438, 12309.31),
]


@pytest.mark.parametrize(("n_experts", "horizon", "gap", "requests", "lower", "printed", "upper"), TABLE_16)
def test_table_of_section_16(n_experts, horizon, gap, requests, lower, printed, upper):
    case = HardCase(n_experts, horizon)
    assert case.gap == pytest.approx(gap, abs=5e-5)
    assert case.requests == pytest.approx(requests, abs=5e-4)
    assert regret_lower_bound(n_experts, horizon) == pytest.approx(lower, abs=5e-5)
    assert regret_upper_bound(n_experts, horizon) == pytest.approx(upper, abs=5e-3)
    assert case.regret < printed  # the source loses a factor 1/2 and so claims too much


@pytest.mark.parametrize(("n_experts", "horizon"), [row[:2] for row in TABLE_16])
def test_the_lower_bound_is_the_least_value_of_the_parabola(n_experts, horizon):
    case = HardCase(n_experts, horizon)
    least = minimize_scalar(case.regret_at, bounds=(0, horizon), method="bounded", options={"xatol": 1e-6})
    assert least.x == pytest.approx(case.requests, rel=1e-4)
    assert least.fun == pytest.approx(case.regret, rel=1e-9)


def test_bounds_match_in_rate_and_differ_by_7_56():
    ratio = regret_upper_bound(10**300, 10**12) / regret_lower_bound(10**300, 10**12)
    assert ratio == pytest.approx(3 / 16 ** (-1 / 3), rel=0.02)


def test_the_lower_bound_says_where_it_holds():
    with pytest.raises(ValueError, match="positive from 4 on"):
        HardCase(3, 1000)
    with pytest.raises(ValueError, match="at least 5 rounds"):
        HardCase(1000, 4)
    HardCase(1000, 5)


def test_dimensions_take_the_place_of_experts():
    product = (math.e * 1000 / 3) ** 3 * (math.e * 1000 / 5) ** 5
    assert log_patterns(1000, 3, 5) == pytest.approx(math.log(product))
    with pytest.warns(UserWarning, match="every round explores"):
        class_regret_upper_bound(1000, 3, 5, evaluation_cost=0.1)
    assert class_regret_upper_bound(10**6, 3, 5) == pytest.approx(
        3 * log_patterns(10**6, 3, 5) ** (1 / 3) * 10**4
    )
    with pytest.raises(ValueError, match="no less than either"):
        log_patterns(4, 3, 5)


# ---------------------------------------------------------------------- classes of gates and models


@given(st.data())
def test_any_action_but_the_patterns_loses_at_least_the_gap(data):
    """Section 18: on eps <= c <= 1/2 - eps."""
    gap = data.draw(st.floats(0.001, 0.25))
    evaluation_cost = data.draw(st.floats(gap, 0.5 - gap))
    excess = LabelDistribution([ASK, 0, 1], evaluation_cost, gap).excess()
    np.testing.assert_allclose(excess[[0, 1, 2], [0, 1, 2]], 0, atol=1e-12)
    others = excess[~np.eye(3, dtype=bool)]
    assert others.min() >= gap - 1e-12


def test_outside_its_range_a_request_is_not_best():
    with pytest.raises(ValueError, match="gap <= evaluation_cost <= 1/2 - gap"):
        LabelDistribution([ASK], 0.5, 0.02)
    # what the check prevents: at c = 0.5 saying 1 beats the request by 0.02
    saying_one, asking = 1 - (0.5 + 0.02), 0.5
    assert saying_one - asking == pytest.approx(-0.02)


def test_samples_follow_their_distribution():
    world = LabelDistribution([ASK, 0, 1], evaluation_cost=0.3, gap=0.1)
    points, labels = world.sample(60_000, random_state=0)
    for point, probability in enumerate([0.4, 0.2, 0.8]):
        mine = labels[points == point]
        assert abs(mine.size - 20_000) < 5 * math.sqrt(60_000 * 2 / 9)
        assert abs(mine.mean() - probability) < 5 * math.sqrt(probability * (1 - probability) / mine.size)


def _thresholds():
    points = np.linspace(0, 1, 6)
    gates = [lambda x, s=s: s - x for s in np.linspace(-0.1, 1.1, 7)]
    models = [lambda x, s=s: x > s for s in np.linspace(-0.1, 1.1, 7)]
    return pattern_matrix(gates, models, points)


def test_patterns_are_those_of_all_pairs_once_each():
    patterns = _thresholds()
    assert len({tuple(row) for row in patterns}) == len(patterns)
    # k requests, then zeros, then ones: sum over k of the places where ones may begin
    assert len(patterns) == sum(6 - k + 1 for k in range(7))


def test_ball_sizes_by_counting():
    patterns = _thresholds()
    for share in (0.0, 0.2, 0.5, 1.0):
        counted = max(sum((a != b).sum() <= share * 6 for b in patterns) for a in patterns)
        assert ball_size(patterns, share) == counted


def test_other_patterns_lose_the_gap_at_every_point_that_differs():
    patterns = _thresholds()
    for i in (0, 7, 20):
        world = LabelDistribution(patterns[i], evaluation_cost=0.2, gap=0.05)
        for other in patterns:
            assert world.regret(other) >= 0.05 * (other != patterns[i]).mean() - 1e-12


def test_function_class_bounds_shrink_with_requests_and_know_their_ranges():
    patterns = np.array(list(np.ndindex(3, 3, 3, 3, 3))) - 1  # all 243 patterns of 5 points
    settings = {"evaluation_cost": 0.2, "gap": 0.05, "share": 0.2}
    none = fano_regret_bound(patterns, 100, 0, **settings)
    rivals = math.log(243 / 11)  # a ball: itself and 5 points with 2 other actions each
    assert none == pytest.approx(100 * 0.05 * 0.2 * (1 - math.log(2) / rivals))
    some = [fano_regret_bound(patterns, 100, m, **settings) for m in (0, 0.1, 0.5, 50)]
    assert some == sorted(some, reverse=True)
    assert some[-1] == 0
    asking = (patterns == ASK).any(axis=1)
    assert split_fano_regret_bound(patterns, 100, 0, **settings) == pytest.approx(
        0.8 * fano_regret_bound(patterns[asking], 100, 0, **settings)
    )
    free = split_fano_regret_bound(patterns, 100, 0, evaluation_cost=1.0, gap=0.05, share=0.2)
    assert free == pytest.approx(100 * 0.05 * 0.2 * (1 - math.log(2) / math.log(32 / 6)))
    with pytest.raises(ValueError, match=r"cost is 0\.48"):
        split_fano_regret_bound(patterns, 100, 0, evaluation_cost=0.48, gap=0.05, share=0.2)
    with pytest.raises(ValueError, match="share is 0"):
        fano_regret_bound(patterns, 100, 0, evaluation_cost=0.2, gap=0.05, share=0.0)
