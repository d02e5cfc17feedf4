"""Trees and forests grown for a budget: scikit-learn's checks, those of anytime prediction, and the loop of BudgetRF."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.forests.levels import groups_before
from anytime.testing import check_anytime_estimator
from anytime_research import datasets as research_datasets
from tests.forests.cases import COSTS, FIXED, SMALL, UNIT, forest, problem


@pytest.mark.parametrize(
    "estimator",
    [
        at.BudgetTreeRegressor(random_state=0, min_samples_leaf=1),
        at.BudgetForestClassifier(costs=[1, 2, 0, 4, 0.1, 3], mean_budget=7, **SMALL, alphas=[0, 8]),
        at.BudgetForestClassifier(**SMALL, **FIXED, vote="counts", meter="model", validation_fraction=None),
        at.BudgetForestClassifier(**SMALL, impurity="entropy", split="expected", max_features="sqrt"),
        at.BudgetForestRegressor(costs=[1, 2, 0, 4, 0.1, 3], mean_budget=7, **SMALL, meter="realised"),
        at.BudgetTreeClassifier(
            costs=[1, 2, 0, 4, 0.1, 3], mean_budget=3, tests="multiway", max_bins=4, random_state=0
        ),
    ],
    ids=lambda e: str(e).replace("\n", ""),
)
def test_anytime_checks(estimator):
    check_anytime_estimator(estimator)


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_anytime_checks_with_requirements_free_groups_and_gaps(meter):
    X, y = problem()
    check_anytime_estimator(at.BudgetForestClassifier(costs=COSTS, mean_budget=5, meter=meter, **SMALL), X, y)


# ---------------------------------------------------------------------- the loop


def paid_on(trees, X, costs=UNIT):
    """(n,) what rows pay for several trees, from the definition: the groups on all their paths, each once."""
    bound = costs.bind(X.shape[1])
    needed = np.zeros((len(X), bound.n_groups), dtype=bool)
    for tree in trees:
        paths = groups_before(tree.arrays, bound)
        for i, x in enumerate(X):
            node = 0
            while tree.arrays.feature[node] >= 0:
                value = x[tree.arrays.feature[node]]
                left = (
                    tree.arrays.default_left[node]
                    if np.isnan(value)
                    else value <= tree.arrays.threshold[node]
                )
                node = (tree.arrays.left if left else tree.arrays.right)[node]
            needed[i] |= paths[node]
    return costs.amounts(needed @ bound.prices)


def test_validation_rows_stay_within_the_budget_and_the_dropped_tree_breaks_it():
    """budgeted_trees 3.3: the returned forest's validation cost <= B, and adding the dropped tree makes it > B."""
    X, y = problem(400)
    X_val, y_val = problem(150, seed=1)
    whole = forest(n_estimators=12).fit(X, y, X_val=X_val, y_val=y_val)
    grown = sorted(whole.trees_, key=lambda tree: tree.in_bag.tobytes())
    budget = 0.6 * paid_on(grown, X_val).mean() + 0.4 * min(paid_on([t], X_val).mean() for t in grown)
    model = forest(budget, n_estimators=12).fit(X, y, X_val=X_val, y_val=y_val)
    kept = {tree.in_bag.tobytes() for tree in model.trees_}
    assert 0 < len(kept) < 12
    cost = paid_on(model.trees_, X_val).mean()
    assert cost <= budget
    assert np.isclose(model.expected_cost_, cost)
    assert np.isclose(model.cost(X_val).mean(), cost)
    # trees are numbered as grown: with one more allowed, the next is the one that was dropped
    longer = forest(n_estimators=len(kept) + 1).fit(X, y, X_val=X_val, y_val=y_val)
    dropped = [tree for tree in longer.trees_ if tree.in_bag.tobytes() not in kept]
    assert len(dropped) == 1
    assert paid_on([*model.trees_, *dropped], X_val).mean() > budget


def test_a_budget_never_reached_keeps_all_trees():
    X, y = problem()
    assert len(forest(1e6).fit(X, y).trees_) == 6
    assert len(forest(np.inf).fit(X, y).trees_) == 6


