"""Deadlines: what no longer fits is not started, what overruns is not waited for, what comes late is kept."""

import asyncio
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anytime._native import StopFlag
from anytime.blocks import FunctionBlock
from anytime.costs import FeatureCosts
from anytime.features import Extractor, Features
from anytime.runtime import Session
from anytime.runtime.timing import Pace
from tests.runtime.bench import Clock, features_of, linear_plan, model_of, slow_features, timed_plan

X = np.array([1.0, 2.0, 3.0])


# ---------------------------------------------------------------------- on a clock that obeys


def test_group_is_started_only_if_its_tail_fits():
    clock = Clock()
    plan = timed_plan([1.0, 1.0, 1.0], tails=[1.5, 1.5, 1.5])
    session = Session(model_of(plan), slow_features(clock, [1.0, 1.0, 1.0]), clock=clock)
    answer = session.predict(X, deadline=2.6)  # the third would be tried with 0.6 s left
    assert (answer.stage, answer.elapsed, session.reason) == (2, 2.0, "deadline")
    assert session.statistics()["overruns"] == 0
    assert session.predict(X, deadline=4.0).stage == 3


def test_without_tails_the_price_is_the_estimate():
    clock = Clock()
    session = Session(model_of(timed_plan([1.0, 1.0])), slow_features(clock, [1.0, 1.0]), clock=clock)
    assert session.predict(X, deadline=1.9).stage == 1


def test_prices_that_are_no_times_do_not_keep_a_group_from_being_tried():
    clock = Clock()
    session = Session(model_of(linear_plan(2)), slow_features(clock, [1.0, 1.0]), clock=clock)
    assert session.predict(X, deadline=2.5).stage == 2


def test_requirements_count_towards_the_estimate():
    costs = FeatureCosts(
        {"start": 2.0, "g0": 1.0}, groups={"start": [], "g0": [0]}, requires={"g0": ["start"]}, unit="s"
    )
    plan = linear_plan(1, costs=costs.bind(1))
    clock = Clock()
    features = Features({"start": lambda raw: clock.sleep(2.0), "g0": lambda raw: 1.0})
    session = Session(model_of(plan), features, clock=clock)
    assert session.predict(None, deadline=2.9).groups == []
    assert session.predict(None, deadline=3.1).groups == ["start", "g0"]


def test_measurements_correct_a_price_list_that_was_too_optimistic():
    clock = Clock()
    session = Session(model_of(timed_plan([1.0])), slow_features(clock, [3.0]), clock=clock)
    first = session.predict(X, deadline=2.0)
    assert (first.stage, first.elapsed, first.cost) == (0, 3.0, 1.0)  # tried, paid, too late
    second = session.predict(X, deadline=2.0)
    assert (second.elapsed, second.cost) == (0.0, 0.0)  # not tried again
    assert session.statistics()["worst_overrun"] == pytest.approx(1.0)


def test_measurements_correct_a_price_list_that_was_too_pessimistic():
    clock = Clock()
    session = Session(model_of(timed_plan([9.0])), slow_features(clock, [1.0]), clock=clock)
    assert session.predict(X, deadline=2.0).stage == 0
    for _ in range(32):
        session.predict(X)
    assert session.predict(X, deadline=2.0).stage == 1


def test_pace_follows_a_machine_that_changes():
    pace = Pace(prior=5.0)
    assert pace.expect() == 5.0
    for seconds in [1.0] * 200:
        pace.observe(seconds)
    assert pace.expect() == 1.0
    for seconds in [2.0] * 200:
        pace.observe(seconds)
    assert pace.expect() == 2.0
    assert pace.summary()["count"] == 400


def test_slow_stage_is_not_started_when_it_no_longer_fits():
    clock = Clock()

    def slow(column):
        clock.sleep(1.0)
        return column

    plan = linear_plan(3, blocks=[FunctionBlock([t], slow) for t in range(3)])
    session = Session(model_of(plan), clock=clock)
    assert session.predict(X).stage == 3  # each stage is now known to take a second
    answer = session.predict(X, deadline=2.5)
    assert (answer.stage, answer.elapsed) == (2, 2.0)


def test_result_that_comes_late_is_kept_for_resuming():
    clock = Clock()
    log: list[str] = []
    plan = linear_plan(2)

    def late(row):
        log.append("g1")
        clock.sleep(5.0)
        return row[1]

    session = Session(model_of(plan), features_of(plan, log, g1=late), clock=clock)
    answer = session.predict(X, deadline=1.0)
    assert (answer.stage, answer.prediction, session.reason) == (1, 1.5, "deadline")
    assert "had not arrived" in answer.failures["g1"]
    answer = session.resume()
    assert (answer.stage, answer.prediction, answer.failures, log) == (2, 21.5, {}, ["g0", "g1"])
    assert answer.cost == 3.0


def test_result_that_has_arrived_meanwhile_fits_any_deadline():
    clock = Clock()
    plan = timed_plan([1.0])
    session = Session(model_of(plan), slow_features(clock, [5.0]), clock=clock)
    assert session.predict(X, deadline=2.0).stage == 0
    answer = session.resume(deadline=0.1)  # a fresh call would not fit
    assert (answer.stage, answer.cost) == (1, 1.0)


def test_skipping_tries_the_next_stage_that_fits():
    clock = Clock()
    plan = timed_plan([1.0, 5.0, 1.0])
    session = Session(model_of(plan), slow_features(clock, [1.0, 5.0, 1.0]), skip=True, clock=clock)
    answer = session.predict(X, deadline=3.0)
    assert (answer.prediction, answer.groups) == (0.5 + 1 + 300, ["g0", "g2"])


