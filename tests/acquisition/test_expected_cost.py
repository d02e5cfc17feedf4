"""Purchases by what they are worth: sets, induction, budgets, costs of answers, options, files, bad input."""

import copy
import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.acquisition.leaf_means import LeafMeans
from anytime.acquisition.purchase_values import OwnedSets, ValueLearner, _Induction
from anytime.losses import least_cost
from anytime.trees import clock
from anytime.trees.block import TreeBlock

SMALL = {"n_estimators": 12, "random_state": 0}
COSTS = at.FeatureCosts(
    {"cheap": 1.0, "dear": 10.0}, groups={"cheap": ["cheap label", "cheap score"], "dear": ["dear label"]}
)


def answers(n=600, seed=0):
    """A cheap service that knows when it is right (three quarters of the rows), and a dear one that always is."""
    random = np.random.default_rng(seed)
    y = random.integers(3, size=n)
    sure = random.uniform(size=n) < 0.75
    cheap = np.where(sure, y, random.integers(3, size=n))
    names = np.array(["cat", "dog", "fox"])
    X = pd.DataFrame(
        {
            "cheap label": pd.Categorical(names[cheap]),
            "cheap score": np.where(sure, 0.9, 0.4) + random.uniform(-0.05, 0.05, size=n),
            "dear label": pd.Categorical(names[y]),
        }
    )
    return X, names[y], sure


@pytest.fixture(scope="module")
def model():
    X, y, _ = answers()
    return at.ExpectedCostClassifier(costs=COSTS, cost_penalty=0.01, **SMALL).fit(X, y)


# ---------------------------------------------------------------------- what is worth its price


def test_only_rows_in_doubt_buy_the_dear_answer(model):
    X, y, sure = answers(300, 1)
    answer = model.answer(X)
    assert ((answer.cost == 11.0) == ~sure).mean() > 0.99
    assert (answer.prediction == y).mean() > 0.99


def test_a_dear_answer_that_tells_no_more_than_the_cheap_one_is_not_bought():
    """The negative control: with the truth hidden from it, the dear service is worth nothing to anybody."""
    X, y, _ = answers()
    X["dear label"] = X["cheap label"]
    model = at.ExpectedCostClassifier(costs=COSTS, cost_penalty=0.01, **SMALL).fit(X, y)
    X, _, _ = answers(500, 1)
    X["dear label"] = X["cheap label"]
    assert (model.cost(X) > 1.0).mean() < 0.05


def test_the_first_purchase_is_worth_what_it_tells_of_the_next():
    """A screening whose answer is no better than a guess, but tells which of two tests is right for the row, is bought first."""
    random = np.random.default_rng(0)
    which, y = random.integers(2, size=(2, 800))
    tests = np.where(np.arange(2) == which[:, None], y[:, None], random.integers(2, size=(800, 2)))
    X = np.column_stack([which, tests]).astype(float)
    costs = at.FeatureCosts(
        {"screening": 1.0, "a": 5.0, "b": 5.0}, groups={"screening": [0], "a": [1], "b": [2]}
    )
    model = at.ExpectedCostClassifier(costs=costs, cost_penalty=0.02, **SMALL).fit(X, y)
    answer = model.answer(X)
    assert (answer.prediction == y).mean() > 0.98
    assert np.unique(answer.cost).tolist() == [6.0]


@given(st.floats(0.0, 12.0), st.integers(0, 50))
def test_no_cap_and_no_mean_is_exceeded(model, budget, seed):
    X, _, _ = answers(40, seed)
    assert model.cost(X, budget=budget).max() <= budget
    assert model.cost(X, mean_budget=budget).mean() <= budget
    both = model.cost(X, budget=10.5, mean_budget=budget)
    assert both.mean() <= budget
    assert both.max() <= 10.5