def test_costs_of_trees_and_forests_are_those_of_unique_groups():
    """budgeted_trees 1.2: sub-additive, never above the price of everything, growing, and free for a repeated tree."""
    X, y = problem()
    model = forest().fit(X, y)
    alone = [paid_on([tree], X) for tree in model.trees_]
    paid = np.zeros(len(X))
    for t in range(1, 7):
        together = paid_on(model.trees_[:t], X)
        assert (together <= np.sum(alone[:t], axis=0) + 1e-9).all()
        assert (together <= UNIT.total).all()
        assert (together >= paid - 1e-9).all()
        paid = together
    assert_array_equal(paid_on([*model.trees_, *model.trees_], X), paid)
    assert np.allclose(model.cost(X), paid)
    assert paid.max() >= paid.mean()


def test_a_first_tree_beyond_the_budget_leaves_what_of_it_is_within():
    """budgeted_trees 3.3, edge rules: better than an empty forest."""
    X, y = problem(600)
    whole = forest(n_estimators=1).fit(X, y)
    with pytest.warns(UserWarning, match="the first tree costs .* CAD on average, beyond the mean_budget"):
        model = forest(0.7 * whole.expected_cost_).fit(X, y)
    assert model.trees_ == []
    assert 0.4 * whole.expected_cost_ < model.expected_cost_ <= 0.7 * whole.expected_cost_
    assert (model.score(X, y)) > np.bincount(y).max() / len(y)


def test_a_budget_below_the_first_test_leaves_the_prior():
    X, y = problem()
    dear = at.BudgetForestClassifier(costs=np.full(8, 10.0), mean_budget=1, **SMALL, **FIXED)
    with pytest.warns(UserWarning, match="gives everyone the same answer"):
        model = dear.fit(X, y)
    assert model.n_stages_ == 0
    assert model.expected_cost_ == 0
    assert len(np.unique(model.predict(X))) == 1
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)


def test_smaller_budgets_use_the_beginning_of_the_plan():
    X, y = problem(500)
    model = forest().fit(X, y)
    expected = model.plan_.expected_costs
    assert (np.diff(expected) >= 0).all()
    for budget in np.unique(np.concatenate([expected[::2], [0.5, 2.5, 4.0]])):
        stage = np.searchsorted(expected, budget * (1 + 1e-9), side="right")
        assert_array_equal(model.answer(X, mean_budget=budget).stage, stage)
    replaces = model.plan_.replaces
    assert replaces.sum() == model.n_stages_ - 5, "the levels of the first tree, then five more trees"
    assert replaces[: replaces.sum()].all()


def test_without_a_budget_a_prediction_uses_all_trees():
    X, y = problem()
    model = forest(4.0).fit(X, y)
    assert_array_equal(model.predict_proba(X), model.predict_proba(X, mean_budget=np.inf))


# ---------------------------------------------------------------------- votes


def test_majority_and_mean_probability_agree_where_leaves_are_pure():
    """budgeted_trees 3.5."""
    X, y = problem()
    votes = [forest(vote=vote, validation_fraction=None).fit(X, y) for vote in ("probability", "majority")]
    for tree in votes[0].trees_:
        leaves = tree.arrays.feature < 0
        assert (np.count_nonzero(tree.statistics[leaves], axis=1) == 1).all()
    assert_array_equal(votes[0].predict_proba(X), votes[1].predict_proba(X))


def test_votes_are_what_they_are_called():
    X, y = problem()
    models = {
        vote: forest(vote=vote, max_depth=3, validation_fraction=None).fit(X, y)
        for vote in ("probability", "majority", "counts")
    }
    trees = models["counts"].trees_
    reached = np.array([at_leaf(tree, X) for tree in trees])
    counts = np.array([tree.statistics[leaf] for tree, leaf in zip(trees, reached, strict=True)])
    total = counts.sum(axis=0)
    assert np.allclose(models["counts"].predict_proba(X), total / total.sum(axis=1, keepdims=True))
    shares = counts / counts.sum(axis=2, keepdims=True)
    assert np.allclose(models["probability"].predict_proba(X), shares.mean(axis=0))
    leading = np.eye(3)[shares.argmax(axis=2)]
    assert np.allclose(models["majority"].predict_proba(X), leading.mean(axis=0))


def at_leaf(tree, X):
    from anytime.forests.pruning.problem import leaves_of

    return leaves_of(tree.arrays, X)[:, 0]


