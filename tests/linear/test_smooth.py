"""Sequences for smooth losses: refits against peers and plain methods, theorems on all sets of small problems, golden values."""

import warnings
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from anytime._native import softmax_pull, use_vectors, vectors, vectors_in_use
from anytime.greedy import doubling, greedy
from anytime.linear import GroupPursuitClassifier
from anytime.linear.learning_from_rows import _turned
from anytime.linear.smooth import Fit, GradientOracle, RefitOracle, SmoothObjective
from anytime.losses import LINKS, TRAINING_LOSSES, Loss
from anytime_research.linear.quadratic import QuadraticObjective
from tests.reference import smooth as plain

SEEDS = st.integers(0, 10**6)
SMOOTH = sorted(name for name, loss in TRAINING_LOSSES.items() if not (loss.kinked or loss.ranks))


def design(rng: np.random.Generator, n: int, d: int, mixing: float = 0.5) -> np.ndarray:
    """Correlated columns of mean 0 and variance 1."""
    Z = rng.normal(size=(n, d)) @ (np.eye(d) + mixing * rng.normal(size=(d, d)))
    return (Z - Z.mean(axis=0)) / Z.std(axis=0)


def targets(name: str, rng: np.random.Generator, Z: np.ndarray, k: int = 3) -> np.ndarray:
    """Targets that depend on Z, as the loss of this name reads them."""
    link = LINKS[TRAINING_LOSSES[name].link]
    signal = Z @ rng.normal(size=(Z.shape[1], link.n_outputs(k))) / np.sqrt(Z.shape[1])
    if name == "poisson":
        return rng.poisson(np.exp(0.5 * signal))
    noisy = signal + 0.7 * rng.normal(size=signal.shape)
    if not link.classifies:
        return noisy
    return (noisy[:, 0] > 0).astype(int) if link.binary else noisy.argmax(axis=1)


@pytest.mark.parametrize("name", ["hinge", "pairwise_logistic"])
def test_losses_with_kinks_or_over_pairs_are_refused(name: str):
    with pytest.raises(ValueError, match="linear models need one that is smooth in each row by itself"):
        SmoothObjective(np.eye(4), np.array([0, 1, 0, 1]), name)


def everything(objective: SmoothObjective) -> Fit:
    return objective.extended(objective.empty(), np.arange(objective.n_columns))


# ---------------------------------------------------------------------- gradients and refits


@pytest.mark.parametrize(("n", "n_classes"), [(1, 1), (7, 1), (1, 3), (63, 2), (64, 3), (65, 11), (300, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pull_of_softmax_is_that_of_the_loss_with_any_instructions(n: int, n_classes: int, dtype: type):
    """Rows of weight 0, scores as far apart as numbers go, and classes that are sure or impossible."""
    rng = np.random.default_rng(n)
    scores = rng.normal(size=(n, n_classes)).astype(dtype) * rng.choice([1, 30, 1e4, 1e30], (n, 1)).astype(
        dtype
    )
    y, weight = rng.integers(0, n_classes, n), rng.random(n).astype(dtype)
    weight[::5] = 0
    exact = scores.astype(np.float64)
    want = weight[:, None] * TRAINING_LOSSES["multinomial"].required_gradient()(exact, y)
    before, pulls = vectors_in_use(), []
    try:
        for name in vectors():
            use_vectors(name)
            pulls.append(softmax_pull(np.ascontiguousarray(scores.T), y, weight))
    finally:
        use_vectors(before)
    np.testing.assert_allclose(pulls[0].T, want, rtol=0, atol=4 * np.finfo(dtype).eps)
    for pull in pulls[1:]:
        np.testing.assert_array_equal(pull, pulls[0])


def test_pull_of_softmax_says_where_scores_went_too_far_and_refuses_what_does_not_fit():
    """A step of a line search may overflow: its row is NaN, the others are not."""
    scores, y, weight = np.zeros((2, 66)), np.zeros(66, dtype=np.int64), np.ones(66)
    scores[0, 3], scores[1, 65] = np.inf, np.nan
    pull = softmax_pull(scores, y, weight)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(pull).all(axis=0)), [3, 65])
    np.testing.assert_array_equal(np.isnan(pull).any(axis=0), np.isnan(pull).all(axis=0))
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match="no such class"):
            softmax_pull(scores, np.full(66, wrong), weight)
    with pytest.raises(ValueError, match="weight has 65 entries, expected 66"):
        softmax_pull(scores, y, weight[1:])


