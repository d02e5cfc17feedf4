"""A time budget is a promise on the clock, whatever is trained, and what it leaves is a model with a first and a last answer."""

import time
import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from anytime.boosting.learners import TreeLearner
from anytime.boosting.rounds import GradientRounds
from anytime.trees import clock as clock_module


class FakeTime:
    """A clock that goes on only by work that is told to it."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def fake(monkeypatch):
    """Each round of trees takes a second, in whatever model; each tree of a learner takes half of one."""
    fake = FakeTime()
    monkeypatch.setattr(clock_module, "time", fake)

    def slowly(function, seconds):
        def slow(*args, **kwargs):
            fake.now += seconds
            return function(*args, **kwargs)

        return slow

    monkeypatch.setattr(GradientRounds, "round", slowly(GradientRounds.round, 1.0))
    monkeypatch.setattr(TreeLearner, "fit", slowly(TreeLearner.fit, 0.5))
    return fake


def rows(n=300, d=6):
    X = np.random.default_rng(0).normal(size=(n, d))
    return X, X[:, 0] + 0.5 * X[:, 1] + 0.25 * X[:, 2]


@pytest.mark.parametrize("seconds", [3, 30, 300])
def test_speedboost_keeps_to_its_time_and_has_a_cheap_answer_and_a_last_one(fake, seconds):
    X, y = rows()
    model = at.SpeedBoostRegressor(time_budget=seconds, min_samples_leaf=5, random_state=0)
    with pytest.warns(UserWarning, match=r"was too short: the model has \d+ of 6 planned stages"):
        model.fit(X, y)
    assert fake.now <= 1.1 * seconds + 1
    assert model.n_stages_ >= 2
    assert model.stage_costs_[0] == 1


def test_with_no_time_to_search_the_first_answer_is_on_a_group_that_the_last_model_has_found_useful(fake):
    X, _ = rows()
    y = X[:, 4] + 0.5 * X[:, 5]
    model = at.SpeedBoostRegressor(
        costs=[1, 1, 1, 1, 2, 3], time_budget=1, min_samples_leaf=5, random_state=0
    )
    with pytest.warns(UserWarning, match="the model has 2 of 6 planned stages"):
        model.fit(X, y)
    assert model.stage_costs_[0] == 2
    assert model.n_stages_ == 2


def test_with_more_time_than_needed_the_model_is_that_without_a_budget(fake):
    X, y = rows()
    settings = {"n_estimators": 10, "min_samples_leaf": 5, "random_state": 0}
    free = at.SpeedBoostRegressor(**settings).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = at.SpeedBoostRegressor(**settings, time_budget=1e6).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), free.predict(X))


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (at.GradientBoostingRegressor(time_budget=20), "20 of 100 rounds"),
        (at.AdditiveSpeedBoostRegressor(time_budget=20, random_state=0), "of 200 stages"),
        (at.AdditiveSpeedBoostRegressor(time_budget=20, holdout=0.3, random_state=0), "of 200 stages"),
        (at.CascadeClassifier(time_budget=2, random_state=0, n_estimators=5), "of 20 layers"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_that_time_has_cut_short_says_how_much_of_it_there_is(fake, model, what):
    X, y = rows()
    if isinstance(model, at.CascadeClassifier):
        y = y + np.random.default_rng(1).normal(size=300) > 0
    with pytest.warns(UserWarning, match=f"ended training: the model has .*{what}"):
        model.fit(X, y)
    assert fake.now <= 1.1 * model.time_budget + 1
    assert model.n_stages_ >= 1


def test_a_ladder_leaves_time_for_its_exits_when_it_orders_columns(fake):
    X, y = rows(200)
    y = y + np.random.default_rng(1).normal(size=200) > 0
    costly = RandomForestClassifier(20, oob_score=True, random_state=0).fit(X, y)
    model = at.LadderClassifier(costly, n_estimators=5, folds=2, time_budget=150, random_state=0)
    with pytest.warns(UserWarning, match=r"time is up: the ladder has [3-6] of up to 12 exits"):
        model.fit(X, y)
    assert fake.now <= 1.1 * 150 + 15


def test_reading_the_rows_counts(fake, monkeypatch):
    X, y = rows()
    read = at.GradientBoostingRegressor._read_rows

    def slowly(self, X, y):
        fake.now += 15.0
        return read(self, X, y)

    monkeypatch.setattr(at.GradientBoostingRegressor, "_read_rows", slowly)
    with pytest.warns(UserWarning, match="5 of 100 rounds"):
        at.GradientBoostingRegressor(time_budget=20).fit(X, y)


def test_rows_of_a_long_query_are_compared_with_a_hundred_others():
    """All pairs of a table would take a time that grows with the square of its rows."""
    X, y = rows(1000)
    grades = np.digitize(y, [-1, 0, 1])
    for qid in (None, np.full(1000, 3)):
        training = at.SpeedBoostRanker(random_state=0)._training(X, grades, None, qid)
        compared = training.objective.y[:, 1]
        assert np.bincount(compared.astype(int)).tolist() == [100] * 10
    two = np.repeat([4, 9], [150, 850])
    compared = at.SpeedBoostRanker(random_state=0)._training(X, grades, None, two).objective.y[:, 1]
    assert len(np.unique(compared)) == 10
    assert len(np.unique(compared[:150])) == 1
    assert not set(compared[:150]) & set(compared[150:])


def test_a_table_without_queries_is_ranked_as_well_as_in_one_list():
    X, y = rows(600, 3)
    grades = np.digitize(y, [-1, 0, 1])
    model = at.SpeedBoostRanker(n_estimators=30, random_state=0).fit(X, grades)
    assert model.score(X, grades) > 0.95


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.parametrize("kind", ["columns", "ranking"])
def test_the_clock_is_kept_to_on_wide_tables_and_long_rankings(kind):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 10_000) if kind == "columns" else (6_000, 20))
    y = X[:, :5].sum(axis=1)
    model = at.SpeedBoostRegressor if kind == "columns" else at.SpeedBoostRanker
    began = time.monotonic()
    with pytest.warns(UserWarning, match="was too short"):
        fitted = model(time_budget=3.0, random_state=0).fit(
            X, y if kind == "columns" else np.digitize(y, [-2, 0, 2])
        )
    assert time.monotonic() - began <= 1.1 * 3.0 + 1
    assert fitted.n_stages_ >= 1


def test_no_two_stages_cost_the_same_where_time_is_short(fake):
    """A stage that costs as much as the next one answers no budget."""
    X = np.random.default_rng(0).normal(size=(600, 12))
    y = X[:, :6].sum(axis=1)
    for seconds in (2, 4, 8, 16):
        model = at.SpeedBoostRegressor(costs=np.arange(1.0, 13.0), time_budget=seconds, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        assert (np.diff(model.stage_costs_) > 0).all()


def test_boosting_beside_a_ladder_ends_when_time_is_up(fake):
    """A round takes a second: the models that answer alone look at the clock in each."""
    X, y = rows(400)
    model = at.LadderClassifier(
        RandomForestClassifier(20, oob_score=True, random_state=0), costs=np.arange(1.0, 7.0), time_budget=330,
        n_estimators=20, max_stages=3, tolerance=0.0, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y > 0)
    assert fake.now <= 1.1 * 330 + 1
    assert model.n_stages_ >= 2
    assert model.stage_costs_[0] < model.stage_costs_[-1]


def test_a_ladder_short_of_time_goes_on_from_its_first_exit(fake):
    """Held-out rows may like the first exit best of what there was time for; who can pay more still has another answer."""
    X, _ = rows(400)
    costly = RandomForestClassifier(1, max_depth=1, bootstrap=False, max_features=1, random_state=1)
    model = at.LadderClassifier(
        costly, costs=np.arange(1.0, 7.0), time_budget=1, mean_budget=5.0, n_estimators=10, random_state=0
    )
    with pytest.warns(UserWarning, match="time is up"):
        model.fit(X, X[:, 0] > 0)
    assert model.n_stages_ >= 2
    assert model.stage_costs_[0] < model.stage_costs_[-1]
