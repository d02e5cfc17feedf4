"""Streaming boosting beside learners one after another and a single one, at equal cost: Table 5.1, Figures 5.1 and 5.2 of H.

Costs are in units: a prediction of one learner on one row is one, an update two. Streaming boosting (SGB) of N learners on T rows
takes ``3 T N`` of them; learners one after another (GB) get ``6 T / (N + 5)`` rows each, which costs the same; a single learner
(Base) learns from N times as many rows. "Base as printed" takes half a step from 0 towards a target that is not centred, as the
printed figures suggest; "Base, fair" a whole step from the mean. Rows are passed over in a new order each time, 32 to a round;
columns are standardised by the training rows. Learners are the thesis' small networks; on MNIST networks of 5 hidden units on all
pixels, and, in one draw, the thesis' convolutions, for which one pass is little. YEAR and SLICE are not to be had: kin40k, the
largest set with a number for a target, has YEAR's learner, and pol SLICE's.

Steps were chosen on draw 100, for streaming boosting; draws 0, 1, ... are told. Where the split is given, as on a9a and MNIST,
all of these have the same test rows; draw 100 has some of the training rows instead (that of a9a was chosen before this was so).
Nothing was chosen on MNIST.

Figure 5.1: average regret against a tree of depth 15 fitted in hindsight, of streaming boosting with trees by follow the
regularised leader, in one pass: by the number of learners after all rows, and of all learners by the number of rows.

Where the distribution moves: what watching for it, or trees that forget, do on made-up streams of which half-way nothing, the
sign of the target or the columns that matter change. The noise has an error of 0.5.

    python benchmarks/streaming_tables.py [--quick] [--data DIR] [--sets "a;b"] [--repeats N] [--keep DIR] [--parts tables ...]

A run with ``--keep`` can be broken off and goes on where it was. Parts that are not asked for keep the figures of the last run.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from _forest_curves import kept, spread
from anytime.streaming.banks import SmallNet, StreamLearner
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import StreamLoss, loss_named
from anytime.streaming.partial_sums import averaged
from anytime.streaming.projections import Box
from anytime_research import datasets as research_datasets
from anytime_research.streaming.baselines import BlockBoosting, break_even_rows, one_learner, streaming_units
from anytime_research.streaming.convolutions import SmallConvNet
from anytime_research.streaming.counterexample import Uneven, axis_run, leaders_run
from anytime_research.streaming.refitted_trees import FtrlTree
from anytime_research.streaming.regret import StreamRegret, deep_tree
from common import RESULTS, write

Array = NDArray[np.float64]
Model = BoostedBank | BlockBoosting

ROUND = 32  # rows
DEVELOPMENT = 100  # draws from here on are for choosing
POINTS = 2.0 ** np.arange(-6, 1)  # shares of all units at which test rows are answered
NUMBERS = (1, 3, 8, 20, 64)  # of learners, at the units of the first set
PRINTED = {
    "abalone": {"Base": 8.2848, "GB": 2.1411, "SGB": 2.1532},
    "year": {"Base": 4.99e5, "GB": 42.8976, "SGB": 43.0573},
    "slice": {"Base": 0.036045, "GB": 0.000755, "SGB": 0.000713},
    "a9a": {"Base": 0.1547, "GB": 0.1579, "SGB": 0.1523},
    "mnist": {"Base": 0.163280, "GB": 0.019320, "SGB": 0.016320},
}


@dataclass(frozen=True)
class Task:
    """A set, its learners, and how long streaming boosting goes on."""

    learner: StreamLearner
    loss: str
    n_estimators: int
    passes: int
    share: float = 0.2  # of the inverse smoothness: the step of boosting
    repeats: int = 3
    converging: bool = True  # whether GB is also run by a test of convergence


TASKS = {
    "abalone": Task(SmallNet(hidden=1, learning_rate=3e-3), "squared", 20, 60),
    "a9a": Task(SmallNet(hidden=1, learning_rate=1e-3), "logistic", 8, 6),
    "pol": Task(
        SmallNet(hidden=10, activation="leaky_relu", learning_rate=3e-3),
        "squared",
        20,
        20,
        converging=False,
    ),
    "kin40k": Task(SmallNet(hidden=10, learning_rate=1e-2), "squared", 20, 10, converging=False),
    "mnist": Task(SmallNet(hidden=5, learning_rate=3e-3), "softmax", 10, 1, 0.5, repeats=2, converging=False),
    "mnist, convolutions": Task(
        SmallConvNet(learning_rate=3e-3), "softmax", 10, 1, 0.5, repeats=1, converging=False
    ),
}

REGRET_LOSSES = {"a9a": ("logistic", "hinge"), "pol": ("squared", "absolute")}  # smooth, with kinks
DEPTHS = (1, 3, 5)
REGRET_LEARNERS = 20
WIDEST = 5.0  # partial sums of Algorithm 7 stay within
KINKED_STEP = 0.3  # of it, at most; chosen on draw 100, as are gates
TOLD = (0, 1, 2, 4, 8, 12, 16, 20)  # numbers of learners


# ---------------------------------------------------------------------- rows


@dataclass(frozen=True)
class Rows:
    """Training and test rows; a target is in deviations, and has the mean 0 where ``mean`` was taken off."""

    X: Array
    y: NDArray[Any]
    test: Array
    truth: NDArray[Any]
    mean: float
    scale: float
    classes: int  # 0: a number

    def stream(self, seed: int, n_rounds: int) -> Iterator[NDArray[np.intp]]:
        """Numbers of the rows of so many rounds after another, without end."""
        rng = np.random.default_rng([seed, 1])
        while True:
            order = rng.permutation(len(self.X))
            size = n_rounds * ROUND
            yield from (order[at : at + size] for at in range(0, len(order), size))


def drawn(name: str, seed: int, data: str) -> Rows:
    """The given split, or nine tenths of the rows at random; of the given training rows on draws that things are chosen on."""
    rows = research_datasets.load(name.split(",")[0], folder=data)
    X, y = np.asarray(rows.X, dtype=np.float64), np.asarray(rows.y)
    given = rows.train is not None and rows.test is not None
    if given and seed < DEVELOPMENT:
        train, test = np.asarray(rows.train), np.asarray(rows.test)
    else:
        known = np.asarray(rows.train) if given else np.arange(len(X))
        order = known[np.random.default_rng([seed, 0]).permutation(len(known))]
        train, test = np.split(order, [round(0.9 * len(order))])
    centre, width = X[train].mean(axis=0), X[train].std(axis=0)
    if name.startswith("mnist"):  # pixels that are mostly blank would be blown up
        centre, width = np.zeros(X.shape[1]), np.full(X.shape[1], 255.0)
    X = (X - centre) / np.where(width > 0, width, 1.0)
    classes = 0 if TASKS[name].loss == "squared" else len(np.unique(y))
    mean, scale = (0.0, 1.0) if classes else (float(y[train].mean()), float(y[train].std()))
    return Rows(X[train], (y[train] - mean) / scale, X[test], y[test], mean, scale, classes)


def judged(rows: Rows, scores: Array) -> float:
    """On test rows: half of the squared error in the units of the target, or the share of wrong classes."""
    if not rows.classes:
        return 0.5 * float(np.mean((rows.mean + rows.scale * scores[:, 0] - rows.truth) ** 2))
    said = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float((said != rows.truth).mean())


# ---------------------------------------------------------------------- the table


def curve(model: Model, rows: Rows, seed: int, units: float, offset: float = 0.0) -> dict[str, Any]:
    """Test losses of a model that learns until it has spent so many units; ``offset``: what its target is off by."""
    losses: list[float] = []
    learned, stream = 0, rows.stream(seed, 1 if isinstance(model, BlockBoosting) else 16)
    points = POINTS * units
    while len(losses) < len(points):
        some = next(stream)
        model.learn(rows.X[some], rows.y[some] + offset, batch_size=ROUND)
        learned += len(some)
        while len(losses) < len(points) and _spent(model) >= points[len(losses)]:
            losses.append(judged(rows, model.predict(rows.test) - offset))
    return {"rows": learned, "test_loss": losses, **_blocks(model)}


def _spent(model: Model) -> float:
    """Units that learning has cost so far."""
    return (
        model.units if isinstance(model, BlockBoosting) else streaming_units(model.n_rows, model.n_estimators)
    )


def _blocks(model: Model) -> dict[str, Any]:
    return {"learners": len(model.blocks)} if isinstance(model, BlockBoosting) else {}


def one_draw(name: str, seed: int, data: str) -> dict[str, Any]:
    """Every method on one draw, with the same units."""
    task, rows = TASKS[name], drawn(name, seed, data)
    loss = loss_named(task.loss)
    n_rows, d, m = task.passes * len(rows.X), rows.X.shape[1], rows.classes if rows.classes > 2 else 1
    units = streaming_units(n_rows, task.n_estimators)
    off = rows.mean / rows.scale

    def one_after_another(rows_each: int | None) -> BlockBoosting:
        settings: dict[str, Any] = {
            "n_estimators": task.n_estimators,
            "rows": rows_each,
            "random_state": seed,
        }
        return BlockBoosting(task.learner, loss, d, m, **settings, step=_step(task, loss))

    def single(fair: bool) -> BoostedBank:
        return one_learner(task.learner, loss, d, m, fair=fair, random_state=seed)

    methods: dict[str, Callable[[], dict[str, Any]]] = {
        "SGB": lambda: curve(_streaming(task, loss, d, m, seed), rows, seed, units),
        "GB": lambda: curve(
            one_after_another(int(break_even_rows(n_rows, task.n_estimators))), rows, seed, units
        ),
        "Base, fair": lambda: curve(single(True), rows, seed, units),
    }
    if not rows.classes:  # half a step gives the same classes as a whole one
        methods["Base as printed"] = lambda: curve(single(False), rows, seed, units, off)
    if task.converging:
        methods["GB, each until it converges"] = lambda: curve(one_after_another(None), rows, seed, units)
    found = {"units": units, **{method: run() for method, run in methods.items()}}
    return {"Base as printed": found["Base, fair"], **found}


def _streaming(task: Task, loss: StreamLoss, d: int, m: int, seed: int, n: int | None = None) -> BoostedBank:
    return BoostedBank(task.learner.make(n or task.n_estimators, d, m, seed), loss, step=_step(task, loss))


def _step(task: Task, loss: StreamLoss) -> float:
    return task.share / (loss.smoothness() or 1.0)


def numbers(name: str, seed: int, data: str) -> dict[int, float]:
    """Streaming boosting with other numbers of learners, at the units of the table (panel f of Figure 5.2)."""
    task, rows = TASKS[name], drawn(name, seed, data)
    units = streaming_units(task.passes * len(rows.X), task.n_estimators)
    loss, d = loss_named(task.loss), rows.X.shape[1]
    models = {n: _streaming(task, loss, d, 1, seed, n) for n in NUMBERS}
    return {n: curve(model, rows, seed, units)["test_loss"][-1] for n, model in models.items()}


def table(name: str, draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Means and deviations over draws; whether streaming boosting comes near the others."""
    units = draws[0]["units"]
    methods = [method for method in draws[0] if method != "units"]
    found: dict[str, Any] = {
        "learner": repr(TASKS[name].learner),
        "n_estimators": TASKS[name].n_estimators,
        "units": units,
        "draws": len(draws),
        "points": (POINTS * units).round().tolist(),
    }
    for method in methods:
        curves = np.array([draw[method]["test_loss"] for draw in draws])
        found[method] = {**spread(curves[:, -1].tolist()), "curve": curves.mean(axis=0).round(6).tolist()}
        if "learners" in draws[0][method]:
            found[method]["learners"] = [draw[method]["learners"] for draw in draws]
    ends = {method: found[method]["mean"] for method in methods}
    found["SGB / GB"] = round(ends["SGB"] / ends["GB"], 4)
    found["SGB / Base as printed"] = round(ends["SGB"] / ends["Base as printed"], 4)
    found["SGB / Base, fair"] = round(ends["SGB"] / ends["Base, fair"], 4)
    found["printed"] = PRINTED.get(name.split(",")[0])
    return found


