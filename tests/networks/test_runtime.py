"""Networks under deadlines, stop flags, budgets and confidence, in every way that models are run."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

import anytime as at  # noqa: E402
from anytime.engine import Run  # noqa: E402
from anytime.networks import ExitNetwork, NetworkBlock  # noqa: E402
from anytime.networks.timing import QueueWatch  # noqa: E402
from anytime.plan import Plan  # noqa: E402
from anytime.rules import EntropyRule, StopTable  # noqa: E402

torch.set_num_threads(1)
SLOW = 0.02  # seconds of a block below
COLUMNS = 4


class _Slow(torch.nn.Module):
    """Adds one to its input, in its own time; counts the rows that it meets."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.met, self.slowest = seconds, [], 0.0

    def forward(self, x):
        began = time.monotonic()
        time.sleep(self.seconds)
        self.met.append(len(x))
        self.slowest = max(self.slowest, time.monotonic() - began)
        return x + 1


def plan_of(*seconds):
    """Exits behind slow blocks, the i-th of which says what its row was, and i; as a plan of a classifier."""
    network = ExitNetwork([_Slow(taken) for taken in seconds], [torch.nn.Identity() for _ in seconds])
    block = NetworkBlock(network, [np.arange(COLUMNS)] * len(seconds), (COLUMNS,), batch_rows=64)
    costs = at.FeatureCosts(groups={"input": list(range(COLUMNS))}, prices={"input": 0.0}).bind(COLUMNS)
    return Plan(
        blocks=[block],
        costs=costs,
        base=np.zeros(COLUMNS),
        link="softmax",
        replaces=np.ones(len(seconds), dtype=bool),
        evaluation_costs=np.ones(len(seconds)),
    )


def model_of(plan):
    model = at.AnytimeNetworkClassifier(device="cpu")
    model.plan_, model.n_features_in_, model.input_shape_ = plan, COLUMNS, (COLUMNS,)
    model.classes_ = np.arange(COLUMNS)
    return model


def met(plan):
    """Rows that each block has met, call by call, since the last time."""
    counts = [block.met[:] for block in plan.blocks[0].network.blocks]
    for block in plan.blocks[0].network.blocks:
        block.met.clear()
    return counts


# ---------------------------------------------------------------------- the same answer by every way


def test_all_ways_give_one_answer(pictures, seeing):
    X = pictures[0]
    whole = seeing.predict_proba(X)
    for stage, answer in enumerate(seeing.stages(X)):
        if stage:
            small = seeing.truncate(seeing.stage_costs_[stage - 1])
            assert small.n_stages_ == stage
            np.testing.assert_array_equal(small.predict_proba(X), answer.probabilities)
    np.testing.assert_array_equal(answer.probabilities, whole)
    np.testing.assert_array_equal(at.BatchSession(seeing, X).advance().probabilities, whole)
    session = at.Session(seeing)
    for i in range(5):
        for image in (X[i], X[i].transpose(1, 2, 0), X[i : i + 1], X[i].ravel(), X[i].tolist()):
            np.testing.assert_allclose(session.predict(image).probabilities, whole[i], atol=1e-5)
        assert seeing.predict_one(X[i]) == seeing.predict(X[i : i + 1])[0]


def test_curves_and_comparisons_take_images(pictures, seeing):
    X, y = pictures
    curve = at.curve(seeing, X, y)
    assert curve.costs[-1] == seeing.stage_costs_[-1]
    assert curve.values[-1] == pytest.approx(seeing.score(X, y))
    compared = at.compare(
        {"network": seeing, "its first exit": seeing.truncate(seeing.stage_costs_[0])}, X, y
    )
    assert set(compared.curves) == {"network", "its first exit"}


def test_costs_by_every_meter(pictures, seeing):
    X = pictures[0]
    assert (seeing.cost(X, budget=seeing.stage_costs_[1]) == seeing.stage_costs_[1]).all()
    seconds = seeing.cost(X, meter="time")
    assert seconds.shape == (96,)
    assert (seconds > 0).all()
    slow = model_of(plan_of(SLOW, SLOW))
    taken = slow.cost(np.zeros((2, COLUMNS)), meter="time")
    assert 2 * SLOW <= 2 * taken[0] < 20 * SLOW


