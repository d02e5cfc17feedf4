"""Figures of Grubb and Bagnell, *SpeedBoost* (2012), and of chapter 6 of Grubb, *Anytime Prediction* (2014).

1 and 6 of the former are 6.2 and 6.1 of the latter ("uci"); 6.7 ("ranking"), 6.8 ("groups"), and one of our own ("folds").

The texts print curves and no numbers, so what they say of the curves is checked; where it does not hold, that is what is printed.

uci
    SpeedBoost.Proj against AdaBoost.MM: trees of many depths that vote, multiclass exponential loss, cost = mean number of tests
    that a test row passes. .MP against .OMP. The official rows of pendigits and of covertype (11,340 to learn from, of equal
    classes, which the others are not: hence also as many rows drawn at random), judged on at most 10,000. Leaves hold at least
    20 rows: on pendigits a tree of depth 20 without this bound makes no mistake, and is then all of AdaBoost.MM's model.
ranking
    SpeedBoost over six prices of first use against Greedy Miser at each: squared loss on the grade, one unit per tree. The Yahoo!
    set is licensed: a look-alike with its 519 prices takes its place, and MQ2008 and LightGBM's example, with drawn prices. The
    prices of first use are the printed ones, in units of half the sum of squares; there are fewer rows here than the
    473,134 of the thesis, so each weighs more.
groups
    The same on descriptors that are bought whole, chosen by held-out gain or by training gain. Scene-15's descriptors are not
    to be had: the six of mfeat take their place, 649 columns for 600 rows, at made-up prices.
folds
    Two ways out of the trap that early steps use up the residual: choices at held-out scores, and models of full strength that
    replace the answer. pendigits at prices 1, 5, 20.

    python benchmarks/speedboost_figures.py [--figure uci ...] [--data DIR] [--pictures DIR]

Results are written only when all figures are run.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from _quality_sets import SETS
from _speedboost_curves import Array, Course, follow, log_area, picture, visits
from anytime.boosting import AdditiveSpeedBoostClassifier, SpeedBoostClassifier
from anytime.boosting.adaboost import EdgeSteps
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.learners import TrainingRows, TreeLearner
from anytime.boosting.objective import MeanLoss
from anytime.boosting.trainer import BoostingRules, Trainer
from anytime.curves import ndcg
from anytime.losses import training_loss
from anytime_research import datasets as research_datasets
from anytime_research.boosting.cross_fitting import CrossFittedSpeedBoostClassifier
from anytime_research.curves import upper_envelope
from anytime_research.datasets import load_yahoo_costs
from anytime_research.datasets.lookalikes import make_ranking
from common import write

Numbers = NDArray[Any]

DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)
LEAF_ROWS = 20
TEST_ROWS = 10_000
BUDGETS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)  # mean tests per row
MOST_TESTS = 250.0
MULTIPLES = (3.0, 2.0, 1.5, 1.25, 1.0)  # of AdaBoost.MM's final error

PENALTIES = (0.0, 0.5, 1.0, 2.0, 4.0, 10.0)
RANKING_ROWS = 20_000
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the price of all features

HELD_OUT = {"holdout": 0.1, "n_iter_no_change": 20}
RATE = 0.3  # of each step, for all methods
STEPS = 200
GROUP_STEPS = 150
FOLD_STAGES = 300

DESCRIPTORS = {
    "pixel": 1.0,
    "morphological": 2.0,
    "fourier": 5.0,
    "karhunen": 10.0,
    "zernike": 20.0,
    "factors": 50.0,
}


# ---------------------------------------------------------------------- depth classes


def uci_rows(name: str, folder: Path) -> tuple[Array, Numbers, Numbers, Numbers]:
    """Columns, classes, rows to learn from, rows to judge on."""
    data = research_datasets.load(name.split(",")[0], folder=folder)
    X, y = np.asarray(data.X, dtype=np.float64), np.unique(data.y, return_inverse=True)[1]
    train, test = data.train, np.random.default_rng(0).permutation(data.test)[:TEST_ROWS]
    if name.endswith("at random"):
        drawn = np.random.default_rng(1).permutation(len(y))
        train, test = drawn[: len(train)], drawn[-TEST_ROWS:]
    return X, y, train, test


def uci(folder: Path, pictures: Path | None) -> dict[str, Any]:
    """Figures 6.2 and 6.1."""
    record: dict[str, Any] = {"depths": DEPTHS, "budgets": BUDGETS}
    for name in ("pendigits", "covtype", "covtype, rows at random"):
        courses = depth_courses(*uci_rows(name, folder))
        record[name] = {run: course.table(BUDGETS) for run, course in courses.items()}
        record[name]["scores"] = uci_scores(courses)
        tell(name, record[name])
        if pictures:
            picture(pictures, f"uci {name}", courses, {"quality": "test error", "objective": "training loss"})
    return record


def depth_courses(X: Array, y: Numbers, train: Numbers, test: Numbers) -> dict[str, Course]:
    """All methods on the same classes of trees."""
    table, loss = TrainingRows(X[train]), training_loss("multiclass_exponential")
    free = at.FeatureCosts(np.zeros(X.shape[1])).bind(X.shape[1])
    blind = {"cost_aware": False}

    def run(
        depths: tuple[int, ...],
        objective: type[MeanLoss] = MeanLoss,
        most: float = MOST_TESTS,
        **rules: Any,
    ) -> Course:
        learners = [
            TreeLearner(max_depth=d, leaf="vote", visit_cost=1.0, min_samples_leaf=LEAF_ROWS) for d in depths
        ]
        candidates = FittedCandidates(learners, table, np.ones(len(train)), free, step_cost=1e-3)
        trainer = Trainer(objective(loss, y[train]), candidates, BoostingRules(tol=0.0, **rules))
        return follow(
            trainer, X[test], lambda scores: float((scores.argmax(axis=1) != y[test]).mean()),
            n_steps=10_000, most=most, evaluation=visits(X[test]),
        )  # fmt: skip

    return {
        "SpeedBoost.Proj": run(DEPTHS),
        "AdaBoost.MM": run(DEPTHS, EdgeSteps, **blind),
        "SpeedBoost.Proj, half steps": run(DEPTHS, learning_rate=0.5),
        "AdaBoost.MM, half steps": run(DEPTHS, EdgeSteps, learning_rate=0.5, **blind),
        **{f"AdaBoost.MM, depth {d}": run((d,), EdgeSteps, **blind) for d in (4, 8)},
        "SpeedBoost.MP": run(DEPTHS, most=MOST_TESTS / 2, selection="inner"),
        "SpeedBoost.OMP": run(DEPTHS, most=MOST_TESTS / 2, selection="inner", reweight="all"),
    }


def uci_scores(courses: dict[str, Course]) -> dict[str, Any]:
    """What the papers say of the curves, in numbers."""
    scores: dict[str, Any] = {}
    for kind in ("", ", half steps"):
        speed, ada = courses["SpeedBoost.Proj" + kind], courses["AdaBoost.MM" + kind]
        errors = [m * float(ada.quality[-1]) for m in MULTIPLES if m * ada.quality[-1] < ada.quality[0]]
        last = min(speed.costs[-1], ada.costs[-1])
        scores["half steps" if kind else "full steps"] = {
            "errors": [round(error, 4) for error in errors],
            "cost_of_speedboost": [speed.cost_of(error) for error in errors],
            "cost_of_adaboost": [ada.cost_of(error) for error in errors],
            "final_errors": [round(float(c.quality[-1]), 4) for c in (speed, ada)],
            "log_areas": [round(log_area(c, speed.costs[1], last), 4) for c in (speed, ada)],
        }
    mp, omp = courses["SpeedBoost.MP"], courses["SpeedBoost.OMP"]
    costs = np.linspace(0.0, min(mp.costs[-1], omp.costs[-1]), 500)
    gap = np.interp(costs, mp.costs, mp.objective) - np.interp(costs, omp.costs, omp.objective)
    scores["MP and OMP"] = {
        "gaps_over_start": [
            round(float(gap.min() / mp.objective[0]), 4),
            round(float(gap.max() / mp.objective[0]), 4),
        ],
        "final_errors": [round(float(c.quality[-1]), 4) for c in (mp, omp)],
    }
    return scores


# ---------------------------------------------------------------------- prices of first use


def prices_of_first_use(
    objective: MeanLoss,
    table: TrainingRows,
    costs: at.FeatureCosts,
    depth: int,
    rules: dict[str, dict[str, Any]],
    step_cost: float,
    judged: Callable[[Trainer], Course],
) -> dict[str, Course]:
    """SpeedBoost, by each of some rules, over all prices of first use; and Greedy Miser at each of them."""
    bound, base = costs.bind(table.X.shape[1]), objective.loss.base(objective.y)
    learners = {
        p: TreeLearner(max_depth=depth, cost_penalty=p, scale="half_sum", min_samples_leaf=10)
        for p in PENALTIES
    }

    def run(chosen: list[TreeLearner], **options: Any) -> Course:
        candidates = FittedCandidates(chosen, table, objective.weight, bound, step_cost=step_cost)
        return judged(
            Trainer(objective, candidates, BoostingRules(**options), base, np.random.RandomState(0))
        )

    speed = {name: run(list(learners.values()), **options) for name, options in rules.items()}
    common = {k: v for k, v in next(iter(rules.values())).items() if k == "learning_rate"}
    return speed | {
        f"Miser {p:g}": run([learner], cost_aware=False, **common) for p, learner in learners.items()
    }


def against_envelope(courses: dict[str, Course], name: str, first: float) -> dict[str, Any]:
    """The training objective of a run over the lower envelope of all Miser runs, from a first cost to where the run ends."""
    envelope = upper_envelope([c.curve("objective") for run, c in courses.items() if run.startswith("Miser")])
    mine = courses[name]
    costs = np.geomspace(max(first, mine.costs[1]), mine.costs[-1], 200)
    ratio = mine.curve("objective").at(costs) / envelope.at(costs)
    return {
        "costs": [round(float(costs[0]), 2), round(float(costs[-1]), 2)],
        "worst_ratio": round(float(ratio.max()), 4),
        "at_cost": round(float(costs[ratio.argmax()]), 2),
        "mean_ratio": round(float(ratio.mean()), 4),
        "least_ratio": round(float(ratio.min()), 4),
    }


def rankings(folder: Path) -> dict[str, tuple[Any, at.FeatureCosts, Numbers, Numbers]]:
    """Rows, prices, rows to learn from, rows to judge on."""
    yahoo = load_yahoo_costs(folder=folder)
    levels = np.array([yahoo.price([name]) for name in yahoo.names])
    look_alike = make_ranking(RANKING_ROWS, prices=yahoo)
    seen = look_alike.qid < look_alike.qid[int(0.6 * RANKING_ROWS)]
    found = {"look-alike": (look_alike, yahoo, np.flatnonzero(seen), np.flatnonzero(~seen))}
    for name in ("mq2008", "lgb-rank"):
        data = research_datasets.load(name, folder=folder)
        drawn = np.random.default_rng(0).choice(levels, data.X.shape[1])
        found[name] = (data, at.FeatureCosts(drawn), data.train, data.test)
    return found


def ranking(folder: Path, pictures: Path | None) -> dict[str, Any]:
    """Figure 6.7."""
    record: dict[str, Any] = {"penalties": PENALTIES, "shares_of_price": SHARES}
    for name, (data, costs, train, test) in rankings(folder).items():
        X, y, query = (
            np.asarray(data.X, dtype=np.float64),
            np.asarray(data.y, dtype=np.float64),
            np.asarray(data.qid),
        )

        def judged(
            trainer: Trainer, X: Array = X[test], y: Array = y[test], query: Numbers = query[test]
        ) -> Course:
            return follow(
                trainer, X, lambda scores: ndcg(y, scores[:, 0], query, 5, zero_ideal="skip"),
                n_steps=STEPS, sparse=True,
            )  # fmt: skip

        courses = prices_of_first_use(
            MeanLoss(training_loss("squared"), y[train]), TrainingRows(X[train]), costs, 4,
            {"SpeedBoost": {"learning_rate": RATE}, "SpeedBoost, held-out gain": {"learning_rate": RATE, **HELD_OUT}},
            1.0, judged,
        )  # fmt: skip
        budgets = tuple(share * costs.total for share in SHARES)
        record[name] = {run: course.table(budgets) for run, course in courses.items()}
        record[name] |= {
            "rows": [len(train), len(test)],
            "price": costs.total,
            "training_loss_over_envelope": against_envelope(courses, "SpeedBoost", 1.0),
            "ndcg_of_best_miser": best_miser(courses, budgets),
        }
        tell(name, record[name])
        if pictures:
            picture(
                pictures, f"ranking {name}", courses, {"objective": "training loss", "quality": "test NDCG@5"}
            )
    return record


def best_miser(courses: dict[str, Course], budgets: tuple[float, ...]) -> list[float]:
    """At each budget and at the end, NDCG of the Miser run that is best there on these very rows."""
    curves = [
        c.curve("quality", greater_is_better=True) for run, c in courses.items() if run.startswith("Miser")
    ]
    return [round(max(float(c.at(b)) for c in curves), 4) for b in (*budgets, 1e9)]


# ---------------------------------------------------------------------- descriptors


def groups(folder: Path, pictures: Path | None) -> dict[str, Any]:
    """Figure 6.8."""
    data = research_datasets.load("mfeat", folder=folder)
    X, y = np.asarray(data.X, dtype=np.float64), np.unique(data.y, return_inverse=True)[1]
    costs = at.FeatureCosts(DESCRIPTORS, groups=data.costs.groups)
    drawn = np.random.default_rng(0).permutation(len(y))
    train, test = drawn[:600], drawn[600:]
    courses = prices_of_first_use(
        MeanLoss(training_loss("multinomial"), y[train]), TrainingRows(X[train], max_bins=63), costs, 3,
        {
            "SpeedBoost, held-out gain": {"learning_rate": RATE, **HELD_OUT},
            "SpeedBoost, training gain": {"learning_rate": RATE},
        }, 0.1,
        lambda trainer: follow(
            trainer, X[test], lambda scores: float((scores.argmax(axis=1) != y[test]).mean()), n_steps=GROUP_STEPS
        ),
    )  # fmt: skip
    budgets = tuple(share * costs.total for share in SHARES)
    record: dict[str, Any] = {run: course.table(budgets) for run, course in courses.items()}
    for run, course in courses.items():
        record[run]["descriptors_bought"] = changes(course)
    record |= {"rows": [len(train), len(test)], "prices": DESCRIPTORS, "shares_of_price": SHARES}
    record["training_loss_over_envelope"] = {
        run: against_envelope(courses, run, 1.0) for run in courses if run.startswith("SpeedBoost")
    }
    tell("mfeat", record)
    if pictures:
        picture(pictures, "groups", courses, {"objective": "training loss", "quality": "test error"})
    return record


def changes(course: Course) -> list[tuple[int, float]]:
    """The steps at which something was bought, and the price of everything bought by then."""
    at_step = np.flatnonzero(np.diff(course.bought) > 0) + 1
    return [(int(s), float(course.bought[s])) for s in at_step]


# ---------------------------------------------------------------------- ways out of the trap


def folds(folder: Path, pictures: Path | None) -> dict[str, Any]:
    """Errors at shares of the price, for stages that add, that add by held-out choices, and that replace."""
    shares = (0.03, 0.1, 0.25, 0.5, 1.0)
    models = {
        "adding": AdditiveSpeedBoostClassifier(n_estimators=FOLD_STAGES),
        "adding, 5 folds": CrossFittedSpeedBoostClassifier(n_estimators=FOLD_STAGES),
        "replacing": SpeedBoostClassifier(),
    }
    record: dict[str, Any] = {"shares_of_price": shares}
    for seed in range(2):
        problem = SETS["pendigits"].problem(str(folder), seed)
        budgets = [share * problem.costs.total for share in shares]
        for name, model in models.items():
            began = time.perf_counter()
            model.set_params(costs=problem.costs, random_state=0).fit(*problem.joined())
            errors = [float(problem.loss(model.predict(problem.X_test, budget=b)).mean()) for b in budgets]
            record.setdefault(name, []).append(
                {
                    "errors": [round(e, 4) for e in errors],
                    "stages": model.n_stages_,
                    "cost": round(float(model.stage_costs_[-1]), 2),
                    "price": problem.costs.total,
                    "seconds": round(time.perf_counter() - began, 1),
                }
            )
            tell(f"seed {seed} {name}", record[name][-1])
    return record


# ---------------------------------------------------------------------- running


def tell(name: str, record: dict[str, Any]) -> None:
    """Print as it comes."""
    print(f"  {name}")
    for key, value in record.items():
        print(f"    {key}: {value}", flush=True)


FIGURES: dict[str, Callable[[Path, Path | None], dict[str, Any]]] = {
    "uci": uci,
    "ranking": ranking,
    "groups": groups,
    "folds": folds,
}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--figure", nargs="*", choices=list(FIGURES), default=list(FIGURES))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ANYTIME_DATA", "data")))
    parser.add_argument("--pictures", type=Path, default=None)
    options = parser.parse_args()
    record = {}
    for name in options.figure:
        began = time.perf_counter()
        record[name] = FIGURES[name](options.data, options.pictures)
        record[name]["seconds"] = round(time.perf_counter() - began)
    if len(record) == len(FIGURES):
        write("speedboost_figures", record)


if __name__ == "__main__":
    main()
