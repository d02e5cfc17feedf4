"""Leaves of a pruned forest are corrected together: to the optimum, at no cost, and to the good of rows not seen."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

import anytime as at
from anytime._native import refit_leaves
from anytime.forests.nodes import NodeStatistics, grown_from, node_statistics
from anytime.forests.pruning import refit
from anytime.forests.pruning.problem import PruningProblem
from anytime.forests.pruning.pruned_forests import PrunedForestClassifier, PrunedForestRegressor, prune_forest
from anytime.forests.pruning.refit import Lessons
from tests.forests.pruning.cases import random_problem
from tests.forests.pruning.forests import FORESTS, WINE, answers, halves


def additive(seed=0, n=900, d=6):
    """Every column matters as much as any other, so that few of them leave each tree with little to say."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = X.sum(axis=1) + 0.3 * random.normal(size=n)
    return (
        X[: n // 3],
        y[: n // 3],
        X[n // 3 : 2 * n // 3],
        y[n // 3 : 2 * n // 3],
        X[2 * n // 3 :],
        y[2 * n // 3 :],
    )


@pytest.fixture(scope="module")
def small():
    """A forest of four shallow trees, some of its nodes pruned, and its rows."""
    X, y, held, _ = halves(WINE)
    forest = RandomForestClassifier(4, max_depth=4, random_state=0).fit(X, y)
    nodes = replace(node_statistics(forest), seen=grown_from(forest))
    problem = PruningProblem.of(
        nodes.trees, nodes.error, nodes.n_error, held, at.FeatureCosts(np.ones(13)).bind(13)
    )
    internal = problem.splits & (np.arange(problem.n_nodes) % 5 != 4)
    return nodes, problem, problem.closed(internal), X, y


def stated(lessons, problem, value, internal, corrected):
    """The objective of ``Lessons.fitted``, row by row."""
    ends, n_trees = problem.ends(internal), problem.n_trees
    change = (corrected - value) / n_trees
    total = refit._CAUTION * n_trees * (change**2).sum()
    for i, (leaves, unseen) in enumerate(zip(lessons.leaf.T, lessons.unseen.T, strict=True)):
        counted = [value[ends[leaf]] for leaf, counts in zip(leaves, unseen, strict=True) if counts]
        missing = lessons.target[i] - np.mean(counted, axis=0) if counted else 0.0
        total += lessons.weight[i] * ((missing - change[ends[leaves]].sum(axis=0)) ** 2).sum()
    return total


# ---------------------------------------------------------------------- the optimum


@pytest.mark.parametrize("weighted", [False, True])
def test_corrections_are_those_of_ridge_regression(small, monkeypatch, weighted):
    nodes, problem, internal, X, y = small
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float) if weighted else None
    lessons = Lessons.of(nodes, X, y, weight)
    monkeypatch.setattr(refit, "_SWEEPS", 2000)
    found = lessons.fitted(problem, nodes.trees.value, internal)

    ends = problem.ends(internal)
    design = np.zeros((len(y), problem.n_nodes))
    for leaf in lessons.leaf:
        design[np.arange(len(y)), ends[leaf]] = 1.0
    said = np.zeros((len(y), 3))
    for i in range(len(y)):
        counted = np.flatnonzero(lessons.unseen[:, i])
        said[i] = nodes.trees.value[ends[lessons.leaf[counted, i]]].mean(axis=0) if counted.size else 0.0
    gram = design.T @ (lessons.weight[:, None] * design) + refit._CAUTION * 4 * np.eye(problem.n_nodes)
    change = np.linalg.solve(gram, design.T @ (lessons.weight[:, None] * (lessons.target - said)))
    assert_allclose(found, nodes.trees.value + 4 * change, atol=1e-9)


def test_every_sweep_lowers_what_is_stated(small, monkeypatch):
    nodes, problem, internal, X, y = small
    lessons, value = Lessons.of(nodes, X, y), nodes.trees.value
    before = stated(lessons, problem, value, internal, value)
    for sweeps in range(1, 8):
        monkeypatch.setattr(refit, "_SWEEPS", sweeps)
        after = stated(lessons, problem, value, internal, lessons.fitted(problem, value, internal))
        assert after < before
        before = after


def test_leaves_outside_of_their_tree_are_refused(small):
    nodes, problem, internal, X, y = small
    lessons, ends = Lessons.of(nodes, X, y), problem.ends(internal).astype(np.int32)

    def refitted(leaf, ends=ends, target=lessons.target, start=problem.tree_start):
        value = np.ascontiguousarray(nodes.trees.value)
        return refit_leaves(leaf, ends, start, value, target, lessons.weight, lessons.unseen, 2.0, 1)

    assert refitted(lessons.leaf).shape == nodes.trees.value.shape
    for wrong in (-1, problem.n_nodes, problem.tree_start[1]):
        leaf = lessons.leaf.copy()
        leaf[0, 3] = wrong
        with pytest.raises(ValueError, match="outside of its tree"):
            refitted(leaf)
    for wrong in ([0, 1 << 40], [1, -1], [0, 2, 1, 4, problem.n_nodes]):
        start = np.array([*wrong, *problem.tree_start[len(wrong) :]])
        with pytest.raises(ValueError, match="does not divide the nodes into trees"):
            refitted(lessons.leaf, start=start)
    with pytest.raises(ValueError, match="ends has"):
        refitted(lessons.leaf, ends=ends[1:])
    with pytest.raises(ValueError, match="a row of target has 2 entries, expected 3"):
        refitted(lessons.leaf, target=np.ascontiguousarray(lessons.target[:, :2]))


def test_weights_are_repetitions(small):
    nodes, problem, internal, X, y = small
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    again = replace(nodes, seen=[rows[repeated] for rows in nodes.seen])
    one = Lessons.of(nodes, X, y, weight.astype(float)).fitted(problem, nodes.trees.value, internal)
    two = Lessons.of(again, X[repeated], y[repeated]).fitted(problem, nodes.trees.value, internal)
    assert_allclose(one, two, atol=1e-12)


def test_rows_that_every_tree_has_drawn_say_nothing(small):
    nodes, problem, internal, X, y = small
    known = np.all(nodes.seen, axis=0)
    assert 0 < known.sum() < len(y)
    lies = np.where(known, (y + 1) % 3, y)
    honest, misled = (
        Lessons.of(nodes, X, truth).fitted(problem, nodes.trees.value, internal) for truth in (y, lies)
    )
    assert_array_equal(honest, misled)
    assert Lessons.of(replace(nodes, seen=[np.ones(len(y), dtype=bool)] * 4), X, y) is None


@pytest.mark.parametrize("seed", range(5))
def test_rows_end_at_the_first_node_that_is_a_leaf_now(seed):
    problem = random_problem(seed, n_trees=3, depth=4)
    random = np.random.default_rng(seed)
    internal = problem.closed(problem.splits & (random.random(problem.n_nodes) < 0.7))
    for node, end in enumerate(problem.ends(internal)):
        way = [node]
        while problem.parent[way[0]] >= 0:
            way.insert(0, problem.parent[way[0]])
        assert end == next((h for h in way if not internal[h]), node)


# ---------------------------------------------------------------------- what it does for a forest


@pytest.mark.parametrize("numbers", [True, False])
def test_a_pruned_forest_errs_less_on_rows_it_has_not_seen(numbers):
    X, y, held, truth, new, unknown = additive()
    forest = RandomForestRegressor(30, random_state=0)
    if not numbers:
        y, truth, unknown = y > 0, truth > 0, unknown > 0
        forest = RandomForestClassifier(30, random_state=0)
    forest.fit(X, y)
    given = {"X_train": X, "y_train": y, "mean_budget": 3.0}
    as_grown, refitted = (prune_forest(forest, held, truth, refit=on, **given) for on in (False, True))
    loss = [
        np.mean((answers(m, new) - unknown) ** 2)
        if numbers
        else np.mean((answers(m, new)[:, 1] - unknown) ** 2)
        for m in (as_grown, refitted)
    ]
    assert loss[1] < 0.95 * loss[0]
    assert refitted.path_.quality[-1] > as_grown.path_.quality[-1]


def test_what_is_pruned_and_paid_does_not_change():
    X, y, held, truth = halves(WINE)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    one, two = (prune_forest(forest, held, truth, X_train=X, y_train=y, refit=on) for on in (True, False))
    assert_array_equal(one.path_.cost, two.path_.cost)
    assert_array_equal(one.path_.error, two.path_.error)
    assert_array_equal(one.path_.n_nodes, two.path_.n_nodes)
    for a, b in zip(one.stages(held), two.stages(held), strict=True):
        assert_array_equal(a.cost, b.cost)
    middle = one.path_.cost[len(one.path_) // 2]
    assert not np.array_equal(
        one.predict_proba(held, mean_budget=middle), two.predict_proba(held, mean_budget=middle)
    )
    assert_allclose(one.predict_proba(held), forest.predict_proba(held), atol=1e-12)


@pytest.mark.parametrize(
    "forest", [RandomForestClassifier(10, random_state=0), ExtraTreesClassifier(10, random_state=0)]
)
def test_chances_stay_chances(forest):
    """Also where every tree was grown from all rows."""
    X, y, held, truth = halves(WINE)
    made = prune_forest(forest.fit(X, y), held, truth, X_train=X, y_train=y)
    for answer in made.stages(held):
        assert answer.probabilities.min() >= 0
        assert_allclose(answer.probabilities.sum(axis=1), 1)


def test_held_out_rows_decide_whether_leaves_are_refitted(tmp_path):
    """Smooth additive data gain by it; labels that hardly depend on anything, of which leaves would learn the noise, do not."""
    X, y, held, truth, *_ = additive(3)
    random = np.random.default_rng(0)
    noise = [
        np.where(random.random(len(part)) < 0.05, part > 0, random.random(len(part)) < 0.5)
        for part in (y, truth)
    ]
    forest = RandomForestRegressor(20, random_state=0), RandomForestClassifier(20, random_state=0)
    for grown, (known, judging), wanted in zip(forest, ((y, truth), noise), (True, False), strict=True):
        grown.fit(X, known)
        rows = {"X_train": X, "y_train": known}
        auto, on, off = (prune_forest(grown, held, judging, refit=r, **rows) for r in ("auto", True, False))
        assert (auto.refit_, on.refit_, off.refit_) == (wanted, True, False)
        assert_array_equal(
            auto.predict(held, mean_budget=3.0), (on if wanted else off).predict(held, mean_budget=3.0)
        )
        auto.save(tmp_path / "pruned.anytime")
        assert at.load(tmp_path / "pruned.anytime").refit_ is wanted
    assert not prune_forest(grown, held, X_train=X, y_train=known).refit_, "nothing decides"


def test_held_out_rows_judge_what_was_refitted():
    X, y, held, truth = halves(WINE)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    made = prune_forest(forest, held, truth, X_train=X, y_train=y, max_stages=100)
    for stage, answer in zip(made.path_.stages, list(made.stages(held))[1:], strict=True):
        assert made.path_.loss[stage] == pytest.approx(np.mean(answer.prediction != truth))


def test_several_targets_are_refitted_as_one_is():
    X, y, held, truth, new, _ = additive(1)
    forest = RandomForestRegressor(10, max_depth=5, random_state=0)
    one = prune_forest(forest.fit(X, y), held, truth, X_train=X, y_train=y, mean_budget=3.0)
    y, truth = np.column_stack([y, -y]), np.column_stack([truth, -truth])
    both = prune_forest(forest.fit(X, y), held, truth, X_train=X, y_train=y, mean_budget=3.0)
    assert_allclose(both.predict(new), one.predict(new)[:, None] * [1, -1], atol=1e-9)


@pytest.mark.parametrize(
    "name", ["lightgbm, two classes", "lightgbm, three classes", "xgboost, three classes"]
)
def test_forests_that_average_other_things_answer_as_they_did(name):
    forest, data = FORESTS[name]
    X, y, held, truth = halves(data)
    forest = forest.fit(X, y)
    one, two = (
        prune_forest(forest, held, truth, X_train=X, y_train=y, mean_budget=3.0, refit=on)
        for on in (True, False)
    )
    assert_array_equal(one.predict_proba(held), two.predict_proba(held))


def test_whole_votes_stay_whole_and_without_training_rows_nothing_is_refitted():
    X, y, held, truth = halves(WINE)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    for given in ({"X_train": X, "y_train": y, "vote": "majority"}, {}):
        one, two = (
            prune_forest(forest, held, truth, mean_budget=3.0, refit=on, **given) for on in (True, False)
        )
        assert_array_equal(one.predict_proba(held), two.predict_proba(held))


# ---------------------------------------------------------------------- models


@pytest.mark.parametrize("numbers", [True, False])
def test_fit_refits_on_the_rows_of_the_forest(numbers):
    X, y, held, truth, *_ = additive(2)
    y, truth = (y, truth) if numbers else (y > 0, truth > 0)
    face, forest = (
        (PrunedForestRegressor, RandomForestRegressor)
        if numbers
        else (PrunedForestClassifier, RandomForestClassifier)
    )
    scores = [
        face(forest(20), mean_budget=3.0, refit=on, random_state=0).fit(X, y).score(held, truth)
        for on in (False, True)
    ]
    assert scores[1] > scores[0]


def test_a_forest_grown_here_may_be_handed_over_as_its_nodes():
    X, y, held, truth = halves(WINE)
    grown = at.BudgetForestClassifier(
        n_estimators=6, max_depth=5, validation_fraction=None, random_state=0
    ).fit(X, y)
    nodes = NodeStatistics.of_trees(grown.trees_, classes=grown.classes_, vote=grown.vote)
    assert_array_equal(grown_from(nodes), grown_from(grown))
    one, two = (
        prune_forest(forest, held, truth, X_train=X, y_train=y, mean_budget=2.0) for forest in (grown, nodes)
    )
    assert one.path_.cost[-1] > 0
    assert_array_equal(one.predict_proba(held), two.predict_proba(held))
    with pytest.raises(ValueError, match="grown from 89"):
        prune_forest(nodes, held, truth, X_train=X[1:], y_train=y[1:])


@pytest.mark.parametrize("numbers", [True, False])
def test_a_refitted_model_is_saved_with_its_answers(numbers, tmp_path):
    X, y, _, _, new, _ = additive(3)
    face = PrunedForestRegressor if numbers else PrunedForestClassifier
    made = face(mean_budget=3.0, refit=True, random_state=0).fit(X, y if numbers else y > 0)
    made.save(tmp_path / "refitted.anytime")
    read = at.load(tmp_path / "refitted.anytime")
    assert read.refit is True
    assert_array_equal(answers(read, new), answers(made, new))
    assert_array_equal(answers(made.truncate(2.0), new), answers(read.truncate(2.0), new))


def test_a_wrong_parameter_is_refused():
    X, y, held, truth = halves(WINE)
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="refit"):
        prune_forest(forest, held, truth, refit="hard")


@pytest.mark.parametrize("of", ["their order", "other rows"])
def test_training_rows_that_cannot_be_those_of_the_trees_are_refused(of):
    X, y, held, truth = halves(WINE)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    rows = np.random.default_rng(0).permutation(len(X))
    wrong = (X[rows], y[rows]) if of == "their order" else (held[: len(X)], truth[: len(X)])
    prune_forest(forest, held, truth, X_train=X, y_train=y)
    with pytest.raises(ValueError, match=r"X_train .* grown from"):
        prune_forest(forest, held, truth, X_train=wrong[0], y_train=wrong[1])


def test_a_budget_that_leaves_one_answer_is_told():
    X, y, held, truth = halves(WINE)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match=r"as little as 0\.001 on average: all rows get one answer"):
        pruned = prune_forest(forest, held, truth, mean_budget=0.001)
    assert pruned.cost(held).max() == 0