@pytest.mark.parametrize("name", SMOOTH)
def test_residual_is_minus_the_gradient_of_the_risk(name: str):
    """linear_and_networks 2.8, equation (3.28), against differences of the risk added up row by row."""
    rng = np.random.default_rng(0)
    Z = design(rng, 20, 4)
    y, loss, l2_regularization = targets(name, rng, Z), TRAINING_LOSSES[name], 0.1
    objective = SmoothObjective(Z, y, name, l2_regularization=l2_regularization)
    W = np.zeros((4, objective.n_outputs))
    W[[2, 0]] = rng.normal(size=(2, objective.n_outputs))
    a = rng.normal(size=objective.n_outputs)
    b = objective.residual(Fit(np.array([2, 0]), a, W[[2, 0]], scores=Z @ W + a))
    for d, k in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[d, k] = 1e-6
        rise = plain.risk(Z, y, loss, l2_regularization, W + step, a) - plain.risk(
            Z, y, loss, l2_regularization, W - step, a
        )
        assert b[d, k] == pytest.approx(-rise / 2e-6, abs=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("intercept", [True, False])
def test_refit_has_the_least_risk(name: str, intercept: bool):
    rng = np.random.default_rng(1)
    Z = design(rng, 60, 5)
    y, loss, l2_regularization = targets(name, rng, Z), TRAINING_LOSSES[name], 0.02
    objective = SmoothObjective(Z, y, loss, l2_regularization=l2_regularization, fit_intercept=intercept)
    least, W, a = plain.fitted(Z, y, loss, objective.n_outputs, l2_regularization, intercept=intercept)
    nothing, _, base = plain.fitted(
        Z[:, :0], y, loss, objective.n_outputs, l2_regularization, intercept=intercept
    )
    fit = everything(objective)
    assert fit.value == pytest.approx(nothing - least, abs=1e-10)
    assert np.allclose(fit.weights, W, atol=1e-6)
    if name == "multinomial":  # the same on all classes changes nothing
        a, base = a - a.mean(), base - base.mean()
    assert np.allclose(fit.intercept, a, atol=1e-6)
    assert np.allclose(objective.empty().intercept, base, atol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_refit_agrees_with_logistic_regression_of_scikit_learn(name: str):
    rng = np.random.default_rng(2)
    Z = design(rng, 300, 8)
    y, l2_regularization = targets(name, rng, Z), 1e-2
    peer = LogisticRegression(
        C=1 / (len(y) * l2_regularization), tol=1e-10, solver="newton-cholesky", max_iter=1000
    ).fit(Z, y)
    fit = everything(SmoothObjective(Z, y, name, l2_regularization=l2_regularization))
    assert np.allclose(fit.weights.T, peer.coef_, atol=1e-7)
    centre = peer.intercept_.mean() if name == "multinomial" else 0.0
    assert np.allclose(fit.intercept, peer.intercept_ - centre, atol=1e-7)


def test_refit_agrees_with_ridge_and_poisson_regression_of_scikit_learn():
    rng = np.random.default_rng(3)
    Z = design(rng, 200, 6)
    y, l2_regularization = targets("squared", rng, Z), 0.05
    fit = everything(SmoothObjective(Z, y, "squared", l2_regularization=l2_regularization))
    assert np.allclose(fit.weights.T, Ridge(alpha=len(y) * l2_regularization).fit(Z, y).coef_, atol=1e-9)
    y = targets("poisson", rng, Z, k=1)
    peer = PoissonRegressor(alpha=l2_regularization, tol=1e-10, max_iter=1000, solver="newton-cholesky").fit(
        Z, y.ravel()
    )
    fit = everything(SmoothObjective(Z, y, "poisson", l2_regularization=l2_regularization))
    assert np.allclose(fit.weights.ravel(), peer.coef_, atol=1e-7)
    assert np.allclose(fit.intercept, peer.intercept_, atol=1e-7)


@pytest.mark.parametrize("name", ["logistic", "multinomial", "squared"])
def test_gradient_vanishes_on_what_is_bought(name: str):
    """linear_and_networks 3.6, L2, after every purchase; the intercept's too."""
    rng = np.random.default_rng(4)
    Z = design(rng, 80, 6)
    y = targets(name, rng, Z)
    oracle = GradientOracle(SmoothObjective(Z, y, name, l2_regularization=1e-3), [0, 2, 4, 6])
    for g in (1, 0, 2):
        oracle.add(g)
        assert np.abs(oracle.objective.residual(oracle.fit)[oracle.fit.columns]).max() < 1e-8
        pull = TRAINING_LOSSES[name].gradient(oracle.fit.scores, y)
        assert np.abs(pull.mean(axis=0)).max() < 1e-8


def test_sample_weights_count_rows():
    rng = np.random.default_rng(5)
    Z = design(rng, 40, 4)
    y, times = targets("multinomial", rng, Z), rng.integers(0, 4, size=40)
    weighted = everything(SmoothObjective(Z, y, "multinomial", l2_regularization=0.01, sample_weight=times))
    repeated = everything(
        SmoothObjective(
            np.repeat(Z, times, axis=0), np.repeat(y, times), "multinomial", l2_regularization=0.01
        )
    )
    assert np.allclose(weighted.weights, repeated.weights, atol=1e-7)
    assert weighted.value == pytest.approx(repeated.value, abs=1e-12)


def test_two_classes_of_multinomial_are_logistic_with_half_the_ridge():
    rng = np.random.default_rng(6)
    Z = design(rng, 80, 5)
    y = targets("logistic", rng, Z)
    two = everything(SmoothObjective(Z, y, "multinomial", l2_regularization=0.04))
    one = everything(SmoothObjective(Z, y, "logistic", l2_regularization=0.02))
    assert np.allclose(two.weights[:, 1] - two.weights[:, 0], one.weights[:, 0], atol=1e-7)
    assert two.value == pytest.approx(one.value, abs=1e-12)


def test_a_loss_of_ones_own_takes_a_few_lines():
    log_cosh = Loss(
        "log-cosh",
        lambda s, y: np.log(np.cosh(s[:, 0] - y)),
        gradient=lambda s, y: np.tanh(s - y[:, None]),
        smoothness=1.0,
    )
    rng = np.random.default_rng(7)
    Z = design(rng, 60, 4)
    y = targets("squared", rng, Z, k=1)[:, 0]
    _, W, _ = plain.fitted(Z, y, log_cosh, 1, 0.01)
    fit = everything(SmoothObjective(Z, y, log_cosh, l2_regularization=0.01))
    assert np.allclose(fit.weights, W, atol=1e-6)


def test_single_precision_finds_the_same_model():
    rng = np.random.default_rng(8)
    Z = design(rng, 500, 20)
    y = targets("multinomial", rng, Z)
    exact = everything(SmoothObjective(Z, y, "multinomial", l2_regularization=1e-3))
    quick = everything(
        SmoothObjective(Z.astype(np.float32), y, "multinomial", l2_regularization=1e-3, tol=1e-4)
    )
    assert quick.value == pytest.approx(exact.value, rel=1e-6)
    assert np.allclose(quick.weights, exact.weights, atol=1e-3)


def test_sure_rows_drop_out_of_the_coordinates_not_of_the_risk():
    """Almost separable: most rows stop counting in the Gram matrix, and refits still end at the least risk."""
    rng = np.random.default_rng(9)
    Z = design(rng, 400, 4, mixing=0.0)
    y = (Z @ np.array([1.0, 1.0, 0.05, 0.05]) + 0.02 * rng.normal(size=400) > 0).astype(int)
    loss, l2_regularization = TRAINING_LOSSES["logistic"], 1e-5
    objective = SmoothObjective(Z, y, loss, l2_regularization=l2_regularization)
    fit = objective.empty()
    for columns in ([0, 1], [2], [3]):
        fit = objective.extended(fit, np.array(columns))
    bend = fit.gram.bend
    assert np.mean(bend > 1e-3 * bend.mean()) < 0.5
    least, W, _ = plain.fitted(Z, y, loss, 1, l2_regularization)
    nothing, *_ = plain.fitted(Z[:, :0], y, loss, 1, l2_regularization)
    assert fit.value == pytest.approx(nothing - least, abs=1e-9)
    assert np.allclose(fit.weights, W, rtol=1e-4)


def test_a_search_cut_short_says_so():
    rng = np.random.default_rng(10)
    Z = design(rng, 100, 10)
    y = targets("multinomial", rng, Z)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        everything(SmoothObjective(Z, y, "multinomial", l2_regularization=1e-4, max_iter=1))


@pytest.mark.parametrize("name", ["logistic", "multinomial", "poisson"])
def test_another_ridge_from_a_fit_is_the_fit_with_that_ridge(name: str):
    rng = np.random.default_rng(3)
    Z = design(rng, 60, 5)
    objective = SmoothObjective(Z, targets(name, rng, Z), name, l2_regularization=1.0)
    moved = objective.with_ridge(0.01).moved(everything(objective))
    direct = everything(SmoothObjective(Z, objective.y, name, l2_regularization=0.01))
    assert moved.weights == pytest.approx(direct.weights, abs=1e-6)
    assert moved.value == pytest.approx(direct.value, abs=1e-12)


def test_ridges_are_compared_in_as_many_coordinates_as_rows():
    """Turning the columns changes neither answers nor the length of the weights, so a wide table is made narrow."""
    rng = np.random.default_rng(4)
    Z, held = rng.normal(size=(30, 200)), rng.normal(size=(10, 200))
    y = (Z[:, 0] > 0).astype(int)
    turn = _turned(Z)
    assert turn.shape == (200, 30)
    wide = everything(SmoothObjective(Z, y, "logistic", l2_regularization=0.1))
    narrow = everything(SmoothObjective(Z @ turn, y, "logistic", l2_regularization=0.1))
    assert held @ turn @ narrow.weights == pytest.approx(held @ wide.weights, abs=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "multinomial", "one_vs_all"])
def test_a_refit_from_a_rough_fit_is_the_refit_from_the_one_before(loss: str):
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(300, 6))
    y = (Z[:, :3] + rng.normal(size=(300, 3))).argmax(axis=1)
    y = np.minimum(y, 1) if loss == "logistic" else y
    objective, rough = (SmoothObjective(Z, y, loss, l2_regularization=1e-3, tol=tol) for tol in (1e-10, 1e-2))
    first, new = objective.extended(objective.empty(), np.arange(4)), np.array([4, 5])
    near = rough.extended(rough.extended(rough.empty(), np.arange(4)), new)
    far, close = objective.extended(first, new), objective.extended(first, new, near)
    assert np.abs(near.weights - far.weights).max() > 1e-6
    np.testing.assert_allclose(close.weights, far.weights, atol=1e-9)
    np.testing.assert_allclose(close.intercept, far.intercept, atol=1e-9)
    np.testing.assert_allclose(objective.residual(close)[close.columns], 0.0, atol=1e-9)