def test_a_session_is_stepped_stopped_and_continued(pictures, seeing):
    X = pictures[0]
    expected = list(seeing.stages(X[:1]))
    session = at.Session(seeing).start(X[0])
    for stage in (1, 2, 3):
        session.step()
        np.testing.assert_array_equal(session.read().scores, expected[stage].scores[0])
        state = pickle.loads(pickle.dumps(session.state()))
        other = at.Session.restore(state, seeing)
        np.testing.assert_array_equal(
            other.resume().scores, expected[3].scores[0]
        )  # and leaves the first where it is


def test_a_copied_session_goes_its_own_way():
    plan = plan_of(0, 0, 0)
    session = at.Session(model_of(plan)).start(np.arange(4.0))
    session.step()
    met(plan)
    state = session.state()
    at.Session.restore(state, session.model).resume()
    assert met(plan) == [[], [1], [1]]  # it has the activations of the first block
    session.resume()
    assert met(plan) == [[], [1], [1]]


# ---------------------------------------------------------------------- rows that are sure leave


def test_rows_that_are_sure_leave_the_batch():
    """Blocks compute only rows that are left: the activations of the others are not looked at again."""
    plan, X = plan_of(0, 0, 0), np.zeros((10, COLUMNS))
    X[::2, 0] = 9.0  # sure after the first exit
    batch = at.BatchSession(model_of(plan), X, confidence=0.9)
    met(plan)
    answer = batch.advance()
    assert met(plan) == [[10], [5], [5]]
    assert answer.stage.tolist() == [1, 3] * 5
    assert answer.complete
    assert (answer.probabilities.max(axis=1)[::2] >= 0.9).all()
    np.testing.assert_array_equal(answer.scores[1::2], np.full((5, COLUMNS), 3.0))  # and each kept its own
    unsure = at.BatchSession(model_of(plan), X, confidence=1.0)  # nobody is: all go on
    unsure.advance()
    assert met(plan) == [[10], [10], [10]]


def test_rows_that_a_rule_stops_are_not_computed_further():
    plan, X = plan_of(0, 0, 0), np.zeros((10, COLUMNS))
    X[:, 0] = np.arange(10)
    gated = replace(plan, stops={0: EntropyRule(0.5, below=True)})
    run = Run(gated, X)
    met(plan)
    run.advance()
    left = int((~run.finished).sum())
    assert met(plan) == [[10], [left], [left]]
    assert 0 < left < 10
    np.testing.assert_array_equal(run.scores()[:, 0], np.arange(10) + np.where(run.finished, 1, 3))


def test_rows_that_leave_early_for_a_mean_are_not_computed_further():
    plan, X = plan_of(0, 0, 0), np.zeros((10, COLUMNS))
    X[:, 0] = np.arange(10)  # its margin, at every exit
    table = StopTable([[6.0, 3.0, -np.inf]], [[0.4, 0.3, 0.3]])
    model = model_of(replace(plan, stop_table=table))
    met(plan)
    answer = model.answer(X, mean_budget=1.9)
    assert met(plan) == [[10], [6], [3]]
    assert answer.stage.tolist() == [3] * 3 + [2] * 3 + [1] * 4
    assert answer.cost.mean() == pytest.approx(1.9)
    np.testing.assert_array_equal(answer.scores[:, 0], np.arange(10) + answer.stage)  # each kept its own
    batch = at.BatchSession(model.truncate(mean_budget=1.9), X)
    assert batch.advance().stage.tolist() == answer.stage.tolist()
    assert met(plan) == [[10], [6], [3]]
    model.answer(X)  # without a mean all go on
    assert met(plan) == [[10], [10], [10]]


def test_a_session_stops_when_it_is_sure():
    plan = plan_of(0, 0, 0)
    session = at.Session(model_of(plan))
    assert session.predict(np.array([9.0, 0, 0, 0]), confidence=0.9).stage == 1
    assert session.reason == "confidence"
    assert session.predict(np.zeros(4), confidence=0.9).stage == 3


# ---------------------------------------------------------------------- time


