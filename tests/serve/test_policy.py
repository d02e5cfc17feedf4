"""The plan of a policy is what trying everything would find."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anytime.serve.pace import StagePace
from anytime.serve.policy import Adaptive, Outlook, Waiting, demand

STAGES = 12


@st.composite
def paces(draw):
    checkpoints = [*sorted(draw(st.sets(st.integers(1, STAGES - 1)))), STAGES]
    steps = draw(st.lists(st.integers(0, 4), min_size=len(checkpoints), max_size=len(checkpoints)))
    # times are whole numbers of 1/1024 s, so that sums are exact and equal times are equal
    return StagePace(
        checkpoints,
        np.cumsum(steps) / 1024,
        call=draw(st.integers(0, 2)) / 1024,
        per_question=draw(st.integers(0, 2)) / 1024,
    )


@st.composite
def queues(draw):
    n = draw(st.integers(1, 6))
    some = st.lists(st.integers(0, 40), min_size=n, max_size=n)
    stage = np.array(draw(st.lists(st.integers(0, STAGES), min_size=n, max_size=n)))
    until = np.maximum(stage, draw(st.lists(st.integers(0, STAGES), min_size=n, max_size=n)))
    if draw(st.booleans()):  # nobody has begun, and all want everything
        stage, until = np.zeros(n, dtype=int), np.full(n, STAGES)
    rows = np.array(draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    return Waiting(np.sort(np.array(draw(some)) / 1024), rows, stage, until)


def in_time(waiting, pace, reserve, now, stage, lost=()):
    """For each question, whether all before it and it itself reach ``stage`` before it is due; who is lost does nothing."""
    out, clock = [], now + pace.call
    for i, (due, rows, done, until) in enumerate(
        zip(waiting.due, waiting.rows, waiting.stage, waiting.until, strict=True)
    ):
        goal = max(min(stage, until), done)
        clock += pace.per_question
        clock += 0 if i in lost else rows * (pace.per_row[goal] - pace.per_row[done])
        out.append(clock <= due - reserve)
    return out


def is_lost(waiting, pace, reserve, now, i):
    """No time is left for a question, not even by itself and, for the first stage, into the reserve."""

    def first_stage(j):
        return waiting.rows[j] * pace.per_row[min(pace.checkpoints[0], waiting.until[j])]

    begin = [j for j in range(waiting.due.size) if waiting.stage[j] == 0 and waiting.until[j] > 0]
    if i not in begin:
        return now > waiting.due[i] - reserve
    if pace.call + sum(map(first_stage, begin)) <= reserve / 2:  # it matters little
        return False
    return now + pace.call + first_stage(i) > waiting.due[i] - reserve / 2


@settings(max_examples=200)
@given(queues(), paces(), st.integers(0, 8), st.integers(0, 8))
def test_the_target_is_feasible_and_the_largest_that_is(waiting, pace, reserve, now):
    reserve, now = reserve / 1024, now / 1024
    stage, first, lost = Adaptive(reserve).outlook(waiting, pace, now)
    n = waiting.due.size
    assert 1 <= first <= n
    if stage == STAGES and all(in_time(waiting, pace, reserve, now, STAGES)):
        assert (first, lost) == (n, ())
        return
    assert list(lost) == [i for i in range(n) if is_lost(waiting, pace, reserve, now, i)]
    kept = [i for i in range(n) if i not in lost]

    def all_in_time(stage):
        return [in_time(waiting, pace, reserve, now, stage, lost)[i] for i in kept]

    feasible = [int(s) for s in pace.checkpoints if all(all_in_time(s))]
    assert stage == max(feasible, default=int(pace.checkpoints[0]))
    beyond = [s for s in pace.checkpoints if s > stage] if feasible else [pace.checkpoints[0]]
    if beyond:  # who stands in the way of the next checkpoint, and all who are due before, go no further
        assert first == kept[all_in_time(beyond[0]).index(False)] + 1
    else:
        assert first == n


@given(queues(), paces(), st.integers(0, 8))
def test_more_time_never_means_fewer_stages(waiting, pace, now):
    policy = Adaptive(0.0)
    later = Waiting(waiting.due + 3 / 1024, waiting.rows, waiting.stage, waiting.until)
    outlook = policy.outlook(waiting, pace, now / 1024)
    if not outlook.lost:
        assert policy.outlook(later, pace, now / 1024).stage >= outlook.stage


def test_without_load_everybody_gets_all_stages():
    pace = StagePace([1, 2, 4], [1e-6, 2e-6, 4e-6])
    waiting = Waiting(*(np.array(a) for a in ([1.0, 1.0], [1, 5], [0, 1], [4, 2])))
    assert Adaptive(0.1).outlook(waiting, pace, 0.0) == Outlook(4, 2)


def test_questions_without_a_deadline_are_never_cut_short():
    pace = StagePace([1, 2], [1.0, 2.0])
    waiting = Waiting(np.array([np.inf]), np.array([1000]), np.array([0]), np.array([2]))
    assert Adaptive(0.1).outlook(waiting, pace, 0.0) == Outlook(2, 1)


def test_one_that_is_due_early_holds_back_only_itself():
    pace = StagePace([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])
    waiting = Waiting(np.array([0.25, 5.0]), np.array([1, 1]), np.array([0, 0]), np.array([4, 4]))
    assert Adaptive(0.0).outlook(waiting, pace, 0.0) == Outlook(2, 1)


def test_the_first_stage_may_use_half_of_the_reserve():
    pace = StagePace([1, 2], [0.12, 0.24])
    waiting = Waiting(np.array([1.0]), np.array([1]), np.array([0]), np.array([2]))
    policy = Adaptive(reserve=0.2)
    assert policy.outlook(waiting, pace, 0.55) == Outlook(2, 1)
    assert policy.outlook(waiting, pace, 0.75) == Outlook(1, 1)
    assert policy.outlook(waiting, pace, 0.79).lost == (0,)


def test_a_quick_first_stage_is_done_however_late_it_is():
    """After a stall everybody would get the same base answer, to save what takes no time."""
    pace = StagePace([1, 2], [1e-4, 2e-4])
    waiting = Waiting(np.array([1.0, 1.0]), np.array([1, 1]), np.array([0, 1]), np.array([2, 2]))
    assert Adaptive(reserve=0.2).outlook(waiting, pace, 5.0) == Outlook(
        1, 1, (1,)
    )  # who has it goes no further


def test_a_question_keeps_the_reserve_of_its_own_time():
    policy = Adaptive.for_slo(1.0)
    assert [policy.reserve_of(allowed) for allowed in (9.0, 1.0, 0.1, 1e-3)] == [0.2, 0.2, 0.1 * 0.2, 1e-3]
    pace = StagePace([1, 2], [0.05, 0.07])
    columns = [np.array(a) for a in ([0.1], [1], [0], [2])]
    assert policy.outlook(Waiting(*columns, np.array([0.02])), pace, 0.0) == Outlook(2, 1)
    assert policy.outlook(Waiting(*columns, np.array([0.02])), pace, 0.02) == Outlook(1, 1)
    assert policy.outlook(Waiting(*columns, np.array([0.02])), pace, 0.06).lost == (0,)


@given(queues(), paces(), st.sampled_from([0.25, 0.5, 1.0]))
def test_demand_is_the_share_of_the_time_that_is_enough_for_all(waiting, pace, share):
    waiting = replace(waiting, due=waiting.due + 1 / 1024)
    need = demand(waiting, pace, 0.0)
    assert 0 <= need <= 1
    if need < min(share, 0.999):
        outlook = Adaptive(0.0).outlook(waiting.within(share, 0.0), pace, 0.0)
        assert outlook == Outlook(STAGES, waiting.due.size)
    elif (
        need > share * 1.001 and pace.checkpoints.size > 1
    ):  # the first stage, here all of them, is never refused
        outlook = Adaptive(0.0).outlook(waiting.within(share, 0.0), pace, 0.0)
        assert outlook != Outlook(STAGES, waiting.due.size)


@pytest.mark.parametrize("reserve", [-1.0, float("nan")])
def test_nonsense_is_refused(reserve):
    with pytest.raises(ValueError, match="not"):
        Adaptive(reserve)