# ---------------------------------------------------------------------- regret


def regrets(name: str, loss_name: str, depth: int, data: str) -> dict[str, Any]:
    """Average regrets of one pass over the training rows of draw 0: of prefixes after all rows, of all learners on the way."""
    rows, loss = drawn(name, 0, data), loss_named(loss_name)
    smooth = loss.smoothness()
    bank = FtrlTree(max_depth=depth, buffer=len(rows.X)).make(REGRET_LEARNERS, rows.X.shape[1], 1, 0)
    if smooth is None:
        box = Box(-WIDEST, WIDEST)
        model = BoostedBank(
            bank, loss, algorithm="residual", projection=box, max_step=KINKED_STEP, gate="shrink"
        )
    else:
        model = BoostedBank(bank, loss, step=0.2 / smooth)
    order = next(rows.stream(0, len(rows.X)))
    X, y = rows.X[order], rows.y[order]
    tracker = StreamRegret(loss, deep_tree(X, y, loss, radius=WIDEST), growth=2.0)

    def told(went: Any, truth: Any, weight: Any) -> None:
        answers = averaged(went.sums, model.averaging)
        tracker.add(answers, X[model.n_rows : model.n_rows + answers.shape[1]], truth)

    model.on_round = told
    model.learn(X, y, batch_size=ROUND)
    average = tracker.average()
    return {
        "by learners": {str(n): round(float(average[n]), 5) for n in TOLD},
        "by rows": {str(n): round(float(found[-1]), 5) for n, found in tracker.history},
        "competitor": round(tracker.competitor_paid / tracker.n_rows, 5),
    }


