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
from anytime.auto import estimators, improving
from anytime.auto.blend_block import BlendBlock, LogProbabilityBlock
from anytime.auto.choosing import Decision, decided
from anytime.auto.dense_block import DenseBlock, Inputs
from anytime.auto.kinds import Linear, frequent_codes
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


def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(estimators, "_ROUNDS", 40)
    X, y, costs = linear_table(150)
    one, two = (
        at.AutoClassifier(costs=costs, max_stages=2, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)
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
    """The second case is the control: a kind that is quick enough is tried with both strengths in all five folds."""
    fake, fits = SimpleNamespace(now=0.0, monotonic=lambda: fake.now), []

    class SlowLinear:
        name = "linear"

        def __init__(self, training, strength, *, products):
            self.width = training.base.size

        def fit(self, columns, rows):
            in_a_fold = 300 < rows.size < 400
            fake.now += late_seconds if in_a_fold else 0.1
            fits.append(in_a_fold)
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


def halves(n):
    return np.random.default_rng(1).uniform(size=n) < 0.5


def test_a_blend_has_to_be_better():
    random = np.random.default_rng(0)
    y = random.normal(size=4000)
    objective, rows = MeanLoss(training_loss("squared"), y), np.arange(4000)
    trees, forest = (y[:, None] + random.normal(size=(4000, 1)) for _ in range(2))
    found = decided(objective, {"trees": trees, "forest": forest}, rows, halves(4000), few=False)
    assert found.shares == {"trees": 0.5, "forest": 0.5}
    assert found.loss == pytest.approx(objective.value((trees + forest) / 2), rel=0.01)
    alone = decided(objective, {"trees": trees, "forest": trees + 1e-9}, rows, halves(4000), few=False)
    assert alone.shares == {"trees": 1.0}
    assert alone.loss == alone.loss_of_trees == pytest.approx(objective.value(trees))


def test_a_blend_of_few_rows_has_to_be_better_by_more_than_a_standard_error():
    """A forest of four times the noise hardly helps."""
    blends = {False: 0, True: 0}
    for seed in range(10):
        random = np.random.default_rng(seed)
        y = random.normal(size=300)
        objective, rows = MeanLoss(training_loss("squared"), y), np.arange(300)
        said = {
            kind: y[:, None] + c * random.normal(size=(300, 1)) for kind, c in (("trees", 1), ("forest", 4))
        }
        for few in blends:
            blends[few] += len(decided(objective, said, rows, halves(300), few=few).shares) > 1
    assert blends[True] < blends[False]


def test_a_blend_that_is_worse_across_halves_is_not_taken():
    """A forest of noise joins a blend by chance; rows that did not choose it see that."""
    random, blends = np.random.default_rng(0), 0
    for _ in range(40):
        y = random.normal(size=200)
        objective, rows = MeanLoss(training_loss("squared"), y), np.arange(200)
        said = {"trees": np.zeros((200, 1)), "forest": random.normal(size=(200, 1))}
        found = decided(objective, said, rows, random.uniform(size=200) < 0.5, few=False)
        assert found.loss <= found.loss_of_trees
        blends += len(found.shares) > 1
    assert blends < 20  # about half of the forests have a share that these rows like


def test_a_gain_counts_less_a_standard_error_and_a_loss_in_full():
    """Else a set on which trees were unlucky would be taken for larger ones."""
    shares = {"linear": 1.0}
    assert Decision(shares, 0.9, 1.0, 0.04).gain == pytest.approx(0.06)
    assert Decision(shares, 0.9, 1.0, 0.3).gain == 0
    assert Decision(shares, 1.1, 1.0, 0.3).gain == pytest.approx(-0.1)


def test_what_is_told_of_a_choice_is_measured_on_rows_that_did_not_make_it():
    """Kinds that are equally good: the best of many blends seems better than it is, less so where other rows judge it."""
    random, told, naive = np.random.default_rng(0), [], []
    kinds = ("trees", "linear", "products", "forest", "network")
    for _ in range(60):
        y = random.normal(size=150)
        objective, rows = MeanLoss(training_loss("squared"), y), np.arange(150)
        own = {kind: 0.3 * random.normal(size=(150, 1)) for kind in kinds}
        said = {kind: y[:, None] + noise for kind, noise in own.items()}
        found = decided(objective, said, rows, random.uniform(size=150) < 0.5, few=False)
        truth = 0.5 * 0.3**2 * sum(share**2 for share in found.shares.values())
        told.append(found.loss - truth)
        naive.append(objective.value(sum(share * said[kind] for kind, share in found.shares.items())) - truth)
    assert np.mean(naive) < -2 * np.std(naive) / np.sqrt(60)  # the same rows decide and judge: too good
    assert np.mean(told) > np.mean(naive)
    assert np.mean(told) > -2 * np.std(told) / np.sqrt(60)


def test_of_few_rows_the_simplest_that_is_about_as_good_is_taken():
    """known_budgets_and_rows 2: linear before trees before blends."""
    random = np.random.default_rng(0)
    y = random.normal(size=150)
    noise, other = random.normal(size=(2, 150, 1))
    objective, rows = MeanLoss(training_loss("squared"), y), np.arange(150)
    said = {"trees": y[:, None] + noise, "linear": y[:, None] + noise + 0.02 * other}
    assert objective.value(said["trees"]) < objective.value(said["linear"])
    for few, expected in ((True, "linear"), (False, "trees")):
        assert decided(objective, said, rows, halves(150), few=few).shares == {expected: 1.0}


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

    def interrupted(self, columns, rows, fit=Linear.fit):
        fits.append(rows)
        if len(fits) > 25:
            raise KeyboardInterrupt
        return fit(self, columns, rows)

    monkeypatch.setattr(Linear, "fit", interrupted)
    with pytest.warns(UserWarning, match="interrupted: kinds that were not tried"):
        model = at.AutoClassifier(costs=costs, kinds=["linear"], max_stages=4, random_state=0).fit(X, y)
    assert "linear" in model.families_[-1][1]  # the set of everything was the first
