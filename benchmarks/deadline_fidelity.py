"""How late single-row predictions come back after their deadline: 10,000 of them, nothing excluded.

Bar: 99.9 % return within the deadline plus 50 microseconds, for deadlines between 20 microseconds and 5 ms. The forest
is large enough that most of these deadlines cut it short.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

import anytime as at
from anytime._native import Forest
from anytime.trees.block import TreeBlock
from common import lightgbm_model, write


def big_model(booster: object, copies: int) -> at.AnytimeClassifier:
    """The booster's trees ``copies`` times over: a forest that takes longer than most of the deadlines."""
    model = at.make_anytime(booster, meter="model")
    arrays = model.plan_.blocks[0].forest.arrays()
    coarser = Forest(
        **{**arrays, "shift": arrays["shift"] - int(np.ceil(np.log2(copies)))}
    )  # room for larger sums
    stages = np.tile(np.arange(model.n_stages_), copies)
    model.plan_ = replace(model.plan_, blocks=[TreeBlock(coarser).select(stages)])
    return model


def main() -> None:
    booster, X = lightgbm_model()
    model = big_model(booster, copies=120)
    rng = np.random.default_rng(0)
    deadlines = np.exp(rng.uniform(np.log(20e-6), np.log(5e-3), size=10_000))
    rows = np.ascontiguousarray(X[:512])
    for x in rows[:20]:
        model.predict_one(x, deadline=1e-3)
    began = time.perf_counter()
    model.predict_one(rows[0])
    whole = time.perf_counter() - began

    late = np.empty(deadlines.size)
    for i, deadline in enumerate(deadlines):
        x = rows[i % len(rows)]
        began = time.perf_counter()
        model.predict_one(x, deadline=deadline)
        late[i] = time.perf_counter() - began - deadline
    micro = 1e6 * late
    write(
        "deadline_fidelity",
        {
            "predictions": int(late.size),
            "trees": model.plan_.n_stages,
            "whole_forest_milliseconds": round(1e3 * whole, 2),
            "microseconds_after_deadline": {
                f"p{q}": round(float(np.percentile(micro, q)), 2) for q in (1, 10, 50, 90, 99, 99.9, 100)
            },
            "share_within_50_microseconds": float(np.mean(micro <= 50)),
            "share_within_10_microseconds": float(np.mean(micro <= 10)),
            "bars": {"share_within_50_microseconds": ">= 0.999"},
        },
    )


if __name__ == "__main__":
    main()
