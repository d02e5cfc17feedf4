"""Counters in shared memory: what is added up, and what a window of time shows."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

from anytime.serve.board import BINS, Board


def served(stages, cost=1.0, partial=False, elapsed=0.001):
    n = len(stages)
    return SimpleNamespace(
        stage=np.array(stages), cost=np.full(n, cost), partial=np.full(n, partial), elapsed=elapsed, batch=1
    )


def test_percentiles_are_those_of_the_latencies_to_five_percent():
    rng = np.random.default_rng(0)
    board = Board(1, ["m"])
    slot, seconds = board.slot(0), np.exp(rng.normal(-6, 1.5, 5000))
    for value in seconds:
        slot.request(value, value > 0.01)
    recent = board.recent()
    for share in (0.5, 0.9, 0.99, 0.999):
        exact = np.quantile(seconds, share, method="inverted_cdf")
        assert exact <= recent.quantile(share) <= 1.05 * exact
    assert recent.counts["late"] == (seconds > 0.01).sum()
    assert recent.sums["seconds"] == pytest.approx(seconds.sum())


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-5, 99.0, 1e9])
def test_every_latency_has_a_bucket(seconds):
    board = Board(1, ["m"])
    board.slot(0).request(seconds, late=False)
    assert board.recent().latency.sum() == 1


def test_slots_of_all_workers_are_added_up():
    board = Board(3, ["m"])
    for worker in range(3):
        for _ in range(worker + 1):
            board.slot(worker).request(0.001, late=False)
    assert board.totals().counts["requests"] == 6
    assert [worker["requests"] for worker in board.snapshot()["workers"]] == [1, 2, 3]


def test_what_a_child_counts_its_parent_sees():
    board = Board(2, ["m"])
    child = os.fork()
    if not child:
        board.slot(1).begin()
        board.slot(1).request(0.002, late=True)
        os._exit(0)
    os.waitpid(child, 0)
    snapshot = board.snapshot()
    assert snapshot["totals"]["late"] == 1
    assert snapshot["workers"][1]["pid"] == child
    board.slot(1).begin()  # who takes the slot over goes on counting
    assert board.totals().counts | {"requests": 1, "starts": 2} == board.totals().counts


@pytest.mark.parametrize("stages", [[0], [1, 2, 3, 3, 7, 7, 7, 10], list(range(11)) * 3])
def test_stages_are_counted_by_the_checkpoints_they_passed(stages):
    board = Board(1, ["other", "m"])
    checkpoints = [1, 2, 4, 10]
    board.slot(0).model(1, checkpoints).answered(served(stages, cost=2.0), 3)
    counted = board.totals().stages[1]
    expected = np.bincount([sum(c <= stage for c in checkpoints) for stage in stages], minlength=BINS + 1)
    assert counted.tolist() == expected.tolist()
    assert not board.totals().stages[0].any()
    assert board.totals().model(1, "stages") == sum(stages)
    assert board.totals().costs.tolist() == [0.0, 2.0 * len(stages)]
    assert board.totals().counts["queue"] == 3


def test_stages_that_time_left_no_room_for_are_counted():
    board = Board(1, ["m"])
    model = board.slot(0).model(0, [1, 2, 4, 10])
    model.answered(served([4, 10]), 0)  # what a budget leaves out was not wanted
    assert board.recent().given_up == 0.0
    model.answered(served([2, 4], partial=True), 0)
    assert board.totals().model(0, "given_up") == 14
    assert board.snapshot()["window"]["given_up_share"] == 14 / (14 + 20)


def test_queues_of_models_are_added_up():
    board = Board(2, ["one", "two"])
    for worker in range(2):
        for number, waiting in enumerate((3, 4)):
            board.slot(worker).model(number, [1]).answered(served([1]), waiting)
    assert board.totals().counts["queue"] == board.snapshot()["window"]["queue"] == 14
    assert [worker["queue"] for worker in board.snapshot()["workers"]] == [7, 7]
    board.slot(1).waiting(0, 0)  # those who waited have left
    assert board.totals().counts["queue"] == 11


def test_the_dead_hold_nothing_and_are_not_counted_as_workers():
    def metric(name):
        return next(family for family in board.collect() if family.name == name).samples[0].value

    board = Board(2, ["m"])
    for worker in range(2):
        board.slot(worker).begin()
        board.slot(worker).set("open", 5)
        board.slot(worker).waiting(0, 2)
    assert (metric("anytime_workers"), metric("anytime_queue")) == (2, 4)
    board.slot(1).end()
    assert (metric("anytime_workers"), metric("anytime_queue"), metric("anytime_open")) == (1, 2, 5)
    assert (metric("anytime_starts"), metric("anytime_deaths")) == (2, 1)


def test_a_window_shows_what_happened_in_it(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("anytime.serve.board.time.monotonic", lambda: now[0])
    board = Board(1, ["m"], window=5.0)
    slot = board.slot(0)
    counts = slot.model(0, [1, 2])
    for second in range(20):
        for _ in range(10 if second < 10 else 30):
            slot.request(0.001 if second < 10 else 0.004, late=second >= 10)
            counts.answered(served([1 if second < 10 else 2]), 0)
        now[0] += 1.0
        board.remember()
    window = board.snapshot()["window"]
    assert window["seconds"] == pytest.approx(5.0)
    assert window["rps"] == pytest.approx(30.0)
    assert window["late_share"] == 1.0
    assert window["mean_stage"] == 2.0
    assert window["p50_ms"] == pytest.approx(4.0, rel=0.05)
    assert board.snapshot()["totals"]["requests"] == 400


def test_nothing_happened_yet():
    window = Board(1, ["m"]).snapshot()["window"]
    assert window["rps"] == 0
    assert window["p99_ms"] is None
    assert window["mean_cost"] is None
