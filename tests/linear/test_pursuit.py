"""The engine for squared loss, step by step against refits on the rows; and the invariants linear_and_networks L1 to L10."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import orthogonal_mp

import anytime as at
from anytime.greedy import GainOracle, greedy, replay
from anytime.linear import pursuit
from anytime.linear.pursuit import GroupedProblem, PursuitOracle
from anytime.linear.sequencing import Arrangement
from tests.reference.linear import Rows, random_problem, sequence
from tests.strategies import feature_costs

CRITERIA = ["omp", "forward", "norm", "single", "forward_single"]
CLOSE = {"rtol": 1e-8, "atol": 1e-10}
seeds = st.integers(0, 2**32 - 1)
group_sizes = st.lists(st.integers(1, 4), min_size=1, max_size=5)
ridges = st.sampled_from([0.0, 1e-3, 0.3])


def problem_of(rows):
    """The engine's view of a reference problem: moments, group by group."""
    columns = np.concatenate([rows.groups[g] for g in range(len(rows.groups))]).astype(int)
    Z = rows.Z[:, columns]
    start = np.cumsum([0, *map(len, rows.groups)])
    S, V = rows.second_moment(Z), rows.second_moment(Z, rows.T)
    power = float(np.trace(rows.second_moment(rows.T)))
    return GroupedProblem.from_moments(
        S, V, start, rows.l2_regularization, whitened=rows.whiten == "data", power=power
    ), columns


def with_repeats(random, X, groups, repeats):
    """Some columns made copies or sums of others, within and across groups, or constant."""
    X = X.copy()
    for _ in range(repeats):
        target, *others = random.integers(X.shape[1], size=3)
        X[:, target] = random.choice([0.0, 1.0]) * X[:, others].sum(axis=1)
    return X


# ---------------------------------------------------------------------- against refits


