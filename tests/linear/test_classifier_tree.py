"""Trees of linear classifiers: budgeted_trees 5.5 (CSTC) and 5.6 (ASTC)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import anytime as at
from anytime import CostSensitiveTreeClassifier, SubmodularTreeClassifier
from anytime.files.plans import read_plan, write_plan
from anytime.files.reading import ArrayShelf, BadFileError, Fields
from anytime.linear.classifier_tree import LinearTree, LinearTreeBlock
from anytime.linear.cost_sensitive_tree import _PathObjective
from anytime.testing import check_anytime_estimator

COSTS = at.FeatureCosts(
    {"draw": 2.0, "a": 1.0, "b": 3.0, "c": 0.5, "free": 0.0},
    groups={"draw": [], "a": [0, 1], "b": [2], "c": [3, 4], "free": [5]},
    requires={"b": ["draw"]},
)


def problem(n=300, seed=0):
    """Three classes by a sum in which other columns count on the right of the root than on its left."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    score = 2 * X[:, 0] + 2 * np.where(X[:, 0] > 0, X[:, 2], X[:, 4]) + 0.2 * rng.normal(size=n)
    return X, np.digitize(score, [-1.0, 1.0])


def walked(tree: LinearTree, x, costs: at.FeatureCosts):
    """Scores of one row after each level, and what it has paid by then; node by node, as the definition says."""
    bound, v, groups, out = costs.bind(x.size), 0, set(), []
    x = np.where(np.isnan(x), 0.0, x - tree.centres)
    while v < len(tree.intercepts):
        inner = 2 * v + 1 < len(tree.intercepts)
        looked_at = [
            j for j in range(x.size) if tree.weights[v, j].any() or (inner and tree.routes[v, j] != 0)
        ]
        groups |= {costs.names[bound.column_group[j]] for j in looked_at}
        out.append((x @ tree.weights[v] + tree.intercepts[v], costs.price(groups)))
        v = 2 * v + 1 + int(x @ tree.routes[v] > tree.thresholds[v])
    return out


@pytest.mark.parametrize("seed", range(5))
def test_a_row_pays_once_for_each_group_that_the_nodes_on_its_path_look_at(seed):
    X, y = problem(seed=seed)
    X[::7, 2] = np.nan
    model = SubmodularTreeClassifier(costs=COSTS, max_stages=3).fit(X, y)
    rng = np.random.default_rng(seed)
    looks = rng.random((7, 6)) < 0.2
    tree = LinearTree(
        rng.normal(size=(7, 6, 3)) * looks[:, :, None],
        rng.normal(size=(7, 3)),
        rng.normal(size=(7, 6)) * (looks & (rng.random((7, 6)) < 0.8)),
        rng.normal(size=7) / 2,
        rng.normal(size=6) / 2,
    )
    model.plan_ = replace(model.plan_, blocks=[LinearTreeBlock(tree)])
    stages = list(model.stages(X[:60]))
    assert len(stages) == 1 + 3
    distinct = set()
    for i in range(60):
        for level, (scores, paid) in enumerate(walked(tree, X[i], COSTS), start=1):
            assert stages[level].scores[i] == pytest.approx(scores, abs=1e-9)
            assert stages[level].cost[i] == pytest.approx(paid)
            distinct.add((level, paid))
    assert len(distinct) > 3  # paths differ in what they cost


@pytest.mark.parametrize("kind", [SubmodularTreeClassifier, CostSensitiveTreeClassifier])
def test_scores_of_a_row_do_not_depend_on_the_rows_beside_it(kind):
    X, y = problem(n=2000)
    model = kind(max_stages=3).fit(X, y)
    together = model.decision_function(X)
    for size in (1, 2, 3, 7, 64):
        apart = np.concatenate([model.decision_function(X[i : i + size]) for i in range(0, 300, size)])
        assert np.array_equal(apart[:300], together[:300])


@pytest.mark.parametrize("kind", [SubmodularTreeClassifier, CostSensitiveTreeClassifier])
def test_learns_what_one_linear_classifier_cannot(kind):
    X, y = problem(n=4000)
    bent, flat = (kind(max_stages=n).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) for n in (3, 1))
    assert bent > flat + 0.03


# ---------------------------------------------------------------------- ASTC


