"""Rows per second of boosting on a stream, test then train: 100 trees, 20 columns, two classes; and memory over a long stream.

Beside it, where they are installed, river's AdaBoost with 10 Hoeffding trees and CapyMOA's StreamingGradientBoostedTrees with 100
iterations. All take turns on the same rows, so that a noisy moment hits all of them. Processor time stands beside time on the
clock: on a busy machine the latter says little.

    python benchmarks/streaming_speed.py [--turns 5] [--rows 2000] [--long 1000000] [--parts speed kinds memory]

Parts that are not asked for keep the figures of the last run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime import StreamingBoostClassifier, load
from anytime.streaming.banks import (
    HoeffdingTree,
    NativeBank,
    OnlineLinear,
    OnlineRidge,
    RoundRules,
    SmallNet,
    StreamLearner,
)
from common import RESULTS, median, write

Array = NDArray[np.float64]
Turn = Callable[[int, int], NDArray[Any]]  # test then train on rows first, ..., last - 1: what was answered

N_LEARNERS, N_COLUMNS = 100, 20
SHARE = {
    "river AdaBoost-10": 0.1,
    "CapyMOA SGBT-100": 0.25,
}  # of the rows of a turn, for those that need long


def stream(n: int) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_COLUMNS))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    return X, (score + 0.3 * rng.logistic(size=n) > 0).astype(np.int64)


# ---------------------------------------------------------------------- who takes part


def native(X: Array, y: NDArray[np.int64], batch: int, learner: StreamLearner | None = None) -> Turn:
    """Rounds of a bank, without anything around them."""
    bank = (learner or HoeffdingTree()).make(N_LEARNERS, N_COLUMNS, 1, 0)
    assert isinstance(bank, NativeBank)
    rules = RoundRules("logistic", 1e-3, np.zeros(1), np.full(N_LEARNERS, 0.5))
    sums, recent = np.zeros((4, N_LEARNERS)), np.zeros((4, N_LEARNERS))
    rows, truth = np.zeros(N_LEARNERS, np.int64), y[:, None].astype(np.float64)

    def turn(first: int, last: int) -> NDArray[Any]:
        part = slice(first, last)
        answers = bank.rounds(
            X[part],
            truth[part],
            None,
            rules,
            batch_size=batch,
            sums=sums,
            recent=recent,
            discount=0.999,
            rows=rows,
        )
        return answers[:, 0] > 0

    return turn


def public(X: Array, y: NDArray[np.int64], batch: int) -> Turn:
    """``predict`` and ``partial_fit`` of the estimator, so many rows at a time."""
    model = StreamingBoostClassifier(n_estimators=N_LEARNERS, batch_size=batch, random_state=0)
    model.partial_fit(X[:1], y[:1], classes=[0, 1])

    def turn(first: int, last: int) -> NDArray[Any]:
        answers = []
        for at in range(first, last, batch):
            rows = slice(at, min(at + batch, last))
            answers.append(model.predict(X[rows]))
            model.partial_fit(X[rows], y[rows])
        return np.concatenate(answers)

    return turn


def learning(X: Array, y: NDArray[np.int64], batch: int) -> Turn:
    """``predict_then_fit``: every row is answered before it is learned, so many rows at a time."""
    model = StreamingBoostClassifier(n_estimators=N_LEARNERS, batch_size=batch, random_state=0)
    model.partial_fit(X[:1], y[:1], classes=[0, 1])

    def turn(first: int, last: int) -> NDArray[Any]:
        at = range(first, last, batch)
        return np.concatenate(
            [model.predict_then_fit(X[a : min(a + batch, last)], y[a : min(a + batch, last)]) for a in at]
        )

    return turn


def one_by_one(X: Array, y: NDArray[np.int64], model: Any) -> Turn:
    """``predict_one`` and ``learn_one`` on dictionaries, as river does it."""
    dictionaries = [dict(enumerate(row)) for row in X.tolist()]
    classes = y.tolist()

    def turn(first: int, last: int) -> NDArray[Any]:
        answers = []
        for x, truth in zip(dictionaries[first:last], classes[first:last], strict=True):
            answers.append(model.predict_one(x))
            model.learn_one(x, truth)
        return np.array([-1 if answer is None else answer for answer in answers])

    return turn


def capymoa(X: Array, y: NDArray[np.int64]) -> Turn:
    from capymoa.classifier import StreamingGradientBoostedTrees
    from capymoa.stream import NumpyStream

    rows = NumpyStream(X, y, target_name="y", dataset_name="stream")
    model = StreamingGradientBoostedTrees(schema=rows.get_schema(), boosting_iterations=N_LEARNERS)

    def turn(first: int, last: int) -> NDArray[Any]:
        answers = []
        for _ in range(first, last):
            instance = rows.next_instance()
            answers.append(model.predict(instance))
            model.train(instance)
        return np.array([-1 if answer is None else answer for answer in answers])

    return turn


def peers(X: Array, y: NDArray[np.int64]) -> dict[str, Turn]:
    found: dict[str, Turn] = {}
    if find_spec("river"):
        from river import ensemble, tree

        from anytime.streaming.river import RiverClassifier

        found["learn_one and predict_one"] = one_by_one(X, y, RiverClassifier(n_estimators=N_LEARNERS))
        ada = ensemble.AdaBoostClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=0)
        found["river AdaBoost-10"] = one_by_one(X, y, ada)
    if find_spec("capymoa"):
        found["CapyMOA SGBT-100"] = capymoa(X, y)
    return found


# ---------------------------------------------------------------------- parts


def measured(tasks: dict[str, Turn], y: NDArray[np.int64], n_rows: int, n_turns: int) -> dict[str, Any]:
    """Rows per second by clock and by processor, the median of turns after a first one; accuracy over all rows."""
    clock: dict[str, list[float]] = {name: [] for name in tasks}
    processor: dict[str, list[float]] = {name: [] for name in tasks}
    right: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in tasks}
    for turn in range(n_turns + 1):
        for name, task in tasks.items():
            count = max(1, round(SHARE.get(name, 1.0) * n_rows))
            part = turn * count, (turn + 1) * count
            began, busy = time.perf_counter(), time.process_time()
            answers = task(*part)
            clock[name].append(count / (time.perf_counter() - began))
            processor[name].append(count / (time.process_time() - busy))
            right[name].append(answers == y[slice(*part)])
    figures = {}
    for name in tasks:
        seen = np.concatenate(right[name])
        figures[name] = {
            "rows_per_second": round(median(clock[name][1:])),
            "rows_per_second_of_processor": round(median(processor[name][1:])),
            "us_of_processor_per_row": round(1e6 / median(processor[name][1:]), 1),
            "accuracy": round(float(seen.mean()), 4),
            "rows": max(1, round(SHARE.get(name, 1.0) * n_rows)) * (n_turns + 1),
        }
    return figures


def speed(n_rows: int, n_turns: int) -> dict[str, Any]:
    X, y = stream(n_rows * (n_turns + 1))
    tasks: dict[str, Turn] = {f"native rounds of {batch}": native(X, y, batch) for batch in (1, 32)}
    tasks |= {f"predict_then_fit of {batch}": learning(X, y, batch) for batch in (1, 32)}
    tasks |= {f"predict and partial_fit of {batch}": public(X, y, batch) for batch in (1, 32)}
    tasks |= peers(X, y)
    figures = measured(tasks, y, n_rows, n_turns)
    for peer in ("river AdaBoost-10", "CapyMOA SGBT-100"):
        if peer in figures:
            theirs = figures[peer]["rows_per_second_of_processor"]
            for name in ("predict_then_fit of 1", "predict_then_fit of 32", "learn_one and predict_one"):
                if name in figures:
                    figures[name][f"times {peer}"] = round(
                        figures[name]["rows_per_second_of_processor"] / theirs, 1
                    )
    return figures


def kinds(n_rows: int, n_turns: int) -> dict[str, Any]:
    """Native rounds of other learners."""
    X, y = stream(n_rows * (n_turns + 1))
    learners: dict[str, StreamLearner] = {
        "half of the columns per tree": HoeffdingTree(max_features=0.5),
        "ridge": OnlineRidge(),
        "linear": OnlineLinear(learning_rate=0.1),
        "random features": OnlineLinear(learning_rate=0.1, features="random"),
        "small nets": SmallNet(),
    }
    tasks = {
        f"{name}, rounds of {b}": native(X, y, b, one) for name, one in learners.items() for b in (1, 32)
    }
    return measured(tasks, y, n_rows, n_turns)


def resident() -> float:
    """Megabytes of this process."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def long_tables(n_long: int, first: int) -> Iterator[tuple[Array, NDArray[np.int64]]]:
    """Tenths of a long stream, from the first that is asked for on: the same columns in another order of rows each."""
    X, _ = stream(n_long // 10)
    for tenth in range(10):
        X = np.random.default_rng(tenth + 1).permuted(X, axis=0, out=X)
        if tenth >= first:
            yield X, (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(np.int64)


def memory(n_long: int) -> dict[str, Any]:
    """Megabytes after every tenth of a long stream; and whether a checkpoint half-way leads to the same file, bit for bit."""
    model = StreamingBoostClassifier(n_estimators=N_LEARNERS, random_state=0)
    megabytes = [round(resident(), 1)]
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        half, end, again = (Path(folder) / f"{name}.anytime" for name in ("half", "end", "again"))
        for X, y in long_tables(n_long, 0):
            model.partial_fit(X, y, classes=[0, 1])
            megabytes.append(round(resident(), 1))
            if len(megabytes) == 6:
                model.save(half)
        spent = time.process_time() - began
        model.save(end)
        resumed: Any = load(half)
        for X, y in long_tables(n_long, 5):
            resumed.partial_fit(X, y)
        resumed.save(again)
        same = end.read_bytes() == again.read_bytes()
        size = end.stat().st_size / 2**20
    return {
        "rows": n_long,
        "megabytes": megabytes,
        "megabytes_of_file": round(size, 2),
        "us_of_processor_per_row": round(spent / n_long * 1e6, 1),
        "resumed_half_way_same_file": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2000, help="of a turn; slow peers take a share of them")
    parser.add_argument(
        "--long", type=int, default=1_000_000, help="rows of the stream that memory is watched over"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=["speed", "kinds", "memory"], default=["speed", "kinds", "memory"]
    )
    asked = parser.parse_args()
    path = RESULTS / "streaming_speed.json"
    figures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    figures = {part: figures[part] for part in ("speed", "kinds", "memory") if part in figures}
    if "memory" in asked.parts:  # first, while the process is small
        figures["memory"] = memory(asked.long)
    if "speed" in asked.parts:
        figures["speed"] = speed(asked.rows, asked.turns)
    if "kinds" in asked.parts:
        figures["kinds"] = kinds(asked.rows, asked.turns)
    write("streaming_speed", figures)


if __name__ == "__main__":
    main()
