"""The engine gives the model's answers, in time, whatever comes in."""

import asyncio
import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.ensemble import GradientBoostingClassifier

from anytime import make_anytime
from anytime.blocks import FunctionBlock
from anytime.costs import UNLIMITED, FeatureCosts
from anytime.engine import Run
from anytime.forest_run import ForestRun
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.runtime import BatchSession
from anytime.serve.engine import Engine
from anytime.serve.pace import StagePace, checkpoints_of
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question
from anytime.serve.scheduler import Scheduler
from tests.runtime.bench import ROWS, model_of
from tests.serve.virtual import Fixed, VirtualEngine, poisson, replay, rest, single_rows, stumps
from tests.strategies import plans

SLO, RESERVE = 0.010, 0.002


def steady(n_stages, seconds_per_row):
    """A pace of equal stages."""
    stops = checkpoints_of(n_stages)
    return StagePace(stops, stops * (seconds_per_row / n_stages))


def many_stages(n_stages=100, link="logistic"):
    """Stage s adds column s % 4 of a row, divided by s."""
    blocks = [FunctionBlock([s % 4], lambda X, s=s: X / (s + 1), 1) for s in range(n_stages)]
    return Plan(blocks=blocks, costs=FeatureCosts([1.0] * 4).bind(4), base=[0.0], link=link)


# ---------------------------------------------------------------------- the same answers


@given(plans(), st.data(), st.sampled_from(["model", "realised"]), st.sampled_from([0.004, 1e-6]))
def test_answers_are_the_models_own_bit_for_bit(plan, data, meter, seconds):
    model = model_of(plan, meter=meter)
    prices = [None, 0.0, *plan.stage_costs.tolist(), *(plan.stage_costs / 2).tolist()]
    if (limit := data.draw(st.sampled_from(prices))) is not None:
        model = model.truncate(limit)
        plan = model.plan_
    engine = VirtualEngine(model, steady(max(plan.n_stages, 1), seconds), Adaptive(RESERVE), slo=SLO)
    arrivals = []
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(ROWS) - 1))
        X = np.ascontiguousarray(ROWS[start : start + data.draw(st.integers(1, 5))])
        when = data.draw(st.integers(0, 8)) * 1e-3
        arrivals.append((when, X, {"budget": data.draw(st.sampled_from(prices))}))
    arrivals.sort(key=lambda arrival: arrival[0])
    for (_, X, bounds), served in zip(arrivals, replay(engine, arrivals), strict=True):
        run = Run(plan, X, metered=True)
        cap = model._reach(bounds["budget"])[1]
        run.advance(served.stage, budget=1 << 62 if cap is None else cap)
        scores = run.scores()
        assert_array_equal(served.prediction, model._decide(scores))
        if LINKS[plan.link].classifies:
            assert_array_equal(served.probabilities, LINKS[plan.link].transform(scores))
        assert served.elapsed <= SLO + 1e-9
        whole = model.answer(X, bounds["budget"])
        assert ((served.stage == whole.stage) | served.partial).all()
        assert (served.stage <= whole.stage).all()
        if not served.partial.any():
            assert_array_equal(served.prediction, whole.prediction)
            assert_array_equal(served.cost, whole.model_cost if meter == "model" else whole.cost)
            assert served.reason == ("complete" if whole.complete else "budget") or meter == "model"
            assert whole.complete or served.reason == "budget"
        assert (served.reason == "deadline") == served.partial.any()


def test_a_model_of_trees_takes_the_short_way_to_the_same_bits():
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    for trees, y in (
        (GradientBoostingClassifier(n_estimators=90, random_state=0), rng.integers(0, 3, 120)),
        (RandomForestRegressor(n_estimators=20, random_state=0), rng.normal(size=120)),
    ):
        model = make_anytime(trees.fit(X, y))
        for until, slo in ((None, None), (2.0, None), (None, SLO)):
            engine = VirtualEngine(model, steady(model.n_stages_, 0.001), Adaptive(RESERVE), slo=slo)
            sizes = [1, 7, 1, 100, 1, 2]
            questions = [(0.0, np.ascontiguousarray(X[:size]), {"budget": until}) for size in sizes]
            for (_, rows, _), served in zip(questions, replay(engine, questions), strict=True):
                run = Run(model.plan_, rows)
                run.advance(served.stage)
                assert_array_equal(served.prediction, model._decide(run.scores()))
                if slo is None:
                    assert_array_equal(served.prediction, model.answer(rows, until).prediction)