def regret_curves(name: str, data: str) -> dict[str, Any]:
    """Figure 5.1 on one set: depths of trees for the smooth loss, and the deepest for the loss with kinks."""
    smooth, kinked = REGRET_LOSSES[name]
    found = {f"{smooth}, depth {depth}": regrets(name, smooth, depth, data) for depth in DEPTHS}
    return {**found, f"{kinked}, depth {DEPTHS[-1]}": regrets(name, kinked, DEPTHS[-1], data)}


def kinks() -> dict[str, Any]:
    """The loss with kinks on which Algorithm 6 stands still and Algorithm 7 does not: losses after N learners."""
    loss, nothing = Uneven(0.25), np.zeros(1)
    sizes = (10, 100, 1000, 10_000)

    def paid(algorithm: Any, n: int) -> float:
        answer, _ = axis_run(n, algorithm=algorithm)
        return round(float(loss.value(answer[None], nothing)[0]), 5)

    leaders = leaders_run(50, 0.009)
    return {
        "learners": sizes,
        "smooth (Algorithm 6)": [paid("smooth", n) for n in sizes],
        "residual (Algorithm 7)": [paid("residual", n) for n in sizes],
        "smooth, follow the leader, short steps": round(float(leaders.losses.mean()), 5),
        "smooth, follow the leader, step 0.1": round(float(leaders_run(50, 0.1).losses.mean()), 5),
    }


