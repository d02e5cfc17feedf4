"""``AdaptiveClassifier``: a plan of a cheap and a costly stage with a gate between (adaptive_approximation 10-12)."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
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
from anytime.testing import check_anytime_estimator
from anytime.trees.block import TreeBlock

SMALL = {"n_trees": 10, "max_iter": 2, "min_rows": 5, "random_state": 0}


def problem(n_classes=2, n=500, seed=0):
    X, y = make_classification(
        n, 8, n_informative=6, n_redundant=0, n_classes=n_classes, n_clusters_per_class=2, random_state=seed
    )
    return X, y, at.FeatureCosts([1, 2, 3, 1, 2, 3, 1, 2])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("answer_first", [True, False])
def test_invariants_of_anytime_prediction(n_classes, answer_first):
    X, y, costs = problem(n_classes)
    model = AdaptiveClassifier(
        KNeighborsClassifier(), costs=costs, gamma=0.01, answer_first=answer_first, **SMALL
    ).fit(X, y)
    assert model.n_stages_ == 2
    failed = check_anytime_estimator(model, X, on_fail=None)
    by_parameter = "a_pickled_model_answers_alike"  # the budget of the constructor is one for training
    assert [name for name, error in failed if error is not None and name != by_parameter] == []
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


# ---------------------------------------------------------------------- who answers, and who pays


def test_rows_above_the_gate_have_the_costly_answer_and_the_others_the_cheap_one():
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = AdaptiveClassifier(costly, costs=costs, gamma=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    assert_array_equal(sent, model.gate_score(X) > 0)
    assert_allclose(model.predict_proba(X)[sent], np.clip(costly.predict_proba(X)[sent], 1e-12, 1), atol=1e-9)
    cheap = model.truncate(float(model.plan_.expected_costs[0])).predict_proba(X)
    assert_array_equal(model.predict_proba(X)[~sent], cheap[~sent])
    assert model.cost(X)[~sent].max() < model.cost(X)[sent].min() == 15


def groups_of(block, costs):
    return set(costs.bind(8).groups_of(block.columns(0)).tolist())


@pytest.mark.parametrize("answer_first", [True, False])
def test_union_is_counted_once_and_the_costly_branch_does_not_pay_for_the_cheap_model(answer_first):
    """Section 11; with the cheap answer first, every row pays for it."""
    X, y, costs = problem()
    model = AdaptiveClassifier(
        KNeighborsClassifier(),
        costs=costs,
        gamma=0.002,
        costly_columns=[0, 1, 2, 3],
        answer_first=answer_first,
        cheap="linear",
        costly_fraction=0.5,
        random_state=3,
    ).fit(X, y)
    gate, cheap, last = model.plan_.passes[1].block, *model.plan_.blocks
    prices = np.array([1, 2, 3, 1, 2, 3, 1, 2])
    first = groups_of(gate, costs) | groups_of(cheap, costs)
    beyond = groups_of(gate, costs) | groups_of(last, costs) | (first if answer_first else set())
    assert first - groups_of(last, costs)  # else nothing is tested
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    expected = np.where(sent, prices[sorted(beyond)].sum(), prices[sorted(first)].sum())
    assert_array_equal(model.cost(X), expected)


def test_a_group_is_paid_once_by_gate_cheap_and_costly():
    X, y, _ = problem()
    costs = at.FeatureCosts(
        groups={"left": [0, 1, 2, 3], "right": [4, 5, 6, 7]}, prices={"left": 3.0, "right": 5.0}
    )
    model = AdaptiveClassifier(GaussianNB(), costs=costs, gamma=0.005, **SMALL).fit(X, y)
    assert model.cost(X).max() == 8


def test_evaluation_costs_of_the_branches_are_added():
    X, y, costs = problem()
    plain, dear = (
        AdaptiveClassifier(GaussianNB(), costs=costs, gamma=0.01, cheap_cost=a, costly_cost=b, **SMALL).fit(
            X, y
        )
        for a, b in ((0.0, 0.0), (0.5, 7.0))
    )
    assert_allclose(dear.cost(X) - plain.cost(X), np.where(dear.sent(X), 7.5, 0.5), atol=1e-9)


def test_expected_costs_are_what_held_out_rows_pay():
    X, y, costs = problem()
    model = AdaptiveClassifier(GaussianNB(), costs=costs, gamma=0.01, **SMALL).fit(
        X[:400], y[:400], X_val=X[400:], y_val=y[400:]
    )
    assert model.expected_cost_ == pytest.approx(model.cost(X[400:]).mean())
    assert model.sent_ == pytest.approx(model.sent(X[400:]).mean())
    assert model.plan_.quality[-1] == pytest.approx(model.score(X[400:], y[400:]))


def test_a_gate_that_goes_by_the_margin_reads_nothing():
    X, y, costs = problem()
    learned, margin = (
        AdaptiveClassifier(KNeighborsClassifier(), costs=costs, gamma=0.01, gate=gate, **SMALL).fit(X, y)
        for gate in ("learned", "margin")
    )
    assert (learned.doubt_, margin.doubt_) == (0, np.inf)
    rule = margin.plan_.passes[1]
    assert rule.columns().size == 0
    scores = margin.plan_.blocks[0].outputs(0, X)
    assert_allclose(margin.gate_score(X), -np.abs(scores[:, 0]) - rule.threshold)
    assert 0 < margin.sent(X).mean() < 1
    assert np.abs(scores[margin.sent(X), 0]).max() < np.abs(scores[~margin.sent(X), 0]).min()
    alone = margin.truncate(float(margin.plan_.expected_costs[0]))
    assert_array_equal(margin.cost(X)[~margin.sent(X)], alone.cost(X)[~margin.sent(X)])


@pytest.mark.parametrize("doubt", [0.0, 0.7])
def test_doubt_is_taken_off_the_gate(doubt):
    X, y, costs = problem()
    model = AdaptiveClassifier(KNeighborsClassifier(), costs=costs, gamma=0.01, gate="learned", **SMALL).fit(
        X, y
    )
    chain = Chain.of(model.plan_)
    model.plan_ = chain.at(-0.8, doubt).plan(model.plan_.costs, model.plan_.base, model.plan_.link)
    model.meter = "model"
    first = chain.exits[0]
    margin = np.abs(first.cheap.outputs(0, X)[:, 0])
    on = first.gate.outputs(0, X)[:, 0] - doubt * margin > -0.8
    assert_array_equal(model.sent(X), on)
    cheap = at.losses.LINKS["logistic"].transform(first.cheap.outputs(0, X))
    assert_allclose(model.predict_proba(X)[~on], cheap[~on], atol=1e-12)
    assert (model.cost(X)[on] == 15).all()


def test_an_obviously_hard_row_goes_to_the_costly_model():
    """Section 0: a gate's score above 0 means the costly model, in every family."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (1500, 2))
    easy = X[:, 0] > 0
    y = np.where(easy, X[:, 1] > 0, random.random(1500) > 0.5).astype(
        int
    )  # half of it is noise, which the costly model knows
    chances = np.where(y[:, None] == [0, 1], 0.98, 0.02)
    for cheap in ("boost", "linear", "lstsq"):
        model = AdaptiveClassifier(
            chances,
            cheap=cheap,
            gamma=0.0,
            costly_fraction=0.6,
            n_trees=20,
            max_depth=2,
            max_iter=10,
            n_init=1,
            gate="learned",
            random_state=0,
        ).fit(X, y)
        score = model.gate_score(X)
        assert score[~easy].mean() > score[easy].mean(), cheap
        assert model.sent(X)[~easy].mean() > model.sent(X)[easy].mean() + 0.2, cheap


