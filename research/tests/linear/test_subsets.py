"""Exhaustive optima: functional_gradient_and_greedy 7 (objectives), 8.10 (OPT), 11 (G5, G6); linear_and_networks 11 (E1, E2)."""

import time

import numpy as np
import pytest
from scipy.optimize import minimize

from anytime_research.linear.subsets import best_subsets, norm_bounded


def problem(sizes, n=50, n_targets=1, seed=0):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((n, start[-1])) + 0.8 * rng.standard_normal((n, 1))
    Y = X @ rng.standard_normal((start[-1], n_targets)) + rng.standard_normal((n, n_targets))
    return X - X.mean(axis=0), Y - Y.mean(axis=0), start, rng.integers(1, 9, len(sizes))


def moments(X, Y):
    return X.T @ X / len(X), X.T @ Y / len(X)


def columns_of(chosen, start):
    return [j for g in chosen for j in range(start[g], start[g + 1])]


def all_sets(n):
    return [tuple(g for g in range(n) if bits >> g & 1) for bits in range(2**n)]


@pytest.mark.parametrize("l2_regularization", [0.0, 0.1])
def test_every_set_is_worth_what_least_squares_on_its_columns_takes_off_the_risk(l2_regularization):
    X, Y, start, costs = problem([2, 1, 3, 1, 2], n_targets=2)
    best = best_subsets(*moments(X, Y), start, costs, l2_regularization=l2_regularization)
    for bits, chosen in enumerate(all_sets(5)):
        Z = X[:, columns_of(chosen, start)]
        d = Z.shape[1]
        rows = np.vstack([Z, np.sqrt(l2_regularization * len(X)) * np.eye(d)])
        targets = np.vstack([Y, np.zeros((d, 2))])
        left = targets - rows @ np.linalg.lstsq(rows, targets, rcond=None)[0] if d else targets
        assert best.all_values[bits] == pytest.approx(
            ((Y**2).sum() - (left**2).sum()) / (2 * len(X)), abs=1e-10
        )
        assert best.all_costs[bits] == costs[list(chosen)].sum()


def test_a_penalty_of_blocks_is_ridge_on_whitened_weights():
    X, Y, start, costs = problem([2, 3])
    S, V = moments(X, Y)
    blocks = np.zeros_like(S)
    for g in range(2):
        own = slice(start[g], start[g + 1])
        blocks[own, own] = S[own, own]
        roots = np.linalg.cholesky(S[own, own])
        X[:, own] = np.linalg.solve(roots, X[:, own].T).T
    whitened = best_subsets(*moments(X, Y), start, costs, l2_regularization=0.3)
    np.testing.assert_allclose(
        best_subsets(S, V, start, costs, l2_regularization=0.3, penalty=blocks).all_values,
        whitened.all_values,
    )
    assert (
        abs(best_subsets(S, V, start, costs, l2_regularization=0.3).all_values - whitened.all_values).max()
        > 1e-3
    )


def test_columns_that_repeat_others_add_nothing():
    X, Y, start, costs = problem([2, 2, 1])
    X[:, 1], X[:, 3], X[:, 2] = X[:, 0], 2 * X[:, 4] - X[:, 0], 0.0
    best = best_subsets(*moments(X, Y), start, costs)
    for bits, chosen in enumerate(all_sets(3)):
        Z = X[:, columns_of(chosen, start)]
        fitted = Z @ np.linalg.lstsq(Z, Y, rcond=None)[0] if chosen else 0 * Y
        assert best.all_values[bits] == pytest.approx((fitted**2).sum() / (2 * len(X)), abs=1e-9)


# ---------------------------------------------------------------------- the frontier


def test_no_set_beats_the_frontier_and_the_frontier_is_made_of_sets():
    X, Y, start, costs = problem([1, 2, 1, 1, 2, 1, 1], seed=1)
    best = best_subsets(*moments(X, Y), start, costs, l2_regularization=0.01)
    for budget in np.arange(0, costs.sum() + 1):
        affordable = best.all_costs <= budget
        assert best.value_at(budget) == best.all_values[affordable].max()
        chosen = best.groups_at(budget)
        assert costs[list(chosen)].sum() <= budget
        assert best.all_values[sum(1 << g for g in chosen)] == best.value_at(budget)
    assert (np.diff(best.costs) > 0).all()
    assert (np.diff(best.values) > 0).all()
    assert best.groups_at(0) == ()


