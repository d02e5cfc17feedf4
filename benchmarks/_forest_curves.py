"""Forests and their peers as curves: mean realised cost and error on validation and test rows at every setting.

Every method yields pairs of curves, on validation and on test rows, of models that it was swept over; the settings to report are
those on the frontier of the validation curves. Cost is what rows really pay, for every method: the groups on the paths that a row
takes, each once.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

import anytime as at
from _forest_sets import Split
from anytime.curves import AnytimeCurve
from anytime.engine import Run
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import ClassPairs, Entropy, Gini, Impurity
from anytime.forests.levels import cut
from anytime.linear.classifier_tree import SubmodularTreeClassifier
from anytime.linear.cost_sensitive_tree import CostSensitiveTreeClassifier
from anytime.plan import Plan
from anytime.trees.arrays import TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import join
from anytime_research.curves import prefix_precision, select_on_validation
from anytime_research.linear.baselines import LassoPathClassifier

Array = NDArray[np.float64]
Mode = Literal["minimax", "expected"]
Pair = tuple[AnytimeCurve, AnytimeCurve]  # on validation and on test rows

ALPHAS = (0, 2, 4, 6, 8, 10, 15, 25, 35, 45)  # of the thesis
ENTROPIES = (0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 1.1)  # below which a node is left alone
N_TREES = 40
ROUNDS, RATE = 200, 0.1
SHORT = 100, 0.2  # rounds and rate of boosting where there are many rows and classes
PENALTIES = (
    1e-5,
    1e-4,
    1e-3,
    3e-3,
    1e-2,
    3e-2,
    0.1,
    0.3,
)  # shares of the impurity at the start, per mean price
TRADE_OFFS = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
NODE_SHARES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3)  # of the price of everything that a node of ASTC may spend
PATH_PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03)


# ---------------------------------------------------------------------- measuring


def loss(scores: Array, y: NDArray[np.intp], queries: NDArray[Any] | None) -> float:
    """Error rate; with queries, what prefix precision at 5 falls short of 1."""
    if queries is not None:
        score = scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return 1 - prefix_precision(y, score, queries, relevant=1)
    said = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float((said != y).mean())


def walk(plan: Plan, X: Array, y: Any, queries: Any, stages: Sequence[int]) -> AnytimeCurve:
    """Mean realised cost and loss after some stages."""
    run = Run(plan, np.ascontiguousarray(X), metered=True)
    costs, losses = [], []
    for stage in stages:
        run.advance(stage)
        assert run.ledger is not None
        costs.append(float(run.ledger.paid.mean()) * plan.costs.costs.amount(1))
        losses.append(loss(run.scores(), y, queries))
    return AnytimeCurve(
        costs, losses, metric="error", greater_is_better=False, meter="realised", stages=stages
    )


def pair(plan: Plan, split: Split, stages: Sequence[int]) -> Pair:
    """The curves of one plan on validation and test rows."""
    queries = split.queries or (None, None)
    return walk(plan, *split.valid, queries[0], stages), walk(plan, *split.test, queries[1], stages)


def joined(curves: Iterable[Pair]) -> Pair:
    """Curves of nested models, one point each, as one pair, by increasing cost; ``stages`` are their positions."""
    valid, test = zip(*curves, strict=True)
    order = np.argsort([curve.costs[0] for curve in valid], kind="stable")

    def put_together(part: Sequence[AnytimeCurve]) -> AnytimeCurve:
        costs, values = (np.array([getattr(part[k], name)[0] for k in order]) for name in ("costs", "values"))
        return AnytimeCurve(
            np.maximum.accumulate(costs), values, metric="error", greater_is_better=False, meter="realised",
            stages=order,
        )  # fmt: skip

    return put_together(valid), put_together(test)


def prefixes(n: int) -> list[int]:
    """0, 1, 2, 3, 5, 8, ... and ``n``."""
    return sorted({0, n, *(int(k) for k in np.unique(np.round(np.geomspace(1, max(n, 1), 18))) if k < n)})


def frontier(pairs: dict[str, Pair]) -> dict[str, Any]:
    """Settings chosen on validation curves: their validation losses, test costs and test losses, and which they are."""
    chosen = select_on_validation({k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()})
    return {
        "valid_cost": chosen.validation.costs.round(4).tolist(),
        "valid_error": chosen.validation.values.round(5).tolist(),
        "cost": np.asarray(chosen.test_costs).round(4).tolist(),
        "error": chosen.test.values.round(5).tolist(),
        "model": list(chosen.models),
        "stage": np.asarray(chosen.validation.stages).tolist(),
    }


# ---------------------------------------------------------------------- forests


def forest_plan(trees: TreeArrays, split: Split) -> Plan:
    """Trees as stages whose answers are averaged."""
    share = np.bincount(split.train[1], minlength=split.n_classes) / len(split.train[1])
    return Plan(
        blocks=[TreeBlock(trees)], costs=split.costs.bind(split.train[0].shape[1]), base=share, combine="mean",
        link="probability",
    )  # fmt: skip


def grow(
    split: Split, data: BinnedData, seed: int, n_trees: int, grower: ClassTreeGrower, priced: bool
) -> list[ClassTree]:
    """A forest of the training rows."""
    costs = split.costs.bind(split.train[0].shape[1]) if priced else None
    return grower.grow_forest(
        data, split.train[1], n_classes=split.n_classes, n_trees=n_trees, costs=costs, random_state=seed
    )


def random_forest(
    split: Split, data: BinnedData, seed: int, criterion: str, n_trees: int = N_TREES
) -> list[ClassTree]:
    """An ordinary one: bootstrap, square root of the columns per split, leaves down to one row, no prices."""
    subset = max(int(np.sqrt(split.train[0].shape[1])), 1)
    impurity = {"gini": Gini(), "entropy": Entropy()}[criterion]
    grower = ClassTreeGrower(impurity, split="expected", max_features=subset)
    return grow(split, data, seed, n_trees, grower, priced=False)


def budget_forest(
    split: Split, data: BinnedData, seed: int, alpha: float, n_trees: int = N_TREES, mode: Mode = "minimax"
) -> list[ClassTree]:
    """BudgetRF: threshold-Pairs, minimax risk, random stumps, all columns at their prices."""
    grower = ClassTreeGrower(ClassPairs(alpha=alpha), split=mode, search="random")
    return grow(split, data, seed, n_trees, grower, priced=True)


def forest_pair(trees: list[ClassTree], split: Split, stages: Sequence[int] | None = None) -> Pair:
    """The prefixes of a forest."""
    plan = forest_plan(join([tree.arrays for tree in trees]), split)
    return pair(plan, split, prefixes(len(trees)) if stages is None else stages)


def budget_forests(
    split: Split, seed: int, mode: Mode = "minimax", alphas: Sequence[float] = ALPHAS, n_trees: int = N_TREES
) -> dict[str, Pair]:
    """Every alpha, every number of trees."""
    data = BinnedData.fit(split.train[0])
    return {
        f"{mode}, alpha {alpha}": forest_pair(
            budget_forest(split, data, seed, alpha, n_trees, mode), split, range(n_trees + 1)
        )
        for alpha in alphas
    }


def entropy_forest(
    split: Split, data: BinnedData, seed: int, *, power: float = 1.0, max_features: int | None = None
) -> list[ClassTree]:
    """Expected fall of entropy per price to some power; all columns at every node unless said otherwise."""
    grower = ClassTreeGrower(Entropy(), split="expected", max_features=max_features)
    costs = split.costs
    prices = {name: price**power if price else 0.0 for name, price in costs.prices.items()}
    other = replace(split, costs=at.FeatureCosts(prices, groups=costs.groups, requires=costs.requires))
    return grow(other, data, seed, N_TREES, grower, priced=power > 0)


def stopped(trees: list[ClassTree], impurity: Impurity, threshold: float) -> TreeArrays:
    """What the trees had become if nodes of no more than this impurity were not split: they are cut there."""
    whole = join([tree.arrays for tree in trees])
    sums = np.concatenate([tree.statistics for tree in trees])
    return cut(whole, impurity(sums) > threshold)


def entropy_forests(split: Split, seed: int) -> dict[str, Pair]:
    """Entropy per price to several powers, every threshold at which nodes are left alone, every number of trees."""
    data, out = BinnedData.fit(split.train[0]), {}
    for power in (1.0, 0.5, 0.0) if len(set(split.costs.prices.values())) > 1 else (1.0,):
        trees = entropy_forest(split, data, seed, power=power)
        for threshold in ENTROPIES:
            plan = forest_plan(stopped(trees, Entropy(), threshold), split)
            out[f"entropy, price to the {power}, threshold {threshold}"] = pair(
                plan, split, range(N_TREES + 1)
            )
    return out


# ---------------------------------------------------------------------- peers


def boosting(split: Split) -> tuple[int, float]:
    """Rounds and learning rate."""
    return SHORT if split.n_classes * len(split.train[1]) > 100_000 else (ROUNDS, RATE)


def greedy_miser(split: Split, penalties: Sequence[float] = PENALTIES) -> dict[str, Pair]:
    """Boosted trees of depth 4 with a fixed price on first use, for many prices and numbers of rounds."""
    X, y = split.train
    rounds, rate = boosting(split)
    mean_price = split.costs.total / X.shape[1]
    scale = 0.25 * len(y) / mean_price
    out = {}
    for penalty in penalties:
        model = at.GradientBoostingClassifier(
            costs=split.costs,
            n_estimators=rounds,
            learning_rate=rate,
            cost_penalty=penalty * scale,
            max_depth=4,
            max_leaf_nodes=None,
            random_state=0,
        ).fit(X, y)
        out[f"penalty {penalty}"] = pair(model.plan_, split, prefixes(len(model.plan_)))
    return out


def cegb(split: Split, trade_offs: Sequence[float] = TRADE_OFFS) -> dict[str, Pair]:
    """LightGBM with its penalty on the first use of a column, at many trade-offs and numbers of rounds."""
    X, y = split.train
    rounds, rate = boosting(split)
    bound = split.costs.bind(X.shape[1])
    price = np.array([split.costs.price([split.costs.names[g]]) for g in bound.column_group])
    out = {}
    for trade_off in trade_offs:
        parameters = {
            "objective": "binary" if split.n_classes == 2 else "multiclass",
            "verbose": -1, "num_threads": 1, "seed": 0, "deterministic": True, "force_col_wise": True,
            "learning_rate": rate, "cegb_tradeoff": trade_off, "cegb_penalty_feature_coupled": (price / price.mean()).tolist(),
            **({} if split.n_classes == 2 else {"num_class": split.n_classes}),
        }  # fmt: skip
        model = at.make_anytime(lgb.train(parameters, lgb.Dataset(X, y), rounds), costs=split.costs)
        out[f"trade-off {trade_off}"] = pair(model.plan_, split, prefixes(len(model.plan_)))
    return out


def astc(
    split: Split, shares: Sequence[float] = NODE_SHARES, levels: Sequence[int] = (4,)
) -> dict[str, Pair]:
    """Approximately submodular trees of classifiers: budgets of a node, all levels."""
    out = {}
    for share in shares:
        for n_levels in levels:
            model = SubmodularTreeClassifier(
                costs=split.costs, node_budget=share * split.costs.total, max_stages=n_levels
            ).fit(*split.train)
            out[f"share {share}, {n_levels} levels"] = pair(model.plan_, split, range(n_levels + 1))
    return out


def cstc(split: Split, penalties: Sequence[float] = PATH_PENALTIES, n_levels: int = 3) -> dict[str, Pair]:
    """Cost-sensitive trees of classifiers: penalties per mean price, all levels; from 5,000 training rows at most."""
    X, y = (part[:5000] for part in split.train)
    mean_price = split.costs.total / X.shape[1]
    out = {}
    for penalty in penalties:
        model = CostSensitiveTreeClassifier(
            costs=split.costs, cost_penalty=penalty / mean_price, max_stages=n_levels, max_iter=10
        ).fit(X, y)
        out[f"penalty {penalty}"] = pair(model.plan_, split, range(n_levels + 1))
    return out


def weighted_lasso(split: Split) -> dict[str, Pair]:
    """Least squares with an L1 penalty in proportion to prices, by its own path of solutions."""
    model = LassoPathClassifier(costs=split.costs, loss="squared").fit(*split.train)
    return {"path": pair(model.plan_, split, prefixes(len(model.plan_)))}


# ---------------------------------------------------------------------- keeping and comparing


def kept(folder: Path | None, key: str, make: Callable[[], Any]) -> Any:
    """What ``make`` gives, from a file where it was made before; tells how long it took."""
    path = None if folder is None else folder / f"{key}.pickle"
    if path is not None and path.exists():
        return pickle.loads(path.read_bytes())
    began = time.process_time()
    made = make()
    print(f"{key}: {time.process_time() - began:.1f} s", flush=True)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(made))
    return made


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation."""
    return {
        "mean": round(float(np.mean(values)), 5),
        "sd": round(float(np.std(values, ddof=min(1, len(values) - 1))), 5),
    }


