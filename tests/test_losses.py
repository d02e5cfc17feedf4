"""Losses and links: gradients, curvature, the best constant, and the answers scores stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.losses import (
    LINKS,
    LOSSES,
    TRAINING_LOSSES,
    Loss,
    huber,
    loss_for,
    quantile,
    regularised,
    training_loss,
)

BY_NAME = {
    **{name: loss for name, loss in TRAINING_LOSSES.items() if not loss.ranks},
    "quantile": quantile(0.8),
    "regularised hinge": regularised(TRAINING_LOSSES["hinge"], 0.7),
    "regularised logistic": regularised(TRAINING_LOSSES["logistic"], 0.3),
}
NAMES = sorted(BY_NAME)


def case(
    name: str, seed: int, n: int = 6, reach: float = 3.0
) -> tuple[Loss, np.ndarray, np.ndarray, np.ndarray]:
    """A loss, targets for it, and two score matrices."""
    rng = np.random.default_rng(seed)
    loss = BY_NAME[name]
    link = LINKS[loss.link]
    k = link.n_outputs(3)
    if link.classifies:
        y = rng.integers(0, link.n_classes(k), size=n)
    else:
        y = rng.poisson(2.0, size=(n, k)) if name == "poisson" else rng.normal(size=(n, k)) * 2
    return loss, y, rng.normal(size=(n, k)) * reach, rng.normal(size=(n, k)) * reach


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6))
def test_gradient_is_the_derivative(name: str, seed: int):
    loss, y, scores, _ = case(name, seed)
    step = 1e-6
    for k in range(scores.shape[1]):
        ahead, behind = scores.copy(), scores.copy()
        ahead[:, k] += step
        behind[:, k] -= step
        slope = (loss.per_row(ahead, y) - loss.per_row(behind, y)) / (2 * step)
        assert np.allclose(loss.gradient(scores, y)[:, k], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if BY_NAME[name].hessian is not None])
@given(seed=st.integers(0, 10**6))
def test_hessian_is_the_second_derivative_in_each_score(name: str, seed: int):
    loss, y, scores, _ = case(name, seed)
    step = 1e-6
    for k in range(scores.shape[1]):
        ahead, behind = scores.copy(), scores.copy()
        ahead[:, k] += step
        behind[:, k] -= step
        rise = (loss.gradient(ahead, y) - loss.gradient(behind, y))[:, k] / (2 * step)
        assert np.allclose(loss.hessian(scores, y)[:, k], rise, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6), reach=st.sampled_from([0.01, 1.0, 5.0]))
def test_convexity_and_smoothness_bound_each_row(name: str, seed: int, reach: float):
    """functional_gradient_and_greedy 1.2, inequalities (2.5), (2.8) and (2.9) with each loss's m and M."""
    loss, y, f, g = case(name, seed, reach=reach)
    away = (g - f) ** 2
    above = loss.per_row(g, y) - loss.per_row(f, y) - (loss.gradient(f, y) * (g - f)).sum(axis=1)
    slack = 1e-9 * (1 + np.abs(loss.per_row(f, y)) + np.abs(loss.per_row(g, y)))
    assert (above >= 0.5 * loss.convexity * away.sum(axis=1) - slack).all()
    if loss.smoothness is not None:
        assert (above <= 0.5 * loss.smoothness * away.sum(axis=1) + slack).all()


@pytest.mark.parametrize(
    ("name", "y", "direction", "m", "M"),
    [
        ("squared", [[0.0]], [1.0], 1.0, 1.0),
        ("logistic", [1], [1.0], 0.0, 0.25),
        ("multinomial", [0], [1.0, -1.0], 0.0, 0.5),
        ("one_vs_all", [0], [1.0, 0.0], 0.0, 0.25),
        ("least_squares", [0], [1.0, 0.0], 1.0, 1.0),
        ("huber", [[0.0]], [1.0], 0.0, 1.0),
        ("squared_hinge", [1], [1.0], 0.0, 2.0),
        ("regularised logistic", [1], [1.0], 0.3, 0.55),
    ],
)
def test_no_smaller_smoothness_would_do(name: str, y: list, direction: list, m: float, M: float):
    """functional_gradient_and_greedy 1.3, ERR-24 (1/4 for logistic loss): the constants, attained at scores 0."""
    loss, step = BY_NAME[name], 1e-3 * np.array([direction])
    assert (loss.convexity, loss.smoothness) == (m, M)
    rise = loss.gradient(step, np.array(y)) - loss.gradient(-step, np.array(y))
    assert (rise * step).sum() / (2 * (step**2).sum()) == pytest.approx(M, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "y", "far"),
    [
        ("poisson", [0], [[20.0]]),
        ("exponential", [1], [[-20.0]]),
        ("multiclass_exponential", [0], [[-20.0, 0.0, 0.0]]),
        ("absolute", [0.0], [[0.0]]),
        ("hinge", [1], [[1.0]]),
        ("multiclass_hinge", [0], [[1.0, 0.0, 0.0]]),
    ],
)
def test_no_smoothness_would_be_enough(name: str, y: list, far: list):
    loss, step = BY_NAME[name], np.zeros_like(np.array(far))
    step[0, 0] = 1e-6
    rise = loss.gradient(far + step, np.array(y)) - loss.gradient(far - step, np.array(y))
    assert loss.smoothness is None
    assert np.abs(rise[0, 0]) / 2e-6 > 1e5


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6))
def test_base_is_the_best_constant(name: str, seed: int):
    loss, y, scores, _ = case(name, seed, n=40)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, size=len(y))
    base = loss.base(y, scores.shape[1], weight)
    assert base.shape == (scores.shape[1],)
    if loss.kinked:
        rng = np.random.default_rng(seed)
        least = loss(np.tile(base, (len(y), 1)), y, weight)
        for reach in (1e-3, 0.1, 1.0):
            other = base + reach * rng.normal(size=base.shape)
            assert loss(np.tile(other, (len(y), 1)), y, weight) >= least - 1e-9
    else:
        slope = weight @ loss.gradient(np.tile(base, (len(y), 1)), y) / weight.sum()
        assert np.abs(slope).max() < 1e-7


