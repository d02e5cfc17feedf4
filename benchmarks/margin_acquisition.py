"""Margin acquisition beside random order and the value of a classifier (Nan 2018, section 2.4 and Table 2.1).

Letters (first 13 against last 13) and Landsat with 1000 boosted stumps, MiniBooNE with a linear support vector machine; every
column costs 1. Accuracy after every number of purchases, estimated against actual accuracy, and how time grows with the number of
reference points.

    python benchmarks/margin_acquisition.py --data FOLDER [--draws 50] [--voc-draws 2] [--voc-rows 200] [--parts letter time ...]

Parts that are not asked for keep the figures of the last run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import AdaBoostClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from anytime.acquisition import AdditiveClassifier, MarginAcquisitionClassifier, as_additive
from anytime_research.acquisition.value_of_classifier import ValueAcquisitionClassifier
from anytime_research.datasets import load
from common import RESULTS, in_turns, median, write

Array = NDArray[np.float64]
Draw = tuple[Array, NDArray[Any], Array, NDArray[Any]]  # X and y to learn from, X and y to judge on

TABLE_COUNTS = (1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
TABLE = {  # Table 2.1: actual, estimated
    65: (
        (0.503, 0.663, 0.746, 0.847, 0.881, 0.888, 0.895, 0.895, 0.895, 0.890, 0.895),
        (0.513, 0.657, 0.763, 0.868, 0.908, 0.914, 0.918, 0.920, 0.917, 0.905, 0.910),
    ),
    125: (
        (0.503, 0.672, 0.769, 0.870, 0.883, 0.887, 0.888, 0.891, 0.891, 0.882, 0.895),
        (0.514, 0.653, 0.778, 0.884, 0.902, 0.907, 0.910, 0.910, 0.907, 0.895, 0.909),
    ),
    185: (
        (0.503, 0.676, 0.779, 0.875, 0.879, 0.883, 0.884, 0.889, 0.892, 0.879, 0.895),
        (0.513, 0.647, 0.783, 0.887, 0.897, 0.901, 0.904, 0.904, 0.901, 0.888, 0.909),
    ),
}
NEIGHBOURS = 125  # where the paper says nothing: the middle one of its table
PARTS = ["letter", "landsat", "miniboone", "table", "placeholders", "time"]
CONFIDENCES = (0.7, 0.8, 0.9, 0.95, 0.98)


# ---------------------------------------------------------------------- data


def letters(folder: str, draws: int) -> Iterator[Draw]:
    """200 of each letter to learn from, 100 to judge on; the first 13 letters against the others."""
    X, y, _ = load("letter", folder=folder)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    second = np.isin(y, np.unique(y)[13:]).astype(int)
    for seed in range(draws):
        random = np.random.default_rng(seed)
        parts = [random.permutation(np.flatnonzero(y == letter))[:300] for letter in np.unique(y)]
        train = np.concatenate([part[:200] for part in parts])
        test = np.concatenate([part[200:] for part in parts])
        yield X[train], second[train], X[test], second[test]


def landsat(folder: str, draws: int) -> Iterator[Draw]:
    """The official split; the first three soils against the others."""
    data = load("satimage", folder=folder)
    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    second = np.isin(y, np.unique(y)[3:]).astype(int)
    yield X[data.train], second[data.train], X[data.test], second[data.test]


def miniboone(folder: str, draws: int, placeholders: bool = True) -> Iterator[Draw]:
    """1000 rows, half of each class, to learn from, and 300 of each to judge on; with or without the 12 rows of -999."""
    X, y, _ = load("miniboone-small", folder=folder)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    kept = placeholders | (X != -999).any(axis=1)
    X, y = X[kept], y[kept]
    for seed in range(draws):
        random = np.random.default_rng(seed)
        parts = [random.permutation(np.flatnonzero(y == label))[:800] for label in np.unique(y)]
        train = np.concatenate([part[:500] for part in parts])
        test = np.concatenate([part[500:] for part in parts])
        yield X[train], y[train], X[test], y[test]


def stumps(X: Array, y: NDArray[Any]) -> AdditiveClassifier:
    """1000 stumps by AdaBoost."""
    stump = DecisionTreeClassifier(max_depth=1)
    return as_additive(AdaBoostClassifier(stump, n_estimators=1000, random_state=0).fit(X, y))


def machine(X: Array, y: NDArray[Any]) -> AdditiveClassifier:
    """A linear support vector machine on columns as they are, its offset all but free of the penalty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return as_additive(LinearSVC(dual=False, intercept_scaling=1000.0, max_iter=10_000).fit(X, y))


