"""The page of a comparison: ``report.html`` with the curves put in as JSON. What is drawn, and how, stands in the template."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from anytime.curves.anytime_curve import AnytimeCurve
from anytime.curves.display import cost_label, metric_label
from anytime.curves.report_paths import render_paths

if TYPE_CHECKING:
    from anytime.advice import PurchasePath
    from anytime.curves.comparison import Comparison
    from anytime.explanations import Explanation


def render(comparison: Comparison, title: str, paths: Mapping[str, PurchasePath | Explanation]) -> str:
    """The page as text."""
    template = resources.files("anytime.curves").joinpath("report.html").read_text(encoding="utf-8")
    parts = {
        "@TITLE@": html.escape(title),
        "@ROWS@": render_paths(paths),
        "@DATA@": _script_safe(_contents(comparison, title)),
    }
    return re.sub("|".join(parts), lambda match: parts[match[0]], template)


def _script_safe(contents: dict[str, Any]) -> str:
    """JSON that cannot end its script element or be read as markup, whatever names it holds."""
    text = json.dumps(contents, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _contents(comparison: Comparison, title: str) -> dict[str, Any]:
    from anytime.curves.comparison import SHARES

    first = comparison.first
    unit, scale = comparison.unit(), 1.0
    if unit == "s":
        unit, scale = _readable_time(comparison.horizon)
    summary = comparison.summary(SHARES)
    summary.iloc[:, 3:] *= scale  # the columns that are costs
    return {
        "title": title,
        "metric": metric_label(first),
        "greater": first.greater_is_better,
        "cost": cost_label(first.meter, unit),
        "word": "time" if first.meter == "time" else "cost",
        "unit": unit,
        "priceUnit": comparison.unit("price_unit"),
        "rows": comparison.n_rows,
        "confidence": first.confidence,
        "start": _number(comparison.start),
        "horizon": _number(comparison.horizon * scale),
        "targets": [{"share": share, "value": _number(comparison.target(share))} for share in SHARES],
        "models": [
            _model(name, curve, scale, _numbers(summary.loc[name]))
            for name, curve in comparison.curves.items()
        ],
    }


def _model(name: str, curve: AnytimeCurve, scale: float, summary: list[float | None]) -> dict[str, Any]:
    held = curve.held  # free stages that no budget ends at are not shown
    # at which points each group comes or, as branches buy others, goes
    turns = np.diff(np.asarray(curve.bought)[held], axis=0, prepend=False)
    return {
        "name": name,
        "costs": _numbers(curve.costs[held] * scale),
        "values": _numbers(curve.values[held]),
        "stages": np.asarray(curve.stages)[held].tolist(),
        "realised": None if curve.realised_costs is None else _numbers(curve.realised_costs[held]),
        "low": None if curve.band is None else _numbers(curve.band[0][held]),
        "high": None if curve.band is None else _numbers(curve.band[1][held]),
        "branches": np.asarray(curve.branches)[held].tolist(),
        "purchases": [
            {**asdict(p), "price": _number(p.price), "turns": np.flatnonzero(turned).tolist()}
            for p, turned in zip(curve.purchases, turns.T, strict=True)
        ],
        "summary": summary,
    }


def _readable_time(seconds: float) -> tuple[str, float]:
    """The unit in which a time is a number above 1, and how many of it a second has."""
    return next(((u, s) for u, s in (("s", 1.0), ("ms", 1e3)) if seconds * s >= 1), ("µs", 1e6))


def _numbers(values: Any) -> list[float | None]:
    return [_number(v) for v in values]


def _number(value: float | None) -> float | None:
    """Ten digits are more than a page can show; what is not a number, or infinite, is nothing."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.10g}")