def test_the_second_derivative_of_all_classes_is_that_of_the_gradient():
    rng = np.random.default_rng(6)
    Z, y, step = rng.normal(size=(80, 3)), rng.integers(0, 4, 80), 1e-6
    objective = SmoothObjective(Z, y, "multinomial", sample_weight=rng.uniform(0.5, 2.0, 80))
    columns, weights = np.arange(3), rng.normal(size=(4, 4))
    table = objective._design(columns)

    def gradient(point):
        scores = objective._scores(table, point.reshape(4, 4))
        return (table @ (objective.gradient(scores, y) * objective.weight[:, None])).ravel()

    shifts = step * np.eye(16)
    want = [(gradient(weights.ravel() + s) - gradient(weights.ravel() - s)) / (2 * step) for s in shifts]
    np.testing.assert_allclose(objective._second_derivative(table, weights), want, atol=1e-6)


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("n", "d", "n_classes"), [(200, 50, 2), (200, 1000, 2), (200, 50, 3), (5000, 100, 2), (5000, 100, 3)]
)
def test_log_losses_take_no_more_than_five_times_as_long_as_squared(n: int, d: int, n_classes: int):
    X, y = make_classification(n, d, n_informative=8, n_classes=n_classes, random_state=0)

    def seconds(loss: str) -> float:
        taken = []
        for _ in range(3):
            began = process_time()
            GroupPursuitClassifier(loss=loss, random_state=0).fit(X, y)
            taken.append(process_time() - began)
        return min(taken)

    assert seconds("auto") <= 5 * seconds("squared")


