"""Does confidence mean what it says? Shares right among rows that stop, coverage of conformal sets, means over streams.

Every model is trained with ``calibration="auto"``: a fifth of its training rows calibrates it. On test rows it is asked

- to stop at confidence 0.8, 0.9 and 0.95: the share of the rows that stopped (before the last stage) that is right, beside that
  of the same model without its calibration, which stops where the probability itself reaches the number;
- for conformal sets (intervals) of coverage 0.9 and 0.95 at the prices of eight stages and branches, from the first to the last;
  empty sets are allowed, so that the coverage is comparable also where a model is right more often than asked;
- for answers within a mean budget of 10 and 30 % of the price of everything: of a batch, and of a stream of single rows.

    python benchmarks/confidence.py --keep DIR [--data DIR] [--sets a,b] [--entries a,b] [--splits 1] [--reported]
    python benchmarks/confidence.py --keep DIR --summary

Every (set, split, entry) that is done is a JSON file in ``--keep``, so that a pass can be stopped and go on. Splits are those for
development, unless ``--reported`` says otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import anytime as at
from _quality_sets import SETS, Problem
from common import write

CLASSES = (
    *("pendigits", "letter", "satimage", "segment", "spambase", "magic", "covtype", "adult", "connect-4"),
    *("poker", "higgs", "dna", "thyroid", "pixels"),
)
NUMBERS = ("wine-quality", "cpu", "abalone", "kin40k", "pumadyn")
CONFIDENCES, COVERAGES, MEANS = (0.8, 0.9, 0.95), (0.9, 0.95), (0.1, 0.3)
ENTRIES = {
    "SpeedBoost": (at.SpeedBoostClassifier, at.SpeedBoostRegressor),
    "GroupPursuit": (at.GroupPursuitClassifier, at.GroupPursuitRegressor),
    "BudgetForest": (at.BudgetForestClassifier, at.BudgetForestRegressor),
    "Acquisition": (at.AcquisitionClassifier, at.AcquisitionRegressor),
}
FEWER_ROWS = {"Acquisition": 3_000}  # decisions row by row take long
STREAM = 1_000


def measured(entry: str, problem: Problem) -> dict[str, Any]:
    """All figures of one model on one split."""
    kind = ENTRIES[entry][0 if problem.n_classes else 1]
    X, y = problem.joined()
    began = time.process_time()
    model = kind(costs=problem.costs, calibration="auto", random_state=0).fit(X, y)
    figures: dict[str, Any] = {
        "seconds": time.process_time() - began,
        "rows": len(X),
        "test_rows": len(problem.X_test),
        "stages": model.n_stages_,
        "branches": len(model.plan_.branches),
    }
    if problem.n_classes:
        figures |= {
            "confidence": stopped(model, problem),
            "control": stopped(uncalibrated(model), problem),
            "gap": gap(model, problem),
            "control_gap": gap(uncalibrated(model), problem),
            "mean": means(model, problem),
        }
    return figures | {"coverage": covered(model, problem)}


def uncalibrated(model: Any) -> Any:
    """The same model, whose scores are taken at their word."""
    other = copy(model)
    branches = [replace(branch, calibration=None) for branch in model.plan_.branches]
    other.plan_ = replace(model.plan_, calibration=None, branches=branches)
    return other


def stopped(model: Any, problem: Problem) -> dict[str, Any]:
    """Of the rows that stop for confidence before the last stage: how many, how many right, and what all rows pay."""
    figures = {}
    for confidence in CONFIDENCES:
        batch = at.BatchSession(model, problem.X_test, confidence=confidence)
        batch.advance()
        answer = batch.read()
        early = np.asarray(answer.stage) < model.n_stages_
        right = answer.prediction == problem.y_test
        figures[str(confidence)] = {
            "stopped": int(early.sum()),
            "right": float(right[early].mean()) if early.any() else None,
            "all_right": float(right.mean()),
            "cost": float(np.mean(answer.cost)) / problem.costs.total,
        }
    return figures


def gap(model: Any, problem: Problem) -> float:
    """Expected calibration error over ten bins of equal width, the mean over five budgets."""
    errors = []
    for share in (0.1, 0.2, 0.4, 0.7, 1.0):
        told = model.predict_proba(problem.X_test, budget=share * problem.costs.total)
        claimed, right = told.max(axis=1), told.argmax(axis=1) == problem.y_test
        place = np.minimum((claimed * 10).astype(int), 9)
        sums = np.bincount(place, claimed - right, minlength=10)
        errors.append(np.abs(sums).sum() / len(right))
    return float(np.mean(errors))


def budgets_of(model: Any) -> list[float]:
    """Where something new answers: the prices of stages and branches, or shares where rows pay for their own paths."""
    if model.meter == "realised":
        return [share * model.costs_.total for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)]
    ends = [branch.stage_costs[-1] for branch in model.plan_.branches]
    prices = np.unique([*model.stage_costs_, *ends])
    return prices[np.unique(np.linspace(0, prices.size - 1, 8).astype(int))].tolist()


def covered(model: Any, problem: Problem) -> list[dict[str, float]]:
    """Coverage and mean size of sets, or mean width of intervals, at every budget."""
    figures, X, y = [], problem.X_test, problem.y_test
    for budget in budgets_of(model):
        for coverage in COVERAGES:
            if problem.n_classes:
                inside = model.predict_set(X, coverage, budget, allow_empty=True)
                share, size = inside[np.arange(len(y)), y].mean(), inside.sum(axis=1).mean()
            else:
                low, high = model.predict_interval(X, coverage, budget).T
                share, size = ((low <= y) & (y <= high)).mean(), (high - low).mean() / np.std(y)
            figures.append(
                {
                    "budget": budget / problem.costs.total,
                    "asked": coverage,
                    "covered": float(share),
                    "size": float(size),
                }
            )
    return figures


def means(model: Any, problem: Problem) -> list[dict[str, float]]:
    """Cost over a mean budget of a batch and of a stream, and accuracies beside that of the same budget for every row."""
    figures, X, y = [], problem.X_test[:STREAM], problem.y_test[:STREAM]
    for share in MEANS:
        budget = share * problem.costs.total
        batch = model.answer(X, mean_budget=budget)
        session = at.Session(model, mean_budget=budget)
        answers = [session.predict(row) for row in X]
        figures.append(
            {
                "budget": share,
                "batch": float(np.mean(batch.cost)) / budget,
                "stream": session.account.mean / budget,
                "batch_right": float(np.mean(batch.prediction == y)),
                "stream_right": float(np.mean([answer.prediction for answer in answers] == y)),
                "each_right": float(model.score(X, y, budget=budget)),
            }
        )
    return figures


# ---------------------------------------------------------------------- passes and their summary


def run(options: argparse.Namespace) -> None:
    """Whatever of the pass is not done yet."""
    for name in options.sets.split(","):
        for split in range(options.splits):
            for entry in options.entries.split(","):
                path = options.keep / f"{name}-{split}-{entry}.json"
                if path.exists():
                    continue
                problem = SETS[name].problem(
                    options.data, split, development=not options.reported, rows=FEWER_ROWS.get(entry)
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    figures = measured(entry, problem)
                path.write_text(json.dumps({"set": name, "split": split, "entry": entry, **figures}) + "\n")
                print(name, split, entry, f"{figures['seconds']:.0f} s", flush=True)


def summary(keep: Path) -> dict[str, Any]:
    """What the results page tells, by entry; and every run."""
    runs = [json.loads(path.read_text()) for path in sorted(keep.glob("*.json"))]
    return {
        "summary": {entry: _summed([r for r in runs if r["entry"] == entry]) for entry in ENTRIES},
        "runs": runs,
    }


def _summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    sets = sorted({run["set"] for run in runs})
    of = {name: [run for run in runs if run["set"] == name] for name in sets}
    out: dict[str, Any] = {"sets": sets, "confidence": {}, "control": {}}
    for kind in ("confidence", "control"):
        for level in map(str, CONFIDENCES):
            cells = {}
            for name in sets:
                told = [run for run in of[name] if kind in run and run[kind][level]["stopped"] >= 100]
                parts = [run[kind][level] for run in told]
                if parts:
                    cells[name] = {
                        "right": float(np.mean([part["right"] for part in parts])),
                        "stopped": int(np.mean([part["stopped"] for part in parts])),
                        "cost": float(np.mean([part["cost"] for part in parts])),
                        "standard_error": _noise(float(level), told, [part["stopped"] for part in parts]),
                    }
            off = [cell["right"] - float(level) for cell in cells.values()]
            out[kind][level] = {
                "within_2_points": sum(abs(o) <= 0.02 for o in off),
                "kept": sum(o >= -0.02 for o in off),
                "sets": len(off),
                "within_2_points_by_chance": sum(
                    _share_within(0.02, cell["standard_error"]) for cell in cells.values()
                ),
                "mean_off": float(np.mean(off)) if off else None,
                "by_set": cells,
            }
    out["coverage"] = {}
    for asked in COVERAGES:
        by_set = {}
        for name in sets:
            at_budget = np.array(
                [[c["covered"] for c in run["coverage"] if c["asked"] == asked] for run in of[name]],
                dtype=object,
            )
            flat = np.array([value for row in at_budget for value in row], dtype=float)
            alone = [_noise(asked, [run], [run["test_rows"]]) for run in of[name]]
            by_set[name] = {
                "mean": float(flat.mean()),
                "lowest": float(flat.min()),
                "highest": float(flat.max()),
                "within_1_point": float(np.mean(np.abs(flat - asked) <= 0.01)),
                "standard_error": _noise(asked, of[name], [run["test_rows"] for run in of[name]]),
                "within_1_point_by_chance": float(np.mean([_share_within(0.01, noise) for noise in alone])),
            }
        off = [abs(cell["mean"] - asked) for cell in by_set.values()]
        out["coverage"][str(asked)] = {
            "sets_within_1_point_on_average": sum(o <= 0.01 for o in off),
            "sets": len(off),
            "share_of_cells_within_1_point": float(
                np.mean([cell["within_1_point"] for cell in by_set.values()])
            ),
            "share_of_cells_within_1_point_by_chance": float(
                np.mean([cell["within_1_point_by_chance"] for cell in by_set.values()])
            ),
            "by_set": by_set,
        }
    cells = [cell for run in runs for cell in run.get("mean", [])]
    for kind in ("batch", "stream"):
        ratios = np.array([cell[kind] for cell in cells])
        if ratios.size:
            out[f"{kind}_mean"] = {
                "within_2_percent": int((np.abs(ratios - 1) <= 0.02).sum()),
                "above_2_percent": int((ratios > 1.02).sum()),
                "cells": int(ratios.size),
                "lowest": float(ratios.min()),
                "highest": float(ratios.max()),
            }
    if cells:
        out["right"] = {
            k: float(np.mean([c[f"{k}_right"] for c in cells])) for k in ("batch", "stream", "each")
        }
    for kind in ("gap", "control_gap"):
        values = [run[kind] for run in runs if kind in run]
        out[kind] = float(np.mean(values)) if values else None
    return out


def _noise(share: float, runs: list[dict[str, Any]], rows: list[int]) -> float:
    """Standard error of the mean over runs of a share that is true of all rows, seen on so many test rows.

    A fifth of the training rows, of which as large a part stops, has set the threshold: their share is off as well.
    """
    held = [5 * run["test_rows"] / run["rows"] for run in runs]  # test rows for each row that calibrated
    variances = [share * (1 - share) / n * (1 + more) for n, more in zip(rows, held, strict=True)]
    return float(np.sqrt(np.mean(variances) / len(runs)))


def _share_within(bound: float, standard_error: float) -> float:
    """How often a normal error of this size is within the bound."""
    return math.erf(bound / (standard_error * math.sqrt(2)))


def table(summed: dict[str, Any]) -> str:
    """The shares right and the coverage of one entry, set by set, as a table of the results page."""
    lines = [
        "| set | right of those that stop at 0.8 | 0.9 | 0.95 | cost at 0.9 | covered at 0.9 | 0.95 | standard error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in summed["sets"]:
        stops = [summed["confidence"][str(level)]["by_set"].get(name) for level in CONFIDENCES]
        right = [f"{100 * stop['right']:.1f}" if stop else "-" for stop in stops]
        spent = f"{100 * stops[1]['cost']:.0f} %" if stops[1] else "-"
        cover = [summed["coverage"][str(asked)]["by_set"][name] for asked in COVERAGES]
        told = [f"{100 * c['mean']:.1f} ({100 * c['lowest']:.0f} to {100 * c['highest']:.0f})" for c in cover]
        error = f"{100 * cover[0]['standard_error']:.1f}, {100 * cover[1]['standard_error']:.1f}"
        lines.append(f"| {name} | {' | '.join(right)} | {spent} | {' | '.join(told)} | {error} |")
    return "\n".join(lines)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, required=True, help="folder for what is done")
    parser.add_argument(
        "--data", default=os.environ.get("ANYTIME_DATA", "data"), help="folder of the data sets"
    )
    parser.add_argument("--sets", default=",".join((*CLASSES, *NUMBERS)))
    parser.add_argument("--entries", default=",".join(ENTRIES))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--reported", action="store_true")
    parser.add_argument("--summary", action="store_true", help="write results/confidence.json")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    if options.summary:
        figures = summary(options.keep)
        write("confidence", figures)
        print(*(f"\n{entry}\n{table(summed)}" for entry, summed in figures["summary"].items()), sep="\n")
    else:
        run(options)


if __name__ == "__main__":
    main()
