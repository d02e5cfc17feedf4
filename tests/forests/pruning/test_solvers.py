"""Minimum cuts, the primal-dual method, paths and budgets, against trying everything."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner, min_cut, primal_dual
from tests.reference import pruning as reference

LAMS = (0.003, 0.02, 0.06, 0.2)


def fields_of(problem):
    return {name: getattr(problem, name) for name in problem.__dataclass_fields__}


def chain(n_rows=1, prices=(1.0, 1.0), **changes):
    """One tree: node 0 tests group 0, its right child 2 group 1; all rows reach leaf 3."""
    fields = {
        "parent": [-1, 0, 0, 2, 2],
        "tree_start": [0, 5],
        "error": [10, 0, 4, 0, 1],
        "n_error": 20.0,
        "prices": prices,
        "leaf": np.full((n_rows, 1), 3),
        "weight": None,
        "group_start": [0, 1, 1, 2, 2, 2],
        "node_groups": [0, 1],
    }
    return PruningProblem(**(fields | changes))


def larger(seed=0, **more):
    return reference.random_problem(
        seed, **{"n_trees": 6, "depth": 5, "n_rows": 200, "n_groups": 20, "n_train": 150} | more
    )


# ---------------------------------------------------------------------- exact


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("evaluation_cost", [0.0, 0.05])
def test_minimum_cut_is_the_best_of_all_prunings(seed, evaluation_cost):
    """8.2: 120 forests of 2 trees of depth 3 and 8 cost rows, half with the computation term; the smallest one on ties."""
    problem = reference.random_problem(seed, evaluation_cost=evaluation_cost, weighted=seed % 2 == 0)
    prunings, error, spent = reference.lines(problem)
    for cost_penalty in LAMS:
        found = min_cut(problem, cost_penalty)
        values = error + cost_penalty * spent
        best = values.min()
        assert found.value == pytest.approx(best, rel=1e-9)
        assert found.bound == found.value
        smallest = np.logical_and.reduce([prunings[k] for k in np.flatnonzero(values <= best + 1e-11)])
        np.testing.assert_array_equal(found.internal, smallest)


@pytest.mark.parametrize("seed", range(40))
def test_minimum_cut_is_the_best_where_errors_rise_below_a_node(seed):
    """Errors on held-out rows may rise by a split, and by far more than all others lower them."""
    random = np.random.default_rng(seed)
    problem = reference.random_problem(seed, evaluation_cost=0.05 * (seed % 2))
    problem = replace(problem, error=problem.error * 10.0 ** random.integers(-6, 6, problem.n_nodes))
    _, error, spent = reference.lines(problem)
    for cost_penalty in (0.0, 1e-7, *LAMS):
        assert min_cut(problem, cost_penalty).value == pytest.approx(
            (error + cost_penalty * spent).min(), rel=1e-9
        )


def test_a_split_that_loses_far_more_than_others_gain_is_pruned():
    problem = PruningProblem(
        parent=[-1, 0, 0, -1, 3, 3],
        tree_start=[0, 3, 6],
        error=[1, 3, 3, 1e-3, 0, 0],
        n_error=10,
        prices=[1.0],
        leaf=[[1, 4], [2, 5]],
        weight=None,
        group_start=[0, 1, 1, 1, 2, 2, 2],
        node_groups=[0, 0],
        evaluation_cost=0.5,
    )
    assert min_cut(problem, 1e-7).value == pytest.approx(0.05 + 1.5e-7, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_a_pruning_costs_what_walking_rows_pay(seed):
    problem = reference.random_problem(seed, evaluation_cost=0.1, weighted=seed % 2 == 0)
    for internal in list(reference.all_prunings(problem))[::7]:
        assert problem.evaluate(internal) == pytest.approx(reference.evaluate(problem, internal), abs=1e-12)


def test_what_is_known_changes_nothing():
    problem = larger(3)
    cost_penalties = [pruning.cost_penalty for pruning in BudgetPruner(problem).path(n=9)]
    plain = [min_cut(problem, cost_penalty).internal for cost_penalty in cost_penalties]
    for k in range(1, 8):
        known = min_cut(problem, cost_penalties[k], at_least=plain[k - 1], at_most=plain[k + 1])
        np.testing.assert_array_equal(known.internal, plain[k])
    assert len({mask.tobytes() for mask in plain}) == 9


@pytest.mark.parametrize("evaluation_cost", [0.0, 0.02])
def test_prunings_are_nested_and_trade_error_for_cost(evaluation_cost):
    """4.7: internal nodes shrink as cost_penalty grows, error rises, cost falls, the value is concave."""
    for seed in range(10):
        problem = larger(seed, evaluation_cost=evaluation_cost)
        cost_penalties = np.linspace(0, 0.08, 15)
        found = [min_cut(problem, cost_penalty) for cost_penalty in cost_penalties]
        for less, more in zip(found[1:], found, strict=False):
            assert not (less.internal & ~more.internal).any()
            assert less.error >= more.error
            assert less.spent <= more.spent
        values = np.array([pruning.value for pruning in found])
        assert (np.diff(values, 2) <= 1e-12).all()
        assert (np.diff(values) >= 0).all()


def test_for_nothing_nothing_is_pruned_and_for_too_much_everything():
    """8.2: cost_penalty = 0 gives the error of the forest as it is, cost_penalty huge the mean error of the roots at no cost."""
    problem = larger(1)
    free = min_cut(problem, 0.0)
    whole = problem.evaluate(problem.splits)
    assert free.error == whole[0]
    assert not (free.internal & (problem.gain <= 0) & ~problem.splits).any()
    paid = replace(problem, prices=problem.prices + 1)
    for cost_penalty in (1e3, 1e300):
        roots = min_cut(paid, cost_penalty)
        assert not roots.internal.any()
        assert roots.cost == 0.0
        assert roots.error == pytest.approx(paid.error[paid.tree_start[:-1]].mean() / paid.n_error)
    assert min_cut(paid, 1e-300).error == whole[0]


def test_a_split_that_just_pays_for_itself_is_pruned():
    """Gain 6/20 against cost_penalty * 1 for the first node, then 3/20 for the second."""
    for cost_penalty, kept in [(0.15, 1), (0.15 - 1e-9, 2), (0.3, 0), (0.3 - 1e-9, 1)]:
        assert min_cut(chain(), cost_penalty).internal.sum() == kept
    # The second pays for the first: gains 0 and 10, prices 4 and 5 in twentieths.
    poor = chain(error=[10, 0, 10, 0, 0], prices=(4.0, 5.0))
    assert min_cut(poor, 1 / 18 - 1e-9).internal.sum() == 2
    assert min_cut(poor, 1 / 18 + 1e-9).internal.sum() == 0


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_unit_of_prices_changes_no_pruning(scale):
    problem = larger(2)
    scaled = replace(problem, prices=problem.prices * scale)
    for one, other in zip(BudgetPruner(problem).path(), BudgetPruner(scaled).path(), strict=True):
        np.testing.assert_array_equal(one.internal, other.internal)
        assert other.cost == pytest.approx(one.cost * scale)


def test_row_weights_are_repeated_rows():
    weighted = reference.random_problem(4, n_trees=4, depth=4, n_rows=40, weighted=True, evaluation_cost=0.01)
    times = weighted.weight.astype(int)
    repeated = replace(weighted, leaf=np.repeat(weighted.leaf, times, axis=0), weight=None)
    assert repeated.graph.n_rows == weighted.graph.n_rows < len(repeated.leaf)
    for cost_penalty in LAMS:
        for solve in (min_cut, primal_dual):
            one, other = solve(weighted, cost_penalty), solve(repeated, cost_penalty)
            np.testing.assert_array_equal(one.internal, other.internal)
            assert one.value == pytest.approx(other.value)
    scaled = replace(weighted, weight=weighted.weight * 7.5)
    np.testing.assert_array_equal(min_cut(weighted, 0.02).internal, min_cut(scaled, 0.02).internal)
    none = replace(weighted, weight=np.where(np.arange(40) < 20, weighted.weight, 0.0))
    half = replace(weighted, leaf=weighted.leaf[:20], weight=weighted.weight[:20])
    assert min_cut(none, 0.02).value == pytest.approx(min_cut(half, 0.02).value)


# ---------------------------------------------------------------------- the dual


@pytest.mark.parametrize("seed", range(40))
def test_the_recursion_is_the_shortest_path(seed):
    """4.10: V(h) = min(e_h, sum of V(children) + charges) equals the shortest path of the graph of arcs."""
    problem = reference.random_problem(seed, n_trees=2, depth=4)
    random = np.random.default_rng(seed)
    charge = random.exponential(0.05, problem.n_nodes) * (random.random(problem.n_nodes) < 0.7)
    coefficient = problem.error / (problem.n_error * problem.n_trees)
    expected = sum(reference.shortest_path(problem, t, coefficient, charge) for t in range(2))
    graph = problem.graph
    kept, gained = graph.prune_trees(problem.gain[graph.nodes], charge[graph.nodes])
    roots = coefficient[problem.tree_start[:-1]].sum()
    assert roots - gained == pytest.approx(expected, abs=1e-15)
    assert set(np.unique(kept)) <= {0, 1}


def distinct(problem):
    return replace(problem, leaf=np.unique(problem.leaf, axis=0))


@pytest.mark.parametrize("seed", range(30))
def test_no_multipliers_give_more_than_the_best_value(seed):
    """Weak duality for random beta, and the bound of the first iteration is D(beta)."""
    problem = distinct(reference.random_problem(seed, evaluation_cost=0.03 * (seed % 2)))
    random = np.random.default_rng(seed)
    links = reference.links(problem)
    _, error, spent = reference.lines(problem)
    for cost_penalty in LAMS:
        best = (error + cost_penalty * spent).min()
        price = cost_penalty / len(problem.leaf)
        beta = random.exponential(price * random.choice([0.1, 0.5, 2.0]), len(links))
        expected = reference.dual(problem, cost_penalty, dict(zip(links, beta, strict=True)))
        assert expected <= best + 1e-12
        start = replace(min_cut(problem, cost_penalty), state=beta / cost_penalty)
        first = primal_dual(problem, cost_penalty, step="sqrt", start=start, max_iter=1, tol=0.0)
        assert first.bound == pytest.approx(expected, abs=1e-12)


def cases():
    """18 small cases: 6 forests and 3 trade-offs."""
    return [
        (reference.random_problem(seed, n_trees=4, depth=4, n_rows=30, n_groups=6), cost_penalty)
        for seed in range(6)
        for cost_penalty in (0.005, 0.02, 0.05)
    ]


def test_square_root_steps_find_the_best_and_constant_steps_stall():
    """4.10: with gamma / sqrt(s) all hold the best pruning and most gaps close; a constant step leaves some open."""
    exact = [min_cut(problem, cost_penalty).value for problem, cost_penalty in cases()]
    settings = {"tol": 1e-9, "max_iter": 600}
    falling = [
        primal_dual(problem, cost_penalty, step="sqrt", **settings) for problem, cost_penalty in cases()
    ]
    np.testing.assert_allclose([p.value for p in falling], exact, rtol=1e-9)
    assert sum(p.gap <= 1e-9 * p.value for p in falling) >= 12
    assert max(p.gap / p.value for p in falling) < 5e-3
    constant = [
        primal_dual(problem, cost_penalty, step="constant", **settings) for problem, cost_penalty in cases()
    ]
    assert max(p.gap / p.value for p in constant) > 0.01
    assert sum(p.gap <= 1e-9 * p.value for p in constant) < sum(p.gap <= 1e-9 * p.value for p in falling)


@pytest.mark.parametrize("step", ["shares", "sqrt", "polyak"])
def test_values_bounds_and_gaps_are_true(step):
    for problem, cost_penalty in cases():
        exact = min_cut(problem, cost_penalty).value
        found = primal_dual(problem, cost_penalty, step=step, max_iter=300)
        assert found.bound <= exact + 1e-12
        assert found.value >= exact - 1e-12
        assert found.gap == pytest.approx(found.value - found.bound)
        assert found.value == pytest.approx(found.error + cost_penalty * found.spent)
        if found.iterations < 300:
            assert found.value <= exact * (1 + 1.01e-3)


def test_shares_close_the_gap():
    for seed in range(4):
        problem = larger(seed, evaluation_cost=0.005 * (seed % 2))
        for cost_penalty in (0.0, 0.001, 0.005, 0.01, 0.03, 0.1, 10.0):
            found = primal_dual(problem, cost_penalty, max_iter=2000)
            assert found.gap <= 1e-3 * found.value
            assert found.value <= min_cut(problem, cost_penalty).value * (1 + 1.01e-3)


@pytest.mark.parametrize("step", ["shares", "sqrt", "polyak", "constant"])
def test_same_bits_for_any_number_of_threads(step):
    problem = larger(5, n_trees=10, n_rows=1000)
    assert problem.graph.n_links > 10_000  # fewer are not shared out
    one, two, three = (
        primal_dual(problem, 0.01, step=step, max_iter=40, tol=0.0, n_threads=n) for n in (1, 2, 3)
    )
    for other in (two, three):
        assert (one.value, one.bound) == (other.value, other.bound)
        np.testing.assert_array_equal(one.state, other.state)
        np.testing.assert_array_equal(one.internal, other.internal)


@pytest.mark.parametrize("step", ["shares", "sqrt"])
def test_a_warm_start_saves_iterations(step):
    problem = larger(2)
    settings = {"step": step, "max_iter": 3000, "tol": 1e-3}
    first = primal_dual(problem, 0.019, **settings)
    cold = primal_dual(problem, 0.020, **settings)
    warm = primal_dual(problem, 0.020, start=first, **settings)
    assert warm.gap <= 1e-3 * warm.value
    assert warm.iterations < cold.iterations


# ---------------------------------------------------------------------- paths and budgets


@pytest.mark.parametrize("seed", range(12))
def test_a_path_has_every_pruning_that_is_best_for_some_lam(seed):
    """The value of the best pruning as a function of cost_penalty has the slopes and intercepts of the path, and no others."""
    problem = reference.random_problem(seed, evaluation_cost=0.02 * (seed % 3), weighted=seed % 2 == 0)
    _, error, spent = reference.lines(problem)
    path = BudgetPruner(problem).path(n=1000)
    for less, more in itertools.pairwise(path):
        assert less.cost_penalty > more.cost_penalty
        assert less.spent < more.spent
        assert not (less.internal & ~more.internal).any()
    for cost_penalty in [0.0, *np.geomspace(1e-4, 10, 200)]:
        best = (error + cost_penalty * spent).min()
        assert min(p.error + cost_penalty * p.spent for p in path) == pytest.approx(best, rel=1e-9, abs=1e-15)
    for pruning in path:
        assert pruning.value == pytest.approx((error + pruning.cost_penalty * spent).min(), rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_a_budget_buys_the_least_error_on_the_path(seed):
    problem = reference.random_problem(seed, evaluation_cost=0.02 * (seed % 3))
    path = BudgetPruner(problem).path(n=1000)
    for budget in np.linspace(path[0].spent, path[-1].spent + 0.5, 9):
        found = BudgetPruner(problem).to_budget(budget)
        assert found.spent <= budget
        assert found.error == min(p.error for p in path if p.spent <= budget)


def test_a_short_path_is_a_part_of_the_whole():
    pruner = BudgetPruner(larger(7))
    whole, short = pruner.path(n=1000), pruner.path(n=8)
    assert len(short) == 8 < len(whole)
    assert {p.internal.tobytes() for p in short} <= {p.internal.tobytes() for p in whole}
    for mine, theirs in ((short[0], whole[0]), (short[-1], whole[-1])):
        np.testing.assert_array_equal(mine.internal, theirs.internal)


@pytest.mark.parametrize("method", ["min_cut", "primal_dual"])
def test_every_method_gives_nested_paths_and_keeps_budgets(method):
    problem = larger(8, n_rows=60)
    pruner = BudgetPruner(problem, method)
    cost_penalties = [0.02, 0.001, 0.005, 0.05, 0.01]
    path = pruner.path(cost_penalties)
    assert [p.cost_penalty for p in path] == sorted(cost_penalties, reverse=True)
    for less, more in itertools.pairwise(path):
        assert not (less.internal & ~more.internal).any()
        assert less.spent <= more.spent
    for pruning in path:
        assert pruning.method == method
        assert pruning.value <= min_cut(problem, pruning.cost_penalty).value * 1.01
        assert pruning.bound <= pruning.value + 1e-9
    middle = (path[0].spent + path[-1].spent) / 2
    assert pruner.to_budget(middle).spent <= middle


def test_where_nothing_costs_anything_the_path_is_one_pruning():
    free = replace(larger(2), prices=np.zeros(20))
    [only] = BudgetPruner(free).path()
    assert only.spent == 0.0
    assert only.error == free.evaluate(free.splits)[0]
    assert BudgetPruner(free).to_budget(0.0).error == only.error
    assert free.graph.n_links == 0


# ---------------------------------------------------------------------- small and wrong


def test_trees_of_one_node_have_nothing_to_prune():
    stumps = PruningProblem(
        parent=[-1, -1],
        tree_start=[0, 1, 2],
        error=[3, 5],
        n_error=10,
        prices=[1.0],
        leaf=[[0, 1]],
        weight=None,
        group_start=[0, 0, 0],
        node_groups=[],
    )
    for found in (min_cut(stumps, 0.1), primal_dual(stumps, 0.1), BudgetPruner(stumps).to_budget(0.0)):
        assert not found.internal.any()
        assert (found.error, found.cost, found.evaluation_cost) == (0.4, 0.0, 0.0)
    assert len(BudgetPruner(stumps).path()) == 1


def test_one_row_and_a_branch_that_no_row_takes():
    """Rows decide what is paid; the branch they do not take is kept for nothing."""
    problem = chain(
        parent=[-1, 0, 0, 1, 1], group_start=[0, 1, 2, 2, 2, 2], error=[10, 4, 0, 0, 0], leaf=[[2]]
    )
    assert min_cut(problem, 0.3).internal.tolist() == [True, True, False, False, False]
    assert min_cut(problem, 0.3).cost == 1.0


def test_problems_and_pruners_can_be_pickled():
    pruner = BudgetPruner(larger(1))
    before = pruner.prune(0.01)
    again = pickle.loads(pickle.dumps(pruner))
    np.testing.assert_array_equal(again.prune(0.01).internal, before.internal)
    assert again.prune(0.02).value == pruner.prune(0.02).value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parent": [-1, 0, 0, 3, 2]}, "node 3 has the parent 3"),
        ({"parent": [-1, 0, -1, 2, 2]}, "node 2 has the parent -1"),
        ({"tree_start": [0]}, "no trees"),
        ({"tree_start": [0, 4]}, "from 0 to the number of nodes, 5"),
        ({"tree_start": [0, 0, 5]}, "tree 0 has no nodes"),
        ({"error": [1, 2]}, "error has 2 entries"),
        ({"error": [1, 2, np.nan, 0, 0]}, r"error\[2\] is nan"),
        ({"error": [1, -2, 0, 0, 0]}, r"error\[1\] is -2"),
        ({"n_error": 0}, "n_error is 0"),
        ({"prices": [1, np.inf]}, r"prices\[1\] is inf"),
        ({"evaluation_cost": -1.0}, "evaluation_cost is -1"),
        ({"leaf": [[2]]}, "reach node 2 in tree 0, which is no leaf"),
        ({"leaf": [[7]]}, "reach node 7"),
        ({"leaf": [[3, 3]]}, r"leaf must be \(rows, 1 trees\)"),
        ({"leaf": np.empty((0, 1))}, "no cost rows"),
        ({"weight": [1, 2]}, "weight has 2 entries"),
        ({"weight": [0.0]}, "all 0"),
        ({"weight": [-1.0]}, r"weight\[0\] is -1"),
        ({"group_start": [0, 1]}, "group_start must have 6 entries"),
        ({"group_start": [0, 1, 1, 3, 2, 2]}, "must rise"),
        ({"node_groups": [0, 2]}, r"outside \[0, 2\)"),
        ({"group_start": [0, 1, 2, 2, 2, 2]}, "node 1 has no children"),
        ({"group_start": [0, 2, 2, 2, 2, 2], "node_groups": [1, 1]}, "node 0 names group 1 twice"),
    ],
)
def test_a_malformed_problem_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        chain(**changes)


def test_wrong_arguments_are_named():
    problem = chain()
    for cost_penalty in (-1.0, np.nan, np.inf):
        for solve in (min_cut, primal_dual, lambda p, cost_penalty: BudgetPruner(p).prune(cost_penalty)):
            with pytest.raises(ValueError, match="cost_penalty is"):
                solve(problem, cost_penalty)
    with pytest.raises(ValueError, match="no step 'newton'"):
        primal_dual(problem, 0.1, step="newton")
    with pytest.raises(ValueError, match="tol is -1"):
        primal_dual(problem, 0.1, tol=-1)
    with pytest.raises(ValueError, match="max_iter is 0"):
        primal_dual(problem, 0.1, max_iter=0)
    with pytest.raises(ValueError, match="has nothing to start from"):
        primal_dual(problem, 0.1, start=min_cut(problem, 0.1))
    shares = primal_dual(larger(0), 0.01, max_iter=2)
    with pytest.raises(ValueError, match="another problem or another step rule"):
        primal_dual(larger(0), 0.01, step="sqrt", start=shares)
    with pytest.raises(ValueError, match="method is 'simplex'"):
        BudgetPruner(problem, "simplex")
    with pytest.raises(ValueError, match="nothing costs less than 0"):
        BudgetPruner(problem).to_budget(-1.0)
    with pytest.raises(ValueError, match="budget is NaN"):
        BudgetPruner(problem).to_budget(np.nan)
    with pytest.raises(ValueError, match="two ends"):
        BudgetPruner(problem).path(n=1)
    with pytest.raises(ValueError, match="node 2 stays internal but its parent 0 does not"):
        problem.evaluate(np.array([False, False, True, False, False]))
    with pytest.raises(ValueError, match="node 1 has no children"):
        min_cut(problem, 0.1, at_least=np.array([True, True, False, False, False]))
    with pytest.raises(ValueError, match=r"internal must be \(5,\) bool"):
        problem.evaluate(np.ones(4, dtype=bool))


def test_a_pruning_tells_its_gap():
    pruning = Pruning(np.zeros(1, bool), 0.5, 1.0, 2.0, 0.5, 2.25, 2.0)
    assert (pruning.spent, pruning.gap) == (2.5, 0.25)
