"""Bounds of losses and gradients within a radius (growth_and_streaming A.6)."""

import numpy as np
import pytest

from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared
from anytime_research.streaming.loss_bounds import gradient_bound, value_bound

RADIUS = 3.0


def _cases():
    for rho in (0.0, 0.05):
        yield Squared(rho), 2
        yield Logistic(rho), 1
        yield Hinge(rho), 1
        yield Absolute(rho), 3
        yield Softmax(rho), 4


CASES = list(_cases())


def _points(loss, m, n, rng, spread=RADIUS):
    """Scores in a ball, and truths: targets in it too, or classes."""
    Y = rng.normal(size=(n, m))
    Y *= spread * rng.random((n, 1)) ** (1 / m) / np.linalg.norm(Y, axis=1, keepdims=True)
    if loss.classifies:
        return Y, rng.integers(0, max(m, 2), size=n)
    targets = rng.normal(size=(n, m))
    return Y, targets * rng.random((n, 1)) * spread / np.linalg.norm(targets, axis=1, keepdims=True)


@pytest.mark.parametrize(("loss", "m"), CASES, ids=str)
def test_gradients_and_values_keep_to_their_bounds(loss, m):
    rng = np.random.default_rng(2)
    Y, y = _points(loss, m, 3000, rng)
    assert np.linalg.norm(loss.gradient(Y, y), axis=1).max() <= gradient_bound(loss, RADIUS, m) + 1e-12
    assert loss.value(Y, y).max() <= value_bound(loss, RADIUS, m) + 1e-12


def test_constants_of_the_table():
    rho, Y = 0.01, 2.0
    assert gradient_bound(Hinge(rho), Y) == pytest.approx(1 + 2 * rho * Y)
    assert gradient_bound(Absolute(rho), Y, 4) == pytest.approx(2 + 2 * rho * Y)
