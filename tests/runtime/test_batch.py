"""A batch session equals the engine row by row, whatever the slices, and keeps to the batch's budget."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.engine import Run
from anytime.features import Extractor, Features
from anytime.plan import Plan
from anytime.rules import MarginRule, ScoreRule
from anytime.runtime import BatchSession, Session, StopFlag
from tests.runtime.bench import ROWS, Clock, features_of, linear_plan, model_of
from tests.strategies import plans


def margin_plan(random: np.random.Generator, n_stages: int) -> Plan:
    """Linear stages on one score, each with a filter on the margin, some open to all."""
    thresholds = random.choice([0.3, 0.6, 1.0, 2.0, np.inf], size=n_stages)
    return Plan(
        blocks=[LinearBlock([t % 4], [[random.normal()]]) for t in range(n_stages)],
        costs=FeatureCosts([1.0, 2.0, 3.0, 4.0]).bind(4),
        base=[0.0],
        link="logistic",
        evaluation_costs=np.full(n_stages, 0.5),
        passes={t: MarginRule(theta) for t, theta in enumerate(thresholds) if random.random() < 0.9},
    )


@given(plans(), st.data())
def test_batch_equals_the_engine(plan, data):
    model = model_of(plan, meter=data.draw(st.sampled_from(["model", "realised"])))
    amounts = [plan.costs.costs.amount(t) for t in plan.stage_ticks.tolist()]
    budget = data.draw(st.sampled_from([None, *amounts]))
    lazy = data.draw(st.booleans())
    batch = BatchSession(
        model,
        list(ROWS) if lazy else ROWS,
        features_of(plan) if lazy else None,
        budget=budget,
        slice_seconds=data.draw(st.sampled_from([1e-9, 1e-4, 1.0])),
        tile_rows=data.draw(st.sampled_from([1, 5, 100])),
    )
    answer, eager = batch.advance(), model.answer(ROWS, budget)
    assert_array_equal(answer.scores, eager.scores)
    assert_array_equal(answer.stage, eager.stage)
    assert answer.complete == eager.complete
    if lazy:  # never starts what it cannot pay to the end
        assert (answer.cost <= eager.cost).all()
    else:
        assert_array_equal(answer.cost, eager.cost)
        assert answer.groups == eager.groups


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_queue_equals_naive_evaluation_stage_by_stage(seed, n_stages):
    """P19: scores and costs after every stage, and the rows that each stage worked on."""
    random = np.random.default_rng(seed)
    plan = margin_plan(random, n_stages)
    X = random.normal(size=(30, 4))
    batch = BatchSession(model_of(plan), X, tile_rows=7)
    naive = Run(plan, X, metered=True)
    updated = np.zeros(n_stages)
    for stage in range(1, n_stages + 1):
        before = naive._applied.copy()
        naive.advance(stage)
        updated[stage - 1] = (naive._applied > before).mean()
        answer = batch.advance(max_stages=stage)
        assert_array_equal(answer.scores, naive.scores())
        assert_array_equal(answer.cost, plan.costs.costs.amounts(naive.ledger.paid))
    assert_allclose(batch.statistics()["updated"], updated)
    assert answer.complete
    assert batch.statistics()["finished"] == 1.0


def test_rows_are_touched_only_when_a_stage_works_on_them():
    """speedboost_and_structured 9.5: total work follows the updates, not rows times stages."""
    n_stages = 200
    seen: list[int] = []

    def step(column):
        seen.append(len(column))
        return column * 0 + 1.0

    plan = Plan(
        blocks=[FunctionBlock([0], step) for _ in range(n_stages)],
        costs=FeatureCosts([1.0]).bind(1),
        base=[0.0],
        link="logistic",
        passes={t: MarginRule(0.5) for t in range(n_stages)},
    )
    batch = BatchSession(model_of(plan), np.zeros((50, 1)), slice_seconds=10.0)
    units = 0
    while batch._unit(batch._bounds, None) == "":
        units += 1
    assert sum(seen) == 50  # one update decides every row
    assert units <= 4  # and the other 199 stages are not even looked at
    assert batch.read().complete


def test_filter_keeps_scores_and_cost_of_rows_it_keeps_out():
    """P18: non-passing rows are bit-identical before and after; the stage's mean cost is that of the rows that pass."""
    random = np.random.default_rng(3)
    X = random.normal(size=(40, 4))
    blocks = [LinearBlock([0], [[1.0]]), LinearBlock([1, 2], [[1.0], [-2.0]])]
    costs = FeatureCosts([1.0, 2.0, 3.0, 4.0]).bind(4)
    plan = Plan(blocks=blocks, costs=costs, base=[0.0], link="logistic", passes={1: MarginRule(0.5)})
    batch = BatchSession(model_of(plan), X)
    before = batch.advance(max_stages=1)
    after = batch.advance()
    out = np.abs(before.scores[:, 0]) >= 0.5
    assert out.any()
    assert not out.all()
    assert_array_equal(after.scores[out], before.scores[out])
    assert (after.scores[~out] != before.scores[~out]).any(axis=1).all()
    assert (after.cost - before.cost).mean() == pytest.approx(((~out) * 5.0).mean())
    assert batch.statistics()["updated"] == [1.0, (~out).mean()]


