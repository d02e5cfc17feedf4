"""A deadline that is known in advance, where stages replace each other: straight to the last that surely ends in time."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

import anytime as at
from anytime import engine, estimator, one_row
from anytime._native import StopFlag
from anytime.blocks import FunctionBlock
from anytime.costs import FeatureCosts
from anytime.engine import Run
from anytime.plan import Plan
from tests.runtime.bench import model_of

N = 40
X = np.zeros((N, 1))


class Clock:
    """Stands still, but for what stages take."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    perf_counter = monotonic


class Stage(FunctionBlock):
    """Answers by its number; takes so many seconds per row, and says that it takes ``said``."""

    def __init__(self, number, takes, said, clock):
        def answered(x):
            clock.now += takes * len(x)
            return np.full(len(x), number)

        super().__init__([0], answered)
        self.said = said

    def seconds(self, stage, n_rows):
        return self.said * n_rows


def plan_of(clock, takes, said, **more):
    stages = [Stage(k + 1, *pair, clock) for k, pair in enumerate(zip(takes, said, strict=True))]
    costs, replaces = FeatureCosts([1.0]).bind(1), np.ones(len(stages), dtype=bool)
    return Plan(blocks=stages, costs=costs, base=[0.0], link="identity", replaces=replaces, **more)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (engine, estimator, one_row):
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=clock.monotonic, perf_counter=clock.perf_counter)
        )
    return clock


def worked(run):
    return [int(rows) for rows in run.updates]


def test_with_plenty_of_time_only_the_last_stage_is_done(clock):
    run = Run(plan_of(clock, [1, 1, 1, 1], [2, 2, 2, 2]), X)
    assert run.advance(deadline=clock.now + 1_000)
    assert worked(run) == [0, 0, 0, N]
    assert clock.now == 100 + N


def test_with_little_more_time_than_needed_the_first_answer_comes_first(clock):
    run = Run(plan_of(clock, [0.1, 1, 1, 2], [0.2, 2, 2, 4]), X)
    assert run.advance(deadline=clock.now + 200)
    assert worked(run) == [N, 0, 0, N]


def test_what_the_first_stage_takes_tells_how_far_to_go(clock):
    """Expected are 8 seconds a row for the third stage, and the first says that stages take a tenth of what is expected."""
    run = Run(plan_of(clock, [0.1, 0.4, 0.8, 3], [1, 4, 8, 30]), X)
    assert not run.advance(deadline=clock.now + 100)
    assert worked(run)[:3] == [N, 0, N]
    assert 0 < worked(run)[3] < N


def test_what_stages_took_before_is_remembered(clock):
    """Ten times less than is expected: a first run dares the last stage after one in the middle, one that has seen it at once."""
    takes, said = [0.01, 0.1, 0.2, 1.0], [0.1, 1.0, 8.0, 10.0]
    new, seen = (plan_of(clock, takes, said) for _ in range(2))
    Run(seen, X).advance()
    for plan, work in ((new, [N, 0, N, N]), (seen, [N, 0, 0, N])):
        run = Run(plan, X)
        assert run.advance(deadline=clock.now + 70)
        assert worked(run) == work


def test_a_machine_that_has_become_slower_is_noticed_by_the_first_stage(clock):
    """What was remembered says that the last stage fits; the first takes five times as long, so that the second does."""
    plan = plan_of(clock, [0.1, 0.5, 1.0], [0.1, 0.5, 1.0])
    for s, takes in enumerate((0.1, 0.5, 1.0)):
        plan.note_pace(s, N, takes * N)
    slow = plan_of(clock, [0.5, 2.5, 5.0], [0.1, 0.5, 1.0])
    slow.__dict__["_paces"] = plan._paces
    run = Run(slow, X)
    assert not run.advance(deadline=clock.now + 140)
    assert worked(run)[1] == N
    assert Run(plan, X).advance(deadline=clock.now + 140)  # as it was, it fits


def test_a_stage_that_was_cut_short_is_not_believed_to_be_quick_again(clock):
    """The last stage takes ten times as long as it did: one call runs into the deadline, the next goes to the second."""
    plan = plan_of(clock, [0.1, 0.5, 10.0], [0.1, 1.0, 2.0])
    for s, takes in enumerate((0.1, 0.5, 1.0)):
        plan.note_pace(s, N, takes * N)
    ends = []
    for _ in range(2):
        run = Run(plan, X)
        run.advance(deadline=clock.now + 120)
        ends.append(worked(run)[1])
    assert ends == [0, N]


def test_a_stage_that_time_did_not_reach_says_nothing_of_its_pace(clock):
    plan = plan_of(clock, [1, 1], [1, 1])
    plan.note_pace(1, N, N)
    Run(plan, X).advance(deadline=clock.now + 1e-6)
    assert plan._paces[N.bit_length()] == {1: 1.0}


def test_a_pickle_of_a_plan_does_not_hold_what_runs_have_learned():
    model = at.SpeedBoostClassifier(random_state=0, n_estimators=5).fit(
        np.arange(8.0)[:, None], [0] * 4 + [1] * 4
    )
    before = pickle.dumps(model.plan_)
    model.predict(np.zeros((4, 1)), deadline=1.0)
    model.plan_._paces[3] = {0: 1.0}
    assert pickle.dumps(model.plan_) == before
    assert_array_equal(pickle.loads(before).stage_costs, model.plan_.stage_costs)