def test_timeout_is_a_failure_also_when_time_is_left():
    clock = Clock()
    plan = linear_plan(2)
    session = Session(model_of(plan), slow_features(clock, [5.0, 0.1], timeout=1.0), clock=clock)
    answer = session.predict(X)
    assert answer.failures == {"g0": "timed out after 1 s"}
    assert answer.prediction == 20.5


# ---------------------------------------------------------------------- in real time, with generous margins


def sleeper(seconds: float, log: list[str] | None = None):
    def extract(row):
        if log is not None:
            log.append("called")
        time.sleep(seconds)
        return row[0]

    return extract


@pytest.mark.realtime
def test_extractor_that_overruns_does_not_delay_the_answer():
    plan = linear_plan(2)
    log: list[str] = []
    session = Session(model_of(plan), features_of(plan, g1=sleeper(0.6, log)))
    began = time.monotonic()
    answer = session.predict(X, deadline=0.05)
    assert time.monotonic() - began < 0.4
    assert (answer.stage, list(answer.failures)) == (1, ["g1"])
    answer = session.resume()  # waits for the call that is under way, and does not start another
    assert (answer.stage, log) == (2, ["called"])


@pytest.mark.realtime
def test_python_code_that_never_sleeps_does_not_delay_the_answer():
    stop_at = time.monotonic() + 0.6

    def busy(row):
        while time.monotonic() < stop_at:
            pass
        return 1.0

    plan = linear_plan(2)
    session = Session(model_of(plan), features_of(plan, g1=busy))
    began = time.monotonic()
    assert session.predict(X, deadline=0.05).stage == 1
    assert time.monotonic() - began < 0.4


@pytest.mark.realtime
def test_timeout_in_real_time():
    plan = linear_plan(2)
    features = features_of(plan, g0=Extractor(sleeper(1.0), timeout=0.02))
    began = time.monotonic()
    answer = Session(model_of(plan), features).predict(X)
    assert time.monotonic() - began < 0.7
    assert answer.failures == {"g0": "timed out after 0.02 s"}


@pytest.mark.realtime
@pytest.mark.parametrize("make", [threading.Event, StopFlag])
def test_stop_flag_interrupts_a_slow_extractor(make):
    stop = make()
    plan = linear_plan(2)

    def slow(row):
        stop.set()
        time.sleep(1.0)

    session = Session(model_of(plan), features_of(plan, g1=slow))
    began = time.monotonic()
    answer = session.predict(X, stop=stop)
    assert time.monotonic() - began < 0.7
    assert (answer.stage, session.reason) == (1, "stop")


@pytest.mark.realtime
def test_asynchronous_extractors():
    async def fetch(row):
        await asyncio.sleep(0.001)
        return row[0]

    async def hang(row):
        await asyncio.sleep(60)

    class Remote:
        async def __call__(self, row):
            return row[2]

    features = Features({"g0": fetch, "g1": Extractor(hang, timeout=0.02), "g2": Remote()})
    answer = Session(model_of(linear_plan())).predict(X)
    assert answer.prediction == 321.5
    answer = Session(model_of(linear_plan()), features).predict(X)
    assert (answer.prediction, answer.failures) == (301.5, {"g1": "timed out after 0.02 s"})
    began = time.monotonic()
    Session(model_of(linear_plan()), Features({"g0": hang, "g1": hang, "g2": hang})).predict(X, deadline=0.05)
    assert time.monotonic() - began < 0.4


def test_session_can_be_used_inside_a_running_event_loop():
    async def fetch(row):
        return row[0]

    async def serve():
        return Session(model_of(linear_plan(1)), Features({"g0": fetch})).predict(X)

    assert asyncio.run(serve()).prediction == 1.5


def test_no_time_at_all_gives_the_base():
    plan = linear_plan()
    log: list[str] = []
    answer = Session(model_of(plan), features_of(plan, log)).predict(X, deadline=0.0)
    assert (answer.prediction, answer.stage, log) == (0.5, 0, [])


def test_forest_stops_in_time_with_a_complete_prefix():
    """The time between two legal interrupt points of a forest is microseconds."""
    sklearn = pytest.importorskip("sklearn.ensemble")
    data = np.random.default_rng(0).normal(size=(200, 5))
    fitted = sklearn.RandomForestRegressor(300, random_state=0).fit(data, data[:, 0] * data[:, 1])
    from anytime.trees import make_anytime

    model = make_anytime(fitted)
    prefixes = [answer.scores[0] for answer in model.stages(data[:1])]
    session = Session(model)
    seen = set()
    for deadline in np.geomspace(1e-6, 1e-2, 25):
        answer = session.predict(data[0], deadline=deadline)
        assert_array_equal(answer.scores, prefixes[answer.stage])
        seen.add(answer.stage)
    assert len(seen) > 1


def test_one_pause_of_the_machine_does_not_keep_a_group_away_for_good():
    """Work that is never begun is never measured: the longest measurement is forgotten after some refusals."""
    pace = Pace()
    for _ in range(100):
        pace.observe(1e-4)
    for _ in range(2):
        pace.observe(1.0)
    assert pace.expect() == 1.0
    for _ in range(2 * 16):
        pace.decline()
    assert pace.expect() == 1e-4
    for _ in range(10_000):
        pace.decline()
    assert pace.expect() == 1e-4  # something is always remembered
