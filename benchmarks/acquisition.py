"""Every row its own purchases: error at small known budgets, against one order for all rows and one LightGBM per budget.

Multi-class sets with prices (drawn from 1, 5 and 20 anew for each split; those of segment are by families of columns). Hard
budgets of 2, 5 and 10 % of the price of everything: no row pays more. ``mean`` is the same model with the budget as a mean over
the test rows, a different game. LightGBM chooses its columns on validation rows and is refitted on all. At most 3,000 rows are
learned from, and as many judged by.

    python benchmarks/acquisition.py --keep DIR [--data DIR] [--sets a,b] [--entries a,b] [--splits 1] [--first 0] [--reported]
    python benchmarks/acquisition.py --keep DIR --summary
    python benchmarks/acquisition.py --speed

Every (set, split, entry) that is done is a JSON file in ``--keep``, so that a pass can be stopped and go on. An entry may have
settings, ``--entries "Acquisition,Acquisition folds=8 n_neighbors=40"``; each has files and a column of its own. The splits are
those for development, unless ``--reported`` says otherwise. ``--speed`` measures decisions and a batch on data of 64 groups and
10,000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from ast import literal_eval
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from _quality_peers import one_per_budget
from _quality_sets import SETS, Problem
from common import write

SHARES = (0.02, 0.05, 0.1)
NAMES = (
    "pendigits",
    "letter",
    "satimage",
    "segment",
    "covtype",
    "connect-4",
    "pixels",
    "clothes",
    "soybean",
    "dna",
)
ROWS = 3_000
BAR = 0.8  # of the mean error of the best order for all rows


class SmallBudgets(Problem):
    """A split that is judged at small budgets."""

    @property
    def budgets(self) -> list[float]:
        """Shares of the price of everything."""
        return [share * self.costs.total for share in SHARES]


Answers = list[NDArray[Any]]


def acquisition(problem: Problem, **settings: Any) -> dict[str, Answers]:
    """Hard budgets, and the same as means over the test rows."""
    model = at.AcquisitionClassifier(costs=problem.costs, random_state=0, **settings).fit(*problem.joined())
    X = problem.X_test
    for budget in problem.budgets:
        assert model.cost(X[:200], budget=budget).max() <= budget
    return {
        "Acquisition": [model.predict(X, budget=budget) for budget in problem.budgets],
        "mean": [model.predict(X, mean_budget=budget) for budget in problem.budgets],
    }


def speedboost(problem: Problem, **settings: Any) -> dict[str, Answers]:
    """One order for all rows, with models for known budgets beside it."""
    model = at.SpeedBoostClassifier(costs=problem.costs, random_state=0, **settings).fit(*problem.joined())
    return {"SpeedBoost": [model.predict(problem.X_test, budget=budget) for budget in problem.budgets]}


def automatic(problem: Problem, **settings: Any) -> dict[str, Answers]:
    """The best of several kinds of models for one order."""
    model = at.AutoClassifier(costs=problem.costs, random_state=0, **settings).fit(*problem.joined())
    return {"Auto": [model.predict(problem.X_test, budget=budget) for budget in problem.budgets]}


ENTRIES: dict[str, Callable[..., dict[str, Answers]]] = {
    "Acquisition": acquisition,
    "SpeedBoost": speedboost,
    "per-budget": lambda problem: {"per-budget": one_per_budget(problem).test},
    "Auto": automatic,
}


def answers(entry: str, problem: Problem) -> dict[str, Answers]:
    """What an entry says, by the names that tables have: its settings are part of them."""
    kind, *given = entry.split()
    settings = {name: literal_eval(value) for name, value in (setting.split("=") for setting in given)}
    return {" ".join([said, *given]): told for said, told in ENTRIES[kind](problem, **settings).items()}


def run(name: str, split: int, entries: list[str], data: str, reported: bool, kept: Path) -> None:
    """Every entry that is not there yet, on one split."""
    missing = [entry for entry in entries if not (kept / f"{name} {split} {entry}.json").exists()]
    if not missing:
        return
    whole = SETS[name].problem(data, split, not reported, ROWS)
    problem = SmallBudgets(**{field.name: getattr(whole, field.name) for field in fields(whole)})
    for entry in missing:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = answers(entry, problem)
        errors = {
            kind: [round(float(problem.loss(answer).mean()), 5) for answer in answers]
            for kind, answers in said.items()
        }
        record = {
            "set": name, "split": split, "reported": reported, "errors": errors,
            "seconds": round(time.process_time() - began, 1),
        }  # fmt: skip
        (kept / f"{name} {split} {entry}.json").write_text(json.dumps(record) + "\n")
        print(f"{name} {split}: {errors}, {record['seconds']} s", flush=True)


def summary(kept: Path) -> dict[str, Any]:
    """Mean error of every entry at every share, and what the mean over the shares is beside the best order for all rows."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for path in sorted(kept.glob("*.json")):
        record = json.loads(path.read_text())
        for kind, errors in record["errors"].items():
            found.setdefault(record["set"], {}).setdefault(kind, []).append(errors)
    sets: dict[str, Any] = {}
    for name, kinds in found.items():
        means = {kind: np.mean(errors, axis=0) for kind, errors in kinds.items()}
        print(f"{name}: " + "; ".join(f"{kind} {np.round(100 * mean, 1)}" for kind, mean in means.items()))
        rivals = [means[kind].mean() for kind in means if kind.split()[0] not in ("Acquisition", "mean")]
        sets[name] = {
            "splits": len(next(iter(kinds.values()))),
            "errors": {k: m.tolist() for k, m in means.items()},
        }
        for kind in ("Acquisition", "mean") if rivals else ():
            sets[name][f"{kind}, of the best order"] = float(means[kind].mean() / min(rivals))
    met = {
        kind: sum(of.get(f"{kind}, of the best order", 1.0) <= BAR for of in sets.values())
        for kind in ("Acquisition", "mean")
    }
    print(f"at most {BAR} of the best order's mean error: {met}, of {len(sets)} sets")
    return {
        "shares": SHARES,
        "bar": BAR,
        "bar_met_on": met["Acquisition"],
        "means_met_on": met["mean"],
        "sets": sets,
    }


