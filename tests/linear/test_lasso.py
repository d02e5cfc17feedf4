"""The cost-weighted group lasso (linear_and_networks 2.10), and the Lasso it contains (functional_gradient_and_greedy 8.10)."""

import numpy as np
import pytest
from sklearn.linear_model import lars_path, lasso_path
from threadpoolctl import threadpool_info, threadpool_limits

import anytime as at
from anytime.linear.lasso import group_lasso_path
from anytime.linear.moments import Moments
from anytime.linear.sequencing import Arrangement, LassoOrder
from tests.reference.lasso import first_entries, group_lasso, whitened, worst_violation


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def data(sizes, n=60, n_targets=1, correlation=0.5, seed=0):
    """Rows, targets, groups, ``start`` and weights; only the first groups matter to the target."""
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(sizes)])
    shared = np.sqrt(correlation) * rng.standard_normal((n, 1))
    X = standardised(shared + np.sqrt(1 - correlation) * rng.standard_normal((n, start[-1])))
    useful = start[max(1, len(sizes) // 2)]
    Y = X[:, :useful] @ rng.standard_normal((useful, n_targets)) + rng.standard_normal((n, n_targets))
    groups = [list(range(start[g], start[g + 1])) for g in range(len(sizes))]
    return X, standardised(Y), groups, start, rng.uniform(0.5, 2.0, len(sizes))


def path_of(X, Y, start, weights, **options):
    return group_lasso_path(X.T @ X / len(X), X.T @ Y / len(X), start, weights, **options)


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_every_point_of_the_path_meets_the_optimality_conditions(n_targets, correlation):
    """2.10: w_g = 0 ⇒ 2|X_g'(Y - Xw)| ≤ λc; w_g ≠ 0 ⇒ 2X_g'(Y - Xw) = λ c w_g/|w_g|, on whitened columns."""
    X, Y, groups, start, weights = data([3, 1, 4, 2, 5, 3], n_targets=n_targets, correlation=correlation)
    path = path_of(X, Y, start, weights, n_lambdas=40, whole=True)
    Z, new = whitened(X, groups)
    for penalty, w in zip(path.lambdas, path.coefficients, strict=True):
        white = np.linalg.lstsq(Z, X @ w, rcond=None)[0]
        white[np.abs(white) < 1e-11] = 0.0
        assert worst_violation(Z, Y, new, weights, 2 * len(X) * penalty, white) < 1e-5
    assert path.violation.max() <= 1e-6


def test_the_reported_violation_is_that_of_the_conditions():
    """A path stopped far too early says so."""
    X, Y, _, start, weights = data([3, 1, 4, 2, 5, 3], correlation=0.9)
    assert path_of(X, Y, start, weights, tol=1e-6).violation.max() <= 1e-6
    assert path_of(X, Y, start, weights, tol=0.5, n_lambdas=5).violation.max() > 1e-4


@pytest.mark.parametrize("n_targets", [1, 2])
def test_coefficients_are_those_of_plain_proximal_steps_on_the_rows(n_targets):
    """The formula without 1/2n has a λ that is 2n times ours."""
    X, Y, groups, start, weights = data([2, 3, 1, 2], n_targets=n_targets)
    path = path_of(X, Y, start, weights, n_lambdas=4, smallest=0.1)
    Z, new = whitened(X, groups)
    for penalty, w in zip(path.lambdas, path.coefficients, strict=True):
        expected = Z @ group_lasso(Z, Y, new, weights, 2 * len(X) * penalty)
        np.testing.assert_allclose(X @ w, expected, atol=1e-6)


def test_without_whitening_the_weights_of_the_columns_are_penalised():
    X, Y, groups, start, weights = data([2, 3, 1, 2])
    path = path_of(X, Y, start, weights, n_lambdas=4, smallest=0.1, whiten=False)
    for penalty, w in zip(path.lambdas, path.coefficients, strict=True):
        np.testing.assert_allclose(w, group_lasso(X, Y, groups, weights, 2 * len(X) * penalty), atol=1e-6)
    assert (
        np.abs(
            path.coefficients[-1] - path_of(X, Y, start, weights, n_lambdas=4, smallest=0.1).coefficients[-1]
        ).max()
        > 0.01
    )


def test_the_path_starts_where_everything_is_zero_and_no_earlier():
    """2.10: λ_max = max_g 2|X_g'Y|/c(g) on whitened columns."""
    X, Y, groups, start, weights = data([3, 1, 4, 2])
    path = path_of(X, Y, start, weights, n_lambdas=50)
    Z, new = whitened(X, groups)
    largest = max(2 * np.linalg.norm(Z[:, c].T @ Y) / weights[g] for g, c in enumerate(new))
    assert 2 * len(X) * path.lambdas[0] == pytest.approx(largest)
    assert not path.active[0].any()
    assert path_of(X, Y, start, weights, n_lambdas=2, smallest=0.999).active[1].sum() == 1


# ---------------------------------------------------------------------- the order


def test_groups_are_ordered_by_first_entry():
    X, Y, groups, start, weights = data([2, 3, 1, 2, 1], correlation=0.2, seed=2)
    path = path_of(X, Y, start, weights)
    Z, new = whitened(X, groups)
    grid = 2 * len(X) * path.lambdas[0] * np.geomspace(1, 0.02, 80)
    entered = first_entries(Z, Y, new, weights, grid) / (2 * len(X))
    assert (entered > 0).all()
    assert path.order.tolist() == np.argsort(-entered, kind="stable").tolist()
    np.testing.assert_allclose(path.entered, entered, rtol=0.06)  # a step of the grid is 5 %


def test_groups_that_enter_in_one_interval_are_told_apart():
    """One step of the grid lets five groups in at once; halving it finds their order, |v_g| / c here."""
    v = np.array([0.50, 0.52, 0.51, 0.54, 0.53])
    path = group_lasso_path(np.eye(5), v[:, None], np.arange(6), np.ones(5), n_lambdas=2, smallest=0.5)
    assert path.active.sum(axis=1).tolist() == [0, 5]
    assert path.order.tolist() == [3, 4, 1, 2, 0]
    np.testing.assert_allclose(path.entered, v, atol=1e-2)


def test_weights_decide_who_enters_first():
    v = np.array([[0.5], [0.3]])
    assert group_lasso_path(np.eye(2), v, [0, 1, 2], [1.0, 1.0]).order.tolist() == [0, 1]
    assert group_lasso_path(np.eye(2), v, [0, 1, 2], [2.0, 1.0]).order.tolist() == [1, 0]


def test_groups_that_never_enter_come_last_by_what_is_left_for_them():
    """The second and third are below the last penalty; the cheaper of them comes first, and a constant group last of all."""
    S = np.diag([1.0, 0.0, 1.0, 1.0])
    path = group_lasso_path(
        S, [[0.9], [0.0], [0.010], [0.011]], np.arange(5), [1.0, 1.0, 0.1, 1.0], smallest=0.5
    )
    assert path.order.tolist() == [0, 2, 3, 1]
    assert (path.entered > 0).tolist() == [True, False, False, False]


def test_the_path_ends_when_the_order_is_known_unless_the_whole_is_wanted():
    X, Y, _, start, weights = data([2, 3, 1, 2, 1])
    short, whole = path_of(X, Y, start, weights), path_of(X, Y, start, weights, whole=True)
    k = len(short.lambdas)
    assert k < len(whole.lambdas) == 200
    assert short.active.any(axis=0).all()
    assert not short.active[:-1].any(axis=0).all()
    assert short.order.tolist() == whole.order.tolist()
    np.testing.assert_array_equal(short.coefficients, whole.coefficients[:k])


def test_a_group_that_costs_nothing_is_in_use_from_the_start():
    X, Y, _, start, weights = data([2, 3, 1])
    weights[1] = 0.0
    path = path_of(X, Y, start, weights, whole=True)
    assert path.order[0] == 1
    assert path.active[:, 1].all()
    free = np.linalg.lstsq(X[:, 2:5], Y, rcond=None)[0]
    np.testing.assert_allclose(path.coefficients[0][2:5], free, atol=1e-8)
    assert path.violation.max() <= 1e-6


# ---------------------------------------------------------------------- hard cases


def test_columns_that_repeat_others_do_no_harm():
    X, Y, _, start, weights = data([3, 3, 2])
    X[:, 1] = X[:, 0]  # within a group
    X[:, 3:6] = X[:, :3]  # a whole group twice
    path = path_of(X, Y, start, weights, whole=True, n_lambdas=50)
    assert np.isfinite(path.coefficients).all()
    assert path.violation.max() <= 1e-6


def test_more_columns_than_rows():
    X, Y, _, start, weights = data([10] * 8, n=30)
    path = path_of(X, Y, start, weights, n_lambdas=60)
    assert path.violation.max() <= 1e-6
    assert sorted(path.order) == list(range(8))


def test_strong_correlation_needs_no_patience():
    """Coordinate descent alone would take tens of thousands of sweeps here."""
    X, Y, _, start, weights = data([10] * 20, n=500, correlation=0.95)
    assert path_of(X, Y, start, weights, whole=True, n_lambdas=50).violation.max() <= 1e-6


def test_nothing_to_explain():
    path = group_lasso_path(np.eye(3), np.zeros((3, 1)), [0, 2, 3], [1.0, 1.0])
    assert not path.coefficients.any()
    assert path.order.tolist() == [0, 1]
    assert path.entered.tolist() == [0.0, 0.0]


def test_inputs_are_left_alone():
    X, Y, _, start, weights = data([2, 3, 1])
    S, V = X.T @ X / len(X), X.T @ Y / len(X)
    copies = S.copy(), V.copy(), weights.copy()
    group_lasso_path(S, V, start, weights)
    for array, copy in zip((S, V, weights), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# ---------------------------------------------------------------------- groups of one column: the Lasso


def test_groups_of_one_column_give_the_lasso():
    """scikit-learn minimises the same |y - Xw|²/2n + λ|w|₁."""
    X, Y, _, start, _ = data([1] * 12, correlation=0.6)
    path = path_of(X, Y, start, np.ones(12), n_lambdas=30, smallest=1e-3, whole=True)
    _, expected, _ = lasso_path(X, Y[:, 0], alphas=path.lambdas, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(path.coefficients[:, :, 0].T, expected, atol=1e-5)


def test_the_order_of_the_lasso_is_that_of_least_angle_regression():
    X, Y, _, start, _ = data([1] * 12, correlation=0.3, seed=3)
    knots, _, coefficients = lars_path(X, Y[:, 0], method="lasso")
    first = np.array(
        [np.argmax(np.abs(row) > 0) - 1 for row in coefficients]
    )  # the knot at which each enters
    path = path_of(X, Y, start, np.ones(12))
    assert path.order.tolist() == np.argsort(first, kind="stable").tolist()
    np.testing.assert_allclose(path.entered, knots[first], rtol=0.01)


def test_the_cost_weighted_lasso_is_that_of_columns_divided_by_their_costs():
    """8.10: multiply column x by 1/c(x), do not standardise again, divide the weights by c(x)."""
    X, Y, _, start, costs = data([1] * 10)
    path = path_of(X, Y, start, costs, n_lambdas=20, smallest=1e-2, whole=True)
    _, scaled, _ = lasso_path(X / costs, Y[:, 0], alphas=path.lambdas, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(path.coefficients[:, :, 0].T, scaled / costs[:, None], atol=1e-5)
    again = standardised(X / costs)  # the mistake the text warns of: the costs are gone
    _, wrong, _ = lasso_path(again, Y[:, 0], alphas=path.lambdas, tol=1e-12, max_iter=100_000)
    assert np.abs(path.coefficients[:, :, 0].T - wrong).max() > 0.01


@pytest.mark.parametrize("paid", [[], [5]])
def test_groups_that_cost_nothing_come_by_what_the_target_gives_them(paid):
    """They are all in use from the start: which comes first is not to hang on the rounding of a gradient that has vanished."""
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 6))
    y = X @ [0.1, 1.0, 0.3, 2.0, 0.6, 4.0]
    Z, target = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean())[:, None]
    weights = np.zeros(6)
    weights[paid] = 1.0
    expected = [3, 1, 4, 2, 0, 5] if paid else [5, 3, 1, 4, 2, 0]
    for columns in (np.arange(6), np.arange(6)[::-1], random.permutation(6)):
        part = Z[:, columns]
        path = group_lasso_path(part.T @ part / 300, part.T @ target / 300, np.arange(7), weights[columns])
        by_gradient = np.argsort(-np.abs(Z.T @ target[:, 0] / 300))
        free_first = [g for g in by_gradient if g not in paid] + paid
        assert columns[path.order].tolist() == free_first == expected


SIMILAR = np.random.default_rng(0).normal(size=(400, 7))
GROUPS = at.FeatureCosts(groups={"similar": [0, 1, 2, 3], "two": [4, 5]}, prices={"similar": 1.0, "two": 1.0})


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_order_of_an_estimator_is_that_of_its_whitening(loss):
    """Four copies of one column look like much as they are, and like one when whitened."""
    X = np.c_[SIMILAR[:, :1] + 0.05 * SIMILAR[:, 1:5], SIMILAR[:, 5:]]
    y = SIMILAR[:, 0] + 0.9 * X[:, 4] + 0.9 * X[:, 5]
    settings = {"costs": GROUPS, "selection": "lasso", "random_state": 0}
    first = {}
    for whiten in ("data", "criterion", False):
        if loss == "squared":
            model = at.GroupPursuitRegressor(whiten=whiten, **settings).fit(X, y)
        else:
            model = at.GroupPursuitClassifier(whiten=whiten, loss=loss, **settings).fit(X, y > 0)
        first[whiten] = model.order_[0]
    assert first == {"data": "two", "criterion": "two", False: "similar"}


def test_an_order_from_elsewhere_is_worked_out_on_as_few_threads_as_any_other():
    """Its products are as small."""
    seen = []

    class Watched(LassoOrder):
        def order(self, problem, moments, arrangement):
            seen.append({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"})
            return super().order(problem, moments, arrangement)

    random = np.random.default_rng(0)
    moments = Moments(3, 1)
    moments.add(random.normal(size=(50, 3)), random.normal(size=(50, 1)))
    with threadpool_limits(2, user_api="blas"):
        Watched().sequence(
            moments.standardised(), Arrangement.of(at.FeatureCosts([1.0, 2.0, 3.0]).bind(3)), 0.1
        )
    assert seen == [{1}]
