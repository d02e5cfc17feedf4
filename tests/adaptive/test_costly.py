"""Costly models of all kinds behind a gate, and gates behind gates (adaptive_approximation 4, 10)."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import anytime as at
from anytime.adaptive import AdaptiveClassifier, DetachedModelError
from anytime.adaptive.stages import Chain, Exit
from anytime.blocks import LinearBlock
from anytime.trees.block import TreeBlock
from tests.adaptive.test_adaptive_classifier import SMALL, problem


def test_chances_given_instead_of_a_model_are_enough_to_learn_and_attach_gives_the_model():
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = AdaptiveClassifier(costly.predict_proba(X), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    model.predict(X[~sent])
    with pytest.raises(DetachedModelError, match="'given probabilities' is not attached"):
        model.predict(X)
    model.attach(costly)
    frozen = AdaptiveClassifier(FrozenEstimator(costly), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    assert_array_equal(model.predict_proba(X), frozen.predict_proba(X))


def test_another_model_cannot_be_attached_in_its_place():
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = AdaptiveClassifier(costly, costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="is not the costly model 'KNeighborsClassifier'"):
        model.attach(LogisticRegression().fit(X, y))
    assert_array_equal(model.attach(costly.predict_proba).predict_proba(X), before)


@pytest.mark.parametrize("costly", [SVC(), RidgeClassifier(), SVC(decision_function_shape="ovo")])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_without_chances_are_calibrated(costly, n_classes):
    X, y, costs = problem(n_classes)
    model = AdaptiveClassifier(costly, costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    agreement = np.mean(model.predict(X)[sent] == model.costly_.predict(X)[sent])
    assert agreement > 0.9
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_a_model_that_only_votes():
    class Voter(GaussianNB):
        predict_proba = property()

    X, y, costs = problem()
    model = AdaptiveClassifier(Voter(), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    assert_array_equal(model.predict(X)[sent], model.costly_.predict(X)[sent])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_forest_goes_into_the_plan_and_rows_pay_for_their_paths(n_classes):
    X, y, costs = problem(n_classes)
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    model = AdaptiveClassifier(forest, costs=costs, cost_penalty=0.02, proba_source="insample", **SMALL).fit(
        X, y
    )
    assert isinstance(model.plan_.blocks[1], TreeBlock)
    sent = model.sent(X)
    assert_array_equal(model.predict(X)[sent], forest.predict(X)[sent])
    assert len(set(model.cost(X)[sent])) > 2
    whole = AdaptiveClassifier(forest.predict_proba, costs=costs, cost_penalty=0.02, **SMALL).fit(X, y)
    assert set(whole.cost(X)[whole.sent(X)]) == {15.0}


def test_boosted_trees_go_into_the_plan_exactly():
    X, y, costs = problem()
    boosted = at.GradientBoostingClassifier(n_estimators=20).fit(X, y)
    model = AdaptiveClassifier(boosted, costs=costs, cost_penalty=0.02, proba_source="insample", **SMALL).fit(
        X, y
    )
    assert isinstance(model.plan_.blocks[1], TreeBlock)
    sent = model.sent(X)
    assert_allclose(model.predict_proba(X)[sent], boosted.predict_proba(X)[sent], atol=1e-9)


def test_out_of_bag_chances_are_used_where_a_forest_has_them():
    X, y, costs = problem()
    forest = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y)
    model = AdaptiveClassifier(forest, costs=costs, cost_penalty=0.02, **SMALL).fit(X, y)
    sent = model.sent(X)
    honest = model.honest_proba_[sent].argmax(axis=1)
    assert_array_equal(honest, forest.oob_decision_function_[sent].argmax(axis=1))
    assert (
        np.mean(honest == y[sent]) < forest.score(X[sent], y[sent]) - 0.05
    )  # what it says of its own rows is too good


def test_chances_from_folds_are_humbler_than_those_of_training_rows():
    X, y, costs = problem()
    nearest = KNeighborsClassifier(1)
    honest, vain = (
        AdaptiveClassifier(nearest, costs=costs, cost_penalty=0.02, proba_source=source, **SMALL).fit(X, y)
        for source in ("crossval", "insample")
    )
    assert vain.terms_.losses < honest.terms_.losses
    with pytest.raises(ValueError, match="no out-of-bag probabilities"):
        AdaptiveClassifier(nearest, proba_source="oob", **SMALL).fit(X, y)


@pytest.mark.parametrize("fitted", [True, False])
def test_given_chances_are_learned_from_though_the_model_has_none_itself(fitted):
    X, y, costs = problem()
    svm, probabilities = SVC(), np.where(y[:, None] == [0, 1], 0.9, 0.1)
    svm = svm.fit(X, y) if fitted else svm
    model = AdaptiveClassifier(svm, costs=costs, cost_penalty=0.01, **SMALL).fit(
        X, y, costly_proba=probabilities
    )
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    assert_allclose(model.honest_proba_[sent], probabilities[sent])
    assert model.plan_.blocks[-1].method == "decision_function"
    decision = model.costly_.decision_function(X)[sent]
    asked = model.predict_proba(X)[sent, 1]
    assert (np.diff(asked[np.argsort(decision)]) > 0).all()


def test_tables_with_names_and_categories_reach_the_costly_model_as_they_are():
    X, y, _ = problem()
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    table["kind"] = pd.Categorical(np.where(X[:, 0] > 0, "high", "low"))
    costly = at.GradientBoostingClassifier(n_estimators=10)
    model = AdaptiveClassifier(costly, cost_penalty=0.01, **SMALL).fit(table, y)
    sent = model.sent(table)
    assert_allclose(model.predict_proba(table)[sent], model.costly_.predict_proba(table)[sent], atol=1e-9)
    named = AdaptiveClassifier(GaussianNB(), costly_columns=["a", "b"], cost_penalty=0.01, **SMALL).fit(
        table, y
    )
    assert list(named.costly_.feature_names_in_) == ["a", "b"]
    named.predict(table)


def test_a_clone_of_an_unfitted_costly_model_learns_the_same():
    X, y, costs = problem()
    model = AdaptiveClassifier(RandomForestClassifier(20), costs=costs, cost_penalty=0.02, **SMALL).fit(X, y)
    again = clone(model).fit(X, y)
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert not hasattr(model.costly, "estimators_")  # the parameter is as it was
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


def test_labels_may_be_text_and_rows_may_weigh_nothing():
    X, y, costs = problem(3)
    labels = np.array(["red", "green", "blue"])[y]
    weight = np.ones(len(y))
    weight[::7] = 0
    probabilities = GaussianNB().fit(X, labels).predict_proba(X)
    model = AdaptiveClassifier(probabilities, costs=costs, cost_penalty=0.02, **SMALL).fit(
        X, labels, sample_weight=weight
    )
    kept = weight > 0
    bare = AdaptiveClassifier(probabilities[kept], costs=costs, cost_penalty=0.02, **SMALL).fit(
        X[kept], labels[kept]
    )
    assert_allclose(model.gate_score(X), bare.gate_score(X), atol=1e-9)


def test_what_makes_no_sense_is_refused():
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"have shape \(3, 2\), but need \(500, 2\)"):
        AdaptiveClassifier(np.full((3, 2), 0.5), **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="trained on the classes"):
        AdaptiveClassifier(GaussianNB().fit(X, y + 5), **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="X_val and y_val together"):
        AdaptiveClassifier(GaussianNB(), **SMALL).fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="X_val needs a costly model that can predict"):
        AdaptiveClassifier(np.full((500, 2), 0.5), **SMALL).fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="names column 9"):
        AdaptiveClassifier(GaussianNB(), costly_columns=[9], **SMALL).fit(X, y)


# ---------------------------------------------------------------------- several gates


def test_a_second_gate_that_keeps_nobody_adds_its_own_features_to_the_bill_and_nothing_else():
    """Section 10, testable."""
    X, y, costs = problem(n=1000)
    forest = RandomForestClassifier(5, max_depth=5, random_state=0)  # whose paths leave columns unread
    inner = AdaptiveClassifier(forest, costs=costs, cost_penalty=0.05, answer_first=False, **SMALL).fit(X, y)
    assert inner.n_stages_ == 2
    gate, cheap = LinearBlock([4, 6], np.ones((2, 1))), LinearBlock([7], np.ones((1, 1)))
    known = Chain.of(inner.plan_)
    plan = Chain([Exit(cheap, gate, -np.inf), *known.exits], known.last, answer_first=False).plan(
        inner.plan_.costs, inner.plan_.base, inner.plan_.link
    )
    outer = copy.copy(inner)
    outer.plan_, outer.meter = plan, "model"
    assert_array_equal(outer.predict_proba(X), inner.predict_proba(X))
    paid = [set(inner.answer(X[i : i + 1]).groups) for i in range(60)]
    extra = [costs.price({"x4", "x6"} | bought) - costs.price(bought) for bought in paid]
    assert min(extra) < max(extra) == 3
    assert_allclose(outer.cost(X[:60]) - inner.cost(X[:60]), extra)
    found = Chain.of(plan)
    assert len(found.exits) == 2
    assert not found.answer_first


def test_a_chain_pays_for_a_union():
    X, y, costs = problem(n=1000)
    inner = AdaptiveClassifier(KNeighborsClassifier(), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    outer = AdaptiveClassifier(inner, costs=costs, cost_penalty=0.05, costly_fraction=0.6, **SMALL).fit(X, y)
    assert outer.n_stages_ == 3
    assert outer.cost(X).max() <= 15
    sent = outer.sent(X)
    assert 0 < sent.mean() < 1
    assert_array_equal(outer.predict_proba(X)[sent], inner.predict_proba(X)[sent])
    first = outer.predict_proba(X, mean_budget=float(outer.plan_.expected_costs[0]))
    assert_array_equal(outer.predict_proba(X)[~sent], first[~sent])


class Service:
    """What answers with probabilities and does nothing else: neither fit nor predict."""

    def __init__(self, model):
        self._model, self.classes_ = model, model.classes_[::-1]

    def predict_proba(self, X):
        return self._model.predict_proba(X)[:, ::-1]


@pytest.mark.parametrize("kind", [at.AdaptiveClassifier, at.LadderClassifier])
@pytest.mark.parametrize("wrapped", ["object", "function"])
def test_what_has_only_predict_proba_and_classes_can_be_costly(kind, wrapped):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X.sum(axis=1) > 0, "yes", "no")
    model = LogisticRegression().fit(X[:100], y[:100])
    costly = Service(model) if wrapped == "object" else model.predict_proba
    gate = kind(costly, costs=[0, 1, 1], evaluation_cost=5.0, n_estimators=5, random_state=0).fit(
        X[100:], y[100:]
    )
    every = kind(costly, evaluation_cost=5.0, n_estimators=5, random_state=0, **(
        {"tolerance": 0.0} if kind is at.LadderClassifier else {"costly_fraction": 1.0, "gate": "learned"}
    )).fit(X[100:], y[100:])  # fmt: skip
    assert gate.score(X, y) > 0.8
    sent = every.sent(X)
    assert sent.any()
    np.testing.assert_allclose(every.predict_proba(X)[sent], model.predict_proba(X)[sent])
    assert (every.cost(X)[sent] >= 5).all()


def test_an_object_of_other_classes_is_refused():
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    model = LogisticRegression().fit(X, y + 5)
    with pytest.raises(ValueError, match="trained on the classes"):
        at.AdaptiveClassifier(Service(model)).fit(X, y)
