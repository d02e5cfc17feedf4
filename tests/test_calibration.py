"""Confidence that means it: calibrated probabilities, stops that keep their promise, conformal sets and intervals."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks._fuzz_cases import Parts, fitted, packed
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import anytime as at
from anytime.blocks import LinearBlock
from anytime.calibration import LEVELS, Calibration, fitted_power, ranked_quantiles, stopping_thresholds
from anytime.export import ExportError
from anytime.files import BadFileError
from anytime.plan import Plan
from anytime.rules import LikelyRule
from tests.export.helpers import answers, needs_compiler, written
from tests.runtime.bench import model_of
from tests.strategies import plans

BOASTING = 6.0  # times the scores that would be right
MEANS = np.random.default_rng(0).normal(size=(3, 7))  # of the columns in each class


def drawn(n, seed):
    """Rows of three classes; every column tells them apart a little."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    return random.normal(size=(n, 7)) + MEANS[y], y


def boasting(meter="model", **more):
    """Three stages that read 1, 3 and all 7 columns; the best linear scores, times ``BOASTING``."""
    blocks = []
    for width in (1, 3, 7):
        means = MEANS[:, :width]
        blocks.append(
            LinearBlock(
                np.arange(width), BOASTING * means.T, intercepts=-BOASTING * (means**2).sum(axis=1)[None] / 2
            )
        )
    plan = Plan(
        blocks=blocks,
        costs=at.FeatureCosts(np.ones(7)).bind(7),
        base=np.zeros(3),
        link="softmax",
        replaces=np.ones(3, dtype=bool),
        **more,
    )
    return fitted(at.AnytimeClassifier, plan, np.arange(3), meter=meter)


def uncalibrated(model):
    other = copy.copy(model)
    other.plan_ = replace(model.plan_, calibration=None)
    return other


@pytest.fixture(scope="module")
def calibrated():
    return boasting().calibrate(*drawn(3000, seed=1))


TEST_ROWS = drawn(4000, seed=2)


# ---------------------------------------------------------------------- golden cases


def test_quantiles_are_those_of_split_conformal_prediction():
    """Spec 4: scores 0.1, ..., 0.9: 0.8 at coverage 0.8, 0.9 at 0.9, all labels beyond."""
    quantiles = dict(zip(LEVELS.tolist(), ranked_quantiles(np.arange(1, 10) / 10), strict=True))
    assert (quantiles[0.8], quantiles[0.9], quantiles[0.95]) == (0.8, 0.9, np.inf)


def test_a_power_undoes_what_scores_were_multiplied_by():
    random = np.random.default_rng(0)
    scores = random.normal(size=(20_000, 3))
    honest = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    codes = (random.random(20_000)[:, None] > honest.cumsum(axis=1)).sum(axis=1)
    louder = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    power, floor = fitted_power(louder, codes)
    assert power == pytest.approx([1 / 3] * 3, abs=0.03)
    assert_allclose(Calibration.scaled(louder, power, floor), honest, atol=0.03)


def test_impossible_classes_become_possible():
    """Forests of few trees say 0 and 1: no power changes that, a floor does."""
    said, right = np.tile([[1.0, 0.0]], (200, 1)), np.arange(200) % 10 == 0
    power, floor = fitted_power(said, right)
    assert Calibration.scaled(said[:1], power, floor)[0, 1] == pytest.approx(0.1, abs=0.02)


def test_few_rows_promise_little():
    """One more row is taken to be wrong: 9 of 9 rows right are enough for 0.9, and not for 0.91."""
    enough = stopping_thresholds(np.full((1, 9), 0.8), np.ones((1, 9)), [1])[0]
    assert np.isfinite(enough[LEVELS <= 0.9]).all()
    assert np.isinf(enough[LEVELS > 0.9]).all()


