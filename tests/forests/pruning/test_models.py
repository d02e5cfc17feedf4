"""Pruned forests: what they answer, what rows pay, and that both hold at every budget."""

import copy

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import (
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier

import anytime as at
from anytime.forests.nodes import node_statistics
from anytime.forests.pruning.problem import PruningProblem
from anytime.forests.pruning.pruned_forests import PrunedForestClassifier, prune_forest
from tests.forests.pruning.forests import CANCER, DIABETES, FORESTS, GROUPED, LIGHTGBM, WINE, answers, halves

# ---------------------------------------------------------------------- nothing pruned, everything pruned


@pytest.mark.parametrize("name", FORESTS)
def test_nothing_pruned_answers_as_the_original(name):
    model, data = FORESTS[name]
    X, y, held, truth = halves(data)
    model = clone(model).fit(X, y)
    made = prune_forest(model, held, truth)
    scale = np.abs(answers(model, held)).max()
    assert_allclose(answers(made, held), answers(model, held), atol=2e-6 * scale)
    assert made.n_nodes_ == node_statistics(model, X, y).trees.feature.size
    assert made.gap_ == 0
    for answer in made.stages(held):
        assert np.isfinite(answer.scores).all()


@pytest.mark.parametrize("name", FORESTS)
def test_a_huge_weight_of_cost_leaves_the_roots(name):
    """budgeted_trees 8.2: every tree is its root, the cost is 0, the error is the mean of the roots'."""
    model, data = FORESTS[name]
    X, y, held, truth = halves(data)
    model = clone(model).fit(X, y)
    made = prune_forest(model, held, truth, cost_penalty=1e9, out_of_bag=0.0)
    nodes = (
        node_statistics(model, held, truth) if "boost" in name or "light" in name else node_statistics(model)
    )
    roots = nodes.trees.tree_start[:-1]
    assert made.n_nodes_ == roots.size
    assert_array_equal(made.cost(held), 0)
    assert made.path_.error[-1] == pytest.approx(nodes.error[roots].mean() / nodes.n_error)
    assert_allclose(made.answer(held).scores, np.tile(nodes.base, (len(held), 1)), rtol=1e-6)


def test_no_weight_of_cost_keeps_the_training_error(forest):
    """budgeted_trees 8.2: with cost_penalty = 0 the error is that of the whole forest, with fewer nodes."""
    model, held, truth = forest
    free, whole = (
        prune_forest(model, held, truth, cost_penalty=cost_penalty, out_of_bag=0.0)
        for cost_penalty in (0.0, None)
    )
    assert free.path_.error[-1] == pytest.approx(whole.path_.error[-1], abs=1e-12)
    assert free.n_nodes_ <= whole.n_nodes_


# ---------------------------------------------------------------------- what rows pay


def test_after_each_stage_a_row_has_paid_the_cost_of_that_pruning(forest, pruned):
    """Prunings are nested, so that nothing is paid for what a larger one does not read."""
    model, held, _ = forest
    nodes = node_statistics(model)
    problem = PruningProblem.of(nodes.trees, nodes.error, nodes.n_error, held, GROUPED.bind(13))
    whole = list(pruned.stages(held))
    assert len(whole) == pruned.n_stages_ + 1 > 4
    for stage, answer in zip(pruned.path_.stages, whole[1:], strict=True):
        assert answer.cost.mean() == pytest.approx(pruned.path_.cost[stage])
    assert_array_equal(pruned.plan_.expected_costs, pruned.path_.cost[pruned.path_.stages])
    # the last one row by row: unique groups over all trees, requirements included
    needed = np.zeros((len(held), 5), dtype=bool)
    for i, t in np.ndindex(problem.leaf.shape):
        node = problem.parent[problem.leaf[i, t]]
        while node >= 0:
            needed[i, problem.node_groups[slice(*problem.group_start[node : node + 2])]] = True
            node = problem.parent[node]
    assert_allclose(whole[-1].cost, needed @ [2.0, 1.0, 4.0, 0.0, 3.0])


def test_a_forest_costs_no_more_than_its_trees_and_than_everything(forest):
    """budgeted_trees 1.2: unique groups over all trees; one more tree costs no less, the same tree again costs nothing."""
    model, held, truth = forest
    total = prune_forest(model, held, truth, costs=GROUPED)
    paid = total.cost(held)
    alone = [prune_forest(tree, held, costs=GROUPED).cost(held) for tree in model.estimators_[:6]]
    six = copy.copy(model)
    six.estimators_ = model.estimators_[:6]
    some = prune_forest(six, held, truth, costs=GROUPED).cost(held)
    assert (some <= np.sum(alone, axis=0)).all()
    assert (some >= np.max(alone, axis=0)).all()
    assert (paid >= some).all()
    assert paid.max() <= GROUPED.total
    assert paid.max() >= paid.mean()
    twice = copy.copy(model)
    twice.estimators_ = model.estimators_ * 2
    assert_array_equal(prune_forest(twice, held, truth, costs=GROUPED).cost(held), paid)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    "name", ["random forest", "extra trees", "lightgbm, three classes", "xgboost, numbers"]
)
def test_a_budget_is_met_on_held_out_rows(name, share):
    model, data = FORESTS[name]
    X, y, held, truth = halves(data)
    model = clone(model).fit(X, y)
    whole = prune_forest(model, held, truth)
    budget = share * whole.path_.cost[-1]
    made = prune_forest(model, held, truth, mean_budget=budget)
    assert made.cost(held).mean() <= budget + 1e-9
    assert made.path_.cost[-1] == pytest.approx(made.cost(held).mean())
    assert made.path_.cost[-1] <= made.plan_.expected_costs[-1] <= budget + 1e-9
    assert made.path_.error[-1] < made.path_.error[0]
    assert made.n_nodes_ < whole.n_nodes_


