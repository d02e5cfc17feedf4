"""The estimators that choose the next purchase row by row: budgets, means, stops, sessions, files, bad input."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.acquisition import AcquisitionClassifier, AcquisitionRegressor
from anytime.runtime import BatchSession, Session
from tests.runtime.bench import features_of

SMALL = {
    "hidden_layer_sizes": (16, 8),
    "folds": 2,
    "n_neighbors": 8,
    "policy": "neighbours",
    "random_state": 0,
}
COSTS = at.FeatureCosts(
    {"a": 1.0, "b": 3.0, "c": 2.0, "step": 0.5, "d": 1.5},
    groups={"a": [0, 1], "b": [2], "c": [3, 4], "step": [], "d": [5]},
    requires={"c": ["step"], "d": ["a"]},
)


def table(rows=150, seed=0):
    """Six columns, three classes."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 6))
    y = np.array(["no", "yes", "maybe"])[(X[:, 2] > 0) + (X[:, 3] + X[:, 0] > 0.5).astype(int)]
    return X, y


@pytest.fixture(scope="module")
def model():
    return AcquisitionClassifier(costs=COSTS, **SMALL).fit(*table())


def planted(n, seed):
    """Four kinds of rows, and one column for each kind that tells the class: y = (kind, value of the kind's own column)."""
    random = np.random.default_rng(seed)
    kind = random.integers(4, size=n)
    values = random.integers(2, size=(n, 4))
    X = np.concatenate([np.eye(4)[kind], values], axis=1).astype(float)
    return X, 2 * kind + values[np.arange(n), kind]


PLANTED = at.FeatureCosts(
    groups={"kind": [0, 1, 2, 3], "b0": [4], "b1": [5], "b2": [6], "b3": [7]},
    prices=dict.fromkeys(["kind", "b0", "b1", "b2", "b3"], 1.0),
)


def test_a_planted_tree_of_tests_is_found_where_one_order_for_all_needs_everything():
    """R5: which group matters depends on the first answer. Two purchases tell all; one order for all rows needs five."""
    settings = {**SMALL, "hidden_layer_sizes": (32, 16)}
    model = AcquisitionClassifier(costs=PLANTED, **settings).fit(*planted(800, 0))
    X, y = planted(400, 1)
    assert model.score(X, y, budget=2) > 0.99
    assert model.cost(X, budget=2).mean() == 2
    static = at.SpeedBoostClassifier(costs=PLANTED, random_state=0).fit(*planted(800, 0))
    assert [static.score(X, y, budget=b) < 0.9 for b in (2, 3, 4)] == [True] * 3
    assert static.score(X, y, budget=5) > 0.99
    bought = {name: group for group in ("b0", "b1", "b2", "b3") for name in [group[1]]}
    for kind in range(4):
        answer = model.answer(X[X[:, kind] == 1][:1], budget=2)
        assert set(answer.groups) == {"kind", bought[str(kind)]}


def test_one_by_one_in_a_batch_and_on_threads_rows_buy_the_same(model):
    """R2."""
    X, _ = table(40, 1)
    together = model.answer(X, budget=4.0)
    for i in range(0, 40, 7):
        alone = model.answer(X[i : i + 1], budget=4.0)
        assert_array_equal(alone.scores[0], together.scores[i])
        assert alone.cost[0] == together.cost[i]
        assert model.predict_one(np.ascontiguousarray(X[i]), budget=4.0) == together.prediction[i]
    threaded = AcquisitionClassifier(costs=COSTS, n_jobs=2, **SMALL).fit(*table())
    assert_array_equal(threaded.answer(X, budget=4.0).scores, together.scores)


def test_a_row_that_cannot_afford_its_first_wish_buys_something_else(model):
    """3.3: hard budgets are used up, unlike those of a chain that stops at the first thing it cannot pay."""
    X, _ = table(30, 1)
    for budget in np.arange(0.0, 8.5, 0.5):
        answer = model.answer(X, budget=budget)
        assert (answer.cost <= budget).all()
    cheapest = model.answer(X, budget=1.0)
    assert (cheapest.cost == 1.0).all()
    assert (model.answer(X, budget=0.9).cost == 0).all()


@pytest.mark.parametrize("mean", [0.0, 0.7, 2.0, 3.3, 6.0, 8.0, 100.0])
def test_a_mean_budget_of_a_batch_is_never_exceeded(model, mean):
    """R7: the mean over the rows of the call, and both bounds where both are given."""
    X, _ = table(60, 1)
    cost = model.cost(X, mean_budget=mean)
    assert cost.mean() <= mean + 1e-9
    assert mean - cost.mean() <= COSTS.prices["b"] / len(X) or (cost == COSTS.total).all() or mean < 1
    both = model.cost(X, budget=3.0, mean_budget=mean)
    assert both.max() <= 3.0
    assert both.mean() <= mean + 1e-9


