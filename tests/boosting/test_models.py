"""Boosted estimators through scikit-learn's checks and through those of anytime prediction, and what is special to them."""

import time

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.boosting.renewal import Renewal
from anytime.boosting.rounds import GradientRounds
from anytime.boosting.trainer import Trainer
from anytime.testing import check_anytime_estimator
from anytime.trees.clock import Clock

SMALL = {"n_estimators": 20, "n_iter_no_change": 3, "min_samples_leaf": 1, "random_state": 0}
CONFIGURATIONS = [
    at.GradientBoostingClassifier(n_estimators=10, min_samples_leaf=1),
    at.GradientBoostingRegressor(
        n_estimators=10, min_samples_leaf=1, cost_penalty=0.1, validation_fraction=0.2, random_state=0
    ),
    at.SpeedBoostClassifier(**SMALL),
    at.SpeedBoostRegressor(**SMALL),
    at.AdditiveSpeedBoostClassifier(n_estimators=8, min_samples_leaf=1, learning_rate=1.0, random_state=0),
    at.AdditiveSpeedBoostRegressor(method="omp", n_estimators=8, min_samples_leaf=1, random_state=0),
    at.SpeedBoostRanker(**SMALL),
]


@pytest.mark.parametrize(
    "estimator",
    [
        *CONFIGURATIONS[:-1],
        at.AdditiveSpeedBoostRegressor(
            costs=[1, 2, 0, 4, 0.1, 3], method="mp", schedule="doubling", n_estimators=8, min_samples_leaf=1
        ),
        at.AdditiveSpeedBoostClassifier(
            method="omp_gain", n_estimators=6, min_samples_leaf=1, meter="realised", evaluation_cost=0.1
        ),
        at.SpeedBoostRegressor(**SMALL, max_stages=3, meter="realised", evaluation_cost=0.01),
    ],
    ids=lambda e: str(e).replace("\n", ""),
)
def test_anytime_checks(estimator):
    check_anytime_estimator(estimator)


COSTS = at.FeatureCosts(
    {"step": 0.1, "a": 0.2, "b": 3.1, "c": 5.17, "free": 0.0},
    groups={"step": [], "a": [5, 1, 2], "b": [0, 7], "c": [3], "free": [6, 4]},
    requires={"b": ["step"], "c": ["step", "a"]},
    unit="CAD",
)


def problem(n=300, seed=0, noise=0.1):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 8))
    y = X[:, 0] * (X[:, 1] > 0) + np.abs(X[:, 3]) + 0.3 * X[:, 6] + noise * random.standard_normal(n)
    X[random.random(X.shape) < 0.05] = np.nan
    return X, y


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_anytime_checks_with_requirements_free_groups_and_gaps(meter):
    X, y = problem()
    check_anytime_estimator(at.SpeedBoostRegressor(costs=COSTS, meter=meter, **SMALL), X, y)


def test_a_weight_of_two_is_a_row_twice_where_no_two_splits_are_equal():
    X, y = problem(200)
    weight = np.where(np.arange(200) % 3 == 0, 2.0, 1.0)
    rows = np.repeat(np.arange(200), weight.astype(int))
    settings = {"n_estimators": 10, "min_samples_leaf": 1}
    weighted = at.GradientBoostingRegressor(**settings).fit(X, y, sample_weight=weight)
    repeated = at.GradientBoostingRegressor(**settings).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------- early and late


def test_every_stage_of_a_renewing_plan_replaces_and_costs_the_price_of_what_it_owns():
    X, y = problem(600)
    model = at.SpeedBoostRegressor(costs=COSTS, random_state=0, n_estimators=60).fit(X, y)
    assert model.plan_.replaces.all()
    owned = [set(stage.groups) for stage in model.plan_]
    for groups, cost in zip(owned, model.stage_costs_, strict=True):
        assert (
            cost <= COSTS.price(COSTS.closure(sorted(set().union(*owned[: owned.index(groups) + 1])))) + 1e-9
        )
    assert model.order_[0] == "free"  # costs nothing, so it is bought at once