def test_cost_blind_gini_is_an_ordinary_random_forest():
    """budgeted_trees 5.3."""
    from sklearn.ensemble import RandomForestClassifier

    X, y = problem(1500, classes=2)
    X_test, y_test = problem(1500, seed=1, classes=2)
    X, X_test = np.nan_to_num(X), np.nan_to_num(X_test)
    settings = {"impurity": "gini", "split": "expected", "max_features": "sqrt", "cost_weighted": False}
    ours = at.BudgetForestClassifier(
        n_estimators=60, validation_fraction=None, search="exhaustive", random_state=0, **settings
    ).fit(X, y)
    theirs = RandomForestClassifier(60, random_state=0).fit(X, y)
    assert abs(ours.score(X_test, y_test) - theirs.score(X_test, y_test)) < 0.02


# ---------------------------------------------------------------------- single trees


def test_the_dearest_path_of_a_tree_is_known_and_near_the_best():
    X, y = problem()
    tree = at.BudgetTreeClassifier(costs=UNIT, random_state=0).fit(X, y)
    assert tree.max_cost_ == paid_on(tree.trees_, X).max()
    assert 1 <= tree.guarantee_.ratio <= tree.guarantee_.bound
    assert tree.guarantee_.max_cost == tree.max_cost_
    assert at.BudgetTreeClassifier(costs=UNIT, search="random", random_state=0).fit(X, y).guarantee_ is None
    assert (
        at.BudgetTreeClassifier(costs=UNIT, cost_weighted=False, random_state=0).fit(X, y).guarantee_ is None
    )


@pytest.mark.parametrize(("alpha", "dearest", "mean"), [(0, 10, 3.9921875), (1, 2, 2), (2, 2, 2), (10, 2, 2)])
def test_forgiving_four_of_1024_examples_takes_two_columns_instead_of_ten(alpha, dearest, mean):
    """budgeted_trees 3.8: the smoothed max-cost."""
    X, y, costs = research_datasets.make_four_quarters()
    tree = at.BudgetTreeClassifier(costs=costs, alpha=alpha, validation_fraction=None).fit(X, y)
    assert (tree.max_cost_, tree.expected_cost_) == (dearest, mean)
    assert np.sum(tree.predict(X) != y) == (4 if alpha else 0)
    assert tree.guarantee_.optimum_at_least <= dearest


def test_a_tree_cut_to_a_budget_keeps_its_guarantee_and_loses_its_purity():
    X, y = problem()
    whole = at.BudgetTreeClassifier(costs=UNIT, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="beyond the mean_budget"):
        part = at.BudgetTreeClassifier(costs=UNIT, mean_budget=whole.expected_cost_ / 2, random_state=0).fit(
            X, y
        )
    assert part.expected_cost_ <= whole.expected_cost_ / 2
    assert part.max_cost_ <= whole.max_cost_
    assert (part.cost(X) <= part.max_cost_).all()
    assert part.guarantee_.optimum_at_least == whole.guarantee_.optimum_at_least
    assert not part.guarantee_.separates
    small = whole.truncate(2.0)
    assert small.guarantee_ is None
    assert small.max_cost_ <= whole.max_cost_


def test_levels_of_a_tree_never_exceed_their_cost():
    X, y = problem(800)
    tree = at.BudgetTreeClassifier(costs=UNIT, validation_fraction=None).fit(X, y)
    worst = [answer.cost.max() for answer in tree.stages(X)]
    assert worst[:4] == [0, 1, 2, 3], "one more column each"
    assert worst[-1] == tree.max_cost_ == 6


def test_nothing_is_proved_of_stumps_of_many_categories():
    random = np.random.default_rng(0)
    X = np.column_stack([random.integers(0, 5, 200), random.integers(0, 2, 200)]).astype(float)
    y = (X[:, 0] % 2 == X[:, 1]).astype(int)
    proved = {
        (tests, column): at.BudgetTreeClassifier(tests=tests, categorical_features=[column], random_state=0)
        .fit(X, y)
        .guarantee_
        for tests in ("stumps", "multiway")
        for column in (0, 1)
    }
    assert {key for key, guarantee in proved.items() if guarantee is None} == {("stumps", 0)}


# ---------------------------------------------------------------------- edges