# ---------------------------------------------------------------------- where the distribution moves


def moving(kind: str, seed: int) -> tuple[Array, Array]:
    """Rows and a target that changes half-way: not at all, its sign, the columns that matter, or these over 8,000 rows."""
    rng = np.random.default_rng([seed, 2])
    X = rng.normal(size=(MOVING_ROWS, 10))
    first = 3.0 * np.tanh(X[:, 0] - X[:, 1]) + np.sin(2.0 * X[:, 2])
    then = 3.0 * np.tanh(X[:, 3] + X[:, 4] ** 2 - 1.0) + np.sin(2.0 * X[:, 5])
    row = np.arange(MOVING_ROWS)
    late = {
        "nothing": 0.0 * row,
        "sign": row >= MOVING_ROWS / 2,
        "columns": row >= MOVING_ROWS / 2,
        "columns, slowly": np.clip((row - MOVING_ROWS / 2) / 8000 + 0.5, 0.0, 1.0),
    }[kind]
    share = np.asarray(late, dtype=np.float64)
    y = first * (1.0 - share) + (-first if kind == "sign" else then) * share
    return X, y + 0.5 * rng.normal(size=MOVING_ROWS)


MOVING_ROWS = 24_000
WAYS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "adwin, fade": {"drift": at.streaming.Drift("adwin")},
    "adwin, restart": {"drift": at.streaming.Drift("adwin", action="restart")},
    "windows, fade": {"drift": at.streaming.Drift("windows")},
    "windows, restart": {"drift": at.streaming.Drift("windows", action="restart")},
    "memory of 200 rows": {"learner": at.streaming.HoeffdingTree(memory=200)},
}


