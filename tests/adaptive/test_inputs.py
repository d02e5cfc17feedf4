"""What users give an ``AdaptiveClassifier``: tables, words, missing values, models of all kinds, and mistakes."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import anytime as at
from anytime.engine import Run
from anytime.rows import Rows
from tests.adaptive.test_adaptive_classifier import SMALL, problem

BOTH = pytest.mark.parametrize("kind", [at.LadderClassifier, at.AdaptiveClassifier])
SETTINGS = {**SMALL, "cost_penalty": 0.005, "costly_fraction": 0.5}


def table():
    X, y, _ = problem()
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    frame["kind"] = pd.Categorical(np.where(X[:, 4] > 0, "high", "low"))
    frame["text"] = np.where(X[:, 5] > 0, "x", "y")
    frame["flag"] = X[:, 6] > 0
    frame["count"] = pd.array(np.round(X[:, 7] * 3).astype(int), dtype="Int64")
    frame.loc[::6, "kind"] = None
    frame.loc[5, "text"] = None
    frame.loc[::7, "b"] = np.nan
    frame.loc[3, "count"] = pd.NA
    return frame, np.array(["no", "yes"])[y]


def svm_on_words():
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder(handle_unknown="ignore")
    )
    encoded = make_column_transformer((words, ["kind", "text"]), remainder=SimpleImputer())
    return make_pipeline(encoded, StandardScaler(with_mean=False), SVC())


def test_a_pipeline_gets_the_table_with_its_words_and_missing_values(tmp_path):
    frame, y = table()
    model = at.AdaptiveClassifier(svm_on_words(), **SETTINGS).fit(frame, y)
    sent = model.sent(frame)
    assert 0 < sent.mean() < 1
    assert np.mean(model.predict(frame)[sent] == model.costly_.predict(frame)[sent]) > 0.9
    model.save(tmp_path / "model.anytime")
    loaded = at.load(tmp_path / "model.anytime", costly=model.costly_)
    assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    strange = frame.copy()
    strange["text"] = "never seen"
    assert set(loaded.predict(strange)) <= {"no", "yes"}


def test_missing_values_are_the_costly_models_business():
    X, y, _ = problem()
    X = X.copy()
    X[::5, 2] = np.nan
    imputing = make_pipeline(SimpleImputer(), SVC())
    model = at.AdaptiveClassifier(imputing, **SETTINGS).fit(X, y)
    assert model.predict(X).shape == y.shape
    with pytest.raises(ValueError, match="SVC does not accept missing values"):
        at.AdaptiveClassifier(SVC(), **SETTINGS).fit(X, y)


@pytest.mark.parametrize("labels", [[False, True], [1.0, 2.0], ["b", "a"]])
def test_labels_of_all_kinds(labels):
    X, y, _ = problem()
    y = np.array(labels)[y]
    model = at.AdaptiveClassifier(GaussianNB(), **SETTINGS).fit(X, pd.Series(y))
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(X).tolist()) == set(labels)
    assert model.score(X, y) > 0.7


def test_a_function_may_give_the_chances_of_the_second_class_alone():
    X, y, _ = problem()
    nb = GaussianNB().fit(X, y)
    both = at.AdaptiveClassifier(nb.predict_proba, **SETTINGS).fit(X, y)
    second = at.AdaptiveClassifier(lambda rows: nb.predict_proba(rows)[:, 1], **SETTINGS).fit(X, y)
    assert_allclose(second.predict_proba(X), both.predict_proba(X), atol=1e-9)


def test_a_costly_model_that_does_not_know_a_class_gives_it_no_chance():
    X, y, _ = problem(3)
    two = GaussianNB().fit(X[y < 2], y[y < 2])
    model = at.AdaptiveClassifier(two, proba_source="insample", gate="learned", **SETTINGS).fit(X, y)
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    assert_allclose(model.predict_proba(X)[sent, 2], 0, atol=1e-9)


def test_a_lightgbm_model_goes_into_the_plan():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, costs = problem()
    booster = lightgbm.LGBMClassifier(n_estimators=10, verbosity=-1, n_jobs=1, random_state=0)
    model = at.AdaptiveClassifier(booster, costs=costs, **SETTINGS).fit(X, y)
    sent = model.sent(X)
    assert_allclose(model.predict_proba(X)[sent], model.costly_.predict_proba(X)[sent], atol=1e-9)
    assert model.detached_ is None
    with pytest.raises(TypeError, match="a Booster, which has no predict_proba"):
        at.AdaptiveClassifier(model.costly_.booster_, **SETTINGS).fit(X, y)


@pytest.mark.parametrize(
    ("costly", "error", "message"),
    [
        ("svm", TypeError, "it is the text 'svm'"),
        (SVC, TypeError, r"the class SVC itself; give an instance, SVC\(\)"),
        (RandomForestRegressor(), TypeError, "RandomForestRegressor, which predicts numbers"),
        (object(), TypeError, "it is of type object, which has no predict_proba and cannot be called"),
        (3.0, TypeError, "it is of type float, which has no predict_proba and cannot be called"),
        (
            (lambda X: np.full((len(X), 2), 0.5), 3.0),
            TypeError,
            "it is a tuple with a model in it; give the model alone, and its price as evaluation_cost=",
        ),
        (np.full((500, 3), 0.3), ValueError, r"shape \(500, 3\), but need \(500, 2\)"),
        (
            np.full((500, 2), np.nan),
            ValueError,
            r"in 500 of 500 rows they do not, first in row 0: \[nan, nan\]",
        ),
        (np.linspace(-3, 3, 500), ValueError, "must lie between 0 and 1; in 417 of 500 rows"),
        (lambda X: np.full((len(X), 2), np.nan), ValueError, "in 500 of 500 rows"),
        (lambda X: np.zeros((2, 2)), ValueError, r"shape \(2, 2\), but need"),
    ],
)
def test_a_costly_model_that_is_none_is_refused(costly, error, message):
    X, y, _ = problem()
    with pytest.raises(error, match=message):
        at.AdaptiveClassifier(costly, **SETTINGS).fit(X, y)


def test_a_costly_model_is_refused_before_rows_of_no_weight_are_left_out():
    X, y, _ = problem()
    for family in (at.AdaptiveClassifier, at.LadderClassifier):
        with pytest.raises(TypeError, match="it is of type object, which has no predict_proba"):
            family(object()).fit(X, y, np.arange(len(y)) > 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "costly_columns is empty"),
        ([True] * 8, "by name or position, not by True"),
        ([1, 1], "names column 1 twice"),
        ([1.5], "not by 1.5"),
        ([-1], "names column -1, but X has 8 columns"),
        (["a"], "names 'a', which X does not have"),
    ],
)
def test_columns_of_the_costly_model_that_are_none_are_refused(columns, message):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=message):
        at.AdaptiveClassifier(GaussianNB(), costly_columns=columns, **SETTINGS).fit(X, y)


def test_rows_and_classes_that_do_not_match_are_refused():
    X, y, _ = problem()
    model = at.AdaptiveClassifier(GaussianNB(), **SETTINGS)
    with pytest.raises(ValueError, match=r"probabilities have shape \(5, 2\), but need \(500, 2\)"):
        model.fit(X, y, costly_proba=np.full((5, 2), 0.5))
    with pytest.raises(ValueError, match="costly_proba has 5 rows, but X has 500"):
        model.fit(X, y, costly_proba=np.full((5, 2), 0.5), sample_weight=np.arange(500) % 2)
    with pytest.raises(ValueError, match="only one class"):
        model.fit(X, np.zeros(500))
    with pytest.raises(ValueError, match=r"trained on the classes \['a', 'b'\], but y has \[0, 1\]"):
        at.AdaptiveClassifier(GaussianNB().fit(X, np.array(["a", "b"])[y]), **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="y_val has classes that are not in y"):
        model.fit(X, y, X_val=X, y_val=y + 1)
    with pytest.raises(ValueError, match="too few rows of some class for cross-validation of SVC"):
        at.AdaptiveClassifier(SVC(), **SETTINGS).fit(X, np.r_[2, y[1:]])
    assert not hasattr(model, "plan_")


def test_a_model_of_ours_that_reads_numbers_in_its_own_way_is_asked_as_it_is():
    xgboost = pytest.importorskip("xgboost")
    X, y, costs = problem()
    X = X.copy()
    X[::3, 2] = -1.0
    original = xgboost.XGBClassifier(n_estimators=5, missing=-1, n_jobs=1, random_state=0)
    ours = at.AnytimeClassifier(original, costs=costs, random_state=0).fit(X, y)
    model = at.AdaptiveClassifier(ours, costs=costs, proba_source="insample", **SETTINGS).fit(X, y)
    scores = model.plan_.blocks[-1].outputs(0, X)
    assert_allclose(at.losses.LINKS["logistic"].transform(scores), ours.predict_proba(X), atol=1e-9)


@BOTH
@pytest.mark.parametrize("alike", [True, False])
def test_columns_that_say_nothing_or_all_can_be_learned_from(kind, alike):
    y = np.random.default_rng(0).integers(0, 2, 200)
    X = np.ones((200, 2)) if alike else np.column_stack([y, y]).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant answer is told
        model = kind(LogisticRegression(), n_estimators=5, random_state=0).fit(X, y)
    assert model.score(X, y) == (max(y.mean(), 1 - y.mean()) if alike else 1.0)


@BOTH
def test_chances_that_do_not_add_up_are_refused(kind):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"must add up to 1; in 500 of 500 rows .* row 0: \[1.0, 1.0\]"):
        kind(np.ones((len(y), 2)), n_estimators=2).fit(X, y)
    probabilities = np.full((len(y), 2), 0.5, dtype=np.float32)
    probabilities[3, 0] += 1e-5
    with pytest.raises(ValueError, match="in 1 of 500 rows they do not, first in row 3"):
        kind(probabilities, n_estimators=2).fit(X, y)


@BOTH
@pytest.mark.parametrize("costly", [SVC(), RandomForestClassifier(5)])
def test_a_costly_model_of_fewer_columns_needs_their_names(kind, costly):
    X, y, _ = problem()
    costly = clone(costly).fit(X[:, :3], y)
    with pytest.raises(ValueError, match=r"fitted on 3 columns, but X has 8: name .* with costly_columns="):
        kind(costly, n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match="fitted on 3 columns, but costly_columns= names 2"):
        kind(costly, costly_columns=[0, 1], n_estimators=2).fit(X, y)


def test_few_rows_are_told_to_be_too_few():
    X, _, _ = problem()
    few = X[:20], np.arange(20) % 2
    with pytest.warns(UserWarning, match=r"20 rows are too few .*: all rows go to the costly model; give 40"):
        assert at.LadderClassifier(GaussianNB()).fit(*few).sent_ == 1.0
    with pytest.warns(UserWarning, match=r"20 rows are too few .*: the model always gives the same answer"):
        assert at.LadderClassifier(GaussianNB(), mean_budget=1).fit(*few).sent_ == 0.0
    with pytest.warns(
        UserWarning, match=r"6 rows are too few .* min_samples_leaf=20: .* always gives the same answer"
    ):
        at.AdaptiveClassifier(GaussianNB()).fit(X[:6], np.arange(6) % 2)


def test_a_ladder_says_why_it_has_one_answer_only():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = np.column_stack([rng.normal(size=400), y + 0.3 * rng.normal(size=400)])
    with pytest.warns(UserWarning, match=r"no model .* costs at most 0\.5 on average, the cheapest 1"):
        model = at.LadderClassifier(
            GaussianNB(), costs=[1, 10], mean_budget=0.5, n_estimators=5, random_state=0
        ).fit(X, y)
    assert (model.sent_, model.sent(X).mean()) == (0.0, 0.0)


@BOTH
def test_without_its_costly_model_it_says_which_budget_is_enough(kind, tmp_path):
    X, y, _ = problem()
    settings = {"cost_penalty": 0.005} if kind is at.AdaptiveClassifier else {"mean_budget": 6.0}
    kind(SVC(), n_estimators=5, random_state=0, **settings).fit(X, y).save(tmp_path / "model.anytime")
    alone = at.load(tmp_path / "model.anytime")
    enough = alone.plan_.expected_costs[-2]
    with pytest.raises(
        at.adaptive.DetachedModelError, match=f"a mean_budget of at most {enough:.6g}"
    ) as caught:
        alone.predict(X)
    assert pickle.loads(pickle.dumps(caught.value)).enough == enough
    assert len(alone.predict(X, mean_budget=caught.value.enough)) == len(X)


@BOTH
def test_a_word_among_numbers_makes_categories_in_every_fold(kind):
    frame, y = table()
    frame = frame[["a", "b", "kind"]].astype({"a": object})
    frame.loc[0, "a"] = "n/a"
    with pytest.warns(UserWarning, match="column 'a' holds numbers and 1 string") as said:
        model = kind(n_estimators=5, random_state=0).fit(frame, y)
    assert sum("holds numbers" in str(warning.message) for warning in said) == 1
    assert model.costly_.categories_ == model.categories_
    assert model.costly_.predict(frame).shape == model.predict(frame).shape


@BOTH
def test_a_costly_model_that_takes_no_words_has_the_column_named(kind):
    frame, y = table()
    whole = frame[["a", "kind", "text"]].dropna()
    encoded = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    for costly, columns in (
        (GaussianNB(), ["a", "text"]),
        (make_pipeline(encoded, GaussianNB()), whole.columns),
    ):
        said = r"column 'text' should hold numbers, but row (\d+) has '([xy])'; the costly model takes no strings"
        with pytest.raises(ValueError, match=said) as error:
            kind(costly, n_estimators=5, random_state=0).fit(whole[columns], y[whole.index])
        row, word = re.search(said, str(error.value)).groups()
        assert int(row) == whole.index[whole["text"] == word][0]


@BOTH
def test_words_in_columns_whose_names_are_no_text(kind):
    frame, y = table()
    named = frame[["a", "b", "kind"]]
    bare = named.set_axis(range(3), axis=1)
    settings = {
        "n_estimators": 5,
        "random_state": 0,
        **({} if kind is at.LadderClassifier else {"cost_penalty": 0.001}),
    }
    model = kind(**settings).fit(bare, y)
    assert len(set(model.predict(bare))) == 2
    assert_array_equal(model.predict_proba(bare), kind(**settings).fit(named, y).predict_proba(named))
    with pytest.raises(
        ValueError, match=r"column names are not strings.*X\.columns = X\.columns\.astype\(str\)"
    ):
        kind(svm_on_words(), **settings).fit(bare, y)


@BOTH
def test_a_class_of_too_few_rows_is_named(kind):
    X, _, _ = problem()
    y = np.array(["a"] * 9 + ["b"])
    with pytest.raises(
        ValueError, match="class 'b' has 1 row, too few for cross-validation of GradientBoostingClassifier"
    ):
        kind(n_estimators=5).fit(X[:10], y)
    with pytest.warns(UserWarning, match="10 rows are too few"):
        kind(n_estimators=5, proba_source="insample").fit(X[:10], y)


def test_gates_take_tables_that_are_not_complete():
    """A gate that lacks a column is not asked, and its rows stay with the cheap answer, as in ``predict``."""
    X, y, _ = problem()
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    for model in (
        at.AdaptiveClassifier(SVC(), **SETTINGS).fit(frame, y),
        at.LadderClassifier(SVC(), mean_budget=2.5, random_state=0).fit(frame, y),
    ):
        plan, X = model.plan_, np.ascontiguousarray(frame.to_numpy())
        assert_array_equal(model._goes_on(Rows(X), plan.n_stages - 1), model.sent(frame))
        for name in frame:
            held, rows = frame.columns != name, frame.drop(columns=name)
            run = Run(plan, X, metered=True, held=held)
            run.advance()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score, sent = model.gate_score(rows), model.sent(rows)
                without_last = model.predict(rows)
            gate = plan.passes[plan.n_stages - 1].columns()
            assert not sent.any() or held[gate].all()
            assert np.isnan(score).all() or held[plan.blocks[0].columns(0)].all() or held[gate].all()
            assert_array_equal(without_last, model._decide(run.scores()))
            if plan.n_stages == 2 and held[gate].all():
                assert_array_equal(sent, model.sent(frame))
