"""The page of a search: hull, lineage of models, what each growth added. What is drawn, and how, stands in ``report.html``."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from math import isfinite
from typing import Any

from anytime.growth.hull import lower_hull
from anytime.growth.journal import FailedJob, Model

__all__ = ["ReportWords", "additions", "render"]


@dataclass(frozen=True)
class ReportWords:
    """How the page calls things: its title, the cost with its unit, the error, and the data."""

    title: str = "A family of models, grown"
    cost: str = "cost"
    error: str = "validation error"
    data: str = ""


def render(
    models: Sequence[Model], failures: Sequence[FailedJob] = (), words: ReportWords | None = None
) -> str:
    """The page on the models of a search, in the order of numbers, as text: one file that needs no other."""
    if not models:
        raise ValueError("there is nothing to report: no model is trained yet")
    words = words or ReportWords()
    template = resources.files("anytime.growth").joinpath("report.html").read_text(encoding="utf-8")
    parts = {"@TITLE@": html.escape(words.title), "@DATA@": _script_safe(_contents(models, failures, words))}
    return re.sub("|".join(parts), lambda match: parts[match[0]], template)


def additions(model: Model) -> list[str]:
    """What a growth added, in words: of networks the shortcuts, of other problems what they noted."""
    growth = model.notes.get("growth", {})
    chosen = growth.get("chosen")
    if not isinstance(chosen, dict):
        return [f"{name}: {value}" for name, value in growth.items()]
    return [f"{place}: {', '.join(map(_shortcut, shortcuts))}" for place, shortcuts in chosen.items()]


def _shortcut(shortcut: dict[str, Any]) -> str:
    return f"{shortcut['op']} of {shortcut['input']} ({shortcut['strength']:.3g})"


def _contents(models: Sequence[Model], failures: Sequence[FailedJob], words: ReportWords) -> dict[str, Any]:
    hull = {models[i].number for i in lower_hull([m.cost for m in models], [m.error for m in models])}
    return {
        "title": words.title,
        "cost": words.cost,
        "error": words.error,
        "data": words.data,
        "models": [
            {
                "number": model.number,
                "parent": model.parent,
                "cost": model.cost,
                "error": model.error,
                "selected": model.n_selected,
                "seconds": model.seconds,
                "parameters": _number(model.notes.get("parameters")),
                "hull": model.number in hull,
                "added": additions(model),
            }
            for model in models
        ],
        "failures": [
            {"number": f.number, "kind": f.kind, "parent": f.parent, "why": f.failure.partition("\n")[0]}
            for f in failures
        ],
    }


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _script_safe(contents: dict[str, Any]) -> str:
    """JSON that cannot end its script element or be read as markup, whatever names it holds."""
    text = json.dumps(contents, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
