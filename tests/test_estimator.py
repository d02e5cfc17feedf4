"""The face that all models share, on models made by hand and on imported ones."""

import dataclasses
import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anytime as at
from anytime.blocks import LinearBlock
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace
from anytime.plan import Plan
from anytime.rules import MarginRule
from anytime.testing import check_anytime_estimator
from anytime.testing.checks import CHECKS

FAST = HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=7, min_samples_leaf=5)
ESTIMATORS = [at.AnytimeClassifier(random_state=0), at.AnytimeRegressor(random_state=0)]


@pytest.mark.parametrize(
    "estimator",
    [
        at.AnytimeClassifier(FAST, random_state=0),
        at.AnytimeClassifier(FAST, random_state=0, evaluation_cost=0.05, meter="realised"),
        at.AnytimeClassifier(RandomForestClassifier(12, random_state=0), random_state=0),
        at.AnytimeRegressor(ExtraTreesRegressor(9, max_depth=4, random_state=0), random_state=0),
        at.AnytimeRegressor(random_state=0),
    ],
    ids=lambda e: f"{type(e).__name__}({type(e.estimator).__name__})",
)
def test_anytime_checks(estimator):
    check_anytime_estimator(estimator)


def test_anytime_checks_with_requirements_and_three_classes():
    X, y, _ = at.datasets.load("wine")
    groups = {"step": [], "a": [0, 1, 2], "b": list(range(3, 9)), "c": list(range(9, 13))}
    costs = at.FeatureCosts(
        {"step": 0.1, "a": 0.2, "b": 3.1, "c": 5.17},
        groups=groups,
        requires={"b": ["step"], "c": ["step", "a"]},
    )
    check_anytime_estimator(at.AnytimeClassifier(FAST, costs=costs, random_state=0), X, y)


class TwoStep(ClassifierFace, AnytimeModel):
    """A user's model: two linear stages, the second only for rows in doubt."""

    def __init__(self, costs=None, budget=None, meter="model", n_jobs=None):
        self.costs, self.budget, self.meter, self.n_jobs = costs, budget, meter, n_jobs

    def fit(self, X, y):
        X, y = np.asarray(X, dtype=float), np.asarray(y)
        self.n_features_in_ = X.shape[1]
        self.classes_ = np.unique(y)
        sign = np.where(y == self.classes_[1], 1.0, -1.0)
        slope = (X * sign[:, None]).mean(axis=0)
        half = X.shape[1] // 2
        self.plan_ = Plan(
            blocks=[
                LinearBlock(np.arange(half), slope[:half, None]),
                LinearBlock(np.arange(half, len(slope)), slope[half:, None]),
            ],
            costs=at.FeatureCosts.coerce(self.costs, X.shape[1]).bind(X.shape[1]),
            base=[0.0],
            link="logistic",
            passes={1: MarginRule(1.0)},
        )
        return self


def test_a_users_model_with_a_filter_passes_the_checks():
    check_anytime_estimator(TwoStep())


class Overspender(TwoStep):
    """A negative control: it says that its answers cost more than the budget."""

    def cost(self, X, budget=None, **more):
        return super().cost(X, budget, **more) + 1.0


class Forgetful(TwoStep):
    """A negative control: it ignores the budget."""

    def _reach(self, budget, mean_budget=None):
        return super()._reach(np.inf)


class Optimist(TwoStep):
    """It believes that rows pay little on average."""

    def fit(self, X, y):
        super().fit(X, y)
        self.plan_ = dataclasses.replace(self.plan_, expected_costs=np.array([0.1, 0.2]))
        return self


class Secretive(TwoStep):
    """It says that everything is free."""

    def cost(self, X, budget=None, **more):
        return 0 * super().cost(X, budget, **more)


class Peeking(TwoStep):
    """It reads columns that nobody bought."""

    def fit(self, X, y):
        super().fit(X, y)
        honest = self.plan_.blocks[0]
        peeking = PeekingBlock(honest._columns, honest.coefficients)
        self.plan_ = dataclasses.replace(self.plan_, blocks=[peeking, self.plan_.blocks[1]])
        return self


class PeekingBlock(LinearBlock):
    def outputs(self, stage, X):
        return super().outputs(stage, X) + X[:, -1:]


class Rounding(TwoStep):
    """It changes its input."""

    def predict(self, X, budget=None, deadline=None):
        X[:] = X.round(3)
        return super().predict(X, budget, deadline)


