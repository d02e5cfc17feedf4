"""Tables on a CPU: the hull of a search by growth against an MLP of scikit-learn that is tuned for the same time.

    python benchmarks/growth_tables.py --data DIR [--seconds 120] [--development] [--sets letter magic]

Both sides have the same rows, hold out the same share of them to decide on, have one thread each and run at the same time.
Seconds are those of the processor, so that a machine that also does other things changes nothing. The MLP's layers, width,
rate and penalty are drawn at random until the time is over, and the best on held-out rows is taken. The hull dominates it where
the network that answers a budget of the MLP's mult-adds errs no more on test rows. Settings were chosen on development
splits; those reported are run once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import itertools

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "research"))

SETS = ("letter", "magic", "pendigits", "satimage", "spambase", "wine-quality")
HELD_OUT = 0.2
Array = NDArray[Any]


def rows(name: str, folder: str, development: bool) -> tuple[Array, Array, Array, Array]:
    """Training and test rows; development splits lie within the training rows of the reported one."""
    from anytime_research import datasets

    data = datasets.load(name, folder=folder)
    X, y = np.asarray(data.X, dtype=np.float64), np.unique(np.asarray(data.y), return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.7 * len(X))])
    if development:
        train, test = np.split(train, [int(0.7 * len(train))])
    return X[train], y[train], X[test], y[test]


def grown(X: Array, y: Array, X_test: Array, y_test: Array, seconds: float) -> dict[str, Any]:
    """Cost and test error of each network of the hull."""
    import torch

    import anytime as at

    torch.set_num_threads(1)
    model = at.GrowingNetworkClassifier(
        time_budget=seconds, validation_fraction=HELD_OUT, device="cpu", random_state=0
    ).fit(X, y)
    errors = [float(np.mean(answer.prediction != y_test)) for answer in model.stages(X_test)][1:]
    return {
        "mult_adds": model.stage_costs_.tolist(),
        "errors": errors,
        "validation_errors": (1 - model.plan_.quality[1:]).tolist(),
        "networks": len(model.models_),
    }


def tuned(X: Array, y: Array, X_test: Array, y_test: Array, seconds: float) -> dict[str, Any]:
    """Cost and test error of the MLP that was best on held-out rows."""
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    warnings.filterwarnings("ignore")
    ends = time.monotonic() + seconds
    strata = y if np.bincount(y).min() > 1 else None  # one class of wine-quality has a single row here
    X_fit, X_val, y_fit, y_val = train_test_split(X, y, test_size=HELD_OUT, stratify=strata, random_state=0)
    draw = np.random.default_rng(0)
    tried: list[tuple[float, tuple[int, ...], Any]] = []
    while time.monotonic() < ends:
        layers = (int(draw.choice([16, 32, 64, 100, 128, 200, 256])),) * int(draw.choice([1, 1, 2, 3]))
        model = make_pipeline(
            StandardScaler(),
            MLPClassifier(
                layers if tried else (100,),  # scikit-learn's own default first
                alpha=10 ** draw.uniform(-6, -1),
                learning_rate_init=10 ** draw.uniform(-3.5, -2),
                early_stopping=True,
                n_iter_no_change=int(draw.choice([10, 20])),
                max_iter=int(draw.choice([50, 100, 200, 400])),
                random_state=0,
            ),
        )
        clock = _Clock(ends)
        model[-1]._update_no_improvement_count = clock.watching(model[-1])
        try:
            model.fit(X_fit, y_fit)
        except KeyboardInterrupt:
            break
        sizes = [X.shape[1], *model[-1].hidden_layer_sizes, model[-1].n_outputs_]
        tried.append((1 - model.score(X_val, y_val), tuple(sizes), model))
    error, sizes, best = min(tried, key=lambda entry: entry[0])
    return {
        "mult_adds": sum(a * b for a, b in itertools.pairwise(sizes)),
        "error": float(np.mean(best.predict(X_test) != y_test)),
        "validation_error": float(error),
        "layers": sizes,
        "tried": len(tried),
    }


class _Clock:
    """Ends the fit of an MLP when the time is over; what it has learned by then counts."""

    def __init__(self, ends: float) -> None:
        self.ends = ends

    def watching(self, model: Any) -> Any:
        own = model._update_no_improvement_count

        def watch(*arguments: Any) -> None:
            own(*arguments)
            if time.monotonic() > self.ends:
                model._no_improvement_count = model.n_iter_no_change + 1

        return watch


def _run(side: str, queue: Any, *given: Any) -> None:
    time.monotonic = time.process_time  # the clock of both sides
    queue.put((side, {"grown": grown, "tuned": tuned}[side](*given)))


def compared(name: str, folder: str, seconds: float, development: bool) -> dict[str, Any]:
    """Both sides on one set, at the same time."""
    split = rows(name, folder, development)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [
        context.Process(target=_run, args=(side, queue, *split, seconds)) for side in ("grown", "tuned")
    ]
    for worker in workers:
        worker.start()
    found = dict(queue.get() for _ in workers)
    for worker in workers:
        worker.join()
    ours, mlp = found["grown"], found["tuned"]
    affordable = [k for k, cost in enumerate(ours["mult_adds"]) if cost <= mlp["mult_adds"]]
    answering = affordable[-1] if affordable else None
    return {
        "set": name,
        "rows": len(split[0]),
        "test_rows": len(split[2]),
        "dominates": answering is not None and ours["errors"][answering] <= mlp["error"],
        "answering": None if answering is None else [ours["mult_adds"][answering], ours["errors"][answering]],
        "hull": ours,
        "mlp": mlp,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--sets", nargs="*", default=SETS)
    given = parser.parse_args()
    found = []
    for name in given.sets:
        result = compared(name, given.data, given.seconds, given.development)
        found.append(result)
        hull, mlp = result["hull"], result["mlp"]
        points = "  ".join(
            f"{cost:.0f}: {100 * error:.2f}"
            for cost, error in zip(hull["mult_adds"], hull["errors"], strict=True)
        )
        print(
            f"{name}: {'dominates' if result['dominates'] else 'does not dominate'}; MLP {mlp['layers']} with "
            f"{mlp['mult_adds']} mult-adds: {100 * mlp['error']:.2f} % (of {mlp['tried']}); hull, of {hull['networks']} "
            f"networks, mult-adds and error in %: {points}",
            flush=True,
        )
    if not given.development:
        from common import RESULTS, write

        path, names = RESULTS / "growth_tables.json", [result["set"] for result in found]
        kept = json.loads(path.read_text(encoding="utf-8"))["sets"] if path.exists() else []
        found += [result for result in kept if result["set"] not in names]  # sets can be run one by one
        write("growth_tables", {"seconds": given.seconds, "sets": sorted(found, key=lambda r: r["set"])})


if __name__ == "__main__":
    main()
