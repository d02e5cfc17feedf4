"""The integer program of pruning and its relaxation, against the minimum cut and against all prunings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anytime.forests.pruning.solvers import min_cut
from anytime_research.forests.program import linear_program, naive_program, pruning_program
from tests.forests.pruning.cases import (
    all_prunings,
    naive_fixture,
    objective,
    random_problem,
    worked_example,
)
from tests.reference import pruning as reference

LAMBDAS = (0.01, 0.05, 0.1)


def test_worked_example_constraints():
    """budgeted_trees 4.9: eleven equalities, and four rows that tie the trees together."""
    program = pruning_program(worked_example(), 0.5)
    assert program.equal.shape == (11, 19)
    assert program.below.shape == (4, 19)
    assert program.uses.tolist() == [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 2, 0]]
    assert program.pairs.tolist() == [[0, 0], [1, 0], [2, 0]]
    rows = {frozenset(np.flatnonzero(row)) for row in program.equal.toarray()}
    z = dict(zip(range(1, 13), range(12), strict=True))
    w = {"w11_1": 12, "w21_1": 13, "w21_2": 14, "w31_2": 15}
    expected = [
        *([z[1], z[2]], [z[1], z[3], z[4]], [z[1], z[3], z[5]], [z[1], z[3], w["w21_1"]], [z[1], w["w11_1"]]),
        *([z[6], z[7], z[8]], [z[6], z[7], z[9]], [z[6], z[10], z[11]], [z[6], z[10], z[12]]),
        *([z[6], z[10], w["w31_2"]], [z[6], w["w21_2"]]),
    ]
    assert rows == {frozenset(row) for row in expected}
    assert_array_equal(program.objective[:16], 0)
    assert_array_equal(program.objective[16:], 0.5)


def test_naive_relaxation_claims_half_a_price():
    """budgeted_trees 4.8: 1.5 instead of 2.0, at a vertex with halves; the whole program says 2.0."""
    naive = naive_program(naive_fixture(), 0.5)
    relaxed = naive.solve()
    assert relaxed.value == pytest.approx(1.5, abs=1e-9)
    assert_allclose(relaxed.variables, [0, 1, 0.5, 0.5, 0.5, 0.5, 0.5], atol=1e-9)
    assert relaxed.violation == pytest.approx(0.5)
    assert relaxed.n_fractional == 5
    assert naive.solve(integer=True).value == pytest.approx(2.0, abs=1e-9)


def test_the_fractional_point_is_a_vertex():
    """budgeted_trees 4.8: seven active constraints of rank seven."""
    naive = naive_program(naive_fixture(), 0.5)
    point = np.array([0, 1, 0.5, 0.5, 0.5, 0.5, 0.5])
    bounds = np.eye(7)[(point == 0) | (point == 1)]
    tight = naive.below.toarray()[np.abs(naive.below @ point) < 1e-12]
    assert np.linalg.matrix_rank(np.vstack([naive.equal.toarray(), tight, bounds])) == 7


def test_the_relaxation_of_the_fixture_is_whole():
    """budgeted_trees 4.8: nothing is pruned for 2.0; at the root it would be 10, at node 3 2.5."""
    problem = naive_fixture()
    solution = pruning_program(problem, 0.5).solve()
    assert solution.value == pytest.approx(2.0, abs=1e-9)
    assert solution.violation < 1e-9
    values = sorted(objective(problem, internal, 0.5) for internal in all_prunings(problem))
    assert_allclose(values, [2.0, 2.5, 10.0])
    assert_array_equal(solution.internal, [True, False, True, False, False])


@pytest.mark.parametrize("prices", [(1.0,), (1.0, 5.0, 20.0)])
@pytest.mark.parametrize("seed", range(12))
def test_relaxations_are_whole_and_equal_the_minimum_cut(seed, prices):
    """budgeted_trees 4.6: 72 forests of 4 trees of depth 4 with 30 rows and 6 groups, uniform and uneven prices."""
    problem = random_problem(seed, n_trees=4, depth=4, n_rows=30, n_groups=6, prices=prices)
    for cost_penalty in LAMBDAS:
        solution = pruning_program(problem, cost_penalty / np.mean(problem.prices)).solve()
        assert solution.violation < 1e-7
        cut = min_cut(problem, cost_penalty / np.mean(problem.prices))
        assert solution.value == pytest.approx(cut.value, abs=1e-7)


@pytest.mark.parametrize("evaluation_cost", [0.0, 0.05])
@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_no_pruning_is_better(seed, arity, evaluation_cost):
    """budgeted_trees 8.2: all prunings of two trees of depth 3 with 8 rows, half with a price on computation."""
    problem = random_problem(
        seed,
        depth=3 if arity == 2 else 2,
        arity=arity,
        prices=(1.0, 3.0),
        requires=seed % 2 == 1,
        weight=np.random.default_rng(seed).dirichlet(np.ones(8)) * 8 if seed % 3 == 0 else None,
        evaluation_cost=evaluation_cost,
    )
    for cost_penalty in LAMBDAS:
        best = min(objective(problem, internal, cost_penalty) for internal in all_prunings(problem))
        program = pruning_program(problem, cost_penalty)
        relaxed, whole = program.solve(), program.solve(integer=True)
        assert relaxed.violation < 1e-9
        assert relaxed.value == pytest.approx(best, abs=1e-9)
        assert whole.value == pytest.approx(best, abs=1e-9)
        assert objective(problem, relaxed.internal, cost_penalty) == pytest.approx(best, abs=1e-9)


def test_the_naive_relaxation_is_lower_on_many_forests():
    """The negative control: the same forests, and a bound that no pruning reaches."""
    gaps = []
    for seed in range(8):
        problem = random_problem(seed, n_trees=4, depth=4, n_rows=30, n_groups=6)
        gaps.append(pruning_program(problem, 0.1).solve().value - naive_program(problem, 0.1).solve().value)
    assert min(gaps) > -1e-9
    assert np.sum(np.array(gaps) > 1e-4) >= 4


def test_a_pruning_by_the_relaxation():
    problem = random_problem(5, n_trees=3, depth=4, n_rows=20)
    found, cut = linear_program(problem, 0.02), min_cut(problem, 0.02)
    assert found.method == "lp"
    assert found.value == pytest.approx(cut.value, abs=1e-9)
    assert found.gap < 1e-9
    assert found.value == pytest.approx(objective(problem, found.internal, 0.02), abs=1e-12)


def test_trees_that_are_one_leaf():
    problem = random_problem(0, depth=0)
    solution = pruning_program(problem, 1.0).solve()
    assert not solution.internal.any()
    assert solution.value == pytest.approx(objective(problem, solution.internal, 1.0))
    assert naive_program(problem, 1.0).solve().value == pytest.approx(solution.value)


@pytest.mark.parametrize("seed", range(6))
def test_minimum_cut_equals_the_linear_program_on_larger_forests(seed):
    size = {"n_trees": 6, "depth": 5, "n_rows": 80, "n_groups": 20, "n_train": 150}
    problem = reference.random_problem(seed, **size, evaluation_cost=0.01 * (seed % 2))
    for cost_penalty in (0.001, 0.01, 0.03):
        exact = linear_program(problem, cost_penalty).value
        assert min_cut(problem, cost_penalty).value == pytest.approx(exact, rel=1e-8)