def test_rows_stop_at_the_first_stage_that_is_sure_enough():
    """A row counts where it stops, not where it would have been right later."""
    sure = np.array([[0.9] * 40 + [0.2] * 40, [0.95] * 80])
    right = np.array([[False] * 80, [True] * 80])
    enough, early = stopping_thresholds(sure, right, [2, 1])
    # at 0.95 all stop at the second stage and are right; at 0.9 half of them stop before, and are wrong
    assert 0.9 < enough[LEVELS == 0.95][0] < 0.95
    assert enough[LEVELS == 0.475][0] < 0.9
    # whoever may not go on to the second stage has no threshold, as rows that stop at the first are wrong; that of both stages
    # would have let them
    assert np.isinf(early).all()
    assert enough[LEVELS == 0.4][0] <= sure[0].max()


# ---------------------------------------------------------------------- what is promised, by simulation


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
def test_of_rows_that_stop_the_share_asked_for_is_right(calibrated, confidence):
    X, y = TEST_ROWS

    def share_right(model):
        answer = at.BatchSession(model, X, confidence=confidence).advance()
        early = answer.stage < 3
        assert early.sum() > 300
        return np.mean((answer.prediction == y)[early])

    assert share_right(calibrated) == pytest.approx(confidence, abs=0.03)
    # the same scores taken at their word: what is claimed with 0.9 is right far less often
    assert share_right(uncalibrated(calibrated)) < confidence - 0.1


@pytest.mark.parametrize("confidence", [0.8, 0.9])
def test_the_promise_of_a_confidence_holds_within_a_budget_and_after_truncate(calibrated, confidence):
    """Fewer stages, other rows that stop: a threshold of their own."""
    X, y = TEST_ROWS
    budget = float(calibrated.stage_costs_[1])

    def share_right(model, **bounds):
        answer = at.BatchSession(model, X, confidence=confidence, **bounds).advance()
        early = answer.stage < 2
        assert early.sum() > 100
        return np.mean((answer.prediction == y)[early])

    within = share_right(calibrated, budget=budget)
    assert within == pytest.approx(confidence, abs=0.03)
    assert share_right(calibrated.truncate(budget)) == within


def test_probabilities_are_right_as_often_as_they_say(calibrated):
    X, y = TEST_ROWS
    for budget in (1, 3, 7):
        honest, boast = (m.predict_proba(X, budget=budget) for m in (calibrated, uncalibrated(calibrated)))
        right = honest.argmax(axis=1) == y
        assert_array_equal(honest.argmax(axis=1), boast.argmax(axis=1))
        assert honest.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.03)
        assert boast.max(axis=1).mean() > right.mean() + 0.05


def test_coverage_holds_at_every_stage_on_average_over_draws():
    """60 draws of 40 held-out rows: the mean coverage is the one asked for, within three standard errors."""
    X, y = drawn(400, seed=3)
    shares = []
    for seed in range(60):
        model = boasting().calibrate(*drawn(40, seed=100 + seed))
        shares.append(
            [
                model.predict_set(X, 0.9, budget, allow_empty=True)[np.arange(400), y].mean()
                for budget in (0, 1, 3, 7)
            ]
        )
    # exactly ceil(41 * 0.9) / 41 on average; at budget 0 all classes are alike, and all are in the set
    error = np.std(shares, axis=0) / np.sqrt(60) + np.sqrt(0.09 / 400)
    assert (np.abs(np.mean(shares, axis=0) - [1.0, 37 / 41, 37 / 41, 37 / 41]) <= 3 * error).all()


def test_sets_of_scores_taken_at_their_word_do_not_cover(calibrated):
    """Negative control: labels up to a summed probability of 0.9, by the raw scores."""
    X, y = TEST_ROWS
    said = uncalibrated(calibrated).predict_proba(X, budget=3)
    order = np.argsort(-said, axis=1)
    before = np.cumsum(np.take_along_axis(said, order, axis=1), axis=1) - np.take_along_axis(
        said, order, axis=1
    )
    covered = ((order == y[:, None]) & (before < 0.9)).any(axis=1)
    assert covered.mean() < 0.85
    assert calibrated.predict_set(X, 0.9, 3)[np.arange(len(y)), y].mean() == pytest.approx(0.9, abs=0.02)