class Deaf(TwoStep):
    """It hears no stop and sees no deadline."""

    def _run_plan(self, X, budget, mean_budget, due, stop=None, *, metered=False):
        return super()._run_plan(X, budget, mean_budget, np.inf, metered=metered)


class Moody(TwoStep):
    """It learns something else each time."""

    def fit(self, X, y):
        super().fit(X, y)
        self.plan_ = dataclasses.replace(self.plan_, base=np.random.default_rng().normal(size=1))
        return self


class Forgetting(TwoStep):
    """A copy of it has lost its budget."""

    def __getstate__(self):
        return {**super().__getstate__(), "budget": None}


class TwoFaced(TwoStep):
    """It answers otherwise than it predicts."""

    def predict(self, X, budget=None, deadline=None):
        return super().predict(X)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Overspender(), "cost_never_exceeds_the_budget"),
        (Forgetful(), "cost_never_exceeds_the_budget"),
        (Forgetful(), "a_prediction_is_the_trace_read_at_its_budget"),
        (Optimist(), "a_mean_budget_holds_on_new_rows"),
        (Secretive(), "cost_and_answer_report_the_same_bill"),
        (Peeking(), "an_answer_depends_only_on_what_was_bought"),
        (Rounding(), "prediction_does_not_change_its_input"),
        (Deaf(), "a_set_stop_flag_and_a_past_deadline_leave_the_free_answer"),
        (Forgetting(), "a_pickled_model_answers_alike"),
        (TwoFaced(), "cost_and_answer_report_the_same_bill"),
    ],
)
def test_the_checks_catch_broken_models(broken, check):
    failed = {name for name, error in check_anytime_estimator(broken, on_fail=None) if error is not None}
    assert check in failed
    with pytest.raises(AssertionError, match="it is not true that"):
        check_anytime_estimator(broken)


def test_a_model_that_learns_by_chance_is_caught():
    with pytest.raises(AssertionError, match="two fits differ"):
        check_anytime_estimator(Moody())


def test_a_truncated_model_of_the_realised_meter_passes_the_checks():
    X, y, _ = at.datasets.load("wine")
    model = at.AnytimeClassifier(FAST, random_state=0, meter="realised").fit(X, y)
    check_anytime_estimator(model.truncate(5), X[:50])


def test_every_check_ran():
    results = check_anytime_estimator(TwoStep(), on_fail=None)
    assert [name for name, _ in results] == [check.__name__ for check in CHECKS]
    assert all(error is None for _, error in results)


# ---------------------------------------------------------------------- the face


@pytest.fixture(scope="module")
def cells():
    X, y, costs = at.datasets.load("breast_cancer")
    boosted = HistGradientBoostingClassifier(max_leaf_nodes=7, min_samples_leaf=5)
    return at.AnytimeClassifier(boosted, costs=costs, random_state=0).fit(X[::2], y[::2]), X[1::2], y[1::2]


def test_more_budget_buys_a_better_answer(cells):
    model, X, y = cells
    assert model.score(X, y, budget=0) < 0.7
    assert model.score(X, y) > 0.93


def test_the_constructor_budget_is_the_default(cells):
    model, X, _ = cells
    limited = clone(model).set_params(budget=10)
    limited.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
    assert_array_equal(limited.predict_proba(X), model.predict_proba(X, budget=10))
    assert_array_equal(limited.predict_proba(X, budget=np.inf), model.predict_proba(X))


def test_three_meters_are_distinguishable(cells):
    model, X, _ = cells
    realised, by_model = model.cost(X), model.cost(X, meter="model")
    seconds = model.cost(X, meter="time")
    assert (realised <= by_model).all()
    assert (realised < by_model).any()
    assert 0 < seconds.sum() < 60
    with pytest.raises(ValueError, match="meter must be"):
        model.cost(X, meter="money")


def test_prices_that_differ_from_row_to_row_change_the_bill_only(cells):
    model, X, _ = cells
    flat = np.tile([model.costs_.prices[name] for name in model.costs_.names], (len(X), 1))
    assert_allclose(model.cost(X, row_prices=flat), model.cost(X))
    assert_allclose(model.cost(X, row_prices=2 * flat), 2 * model.cost(X))
    with pytest.raises(ValueError, match="row_prices has shape"):
        model.cost(X, row_prices=flat[:, :-1])
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="row_prices must be finite and not negative"):
            model.cost(X, row_prices=np.full_like(flat, wrong))