def test_a_budget_that_is_large_enough_prunes_nothing(forest):
    model, held, truth = forest
    made = prune_forest(model, held, truth, mean_budget=13.0)
    assert_allclose(made.predict_proba(held), model.predict_proba(held), atol=1e-12)


def test_the_path_is_nested_and_rises(forest, pruned):
    model, held, truth = forest
    path = pruned.path_
    assert (np.diff(path.cost_penalty) <= 0).all()
    assert (np.diff(path.cost) >= -1e-12).all()
    assert (np.diff(path.error[path.cost_penalty > 0]) <= 1e-12).all()
    assert (np.diff(path.n_nodes) > 0).all()
    reached = [[len(block.columns(0))] for block in pruned.plan_.blocks]
    assert reached == sorted(reached)
    kept = [
        prune_forest(model, held, truth, cost_penalty=cost_penalty).pruning_.internal
        for cost_penalty in (0.1, 0.03, 0.001)
    ]
    assert (kept[0] <= kept[1]).all()
    assert (kept[1] <= kept[2]).all()
    assert kept[0].sum() < kept[2].sum()


def test_free_groups_are_used_before_anything_is_paid(pruned, forest):
    """The group of price 0 may be tested at once; whoever has no budget gets that answer."""
    _, held, _ = forest
    free = pruned.answer(held, mean_budget=0)
    assert_array_equal(free.cost, 0)
    assert set(free.groups) <= {"third"}


def test_computation_prunes_more(forest):
    model, held, truth = forest
    cost_penalty = 0.005
    without = prune_forest(model, held, truth, cost_penalty=cost_penalty)
    priced = prune_forest(model, held, truth, cost_penalty=cost_penalty, evaluation_cost=1.0)
    assert priced.n_nodes_ < without.n_nodes_
    assert priced.path_.evaluation_cost[-1] > 0
    assert_array_equal(without.path_.evaluation_cost, 0)


