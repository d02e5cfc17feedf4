"""A recorded run can be replayed, and a replay that goes another way says where."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from anytime.costs import FeatureCosts
from anytime.runtime import Event, ReplayError, Session, Trace, replay
from anytime.testing.strategies import plans
from tests.runtime.bench import ROWS, Clock, features_of, linear_plan, model_of, slow_features, timed_plan

X = np.array([1.0, 2.0, 3.0])


@settings(max_examples=75)
@given(plans(), st.sampled_from(list(ROWS)), st.data())
def test_replay_repeats_every_run(plan, x, data):
    """Spec 9.8: stage order, features computed, costs and scores, also after interrupts and through a file."""
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