# ---------------------------------------------------------------------- orders


@pytest.mark.parametrize("rule", ["omp", "plain", "single", "forward"])
@given(seed=SEEDS, k=st.sampled_from([1, 2]))
def test_squared_loss_on_data_is_the_linear_method(rule: str, seed: int, k: int):
    """linear_and_networks 3.6, L12: same order, values and weights as closed forms on moments; several outputs too."""
    rng = np.random.default_rng(seed)
    Z = design(rng, 30, 6)
    y = targets("squared", rng, Z, k)
    groups, costs, l2_regularization = [[0, 1], [2], [3, 4, 5]], rng.uniform(0.5, 2.0, size=3), 0.01
    S, V = Z.T @ Z / 30, Z.T @ (y - y.mean(axis=0)) / 30
    order, values, path = plain.linear_sequence(S, V, groups, costs, l2_regularization, rule)
    for objective in (
        SmoothObjective(Z, y, "squared", l2_regularization=l2_regularization),
        QuadraticObjective(S, V, l2_regularization=l2_regularization),
    ):
        if rule == "forward":
            oracle = RefitOracle(objective, [0, 2, 3, 6])
        else:
            oracle = GradientOracle(objective, [0, 2, 3, 6], score={"omp": "whitened"}.get(rule, rule))
        found = greedy(oracle, costs)
        assert found.order.tolist() == order
        assert np.allclose(found.values, values, atol=1e-10)
        for fit, weights in zip(oracle.fits, path, strict=True):
            assert np.allclose(fit.weights, weights, atol=1e-7)


E1 = {
    "S": np.eye(7) + 0.9 * (np.pad(np.ones((3, 3)) - np.eye(3), ((0, 4), (0, 4)))),
    "V": np.array([0.5, 0.5, 0.5, 0.45, 0.45, 0.3, 0.2]),
    "start": [0, 3, 5, 6, 7],
    "costs": [1.0, 1.0, 0.5, 0.1],
}


@pytest.mark.parametrize(
    ("score", "cost_aware", "order", "shares"),
    [
        ("whitened", True, [1, 3, 0, 2], [0.405, 0.445, 0.712857, 0.802857]),
        ("forward", True, [1, 3, 0, 2], [0.405, 0.445, 0.712857, 0.802857]),
        ("plain", True, [0, 1, 3, 2], [0.267857, 0.672857, 0.712857, 0.802857]),
        ("single", True, [3, 0, 1, 2], [0.04, 0.307857, 0.712857, 0.802857]),
        ("whitened", False, [1, 0, 2, 3], [0.405, 0.672857, 0.762857, 0.802857]),
    ],
)
def test_e1_four_criteria_four_orders(score: str, cost_aware: bool, order: list, shares: list):
    """linear_and_networks 11, E1."""
    objective = QuadraticObjective(E1["S"], E1["V"])
    oracle = (
        RefitOracle(objective, E1["start"])
        if score == "forward"
        else GradientOracle(objective, E1["start"], score=score)
    )
    found = greedy(oracle, E1["costs"], cost_aware=cost_aware)
    assert found.order.tolist() == order
    assert np.allclose(2 * found.values, shares, atol=5e-7)


def test_e2_pursuit_and_forward_regression_differ():
    """linear_and_networks 11, E2."""
    objective = QuadraticObjective([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], [0.6, 0.5, 0.08])
    pursuit = greedy(GradientOracle(objective, [0, 1, 2, 3]), [1, 1, 1])
    forward = greedy(RefitOracle(objective, [0, 1, 2, 3]), [1, 1, 1])
    assert pursuit.order.tolist() == [0, 2, 1]
    assert np.allclose(pursuit.values, [0.18, 0.1832, 0.1874105], atol=5e-8)
    assert forward.order.tolist() == [0, 1, 2]
    assert np.allclose(forward.values, [0.18, 0.1842105, 0.1874105], atol=5e-8)


