"""The best of several kinds of models at every budget, decided on rows that none has learned from."""

import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

import anytime as at
from anytime.auto import improving, kinds
from anytime.auto.blend_block import BlendBlock, LogProbabilityBlock
from anytime.auto.choosing import weighed
from anytime.auto.dense_block import DenseBlock, Inputs
from anytime.auto.kinds import ExtraRandom, Linear, blended, frequent_codes
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.boosting.objective import MeanLoss
from anytime.losses import training_loss
from anytime.trees import clock


def linear_table(n=800, seed=0):
    """Two classes by the sign of a sum of many columns, which trees need many splits for; 5 % of the values are missing."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 10))
    y = np.where(X.sum(axis=1) + random.normal(size=n) > 0, "yes", "no")
    X[random.uniform(size=X.shape) < 0.05] = np.nan
    return X, y, at.FeatureCosts(np.arange(1.0, 11.0))


@pytest.fixture(scope="module")
def fitted():
    X, y, costs = linear_table()
    return at.AutoClassifier(costs=costs, max_stages=4, random_state=0).fit(X[:500], y[:500]), X, y


def test_a_linear_truth_is_answered_by_linear_models(fitted):
    model, X, y = fitted
    kinds = [set(shares) for _, shares in model.families_]
    assert any(kind & {"linear", "network", "products"} for kind in kinds)
    trees = at.SpeedBoostClassifier(costs=model.costs, max_stages=4, random_state=0).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > trees.score(X[500:], y[500:])
    for _, shares in model.families_:
        assert sum(shares.values()) == pytest.approx(1.0)


def test_a_truth_that_only_trees_can_see_stays_with_trees():
    """Negative control of the test above."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(1200, 3))
    y = (np.floor(X[:, 0] * 4) + np.floor(X[:, 1] * 4)) % 2
    model = at.AutoClassifier(kinds=["linear"], max_stages=3, random_state=0).fit(X, y)
    assert model.families_[-1][1].get("linear", 0.0) < 0.5
    assert model.score(X, y) > 0.9


def test_the_model_is_kept_in_a_file_bit_for_bit(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "auto.anytime")
    again = at.load(tmp_path / "auto.anytime")
    assert again.families_ == model.families_
    for budget in (None, 0, 5, 20, 40):
        assert_array_equal(again.predict_proba(X, budget), model.predict_proba(X, budget))


def test_columns_that_are_not_bought_are_not_read(fitted):
    model, X, _ = fitted
    for budget in (3, 12, 30):
        bought = model.answer(X, budget).groups
        other = X.copy()
        hidden = [g for g, name in enumerate(model.costs_.names) if name not in bought]
        other[:, hidden] = 1e6
        assert_array_equal(model.predict_proba(other, budget), model.predict_proba(X, budget))


def test_the_same_seed_gives_the_same_model_on_any_number_of_threads():
    X, y, costs = linear_table(150)
    one, two = (
        at.AutoClassifier(costs=costs, max_stages=1, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)
    )
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.families_ == two.families_


def test_words_missing_values_and_several_targets():
    random = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame({"size": random.normal(size=n), "kind": random.choice(["a", "b", "c"], size=n)})
    table.loc[::7, "size"] = np.nan
    table["empty"] = np.nan
    effect = table["kind"].map({"a": 0.0, "b": 3.0, "c": -2.0}).to_numpy()
    y = np.nan_to_num(table["size"].to_numpy()) * 2 + effect
    model = at.AutoRegressor(max_stages=2, random_state=0).fit(table, y)
    assert model.score(table, y) > 0.95
    both = at.AutoRegressor(kinds=["linear", "forest"], max_stages=2, random_state=0).fit(
        table[["size"]], np.column_stack([y, -y])
    )
    assert both.predict(table[["size"]]).shape == (n, 2)


