"""Rows that are learned from again: which, how often, and what must not notice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import anytime as at
from anytime.streaming import Drift, StreamingBoostClassifier, StreamingBoostRegressor
from anytime.streaming.banks import OnlineRidge
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Squared
from anytime.streaming.rehearsal import Rehearsal
from tests.streaming.streams import labels, numbers


def followed(n_rows: int, n_kept: int, alarm: int | None = None) -> list[tuple[int, np.ndarray]]:
    """Numbers of the rows that were drawn in each rehearsal of a stream, and when."""
    rehearsal, drawn = Rehearsal(n_kept, 1, seed=3), []
    for row in range(n_rows):
        rehearsal.keep(np.array([[float(row)]]), np.array([-float(row)]), None)
        if not rehearsal.room:
            rehearsal.meet(alarm is not None and row >= alarm)
            X, y, weight = rehearsal.draw()
            assert_array_equal(X[:, 0], -y)
            assert weight is None
            drawn.append((row, X[:, 0]))
    return drawn


def test_rows_are_rehearsed_four_times_while_the_stream_is_young_and_then_ever_less():
    drawn = followed(10_000, 100)
    young = [len(rows) for when, rows in drawn if when < 200]
    assert young == [40] * 20
    assert sum(len(rows) for when, rows in drawn) == pytest.approx(4 * 200 * (2 - 200 / 10_000), rel=0.05)


def test_only_the_last_rows_are_drawn_and_all_of_them():
    drawn = followed(1_000, 50)
    for when, rows in drawn:
        assert rows.size == 0 or (rows.min() > when - 50 and rows.max() <= when)
    assert {when - row for when, rows in drawn if when >= 50 for row in rows} == set(range(50))


def test_after_an_alarm_nothing_of_before_is_drawn_and_the_stream_is_young_again():
    drawn = followed(2_000, 50, alarm=1_000)
    first = min(when for when, _ in drawn if when >= 1_000)
    after = [(when, rows) for when, rows in drawn if when >= first]
    assert after[0][1].size == 0
    assert all((rows > first).all() for _, rows in after)
    assert after[1][1].size == 40


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_chunks_of_rows_do_not_matter(chunks):
    X, y = labels(sum(chunks), 3)
    whole = StreamingBoostClassifier(n_estimators=4, random_state=0)
    parts = StreamingBoostClassifier(n_estimators=4, random_state=0)
    classes = ["low", "middle", "top"]
    whole.partial_fit(X, y, classes=classes)
    start = 0
    for size in chunks:
        parts.partial_fit(X[start : start + size], y[start : start + size], classes=classes)
        start += size
    assert_array_equal(whole.predict_proba(X), parts.predict_proba(X))


def test_a_checkpoint_keeps_what_is_rehearsed(tmp_path):
    X, y = numbers(400)
    weight = np.linspace(0.5, 2.0, 400)
    model = StreamingBoostRegressor(n_estimators=5, rehearse=30, random_state=1)
    model.partial_fit(X[:137], y[:137], sample_weight=weight[:137]).save(tmp_path / "model.anytime")
    resumed = at.load(tmp_path / "model.anytime")
    for each in (model, resumed):
        each.partial_fit(X[137:], y[137:], sample_weight=weight[137:])
    assert_array_equal(model.predict(X), resumed.predict(X))


def test_learners_know_more_of_few_rows():
    X, y = numbers(500)
    errors = [
        StreamingBoostRegressor(rehearse=kept, random_state=0).partial_fit(X, y).progressive_error_
        for kept in (0, 500)
    ]
    assert errors[1] < 0.8 * errors[0]


def test_other_learners_do_not_rehearse_unless_told():
    X, y = numbers(200)
    plain, none, some = (
        StreamingBoostRegressor(n_estimators=3, learner="ridge", random_state=0, **more).partial_fit(X, y)
        for more in ({}, {"rehearse": 0}, {"rehearse": 100})
    )
    assert_array_equal(plain.predict(X), none.predict(X))
    assert (plain.predict(X) != some.predict(X)).any()


def test_nothing_is_measured_on_rows_that_were_learned_before():
    X, y = numbers(60, d=3)
    model = BoostedBank(OnlineRidge().make(4, 3, 1), Squared())
    model.learn(X, y)
    before = model.monitor.sums.copy(), model.monitor.recent.copy(), model.prefix_losses.table.copy()
    answers, rows = model.predict(X), model.monitor.rows.copy()
    model.rehearse(X[:7], y[:7], batch_size=2)
    after = model.monitor.sums, model.monitor.recent, model.prefix_losses.table
    for old, new in zip(before, after, strict=True):
        assert_array_equal(old, new)
    assert_array_equal(rows, model.monitor.rows)
    assert model.n_rows == 60
    assert (model.predict(X) != answers).any()


def test_an_alarm_empties_what_is_kept():
    X, y = numbers(1_600)
    y[800:] = -5.0 * y[800:]
    model = StreamingBoostRegressor(n_estimators=5, drift=Drift("adwin"), random_state=0).partial_fit(X, y)
    assert model.n_alarms_ > 0
    assert model._learning.rehearsal.n_alarms == model.n_alarms_


@pytest.mark.parametrize(
    ("place", "value"), [((0, -2), 2.0), ((0, -2), 0.5), ((0, -1), 0.0), ((0, -1), np.nan), ((0, 0), np.inf)]
)
def test_a_file_with_rows_that_cannot_be_is_refused(place, value):
    rehearsal = Rehearsal(5, 2, seed=0)
    rehearsal.keep(np.zeros((3, 2)), np.array([0.0, 1.0, 1.0]), None)
    state = rehearsal.state()
    assert Rehearsal.from_state(state, 2, n_classes=2).n_rows == 3
    state["rows"][place] = value
    with pytest.raises(ValueError, match="invalid targets or weights"):
        Rehearsal.from_state(state, 2, n_classes=2)
    with pytest.raises(ValueError, match="do not fit"):
        Rehearsal.from_state(state, 3)