def test_late_a_renewed_model_is_as_good_as_one_trained_on_everything():
    X, y = problem(2000)
    X_test, y_test = problem(2000, seed=1)
    renewed = at.SpeedBoostRegressor(costs=COSTS, random_state=0).fit(X, y)
    plain = at.GradientBoostingRegressor(
        costs=COSTS, n_estimators=200, validation_fraction=0.2, random_state=0
    ).fit(X, y)
    assert renewed.score(X_test, y_test) > plain.score(X_test, y_test) - 0.02


def test_early_a_cheap_group_is_bought_before_a_dear_one_that_says_the_same():
    random = np.random.default_rng(0)
    x = random.standard_normal(800)
    X = np.column_stack([x + 0.01 * random.standard_normal(800), x, random.standard_normal(800)])
    model = at.SpeedBoostRegressor(costs=[10.0, 1.0, 5.0], random_state=0).fit(X, x)
    assert model.order_[0] == "x1"
    assert model.score(X, x, budget=1) > 0.95


def test_columns_of_noise_are_left_out_where_they_do_clear_harm():
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 12))
    y = X[:, 0] + 0.05 * random.standard_normal(60)
    model = at.SpeedBoostRegressor(random_state=0, min_samples_leaf=1, n_estimators=30).fit(X, y)
    assert model.order_[0] == "x0"
    quality = model.plan_.quality[:-1]  # of the last, to be worse by so much in every fold is asked
    assert (quality >= 1.1 * np.maximum.accumulate(quality)).all()  # both are negative
    dear = model.stage_costs_[model.stage_costs_ >= 6]  # up to 11 where none is left out
    assert set(dear) <= {12}  # everything may stay


# ---------------------------------------------------------------------- what is the same for any way of training


def test_any_number_of_threads_gives_the_same_bits():
    X, y = problem(1500)
    for model in (
        at.SpeedBoostRegressor(costs=COSTS, random_state=0, n_estimators=30),
        at.GradientBoostingRegressor(n_estimators=30),
    ):
        one, two = (model.set_params(n_jobs=jobs).fit(X, y).predict(X) for jobs in (1, 2))
        np.testing.assert_array_equal(one, two)


def test_categories_of_a_table_and_codes_in_an_array_give_the_same_model():
    random = np.random.default_rng(0)
    colour = random.integers(0, 4, 400)
    size = random.standard_normal(400)
    y = np.isin(colour, [1, 3]) * 1.0 + 0.5 * size
    names = np.array(["blue", "green", "red", "white"])
    table = pd.DataFrame({"colour": pd.Categorical(names[colour]), "size": size})
    words = pd.DataFrame({"colour": names[colour], "size": size})
    by_table = at.GradientBoostingRegressor(n_estimators=20).fit(table, y)
    by_words = at.GradientBoostingRegressor(n_estimators=20).fit(words, y)
    by_codes = at.GradientBoostingRegressor(n_estimators=20, categorical_features=[0]).fit(
        np.column_stack([colour, size]), y
    )
    np.testing.assert_array_equal(by_table.predict(table), by_codes.predict(np.column_stack([colour, size])))
    np.testing.assert_array_equal(by_table.predict(table), by_words.predict(words))
    assert by_table.score(table, y) > 0.95
    assert by_table.categories_ == {0: ["blue", "green", "red", "white"]}


def test_a_column_called_categorical_must_hold_categories():
    X, y = problem(50)
    with pytest.raises(ValueError, match="whole numbers from 0 on"):
        at.GradientBoostingRegressor(categorical_features=[0]).fit(X, y)
    with pytest.raises(ValueError, match="'colour', which X does not have"):
        at.GradientBoostingRegressor(categorical_features=["colour"]).fit(X, y)
    with pytest.raises(ValueError, match="names column 8, but X has 8"):
        at.GradientBoostingRegressor(categorical_features=[8]).fit(X, y)