def test_infinite_threshold_reproduces_the_unfiltered_run():
    """P18."""
    random = np.random.default_rng(4)
    X = random.normal(size=(40, 4))
    blocks = [LinearBlock([t], [[random.normal()]]) for t in range(4)]
    costs = FeatureCosts([1.0, 2.0, 3.0, 4.0]).bind(4)
    open_to_all = {t: MarginRule(np.inf) for t in range(4)}
    plain, filtered = (
        BatchSession(
            model_of(Plan(blocks=blocks, costs=costs, base=[0.0], link="logistic", passes=passes)), X
        ).advance()
        for passes in ({}, open_to_all)
    )
    assert_array_equal(plain.scores, filtered.scores)
    assert_array_equal(plain.cost, filtered.cost)


# ---------------------------------------------------------------------- bounds


@given(plans(), st.floats(0, 1.2), st.booleans())
def test_batch_budget_is_never_exceeded_and_can_be_raised(plan, share, lazy):
    model = model_of(plan)
    examples, features = (list(ROWS), features_of(plan)) if lazy else (ROWS, None)
    full = model.cost(ROWS).sum()
    batch = BatchSession(model, examples, features, tile_rows=5)
    answer = batch.advance(budget_total=share * full)
    assert answer.cost.sum() <= share * full + 1e-9 * full
    prefixes = np.array([prefix.scores for prefix in model.stages(ROWS)])
    assert_array_equal(answer.scores, prefixes[answer.stage, np.arange(len(ROWS))])
    assert_array_equal(batch.resume().scores, model.answer(ROWS).scores)


def test_batch_budget_goes_to_the_least_certain_rows():
    """speedboost_and_structured 9.5: inside a stage, smallest margins first."""
    plan = Plan(
        blocks=[LinearBlock([0], [[1.0]]), LinearBlock([1], [[1.0]])],
        costs=FeatureCosts([1.0, 1.0]).bind(2),
        base=[0.0],
        link="logistic",
    )
    X = np.array([[3.0, 1.0], [0.1, 1.0], [2.0, 1.0], [0.2, 1.0]])
    batch = BatchSession(model_of(plan), X)
    answer = batch.advance(budget_total=6.0)
    assert answer.stage.tolist() == [1, 2, 1, 2]
    assert batch.reason == "budget"
    assert batch.statistics()["mean_cost"] == 1.5


def test_stage_comes_after_stage_over_all_rows():
    order: list[tuple[int, int]] = []

    def stage(t):
        def function(column):
            order.append((t, len(column)))
            return column

        return function

    plan = linear_plan(3, blocks=[FunctionBlock([t], stage(t)) for t in range(3)])
    batch = BatchSession(model_of(plan), np.ones((20, 3)), tile_rows=8)
    batch.advance()
    assert [t for t, _ in order] == sorted(t for t, _ in order)
    assert [sum(n for s, n in order if s == t) for t in range(3)] == [20, 20, 20]


