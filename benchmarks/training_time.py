"""How long SpeedBoost trains, in units of one LightGBM, and how good it is at shares of the price.

Both learn from the same rows, on one thread, and are counted in processor seconds of one run. One LightGBM is 300 rounds with
early stopping on a quarter of the rows, on all columns. The splits are those for development, unless ``--reported`` says
otherwise.

    python benchmarks/training_time.py [--data DIR] [--sets a,b] [--splits 1] [--reported] [--time-budget S]
        [--keep FILE] [--against FILE]

A time budget is counted in processor seconds too: it means the same on a busy machine.

``--keep`` writes the rows of the table as JSON, ``--against`` compares with such a file. Results are written when the splits are
the reported ones and all sets are run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import anytime as at
from _quality_peers import Boosting
from _quality_sets import SETS, Problem
from anytime.trees import clock
from common import write

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
FEW = ("heart", "segment", "magic", "cpu", "pendigits", "pixels")
BARS = {"median": 8.0, "worst": 40.0}


def speedboost(problem: Problem, **parameters: Any) -> Any:
    """As it comes, unfitted."""
    kind = at.SpeedBoostClassifier if problem.n_classes else at.SpeedBoostRegressor
    return kind(costs=problem.costs, random_state=0, **parameters)


def n_trees(plan: at.Plan) -> int:
    """Trees of all answers that a plan has."""
    blocks = [block for part in (plan, *plan.branches) for block in part.blocks]
    return sum(len(block.forest.arrays()["tree_start"]) - 1 for block in blocks if block.forest is not None)


def unspent(model: Any, problem: Problem) -> NDArray[np.float64]:
    """(8,) share of each budget that the answer for it leaves."""
    rows = problem.X_test[:1]
    budgets = [share * problem.costs.total for share in SHARES]
    return np.array([1 - float(model.cost(rows, budget=b)[0]) / b for b in budgets])


def measured(name: str, folder: str, seed: int, development: bool, **parameters: Any) -> dict[str, Any]:
    """Seconds of both, their ratio, and the error at each share of the price."""
    problem = SETS[name].problem(folder, seed, development)
    began = time.process_time()
    rival = Boosting(problem)
    rival.stopped(frozenset(rival.groups))
    theirs = time.process_time() - began
    X, y = problem.joined()
    model = speedboost(problem, **parameters)
    wall, began = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(), patch.object(clock, "time", SimpleNamespace(monotonic=time.process_time)):
        warnings.simplefilter("ignore")
        model.fit(X, y)
    ours, wall = time.process_time() - began, time.perf_counter() - wall
    budgets = [share * problem.costs.total for share in SHARES]
    errors = [float(problem.loss(model.predict(problem.X_test, budget=b)).mean()) for b in budgets]
    return {
        "set": name,
        "split": seed,
        "LightGBM s": round(theirs, 3),
        "SpeedBoost s": round(ours, 3),
        "wall s": round(wall, 2),
        "ratio": round(ours / theirs, 1),
        "trees": n_trees(model.plan_),
        "stages": model.n_stages_,
        "branches": len(model.plan_.branches),
        "errors": [round(100 * e, 2) for e in errors],
        "unspent": unspent(model, problem).round(3).tolist(),
    }


def shown(row: dict[str, Any], before: dict[str, Any] | None) -> str:
    """One line of the table, and the change of the errors against an earlier run."""
    line = (
        f"{row['set']:>13} {row['split']}: {row['LightGBM s']:6.2f} s, {row['SpeedBoost s']:7.2f} s, ratio {row['ratio']:6.1f}, "
        f"{row['stages']:2d} + {row['branches']:2d} answers | " + " ".join(f"{e:6.2f}" for e in row["errors"])
    )
    if before is None:
        return line
    changes = np.array(row["errors"]) - before["errors"]
    return line + "\n" + " " * 50 + "against before: " + " ".join(f"{c:+6.2f}" for c in changes)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="comma separated; 'all': every set")
    parser.add_argument("--splits", type=int, default=1, help="of each set")
    parser.add_argument("--reported", action="store_true", help="the splits kept for results")
    parser.add_argument("--time-budget", type=float, help="seconds that a fit may take")
    parser.add_argument("--keep", type=Path, help="file for the table")
    parser.add_argument("--against", type=Path, help="file of an earlier table to compare with")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
    everything = [name for name in SETS if name != "ranking"]
    names = everything if options.sets == "all" else options.sets.split(",") if options.sets else list(FEW)
    earlier = {}
    if options.against and options.against.exists():
        earlier = {(row["set"], row["split"]): row for row in json.loads(options.against.read_text())}
    rows = []
    for name in names:
        for seed in range(options.splits):
            row = measured(name, options.data, seed, not options.reported, time_budget=options.time_budget)
            rows.append(row)
            print(shown(row, earlier.get((name, seed))), flush=True)
            if options.keep:
                options.keep.write_text(json.dumps(rows))
    ratios = [row["ratio"] for row in rows]
    found = {"median": round(float(np.median(ratios)), 1), "worst": max(ratios)}
    both = [row for row in rows if (row["set"], row["split"]) in earlier]
    print(f"ratio to one LightGBM: {found}, bars {BARS}")
    if both:
        after = np.array([row["errors"] for row in both])
        before = np.array([earlier[row["set"], row["split"]]["errors"] for row in both])
        relative = np.exp(np.log(np.maximum(after, 0.01) / np.maximum(before, 0.01)).mean(axis=0))
        print("errors relative to before, by share:", " ".join(f"{r:.3f}" for r in relative))
    if options.reported and set(names) == set(everything) and options.time_budget is None:
        write("training_time", {"bars": BARS, "ratio": found, "fits": rows})


if __name__ == "__main__":
    main()