# ---------------------------------------------------------------------- budgets


def test_a_budget_is_kept_on_held_out_rows_and_more_of_it_is_no_worse():
    X, y, costs = problem(n=1500)
    models = {
        budget: AdaptiveClassifier(SVC(), costs=costs, budget=budget, **SMALL).fit(X, y)
        for budget in (3, 8, 15)
    }
    for budget, model in models.items():
        assert model.expected_cost_ <= budget
        assert len(model.trials_) == 18
    qualities = [model.plan_.quality[-1] for model in models.values()]
    assert qualities == sorted(qualities)
    assert qualities[-1] >= 0.9
    everything = AdaptiveClassifier(SVC(), costs=costs, budget=100, **SMALL).fit(X, y)
    assert everything.plan_.quality[-1] >= qualities[-1]


def test_a_budget_that_buys_nothing_warns_and_gives_the_same_answer_to_all():
    X, y, costs = problem()
    with pytest.warns(UserWarning, match="costs at most 0.5"):
        model = AdaptiveClassifier(SVC(), costs=costs, budget=0.5, gamma=1e-4, **SMALL).fit(X, y)
    assert (model.cost(X) == 0).all()
    assert len(set(model.predict(X))) == 1


def test_thresholds_are_within_the_fraction():
    X, y, costs = problem()
    model = AdaptiveClassifier(SVC(), costs=costs, costly_fraction=0.2, gamma=0.02, **SMALL).fit(X, y)
    assert model.sent_ <= 0.2
    assert model.costly_fraction_ == 0.2


