"""What ``/stats`` shows: the counters of all workers, and for each model what a page needs to draw it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from anytime.serve.examples import ExampleReader, made_up
from anytime.serve.pace import thresholds_of

if TYPE_CHECKING:
    from anytime.plan import Plan
    from anytime.serve.app import Server
    from anytime.serve.board import Totals
    from anytime.serve.registry import ServedModel

_MOST_COLUMNS = 5000  # wider models are drawn without their columns


class Stats:
    """Puts together what ``/stats`` answers with."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._described: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()

    def now(self) -> dict[str, Any]:
        """The figures of this moment."""
        server = self._server
        slo, board = server.settings.slo, server.board
        recent = board.recent()
        models = []
        for number, name in enumerate(server.settings.models):
            entry = server.registry.get(name)
            models.append({**self._description(entry), **self._moving(entry, recent, number)})
        busiest = max(models, key=lambda model: model["window"]["rows"])
        return {
            "time": time.time(),
            "slo_ms": None if slo is None else slo * 1e3,
            **board.snapshot(),
            "stages": busiest["stages"],
            "models": models,
        }

    def _moving(self, entry: ServedModel, recent: Totals, number: int) -> dict[str, Any]:
        """What changes from one second to the next."""
        rows = recent.model(number, "rows")
        checkpoints = [0, *entry.engine.pace.checkpoints.tolist()]
        counted = recent.stages[number, : len(checkpoints)]
        share = counted / max(int(counted.sum()), 1)
        return {
            "version": entry.version,
            "stage_seconds": entry.engine.pace.per_row[checkpoints].tolist(),
            "stages": {"edges": checkpoints, "share": share.round(6).tolist()},
            "window": {
                "rows": rows,
                "answers": recent.model(number, "answers"),
                "mean_stage": recent.model(number, "stages") / rows if rows else None,
                "mean_cost": float(recent.costs[number]) / rows if rows else None,
            },
        }

    def _description(self, entry: ServedModel) -> dict[str, Any]:
        """What stays as long as a version does."""
        description = self._described.get(entry.model)
        if description is None:
            description = self._described[entry.model] = _describe(entry)
        return description


def _describe(entry: ServedModel) -> dict[str, Any]:
    model, plan = entry.model, entry.model.plan_
    checkpoints = [0, *entry.engine.pace.checkpoints.tolist()]
    costs = np.concatenate([[0.0], plan.stage_costs])
    reader, slo = entry.tensors.reader, entry.engine.slo
    if isinstance(reader, ExampleReader):
        inputs: dict[str, Any] = {"columns": [], "example": None if reader.is_picture else made_up(model)}
        inputs |= {"labels": reader.kind, "colours": reader.colours}
    else:
        wide = plan.n_features > _MOST_COLUMNS
        inputs = {
            "columns": [] if wide else _columns(model, reader.names),
            "example": [] if wide else _example(plan, reader.words),
        }
    return {
        "name": entry.name,
        "kind": type(model).__name__,
        "n_stages": plan.n_stages,
        "n_columns": plan.n_features,
        "checkpoints": checkpoints,
        "stage_costs": costs[checkpoints].tolist(),
        "quality": None if plan.quality is None else plan.quality[checkpoints].tolist(),
        "unit": plan.costs.costs.unit,
        "classes": entry.tensors.classes,
        "slo_ms": None if slo is None else slo * 1e3,
        **inputs,
    }


def _columns(model: Any, names: list[str] | None) -> list[dict[str, Any]]:
    bound = model.plan_.costs
    groups = [*bound.costs.names, None]  # the last is that of columns that cost nothing, -1
    prices = [*(float(bound.costs.prices[group]) for group in bound.costs.names), 0.0]
    return [
        {"name": str(j) if names is None else names[j], "group": groups[g], "price": prices[g]}
        for j, g in enumerate(bound.column_group.tolist())
    ]


def _example(plan: Plan, words: dict[int, dict[Any, float]]) -> list[Any]:
    """A row to begin with: the middle of what trees compare each column with, the first of its words, else 0."""
    row: list[Any] = [0.0] * plan.n_features
    for j, values in thresholds_of(plan).items():
        row[j] = float(f"{np.median(values):.6g}")
    for j, categories in words.items():
        row[j] = next(iter(categories), None)
    return row