def test_a_mean_budget_is_the_models_own():
    from anytime import BudgetForestClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    model = BudgetForestClassifier(costs=[1.0, 2.0, 3.0, 4.0], mean_budget=6).fit(X, X[:, 0] > X[:, 1])
    for budget in (None, 0.5, *model.plan_.expected_costs):
        # a new one each time: it keeps an account of what was spent on questions with the same mean budget
        engine = VirtualEngine(model, steady(model.n_stages_, 1e-5), Adaptive(RESERVE))
        (served,) = replay(engine, [(0.0, X[:20], {"mean_budget": budget})])
        whole = model.answer(X[:20], mean_budget=budget)
        assert_array_equal(served.probabilities, whole.probabilities)
        assert_array_equal(served.stage, whole.stage)


@settings(max_examples=25)
@given(plans(), st.floats(0.5, 1.0))
def test_confidence_stops_each_row_at_the_first_stage_that_is_sure_enough(plan, confidence):
    model = model_of(plan)
    if not LINKS[plan.link].classifies:
        with pytest.raises(ValueError, match="confidence needs a classifier"):
            replay(
                VirtualEngine(model, steady(max(plan.n_stages, 1), 1e-4), Adaptive(0.0)),
                [(0, ROWS, {"confidence": 0.9})],
            )
        return
    pace = steady(max(plan.n_stages, 1), 1e-4)
    (served,) = replay(VirtualEngine(model, pace, Adaptive(0.0)), [(0.0, ROWS, {"confidence": confidence})])
    last = model.answer(ROWS).stage
    for i in range(len(ROWS)):
        sure = []
        for stage in range(plan.n_stages + 1):  # 0: before the first
            run = Run(plan, ROWS[i : i + 1])
            run.advance(stage)
            if LINKS[plan.link].transform(run.scores()).max() >= confidence:
                sure.append(int(run.done[0]))
        assert served.stage[i] == min([*sure, last[i]])
        assert not served.partial[i]


def test_questions_stop_where_sessions_do_however_many_stages_there_are():
    model, n = model_of(many_stages(100)), 100
    X = np.random.default_rng(0).normal(size=(30, 4))
    engine = VirtualEngine(model, steady(n, 1e-4), Adaptive(RESERVE), slo=10.0)
    (served,) = replay(engine, [(0.0, X, {"confidence": 0.9})])
    stages = BatchSession(model, X, confidence=0.9).advance().stage
    assert_array_equal(served.stage, stages)
    assert not np.isin(stages, checkpoints_of(n)).all()


def test_a_row_that_is_sure_late_is_not_asked_after_every_stage(monkeypatch):
    X = np.random.default_rng(0).normal(size=(200, 4))
    trees = GradientBoostingClassifier(n_estimators=150, learning_rate=0.02, max_depth=2, random_state=0)
    model = make_anytime(trees.fit(X, X[:, 0] + X[:, 1] > 0))
    stages = BatchSession(model, X, confidence=0.8).advance().stage
    calls, advance = [], ForestRun.advance
    monkeypatch.setattr(ForestRun, "advance", lambda run, *a, **k: calls.append(run) or advance(run, *a, **k))
    for row in (int(stages.argmin()), int(stages.argmax())):
        calls.clear()
        engine = VirtualEngine(model, steady(150, 1e-9), Adaptive(RESERVE), slo=10.0)
        (served,) = replay(engine, [(0.0, X[row : row + 1], {"confidence": 0.8})])
        assert served.stage[0] == stages[row]
        assert 0 < len(calls) <= 2 + stages[row] // 64
    assert stages.max() > 64


@given(plans(), st.data(), st.sampled_from(["model", "realised"]))
def test_rows_that_lack_groups_are_answered_as_the_engine_answers_them(plan, data, meter):
    costs = plan.costs.costs
    held = np.array(data.draw(st.lists(st.booleans(), min_size=len(costs.names), max_size=len(costs.names))))
    held[data.draw(st.integers(0, len(held) - 1))] = False
    budget = data.draw(st.sampled_from([None, *plan.stage_costs.tolist()]))
    model = model_of(plan, meter=meter)
    X = ROWS.copy()
    X[:, ~held[plan.costs.column_group]] = np.nan
    engine = VirtualEngine(model, steady(max(plan.n_stages, 1), 1e-4), Adaptive(0.0))
    (served,) = replay(engine, [(0.0, X, {"held": held, "budget": budget})])
    stages, cap, _ = model._reach(budget)
    run = Run(plan, X, metered=True, held=held)
    run.advance(stages, budget=UNLIMITED if cap is None else cap)
    assert_array_equal(served.stage, run.answered)
    assert_array_equal(served.prediction, model._decide(run.scores()))
    assert served.reason == "groups" or not (run.incomplete & ~run.finished).any()