def test_sets_shrink_with_money_and_grow_with_coverage(calibrated):
    X, _ = TEST_ROWS
    sizes = [calibrated.predict_set(X, 0.9, budget).sum(axis=1).mean() for budget in (0, 1, 3, 7)]
    assert sizes == sorted(sizes, reverse=True)
    assert (calibrated.predict_set(X, 0.9) <= calibrated.predict_set(X, 0.95)).all()
    assert calibrated.predict_set(X, 0.1).any(axis=1).all()
    assert not calibrated.predict_set(X, 0.1, allow_empty=True).any(axis=1).all()


def test_every_row_has_the_set_of_its_own_budget(calibrated):
    X, budgets = TEST_ROWS[0][:40], np.resize([0, 1, 3, 7], 40)
    together = calibrated.predict_set(X, 0.9, budgets)
    for row, budget in enumerate(budgets):
        assert_array_equal(together[row], calibrated.predict_set(X[[row]], 0.9, budget)[0])


def test_intervals_cover_and_shrink_with_money():
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 3))
    y = X @ [1.0, 2.0, 3.0] + random.normal(size=6000)
    model = at.GroupPursuitRegressor().fit(X[:1000], y[:1000]).calibrate(X[1000:3000], y[1000:3000])
    widths = []
    for budget in model.stage_costs_:
        low, high = model.predict_interval(X[3000:], 0.9, budget).T
        assert np.mean((low <= y[3000:]) & (y[3000:] <= high)) == pytest.approx(0.9, abs=0.025)
        assert_allclose((low + high) / 2, model.predict(X[3000:], budget=budget))
        widths.append((high - low).mean())
    assert widths == sorted(widths, reverse=True)


def test_rows_that_pay_for_their_own_paths_are_covered_at_every_budget():
    """A budget by realised cost ends rows after different stages: quantiles belong to the budget."""
    X, y, costs = at.datasets.load("digits")
    train, rest = train_test_split(np.arange(len(X)), test_size=0.6, random_state=0)
    held, test = rest[::2], rest[1::2]
    forest = at.make_anytime(
        RandomForestClassifier(20, max_depth=6, random_state=0).fit(X[train], y[train]), costs=costs
    ).set_params(meter="realised")
    forest.calibrate(X[held], y[held])
    for budget in (45, 50, 55):
        assert len(np.unique(forest.answer(X[test], budget=budget).stage)) > 2
        covered = forest.predict_set(X[test], 0.9, budget)[np.arange(len(test)), y[test]].mean()
        assert 0.85 < covered < 0.96
    small = forest.truncate(50)
    assert_array_equal(small.predict_set(X[test], 0.9), forest.predict_set(X[test], 0.9, 50))
    with pytest.raises(ValueError, match="is not calibrated"):
        forest.set_params(meter="model").predict_set(X)


def test_sets_do_not_depend_on_powers_that_were_fitted_to_the_same_rows(calibrated):
    """Ranks of calibrated probabilities would: with few held-out rows they cover less than they promise."""
    X = TEST_ROWS[0]
    learned = calibrated.plan_.calibration
    other = copy.copy(calibrated)
    other.plan_ = replace(
        calibrated.plan_,
        calibration=replace(learned, power=learned.power * [0.2, 1, 5], floor=learned.floor + 0.1),
    )
    assert np.abs(other.predict_proba(X) - calibrated.predict_proba(X)).max() > 0.1
    for budget in (1, 3, 7):
        assert_array_equal(other.predict_set(X, 0.9, budget), calibrated.predict_set(X, 0.9, budget))


def one_column_after_another(n_stages):
    """Scores of two classes that every stage replaces; the stages between knots are worse than those at knots."""
    random = np.random.default_rng(0)
    signs = np.where(np.arange(n_stages) % 2 == 0, 1.0, -1.0)[:, None]
    blocks = [LinearBlock([0], random.uniform(1, 3) * sign * np.ones((1, 1))) for sign in signs]
    plan = Plan(
        blocks=blocks,
        costs=at.FeatureCosts(np.ones(1)).bind(1),
        base=np.zeros(1),
        link="logistic",
        evaluation_costs=np.ones(n_stages),
        replaces=np.ones(n_stages, dtype=bool),
    )
    return fitted(at.AnytimeClassifier, plan, np.arange(2), meter="model")


