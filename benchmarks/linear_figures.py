"""Figures 3.3 to 3.5 of Hu's thesis on look-alike data: curves of explained variance against cost, cut where they level off.

Figure 3.3a: the last percent of what CS-G-OMP gains, and the share of the total cost that it takes. Figure 3.3b: selection that
knows costs (CS-G-OMP) against selection that does not (G-OMP). Figure 3.4: whitened groups against scaled columns. Figure 3.5:
both greedy methods, their variants that rate a group by its best column, and the group lasso; also by accuracy (agricultural) and
NDCG@5 (ranking), the measures that belong to the data. As in ``linear_tables.py``, whose generators, groups of 10 and methods
these are, half of the rows are learned from and everything is measured on the other half; the thesis prints curves only, so
what is counted is at which share of the budgets one curve is above another.

    python benchmarks/linear_figures.py [--seeds 5] [--rows 100000] [--data DIR]
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

import anytime as at
from anytime.curves import AnytimeCurve, ndcg
from anytime.linear.moments import Moments, Standardised
from anytime_research import datasets as research_datasets
from common import write
from linear_tables import explained, lasso_curve

METHODS: dict[str, dict[str, Any]] = {
    "CS-G-FR": {"selection": "forward"},
    "CS-G-OMP": {"selection": "omp"},
    "G-OMP": {"selection": "omp", "cost_aware": False},
    "No-Whiten": {"selection": "omp", "whiten": False},
    "Single": {"selection": "single"},
    "FR-Single": {"selection": "forward_single"},
}
STOPS = (0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 1.0)
CUT = {"agricultural": 0.97, "ranking": 0.98}  # of figure 3.5; 3.3b and 3.4 stop at 0.97 on both
RIDGE = {"agricultural": 1e-7, "ranking": 1e-5}
CLAIMS = [
    ("3.3b", "ranking", "CS-G-OMP", "G-OMP", 0.97),
    *(("3.4", data, "CS-G-OMP", "No-Whiten", 0.97) for data in CUT),
    *(
        ("3.5", data, better, worse, CUT[data])
        for data in CUT
        for better, worse in (
            ("CS-G-FR", "CS-G-OMP"),
            ("CS-G-OMP", "Single"),
            ("CS-G-FR", "FR-Single"),
            ("CS-G-OMP", "Sparse"),
        )
    ),
]
NATURAL_ROWS = 5000  # on which accuracy and NDCG@5 are measured
SHARES = np.linspace(0.02, 1.0, 50)  # of the stopping cost


def drawn(
    data: str, rows: int, seed: int, folder: str | None
) -> tuple[np.ndarray, np.ndarray, Any, at.FeatureCosts]:
    """Columns, targets, queries (of the ranking look-alike) and prices."""
    if data == "agricultural":
        made = research_datasets.make_agricultural(rows, random_state=seed)
        return made.X, made.y, None, made.costs
    prices = None
    if folder is not None:
        prices = list(research_datasets.load_yahoo_costs(folder=folder).prices.values())
    made = research_datasets.make_ranking(rows, prices=prices, group_size=10, random_state=seed)
    return made.X, made.y, made.qid, made.costs


def natural_measure(model: Any, seen: Standardised, X: np.ndarray, y: np.ndarray, qid: Any) -> list[float]:
    """Accuracy of two classes, or NDCG@5, before the first purchase and after each."""
    block = model.plan_.blocks[0]
    X, y, qid = X[:NATURAL_ROWS], y[:NATURAL_ROWS], None if qid is None else qid[:NATURAL_ROWS]
    Z = (X[:, block._columns] - seen.mean[block._columns]) / seen.scale[block._columns]
    middle = (y.min() + y.max()) / 2
    values = []
    for table in [np.zeros((0, 1)), *block.coefficients]:
        scores = Z[:, : len(table)] @ table[:, 0]
        if qid is None:
            answers = seen.target_mean[0] + seen.target_scale[0] * scores
            values.append(float(((answers > middle) == (y > middle)).mean()))
        else:
            values.append(ndcg(y, scores, qid, 5))
    return values


def one_draw(data: str, rows: int, seed: int, folder: str | None) -> dict[str, Any]:
    """All curves of one draw, and the budgets at which each claim holds."""
    X, y, qid, prices = drawn(data, rows, seed, folder)
    half = rows // 2 if qid is None else int(np.flatnonzero(qid == qid[rows // 2])[0])
    moments = Moments(X.shape[1], 1)
    moments.add(X[:half], np.asarray(y[:half], dtype=np.float64)[:, None])
    seen = moments.standardised()
    new = moments.beside()
    new.add(X[half:], np.asarray(y[half:], dtype=np.float64)[:, None])
    held = new.standardised(like=seen)
    curves, natural, objective = {}, {}, None
    for name, options in METHODS.items():
        model = at.GroupPursuitRegressor(costs=prices, l2_regularization=RIDGE[data], **options)
        model.fit_moments(seen.covariance, seen.correlation[:, 0])
        costs = np.concatenate([[0.0], model.stage_costs_])
        curves[name] = AnytimeCurve(costs, explained(model, held), perfect=1.0)
        if name in ("CS-G-FR", "CS-G-OMP", "Single"):
            values = natural_measure(model, seen, X[half:], y[half:], None if qid is None else qid[half:])
            natural[name] = AnytimeCurve(costs, values)
        if name == "CS-G-OMP":
            objective = AnytimeCurve(costs, np.concatenate([[0.0], model.certificate_.selection.values]))
    curves["Sparse"] = lasso_curve(prices, seen, held)
    stops = {share: objective.stopping_cost(share) for share in STOPS}
    record: dict[str, Any] = {
        "total": prices.total,
        "stopping_cost": {f"{share:g}": float(cost / prices.total) for share, cost in stops.items()},
        "final": float(curves["CS-G-OMP"].values[-1]),
    }
    record["claims"] = {
        f"{figure}, {better} above {worse}": share_above(curves[better], curves[worse], stops[alpha])
        for figure, where, better, worse, alpha in CLAIMS
        if where == data
    }
    record["claims"] |= {
        f"3.5, {better} above {worse}, {'accuracy' if qid is None else 'NDCG@5'}": share_above(
            natural[better], natural[worse], stops[CUT[data]]
        )
        for better, worse in (("CS-G-FR", "CS-G-OMP"), ("CS-G-OMP", "Single"))
    }
    grid = SHARES * stops[1.0]
    record["shares"] = SHARES.tolist()
    record["curves"] = {name: np.round(curve.at(grid), 5).tolist() for name, curve in curves.items()}
    record["natural"] = {name: np.round(curve.at(grid), 5).tolist() for name, curve in natural.items()}
    cut = SHARES * stops[CUT[data]]
    record["cut"] = float(stops[CUT[data]] / prices.total)
    record["curves to the cut"] = {
        name: np.round(curve.at(cut), 5).tolist() for name, curve in curves.items()
    }
    return record


def share_above(better: AnytimeCurve, worse: AnytimeCurve, stop: float) -> dict[str, float]:
    """The share of 200 budgets up to ``stop`` at which one curve is at least the other; their areas."""
    budgets = np.linspace(stop / 200, stop, 200)
    ahead = better.at(budgets) - worse.at(budgets)
    return {
        "share": round(float((ahead >= -1e-12).mean()), 3),
        "mean": round(float(ahead.mean()), 5),
        "worst": round(float(ahead.min()), 5),
    }


def main() -> None:
    """Both sets, all draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"))
    options = parser.parse_args()
    sets = {}
    for data in CUT:
        draws = [one_draw(data, options.rows, seed, options.data) for seed in range(options.seeds)]
        sets[data] = {
            "claims": {
                claim: {
                    "share": round(float(np.mean([draw["claims"][claim]["share"] for draw in draws])), 3),
                    "area_above_in": sum(draw["claims"][claim]["mean"] >= 0 for draw in draws),
                    "everywhere_in": sum(draw["claims"][claim]["share"] == 1.0 for draw in draws),
                    "worst": min(draw["claims"][claim]["worst"] for draw in draws),
                }
                for claim in draws[0]["claims"]
            },
            "stopping_cost": {
                share: round(float(np.mean([draw["stopping_cost"][share] for draw in draws])), 4)
                for share in draws[0]["stopping_cost"]
            },
            "first draw": {
                key: draws[0][key] for key in ("shares", "cut", "curves", "natural", "curves to the cut")
            },
        }
        print(data, sets[data]["claims"], sets[data]["stopping_cost"], flush=True)
    write("linear_figures", {"seeds": options.seeds, "rows": options.rows, "cut": CUT, "sets": sets})


if __name__ == "__main__":
    main()
