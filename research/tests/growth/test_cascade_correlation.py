"""growth_and_streaming B.8: Cascade-Correlation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import check_grad

from anytime_research.growth.cascade_correlation import CascadeCorrelation, covariance_with_errors

Array = NDArray[np.float64]


def two_spirals() -> tuple[Array, Array]:
    """The task on which the method was introduced: two spirals of three turns with 97 points each, one per class."""
    i = np.arange(97)
    radius, turn = 6.5 * (104 - i) / 104, i * np.pi / 16
    one = np.column_stack([radius * np.sin(turn), radius * np.cos(turn)])
    return np.vstack([one, -one]), np.repeat([[1.0], [-1.0]], 97, axis=0)


def errors_on(X: Array, Y: Array, **how: int) -> list[float]:
    model = CascadeCorrelation(**how).fit(X, Y)
    return [float((np.sign(F) != Y).mean()) for F in model.staged_predict(X)]


def test_gradient_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    Z, errors = rng.normal(size=(40, 5)), rng.normal(size=(40, 3))
    errors -= errors.mean(axis=0)
    weights = rng.normal(size=5)
    distance = check_grad(
        lambda w: covariance_with_errors(w, Z, errors)[0],
        lambda w: covariance_with_errors(w, Z, errors)[1],
        weights,
    )
    assert distance < 1e-6
    by_hand = sum(abs(np.cov(np.tanh(Z @ weights), errors[:, o], bias=True)[0, 1]) for o in range(3))
    assert covariance_with_errors(weights, Z, errors)[0] == pytest.approx(by_hand)


def test_exclusive_or_needs_one_unit() -> None:
    X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    Y = np.array([[-1.0], [1], [1], [-1]])
    errors = errors_on(X, Y, n_units=2)
    assert errors[0] >= 0.25
    assert errors[-1] == 0


def test_two_spirals_are_learned_and_trained_units_beat_random_ones() -> None:
    """From chance to 100 % of the training points with 22 to 26 units (the paper, whose outputs are sigmoids: 15).

    Random units are the negative control.
    """
    X, Y = two_spirals()
    trained = errors_on(X, Y, n_units=30)
    untrained = errors_on(X, Y, n_units=30, max_iter=0)
    assert trained[0] > 0.4
    assert trained[-1] == 0
    assert untrained[-1] > trained[-1] + 0.1


def test_units_are_frozen_and_squared_error_never_rises() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 4))
    Y = np.column_stack([np.sin(2 * X[:, 0]) * X[:, 1], X[:, 2] ** 2])
    short = CascadeCorrelation(n_units=3).fit(X, Y)
    long = CascadeCorrelation(n_units=6).fit(X, Y)
    for one, other in zip(short.units_, long.units_, strict=False):
        np.testing.assert_array_equal(one, other)
    squares = [((F - Y) ** 2).mean() for F in long.staged_predict(X)]
    assert (np.diff(squares) <= 1e-9).all()
    assert squares[-1] < 0.5 * squares[0]
    assert long.mult_adds()[:3] == [10, 5 + 12, 5 + 6 + 14]
