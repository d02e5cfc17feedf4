"""Figures 2.4 and 2.5 of Grubb, *Anytime Prediction* (2014): three ways to descend on losses with kinks.

Basic, repeated and residual projection with decision stumps, against the number of stumps (repeated projection is charged for
all of a gradient's): multiclass hinge loss on four UCI sets, pairwise hinge loss on a ranking set. The book prints curves only,
and neither splits nor steps. Chosen here: published splits where there are, otherwise a stratified fifth to judge on; steps
``a / sqrt(t)`` with ``a`` chosen from the same grid for each method, by its error on held-out rows after ``--short`` stumps on
4,000 others; one output vector per side of a stump, by least squares. The ranking set of the book (MSLR-WEB10K) is
replaced by MQ2008, first fold.

What the book says in words is checked: on connect-4 and letter basic projection comes to rest at a training loss above that of
both others, cycling through few stumps.

    python benchmarks/descent_figures.py [--stumps 1000] [--short 300] [--data DIR] [--sets letter ...]

Results are written only when all sets are run.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from anytime.curves import disagreement
from anytime.losses import training_loss
from anytime.trees.binning import BinnedData
from anytime.trees.growing import TreeGrower
from anytime_research import datasets as research_datasets
from anytime_research.boosting.descent import Descent, descend
from common import write

Array = NDArray[np.float64]
ALGORITHMS = ("basic", "repeated", "residual")
SCALES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
CLASSES = ("connect-4", "letter", "pendigits", "satimage")
SHOWN = (10, 30, 100, 300, 1000, 3000)
LAST = 100  # stumps whose variety is counted


@dataclass(frozen=True)
class Stump:
    """One cut of one column."""

    column: int
    threshold: float
    sides: Array

    def __call__(self, X: Array) -> Array:
        """(m, K) outputs."""
        if self.column < 0:
            return np.repeat(self.sides, len(X), axis=0)
        return self.sides[(X[:, self.column] > self.threshold).astype(np.intp)]


def stumps(X: Array) -> Callable[[Array, Array], tuple[Stump, Array]]:
    """The learner: least squares over all cuts."""
    data, grower = BinnedData.fit(X), TreeGrower(max_leaf_nodes=2, min_samples_leaf=1)

    def fit(target: Array, weight: Array) -> tuple[Stump, Array]:
        tree = grower.grow(data, target)
        arrays = tree.arrays
        if tree.n_leaves == 1:
            return Stump(-1, 0.0, tree.values), tree.outputs()
        below = 0 if arrays.left[0] < arrays.right[0] else 1
        sides = tree.values[[below, 1 - below]]
        return Stump(int(arrays.feature[0]), float(arrays.threshold[0]), sides), tree.outputs()

    return fit


@dataclass(frozen=True)
class Rows:
    """Rows of a problem; ``y`` as the loss reads it."""

    X: Array
    y: NDArray[Any]

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some of them."""
        return Rows(self.X[rows], self.y[rows])


@dataclass(frozen=True)
class Problem:
    """A loss, rows to learn from and to judge on, and a smaller pair to choose steps on."""

    loss: str
    train: Rows
    test: Rows
    short_train: Rows
    short_test: Rows

    def error(self, scores: Array, rows: Rows) -> float:
        """Share of wrong classes, or of pairs that are not in order."""
        if training_loss(self.loss).ranks:
            return disagreement(rows.y[:, 0], scores[:, 0], rows.y[:, 1])
        return float((scores.argmax(axis=1) != rows.y).mean())