# ---------------------------------------------------------------------- curves


def follow(classifier: AdditiveClassifier | None, draw: Draw, **settings: Any) -> tuple[Any, Array]:
    """What rows of one draw buy, and whether they are right after each purchase, (n, T)."""
    X, y, X_test, y_test = draw
    model = MarginAcquisitionClassifier(classifier, **settings).fit(X, y)
    trace = model.trace(X_test)
    return trace, trace.labels == y_test[:, None]


def curve_of_values(classifier: AdditiveClassifier, draw: Draw, rows: int) -> tuple[Array, Array]:
    """The value of a classifier: accuracy of the additive score along its order, and of its own local model."""
    X, y, X_test, y_test = draw
    some = np.random.default_rng(0).permutation(len(y_test))[:rows]
    model = ValueAcquisitionClassifier(classifier, random_state=0).fit(X, y)
    trace, block = model.trace(X_test[some]), model.plan_.blocks[0]
    own = np.empty(trace.groups.shape)
    for i, z in enumerate(block.coordinates(X_test[some])):
        known = np.zeros(z.size, dtype=bool)
        for t, group in enumerate(trace.groups[i]):
            known[block.costs.column_group == group] = True
            own[i, t] = block.local_model.probability(z, known) > 0.5
    return (trace.labels == y_test[some][:, None]).mean(axis=0), (own == y_test[some][:, None]).mean(axis=0)


def summary(curves: list[Array]) -> dict[str, Any]:
    """Mean and deviation over draws after every purchase. Columns that stumps do not use in a draw are not bought in it."""
    longest = max(map(len, curves))
    table = np.array([np.pad(curve, (0, longest - len(curve)), mode="edge") for curve in curves])
    return {
        "draws": len(table),
        "mean": table.mean(axis=0).round(4).tolist(),
        "deviation": (table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1]))
        .round(4)
        .tolist(),
    }


def early_stops(trace: Any, right: Array) -> dict[str, list[float]]:
    """Purchases and accuracy where rows stop as soon as their estimate is above a confidence."""
    out = {}
    for confidence in CONFIDENCES:
        enough = trace.estimate > confidence
        last = np.where(enough.any(axis=1), enough.argmax(axis=1), enough.shape[1] - 1)
        out[str(confidence)] = [
            round(float(last.mean() + 1), 2),
            round(float(right[np.arange(len(right)), last].mean()), 4),
        ]
    return out


def figure(
    draws: Iterator[Draw], learn: Callable[[Array, NDArray[Any]], AdditiveClassifier], options: Any
) -> dict[str, Any]:
    """Accuracy after every purchase: margins, random order, value of a classifier."""
    curves: dict[str, list[Array]] = {"margin": [], "random": [], "voc": [], "voc_own_labels": []}
    stopped = {}
    for number, draw in enumerate(draws):
        began = time.perf_counter()
        classifier = learn(*draw[:2])
        trace, right = follow(classifier, draw, n_neighbors=NEIGHBOURS)
        curves["margin"].append(right.mean(axis=0))
        stopped = stopped or early_stops(trace, right)
        curves["random"].append(
            follow(classifier, draw, acquisition="random", random_state=number)[1].mean(axis=0)
        )
        if number < options.voc_draws:
            by_score, own = curve_of_values(classifier, draw, options.voc_rows)
            curves["voc"].append(by_score)
            curves["voc_own_labels"].append(own)
        print(f"  draw {number + 1}: {time.perf_counter() - began:.1f} s", flush=True)
    return {
        "n_neighbors": NEIGHBOURS,
        "voc_rows_per_draw": options.voc_rows,
        "curves": {name: summary(found) for name, found in curves.items() if found},
        "first_draw_stopped_at_confidence": stopped,
    }


def table(
    draws: list[Draw],
    learn: Callable[[Array, NDArray[Any]], AdditiveClassifier | None] = lambda X, y: None,
    **settings: Any,
) -> dict[str, Any]:
    """Table 2.1: actual and estimated accuracy, for three sizes of a neighbourhood."""
    found: dict[int, tuple[list[Array], list[Array]]] = {k: ([], []) for k in TABLE}
    for draw in draws:
        classifier = learn(*draw[:2])
        for k, (actual, estimated) in found.items():
            trace, right = follow(classifier, draw, n_neighbors=k, **settings)
            actual.append(right.mean(axis=0))
            estimated.append(trace.estimate.mean(axis=0))
    out: dict[str, Any] = {"counts": TABLE_COUNTS, "draws": len(draws)}
    places = np.array(TABLE_COUNTS) - 1
    for k, (actual, estimated) in found.items():
        act, est = np.mean(actual, axis=0)[places], np.mean(estimated, axis=0)[places]
        out[str(k)] = {
            "actual": act.round(3).tolist(),
            "actual_deviation": np.std(actual, axis=0, ddof=1)[places].round(3).tolist(),
            "estimated": est.round(3).tolist(),
            "largest_gap": round(float(np.abs(est - act).max()), 4),
            "largest_gap_in_paper": round(float(np.abs(np.subtract(*TABLE[k])).max()), 4),
            "actual_minus_paper": (act - TABLE[k][0]).round(3).tolist(),
        }
    return out


