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


def read_while(work, read):
    """What a second thread reads, again and again, from before ``work`` begins until after it has ended; repetitions once."""
    answers, over, failures = [], threading.Event(), []

    def reader():
        try:
            while not over.is_set():
                if (answer := read()) is not (answers[-1] if answers else None):
                    answers.append(answer)
            answers.append(read())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=reader)
    thread.start()
    while not answers and not failures:
        time.sleep(0)
    work()
    over.set()
    thread.join()
    assert not failures
    return answers


def test_reader_sees_only_complete_prefixes_of_slow_stages():
    def slow(column):
        time.sleep(0.002)
        return column

    plan = linear_plan(20, blocks=[FunctionBlock([t], slow) for t in range(20)])
    model = model_of(plan)
    x = np.arange(1.0, 21.0)
    prefixes = list(model.stages(x[None]))
    session = Session(model, features_of(plan)).start(x)
    answers = read_while(session.resume, session.read)
    for answer in answers:
        assert_array_equal(answer.scores, prefixes[answer.stage].scores[0])
        assert answer.cost in (prefixes[answer.stage].cost[0], prefixes[min(answer.stage + 1, 20)].cost[0])
    stages = [answer.stage for answer in answers]
    assert stages == sorted(stages)
    assert stages[0] == 0
    assert stages[-1] == 20
    assert len(set(stages)) > 5


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

    def work():
        for stage in range(0, 61, 5):
            batch.advance(max_stages=stage)
            time.sleep(0.002)  # so that the reader has its turn on a busy machine

    answers = read_while(work, batch.read)
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
