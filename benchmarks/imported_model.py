"""An imported LightGBM model (500 trees x 63 leaves, 50 features) against ``Booster.predict``, one thread.

Bars: one row at most 0.5 x the booster's median and 15 microseconds through ``predict_one``; 1,000 rows at most
3 microseconds a row; with a far-away deadline at most 1.05 x without; a budget that buys 10 % of the trees at most 0.15
of the time of all, by either meter. ``--budgets`` measures only that last bar, by processor time, and writes no file.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import anytime as at
from common import in_turns, lightgbm_model, median, write


def budget_of(model: at.ImportedClassifier, rows: np.ndarray, share: float) -> float:
    """The least budget with which rows go through a ``share`` of the trees, on average."""
    wanted = round(share * model.n_stages_)
    if model.meter == "model":
        return float(model.stage_costs_[wanted - 1])
    low, high = 0.0, float(model.stage_costs_[-1])
    while high - low > 0.5:
        middle = (low + high) / 2
        if model.answer(rows, budget=middle).stage.mean() < wanted:
            low = middle
        else:
            high = middle
    return high


def tenth_of_the_trees(booster: object, rows: np.ndarray, repeats: int = 400) -> dict[str, object]:
    """Time of a budget that buys 10 % of the trees, in microseconds a row and as a part of that of all trees, by both meters."""
    figures: dict[str, object] = {}
    for meter in ("model", "realised"):
        model = at.make_anytime(booster, evaluation_cost=1.0, meter=meter)
        budget = budget_of(model, rows, 0.1)
        least = {"all": np.inf, "tenth": np.inf}
        for _ in range(repeats):
            for name, asked in (("all", None), ("tenth", budget)):
                began = time.process_time()
                model.predict_proba(rows, budget=asked)
                least[name] = min(least[name], time.process_time() - began)
        figures[meter] = {
            "budget": round(budget, 1),
            "trees": round(float(model.answer(rows, budget=budget).stage.mean()), 1),
            "microseconds_per_row": {
                name: round(1e6 * value / len(rows), 3) for name, value in least.items()
            },
            "time_ratio_to_all_trees": round(least["tenth"] / least["all"], 3),
        }
    return figures


def main() -> None:
    booster, X = lightgbm_model()
    if "--budgets" in sys.argv[1:]:
        print(json.dumps(tenth_of_the_trees(booster, np.ascontiguousarray(X[:1000])), indent=2))
        return
    model = at.make_anytime(booster, evaluation_cost=1.0, meter="model")
    rows = np.ascontiguousarray(X[:1000])
    gap = float(np.abs(model.predict_proba(rows)[:, 1] - booster.predict(rows)).max())

    x = rows[0].copy()
    one_row = rows[:1].copy()
    one = in_turns(
        {
            "booster": lambda: booster.predict(one_row, num_threads=1),
            "predict_one": lambda: model.predict_one(x),
            "predict_one_far_deadline": lambda: model.predict_one(x, deadline=100.0),
        },
        repeats=300,
        inner=10,
    )
    many = in_turns(
        {
            "booster": lambda: booster.predict(rows, num_threads=1),
            "predict": lambda: model.predict_proba(rows),
            "predict_far_deadline": lambda: model.predict_proba(rows, deadline=100.0),
        },
        repeats=100,
    )
    full = model.stage_costs_[-1]
    features = full - model.n_stages_  # evaluation_cost=1 per tree: what is left are the prices of columns
    shares = (0.1, 0.25, 0.5, 0.75, 1.0)
    budgets = {share: features + share * model.n_stages_ for share in shares}
    prefix = in_turns(
        {str(share): (lambda b=b: model.predict_proba(rows, budget=b)) for share, b in budgets.items()},
        repeats=60,
    )
    trees = {
        str(share): int(np.searchsorted(model.stage_costs_, budget, side="right"))
        for share, budget in budgets.items()
    }

    one_median = {name: median(values) for name, values in one.items()}
    many_median = {name: median(values) / len(rows) for name, values in many.items()}
    paired = np.array(many["predict_far_deadline"]) / np.array(many["predict"])
    write(
        "imported_model",
        {
            "largest_difference_of_probabilities": gap,
            "one_row_microseconds": {name: round(1e6 * value, 2) for name, value in one_median.items()},
            "one_row_ratio_to_booster": round(one_median["predict_one"] / one_median["booster"], 3),
            "rows_1000_microseconds_per_row": {name: round(1e6 * v, 3) for name, v in many_median.items()},
            "rows_1000_ratio_to_booster": round(many_median["predict"] / many_median["booster"], 3),
            "far_deadline_ratio_one_row": round(
                one_median["predict_one_far_deadline"] / one_median["predict_one"], 3
            ),
            "far_deadline_ratio_1000_rows": round(float(np.median(paired)), 3),
            "budget_1000_rows": {
                share: {
                    "trees": trees[share],
                    "time_ratio_to_all_trees": round(median(values) / median(prefix["1.0"]), 3),
                    "tree_ratio": round(trees[share] / model.n_stages_, 3),
                }
                for share, values in prefix.items()
            },
            "tenth_of_the_trees_1000_rows": tenth_of_the_trees(booster, rows),
            "bars": {
                "one_row_ratio_to_booster": "<= 0.5",
                "one_row_microseconds": "<= 15",
                "rows_1000_microseconds_per_row": "<= 3",
                "far_deadline_ratio": "<= 1.05",
                "tenth_of_the_trees_time_ratio": "<= 0.15",
            },
        },
    )


if __name__ == "__main__":
    main()