def test_weights_are_repeated_rows(forest):
    model, held, truth = forest
    weight = np.random.default_rng(0).integers(0, 3, len(held))
    repeated = np.repeat(np.arange(len(held)), weight)
    weighted = prune_forest(model, held, truth, sample_weight=weight, mean_budget=3.0)
    rows = prune_forest(model, held[repeated], truth[repeated], mean_budget=3.0)
    assert_allclose(weighted.path_.cost, rows.path_.cost)
    assert_allclose(weighted.path_.loss, rows.path_.loss)
    assert_array_equal(weighted.predict(held), rows.predict(held))


def test_a_session_computes_and_pays_exactly_the_path(forest):
    """Lazy features: what is extracted for an example is what its paths test, and what those require."""
    model, held, truth = forest
    made = prune_forest(model, held, truth, costs=GROUPED, mean_budget=6.0)
    computed = []

    def extractor(name, columns):
        def extract(row):
            computed.append(name)
            return row[columns]

        return extract

    features = at.Features(
        {name: extractor(name, list(columns)) for name, columns in GROUPED.groups.items() if columns},
    )
    session = at.Session(made, features)
    paid = made.cost(held)
    for i in range(0, len(held), 5):
        computed.clear()
        answer = session.predict(held[i])
        assert answer.prediction == made.predict(held[i : i + 1])[0]
        assert answer.cost == pytest.approx(paid[i])
        assert len(computed) == len(set(computed))
        assert set(computed) == set(answer.groups) - {"lab"}


# ---------------------------------------------------------------------- choosing


def test_tolerance_chooses_the_cheapest_pruning_that_is_good_enough(forest):
    model, held, truth = forest
    every = prune_forest(model, held, truth, max_stages=100, out_of_bag=0.0).path_
    best = int(np.argmin(every.loss))
    strict, lax = (prune_forest(model, held, truth, tolerance=t) for t in (0.0, 2.0))
    assert strict.path_.loss[-1] == every.loss[best]
    assert strict.path_.cost[-1] == every.cost[best]
    limit = every.loss[best] + 2.0 * every.deviation[best]
    assert lax.path_.cost[-1] == every.cost[np.flatnonzero(every.loss <= limit)[0]]
    assert lax.path_.cost[-1] <= strict.path_.cost[-1]


def test_majority_votes(forest):
    model, held, truth = forest
    made = prune_forest(model, held, truth, vote="majority")
    labels = np.array([tree.predict(held) for tree in model.estimators_]).astype(int)
    shares = (labels[:, :, None] == np.arange(3)).mean(axis=0)
    assert_allclose(made.predict_proba(held), shares, atol=1e-12)
    assert made.path_.loss[-1] == pytest.approx(np.mean(made.predict(held) != truth))
    two = xgb.XGBRFClassifier(n_estimators=3, max_depth=3).fit(held, truth == 0)
    votes = prune_forest(two, held, truth == 0, vote="majority").predict_proba(held)
    assert set(np.unique(np.round(votes * 3))) <= {0.0, 1.0, 2.0, 3.0}


def test_a_near_optimum_is_nested_too_and_says_how_near_it_is(forest):
    model, held, truth = forest
    exact = prune_forest(model, held, truth, cost_penalty=0.01)
    near = prune_forest(model, held, truth, cost_penalty=0.01, method="primal_dual", max_stages=100)
    assert 0 <= near.pruning_.value - exact.pruning_.value <= near.gap_ + 1e-12
    assert near.gap_ <= 0.01 * exact.pruning_.value
    for answer, stage in zip(list(near.stages(held))[1:], near.path_.stages, strict=True):
        assert answer.cost.mean() == pytest.approx(near.path_.cost[stage])
    within = prune_forest(model, held, truth, mean_budget=4.0, method="primal_dual")
    assert within.cost(held).mean() <= 4.0


