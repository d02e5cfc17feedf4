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
from anytime.plan import Plan  # noqa: E402
from anytime.rules import EntropyRule  # noqa: E402

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
        "batch": lambda: at.BatchSession(model, X).advance(seconds=3.5 * SLOW),
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
        model.plan_.blocks[0].measure(repeats=1)
    began = time.monotonic()
    model.predict(X)
    assert time.monotonic() - began >= 8 * SLOW  # without a deadline all is done


def test_a_batch_in_a_hurry_is_cut_to_what_fits():
    plan = plan_of(0.0)
    block = plan.blocks[0]
    block._note(0, 64, 0.64)
    assert block.rows_in_time(0, 200, np.inf) == 64
    assert block.rows_in_time(0, 64, 0.2) == 16
    assert block.rows_in_time(0, 64, 0.001) == 0
    assert plan_of(0.0).blocks[0].rows_in_time(0, 64, 1.0) == 1  # nothing is known: one goes ahead
    assert block.seconds(0, 128) == pytest.approx(1.28)


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