@pytest.mark.realtime
@pytest.mark.parametrize("seconds", [0.3, 2.0])
def test_a_time_budget_holds_and_leaves_a_cheap_answer_and_a_last_one(seconds):
    X, y = load_digits(return_X_y=True)
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = at.AutoClassifier(time_budget=seconds, random_state=0).fit(X, y)
    assert time.monotonic() - began <= 1.1 * seconds + 1.0
    assert model.stage_costs_[0] == 1
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(("late_seconds", "fits_in_time"), [(9.0, 1), (0.5, 10)])
def test_a_kind_that_is_slower_than_foretold_is_given_up_after_one_fit(
    monkeypatch, late_seconds, fits_in_time
):
    """The second case is the control: a kind that is quick enough is tried with both strengths on all five parts of the rows."""
    fake, fits = SimpleNamespace(now=0.0, monotonic=lambda: fake.now), []

    class SlowLinear:
        name = "linear"

        def __init__(self, training, strength, *, products):
            self.width = training.base.size

        def fit(self, columns, rows, number=0):
            in_a_part = 300 < rows.size < 400
            fake.now += late_seconds if in_a_part else 0.1
            fits.append(in_a_part)
            return FunctionBlock(
                np.flatnonzero(columns), lambda X: np.zeros((len(X), self.width)), self.width
            )

    monkeypatch.setattr(improving, "Linear", SlowLinear)
    monkeypatch.setattr(improving, "_STRENGTHS", (1.0, 2.0))
    for module in (improving, clock):
        monkeypatch.setattr(module, "time", fake)
    X, y, costs = linear_table(400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at.AutoClassifier(costs=costs, kinds=["linear"], max_stages=1, time_budget=10, random_state=0).fit(
            X, y
        )
    assert fake.now <= 1.1 * 10 + 1
    assert sum(fits) == fits_in_time


def test_unknown_kinds_are_refused():
    X, y, _ = linear_table(50)
    with pytest.raises(ValueError, match="kinds names 'lasso'; there are linear, products, forest, network"):
        at.AutoClassifier(kinds=["lasso"]).fit(X, y)


# ---------------------------------------------------------------------- parts


def test_inputs_say_what_columns_hold():
    X = np.array([[1.0, 0.0, 5.0], [3.0, 2.0, 5.0], [np.nan, 1.0, 5.0]])
    inputs = Inputs.of(X, [0, 1, 2], {1: [0, 1, 2]}, products=False)
    expected = [
        [-1, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [0, 1, 0, 1, 0, 0],
    ]  # value, missing, three words, constant
    assert_array_equal(inputs.matrix(X), expected)
    squares = Inputs.of(X[:2], [0, 2], {}, products=True)
    assert_array_equal(squares.matrix(X[:2]), [[-1, 0, 1, 0, 0], [1, 0, 1, 0, 0]])


def test_layers_are_those_of_a_network():
    random = np.random.default_rng(0)
    X = random.normal(size=(6, 3))
    inputs = Inputs.of(X, [0, 2], {}, products=False)
    layers = [(random.normal(size=(2, 4)), random.normal(size=4)), (random.normal(size=(4, 2)), np.ones(2))]
    block = DenseBlock(inputs, layers)
    hidden = np.maximum(inputs.matrix(X) @ layers[0][0] + layers[0][1], 0)
    assert_allclose(block.outputs(0, X), hidden @ layers[1][0] + layers[1][1])
    assert_array_equal(DenseBlock.from_state(*block.state()).outputs(0, X), block.outputs(0, X))
    with pytest.raises(ValueError, match="do not follow each other"):
        DenseBlock(inputs, layers[1:])


def test_a_blend_is_the_weighted_sum_of_its_parts():
    X = np.array([[0.2, 1.0], [0.9, -1.0]])
    parts = [LinearBlock([0], [[1.0]]), LinearBlock([1], [[2.0]])]
    assert_allclose(BlendBlock(parts, [0.25, 0.75]).outputs(0, X), [[1.55], [-1.275]])
    with pytest.raises(ValueError, match="as many finite shares"):
        BlendBlock(parts, [1.0])
    odds = LogProbabilityBlock(LinearBlock([0, 0], [[-1.0, 1.0], [0.0, 0.0]], intercepts=[[1.0, 0.0]]), 1)
    assert_allclose(odds.outputs(0, X)[:, 0], np.log((X[:, 0] + 1e-3) / (1 - X[:, 0] + 1e-3)))


def shares_of(said, y, seed=0):
    """What members count who say these things of rows with targets ``y``, and the ensemble's loss on each row."""
    objective = MeanLoss(training_loss("squared"), y)
    return weighed(objective, said, np.arange(y.size), np.random.RandomState(seed))


def test_members_that_err_apart_share_and_a_worse_copy_gets_nothing():
    random = np.random.default_rng(0)
    y = random.normal(size=4000)
    first, second = (y[:, None] + random.normal(size=(4000, 1)) for _ in range(2))
    ensemble = shares_of([first, second], y)
    assert_allclose(ensemble.shares, 0.5)
    assert ensemble.losses.mean() == pytest.approx(0.25, rel=0.1)  # half of (mean of two noises) squared
    worse = shares_of([first, first + 3 * random.normal(size=(4000, 1))], y)
    assert_array_equal(worse.shares, [1.0, 0.0])


def test_what_is_told_of_an_ensemble_is_measured_on_rows_that_have_not_chosen_it():
    """Members that are equally good: the best of many blends seems better than it is, less so where other rows judge it."""
    random, told, naive = np.random.default_rng(0), [], []
    for _ in range(60):
        y = random.normal(size=150)
        said = [y[:, None] + 0.3 * random.normal(size=(150, 1)) for _ in range(5)]
        ensemble = shares_of(said, y)
        truth = 0.5 * 0.3**2 * float((ensemble.shares**2).sum())
        told.append(ensemble.losses.mean() - truth)
        blend = sum(share * one for share, one in zip(ensemble.shares, said, strict=True))[:, 0]
        naive.append(0.5 * np.mean((blend - y) ** 2) - truth)
    assert np.mean(naive) < -2 * np.std(naive) / np.sqrt(60)  # the same rows choose and judge: too good
    assert np.mean(told) > -2 * np.std(told) / np.sqrt(60)


def test_several_models_become_one_block_that_says_their_weighted_sum():
    """Forests of trees are joined, linear models of the same inputs are one; what is unlike stays a part of a blend."""
    X, y, costs = linear_table(300)
    model = at.AutoClassifier(costs=costs, max_stages=1, random_state=0)
    training = model._training(X, y, None, None)
    columns, rows = np.ones(10, dtype=bool), np.arange(200)
    forest, linear = ExtraRandom(training, 0, 1), Linear(training, 0.2, products=False)
    forests = [forest.fit(columns, rows + k, k) for k in range(2)]
    lines = [linear.fit(columns, rows + k, k) for k in range(2)]
    one = blended([(lines[0], 0.5), (lines[1], 0.5)])
    assert isinstance(one, DenseBlock)
    assert_allclose(one.outputs(0, X), (lines[0].outputs(0, X) + lines[1].outputs(0, X)) / 2)
    both = blended([(forests[0], 0.3), (lines[0], 0.2), (forests[1], 0.3), (lines[1], 0.2)])
    assert isinstance(both, BlendBlock)
    assert_allclose(both.shares, [0.6, 0.4])
    mean = np.mean([block.inner.outputs(0, X) for block in forests], axis=0)
    odds = np.log((mean[:, 1] + 1e-3) / (mean[:, 0] + 1e-3))
    assert_allclose(both.outputs(0, X)[:, 0], 0.6 * odds + 0.4 * one.outputs(0, X)[:, 0])


def test_what_an_answer_leaves_unspent_buys_more_where_that_is_as_good():
    """Two useful columns, and six cheap ones that say a little each: too little for quick models to see one by one."""
    random = np.random.default_rng(0)
    signal = random.normal(size=6600)
    strong = signal + 0.8 * random.normal(size=6600)
    weak = 0.25 * signal[:, None] + random.normal(size=(6600, 6))
    X = np.column_stack([strong, weak])
    model = at.AutoRegressor(costs=[1.0, *[2.0] * 6], random_state=0, kinds=["linear"]).fit(
        X[:600], signal[:600]
    )
    answer = model.answer(X[600:], budget=9)
    assert answer.cost.max() > 0.9 * 9 * (1 - 1 / 9)
    cheap = model.score(X[600:], signal[600:], budget=1)
    assert model.score(X[600:], signal[600:], budget=9) > cheap + 0.02


def improvements_of(monkeypatch):
    """Every ``Improvement`` that fits from now on make."""
    made, improved = [], improving.Improvement.improved
    monkeypatch.setattr(improving.Improvement, "improved", lambda self: made.append(self) or improved(self))
    return made


def test_what_quick_models_find_on_all_parts_of_the_rows_gets_an_ensemble(monkeypatch):
    """A set that SpeedBoost has not looked at; the quick models are told apart by all rows, each of which is held out once."""
    X, y, _ = linear_table(300)
    monkeypatch.setattr(improving, "FEW_ROWS", 300)
    made, middle, worths = improvements_of(monkeypatch), frozenset({2, 4}), []

    def found(closed, budget, order, value, promise):
        worths.append((value(middle), value(frozenset())))
        return [middle] if closed.price(middle) <= budget else []

    monkeypatch.setattr(improving, "sets_within", found)
    at.AutoClassifier(costs=[1.0, 2.0, 3.0, 4.0, 5.0], kinds=["linear"], random_state=0).fit(X[:, :5], y)
    sets = {frozenset(np.flatnonzero(one.groups).tolist()): one for one in made[0].sets}
    assert sets[middle].losses is not None
    assert not (made[0]._network.sets == sets[middle].groups).all(axis=1).any()
    assert made[0].judged.size == 300
    assert len(set(worths)) == 1
    assert worths[0][0] > worths[0][1]


@pytest.mark.parametrize(("few_rows", "share"), [(300, 1.0), (301, 1 / 1.4)])
def test_models_of_an_ensemble_have_as_many_rounds_as_the_trees_they_replace_but_of_few_rows_fewer(
    monkeypatch, few_rows, share
):
    X, y, _ = linear_table(300)
    monkeypatch.setattr(kinds, "FEW_ROWS", few_rows)
    made = improvements_of(monkeypatch)
    model = at.AutoClassifier(kinds=[], max_stages=1, random_state=0).fit(X, y)
    of_parts, of_all = (
        plan.blocks[-1].forest.arrays()["tree_start"].size - 1 for plan in (model.plan_, made[0].plan)
    )
    assert of_parts == 5 * round(share * of_all)


def test_who_can_pay_for_everything_gets_no_model_that_is_clearly_worse_than_a_cheaper_one():
    """One useful column and forty that mislead; the control are forty that help."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 41))
    for n_useful, misleads in ((1, True), (41, False)):
        y = X[:, :n_useful].sum(axis=1) + 0.1 * random.normal(size=200)
        model = at.AutoRegressor(kinds=["forest"], budgets=[1], max_stages=3, random_state=0).fit(X, y)
        assert (len(model.answer(X, budget=41).groups) < 41) == misleads


def test_a_rare_class_does_not_keep_other_kinds_away():
    X, y, costs = linear_table(600)
    y = y.astype(object)
    y[7] = "perhaps"
    model = at.AutoClassifier(costs=costs, kinds=["linear"], max_stages=3, random_state=0).fit(X, y)
    assert any("linear" in shares for _, shares in model.families_)
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]


def test_classes_rarer_than_the_folds_leave_trees_alone():
    X = np.random.default_rng(0).normal(size=(8, 2))
    model = at.AutoClassifier(random_state=0).fit(X, ["a", "b"] * 4)
    assert model.predict(X).shape == (8,)


def test_numbers_that_are_too_large_for_other_kinds_are_left_to_trees():
    X, y, costs = linear_table(300)
    for factor in (1e39, 1e200):
        model = at.AutoClassifier(costs=costs, max_stages=2, random_state=0).fit(X * factor, y)
        assert {kind for _, shares in model.families_ for kind in shares} == {"trees"}


def test_the_most_frequent_words_become_inputs():
    random = np.random.default_rng(0)
    words = np.array([f"a{k:02d}" for k in range(40)])
    word = np.where(random.uniform(size=800) < 0.6, "zz", random.choice(words, size=800))
    table = pd.DataFrame({"word": word})
    model = at.AutoRegressor(kinds=["linear"], max_stages=1, random_state=0)
    training = model._training(table, (word == "zz").astype(float), None, None)
    codes = frequent_codes(training)[0]
    assert len(codes) == 32
    assert model.columns_.categories[0].index("zz") in codes


def test_ctrl_c_keeps_what_was_found(monkeypatch):
    X, y, costs = linear_table(600)
    fits = []

    def interrupted(self, columns, rows, number, fit=Linear.fit):
        fits.append(rows)
        if len(fits) > 20:
            raise KeyboardInterrupt
        return fit(self, columns, rows, number)

    monkeypatch.setattr(Linear, "fit", interrupted)
    with pytest.warns(UserWarning, match="interrupted: kinds that were not tried"):
        model = at.AutoClassifier(costs=costs, kinds=["linear"], max_stages=4, random_state=0).fit(X, y)
    assert "linear" in model.families_[-1][1]  # the set of everything was the first


@pytest.mark.parametrize("during_trees", [True, False])
def test_ctrl_c_before_the_first_ensemble_keeps_the_trees(monkeypatch, during_trees):
    X, y, _ = linear_table(300)
    learn, found = at.SpeedBoostClassifier._learn, []

    def learned(self, training):
        learn(self, training)
        if during_trees:
            raise KeyboardInterrupt

    def interrupted(*_):
        found.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(improving, "FEW_ROWS", 300)
    monkeypatch.setattr(at.SpeedBoostClassifier, "_learn", learned)
    monkeypatch.setattr(improving, "sets_within", interrupted)
    with pytest.warns(UserWarning, match="interrupted: kinds that were not tried"):
        model = at.AutoClassifier(kinds=["linear"], max_stages=2, random_state=0).fit(X[:, :5], y)
    assert model.families_[-1][1] == {"trees": 1.0}
    assert len(found) == (not during_trees)  # sets are not looked for in vain