def test_between_two_best_prunings_the_gap_is_known(forest):
    """A budget that no weight of cost leads to: no pruning of that cost makes less error than error minus gap."""
    model, held, truth = forest
    path = prune_forest(model, held, truth, out_of_bag=0.0).path_
    for budget in np.linspace(1.0, 9.0, 9):
        made = prune_forest(model, held, truth, out_of_bag=0.0, mean_budget=budget)
        assert 0 <= made.gap_ < 0.3
        cheaper = path.cost <= made.path_.cost[-1]
        assert (path.error[cheaper] >= made.path_.error[-1] - made.gap_ - 1e-12).all()
        assert (made.gap_ == 0) == (made.pruning_.method != "between")


# ---------------------------------------------------------------------- reports


def test_tables(pruned):
    table = pruned.path_.to_frame()
    assert list(table) == [
        "cost_penalty",
        "cost",
        "expected_cost",
        "evaluation_cost",
        "error",
        "n_nodes",
        "loss",
        "deviation",
        "quality",
        "stage",
    ]
    assert table["stage"].sum() == pruned.n_stages_
    assert len(table) == len(pruned.path_)
    shares = pruned.usage_.to_frame()
    assert list(shares.index) == list(GROUPED.names)
    assert_allclose(shares["before"].sum(axis=1), 1)


def test_pruning_lowers_usage(forest):
    """Table 4.1: fewer rows use a group a few times only; more use it never."""
    model, held, truth = forest
    usage = prune_forest(model, held, truth, mean_budget=4.0).usage_
    assert usage.after[:, 0].mean() > usage.before[:, 0].mean() + 0.2
    assert (usage.after[:, 0] >= usage.before[:, 0]).all()
    assert usage.after[:, 1].mean() < usage.before[:, 1].mean()


def test_quality_is_what_held_out_rows_say(forest, pruned):
    _, held, truth = forest
    for stage, answer in enumerate(pruned.stages(held)):
        brier = ((answer.probabilities - np.eye(3)[truth]) ** 2).sum(axis=1).mean() / 2
        assert pruned.plan_.quality[stage] == pytest.approx(-brier)
        if stage:
            at_stage = pruned.path_.stages[stage - 1]
            assert pruned.path_.loss[at_stage] == pytest.approx(np.mean(answer.prediction != truth))


def test_stages_are_spaced_by_ratios():
    X, y, held, truth = halves(CANCER)
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    made = prune_forest(model, held, truth, max_stages=4)
    assert made.n_stages_ <= 4 < len(made.path_)
    assert_allclose(made.predict_proba(held), model.predict_proba(held), atol=1e-12)


# ---------------------------------------------------------------------- data of all kinds


def test_labels_and_tables():
    X, y, held, truth = halves(WINE)
    names = np.array(["barolo", "grignolino", "barbera"])
    columns = [f"c{j}" for j in range(13)]
    table, other = pd.DataFrame(X, columns=columns), pd.DataFrame(held, columns=columns)
    model = RandomForestClassifier(5, random_state=0).fit(table, names[y])
    costs = dict.fromkeys(columns, 1.0) | {"c6": 5.0}
    made = prune_forest(model, other, names[truth], costs=costs, mean_budget=4.0)
    assert list(made.feature_names_in_) == columns
    assert set(made.predict(other)) <= set(names)
    assert made.score(other, names[truth]) > 0.6
    with pytest.raises(ValueError, match="feature names should match"):
        made.predict(other.add_prefix("elsewhere"))


def test_missing_values_go_their_way():
    random = np.random.default_rng(0)
    X, y, held, truth = halves(WINE)
    X, held = X.copy(), held.copy()
    for rows in (X, held):
        rows[random.random(rows.shape) < 0.2] = np.nan
    model = RandomForestClassifier(8, random_state=0).fit(X, y)
    made = prune_forest(model, held, truth)
    assert_allclose(made.predict_proba(held), model.predict_proba(held), atol=1e-12)
    fitted = PrunedForestClassifier(DecisionTreeClassifier(), mean_budget=2.0, random_state=0).fit(X, y)
    assert fitted.cost(held).max() <= 13


