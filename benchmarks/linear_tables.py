"""Tables 3.1 and 3.2 of Hu's thesis on look-alike data: which order of the same groups is best at every budget.

Run: python benchmarks/linear_tables.py [--seeds 20] [--rows 100000] [--groupings 3] [--data DIR]

Both real data sets are out of reach (one is licensed, one private), so generators of the same shape stand in: 328 columns in
57 natural groups priced in seconds, and 519 columns in random groups of 5 to 20 with the published prices of the ranking set
(or, without the folder that holds them, seven price levels). For each seed every method learns from the same training rows,
and its curve of explained variance on new rows is cut at the cost where CS-G-OMP reaches 0.97 (0.99) of its final training
objective; the score is the area under it (alpha-timeliness), averaged over several random groupings. What the thesis prints
and what is found here stand side by side, and every relation between methods is counted over the seeds. "Sparse" is the group
lasso by its own solutions; "Sparse, refitted" takes only its order, and refits weights as for all other methods, which the
thesis does not do.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

import anytime as at
from anytime.curves import AnytimeCurve
from anytime.linear.lasso import group_lasso_path
from anytime.linear.moments import Moments, Standardised
from anytime.linear.sequencing import Arrangement, lasso_weights
from anytime_research import datasets as research_datasets
from common import write

METHODS: dict[str, dict[str, Any]] = {
    "CS-G-FR": {"selection": "forward"},
    "CS-G-OMP": {"selection": "omp"},
    "No-Whiten": {"selection": "omp", "whiten": False},
    "Single": {"selection": "single"},
    "G-OMP": {"selection": "omp", "cost_aware": False},
    "Sparse, refitted": {"selection": "lasso"},
}
PRINTED = {
    "agricultural": {
        "CS-G-OMP": 0.4406, "Single": 0.4086, "No-Whiten": 0.4340, "G-OMP": 0.4073, "CS-G-FR": 0.4525,
        "FR Oracle": 0.4551, "OMP Oracle": 0.4508, "Sparse": 0.3997,
    },
    "ranking, s = 5": {
        "CS-G-OMP": 0.3188, "Single": 0.3039, "No-Whiten": 0.3111, "G-OMP": 0.2985, "CS-G-FR": 0.3222,
        "FR Oracle": 0.3225, "OMP Oracle": 0.3211, "Sparse": 0.2934,
    },
    "ranking, s = 10": {
        "CS-G-OMP": 0.3142, "Single": 0.3117, "No-Whiten": 0.3079, "G-OMP": 0.2909, "CS-G-FR": 0.3205,
        "FR Oracle": 0.3207, "OMP Oracle": 0.3164, "Sparse": 0.2858,
    },
    "ranking, s = 15": {
        "CS-G-OMP": 0.3165, "Single": 0.3159, "No-Whiten": 0.3116, "G-OMP": 0.2892, "CS-G-FR": 0.3213,
        "FR Oracle": 0.3213, "OMP Oracle": 0.3177, "Sparse": 0.2952,
    },
    "ranking, s = 20": {
        "CS-G-OMP": 0.3161, "Single": 0.3124, "No-Whiten": 0.3065, "G-OMP": 0.2875, "CS-G-FR": 0.3180,
        "FR Oracle": 0.3180, "OMP Oracle": 0.3163, "Sparse": 0.2895,
    },
}  # fmt: skip
RELATIONS = [
    ("CS-G-FR", "CS-G-OMP"),
    ("CS-G-OMP", "No-Whiten"),
    ("CS-G-OMP", "Single"),
    ("CS-G-OMP", "G-OMP"),
    ("CS-G-OMP", "Sparse"),
    ("CS-G-FR", "Sparse"),
    ("No-Whiten", "Sparse"),
    ("Single", "Sparse"),
    ("G-OMP", "Sparse"),
    ("CS-G-OMP", "Sparse, refitted"),
    ("CS-G-FR", "Sparse, refitted"),
    ("FR Oracle", "CS-G-FR"),
    ("OMP Oracle", "CS-G-OMP"),
]


def explained(model: Any, held: Standardised) -> np.ndarray:
    """(S + 1,) share of the variance explained on new rows, after each purchase, from their moments."""
    block = model.plan_.blocks[0]
    columns = block._columns
    S, v = held.covariance[np.ix_(columns, columns)], held.correlation[columns, 0]
    values = [0.0]
    for table in block.coefficients:  # of standardised columns, which is what the models were given
        m, w = len(table), table[:, 0]
        values.append(float(2 * w @ v[:m] - w @ S[:m, :m] @ w))
    return np.array(values)


def lasso_curve(prices: at.FeatureCosts, seen: Standardised, new: Standardised) -> AnytimeCurve:
    """The cost-weighted group lasso by its own solutions, each at the cost of the groups that it uses."""
    arrangement = Arrangement.of(prices.bind(len(seen.covariance)))
    columns, start = arrangement.columns, arrangement.start
    grid = np.ix_(columns, columns)
    path = group_lasso_path(
        seen.covariance[grid],
        seen.correlation[columns],
        start,
        lasso_weights(arrangement),
        n_lambdas=100,
        whole=True,
        tol=1e-4,
    )
    S, v = new.covariance[grid], new.correlation[columns, 0]
    own = np.array([prices.prices[prices.names[g]] for g in arrangement.groups])
    points = {0.0: 0.0}
    for used, coefficients in zip(path.active, path.coefficients[:, :, 0], strict=True):
        cost = float(own[used].sum())
        if cost >= max(points):  # a group may leave again; the curve goes on when more is spent
            points[cost] = float(2 * coefficients @ v - coefficients @ S @ coefficients)
    return AnytimeCurve(np.array(list(points)), np.array(list(points.values())), perfect=1.0)


Halves = tuple[Standardised, Standardised]


def halves(chunks: Iterable[tuple[Any, Any]], n_columns: int) -> Halves:
    """Moments of every other chunk of rows, to learn from, and of the others in the same units, to judge on."""
    train = Moments(n_columns, 1)
    test = None
    for number, (X, y) in enumerate(chunks):
        target = np.asarray(y, dtype=np.float64)[:, None]
        if number % 2 == 0:
            train.add(X, target)
        else:
            test = train.beside() if test is None else test
            test.add(X, target)
    assert test is not None
    seen = train.standardised()
    return seen, test.standardised(like=seen)


def agricultural(rows: int, seed: int) -> tuple[Halves, list[at.FeatureCosts]]:
    """Rows of the agricultural look-alike, and their one price list."""
    data = research_datasets.make_agricultural(rows, random_state=seed)
    parts = np.array_split(np.arange(len(data.X)), 2)
    return halves([(data.X[part], data.y[part]) for part in parts], data.X.shape[1]), [data.costs]


def ranking(rows: int, seed: int, prices: Any) -> tuple[Halves, np.ndarray]:
    """Rows of the ranking look-alike, and the price of each feature."""
    listed = list(prices.prices.values()) if prices is not None else None
    if listed is None:
        costs = research_datasets.make_ranking(1, group_size=1, random_state=seed).costs
        columns = {column: price for name, price in costs.prices.items() for column in costs.groups[name]}
        listed = [columns[j] for j in range(len(columns))]
    chunks = research_datasets.ranking_chunks(rows, prices=listed, random_state=seed)
    return halves(((chunk.X, chunk.y) for chunk in chunks), len(listed)), np.array(listed)


def over_groupings(
    moments: Halves, groupings: list[at.FeatureCosts], alpha: float, l2_regularization: float
) -> dict[str, float]:
    """Timeliness of every method, averaged over price lists for the same rows."""
    runs = [_one_grouping(costs, *moments, alpha, l2_regularization) for costs in groupings]
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def _one_grouping(
    prices: at.FeatureCosts, seen: Standardised, new: Standardised, alpha: float, l2_regularization: float
) -> dict[str, float]:
    curves, stop = {}, np.nan
    for name, options in METHODS.items():
        model = at.GroupPursuitRegressor(costs=prices, l2_regularization=l2_regularization, **options)
        model.fit_moments(seen.covariance, seen.correlation[:, 0])
        costs = np.concatenate([[0.0], model.stage_costs_])
        curves[name] = AnytimeCurve(costs, explained(model, new), perfect=1.0)
        if name == "CS-G-OMP":
            objective = np.concatenate([[0.0], model.certificate_.selection.values])
            stop = AnytimeCurve(costs, objective).stopping_cost(alpha)
    curves["Sparse"] = lasso_curve(prices, seen, new)
    curves["FR Oracle"] = curves["CS-G-FR"].oracle()
    curves["OMP Oracle"] = curves["CS-G-OMP"].oracle()
    return {name: curve.timeliness(stop_cost=stop, initial_risk=1.0) for name, curve in curves.items()}


def table(name: str, runs: list[dict[str, float]], alpha: float, l2_regularization: float) -> dict[str, Any]:
    """A row of the tables over all seeds."""
    seeds = len(runs)
    means = {method: float(np.mean([run[method] for run in runs])) for method in runs[0]}
    counts = {f"{a} >= {b}": int(sum(run[a] >= run[b] - 1e-12 for run in runs)) for a, b in RELATIONS}
    print(f"\n{name}: {alpha}-timeliness, {seeds} seeds")
    for method in sorted(means, key=means.get, reverse=True):
        printed = PRINTED[name].get(method)
        print(f"  {method:16} {means[method]:.4f}" + (f"   thesis {printed:.4f}" if printed else ""))
    for relation, count in counts.items():
        print(f"  {relation:30} {count} of {seeds}")
    return {
        "alpha": alpha,
        "ridge": l2_regularization,
        "mean": means,
        "thesis": PRINTED[name],
        "held": counts,
        "whole_order_held": int(sum(_in_order(run) for run in runs)),
        "seeds": seeds,
    }


def _in_order(run: dict[str, float]) -> bool:
    """FR at least OMP, OMP at least the ablations, all of these at least the lasso."""
    middle = [run[name] for name in ("No-Whiten", "Single", "G-OMP")]
    return run["CS-G-FR"] >= run["CS-G-OMP"] >= max(middle) and min(*middle, run["CS-G-OMP"]) >= run["Sparse"]


def main() -> None:
    """All rows of both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--groupings", type=int, default=3)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"))
    options = parser.parse_args()
    prices = research_datasets.load_yahoo_costs(folder=options.data) if options.data else None
    fields = [
        over_groupings(*agricultural(options.rows, seed), alpha=0.97, l2_regularization=1e-7)
        for seed in range(options.seeds)
    ]
    results = {"agricultural": table("agricultural", fields, 0.97, 1e-7)}
    documents: dict[int, list[dict[str, float]]] = {size: [] for size in (5, 10, 15, 20)}
    for seed in range(options.seeds):
        moments, listed = ranking(options.rows, seed, prices)
        for size, runs in documents.items():
            groupings = [
                research_datasets.random_groups(listed, size, random_state=number)
                for number in range(options.groupings)
            ]
            runs.append(over_groupings(moments, groupings, alpha=0.99, l2_regularization=1e-5))
    for size, runs in documents.items():
        results[f"ranking, s = {size}"] = table(f"ranking, s = {size}", runs, 0.99, 1e-5)
    write(
        "linear_tables",
        {
            "rows": options.rows,
            "groupings": options.groupings,
            "published_prices": prices is not None,
            "tables": results,
        },
    )


if __name__ == "__main__":
    main()