@given(
    seed=seeds,
    sizes=group_sizes,
    criterion=st.sampled_from(CRITERIA),
    whiten=st.sampled_from(["data", "criterion"]),
    l2_regularization=ridges,
    n_targets=st.integers(1, 3),
    n_rows=st.sampled_from([3, 30]),
    repeats=st.sampled_from([0, 0, 2]),
    block=st.sampled_from([1, 2, 3, 128]),
)
def test_scores_values_and_weights_are_those_of_refits(
    seed, sizes, criterion, whiten, l2_regularization, n_targets, n_rows, repeats, block
):
    """In any order, with few rows, repeated columns, several targets; small blocks: delayed updates and compaction run."""
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, sizes, n=n_rows, k=n_targets)
    rows = Rows(
        with_repeats(random, X, groups, repeats),
        y,
        groups,
        l2_regularization=l2_regularization,
        whiten=whiten,
    )
    problem, columns = problem_of(rows)
    order = random.permutation(len(groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pursuit, "_BLOCK", block)
        oracle = PursuitOracle(problem, criterion)
        for t in range(len(groups)):
            left = np.sort(order[t:])
            chosen = order[:t].tolist()
            assert_allclose(oracle.gains(left), [rows.score(chosen, g, criterion) for g in left], **CLOSE)
            oracle.add(int(order[t]))
            assert_allclose(oracle.value, rows.value(order[: t + 1]), **CLOSE)
    path = oracle.path()
    assert_array_equal(path.columns, np.concatenate([np.arange(*problem.start[g : g + 2]) for g in order]))
    for t, (end, weights) in enumerate(zip(path.ends, path.coefficients, strict=True)):
        assert weights.shape == (end, n_targets)
        fitted = rows.Z[:, columns[path.columns[:end]]] @ weights
        assert_allclose(fitted, rows.T - rows.residual(order[: t + 1].tolist()), rtol=1e-6, atol=1e-7)


@given(seed=seeds, block=st.sampled_from([1, 2, 5, 128]), criterion=st.sampled_from(CRITERIA))
def test_many_small_groups_need_many_delayed_updates(seed, block, criterion):
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, random.integers(1, 4, 12).tolist(), n=80)
    rows = Rows(X, y, groups, l2_regularization=0.01)
    problem, _ = problem_of(rows)
    plain = greedy(PursuitOracle(problem, criterion), np.ones(12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pursuit, "_BLOCK", block)
        oracle = PursuitOracle(problem, criterion)
        small = greedy(oracle, np.ones(12))
    assert_array_equal(small.order, plain.order)
    assert_allclose(small.values, plain.values, rtol=1e-10)
    assert_allclose(small.values, [rows.value(plain.order[: t + 1]) for t in range(12)], rtol=1e-9)
    assert oracle.dependent == 0


@given(
    data=st.data(),
    seed=seeds,
    selection=st.sampled_from(["omp", "forward", "single", "forward_single"]),
    whiten=st.sampled_from(["data", "criterion", False]),
    l2_regularization=ridges,
    cost_aware=st.booleans(),
    doubles=st.booleans(),
    gaps=st.booleans(),
    weighted=st.booleans(),
)
def test_the_fitted_order_is_the_naive_one(
    data, seed, selection, whiten, l2_regularization, cost_aware, doubles, gaps, weighted
):
    """From rows, with any price list: free groups, steps without columns, requirements; gaps and weights."""
    random = np.random.default_rng(seed)
    X, y, _ = random_problem(random, [1] * 6, n=50)
    costs = data.draw(feature_costs(6))
    if gaps:
        X[random.random(X.shape) < 0.1] = np.nan
    weight = random.choice([0.0, 1.0, 2.5], size=50) if weighted else None
    names = [name for name in costs.names if costs.groups[name]]
    rows = Rows(
        X,
        y,
        [costs.groups[name] for name in names],
        l2_regularization=l2_regularization,
        whiten=whiten,
        weight=weight,
    )
    c_min = max(costs.price([name]) for name in names)
    schedule = {"schedule": "doubling", "c_min": c_min} if doubles and c_min > 0 else {}
    model = at.GroupPursuitRegressor(
        costs=costs,
        selection=selection,
        whiten=whiten,
        l2_regularization=l2_regularization,
        cost_aware=cost_aware,
        **schedule,
    ).fit(X, y, sample_weight=weight)
    criterion = "norm" if selection == "omp" and whiten is False else selection
    expected = sequence(rows, costs, criterion, cost_aware=cost_aware, c_min=c_min if schedule else None)
    order = model.certificate_.selection.order
    assert order.tolist() == expected
    for t, answer in enumerate(model.stages(X)):
        assert_allclose(answer.scores, rows.answers(order[:t], X), rtol=1e-6, atol=1e-7 * np.abs(y).max())


def test_the_oracle_is_one_for_greedy_selection_and_starts_again():
    X, y, groups = random_problem(np.random.default_rng(0), [2, 3, 1])
    problem, _ = problem_of(Rows(X, y, groups))
    oracle = PursuitOracle(problem, "forward")
    assert isinstance(oracle, GainOracle)
    before = oracle.gains(np.arange(3))
    oracle.add(1)
    assert oracle.value > 0
    again = oracle.restart()
    assert again.value == 0.0
    assert_array_equal(again.gains(np.arange(3)), before)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("criterion", ["omp", "forward"])
def test_a_replayed_run_has_the_books_of_the_run(seed, criterion):
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, [2, 1, 3, 2])
    problem, _ = problem_of(Rows(X, y, groups))
    bound = at.FeatureCosts(
        {"a": 0.5, "b": 0.0, "c": 2.0, "d": 1.0, "step": 3.0},
        groups={"a": [0, 1], "b": [2], "c": [3, 4, 5], "d": [6, 7], "step": []},
        requires={"a": ["step"], "c": ["step"]},
    ).bind(8)
    run = greedy(PursuitOracle(problem, criterion), Arrangement.of(bound).prices())
    again = replay(PursuitOracle(problem, criterion), Arrangement.of(bound).prices(), run.order)
    for name in ("order", "prices", "costs", "values", "best_rates"):
        assert_allclose(getattr(again, name), getattr(run, name))
    other = replay(PursuitOracle(problem, criterion), Arrangement.of(bound).prices(), random.permutation(4))
    assert other.values[-1] == pytest.approx(run.values[-1])
    assert other.costs[-1] == run.costs[-1]


def test_the_layout_of_the_moments_does_not_matter():
    X, Y, groups = random_problem(np.random.default_rng(2), [2, 3, 1], k=2)
    problem, _ = problem_of(Rows(X, Y, groups))
    other = replace(
        problem,
        covariance=np.asfortranarray(problem.covariance),
        correlation=np.asfortranarray(problem.correlation),
    )
    for criterion in CRITERIA:
        one, same = (greedy(PursuitOracle(p, criterion), [1.0, 2.0, 3.0]) for p in (problem, other))
        assert_array_equal(same.order, one.order)
        assert_allclose(same.values, one.values)