# ---------------------------------------------------------------------- time


def growth() -> dict[str, Any]:
    """Seconds to follow 200 rows through 20 purchases, for n, 2n, 4n reference points; ratios to the first."""
    random = np.random.default_rng(0)
    X_test = random.normal(size=(200, 20))
    models = {}
    for n in (2000, 4000, 8000):
        X = random.normal(size=(n, 20))
        y = (X.sum(axis=1) + random.normal(size=n) > 0).astype(int)
        models[str(n)] = MarginAcquisitionClassifier(random_state=0).fit(X, y)
    times = in_turns({n: (lambda m=m: m.trace(X_test)) for n, m in models.items()}, repeats=7)
    least = {n: min(each) for n, each in times.items()}
    return {
        "seconds": {n: round(median(each), 4) for n, each in times.items()},
        "ratio_to_2000": {n: round(each / least["2000"], 2) for n, each in least.items()},
        "microseconds_per_purchase": {n: round(1e6 * each / 4000, 1) for n, each in least.items()},
    }


# ---------------------------------------------------------------------- claims


def behind(one: list[float], other: list[float]) -> list[int]:
    """The numbers of purchases after which one curve is below another."""
    length = min(len(one), len(other))
    below = np.array(one[:length]) < np.array(other[:length])
    return [int(count) + 1 for count in np.flatnonzero(below)]


def claims(parts: dict[str, Any]) -> dict[str, Any]:
    """What the paper says, and whether it is so here."""
    out: dict[str, Any] = {}
    for part in ("letter", "landsat", "miniboone"):
        if part in parts:
            curves = {key: each["mean"] for key, each in parts[part]["curves"].items()}
            out[part] = {
                f"margin_behind_{name}_at": behind(curves["margin"], curves[name])
                for name in ("random", "voc", "voc_own_labels")
            }
    for name in [name for name in parts if name.startswith("table")]:
        rows = [parts[name][str(k)] for k in TABLE]
        at_20 = [row["actual"][TABLE_COUNTS.index(20)] for row in rows]
        out[name] = {
            "gap_at_most_0.03": [row["largest_gap"] <= 0.03 for row in rows],
            "actual_at_20_within_0.02_of_0.88": [abs(value - 0.88) <= 0.02 for value in at_20],
            "spread_over_neighbourhoods_at_20": round(max(at_20) - min(at_20), 3),
        }
    return out


def figures_of(part: str, options: Any) -> dict[str, Any]:
    """What one part gives, by name."""
    folder, draws = options.data, options.draws
    if part == "letter":
        return {part: figure(letters(folder, draws), stumps, options)}
    if part == "landsat":
        return {part: figure(landsat(folder, draws), stumps, options)}
    if part == "miniboone":
        return {part: figure(miniboone(folder, draws), machine, options)}
    if part == "table":
        drawn = list(miniboone(folder, draws))
        return {"table_2_1": table(drawn, machine), "table_2_1_standardised": table(drawn)}
    if part == "placeholders":
        drawn = list(miniboone(folder, draws, placeholders=False))
        name = "table_2_1_standardised_without_placeholders"
        return {name: table(drawn), f"{name}_half_held_out": table(drawn, reference=0.5, random_state=0)}
    return {part: growth()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA", "data"))
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--voc-draws", type=int, default=2)
    parser.add_argument("--voc-rows", type=int, default=200)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    path = RESULTS / "margin_acquisition.json"
    parts: dict[str, Any] = json.loads(path.read_text())["parts"] if path.exists() else {}
    settings = f"--draws {options.draws} --voc-draws {options.voc_draws} --voc-rows {options.voc_rows}"
    for part in options.parts:
        print(part, flush=True)
        for name, figures in figures_of(part, options).items():
            parts[name] = {"made_by": f"--parts {part} {settings}", **figures}
        write("margin_acquisition", {"parts": parts, "claims": claims(parts)})


if __name__ == "__main__":
    main()
