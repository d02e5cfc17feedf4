"""Cheap models in front of a costly one: chapter 5 of Nan's thesis on the sets that can be had.

How much of the costly model's cost is saved at an accuracy within one percentage point of its own, and how much less is paid than
by the best of its rivals: a forest of 40 trees pruned, Greedy Miser, LightGBM's cost-effective boosting (cegb), and a plain
cascade, in which a boosted model asks the costly one where its own margin is small. The library stands with a ladder of exits
(``LadderClassifier``); ADAPT-GBRT of the thesis is told beside it. All settings are chosen on validation rows, the cheapest that
is accurate enough there; costs and accuracies told are those of test rows. A method that is never accurate enough is counted at
the cost of the costly model for all rows.

Draws 6 to 10 are told: nothing was decided by them. Draws 0 to 5 and those from 100 on were used while the methods were made.
The bar is about five sets: Letters as in the thesis, a look-alike of MiniBooNE and Covertype at a quarter of its rows, Spambase,
and 5,000 real rows of MiniBooNE. ADAPT-GBRT is told on draw 1 of three sets.

    python benchmarks/adaptive.py [--quick] [--data DIR] [--sets a,b] [--repeats N] [--keep DIR]

A run with ``--keep`` can be broken off and goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import anytime as at
from _adaptive_synthetic import synthetic_1, synthetic_2
from _forest_curves import Pair, cegb, greedy_miser, kept, spread
from _forest_prunings import as_the_library_prunes, base
from _forest_sets import SETS, Split
from anytime.adaptive import AdaptiveClassifier, LadderClassifier
from anytime.adaptive.choosing import Point
from anytime.adaptive.costly import read_costly
from anytime.adaptive.stages import Chain
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime_research.adaptive import Sweep, sweep
from common import write

Array = NDArray[np.float64]

TOLERANCE, BAR = 0.01, 0.3
PENALTIES_TRIED = (0.05, 0.2, 0.8)  # of ADAPT-GBRT: entropy of the classes per price of everything
FRACTIONS = (0.1, 0.4)
LEARNING = {"n_estimators": 100, "learning_rate": 0.1, "max_depth": 4, "max_iter": 3}
PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)  # of the cascade's cheap model, as Greedy Miser's
MARGINS = 24  # thresholds of the cascade
MOST_FOR_SVM = 15_000  # training rows
FIVE = ("letters", "miniboone", "covtype", "spambase", "miniboone-small")  # the sets of the bar
FURTHER = ("magic", "satimage", "pendigits")
QUICK_SETS = ("letters", "spambase", "miniboone-small")
THESIS = ("letters", "spambase", "miniboone-small")  # sets on one draw of which ADAPT-GBRT is told
THESIS_SEED = 1
QUARTER = ("covtype", "miniboone")  # sets of which a quarter of the thesis' rows is drawn
SEEDS = range(6, 11)
RIVALS = ("pruned forest", "Greedy Miser", "cegb", "cascade")
PRINTED = {"miniboone": 0.63, "covtype": 0.32, "yahoo": 0.58, "cifar10": 0.12, "letters": 0.31}


def drawn(name: str, folder: str, seed: int) -> Split:
    """Rows of a set; Letters is A to M against N to Z, as in the thesis."""
    if name != "letters":
        return SETS[name].split(name, folder, seed, scale=0.25 if name in QUARTER else 1.0)
    split = SETS["letter"].split("letter", folder, seed)
    halves = {
        part: (rows[0], (rows[1] >= 13).astype(np.intp))
        for part, rows in (("train", split.train), ("valid", split.valid), ("test", split.test))
    }
    return replace(split, name=name, n_classes=2, **halves)


def costly_model(split: Split, seed: int) -> Any:
    """The most accurate on validation rows of three: a support vector machine, a large forest, and boosting, on all columns."""
    X, y = split.train
    models = [
        RandomForestClassifier(300, oob_score=True, random_state=seed, n_jobs=1),
        at.GradientBoostingClassifier(n_estimators=300, max_leaf_nodes=31),
    ]
    if len(y) <= MOST_FOR_SVM:
        models.append(make_pipeline(StandardScaler(), SVC(C=30, gamma=3.2 / X.shape[1])))
    return max((model.fit(X, y) for model in models), key=lambda model: model.score(*split.valid))


def ladder(split: Split, costly: Any) -> tuple[Point, Point]:
    """Exits on ever more columns: what was chosen comes to on validation and test rows."""
    model = LadderClassifier(costly, costs=split.costs, tolerance=TOLERANCE, costly_folds=3, random_state=0)
    model.fit(*split.train, X_val=split.valid[0], y_val=split.valid[1])
    chosen, worth = (
        Point(None, float(model.score(X, y)), float(model.cost(X).mean()), float(np.mean(model.sent(X))))
        for X, y in (split.valid, split.test)
    )
    return chosen, worth


def adapt_gbrt(split: Split, costly: Any) -> Sweep:
    """Every cost_penalty and every fraction."""
    share = np.bincount(split.train[1]) / len(split.train[1])
    unit = -float(share @ np.log(share)) / split.costs.total
    settings = [{"cost_penalty": unit * g, "costly_fraction": p} for g in PENALTIES_TRIED for p in FRACTIONS]
    model = AdaptiveClassifier(costly, costs=split.costs, costly_folds=3, random_state=0, **LEARNING)
    return sweep(model, settings, *split.train, *split.valid, *split.test)


# ---------------------------------------------------------------------- rivals


def cascade(split: Split, costly: Any) -> list[tuple[Point, Point]]:
    """Boosted models at several prices of first use, each asking the costly model where its margin is small."""
    X, y = split.train
    scale = 0.25 * len(y) / (split.costs.total / X.shape[1])
    ready = AdaptiveClassifier(costly, costs=split.costs)
    question, _ = ready._question(X, y, None, None)
    asked = read_costly(question, "insample")
    found = []
    for penalty in PENALTIES:
        cheap = at.GradientBoostingClassifier(
            costs=split.costs,
            n_estimators=100,
            cost_penalty=penalty * scale,
            max_depth=4,
            max_leaf_nodes=None,
        ).fit(X, y)
        alone = Chain([], asked.block).without_asking.plan(
            cheap.plan_.costs, cheap.plan_.base, cheap.plan_.link
        )
        parts = [Cascade(cheap.plan_, alone, asked.ask(rows[0]), *rows) for rows in (split.valid, split.test)]
        margins = np.quantile(parts[0].margin, np.linspace(0, 1, MARGINS))
        found += [(parts[0].at(margin), parts[1].at(margin)) for margin in margins]
    return found


class Cascade:
    """A cheap and a costly model on some rows."""

    def __init__(self, cheap: Plan, alone: Plan, costly_scores: Array, X: Array, y: NDArray[np.intp]) -> None:
        (own, scores), (others, _) = (paid(plan, X) for plan in (cheap, alone))
        prices = cheap.costs.costs.amounts(cheap.costs.prices)
        self.stay, self.go = own @ prices, (own | others) @ prices
        self.stays, self.goes = (leading(s) == y for s in (scores, costly_scores))
        self.margin = LINKS[cheap.link].margin(scores)

    def at(self, margin: float) -> Point:
        """Rows below the margin are sent on."""
        on = self.margin < margin
        right, cost = np.where(on, self.goes, self.stays), np.where(on, self.go, self.stay)
        return Point(float(margin), float(right.mean()), float(cost.mean()), float(on.mean()))


def paid(plan: Plan, X: Array) -> tuple[NDArray[np.bool_], Array]:
    """(n, G) groups that rows have bought in the end, and their scores."""
    run = Run(plan, np.ascontiguousarray(X), metered=True)
    run.advance()
    assert run.ledger is not None
    return run.ledger.bought, run.scores()


def leading(scores: Array) -> NDArray[np.intp]:
    """The class that leads."""
    return (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)


def points(pairs: dict[str, Pair]) -> list[tuple[Point, Point]]:
    """Curves on validation and test rows, point by point."""
    return [
        (Point(None, 1 - a, c, 0.0), Point(None, 1 - b, d, 0.0))
        for valid, test in pairs.values()
        for c, a, d, b in zip(valid.costs, valid.values, test.costs, test.values, strict=True)
    ]


# ---------------------------------------------------------------------- comparing


def one_repeat(name: str, seed: int, folder: str, keep: Path | None, own: str = "ladder") -> dict[str, Any]:
    """A method of the library and its rivals on one draw: cost and accuracy of the cheapest setting that is accurate enough.

    Accurate enough on validation rows; what is told is of test rows. ``own``: "ladder" or "ADAPT-GBRT".
    """
    memory: dict[str, Any] = {}

    def split() -> Split:
        if "split" not in memory:
            memory["split"] = drawn(name, folder, seed)
        return memory["split"]

    def done(key: str, make: Callable[[], Any]) -> Any:
        return kept(keep, f"{name}/{seed}/{key}", make)

    costly = done("costly", lambda: costly_model(split(), seed))
    if own == "ladder":
        options = [done("ladder", lambda: ladder(split(), costly))]
    else:
        swept = done("adapt-gbrt", lambda: adapt_gbrt(split(), costly))
        options = [(chosen, worth) for _, chosen, worth in swept.frontier()]
    found = {
        own: options,
        "pruned forest": points(
            {"entropy": done("pruned", lambda: as_the_library_prunes(base(split(), seed, "entropy")))}
        ),
        "Greedy Miser": points(done("miser", lambda: greedy_miser(split()))),
        "cegb": points(done("cegb", lambda: cegb(split()))),
        "cascade": done("cascade", lambda: cascade(split(), costly)),
    }
    whole = done("whole", lambda: costly_alone(split(), costly))
    record: dict[str, Any] = {"costly model": type(costly).__name__, "costly": told(whole[1])}
    for method, options in found.items():
        enough = [pair for pair in options if pair[0].accuracy >= whole[0].accuracy - TOLERANCE - 1e-12]
        best = min(enough, key=lambda pair: pair[0].cost, default=None)
        record[method] = None if best is None else told(best[1])
    paid = {method: whole[1].cost if record[method] is None else record[method]["cost"] for method in found}
    rivals = {method: paid[method] for method in RIVALS}
    record["best rival"] = min(rivals, key=lambda method: rivals[method])
    for method in found:
        record[f"{method}: saved of the costly model"] = 1 - paid[method] / whole[1].cost
    record[f"{own}: saved against the best rival"] = 1 - paid[own] / min(rivals.values())
    return record


def costly_alone(split: Split, costly: Any) -> tuple[Point, Point]:
    """The costly model for all rows."""
    ready = AdaptiveClassifier(costly, costs=split.costs)
    question, _ = ready._question(*split.train, None, None)
    asked = read_costly(question, "insample")
    costs = split.costs.bind(split.train[0].shape[1])
    width = 1 if split.n_classes == 2 else split.n_classes
    plan = Chain([], asked.block).without_asking.plan(
        costs, np.zeros(width), "logistic" if width == 1 else "softmax"
    )
    prices = costs.costs.amounts(costs.prices)
    first, second = (
        Point(-np.inf, float(costly.score(X, y)), float((paid(plan, X)[0] @ prices).mean()), 1.0)
        for X, y in (split.valid, split.test)
    )
    return first, second


def told(point: Point) -> dict[str, float]:
    """What a point comes to."""
    return {"cost": round(point.cost, 4), "accuracy": round(point.accuracy, 5)}


def seconds_of_a_fit() -> dict[str, float]:
    """One fit with default settings at 50,000 rows and 50 columns, the costly model's probabilities given."""
    X, y = make_classification(
        50_000, 50, n_informative=20, n_clusters_per_class=8, flip_y=0.02, random_state=0
    )
    noise = 0.15 * np.random.default_rng(0).standard_normal(len(y))
    second = np.clip(np.where(y == 1, 0.9, 0.1) + noise, 0.01, 0.99)
    wall, cpu = time.perf_counter(), time.process_time()
    AdaptiveClassifier(np.column_stack([1 - second, second]), n_jobs=2, random_state=0).fit(X, y)
    return {"wall": round(time.perf_counter() - wall, 1), "processor": round(time.process_time() - cpu, 1)}