def test_a_price_of_money_lifts_no_bound():
    X, _ = table(60, 1)
    thrifty = AcquisitionClassifier(costs=COSTS, cost_penalty=1e-6, **SMALL).fit(*table())
    both = thrifty.cost(X, budget=3.0, mean_budget=2.5)
    assert both.max() <= 3.0
    assert both.mean() <= 2.5


def test_what_is_free_and_useless_ends_no_purchases():
    """R3, with a price of money."""
    X, y = table()
    X = np.column_stack([np.random.default_rng(3).normal(size=len(X)), X[:, 2:4]])
    free = at.FeatureCosts({"noise": 0.0, "signal": 1.0}, groups={"noise": [0], "signal": [1, 2]})
    model = AcquisitionClassifier(costs=free, cost_penalty=1e-3, **SMALL).fit(X, y)
    assert (model.cost(X) == 1.0).mean() > 0.9


def test_a_row_without_money_goes_on_when_it_has_some():
    X, y = table()
    thrifty = AcquisitionClassifier(costs=COSTS, cost_penalty=1e-6, **SMALL).fit(X, y)
    session = Session(thrifty, features_of(thrifty.plan_))
    poor = session.predict(X[0], budget=1.0)
    assert poor.reason == "budget"
    assert session.resume(budget=8.0).cost > poor.cost


def test_money_goes_where_it_helps_most():
    """R7: rows of a batch pay unequal amounts, and are answered better than with the same for each."""
    X, y = planted(800, 0)
    X[:, 4:] = np.where(
        X[:, :1] == 1, 0.0, X[:, 4:]
    )  # rows of the first kind need nothing more than their kind
    y = np.where(X[:, 0] == 1, 0, y)
    model = AcquisitionClassifier(costs=PLANTED, **{**SMALL, "hidden_layer_sizes": (32, 16)}).fit(X, y)
    cost = model.cost(X, mean_budget=1.75)
    assert cost.mean() <= 1.75
    assert cost[X[:, 0] == 1].mean() < 1.2 < 1.8 < cost[X[:, 0] == 0].mean()
    assert model.score(X, y, mean_budget=1.75) > 0.97
    assert model.score(X, y, budget=1.75) < 0.8


def test_rows_stop_where_they_are_sure_and_where_nothing_is_worth_its_price():
    X, y = table()
    sure = AcquisitionClassifier(costs=COSTS, confidence=0.9, **SMALL).fit(X, y)
    thrifty = AcquisitionClassifier(costs=COSTS, cost_penalty=0.03, **SMALL).fit(X, y)
    plain = AcquisitionClassifier(costs=COSTS, **SMALL).fit(X, y)
    rows, _ = table(80, 1)
    assert (plain.cost(rows) == COSTS.total).all()
    for model in (sure, thrifty):
        assert 0 < model.cost(rows).mean() < COSTS.total
    stopped = sure.cost(rows) < COSTS.total
    assert (sure.predict_proba(rows[stopped]).max(axis=1) >= 0.9).all()
    trace = list(sure.stages(rows))
    for before, after in pairwise(trace):  # nobody went on who was sure
        went_on = after.cost > before.cost
        assert (before.confidence[went_on] < 0.9).all()
    nothing = AcquisitionClassifier(costs=COSTS, cost_penalty=1e6, **SMALL).fit(X, y)
    assert (nothing.cost(rows) == 0).all()


@pytest.mark.parametrize("budget", [None, 0.0, 1.0, 3.5, 6.0])
def test_a_session_asks_for_the_group_that_the_row_wants(model, budget):
    """One example at a time, and a batch whose features are computed on demand."""
    rows, _ = table(12, 1)
    expected, orders = model.answer(rows, budget=budget), set()
    for i, row in enumerate(rows):
        log = []
        answer = Session(model, features_of(model.plan_, log)).predict(row, budget=budget)
        assert_array_equal(answer.scores, expected.scores[i])
        assert answer.cost == expected.cost[i] == COSTS.price(log)
        orders.add(tuple(log))
    batch = BatchSession(model, list(rows), features_of(model.plan_), budget=budget, tile_rows=5)
    assert_array_equal(batch.advance().scores, expected.scores)
    assert len(orders) > 1 or budget in (0.0, 1.0, 3.5)


