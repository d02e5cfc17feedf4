"""Oracle gating (adaptive_approximation 2)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anytime_research.adaptive import oracle_curve, route_at_price, route_within_budget
from tests.reference.routing import least_loss_within


def problem(seed, n=8):
    random = np.random.default_rng(seed)
    l0, l1 = random.exponential(size=(2, n))
    c1 = random.uniform(0.1, 2, n)
    return l0, l1, c1 + random.uniform(0.1, 3, n), c1


@given(st.integers(0, 10**6), st.floats(0, 3))
def test_mean_loss_and_cost_follow_from_who_stays(seed, price):
    l0, l1, c0, c1 = problem(seed)
    routed = route_at_price(l0, l1, c0, c1, price)
    stays = routed.cheap == 1
    assert routed.loss == pytest.approx(np.where(stays, l1, l0).mean(), abs=1e-12)
    assert routed.cost == pytest.approx(np.where(stays, c1, c0).mean(), abs=1e-12)


@given(st.integers(0, 10**6), st.floats(0, 3))
@settings(max_examples=30, deadline=None)
def test_no_routing_of_the_same_cost_loses_less(seed, price):
    l0, l1, c0, c1 = problem(seed)
    routed = route_at_price(l0, l1, c0, c1, price)
    assert routed.loss <= least_loss_within(l0, l1, c0, c1, routed.cost) + 1e-12


def test_a_worse_routing_is_told_from_the_best():
    l0, l1, c0, c1 = problem(3)
    best = route_within_budget(l0, l1, c0, c1, 0.5 * (c0.mean() + c1.mean()))
    order = np.argsort(-(l1 - l0) / (c0 - c1))  # the wrong way round
    cheap = np.zeros(l0.size)
    for row in order:
        cheap[row] = 1.0
        if np.where(cheap == 1, c1, c0).mean() <= best.cost:
            break
    assert np.where(cheap == 1, l1, l0).mean() > best.loss + 0.01


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_a_budget_is_met_by_splitting_at_most_one_row(seed, share):
    l0, l1, c0, c1 = problem(seed)
    budget = c1.mean() + share * (c0.mean() - c1.mean())
    routed = route_within_budget(l0, l1, c0, c1, budget)
    assert routed.cost <= budget + 1e-12
    assert np.sum((routed.cheap > 0) & (routed.cheap < 1)) <= 1
    assert (routed.cheap[l1 <= l0] == 1).all()
    assert routed.loss <= least_loss_within(l0, l1, c0, c1, budget) + 1e-12


def test_the_curve_holds_every_routing_by_price():
    l0, l1, c0, c1 = problem(5, 30)
    costs, losses = oracle_curve(l0, l1, c0, c1)
    assert (np.diff(costs) > 0).all()
    assert (np.diff(losses) < 0).all()
    for price in np.linspace(0, 3, 17):
        routed = route_at_price(l0, l1, c0, c1, price)
        nearest = np.argmin(abs(costs - routed.cost))
        assert (costs[nearest], losses[nearest]) == pytest.approx((routed.cost, routed.loss), abs=1e-12)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="price must not be negative"):
        route_at_price([0.0], [1.0], 2.0, 1.0, -1.0)
    with pytest.raises(ValueError, match="row 0: the costly model costs 1"):
        route_at_price([0.0], [1.0], 1.0, 2.0, 1.0)
    with pytest.raises(ValueError, match="the cheap model alone costs 1"):
        route_within_budget([0.0], [1.0], 2.0, 1.0, 0.5)