def test_of_equally_good_sets_the_cheapest_is_kept():
    """The third column is the first again: sets that hold both are worth no more, but for rounding."""
    S = np.array([[1.0, 0.3, 1.0], [0.3, 1.0, 0.3], [1.0, 0.3, 1.0]])
    best = best_subsets(S, [0.5, 0.4, 0.5], [0, 1, 2, 3], [2.0, 2.0, 1.0])
    assert best.groups_at(1) == (2,)
    assert best.groups_at(100) == (1, 2)
    assert best.costs.tolist() == [0.0, 1.0, 3.0]


def test_prices_with_decimals_are_affordable_at_their_sum():
    best = best_subsets(np.eye(3), [0.3, 0.3, 0.3], [0, 1, 2, 3], [0.1, 0.2, 0.7])
    assert best.groups_at(0.3) == (0, 1)
    assert best.groups_at(1.0) == (0, 1, 2)


def test_free_groups_are_taken_at_once():
    assert best_subsets(np.eye(2), [0.3, 0.3], [0, 1, 2], [0.0, 2.0]).groups_at(0) == (0,)


def test_example_e1_the_best_sets_are_prefixes_where_groups_are_orthogonal():
    """Values add up across groups there: .267857, .405, .09, .04 of the variance."""
    C = np.eye(7)
    C[:3, :3] = 0.9 + 0.1 * np.eye(3)
    v = [0.5, 0.5, 0.5, 0.45, 0.45, 0.3, 0.2]
    best = best_subsets(C, v, [0, 3, 5, 6, 7], [1.0, 1.0, 0.5, 0.1])
    single = 2 * best.all_values[[1, 2, 4, 8]]
    np.testing.assert_allclose(single, [0.267857, 0.405, 0.09, 0.04], atol=5e-7)
    assert 2 * best.all_values[15] == pytest.approx(0.802857, abs=5e-7)
    assert best.groups_at(1.1) == (1, 3)
    assert 2 * float(best.value_at(2.1)) == pytest.approx(0.712857, abs=5e-7)


