"""Cascades of paid services: accuracy against mean price, beside single services and FrugalML's strategy.

Recorded answers of three paid services and a free one on twelve tasks (``frugalml``), and of language models
(``llm-router-costs``).
Random halves learn and judge. The first five seeds are reported; ``--development`` has others, for choosing.

    python benchmarks/cascades.py --data DIR [--tasks a,b] [--splits 5] [--development] [--keep DIR]
    python benchmarks/cascades.py --data DIR --models
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import anytime as at
from _frugalml import FrugalStrategy
from common import write

TASKS = [
    "AFFECTNET",
    "AUDIOMNIST",
    "COMMAND",
    "DIGIT",
    "EXPW",
    "FERPLUS",
    "FLUENT",
    "IMDB",
    "RAFDB",
    "SHOP",
    "WAIMAI",
    "YELP",
]
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)  # of the price of the best single service
DEVELOPMENT = 100  # the first seed of splits that are not reported
CLEARLY = 0.003


def services(
    folder: Path, task: str
) -> tuple[pd.DataFrame, NDArray[Any], NDArray[np.bool_], at.FeatureCosts]:
    """Answers and scores by service, labels, who is right, and prices in dollars per 10,000 calls."""
    with np.load(folder / f"{task}.npz", allow_pickle=True) as file:
        labels, truth = file["predicted"].astype(int), file["true_label"].astype(int)
        scores = file["confidence"] if "confidence" in file.files else np.zeros(labels.shape)
        names, prices = [str(name) for name in file["api"]], file["cost_per_10k"].astype(float)
    columns: dict[str, Any] = {}
    for k, name in enumerate(names):
        columns[f"{name} label"] = pd.Categorical(labels[:, k])
        columns[f"{name} score"] = np.nan_to_num(scores[:, k].astype(float))
    costs = at.FeatureCosts(
        dict(zip(names, prices, strict=True)),
        groups={name: [f"{name} label", f"{name} score"] for name in names},
        unit="USD per 10,000",
    )
    return pd.DataFrame(columns), truth, labels == truth[:, None], costs


def one_split(folder: Path, task: str, seed: int) -> dict[str, Any]:
    """Accuracy and mean price at each budget, ours and FrugalML's, on one split."""
    X, y, right, costs = services(folder, task)
    drawn = np.random.default_rng(seed).permutation(len(y))
    train, test = drawn[: len(y) // 2], drawn[len(y) // 2 :]
    prices = np.array([costs.prices[name] for name in costs.names])
    best = int(right[train].mean(axis=0).argmax())
    budgets = np.array(SHARES) * prices[best]
    labels = np.column_stack([X[f"{name} label"].to_numpy().astype(int) for name in costs.names])
    scores = np.column_stack([X[f"{name} score"] for name in costs.names])
    rival = FrugalStrategy(labels[train], scores[train], right[train], prices)
    rival_cost, rival_accuracy = rival.evaluate(budgets, labels[test], scores[test], right[test])
    began = time.process_time()
    model = at.ExpectedCostClassifier(costs=costs, random_state=seed).fit(X.iloc[train], y[train])
    took = time.process_time() - began
    ours, paid = [], []
    for budget in budgets:
        answer = model.answer(X.iloc[test], mean_budget=float(budget))
        ours.append(float((answer.prediction == y[test]).mean()))
        paid.append(float(np.mean(answer.cost)))
    return {
        "single": {
            "service": costs.names[best],
            "price": prices[best],
            "accuracy": float(right[test, best].mean()),
        },
        "oracle": float(right[test].any(axis=1).mean()),
        "budgets": budgets.tolist(),
        "accuracy": ours,
        "paid": paid,
        "frugalml": rival_accuracy.tolist(),
        "frugalml_paid": rival_cost.tolist(),
        "fit_seconds": took,
    }


def summary(splits: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Means over splits, and what the bars ask."""
    tasks: dict[str, Any] = {}
    for task, runs in splits.items():
        single = float(np.mean([run["single"]["accuracy"] for run in runs]))
        ours = np.array([run["accuracy"] for run in runs])
        rival = np.array([run["frugalml"] for run in runs])
        difference = ours - rival
        error = (
            difference.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(SHARES))
        )
        mean = difference.mean(axis=0)
        half, whole = SHARES.index(0.5), SHARES.index(1.0)
        tasks[task] = {
            "single": runs[0]["single"]["service"],
            "single_accuracy": single,
            "oracle": float(np.mean([run["oracle"] for run in runs])),
            "shares": list(SHARES),
            "accuracy": ours.mean(axis=0).tolist(),
            "paid_share": np.mean(
                [np.array(run["paid"]) / run["single"]["price"] for run in runs], axis=0
            ).tolist(),
            "frugalml": rival.mean(axis=0).tolist(),
            "same_at_half_price": bool(ours.mean(axis=0)[half] >= single),
            "a_point_more": bool(ours.mean(axis=0)[whole] >= single + 0.01),
            "clearly_worse_than_frugalml": [
                share for share, m, e in zip(SHARES, mean, error, strict=True) if m < -CLEARLY and m < -2 * e
            ],
            "worse_than_frugalml": [share for share, m in zip(SHARES, mean, strict=True) if m < 0],
            "fit_seconds": float(np.mean([run["fit_seconds"] for run in runs])),
        }
    return {
        "bar_met_on": sum(t["same_at_half_price"] or t["a_point_more"] for t in tasks.values()),
        "cells": len(tasks) * len(SHARES),
        "cells_behind_frugalml": sum(len(t["worse_than_frugalml"]) for t in tasks.values()),
        "cells_clearly_behind": sum(len(t["clearly_worse_than_frugalml"]) for t in tasks.values()),
        "tasks": tasks,
    }


# ---------------------------------------------------------------------- language models


def two_models(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[Any], at.FeatureCosts]:
    """Two models on 800 prompts: what is known before and after a call, who is wrong, and prices per row (CNY)."""
    table = pd.read_csv(folder / "qwen35_two_model_800.csv.xz")
    X = pd.DataFrame(
        {name: table[name].astype("category") for name in ("dataset", "task_type", "difficulty_group")}
    )
    X["prompt_tokens"] = table["cheap_prompt_tokens"].astype(float)
    groups, priced = {"prompt": list(X)}, {}
    for name in ("cheap", "strong"):
        X[f"{name} tokens"] = table[f"{name}_completion_tokens"].astype(float)
        X[f"{name} ms"] = table[f"{name}_latency_ms"]
        groups[name], priced[name] = [f"{name} tokens", f"{name} ms"], table[f"{name}_cost"].to_numpy()
    costs = at.FeatureCosts(
        {"prompt": 0.0, **{name: float(np.mean(cost)) for name, cost in priced.items()}},
        groups=groups,
        unit="CNY",
    )
    losses = pd.DataFrame({name: 1 - table[f"{name}_correct"] for name in priced})
    return X, losses, np.column_stack([np.zeros(len(X)), *priced.values()]), costs


def many_models(
    folder: Path, n_models: int = 5
) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[Any], at.FeatureCosts]:
    """The paid models of 240 prompts that are best for their price, on the prompts that all have."""
    table = pd.read_csv(folder / "llmrouterbench_240x33.csv.xz")
    by_model = table.groupby("model").agg(score=("score", "mean"), cost=("cost", "mean"), n=("score", "size"))
    by_model = by_model[(by_model["cost"] > 0) & (by_model["n"] == 240)].sort_values("cost")
    frontier = by_model[by_model["score"] > by_model["score"].shift(1, fill_value=0).cummax()]
    names = list(frontier.index[np.unique(np.linspace(0, len(frontier) - 1, n_models).round().astype(int))])
    wanted = ("score", "cost", "prompt_tokens", "completion_tokens")
    pivot = {c: table.pivot(index="prompt_id", columns="model", values=c)[names] for c in wanted}
    dataset = (
        table.drop_duplicates("prompt_id").set_index("prompt_id")["dataset"].reindex(pivot["score"].index)
    )
    X = pd.DataFrame(
        {
            "dataset": dataset.astype("category"),
            "prompt_tokens": pivot["prompt_tokens"][names[0]].astype(float),
        }
    )
    groups = {"prompt": list(X)}
    for name in names:
        X[f"{name} tokens"] = pivot["completion_tokens"][name].astype(float)
        groups[name] = [f"{name} tokens"]
    costs = at.FeatureCosts({"prompt": 0.0, **pivot["cost"].mean().to_dict()}, groups=groups, unit="USD")
    prices = np.column_stack([np.zeros(len(X)), pivot["cost"].to_numpy()])
    return X.reset_index(drop=True), 1 - pivot["score"].reset_index(drop=True), prices, costs


def language_models(folder: Path, seeds: range) -> dict[str, Any]:
    """Accuracy against mean price, by each row's own prices."""
    out: dict[str, Any] = {}
    for name, (X, losses, row_prices, costs) in {
        "two models": two_models(folder),
        "five models": many_models(folder),
    }.items():
        options = list(losses)
        curves = []
        for seed in seeds:
            drawn = np.random.default_rng(seed).permutation(len(X))
            train, test = drawn[: len(X) // 2], drawn[len(X) // 2 :]
            model = at.AlgorithmSelector(
                costs=costs, option_groups={o: o for o in options}, cost_penalty=0.0, random_state=seed
            ).fit(X.iloc[train], losses.iloc[train], row_prices=row_prices[train])
            right = 1 - losses.iloc[test].to_numpy()
            best = int((1 - losses.iloc[train]).mean().to_numpy().argmax())
            line = {
                "single": float(right[:, best].mean()),
                "single_price": float(row_prices[test, 1 + best].mean()),
                "singles": right.mean(axis=0).tolist(),
                "prices": row_prices[test, 1:].mean(axis=0).tolist(),
                "oracle": float(right.max(axis=1).mean()),
                "accuracy": [],
                "paid": [],
            }
            for share in SHARES[:-1]:
                budget = share * costs.prices[options[best]]
                chosen = model.predict(X.iloc[test], mean_budget=budget)
                asked = model.cost(X.iloc[test], mean_budget=budget) > 0
                place = np.array([options.index(o) for o in chosen])
                line["accuracy"].append(float((right[np.arange(len(test)), place] * asked).mean()))
                line["paid"].append(
                    float(model.cost(X.iloc[test], mean_budget=budget, row_prices=row_prices[test]).mean())
                )
            curves.append(line)
        out[name] = {
            "options": options,
            **{k: np.mean([c[k] for c in curves], axis=0).tolist() for k in curves[0]},
        }
    return out


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder in which every split that is done is kept")
    parser.add_argument("--models", action="store_true")
    given = parser.parse_args()
    first = DEVELOPMENT if given.development else 0
    seeds = range(first, first + given.splits)
    if given.models:
        figures = language_models(given.data / "llm-router-costs", seeds)
        if given.development:
            print(json.dumps(figures, indent=1))
        else:
            write("language_models", figures)
        return
    splits: dict[str, list[dict[str, Any]]] = {}
    for task in given.tasks.split(","):
        for seed in seeds:
            kept = None if given.keep is None else given.keep / f"{task}-{seed}.json"
            if kept is not None and kept.exists():
                run = json.loads(kept.read_text(encoding="utf-8"))
            else:
                run = one_split(given.data / "frugalml", task, seed)
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_text(json.dumps(run), encoding="utf-8")
            splits.setdefault(task, []).append(run)
            ours, rival = np.round(run["accuracy"], 4), np.round(run["frugalml"], 4)
            print(task, seed, run["single"]["accuracy"], ours, rival, flush=True)
    figures = summary(splits)
    if given.development:
        print({name: value for name, value in figures.items() if name != "tasks"})
    else:
        write("cascades", figures)


if __name__ == "__main__":
    main()
