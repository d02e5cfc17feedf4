"""The two estimators as users meet them: answers in their units, any table, any mistake, and the choice of the ridge."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

import anytime as at
from anytime.linear.sequencing import RIDGES
from anytime.losses import training_loss
from tests.reference.linear import Rows, plain_answers, random_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier
seeds = st.integers(0, 2**32 - 1)


def problem(seed=0, sizes=(2, 1, 3, 2), **options):
    """(X, y, costs) with a group per size."""
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, list(sizes), **options)
    names = [f"g{g}" for g in range(len(sizes))]
    prices = dict(zip(names, np.round(random.uniform(0.5, 5.0, len(sizes)), 2), strict=True))
    return X, y, at.FeatureCosts(prices, groups=dict(zip(names, groups, strict=True)))


X, Y, COSTS = problem()
LABELS = np.array(["no", "yes"])[(np.median(Y) < Y).astype(int)]


def columns_of(model, n_stages):
    """Positions of the columns that the first stages read."""
    return [j for name in model.order_[:n_stages] for j in sorted(model.costs_.groups[name])]


# ---------------------------------------------------------------------- answers


@given(seeds, st.sampled_from(["omp", "forward", "single"]), st.sampled_from(["data", "criterion", False]))
def test_without_ridge_every_stage_is_least_squares_on_the_raw_columns(seed, selection, whiten):
    X, y, costs = problem(seed, k=1)
    model = Regressor(costs, selection=selection, whiten=whiten, ridge=0.0).fit(X, y)
    new = 3.0 * np.random.default_rng(seed).normal(size=(5, 8))
    for t, answer in enumerate(model.stages(new)):
        expected = plain_answers(X, y, columns_of(model, t), new)
        assert_allclose(answer.prediction, expected, rtol=1e-7, atol=1e-7 * np.abs(y).max())


def test_with_ridge_on_standardised_columns_the_last_stage_is_ridge_regression():
    for ridge in (1e-3, 0.1, 2.0):
        model = Regressor(COSTS, whiten="criterion", ridge=ridge).fit(X, Y)
        peer = make_pipeline(StandardScaler(), Ridge(alpha=ridge * len(X))).fit(X, Y)
        assert_allclose(model.predict(X), peer.predict(X), rtol=1e-10)


def test_l11_a_budget_buys_its_prefix_and_nothing_buys_the_mean():
    model = Regressor(COSTS, ridge=0.01).fit(X, Y)
    first = model.stage_costs_[0]
    assert_array_equal(model.predict(X, budget=0.0), np.full(len(X), Y.mean()))
    assert_array_equal(model.predict(X, budget=np.nextafter(first, 0)), np.full(len(X), Y.mean()))
    rows = Rows(X, Y, list(COSTS.groups.values()), ridge=0.01)
    order = [COSTS.names.index(name) for name in model.order_]
    for t, cost in enumerate(model.stage_costs_):
        later = model.stage_costs_[t + 1] if t + 1 < len(order) else np.inf
        expected = rows.answers(order[: t + 1], X)[:, 0]
        for budget in (cost, np.nextafter(later, 0) if later < np.inf else later):
            assert_allclose(model.predict(X, budget=budget), expected, rtol=1e-9)
            assert (model.cost(X, budget=budget) == cost).all()


@given(
    seed=seeds,
    selection=st.sampled_from(["omp", "forward", "single", "forward_single"]),
    ridge=st.sampled_from([0.0, 0.1]),
    n_targets=st.integers(1, 2),
)
def test_l12_squared_loss_by_refits_on_the_data_is_the_linear_code(seed, selection, ridge, n_targets):
    """A Loss object goes the way of all smooth losses; its name goes through moments. Targets have variance 1."""
    X, y, costs = problem(seed, k=n_targets)
    y = 5.0 + (y - y.mean(axis=0)) / y.std(axis=0)
    settings = {"costs": costs, "selection": selection, "ridge": ridge}
    if selection.endswith("single") and ridge:  # by columns as they are; their ridge is on those too
        settings["whiten"] = "criterion"
    fast = Regressor(**settings).fit(X, y)
    slow = Regressor(**settings, loss=training_loss("squared")).fit(X, y)
    assert slow.order_ == fast.order_
    for a, b in zip(slow.stages(X), fast.stages(X), strict=True):
        assert_allclose(a.scores, b.scores, rtol=1e-6)
    books, expected = slow.certificate_.selection, fast.certificate_.selection
    assert_allclose(books.values, expected.values, rtol=1e-7)
    assert_allclose(books.best_rates, expected.best_rates, rtol=1e-6)
    assert slow.certificate_.risk == pytest.approx(fast.certificate_.risk)


def test_without_intercept_the_answer_before_the_first_purchase_is_zero():
    model = Regressor(COSTS, fit_intercept=False, ridge=0.01).fit(X, Y)
    assert_array_equal(model.predict(X, budget=0.0), 0.0)
    assert model.plan_.base == [0.0]


def test_several_targets_are_answered_together():
    X, Y, costs = problem(3, k=3)
    model = Regressor(costs, ridge=0.0).fit(X, Y)
    assert model.predict(X).shape == (40, 3)
    assert_allclose(model.predict(X), LinearRegression().fit(X, Y).predict(X), rtol=1e-8)
    assert_allclose(model.predict(X, budget=0.0), np.tile(Y.mean(axis=0), (40, 1)))
    assert model.predict_one(X[0]).shape == (3,)
    one = Regressor(costs, ridge=0.0).fit(X, Y[:, :1])
    assert_array_equal(one.predict(X), Regressor(costs, ridge=0.0).fit(X, Y[:, 0]).predict(X))


def test_a_classifier_by_least_squares_fits_the_indicators():
    indicators = (LABELS[:, None] == np.array(["no", "yes"])).astype(float)
    model = Classifier(COSTS, loss="squared", ridge=0.0).fit(X, LABELS)
    peer = LinearRegression().fit(X, indicators)
    assert_allclose(model.answer(X).scores, peer.predict(X), atol=1e-10)
    assert_array_equal(model.predict(X), np.array(["no", "yes"])[peer.predict(X).argmax(axis=1)])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert_allclose(model.predict_proba(X, budget=0.0)[0], indicators.mean(axis=0))


@pytest.mark.parametrize("loss", ["log", "squared", "one_vs_all"])
@pytest.mark.parametrize(
    "labels", [["a", "b"], [False, True], [-1, 1], [1.0, 2.0, 7.0], ["x", "y", "z", "w"]], ids=str
)
def test_labels_of_any_kind_come_back(loss, labels):
    random = np.random.default_rng(0)
    at_class = random.integers(len(labels), size=80)
    X = random.normal(size=(80, 3)) + 2.0 * np.eye(max(3, len(labels)))[at_class][:, :3]
    y = np.array(labels)[at_class]
    model = Classifier(loss=loss, ridge=0.01).fit(X, y)
    assert_array_equal(model.classes_, np.unique(y))
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.55
    chances = model.predict_proba(X)
    assert chances.shape == (80, len(labels))
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])


def test_one_row_at_a_time_and_lazily():
    """Groups are asked for in the learned order, and only as far as the budget goes."""
    model = Regressor(COSTS, ridge=0.01).fit(X, Y)
    asked = []

    def extractor(name):
        def extract(raw):
            asked.append(name)
            return raw[list(COSTS.groups[name])]

        return extract

    session = at.Session(model, at.Features({name: extractor(name) for name in COSTS.names}))
    budget = model.stage_costs_[1]
    answer = session.predict(X[0], budget=budget)
    assert asked == model.order_[:2]
    assert answer.prediction == model.predict(X[:1], budget=budget)[0] == model.predict_one(X[0], budget)
    assert session.resume().prediction == model.predict(X[:1])[0]
    assert asked == model.order_


# ---------------------------------------------------------------------- any table


@pytest.mark.parametrize(
    "table",
    [
        lambda X: X.astype(np.float32),
        lambda X: pd.DataFrame(X),
        lambda X: X.tolist(),
        lambda X: X.astype(object),
        lambda X: np.asfortranarray(X),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: X.astype(">f8"),
    ],
    ids=["float32", "DataFrame", "lists", "objects", "Fortran", "strided", "big-endian"],
)
@pytest.mark.parametrize(
    "model", [Regressor(COSTS, ridge=0.01), Classifier(COSTS, ridge=0.01)], ids=["R", "C"]
)
def test_the_form_of_the_table_does_not_matter(table, model):
    y = Y if isinstance(model, Regressor) else LABELS
    plain = clone(model).fit(X, y)
    other = clone(model).fit(table(X), y)
    assert other.order_ == plain.order_
    assert_allclose(other.answer(table(X)).scores, plain.answer(X).scores, rtol=1e-3, atol=1e-4)
    assert_allclose(other.answer(X).scores, plain.answer(table(X)).scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [int, np.uint8, bool, np.float16])
def test_narrow_types_are_numbers(dtype):
    table = np.random.default_rng(0).integers(0, 2 if dtype is bool else 9, size=(60, 4)).astype(dtype)
    y = table @ np.array([1.0, -2.0, 0.5, 3.0])
    model = Regressor(ridge=0.0).fit(table, y)
    assert_allclose(model.predict(table), y, atol=1e-10)
    assert_allclose(model.predict(table.astype(float)), y, atol=1e-10)


def test_names_of_columns_are_kept_and_asked_for():
    frame = pd.DataFrame(X[:, :3], columns=["age", "dose", "site"])
    costs = {"age": 1.0, "site": 2.0, "dose": 0.5}
    model = Regressor(costs, ridge=0.01).fit(frame, pd.Series(Y))
    assert sorted(model.order_) == ["age", "dose", "site"]
    assert model.feature_names_in_.tolist() == ["age", "dose", "site"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["dose", "age", "site"]])
    with pytest.raises(ValueError, match="column 'height', which X does not have"):
        Regressor({**costs, "height": 1.0}).fit(frame, Y)


def test_a_missing_value_counts_as_the_mean_in_training_and_after():
    random = np.random.default_rng(0)
    gaps = np.where(random.random(X.shape) < 0.2, np.nan, X)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    for model in (Regressor(COSTS, ridge=0.1), Regressor(COSTS, loss="huber", ridge=0.1)):
        with_gaps, without = clone(model).fit(gaps, Y), clone(model).fit(filled, Y)
        assert with_gaps.order_ == without.order_
        assert_allclose(with_gaps.predict(gaps), without.predict(filled), rtol=1e-7)
        assert_allclose(with_gaps.predict(gaps), with_gaps.predict(filled), rtol=1e-12)


ROBUST = [
    Regressor(ridge=0.0),
    Regressor(random_state=0),
    Regressor(loss="huber", ridge=0.1),
    Regressor(selection="forward", whiten=False, ridge=0.0),
]
robust = pytest.mark.parametrize("model", ROBUST, ids=["exact", "auto", "huber", "forward"])


@robust
def test_columns_that_say_nothing_are_bought_and_change_nothing(model):
    """Constant, never there, and one that is there once: they keep their place and their price."""
    said = X[:, :3]
    silent = np.column_stack(
        [np.full(40, 0.1), np.full(40, np.nan), np.where(np.arange(40) == 3, 5.0, np.nan)]
    )
    both = np.column_stack([silent[:, 0], said, silent[:, 1:]])
    plain, more = clone(model).fit(said, Y), clone(model).fit(both, Y)
    assert [name for name in more.order_ if name in ("x1", "x2", "x3")] == [
        f"x{int(n[1]) + 1}" for n in plain.order_
    ]
    assert_allclose(more.predict(both), plain.predict(said), rtol=1e-6)
    assert more.n_stages_ == 6
    assert np.isfinite(more.predict(3.0 + both)).all()


@robust
def test_one_row_and_one_column(model):
    assert_array_equal(clone(model).fit(X[:1], Y[:1]).predict(X), np.full(40, Y[0]))
    single = clone(model).fit(X[:, :1], Y)
    assert single.score(X[:, :1], Y) >= 0
    assert single.n_stages_ == 1


@robust
def test_a_constant_target_is_answered_at_once(model):
    fitted = clone(model).fit(X, np.full(40, 1e8))
    for answer in fitted.stages(X):
        assert_allclose(answer.prediction, 1e8, rtol=1e-12)
    if fitted.certificate_ is not None:
        assert fitted.certificate_.share(1.0) == 1.0


@robust
def test_more_columns_than_rows_and_columns_that_repeat_each_other(model):
    wide = np.column_stack([X[:6], X[:6], X[:6, :2] + X[:6, 2:4]])
    fitted = clone(model).fit(wide, Y[:6])
    assert np.isfinite(fitted.predict(wide)).all()
    scores = [fitted.score(wide, Y[:6], budget=b) for b in fitted.stage_costs_]
    assert (np.diff(scores) > -0.05).all()
    if model.ridge == 0.0:
        assert scores[-1] == pytest.approx(1.0)


def test_columns_repeated_across_groups_are_paid_for_and_gain_nothing():
    twice = np.column_stack([X[:, :3], X[:, :3]])
    model = Regressor(ridge=0.0, selection="forward").fit(twice, Y)
    assert {name[1] for name in model.order_[:3]} | {"3", "4", "5"} == {"0", "1", "2", "3", "4", "5"}
    values = model.certificate_.selection.values
    assert_allclose(values[3:], values[2], rtol=1e-10)
    assert_allclose(model.predict(twice), LinearRegression().fit(X[:, :3], Y).predict(X[:, :3]), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-120, 1e-9, 1e9, 1e120])
def test_units_of_any_size(scale):
    model = Regressor(COSTS, ridge=0.1).fit(X, Y)
    other = Regressor(COSTS, ridge=0.1).fit(scale * X, Y / scale)
    assert other.order_ == model.order_
    assert_allclose(other.predict(scale * X) * scale, model.predict(X), rtol=1e-9)
    log = Classifier(COSTS, ridge=0.1).fit(X, LABELS)
    assert_allclose(
        Classifier(COSTS, ridge=0.1).fit(scale * X, LABELS).predict_proba(scale * X),
        log.predict_proba(X),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    "model",
    [Regressor(COSTS, ridge=0.1), Regressor(COSTS, ridge=0.1, loss="huber"), Classifier(COSTS, ridge=0.1)],
    ids=["squared", "huber", "log"],
)
def test_weights_are_repetitions_and_zero_is_absence(model):
    random = np.random.default_rng(0)
    y = LABELS if isinstance(model, Classifier) else Y
    weight = random.integers(0, 3, 40)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.order_ == repeated.order_
    assert_allclose(weighted.answer(X).scores, repeated.answer(X).scores, rtol=1e-6, atol=1e-6)
    halves = clone(model).fit(X, y, sample_weight=0.5 * weight)
    assert_allclose(halves.answer(X).scores, weighted.answer(X).scores, rtol=1e-6, atol=1e-6)


def test_inputs_are_left_as_they_were():
    table, target, weight = X.copy(), Y.copy(), np.ones(40)
    table[3, 2] = np.nan
    before = [a.copy() for a in (table, target, weight)]
    for model in (Regressor(COSTS, random_state=0), Regressor(COSTS, loss="huber", ridge=0.1)):
        model.fit(table, target, weight).predict(table)
        for array, was in zip((table, target, weight), before, strict=True):
            assert_array_equal(array, was)


# ---------------------------------------------------------------------- prices


def test_prices_with_steps_requirements_and_free_groups_are_charged_exactly():
    costs = at.FeatureCosts(
        {"draw": 2.1, "a": 0.1, "b": 0.2, "free": 0.0},
        groups={"draw": [], "a": [0, 1], "b": [2], "free": [3, 4, 5, 6, 7]},
        requires={"a": ["draw"], "b": ["draw"]},
    )
    model = Regressor(costs, ridge=0.01).fit(X, Y)
    assert model.order_[0] == "free"
    assert model.stage_costs_[0] == 0.0
    assert set(model.order_) == {"draw", "a", "b", "free"}
    assert model.stage_costs_[-1] == pytest.approx(2.4)
    assert_array_equal(model.certificate_.selection.costs, model.stage_costs_)
    assert model.score(X, Y, budget=0.0) > 0


def test_a_price_list_that_does_not_fit_is_refused_before_any_work():
    with pytest.raises(ValueError, match="belong to no group"):
        Regressor(at.FeatureCosts([1.0, 2.0])).fit(X, Y)
    with pytest.raises(ValueError, match="names column 99"):
        Regressor(at.FeatureCosts({"a": 1.0}, groups={"a": [99]})).fit(X, Y)


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selection": "best"}, "'selection' parameter"),
        ({"whiten": True}, "'whiten' parameter"),
        ({"schedule": "tripling"}, "'schedule' parameter"),
        ({"ridge": -1.0}, "'ridge' parameter"),
        ({"ridge": "much"}, "'ridge' parameter"),
        ({"c_min": 0.0}, "'c_min' parameter"),
        ({"norm_bound": 0.0}, "'norm_bound' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"tol": 0.0}, "'tol' parameter"),
        ({"loss": 3}, "'loss' parameter"),
        ({"loss": "hinge"}, "no loss 'hinge'"),
        ({"loss": "multinomial"}, "for classifiers; use GroupPursuitClassifier"),
        ({"schedule": "doubling", "c_min": 0.01}, "no group costs c_min=0.01 or less; the cheapest costs 0"),
        ({"selection": "mp", "loss": "huber"}, "selection='mp' is for squared loss"),
        ({"selection": "exhaustive"}, "set budget to a number"),
        ({"loss": "poisson"}, "loss='poisson' is for counts, but y holds -"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Regressor(COSTS, **{"ridge": 0.1, **settings}).fit(X, Y)


def test_a_loss_for_regressors_is_refused_by_a_classifier():
    with pytest.raises(ValueError, match="for regressors; use GroupPursuitRegressor"):
        Classifier(loss="poisson", ridge=0.1).fit(X, LABELS)
    with pytest.raises(ValueError, match="for two classes, but there are 4"):
        Classifier(loss="logistic", ridge=0.1).fit(X, np.arange(40) % 4)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize(
    ("table", "target", "weight", "message"),
    [
        (np.where(X > 1, np.inf, X), Y, None, "infinity"),
        (X, np.where(Y > 0, np.nan, Y), None, "y contains NaN"),
        (X, np.where(Y > 0, np.inf, Y), None, "y contains infinity"),
        (X, Y[:-1], None, "inconsistent numbers of samples"),
        (X, None, None, "requires y to be passed"),
        (X[:0], Y[:0], None, "0 sample"),
        (X[:, :0], Y, None, "0 feature"),
        (X[0], Y[:1], None, "Expected 2D array"),
        (X, Y[:, None, None], None, "dim 3"),
        (X * 1e300, Y, None, "column 0 holds numbers too large"),
        (X, Y * 1e300, None, "target 0 holds numbers too large"),
        (X, Y, np.zeros(40), "all sample weights are zero"),
        (X, Y, -np.ones(40), "Negative values in data passed to `sample_weight`"),
        (X, Y, np.ones(39), "sample_weight"),
        (X, Y, np.full(40, np.nan), "sample_weight contains NaN"),
        (np.full((40, 8), "word", dtype=object), Y, None, "could not convert string"),
        (X, np.full(40, "word"), None, "could not convert string"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_and_the_model_stays_as_it_was(
    table, target, weight, message, loss
):
    model = Regressor(COSTS, ridge=0.1, loss=loss).fit(X, Y)
    before = model.predict(X), dict(model.__dict__)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        model.fit(table, target, weight)
    assert model.__dict__ == before[1]
    assert_array_equal(model.predict(X), before[0])


def test_a_failed_fit_leaves_a_classifier_as_it_was():
    model = Classifier(COSTS, ridge=0.1).fit(X, LABELS)
    before = dict(model.__dict__)
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        model.fit(X, np.full(40, "same"))
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, Y)
    with pytest.raises(TypeError, match="Sparse data"):
        model.fit(csr_matrix(X), LABELS)
    assert model.__dict__ == before


def test_before_fit_there_is_nothing_to_ask():
    model = Regressor()
    for name in ("plan_", "order_", "stage_costs_", "certificate_", "ridge_", "costs_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        model.coef_  # noqa: B018


# ---------------------------------------------------------------------- copies, files, scikit-learn


@pytest.mark.parametrize(
    "model",
    [
        Regressor(COSTS, random_state=0),
        Regressor(COSTS, loss="huber", ridge=0.1),
        Classifier(COSTS, ridge=0.1),
        Classifier(COSTS, loss="squared", ridge=0.1, schedule="doubling"),
        Regressor(COSTS, selection="lasso", ridge=0.1),
    ],
    ids=["auto", "huber", "log", "squared", "lasso"],
)
def test_pickled_copied_cloned_saved(model, tmp_path):
    y = LABELS if isinstance(model, Classifier) else Y
    model = clone(model).fit(X, y)
    path = tmp_path / "model.anytime"
    model.save(path)
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model), at.load(path)):
        assert type(other) is type(model)
        for a, b in zip(other.stages(X), model.stages(X), strict=True):
            assert a.scores.tobytes() == b.scores.tobytes()
        assert other.order_ == model.order_
        assert other.ridge_ == model.ridge_
        assert other.costs_ == model.costs_
        assert other.certificate_.summary() == model.certificate_.summary()
        assert_array_equal(other.plan_.quality, model.plan_.quality)
        assert str(other.get_params()) == str(model.get_params())
        assert getattr(other, "kkt_residual_", None) == getattr(model, "kkt_residual_", None)
    again = clone(model)
    assert not hasattr(again, "plan_")
    assert_array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_a_loss_of_ones_own_is_kept_as_text_in_a_file(tmp_path):
    model = Regressor(COSTS, loss=at.losses.huber(0.5), ridge=0.1).fit(X, Y)
    model.save(tmp_path / "model.anytime")
    again = at.load(tmp_path / "model.anytime")
    assert_array_equal(again.predict(X), model.predict(X))


def test_truncated_models_and_searches():
    model = Regressor(COSTS, ridge=0.1).fit(X, Y)
    small = model.truncate(model.stage_costs_[1])
    assert small.n_stages_ == 2
    assert_array_equal(small.predict(X), model.predict(X, budget=model.stage_costs_[1]))
    nothing = model.truncate(0.0)
    assert_array_equal(nothing.predict(X), np.full(40, Y.mean()))
    search = GridSearchCV(
        Regressor(COSTS),
        {"ridge": [1e-3, 10.0], "selection": ["omp", "forward"]},
        scoring=at.budget_scorer(3.0),
    )
    assert search.fit(X, Y).best_params_["ridge"] == 1e-3


def test_fitting_again_forgets_what_was():
    model = Regressor(selection="lasso", ridge=0.1).fit(X, Y)
    assert model.kkt_residual_ >= 0
    model.set_params(selection="omp").fit(X[:, :3], Y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "kkt_residual_")
    assert model.fit(pd.DataFrame(X, columns=list("abcdefgh")), Y).feature_names_in_[0] == "a"
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


# ---------------------------------------------------------------------- the ridge


def held_out_rows(random_state, n, fraction=0.1):
    random = np.random.default_rng(check_random_state(random_state).randint(2**31))
    return random.random(n) < fraction


@pytest.mark.parametrize("whiten", ["data", "criterion"])
def test_the_ridge_is_that_of_least_held_out_loss_over_all_budgets(whiten):
    """By fitting on the other rows with each ridge and judging every prefix on the held-out ones; then fitted to all rows."""
    X, y, costs = problem(5, n=150, noise=3.0)
    model = Regressor(costs, whiten=whiten, random_state=3).fit(X, y)
    held = held_out_rows(3, 150)
    assert held.sum() >= 10
    found = {}
    for ridge in RIDGES:
        rows = Rows(X[~held], y[~held], list(costs.groups.values()), ridge=ridge, whiten=whiten)
        fixed = Regressor(costs, whiten=whiten, ridge=ridge).fit(X[~held], y[~held])
        order = [costs.names.index(name) for name in fixed.order_]
        losses = [0.5 * np.mean((rows.answers(order[:t], X[held])[:, 0] - y[held]) ** 2) for t in range(5)]
        spent = np.concatenate([[0.0], fixed.stage_costs_])
        found[ridge] = np.trapezoid(losses, spent) / spent[-1], fixed.order_, losses
    best = min(found, key=lambda ridge: found[ridge][0])
    assert model.ridge_ == best
    assert model.order_ == found[best][1]
    assert_allclose(model.plan_.quality, -np.array(found[best][2]), rtol=1e-8)
    everything = Rows(X, y, list(costs.groups.values()), ridge=best, whiten=whiten)
    order = [costs.names.index(name) for name in model.order_]
    for t, answer in enumerate(model.stages(X)):
        assert_allclose(answer.scores, everything.answers(order[:t], X), rtol=1e-7)


def test_noise_asks_for_more_ridge_than_signal():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 30))
    clean, noisy = X @ random.normal(size=30), X[:, 0] + 30 * random.normal(size=300)
    assert Regressor(random_state=0).fit(X, clean).ridge_ < Regressor(random_state=0).fit(X, noisy).ridge_


def test_with_too_few_rows_to_hold_out_a_plain_ridge_is_taken():
    assert Regressor(random_state=0).fit(X, Y).ridge_ == 1e-3
    assert Classifier(random_state=0).fit(X, LABELS).ridge_ == 1e-3
    assert Regressor(random_state=0).fit(X, Y).plan_.quality is None


# ---------------------------------------------------------------------- a long fit


def test_progress_is_told_and_an_interrupt_keeps_what_was_bought(capsys, monkeypatch):
    from anytime.linear import smooth

    model = Regressor(COSTS, loss="huber", ridge=0.1, verbose=1).fit(X, Y)
    told = capsys.readouterr().err
    assert told.count("\n") == 4
    assert f"group 1 of 4: {model.order_[0]!r}, risk lower by" in told
    bought = []
    add = smooth._Pursuit.add

    def interrupted(self, element):
        if len(bought) == 2:
            raise KeyboardInterrupt
        bought.append(element)
        add(self, element)

    monkeypatch.setattr(smooth._Pursuit, "add", interrupted)
    with pytest.warns(UserWarning, match="interrupted: the model has the first 2 of 4 groups"):
        short = Regressor(COSTS, loss="huber", ridge=0.1).fit(X, Y)
    assert short.order_ == model.order_[:2]
    assert short.certificate_ is None
    assert_array_equal(short.predict(X), model.predict(X, budget=model.stage_costs_[1]))
    monkeypatch.setattr(
        smooth._Pursuit, "add", lambda self, element: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.n_stages_ == 4


def test_bounded_weights_stay_within_their_ball_and_have_no_certificate():
    """The ball is that of the weights of standardised columns, in units of the target."""
    model = Regressor(COSTS, norm_bound=0.2, ridge=0.0, whiten="criterion").fit(X, Y)
    assert model.certificate_ is None
    for t, table in enumerate(model.plan_.blocks[0].coefficients):
        own = X[:, columns_of(model, t + 1)].std(axis=0)
        assert np.linalg.norm(table[:, 0] * own) == pytest.approx(0.2)
    loose = Regressor(COSTS, norm_bound=1e6, ridge=0.0).fit(X, Y)
    assert_allclose(loose.predict(X), LinearRegression().fit(X, Y).predict(X), rtol=1e-6)