def test_example_e2_forward_regression_is_optimal_and_matching_pursuit_not():
    C = [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]
    best = best_subsets(C, [0.6, 0.5, 0.08], [0, 1, 2, 3], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(best.value_at([1, 2, 3]), [0.18, 0.1842105, 0.1874105], atol=5e-8)


def test_example_g6_copies_are_worth_one_column():
    """Nine copies of a column with correlation 0.5 against three orthogonal ones; λ = 1e-3: 0.12499 and 0.37463."""
    C = np.eye(12)
    C[:9, :9] = 1.0
    best = best_subsets(C, np.full(12, 0.5), [0, 9, 12], [1.0, 1.0], l2_regularization=1e-3)
    np.testing.assert_allclose(best.all_values[[1, 2]], [0.12499, 0.37463], atol=5e-6)


# ---------------------------------------------------------------------- bounded weights


def test_example_g5_bounded_gains():
    """ε = 1, D = {0}: feature 2 gains 0.9429 and feature 1 gains 1.9017."""
    C = [[1, 0.9, -0.9], [0.9, 1, -0.8], [-0.9, -0.8, 1]]
    best = best_subsets(C, [1, 2.9, 1.11], [0, 1, 2, 3], np.ones(3), norm_bound=1.0)
    gains = best.all_values[[0b101, 0b011]] - best.all_values[0b001]
    np.testing.assert_allclose(gains, [0.9429, 1.9017], atol=5e-5)


def test_example_g5_with_prices():
    """ε = 0.05, b = (1, 0.5), C = I: the first feature is worth 0.04875."""
    best = best_subsets(np.eye(2), [1, 0.5], [0, 1, 2], [1, 0.26], norm_bound=0.05)
    assert best.all_values[1] == pytest.approx(0.04875)


@pytest.mark.parametrize("bound", [0.05, 0.3, 1.0])
def test_bounded_values_are_those_of_a_general_optimiser(bound):
    X, Y, start, costs = problem([1, 2, 1, 1], n_targets=2)
    S, V = moments(X, Y / Y.std(axis=0))
    best = best_subsets(S, V, start, costs, norm_bound=bound)
    for bits, chosen in enumerate(all_sets(4)):
        at = columns_of(chosen, start)
        C, expected = S[np.ix_(at, at)], 0.0
        for v in V[at].T if at else ():
            solved = minimize(
                lambda w, C=C, v=v: 0.5 * w @ C @ w - v @ w,
                np.zeros(len(at)),
                jac=lambda w, C=C, v=v: C @ w - v,
                constraints={"type": "ineq", "fun": lambda w: bound**2 - w @ w, "jac": lambda w: -2 * w},
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            )
            expected -= solved.fun
        assert best.all_values[bits] == pytest.approx(expected, abs=1e-7)


def test_a_bound_that_binds_nothing_changes_nothing():
    X, Y, start, costs = problem([1] * 6)
    S, V = moments(X, Y)
    free = best_subsets(S, V, start, costs)
    np.testing.assert_allclose(
        best_subsets(S, V, start, costs, norm_bound=1e6).all_values, free.all_values, rtol=1e-9
    )
    assert (best_subsets(S, V, start, costs, norm_bound=0.1).all_values[1:] < free.all_values[1:]).all()


def test_bounded_weights_are_as_long_as_allowed_or_unbound():
    X, Y, *_ = problem([1] * 4)
    S, V = moments(X, Y / Y.std())
    for bound in (0.01, 0.2):
        value, w = norm_bounded(S, V[:, 0], bound)
        assert np.linalg.norm(w) == pytest.approx(bound)
        assert value == pytest.approx(V[:, 0] @ w - 0.5 * w @ S @ w)
    _, w = norm_bounded(S, V[:, 0], 100.0)
    np.testing.assert_allclose(w, np.linalg.solve(S, V[:, 0]))


def test_columns_that_repeat_others_share_bounded_weights():
    """Two copies with half the weight each are shorter than one with all of it, hence worth more under a bound."""
    C = np.ones((2, 2))
    best = best_subsets(C, [0.8, 0.8], [0, 1, 2], [1, 1], norm_bound=0.3)
    assert best.all_values[3] > best.all_values[1]
    value, w = norm_bounded(C, [0.8, 0.8], 10.0)
    np.testing.assert_allclose(w, [0.4, 0.4])
    assert value == pytest.approx(0.32)


# ---------------------------------------------------------------------- speed and doors


def test_thirteen_columns_take_less_than_a_second():
    X, Y, start, costs = problem([1] * 13, n=506)
    for options in ({"l2_regularization": 0.1}, {"norm_bound": 0.4}):
        began = time.process_time()
        best_subsets(*moments(X, Y), start, costs, **options)
        assert time.process_time() - began < 1


def test_sets_are_the_same_when_memory_is_short(monkeypatch):
    X, Y, start, costs = problem([2] * 7, n_targets=2)
    whole = best_subsets(*moments(X, Y), start, costs, l2_regularization=0.01)
    bound = best_subsets(*moments(X, Y), start, costs, norm_bound=0.2)
    monkeypatch.setattr("anytime.linear.subsets._BYTES", 1000)
    np.testing.assert_allclose(
        best_subsets(*moments(X, Y), start, costs, l2_regularization=0.01).all_values,
        whole.all_values,
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        best_subsets(*moments(X, Y), start, costs, norm_bound=0.2).all_values, bound.all_values, rtol=1e-12
    )


def test_subsets_of_nothing():
    best = best_subsets(np.empty((0, 0)), np.empty(0), [0], [])
    assert best.groups_at(5.0) == ()
    assert best.value_at(5.0) == 0.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"S": np.eye(3)}, r"S must be \(D, D\)"),
        ({"V": [np.inf, 1.0]}, "finite"),
        ({"start": [0, 1, 1]}, "start must rise from 0 to the 2 columns"),
        ({"costs": [1.0]}, "one finite number for each of 2 groups"),
        ({"costs": [1.0, -2.0]}, "none negative"),
        ({"l2_regularization": -1.0}, "l2_regularization"),
        ({"penalty": np.eye(3)}, "shape of S"),
        ({"norm_bound": 0.0}, "norm_bound must be positive"),
    ],
)
def test_bad_input_is_refused(changed, message):
    arguments = {"S": np.eye(2), "V": [0.5, 0.2], "start": [0, 1, 2], "costs": [1.0, 1.0]} | changed
    with pytest.raises(ValueError, match=message):
        best_subsets(**arguments)


def test_too_many_groups_are_refused():
    with pytest.raises(ValueError, match="21 groups have too many subsets"):
        best_subsets(np.eye(21), np.ones(21), np.arange(22), np.ones(21))


def test_a_negative_budget_is_refused():
    best = best_subsets(np.eye(2), [0.5, 0.2], [0, 1, 2], [1.0, 1.0])
    with pytest.raises(ValueError, match="negative"):
        best.value_at([1.0, -1.0])