def test_a_cap_that_the_cheap_answer_would_break_buys_the_dear_one_alone(model):
    """Where not both can be had, the row makes for the better set."""
    X, y, _ = answers(100, 2)
    answer = model.answer(X, budget=10.0)
    assert (answer.cost == 10.0).all()
    assert (answer.prediction == y).mean() > 0.99


def test_one_by_one_and_in_a_batch_rows_buy_the_same(model):
    X, _, _ = answers(60, 3)
    for budget in (None, 1.0, 10.0):
        together = model.answer(X, budget=budget)
        for i in range(0, 60, 9):
            alone = model.answer(X.iloc[[i]], budget=budget)
            assert_array_equal(alone.scores[0], together.scores[i])
            assert alone.cost[0] == together.cost[i]


def test_a_cap_does_not_cancel_the_price_of_money():
    """A batch, a single row and a session decide alike; the negative control is a model that has no mean to keep."""
    X, y, _ = answers()
    model = at.ExpectedCostClassifier(costs=COSTS, mean_budget=4.0, **SMALL).fit(X, y)
    free = at.ExpectedCostClassifier(costs=COSTS, **SMALL).fit(X, y)
    X, _, _ = answers(40, 9)
    together, session = model.cost(X, budget=11.0), at.Session(model)
    assert_array_equal(together, [session.predict(X.iloc[i], budget=11.0).cost for i in range(40)])
    assert together.mean() < free.cost(X, budget=11.0).mean() == 11.0


def test_a_mean_and_an_accuracy_are_not_wanted_at_once():
    X, y, _ = answers(60)
    with pytest.raises(ValueError, match="mean_budget or accuracy"):
        at.ExpectedCostClassifier(costs=COSTS, mean_budget=4.0, accuracy=0.9, **SMALL).fit(X, y)


def test_more_money_on_average_buys_more_right_answers():
    X, y, _ = answers()
    model = at.ExpectedCostClassifier(costs=COSTS, **SMALL).fit(X, y)
    X, y, _ = answers(400, 4)
    right = [model.score(X, y, mean_budget=b) for b in (0.5, 1.0, 2.0, 4.0)]
    assert right == sorted(right)
    assert right[-1] - right[1] > 0.1


def test_a_model_cut_to_a_mean_keeps_it_for_rows_that_come_one_by_one():
    X, y, _ = answers(1500)
    model = at.ExpectedCostClassifier(costs=COSTS, **SMALL).fit(X, y)
    X, _, _ = answers(300, 5)
    smaller = model.truncate(mean_budget=3.9)
    alone = np.array([smaller.cost(X.iloc[[i]])[0] for i in range(60)])
    session = at.Session(smaller)
    assert_array_equal(alone, [session.predict(X.iloc[i]).cost for i in range(60)])
    assert smaller.cost(X).mean() <= 3.9 * 1.1
    assert np.unique(alone).tolist() == [1.0, 11.0]  # and not a mean that is a cap


def test_a_wanted_accuracy_is_reached_at_less_than_the_whole_price():
    X, y, _ = answers(1500)
    model = at.ExpectedCostClassifier(costs=COSTS, accuracy=0.97, **SMALL).fit(X, y)
    X, y, _ = answers(500, 6)
    assert model.score(X, y) >= 0.96
    assert model.cost(X).mean() < 0.5 * COSTS.total


def test_next_names_what_the_row_would_buy(model):
    X, _, sure = answers(30, 7)
    doubtful, certain = X.iloc[int(np.argmin(sure))], X.iloc[int(np.argmax(sure))]
    assert model.next(doubtful, bought=[]).group == "cheap"
    assert model.next(doubtful, bought=["cheap"]).group == "dear"
    assert model.next(certain, bought=["cheap"]).group is None
    assert model.next(doubtful, bought=["cheap"], budget=5.0).group is None


def test_a_row_that_lacks_a_service_makes_do_without(model):
    X, _, _ = answers(20, 8)
    with pytest.warns(UserWarning, match="missing"):
        answer = model.answer(X[["cheap label", "cheap score"]])
    assert (answer.cost == 1.0).all()