def test_stages_that_use_groups_which_are_not_held_are_left_out():
    plan = many_stages(4)
    engine = VirtualEngine(model_of(plan), steady(4, 1e-4), Adaptive(0.0))
    X = np.array([[0.5, 1.0, np.nan, np.nan]])
    (served,) = replay(engine, [(0.0, X, {"held": np.array([True, True, False, False])})])
    assert served.stage.tolist() == [2]
    assert served.reason == "groups"
    assert not served.partial.any()


def test_why_it_ended_is_said():
    model = model_of(many_stages(4))
    engine = VirtualEngine(model, steady(4, 1e-3), Adaptive(0.0))
    X = np.full((1, 4), 3.0)
    asked = [{}, {"budget": 2.0}, {"confidence": 0.9}, {"deadline": 0.0}, {"deadline": 0.6e-3}]
    answers = [replay(engine, [(0.0, X, bounds)])[0] for bounds in asked]
    assert [served.reason for served in answers] == [
        "complete",
        "budget",
        "confidence",
        "deadline",
        "deadline",
    ]
    assert [served.stage.tolist() for served in answers] == [[4], [2], [1], [0], [2]]
    assert [served.partial.tolist() for served in answers] == [[False], [False], [False], [True], [True]]
    assert [served.cost.tolist() for served in answers] == [[4.0], [2.0], [1.0], [0.0], [2.0]]


# ---------------------------------------------------------------------- in time


@given(st.integers(0, 10**6), st.floats(0.2, 20.0))
def test_nobody_is_late_by_an_exact_pace(seed, load):
    """Questions of some rows each, some with deadlines of their own, at up to twenty times what all stages would allow."""
    rng = np.random.default_rng(seed)
    full = 0.001
    times = poisson(rng, load / (2 * full), 0.04)
    arrivals = []
    for when in times:
        deadline = float(rng.uniform(0.004, 0.02)) if rng.random() < 0.3 else None
        arrivals.append((when, rng.normal(size=(rng.integers(1, 4), 4)), {"deadline": deadline}))
    engine = VirtualEngine(stumps(50), steady(50, full), Adaptive(RESERVE), slo=SLO)
    for (_, _, bounds), served in zip(arrivals, replay(engine, arrivals), strict=True):
        assert served.elapsed <= min(SLO, bounds["deadline"] or SLO) + 1e-9
    assert engine.queue == 0


def overloaded(policy, load=10.0, seconds=0.5, slowness=lambda: 1.0):
    """Single rows at ``load`` times the capacity of the full model, 1000 per second."""
    rng = np.random.default_rng(0)
    times = poisson(rng, load * 1000, seconds)
    rows = single_rows(rng, times.size)
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), policy, slo=SLO, slowness=slowness)
    return replay(engine, [(when, X, {}) for when, X in zip(times, rows, strict=True)])


def test_at_ten_times_the_capacity_all_are_answered_in_time_with_a_tenth_of_the_stages():
    answers = overloaded(Adaptive(RESERVE))
    assert max(served.elapsed for served in answers) <= SLO
    stages = np.concatenate([served.stage for served in answers])
    assert stages.min() >= 1
    assert 7 <= stages.mean() <= 13


def test_a_heavy_first_stage_makes_nobody_late():
    """Forty at once, of which eighteen can have a stage of half a millisecond: the others get the base answer."""
    engine = VirtualEngine(stumps(10), steady(10, 5e-3), Adaptive(RESERVE), slo=SLO)
    answers = replay(engine, [(0.0, X, {}) for X in single_rows(np.random.default_rng(0), 40)])
    assert max(served.elapsed for served in answers) <= SLO + 1e-9
    assert [int(served.stage[0]) for served in answers].count(1) == 18


def test_the_load_decides_the_stages():
    means = [
        np.mean([served.stage[0] for served in overloaded(Adaptive(RESERVE), load, 0.2)])
        for load in (0.3, 1.5, 3.0, 6.0)
    ]
    assert means[0] > 95
    assert means[0] > means[1] > means[2] > means[3]


def test_a_server_without_a_plan_is_late_at_ten_times_the_capacity():
    answers = overloaded(Fixed(100), seconds=0.1)
    assert np.mean([served.elapsed > SLO for served in answers]) > 0.9


def test_without_a_reserve_the_unforeseen_makes_answers_late():
    rng = np.random.default_rng(1)
    slower = lambda: float(rng.choice([1.0, 1.0, 2.0]))  # noqa: E731
    with_reserve = overloaded(Adaptive(RESERVE), 5.0, 0.2, slower)
    assert max(served.elapsed for served in with_reserve) <= SLO
    without = overloaded(Adaptive(0.0), 5.0, 0.2, slower)
    assert np.mean([served.elapsed > SLO for served in without]) > 0.01