def one_set(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over draws, what a method that was not accurate enough pays being the costly model's cost."""
    found: dict[str, Any] = {}
    for method in ("costly", "ladder", *RIVALS):
        done = [r[method] or r["costly"] for r in repeats]
        found[method] = {
            "cost": spread([d["cost"] for d in done]),
            "accuracy less the costly model's": spread(
                [d["accuracy"] - r["costly"]["accuracy"] for d, r in zip(done, repeats, strict=True)]
            ),
            "draws in which it is accurate enough": sum(r[method] is not None for r in repeats),
        }
    for key in ("ladder: saved of the costly model", "ladder: saved against the best rival"):
        found[key] = spread([r[key] for r in repeats])
    least = min(found[method]["cost"]["mean"] for method in RIVALS)
    found["ladder: saved in mean cost against the best rival in mean cost"] = round(
        1 - found["ladder"]["cost"]["mean"] / least, 4
    )
    return {**found, "draws": repeats}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three sets, one draw")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="comma separated")
    parser.add_argument("--name", default="adaptive", help="results/NAME.json is written")
    parser.add_argument("--repeats", type=int, default=len(SEEDS), help="draws of each set, at most")
    parser.add_argument("--keep", type=Path, help="folder of what is done: a run can then go on")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
    names = (
        options.sets.split(",") if options.sets else list(QUICK_SETS if options.quick else (*FIVE, *FURTHER))
    )
    seeds = SEEDS[: 1 if options.quick else options.repeats]
    sets = {}
    for name in names:
        sets[name] = one_set([one_repeat(name, seed, options.data, options.keep) for seed in seeds])
        print(name, {k: v for k, v in sets[name].items() if k != "draws"}, flush=True)
    if options.quick:
        return
    thesis = {
        name: one_repeat(name, THESIS_SEED, options.data, options.keep, "ADAPT-GBRT")
        for name in THESIS
        if name in names
    }
    saved = [sets[n]["ladder: saved against the best rival"]["mean"] for n in FIVE if n in sets]
    figures = {
        "tolerance": TOLERANCE,
        "ADAPT-GBRT": LEARNING,
        "ADAPT-GBRT on draw 1": thesis,
        "seconds of a fit of ADAPT-GBRT, 50,000 x 50": kept(options.keep, "seconds", seconds_of_a_fit),
        "Synthetic-1": kept(options.keep, "synthetic-1", synthetic_1),
        "Synthetic-2": kept(options.keep, "synthetic-2", synthetic_2),
        "draws": [seeds[0], seeds[-1]],
        "sets": sets,
        "of the five sets, those with 30 % less than the best rival": sum(share >= BAR for share in saved),
        "printed, of the costly model": PRINTED,
    }
    write(options.name, figures)


if __name__ == "__main__":
    main()
