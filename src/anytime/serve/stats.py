"""What ``/stats`` shows: the counters of all workers, and for each model what a page needs to draw it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from anytime.serve.app import Server
    from anytime.serve.board import Totals
    from anytime.serve.registry import ServedModel

__all__ = ["Stats"]

_MOST_COLUMNS = 5000  # wider models are drawn without their columns


class Stats:
    """Puts together what ``/stats`` answers with.

    Parameters
    ----------
    server : Server
    """

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
        found = self._described.get(entry.model)
        if found is None:
            found = self._described[entry.model] = _describe(entry, self._server)
        return found


def _describe(entry: ServedModel, server: Server) -> dict[str, Any]:
    model, plan = entry.model, entry.model.plan_
    checkpoints = [0, *entry.engine.pace.checkpoints.tolist()]
    costs = np.concatenate([[0.0], plan.stage_costs])
    reader = server.face(entry).reader
    wide = plan.n_features > _MOST_COLUMNS
    return {
        "name": entry.name,
        "kind": type(model).__name__,
        "n_stages": plan.n_stages,
        "n_columns": plan.n_features,
        "checkpoints": checkpoints,
        "stage_costs": costs[checkpoints].tolist(),
        "quality": None if plan.quality is None else plan.quality[checkpoints].tolist(),
        "unit": plan.costs.costs.unit,
        "columns": [] if wide else _columns(model, reader.names),
        "classes": server.face(entry).classes,
        "example": [] if wide else _example(plan, reader.words),
    }


def _columns(model: Any, names: list[str] | None) -> list[dict[str, Any]]:
    bound = model.plan_.costs
    prices = [float(bound.costs.prices[group]) for group in bound.costs.names]
    return [
        {"name": names[j] if names is not None else str(j), "group": bound.costs.names[g], "price": prices[g]}
        if g >= 0
        else {"name": names[j] if names is not None else str(j), "group": None, "price": 0.0}
        for j, g in enumerate(bound.column_group.tolist())
    ]


def _example(plan: Any, words: dict[int, dict[Any, float]]) -> list[Any]:
    """A row to begin with: the middle of what trees compare each column with, the first of its words, else 0."""
    thresholds: dict[int, list[Any]] = {}
    for block in plan.blocks:
        if block.forest is None:
            continue
        arrays = block.forest.arrays()
        inner = (arrays["feature"] >= 0) & np.isfinite(arrays["threshold"])
        feature, threshold = arrays["feature"][inner], arrays["threshold"][inner]
        order = np.argsort(feature, kind="stable")
        columns, first = np.unique(feature[order], return_index=True)
        for column, values in zip(columns.tolist(), np.split(threshold[order], first[1:]), strict=True):
            thresholds.setdefault(column, []).append(values)
    row: list[Any] = []
    for j in range(plan.n_features):
        if j in words:
            row.append(next(iter(words[j]), None))
        elif j in thresholds:
            row.append(float(f"{np.median(np.concatenate(thresholds[j])):.6g}"))
        else:
            row.append(0.0)
    return row
