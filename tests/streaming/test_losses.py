"""Losses of a stream against their table (growth_and_streaming A.6)."""

import numpy as np
import pytest

from anytime.losses import LINKS
from anytime.streaming.losses import STREAM_LOSSES, Absolute, Hinge, Logistic, Softmax, Squared, loss_named

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
def test_gradient_is_the_finite_difference(loss, m):
    rng = np.random.default_rng(0)
    Y, y = _points(loss, m, 200, rng)
    h = 1e-6
    for k in range(m):
        up, down = Y.copy(), Y.copy()
        up[:, k] += h
        down[:, k] -= h
        slope = (loss.value(up, y) - loss.value(down, y)) / (2 * h)
        np.testing.assert_allclose(
            loss.gradient(Y, y)[:, k], slope, atol=1e-6
        )  # no point is within h of a kink


@pytest.mark.parametrize(("loss", "m"), CASES, ids=str)
def test_curvature_lies_between_the_constants_of_the_table(loss, m):
    """Equation 5.2 on random pairs inside the radius."""
    rng = np.random.default_rng(1)
    (one, y), (two, _) = _points(loss, m, 3000, rng), _points(loss, m, 3000, rng)
    bend = loss.value(one, y) - loss.value(two, y) - ((one - two) * loss.gradient(two, y)).sum(axis=1)
    apart = ((one - two) ** 2).sum(axis=1)
    assert (bend >= 0.5 * loss.strong_convexity(RADIUS) * apart - 1e-9).all()
    if loss.smoothness() is not None:
        assert (bend <= 0.5 * loss.smoothness() * apart + 1e-9).all()


def test_constants_of_the_table():
    rho, Y = 0.01, 2.0
    assert (Squared().strong_convexity(), Squared().smoothness()) == (1, 1)
    assert Logistic(rho).strong_convexity(Y) == pytest.approx(2 * rho + 1 / (2 + 2 * np.exp(Y)))
    assert Logistic(rho).smoothness() == pytest.approx(0.25 + 2 * rho)
    assert (Hinge(rho).strong_convexity(Y), Hinge(rho).smoothness()) == (2 * rho, None)
    assert (Absolute(rho).strong_convexity(Y), Absolute(rho).smoothness()) == (2 * rho, None)
    assert (Softmax(0.0).strong_convexity(Y), Softmax(0.0).smoothness()) == (0, 0.5)


def test_printed_constants_are_wrong_with_a_penalty():
    """Negative control: 1/4 is no smoothness of the regularised logistic loss, which section 5.8.6 of Hu 2019 says it is."""
    loss = Logistic(0.1)
    one, two, y = np.array([[0.5]]), np.array([[-0.5]]), np.array([1])
    bend = loss.value(one, y) - loss.value(two, y) - ((one - two) * loss.gradient(two, y)).sum(axis=1)
    assert (bend > 0.5 * 0.25).all()


def test_softmax_is_flat_along_equal_scores_without_a_penalty():
    Y, y = np.array([[1.0, -2.0, 0.5]]), np.array([2])
    np.testing.assert_allclose(Softmax(0.0).value(Y + 100.0, y), Softmax(0.0).value(Y, y), rtol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(0.0), Softmax(0.0), Hinge(0.0)], ids=str)
def test_losses_are_finite_at_huge_scores(loss):
    m = 3 if isinstance(loss, Softmax) else 1
    Y = np.full((2, m), 1e4) * np.array([[1.0], [-1.0]])
    Y[:, 0] *= -1
    assert np.isfinite(loss.value(Y, np.array([1, 0]))).all()
    assert np.isfinite(loss.gradient(Y, np.array([1, 0]))).all()


@pytest.mark.parametrize(("loss", "m"), CASES, ids=str)
def test_all_prefixes_are_judged_as_each_by_itself(loss, m):
    rng = np.random.default_rng(3)
    _, y = _points(loss, m, 5, rng)
    Y = rng.normal(size=(4, 5, m))
    np.testing.assert_array_equal(loss.value(Y, y), np.stack([loss.value(part, y) for part in Y]))
    np.testing.assert_array_equal(loss.gradient(Y, y), np.stack([loss.gradient(part, y) for part in Y]))


def test_signs_and_class_numbers_mean_the_same():
    Y = np.array([[0.3], [-0.7]])
    for loss in (Logistic(), Hinge()):
        np.testing.assert_array_equal(loss.gradient(Y, np.array([0, 1])), loss.gradient(Y, np.array([-1, 1])))


def test_names():
    assert loss_named("hinge", 0.2) == Hinge(0.2)
    assert loss_named("squared", 0.2) == Squared(0.0)  # it needs no penalty, and would be biased by one
    assert all(
        loss.link in LINKS and LINKS[loss.link].classifies == loss.classifies
        for loss in STREAM_LOSSES.values()
    )
    with pytest.raises(ValueError, match="the losses are squared, logistic, hinge, absolute, softmax"):
        loss_named("huber")
    with pytest.raises(ValueError, match="not negative"):
        Hinge(-1.0)
