"""Quality at every known budget: our models against the best that LightGBM, CatBoost and Greedy Miser offer.

Sets with prices (published, or drawn from 1, 5, 20 or a gamma distribution, anew for each split), five splits, budgets of 2 to
100 % of the price of everything. Peers learn from three quarters of the rows, choose on a quarter, and refit what was chosen on
all; our models learn from all and choose by themselves. At most 3,000 rows are learned from, and as many judged by: a whole pass
takes two to three hours of one core. A cell is a set and a share of the price. The rival of a split and share is the peer that is
best on validation rows there.

"Clearly": by more than 0.3 points and more than two standard errors of the paired difference over the splits, with the correction
of Nadeau and Bengio for overlapping training rows. For regression a point is a hundredth of the variance.

    python benchmarks/budget_quality.py --keep DIR [--reported] [--data DIR] [--sets a,b] [--entries a,b] [--splits 5] [--jobs 1]
    python benchmarks/budget_quality.py --keep DIR [--reported] --summary

Every (set, split, entry) that is done is a file in ``--keep``, so that a pass can be stopped and go on; ``--summary`` reads them.
The splits are those for development, unless ``--reported`` says otherwise. The summary of reported splits is written to the
results and their page, with the number of splits of each set that are done. CatBoost takes part if it is installed. Sets are left
out that are split by blocks of rows (musk), ranked, or have so many columns that a whole pass would take days (mfeat; ``ranking``
runs where it is named). Training times are processor seconds, in units of one LightGBM of all columns (early stopping).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

import anytime as at
from _quality_peers import (
    Boosting,
    Said,
    cost_blind,
    coupled_penalties,
    lazy_penalties,
    one_per_budget,
    useful_group_fits,
)
from _quality_penalties import HAS_CATBOOST, catboost_penalties, greedy_miser
from _quality_sets import SETS, SHARES, Problem
from _quality_summary import UNIT, Runs, page, replace_page, summed
from common import RESULTS, write

ROWS = 3_000  # to learn from, and to judge by, at most
UNSPENT = 0.05  # share of a budget that may be left without asking why

Kind = Callable[[Problem], "Said | None"]
OURS = {"Auto": "Auto", "SpeedBoost": "SpeedBoost"}
PEERS: dict[str, Kind] = {
    "LightGBM": cost_blind,
    "cegb-coupled": coupled_penalties,
    "cegb-lazy": lazy_penalties,
    "per-budget": one_per_budget,
    "Greedy-Miser": greedy_miser,
    "CatBoost": catboost_penalties,
}


def ours(problem: Problem, kind: str) -> tuple[Said, dict[str, Any]]:
    """What one of our models says, what it leaves unspent, and whether a useful group would have fitted."""
    model = getattr(at, kind + ("Classifier" if problem.n_classes else "Regressor"))(
        costs=problem.costs, random_state=0
    )
    model.fit(*problem.joined())
    trained = time.process_time()
    said = Said([], [])
    boosting = Boosting(problem)
    unspent, useful = [], []
    for budget in problem.budgets:
        answer = model.answer(problem.X_test, budget=budget)
        said.test.append(answer.prediction)
        said.validation.append(np.nan)
        left = 1 - float(answer.cost.max()) / budget
        unspent.append(round(left, 4))
        owned = frozenset(answer.groups)
        useful.append(left > UNSPENT and useful_group_fits(boosting, owned, budget))
    return said, {"unspent": unspent, "useful": useful, "trained": trained}


def one_lightgbm(problem: Problem) -> Said:
    """The unit of training times: stopped by validation rows, on all columns. It says nothing."""
    boosting = Boosting(problem)
    boosting.stopped(frozenset(boosting.groups))
    return Said([], [])


def run(name: str, split: int, entries: list[str], data: str, reported: bool, kept: Path) -> None:
    """Every entry that is not there yet, on one split."""
    missing = [entry for entry in entries if not Runs.file(kept, name, split, entry).exists()]
    if not missing:
        return
    problem = SETS[name].problem(data, split, not reported, ROWS)
    for entry in missing:
        began, more = time.process_time(), dict[str, Any]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if entry in OURS:
                said, more = ours(problem, OURS[entry])
                seconds = more.pop("trained") - began
            else:
                found = one_lightgbm(problem) if entry == UNIT else PEERS[entry](problem)
                assert found is not None
                said, seconds = found, time.process_time() - began
        record = {
            "validation": [None if np.isnan(loss) else round(loss, 6) for loss in said.validation],
            "test": [round(float(problem.loss(prediction).mean()), 6) for prediction in said.test],
            "seconds": round(seconds, 2),
            "total_seconds": round(time.process_time() - began, 2),
            "overlap": round(len(problem.y_test) / (len(problem.y) + len(problem.y_valid)), 4),
            **more,
        }
        Runs.keep(kept, name, split, entry, record)
        print(f"{name} {split} {entry}: {record['test']}, {record['total_seconds']} s", flush=True)


def estimate(runs: Runs, jobs: list[tuple[str, int]], entries: list[str]) -> str:
    """Processor time that is left, from the mean of what each entry took on the set, or on all."""
    left = [(n, s, e) for n, s in jobs for e in entries if (n, s, e) not in runs.records]
    seconds = sum(runs.expected(name, entry) for name, _, entry in left)
    return f"{len(left)} of {len(jobs) * len(entries)} runs are left, about {seconds / 60:.0f} minutes of one core"


def main() -> None:
    """Run what is asked for, or sum up what was run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, required=True, help="folder of finished runs")
    parser.add_argument("--reported", action="store_true", help="the splits kept for results")
    parser.add_argument("--summary", action="store_true", help="sum up what is there, run nothing")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="comma separated")
    parser.add_argument("--entries", help="comma separated")
    parser.add_argument("--splits", type=int, default=5, help="of each set")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    usual = [name for name in SETS if not SETS[name].on_request]
    names = options.sets.split(",") if options.sets else usual
    peers = [entry for entry in PEERS if entry != "CatBoost" or HAS_CATBOOST]
    entries = options.entries.split(",") if options.entries else [*OURS, *peers, UNIT]
    kept = options.keep / ("reported" if options.reported else "development")
    jobs = [(name, split) for split in range(options.splits) for name in names]
    if not options.summary:
        if options.data is None:
            parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
        print(estimate(Runs.read(kept), jobs, entries), flush=True)
        with parallel_config("loky", n_jobs=options.jobs, inner_max_num_threads=1):
            Parallel()(delayed(run)(*job, entries, options.data, options.reported, kept) for job in jobs)
    runs = Runs.read(kept)
    told = summed(runs, names, list(OURS), peers, options.splits)
    print(page(told))
    print(estimate(runs, jobs, entries))
    if options.reported and options.summary and names == usual and options.splits == 5:
        write("budget_quality", {"shares": SHARES, **told})
        replace_page(RESULTS.parents[1] / "docs/results/quality.md", told)


if __name__ == "__main__":
    main()