def test_without_held_out_rows_the_threshold_is_zero():
    X, y, costs = problem()
    model = AdaptiveClassifier(SVC(), costs=costs, gamma=0.01, validation_fraction=None, **SMALL).fit(X, y)
    assert model.threshold_ == 0
    assert model.expected_cost_ == pytest.approx(model.cost(X).mean())


def test_time_that_is_up_leaves_a_model():
    X, y, costs = problem()
    model = AdaptiveClassifier(SVC(), costs=costs, budget=8, time_budget=1e-6, **SMALL).fit(X, y)
    assert len(model.trials_) == 1
    model.predict(X)


# ---------------------------------------------------------------------- costly models of all kinds


def test_chances_given_instead_of_a_model_are_enough_to_learn_and_attach_gives_the_model():
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = AdaptiveClassifier(costly.predict_proba(X), costs=costs, gamma=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    model.predict(X[~sent])
    with pytest.raises(DetachedModelError, match="'given chances' is not attached"):
        model.predict(X)
    model.attach(costly)
    frozen = AdaptiveClassifier(FrozenEstimator(costly), costs=costs, gamma=0.01, **SMALL).fit(X, y)
    assert_array_equal(model.predict_proba(X), frozen.predict_proba(X))


def test_another_model_cannot_be_attached_in_its_place():
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = AdaptiveClassifier(costly, costs=costs, gamma=0.01, **SMALL).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="is not the costly model 'KNeighborsClassifier'"):
        model.attach(LogisticRegression().fit(X, y))
    assert_array_equal(model.attach(costly.predict_proba).predict_proba(X), before)


@pytest.mark.parametrize("costly", [SVC(), RidgeClassifier(), SVC(decision_function_shape="ovo")])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_without_chances_are_calibrated(costly, n_classes):
    X, y, costs = problem(n_classes)
    model = AdaptiveClassifier(costly, costs=costs, gamma=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    agreement = np.mean(model.predict(X)[sent] == model.costly_.predict(X)[sent])
    assert agreement > 0.9
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_a_model_that_only_votes():
    class Voter(GaussianNB):
        predict_proba = property()

    X, y, costs = problem()
    model = AdaptiveClassifier(Voter(), costs=costs, gamma=0.01, **SMALL).fit(X, y)
    sent = model.sent(X)
    assert_array_equal(model.predict(X)[sent], model.costly_.predict(X)[sent])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_forest_goes_into_the_plan_and_rows_pay_for_their_paths(n_classes):
    X, y, costs = problem(n_classes)
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    model = AdaptiveClassifier(forest, costs=costs, gamma=0.02, costly_proba="insample", **SMALL).fit(X, y)
    assert isinstance(model.plan_.blocks[1], TreeBlock)
    sent = model.sent(X)
    assert_array_equal(model.predict(X)[sent], forest.predict(X)[sent])
    assert len(set(model.cost(X)[sent])) > 2
    whole = AdaptiveClassifier(forest.predict_proba, costs=costs, gamma=0.02, **SMALL).fit(X, y)
    assert set(whole.cost(X)[whole.sent(X)]) == {15.0}


def test_boosted_trees_go_into_the_plan_exactly():
    X, y, costs = problem()
    boosted = at.GradientBoostingClassifier(n_stages=20).fit(X, y)
    model = AdaptiveClassifier(boosted, costs=costs, gamma=0.02, costly_proba="insample", **SMALL).fit(X, y)
    assert isinstance(model.plan_.blocks[1], TreeBlock)
    sent = model.sent(X)
    assert_allclose(model.predict_proba(X)[sent], boosted.predict_proba(X)[sent], atol=1e-9)


def test_out_of_bag_chances_are_used_where_a_forest_has_them():
    X, y, costs = problem()
    forest = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y)
    model = AdaptiveClassifier(forest, costs=costs, gamma=0.02, **SMALL).fit(X, y)
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
        AdaptiveClassifier(nearest, costs=costs, gamma=0.02, costly_proba=source, **SMALL).fit(X, y)
        for source in ("crossval", "insample")
    )
    assert vain.terms_.losses < honest.terms_.losses
    with pytest.raises(ValueError, match="no out-of-bag chances"):
        AdaptiveClassifier(nearest, costly_proba="oob", **SMALL).fit(X, y)


