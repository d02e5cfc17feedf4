"""``AdaptiveClassifier``: a plan of a cheap and a costly stage with a gate between (adaptive_approximation 10-12)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import anytime as at
from anytime.adaptive import AdaptiveClassifier
from anytime.adaptive.stages import Chain
from anytime.testing import check_anytime_estimator

SMALL = {"n_estimators": 10, "max_iter": 2, "min_samples_leaf": 5, "random_state": 0}


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
        KNeighborsClassifier(), costs=costs, cost_penalty=0.01, answer_first=answer_first, **SMALL
    ).fit(X, y)
    assert model.n_stages_ == 2
    check_anytime_estimator(model, X)


# ---------------------------------------------------------------------- who answers, and who pays


def test_rows_above_the_gate_have_the_costly_answer_and_the_others_the_cheap_one():
    X, y, costs = problem()
    costly = KNeighborsClassifier().fit(X, y)
    model = AdaptiveClassifier(costly, costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
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
        cost_penalty=0.002,
        costly_columns=[0, 1, 2, 3],
        answer_first=answer_first,
        cheap="linear",
        costly_fraction=0.5,
        n_init=2,
        max_iter=10,
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
    model = AdaptiveClassifier(GaussianNB(), costs=costs, cost_penalty=0.005, **SMALL).fit(X, y)
    assert model.cost(X).max() == 8


def test_evaluation_costs_of_the_branches_are_added():
    X, y, costs = problem()
    plain, dear = (
        AdaptiveClassifier(
            GaussianNB(), costs=costs, cost_penalty=0.01, cheap_evaluation_cost=a, evaluation_cost=b, **SMALL
        ).fit(X, y)
        for a, b in ((0.0, 0.0), (0.5, 7.0))
    )
    assert_allclose(dear.cost(X) - plain.cost(X), np.where(dear.sent(X), 7.5, 0.5), atol=1e-9)


def test_expected_costs_are_what_held_out_rows_pay():
    X, y, costs = problem()
    model = AdaptiveClassifier(GaussianNB(), costs=costs, cost_penalty=0.01, **SMALL).fit(
        X[:400], y[:400], X_val=X[400:], y_val=y[400:]
    )
    assert model.expected_cost_ == pytest.approx(model.cost(X[400:]).mean())
    assert model.sent_ == pytest.approx(model.sent(X[400:]).mean())
    assert model.plan_.quality[-1] == pytest.approx(model.score(X[400:], y[400:]))


def test_without_held_out_rows_training_rows_say_how_many_are_sent():
    X, y, costs = problem()
    weight = np.arange(len(y)) % 3 + 1.0
    model = AdaptiveClassifier(
        GaussianNB(),
        costs=costs,
        cost_penalty=0.01,
        costly_fraction=0.5,
        **{**SMALL, "validation_fraction": None},
    ).fit(X, y, weight)
    assert 0 < model.sent_ < 1
    assert model.sent_ == pytest.approx(np.average(model.sent(X), weights=weight))


def test_a_gate_that_goes_by_the_margin_reads_nothing():
    X, y, costs = problem()
    learned, margin = (
        AdaptiveClassifier(KNeighborsClassifier(), costs=costs, cost_penalty=0.01, gate=gate, **SMALL).fit(
            X, y
        )
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
    model = AdaptiveClassifier(
        KNeighborsClassifier(), costs=costs, cost_penalty=0.01, gate="learned", **SMALL
    ).fit(X, y)
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
    probabilities = np.where(y[:, None] == [0, 1], 0.98, 0.02)
    for cheap in ("boost", "linear"):
        model = AdaptiveClassifier(
            probabilities,
            cheap=cheap,
            cost_penalty=0.0,
            costly_fraction=0.6,
            n_estimators=20,
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
    X, y, costs = problem(n=800)
    quick = {**SMALL, "n_estimators": 5, "max_iter": 1, "folds": None}
    models = {
        budget: AdaptiveClassifier(SVC(), costs=costs, mean_budget=budget, **quick).fit(X, y)
        for budget in (3, 10, 100)
    }
    for budget, model in models.items():
        assert model.expected_cost_ <= budget
        assert_array_equal(
            model.predict_proba(X), model.predict_proba(X, mean_budget=np.inf)
        )  # all of it is within
        assert len(model.trials_) == 18
    qualities = [model.plan_.quality[-1] for model in models.values()]
    assert qualities == sorted(qualities)
    assert qualities[-1] >= 0.85


def test_a_budget_that_buys_nothing_warns_and_gives_the_same_answer_to_all():
    X, y, costs = problem()
    with pytest.warns(UserWarning, match="costs at most 0.5"):
        model = AdaptiveClassifier(SVC(), costs=costs, mean_budget=0.5, cost_penalty=1e-4, **SMALL).fit(X, y)
    assert (model.cost(X) == 0).all()
    assert len(set(model.predict(X))) == 1


def test_thresholds_are_within_the_fraction():
    X, y, costs = problem()
    model = AdaptiveClassifier(SVC(), costs=costs, costly_fraction=0.2, cost_penalty=0.02, **SMALL).fit(X, y)
    assert model.sent_ <= 0.2
    assert model.costly_fraction_ == 0.2


def test_without_held_out_rows_the_threshold_is_zero():
    X, y, costs = problem()
    model = AdaptiveClassifier(SVC(), costs=costs, cost_penalty=0.01, validation_fraction=None, **SMALL).fit(
        X, y
    )
    assert model.threshold_ == 0
    assert model.expected_cost_ == pytest.approx(model.cost(X).mean())


def test_time_that_is_up_leaves_a_model():
    X, y, costs = problem()
    with pytest.warns(UserWarning, match="always gives the same answer; allow more time"):
        model = AdaptiveClassifier(SVC(), costs=costs, mean_budget=8, time_budget=1e-6, **SMALL).fit(X, y)
    assert len(model.trials_) == 1
    model.predict(X)


def test_features_are_computed_only_for_rows_that_need_them():
    X, y, _ = problem(n=1000)
    parts = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}
    costs = at.FeatureCosts(groups=parts, prices={"a": 1.0, "b": 2.0, "c": 3.0})
    model = AdaptiveClassifier(
        KNeighborsClassifier(), costs=costs, cost_penalty=0.01, costly_fraction=0.5, **SMALL
    ).fit(X, y)
    asked = []

    def extractor(name):
        return lambda row: asked.append(name) or row[parts[name]]

    session = at.Session(model, at.Features({name: extractor(name) for name in parts}))
    sent = model.sent(X)
    assert 0 < sent.mean() < 1
    for row in (int(np.argmax(sent)), int(np.argmin(sent))):
        asked.clear()
        answer = session.predict(X[row])
        assert answer.prediction == model.predict(X[row : row + 1])[0]
        assert answer.cost == model.cost(X[row : row + 1])[0]
        assert len(asked) == len(set(asked))
        assert (set(asked) == set(parts)) == sent[row]


@pytest.mark.parametrize(
    ("setting", "advice"),
    [({"cost_penalty": 100.0}, "lower cost_penalty"), ({"mean_budget": 0.5}, "raise mean_budget")],
)
def test_a_model_that_buys_nothing_says_so(setting, advice):
    X, y = make_classification(300, 4, n_informative=3, n_redundant=0, random_state=0)
    with pytest.warns(UserWarning, match=f"always gives the same answer; {advice}"):
        model = AdaptiveClassifier(GaussianNB(), n_estimators=5, max_iter=1, random_state=0, **setting).fit(
            X, y
        )
    assert len(set(model.predict(X))) == 1


@pytest.mark.parametrize("kind", [AdaptiveClassifier, at.LadderClassifier])
def test_class_weights_count_like_sample_weights(kind):
    X, y, costs = problem(n=200)
    settings = {"costs": costs, "n_estimators": 5, "random_state": 0}
    weighted = kind(SVC(), class_weight={0: 1, 1: 3}, **settings).fit(X, y)
    counted = kind(SVC(), **settings).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    assert_array_equal(weighted.predict_proba(X), counted.predict_proba(X))
    assert not np.array_equal(weighted.predict_proba(X), kind(SVC(), **settings).fit(X, y).predict_proba(X))
