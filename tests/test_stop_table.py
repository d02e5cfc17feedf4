"""Mean budgets for which sure rows leave early: a plan's table of stops, in every way that models are run."""

from __future__ import annotations

import copy
import io
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._fuzz_cases import Parts, fitted, packed
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.batch_means import spend_by_table
from anytime.blocks import LinearBlock
from anytime.engine import Run
from anytime.export import ExportError
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import MarginRule, StopTable
from anytime.serve.pace import StagePace, checkpoints_of
from anytime.serve.policy import Adaptive
from anytime.stopping import exits_taken, stop_table
from tests.runtime.bench import ROWS, model_of
from tests.serve.virtual import VirtualEngine, replay
from tests.strategies import plans


@pytest.fixture(scope="module")
def data():
    """Rows of three classes; every column tells them apart a little."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 1200)
    return random.normal(size=(1200, 7)) + 0.9 * np.eye(3)[y][:, [0, 1, 2, 0, 1, 2, 0]], y


@pytest.fixture(scope="module")
def model(data):
    """Three stages that read 1, 3 and all 7 columns and replace each other; half of the rows say when to leave."""
    X, y = data
    blocks = []
    for width in (1, 3, 7):
        solution = np.linalg.lstsq(np.c_[X[:400, :width], np.ones(400)], 6 * np.eye(3)[y[:400]], rcond=None)[
            0
        ]
        blocks.append(LinearBlock(np.arange(width), solution[:-1], intercepts=solution[-1:]))
    plan = Plan(
        blocks=blocks,
        costs=at.FeatureCosts(np.ones(7)).bind(7),
        base=np.zeros(3),
        link="softmax",
        replaces=np.ones(3, dtype=bool),
    )
    scores = np.array([block.outputs(0, X[:600]) for block in blocks])
    link = LINKS["softmax"]
    table = stop_table(
        [link.transform(s).max(axis=1) for s in scores], [link.margin(s) for s in scores], plan.stage_costs
    )
    return fitted(at.AnytimeClassifier, replace(plan, stop_table=table), np.arange(3), meter="model")


def without_table(model):
    other = copy.copy(model)
    other.plan_ = replace(model.plan_, stop_table=None)
    return other


# ---------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("mean", [1.5, 2.0, 3.0, 4.0, 5.5])
def test_rows_pay_the_mean_and_are_right_more_often_than_rows_that_all_go_equally_far(model, data, mean):
    X, y = data[0][600:], data[1][600:]
    answer = model.answer(X, mean_budget=mean)
    assert 0.99 * mean < answer.cost.mean() <= mean
    assert len(np.unique(answer.stage)) > 1
    together = without_table(model)
    assert len(np.unique(together.answer(X, mean_budget=mean).stage)) == 1
    assert np.mean(answer.prediction == y) > together.score(X, y, mean_budget=mean)


@pytest.mark.parametrize("rows", [slice(600, 607), slice(600, 1200)])
@pytest.mark.parametrize("meter", ["model", "realised"])
def test_rows_of_a_call_never_pay_more_than_the_mean_allows(model, data, meter, rows):
    """Rows are not those of the table: by its margins alone half of such calls would pay more."""
    X, metered = data[0][rows], copy.copy(model).set_params(meter=meter)
    means = np.linspace(1.0, 7.0, 13)
    spent = np.array([metered.cost(X, mean_budget=mean).sum() for mean in means])
    dearest_step = 4.0  # what is left pays for no further stage of an unsure row
    assert (spent <= means * len(X) + 1e-9).all()
    assert (spent > means * len(X) - dearest_step - 1e-9).all()
    truncated = [metered.truncate(mean_budget=mean).cost(X).sum() for mean in means]
    assert (np.array(truncated) > means * len(X) + 1e-9).any()  # the control


def test_stages_that_are_left_out_cost_a_call_nothing(data):
    """The second stage reads a column that is not there: its price pays for the third, for a quarter of the rows."""
    X = data[0][:100]
    blocks = [LinearBlock(np.array([0, j]), np.eye(2, 3)) for j in (0, 1, 2)]
    plan = Plan(
        blocks=blocks,
        costs=at.FeatureCosts(np.ones(7)).bind(7),
        base=np.zeros(3),
        link="softmax",
        replaces=np.ones(3, dtype=bool),
    )
    for realised, reached in ((False, 25), (True, 50)):
        run = Run(plan, X, metered=realised, held=np.arange(7) != 1)
        spend_by_table(
            run, np.array([[np.inf, np.inf, -np.inf]]), plan.stage_ticks[0] * 150, 2**62, realised=realised
        )
        assert np.bincount(run.answered, minlength=4).tolist() == [0, 100 - reached, 0, reached]


def test_a_call_whose_time_is_up_says_which_rows_would_go_on(model, data):
    answer = model.answer(data[0], mean_budget=3.5, deadline=0.0)
    assert (answer.stage == 0).all()
    assert answer.partial.all()


def test_the_least_sure_rows_get_the_money(model, data):
    """All rows have the first stage, and money for the second is enough for a few."""
    X = data[0][600:700]
    first, answer = next(a for a in model.stages(X) if a.stage == 1), model.answer(X, mean_budget=1.1)
    margin = LINKS["softmax"].margin(first.scores)
    on = answer.stage > 1
    assert 0 < on.sum() <= 5
    assert margin[on].max() <= margin[~on].min()


def test_more_money_is_spent_and_not_more_than_there_is(model, data):
    """Steps between policies are small on the rows that the table was made of."""
    X, means = data[0][:600], np.linspace(1.0, 7.0, 40)
    spent = np.array([model.truncate(mean_budget=mean).cost(X).mean() for mean in means[:-1]] + [7.0])
    assert (spent <= means + 1e-9).all()
    assert (means - spent).max() < 6.0 / 90
    assert (np.diff(spent) > 0).all()


def test_no_bound_and_one_that_does_not_bind_are_the_whole_plan(model, data):
    X = data[0]
    for mean in (7.0, 100.0, np.inf):
        answer = model.answer(X, mean_budget=mean)
        assert answer.complete
        assert_array_equal(answer.scores, model.answer(X).scores)
    assert_array_equal(model.predict(X), without_table(model).predict(X))
    assert not model.answer(X, mean_budget=6.9).complete
    assert (model.answer(X, mean_budget=0.9).stage == 0).all()


def test_a_cap_holds_beside_the_mean(model, data):
    X = data[0]
    for meter in ("model", "realised"):
        both = copy.copy(model).set_params(meter=meter).answer(X, budget=3, mean_budget=4.0)
        alone = model.answer(X, mean_budget=4.0)
        assert alone.cost.max() == 7
        assert (both.stage == 2).all()  # what capped rows may not spend is there for the others


# ---------------------------------------------------------------------- every way of asking


def test_calls_with_a_mean_say_the_same_in_every_way(model, data, tmp_path):
    X = data[0][600:700]
    answer = model.answer(X, mean_budget=3.5)
    assert_array_equal(model.predict(X, mean_budget=3.5), answer.prediction)
    assert_array_equal(model.predict_proba(X, mean_budget=3.5), answer.probabilities)
    assert_array_equal(model.cost(X, mean_budget=3.5), answer.cost)
    model.save(tmp_path / "model.anytime")
    again = at.load(tmp_path / "model.anytime")
    assert_array_equal(again.answer(X, mean_budget=3.5).scores, answer.scores)


def test_single_rows_and_truncated_models_leave_by_the_margins_of_the_table(model, data):
    X = data[0][600:700]
    small = model.truncate(mean_budget=3.5)
    answer = small.answer(X)
    assert answer.complete
    assert [model.predict_one(x, mean_budget=3.5) for x in X] == answer.prediction.tolist()
    assert [model.predict(x[None], mean_budget=3.5)[0] for x in X] == answer.prediction.tolist()
    assert small.plan_.expected_costs[-1] <= 3.5
    assert set(map(type, small.plan_.stops.values())) == {MarginRule}
    bounded = copy.copy(model)
    bounded.mean_budget = 3.5  # as a family that is trained for a mean has it
    batch = at.BatchSession(bounded, X)
    assert_array_equal(batch.advance().stage, answer.stage)
    session = at.Session(model)
    assert [session.predict(x, mean_budget=3.5).stage for x in X] == answer.stage.tolist()
    assert session.reason in ("budget", "complete")


def test_an_example_that_left_early_goes_on_with_more_money(model, data):
    session, X = at.Session(model), data[0]
    easy = X[model.truncate(mean_budget=3.5).answer(X).stage == 1][0]
    assert session.predict(easy, mean_budget=3.5).stage == 1
    assert session.reason == "budget"
    assert not session.read().complete
    assert session.resume().stage == 3
    assert session.reason == "complete"


def test_a_shorter_plan_and_other_prices_keep_the_table(model, data):
    X = data[0]
    two = model.truncate(3.0)
    assert two.plan_.stop_table.margins.shape[1] == 2
    assert 1.4 < two.cost(X, mean_budget=1.6).mean() < 1.8
    dearer = copy.copy(model)
    costs = at.FeatureCosts(np.full(7, 10.0)).bind(7)
    dearer.plan_ = replace(model.plan_, costs=costs, expected_costs=None)
    assert_array_equal(dearer.answer(X, mean_budget=35.0).stage, model.answer(X, mean_budget=3.5).stage)
    assert model.plan_.head(0).stop_table is None


def test_a_curve_over_means_has_the_answers_of_mean_budgets(model, data):
    X, y = data[0][600:], data[1][600:]
    curve, stages = at.curve(model, X, y, meter="realised"), at.curve(model, X, y)
    assert len(curve) > len(stages) == 4
    means = model.costs_.amounts(model.plan_.policy_ticks)
    answers = [model.answer(X, mean_budget=mean) for mean in means]
    known = {(answer.cost.mean(), np.mean(answer.prediction == y)) for answer in answers}
    assert len(known & set(zip(curve.costs.tolist(), curve.values.tolist(), strict=True))) >= 24
    for cost in (2.0, 4.0, 6.0):
        assert curve.at(cost) > stages.at(cost)


def test_checkers_know_the_table(model, data):
    at.testing.check_anytime_estimator(model, X=data[0][:600], y=data[1][:600])


def test_a_table_that_says_another_mean_than_rows_pay_costs_a_call_no_more(model, data):
    """Rows of which all leave late, in a table that says they leave at once."""
    wrong = copy.copy(model)
    late = StopTable([[np.inf, np.inf, -np.inf]], [[1.0, 0.0, 0.0]])
    wrong.plan_ = replace(model.plan_, stop_table=late)
    assert wrong.truncate(mean_budget=2.0).cost(data[0]).mean() == 7.0
    assert 1.99 < wrong.cost(data[0], mean_budget=2.0).mean() <= 2.0


def test_calls_that_overspend_are_found(model, data):
    """The negative control: the margins of the table decide, whatever the rows of the call then pay."""

    class Careless(at.AnytimeClassifier):
        def _run_within_mean(self, rows, budget, mean_budget, due, stop, *, metered):
            run = Run(self.plan_.for_means, rows.X, metered=True)
            run.advance()
            return run

    careless = fitted(Careless, model.plan_, np.arange(3), meter="model")
    with pytest.raises(AssertionError, match="a_mean_budget_holds_on_new_rows"):
        at.testing.check_anytime_estimator(careless, X=data[0][:600], y=data[1][:600])


@given(plans(), st.data(), st.sampled_from(["model", "realised"]))
def test_rows_of_any_plan_leave_at_the_first_stage_whose_margin_is_enough(plan, data, meter):
    """Against the obvious way: read every stage, and stop where the margin is enough."""
    assume(LINKS[plan.link].classifies and plan.n_stages)
    assume(plan.stage_ticks[-1] > 0 and np.isinf(plan.limit))
    plan = replace(plan, passes={}, stops={})
    levels = [-np.inf, 0.0, 0.1, 0.5, 1.0, 3.0, np.inf]
    margins = np.array([data.draw(st.sampled_from(levels)) for _ in range(plan.n_stages)])
    leaving = np.zeros(plan.n_stages)
    leaving[0] = 1.0
    plan = replace(plan, stop_table=StopTable([margins], [leaving]))
    assume(plan.policy_ticks[0] < plan.stage_ticks[-1])
    model, link, X = model_of(plan, meter=meter), LINKS[plan.link], np.ascontiguousarray(ROWS)
    mean = float(plan.stage_costs[0])
    left = np.zeros(len(X), dtype=bool)
    scores, paid = np.tile(plan.base, (len(X), 1)), np.zeros(len(X))
    for answer in list(model.stages(X))[1:]:
        scores[~left], paid[~left] = answer.scores[~left], answer.cost[~left]
        left |= link.margin(scores) >= margins[answer.stage - 1]
    answer = model.truncate(mean_budget=mean).answer(X)
    assert_array_equal(answer.scores, scores)
    assert_allclose(answer.cost, paid)
    call = model.answer(X, mean_budget=mean)
    assert call.cost.sum() <= mean * len(X) * (1 + 1e-9)
    assert (call.stage <= answer.stage).all()
    after = [answer.scores for answer in model.stages(X)]
    assert_array_equal(call.scores, [after[s][i] for i, s in enumerate(call.stage)])
    assert_array_equal(model.predict(X, mean_budget=mean), call.prediction)
    assert [model.predict_one(x, mean_budget=mean) for x in X] == list(answer.prediction)
    session = at.Session(model)
    told = [session.predict(x, mean_budget=mean) for x in X]
    assert_array_equal([one.stage for one in told], answer.stage)
    assert_array_equal(np.vstack([one.scores for one in told]), scores)
    stops = checkpoints_of(plan.n_stages)
    engine = VirtualEngine(model, StagePace(stops, stops * 1e-5), Adaptive(0.002), slo=10.0)
    for served in replay(engine, [(0.0, X, {"mean_budget": mean}), (0.0, X[:3], {"mean_budget": mean})]):
        assert_array_equal(served.stage, answer.stage[: len(served.stage)])
        assert_array_equal(served.prediction, answer.prediction[: len(served.stage)])


# ---------------------------------------------------------------------- bad tables


@pytest.mark.parametrize(
    ("margins", "leaving", "message"),
    [
        (np.zeros((1, 2)), [[0.5, 0.6]], "add up to 1"),
        (np.zeros((1, 2)), [[1.5, -0.5]], "must not be negative"),
        (np.zeros((1, 2)), [[np.nan, 1.0]], "add up to 1"),
        ([[np.nan, 0.0]], [[0.5, 0.5]], "must not be NaN"),
        (np.zeros((1, 2)), [[1.0]], "have shapes"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "have shapes"),
        (np.zeros(2), np.zeros(2), "have shapes"),
    ],
)
def test_wrong_tables_are_refused(margins, leaving, message):
    with pytest.raises(ValueError, match=message):
        StopTable(margins, leaving)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("margins", np.full((96, 3), np.nan), "must not be NaN"),
        ("margins", np.zeros((96, 2)), "have shapes"),
        ("leaving", np.zeros((96, 3)), "add up to 1"),
        ("leaving", np.zeros(3), "expected 2 dimensions"),
        ("leaving", None, "is missing"),
        ("margins", None, "belongs to nothing"),
    ],
)
def test_files_with_wrong_tables_are_refused(model, name, array, message):
    parts = Parts(packed(model))
    if array is None:
        del parts.arrays[f"plan.stop_table.{name}"]
    else:
        parts.arrays[f"plan.stop_table.{name}"] = array
    with pytest.raises(at.BadFileError, match=message):
        at.load(io.BytesIO(parts.assembled()))


def test_tables_are_for_classifiers_without_rules_of_their_own(model):
    plan, table = model.plan_, model.plan_.stop_table
    with pytest.raises(ValueError, match="no rules of its own"):
        replace(plan, stops={0: MarginRule(1.0, below=False)})
    with pytest.raises(ValueError, match="no rules of its own"):
        replace(plan, link="identity")
    with pytest.raises(ValueError, match="for 2 stages, but the plan has 3"):
        replace(plan, stop_table=table.head(2))


def test_a_model_whose_mean_lets_rows_leave_is_exported_truncated(model):
    bounded = copy.copy(model)
    bounded.mean_budget = 3.5
    with pytest.raises(ExportError, match=r"truncate\(mean_budget"):
        bounded.to_c()
    assert "margin" in bounded.truncate(mean_budget=3.5).to_c()


def test_exits_are_taken_as_margins_say():
    assert exits_taken([[2.0, 0.0], [5.0, 5.0]], [1.0, -np.inf]).tolist() == [0, 1]