# ---------------------------------------------------------------------- costs of answers


MATRIX = [[0, 1, 4], [2, 0, 1], [8, 3, 0]]


def test_the_answer_is_the_label_of_least_expected_cost():
    """known_budgets 5: expected costs 2.2, 1.1 and 2.3."""
    p = np.array([[0.5, 0.3, 0.2]])
    assert p.argmax() == 0
    assert least_cost(p, MATRIX).tolist() == [1]
    assert least_cost(np.repeat(p, 2, axis=0), np.stack([MATRIX, 1 - np.eye(3)])).tolist() == [1, 0]


@pytest.mark.parametrize("matrix", [np.eye(2), np.full((3, 3), np.nan), np.zeros((2, 3, 3))])
def test_a_matrix_of_another_size_or_without_numbers_is_refused(matrix):
    with pytest.raises(ValueError, match="cost_matrix has shape"):
        least_cost(np.full((3, 3), 1 / 3), matrix)


@pytest.mark.parametrize("learner", [at.SpeedBoostClassifier, at.ExpectedCostClassifier])
def test_every_classifier_answers_by_expected_cost_where_costs_are_named(learner):
    X, y, costs = at.datasets.load("wine")
    model = learner(costs=costs, n_estimators=5, random_state=0).fit(X, y)
    matrix = np.array([[0, 1, 1], [50, 0, 50], [1, 1, 0]])
    by_cost = model.predict(X, budget=10, cost_matrix=matrix)
    p = model.predict_proba(X, budget=10)
    assert_array_equal(by_cost, model.classes_[(p @ matrix).argmin(axis=1)])
    assert (by_cost == 1).sum() > (model.predict(X, budget=10) == 1).sum()


def test_a_model_with_a_cost_matrix_avoids_the_dear_mistake_everywhere(tmp_path):
    X, y, _ = answers(400)
    matrix = [[0, 1, 1], [30, 0, 30], [1, 1, 0]]
    settings = {"costs": COSTS, "cost_penalty": 0.05, "cost_matrix": matrix, **SMALL}
    model = at.ExpectedCostClassifier(**settings).fit(X, y)
    plain = at.ExpectedCostClassifier(**{**settings, "cost_matrix": None}).fit(X, y)
    missed = [((m.predict(X, budget=1) != "dog") & (y == "dog")).mean() for m in (model, plain)]
    assert missed[0] < 0.5 * missed[1]
    p = model.predict_proba(X, budget=1)
    assert_array_equal(model.predict(X, budget=1), model.classes_[(p @ np.array(matrix)).argmin(axis=1)])
    session = at.Session(model)
    assert [session.predict(X.iloc[i], budget=1).prediction for i in range(20)] == model.predict(
        X[:20], budget=1
    ).tolist()
    model.save(tmp_path / "model.anytime")
    assert_array_equal(at.load(tmp_path / "model.anytime").predict(X), model.predict(X))


def test_probabilities_under_a_cost_matrix_are_those_of_the_classes_everywhere(tmp_path):
    """The answer is the label that costs least, and its probability need not be the largest; none is a certainty."""
    X, y, _ = answers(300)
    matrix = np.array([[0, 1, 1], [30, 0, 30], [1, 1, 0]])
    settings = {"costs": COSTS, "cost_matrix": matrix, "cost_penalty": 0.05, **SMALL}
    model = at.ExpectedCostClassifier(**settings).fit(X, y)
    p, answer = model.predict_proba(X, budget=1), model.answer(X, budget=1)
    assert_allclose(answer.probabilities, p)
    assert p.max() < 1.0
    assert (answer.prediction != model.classes_[p.argmax(axis=1)]).any()
    session = at.Session(model).predict(X.iloc[0], budget=1)
    assert_allclose(session.probabilities, p[0])
    assert session.prediction == model.predict_one(X.iloc[0], budget=1) == answer.prediction[0]
    model.save(tmp_path / "model.anytime")
    assert_array_equal(at.load(tmp_path / "model.anytime").plan_.cost_matrix, matrix)
    with pytest.raises(ValueError, match="3 x 3 finite numbers"):
        dataclasses.replace(model.plan_, cost_matrix=np.eye(2))
    with pytest.raises(ValueError, match="cost matrix"):
        model.to_c()