@settings(max_examples=40)
@given(plans(), st.data())
def test_stage_count_is_kept_to(plan, data):
    batch = BatchSession(model_of(plan), ROWS)
    prefixes = list(model_of(plan).stages(ROWS))
    for stage in sorted(data.draw(st.sets(st.integers(0, plan.n_stages)))):
        answer = batch.advance(max_stages=stage)
        assert_array_equal(answer.scores, prefixes[stage].scores)


def test_time_between_interrupt_points_is_bounded():
    """speedboost_and_structured 9.8: overruns are at most one chunk."""
    clock = Clock()
    longest = []

    def slow(column):
        clock.sleep(0.001 * len(column))  # a millisecond per row
        longest.append(len(column))
        return column

    plan = linear_plan(3, blocks=[FunctionBlock([t], slow) for t in range(3)])
    batch = BatchSession(model_of(plan), np.ones((200, 3)), slice_seconds=0.010, clock=clock)
    began = clock()
    answer = batch.advance(deadline=0.1)
    assert clock() - began <= 0.1 + 0.010
    assert batch.reason == "deadline"
    assert max(longest[1:]) <= 10
    assert 0 < (answer.stage > 0).sum() < 200
    assert batch.advance().complete
    assert batch.statistics()["overruns"] <= 1


@pytest.mark.parametrize("make", [threading.Event, StopFlag])
def test_stop_flag_interrupts_a_batch(make):
    stop = make()

    def slow(column):
        time.sleep(0.005)
        if len(seen) == 3:
            stop.set()
        seen.append(1)
        return column

    seen: list[int] = []
    plan = linear_plan(3, blocks=[FunctionBlock([t], slow) for t in range(3)])
    batch = BatchSession(model_of(plan), np.ones((60, 3)), slice_seconds=0.005)
    batch.advance(stop=stop)
    assert batch.reason == "stop"
    assert len(seen) == 4
    assert batch.resume().complete


def test_bad_bounds_are_refused():
    batch = BatchSession(model_of(linear_plan()), np.ones((2, 3)))
    with pytest.raises(ValueError, match="deadline"):
        batch.advance(deadline=-1.0)
    with pytest.raises(ValueError, match="budget_total"):
        batch.advance(budget_total=-1.0)
    for wrong in (-1, np.nan, "2"):
        with pytest.raises(ValueError, match="max_stages must be a non-negative number"):
            batch.advance(max_stages=wrong)
    with pytest.raises(ValueError, match=r"stop must have a method is_set\(\)"):
        batch.advance(stop=True)
    with pytest.raises(ValueError, match="slice_seconds"):
        BatchSession(model_of(linear_plan()), slice_seconds=0.0)
    with pytest.raises(ValueError, match="tile_rows"):
        BatchSession(model_of(linear_plan()), tile_rows=0)
    with pytest.raises(ValueError, match="features"):
        batch.add(np.ones((2, 4)))


# ---------------------------------------------------------------------- streaming


def test_examples_join_at_the_first_stage_and_leave_when_read():
    plan = linear_plan()
    batch = BatchSession(model_of(plan), tile_rows=2)
    assert batch.advance().prediction.size == 0
    first = batch.add(np.ones((3, 3)))
    assert batch.advance(max_stages=2).stage.tolist() == [2, 2, 2]
    second = batch.add(2 * np.ones((2, 3)))
    assert batch.read().stage.tolist() == [2, 2, 2, 0, 0]
    left = batch.pop(first[[2, 0]])
    assert (left.stage.tolist(), left.prediction.tolist()) == ([2, 2], [11.5, 11.5])
    answer = batch.advance()
    assert batch.numbers.tolist() == [first[1], *second]
    assert answer.prediction.tolist() == [111.5, 222.5, 222.5]
    assert batch.statistics()["updated"] == [1.0, 1.0, 3 / 5]
    with pytest.raises(ValueError, match="no example 0"):
        batch.pop([0])
    batch.pop(batch.numbers)
    assert batch.read().prediction.size == 0
    assert batch.statistics()["mean_cost"] == pytest.approx((2 * 3 + 3 * 6) / 5)


# ---------------------------------------------------------------------- features


