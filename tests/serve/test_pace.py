"""A pace says what stages take, and learns when they take longer."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytime as at
from anytime.blocks import FunctionBlock
from anytime.plan import Plan
from anytime.serve.pace import StagePace, checkpoints_of


@given(st.integers(1, 5000))
def test_checkpoints_are_few_and_end_with_the_plan(n_stages):
    stops = checkpoints_of(n_stages)
    assert stops[0] == 1
    assert stops[-1] == n_stages
    assert stops.size <= 64
    gaps = np.diff(stops)
    assert (gaps >= 1).all()
    assert n_stages <= 64 or gaps[: gaps.size // 2].max() <= gaps[gaps.size // 2 :].max()


@given(st.integers(0, 10), st.integers(0, 10), st.integers(1, 50), st.floats(1e-6, 1.0))
def test_what_fits_into_a_slice_fits(first, last, rows, seconds):
    pace = StagePace([1, 3, 6, 10], [1e-3, 2e-3, 8e-3, 1e-2], call=1e-4)
    if first < last:
        most = pace.rows_within(seconds, first, last)
        assert most == 1 or pace.seconds(first, last, most) <= seconds * (1 + 1e-9)
        assert pace.seconds(first, last, most + 1) > seconds * (1 - 1e-9)
        stage = pace.stage_within(seconds, first, last, rows)
        assert first < stage <= last
        assert stage == last or stage in pace.checkpoints
        following = min(last, pace.next_checkpoint(first))
        assert stage == following or pace.seconds(first, stage, rows) <= seconds * (1 + 1e-9)
        if stage < last:  # the next checkpoint would have been too much
            beyond = min(last, pace.next_checkpoint(stage))
            assert pace.seconds(first, beyond, rows) > seconds * (1 - 1e-9)


def test_no_stage_and_no_row_take_no_time():
    pace = StagePace([1, 2], [1.0, 2.0], call=5.0)
    assert pace.seconds(1, 1, 7) == 0.0
    assert pace.seconds(2, 1, 7) == 0.0
    assert pace.seconds(0, 2, 0) == 0.0


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0, 7.0])
def test_a_machine_that_is_slower_than_measured_is_found_out(factor):
    pace = StagePace([1, 2], [0.5e-3, 1e-3])
    for _ in range(60):
        pace.observe(0, 2, 1, factor * 1e-3)
    assert pace.factor == pytest.approx(factor, rel=0.05)
    assert pace.seconds(0, 2, 1) == pytest.approx(factor * 1e-3, rel=0.05)
    np.testing.assert_allclose(pace.per_row, np.array([0, 0.5e-3, 1e-3]) * pace.factor)


def test_a_pause_of_the_machine_is_not_its_pace():
    pace = StagePace([1], [1e-5])
    for _ in range(200):
        pace.observe(0, 1, 1, 1e-5)
    pace.observe(0, 1, 1, 5.0)
    assert pace.factor < 1.1


def test_what_questions_take_besides_is_learnt():
    pace = StagePace([1], [1e-5])
    assert pace.per_question == 0.0
    for _ in range(2000):
        pace.observe_questions(2, 200e-6)
    assert pace.per_question == pytest.approx(100e-6, rel=0.05)
    pace.observe_questions(0, 1.0)
    assert pace.per_question == pytest.approx(100e-6, rel=0.05)


def test_a_measured_pace_grows_with_stages():
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    model = at.make_anytime(GradientBoostingRegressor(n_estimators=80, max_depth=3).fit(X, X[:, 0] * X[:, 1]))
    pace = StagePace.measure(model, seconds=0.02)
    assert pace.checkpoints[-1] == 80
    assert pace.per_row.shape == (81,)
    assert pace.per_row[0] == 0.0
    assert (np.diff(pace.per_row) > 0).all()
    assert 0 < pace.call < 0.05
    known = pace.to_dict()
    assert known["per_row"] == pace.per_row[pace.checkpoints].tolist()
    assert set(known) == {"checkpoints", "per_row", "call", "per_question", "factor"}
    given = StagePace.measure(model, rows=X[:5], seconds=0.01)
    assert given.per_row.shape == (81,)


@pytest.mark.realtime
def test_what_a_device_takes_to_start_is_not_its_pace():
    met = []

    def slow_at_first(X):
        if len(X) not in met:  # as kernels are chosen, and memory is taken, for each size of a batch
            met.append(len(X))
            time.sleep(0.2)
        return X

    plan = Plan(
        blocks=[FunctionBlock([0], slow_at_first)],
        costs=at.FeatureCosts([1.0]).bind(1),
        base=[0.0],
        link="identity",
    )
    pace = StagePace.measure(SimpleNamespace(plan_=plan, meter="model"), rows=[[1.0]], seconds=0.01)
    assert pace.call < 0.1
    assert pace.seconds(0, 1, 32) < 0.1


@pytest.mark.parametrize(
    ("checkpoints", "per_row"),
    [([], []), ([1, 2], [1.0]), ([2, 1], [1.0, 2.0]), ([1, 2], [2.0, 1.0]), ([0], [1.0])],
)
def test_what_is_no_pace_is_refused(checkpoints, per_row):
    with pytest.raises(ValueError, match=r"checkpoint"):
        StagePace(checkpoints, per_row)