def test_a_calibrated_model_with_a_cost_matrix_decides_by_its_calibrated_probabilities():
    X, y, _ = answers(900)
    noise = np.random.default_rng(1).permutation(y)  # labels that it cannot foretell
    matrix = np.array([[0, 1, 1], [4, 0, 4], [1, 1, 0]])
    model = at.ExpectedCostClassifier(costs=COSTS, cost_penalty=0.01, cost_matrix=matrix, **SMALL)
    before = model.fit(X[:300], y[:300]).predict(X[600:], budget=1)
    model.calibrate(X[300:600], noise[300:600])
    after = model.predict(X[600:], budget=1)
    assert (before != after).any()
    assert_array_equal(after, model.predict(X[600:], budget=1, cost_matrix=matrix))
    assert_array_equal(after, model.answer(X[600:], budget=1).prediction)
    rows, session = [X.iloc[600 + i] for i in range(40)], at.Session(model)
    assert [model.predict_one(row, budget=1) for row in rows] == after[:40].tolist()
    assert [session.predict(row, budget=1).prediction for row in rows] == after[:40].tolist()
    likeliest = model.classes_[model.predict_proba(X[600:], budget=1).argmax(axis=1)]
    assert (after != likeliest).any()
    sets = model.predict_set(X[600:], coverage=0.5, budget=1)
    assert np.asarray(sets)[np.arange(len(after)), np.searchsorted(model.classes_, after)].all()


def test_a_fit_with_little_time_grows_fewer_trees_and_answers_all_the_same():
    X, y, _ = answers()
    hurried = at.ExpectedCostClassifier(
        costs=COSTS, n_estimators=5000, time_budget=0.3, cost_penalty=0.01, random_state=0
    ).fit(X, y)
    assert hurried.plan_.blocks[0].n_trees.max() < 500
    X, y, _ = answers(200, 1)
    assert hurried.score(X, y) > 0.95


def test_going_on_is_valued_by_as_many_rows_as_there_is_time_for(monkeypatch):
    """By all of them it would take 128 s here, by few of them 16."""
    now, valued = [0.0], []
    induce = _Induction.at

    def slowly(self, penalties):
        now[0] += 1e-3 * len(self.paid) * penalties.size
        valued.append(len(self.paid))
        return induce(self, penalties)

    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(_Induction, "at", slowly)
    X, y, _ = answers(2000)
    settings = {"costs": COSTS, "n_estimators": 5, "cost_penalty": 0.01, "random_state": 0}
    hurried = at.ExpectedCostClassifier(time_budget=60, **settings).fit(X, y)
    assert now[0] <= 1.1 * 60 + 1
    assert hurried.score(X, y) > 0.95
    at.ExpectedCostClassifier(time_budget=1e6, **settings).fit(X, y)
    assert valued[-1] == 2000