def test_g6_groups():
    """functional_gradient_and_greedy 11, G6: the best column alone, and squared norms, each mislead."""
    S, V = np.eye(5), [0.7, 0.49, 0.49, 0.49, 0.49]
    single = GradientOracle(QuadraticObjective(S, V), [0, 1, 5], score="single")
    assert np.allclose(2 * single.gains(np.array([0, 1])), [0.49, 0.2401])
    assert np.allclose(
        RefitOracle(QuadraticObjective(S, V), [0, 1, 5]).gains(np.array([0, 1])), [0.245, 0.4802]
    )
    assert RefitOracle(QuadraticObjective(S, V), [0, 1, 5], single=True).gains(np.array([0, 1])).argmax() == 0
    S = np.eye(12)
    S[:9, :9] = 1.0
    copies = QuadraticObjective(S, np.full(12, 0.5), l2_regularization=1e-3)
    both = np.array([0, 1])
    assert np.allclose(2 * GradientOracle(copies, [0, 9, 12], score="plain").gains(both), [2.25, 0.75])
    assert np.allclose(2 * GradientOracle(copies, [0, 9, 12]).gains(both), [0.24997, 0.74925], atol=5e-6)
    assert np.allclose(RefitOracle(copies, [0, 9, 12]).gains(both), [0.12499, 0.37463], atol=5e-6)


def test_one_target_given_as_a_column_changes_nothing():
    """functional_gradient_and_greedy 8.8: one target reduces to the plain method."""
    rng = np.random.default_rng(11)
    Z = design(rng, 40, 6)
    y = targets("squared", rng, Z, 1)
    flat, column = (
        greedy(
            GradientOracle(SmoothObjective(Z, t, "squared", l2_regularization=0.01), np.arange(7)), np.ones(6)
        )
        for t in (y[:, 0], y)
    )
    assert flat.order.tolist() == column.order.tolist()
    assert np.allclose(flat.values, column.values)


@given(seed=SEEDS)
def test_duplicated_targets_leave_the_order_unchanged(seed: int):
    """functional_gradient_and_greedy 8.8."""
    rng = np.random.default_rng(seed)
    Z = design(rng, 30, 5)
    y, costs = targets("squared", rng, Z, 2), rng.uniform(0.5, 2, size=5)
    for oracle in (GradientOracle, RefitOracle):
        once, twice = (
            greedy(oracle(SmoothObjective(Z, t, "squared", l2_regularization=0.1), np.arange(6)), costs)
            for t in (y, np.hstack([y, y]))
        )
        assert once.order.tolist() == twice.order.tolist()
        assert np.allclose(2 * once.values, twice.values)


# ---------------------------------------------------------------------- theorems


def small_problem(seed: int, name: str = "logistic", d: int = 4) -> tuple[SmoothObjective, float]:
    """A problem whose sets can all be fitted, and the constant that theory gives it."""
    rng = np.random.default_rng(seed)
    Z = design(rng, 30, d, mixing=1.0)
    l2_regularization = float(rng.choice([0.05, 0.1, 0.25, 0.5]))
    objective = SmoothObjective(
        Z, targets(name, rng, Z), name, l2_regularization=l2_regularization, fit_intercept=False
    )
    loss = objective.loss
    least = np.linalg.eigvalsh(Z.T @ Z / 30)[0]
    return objective, (loss.convexity * least + l2_regularization) / (loss.smoothness + l2_regularization)


def all_values(objective: SmoothObjective) -> dict[frozenset[int], float]:
    return plain.values_of_all_sets(
        lambda chosen: objective.extended(objective.empty(), np.array(chosen, dtype=int)).value,
        objective.n_columns,
    )


def greediness(objective: SmoothObjective, F: dict[frozenset[int], float], costs: np.ndarray) -> list[float]:
    """At each step of a pursuit, how its rate of gain compares with the best rate."""
    oracle = GradientOracle(objective, np.arange(objective.n_columns + 1))
    ratios, bought = [], frozenset()
    for x in greedy(oracle, costs).order.tolist():
        rates = {z: (F[bought | {z}] - F[bought]) / costs[z] for z in range(costs.size) if z not in bought}
        ratios.append(rates[x] / max(rates.values()))
        bought |= {x}
    return ratios


def test_theorems_5_4_3_and_5_4_4_on_60_logistic_problems():
    """functional_gradient_and_greedy 8.6: (gamma, 0)-approximately submodular, and pursuit (gamma, 0)-approximately greedy."""
    submodularity, worst_step = [], []
    for seed in range(60):
        objective, gamma = small_problem(seed)
        F = all_values(objective)
        submodularity.append(plain.submodularity(F) / gamma)
        costs = np.random.default_rng(seed).uniform(0.5, 2.0, size=4)
        worst_step.append(min(greediness(objective, F, costs)) / gamma)
    assert min(submodularity) >= 1 - 1e-9
    assert min(worst_step) >= 1 - 1e-9


def test_logistic_objectives_are_not_submodular():
    """Negative control of the above: with gamma = 1 the inequality fails."""
    assert any(plain.submodularity(all_values(small_problem(seed)[0])) < 0.99 for seed in range(20))


