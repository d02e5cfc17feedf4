"""Curves drawn with characters."""

from __future__ import annotations

import numpy as np
import pytest

from anytime.cli.plot import budget_axis, draw
from anytime.cli.tables import thinned
from anytime.curves import AnytimeCurve


def text(values: list[list[float]], height: int = 3, **options: bool) -> list[str]:
    lines = draw([np.array(v) for v in values], height=height, **options)
    return ["".join(piece for piece, _ in line)[10:] for line in lines]


def test_steps_stand_where_the_values_are() -> None:
    assert text([[0, 0, 2, 2]], ascii_only=True) == ["  ##", "  # ", "##  "]


def test_last_curve_lies_on_top() -> None:
    assert text([[0, 0], [0, 1]], height=2) == [" ━", "━─"]


def test_no_answer_yet_is_left_blank() -> None:
    assert text([[np.nan, 1, 2]], height=2) == ["  ━", " ━ "]


def test_flat_curve_is_a_line() -> None:
    assert "━━━" in text([[0.5, 0.5, 0.5]])


def test_axis_begins_before_the_first_purchase_and_ends_at_the_last() -> None:
    curves = [AnytimeCurve([0, 0.01, 1], [0, 1, 2]), AnytimeCurve([0, 2], [0, 2])]
    linear, log = budget_axis(curves, 50, log=False), budget_axis(curves, 50, log=True)
    assert (linear[0], linear[-1]) == (0, 2)
    assert 0 < log[0] < 0.01
    assert log[-1] == 2
    assert (np.diff(log) > 0).all()


def test_free_model_has_an_axis_too() -> None:
    assert budget_axis([AnytimeCurve([0, 0], [0, 1])], 5, log=True).tolist() == [0] * 5


@pytest.mark.parametrize(("length", "most"), [(0, 5), (3, 5), (5, 5), (100, 10), (11, 10)])
def test_thinned_keeps_both_ends(length: int, most: int) -> None:
    kept = thinned(length, most)
    assert len(kept) == min(length, most)
    assert kept == sorted(set(kept))
    assert not length or (kept[0], kept[-1]) == (0, length - 1)
