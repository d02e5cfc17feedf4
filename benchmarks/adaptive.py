"""A cheap model and a gate in front of a costly one: chapter 5 of Nan's thesis on the sets that can be had.

How much of the costly model's cost is saved at an accuracy within one percentage point of its own, and how much less is paid than
by the best of its rivals: a forest of 40 trees pruned, Greedy Miser, LightGBM's cost-effective boosting (cegb), and a plain
cascade, in which a boosted model asks the costly one where its own margin is small. All settings are chosen on validation rows,
the cheapest that is accurate enough there; costs and accuracies told are those of test rows. A rival that is never accurate
enough is counted at the cost of the costly model for all rows.

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
from _forest_curves import Pair, cegb, greedy_miser, kept, spread
from _forest_prunings import as_the_library_prunes, base
from _forest_sets import SETS, Split
from anytime.adaptive import AdaptiveClassifier, Sweep, sweep
from anytime.adaptive.choosing import Point
from anytime.adaptive.costly import read_costly
from anytime.adaptive.stages import Chain
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from common import write

Array = NDArray[np.float64]

TOLERANCE, BAR = 0.01, 0.3
GAMMAS = (0.03, 0.1, 0.2, 0.4, 0.8)  # entropy of the classes per price of everything
FRACTIONS = (0.1, 0.4)
LEARNING = {"n_trees": 100, "learning_rate": 0.1, "max_depth": 4, "max_iter": 3}
PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)  # of the cascade's cheap model, as Greedy Miser's
MARGINS = 24  # thresholds of the cascade
MOST_FOR_SVM = 15_000  # training rows
QUICK_SETS = ("letters", "miniboone-small", "satimage")
NAMES = ("letters", "miniboone-small", "spambase", "magic", "satimage", "pendigits", "covtype", "miniboone")
REPEATS = {"covtype": 2, "miniboone": 2}
PRINTED = {"miniboone": 0.63, "covtype": 0.32, "yahoo": 0.58, "cifar10": 0.12, "letters": 0.31}


def drawn(name: str, folder: str, seed: int) -> Split:
    """Rows of a set; Letters is A to M against N to Z, as in the thesis."""
    if name != "letters":
        return SETS[name].split(name, folder, seed)
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
        at.GradientBoostingClassifier(n_stages=300, max_leaves=31),
    ]
    if len(y) <= MOST_FOR_SVM:
        models.append(make_pipeline(StandardScaler(), SVC(C=30, gamma=3.2 / X.shape[1])))
    return max((model.fit(X, y) for model in models), key=lambda model: model.score(*split.valid))


def adaptive(split: Split, costly: Any) -> Sweep:
    """Every gamma and every fraction."""
    share = np.bincount(split.train[1]) / len(split.train[1])
    unit = -float(share @ np.log(share)) / split.costs.total
    settings = [{"gamma": unit * g, "costly_fraction": p} for g in GAMMAS for p in FRACTIONS]
    model = AdaptiveClassifier(costly, costs=split.costs, random_state=0, **LEARNING)
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
            split.costs, n_stages=100, penalty=penalty * scale, max_depth=4, max_leaves=None
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


def one_repeat(name: str, seed: int, folder: str, keep: Path | None) -> dict[str, Any]:
    """All methods on one draw: the cost and accuracy on test rows of the cheapest setting that is accurate enough."""
    memory: dict[str, Any] = {}

    def split() -> Split:
        if "split" not in memory:
            memory["split"] = drawn(name, folder, seed)
        return memory["split"]

    def done(key: str, make: Callable[[], Any]) -> Any:
        return kept(keep, f"{name}/{seed}/{key}", make)

    costly = done("costly", lambda: costly_model(split(), seed))
    ours = done("adaptive", lambda: adaptive(split(), costly))
    found = {
        "adaptive": [(chosen, worth) for _, chosen, worth in ours.frontier()],
        "pruned forest": points(
            {"entropy": done("pruned", lambda: as_the_library_prunes(base(split(), seed, "entropy")))}
        ),
        "Greedy Miser": points(done("miser", lambda: greedy_miser(split()))),
        "cegb": points(done("cegb", lambda: cegb(split()))),
        "cascade": done("cascade", lambda: cascade(split(), costly)),
    }
    top, whole = ours.costly["validation"].accuracy, ours.costly["test"]
    record: dict[str, Any] = {
        "costly model": type(costly).__name__,
        "costly": {"cost": whole.cost, "accuracy": whole.accuracy},
    }
    for method, options in found.items():
        enough = [pair for pair in options if pair[0].accuracy >= top - TOLERANCE]
        best = min(enough, key=lambda pair: pair[0].cost, default=None)
        record[method] = None if best is None else {"cost": best[1].cost, "accuracy": best[1].accuracy}
    rivals = {k: record[k]["cost"] for k in found if k != "adaptive" and record[k] is not None}
    record["best rival"] = min(rivals, key=lambda k: rivals[k], default="costly")
    rival_cost = min([*rivals.values(), whole.cost])
    own = whole.cost if record["adaptive"] is None else record["adaptive"]["cost"]
    record["saved of the costly model"] = 1 - own / whole.cost
    record["saved against the best rival"] = 1 - own / rival_cost
    record["area under the curve"] = ours.area()
    return record


def seconds_of_a_fit() -> dict[str, float]:
    """One fit with default settings at 50,000 rows and 50 columns, the costly model's chances given."""
    X, y = make_classification(
        50_000, 50, n_informative=20, n_clusters_per_class=8, flip_y=0.02, random_state=0
    )
    noise = 0.15 * np.random.default_rng(0).standard_normal(len(y))
    second = np.clip(np.where(y == 1, 0.9, 0.1) + noise, 0.01, 0.99)
    wall, cpu = time.perf_counter(), time.process_time()
    AdaptiveClassifier(np.column_stack([1 - second, second]), n_jobs=2, random_state=0).fit(X, y)
    return {"wall": round(time.perf_counter() - wall, 1), "processor": round(time.process_time() - cpu, 1)}


def one_set(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over draws."""
    keys = ("saved of the costly model", "saved against the best rival", "area under the curve")
    return {**{key: spread([r[key] for r in repeats]) for key in keys}, "repeats": repeats}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three sets, one repeat")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="comma separated")
    parser.add_argument("--repeats", type=int, default=5, help="of each set, at most")
    parser.add_argument("--keep", type=Path, help="folder of what is done: a run can then go on")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
    names = options.sets.split(",") if options.sets else list(QUICK_SETS if options.quick else NAMES)
    sets = {}
    for name in names:
        most = 1 if options.quick else min(REPEATS.get(name, 5), options.repeats)
        sets[name] = one_set([one_repeat(name, seed, options.data, options.keep) for seed in range(most)])
        print(name, {k: v for k, v in sets[name].items() if k != "repeats"}, flush=True)
    if options.quick:
        return
    saved = [s["saved against the best rival"]["mean"] for s in sets.values()]
    figures = {
        "tolerance": TOLERANCE,
        "learning": LEARNING,
        "seconds of a fit, 50,000 x 50": seconds_of_a_fit(),
        "sets": sets,
        "sets with 30 % less than the best rival": sum(share >= BAR for share in saved),
        "printed, of the costly model": PRINTED,
    }
    write("adaptive", figures)


if __name__ == "__main__":
    main()
