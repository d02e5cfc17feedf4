"""What a growth is made of, changed one thing at a time: the comparisons of tables 6.4 to 6.6 of the thesis at a size for a CPU.

    python benchmarks/growth_ablations.py [--random-states 0 1 2] [--rows 2500] [--epochs 8 3 6]

Fashion-MNIST at 14 x 14, n = 1, F = 8, two resolutions. From each seed network one growth in every way, with the same epochs and
random numbers; children are judged on training images that are held out. Then candidates are trained twice from the same parent,
briefly and longer, without children: how many of the chosen shortcuts are the same, and how large their weights become. What a
random state has given is kept in the file of results, and random states can be run one by one. Set ``ANYTIME_DATA`` to the folder
that holds ``fashion-mnist``. It needs torch.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from common import RESULTS, write

HELD_OUT = 4000
DEFAULT = "by weight, three, projected"
WAYS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "two shortcuts": {"n_shortcuts": 2},
    "four shortcuts": {"n_shortcuts": 4},
    "weighted sum": {"merge": "sum"},
    "joint": {"mode": "joint", "share": 1.0},
    "each cell by itself": {"tying": "macro"},
    "without L1": {"l1_regularization": 0.0},
    "drawn": {"criterion": "random"},
    "projected at the end, trained anew": {
        "from_scratch": True
    },  # what the weighted sum chooses is the same after one growth
}
LONGER = {  # rows of a batch that candidates are trained on, and how often
    "a quarter of the rows": {"share": 0.25},
    "all rows": {"share": 1.0},
    "all rows, three times as many epochs": {"share": 1.0, "times": 3},
}


def small_images() -> tuple[Any, Any]:
    """Training images, each four pixels averaged to one."""
    import anytime as at

    X, y = at.datasets.load_images("fashion-mnist")
    squares = np.asarray(X).reshape(-1, 1, 14, 2, 14, 2)
    return squares.mean(axis=(3, 5)).astype(np.uint8), np.asarray(y).astype(np.int64)


class Study:
    """A seed network, and what grows from it in one random state."""

    def __init__(self, X: Any, y: Any, given: argparse.Namespace, random_state: int, folder: Path) -> None:
        order = np.random.default_rng(random_state).permutation(len(y))
        fit, held = order[: given.rows], order[given.rows : given.rows + HELD_OUT]
        self.rows = X[fit], y[fit], X[held], y[held]
        self.epochs, self.random_state, self.folder = given.epochs, random_state, folder

    def problem(self, times: int = 1, tying: str = "cell", **settings: Any) -> Any:
        """What grows, with one thing changed."""
        from anytime.growth import GrowthSettings, NetworkGrowth, Phases, Scaling, image_seed
        from anytime.networks import CosineSchedule, TrainingRecipe

        recipe = TrainingRecipe(
            weight_decay=1e-4, schedule=CosineSchedule(warmup=0.0), augment="crop_flip", batch_size=128
        )
        seed, candidates, child = (replace(recipe, epochs=n) for n in self.epochs)
        return NetworkGrowth(
            image_seed((1, 14, 14), 10, n=1, width=8, resolutions=2, tying=tying),
            *self.rows,
            phases=Phases(seed, replace(candidates, epochs=times * candidates.epochs), child),
            settings=GrowthSettings(**{"share": 0.25, **settings}),
            scaling=Scaling(self.rows[0].mean(axis=(0, 2, 3)), self.rows[0].std(axis=(0, 2, 3))),
            device="cpu",
        )

    def run(self, problem: Any, number: int, kind: str, before: Any = None) -> Any:
        """A job, with random numbers that depend on its number and the random state alone."""
        from anytime.growth import Job

        architecture = problem.first() if before is None else before.architecture
        warm = None if before is None else before.checkpoint
        state = 1000 * self.random_state + number
        return problem.run(Job(number, kind, None, architecture, warm, state), self.folder, lambda: False)

    def told(self, name: str, outcome: Any, found: Any = None) -> dict[str, Any]:
        """A network in a few numbers."""
        kept = {"cost": outcome.cost, "error": outcome.error, "seconds": round(outcome.seconds, 1)}
        if found is not None:
            kept |= {"seconds of candidates": round(found.seconds, 1), "chosen": shortcuts(found)}
        print(self.random_state, name, f"{outcome.cost / 1e6:.2f}M {100 * outcome.error:.2f} %", flush=True)
        return kept

    def children(self) -> dict[str, Any]:
        """The seed, and a child of each way."""
        seed = self.run(self.problem(), 0, "seed")
        results = {"seed": self.told("seed", seed)}
        for name, changes in WAYS.items():
            problem = self.problem(**changes)
            parent = seed
            if problem.seed.to_json() != seed.architecture:  # the same layers under other names
                parent = replace(seed, architecture=problem.first())
            found = self.run(problem, 1, "candidates", parent)
            results[name] = self.told(name, self.run(problem, 2, "child", found), found)
        self.seed = seed
        return results

    def agreement(self) -> dict[str, Any]:
        """How far two trainings of candidates agree, and how large their weights are."""
        results = {}
        for name, changes in LONGER.items():
            both = [self.run(self.problem(**changes), number, "candidates", self.seed) for number in (1, 3)]
            one, other = (set(map(tuple, shortcuts(found))) for found in both)
            told = [entry for found in both for site in found.notes["chosen"].values() for entry in site]
            results[name] = {
                "the same": len(one & other),
                "of": len(one),
                "largest weight": round(max(abs(entry["weight"]) for entry in told), 3),
                "chosen": [shortcuts(found) for found in both],
            }
            print(self.random_state, name, results[name], flush=True)
        return results


def shortcuts(found: Any) -> list[list[str]]:
    """(pattern, input, op) of all that were chosen."""
    return [[name, s["input"], s["op"]] for name, site in found.notes["chosen"].items() for s in site]


def summary(runs: dict[str, Any]) -> dict[str, Any]:
    """Means over random states, and differences of errors to the default with their standard errors, in points."""
    means = {}
    for name in next(iter(runs.values()))["children"]:
        entries = [run["children"][name] for run in runs.values()]
        base = np.array([run["children"][DEFAULT]["error"] for run in runs.values()])
        errors = np.array([entry["error"] for entry in entries])
        above = 100 * (errors - base)
        means[name] = {
            "error": round(float(100 * errors.mean()), 2),
            "above the default": round(float(above.mean()), 2),
            "standard error": round(float(above.std(ddof=1) / np.sqrt(len(above))), 2)
            if len(above) > 1
            else None,
            "mult-adds": round(float(np.mean([entry["cost"] for entry in entries]))),
        }
    return means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--random-states", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--epochs", type=int, nargs=3, default=[8, 3, 6], help="seed, candidates, child")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    path = RESULTS / "growth_ablations.json"
    conditions = {"rows": given.rows, "held out": HELD_OUT, "epochs of seed, candidates, child": given.epochs}
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    runs = kept["runs"] if all(kept.get(name) == value for name, value in conditions.items()) else {}
    X, y = small_images()
    for random_state in given.random_states:
        began = time.process_time()
        with TemporaryDirectory() as folder:
            study = Study(X, y, given, random_state, Path(folder))
            run = {"children": study.children(), "agreement": study.agreement()}
        runs[str(random_state)] = {**run, "processor seconds": round(time.process_time() - began)}
        write("growth_ablations", {**conditions, "means": summary(runs), "runs": runs})


if __name__ == "__main__":
    main()
