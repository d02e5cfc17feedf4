"""Any table and any mistake: forms of data, columns that say nothing, weights, prices, and what is refused."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array, csc_array, csr_matrix, random_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import anytime as at
from tests.reference.linear import priced_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier
X, Y, COSTS = priced_problem()
LABELS = np.array(["no", "yes"])[(np.median(Y) < Y).astype(int)]


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
    "model",
    [Regressor(costs=COSTS, l2_regularization=0.01), Classifier(costs=COSTS, l2_regularization=0.01)],
    ids=["R", "C"],
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
    model = Regressor(l2_regularization=0.0).fit(table, y)
    assert_allclose(model.predict(table), y, atol=1e-10)
    assert_allclose(model.predict(table.astype(float)), y, atol=1e-10)


# ---------------------------------------------------------------------- sparse matrices


def sparse_problem():
    """300 rows of 40 columns, one entry in ten not zero, and weights some of which are 0."""
    rng = np.random.default_rng(3)
    table = rng.normal(1.0, 1.0, (300, 40)) * (rng.random((300, 40)) < 0.1)
    y = table[:, :6] @ rng.normal(size=6) + 0.3 * rng.normal(size=300)
    return table, y, rng.integers(0, 3, 300).astype(float)


@pytest.mark.parametrize("form", [csr_matrix, csc_array, coo_array])
@pytest.mark.parametrize("l2_regularization", [0.01, "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_matrix_is_learned_from_as_its_dense_copy(form, l2_regularization, weighted):
    table, y, weight = sparse_problem()
    model = Regressor(l2_regularization=l2_regularization, random_state=0)
    dense = clone(model).fit(table, y, sample_weight=weight if weighted else None)
    sparse = clone(model).fit(form(table), y, sample_weight=weight if weighted else None)
    assert sparse.order_ == dense.order_
    assert_allclose(sparse.predict(form(table)), dense.predict(table), atol=1e-10)
    assert_allclose(sparse.predict(form(table), budget=3), dense.predict(table, budget=3), atol=1e-10)


def test_dense_and_sparse_chunks_of_one_stream_add_up():
    table, y, _ = sparse_problem()
    whole = Regressor(l2_regularization=0.01).fit(table, y)
    for first, second in ((csr_matrix, np.asarray), (np.asarray, csr_matrix)):
        stream = Regressor(l2_regularization=0.01).partial_fit(first(table[:90]), y[:90])
        stream.partial_fit(second(table[90:]), y[90:])
        assert_allclose(stream.predict(table), whole.predict(table), atol=1e-10)


def test_a_large_sparse_matrix_is_not_written_out():
    """400,000 rows of 300 columns would take 960 MB; their moments take 0.7 MB."""
    table = random_array((400_000, 300), density=0.002, rng=np.random.default_rng(0), format="csr")
    y = np.asarray(table[:, [5]].todense()).ravel() + 0.01
    model = Regressor(l2_regularization=0.01)
    tracemalloc.start()
    model.fit(table, y)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.order_[0] == "x5"
    assert most < 100e6


def test_a_sparse_matrix_with_a_missing_value_or_for_another_loss_is_refused():
    table, y, _ = sparse_problem()
    with pytest.raises(ValueError, match="NaN"):
        Regressor().fit(csr_matrix(np.where(table > 2, np.nan, table)), y)
    for model in (Regressor(norm_bound=1.0), Classifier()):
        with pytest.raises(TypeError, match=r"X is a sparse matrix.*X\.toarray\(\)"):
            model.fit(csr_matrix(table), y > 0)


def test_names_of_columns_are_kept_and_asked_for():
    frame = pd.DataFrame(X[:, :3], columns=["age", "dose", "site"])
    costs = {"age": 1.0, "site": 2.0, "dose": 0.5}
    model = Regressor(costs=costs, l2_regularization=0.01).fit(frame, pd.Series(Y))
    assert sorted(model.order_) == ["age", "dose", "site"]
    assert model.feature_names_in_.tolist() == ["age", "dose", "site"]
    assert_array_equal(model.predict(frame[["dose", "age", "site"]]), model.predict(frame))
    with pytest.raises(ValueError, match="column 'height', which X does not have"):
        Regressor(costs={**costs, "height": 1.0}).fit(frame, Y)


def test_a_missing_value_counts_as_the_mean_in_training_and_after():
    random = np.random.default_rng(0)
    gaps = np.where(random.random(X.shape) < 0.2, np.nan, X)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    for model in (
        Regressor(costs=COSTS, l2_regularization=0.1),
        Regressor(costs=COSTS, loss="huber", l2_regularization=0.1),
    ):
        with_gaps, without = clone(model).fit(gaps, Y), clone(model).fit(filled, Y)
        assert with_gaps.order_ == without.order_
        assert_allclose(with_gaps.predict(gaps), without.predict(filled), rtol=1e-7)
        assert_allclose(with_gaps.predict(gaps), with_gaps.predict(filled), rtol=1e-12)


ROBUST = [
    Regressor(l2_regularization=0.0),
    Regressor(random_state=0),
    Regressor(loss="huber", l2_regularization=0.1),
    Regressor(selection="forward", whiten=False, l2_regularization=0.0),
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
    if model.l2_regularization == 0.0:
        assert scores[-1] == pytest.approx(1.0)


def test_columns_repeated_across_groups_are_paid_for_and_gain_nothing():
    twice = np.column_stack([X[:, :3], X[:, :3]])
    model = Regressor(l2_regularization=0.0, selection="forward").fit(twice, Y)
    assert {name[1] for name in model.order_[:3]} | {"3", "4", "5"} == {"0", "1", "2", "3", "4", "5"}
    values = model.certificate_.selection.values
    assert_allclose(values[3:], values[2], rtol=1e-10)
    assert_allclose(model.predict(twice), LinearRegression().fit(X[:, :3], Y).predict(X[:, :3]), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-120, 1e-9, 1e9, 1e120])
def test_units_of_any_size(scale):
    model = Regressor(costs=COSTS, l2_regularization=0.1).fit(X, Y)
    other = Regressor(costs=COSTS, l2_regularization=0.1).fit(scale * X, Y / scale)
    assert other.order_ == model.order_
    assert_allclose(other.predict(scale * X) * scale, model.predict(X), rtol=1e-9)
    log = Classifier(costs=COSTS, l2_regularization=0.1).fit(X, LABELS)
    assert_allclose(
        Classifier(costs=COSTS, l2_regularization=0.1).fit(scale * X, LABELS).predict_proba(scale * X),
        log.predict_proba(X),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    "model",
    [
        Regressor(costs=COSTS, l2_regularization=0.1),
        Regressor(costs=COSTS, l2_regularization=0.1, loss="huber"),
        Classifier(costs=COSTS, l2_regularization=0.1),
    ],
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
    for model in (
        Regressor(costs=COSTS, random_state=0),
        Regressor(costs=COSTS, loss="huber", l2_regularization=0.1),
    ):
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
    model = Regressor(costs=costs, l2_regularization=0.01).fit(X, Y)
    assert model.order_[0] == "free"
    assert model.stage_costs_[0] == 0.0
    assert set(model.order_) == {"draw", "a", "b", "free"}
    assert model.stage_costs_[-1] == pytest.approx(2.4)
    assert_array_equal(model.certificate_.selection.costs, model.stage_costs_)
    assert model.score(X, Y, budget=0.0) > 0


def test_a_price_list_that_does_not_fit_is_refused_before_any_work():
    with pytest.raises(ValueError, match="2 prices for 8 columns"):
        Regressor(costs=at.FeatureCosts([1.0, 2.0])).fit(X, Y)
    with pytest.raises(ValueError, match="names column 99"):
        Regressor(costs=at.FeatureCosts({"a": 1.0}, groups={"a": [99]})).fit(X, Y)


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selection": "best"}, "'selection' parameter"),
        ({"whiten": True}, "'whiten' parameter"),
        ({"schedule": "tripling"}, "'schedule' parameter"),
        ({"l2_regularization": -1.0}, "'l2_regularization' parameter"),
        ({"l2_regularization": "much"}, "'l2_regularization' parameter"),
        ({"c_min": 0.0}, "'c_min' parameter"),
        ({"norm_bound": 0.0}, "'norm_bound' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"tol": 0.0}, "'tol' parameter"),
        ({"loss": 3}, "'loss' parameter"),
        ({"loss": "wishful"}, "no loss 'wishful'"),
        ({"loss": "multinomial"}, "for classifiers; use GroupPursuitClassifier"),
        ({"schedule": "doubling", "c_min": 0.01}, "no group costs c_min=0.01 or less; the cheapest costs 0"),
        ({"loss": "poisson"}, "loss='poisson' is for counts, but y holds -"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Regressor(costs=COSTS, **{"l2_regularization": 0.1, **settings}).fit(X, Y)


def test_a_loss_for_regressors_is_refused_by_a_classifier():
    with pytest.raises(ValueError, match="for regressors; use GroupPursuitRegressor"):
        Classifier(loss="poisson", l2_regularization=0.1).fit(X, LABELS)
    with pytest.raises(ValueError, match="for two classes, but there are 4"):
        Classifier(loss="logistic", l2_regularization=0.1).fit(X, np.arange(40) % 4)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize(
    ("table", "target", "weight", "message"),
    [
        (np.where(X > 1, np.inf, X), Y, None, "row 0, column 1: the value is infinite"),
        (X, np.where(Y > 0, np.nan, Y), None, "y contains NaN"),
        (X, np.where(Y > 0, np.inf, Y), None, "y contains infinity"),
        (X, Y[:-1], None, "inconsistent numbers of samples"),
        (X, None, None, "requires y to be passed"),
        (X[:0], Y[:0], None, "no rows to learn from"),
        (X[:, :0], Y, None, "0 feature"),
        (X[0], Y[:1], None, "Expected 2D array"),
        (X, Y[:, None, None], None, "dim 3"),
        (X * 1e300, Y, None, "column 0 holds numbers too large"),
        (X, Y * 1e300, None, "target 0 holds numbers too large"),
        (X, Y, np.zeros(40), "all sample weights are zero"),
        (X, Y, -np.ones(40), "Negative values in data passed to `sample_weight`"),
        (X, Y, np.ones(39), "sample_weight"),
        (X, Y, np.full(40, np.nan), "sample_weight contains NaN"),
        (
            np.full((40, 8), "word", dtype=object),
            Y,
            None,
            "column 0 should hold numbers, but row 0 has 'word'",
        ),
        (X, np.full(40, "word"), None, "y should hold numbers, but row 0 has 'word'"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_and_the_model_stays_as_it_was(
    table, target, weight, message, loss
):
    model = Regressor(costs=COSTS, l2_regularization=0.1, loss=loss).fit(X, Y)
    before = model.predict(X), dict(model.__dict__)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        model.fit(table, target, weight)
    assert model.__dict__ == before[1]
    assert_array_equal(model.predict(X), before[0])


def test_a_failed_fit_leaves_a_classifier_as_it_was():
    model = Classifier(costs=COSTS, l2_regularization=0.1).fit(X, LABELS)
    before = dict(model.__dict__)
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        model.fit(X, np.full(40, "same"))
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, Y)
    with pytest.raises(TypeError, match="sparse matrix"):
        model.fit(csr_matrix(X), LABELS)
    assert model.__dict__ == before


def test_before_fit_there_is_nothing_to_ask():
    model = Regressor()
    for name in ("plan_", "order_", "stage_costs_", "certificate_", "l2_regularization_", "costs_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        model.coef_  # noqa: B018
