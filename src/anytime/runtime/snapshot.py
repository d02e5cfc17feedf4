"""What a reader gets while the writer goes on: a small immutable picture, turned into an ``Answer`` by whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Answer, Array
from anytime.runtime.layout import Layout
from anytime.runtime.walk import Walk

__all__ = ["Snapshot", "answer_of"]


class Snapshot(NamedTuple):
    """The state of one example between two units of work. Making one costs a few microseconds, reading it nothing."""

    scores: Array  # (1, K), never written again
    stage: int
    ticks: int
    groups: tuple[int, ...] | NDArray[np.bool_]
    failures: Mapping[str, str]
    skipped: tuple[int, ...]
    elapsed: float
    complete: bool

    @classmethod
    def before_the_first_stage(cls, layout: Layout) -> Snapshot:
        """What is known of any example."""
        return cls(layout.plan.base[None], 0, 0, (), {}, (), 0.0, layout.n_stages == 0)

    @classmethod
    def of(cls, walk: Walk, elapsed: float, failures: Mapping[str, str]) -> Snapshot:
        """The state of ``walk`` now."""
        return cls(
            scores=walk.scores(),
            stage=walk.stage,
            ticks=walk.paid,
            groups=walk.purchases(),
            failures=dict(failures),
            skipped=walk.skipped,
            elapsed=elapsed,
            complete=walk.complete,
        )


def answer_of(layout: Layout, snapshot: Snapshot) -> Answer:
    """The answer that a snapshot is."""
    prediction, probabilities = layout.model._told(snapshot.scores)
    return Answer(
        prediction=prediction[0],
        scores=snapshot.scores[0],
        probabilities=None if probabilities is None else probabilities[0],
        stage=snapshot.stage,
        cost=layout.plan.costs.costs.amount(snapshot.ticks),
        model_cost=layout.stage_costs[snapshot.stage],
        elapsed=snapshot.elapsed,
        groups=layout.listed(snapshot.groups),
        complete=snapshot.complete,
        failures=snapshot.failures,
    )