def test_a_node_spends_no_more_than_its_budget_and_owns_what_its_ancestors_bought():
    X, y = problem()
    model = SubmodularTreeClassifier(costs=COSTS, node_budget=2.0, max_stages=3).fit(X, y)
    tree, bound = model.tree_, COSTS.bind(6)
    owned = {}
    for v in range(7):
        owned[v] = {COSTS.names[g] for g in bound.groups_of(np.flatnonzero(tree.support(v)))}
        if v:
            parent = (v - 1) // 2
            assert owned[parent] <= owned[v]
            assert COSTS.price(owned[v], owned[parent]) <= 2.0
    assert COSTS.price(owned[0]) <= 2.0
    cost = [answer.cost for answer in model.stages(X)]
    assert all((cost[t] <= 2.0 * t).all() for t in range(4))


def test_the_root_buys_by_explained_variance_per_price():
    """Forward regression by gain per price, every candidate fitted anew."""
    X, y = problem(seed=3)
    prices = np.array([2.0, 1.0, 3.0, 1.0, 2.0, 5.0])
    Y = np.eye(3)[y]
    Z, T = (X - X.mean(axis=0)) / X.std(axis=0), Y - Y.mean(axis=0)

    def explained(columns):
        A = Z[:, columns]
        w = np.linalg.solve(A.T @ A / len(A) + 1e-3 * np.eye(len(columns)), A.T @ T / len(A))
        return float((w * (A.T @ T / len(A))).sum()) if columns else 0.0

    chosen, spent = [], 0.0
    while fitting := [j for j in range(6) if j not in chosen and spent + prices[j] <= 6.0]:
        best = max(fitting, key=lambda j: (explained([*chosen, j]) - explained(chosen)) / prices[j])
        chosen.append(best)
        spent += prices[best]
    model = SubmodularTreeClassifier(costs=prices, node_budget=6.0, max_stages=1).fit(X, y)
    assert np.flatnonzero(model.tree_.support(0)).tolist() == sorted(chosen)


def test_every_node_halves_its_rows():
    X, y = problem(n=400)
    tree = SubmodularTreeClassifier(max_stages=3).fit(X, y).tree_
    node = np.zeros(400, dtype=int)
    for _ in range(2):
        node = (
            2 * node + 1 + ((X - tree.centres) * tree.routes[node]).sum(axis=1).__gt__(tree.thresholds[node])
        )
    assert np.bincount(node)[3:].tolist() == [100, 100, 100, 100]


