"""Quality at every budget: one interruptible model against its peers, on data sets with prices.

Every entry learns from the same rows (three quarters to learn, a quarter to choose by, as it likes) and answers for the
test rows at twelve budgets, log-spaced from the price of the cheapest column to that of everything. Its area is the mean loss
over the logarithm of the budget: error rate, or squared error in units of the variance. Prices are real where there are any;
elsewhere drawn from 1, 5, 20 or a gamma distribution, anew for each split.

Noise is two standard errors of a difference between two entries: over splits, with the correction of Nadeau and Bengio for
overlapping training rows, but at least what the test rows alone give.

    python benchmarks/budget_quality.py [--quick] [--data DIR] [--sets a,b] [--entries a,b] [--splits 3] [--jobs 2]
        [--keep DIR]

Results are written only when all sets and entries are run.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

import anytime as at
from _quality_peers import answers, best_of, cost_blind, one_per_budget, with_penalties
from _quality_sets import N_BUDGETS, SETS, Array, Problem
from common import write

QUICK_SETS = ("heart", "magic", "wine-quality", "segment")
PENALTIES = (
    1e-5,
    1e-4,
    1e-3,
    3e-3,
    1e-2,
    3e-2,
    0.1,
    1.0,
)  # shares of the impurity at the start, per mean price


def _model(problem: Problem, kind: str, **parameters: Any) -> Any:
    classifies = "Classifier" if problem.n_classes else "Regressor"
    return getattr(at, kind + classifies)(costs=problem.costs, random_state=0, **parameters)


def speedboost(problem: Problem) -> list[NDArray[Any]]:
    """As it comes."""
    return answers(_model(problem, "SpeedBoost").fit(*problem.joined()), problem)


def speedboost_adding(problem: Problem) -> list[NDArray[Any]]:
    """As in the papers: stages add, and are chosen by their gain per cost."""
    return answers(_model(problem, "AdditiveSpeedBoost").fit(*problem.joined()), problem)


def greedy_miser(problem: Problem) -> list[NDArray[Any]]:
    """Boosting with a fixed price on first use, for many prices; the frontier chosen on validation rows."""
    mean_price = problem.costs.total / len(problem.costs.names)
    scale = len(problem.y) * (float(np.var(problem.y)) if not problem.n_classes else 0.25) / mean_price
    pairs = []
    for penalty in PENALTIES:
        first = _model(
            problem,
            "GradientBoosting",
            n_estimators=300,
            validation_fraction=0.25,
            cost_penalty=penalty * scale,
        )
        first.fit(problem.X, problem.y)
        rounds = max(first.n_stages_, 1)
        again = _model(problem, "GradientBoosting", n_estimators=rounds, cost_penalty=penalty * scale)
        pairs.append((first, again.fit(*problem.joined())))
    return best_of(problem, pairs)


def cost_blind_votes(problem: Problem) -> list[NDArray[Any]] | None:
    """Votes of trees of several sizes, chosen by their edge whatever they cost, as AdaBoost and AdaBoost.MM do."""
    if not problem.n_classes:
        return None
    from anytime.boosting import TreeLearner

    model = _model(
        problem, "AdditiveSpeedBoost", cost_aware=False, learning_rate=1.0,
        loss="exponential" if problem.n_classes == 2 else "multiclass_exponential",
        learners=[TreeLearner(max_depth=depth, leaf="vote") for depth in (2, 4, 8)],
    )  # fmt: skip
    return answers(model.fit(*problem.joined()), problem)


Entry = Callable[[Problem], list[NDArray[Any]] | None]

OURS, BLIND, CEGB, PER_BUDGET = "SpeedBoost", "LightGBM, cost-blind", "LightGBM, cegb", "LightGBM per budget"
ENTRIES: dict[str, Entry] = {
    OURS: speedboost,
    "SpeedBoost, adding": speedboost_adding,
    "Greedy Miser": greedy_miser,
    "cost-blind votes": cost_blind_votes,
    BLIND: cost_blind,
    CEGB: with_penalties,
    PER_BUDGET: one_per_budget,
}


# ---------------------------------------------------------------------- one split


def judged(
    name: str, seed: int, entries: list[str], folder: str, kept: Path | None
) -> dict[str, dict[str, Any]]:
    """Of each entry: loss at each budget, area of each test row, seconds of computation to learn and answer."""
    known = None if kept is None else kept / f"{name}-{seed}.pickle"
    found = dict(pickle.loads(known.read_bytes())) if known is not None and known.exists() else {}
    entries = [entry for entry in entries if entry not in found]
    problem = SETS[name].problem(folder, seed)
    weight = np.ones(N_BUDGETS)
    weight[[0, -1]] = 0.5  # trapezoids
    for entry in entries:
        began = time.process_time()
        predictions = ENTRIES[entry](problem)
        if predictions is None:
            continue
        losses = np.array([problem.loss(prediction) for prediction in predictions])
        found[entry] = {
            "curve": losses.mean(axis=1),
            "rows": weight @ losses / weight.sum(),
            "seconds": time.process_time() - began,
        }
        print(
            f"{name} {seed}: {entry} {found[entry]['rows'].mean():.4f}, {found[entry]['seconds']:.1f} s",
            flush=True,
        )
    if known is not None:
        known.write_bytes(pickle.dumps(found))
    return {entry: found[entry] for entry in ENTRIES if entry in found}


# ---------------------------------------------------------------------- all splits of a set


def noise(one: list[Array], other: list[Array], share: float) -> float:
    """Two standard errors of the difference of two areas; ``share``: test rows per row to learn from."""
    rows = np.concatenate(one) - np.concatenate(other)
    of_rows = float(rows.std() / np.sqrt(rows.size))
    if len(one) < 3:
        return 2 * of_rows
    means = [float((a - b).mean()) for a, b in zip(one, other, strict=True)]
    return 2 * max(of_rows, float(np.std(means, ddof=1) * np.sqrt(1 / len(means) + share)))


def summed(splits: list[dict[str, dict[str, Any]]], share: float) -> dict[str, Any]:
    """Mean area and curve of each entry, and its difference to ours with the noise of that."""
    out: dict[str, Any] = {}
    for entry in splits[0]:
        rows = [split[entry]["rows"] for split in splits]
        out[entry] = {
            "area": float(np.mean([r.mean() for r in rows])),
            "curve": np.mean([split[entry]["curve"] for split in splits], axis=0).round(5).tolist(),
            "seconds": round(float(np.mean([split[entry]["seconds"] for split in splits])), 2),
        }
        if OURS in splits[0] and entry != OURS:
            ours = [split[OURS]["rows"] for split in splits]
            out[entry]["ours_less_by"] = float(
                np.mean([(r - o).mean() for r, o in zip(rows, ours, strict=True)])
            )
            out[entry]["noise"] = noise(rows, ours, share)
    return out


def verdict(sets: dict[str, Any]) -> dict[str, Any]:
    """On how many sets the bars hold."""

    def count(holds: Callable[[dict[str, Any]], bool]) -> str:
        names = [name for name, found in sets.items() if holds(found)]
        rest = [name for name in sets if name not in names]
        return f"{len(names)} of {len(sets)}" + (f"; not on {', '.join(rest)}" if rest else "")

    def best_or_within_noise(found: dict[str, Any]) -> bool:
        return all(f["ours_less_by"] >= -f["noise"] for entry, f in found.items() if entry != OURS)

    return {
        "best or within noise of the best": count(best_or_within_noise),
        "better than cost-blind": count(lambda found: found[BLIND]["ours_less_by"] > 0),
        "better than the cegb frontier": count(lambda found: found[CEGB]["ours_less_by"] > 0),
        "within 2 % of one model per budget, or better": count(
            lambda found: found[OURS]["area"] <= 1.02 * found[PER_BUDGET]["area"]
        ),
        "mean area relative to one model per budget": round(
            float(np.mean([found[OURS]["area"] / found[PER_BUDGET]["area"] for found in sets.values()])), 4
        ),
    }


def main() -> None:
    """Run what is asked for, and write the results of a complete run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four sets, two splits each")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="comma separated")
    parser.add_argument("--entries", help="comma separated")
    parser.add_argument("--splits", type=int, default=99, help="of each set, at most")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--keep", type=Path, help="folder to keep finished splits in: a run can then go on")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
    usual = [name for name in SETS if not SETS[name].on_request]
    names = options.sets.split(",") if options.sets else list(QUICK_SETS if options.quick else usual)
    entries = options.entries.split(",") if options.entries else list(ENTRIES)

    splits = 2 if options.quick else options.splits
    jobs = [(name, seed) for name in names for seed in range(min(SETS[name].seeds, splits))]
    with parallel_config("loky", n_jobs=options.jobs, inner_max_num_threads=1):
        done = Parallel()(delayed(judged)(*job, entries, options.data, options.keep) for job in jobs)
    sets = {}
    for name in names:
        of_set = [found for (of, _), found in zip(jobs, done, strict=True) if of == name]
        sets[name] = summed(of_set, share=1 / 3)
    for name, found in sets.items():
        print(name, {entry: round(f["area"], 4) for entry, f in found.items()})
    complete = entries == list(ENTRIES)
    if complete:
        print(verdict(sets))
    if complete and not options.sets and not options.quick:
        n_splits = {name: sum(of == name for of, _ in jobs) for name in names}
        write("budget_quality", {"splits": n_splits, "sets": sets, "verdict": verdict(sets)})


if __name__ == "__main__":
    main()
