"""Training within a time budget: seconds asked for and taken, on the clock, and what model came of it.

Bar: at most 10 % and one second more than asked for, and a model with a first answer that is cheaper than its last (where rows
decide what they buy, the most that both may cost is the same). Every estimator of tables that has ``time_budget`` is tried,
streams and networks apart, on data that would take much longer without it. Quiet cores are needed.

    python benchmarks/time_budgets.py [--quick] [--only PART]

``--only`` takes the cases whose name contains the words given, and writes no file.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from common import write

Array = NDArray[np.float64]
SHARE, SECONDS = 0.1, 1.0  # what may be taken in addition


@dataclass(frozen=True)
class Case:
    """A model, and rows to fit it to."""

    name: str
    seconds: float
    make: Callable[..., Any]
    rows: Callable[[], tuple[Any, ...]]
    quick: bool = False


def prices(n_columns: int) -> at.FeatureCosts:
    """Random prices, most of them low."""
    return at.FeatureCosts(np.round(np.random.default_rng(1).lognormal(0, 1, n_columns) + 0.01, 3))


def table(n: int, d: int, n_classes: int | None = None) -> tuple[Array, NDArray[Any]]:
    """Rows with a target that ten columns say most of; classes of about equal size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    target = X[:, :8].sum(axis=1) + X[:, 8] * X[:, 9] + rng.normal(size=n)
    if n_classes is None:
        return X, target
    edges = np.quantile(target, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(edges, target)


def ranked(n: int, *, queries: bool) -> tuple[Any, ...]:
    """Rows with grades, of one query or of queries of 40 rows."""
    X, grade = table(n, 60, 5)
    return (X, grade, np.arange(n) // 40) if queries else (X, grade)


def priced(estimator: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The estimator with prices for so many columns."""
    return lambda d, seconds: estimator(costs=prices(d), time_budget=seconds, random_state=0, **options)


def ladder(d: int, seconds: float) -> Any:
    """A ladder whose costly model is a small forest."""
    forest = RandomForestClassifier(50, oob_score=True, random_state=0)
    return at.LadderClassifier(forest, costs=prices(d), mean_budget=20.0, time_budget=seconds, random_state=0)


def boosting(estimator: Callable[..., Any]) -> Callable[..., Any]:
    """Gradient boosting: the first answer is its first tree."""
    return priced(estimator, n_estimators=100_000)


CASES = [
    Case("SpeedBoostRegressor", 1, priced(at.SpeedBoostRegressor), lambda: table(10_000, 30), quick=True),
    Case("SpeedBoostRegressor, no time", 0.05, priced(at.SpeedBoostRegressor), lambda: table(2_000, 12), quick=True),
    Case("SpeedBoostClassifier, 10,000 columns", 5, priced(at.SpeedBoostClassifier), lambda: table(1_000, 10_000, 2)),
    Case("SpeedBoostClassifier, 10,000 columns", 20, priced(at.SpeedBoostClassifier), lambda: table(1_000, 10_000, 2)),
    Case("SpeedBoostRanker, queries", 10, priced(at.SpeedBoostRanker), lambda: ranked(6_000, queries=True)),
    Case("SpeedBoostRanker, one query", 10, priced(at.SpeedBoostRanker), lambda: ranked(6_000, queries=False)),
    Case("SpeedBoostRanker, queries", 60, priced(at.SpeedBoostRanker), lambda: ranked(6_000, queries=True)),
    Case("SpeedBoostRanker, one query", 60, priced(at.SpeedBoostRanker), lambda: ranked(6_000, queries=False)),
    Case("AdditiveSpeedBoostClassifier", 5, priced(at.AdditiveSpeedBoostClassifier), lambda: table(10_000, 30, 2)),
    Case("LadderClassifier", 1, ladder, lambda: table(3_000, 30, 3), quick=True),
    Case("LadderClassifier", 5, ladder, lambda: table(3_000, 30, 3)),
    Case("LadderClassifier, default costly model", 5,
         priced(at.LadderClassifier, mean_budget=20.0), lambda: table(3_000, 30, 3)),
    Case("AdaptiveClassifier", 5, priced(at.AdaptiveClassifier, mean_budget=20.0), lambda: table(20_000, 30, 2)),
    Case("BudgetForestClassifier", 5, priced(at.BudgetForestClassifier, mean_budget=20.0, n_estimators=1000),
         lambda: table(20_000, 30, 3)),
    Case("BudgetForestRegressor", 5, priced(at.BudgetForestRegressor, mean_budget=20.0, n_estimators=1000),
         lambda: table(20_000, 30)),
    Case("GradientBoostingClassifier", 2, boosting(at.GradientBoostingClassifier), lambda: table(10_000, 30, 3), quick=True),
    Case("AutoClassifier, digits", 2, priced(at.AutoClassifier), lambda: load_digits(return_X_y=True), quick=True),
    Case("AutoClassifier, 10,000 columns", 5, priced(at.AutoClassifier), lambda: table(1_000, 10_000, 2)),
    Case("AutoRegressor", 5, priced(at.AutoRegressor), lambda: table(20_000, 30)),
    Case("AutoRegressor, 100,000 rows", 10, priced(at.AutoRegressor), lambda: table(100_000, 30)),
    Case("CascadeClassifier", 1, priced(at.CascadeClassifier), lambda: table(50_000, 30, 2), quick=True),
    Case("ExpectedCostClassifier", 2, priced(at.ExpectedCostClassifier), lambda: table(20_000, 30, 3), quick=True),
    Case("AlgorithmSelector", 2, priced(at.AlgorithmSelector), lambda: table(20_000, 12, 3), quick=True),
    Case("AcquisitionClassifier", 2, priced(at.AcquisitionClassifier), lambda: table(20_000, 30, 3), quick=True),
    Case("AcquisitionClassifier, calibrated", 5, priced(at.AcquisitionClassifier, calibration="auto"),
         lambda: table(20_000, 30, 2)),
    Case("GradientBoostingRegressor", 2, boosting(at.GradientBoostingRegressor), lambda: table(10_000, 30)),
]  # fmt: skip


def measured(case: Case) -> dict[str, Any]:
    """One fit."""
    X, y, *queries = case.rows()
    model = case.make(X.shape[1], case.seconds)
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, **({"qid": queries[0]} if queries else {}))
    taken, processor = time.perf_counter() - wall, time.process_time() - cpu
    costs = model.stage_costs_
    return {
        "asked": case.seconds,
        "taken": round(taken, 2),
        "processor": round(processor, 2),
        "ratio": round(taken / case.seconds, 2),
        "in time": taken <= (1 + SHARE) * case.seconds + SECONDS,
        "stages": len(costs),
        "first cost": round(float(costs[0]), 3),
        "last cost": round(float(costs[-1]), 3),
    }


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="cases of two seconds at most")
    parser.add_argument("--only", help="cases whose name contains this")
    options = parser.parse_args()
    found = {}
    for case in CASES:
        if (options.quick and not case.quick) or (options.only or "") not in case.name:
            continue
        name = f"{case.name}: {case.seconds:g} s"
        found[name] = measured(case)
        print(name, found[name], flush=True)
    if not options.quick and not options.only:
        write("time_budgets", {"bar": "10 % and one second more than asked for", "fits": found})


if __name__ == "__main__":
    main()
