"""A recorded run can be replayed, and a replay that goes another way says where."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from anytime.blocks import LinearBlock
from anytime.costs import FeatureCosts
from anytime.rules import ScoreRule
from anytime.runtime import Event, ReplayError, Session, Trace, replay
from tests.runtime.bench import (
    ROWS,
    Clock,
    features_of,
    incomplete,
    linear_plan,
    model_of,
    one_tree,
    slow_features,
    timed_plan,
)
from tests.strategies import plans

X = np.array([1.0, 2.0, 3.0])


def broken(row):
    raise OSError("no connection")


@given(plans(), st.sampled_from(list(ROWS)), st.data())
def test_replay_repeats_every_run(plan, x, data):
    """speedboost_and_structured 9.8: stage order, features, costs and scores, also after interrupts and through a file."""
    model = model_of(plan, meter=data.draw(st.sampled_from(["model", "realised"])))
    amounts = [plan.costs.costs.amount(t) for t in plan.stage_ticks.tolist()]
    session = Session(model, features_of(plan))
    session.predict(x, budget=data.draw(st.sampled_from([None, *amounts])))
    if data.draw(st.booleans()):
        session.resume(max_stages=data.draw(st.integers(0, plan.n_stages)))
        session.resume()
    trace = Trace.from_json(session.trace.to_json())
    assert trace.events == session.trace.events
    answer, again = session.read(), replay(model, trace, session.values())
    assert_array_equal(again.scores, answer.scores)
    assert (again.cost, again.groups, again.stage) == (answer.cost, answer.groups, answer.stage)
    eager = Session(model)
    eager.predict(x)
    assert_array_equal(replay(model, eager.trace, x).scores, eager.read().scores)


@given(incomplete(), st.data())
def test_replay_repeats_whatever_was_done_with_an_example(case, data):
    """Rows that lack groups, extractors that fail, budgets that rise and fall, stages skipped, values given, and given again."""
    plan, held, _ = case
    names, amount = plan.costs.costs.groups, plan.costs.costs.amount
    lost = [name for name, there in zip(names, held, strict=True) if not there]
    model = model_of(plan, meter=data.draw(st.sampled_from(["model", "realised"])))
    features, skip = None, data.draw(st.booleans())
    raw = {name: ROWS[0, columns] for name, columns in names.items() if columns and name not in lost}
    if data.draw(st.booleans()):
        features, raw = features_of(plan, **dict.fromkeys(lost, broken)), ROWS[0]
    session = Session(model, features, skip=skip).start(raw)
    budgets = st.none() | st.integers(0, int(plan.costs.prices.sum() + plan.evaluation_ticks.sum())).map(
        amount
    )
    for _ in range(data.draw(st.integers(1, 4))):
        action = data.draw(st.sampled_from(["resume", "step", "stages", "confidence", "give", "restore"]))
        if action == "step":
            session.step()
        elif action == "give":
            rows = st.sampled_from([name for name, columns in names.items() if columns])
            chosen = data.draw(st.dictionaries(rows, st.sampled_from(list(ROWS))))
            session.give({name: x[list(names[name])] for name, x in chosen.items()})
        elif action == "restore":
            session = Session.restore(session.state(), model, features, skip=skip)
        else:
            bounds = {"stages": {"max_stages": data.draw(st.integers(0, plan.n_stages))}}
            bounds["confidence"] = {"confidence": data.draw(st.floats(0.3, 1.0))}
            session.resume(budget=data.draw(budgets), **bounds.get(action, {}))
    answer = session.resume(budget=data.draw(budgets))
    again = replay(model, Trace.from_json(session.trace.to_json()), session.values())
    assert_array_equal(again.scores, answer.scores)
    told = ("prediction", "stage", "cost", "model_cost", "groups", "complete", "failures")
    assert [getattr(again, name) for name in told] == [getattr(answer, name) for name in told]


def test_replay_of_a_session_that_asked_no_extractor():
    """What is given requires group "g2", which nobody computes: it is paid for all the same, unlike one that a row lacks."""
    prices, groups = {"g0": 1.0, "g1": 2.0, "g2": 4.0}, {"g0": [0], "g1": [1], "g2": [2]}
    costs = FeatureCosts(prices, groups=groups, requires={"g0": ["g2"]}).bind(3)
    plan = linear_plan(2, costs=costs)
    session = Session(model_of(plan), features_of(plan)).start(X)
    answer = session.give({"g0": [1.0], "g1": [5.0]}).resume()
    assert replay(session.model, session.trace, session.values()).cost == answer.cost == 7.0


@pytest.mark.parametrize("features", [True, False])
def test_replay_knows_the_numbers_that_were_replaced(features):
    plan = linear_plan()
    session = Session(model_of(plan), features_of(plan) if features else None).start(X)
    session.step()
    session.give({"g0": [5.0], "g2": [6.0]}).step()
    answer = session.give({"g0": [7.0]}).resume()
    assert answer.prediction == 0.5 + 7 + 20 + 600
    again = replay(session.model, Trace.from_json(session.trace.to_json()), session.values())
    assert again.prediction == answer.prediction


@pytest.mark.parametrize("raw", [X, {"root": 1.0, "left": 2.0}], ids=["whole", "incomplete"])
@pytest.mark.parametrize("skip", [True, False])
def test_replay_pays_for_a_stage_that_could_not_be_finished(raw, skip):
    """The path needs column 0, then column 2, which is too dear: the first is paid for."""
    plan = one_tree()
    session = Session(model_of(plan, meter="realised"), skip=skip)
    answer = session.predict(raw, budget=3.0)
    assert (answer.cost, answer.groups) == (1.0, ["root"])
    again = replay(session.model, session.trace, session.values())
    assert (again.cost, again.groups) == (1.0, ["root"])


@pytest.mark.parametrize("features", [True, False])
def test_replay_asks_the_gate_that_could_not_be_paid_at_first(features):
    gate = ScoreRule(LinearBlock([2], [[1.0]]))
    plan = linear_plan(stops={0: gate})
    session = Session(model_of(plan, meter="realised"), features_of(plan) if features else None)
    assert session.predict(X, budget=2.0).cost == 1.0
    answer = session.resume()
    assert (answer.stage, answer.cost, answer.complete) == (1, 4.0, True)
    again = replay(session.model, session.trace, session.values())
    assert (again.stage, again.cost, again.complete) == (1, 4.0, True)


def test_replay_ends_where_a_stage_cannot_be_paid():
    plan = linear_plan()
    session = Session(model_of(plan, meter="realised"), features_of(plan)).start(X)
    session.give({"g0": [1.0]}).resume()
    events = [replace(event, cap=0.5) for event in session.trace.events]
    with pytest.raises(ReplayError, match="stage 1 costs more than the session could pay"):
        replay(session.model, Trace(events), session.values())


def recorded():
    plan = linear_plan()
    session = Session(model_of(plan), features_of(plan))
    session.predict(X)
    return session


def test_other_features_are_noticed():
    session = recorded()
    values = {**session.values(), "g1": [2.5]}
    with pytest.raises(ReplayError, match=r"event 3 \(stages\): scores is"):
        replay(session.model, session.trace, values)


def test_other_prices_are_noticed():
    session = recorded()
    dearer = FeatureCosts({f"g{t}": 2.0 for t in range(3)}, groups={f"g{t}": [t] for t in range(3)})
    with pytest.raises(ReplayError, match=r"event 0 \(group\): cost is 2.0, but 1.0 was recorded"):
        replay(model_of(linear_plan(costs=dearer.bind(3))), session.trace, X)


def test_row_replays_a_run_that_fetched_its_features():
    session = recorded()
    assert replay(session.model, session.trace, X).prediction == session.read().prediction


def test_another_order_is_noticed():
    session = recorded()
    trace = Trace([event for event in session.trace.events if event.group != "g0"])
    with pytest.raises(ReplayError, match="event 0"):
        replay(session.model, trace, session.values())


def test_values_that_were_not_recorded_are_noticed():
    session = recorded()
    values = session.values()
    del values["g2"]
    with pytest.raises(ReplayError):
        replay(session.model, session.trace, values)


def test_trace_tells_what_took_how_long():
    clock = Clock()
    session = Session(model_of(timed_plan([1.0, 2.0])), slow_features(clock, [1.0, 2.0]), clock=clock)
    session.predict(X)
    told = [(event.kind, event.group, event.at, event.seconds) for event in session.trace.events]
    assert told == [
        ("group", "g0", 1.0, 1.0),
        ("stages", "", 1.0, 0.0),
        ("group", "g1", 3.0, 2.0),
        ("stages", "", 3.0, 0.0),
        ("end", "", 3.0, 0.0),
    ]
    assert len(session.trace) == 5


def test_idle_time_between_two_calls_is_not_counted():
    clock = Clock()
    session = Session(model_of(timed_plan([1.0, 2.0])), slow_features(clock, [1.0, 2.0]), clock=clock)
    session.predict(X, max_stages=1)
    clock.sleep(1000.0)
    assert session.read().elapsed == 1.0
    assert session.resume().elapsed == 3.0


def test_statistics_say_where_the_time_went():
    clock = Clock()
    plan = timed_plan([1.0, 2.0])
    session = Session(model_of(plan), slow_features(clock, [1.0, 4.0]), clock=clock)
    session.predict(X, deadline=4.0)
    told = session.statistics()
    assert (told["runs"], told["overruns"], told["worst_overrun"]) == (1, 1, 1.0)
    assert told["seconds"]["features"] == pytest.approx(5.0)
    assert told["groups"]["g0"]["estimate_error"] == 0.0
    assert told["groups"]["g1"]["estimate_error"] == pytest.approx(2.0)
    assert told["groups"]["g1"]["histogram_us"] == {2**22: 1}
    assert list(told["stages"]) == ["1"]


def test_events_are_plain_values():
    event = Event("stages", 0.5, 3, 7.0, scores=(1.0, float("nan")))
    (again,) = Trace.from_json(Trace([event]).to_json()).events
    assert str(again) == str(event)