def speed() -> None:
    """Seconds of a decision on one thread, and of a batch at a tenth of the price on two, by both policies."""
    random = np.random.default_rng(0)
    means = random.normal(size=(10, 64))
    y = random.integers(10, size=20_000)
    X = means[y] + 1.5 * random.normal(size=(20_000, 64))
    for policy in ("neighbours", "value"):
        began = time.process_time()
        model = at.AcquisitionClassifier(policy=policy, random_state=0)
        _speed_of(model.fit(X[:10_000], y[:10_000]), X[10_000:])
        print(f"{policy}: {time.process_time() - began:.0f} s of processor time in all", flush=True)


def _speed_of(model: Any, rows: NDArray[Any]) -> None:
    random, block = np.random.default_rng(1), model.plan_.blocks[0]
    with_trees = f"trees {block.trees is not None}, learned values {block.values is not None}"
    model.predict_one(rows[0], budget=1)
    for owned in (1, 5, 20, 40):
        memories = [block.remember(1) for _ in range(100)]
        for memory in memories:
            memory["owned"][0, random.permutation(64)[:owned]] = True
        began = time.process_time()
        for i, memory in enumerate(memories):
            block.choose(rows[i : i + 1], memory)
        took = (time.process_time() - began) / 100
        print(
            f"a decision by itself, {owned} groups owned, {with_trees}: {1e3 * took:.3f} ms of processor time"
        )
    for purchases in (2, 6, 20, 40):
        began = time.process_time()
        for row in rows[:50]:
            model.predict_one(row, budget=purchases)
        took = (time.process_time() - began) / 50 / (purchases - 1)
        print(f"one row at a time, {purchases} purchases: {1e3 * took:.3f} ms of processor time a decision")
    model.set_params(n_jobs=2)
    block.n_threads = 2
    began, clock = time.process_time(), time.perf_counter()
    model.predict(rows, budget=6)
    used, waited = time.process_time() - began, time.perf_counter() - clock
    print(f"10,000 rows, 6 of 64 groups, 2 threads: {waited:.1f} s, {used:.1f} s of processor time")


def main() -> None:
    """See the top of the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA", ""))
    parser.add_argument("--sets", default=",".join(NAMES))
    parser.add_argument("--entries", default="Acquisition,SpeedBoost,per-budget")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    parser.add_argument("--reported", action="store_true")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    if given.speed:
        speed()
        return
    if given.keep is None:
        parser.error("--keep says where what is done is kept")
    given.keep /= "reported" if given.reported else "development"
    given.keep.mkdir(parents=True, exist_ok=True)
    if not given.summary:
        for split in range(given.first, given.first + given.splits):
            for name in given.sets.split(","):
                run(name, split, given.entries.split(","), given.data, given.reported, given.keep)
    figures = summary(given.keep)
    if given.summary and given.reported:
        write("acquisition", figures)


if __name__ == "__main__":
    main()