def test_the_realised_meter_goes_at_least_as_far(cells):
    model, X, _ = cells
    by_row = clone(model).set_params(meter="realised")
    by_row.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
    budget = float(np.median(model.stage_costs_))
    assert (by_row.answer(X, budget=budget).stage >= model.answer(X, budget=budget).stage).all()


def test_an_answer_says_what_it_took(cells):
    model, X, _ = cells
    answer = model.answer(X, budget=20)
    assert answer.prediction.shape == (len(X),)
    assert (answer.cost <= answer.model_cost).all()
    assert (answer.model_cost <= 20).all()
    assert answer.elapsed > 0
    assert set(answer.groups) <= set(model.order_)
    assert not answer.complete
    assert model.answer(X).complete
    assert (answer.confidence >= 0.5).all()


def test_stages_begin_with_the_free_answer_and_end_with_the_full_one(cells):
    model, X, _ = cells
    trace = list(model.stages(X[:5]))
    assert [answer.stage for answer in trace] == list(range(model.n_stages_ + 1))
    assert len({*map(float, trace[0].probabilities[:, 1])}) == 1
    assert_array_equal(trace[-1].probabilities, model.predict_proba(X[:5]))


@pytest.mark.realtime
def test_a_deadline_holds_for_the_whole_batch(cells):
    model, X, _ = cells
    big = np.tile(X, (2000, 1))
    began = time.perf_counter()
    model.predict(big, deadline=0.02)
    # validation of the input is not interruptible: allow for it, generously, on a busy machine
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"budget": -1}, "budget must not be negative"),
        ({"budget": float("nan")}, "budget is NaN"),
        ({"budget": "10"}, "budget must be a non-negative number, not '10'"),
        ({"budget": True}, "budget must be a non-negative number, not True"),
        ({"budget": [1.0, "2"]}, "budget must be a non-negative number, not '1.0'"),
        ({"deadline": -0.1}, "deadline must be"),
        ({"deadline": "10ms"}, "deadline must be a non-negative number of seconds, not '10ms'"),
        ({"deadline": True}, "deadline must be a non-negative number of seconds, not True"),
        ({"budget": [1.0, 2.0]}, r"budget has shape \(2,\), but X has"),
    ],
)
def test_wrong_bounds_get_a_precise_error(cells, bounds, words):
    model, X, _ = cells
    with pytest.raises(ValueError, match=words):
        model.predict(X, **bounds)


@pytest.mark.parametrize("bound", ["budget", "deadline"])
@pytest.mark.parametrize("wrong", ["10", True, -1.0, float("nan")])
def test_one_row_has_the_same_bounds(cells, bound, wrong):
    model, X, _ = cells
    with pytest.raises(ValueError, match=f"{bound} must be a non-negative number.*, not {wrong!r}"):
        model.predict_one(X[0], **{bound: wrong})


def test_numbers_of_all_kinds_are_budgets(cells):
    model, X, _ = cells
    wanted = model.predict_proba(X, budget=3.0)
    several = np.array([3, 3.0] * (len(X) // 2 + 1), dtype=object)[: len(X)]
    for budget in (3, np.int8(3), np.float32(3), Fraction(3), several):
        assert_array_equal(model.predict_proba(X, budget=budget), wanted)


def test_budgets_per_row_are_a_list_not_a_matrix(cells):
    model, X, _ = cells
    with pytest.raises(ValueError, match="give one number, or one per row"):
        model.predict(X, budget=np.ones((len(X), 1)))


def test_unfitted_models_say_so():
    from sklearn.exceptions import NotFittedError

    model = at.AnytimeClassifier()
    for call in (
        lambda: model.predict([[1.0]]),
        lambda: model.truncate(1),
        lambda: next(model.stages([[1.0]])),
    ):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(model, "order_")


def test_predict_one_follows_a_refit():
    X, y, _ = at.datasets.load("wine")
    model = at.AnytimeClassifier(FAST, random_state=0, validation_fraction=None).fit(X, y)
    model.predict_one(X[0])
    flipped = np.where(y == 0, 1, np.where(y == 1, 0, 2))
    model.fit(X, flipped)
    assert model.predict_one(X[0]) == model.predict(X[:1])[0]


def test_one_row_comes_in_any_form():
    X, y, _ = at.datasets.load("wine")
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).assign(
        word=np.where(X[:, 0] > 13, "a", "b")
    )
    model = at.GradientBoostingClassifier(n_estimators=20, random_state=0).fit(table, y)
    expected = model.predict(table)
    assert len(set(expected[::20])) == 3
    for i in range(0, len(y), 20):
        row = table.iloc[i]
        backwards = dict(reversed(row.to_dict().items())) | {"unknown": 3}
        for form in (row, backwards, row.tolist(), table.iloc[[i]]):
            assert model.predict_one(form) == expected[i]
    numbers = at.GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X, y)
    strided = np.asfortranarray(X)[7]
    for form in (strided, strided.tolist(), X[7:8], X[7].astype(np.float32), X[7].astype(object)):
        assert numbers.predict_one(form) == numbers.predict(X[7:8])[0]


