"""An imported LightGBM model (500 trees x 63 leaves, 50 features) against ``Booster.predict``, one thread.

Bars: one row at most 0.5 x the booster's median and 15 microseconds through ``predict_one``; 1,000 rows at most
3 microseconds a row; with a far-away deadline at most 1.05 x without; a budget costs no more than the trees it allows.
"""

from __future__ import annotations

import numpy as np

import anytime as at
from common import in_turns, lightgbm_model, median, write


def main() -> None:
    booster, X = lightgbm_model()
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
            "bars": {
                "one_row_ratio_to_booster": "<= 0.5",
                "one_row_microseconds": "<= 15",
                "rows_1000_microseconds_per_row": "<= 3",
                "far_deadline_ratio": "<= 1.05",
            },
        },
    )


if __name__ == "__main__":
    main()