def test_a_session_whose_extractor_fails_buys_something_else(model):
    def broken(raw):
        raise OSError("no connection")

    row = table(1, 1)[0][0]
    for budget in (None, 5.0):
        wanted = Session(model, features_of(model.plan_)).predict(row, budget=budget).groups[0]
        answer = Session(model, features_of(model.plan_, **{wanted: broken})).predict(row, budget=budget)
        assert wanted in answer.failures
        assert answer.cost <= (budget or COSTS.total)
        useful = [name for name in answer.groups if name not in (wanted, "step")]
        assert len(useful) >= (1 if budget else 2)  # the failed one is paid, and others are bought after it
        batch = BatchSession(model, [row], features_of(model.plan_, **{wanted: broken}), budget=budget)
        assert_array_equal(batch.advance().scores[0], answer.scores)
        assert answer.reason == "failed"


def test_missing_groups_are_done_without():
    """A table without some columns: what they cost is not paid, and rows buy what is there."""
    X, y = table()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    groups = {"a": ["x0", "x1"], "b": ["x2"], "c": ["x3", "x4"], "d": ["x5"]}
    costs = at.FeatureCosts(groups=groups, prices={"a": 1.0, "b": 3.0, "c": 2.0, "d": 1.5})
    model = AcquisitionClassifier(costs=costs, **SMALL).fit(frame, y)
    with pytest.warns(UserWarning, match="x2"):
        answer = model.answer(frame.drop(columns="x2"))
    assert (answer.cost == 4.5).all()
    assert "b" not in answer.groups
    assert answer.reason == "groups"


def test_categories_missing_values_and_words_in_a_table():
    random = np.random.default_rng(0)
    city = random.choice(["Rome", "Oslo", "Lima"], size=200)
    frame = pd.DataFrame({"city": city, "x": random.normal(size=200), "noise": random.normal(size=200)})
    frame.loc[::5, "x"] = np.nan
    y = np.where(city == "Rome", "a", np.where(frame["x"] > 0, "b", "c"))
    model = AcquisitionClassifier(**SMALL).fit(frame, y)
    assert model.score(frame, y, budget=2) > 0.9
    assert (model.predict(frame[frame["city"] == "Rome"], budget=1) == "a").mean() > 0.9
    unknown = frame.head(3).assign(city="Kyiv")
    assert model.predict(unknown).shape == (3,)


def test_files_give_the_same_purchases(model, tmp_path):
    X, _ = table(20, 1)
    model.save(tmp_path / "m.anytime")
    loaded = at.load(tmp_path / "m.anytime")
    for budget in (None, 2.5, 4.0):
        one, other = (m.answer(X, budget=budget) for m in (model, loaded))
        assert_array_equal(one.scores, other.scores)
        assert_array_equal(one.cost, other.cost)
    assert_array_equal(model.cost(X, mean_budget=3), loaded.cost(X, mean_budget=3))