def test_theorems_5_5_1_and_5_5_2_for_simultaneous_targets():
    """functional_gradient_and_greedy 8.8: one against all is the sum of its targets, with the constants of the worst."""
    for seed in range(8):
        objective, gamma = small_problem(seed, "one_vs_all")
        F = all_values(objective)
        Z, y = objective.features.T, objective.y
        apart = [
            all_values(
                SmoothObjective(
                    Z,
                    (y == k).astype(int),
                    "logistic",
                    l2_regularization=objective.l2_regularization,
                    fit_intercept=False,
                )
            )
            for k in range(objective.n_outputs)
        ]
        assert all(F[s] == pytest.approx(sum(one[s] for one in apart), abs=1e-9) for s in F)
        assert plain.submodularity(F) >= min(plain.submodularity(one) for one in apart) - 1e-6
        assert plain.submodularity(F) >= gamma
        costs = np.random.default_rng(seed).uniform(0.5, 2.0, size=4)
        assert min(greediness(objective, F, costs)) >= gamma


@pytest.mark.parametrize("name", ["squared", "logistic", "multinomial", "one_vs_all", "huber"])
def test_whitened_score_never_exceeds_the_gain(name: str):
    """Lemma 5.4.1 of Grubb 2014, for groups, at every step and for every candidate; equal at the start for squared loss."""
    rng = np.random.default_rng(12)
    Z = design(rng, 60, 8)
    objective = SmoothObjective(Z, targets(name, rng, Z), name, l2_regularization=0.02)
    score, gain = GradientOracle(objective, [0, 3, 4, 6, 8]), RefitOracle(objective, [0, 3, 4, 6, 8])
    for step, g in enumerate([2, 0, 3, 1]):
        left = np.array([2, 0, 3, 1][step:])
        assert (score.gains(left) <= gain.gains(left) + 1e-10).all()
        if step == 0 and name == "squared":
            assert np.allclose(score.gains(left), gain.gains(left))
        score.add(g)
        gain.add(g)


# ---------------------------------------------------------------------- bounded weights


@given(seed=SEEDS, bound=st.sampled_from([0.05, 0.3, 0.5, 1.0, 3.0]))
def test_bounded_quadratic_agrees_with_slsqp(seed: int, bound: float):
    """functional_gradient_and_greedy 7, SQ-con."""
    rng = np.random.default_rng(seed)
    Z = design(rng, 20, 4, mixing=1.0)
    S, V = Z.T @ Z / 20, Z.T @ rng.normal(size=20) / 5
    value, w = plain.bounded_quadratic(S, V, bound)
    objective = QuadraticObjective(S, V, bound=bound)
    fit = objective.extended(objective.empty(), np.arange(4))
    assert np.linalg.norm(fit.weights) <= bound * (1 + 1e-12)
    assert fit.value == pytest.approx(value, abs=1e-7)
    assert np.allclose(fit.weights[:, 0], w, atol=1e-3)
    assert fit.value >= value - 1e-12 * max(1.0, value)  # theirs is no better, but for rounding


def test_a_large_bound_reproduces_unbounded_weights():
    """Grubb 2014, section 5.3."""
    rng = np.random.default_rng(13)
    Z = design(rng, 50, 5)
    y = targets("multinomial", rng, Z)
    S, V = Z.T @ Z / 50, Z.T @ np.eye(3)[y] / 50
    for free, bounded in (
        (QuadraticObjective(S, V), QuadraticObjective(S, V, bound=1e3)),
        (
            SmoothObjective(Z, y, "multinomial", l2_regularization=0.01),
            SmoothObjective(Z, y, "multinomial", l2_regularization=0.01, bound=1e3),
        ),
    ):
        assert np.allclose(everything(free).weights, everything(bounded).weights, atol=1e-9)


def test_bounded_squared_loss_is_the_same_on_data_and_on_moments():
    rng = np.random.default_rng(14)
    Z = design(rng, 50, 5)
    y = targets("squared", rng, Z, 2)
    S, V = Z.T @ Z / 50, Z.T @ (y - y.mean(axis=0)) / 50
    for bound in (0.1, 0.5):
        data = greedy(RefitOracle(SmoothObjective(Z, y, "squared", bound=bound), np.arange(6)), np.ones(5))
        moments = greedy(RefitOracle(QuadraticObjective(S, V, bound=bound), np.arange(6)), np.ones(5))
        assert data.order.tolist() == moments.order.tolist()
        assert np.allclose(data.values, moments.values, atol=1e-10)