def test_scores_are_given_for_the_candidates_asked_for_in_their_order():
    X, y, groups = random_problem(np.random.default_rng(1), [2, 1, 3, 1])
    problem, _ = problem_of(Rows(X, y, groups))
    for criterion in CRITERIA:
        oracle = PursuitOracle(problem, criterion)
        everything = oracle.gains(np.arange(4))
        assert_array_equal(oracle.gains(np.array([3, 0])), everything[[3, 0]])
        assert oracle.gains(np.array([], dtype=np.intp)).shape == (0,)


@given(seeds, ridges, st.sampled_from(["data", "criterion"]), st.sampled_from(CRITERIA))
def test_several_groups_are_scored_as_if_they_were_one(seed, l2_regularization, whiten, criterion):
    rows, problem, _ = runs(seed, l2_regularization=l2_regularization, whiten=whiten)
    oracle = PursuitOracle(problem, criterion)
    for chosen, together in (([], [0, 2]), ([1], [3, 0]), ([1, 3], [2, 0])):
        for g in chosen[-1:]:
            oracle.add(g)
        found = oracle.joint_gain(np.array(together))
        assert found == pytest.approx(rows.joint_score(chosen, together, criterion), rel=1e-8, abs=1e-12)


def test_groups_without_columns_gain_nothing_and_change_nothing():
    S, V = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[0.4], [0.6]])
    problem = GroupedProblem.from_moments(S, V, np.array([0, 0, 1, 1, 2, 2]), 0.0, whitened=True)
    assert problem.n_groups == 5
    for criterion in CRITERIA:
        oracle = PursuitOracle(problem, criterion)
        assert_array_equal(oracle.gains(np.array([0, 2, 4])), 0.0)
        for g in (4, 1, 0, 3, 2):
            oracle.add(g)
        assert oracle.path().ends.tolist() == [0, 1, 1, 2, 2]
        assert_allclose(oracle.path().coefficients[-1][:, 0], np.linalg.solve(S, V[:, 0]))


def test_repeated_columns_are_counted_and_do_no_harm():
    """The same column three times in one group, once more in another, and a constant one."""
    random = np.random.default_rng(0)
    x, z = random.normal(size=(2, 60))
    X = np.column_stack([x, x, -2 * x + 1, x, z, np.ones(60)])
    y = x + 0.5 * z
    rows = Rows(X, y, [[0, 1, 2], [3, 5], [4]])
    problem, _ = problem_of(rows)
    oracle = PursuitOracle(problem, "forward")
    run = greedy(oracle, np.ones(3))
    assert oracle.dependent == 4
    assert run.order.tolist() == [0, 2, 1]
    assert_allclose(run.values, [rows.value([0]), 0.5, 0.5])
    model = at.GroupPursuitRegressor(
        costs=at.FeatureCosts({"a": 1.0, "b": 1.0, "c": 1.0}, groups={"a": [0, 1, 2], "b": [3, 5], "c": [4]}),
        l2_regularization=0.0,
        selection="forward",
    ).fit(X, y)
    assert_allclose(model.predict(X), y, atol=1e-10)
    weights = model.plan_.blocks[0].coefficients[0][:, 0] * X[:, :3].std(axis=0)
    assert_allclose(np.abs(weights), np.abs(weights[0]))  # shared evenly between the three


def test_blocks_of_the_covariance_lie_side_by_side():
    S = np.arange(16.0).reshape(4, 4)
    blocks, place = GroupedProblem(S, np.zeros((4, 1)), np.array([0, 1, 4])).blocks()
    assert place.tolist() == [0, 1, 10]
    assert_array_equal(blocks, [0, *S[1:, 1:].ravel()])


# ---------------------------------------------------------------------- invariants of section 3.6


def runs(seed, sizes=(2, 1, 3, 2), **settings):
    """A problem and, for each criterion, its greedy run with unequal costs."""
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, list(sizes))
    rows = Rows(X, y, groups, **settings)
    return rows, problem_of(rows)[0], random.uniform(0.5, 5.0, len(sizes))


@given(seeds, ridges, st.sampled_from(["data", "criterion"]))
def test_l1_the_objective_is_that_of_the_residuals_and_never_falls(seed, l2_regularization, whiten):
    rows, problem, costs = runs(seed, l2_regularization=l2_regularization, whiten=whiten)
    for criterion in CRITERIA:
        run = greedy(PursuitOracle(problem, criterion), costs)
        assert (np.diff(run.values, prepend=0.0) >= 0).all()
        for t, value in enumerate(run.values):
            columns = rows.fitted_columns(run.order[: t + 1])
            w = rows.solved(columns)[0]
            explicit = 0.5 * (np.sum(rows.T**2) - np.sum((rows.T - columns @ w) ** 2)) / len(rows.T)
            assert value == pytest.approx(explicit - 0.5 * l2_regularization * np.sum(w**2), abs=1e-12)


