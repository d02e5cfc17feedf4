"""Schemes of loss weights: linear_and_networks 7.2, 7.3, properties A1 to A7."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from anytime.networks import (
    AdaLoss,
    ConstantWeights,
    FirstOrder,
    HalfEnd,
    LinearWeights,
    Minimax,
    Once,
    OneExit,
    loss_weights,
)

losses = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


def learned(scheme, *batches):
    for batch in batches:
        scheme(batch)
    return np.asarray(scheme.weights)


def test_adaloss_golden_numbers():
    """linear_and_networks A6."""
    scheme = AdaLoss(gamma=0.05, momentum=0.9)
    np.testing.assert_array_equal(scheme([2.0, 1.0, 0.5]), [1, 1, 1])
    np.testing.assert_allclose(scheme.weights, [0.2875, 0.525, 1.0])
    np.testing.assert_allclose(scheme([1.0, 0.8, 0.4]), [0.2875, 0.525, 1.0])
    np.testing.assert_allclose(scheme.means, [1.9, 0.98, 0.49])
    np.testing.assert_allclose(scheme.weights, [0.295, 0.525, 1.0], atol=2e-3)
    np.testing.assert_allclose(scheme.weights, 0.05 + 0.95 * 0.49 / np.array([1.9, 0.98, 0.49]))


@given(losses, st.floats(0, 1))
def test_largest_weight_is_one_at_the_smallest_loss_and_none_below_gamma(batch, gamma):
    """linear_and_networks A1."""
    weights = learned(AdaLoss(gamma), batch)
    assert weights.max() == pytest.approx(1.0)
    assert weights[np.argmin(batch)] == weights.max()
    assert weights.min() >= gamma


@given(losses)
def test_gamma_one_is_constant_and_gamma_zero_makes_weighted_losses_equal(batch):
    """linear_and_networks A2."""
    np.testing.assert_allclose(learned(AdaLoss(1.0), batch), 1.0)
    products = learned(AdaLoss(0.0), batch) * batch
    np.testing.assert_allclose(products, products[0], rtol=1e-9)


@given(losses, st.floats(0.01, 100), st.integers(0, 100))
def test_scaling_one_loss_leaves_the_direction_alone(batch, factor, which):
    """linear_and_networks A4: weight times loss does not depend on the unit of any one loss."""
    i = which % len(batch)
    scaled = [loss * (factor if j == i else 1.0) for j, loss in enumerate(batch)]
    before = learned(AdaLoss(0.0), batch) * np.eye(len(batch))  # gradients of unit losses
    after = learned(AdaLoss(0.0), scaled) * (
        np.eye(len(batch)) * np.where(np.arange(len(batch)) == i, factor, 1.0)
    )
    cosine = (before * after).sum() / np.linalg.norm(before) / np.linalg.norm(after)
    assert cosine == pytest.approx(1.0)


def test_scaling_one_loss_turns_the_direction_of_constant_weights():
    """The negative control of A4."""
    before, after = np.array([1.0, 1.0]), np.array([1.0, 10.0])
    assert before @ after / np.linalg.norm(before) / np.linalg.norm(after) < 0.9


def test_fixed_schemes_golden_numbers():
    """linear_and_networks A7."""
    four = np.ones(4)
    np.testing.assert_allclose(LinearWeights()(four), [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(HalfEnd()(four), [1 / 3, 1 / 3, 1 / 3, 1.0])
    np.testing.assert_allclose(ConstantWeights()(four), 1.0)
    np.testing.assert_allclose(OneExit(1)(four), [0, 1, 0, 0])
    np.testing.assert_allclose(OneExit()(four), [0, 0, 0, 1])


def test_period_holds_weights_and_once_sets_them_one_time():
    scheme = AdaLoss(period=3)
    held = [np.array(scheme([2.0, 1.0])) for _ in range(4)]
    assert all((w == 1).all() for w in held[:3])
    assert (held[3] != 1).any()
    once = Once(period=2)
    for batch in ([2.0, 1.0], [2.0, 1.0], [1.0, 8.0], [1.0, 8.0]):
        once(batch)
    np.testing.assert_allclose(once.weights, [0.05 + 0.95 / 2, 1.0])


def test_state_goes_on_where_it_was():
    scheme, other = AdaLoss(), AdaLoss()
    scheme([2.0, 1.0])
    other.load_state_dict(scheme.state_dict())
    scheme([1.0, 3.0])
    assert (np.asarray(other.weights) != np.asarray(scheme.weights)).any()  # a copy, not the same arrays
    other([1.0, 3.0])
    np.testing.assert_array_equal(other.weights, scheme.weights)


def test_a_loss_of_zero_does_not_take_all_weight_away():
    weights = learned(AdaLoss(0.05), [0.0, 1.0])
    assert np.isfinite(weights).all()
    assert weights.max() == 1.0


def test_first_order_balances_gradient_norms():
    np.testing.assert_allclose(learned(FirstOrder(0.0), [4.0, 1.0]), [0.25, 1.0])


def test_minimax_moves_weight_to_the_exit_that_is_furthest_behind():
    """growth_and_streaming C.4, against fixed losses: the best response of the opponent is the largest relative gap."""
    scheme = Minimax([1.0, 0.5, 0.25], rate=0.1)
    for _ in range(200):
        scheme([1.1, 0.6, 0.27])  # relative gaps 0.10, 0.20, 0.08
    assert np.argmax(scheme.weights) == 1
    assert scheme.weights.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_mixture_of_best_responses_is_as_good_as_the_value_of_the_game(seed):
    """growth_and_streaming C.4: the largest gap of their uniform mixture is above the value by sqrt(ln B / (2 T)) ranges at most.

    Networks are rows of losses, so that the best response to weights is exact. With constant weights it is not so.
    """
    networks = 1.0 + np.random.default_rng(seed).random((30, 5))
    gaps = networks - 1.0  # relative to references of 1
    lowest = linprog([*[0] * 30, 1], np.c_[gaps.T, -np.ones(5)], np.zeros(5), [[*[1] * 30, 0]], [1])
    rounds, largest = 400, {}
    for rate in (np.sqrt(8 * np.log(5) / rounds), 0.0):
        scheme, mixed = Minimax(np.ones(5), rate=rate), np.zeros(5)
        scheme(np.ones(5))
        for _ in range(rounds):
            best = int((gaps @ scheme.weights).argmin())
            mixed += gaps[best] / rounds
            scheme(networks[best])
        largest[rate > 0] = mixed.max()
    allowed = lowest.fun + np.sqrt(np.log(5) / (2 * rounds))
    assert lowest.fun - 1e-9 <= largest[True] <= allowed
    assert largest[False] > allowed  # negative control


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaLoss(gamma=1.5), "gamma must be between 0 and 1"),
        (lambda: AdaLoss(momentum=1.0), "momentum must be at least 0 and below 1"),
        (lambda: AdaLoss(period=0), "period must be at least 1"),
        (lambda: HalfEnd(0.0), "share must be above 0"),
        (lambda: OneExit(4)(np.ones(3)), "there is no exit 4; the network has 3 exits"),
        (lambda: Minimax([1.0, 0.0]), "references are losses above 0"),
        (lambda: Minimax([1.0])(np.ones(3)), "1 references, but the network has 3 exits"),
        (lambda: loss_weights("adalos"), "no scheme 'adalos'"),
    ],
)
def test_wrong_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
