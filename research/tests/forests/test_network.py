"""One tree as a graph: the worked example of Nan's thesis, figures 4.1 and 4.2, entry by entry."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anytime.forests.pruning.problem import PruningProblem
from anytime_research.forests.network import TreeNetwork, is_totally_unimodular
from anytime_research.forests.program import naive_program, node_costs, pruning_program
from tests.forests.pruning.cases import all_prunings, naive_fixture, random_problem, rows_of, worked_example


def dense(text):
    return np.array([[int(entry) for entry in line.split()] for line in text.strip().splitlines()])


def network_form(problem):
    """The constraints of a whole forest with the equalities of every tree in network form."""
    program = pruning_program(problem, 1.0)
    parts = [TreeNetwork.of(problem, t) for t in range(problem.n_trees)]
    n_nodes, n_uses = problem.n_nodes, len(program.uses)
    rows, done = [], 0
    for part in parts:
        wide = np.zeros((part.n_leaves + 1, program.objective.size))
        wide[:, part.nodes] = part.network_matrix[:, : part.nodes.size]
        wide[:, n_nodes + done : n_nodes + done + len(part.uses)] = part.network_matrix[:, part.nodes.size :]
        rows.append(wide)
        done += len(part.uses)
    assert done == n_uses
    return np.vstack([*rows, program.below.toarray()])


def test_worked_example_first_tree():
    """budgeted_trees 4.9: the constraints, the network matrix and the arcs of tree 1."""
    network = TreeNetwork.of(worked_example(), 0)
    assert_array_equal(
        network.matrix,
        dense("""1 1 0 0 0 0 0
                 1 0 1 1 0 0 0
                 1 0 1 0 1 0 0
                 1 0 1 0 0 0 1
                 1 0 0 0 0 1 0"""),
    )
    assert_array_equal(
        network.network_matrix,
        dense("""-1 -1  0  0  0  0  0
                  0  1 -1 -1  0  0  0
                  0  0  0  1 -1  0  0
                  0  0  0  0  1  0 -1
                  0  0  1  0  0 -1  1
                  1  0  0  0  0  1  0"""),
    )
    assert network.uses.tolist() == [[0, 0], [1, 0]]  # w11, w21
    arcs = {
        "z1": (1, 6),
        "z2": (1, 2),
        "z3": (2, 5),
        "z4": (2, 3),
        "z5": (3, 4),
        "w11": (5, 6),
        "w21": (4, 5),
    }
    assert list(zip(network.tail + 1, network.head + 1, strict=True)) == list(arcs.values())


def test_worked_example_second_tree():
    """budgeted_trees 4.9: the same of tree 2, without the column of zeros that the thesis prints too much."""
    network = TreeNetwork.of(worked_example(), 1)
    assert_array_equal(
        network.matrix,
        dense("""1 1 1 0 0 0 0 0 0
                 1 1 0 1 0 0 0 0 0
                 1 0 0 0 1 1 0 0 0
                 1 0 0 0 1 0 1 0 0
                 1 0 0 0 1 0 0 0 1
                 1 0 0 0 0 0 0 1 0"""),
    )
    assert_array_equal(
        network.network_matrix,
        dense("""-1 -1 -1  0  0  0  0  0  0
                  0  0  1 -1  0  0  0  0  0
                  0  1  0  1 -1 -1  0  0  0
                  0  0  0  0  0  1 -1  0  0
                  0  0  0  0  0  0  1  0 -1
                  0  0  0  0  1  0  0 -1  1
                  1  0  0  0  0  0  0  1  0"""),
    )
    assert network.uses.tolist() == [[1, 0], [2, 0]]  # w21, w31
    arcs = [(1, 7), (1, 3), (1, 2), (2, 3), (3, 6), (3, 4), (4, 5), (6, 7), (5, 6)]
    assert list(zip((network.tail + 1).tolist(), (network.head + 1).tolist(), strict=True)) == arcs


def test_a_path_is_a_pruning():
    """budgeted_trees 4.9: the path 1-2-5-6 prunes tree 1 at node 3, and feature 1 is acquired."""
    network = TreeNetwork.of(worked_example(), 0)
    cheap = np.full(network.tail.size, 10.0)
    cheap[[1, 2, 5]] = 1.0  # z2, z3, w11
    length, used = network.shortest_path(cheap)
    assert length == 3.0
    assert_array_equal(np.flatnonzero(used), [1, 2, 5])


def test_ties_prune():
    network = TreeNetwork.of(worked_example(), 0)
    _, used = network.shortest_path(np.zeros(network.tail.size))
    assert_array_equal(np.flatnonzero(used), [0])


def test_costs_of_another_graph_are_refused():
    with pytest.raises(ValueError, match="7 arcs"):
        TreeNetwork.of(worked_example(), 0).shortest_path(np.zeros(6))


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_every_column_is_a_run_of_ones_and_an_arc(seed, arity):
    problem = random_problem(seed, arity=arity)
    for t in range(problem.n_trees):
        network = TreeNetwork.of(problem, t)
        matrix, arcs = network.matrix, network.network_matrix
        for column, tail, head in zip(matrix.T, network.tail, network.head, strict=True):
            assert_array_equal(np.flatnonzero(column), np.arange(tail, head))
        assert_array_equal(np.sort(arcs, axis=0)[[0, -1]], np.array([[-1.0], [1.0]]) * np.ones(arcs.shape[1]))
        assert_array_equal(np.abs(arcs).sum(axis=0), 2)


@pytest.mark.parametrize("seed", range(8))
def test_the_shortest_path_is_the_tree_recursion(seed):
    """budgeted_trees 4.10: ``V(h) = min(ehat_h, sum_c V(c) + sum of beta)``."""
    random = np.random.default_rng(seed)
    problem = random_problem(seed, n_trees=1, depth=4, n_rows=6, arity=2 + seed % 2, evaluation_cost=0.05)
    network = TreeNetwork.of(problem, 0)
    costs = node_costs(problem, 0.3)
    beta = random.uniform(0, 0.05, len(network.uses))
    extra = np.zeros(problem.n_nodes)
    matrix = network.matrix
    for use in range(beta.size):  # hangs below the smallest node whose run of leaves holds its own
        place = int(np.flatnonzero(matrix[:, network.nodes.size + use])[0])
        above = np.flatnonzero(matrix[place, : network.nodes.size])
        extra[above[np.argmin((network.head - network.tail)[above])]] += beta[use]
    best = costs.copy()
    for node in range(problem.n_nodes)[::-1]:
        children = np.flatnonzero(problem.parent == node)
        if children.size:
            best[node] = min(costs[node], best[children].sum() + extra[node])
    length, used = network.shortest_path(np.concatenate([costs, beta]))
    assert length == pytest.approx(best[0], rel=1e-12)
    assert_array_equal(matrix @ used, 1)


def test_as_many_paths_as_prunings():
    problem = random_problem(3, n_trees=1)
    network = TreeNetwork.of(problem, 0)
    paths = np.zeros(network.n_leaves + 1)
    paths[0] = 1
    for arc in np.argsort(network.head, kind="stable"):
        paths[network.head[arc]] += paths[network.tail[arc]]
    assert paths[-1] == len(list(all_prunings(problem))) > 3


# ---------------------------------------------------------------------- total unimodularity


def test_the_worked_example_is_totally_unimodular():
    """budgeted_trees 4.6: all 2^15 sets of rows of the constraints, and all 2^17 of their network form."""
    problem = worked_example()
    program = pruning_program(problem, 1.0)
    constraints = np.vstack([program.equal.toarray(), program.below.toarray()])
    assert constraints.shape == (15, 19)
    assert is_totally_unimodular(constraints)
    form = network_form(problem)
    assert form.shape == (17, 19)
    assert is_totally_unimodular(form)


@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize("second", [(0, 1), (1, 0)])
def test_trees_that_share_groups_in_the_same_and_in_opposite_order_are_totally_unimodular(second, both_sides):
    """budgeted_trees 4.6: two trees that both test two groups on the way of a row; the second also on the other side."""
    parent = [-1, 0, 0, 2, 2, -1, 5, 5, 7, 7]
    groups = [[0], [], [1], [], [], [second[0]], [], [second[1]], [], []]
    if both_sides:
        parent += [6, 6]
        groups = [*groups[:6], [second[1]], *groups[7:], [], []]
    problem = PruningProblem(
        parent=parent,
        tree_start=[0, 5, len(parent)],
        error=np.zeros(len(parent)),
        n_error=1,
        prices=[1.0, 1.0],
        leaf=[[3, 8]],
        weight=None,
        **rows_of(groups),
    )
    program = pruning_program(problem, 1.0)
    assert len(program.uses) == 4, "both groups are needed in both trees"
    assert is_totally_unimodular(np.vstack([program.equal.toarray(), program.below.toarray()]))
    assert is_totally_unimodular(network_form(problem))


def test_the_naive_constraints_are_not():
    """budgeted_trees 4.8: the negative control."""
    program = naive_program(naive_fixture(), 0.5)
    assert not is_totally_unimodular(np.vstack([program.equal.toarray(), program.below.toarray()]))


@pytest.mark.parametrize("seed", range(12))
def test_the_checker_agrees_with_determinants(seed):
    from itertools import combinations

    random = np.random.default_rng(seed)
    matrix = random.choice([-1, 0, 1], size=(4, 5), p=[0.2, 0.55, 0.25])
    determinants = {
        round(float(np.linalg.det(matrix[np.ix_(rows, columns)])))
        for size in range(1, 5)
        for rows in combinations(range(4), size)
        for columns in combinations(range(5), size)
    }
    assert is_totally_unimodular(matrix) == (determinants <= {-1, 0, 1})
    assert is_totally_unimodular(matrix.T) == is_totally_unimodular(matrix)


def test_other_entries_and_large_matrices():
    assert not is_totally_unimodular([[2]])
    with pytest.raises(ValueError, match="20 rows"):
        is_totally_unimodular(np.zeros((21, 30)))
    with pytest.raises(ValueError, match="shape"):
        is_totally_unimodular([1, 0])
