"""Charts as data: what a figure shows is a value that a test can compare, and drawing it comes last.

Every chart is drawn twice, for light and for dark pages. The SVG carries a fingerprint of the numbers it shows, so
that a test finds out, without drawing, that figures and measurements have drifted apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart, in two brightnesses.
COLOURS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#b2478a", "#8a6d00", "#3a86c8", "#5b5b5b", "#7f3b00"),
    "dark": ("#56b4e9", "#ff9d5c", "#2fd6a3", "#e79bc9", "#f0e442", "#a9c8ff", "#c9c9c9", "#ffcf9c"),
}
INK = {"light": ("#1f2328", "#8b949e", "#d8dee4"), "dark": ("#e6edf3", "#9aa4ae", "#39414a")}
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Series:
    """One line, set of points or set of bars; ``y`` is left out where the panel names its rows."""

    label: str
    x: Sequence[float | None]
    y: Sequence[float | None] = ()
    kind: str = "line"  # "line", "dashed", "points" or "bars"


@dataclass(frozen=True)
class Panel:
    """One pair of axes. With ``names``, rows are named and series give one ``x`` per row; ``picture`` is a map of its own."""

    title: str
    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    x_log: bool = False
    y_log: bool = False
    names: Sequence[str] = ()
    mark: float | None = None  # a bar that was set, drawn as a thin line across
    picture: Sequence[Sequence[int]] = ()  # rows of shades from 0 to 35


@dataclass(frozen=True)
class Chart:
    """Panels in rows of ``columns``, and a sentence that says what is seen."""

    alt: str
    panels: Sequence[Panel]
    columns: int = 3
    height: float = 2.4

    @property
    def fingerprint(self) -> str:
        """Equal for equal charts; numbers count to six digits."""

        def rounded(value: Any) -> Any:
            if isinstance(value, float):
                return float(f"{value:.6g}")
            if isinstance(value, dict):
                return {key: rounded(item) for key, item in value.items() if key != "picture" or item}
            return [rounded(item) for item in value] if isinstance(value, list | tuple) else value

        text = json.dumps(rounded(asdict(self)), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def draw(chart: Chart, path: Path, theme: str) -> None:
    """Write ``chart`` to ``path`` as an SVG for a light or a dark page."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    ink, soft, grid = INK[theme]
    labels = list(dict.fromkeys(series.label for panel in chart.panels for series in panel.series))
    ours = [label for label in labels if not label.startswith("printed")]
    style = {label: (COLOURS[theme][i % 8], MARKERS[i % 8]) for i, label in enumerate(ours)}
    style |= {label: (ink, "x") for label in labels if label.startswith("printed")}
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "anytime",
        "font.size": 9,
        "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": soft,
        "xtick.color": soft,
        "ytick.color": soft,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9.5,
    }
    with plt.rc_context(settings):
        columns = min(chart.columns, len(chart.panels))
        rows = -(-len(chart.panels) // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(7.8, chart.height * rows + 0.4), squeeze=False, layout="constrained"
        )
        for panel, axis in zip(chart.panels, axes.flat, strict=False):
            _draw_panel(panel, axis, style, grid, soft)
        for axis in axes.flat[len(chart.panels) :]:
            axis.set_axis_off()
        handles = {
            label: handle
            for axis in axes.flat
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        if len(labels) > 1:
            figure.legend(
                [handles[label] for label in labels],
                labels,
                loc="outside upper left",
                ncols=min(len(labels), 4),
                frameon=False,
                fontsize=8.5,
            )
        figure.savefig(
            path, transparent=True, metadata={"Date": None, "Creator": None, "Identifier": chart.fingerprint}
        )
        plt.close(figure)


def _draw_panel(panel: Panel, axis: Any, style: dict[str, tuple[str, str]], grid: str, soft: str) -> None:
    from matplotlib.ticker import LogLocator

    axis.set_title(panel.title, loc="left")
    if panel.picture:
        axis.imshow(panel.picture, cmap="viridis", vmin=0, vmax=35, interpolation="nearest")
        axis.set_axis_off()
        return
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    axis.grid(color=grid, linewidth=0.6)
    axis.set_axisbelow(True)
    if panel.x_log:
        axis.set_xscale("log")
    if panel.y_log:
        axis.set_yscale("log")
    for i, series in enumerate(panel.series):
        colour, marker = style[series.label]
        if panel.names and series.kind == "bars":
            bars = [series for series in panel.series if series.kind == "bars"]
            thick = 0.8 / len(bars)
            rows = [row - 0.4 + thick * (bars.index(series) + 0.5) for row in range(len(panel.names))]
            axis.barh(rows, [x or 0 for x in series.x], thick, color=colour, label=series.label)
            continue
        y = list(range(len(panel.names))) if panel.names else series.y
        pairs = [
            (x, value) for x, value in zip(series.x, y, strict=True) if x is not None and value is not None
        ]
        line = {"line": "-", "dashed": "--", "points": ""}[series.kind]
        dense = len(pairs) > 25
        axis.plot(
            [x for x, _ in pairs],
            [value for _, value in pairs],
            linestyle=line,
            marker="" if dense and line else marker,
            markersize=4.5 if series.kind == "points" else 3,
            markeredgewidth=1.6 if marker == "x" else 0.5,
            linewidth=1.4,
            color=colour,
            label=series.label,
            zorder=3 - 0.01 * i,
        )
    axis.minorticks_off()
    for log, scale, limits in (
        (panel.x_log, axis.xaxis, axis.get_xlim()),
        (panel.y_log, axis.yaxis, axis.get_ylim()),
    ):
        if log:
            close = limits[1] / limits[0] < (50 if scale is axis.xaxis else 300)
            scale.set_major_locator(LogLocator(subs=(1, 2, 5) if close else (1,)))
            scale.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    if panel.names:
        axis.set_yticks(range(len(panel.names)), panel.names)
        axis.set_ylim(len(panel.names) - 0.4, -0.6)
        axis.tick_params(axis="y", length=0)
    if panel.mark is not None:
        (axis.axvline if panel.names else axis.axhline)(panel.mark, color=soft, linewidth=1, linestyle=":")
