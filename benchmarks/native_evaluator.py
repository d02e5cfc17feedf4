"""The native evaluator alone, against ``Booster.predict`` (500 trees x 63 leaves, 50 features), one thread.

Bars: one row at most 12 microseconds and 0.5 x the booster's median; 1,000 rows at most 3 microseconds a row; with a
far-away deadline at most 1.05 x without; a prefix costs its share; a deadline that passes is seen within 20 microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest
from anytime.trees.importers import import_trees
from common import in_turns, lightgbm_model, median, write

Array = NDArray[np.float64]


def runner(forest: Forest, X: Array, until: int, **options: float) -> Callable[[], NDArray[np.int64]]:
    """A whole run over X, its arrays included."""
    n = len(X)

    def run() -> NDArray[np.int64]:
        acc, done = np.zeros((n, forest.n_outputs), np.int64), np.zeros(n, np.int32)
        forest.run(X, acc, done, np.full(n, until, np.int32), **options)  # type: ignore[arg-type]
        return acc

    return run


def lateness(forest: Forest, X: Array, repeats: int = 400) -> list[float]:
    """Seconds between a deadline and the return of the run that it cut short."""
    n = len(X)
    until = np.full(n, forest.n_stages, np.int32)
    late = []
    for i in range(repeats):
        acc, done = np.zeros((n, forest.n_outputs), np.int64), np.zeros(n, np.int32)
        deadline = time.monotonic() + 2e-4 + 1e-5 * (i % 50)
        if not forest.run(X, acc, done, until, deadline):
            late.append(time.monotonic() - deadline)
    return late


def lateness_of_one(forest: Forest, x: Array, repeats: int = 2000) -> list[float]:
    """The same for a single row, with deadlines of a few microseconds."""
    acc = np.zeros(forest.n_outputs, np.int64)
    late = []
    for i in range(repeats):
        deadline = time.monotonic() + 1e-6 * (1 + i % 4)
        if forest.run_one(x, forest.n_stages, deadline, acc) < forest.n_stages:
            late.append(time.monotonic() - deadline)
    return late


def quantiles(seconds: list[float]) -> dict[str, float]:
    return {f"q{q}": round(1e6 * float(np.percentile(seconds, q)), 2) for q in (50, 90, 99)}


def main() -> None:
    booster, X = lightgbm_model()
    imported = import_trees(booster)
    forest = Forest(**imported.trees.asdict())
    S = forest.n_stages
    rows = np.ascontiguousarray(X[:1000])
    scores = imported.base[0] + runner(forest, rows, S)()[:, 0] * forest.unit
    gap = float(np.abs(scores - booster.predict(rows, raw_score=True)).max())

    acc, infinity = np.zeros(1, np.int64), float("inf")
    turn = iter(range(10**9))
    separate = [row.copy() for row in rows]
    one = in_turns(
        {
            "booster": lambda: booster.predict(rows[next(turn) % 1000][None], num_threads=1),
            "run_one": lambda: forest.run_one(separate[next(turn) % 1000], S, infinity, acc),
            "run_one_far_deadline": lambda: forest.run_one(separate[next(turn) % 1000], S, 1e9, acc),
            "run_one_no_stage": lambda: forest.run_one(separate[next(turn) % 1000], 0, infinity, acc),
        },
        repeats=300,
        inner=10,
    )
    far = time.monotonic() + 1e6
    many = in_turns(
        {
            "booster": lambda: booster.predict(rows, num_threads=1),
            "run": runner(forest, rows, S),
            "run_far_deadline": runner(forest, rows, S, deadline=far),
        },
        repeats=100,
    )
    shares = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
    prefix = in_turns({str(share): runner(forest, rows, int(share * S)) for share in shares}, repeats=100)

    one_us = {name: round(1e6 * median(values), 2) for name, values in one.items()}
    many_us = {name: round(1e3 * median(values), 3) for name, values in many.items()}
    paired = np.array(many["run_far_deadline"]) / np.array(many["run"])
    write(
        "native_evaluator",
        {
            "largest_difference_of_scores": gap,
            "one_row_microseconds": one_us,
            "one_row_ratio_to_booster": round(one_us["run_one"] / one_us["booster"], 3),
            "rows_1000_microseconds_per_row": many_us,
            "rows_1000_ratio_to_booster": round(many_us["run"] / many_us["booster"], 3),
            "rows_1000_ratio_to_booster_best": round(min(many["run"]) / min(many["booster"]), 3),
            "far_deadline_ratio_1000_rows": round(float(np.median(paired)), 3),
            "far_deadline_ratio_1000_rows_best": round(min(many["run_far_deadline"]) / min(many["run"]), 3),
            "prefix_time_ratio": {s: round(median(v) / median(prefix["1.0"]), 3) for s, v in prefix.items()},
            "microseconds_late_1000_rows": quantiles(lateness(forest, rows)),
            "microseconds_late_one_row": quantiles(lateness_of_one(forest, separate[0])),
        },
    )


if __name__ == "__main__":
    main()