def drifts(seeds: int) -> dict[str, Any]:
    """Root mean square errors before learning: of all rows, of the 3,000 after the middle, of the last 3,000; and alarms."""
    parts = {
        "all": slice(None),
        "after": slice(MOVING_ROWS // 2, MOVING_ROWS // 2 + 3000),
        "end": slice(-3000, None),
    }
    found: dict[str, Any] = {}
    for kind in ("nothing", "sign", "columns", "columns, slowly"):
        found[kind] = {}
        for way, settings in WAYS.items():
            errors, alarms = [], []
            for seed in range(seeds):
                X, y = moving(kind, seed)
                model = at.StreamingBoostRegressor(n_estimators=50, random_state=seed, **settings)
                wrong = (model.predict_then_fit(X, y) - y) ** 2
                errors.append([wrong[rows].mean() ** 0.5 for rows in parts.values()])
                alarms.append(model.n_alarms_)
            means = np.mean(errors, axis=0).round(3).tolist()
            found[kind][way] = {**dict(zip(parts, means, strict=True)), "alarms": alarms}
    return found


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sets, one draw; not written")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="separated by semicolons")
    parser.add_argument("--repeats", type=int, default=99, help="draws of each set, at most")
    parser.add_argument("--keep", type=Path, help="folder of what is done: a run can then go on")
    parts = ("tables", "regret", "drift")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
    names = options.sets.split(";") if options.sets else ["abalone", "a9a"] if options.quick else list(TASKS)
    path = RESULTS / "streaming_tables.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    figures = {
        part: before[part] for part in ("counter-example", "sets", "regret", "drift") if part in before
    }

    def tell(**parts: Any) -> None:
        figures.update({name.replace("_", "-"): part for name, part in parts.items()})
        if not options.quick:
            write("streaming_tables", figures)

    if "tables" in options.parts:
        tell(counter_example=kinks())
        sets = dict(figures.get("sets", {}))
        for name in names:
            most = 1 if options.quick else min(options.repeats, TASKS[name].repeats)
            draws = [
                kept(options.keep, f"{name}-{seed}", partial(one_draw, name, seed, options.data))
                for seed in range(most)
            ]
            sets[name] = table(name, draws)
            if name == "abalone":
                by_number = [numbers(name, seed, options.data) for seed in range(most)]
                sets[name]["SGB by number of learners"] = {
                    str(n): spread([each[n] for each in by_number]) for n in NUMBERS
                }
            tell(sets=sets)
    if "regret" in options.parts:
        curves = dict(figures.get("regret", {}))
        for name in REGRET_LOSSES if not options.sets else names:
            curves[name] = kept(options.keep, f"regret-{name}", partial(regret_curves, name, options.data))
            tell(regret=curves)
    if "drift" in options.parts:
        tell(drift=drifts(1 if options.quick else 3))


if __name__ == "__main__":
    main()