def test_a_mean_is_exact_for_equal_targets_and_beside_a_row_of_weight_0():
    squared = TRAINING_LOSSES["squared"]
    assert squared.base(np.full(7, 0.1), sample_weight=np.arange(1, 8)) == 0.1
    assert squared.base(np.array([1e20, 1.0, 2.0, 4.0]), sample_weight=[0, 1, 1, 2]) == 2.75


@pytest.mark.parametrize(
    "name", sorted(n for n, loss in TRAINING_LOSSES.items() if LINKS[loss.link].classifies)
)
def test_base_is_finite_where_a_class_is_missing(name: str):
    link = LINKS[TRAINING_LOSSES[name].link]
    base = TRAINING_LOSSES[name].base(np.ones(10, dtype=int), link.n_outputs(3))
    assert np.isfinite(base).all()
    assert base[0] > 0 if link.binary else base.argmax() == 1


def test_one_vs_all_adds_up_a_logistic_loss_per_class():
    loss, y, scores, _ = case("one_vs_all", 0)
    single = TRAINING_LOSSES["logistic"]
    apart = sum(single.per_row(scores[:, [k]], (y == k).astype(int)) for k in range(3))
    assert np.allclose(loss.per_row(scores, y), apart)


def test_huber_is_squared_near_and_linear_far():
    loss = huber(2.0)
    assert loss.per_row(np.array([[1.5], [5.0], [-7.0]]), np.zeros(3)).tolist() == [1.125, 8.0, 12.0]
    assert loss.gradient(np.array([[1.5], [5.0], [-7.0]]), np.zeros(3)).ravel().tolist() == [1.5, 2.0, -2.0]


def test_every_link_has_a_loss_that_reads_its_scores():
    learned = set(LINKS) - {"least_cost"}  # of which scores are worked out from a matrix of costs, not fitted
    assert set(LOSSES) == learned
    assert all(loss_for(link).link == link for link in learned)


def test_least_squares_scores_become_chances():
    scores = np.array([[0.2, 0.6, -0.3], [-1.0, -2.0, -0.1], [3.0, 0.5, 0.5], [0.25, 0.25, 0.5]])
    chances = LINKS["least_squares"].transform(scores)
    assert np.allclose(
        chances, [[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
    )
    assert LINKS["least_squares"].classifies
    assert LINKS["least_squares"].n_classes(3) == 3


def test_least_squares_loss_is_squared_loss_to_indicators():
    loss, y, scores, _ = case("least_squares", 0)
    assert np.allclose(loss.per_row(scores, y), TRAINING_LOSSES["squared"].per_row(scores, np.eye(3)[y]))


def test_unknown_loss_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match="no loss 'sqared'; the losses are squared, huber"):
        training_loss("sqared")


def test_loss_without_gradient_cannot_be_learned_by():
    with pytest.raises(ValueError, match="'mine' has no gradient"):
        training_loss(Loss("mine", lambda scores, y: scores[:, 0]))


def test_exponential_scores_become_chances_by_twice_their_size():
    """The least of exponential loss is at half the log-odds: links undo that."""
    y = np.array([0, 1, 1, 1, 1, 2, 2, 2])
    binary, several = TRAINING_LOSSES["exponential"], TRAINING_LOSSES["multiclass_exponential"]
    chances = LINKS[several.link].transform(several.base(y)[None, :])
    assert np.allclose(chances, [[1 / 8, 4 / 8, 3 / 8]])
    chances = LINKS[binary.link].transform(binary.base((y > 0).astype(int))[None, :])
    assert np.allclose(chances, [[1 / 8, 7 / 8]])


def test_two_classes_may_be_coded_by_signs():
    for name in ("logistic", "exponential", "hinge", "squared_hinge"):
        loss, y, scores, _ = case(name, 1)
        assert np.array_equal(loss.gradient(scores, y), loss.gradient(scores, 2 * y - 1))
        assert np.array_equal(loss.per_row(scores, y), loss.per_row(scores, 2 * y - 1))


def test_quantile_is_where_it_should_be():
    """9 of 10 rows are at most the 0.9-quantile; at 0.5 the loss is half the absolute one."""
    y = np.random.default_rng(0).normal(size=1000)
    assert (y <= quantile(0.9).base(y)).mean() == 0.9
    scores = np.zeros((1000, 1))
    half = 0.5 * TRAINING_LOSSES["absolute"].per_row(scores, y)
    assert np.allclose(quantile(0.5).per_row(scores, y), half)
    with pytest.raises(ValueError, match="between 0 and 1; got 1"):
        quantile(1.0)


def test_multiclass_hinge_counts_the_nearest_rival():
    loss = TRAINING_LOSSES["multiclass_hinge"]
    scores = np.array([[2.0, 0.5, 0.0], [0.2, 0.0, 0.4], [0.0, 1.0, 3.0]])
    assert np.allclose(loss.per_row(scores, np.array([0, 0, 1])), [0.0, 1.2, 3.0])
    assert loss.gradient(scores, np.array([0, 0, 1])).tolist() == [[0, 0, 0], [-1, 0, 1], [0, -1, 1]]
