"""Chapters 6 and 7 of Nan, *Learning to Predict under a Budget* (2018): asking on the fly, and sensors that may keep silent.

Chapter 6 prints bounds and no experiment. Here EXP3.G plays 100 seeds of the coin-tossing experts of the bounds, with known and
unknown horizons, and streams of real examples, where a logistic regression on two thirds of the columns is local, a random
forest is remote, and the experts ask at different doubts. Rounds per second are those of 16 experts.

Chapter 7 prints Figure 7.2 (curves of recovery) and a log on WARD, which is not at hand: recovery is run as printed for 100 of
its 1000 turns on ten worlds each, and the direct and relaxed forms are held against each other on made-up sensors of the same
shape, in five worlds (5 to 9; world 0 was used to set defaults), judged on people not trained on.

    python benchmarks/online_and_sensing.py [--data DIR] [--parts a,b]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from anytime.online import Experts, OnlineSelector, RequestLearner, regret_upper_bound
from anytime.sensing import DirectGates, SensorNetworkClassifier
from anytime_research import datasets as research_datasets
from anytime_research.online import (
    BernoulliEnvironment,
    Exp3G,
    ExpertRegret,
    FeedbackGraph,
    hard_environment,
    regret_lower_bound,
)
from anytime_research.sensing import (
    PANELS,
    RelaxedGates,
    SensorVote,
    make_adaptive_sparse_regression,
    make_body_sensors,
    recover,
)
from common import RESULTS, in_turns, median, write

SEEDS = 100
STREAMS = ("letter", "magic", "pendigits")


def speed() -> dict[str, float]:
    """Rounds per second of 16 experts."""
    rng = np.random.default_rng(0)
    n = 200_000
    asks = rng.random((n, 16)) < 0.3
    asks[:, -1] = True
    losses = rng.random((n, 16))
    graphs = [FeedbackGraph.requests(row) for row in asks[:50]] * (n // 50)
    times = in_turns(
        {
            "requests": lambda: RequestLearner(16, evaluation_cost=0.5, random_state=0).run(asks, losses),
            "graphs": lambda: Exp3G(graphs[0], random_state=0).run(losses, graphs),
        },
        repeats=5,
    )
    return {name: round(n / median(seconds)) for name, seconds in times.items()}


def coin_tosses() -> list[dict[str, Any]]:
    """Regret over 100 seeds, against the bound."""
    rows = []
    for n_experts, horizon in ((10, 1000), (20, 4000)):
        for cost in (1.0, 0.5, 0.2):
            for schedule, told in (("known", horizon), ("decreasing", None), ("doubling", "doubling")):
                errors = np.where(np.arange(n_experts) == 0, 0.3, 0.5)
                regrets = []
                for seed in range(SEEDS):
                    world = BernoulliEnvironment(
                        errors, np.arange(n_experts) == n_experts - 1, cost, random_state=seed
                    )
                    learner = RequestLearner(n_experts, evaluation_cost=cost, horizon=told, random_state=seed)  # type: ignore[arg-type]
                    regrets.append(world.challenge(learner, horizon).regret)
                bound = regret_upper_bound(n_experts, horizon, cost, schedule=schedule)
                rows.append(
                    {
                        "experts": n_experts,
                        "rounds": horizon,
                        "cost": cost,
                        "horizon": schedule,
                        "mean": round(float(np.mean(regrets)), 1),
                        "largest": round(max(regrets), 1),
                        "bound": round(bound, 1),
                        "seeds_below": int(np.sum(np.array(regrets) < bound)),
                    }
                )
                print(" ", rows[-1], flush=True)
    return rows


def hard_experts() -> list[dict[str, Any]]:
    """Expected regret on the experts of the lower bound."""
    rows = []
    for n_experts, horizon in ((8, 1000), (20, 1000), (100, 1000), (100, 100_000)):
        regrets = []
        for seed in range(SEEDS if horizon < 10_000 else 10):
            world = hard_environment(n_experts, horizon, random_state=seed)
            learner = RequestLearner(n_experts, evaluation_cost=1.0, horizon=horizon, random_state=seed)
            asks = np.tile(world.asks, (horizon, 1))
            regrets.append(world.expected_regret(learner.run(asks, world.losses(horizon)).played))
        lower, upper = regret_lower_bound(n_experts, horizon), regret_upper_bound(n_experts, horizon)
        rows.append(
            {
                "experts": n_experts,
                "rounds": horizon,
                "lower": round(lower, 1),
                "mean": round(float(np.mean(regrets)), 1),
                "upper": round(upper, 1),
            }
        )
        print(" ", rows[-1], flush=True)
    return rows


def stream(name: str, folder: Path, cost: float = 0.2) -> dict[str, Any]:
    """A fifth trains both models, the rest comes as a stream; the forest's answer is taken for the truth."""
    data = research_datasets.load(name, folder=str(folder))
    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    first = len(X) // 5
    few = FunctionTransformer(_first_columns, kw_args={"count": 2 * X.shape[1] // 3})
    local = make_pipeline(few, StandardScaler(), LogisticRegression(max_iter=500)).fit(X[:first], y[:first])
    forest = RandomForestClassifier(200, random_state=0, n_jobs=1).fit(X[:first], y[:first])
    truth, rows = forest.predict(X[first:]), X[first:]
    regrets, asked, wrong = [], [], []
    for seed in range(10):
        selector = OnlineSelector(
            Experts.confident([local]), evaluation_cost=cost, random_state=seed
        ).partial_fit(rows, truth)
        tracker = ExpertRegret().add(selector.expert_losses(rows, truth), selector.played_)
        regrets.append(tracker.regret)
        asked.append(selector.asked_.mean())
        wrong.append(np.mean(selector.answers_ != truth))
    record = {
        "rounds": len(rows),
        "experts": len(selector.experts_),
        "cost": cost,
        "loss_always_local": round(float(np.mean(local.predict(rows) != truth)), 4),
        "loss_best_expert": round(float(tracker.expert_losses.min()) / len(rows), 4),
        "loss": round(cost * float(np.mean(asked)) + float(np.mean(wrong)), 4),
        "asked": round(float(np.mean(asked)), 3),
        "mean_regret": round(float(np.mean(regrets)), 1),
        "bound": round(regret_upper_bound(len(selector.experts_), len(rows), cost, schedule="decreasing"), 1),
    }
    print(" ", name, record, flush=True)
    return record


def _first_columns(X: Any, count: int) -> Any:
    return X[:, :count]


def recovery(turns: int = 100, worlds: int = 10) -> dict[str, Any]:
    """Figure 7.2: medians over worlds after some turns; the panels of 100 dimensions on one world."""
    rows = {}
    for name, panel in PANELS.items():
        runs = [
            recover(
                make_adaptive_sparse_regression(
                    n_dims=panel.n_dims, gate=panel.gate, slope=panel.slope, random_state=seed
                ),
                panel.noise,
                step=panel.step,
                turns=turns,
                random_state=seed + 10,
            )
            for seed in range(worlds if panel.n_dims < 100 else 1)
        ]
        distances = np.median([run.distances[-1] for run in runs], axis=0)
        rows[name] = {
            "gate": panel.gate,
            "noise": panel.noise,
            "loss": float(f"{np.median([run.losses[-1] for run in runs]):.3g}"),
            "cosine_messages": float(f"{distances[0]:.3g}"),
            "cosine_gates": float(f"{distances[1]:.3g}"),
        }
        print(" ", name, rows[name], flush=True)
    return rows


def sensors(worlds: range = range(5, 10)) -> dict[str, Any]:
    """Accuracy on other people: votes of neighbours, and networks at several participations.

    The defaults of the networks were set on world 0: the worlds told are others.
    """
    settings: dict[str, Callable[[], SensorNetworkClassifier]] = {}
    for share in (0.26, 0.4, 0.6):
        for name, solver in (("direct", DirectGates()), ("relaxed", RelaxedGates())):
            settings[f"{name} {share}"] = lambda share=share, solver=solver: SensorNetworkClassifier(  # type: ignore[misc]
                mean_budget=5 * share, solver=solver, random_state=0
            )
    for penalty in (0.0, 0.1, 1.0, 2.0):
        settings[f"relu, penalty {penalty}"] = lambda penalty=penalty: SensorNetworkClassifier(  # type: ignore[misc]
            gate="relu", solver=DirectGates(penalty), random_state=0
        )
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in worlds:
        data = make_body_sensors(3000, random_state=seed)
        assert data.groups is not None
        train = data.groups < 14
        vote = SensorVote(5).fit(data.X[train], data.y[train])
        alone = (vote.device_predictions(data.X[~train]) == data.y[~train][:, None]).mean(axis=0)
        found.setdefault("best sensor alone, 1-NN", []).append((0.2, float(alone.max())))
        found.setdefault("vote of all, 1-NN", []).append((1.0, vote.score(data.X[~train], data.y[~train])))
        for name, make in settings.items():
            report = make().fit(data.X[train], data.y[train]).report(data.X[~train], data.y[~train])
            found.setdefault(name, []).append((report.participation, report.score))
    rows = {}
    for name, pairs in found.items():
        share, score = np.mean(pairs, axis=0)
        rows[name] = {"participation": round(float(share), 3), "accuracy": round(float(score), 3)}
        print(" ", name, rows[name], flush=True)
    return rows


def main() -> None:
    """Everything, in a few minutes, or some parts of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ANYTIME_DATA", "data")))
    parser.add_argument("--parts", help="comma separated; the others stay as they were")
    options = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "rounds_per_second": speed,
        "coin_tosses": coin_tosses,
        "hard_experts": hard_experts,
        "streams": lambda: {name: stream(name, options.data) for name in STREAMS},
        "recovery": recovery,
        "sensors": sensors,
    }
    wanted = options.parts.split(",") if options.parts else list(parts)
    if unknown := set(wanted) - set(parts):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(parts)}")
    before = (
        {} if set(wanted) == set(parts) else json.loads((RESULTS / "online_and_sensing.json").read_text())
    )
    write(
        "online_and_sensing",
        {name: run() if name in wanted else before.get(name) for name, run in parts.items()},
    )


if __name__ == "__main__":
    main()