def test_categories_of_lightgbm(tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "colour": pd.Categorical(random.choice(["red", "green", "blue"], 300)),
            "size": random.normal(size=300),
        }
    )
    y = ((table["colour"] == "red") ^ (table["size"] > 0)).to_numpy()
    model = lgb.LGBMClassifier(**LIGHTGBM).fit(table, y)
    made = prune_forest(model, table, y)
    assert_allclose(made.predict_proba(table), model.predict_proba(table), atol=1e-12)
    assert prune_forest(model, table, y, mean_budget=1.0).cost(table).mean() <= 1.0


@pytest.mark.parametrize("regression", [False, True])
def test_forests_grown_here(regression):
    X, y, costs = at.datasets.load("diabetes" if regression else "wine")
    face = at.BudgetForestRegressor if regression else at.BudgetForestClassifier
    grown = face(costs=costs, n_estimators=4, max_depth=4, random_state=0).fit(X[::2], y[::2])
    made = prune_forest(grown, X[1::2], y[1::2], costs=costs)
    assert_allclose(answers(made, X), answers(grown, X), rtol=1e-9, atol=1e-12)
    assert_array_equal(made.cost(X), grown.cost(X))
    half = made.path_.cost[-1] / 2
    assert prune_forest(grown, X[1::2], y[1::2], costs=costs, mean_budget=half).cost(X[1::2]).mean() <= half


def test_several_targets_at_once():
    X, y, held, truth = halves(DIABETES)
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, np.column_stack([y, -y]))
    made = prune_forest(model, held, np.column_stack([truth, -truth]))
    assert_allclose(made.predict(held), model.predict(held), rtol=1e-9)
    assert made.path_.loss[-1] == pytest.approx(np.mean((model.predict(held)[:, 0] - truth) ** 2), rel=1e-6)


def test_a_forest_that_costs_nothing_is_kept_whole(forest):
    model, held, truth = forest
    for options in ({}, {"mean_budget": 0.0}):
        made = prune_forest(model, held, truth, costs=np.zeros(13), **options)
        assert made.n_stages_ == 1
        assert_allclose(made.predict_proba(held, mean_budget=0), model.predict_proba(held), atol=1e-12)


def test_trees_that_test_nothing(forest):
    _, held, truth = forest
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(np.ones_like(held), truth)
    for options in (
        {},
        {"mean_budget": 1.0},
        {"cost_penalty": 0.0},
        {"tolerance": 1.0},
    ):
        made = prune_forest(model, held, truth, **options)
        assert made.n_nodes_ == 3
        assert_array_equal(made.cost(held), 0)
        assert_allclose(made.predict_proba(held), model.predict_proba(held), atol=1e-12)


def test_rows_without_labels_are_enough(forest):
    model, held, truth = forest
    made = prune_forest(model, held, mean_budget=4.0)
    assert made.plan_.quality is None
    assert made.path_.loss is None
    labelled = prune_forest(model, held, truth, mean_budget=4.0, out_of_bag=0.0)
    assert_array_equal(made.predict(held), labelled.predict(held))


def test_errors_of_rows_that_trees_have_not_seen():
    """A forest of unlimited depth makes no in-bag errors; out of the bag it does."""
    X, y, held, truth = halves(WINE)
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    in_bag, held_out, oob = (
        prune_forest(model, held, truth, out_of_bag=0.0).path_.error,
        prune_forest(model, held, truth, out_of_bag=1.0).path_.error,
        prune_forest(model, held, truth, X_train=X, y_train=y, out_of_bag=1.0).path_.error,
    )
    assert in_bag[-1] == 0
    single = np.mean([tree.predict(held) != truth for tree in model.estimators_])
    assert held_out[-1] == pytest.approx(single)
    assert 0.01 < oob[-1] < 0.3
    with pytest.raises(ValueError, match="grown from 89"):
        prune_forest(model, held, truth, X_train=X[1:], y_train=y[1:])