@pytest.mark.realtime
@pytest.mark.parametrize("way", ["predict", "predict_one", "session", "batch"])
def test_no_answer_is_later_than_the_deadline_and_one_block(way):
    model, X = model_of(plan_of(*[SLOW] * 8)), np.zeros((1, COLUMNS))
    session = at.Session(model)
    asked = {
        "predict": lambda: model.predict(X, deadline=3.5 * SLOW),
        "predict_one": lambda: model.predict_one(X[0], deadline=3.5 * SLOW),
        "session": lambda: session.predict(X[0], deadline=3.5 * SLOW),
        "batch": lambda: at.BatchSession(model, X).advance(deadline=3.5 * SLOW),
    }[way]
    blocks = model.plan_.blocks[0].network.blocks
    for most in (4, 3, 3):
        met(model.plan_)
        began = time.monotonic()
        asked()
        taken = time.monotonic() - began
        assert taken < 3.5 * SLOW + max(block.slowest for block in blocks) + SLOW / 2
        assert 1 <= sum(map(len, met(model.plan_))) <= most
        # at first nothing is known of the blocks; once they are measured, one that does not fit is not begun
        model.plan_.blocks[0].measure(n_repeats=1)
    began = time.monotonic()
    model.predict(X)
    assert time.monotonic() - began >= 8 * SLOW  # without a deadline all is done


def test_a_batch_in_a_hurry_is_cut_to_what_fits():
    plan = plan_of(0.0)
    block = plan.blocks[0]
    block.block_pace.begin_with(0, 64, 0.64)
    assert block.rows_in_time(0, 200, np.inf) == 64
    assert block.rows_in_time(0, 64, 0.2) == 16
    assert block.rows_in_time(0, 64, 0.001) == 0
    assert plan_of(0.0).blocks[0].rows_in_time(0, 64, 1.0) == 1  # nothing is known: one goes ahead
    assert block.seconds(0, 128) == pytest.approx(1.28)