@given(seeds, ridges)
def test_l2_the_gradient_over_bought_groups_vanishes(seed, l2_regularization):
    _, problem, costs = runs(seed, l2_regularization=l2_regularization)
    oracle = PursuitOracle(problem, "omp")
    greedy(oracle, costs)
    path = oracle.path()
    for end, w in zip(path.ends, path.coefficients, strict=True):
        own = path.columns[:end]
        gradient = problem.correlation[own] - problem.covariance[np.ix_(own, own)] @ w
        assert np.abs(gradient).max() <= 1e-9


@given(seeds, ridges, st.sampled_from(["data", "criterion"]))
def test_l3_and_l4_the_schur_gain_is_that_of_a_refit_and_no_less_than_the_omp_score(
    seed, l2_regularization, whiten
):
    rows, problem, costs = runs(seed, l2_regularization=l2_regularization, whiten=whiten)
    forward, omp = PursuitOracle(problem, "forward"), PursuitOracle(problem, "omp")
    order = greedy(PursuitOracle(problem), costs).order
    for t, g in enumerate(order):
        left = np.sort(order[t:])
        gains, scores = forward.gains(left), omp.gains(left)
        assert_allclose(gains, [rows.gain(order[:t], x) for x in left], rtol=1e-9, atol=1e-13)
        assert (scores <= gains + 1e-14).all()
        if t == 0:  # nothing bought yet that a group could share with
            assert_allclose(scores, gains, rtol=1e-10)
        forward.add(int(g))
        omp.add(int(g))


@given(seeds)
def test_l5_orthonormal_columns_make_all_methods_the_same_and_the_objective_modular(seed):
    random = np.random.default_rng(seed)
    table = random.normal(size=(40, 7))
    Q = np.linalg.qr(table - table.mean(axis=0))[0]
    y = Q @ random.normal(size=7) + 0.1 * random.normal(size=40)
    groups, costs = [[0, 1], [2], [3, 4, 5], [6]], random.uniform(0.5, 5.0, 4)
    rows = Rows(Q, y, groups)
    problem, _ = problem_of(rows)
    orders = [greedy(PursuitOracle(problem, c), costs).order.tolist() for c in ("omp", "forward", "norm")]
    assert orders[0] == orders[1] == orders[2]
    alone = [rows.value([g]) for g in range(4)]
    assert rows.value([0, 1, 2, 3]) == pytest.approx(sum(alone))
    rates = np.array(alone) / costs
    assert orders[0] == np.argsort(-rates, kind="stable").tolist()


def order_of(X, y, groups, costs, **settings):
    names = [str(g) for g in range(len(groups))]
    priced = at.FeatureCosts(
        dict(zip(names, costs, strict=True)), groups=dict(zip(names, groups, strict=True))
    )
    return "".join(
        at.GroupPursuitRegressor(costs=priced, **{"l2_regularization": 0.0, **settings}).fit(X, y).order_
    )


def test_l6_invertible_maps_within_a_group_change_no_order_of_omp_and_forward_regression():
    """60 instances; those of no-whiten and Single change on most (a negative control)."""
    changed = {"omp": 0, "forward": 0, "no-whiten": 0, "single": 0}
    settings = {
        "omp": {},
        "forward": {"selection": "forward"},
        "no-whiten": {"whiten": False},
        "single": {"selection": "single"},
    }
    for seed in range(60):
        random = np.random.default_rng([6, seed])
        X, y, groups = random_problem(random, [3, 2, 4, 2, 3])
        costs = np.round(random.uniform(0.5, 5.0, 5), 3)
        mapped = X.copy()
        for group in groups:
            A = random.normal(size=(len(group), len(group)))
            mapped[:, group] = X[:, group] @ A
        for name, more in settings.items():
            changed[name] += order_of(X, y, groups, costs, **more) != order_of(
                mapped, y, groups, costs, **more
            )
    assert changed["omp"] == changed["forward"] == 0
    assert min(changed["no-whiten"], changed["single"]) > 30


@given(seeds, st.sampled_from(["omp", "forward", "single", "forward_single"]), st.sampled_from([0.0, 0.1]))
def test_l7_units_of_costs_and_of_the_target_do_not_matter(seed, selection, l2_regularization):
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, [2, 1, 3, 2])
    costs = np.round(random.uniform(0.5, 5.0, 4), 3)
    settings = {"selection": selection, "l2_regularization": l2_regularization}
    order = order_of(X, y, groups, costs, **settings)
    assert order_of(X, y, groups, 8.0 * costs, **settings) == order
    assert order_of(X, 1e-3 * y + 7.0, groups, costs, **settings) == order
    assert order_of(-1e3 * X + 5.0, y, groups, costs, **settings) == order