def test_a_slower_machine_is_found_out_while_it_answers():
    answers = overloaded(Adaptive(RESERVE), 3.0, 0.3, slowness=lambda: 2.5)
    late = np.array([served.elapsed > SLO for served in answers])
    assert not late[len(late) // 4 :].any()


def test_five_thousand_rows_hold_up_nobody_beyond_a_slice():
    rng = np.random.default_rng(0)
    engine = VirtualEngine(stumps(100), steady(100, 1e-4), Adaptive(RESERVE))
    arrivals = [(0.0, rng.normal(size=(5000, 4)), {})]
    arrivals += [(1e-3 * k, rng.normal(size=(1, 4)), {"deadline": SLO}) for k in range(1, 400)]
    large, *small = replay(engine, arrivals)
    assert (large.stage == 100).all()
    assert large.reason == "complete"
    assert all((served.stage == 100).all() for served in small)
    assert max(seconds for *_, seconds in engine.slices) <= 1.001e-3
    # the slice that is under way, and its own
    assert max(served.elapsed for served in small) <= 2.3e-3


def test_who_is_due_early_leaves_the_others_their_time():
    engine = VirtualEngine(stumps(100), steady(100, 2e-5), Adaptive(0.0))
    early, late = {"deadline": 12e-6}, {"deadline": SLO}

    async def main():
        futures = []
        for bounds in (early, late):
            ticket = engine._admit(Question(ROWS[:1], arrived=engine.clock.now, **bounds))
            ticket.future = asyncio.get_running_loop().create_future()
            engine._join(ticket)
            futures.append(ticket.future)
        engine.scheduler.turn()
        assert futures[0].done()  # in the turn that brought it there, before anybody else is read
        assert not futures[1].done()
        return await asyncio.gather(*futures)

    first, second = asyncio.run(main())
    assert 50 <= first.stage[0] <= 60
    assert first.partial.all()
    assert second.stage[0] == 100


def test_questions_of_one_turn_are_evaluated_together():
    rng = np.random.default_rng(0)
    seen = []

    class Log:
        def evaluated(self, rows):
            seen.append(rows)

        def answered(self, served, queue_length):
            seen.append((len(served.stage), queue_length))

    engine = VirtualEngine(
        model_of(many_stages(10)), steady(10, 1e-6), Adaptive(RESERVE), slo=SLO, observer=Log()
    )

    async def main():
        now = engine.clock.now
        asked = (engine.answer(Question(X, arrived=now)) for X in rng.normal(size=(20, 3, 4)))
        return await asyncio.gather(*asked)

    answers = asyncio.run(main())
    assert seen == [3, (3, 0), 57, *((3, left) for left in range(18, -1, -1))]  # the first waits for nobody
    assert len(engine.slices) == 2
    assert len(answers) == 20


def turns_of(seconds=1e-6, policy=None, age=0.0, pause=0, **bounds):
    """Turns of the scheduler for each of two questions that come one after the other."""
    engine = VirtualEngine(
        model_of(many_stages(10)), steady(10, seconds), policy or Adaptive(RESERVE), slo=SLO
    )
    turns, turn = [], engine.scheduler.turn
    engine.scheduler.turn = lambda: (turns.append(None), turn())

    async def main():
        counts = []
        for _ in range(2):
            before = len(turns)
            await engine.answer(Question(np.ones((1, 4)), arrived=engine.clock.now - age, **bounds))
            counts.append(len(turns) - before)
            for _ in range(pause):
                await asyncio.sleep(0)
        return counts

    return asyncio.run(main())


def test_who_comes_while_nobody_waits_has_its_answer_at_once():
    assert turns_of(pause=2) == turns_of(pause=2, budget=2.0) == [0, 0]
    assert turns_of(pause=1) == [0, 1]  # may have come while the first was worked for
    assert min(turns_of(pause=2, seconds=1e-3)) > 0  # takes too long for those who come meanwhile
    assert min(turns_of(pause=2, age=SLO - RESERVE)) > 0  # has no time for all stages
    assert min(turns_of(pause=2, confidence=0.9)) > 0  # is looked at after every stage
    assert min(turns_of(pause=2, policy=Fixed(10))) > 0


def test_work_at_once_counts_for_who_comes_meanwhile():
    """The work takes longer than the pace said, and the time of the second runs from when it began."""
    slow = VirtualEngine(
        model_of(many_stages(10)), steady(10, 1e-6), Adaptive(RESERVE), slo=SLO, slowness=lambda: 5e3
    )

    async def main():
        began = slow.clock.now
        await slow.answer(Question(np.ones((1, 4)), arrived=began))
        assert slow.clock.now > began + 4e-3
        return slow._due(Question(np.ones((1, 4)), arrived=slow.clock.now))[0] - began

    assert asyncio.run(main()) == pytest.approx(SLO, abs=1e-9)


def test_a_deadline_far_below_the_slo_keeps_a_reserve_of_its_own():
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive.for_slo(1.0), slo=1.0)
    (served,) = replay(engine, [(0.0, ROWS[:1], {"deadline": 0.150})])
    assert served.stage.tolist() == [100]
    assert not served.partial.any()
    (served,) = replay(engine, [(0.0, np.tile(ROWS[:1], (200, 1)), {"deadline": 0.100})])
    assert served.reason == "deadline"
    assert 0.070 <= served.elapsed <= 0.081  # a fifth is in reserve