class _Clock:
    """Stands still, but for what blocks and heads take."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    perf_counter = monotonic


class _Timed(torch.nn.Module):
    """Adds one to its input; the clock goes on by the next of some times, the last of which holds from then on."""

    def __init__(self, clock, *seconds):
        super().__init__()
        self.clock, self.seconds, self.calls = clock, list(seconds), 0

    def forward(self, x):
        self.clock.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1
        return x + 1


@pytest.fixture
def clock(monkeypatch):
    clock = _Clock()
    for module in ("anytime.engine", "anytime.networks.block", "anytime.networks.timing"):
        monkeypatch.setattr(f"{module}.time", clock)
    return clock


def timed_plan(clock, n_blocks, *seconds, head=0.0):
    """Exits behind blocks that each take some seconds, one call after the other, and heads that take ``head``."""
    plan = plan_of(*[0.0] * n_blocks)
    network = ExitNetwork(
        [_Timed(clock, *seconds) for _ in range(n_blocks)], [_Timed(clock, head) for _ in range(n_blocks)]
    )
    return replace(plan, blocks=[plan.blocks[0].changed(network)])


def run_for(plan, clock, seconds):
    """Stages done within a deadline, and how late the answer is."""
    due = clock.now + seconds
    run = Run(plan, np.zeros((1, COLUMNS)))
    run.advance(deadline=due)
    return int(run.done[0]), clock.now - due


def test_only_the_head_of_the_last_block_is_computed(clock):
    plan = timed_plan(clock, 6, 1.0, head=0.5)
    network = plan.blocks[0].network
    for _ in range(3):
        run_for(plan, clock, 3.75)
    before = [head.calls for head in network.heads]
    assert run_for(plan, clock, 3.75)[0] == 3  # four blocks would fit, but not the head behind the fourth
    assert [head.calls - then for head, then in zip(network.heads, before, strict=True)] == [0, 0, 1, 0, 0, 0]
    run = Run(plan, np.zeros((1, COLUMNS)))
    run.advance(deadline=clock.now + 3.75)
    np.testing.assert_array_equal(run.scores(), [[4.0] * COLUMNS])  # three blocks and one head
    run.advance()
    np.testing.assert_array_equal(run.scores(), [[7.0] * COLUMNS])  # and it goes on where it stopped


@pytest.mark.parametrize("n_rows", [1, 5])
def test_a_run_with_a_ledger_pays_for_the_blocks_that_were_computed(clock, n_rows):
    plan = timed_plan(clock, 6, 1.0, head=0.5)
    heads = plan.blocks[0].network.heads
    run = Run(plan, np.zeros((n_rows, COLUMNS)), metered=True)
    run.advance(deadline=clock.now + 3.25)
    assert run.done.tolist() == [4] * n_rows
    assert run.paid.tolist() == [plan.stage_ticks[3]] * n_rows
    assert run.updates.tolist() == [n_rows] * 4 + [0] * 2
    assert [head.calls for head in heads] == [0, 0, 0, 1, 0, 0]
    run.advance()
    assert run.paid.tolist() == [plan.stage_ticks[5]] * n_rows
    np.testing.assert_array_equal(run.scores(), np.full((n_rows, COLUMNS), 7.0))


def test_a_run_with_a_ledger_ends_where_money_ends(clock):
    """Rows that can pay for different stages go one stage at a time, each as far as it can pay."""
    plan = timed_plan(clock, 4, 1.0)
    run = Run(plan, np.zeros((3, COLUMNS)), metered=True)
    run.advance(budget=plan.stage_ticks[[0, 3, 1]], deadline=clock.now + 99.0)
    assert run.done.tolist() == [1, 4, 2]
    assert run.paid.tolist() == plan.stage_ticks[[0, 3, 1]].tolist()


def test_answers_that_are_planned_are_never_late(clock):
    """Negative control: before anything is known, a run ends with the block that the deadline falls into."""
    plan = timed_plan(clock, 8, 1.0, head=0.25)
    assert run_for(plan, clock, 3.5)[1] == pytest.approx(0.75)
    run_for(plan, clock, 9.0)
    run_for(plan, clock, 9.0)
    for deadline in np.linspace(1.5, 8.3, 30):
        done, late = run_for(plan, clock, deadline)
        assert late <= 0
        assert done == int(deadline - 0.2501)


def test_a_slow_first_call_does_not_forbid_later_ones(clock):
    """The first call takes memory and chooses kernels; a deadline that is shorter than that is kept all the same."""
    plan = timed_plan(clock, 4, 9.0, 1.0)
    assert run_for(plan, clock, 2.5)[0] == 1
    reached = [run_for(plan, clock, 2.5)[0] for _ in range(6)]
    assert reached == [2, 3, 3, 2, 2, 2]  # the third block, too, is met twice before anything is known of it


def test_a_pause_of_the_machine_is_forgotten(clock):
    plan = timed_plan(clock, 2, *[1.0] * 5, 50.0, 1.0)
    for _ in range(5):
        assert run_for(plan, clock, 2.5)[0] == 2
    assert run_for(plan, clock, 120.0)[0] == 2  # the pause
    block = plan.blocks[0]
    assert 1.0 < block.seconds(0, 1) < 2.5  # 50 would forbid the stage for good
    for _ in range(20):
        run_for(plan, clock, 9.0)
    assert block.seconds(0, 1) == pytest.approx(1.0, abs=0.1)


def test_a_stage_that_was_too_slow_once_is_tried_again(clock):
    """A machine that was ten times as slow for a while: nobody begins the block any more, so nobody measures it."""
    plan = timed_plan(clock, 1, *[1.0] * 3, *[10.0] * 30, 1.0)
    for _ in range(33):
        run_for(plan, clock, 99.0)
    assert plan.blocks[0].seconds(0, 1) > 8.0
    reached = []
    for _ in range(60):
        clock.now += 20_000.0
        reached.append(run_for(plan, clock, 2.0)[0])
    assert reached[0] == 0
    assert reached[-1] == 1
    refused = plan.blocks[0].seconds(0, 1)
    for _ in range(50):  # at one moment it is doubted once at most
        run_for(plan, clock, 0.1)
    assert plan.blocks[0].seconds(0, 1) >= 0.89 * refused


def test_a_stop_is_no_reason_to_doubt(clock):
    plan = timed_plan(clock, 1, 1.0)
    for _ in range(3):
        run_for(plan, clock, 9.0)
    known = plan.blocks[0].seconds(0, 1)
    clock.now += 20_000.0
    flag = threading.Event()
    flag.set()
    Run(plan, np.zeros((1, COLUMNS))).advance(stop=flag)
    run_for(plan, clock, -1.0)
    assert plan.blocks[0].seconds(0, 1) == known


def test_a_session_does_not_give_up_a_block_whose_first_call_was_slow(clock):
    plan = timed_plan(clock, 3, 9.0, 1.0)
    session = at.Session(model_of(plan), clock=clock.monotonic)
    reached = [session.predict(np.zeros(COLUMNS), deadline=2.5).stage for _ in range(7)]
    assert reached == [1, 2, 3, 3, 2, 2, 2]


def test_times_that_vary_are_planned_with_care(clock):
    """Runs take 1 or 1.4 seconds: an answer planned by their mean would be late every other time."""
    plan = timed_plan(clock, 1, *[1.0, 1.4] * 40)
    for _ in range(40):
        run_for(plan, clock, 5.0)
    assert plan.blocks[0].seconds(0, 1) >= 1.4
    assert run_for(plan, clock, 1.3)[0] == 0


class _Gpu:
    """A device that computes one block after the other while the program goes on; handing one over takes a tenth of a second."""

    def __init__(self, clock):
        self.clock, self.idle_from, self.longest_queue = clock, clock.now, 0.0

    def compute(self, seconds):
        self.clock.now += 0.1
        self.idle_from = max(self.idle_from, self.clock.now) + seconds
        self.longest_queue = max(self.longest_queue, self.idle_from - self.clock.now)

    def event(self, enable_timing):
        return _GpuEvent(self)


class _GpuEvent:
    def __init__(self, gpu):
        self.gpu, self.at = gpu, None

    def record(self, stream):
        self.at = max(self.gpu.idle_from, self.gpu.clock.now)

    def synchronize(self):
        self.gpu.clock.now = max(self.gpu.clock.now, self.at)

    def elapsed_time(self, end):
        return 1e3 * (end.at - self.at)


class _OnGpu(torch.nn.Module):
    def __init__(self, gpu, seconds, waits):
        super().__init__()
        self.gpu, self.seconds, self.waits = gpu, seconds, waits

    def forward(self, x):
        self.gpu.compute(self.seconds)
        if self.waits:  # a head, whose numbers are read
            self.gpu.clock.now = self.gpu.idle_from
        return x + 1


def test_a_gpu_is_given_one_block_ahead_and_deadlines_are_kept(clock, monkeypatch):
    """It never waits for the program, and the program never runs ahead of what can still be stopped."""
    gpu = _Gpu(clock)
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(
        "anytime.networks.block.watch", lambda pace, n_rows, device: QueueWatch(pace, n_rows, device)
    )
    plan = plan_of(*[0.0] * 8)
    network = ExitNetwork(
        [_OnGpu(gpu, 1.0, False) for _ in range(8)], [_OnGpu(gpu, 0.5, True) for _ in range(8)]
    )
    plan = replace(plan, blocks=[plan.blocks[0].changed(network)])
    for _ in range(3):
        began = clock.now
        assert run_for(plan, clock, 90.0)[0] == 8
        # eight blocks and the head, each handed over while the one before is computed; but the first and the head are not
        assert clock.now - began == pytest.approx(8 * 1.0 + 0.5 + 0.2)
    assert plan.blocks[0].block_pace.seconds(4, 1) == pytest.approx(
        1.0
    )  # what the device took, not the program
    assert gpu.longest_queue <= 2.0
    for deadline in np.linspace(1.8, 9.5, 25):
        done, late = run_for(plan, clock, deadline)
        assert late <= 0
        assert done >= int(deadline - 0.5 - 0.2) - 1


@pytest.mark.parametrize("way", ["answer", "session", "batch"])
def test_a_stop_flag_is_seen_between_blocks(way):
    plan = plan_of(*[SLOW] * 10)
    model, flag = model_of(plan), threading.Event()
    X = np.zeros((1, COLUMNS))
    third = plan.blocks[0].network.blocks[2]
    hook = third.register_forward_hook(lambda *_: flag.set())
    answer = {
        "answer": lambda: model.answer(X, stop=flag),
        "session": lambda: at.Session(model).predict(X[0], stop=flag),
        "batch": lambda: at.BatchSession(model, X).advance(stop=flag),
    }[way]()
    hook.remove()
    assert np.ravel(answer.stage).tolist() == [3]
    assert not answer.complete