def classes(name: str, folder: Path) -> Problem:
    data = research_datasets.load(name, folder=folder)
    X, y = np.asarray(data.X, dtype=np.float64), np.unique(data.y, return_inverse=True)[1]
    if data.train is None:
        train, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    else:
        train, test = data.train, data.test
    every = Rows(X, y)
    drawn = np.random.default_rng(0).permutation(train)
    half = min(4000, len(drawn) // 2)
    return Problem(
        "multiclass_hinge",
        every.take(train),
        every.take(test),
        every.take(drawn[:half]),
        every.take(drawn[half : 2 * half]),
    )


def ranking(folder: Path) -> Problem:
    data = research_datasets.load("mq2008", folder=folder)
    every = Rows(np.asarray(data.X, dtype=np.float64), np.column_stack([data.y, data.qid]).astype(np.float64))
    train, valid, test = (every.take(rows) for rows in (data.train, data.valid, data.test))
    return Problem("pairwise_hinge", train, test, train, valid)


# ---------------------------------------------------------------------- running


def run(problem: Problem, rows: Rows, algorithm: str, scale: float, n_stumps: int) -> Descent:
    """As many steps as give this number of stumps."""
    n_steps = int(np.sqrt(2 * n_stumps)) if algorithm == "repeated" else n_stumps
    loss = training_loss(problem.loss)
    n_outputs = loss.n_outputs(problem.train.y)
    return descend(
        loss, rows.y, stumps(rows.X), n_steps, algorithm=algorithm, start=np.zeros(n_outputs),
        step=lambda t: scale / np.sqrt(t),
    )  # fmt: skip


def curves(problem: Problem, found: Descent) -> dict[str, Any]:
    """Training loss and test error after some numbers of stumps, and how many stumps are different ones."""
    loss = training_loss(problem.loss)
    shown = [n for n in SHOWN if n < len(found.weights)] + [len(found.weights)]
    record: dict[str, Any] = {"stumps": shown, "training_loss": [], "training_error": [], "test_error": []}
    for k, (seen, new) in enumerate(
        zip(found.staged(problem.train.X), found.staged(problem.test.X), strict=True), start=1
    ):
        if k in shown:
            record["training_loss"].append(round(loss(seen, problem.train.y), 5))
            record["training_error"].append(round(problem.error(seen, problem.train), 5))
            record["test_error"].append(round(problem.error(new, problem.test), 5))
    assert np.allclose(seen, found.scores), "stumps do not answer on raw values what they answered on bins"
    record |= {
        "gradients": len(found.ends),
        "least_edge": round(found.gamma, 4),
        "different_of_last": variety(found),
        "status": found.status,
    }
    return record


def variety(found: Descent) -> int:
    """How many of the last stumps cut differently."""
    return len({(stump.column, stump.threshold) for stump in found.predictors[-LAST:]})


def judged(name: str, problem: Problem, options: Any) -> dict[str, Any]:
    """All three methods, each with its own best steps."""
    record: dict[str, Any] = {"rows": [len(problem.train.X), len(problem.test.X)]}
    for algorithm in ALGORITHMS:
        began = time.perf_counter()
        tried = {}
        for scale in SCALES:
            short = run(problem, problem.short_train, algorithm, scale, options.short)
            *_, scores = short.staged(problem.short_test.X)
            tried[scale] = {
                "held_out_error": round(problem.error(scores, problem.short_test), 5),
                "training_loss": round(short.objectives[-1], 5),
                "least_training_loss": round(short.objectives.min(), 5),
                "different_of_last": variety(short),
            }
        scale = min(tried, key=lambda s: tried[s]["held_out_error"])
        found = run(problem, problem.train, algorithm, scale, options.stumps)
        record[algorithm] = {"scale": scale, **curves(problem, found), "short_runs": tried}
        record[algorithm]["seconds"] = round(time.perf_counter() - began, 1)
        print(f"  {name:10} {algorithm:9} {record[algorithm]}", flush=True)
    least = {a: record[a]["training_loss"][-1] for a in ALGORITHMS}
    record["basic_ends_above_both"] = least["basic"] > max(least["repeated"], least["residual"])
    return record


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stumps", type=int, default=1000)
    parser.add_argument("--short", type=int, default=300)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ANYTIME_DATA", "data")))
    parser.add_argument("--sets", nargs="*", choices=[*CLASSES, "mq2008"], default=[*CLASSES, "mq2008"])
    options = parser.parse_args()
    record = {
        name: judged(
            name, ranking(options.data) if name == "mq2008" else classes(name, options.data), options
        )
        for name in options.sets
    }
    if len(options.sets) == len(CLASSES) + 1:
        write("descent_figures", {"stumps": options.stumps, "last": LAST, "sets": record})


if __name__ == "__main__":
    main()