def both(first, second, arrivals):
    """Answers of two engines on one clock and one loop; arrivals are ``(seconds, engine, rows)``."""
    second.clock = first.clock

    async def main():
        began, asked = first.clock.now, []

        def join():
            while len(asked) < len(arrivals) and began + arrivals[len(asked)][0] <= first.clock.now:
                seconds, engine, X = arrivals[len(asked)]
                ticket = engine._admit(Question(X, arrived=began + seconds))
                ticket.future = asyncio.get_running_loop().create_future()
                asked.append(ticket.future)
                engine._join(ticket)

        while len(asked) < len(arrivals):
            join()
            if not first.queue + second.queue:
                await rest()
                first.clock.now = max(first.clock.now, began + arrivals[len(asked)][0])
            await asyncio.sleep(0)
        return await asyncio.gather(*asked)

    return asyncio.run(main())


@pytest.mark.parametrize("shared", [True, False])
def test_two_busy_models_share_the_time_of_their_loop(shared):
    """Each has three times the load that it could take alone; the second model is five times as slow."""
    rng, full = np.random.default_rng(0), (2e-4, 1e-3)
    scheduler = Scheduler() if shared else None
    engines = [
        VirtualEngine(stumps(n), steady(n, seconds), Adaptive(RESERVE), slo=SLO, scheduler=scheduler)
        for n, seconds in zip((50, 100), full, strict=True)
    ]
    arrivals = []
    for engine, seconds in zip(engines, full, strict=True):
        times = poisson(rng, 3 / seconds, 0.2)
        arrivals += [
            (at, engine, X) for at, X in zip(times.tolist(), single_rows(rng, times.size), strict=True)
        ]
    arrivals.sort(key=lambda arrival: arrival[0])
    answers = both(*engines, arrivals)
    late = np.mean([served.elapsed > SLO + 1e-9 for served in answers])
    shares = [  # of all stages
        np.mean([s.stage[0] for s, (_, asked, _) in zip(answers, arrivals, strict=True) if asked is engine])
        / engine.model.n_stages_
        for engine in engines
    ]
    if shared:  # half of the time for each
        assert late == 0.0
        assert min(shares) >= 0.11
        assert max(shares) <= 0.2
    else:  # what it is for
        assert late > 0.0
        assert max(shares) > 2 * min(shares)


def test_a_flooded_model_leaves_the_other_its_first_stage():
    """Who is late is no reason to be put off until it is later still."""
    rng, full, scheduler = np.random.default_rng(1), (2e-4, 1e-3), Scheduler()
    engines = [
        VirtualEngine(stumps(n), steady(n, seconds), Adaptive(RESERVE), slo=SLO, scheduler=scheduler)
        for n, seconds in zip((50, 100), full, strict=True)
    ]
    arrivals = []
    for engine, seconds, load in zip(engines, full, (3, 60), strict=True):
        times = poisson(rng, load / seconds, 0.05)
        arrivals += [
            (at, engine, X) for at, X in zip(times.tolist(), single_rows(rng, times.size), strict=True)
        ]
    arrivals.sort(key=lambda arrival: arrival[0])
    assert min(served.stage[0] for served in both(*engines, arrivals)) > 0


def test_what_little_a_model_needs_it_gets_beside_a_busy_one():
    rng, scheduler = np.random.default_rng(0), Scheduler()
    quiet, busy = (
        VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE), slo=SLO, scheduler=scheduler)
        for _ in range(2)
    )
    arrivals = [(at, quiet, ROWS[:1]) for at in np.arange(0.02, 0.2, 0.02).tolist()]
    arrivals += [(at, busy, ROWS[:1]) for at in poisson(rng, 10_000, 0.2).tolist()]
    arrivals.sort(key=lambda arrival: arrival[0])
    answers = both(quiet, busy, arrivals)
    assert max(served.elapsed for served in answers) <= SLO + 1e-9
    assert {
        int(s.stage[0]) for s, (_, asked, _) in zip(answers, arrivals, strict=True) if asked is quiet
    } == {100}