@pytest.mark.parametrize("name", ["logistic", "multinomial", "poisson"])
@pytest.mark.parametrize("l2_regularization", [0.0, 0.02])
def test_bounded_smooth_weights_agree_with_slsqp(name: str, l2_regularization: float):
    """functional_gradient_and_greedy 7, SM-con; and the gradient is a multiple of the weights, as Karush, Kuhn and Tucker ask."""
    rng = np.random.default_rng(15)
    Z = design(rng, 60, 4)
    y, loss = targets(name, rng, Z), TRAINING_LOSSES[name]
    objective = SmoothObjective(Z, y, name, l2_regularization=l2_regularization, bound=0.4)
    fit = everything(objective)
    least, W, _ = plain.fitted(Z, y, loss, objective.n_outputs, l2_regularization, bound=0.4)
    nothing = plain.fitted(Z[:, :0], y, loss, objective.n_outputs, l2_regularization)[0]
    assert np.linalg.norm(fit.weights) == pytest.approx(0.4, rel=1e-12)
    assert fit.value == pytest.approx(nothing - least, abs=1e-8)
    assert np.allclose(fit.weights, W, atol=1e-4)
    b = objective.residual(fit)
    mu = float((b * fit.weights).sum() / (fit.weights**2).sum())
    assert mu > 0
    assert np.allclose(b, mu * fit.weights, atol=1e-7)


def test_g5_pursuit_of_bounded_weights_is_not_approximately_greedy_with_equal_costs():
    """functional_gradient_and_greedy 11, G5, ERR-23, first counterexample."""
    S = [[1, 0.9, -0.9], [0.9, 1, -0.8], [-0.9, -0.8, 1]]
    objective, alone = QuadraticObjective(S, [1, 2.9, 1.11], bound=1.0), np.arange(4)
    pursuit, forward = GradientOracle(objective, alone), RefitOracle(objective, alone)
    pursuit.add(0)
    forward.add(0)
    assert np.allclose(pursuit.fit.weights, 1.0)
    assert np.allclose(objective.residual(pursuit.fit).ravel(), [0.0, 2.00, 2.01], atol=1e-12)
    left = np.array([1, 2])
    assert left[pursuit.gains(left).argmax()] == 2
    gains = forward.gains(left)
    assert np.allclose(gains, [1.9017, 0.9429], atol=5e-5)
    assert gains[0] - 1.0**2 / 2 == pytest.approx(1.4017, abs=5e-5)
    assert gains[1] < gains[0] - 1.0**2 / 2


def test_g5_pursuit_of_bounded_weights_is_not_approximately_greedy_with_unequal_costs():
    """functional_gradient_and_greedy 11, G5, ERR-23, second counterexample."""
    objective, costs = QuadraticObjective(np.eye(2), [1.0, 0.5], bound=0.05), np.array([1.0, 0.26])
    pursuit, forward = GradientOracle(objective, [0, 1, 2]), RefitOracle(objective, [0, 1, 2])
    both = np.array([0, 1])
    assert np.allclose(2 * pursuit.gains(both) / costs, [1.0, 0.9615], atol=5e-5)
    assert greedy(pursuit, costs).order[0] == 0
    gains = forward.gains(both)
    assert gains[0] / costs[0] == pytest.approx(0.04875, abs=5e-6)
    asked = (gains - 0.05**2 / 2) / costs
    assert asked[1] == pytest.approx(0.08654, abs=5e-6)
    assert gains[0] / costs[0] < asked.max()


@given(seed=SEEDS, bound=st.sampled_from([0.1, 0.5, 1.0, 2.0]), gamma=st.floats(0, 1))
def test_conjecture_5_3_2_at_the_empty_set(seed: int, bound: float, gamma: float):
    """functional_gradient_and_greedy 8.5: ``gamma F(S) - gamma^2 bound^2 / 2`` is at most the sum of single gains."""
    rng = np.random.default_rng(seed)
    Z = design(rng, 20, 4, mixing=rng.uniform(0, 3))
    objective = QuadraticObjective(Z.T @ Z / 20, Z.T @ rng.normal(size=20) / 5, bound=bound)
    F = all_values(objective)
    for chosen, value in F.items():
        single = sum(F[frozenset({x})] for x in chosen)
        assert gamma * value - gamma**2 * bound**2 / 2 <= single + 1e-9 * max(1.0, value)


# ---------------------------------------------------------------------- how oracles behave


def test_intercept_is_the_answer_before_anything_is_bought_and_refitted_after():
    y = np.array([0, 0, 0, 1] * 10)
    Z = np.column_stack([y - 0.25, np.zeros(40)])
    oracle = GradientOracle(SmoothObjective(Z, y, "logistic", l2_regularization=0.01), [0, 1, 2])
    before = oracle.fit.intercept
    assert before == pytest.approx(np.log(1 / 3))
    oracle.add(0)
    _, _, after = plain.fitted(Z[:, :1], y, TRAINING_LOSSES["logistic"], 1, 0.01)
    assert oracle.fits[0].intercept == pytest.approx(after)
    assert abs(after - before) > 0.1


def test_constant_columns_and_groups_without_columns_gain_nothing():
    rng = np.random.default_rng(16)
    Z = design(rng, 40, 3)
    Z[:, 1] = 0.0
    for oracle in (GradientOracle, RefitOracle):
        run = oracle(SmoothObjective(Z, targets("logistic", rng, Z), "logistic"), [0, 1, 1, 2, 3])
        assert np.allclose(run.gains(np.arange(4))[1:3], 0.0, atol=1e-12)
        assert sorted(greedy(run, np.ones(4)).order.tolist()) == [0, 1, 2, 3]
        assert len(run.fits) == 4


