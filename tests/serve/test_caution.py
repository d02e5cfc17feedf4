"""More in reserve while answers are late, no more than makes sense, and not for long."""

from __future__ import annotations

import numpy as np
import pytest

from anytime.serve.caution import Caution


def after(rate, late_share, seconds=20.0, caution=None, start=0.0, seed=0):
    """The factor after answers at a rate, late by chance."""
    rng, caution = np.random.default_rng(seed), caution or Caution()
    for k in range(int(rate * seconds)):
        caution.note(bool(rng.random() < late_share), start + k / rate)
    return caution.factor


@pytest.mark.parametrize("rate", [5, 100, 1000, 3000, 10_000])
def test_hardly_any_late_answers_are_nothing_and_many_are_much(rate):
    assert after(rate, 0.0) == 1.0
    assert after(rate, 0.001) <= 1.25
    assert after(rate, 0.1) >= (2.5 if rate >= 100 else 1.0)
    assert after(rate, 1.0) == 3.0


@pytest.mark.parametrize("rate", [1000, 3000, 10_000])
def test_one_in_a_hundred_is_too_many(rate):
    assert after(rate, 0.01) > 2.0


@pytest.mark.parametrize("rate", [0.5, 5, 1000])
def test_it_passes_within_seconds_whatever_the_rate(rate):
    caution = Caution()
    caution.factor = 3.0
    assert after(rate, 0.0, 20.0, caution) < 1.2


def test_what_is_kept_leaves_time_for_stages():
    caution = Caution()
    assert caution.of(0.002, 0.010) == 0.002
    caution.factor = 3.0
    assert caution.of(0.002, 0.010) == pytest.approx(0.006)
    assert caution.of(0.001, 0.002) == pytest.approx(0.0012)  # three fifths of the time
    assert caution.of(0.001, 0.001) == 0.001  # which was more already
    assert caution.of(0.2, 1.0) == pytest.approx(0.22)  # pauses of milliseconds are no reason for more
    assert caution.of(0.001, np.inf) == pytest.approx(0.003)