def test_coverage_is_kept_between_the_stages_that_quantiles_are_kept_for():
    """Every other stage is wrong wherever its neighbours are right: the quantile of an earlier stage would not cover it."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 1200)
    X = (2.0 * y - 1 + random.normal(size=1200))[:, None]
    model = one_column_after_another(100).calibrate(X[:600], y[:600])
    assert len(model.plan_.calibration.reach) < 70
    for stage, cost in enumerate([0.0, *model.stage_costs_]):
        inside = model.predict_set(X[600:], 0.9, cost)
        assert inside[np.arange(600), y[600:]].mean() > 0.85, stage


def test_budgets_between_those_of_quantiles_are_covered(monkeypatch):
    X, y = drawn(2000, seed=9)
    monkeypatch.setattr("anytime.calibrated._BUDGETS", 2)
    few = boasting(meter="realised").calibrate(X[:1000], y[:1000]).plan_.calibration
    monkeypatch.undo()
    each = boasting(meter="realised").calibrate(X[:1000], y[:1000]).plan_.calibration
    assert len(few.reach) < len(each.reach)
    assert (few.quantile(each.reach, 0.9) >= each.quantile(each.reach, 0.9)).all()
    assert (
        each.quantile(few.reach, 0.9) < few.quantile(few.reach, 0.9)
    ).any()  # which alone would not be enough


def test_calibrating_again_chooses_the_stops_of_a_mean_budget_again():
    once = boasting().calibrate(*drawn(600, seed=1))
    table = once.plan_.stop_table
    again = once.calibrate(*drawn(600, seed=2)).plan_.stop_table
    assert again is not table
    assert_array_equal(again.margins, boasting().calibrate(*drawn(600, seed=2)).plan_.stop_table.margins)


# ---------------------------------------------------------------------- one calibration, wherever a model is run


def test_all_who_run_a_model_have_the_same_probabilities_and_stops(calibrated, tmp_path):
    X = TEST_ROWS[0][:60]
    answer = at.BatchSession(calibrated, X, confidence=0.9).advance()
    session = at.Session(calibrated)
    one_by_one = [session.predict(x, confidence=0.9) for x in X]
    assert [a.stage for a in one_by_one] == answer.stage.tolist()
    assert_allclose([a.probabilities for a in one_by_one], answer.probabilities)
    for stage, prefix in enumerate(calibrated.stages(X)):
        budget = [0.0, *calibrated.stage_costs_][stage]
        assert_array_equal(prefix.probabilities, calibrated.predict_proba(X, budget=budget))
    calibrated.save(tmp_path / "model.anytime")
    for other in (at.load(tmp_path / "model.anytime"), pickle.loads(pickle.dumps(calibrated))):
        assert_array_equal(other.predict_proba(X, budget=3), calibrated.predict_proba(X, budget=3))
        assert_array_equal(other.predict_set(X, 0.9, 3), calibrated.predict_set(X, 0.9, 3))
        assert_array_equal(at.BatchSession(other, X, confidence=0.9).advance().stage, answer.stage)
    small = calibrated.truncate(budget=3)
    assert_array_equal(small.predict_proba(X), calibrated.predict_proba(X, budget=3))
    assert_array_equal(small.predict_set(X, 0.9), calibrated.predict_set(X, 0.9, 3))


def test_a_model_cut_to_a_mean_has_no_sets_until_it_is_calibrated_anew(calibrated):
    X, y = TEST_ROWS
    cut = calibrated.truncate(mean_budget=3.0)
    assert cut.predict_set(X, 0.8).all()
    cut.calibrate(*drawn(1000, seed=6))
    assert cut.predict_set(X, 0.8)[np.arange(len(y)), y].mean() == pytest.approx(0.8, abs=0.04)


def test_forests_look_ahead_for_calibrated_confidence():
    """A session works many stages of a forest out at once; it stops where the engine does."""
    X, y, costs = at.datasets.load("breast_cancer")
    forest = RandomForestClassifier(30, max_depth=3, random_state=0).fit(X[::3], y[::3])
    model = at.make_anytime(forest, costs=costs).calibrate(X[1::3], y[1::3])
    session, rows = at.Session(model), np.asarray(X[2::3])[:40]
    batch = at.BatchSession(model, rows, confidence=0.96).advance()
    assert [session.predict(x, confidence=0.96).stage for x in rows] == batch.stage.tolist()
    assert len(np.unique(batch.stage)) > 1


def test_sure_rows_leave_early_for_a_mean_budget(calibrated):
    """Before it was calibrated, all rows of a mean budget went equally far."""
    X, y = TEST_ROWS
    means = [calibrated.cost(X, mean_budget=mean).mean() for mean in (2.0, 4.0)]
    assert means == pytest.approx([2.0, 4.0], rel=0.05)
    assert calibrated.score(X, y, mean_budget=4.0) > boasting().score(X, y, mean_budget=4.0)


def test_branches_have_a_calibration_of_their_own():
    X, y, costs = at.datasets.load("breast_cancer")
    model = at.SpeedBoostClassifier(
        costs=costs, n_estimators=20, max_stages=4, calibration="auto", random_state=0
    ).fit(X, y)
    assert model.plan_.branches
    for branch in model.plan_.branches:
        budget = branch.stage_costs[-1]
        answer = model.answer(X, budget=budget)
        assert_array_equal(answer.probabilities, model.predict_proba(X, budget=budget))
        assert model.predict_set(X, 0.9, budget).any(axis=1).all()
    budgets = np.resize([b.stage_costs[-1] for b in model.plan_.branches] + [0.0, 100.0], len(X))
    assert_array_equal(model.answer(X, budget=budgets).probabilities, model.predict_proba(X, budget=budgets))


def test_exports_have_calibrated_probabilities(calibrated):
    X = TEST_ROWS[0][:50]
    found = answers(calibrated.to_onnx(budgets=[1, None]), X, "probability_1", "probability_all")
    assert_allclose(found["probability_1"], calibrated.predict_proba(X, budget=1), rtol=1e-12)
    assert_allclose(found["probability_all"], calibrated.predict_proba(X), rtol=1e-12)


@needs_compiler
def test_headers_have_calibrated_probabilities_after_every_stage(calibrated, tmp_path):
    X = np.ascontiguousarray(TEST_ROWS[0][:50])
    header = written(calibrated, tmp_path)
    for stage, prefix in enumerate(calibrated.stages(X)):
        assert_allclose(header.interrupted(X, stage)[0], prefix.probabilities, rtol=1e-12)


def test_an_export_that_would_not_know_the_stage_is_refused(calibrated):
    stopping = calibrated.truncate(mean_budget=3.0)
    assert stopping.plan_.stops
    with pytest.raises(ExportError, match="the last stage that worked on each row"):
        stopping.to_onnx()


# ---------------------------------------------------------------------- learning it


@pytest.mark.parametrize(
    "model",
    [
        at.GradientBoostingClassifier(n_estimators=5, random_state=0),
        at.GroupPursuitClassifier(random_state=0),
        at.BudgetForestClassifier(n_estimators=4, alphas=[0, 2], random_state=0),
        at.CascadeClassifier(max_stages=4, n_estimators=5, random_state=0),
        at.SubmodularTreeClassifier(max_stages=2),
        at.GradientBoostingRegressor(n_estimators=5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_auto_holds_rows_out_of_training(model):
    X, y, costs = at.datasets.load("breast_cancer")
    model.set_params(costs=costs, calibration="auto").fit(X, y)
    assert model.plan_.calibration is not None
    assert (model.plan_.calibration.quantiles < np.inf).any()
    weighted = (
        model.fit(X, y) if isinstance(model, at.CascadeClassifier) else model.fit(X, y, np.ones(len(y)))
    )
    assert weighted.plan_.calibration.n_stages == weighted.n_stages_


def test_sets_cover_at_budgets_that_rows_with_plenty_of_money_never_stop_at():
    """With money the dear column comes first; rows that have less buy others, and other scores than these set no threshold."""
    random = np.random.default_rng(0)
    y = (random.random(2400) < 0.08).astype(int)
    X = random.normal(size=(2400, 4)) + np.outer(y, [0.8, 0.8, 0.8, 4.0])
    settings = {"hidden_layer_sizes": (8, 8), "folds": 2, "look_ahead": 0, "random_state": 0}
    model = at.AcquisitionClassifier(costs=[1.0, 1.0, 1.0, 6.0], calibration="auto", **settings)
    model.fit(X[:900], y[:900])
    assert model.cost(X, budget=7).min() >= 6
    for budget in (1, 2, 3, 5):
        inside = model.predict_set(X[900:], 0.9, budget, allow_empty=True)
        assert inside[np.arange(1500), y[900:]].mean() > 0.85


@pytest.mark.parametrize("kind", [at.MarginAcquisitionClassifier, at.AcquisitionClassifier])
def test_the_confidence_of_a_constructor_keeps_its_promise(kind, tmp_path):
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 3300)
    X = random.normal(size=(3300, 4)) + 1.1 * y[:, None]
    small = {"hidden_layer_sizes": (16, 8), "folds": 2} if kind is at.AcquisitionClassifier else {}
    model = (
        kind(confidence=0.85, random_state=0, **small)
        .fit(X[:300], y[:300])
        .calibrate(X[300:1800], y[300:1800])
    )
    assert {type(rule) for rule in model.plan_.stops.values()} == {LikelyRule}
    answer = model.answer(X[1800:])
    early = answer.stage < model.n_stages_
    assert early.mean() > 0.5
    assert np.mean((answer.prediction == y[1800:])[early]) == pytest.approx(0.85, abs=0.04)
    # the rule leaves 15 % of them wrong: sets have the quantiles of rows that stop by it
    assert model.predict_set(X[1800:], 0.95)[np.arange(1500), y[1800:]].mean() == pytest.approx(
        0.95, abs=0.03
    )
    model.save(tmp_path / "model.anytime")
    assert_array_equal(at.load(tmp_path / "model.anytime").predict_proba(X), model.predict_proba(X))
    again = copy.copy(model).calibrate(X[300:1800], y[300:1800])  # once more, from the plan without stops
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@given(plan=plans(), seed=st.integers(0, 100))
def test_calibrating_never_changes_an_answer(plan, seed):
    model = model_of(plan)
    random = np.random.default_rng(seed)
    X = random.normal(size=(30, plan.n_features))
    y = model.classes_[random.integers(0, len(model.classes_), 30)]
    before = [answer.prediction for answer in model.stages(X)]
    after = copy.copy(model).calibrate(X, y)
    assert_array_equal([answer.prediction for answer in after.stages(X)], before)
    said = after.predict_proba(X)
    assert_allclose(said.sum(axis=1), 1.0)
    assert ((said >= 0) & (said <= 1)).all()


def test_classes_are_known_by_their_labels():
    X, y = drawn(300, seed=5)
    model, words = boasting(), np.array(["a", "b", "c"])
    model.classes_ = words
    by_words = copy.copy(model).calibrate(X, words[y])
    assert_array_equal(by_words.predict_proba(X), boasting().calibrate(X, y).predict_proba(X))


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 7)), [0, 1, 7], "is not one of the classes"),
        (np.zeros((3, 7)), [0, 1], "inconsistent numbers of samples"),
        (np.zeros((3, 5)), [0, 1, 2], "features"),
        (np.zeros((0, 7)), [], "sample|no held-out rows"),
    ],
)
def test_rows_that_teach_nothing_are_refused_and_change_nothing(X, y, message):
    model = boasting()
    with pytest.raises(ValueError, match=message):
        model.calibrate(X, y)
    assert model.plan_.calibration is None


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, np.nan, "0.9", None, True])
def test_a_coverage_is_a_share(calibrated, coverage):
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        calibrated.predict_set(TEST_ROWS[0], coverage)


def test_sets_need_held_out_rows_and_a_budget_of_each_row(calibrated):
    with pytest.raises(ValueError, match="call calibrate"):
        boasting().predict_set(TEST_ROWS[0])
    bounded = copy.copy(calibrated)
    bounded.mean_budget = 3.0
    with pytest.raises(ValueError, match="coverage cannot be promised for a mean budget"):
        bounded.predict_set(TEST_ROWS[0])
    assert bounded.predict_set(TEST_ROWS[0], budget=3).any()


def test_a_coverage_beyond_what_rows_can_tell_is_everything(calibrated):
    few = boasting().calibrate(*drawn(10, seed=0))
    assert few.predict_set(TEST_ROWS[0], 0.95).all()
    assert calibrated.predict_set(TEST_ROWS[0], 0.99999).all()
    never = at.BatchSession(few, TEST_ROWS[0][:50], confidence=0.99).advance()
    assert (never.stage == 3).all()


def test_auto_says_where_rows_are_too_few():
    with pytest.raises(ValueError, match="there are only 10"):
        at.GradientBoostingClassifier(calibration="auto").fit(np.eye(10), np.arange(10) % 2)
    with pytest.raises(ValueError, match="calibration"):
        at.GradientBoostingClassifier(calibration="platt").fit(np.eye(40), np.arange(40) % 2)


def test_auto_says_where_classes_have_too_few_rows():
    with pytest.raises(ValueError, match="there are only 0 rows of classes that have 5"):
        at.GradientBoostingClassifier(calibration="auto").fit(np.eye(40), np.arange(40) % 20)


def test_auto_refuses_to_go_on_with_rows_it_has_held_out():
    """Every fit draws anew: the second would calibrate on rows that the first was trained on."""
    X, y = drawn(100, seed=0)
    with pytest.raises(ValueError, match="cannot be combined: every fit holds out other rows"):
        at.SpeedBoostClassifier(calibration="auto", warm_start=True).fit(X, y)


def test_auto_takes_a_column_of_labels_and_refuses_several_targets_before_training():
    X, y = drawn(100, seed=0)
    model = at.GroupPursuitRegressor(calibration="auto", random_state=0)
    with pytest.raises(ValueError, match="supports one target"):
        model.fit(X, np.stack([y, y], axis=1))
    assert not hasattr(model, "plan_")
    with pytest.warns(UserWarning, match="column-vector"):
        column = copy.copy(model).fit(X, y[:, None].astype(float))
    assert_array_equal(column.predict_interval(X), model.fit(X, y.astype(float)).predict_interval(X))
    classifier = at.GroupPursuitClassifier(calibration="auto", random_state=0)
    with pytest.warns(UserWarning, match="column-vector"):
        assert classifier.fit(X, y[:, None]).predict_set(X).any()


def test_auto_holds_out_no_row_without_weight(monkeypatch):
    X, y = drawn(200, seed=0)
    weight = (np.arange(200) % 2).astype(float)
    held = []
    monkeypatch.setattr(at.GroupPursuitClassifier, "calibrate", lambda self, X, y: held.append(X) or self)
    at.GroupPursuitClassifier(calibration="auto", random_state=0).fit(X, y, weight)
    assert len(held[0]) == 20
    assert np.isin(held[0][:, 0], X[1::2, 0]).all()


def test_levels_are_those_that_were_calibrated(calibrated, monkeypatch):
    """A file keeps its levels: another version that has others reads it as it was written."""
    content = packed(calibrated)
    assert_array_equal(Parts(content).arrays["plan.calibration.levels"], LEVELS)
    monkeypatch.setattr("anytime.calibration.LEVELS", np.array([0.5, 0.9]))
    again = at.load(io.BytesIO(content))
    assert_array_equal(again.predict_set(TEST_ROWS[0], 0.8, 3), calibrated.predict_set(TEST_ROWS[0], 0.8, 3))


def test_a_calibration_of_another_plan_is_refused(calibrated):
    learned = calibrated.plan_.calibration
    with pytest.raises(ValueError, match="for 2 stages, but the plan has 3"):
        replace(calibrated.plan_, calibration=learned.head(2))
    with pytest.raises(ValueError, match="for 2 classes, but the plan has 3"):
        replace(calibrated.plan_, calibration=replace(learned, power=learned.power[:, :2]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"power": np.zeros((4, 3))}, "positive"),
        ({"power": np.full((4, 3), np.nan)}, "finite"),
        ({"power": np.ones(4)}, "powers and a floor"),
        ({"floor": np.full(4, -1.0)}, "not negative"),
        ({"floor": np.zeros(3)}, "powers and a floor"),
        ({"stop_thresholds": np.full(LEVELS.size, np.nan)}, "thresholds"),
        ({"stop_thresholds": np.zeros(3)}, "thresholds"),
        ({"stop_stages": np.array([1, 2, 3, 4])}, "start at 0"),
        ({"levels": LEVELS[::-1]}, "levels of coverage must increase"),
        ({"reach": np.array([1, 2, 3, 4])}, "start at 0"),
        ({"reach": np.array([0, 2, 2, 3])}, "increase"),
        ({"quantiles": np.full((4, LEVELS.size), np.nan)}, "quantiles"),
        ({"quantiles": np.zeros((4, 3))}, "quantiles"),
    ],
)
def test_a_calibration_that_makes_no_sense_is_refused(calibrated, change, message):
    with pytest.raises(ValueError, match=message):
        replace(calibrated.plan_.calibration, **change)


def test_a_file_with_a_damaged_calibration_is_refused(calibrated):
    for name, change, message in (
        ("power", np.zeros_like, "powers of probabilities"),
        ("reach", np.ones_like, "start at 0"),
        ("quantiles", lambda a: a[:, :5], "quantiles must be"),
        ("stop_thresholds", lambda a: -a, "thresholds for stopping"),
    ):
        parts = Parts(packed(calibrated))
        parts.arrays[f"plan.calibration.{name}"] = change(parts.arrays[f"plan.calibration.{name}"])
        with pytest.raises(BadFileError, match=message):
            at.load(io.BytesIO(parts.assembled()))


def test_a_stream_is_calibrated_as_it_stands(tmp_path):
    X, y = drawn(400, seed=4)
    stream = at.StreamingBoostClassifier(n_estimators=4, random_state=0).fit(X[:200], y[:200])
    with pytest.raises(TypeError, match="keeps learning"):
        stream.calibrate(X[200:], y[200:])
    stream.save(tmp_path / "stream.anytime", learning=False)
    frozen = at.load(tmp_path / "stream.anytime").calibrate(X[200:], y[200:])
    assert frozen.predict_set(X, 0.9).any(axis=1).all()


def test_calibrating_ends_in_time_too(monkeypatch):
    """With a tenth of a second for each row, 200 rows would take twice as long as training may."""
    now, calibrate = [0.0], at.GradientBoostingClassifier.calibrate

    def slowly(self, X, y):
        now[0] += 0.1 * len(X)
        return calibrate(self, X, y)

    monkeypatch.setattr("anytime.calibrated.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(at.GradientBoostingClassifier, "calibrate", slowly)
    X = np.random.default_rng(0).normal(size=(1000, 3))
    y = X.sum(axis=1) > 0
    settings = {"n_estimators": 5, "calibration": "auto", "random_state": 0}
    with pytest.warns(UserWarning, match=r"left time to calibrate on \d+ of 200 held-out rows"):
        at.GradientBoostingClassifier(time_budget=10, **settings).fit(X, y)
    assert now[0] <= 1.1 * 10 + 1
    whole, free = (
        at.GradientBoostingClassifier(time_budget=time_budget, **settings).fit(X, y)
        for time_budget in (1000, None)
    )
    assert_array_equal(whole.predict_proba(X), free.predict_proba(X))