def test_numbers_are_predicted_row_by_row_too(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    X[:, 0] = random.integers(2, size=300)
    y = np.where(X[:, 0] == 1, 10 * X[:, 1], 10 * X[:, 2]) + 100
    model = AcquisitionRegressor(**{**SMALL, "hidden_layer_sizes": (32, 16)}).fit(X, y)
    assert model.score(X, y, budget=2) > 0.6
    answer = model.answer(X, budget=2)
    assert answer.cost.max() == 2
    both = AcquisitionRegressor(**SMALL).fit(X, np.stack([y, -y], axis=1))
    assert both.predict(X, budget=1).shape == (300, 2)
    both.save(tmp_path / "m.anytime")
    assert_array_equal(at.load(tmp_path / "m.anytime").predict(X, budget=2), both.predict(X, budget=2))


@pytest.mark.parametrize("offset", [1e6, -1e9])
def test_numbers_far_from_zero_are_predicted_as_those_around_it(offset, tmp_path):
    """float32 has steps of 0.06 at a million; the networks compute in it."""
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = np.round(X[:, 0] + 0.5 * X[:, 1], 3)
    near, far = (AcquisitionRegressor(**SMALL).fit(X, target) for target in (y, y + offset))
    for budget in (0, 1, 2, None):
        assert_array_equal(far.cost(X, budget=budget), near.cost(X, budget=budget))
        assert_allclose(far.predict(X, budget=budget) - offset, near.predict(X, budget=budget), atol=1e-5)
    assert far.next(X[0]).change == pytest.approx(near.next(X[0]).change, rel=1e-4)
    far.save(tmp_path / "m.anytime")
    assert_array_equal(at.load(tmp_path / "m.anytime").predict(X, budget=2), far.predict(X, budget=2))


@pytest.mark.parametrize("unit", [2.0**-100, 2.0**100])
def test_small_and_large_numbers_are_predicted_as_others(unit, tmp_path):
    """The squares of these are beyond float32."""
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = X[:, 0] + 0.5 * X[:, 1]
    plain, other = (AcquisitionRegressor(**SMALL).fit(X, target) for target in (y, unit * y))
    for bounds in ({"budget": 1}, {"budget": 2}, {"mean_budget": 1.5}):
        assert_array_equal(other.cost(X, **bounds), plain.cost(X, **bounds))
        assert_array_equal(other.predict(X, **bounds), unit * plain.predict(X, **bounds))
    one, two = plain.next(X[0]), other.next(X[0])
    assert (two.gain, two.change) == (one.gain * unit**2, one.change * unit)
    other.save(tmp_path / "m.anytime")
    assert_array_equal(at.load(tmp_path / "m.anytime").predict(X, budget=2), other.predict(X, budget=2))


@pytest.mark.parametrize("exponent", [-600, -660])
def test_numbers_whose_squares_no_float_can_hold_are_predicted_as_others(exponent):
    """About 1e-181 and 1e-199: a power of two changes no digit."""
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = X[:, 0] + 0.5 * X[:, 1]
    plain, other = (AcquisitionRegressor(**SMALL).fit(X, target) for target in (y, np.ldexp(y, exponent)))
    assert_array_equal(other.predict(X), np.ldexp(plain.predict(X), exponent))
    assert_array_equal(other.cost(X, budget=2), plain.cost(X, budget=2))


@pytest.mark.parametrize("spreads", [(1e25, 1e-25), (1e-30, 1e10), (1.0, 1e-100, 0.0)])
def test_every_target_has_a_unit_of_its_own(spreads, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 4))
    Y = X[:, : len(spreads)] * spreads
    model = AcquisitionRegressor(**SMALL).fit(X, Y)
    model.save(tmp_path / "m.anytime")
    for said in (model.predict(X), at.load(tmp_path / "m.anytime").predict(X)):
        for values, target in zip(said.T, Y.T, strict=True):
            size = np.abs(target).max() or 1.0
            assert np.square((values - target) / size).mean() < 0.02
    largest = int(np.argmax(spreads))
    assert model.next(X[0]).group == f"x{largest}"
    assert model.next(X[0]).gain == pytest.approx(max(spreads) ** 2, rel=0.5)


@pytest.mark.parametrize("size", [1e-310, 1e200, 1e307])
def test_a_spread_that_cannot_be_is_refused_in_one_sentence(size):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(
        ValueError, match=r"^y has a spread of .*, but it must be between 2e-308 and 1e\+150; rescale it$"
    ):
        AcquisitionRegressor(**SMALL).fit(X, X[:, 0] * size)


def test_columns_that_tell_nothing_are_never_bought():
    X, y = table()
    X[:, 5] = 7.0
    model = AcquisitionClassifier(**SMALL).fit(X, y)
    assert model.n_stages_ == 5
    assert (model.cost(X) == 5).all()
    constant = AcquisitionClassifier(**SMALL).fit(np.ones((20, 2)), np.arange(20) % 2)
    assert constant.n_stages_ == 0
    assert_array_equal(constant.cost(np.ones((3, 2)), mean_budget=1), np.zeros(3))


@pytest.mark.realtime
def test_training_keeps_to_its_time():
    model = AcquisitionClassifier(time_budget=0.5, random_state=0).fit(*table(2000))
    assert model.score(*table(500, 1)) > 0.6


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hidden_layer_sizes": (4,)}, "two numbers of units"),
        ({"hidden_layer_sizes": (4, 0)}, "two numbers of units"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"folds": 1}, "folds"),
        ({"look_ahead": -1}, "look_ahead"),
        ({"confidence": 2.0}, "confidence"),
        ({"cost_penalty": -1.0}, "cost_penalty"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        AcquisitionClassifier(**settings).fit(*table(20))


def test_wrong_data_are_refused():
    X, y = table(20)
    with pytest.raises(ValueError, match="only one class"):
        AcquisitionClassifier(**SMALL).fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="cannot be standardised"):
        AcquisitionClassifier(**SMALL).fit(X * 1e35, y)
    fitted = AcquisitionClassifier(**SMALL).fit(X, y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="only one class"):
        fitted.fit(X, np.zeros(20))
    assert_array_equal(fitted.predict(X), before)
    with pytest.raises(ValueError, match="mean_budget must be one number"):
        fitted.predict(X, mean_budget=[1.0] * 20)
