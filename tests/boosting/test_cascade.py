"""A cascade keeps what it promises of every layer, and is read at any time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.boosting.cascade import CascadeClassifier
from anytime.costs import FeatureCosts
from anytime.plan import Plan
from anytime.rules import OutsideRule
from anytime.testing import check_anytime_estimator
from tests.runtime.bench import model_of

RANDOM = np.random.default_rng(3)
Y = (np.arange(3000) % 6 == 0).astype(int)
X = RANDOM.normal(size=(3000, 10))
X[:, :5] += 1.7 * Y[:, None]
SMALL = {"max_stages": 6, "n_estimators": 10, "random_state": 0}


@pytest.fixture(scope="module", params=[False, True], ids=["one_sided", "two_sided"])
def cascade(request):
    return CascadeClassifier(
        two_sided=request.param, validation_fraction=None, max_stages=8, n_estimators=30
    ).fit(X, Y)


# ---------------------------------------------------------------------- as an estimator


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_anytime_checks(meter):
    check_anytime_estimator(CascadeClassifier(meter=meter, evaluation_cost=0.1, **SMALL))
    costs = FeatureCosts({"a": 1.0, "b": 4.0}, groups={"a": [0, 1, 2, 3, 4], "b": [5, 6, 7, 8, 9]})
    check_anytime_estimator(
        CascadeClassifier(costs=costs, meter=meter, two_sided=True, **SMALL), X[:300], Y[:300]
    )


def test_a_cascade_is_for_two_classes():
    with pytest.raises(ValueError, match=r"Only binary classification is supported\. y has 3 classes"):
        CascadeClassifier().fit(X[:30], np.arange(30) % 3)


def test_saved_equals_loaded(cascade, tmp_path):
    cascade.save(tmp_path / "cascade.anytime")
    again = at.load(tmp_path / "cascade.anytime")
    assert_array_equal(again.decision_function(X), cascade.decision_function(X))
    assert again.plan_.stops == cascade.plan_.stops


# ---------------------------------------------------------------------- layers


def test_every_layer_keeps_the_detection_rate_and_rejects_enough(cascade):
    """Targets 0.995 and 0.5, on the rows that thresholds were set on; a layer may miss the second with all its trees."""
    answers = list(cascade.stages(X))
    sizes = np.diff(cascade.plan_.blocks[0].state()[1]["stage_start"])
    alive = np.ones(len(X), dtype=bool)
    met = 0
    for s, answer in enumerate(answers[1:]):
        positive = answer.scores[:, 0] > 0
        assert positive[alive & (Y == 1)].mean() >= 0.995
        passing = positive[alive & (Y == 0)].mean()
        assert passing <= 0.5 or sizes[s] == 30
        met += passing <= 0.5
        assert passing < 1.0
        alive &= ~cascade.plan_.stops[s].holds(X, answer.scores, None)
    assert met >= 2


def test_what_is_decided_is_final(cascade):
    """A rejected row is negative ever after, an accepted one positive; neither pays again."""
    for before, after in zip(*(list(cascade.stages(X))[i:] for i in (0, 1)), strict=False):
        if before.stage == 0:
            continue
        decided = cascade.plan_.stops[before.stage - 1].holds(X, before.scores, None)
        assert decided.any()
        assert before.scores[decided].tobytes() == after.scores[decided].tobytes()
        assert_array_equal(before.cost[decided], after.cost[decided])


def test_one_side_rejects_and_two_sides_accept_too():
    one, two = (
        CascadeClassifier(two_sided=two, max_stages=6, random_state=0).fit(X, Y) for two in (False, True)
    )
    assert all(rule.high == np.inf for rule in one.plan_.stops.values())
    assert all(rule.high < np.inf for rule in two.plan_.stops.values())
    final = two.answer(X)
    assert ((final.scores[:, 0] > 0) & (final.stage < two.n_stages_)).any()
    one_final = one.answer(X)
    assert (one_final.stage[one_final.scores[:, 0] > 0] == one.n_stages_).all()


def test_later_layers_touch_fewer_rows():
    """Fig. 6.4: the share of the rows that a stage works on never grows."""
    cascade = CascadeClassifier(max_stages=8, random_state=0).fit(X, Y)
    batch = at.BatchSession(cascade, X)
    answer = batch.advance()
    assert_array_equal(answer.scores, cascade.answer(X).scores)
    updated = np.array(batch.statistics()["updated"])
    assert updated[0] == 1.0
    assert (np.diff(updated) <= 0).all()
    assert updated[-1] < 0.5
    assert batch.statistics()["mean_cost"] == pytest.approx(cascade.cost(X).mean())


def test_quality_is_the_accuracy_of_every_prefix():
    cascade = CascadeClassifier(validation_fraction=None, max_stages=5).fit(X, Y)
    assert_allclose(cascade.plan_.quality, [(a.prediction == Y).mean() for a in cascade.stages(X)])


# ---------------------------------------------------------------------- read at any time


def test_before_anything_is_computed_errors_are_0_833_and_0_167():
    """speedboost_and_structured 6.2: of 10000 positives and 50000 negatives a cascade takes all for positive, a booster none."""
    truth = np.repeat([1, 0], [10_000, 50_000])
    rows = np.zeros((60_000, 10))
    cascade = CascadeClassifier(**SMALL).fit(X, Y)
    assert (cascade.predict(rows, budget=0) != truth).mean() == 50_000 / 60_000
    booster = Plan(blocks=[], costs=FeatureCosts([1.0] * 10).bind(10), base=[0.0], link="half_logistic")
    assert (model_of(booster).predict(rows) != truth).mean() == 10_000 / 60_000


def test_a_row_that_is_not_ruled_out_yet_counts_as_positive():
    cascade = CascadeClassifier(meter="realised", **SMALL).fit(X, Y)
    full = cascade.answer(X)
    for budget in (0.0, 1.0, 2.0, 3.0):
        answer = cascade.answer(X, budget=budget)
        rejected = answer.scores[:, 0] <= 0
        assert (full.scores[rejected, 0] <= 0).all()
        assert (answer.prediction[~rejected] == 1).all()
        assert answer.cost.max() <= budget


def test_nothing_to_tell_apart_is_all_positive():
    """Where no feature helps, no layer is built: nothing is ever ruled out."""
    cascade = CascadeClassifier(**SMALL).fit(np.ones((60, 2)), np.arange(60) % 2)
    assert cascade.n_stages_ == 0
    assert cascade.predict(np.ones((3, 2))).tolist() == [1, 1, 1]


def test_an_interval_decides_at_its_ends():
    """A score of exactly 0 is negative, so it is rejected."""
    rule = OutsideRule(0.0, 2.0)
    scores = np.array([[-1.0], [0.0], [1e-300], [1.9], [2.0], [np.nan]])
    assert rule.holds(scores, scores, None).tolist() == [True, True, False, False, True, True]
