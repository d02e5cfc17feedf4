"""Fitting without all rows at once: chunks, Parquet files, moments. The model is that of ``fit`` on all of them."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils import check_random_state

import anytime as at
from anytime.linear import chunks as room
from tests.reference.linear import random_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier
RANDOM = np.random.default_rng(0)
X, Y, GROUPS = random_problem(RANDOM, [2, 1, 3, 2], n=120)
COSTS = at.FeatureCosts(
    dict(zip("abcd", [1.0, 0.5, 3.0, 2.0], strict=True)), groups=dict(zip("abcd", GROUPS, strict=True))
)
LABELS = np.array(["no", "yes", "perhaps"])[np.digitize(Y, np.quantile(Y, [0.4, 0.8]))]


def streamed(model, X, y, sizes, weight=None, **labels):
    """``partial_fit`` in chunks of these sizes, over and over."""
    model, i, k = clone(model), 0, 0
    while i < len(X):
        part = slice(i, i + sizes[k % len(sizes)])
        model.partial_fit(X[part], y[part], sample_weight=None if weight is None else weight[part], **labels)
        labels, i, k = {}, part.stop, k + 1
    return model


def assert_same(model, expected, X=X):
    assert model.order_ == expected.order_
    assert_array_equal(model.l2_regularization_, expected.l2_regularization_)
    for a, b in zip(model.stages(X), expected.stages(X), strict=True):
        assert_allclose(a.scores, b.scores, rtol=1e-8, atol=1e-8 * (1 + np.abs(b.scores).max()))
    assert_allclose(model.certificate_.selection.values, expected.certificate_.selection.values, rtol=1e-8)
    assert (model.plan_.quality is None) == (expected.plan_.quality is None)
    if expected.plan_.quality is not None:
        assert_allclose(model.plan_.quality, expected.plan_.quality, rtol=1e-7)


# ---------------------------------------------------------------------- partial_fit


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    l2_regularization=st.sampled_from([0.0, 0.1, "auto"]),
    seed=st.integers(0, 2**31 - 1),
    gaps=st.booleans(),
    weighted=st.booleans(),
    n_targets=st.integers(1, 2),
)
def test_chunks_of_any_size_give_the_model_of_fit(sizes, l2_regularization, seed, gaps, weighted, n_targets):
    """With the same held-out rows, whoever of them comes first; with gaps, weights (zeros too) and several targets."""
    random = np.random.default_rng(seed)
    X, y, _ = random_problem(random, [2, 1, 3, 2], n=120, k=n_targets)
    X += 1e3 * random.normal(size=8)
    if gaps:
        X[random.random(X.shape) < 0.2] = np.nan
    weight = random.choice([0.0, 1.0, 2.5], size=120) if weighted else None
    model = Regressor(costs=COSTS, l2_regularization=l2_regularization, random_state=seed)
    assert_same(streamed(model, X, y, sizes, weight), clone(model).fit(X, y, weight), X)


@pytest.mark.parametrize("seed", [8, 13, 25, 36])
def test_the_first_rows_may_all_be_held_out(seed):
    """Seeds that hold out the very first row, which is alone in its chunk."""
    assert np.random.default_rng(check_random_state(seed).randint(2**31)).random() < 0.1
    model = Regressor(costs=COSTS, random_state=seed)
    assert_same(streamed(model, X, Y, [1]), clone(model).fit(X, Y))


@pytest.mark.parametrize("sizes", [[1], [50], [7, 30, 1]])
def test_a_classifier_in_chunks_is_that_of_fit(sizes):
    model = Classifier(costs=COSTS, loss="squared", random_state=0)
    found = streamed(model, X, LABELS, sizes, classes=["perhaps", "yes", "no"])
    assert_same(found, clone(model).fit(X, LABELS))
    assert found.classes_.tolist() == ["no", "perhaps", "yes"]
    assert_array_equal(found.predict(X), clone(model).fit(X, LABELS).predict(X))


def test_a_stream_goes_on_after_answers():
    model = Regressor(costs=COSTS, l2_regularization=0.1)
    for first, last in ((0, 30), (30, 60), (60, 120)):
        model.partial_fit(X[first:last], Y[first:last])
        assert_same(model, Regressor(costs=COSTS, l2_regularization=0.1).fit(X[:last], Y[:last]))


def test_what_is_fitted_is_worked_out_when_asked_for_whatever_it_is():
    for name in ("plan_", "certificate_", "l2_regularization_", "order_", "stage_costs_", "n_stages_"):
        model = Regressor(costs=COSTS, random_state=0).partial_fit(X, Y)
        assert "plan_" not in model.__dict__
        assert getattr(model, name) is not None
        assert "plan_" in model.__dict__
        model.partial_fit(X, Y)
        assert "plan_" not in model.__dict__


def test_after_fit_a_new_stream_begins_and_fit_forgets_the_stream():
    model = Regressor(costs=COSTS, l2_regularization=0.1).fit(X[:50], Y[:50])
    with pytest.warns(UserWarning, match="keeps no moments of its rows; a new stream starts"):
        model.partial_fit(X[50:], Y[50:])
    assert_same(model, Regressor(costs=COSTS, l2_regularization=0.1).fit(X[50:], Y[50:]))
    assert_same(model.fit(X[:50], Y[:50]), Regressor(costs=COSTS, l2_regularization=0.1).fit(X[:50], Y[:50]))
    labelled = Classifier(loss="squared", l2_regularization=0.1).fit(X, LABELS)
    with pytest.warns(UserWarning, match="a new stream starts"):
        labelled.partial_fit(X[:60], np.full(60, "no"))  # the labels of fit are remembered
    assert labelled.classes_.tolist() == ["no", "perhaps", "yes"]


def test_a_model_of_a_file_begins_a_new_stream_and_says_so(tmp_path):
    Regressor(costs=COSTS, l2_regularization=0.1).partial_fit(X[:50], Y[:50]).save(tmp_path / "m.anytime")
    model = at.load(tmp_path / "m.anytime")
    with pytest.warns(UserWarning, match="loaded from a file, and keeps no moments"):
        model.partial_fit(X[50:], Y[50:])
    assert_same(model, Regressor(costs=COSTS, l2_regularization=0.1).fit(X[50:], Y[50:]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[:50], Y[:50])


def test_a_stream_can_be_put_away_and_goes_on():
    for seed in range(3):
        model = Regressor(costs=COSTS, random_state=seed)
        whole = clone(model).fit(X, Y)
        half = pickle.loads(pickle.dumps(clone(model).partial_fit(X[:1], Y[:1])))
        half.partial_fit(X[1:60], Y[1:60]).predict(X)
        assert_same(pickle.loads(pickle.dumps(half)).partial_fit(X[60:], Y[60:]), whole)


def test_memory_does_not_grow_with_the_rows():
    model = Regressor(l2_regularization=0.1).partial_fit(X, Y)
    before = len(pickle.dumps(model._stream))
    for _ in range(20):
        model.partial_fit(X, Y)
    assert len(pickle.dumps(model._stream)) == before


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((X[:, :3], Y), "X has 3 features, but GroupPursuitRegressor is expecting 8"),
        ((X, np.column_stack([Y, Y])), "y has 2 targets, earlier rows had 1"),
        ((X, np.full(120, np.nan)), "y contains NaN"),
        ((np.full((120, 8), np.inf), Y), "infinite"),
        ((X, Y[:5]), "inconsistent numbers of samples"),
        ((X, Y, None, -np.ones(120)), "Negative values"),
        ((X, None), "requires y"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_leave_the_stream_as_it_was(rows, message):
    model = Regressor(costs=COSTS, l2_regularization=0.1).partial_fit(X[:70], Y[:70])
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*rows)
    assert_same(model.partial_fit(X[70:], Y[70:]), Regressor(costs=COSTS, l2_regularization=0.1).fit(X, Y))


def test_labels_have_to_be_known_from_the_first():
    model = Classifier(loss="squared", l2_regularization=0.1)
    with pytest.raises(ValueError, match="first call of partial_fit needs classes"):
        model.partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="y holds the label 'yes', which is not among"):
        model.partial_fit(X, LABELS, classes=["no", "perhaps"])
    assert not hasattr(model, "plan_")
    model.partial_fit(X[:60], LABELS[:60], classes=["no", "yes", "perhaps"])
    with pytest.raises(ValueError, match="y holds the label 'never'"):
        model.partial_fit(X[:1], ["never"])
    assert_same(
        model.partial_fit(X[60:], LABELS[60:]),
        Classifier(loss="squared", l2_regularization=0.1).fit(X, LABELS),
    )
    with pytest.raises(ValueError, match="classes are for classifiers"):
        Regressor().partial_fit(X, Y, classes=[1, 2])


@pytest.mark.parametrize("loss", ["log", "squared"])
def test_weights_of_classes_are_weights_of_their_rows(loss):
    by_class = {"no": 1.0, "yes": 4.0}
    weight = np.array([by_class.get(label, 1.0) for label in LABELS])
    expected = Classifier(loss=loss, l2_regularization=0.1).fit(X, LABELS, sample_weight=weight)
    assert_same(Classifier(loss=loss, l2_regularization=0.1, class_weight=by_class).fit(X, LABELS), expected)
    balanced = Classifier(loss=loss, l2_regularization=0.1, class_weight="balanced").fit(X, LABELS)
    assert not np.array_equal(balanced.predict_proba(X), expected.predict_proba(X))


def test_a_stream_cannot_balance_classes_that_it_has_not_seen():
    labels = ["no", "yes", "perhaps"]
    model = Classifier(loss="squared", l2_regularization=0.1, class_weight="balanced")
    with pytest.raises(ValueError, match="needs all rows at once: use fit, or give the weights as a dict"):
        model.partial_fit(X, LABELS, classes=labels)
    weighed = Classifier(loss="squared", l2_regularization=0.1, class_weight={"no": 3.0})
    assert_same(streamed(weighed, X, LABELS, [50], classes=labels), clone(weighed).fit(X, LABELS))


def test_a_class_that_never_comes_has_no_chance():
    model = Classifier(loss="squared", l2_regularization=0.1).partial_fit(
        X, LABELS, classes=["no", "yes", "perhaps", "never"]
    )
    assert_array_equal(model.predict_proba(X)[:, 0], 0.0)
    assert model.classes_[0] == "never"


def test_rows_of_weight_zero_are_absent_even_alone():
    wild = X.copy()
    wild[:40] = 1e12
    weight = np.where(np.arange(120) < 40, 0.0, 2.0)
    expected = Regressor(costs=COSTS, random_state=0).fit(X[40:], Y[40:])
    assert_same(streamed(Regressor(costs=COSTS, random_state=0), wild, Y, [40], weight), expected)
    nothing = Regressor(costs=COSTS, l2_regularization=0.1).partial_fit(X, Y, sample_weight=np.zeros(120))
    with pytest.raises(ValueError, match="add rows of positive weight"):
        nothing.predict(X)
    assert_same(nothing.partial_fit(X, Y), Regressor(costs=COSTS, l2_regularization=0.1).fit(X, Y))


@pytest.mark.parametrize(
    "model",
    [Regressor(loss="huber"), Regressor(norm_bound=1.0), Regressor(fit_intercept=False), Classifier()],
    ids=["huber", "bounded", "no intercept", "log"],
)
def test_where_moments_do_not_suffice_there_is_no_partial_fit_and_it_says_why(model):
    y = LABELS if isinstance(model, Classifier) else Y
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="second moments suffice only for squared loss"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="second moments suffice only for squared loss"):
        model.fit_chunks([(X, y)])
    with pytest.raises(ValueError, match="second moments suffice only for squared loss"):
        model.set_params(l2_regularization=0.1).fit_moments(np.eye(2), [0.1, 0.2])


def test_prices_that_do_not_fit_are_refused_with_the_first_rows():
    with pytest.raises(ValueError, match="2 prices for 8 columns"):
        Regressor(costs=at.FeatureCosts([1.0, 2.0])).partial_fit(X, Y)


# ---------------------------------------------------------------------- fit_chunks


def test_any_iterable_of_chunks_will_do():
    whole = Regressor(costs=COSTS, random_state=0).fit(X, Y, np.arange(120) % 3)
    parts = ((X[i : i + 25], Y[i : i + 25], (np.arange(120) % 3)[i : i + 25]) for i in range(0, 120, 25))
    model = Regressor(costs=COSTS, random_state=0).fit_chunks(parts)
    assert_same(model, whole)
    assert "_stream" not in model.__dict__  # moments are not kept
    labelled = Classifier(costs=COSTS, loss="squared", l2_regularization=0.1).fit_chunks(
        [(X[:50], LABELS[:50]), (X[50:], LABELS[50:])], classes=["no", "perhaps", "yes"]
    )
    assert_same(labelled, Classifier(costs=COSTS, loss="squared", l2_regularization=0.1).fit(X, LABELS))


def test_chunks_that_fail_leave_the_model_as_it_was():
    model = Regressor(costs=COSTS, l2_regularization=0.1).fit(X, Y)
    before = dict(model.__dict__)

    def failing():
        yield X[:50], Y[:50]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        model.fit_chunks(failing())
    with pytest.raises(ValueError, match="no rows: the iterable of chunks is empty"):
        model.fit_chunks([])
    with pytest.raises(ValueError, match="X has 2 features"):
        model.fit_chunks([(X, Y), (X[:, :2], Y)])
    for wrong in ([X], [(X, Y, None, None)], X):
        with pytest.raises(TypeError, match="each chunk must be a pair"):
            model.fit_chunks(wrong)
    with pytest.raises(ValueError, match="are for Parquet files"):
        model.fit_chunks([(X, Y)], target="y")
    assert model.__dict__ == before


def parquet(path, frame, **options):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, **options)
    return path


FRAME = pd.DataFrame(X, columns=[f"c{j}" for j in range(8)]).assign(y=Y, label=LABELS, w=np.arange(120) % 3)
NAMED = at.FeatureCosts(
    dict(zip("abcd", [1.0, 0.5, 3.0, 2.0], strict=True)),
    groups={name: [f"c{j}" for j in group] for name, group in zip("abcd", GROUPS, strict=True)},
)


def features(frame):
    return frame[[f"c{j}" for j in range(8)]]


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_parquet_file_or_a_folder_of_them_is_read_in_chunks(in_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_BATCH_BYTES", 1)  # the smallest batches there are
    frame = FRAME.drop(columns=["label"])
    if in_folder:
        for k in range(3):
            parquet(tmp_path / f"part{k}.parquet", frame[40 * k : 40 * k + 40], row_group_size=7)
        path = tmp_path
    else:
        path = parquet(tmp_path / "rows.parquet", frame, row_group_size=7)
    model = Regressor(costs=NAMED, random_state=0).fit_chunks(path, target="y", sample_weight="w")
    expected = Regressor(costs=NAMED, random_state=0).fit(features(frame), Y, frame["w"])
    assert_same(model, expected, features(frame))
    assert model.feature_names_in_.tolist() == [f"c{j}" for j in range(8)]
    as_text = Regressor(costs=NAMED, random_state=0).fit_chunks(str(path), target="y", sample_weight="w")
    assert_same(as_text, expected, features(frame))


def test_labels_of_a_parquet_file_are_found_in_a_first_pass(tmp_path):
    path = parquet(tmp_path / "rows.parquet", FRAME.drop(columns=["y", "w"]), row_group_size=11)
    model = Classifier(costs=NAMED, loss="squared", l2_regularization=0.1).fit_chunks(path, target="label")
    assert_same(
        model,
        Classifier(costs=NAMED, loss="squared", l2_regularization=0.1).fit(features(FRAME), LABELS),
        features(FRAME),
    )
    given_classes = Classifier(costs=NAMED, loss="squared", l2_regularization=0.1).fit_chunks(
        path, target="label", classes=["no", "yes", "perhaps", "x"]
    )
    assert given_classes.classes_.tolist() == ["no", "perhaps", "x", "yes"]


@pytest.mark.parametrize(
    "kind", ["int64", "float32", "bool", "nullable int", "nullable bool", "float with nulls"]
)
def test_columns_of_a_parquet_file_are_numbers_and_nulls_are_gaps(kind, tmp_path):
    whole = np.random.default_rng(0).integers(0, 2 if "bool" in kind else 9, size=(60, 3))
    gap = np.random.default_rng(1).random((60, 3)) < (0.2 if "null" in kind else 0.0)
    types = {
        "int64": "int64",
        "float32": "float32",
        "bool": "bool",
        "nullable int": "Int32",
        "nullable bool": "boolean",
        "float with nulls": "Float64",
    }
    frame = pd.DataFrame(
        {
            f"c{j}": pd.array(
                np.where(gap[:, j], None, whole[:, j].astype(object)) if gap.any() else whole[:, j],
                dtype=types[kind],
            )
            for j in range(3)
        }
    )
    y = whole @ np.array([1.0, -2.0, 0.5])
    path = parquet(tmp_path / "rows.parquet", frame.assign(y=y))
    plain = pd.DataFrame(np.where(gap, np.nan, whole.astype(float)), columns=["c0", "c1", "c2"])
    assert_same(
        Regressor(l2_regularization=0.1).fit_chunks(path, target="y"),
        Regressor(l2_regularization=0.1).fit(plain, y),
        plain,
    )


def test_several_targets_of_a_parquet_file(tmp_path):
    path = parquet(tmp_path / "rows.parquet", FRAME.drop(columns=["label"]))
    model = Regressor(costs=NAMED, l2_regularization=0.1).fit_chunks(path, target=["y", "w"])
    assert_same(
        model,
        Regressor(costs=NAMED, l2_regularization=0.1).fit(features(FRAME), FRAME[["y", "w"]]),
        features(FRAME),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "target is None; name the column"),
        ({"target": "z"}, "has no column 'z'; it has c0, c1"),
        ({"target": "y", "sample_weight": "v"}, "has no column 'v'"),
        ({"target": "y"}, "column 'label' is not numeric; encode it first"),
    ],
)
def test_a_parquet_file_that_does_not_fit_is_refused(options, message, tmp_path):
    path = parquet(tmp_path / "rows.parquet", FRAME)
    with pytest.raises(ValueError, match=message):
        Regressor(l2_regularization=0.1).fit_chunks(path, **options)


def test_nulls_in_the_target_and_files_that_are_not_there_are_refused(tmp_path):
    frame = features(FRAME).assign(y=np.where(Y > 0, Y, np.nan))
    with pytest.raises(ValueError, match="y contains NaN"):
        Regressor(l2_regularization=0.1).fit_chunks(parquet(tmp_path / "rows.parquet", frame), target="y")
    with pytest.raises(FileNotFoundError):
        Regressor(l2_regularization=0.1).fit_chunks(tmp_path / "nowhere.parquet", target="y")
    (tmp_path / "words.parquet").write_text("no table at all")
    with pytest.raises(ValueError, match=re.escape("words.parquet")):
        Regressor(l2_regularization=0.1).fit_chunks(tmp_path / "words.parquet", target="y")


# ---------------------------------------------------------------------- fit_moments


@pytest.mark.parametrize("n_targets", [1, 2])
def test_moments_of_the_rows_give_the_model_of_the_rows(n_targets):
    X, y, _ = random_problem(np.random.default_rng(4), [2, 1, 3, 2], k=n_targets)
    C = np.cov(X.T, bias=True)
    V = (X - X.mean(axis=0)).T @ (y - y.mean(axis=0)) / len(X)
    model = Regressor(costs=COSTS, l2_regularization=0.1).fit_moments(
        C, V, mean=X.mean(axis=0), target_mean=y.mean(axis=0), target_variance=y.var(axis=0)
    )
    assert_same(model, Regressor(costs=COSTS, l2_regularization=0.1).fit(X, y), X)
    assert model.n_features_in_ == 8


def test_moments_of_a_classifier_have_a_target_per_class():
    indicators = (LABELS[:, None] == np.unique(LABELS)).astype(float)
    C, V = np.cov(X.T, bias=True), (X - X.mean(axis=0)).T @ indicators / len(X)
    model = Classifier(costs=COSTS, loss="squared", l2_regularization=0.1).fit_moments(
        C, V, mean=X.mean(axis=0), target_mean=indicators.mean(axis=0), target_variance=indicators.var(axis=0)
    )
    expected = Classifier(costs=COSTS, loss="squared", l2_regularization=0.1).fit(X, LABELS)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-9)
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="one target per class"):
        Classifier(loss="squared", l2_regularization=0.1).fit_moments(C, V[:, 0], target_variance=0.25)


def test_moments_may_name_their_columns_and_hold_a_constant_one():
    model = Regressor(costs={"a": 1.0, "b": 2.0, "c": 0.0}, l2_regularization=0.1).fit_moments(
        np.diag([1.0, 4.0, 0.0]), [0.5, 1.0, 0.0], feature_names=["b", "c", "a"]
    )
    assert sorted(model.order_) == ["a", "b", "c"]
    assert_allclose(
        model.predict(pd.DataFrame([[2.0, 1.0, 9.0]], columns=["b", "c", "a"])), [(0.5 * 2 + 0.25) / 1.1]
    )


def test_moments_that_do_not_fit_are_refused_and_leave_the_model_as_it_was():
    model = Regressor(l2_regularization=0.1).fit(X, Y)
    before = dict(model.__dict__)
    for call, message in (
        (lambda: model.fit_moments(np.eye(2), [0.1, 0.2, 0.3]), "symmetric with a row per column"),
        (lambda: model.fit_moments(np.eye(2), [3.0, 0.2]), "is target_variance right"),
        (lambda: model.fit_moments(np.eye(2), [0.1, 0.2], feature_names=["a"]), "1 feature names"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
        assert model.__dict__ == before
    with pytest.raises(ValueError, match="l2_regularization cannot be chosen on moments"):
        Regressor().fit_moments(np.eye(2), [0.1, 0.2])