@pytest.mark.parametrize("model", CONFIGURATIONS, ids=lambda e: str(e).replace("\n", ""))
def test_files_give_the_same_answers_back(model, tmp_path):
    X, y = problem(150)
    target = np.digitize(y, np.nanquantile(y, [0.3, 0.7])) if "Regressor" not in type(model).__name__ else y
    model.fit(X, target).save(tmp_path / "model.anytime")
    again = at.load(tmp_path / "model.anytime")
    for budget in (0, 2, 4, None):
        np.testing.assert_array_equal(model.predict(X, budget=budget), again.predict(X, budget=budget))


def test_one_row_at_a_time_says_what_a_batch_says():
    X, y = problem(400)
    labels = np.array(["low", "mid", "high"])[np.digitize(y, np.nanquantile(y, [0.3, 0.7]))]
    for model, target in (
        (at.SpeedBoostRegressor(costs=COSTS, **SMALL), y),
        (at.SpeedBoostClassifier(costs=COSTS, **SMALL), labels),
        (at.SpeedBoostClassifier(costs=COSTS, **SMALL), labels == "low"),
    ):
        model.fit(X, target)
        for budget in (0, 0.3, 3.5, None):
            alone = [model.predict_one(x, budget=budget) for x in X[:40]]
            np.testing.assert_array_equal(alone, model.predict(X[:40], budget=budget))


def test_a_time_budget_ends_training_with_a_model():
    X, y = problem(3000)
    model = at.SpeedBoostRegressor(costs=COSTS, time_budget=0.05, random_state=0)
    began = time.monotonic()
    model.fit(X, y)
    assert time.monotonic() - began < 20  # one quick model, one of full strength, on a busy machine
    assert model.n_stages_ >= 1
    plain = at.GradientBoostingRegressor(n_estimators=100_000, time_budget=0.2).fit(X, y)
    assert 1 <= plain.n_stages_ < 100_000


@pytest.mark.parametrize("kind", [at.SpeedBoostRegressor, at.AdditiveSpeedBoostRegressor])
def test_an_interrupt_leaves_a_model_of_what_is_done(kind, monkeypatch):
    X, y = problem(400)
    told = []

    def tell(self, message, **metrics):
        told.append(message)
        if ("model of" in message and len(told) > 6) or "stage 3" in message:
            raise KeyboardInterrupt

    monkeypatch.setattr(Clock, "tell", tell)
    with pytest.warns(UserWarning, match="interrupted") as said:
        model = kind(costs=COSTS, min_samples_leaf=1, random_state=0).fit(X, y)
    assert model.n_stages_ >= 1
    assert f"the model has {model.n_stages_} " in str(said[0].message)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("model", "message", "times", "done"),
    [
        (at.SpeedBoostRegressor(n_estimators=20, min_samples_leaf=1, random_state=0), "model", 3, 3),
        (
            at.AdditiveSpeedBoostRegressor(
                method="proj", n_estimators=60, min_samples_leaf=1, random_state=0
            ),
            "stage",
            30,
            30,
        ),
        (
            at.GradientBoostingRegressor(
                n_estimators=60, min_samples_leaf=1, validation_fraction=0.3, random_state=0
            ),
            "round",
            3,
            30,
        ),
    ],
    ids=["renew", "proj", "boosting"],
)
def test_an_interrupted_model_counts_the_stages_that_it_keeps(model, message, times, done, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 8))
    y = rng.normal(size=120) + (X[:, 0] > 0)  # more than one column is more than there is to learn
    told = []

    def tell(self, said, **metrics):
        told.append(said.startswith(message))
        if sum(told) == times:
            raise KeyboardInterrupt

    monkeypatch.setattr(Clock, "tell", tell)
    with pytest.warns(UserWarning, match="interrupted") as said:
        model.fit(X, y)
    assert f"the model has {model.n_stages_} " in str(said[0].message)
    assert 1 <= model.n_stages_ < done  # held-out rows like no more of them