def test_many_rows_take_no_stages_from_single_ones():
    """Two thousand rows, of which not even the first stage fits, then single rows."""
    rng = np.random.default_rng(0)
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE), slo=SLO)
    arrivals = [(0.0, rng.normal(size=(2000, 4)), {})]
    arrivals += [(at, rng.normal(size=(1, 4)), {}) for at in (1e-3, 2e-3, 4e-3, 6e-3)]
    large, *small = replay(engine, arrivals)
    assert [int(served.stage[0]) for served in small] == [100] * 4
    assert max(served.elapsed for served in (large, *small)) <= SLO + 1e-9
    assert (large.stage > 0).sum() > 100


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_nor_do_many_questions_of_many_rows(factor):
    rng = np.random.default_rng(0)
    means = {}
    for every in (None, 2e-3):
        engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE), slo=SLO)
        engine.scheduler.caution.factor = factor
        single = poisson(np.random.default_rng(1), 500, 0.1).tolist()
        arrivals = [(at, rng.normal(size=(1, 4)), {}) for at in single]
        if every is not None:
            arrivals += [(at, rng.normal(size=(2000, 4)), {}) for at in np.arange(0, 0.1, every).tolist()]
        arrivals.sort(key=lambda arrival: arrival[0])
        answers = replay(engine, arrivals)
        stages = [s.stage[0] for s, (_, X, _) in zip(answers, arrivals, strict=True) if len(X) == 1]
        means[every] = np.mean(stages)
    assert means[2e-3] > 0.9 * means[None]


def test_answers_that_need_no_more_work_leave_before_there_is_more():
    """What an answer says it has taken is what it has: no slice for others comes between."""
    rng, left = np.random.default_rng(0), []
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE), slo=SLO)
    join = engine._join

    def watched(ticket):
        def leaves(future):
            left.append(engine.clock.now - ticket.question.arrived - future.result().elapsed)

        ticket.future.add_done_callback(leaves)
        join(ticket)

    engine._join = watched
    times = poisson(rng, 4000, 0.3)
    replay(engine, [(at, X, {}) for at, X in zip(times, single_rows(rng, times.size), strict=True)])
    assert len(left) == times.size
    assert max(left) <= 1e-12


def test_who_has_no_deadline_is_not_left_to_wait_for_ever():
    """All time could go to those who have one."""
    rng = np.random.default_rng(0)
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE))
    arrivals = [(0.0, rng.normal(size=(4, 4)), {})]
    arrivals += [(at, rng.normal(size=(1, 4)), {"deadline": SLO}) for at in poisson(rng, 5000, 0.3).tolist()]
    patient, *others = replay(engine, arrivals)
    assert patient.reason == "complete"
    assert patient.elapsed <= 0.15
    assert max(served.elapsed for served in others) <= SLO + 1e-9


def test_questions_that_lack_groups_have_a_pace_of_their_own():
    """Theirs is another way through the plan, here twenty times as slow."""
    lacking = np.array([True, True, False, False])
    engine = VirtualEngine(
        model_of(many_stages(40)), steady(40, 1e-3), Adaptive(RESERVE), slowness=lambda: 20.0
    )
    for _ in range(100):
        replay(engine, [(0.0, ROWS[:1], {"held": lacking})])
    assert engine.pace.factor == 1.0
    assert engine._lacking.pace.factor > 10


# ---------------------------------------------------------------------- coming and going


def test_a_stream_of_many_rows_says_no_more_than_one_of_few():
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE))
    X = np.tile(ROWS, (67, 1))[:800]

    async def main():
        return [served async for served in engine.stream(Question(X, arrived=engine.clock.now))]

    events = asyncio.run(main())
    assert len(engine.slices) > 1000
    assert 10 <= len(events) <= engine.pace.checkpoints.size + 1
    assert all((a.stage <= b.stage).all() for a, b in pairwise(events))
    assert (events[-1].stage == 100).all()
    assert [served.reason for served in events] == [""] * (len(events) - 1) + ["complete"]


def test_who_reads_a_stream_slowly_gets_the_newest_answer():
    engine = VirtualEngine(stumps(100), steady(100, 1e-3), Adaptive(RESERVE))

    async def main():
        seen = []
        async for served in engine.stream(Question(ROWS[:1], arrived=engine.clock.now)):
            seen.append(int(served.stage[0]))
            if len(seen) == 1:
                while engine.queue:
                    await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == [1, 100]