def test_batch_extractor_is_called_once_for_all_rows_of_a_tile():
    calls: list[int] = []

    def together(rows):
        calls.append(len(rows))
        return np.array(rows)[:, [1]]

    plan = linear_plan(2)
    features = Features({"g0": lambda row: row[0], "g1": Extractor(together, batch=True)})
    batch = BatchSession(model_of(plan), [np.array([1.0, 2.0])] * 6, features, slice_seconds=10.0)
    assert batch.advance().prediction.tolist() == [21.5] * 6
    assert calls == [6]


def test_asynchronous_extractor_works_on_all_rows_at_once():
    import asyncio

    running, most = 0, 0

    async def fetch(row):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return row[0]

    plan = linear_plan(1)
    batch = BatchSession(model_of(plan), [np.array([1.0])] * 8, Features({"g0": fetch}))
    assert batch.advance().prediction.tolist() == [1.5] * 8
    assert most == 8


def test_batch_with_a_deadline_keeps_what_comes_late():
    clock = Clock()
    calls: list[int] = []

    def slow(row):
        calls.append(1)
        clock.sleep(1.0)
        return row[1]

    plan = linear_plan(2)
    features = features_of(plan, g1=slow)
    batch = BatchSession(model_of(plan), [np.array([1.0, 2.0])] * 5, features, clock=clock)
    answer = batch.advance(deadline=2.5)
    assert batch.reason == "deadline"
    assert answer.stage.tolist() == [1] * 5
    assert answer.cost.tolist() == [3.0, 3.0, 3.0, 1.0, 1.0]
    assert batch.advance().prediction.tolist() == [21.5] * 5
    assert len(calls) == 5


def test_failures_are_counted():
    plan = linear_plan(2)

    def picky(row):
        if row[1] > 5:
            raise ValueError("too large")
        return row[1]

    rows = [np.array([1.0, v]) for v in (1.0, 9.0, 2.0, 9.0)]
    batch = BatchSession(model_of(plan), rows, features_of(plan, g1=picky))
    answer = batch.advance()
    assert answer.prediction.tolist() == [11.5, 1.5, 21.5, 1.5]
    assert answer.failures == {"g1": "2 rows: ValueError: too large"}


def test_stage_that_raises_leaves_its_rows_where_they_were():
    broken = [True]

    def sometimes(column):
        if broken[0]:
            raise OSError("no connection")
        return column

    plan = linear_plan(2, blocks=[LinearBlock([0], [[1.0]]), FunctionBlock([1], sometimes)])
    batch = BatchSession(model_of(plan), np.ones((3, 2)))
    with pytest.raises(OSError, match="no connection"):
        batch.advance()
    assert batch.read().stage.tolist() == [1, 1, 1]
    broken[0] = False
    assert batch.advance().prediction.tolist() == [2.5, 2.5, 2.5]


def test_a_gate_that_cannot_be_paid_ends_a_row_after_its_stage():
    plan = linear_plan(3, stops={0: ScoreRule(LinearBlock([2], [[1.0]]), 0.0)})
    model = model_of(plan, meter="realised")
    x = np.array([1.0, 1.0, -1.0])
    for budget in (0.0, 1.0, 3.0, 4.0, 6.0):
        eager = model.answer(x[None], budget)
        for examples, features in ((x[None], None), ([x], features_of(plan))):
            answer = BatchSession(model, examples, features, budget=budget).advance()
            assert_array_equal(answer.scores, eager.scores)
            assert_array_equal(answer.cost, eager.cost)


def test_a_gate_whose_features_failed_is_not_asked_but_its_stage_is_done():
    """As in a session: the stage has all that it reads."""

    def fails_for_some(row):
        if row[0] > 0:
            raise OSError("no connection")
        return row[2]

    plan = linear_plan(3, stops={0: ScoreRule(LinearBlock([2], [[1.0]]), 0.0)})
    model, features = model_of(plan), features_of(plan, g2=fails_for_some)
    rows = [np.array([1.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0]), np.array([-1.0, 1.0, -1.0])]
    answer = BatchSession(model, rows, features).advance()
    alone = [Session(model, features).predict(row) for row in rows]
    assert_array_equal(answer.scores, [one.scores for one in alone])
    assert_array_equal(answer.cost, [one.cost for one in alone])
    assert_array_equal(answer.stage, [one.stage for one in alone])
    assert answer.scores[0] == 0.5 + 1.0 + 10.0
