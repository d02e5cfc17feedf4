"""Curves drawn with characters: quality against cost, as the step functions they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime.cli.tables import console, number

if TYPE_CHECKING:
    from anytime.curves import AnytimeCurve

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pen:
    """How one curve looks, with and without colour, and where only ASCII can be shown."""

    flat: str
    rise: str
    plain: str
    style: str


PENS = (
    Pen("━", "┃", "#", "bold green"),
    Pen("─", "│", "-", "yellow"),
    Pen("┄", "┆", ".", "cyan"),
    Pen("·", ":", ":", "magenta"),
)


def print_curves(curves: Mapping[str, AnytimeCurve], *, log: bool = False, height: int = 11) -> None:
    """Draw curves of one metric and meter below each other's legend, across the terminal's width."""
    from rich.text import Text

    out = console()
    ascii_only = out.options.ascii_only
    width = min(out.width, 100) - 10
    budgets = budget_axis(list(curves.values()), width, log)
    values = [np.asarray(c.at(budgets), dtype=np.float64) for c in curves.values()]
    for line in draw(values, height=height, ascii_only=ascii_only):
        out.print(Text.assemble(*line), no_wrap=True, overflow="crop")
    first = next(iter(curves.values()))
    out.print(Text(_axis_labels(budgets, first.unit, width, log)), no_wrap=True, overflow="crop")
    for pen, name in zip(_pens(len(curves)), curves, strict=True):
        sample = pen.plain * 3 if ascii_only else pen.flat * 3
        out.print(Text.assemble(" " * 10, (sample, pen.style), " ", name))
    out.print()


def budget_axis(curves: Sequence[AnytimeCurve], width: int, log: bool) -> Array:
    """(width,) one budget per column; the first is 0 when the axis is linear."""
    top = max(c.total_cost for c in curves)
    positive = [float(c.costs[c.costs > 0][0]) for c in curves if (c.costs > 0).any()]
    if not log or not positive or top <= min(positive):
        return np.linspace(0.0, top, width)
    low = min(positive) / 1.6  # a little before the first purchase, to show the constant answer
    return np.append(np.geomspace(low, top, width)[:-1], top)


def draw(values: Sequence[Array], *, height: int, ascii_only: bool = False) -> list[list[tuple[str, str]]]:
    """Lines of styled pieces: the axis, and each curve as steps; the last curve is the boldest and lies on top."""
    together = np.concatenate(values)
    together = together[np.isfinite(together)]
    low, high = (float(together.min()), float(together.max())) if together.size else (0.0, 1.0)
    span = (high - low) or 1.0
    width = len(values[0])
    cells: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(height)]
    for series, pen in zip(values, _pens(len(values)), strict=True):
        _trace(cells, (series - low) / span, pen, ascii_only)
    bar = "|" if ascii_only else "│"
    labels = {0: high, height // 2: high - span * (height // 2) / (height - 1), height - 1: low}
    return [
        [(f"{number(labels[r], 3) if r in labels else '':>8} {bar}", "dim"), *row]
        for r, row in enumerate(cells)
    ]


def _trace(cells: list[list[tuple[str, str]]], heights: Array, pen: Pen, ascii_only: bool) -> None:
    last = len(cells) - 1
    flat, rise = (pen.plain, pen.plain) if ascii_only else (pen.flat, pen.rise)
    before = None
    for x, value in enumerate(heights):
        if not np.isfinite(value):
            continue
        row = last - round(float(value) * last)
        if before is not None and row != before:
            for between in range(min(row, before) + 1, max(row, before)):
                cells[between][x] = (rise, pen.style)
        cells[row][x] = (flat, pen.style)
        before = row


def _pens(count: int) -> list[Pen]:
    return [PENS[j % len(PENS)] for j in reversed(range(count))]


def _axis_labels(budgets: Array, unit: str | None, width: int, log: bool) -> str:
    """Three numbers under the axis, and what they are."""
    places = [0, width // 2, width - 1]
    line = [" "] * width
    for place in places:
        text = number(float(budgets[place]), 3)
        start = min(max(place - len(text) // 2, 0), width - len(text))
        line[start : start + len(text)] = text
    what = f"cost{f' in {unit}' if unit else ''}{', logarithmic' if log else ''}"
    return " " * 10 + "".join(line).rstrip() + "\n" + " " * 10 + what