def test_an_interrupted_fit_leaves_the_model_as_it_was(model, monkeypatch):
    X, y, _ = answers(100)
    mine, grown = copy.deepcopy(model), []

    def interrupted(self, owned):
        grown.append(owned)
        raise KeyboardInterrupt

    monkeypatch.setattr(ValueLearner, "_judge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mine.fit(X[:50], y[:50])
    assert grown
    assert_array_equal(mine.predict(X), model.predict(X))


def test_a_heavier_class_is_missed_less_often():
    X, y, _ = answers(400)
    plain, heavy = (
        at.ExpectedCostClassifier(costs=COSTS, class_weight=weight, **SMALL).fit(X, y)
        for weight in (None, {"cat": 1.0, "dog": 20.0, "fox": 1.0})
    )
    missed = [((m.predict(X, budget=1) != "dog") & (y == "dog")).mean() for m in (heavy, plain)]
    assert missed[0] < 0.5 * missed[1]


# ---------------------------------------------------------------------- options


def problems(n=400, seed=0):
    """Solver 0 is quick on small problems and times out on large ones; solver 1 takes 20 s on all."""
    random = np.random.default_rng(seed)
    size, noise = random.uniform(size=(2, n))
    seconds = pd.DataFrame({"greedy": np.where(size < 0.7, 1.0, 100.0), "exact": np.full(n, 20.0)})
    return pd.DataFrame({"size": size, "noise": noise}), seconds


def test_a_selector_buys_the_step_that_tells_and_not_the_one_that_does_not():
    X, seconds = problems()
    costs = {"size": 0.5, "noise": 0.5}
    model = at.AlgorithmSelector(costs=costs, **SMALL).fit(X, seconds)
    X, seconds = problems(seed=1)
    chosen = model.predict(X)
    total = np.where(chosen == "greedy", seconds["greedy"], seconds["exact"]) + model.cost(X)
    assert total.mean() < 0.6 * seconds.mean().min()
    assert model.cost(X).tolist() == [0.5] * len(X)
    assert model.expected_costs(X).shape == (len(X), 2)


def test_a_selector_takes_no_cost_matrix():
    X, seconds = problems(60)
    model = at.AlgorithmSelector(costs={"size": 0.5, "noise": 0.5}, **SMALL).fit(X, seconds)
    with pytest.raises(TypeError, match="cost_matrix"):
        model.predict(X, cost_matrix=[[0, 1], [1, 0]])


def test_a_step_dearer_than_what_it_saves_is_not_bought():
    """The negative control: the single best solver takes 20 s, so 30 s of features cannot pay."""
    X, seconds = problems()
    model = at.AlgorithmSelector(costs={"size": 30.0, "noise": 0.5}, **SMALL).fit(X, seconds)
    assert model.cost(X).max() <= 0.5
    assert set(model.predict(X)) == {"exact"}


def test_prices_that_differ_from_row_to_row_decide_who_buys():
    X, seconds = problems(800)
    large = X["size"].to_numpy() > 0.5
    X["large"] = large.astype(float)
    names = ("large", "size", "noise")
    costs = at.FeatureCosts(
        dict(zip(names, (0.0, 15.0, 0.0), strict=True)), groups={name: [name] for name in names}
    )
    prices = np.column_stack([np.zeros(800), np.where(large, 0.1, 29.9), np.zeros(800)])
    model = at.AlgorithmSelector(costs=costs, **SMALL).fit(X, seconds, row_prices=prices)
    bought = model.cost(X) > 0
    assert bought[large].mean() > 0.9
    assert not bought[~large].any()


def test_an_option_that_needs_a_group_is_chosen_by_rows_that_own_it():
    random = np.random.default_rng(0)
    hard = random.uniform(size=500) < 0.3
    X = pd.DataFrame(
        {"length": hard + random.normal(scale=0.1, size=500), "small s": 1.0 * hard, "large s": 0.0}
    )
    X["large s"] = random.normal(size=500)
    losses = pd.DataFrame({"small": 1.0 * hard, "large": 0.0})
    groups = {"input": ["length"], "small": ["small s"], "large": ["large s"]}
    costs = at.FeatureCosts({"input": 0.0, "small": 1.0, "large": 10.0}, groups=groups)
    options = {"small": "small", "large": "large"}
    model = at.AlgorithmSelector(costs=costs, option_groups=options, cost_penalty=0.05, **SMALL).fit(
        X, losses
    )
    answer = model.answer(X)
    assert ((answer.cost >= 10) == (answer.prediction == "large")).all()
    assert ((answer.prediction == "large") == hard).mean() > 0.97


# ---------------------------------------------------------------------- pieces


def test_means_in_leaves_are_those_that_native_trees_give():
    random = np.random.default_rng(0)
    Z = random.normal(size=(200, 3))
    y = np.column_stack([Z[:, 0] > 0, np.full(200, 7.0)])
    grown = LeafMeans(Z, y, n_trees=5, min_samples_leaf=10, random=np.random.RandomState(0))
    trees, table = grown.table(y)
    leaves = TreeBlock(trees).forest.stage_outputs(Z, np.arange(5))[:, :, 0].astype(int)
    assert_array_equal(np.sort(np.unique(leaves)), np.arange(len(table)))
    assert np.corrcoef(table[leaves].mean(axis=0)[:, 0], y[:, 0])[0, 1] > 0.6
    assert_allclose(table[:, 1], 7.0)


def test_honest_means_of_pure_noise_promise_nothing():
    """In-bag means would: that is the negative control."""
    random = np.random.default_rng(0)
    Z, y = random.normal(size=(400, 2)), random.normal(size=(400, 1))
    grown = LeafMeans(Z, y, n_trees=20, min_samples_leaf=2, random=np.random.RandomState(0))
    trees, table = grown.table(y)
    leaves = TreeBlock(trees).forest.stage_outputs(Z, np.arange(20))[:, :, 0].astype(int)
    assert abs(np.corrcoef(grown.honest(y)[:, 0], y[:, 0])[0, 1]) < 0.15
    assert np.corrcoef(table[leaves].mean(axis=0)[:, 0], y[:, 0])[0, 1] > 0.5


def bound(prices, requires=None):
    names = list(prices)
    costs = at.FeatureCosts(prices, groups={n: [j] for j, n in enumerate(names)}, requires=requires or {})
    return costs.bind(len(names))


def test_sets_are_closed_and_what_is_free_comes_first():
    costs = bound({"free": 0.0, "a": 1.0, "b": 2.0}, {"b": ["a"]})
    sets = OwnedSets(costs, np.arange(3), 32, lambda steps: 0)
    assert sets.owned.astype(int).tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert sets.after[0].tolist() == [1]
    assert sets.depth == 3


def test_too_many_sets_become_a_chain_from_which_everything_can_be_bought():
    costs = bound({f"g{j}": 1.0 for j in range(8)})
    sets = OwnedSets(costs, np.arange(8), 20, lambda steps: 0)
    assert len(sets) < 40
    whole = int(sets.owned.all(axis=1).argmax())
    assert whole in sets.after[0]
    assert (sets.owned[sets.after[0]].sum(axis=1) == 1).sum() == 8


def test_a_copy_and_a_file_buy_the_same(model, tmp_path):
    X, _, _ = answers(50, 9)
    model.save(tmp_path / "model.anytime")
    for other in (copy.deepcopy(model), at.load(tmp_path / "model.anytime")):
        for money in ({"budget": 5}, {"mean_budget": 3}, {}):
            assert_array_equal(other.predict_proba(X, **money), model.predict_proba(X, **money))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost_matrix": [[0, 1], [1, 0]]}, "cost_matrix must hold 3 x 3"),
        ({"accuracy": 2.0}, "accuracy"),
        ({"max_sets": 0}, "max_sets"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    X, y, _ = answers(50)
    with pytest.raises(ValueError, match=message):
        at.ExpectedCostClassifier(costs=COSTS, **settings).fit(X, y)


def test_wrong_prices_of_rows_and_costs_of_options_are_refused():
    X, seconds = problems(50)
    model = at.AlgorithmSelector(**SMALL)
    with pytest.raises(ValueError, match="row_prices has shape"):
        model.fit(X, seconds, row_prices=np.ones((50, 3)))
    with pytest.raises(ValueError, match="not negative"):
        model.fit(X, seconds, row_prices=-np.ones((50, 2)))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, seconds.replace(100.0, np.inf))
    with pytest.raises(ValueError, match="needs the group 'gpu'"):
        at.AlgorithmSelector(option_groups={"greedy": "gpu"}, **SMALL).fit(X, seconds)
