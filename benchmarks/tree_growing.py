"""Plain boosting on our trees against LightGBM: seconds per tree, binning, memory, quality, growth with the rows.

Same leaves (31), bins (255), rows per leaf (20), rate (0.1), columns, threads (2). Bars: at most 1.25 x LightGBM's time per tree
on covtype (581k x 54) and on 130k x 50, and no more memory. Both take turns; processor time is reported beside wall-clock time,
which other work on the machine disturbs. ``ANYTIME_DATA`` or ``--data`` names the folder that has covtype.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest
from anytime.trees.binning import BinnedData
from anytime.trees.growing import TreeGrower, join, loss_derivatives, update_scores
from anytime_research.datasets import load
from common import median, write

Array = NDArray[np.float64]
Clock = Callable[[], float]
RATE = 0.1


def covtype(folder: str | None) -> tuple[Array, Array]:
    X, y, *_ = load("covtype", folder=folder)
    return np.ascontiguousarray(X, dtype=float), np.unique(y, return_inverse=True)[1].astype(float)


def synthetic(n: int, d: int = 50) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, ::3] = np.exp(X[:, ::3])
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 4]) + 0.5 * X[:, 5] + 0.3 * X[:, 7:12].sum(1)
    return X, (score + rng.logistic(size=n) > np.median(score)).astype(float)


def task(name: str, folder: str | None) -> tuple[Array, Array, int]:
    """X, y and the number of scores of a task."""
    if name.startswith("covtype"):
        X, y = covtype(folder)
        return (X, y, 7) if name == "covtype-7" else (X, (y == 1).astype(float), 1)
    return (*synthetic(int(name.removeprefix("synthetic-"))), 1)


class Ours:
    """Newton boosting, one tree per score and round."""

    def __init__(self, X: Array, y: Array, n_scores: int, threads: int) -> None:
        self.kind: Any = "softmax" if n_scores > 1 else "logistic"
        self.y, self.threads = y, threads
        self.grower = TreeGrower(n_threads=threads)
        self.data = BinnedData.fit(X, n_threads=threads)
        self.scores = np.zeros((len(X), n_scores), order="F")
        self.trees: list[Any] = []

    def round(self) -> None:
        """One more tree for every score."""
        gradient, hessian = loss_derivatives(self.kind, self.scores, self.y, n_threads=self.threads)
        for k in range(self.scores.shape[1]):
            tree = self.grower.grow_newton(self.data, gradient[:, k], hessian[:, k])
            update_scores(self.scores, tree.leaf, tree.values, RATE, k, n_threads=self.threads)
            self.trees.append(tree.arrays)
            del tree  # and where its rows have gone

    def predict(self, X: Array) -> Array:
        """(n, K) scores."""
        n_scores = self.scores.shape[1]
        outputs = (np.arange(len(self.trees)) % n_scores).astype(np.int32)
        rounds = np.full(len(self.trees) // n_scores, n_scores)
        forest = Forest(**join(self.trees, rounds).asdict() | {"tree_output": outputs, "n_outputs": n_scores})
        return RATE * np.asarray(
            np.sum([forest.stage_outputs(X, np.array([s]))[0] for s in range(rounds.size)], axis=0)
        )


class Theirs:
    """LightGBM with the same settings."""

    def __init__(self, X: Array, y: Array, n_scores: int, threads: int) -> None:
        import lightgbm as lgb

        settings = {
            "objective": "multiclass" if n_scores > 1 else "binary",
            "num_leaves": 31,
            "max_bin": 255,
            "min_data_in_leaf": 20,
            "learning_rate": RATE,
            "num_threads": threads,
            "boost_from_average": False,
            "verbose": -1,
        }
        if n_scores > 1:
            settings["num_class"] = n_scores
        data = lgb.Dataset(X, y, params=settings).construct()
        self.booster = lgb.Booster(settings, data)
        self.n_scores = n_scores

    def round(self) -> None:
        """One more tree for every score."""
        self.booster.update()

    def predict(self, X: Array) -> Array:
        """(n, K) scores."""
        return np.asarray(self.booster.predict(X, raw_score=True)).reshape(len(X), self.n_scores)


SIDES: dict[str, Any] = {"anytime": Ours, "lightgbm": Theirs}


def log_loss(scores: Array, y: Array) -> float:
    if scores.shape[1] == 1:
        return float(np.mean(np.logaddexp(0, scores[:, 0]) - y * scores[:, 0]))
    top = scores - scores.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(top).sum(1)) - top[np.arange(len(y)), y.astype(int)]))


def timed(X: Array, y: Array, n_scores: int, rounds: int, repeats: int, threads: int) -> dict[str, Any]:
    """Milliseconds per tree and seconds of binning, the sides taking turns."""
    clocks: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}
    seen: dict[str, list[float]] = {}
    for _ in range(repeats):
        for side, make in SIDES.items():
            marks = [{name: clock() for name, clock in clocks.items()}]
            model = make(X, y, n_scores, threads)
            marks.append({name: clock() for name, clock in clocks.items()})
            for _ in range(rounds):
                model.round()
            marks.append({name: clock() for name, clock in clocks.items()})
            for name in clocks:
                seen.setdefault(f"{side} binning {name} s", []).append(marks[1][name] - marks[0][name])
                per_tree = (marks[2][name] - marks[1][name]) / rounds / n_scores
                seen.setdefault(f"{side} tree {name} ms", []).append(1e3 * per_tree)
            del model
    out: dict[str, Any] = {name: round(median(values), 3) for name, values in seen.items()}
    for name in clocks:
        ours, theirs = (np.array(seen[f"{side} tree {name} ms"]) for side in SIDES)
        out[f"ratio per tree, {name}"] = round(median((ours / theirs).tolist()), 3)
    return out


def quality(X: Array, y: Array, n_scores: int, rounds: int, threads: int) -> dict[str, float]:
    """Log loss on every fifth row after training on the others."""
    test = np.arange(len(X)) % 5 == 0
    out = {}
    for side, make in SIDES.items():
        model = make(np.ascontiguousarray(X[~test]), y[~test], n_scores, threads)
        for _ in range(rounds):
            model.round()
        out[f"{side} test log loss"] = round(
            log_loss(model.predict(np.ascontiguousarray(X[test])), y[test]), 5
        )
    return out


def memory(X: Array, y: Array, n_scores: int, threads: int) -> dict[str, float]:
    """Mebibytes at the peak of training beyond data and imports, each side in a process of its own."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", X)
        np.save(f"{folder}/y.npy", y)
        for side in SIDES:
            words = [
                "--peak",
                side,
                "--task",
                folder,
                "--scores",
                n_scores,
                "--threads",
                threads,
            ]
            command = [sys.executable, __file__, *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            out[f"{side} peak MiB"] = float(done.stdout)
    return out


def measure_peak(source: str, side: str, n_scores: int, threads: int) -> None:
    import lightgbm  # noqa: F401  # in both processes, so that they differ by what they do only

    X, y = np.load(f"{source}/X.npy"), np.load(f"{source}/y.npy")
    SIDES[side](*synthetic(1000), 1, threads).round()
    before = most_kib()
    model = SIDES[side](X, y, n_scores, threads)
    for _ in range(5):
        model.round()
    print(round((most_kib() - before) / 1024, 1))


def most_kib() -> int:
    """The most memory this process has had. What ``resource`` says includes that of the parent."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"))
    parser.add_argument("--task")
    parser.add_argument("--peak")
    parser.add_argument("--scores", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--picture", help="where to draw time against rows")
    given = parser.parse_args()
    if given.peak:
        return measure_peak(given.task, given.peak, given.scores, given.threads)
    figures: dict[str, Any] = {"threads": given.threads, "rounds": given.rounds, "repeats": given.repeats}
    for name in [given.task] if given.task else ["covtype", "covtype-7", "synthetic-130000"]:
        X, y, n_scores = task(name, given.data)
        rounds = max(2, given.rounds // n_scores)
        figures[name] = {
            **timed(X, y, n_scores, rounds, given.repeats, given.threads),
            "one thread": timed(X, y, n_scores, rounds, max(1, given.repeats // 2), 1),
            **quality(X, y, n_scores, rounds, given.threads),
            **memory(X, y, n_scores, given.threads),
        }
        del X, y
    if not given.task:
        figures |= growth(given.threads)
    write("tree_growing", figures)
    if given.picture and not given.task:
        draw(figures["ms per tree and million rows"], given.picture)


def draw(per_million: dict[str, float], path: str) -> None:
    """Time per tree against rows, both axes logarithmic, beside a line of slope 1."""
    import matplotlib.pyplot as plt

    rows = np.array([int(n) for n in per_million])
    ms = np.array(list(per_million.values())) * rows / 1e6
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(rows, ms, "o-", label="one tree of 31 leaves, 50 columns")
    axes.loglog(rows, ms[-1] * rows / rows[-1], "k:", label="proportional to rows")
    axes.set(xlabel="rows", ylabel="processor time, ms")
    axes.legend()
    figure.savefig(path, dpi=110)


def growth(threads: int) -> dict[str, dict[str, float]]:
    """Processor time per tree divided by what it should be proportional to: constant where it is."""
    rows = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    columns, rounds = (10, 25, 50, 100), (5, 10, 20, 40)
    return {
        "ms per tree and million rows": {
            str(n): round(per_tree(n, 50, 5, threads) / n * 1e9, 2) for n in rows
        },
        "ms per tree and column, 200,000 rows": {
            str(d): round(per_tree(200_000, d, 5, threads) / d * 1e3, 3) for d in columns
        },
        "ms per tree, 200,000 rows, by trees": {
            str(n): round(per_tree(200_000, 50, n, threads) * 1e3, 2) for n in rounds
        },
    }


def per_tree(n: int, d: int, rounds: int, threads: int) -> float:
    """Processor seconds per tree of 31 leaves."""
    X, y = synthetic(n, d)
    model = Ours(X, y, 1, threads)
    model.round()
    began = time.process_time()
    for _ in range(rounds):
        model.round()
    return (time.process_time() - began) / rounds


if __name__ == "__main__":
    main()
