"""What the benchmarks share: the model of the bars, timing in turns, result files."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def lightgbm_model(
    n_trees: int = 500, n_leaves: int = 63, n_features: int = 50, n_rows: int = 20_000
) -> tuple[Any, Any]:
    """A LightGBM booster of the size that the bars name, and data to predict on."""
    import lightgbm as lgb

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    logit = X[:, :10].sum(axis=1) + X[:, 10] * X[:, 11] + np.sin(3 * X[:, 12])
    y = (logit + rng.logistic(size=n_rows) > 0).astype(int)
    parameters = {
        "objective": "binary",
        "num_leaves": n_leaves,
        "learning_rate": 0.05,
        "num_threads": 2,
        "verbose": -1,
        "seed": 0,
        "deterministic": True,
    }
    return lgb.train(parameters, lgb.Dataset(X, y), n_trees), X


def in_turns(tasks: dict[str, Callable[[], object]], repeats: int, inner: int = 1) -> dict[str, list[float]]:
    """Seconds per call of each task, the tasks taking turns so that a noisy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            began = time.perf_counter()
            for _ in range(inner):
                task()
            times[name].append((time.perf_counter() - began) / inner)
    return times


def median(values: list[float]) -> float:
    """The median."""
    return float(np.median(values))


def _shown(argument: str) -> str:
    """An argument of the command line; of a folder somewhere on this machine the last part."""
    return f".../{Path(argument).name}" if os.path.isabs(argument) else argument


@cache
def measured(name: str) -> Any:
    """What an experiment has left in ``results/NAME.json``."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, figures: dict[str, Any]) -> None:
    """Write ``results/NAME.json`` and print it; the command that made it stands in it."""
    RESULTS.mkdir(exist_ok=True)
    record = {
        "command": "python " + " ".join([os.path.relpath(sys.argv[0]), *map(_shown, sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d"),
        "versions": {p: version(p) for p in ("anytime", "numpy", "scikit-learn", "lightgbm")},
        "python": platform.python_version(),
        **figures,
    }
    text = json.dumps(record, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)