def test_a_node_that_few_rows_reach_says_what_its_parent_does():
    X, y = problem(n=40)
    model = SubmodularTreeClassifier(max_stages=3, min_samples_leaf=15).fit(X, y)
    tree = model.tree_
    for v in range(3, 7):
        assert np.array_equal(tree.weights[v], tree.weights[(v - 1) // 2])


# ---------------------------------------------------------------------- CSTC


def path_objective(seed=0, n_levels=3):
    X, y = problem(n=60, seed=seed)
    Y, bound, share = np.eye(3)[y], COSTS.bind(6), np.full(60, 1 / 60)
    start = SubmodularTreeClassifier(node_budget=COSTS.total, max_stages=n_levels)._grow(X, Y, share, bound)
    objective = _PathObjective(X, Y, share, start, bound, cost_penalty=0.03, l1_regularization=0.01)
    rng = np.random.default_rng(seed)
    parameters = objective.parameters(start)
    return objective, parameters + 0.1 * rng.normal(size=parameters.size), X, Y


def test_gradient_of_the_objective_is_that_of_finite_differences():
    objective, parameters, _, _ = path_objective()
    objective.renew(parameters + 0.05)
    scale = np.linspace(0.5, 2.0, parameters.size)
    numeric = approx_fprime(parameters / scale, lambda u: objective(u, scale)[0], 1e-6)
    assert objective(parameters / scale, scale)[1] == pytest.approx(numeric, abs=1e-4)


def test_objective_is_the_printed_one_where_the_bounds_touch():
    """budgeted_trees 5.5, summed row by row and path by path."""
    objective, parameters, X, Y = path_objective()
    objective.renew(parameters)
    weights, intercepts, thresholds = objective.parts(parameters)
    bound, n, value = COSTS.bind(6), len(X), 0.0
    arrive = np.ones((7, n))
    for v in range(7):
        said = X @ weights[v]
        if v < 3:
            right = 1 / (1 + np.exp(-objective.steepness * (said @ objective.direction - thresholds[v])))
            arrive[2 * v + 1], arrive[2 * v + 2] = arrive[v] * (1 - right), arrive[v] * right
        value += (arrive[v] * ((said + intercepts[v] - Y) ** 2).sum(axis=1)).mean()
        value += 0.01 * np.abs(weights[v]).sum()
    for leaf, path in {3: [0, 1, 3], 4: [0, 1, 4], 5: [0, 2, 5], 6: [0, 2, 6]}.items():
        for g, name in enumerate(COSTS.names):
            norm = np.sqrt((weights[path][:, bound.column_group == g] ** 2).sum())
            value += 0.03 * arrive[leaf].mean() * COSTS.price([name]) * norm
    assert objective(parameters, np.ones(parameters.size))[0] == pytest.approx(value, abs=1e-3)


def test_a_higher_penalty_costs_less():
    X, y = problem(n=600)
    models = [CostSensitiveTreeClassifier(costs=COSTS, cost_penalty=p).fit(X, y) for p in (0.01, 0.3, 3.0)]
    costs = [float(model.cost(X).mean()) for model in models]
    assert costs[0] > costs[1] > costs[2]
    assert models[0].score(X, y) > models[2].score(X, y)


# ---------------------------------------------------------------------- as models


@pytest.mark.parametrize(
    "model",
    [
        SubmodularTreeClassifier(),
        SubmodularTreeClassifier(costs=[1, 2, 0, 4, 0.1, 3], meter="realised", budget=5.0),
        CostSensitiveTreeClassifier(max_iter=3),
    ],
    ids=["ASTC", "ASTC, realised", "CSTC"],
)
def test_anytime_checks(model):
    check_anytime_estimator(model)


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_head_keeps_the_upper_levels_and_budgets_hold(meter):
    X, y = problem()
    model = SubmodularTreeClassifier(costs=COSTS, node_budget=2.5, max_stages=3, meter=meter).fit(X, y)
    for budget in (0.0, 0.5, 1.5, 3.0, 4.0, 100.0):
        answer = model.answer(X, budget=budget)
        assert (answer.cost <= budget + 1e-9).all()
        assert np.array_equal(answer.prediction, model.predict(X, budget=budget))
        small = model.truncate(budget)
        assert np.array_equal(small.predict(X), answer.prediction)


def test_block_refuses_what_is_not_a_balanced_tree():
    tree = LinearTree(np.zeros((2, 1, 2)), np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match=r"a balanced tree has 1, 3, 7, .* nodes, not 2"):
        LinearTreeBlock(tree)
    tree = LinearTree(np.zeros((3, 1, 2)), np.zeros((3, 2)), np.zeros((3, 2)), np.zeros(3), np.zeros(1))
    with pytest.raises(ValueError, match=r"routes has shape \(3, 2\), but needs \(3, 1\)"):
        LinearTreeBlock(tree)


def test_state_of_the_block_reads_back():
    X, y = problem()
    block = SubmodularTreeClassifier(costs=COSTS).fit(X, y).plan_.blocks[0]
    again = LinearTreeBlock.from_state(*block.state())
    for stage in range(3):
        assert np.array_equal(again.outputs(stage, X), block.outputs(stage, X))
        assert np.array_equal(again.head(stage + 1).outputs(stage, X), block.outputs(stage, X))


@pytest.mark.parametrize(
    "model", [SubmodularTreeClassifier(costs=COSTS), CostSensitiveTreeClassifier(costs=COSTS, max_iter=2)]
)
def test_a_saved_tree_says_the_same(model, tmp_path):
    X, y = problem()
    model.fit(X, y).save(tmp_path / "tree.anytime")
    again = at.load(tmp_path / "tree.anytime")
    assert type(again) is type(model)
    for budget in (0.0, 2.0, 4.0, None):
        assert np.array_equal(again.predict_proba(X, budget=budget), model.predict_proba(X, budget=budget))


def test_a_file_whose_tree_reads_other_columns_is_refused():
    plan = SubmodularTreeClassifier(costs=COSTS).fit(*problem()).plan_
    description, arrays = write_plan(plan)
    arrays["plan.blocks.0.centres"] = np.zeros(5)
    with pytest.raises(BadFileError, match="of 5 columns, not 6"):
        read_plan(Fields(description, "plan"), ArrayShelf(arrays), 6, None, 10**6)


@pytest.mark.parametrize("kind", [SubmodularTreeClassifier, CostSensitiveTreeClassifier])
def test_a_weight_counts_like_as_many_rows_and_classes_can_weigh(kind):
    X, y = problem(n=150)
    weight = np.where(y == 0, 3.0, 1.0)
    weighted = kind(max_stages=2).fit(X, y, sample_weight=weight)
    by_class = kind(max_stages=2, class_weight={0: 3.0}).fit(X, y)
    repeated = kind(max_stages=2).fit(
        np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int))
    )
    assert np.array_equal(by_class.predict_proba(X), weighted.predict_proba(X))
    assert repeated.predict_proba(X) == pytest.approx(weighted.predict_proba(X), abs=1e-3)
    assert not np.allclose(
        kind(max_stages=2).fit(X, y).predict_proba(X), weighted.predict_proba(X), atol=0.02
    )