@given(seeds, st.sampled_from(["omp", "forward", "single", "forward_single"]))
def test_l8_with_equal_costs_it_does_not_matter_whether_they_are_looked_at(seed, selection):
    X, y, groups = random_problem(np.random.default_rng(seed), [2, 1, 3, 2])
    aware, blind = (
        order_of(X, y, groups, [2.0] * 4, selection=selection, cost_aware=c) for c in (True, False)
    )
    assert aware == blind


def test_l9_a_column_twice_in_its_group_changes_no_order_of_whitened_scores():
    """60 instances for data-whitened OMP and forward regression; no-whiten changes on some (a negative control)."""
    changed = {"omp": 0, "forward": 0, "no-whiten": 0}
    settings = {"omp": {}, "forward": {"selection": "forward"}, "no-whiten": {"whiten": False}}
    for seed in range(60):
        random = np.random.default_rng([9, seed])
        X, y, groups = random_problem(random, [2, 3, 1, 2])
        costs = np.round(random.uniform(0.5, 5.0, 4), 3)
        twice = np.column_stack([X, X[:, groups[1][0]], X[:, groups[1][0]]])
        wider = [groups[0], [*groups[1], X.shape[1], X.shape[1] + 1], *groups[2:]]
        for name, more in settings.items():
            changed[name] += order_of(X, y, groups, costs, **more) != order_of(twice, y, wider, costs, **more)
    assert changed["omp"] == changed["forward"] == 0
    assert changed["no-whiten"] > 0


@given(seeds)
def test_l10_single_columns_of_equal_cost_are_textbook_pursuit(seed):
    """Orthogonal matching pursuit as scikit-learn has it, forward regression by trying all."""
    random = np.random.default_rng(seed)
    X, y, _ = random_problem(random, [1] * 6)
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    path = orthogonal_mp(Z, t, n_nonzero_coefs=6, return_path=True)
    sets = [frozenset(), *(frozenset(np.flatnonzero(path[:, j])) for j in range(path.shape[1]))]
    textbook = [next(iter(after - before)) for before, after in pairwise(sets)]
    groups = [[j] for j in range(6)]
    assert order_of(X, y, groups, [1.0] * 6) == "".join(map(str, textbook))
    forward: list[int] = []
    while len(forward) < 6:
        errors = {}
        for j in set(range(6)) - set(forward):
            A = Z[:, [*forward, j]]
            errors[j] = np.linalg.norm(t - A @ np.linalg.lstsq(A, t, rcond=None)[0])
        forward.append(min(errors, key=errors.get))
    assert order_of(X, y, groups, [1.0] * 6, selection="forward") == "".join(map(str, forward))


# ---------------------------------------------------------------------- several targets


@given(seeds, st.sampled_from(CRITERIA))
def test_one_target_repeated_leaves_the_order_as_it_is(seed, criterion):
    """functional_gradient_and_greedy 8.8: duplicated targets, and one alone."""
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, [2, 1, 3, 2])
    costs = random.uniform(0.5, 5.0, 4)
    one = greedy(PursuitOracle(problem_of(Rows(X, y, groups))[0], criterion), costs)
    three = greedy(
        PursuitOracle(problem_of(Rows(X, np.column_stack([y, 2 * y, -y]), groups))[0], criterion), costs
    )
    assert_array_equal(three.order, one.order)
    assert_allclose(three.values, 3 * one.values, rtol=1e-9)


@given(seeds)
def test_the_value_of_several_targets_is_the_sum_of_theirs(seed):
    random = np.random.default_rng(seed)
    X, Y, groups = random_problem(random, [2, 1, 3], k=3)
    together = PursuitOracle(problem_of(Rows(X, Y, groups, l2_regularization=0.1))[0], "forward")
    apart = [PursuitOracle(problem_of(Rows(X, y, groups, l2_regularization=0.1))[0], "forward") for y in Y.T]
    for g in (1, 2, 0):
        together.add(g)
        for oracle in apart:
            oracle.add(g)
        assert together.value == pytest.approx(sum(oracle.value for oracle in apart))
    weights = np.column_stack([oracle.path().coefficients[-1] for oracle in apart])
    assert_allclose(together.path().coefficients[-1], weights, rtol=1e-8)