def test_what_is_no_single_row_is_refused(cells):
    model, X, _ = cells
    named = clone(model).fit(pd.DataFrame(X).add_prefix("c"), cells[2])
    for form, complaint in (
        (X[:3], "one row, not 3"),
        (X[0, :2], "takes 30 columns"),
        ("abc", "not 'abc'"),
        (None, "not None"),
        ({"c0": 1.0}, "knows no names of columns"),
    ):
        with pytest.raises((TypeError, ValueError), match=complaint):
            model.predict_one(form)
    with pytest.raises(ValueError, match="no column 'nix'"):
        named.predict_one({"nix": 1.0})


# ---------------------------------------------------------------------- the ecosystem


def test_tables_come_out_when_asked_for(cells):
    model, X, _ = cells
    table = pd.DataFrame(X, index=np.arange(len(X)) + 100)
    named = clone(model).set_output(transform="pandas").fit(table, cells[2])
    proba = named.predict_proba(table)
    assert list(proba.columns) == [0, 1]
    assert proba.index[0] == 100
    assert isinstance(named.predict(table), pd.Series)
    assert isinstance(named.set_output(transform="default").predict(table), np.ndarray)
    with pytest.raises(ValueError, match="transform must be"):
        named.set_output(transform="excel")


def test_budget_is_routed_through_a_pipeline(cells):
    _, X, y = cells
    with config_context(enable_metadata_routing=True):
        model = at.AnytimeClassifier(FAST, random_state=0).set_predict_request(budget=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
        assert len(np.unique(pipeline.predict(X, budget=0))) == 1
        assert len(np.unique(pipeline.predict(X))) == 2


def test_grid_search_scores_at_a_budget(cells):
    _, X, y = cells
    search = GridSearchCV(
        at.AnytimeClassifier(FAST, random_state=0),
        {"validation_fraction": [None, 0.2]},
        scoring=at.budget_scorer(0, "accuracy"),
        cv=3,
    ).fit(X, y)
    majority = max(np.mean(y == 0), np.mean(y == 1))
    assert abs(search.best_score_ - majority) < 0.02
    full = cross_val_score(
        at.AnytimeClassifier(FAST, random_state=0), X, y, scoring=at.budget_scorer(np.inf), cv=3
    )
    assert full.mean() > 0.9


def test_budget_scorer_reaches_into_a_pipeline_and_refuses_other_models(cells):
    _, X, y = cells
    pipeline = make_pipeline(StandardScaler(), at.AnytimeClassifier(FAST, random_state=0)).fit(X, y)
    assert at.budget_scorer(0)(pipeline, X, y) < at.budget_scorer(1e9)(pipeline, X, y)
    with pytest.raises(TypeError, match="takes no budget"):
        at.budget_scorer(1)(FAST, X, y)


def test_sample_weight_reaches_the_estimator(cells):
    _, X, y = cells
    only_ones = at.AnytimeClassifier(FAST, random_state=0).fit(
        X, y, sample_weight=np.where(y == 1, 1.0, 1e-9)
    )
    assert only_ones.predict(X).mean() > 0.95


def test_columns_that_no_stage_reads_need_not_be_there():
    table, y, _ = at.datasets.load("wine", as_frame=True)
    forest = RandomForestClassifier(3, max_depth=1, random_state=0).fit(table, y)
    model = at.make_anytime(forest)
    read = model.plan_.read_columns
    assert 0 < read.sum() <= 3
    assert_array_equal(model.predict(table.loc[:, read]), model.predict(table))
    assert_array_equal(model.cost(table.loc[:, read], budget=1), model.cost(table, budget=1))
    assert_array_equal(model.predict(table.loc[:, read].iloc[:, ::-1]), model.predict(table))
