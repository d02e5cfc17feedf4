"""An ``AdaptiveClassifier`` in a file: the costly model is inside where it is made of trees, and given again where it is not."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import anytime as at
from anytime.adaptive import DetachedModelError
from anytime.trees.block import TreeBlock
from tests.adaptive.test_adaptive_classifier import SMALL, problem


class Voter(GaussianNB):
    predict_proba = property()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.anytime"


@pytest.mark.parametrize("costly", [KNeighborsClassifier(), SVC(), RidgeClassifier(), Voter()])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_costly_model_is_given_again(path, costly, n_classes):
    X, y, costs = problem(n_classes)
    model = at.AdaptiveClassifier(costly, costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    assert 0 < model.sent(X).mean() < 1
    model.save(path)
    name = type(costly).__name__
    bare = at.load(path)
    assert (model.detached_, bare.detached_) == (None, name)
    assert not hasattr(bare, "costly_")
    whole = at.load(path, costly=model.costly_)
    assert whole.detached_ is None
    assert_array_equal(whole.predict_proba(X), model.predict_proba(X))
    assert_array_equal(whole.cost(X), model.cost(X))
    assert_array_equal(bare.attach(model.costly_).predict_proba(X), model.predict_proba(X))
    bare.save(path)  # a file of a file
    assert_array_equal(at.load(path, costly=model.costly_).predict_proba(X), model.predict_proba(X))


def test_without_the_costly_model_rows_that_stay_are_answered_and_others_raise(path):
    X, y, costs = problem()
    model = at.AdaptiveClassifier(SVC(), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    model.save(path)
    bare, sent = at.load(path), model.sent(X)
    assert_array_equal(bare.sent(X), sent)
    assert_array_equal(bare.predict_proba(X[~sent]), model.predict_proba(X[~sent]))
    with pytest.raises(DetachedModelError, match=r"'SVC' is not attached.*load\(path, costly=model\)"):
        bare.predict(X)
    assert_array_equal(bare.cost(X), model.cost(X))
    budget = float(bare.plan_.expected_costs[0])  # enough for the cheap model, not for the costly one
    assert_array_equal(bare.predict_proba(X, mean_budget=budget), model.predict_proba(X, mean_budget=budget))
    small = bare.truncate(mean_budget=budget)
    assert (small.n_stages_, small.detached_) == (1, None)
    small.save(path)
    assert_array_equal(at.load(path).predict(X), model.truncate(mean_budget=budget).predict(X))


def test_another_model_is_refused_at_load(path):
    X, y, costs = problem()
    fit = at.AdaptiveClassifier(SVC(), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    fit.save(path)
    with pytest.raises(ValueError, match=r"not the costly model 'SVC' .* of 32 probe rows"):
        at.load(path, costly=SVC(C=0.1).fit(X, y))
    with pytest.raises(TypeError, match="KNeighborsClassifier has no decision_function"):
        at.load(path, costly=KNeighborsClassifier().fit(X, y))
    with pytest.raises(ValueError, match=r"trained on the classes \[5, 6\]"):
        at.load(path, costly=SVC().fit(X, y + 5))
    at.GradientBoostingClassifier(n_estimators=2).fit(X, y).save(path)
    with pytest.raises(TypeError, match="a GradientBoostingClassifier, which has no costly model"):
        at.load(path, costly=SVC().fit(X, y))


def test_models_that_agree_on_all_training_rows_are_told_apart(path):
    X, y, costs = problem()
    nearest = KNeighborsClassifier(1).fit(X, y)
    tree = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)).fit(X, y)
    assert_array_equal(nearest.predict_proba(X), tree.predict_proba(X))
    at.AdaptiveClassifier(nearest, costs=costs, cost_penalty=0.01, **SMALL).fit(X, y).save(path)
    with pytest.raises(ValueError, match="is not the costly model 'KNeighborsClassifier'"):
        at.load(path, costly=tree)
    at.load(path, costly=nearest)


def test_a_costly_model_of_trees_is_in_the_file(path):
    X, y, costs = problem()
    model = at.AdaptiveClassifier(costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    model.save(path)
    loaded = at.load(path)
    assert loaded.detached_ is None
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="nothing to attach"):
        at.load(path, costly=model.costly_)


def words(n=500):
    X, y, _ = problem(n=n)
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    table["kind"] = pd.Categorical(np.where(X[:, 0] > 0.5, "high", np.where(X[:, 0] < -0.5, "low", "mid")))
    table.loc[::9, "kind"] = None
    table.loc[::7, "b"] = np.nan
    return table, np.array(["no", "yes"])[y]


def test_trees_that_read_words_are_in_the_file_too(path):
    table, y = words()
    model = at.AdaptiveClassifier(cost_penalty=0.001, costly_fraction=0.5, **SMALL).fit(table, y)
    assert isinstance(model.plan_.blocks[-1], TreeBlock)
    sent = model.sent(table)
    assert 0 < sent.mean() < 1
    assert_allclose(model.predict_proba(table)[sent], model.costly_.predict_proba(table)[sent], atol=1e-9)
    model.save(path)
    assert_array_equal(at.load(path).predict_proba(table), model.predict_proba(table))


def test_a_model_of_another_library_gets_its_table_back(path):
    """Names, words and missing values, in the order of the columns that it takes."""
    lightgbm = pytest.importorskip("lightgbm")
    table, y = words()
    booster = lightgbm.LGBMClassifier(n_estimators=5, random_state=0, verbosity=-1, n_jobs=1)
    model = at.AdaptiveClassifier(
        booster, costly_columns=["kind", "c", "a", "b"], cost_penalty=0.001, costly_fraction=0.5, **SMALL
    ).fit(table, y)
    assert model.costly_.feature_name_ == ["kind", "c", "a", "b"]
    sent = model.sent(table)
    assert 0 < sent.mean() < 1
    asked = model.costly_.predict_proba(table[["kind", "c", "a", "b"]])
    assert_allclose(model.predict_proba(table)[sent], asked[sent], atol=1e-9)
    model.save(path)
    loaded = at.load(path, costly=model.costly_)
    assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))


def test_what_was_given_as_chances_is_not_in_the_file(path):
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = at.AdaptiveClassifier(costly.predict_proba(X), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    model.save(path)
    found = at.files.describe(path)
    assert "costly" in found["unsaved"]
    assert not any(
        name.startswith("values.") and array["shape"] == [500, 2] for name, array in found["arrays"].items()
    )
    loaded = at.load(path)
    assert loaded.detached_ == "given probabilities"
    sent = loaded.sent(X)
    answers = loaded.attach(costly).predict_proba(X)
    assert_allclose(answers[sent], np.clip(costly.predict_proba(X)[sent], 1e-12, 1), atol=1e-9)


def test_the_first_model_after_given_chances_is_remembered(path):
    X, y, costs = problem()
    costly, other = (KNeighborsClassifier(k).fit(X, y) for k in (5, 3))
    model = at.AdaptiveClassifier(costly.predict_proba(X), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    model.save(path)
    loaded = at.load(path, costly=costly)  # nothing is known of what it has to say
    for known in (model.attach(costly), loaded):
        with pytest.raises(ValueError, match="is not the costly model 'KNeighborsClassifier'"):
            known.attach(other)
        known.save(path)
        assert at.load(path).detached_ == "KNeighborsClassifier"
        with pytest.raises(ValueError, match="is not the costly model 'KNeighborsClassifier'"):
            at.load(path, costly=other)
        assert_array_equal(at.load(path, costly=costly).predict_proba(X), model.predict_proba(X))


def test_probe_rows_have_values_and_words_that_the_model_has_met(path):
    """A pipeline that refuses other words, and a model that reads one column per word."""
    table, y = words()
    kind = table["kind"].cat.add_categories("none").fillna("none")
    table = table.assign(kind=kind, b=table["b"].fillna(0.0))
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="error"), ["kind"]), remainder="passthrough"
    )
    hot = pd.get_dummies(table, columns=["kind"], dtype=float)
    for rows, costly in ((table, make_pipeline(encoder, KNeighborsClassifier())), (hot, SVC())):
        model = at.AdaptiveClassifier(costly, cost_penalty=0.001, costly_fraction=0.5, **SMALL).fit(rows, y)
        model.save(path)
        assert_array_equal(at.load(path, costly=model.costly_).predict_proba(rows), model.predict_proba(rows))
        probe, numbers = model.plan_.blocks[-1].probe, model._matrix(rows)
        assert all(np.isin(probe[:, j], numbers[:, j]).all() for j in range(numbers.shape[1]))
        assert not (probe[:, None] == numbers).all(axis=2).any()


def test_a_chain_of_three_models_is_given_its_last(path):
    X, y, costs = problem(n=1000)
    inner = at.AdaptiveClassifier(KNeighborsClassifier(), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    outer = at.AdaptiveClassifier(inner, costs=costs, cost_penalty=0.05, costly_fraction=0.6, **SMALL).fit(
        X, y
    )
    assert outer.n_stages_ == 3
    outer.save(path)
    loaded = at.load(path, costly=inner.costly_)
    assert_array_equal(loaded.predict_proba(X), outer.predict_proba(X))
    assert_array_equal(loaded.cost(X), outer.cost(X))


def test_a_session_goes_on_with_a_model_that_was_given_at_load(path):
    X, y, _ = problem()
    parts = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}
    costs = at.FeatureCosts(groups=parts, prices={"a": 1.0, "b": 2.0, "c": 3.0})
    model = at.AdaptiveClassifier(SVC(), costs=costs, cost_penalty=0.04, costly_fraction=0.5, **SMALL).fit(
        X, y
    )
    model.save(path)
    features = at.Features(
        {name: lambda row, columns=columns: row[columns] for name, columns in parts.items()}
    )
    session = at.Session(at.load(path, costly=model.costly_), features)
    sent = model.sent(X)
    for row in (int(np.argmax(sent)), int(np.argmin(sent))):
        assert session.predict(X[row]).prediction == model.predict(X[row : row + 1])[0]
    lost = at.Session(at.load(path), features)
    assert lost.predict(X[int(np.argmin(sent))]).complete
    with pytest.raises(DetachedModelError):
        lost.predict(X[int(np.argmax(sent))])


def test_a_frozen_model_survives_clone_and_pickle(path):
    from pickle import dumps, loads

    from sklearn.base import clone

    X, y, costs = problem()
    frozen = FrozenEstimator(SVC().fit(X, y))
    model = at.AdaptiveClassifier(frozen, costs=costs, cost_penalty=0.01, **SMALL)
    first, second = model.fit(X, y).predict_proba(X), clone(model).fit(X, y).predict_proba(X)
    assert_array_equal(first, second)
    assert_array_equal(loads(dumps(model)).predict_proba(X), first)
    model.save(path)
    assert_array_equal(at.load(path, costly=frozen.estimator).predict_proba(X), first)