class Broken:
    """Raises whatever it is asked."""

    reserve = 0.0

    def reserve_of(self, allowed):
        return 0.0

    def outlook(self, *_):
        raise ArithmeticError("broken")

    evaluated = answered = needs_no_plan = outlook


@pytest.mark.parametrize("part", ["policy", "begin", "_reading", "_read", "_compute", "_reason"])
@pytest.mark.parametrize("streams", [False, True])
def test_whatever_raises_is_heard_and_nobody_waits_for_ever(part, streams):
    engine = Engine(stumps(10), steady(10, 1e-5), Adaptive(RESERVE), slo=10.0)
    sound = getattr(engine, part)
    setattr(engine, part, Broken() if part == "policy" else Broken().outlook)

    async def ask():
        if not streams:
            return await engine.answer(Question(ROWS[:1]))
        return [served async for served in engine.stream(Question(ROWS[:1]))][-1]

    async def main():
        with pytest.raises(ArithmeticError, match="broken"):
            await asyncio.wait_for(ask(), 60.0)
        await asyncio.wait_for(engine.drain(), 60.0)
        setattr(engine, part, sound)
        return await asyncio.wait_for(ask(), 60.0)

    assert asyncio.run(main()).stage.tolist() == [10]


def test_an_observer_that_raises_costs_no_answer(caplog):
    engine = Engine(stumps(10), steady(10, 1e-5), Adaptive(RESERVE), slo=10.0, observer=Broken())
    served = asyncio.run(asyncio.wait_for(engine.answer(Question(ROWS[:1])), 60.0))
    assert served.stage.tolist() == [10]
    assert engine.queue == 0
    assert [record.message for record in caplog.records] == ["the observer of a model has failed"] * 2


def test_a_model_that_is_replaced_is_gone_at_once():
    engine = Engine(stumps(10), steady(10, 1e-5), Adaptive(RESERVE), scheduler=Scheduler())
    lacking = Question(ROWS[:1], held=np.array([True, False, True, True]))
    asyncio.run(engine.answer(Question(np.tile(ROWS, (100, 1)))))
    asyncio.run(engine.answer(lacking))
    there = weakref.ref(engine)
    gc.disable()
    try:
        del engine
        assert there() is None
    finally:
        gc.enable()


def test_a_stream_gives_every_checkpoint_and_then_a_reason():
    model = model_of(many_stages(100))
    engine = VirtualEngine(model, steady(100, 1e-3), Adaptive(RESERVE), slo=1.0)
    X = ROWS[:3]

    async def main():
        return [served async for served in engine.stream(Question(X, arrived=engine.clock.now))]

    events = asyncio.run(main())
    assert [int(served.stage[0]) for served in events] == engine.pace.checkpoints.tolist()
    assert [served.reason for served in events] == [""] * (len(events) - 1) + ["complete"]
    for served in events:
        run = Run(model.plan_, X)
        run.advance(int(served.stage[0]))
        assert_array_equal(served.probabilities, LINKS["logistic"].transform(run.scores()))


def test_who_leaves_costs_nothing_more():
    engine = VirtualEngine(model_of(many_stages(100)), steady(100, 0.1), Adaptive(RESERVE))

    async def main():
        stays = asyncio.create_task(engine.answer(Question(ROWS[:1], arrived=engine.clock.now)))
        leaves = asyncio.create_task(engine.answer(Question(ROWS, arrived=engine.clock.now)))
        await asyncio.sleep(0)
        assert engine.queue == 2
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0)
        assert engine.queue == 1
        before = len(engine.slices)
        served = await stays
        assert served.stage.tolist() == [100]
        assert {rows for *_, rows, _ in engine.slices[before + 1 :]} == {1}

        events = engine.stream(Question(ROWS, arrived=engine.clock.now))
        async for _ in events:
            break
        await events.aclose()
        assert engine.queue == 0
        await asyncio.sleep(0)
        done = len(engine.slices)
        await asyncio.sleep(0.01)
        assert len(engine.slices) <= done + 1

    asyncio.run(main())


def test_draining_waits_for_all_answers():
    engine = VirtualEngine(model_of(many_stages(100)), steady(100, 0.01), Adaptive(RESERVE))

    async def main():
        asked = [
            asyncio.create_task(engine.answer(Question(ROWS, arrived=engine.clock.now))) for _ in range(5)
        ]
        await asyncio.sleep(0)
        await engine.drain()
        await asyncio.sleep(0)
        assert all(task.done() for task in asked)
        await engine.drain()  # nothing to wait for

    asyncio.run(main())