def test_stages_of_which_nothing_is_known_are_done_one_by_one(clock):
    run = Run(plan_of(clock, [1, 1, 1, 1], [0, 0, 0, 0]), X)
    assert run.advance(deadline=clock.now + 1_000)
    assert worked(run) == [N, N, N, N]


@pytest.mark.parametrize("bound", [{"stop": StopFlag()}, {"metered": True}])
def test_who_may_be_interrupted_or_pays_on_the_way_does_every_stage(clock, bound):
    """known_budgets_and_rows K3: an interrupt is not known in advance."""
    run = Run(plan_of(clock, [1, 1, 1, 1], [2, 2, 2, 2]), X, metered="metered" in bound)
    assert run.advance(deadline=clock.now + 1_000, stop=bound.get("stop"))
    assert worked(run) == [N, N, N, N]


def test_stages_that_add_up_are_not_left_out(clock):
    plan = plan_of(clock, [1, 1, 1], [2, 2, 2])
    run = Run(Plan(blocks=plan.blocks, costs=plan.costs, base=[0.0], link="identity"), X)
    assert run.advance(deadline=clock.now + 1_000)
    assert run.scores()[:, 0].tolist() == [6.0] * N


def test_rows_that_time_does_not_reach_keep_the_answer_and_the_number_of_their_last_stage(clock):
    """The last stage takes ten times as long as it says."""
    run = Run(plan_of(clock, [0.1, 1, 20], [0.1, 2, 2]), X)
    assert not run.advance(deadline=clock.now + 200)
    assert set(run.done) == {1, 3}
    assert_array_equal(run.scores()[:, 0], run.done)
    assert_array_equal(run.partial, run.done == 1)
    assert clock.now < 100 + 200 + 20 * 2  # one chunk late at most: two rows
    assert run.advance()
    assert run.scores()[:, 0].tolist() == [3.0] * N


class Pair(FunctionBlock):
    """Two stages of one block of which nothing is known before: the second takes a thousand times as long as the first."""

    n_stages = 2

    def __init__(self, clock):
        super().__init__([0], lambda x: x[:, 0])
        self.clock = clock

    def columns(self, stage):
        return np.array([0], dtype=np.int32)

    def outputs(self, stage, X):
        self.clock.now += (1e-5, 1e-2)[stage] * len(X)
        return np.full((len(X), 1), stage + 1.0)


def test_a_quick_stage_says_nothing_of_a_slow_one_of_its_block(clock):
    costs = FeatureCosts([1.0]).bind(1)
    plan = Plan(
        blocks=[Pair(clock)], costs=costs, base=[0.0], link="identity", replaces=np.ones(2, dtype=bool)
    )
    run = Run(plan, np.zeros((1000, 1)))
    assert not run.advance(deadline=clock.now + 1)
    assert set(run.done) == {1, 2}
    assert clock.now < 101 + 0.03


def test_a_stage_too_quick_to_be_measured_leaves_time_for_the_last(clock):
    run = Run(plan_of(clock, [0, 0, 1], [1, 1, 2]), X)
    assert run.advance(deadline=clock.now + 100)
    assert worked(run) == [N, 0, N]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.just(0.0) | st.floats(0.01, 10), st.floats(0.01, 10)), min_size=1, max_size=5),
    st.floats(0.0, 300.0),
    st.integers(1, 30),
)
def test_whatever_stages_take_each_row_has_the_answer_of_a_stage_and_can_go_on(pairs, seconds, n_rows):
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            engine, "time", SimpleNamespace(monotonic=clock.monotonic, perf_counter=clock.perf_counter)
        )
        plan = plan_of(clock, *zip(*pairs, strict=True))
        run = Run(plan, X[:n_rows])
        finished = run.advance(deadline=clock.now + seconds)
        assert finished == bool((run.done == plan.n_stages).all())
        assert_array_equal(run.scores()[:, 0], run.done)
        assert_array_equal(run.partial, run.done < plan.n_stages)
        assert run.advance()
        assert (run.scores() == plan.n_stages).all()


def test_one_row_is_answered_by_the_last_stage_that_ends_in_time(clock):
    model = model_of(plan_of(clock, [1, 1, 1, 1], [1, 2, 3, 4]))
    found = [float(model.predict_one(X[0], deadline=seconds)) for seconds in (0.0, 0.5, 1.5, 3.5, 9.0)]
    assert found == [0.0, 1.0, 1.0, 3.0, 4.0]


@pytest.mark.parametrize(
    "model",
    [at.SpeedBoostClassifier(n_estimators=5, max_stages=4, random_state=0), at.GroupPursuitClassifier()],
)
def test_a_far_away_deadline_gives_the_answer_without_one_by_the_same_work(model, monkeypatch):
    rows, y, costs = at.datasets.load("breast_cancer")
    model = clone(model).set_params(costs=costs).fit(rows, y)
    assert model.n_stages_ > 2
    done = []
    do_stage = Run.do_stage
    monkeypatch.setattr(Run, "do_stage", lambda *call: (done.append(call[1]), do_stage(*call))[1])
    patient = model.predict_proba(rows, deadline=60.0)
    assert done == [model.n_stages_ - 1]
    assert_array_equal(patient, model.predict_proba(rows))