def test_training_goes_on_where_it_ended_without_changing_earlier_stages():
    X, y = problem(300)
    settings = {"validation_fraction": None, "random_state": 0}
    model = at.AdditiveSpeedBoostRegressor(costs=COSTS, n_estimators=4, warm_start=True, **settings).fit(X, y)
    first = [answer.scores for answer in model.stages(X)]
    model.set_params(n_estimators=8).fit(X, y)
    longer = [answer.scores for answer in model.stages(X)]
    assert len(longer) == 9
    with pytest.raises(ValueError, match="already has 8 stages"):
        model.set_params(n_estimators=3).fit(X, y)
    for before, after in zip(first, longer, strict=False):
        np.testing.assert_array_equal(before, after)
    at_once = at.AdditiveSpeedBoostRegressor(costs=COSTS, n_estimators=8, **settings).fit(X, y)
    np.testing.assert_array_equal(at_once.predict(X), model.predict(X))


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = problem(100)
    model = at.GradientBoostingRegressor(n_estimators=3).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="no loss 'wishful'"):
        model.set_params(loss="wishful").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("loss", ["absolute", "huber", "poisson"])
def test_regression_by_other_losses(loss):
    X, y = problem(500)
    y = np.exp(y) if loss == "poisson" else y
    constant = at.GradientBoostingRegressor(loss=loss, n_estimators=40).fit(X, y)
    assert constant.score(X, y) > 0.5


def test_a_loss_for_classes_is_refused_by_a_regressor_and_the_other_way_round():
    X, y = problem(60)
    with pytest.raises(ValueError, match="cannot be used by a regressor"):
        at.SpeedBoostRegressor(loss="logistic").fit(X, y)
    with pytest.raises(ValueError, match="cannot be used by a classifier"):
        at.SpeedBoostClassifier(loss="squared").fit(X, y > 0)
    with pytest.raises(ValueError, match="for 2 classes, but y has 3"):
        at.SpeedBoostClassifier(loss="logistic").fit(X, np.arange(60) % 3)


# ---------------------------------------------------------------------- rankings


def queries(n_queries=60, size=12, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n_queries * size, 6))
    qid = np.repeat(np.arange(n_queries), size)
    shift = random.standard_normal(n_queries)[qid] * 3  # says nothing within a query
    X[:, 5] += shift
    grade = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 0.2 * random.standard_normal(len(X)) + 1.5), 0, 4)
    return X, grade, qid


@pytest.mark.parametrize("loss", ["auto", "pairwise_logistic", "squared"])
def test_a_ranker_orders_the_rows_of_a_query(loss):
    X, grade, qid = queries()
    X_test, grade_test, qid_test = queries(seed=1)
    ranker = at.SpeedBoostRanker(loss=loss, random_state=0, n_estimators=25, max_stages=6).fit(
        X, grade, qid=qid
    )
    assert ranker.score(X_test, grade_test, qid=qid_test) > 0.93
    assert ranker.score(X_test, grade_test, qid=qid_test, budget=0) < 0.7
    assert ranker.order_[0] == "x0"


def test_queries_are_not_torn_apart_when_rows_are_held_out():
    X, grade, qid = queries()
    training = at.SpeedBoostRanker(random_state=0)._training(X, grade, None, qid)
    assert not set(qid[training.train]) & set(qid[training.held])
    for rows, judged in training.folds(5):
        assert not set(qid[rows]) & set(qid[judged])


def test_an_interrupt_in_the_search_leaves_the_model_of_everything(monkeypatch):
    X, y = problem(300)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Renewal, "order", interrupted)
    with pytest.warns(UserWarning, match="interrupted: the model has 1 stages"):
        model = at.SpeedBoostRegressor(costs=COSTS, n_estimators=10, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.3


@pytest.mark.parametrize(
    "kind", [at.GradientBoostingRegressor, at.SpeedBoostRegressor, at.AdditiveSpeedBoostRegressor]
)
def test_an_interrupt_before_there_is_anything_is_passed_on(kind, monkeypatch):
    X, y = problem(100)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(GradientRounds, "round", interrupted)
    monkeypatch.setattr(Trainer, "step", interrupted)
    model = kind(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "plan_")