def test_tables_with_names_and_categories_reach_the_costly_model_as_they_are():
    X, y, _ = problem()
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    table["kind"] = pd.Categorical(np.where(X[:, 0] > 0, "high", "low"))
    costly = at.GradientBoostingClassifier(n_stages=10)
    model = AdaptiveClassifier(costly, gamma=0.01, **SMALL).fit(table, y)
    sent = model.sent(table)
    assert_allclose(model.predict_proba(table)[sent], model.costly_.predict_proba(table)[sent], atol=1e-9)
    named = AdaptiveClassifier(GaussianNB(), costly_columns=["a", "b"], gamma=0.01, **SMALL).fit(table, y)
    assert list(named.costly_.feature_names_in_) == ["a", "b"]
    named.predict(table)


def test_a_clone_of_an_unfitted_costly_model_learns_the_same():
    X, y, costs = problem()
    model = AdaptiveClassifier(RandomForestClassifier(20), costs=costs, gamma=0.02, **SMALL).fit(X, y)
    again = clone(model).fit(X, y)
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert not hasattr(model.costly, "estimators_")  # the parameter is as it was
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


def test_labels_may_be_text_and_rows_may_weigh_nothing():
    X, y, costs = problem(3)
    labels = np.array(["red", "green", "blue"])[y]
    weight = np.ones(len(y))
    weight[::7] = 0
    chances = GaussianNB().fit(X, labels).predict_proba(X)
    model = AdaptiveClassifier(chances, costs=costs, gamma=0.02, **SMALL).fit(X, labels, sample_weight=weight)
    kept = weight > 0
    bare = AdaptiveClassifier(chances[kept], costs=costs, gamma=0.02, **SMALL).fit(X[kept], labels[kept])
    assert_allclose(model.gate_score(X), bare.gate_score(X), atol=1e-9)


def test_what_makes_no_sense_is_refused():
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"have shape \(3, 2\), but X and y ask for \(500, 2\)"):
        AdaptiveClassifier(np.full((3, 2), 0.5), **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="knows the classes"):
        AdaptiveClassifier(GaussianNB().fit(X, y + 5), **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="X_val and y_val together"):
        AdaptiveClassifier(GaussianNB(), **SMALL).fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="names column 9"):
        AdaptiveClassifier(GaussianNB(), costly_columns=[9], **SMALL).fit(X, y)


# ---------------------------------------------------------------------- several gates


def test_a_second_gate_that_keeps_nobody_adds_its_own_features_to_the_bill_and_nothing_else():
    """Section 10, testable."""
    X, y, costs = problem(n=1000)
    forest = RandomForestClassifier(5, max_depth=5, random_state=0)  # whose paths leave columns unread
    inner = AdaptiveClassifier(forest, costs=costs, gamma=0.05, answer_first=False, **SMALL).fit(X, y)
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
    inner = AdaptiveClassifier(KNeighborsClassifier(), costs=costs, gamma=0.01, **SMALL).fit(X, y)
    outer = AdaptiveClassifier(inner, costs=costs, gamma=0.05, costly_fraction=0.6, **SMALL).fit(X, y)
    assert outer.n_stages_ == 3
    assert outer.cost(X).max() <= 15
    sent = outer.sent(X)
    assert 0 < sent.mean() < 1
    assert_array_equal(outer.predict_proba(X)[sent], inner.predict_proba(X)[sent])
    first = outer.truncate(float(outer.plan_.expected_costs[0]))
    assert first.n_stages_ == 1
    assert_array_equal(outer.predict_proba(X)[~sent], first.predict_proba(X)[~sent])


def test_features_are_computed_only_for_rows_that_need_them():
    X, y, _ = problem(n=1000)
    parts = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}
    costs = at.FeatureCosts(groups=parts, prices={"a": 1.0, "b": 2.0, "c": 3.0})
    model = AdaptiveClassifier(
        KNeighborsClassifier(), costs=costs, gamma=0.04, costly_fraction=0.5, **SMALL
    ).fit(X, y)
    asked = []

    def extractor(name):
        return lambda row: asked.append(name) or row[parts[name]]

    session = at.Session(model, at.Features({name: extractor(name) for name in parts}))
    sent = model.sent(X)
    for row in (int(np.argmax(sent)), int(np.argmin(sent))):
        asked.clear()
        answer = session.predict(X[row])
        assert answer.prediction == model.predict(X[row : row + 1])[0]
        assert answer.cost == model.cost(X[row : row + 1])[0]
        assert len(asked) == len(set(asked))
        assert (set(asked) == set(parts)) == sent[row]
