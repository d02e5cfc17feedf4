"""growth_and_streaming B.1.1: forward stagewise regression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anytime_research.growth.forward_stagewise import ForwardStagewise

Array = NDArray[np.float64]


def orthonormal(n: int = 60, d: int = 6) -> tuple[Array, Array]:
    """X with X'X = n I, and a target."""
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(n, d)))[0] * np.sqrt(n)
    return X, X @ np.array([1.5, -1.0, 0.6, 0.3, -0.1, 0.0]) + 0.1 * rng.normal(size=n)


def from_soft_threshold(X: Array, y: Array, eps: float, n_steps: int) -> float:
    """How far the path is from ``S(corr_j, tau)`` at most, tau being the largest correlation that is left."""
    correlations, farthest = X.T @ y / len(X), 0.0
    for w in ForwardStagewise(eps, n_steps).fit(X, y).coefficients:
        tau = np.abs(X.T @ (y - X @ w)).max() / len(X)
        expected = np.sign(correlations) * np.maximum(np.abs(correlations) - tau, 0)
        farthest = max(farthest, float(np.abs(w - expected).max()))
    return farthest


def test_the_path_is_soft_thresholding_where_columns_are_orthonormal() -> None:
    """B-P1, and its negative control: not so for correlated columns."""
    X, y = orthonormal()
    assert from_soft_threshold(X, y, eps=0.01, n_steps=300) <= 0.01 + 1e-12
    mixed = X @ (np.eye(6) + 0.5 * np.ones((6, 6)))
    mixed /= np.sqrt((mixed**2).mean(axis=0))
    assert from_soft_threshold(mixed, y, eps=0.01, n_steps=300) > 0.05


def test_training_loss_does_not_rise_by_more_than_half_the_squared_step() -> None:
    """B-P2: it does rise by about that at the end, where every column is overstepped."""
    X, y = orthonormal()
    for eps in (0.2, 0.02):
        changes = np.diff(ForwardStagewise(eps, 500).fit(X, y).losses(X, y))
        assert changes.max() <= eps**2 / 2 + 1e-12
        assert changes.max() > 0
        assert changes[:5].max() < 0


def test_it_is_boosting_with_columns_as_learners() -> None:
    """B-P3: gradient boosting in the space of predictions, with learners ±X_j and a constant step."""
    rng = np.random.default_rng(1)
    X, eps = rng.normal(size=(50, 8)), 0.03
    y = X @ rng.normal(size=8) + rng.normal(size=50)
    learners, answer = np.column_stack([X, -X]), np.zeros(50)
    path = ForwardStagewise(eps, 200).fit(X, y)
    for w in path.coefficients[1:]:
        gradient = (answer - y) / len(y)
        answer = answer + eps * learners[:, (gradient @ learners).argmin()]
        np.testing.assert_allclose(X @ w, answer, atol=1e-10)
    greedy = X @ np.linalg.lstsq(X, y, rcond=None)[0]  # negative control: not yet where least squares is
    assert np.abs(X @ path.coefficients[-1] - greedy).max() > 0.1
