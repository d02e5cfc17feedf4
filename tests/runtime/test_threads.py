"""Reading while another thread computes: every answer read is that of a complete prefix."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier

from anytime.blocks import FunctionBlock
from anytime.runtime import BatchSession, Session
from anytime.trees import make_anytime
from tests.runtime.bench import features_of, linear_plan, model_of

X = np.random.default_rng(0).normal(size=(300, 6))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


class Reader:
    """Another thread that reads again and again; ``turn`` waits until it has read."""

    def __init__(self):
        self.answers, self.n_reads, self.over, self.failures = [], 0, threading.Event(), []

    def turn(self):
        """Let it read what is there now."""
        before = self.n_reads
        while self.n_reads < before + 2 and not self.over.is_set() and not self.failures:
            time.sleep(0)

    def while_(self, work, read):
        """What it reads, from before ``work`` begins until after it has ended; repetitions once."""

        def go_on():
            try:
                while not self.over.is_set():
                    self._keep(read())
                self._keep(read())
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        self.turn()
        try:
            work()
        finally:
            self.over.set()
            thread.join()
        assert not self.failures
        return self.answers

    def _keep(self, answer):
        if not self.answers or answer is not self.answers[-1]:
            self.answers.append(answer)
        self.n_reads += 1


def test_reader_sees_only_complete_prefixes_of_slow_stages():
    reader = Reader()

    def slow(column):
        reader.turn()
        return column

    plan = linear_plan(20, blocks=[FunctionBlock([t], slow) for t in range(20)])
    model = model_of(plan)
    x = np.arange(1.0, 21.0)
    reader.over.set()
    prefixes = list(model.stages(x[None]))
    reader.over.clear()
    session = Session(model, features_of(plan)).start(x)
    answers = reader.while_(session.resume, session.read)
    for answer in answers:
        assert_array_equal(answer.scores, prefixes[answer.stage].scores[0])
        assert answer.cost in (prefixes[answer.stage].cost[0], prefixes[min(answer.stage + 1, 20)].cost[0])
    stages = [answer.stage for answer in answers]
    assert stages == sorted(stages)
    assert set(stages) == set(range(21))


@pytest.mark.realtime
def test_reader_never_waits_for_a_stage_in_progress():
    started, finish = threading.Event(), threading.Event()

    def hangs(column):
        started.set()
        finish.wait(10)
        return column

    plan = linear_plan(2, blocks=[FunctionBlock([0], lambda c: c), FunctionBlock([1], hangs)])
    session = Session(model_of(plan)).start(np.ones(2))
    thread = threading.Thread(target=session.resume)
    thread.start()
    assert started.wait(10)
    began = time.monotonic()
    answer = session.read()
    assert time.monotonic() - began < 1.0
    assert (answer.stage, answer.complete) == (1, False)
    finish.set()
    thread.join()
    assert session.read().complete


def test_two_writers_take_turns():
    plan = linear_plan(3)
    session = Session(model_of(plan), features_of(plan))
    wrong = []

    def ask(k):
        for _ in range(50):
            if session.predict(np.full(3, float(k))).prediction != 0.5 + 111 * k:
                wrong.append(k)

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_reader_of_a_batch_sees_only_complete_prefixes():
    model = make_anytime(RandomForestClassifier(60, random_state=0).fit(X, Y))
    prefixes = np.array([answer.scores for answer in model.stages(X)])
    batch = BatchSession(model, X, slice_seconds=1e-4, tile_rows=64)
    reader = Reader()

    def work():
        for stage in range(0, 61, 5):
            batch.advance(max_stages=stage)
            reader.turn()

    answers = reader.while_(work, batch.read)
    for answer in answers[:: max(1, len(answers) // 50)]:
        assert_array_equal(answer.scores, prefixes[answer.stage, np.arange(len(X))])
    assert answers[0].stage.max() == 0
    assert answers[-1].complete
    assert len({answer.stage.sum() for answer in answers}) > 2


def test_examples_join_and_leave_while_others_are_computed():
    model = make_anytime(RandomForestClassifier(60, random_state=0).fit(X, Y))
    final = model.predict_proba(X)
    batch = BatchSession(model, X[:100], slice_seconds=1e-4, tile_rows=32)
    worker = threading.Thread(target=lambda: [batch.advance() for _ in range(200)])
    worker.start()
    numbers = [batch.add(X[at : at + 50]) for at in range(100, 300, 50)]
    batch.pop(np.arange(100))
    worker.join()
    answer = batch.advance()
    assert answer.complete
    assert_array_equal(batch.numbers, np.concatenate(numbers))
    assert_array_equal(answer.probabilities, final[100:])