def test_equal_rows_of_different_classes_become_one_leaf():
    """budgeted_trees 3.4, edge rules: every risk infinite."""
    X, y = np.ones((40, 2)), np.tile([0, 1], 20)
    model = at.BudgetTreeClassifier(validation_fraction=None, random_state=0).fit(X, y)
    assert model.trees_[0].n_leaves == 1
    assert np.allclose(model.predict_proba(X), 0.5)
    assert not model.guarantee_.separates
    assert np.isfinite(at.BudgetForestClassifier(**SMALL).fit(X, y).predict_proba(X)).all()


def test_columns_that_cost_nothing_are_used_first_and_for_nothing():
    """budgeted_trees 3.4, edge rules: c(t) = 0 gives R = 0 for any reducing split."""
    random = np.random.default_rng(0)
    X = random.standard_normal((300, 2))
    y = (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int)
    model = at.BudgetForestClassifier(costs=[0, 1], mean_budget=0, **SMALL, **FIXED).fit(X, y)
    assert model.expected_cost_ == 0
    assert model.score(X, y) > 0.8


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="only one class"):
        at.BudgetForestClassifier().fit(np.arange(8.0).reshape(4, 2), ["a"] * 4)


def test_names_categories_and_gaps_are_understood():
    random = np.random.default_rng(0)
    colour = random.choice(["red", "green", "blue"], 400)
    table = pd.DataFrame({"colour": pd.Categorical(colour), "size": random.standard_normal(400)})
    table.loc[::9, "size"] = np.nan
    y = np.where((colour == "red") | (table["size"] > 1), "yes", "no")
    model = at.BudgetForestClassifier(costs=at.FeatureCosts({"colour": 1.0, "size": 2.0}), **SMALL).fit(
        table, y
    )
    assert model.score(table, y) > 0.97
    assert set(model.predict(table)) == {"yes", "no"}
    assert model.order_[0] in ("colour", "size")


def test_weights_stand_for_rows():
    X, y = problem(200)
    weight = np.where(np.arange(200) % 3 == 0, 2.0, 1.0)
    rows = np.repeat(np.arange(200), weight.astype(int))
    tree = at.BudgetTreeClassifier(costs=UNIT, random_state=0, min_samples_leaf=1)
    with_weights = tree.fit(X, y, sample_weight=weight).predict_proba(X)
    assert_array_equal(tree.fit(X[rows], y[rows]).predict_proba(X), with_weights)
    without = np.arange(200) % 5 != 0
    tree.fit(X, y, sample_weight=without.astype(float))
    assert_array_equal(tree.predict_proba(X), tree.fit(X[without], y[without]).predict_proba(X))


def test_wrong_validation_rows_are_refused():
    X, y = problem()
    with pytest.raises(ValueError, match="give X_val and y_val together"):
        forest().fit(X, y, X_val=X)
    with pytest.raises(ValueError, match=r"y_val holds the label .*7"):
        forest().fit(X, y, X_val=X, y_val=np.full(len(y), 7))
    with pytest.raises(ValueError, match="features"):
        forest().fit(X, y, X_val=X[:, :3], y_val=y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_truth_is_refused_by_its_row(missing):
    X, y = problem()
    for model in (forest(), at.BudgetForestRegressor(**SMALL)):
        truth = y.astype(object)
        truth[[7, 9]] = missing
        with pytest.raises(ValueError, match="y is missing in 2 rows, first in row 7"):
            model.fit(X, truth)
        with pytest.raises(ValueError, match="y_val is missing in 2 rows, first in row 7"):
            model.fit(X, y, X_val=X, y_val=truth)


def test_regression_within_a_budget():
    X, y = problem(600)
    target = y + 0.1 * np.random.default_rng(0).standard_normal(len(y))
    model = at.BudgetForestRegressor(costs=UNIT, mean_budget=4, n_estimators=10, random_state=0).fit(
        X, target
    )
    assert model.expected_cost_ <= 4
    assert model.min_samples_leaf_ in (1, 5, 15, 50)
    assert model.score(X, target) > model.score(X, target, mean_budget=1.5) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = at.BudgetTreeRegressor(costs=UNIT, min_samples_leaf=1, random_state=0).fit(X, target)
    assert tree.guarantee_.bound is None