def summed(found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Means over repeats of what ``against`` gave."""
    return {
        "error_less_by": spread([f["error_less_by"] for f in found]),
        **{
            key: round(float(np.mean([f[key] for f in found])), 3)
            for key in ("share_won", "from", "to", "common")
        },
    }


def on_grid(frontiers: Sequence[dict[str, Any]], budgets: Array) -> list[float]:
    """Mean test error at each of some mean costs."""
    return np.mean([held(f, budgets) for f in frontiers], axis=0).round(5).tolist()


def held(curve: dict[str, Any], costs: Array) -> Array:
    """Test error of the dearest chosen setting whose test cost is within each of ``costs``."""
    order = np.argsort(curve["cost"], kind="stable")
    position = np.searchsorted(np.asarray(curve["cost"])[order], costs * (1 + 1e-12), side="right") - 1
    return np.asarray(curve["error"])[order][position]


def against(ours: dict[str, Any], theirs: dict[str, Any], n: int = 40) -> dict[str, float]:
    """By how much we err less at equal mean cost, log-spaced over the costs that both have settings for; share of them won.

    The range goes from the greater of the least positive costs to the lesser of the greatest. Where there is none, because one
    method has nothing as dear as the cheapest of the other, it goes over all costs of both.
    """
    curves = (ours, theirs)
    least = [min((c for c in curve["cost"] if c > 0), default=np.inf) for curve in curves]
    most = [max(curve["cost"]) for curve in curves]
    low, high = max(least), min(most)
    common = low < high
    if not common:
        low, high = min(least), max(most)
    costs = np.geomspace(low, high, n)
    mine, other = held(ours, costs), held(theirs, costs)
    won = np.where(mine < other, 1.0, np.where(mine > other, 0.0, 0.5))
    return {
        "error_less_by": float((other - mine).mean()), "share_won": float(won.mean()), "from": float(low),
        "to": float(high), "common": float(common),
    }  # fmt: skip