def test_a_stage_that_raises_is_heard_by_those_who_wait_for_it_and_the_engine_goes_on():
    def stage(X):
        if (X > 100).any():
            raise ArithmeticError("too large")
        return X[:, :1]

    costs = FeatureCosts([1.0]).bind(1)
    plan = Plan(blocks=[FunctionBlock([0], stage, 1)], costs=costs, base=[0.0], link="identity")
    engine = Engine(model_of(plan), StagePace([1], [1e-5]), Adaptive(RESERVE), slo=10.0)

    async def main():
        with pytest.raises(ArithmeticError, match="too large"):
            await engine.answer(Question(np.array([[1000.0]])))
        with pytest.raises(ArithmeticError, match="too large"):
            async for _ in engine.stream(Question(np.array([[1000.0]]))):
                pass
        assert engine.queue == 0
        return await engine.answer(Question(np.array([[5.0]])))

    assert asyncio.run(main()).prediction.tolist() == [5.0]


@pytest.mark.parametrize(
    ("X", "bounds", "message"),
    [
        (np.zeros((1, 3)), {}, "4 columns"),
        (np.zeros((0, 4)), {}, "at least one row"),
        (np.zeros(4), {}, "shape"),
        (np.zeros((1, 4)), {"budget": -1.0}, "negative"),
        (np.zeros((1, 4)), {"deadline": -1.0}, "non-negative"),
        (np.zeros((1, 4)), {"deadline": float("nan")}, "non-negative"),
        (np.zeros((1, 4)), {"confidence": 0.0}, "confidence"),
        (np.zeros((1, 4)), {"raws": [1]}, "no extractors"),
    ],
)
def test_a_question_that_is_none_says_why(X, bounds, message):
    engine = Engine(model_of(many_stages(3)), steady(3, 1e-5), Adaptive(RESERVE))
    with pytest.raises(ValueError, match=message):
        asyncio.run(engine.answer(Question(X, **bounds)))
    assert engine.queue == 0


def test_who_is_read_after_a_slice_may_have_come_when_it_began():
    """Its time runs from there: nobody looks at the sockets during a slice."""
    engine = VirtualEngine(stumps(100), steady(100, 0.005), Adaptive(RESERVE), slo=SLO)

    async def main():
        began = engine.clock.now
        first = asyncio.ensure_future(engine.answer(Question(ROWS[:1], arrived=began)))
        while not engine.slices:
            await asyncio.sleep(0)
        ticket = engine._admit(Question(ROWS[:1], arrived=engine.clock.now))
        assert engine.clock.now > began
        assert ticket.due == began + SLO
        await first
        now = engine.clock.now
        assert (
            engine._admit(Question(ROWS[:1], arrived=now)).due < now + SLO
        )  # it may have come during the last
        await rest()
        assert engine._admit(Question(ROWS[:1], arrived=99.0)).due == 99.0 + SLO  # nobody works any more

    asyncio.run(main())


def test_what_has_come_during_a_slice_is_read_before_the_next():
    engine, seen = VirtualEngine(stumps(100), steady(100, 0.005), Adaptive(RESERVE), slo=SLO), []

    async def main():
        loop, compute = asyncio.get_running_loop(), engine._compute

        def watched(cohort, stage):
            seen.append(engine.queue)
            if len(seen) == 1:  # as a socket does, of which the loop learns after this: a handler begins
                loop.call_soon(
                    lambda: asked.append(loop.create_task(engine.answer(Question(ROWS[:1], arrived=0.0))))
                )
            compute(cohort, stage)

        engine._compute = watched
        asked = [loop.create_task(engine.answer(Question(ROWS[:1], arrived=engine.clock.now)))]
        await asked[0]
        await asked[1]

    asyncio.run(main())
    assert seen[:2] == [1, 2]


def test_who_has_been_late_keeps_more_in_reserve():
    engine = VirtualEngine(stumps(100), steady(100, 0.01), Adaptive(RESERVE), slo=SLO)
    (before,) = replay(engine, [(0.0, ROWS[:1], {})])
    engine.scheduler.caution.factor = 3.0  # times the reserve, which is three fifths of the time then
    (after,) = replay(engine, [(0.1, ROWS[:1], {})])
    assert SLO - RESERVE - 1e-3 < before.elapsed <= SLO - RESERVE + 1e-9
    assert SLO - 3 * RESERVE - 1e-3 < after.elapsed <= SLO - 3 * RESERVE + 1e-9
    assert after.stage[0] < before.stage[0]