def test_copies_of_columns_need_no_ridge():
    rng = np.random.default_rng(17)
    Z = design(rng, 60, 3)
    y = targets("logistic", rng, Z)
    once = everything(SmoothObjective(Z, y, "logistic"))
    thrice = everything(SmoothObjective(np.hstack([Z, Z, Z]), y, "logistic"))
    assert thrice.value == pytest.approx(once.value, abs=1e-9)
    S, V = Z.T @ Z / 60, Z.T @ (y - y.mean()) / 60
    moments = everything(QuadraticObjective(np.tile(S, (3, 3)), np.tile(V, 3)))
    assert moments.value == pytest.approx(0.5 * V @ np.linalg.solve(S, V), abs=1e-9)
    assert np.allclose(moments.weights[:3], moments.weights[3:6])  # the solution of least norm


@pytest.mark.parametrize("oracle", [GradientOracle, RefitOracle])
def test_restart_forgets_what_was_bought(oracle: type):
    rng = np.random.default_rng(18)
    Z = design(rng, 40, 5)
    first = oracle(
        SmoothObjective(Z, targets("logistic", rng, Z), "logistic", l2_regularization=0.01), np.arange(6)
    )
    run = greedy(first, np.ones(5))
    second = first.restart()
    assert (second.value, len(second.fits)) == (0.0, 0)
    assert greedy(second, np.ones(5)).order.tolist() == run.order.tolist()
    assert len(first.fits) == len(second.fits) == 5
    assert doubling(first.restart(), np.ones(5)).order.tolist() == run.order.tolist()


def test_a_purchase_that_fails_changes_nothing():
    rng = np.random.default_rng(19)
    Z = design(rng, 40, 4)
    loss, broken = TRAINING_LOSSES["logistic"], []

    def gradient(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        if broken:
            raise KeyboardInterrupt
        return loss.gradient(scores, y)

    fragile = Loss("fragile", loss.per_row, gradient=gradient, smoothness=0.25, link="logistic")
    oracle = GradientOracle(
        SmoothObjective(Z, targets("logistic", rng, Z), fragile, l2_regularization=0.01), np.arange(5)
    )
    oracle.add(2)
    before = (oracle.fit, oracle.value, list(oracle.fits))
    broken.append(True)
    with pytest.raises(KeyboardInterrupt):
        oracle.add(0)
    assert (oracle.fit, oracle.value, oracle.fits) == before
    broken.clear()
    oracle.add(0)
    assert oracle.fit.columns.tolist() == [2, 0]


def test_put_away_fits_are_light_and_say_so_when_extended():
    rng = np.random.default_rng(20)
    Z = design(rng, 40, 2)
    oracle = GradientOracle(SmoothObjective(Z, targets("logistic", rng, Z), "logistic"), [0, 1, 2])
    oracle.add(0)
    assert oracle.fits[0].scores is None
    with pytest.raises(ValueError, match="were discarded"):
        oracle.objective.extended(oracle.fits[0], np.array([1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"l2_regularization": -1.0}, "l2_regularization must be"),
        ({"bound": 0.0}, "bound must be"),
        ({"l2_regularization": np.inf}, "l2_regularization must be"),
    ],
)
def test_impossible_settings_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        QuadraticObjective(np.eye(2), np.ones(2), **arguments)
    with pytest.raises(ValueError, match=message):
        SmoothObjective(np.eye(2), np.ones(2), "squared", **arguments)


def test_groups_that_do_not_fit_the_columns_are_refused():
    with pytest.raises(ValueError, match="number of columns, 2, but goes from 0 to 3"):
        GradientOracle(QuadraticObjective(np.eye(2), np.ones(2)), [0, 1, 3])


def test_inputs_stay_as_they_are():
    rng = np.random.default_rng(21)
    Z = design(rng, 40, 4)
    y = targets("multinomial", rng, Z)
    kept = Z.copy(order="K"), y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        greedy(
            GradientOracle(
                SmoothObjective(np.asfortranarray(Z), y, "multinomial", l2_regularization=0.01), np.arange(5)
            ),
            np.ones(4),
        )
    assert np.array_equal(Z, kept[0])
    assert np.array_equal(y, kept[1])


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("l2_regularization", [0.0, 1e-3])
def test_flat_stretches_of_a_loss_do_not_stop_a_refit(scale: float, l2_regularization: float):
    """Huber loss far from all targets has no curvature to go by."""
    rng = np.random.default_rng(22)
    Z = design(rng, 100, 4)
    y = scale * (Z @ np.ones(4) + rng.standard_t(2, size=100))
    fit = everything(SmoothObjective(Z, y, "huber", l2_regularization=l2_regularization, fit_intercept=False))
    least, _, _ = plain.fitted(Z, y, TRAINING_LOSSES["huber"], 1, l2_regularization, intercept=False)
    nothing = TRAINING_LOSSES["huber"](np.zeros((100, 1)), y)
    assert fit.value == pytest.approx(nothing - least, rel=1e-9)


@pytest.mark.parametrize("name", ["squared", "logistic", "multinomial", "poisson"])
def test_nothing_is_learned_from_a_constant_target(name: str):
    Z = design(np.random.default_rng(23), 50, 3)
    fit = everything(SmoothObjective(Z, np.ones(50, dtype=int), name, l2_regularization=0.01))
    assert np.abs(fit.weights).max() < 1e-9
