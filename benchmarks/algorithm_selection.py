"""Algorithm selection: seconds of feature steps and of the solver together, on scenarios of ASlib.

Each scenario says how long every solver took for every instance (time-outs count ten times the limit: PAR10), how long every
step of computing features took, and which steps solve an instance by the way: such an instance ends there. A selector that buys
steps one by one is compared with one that has the same forests and always buys all. The gap is that between the single best
solver of the training instances and the best solver of each instance, neither of which pays for features. The scenarios' ten
folds are taken in pairs; ``--development`` draws other folds, for choosing.

    python benchmarks/algorithm_selection.py --data DIR [--scenarios a,b] [--development] [--folds 5]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import anytime as at
from common import write

SCENARIOS = ["ASP-POTASSCO", "GRAPHS-2015", "SAT11-HAND", "SAT11-INDU", "SAT11-RAND", "SAT12-INDU"]
SETTINGS = {"n_estimators": 50, "min_samples_leaf": 3, "max_sets": 16}


class Scenario(NamedTuple):
    """Instances of one kind of problem."""

    features: pd.DataFrame  # (n, d)
    seconds: pd.DataFrame  # (n, A) PAR10
    step_seconds: pd.DataFrame  # (n, G)
    solved: NDArray[np.bool_]  # (n, G): steps that solve the instance
    fold: NDArray[np.intp]
    groups: dict[str, list[str]]
    requires: dict[str, list[str]]
    limit: float  # seconds of an instance, features included

    def costs(self, rows: NDArray[np.intp]) -> at.FeatureCosts:
        """Mean seconds of the steps on some instances."""
        mean = self.step_seconds.iloc[rows].mean()
        return at.FeatureCosts(
            {step: float(mean[step]) for step in self.groups},
            groups=self.groups,
            requires=self.requires,
            unit="s",
        )


def read_table(path: Path) -> pd.DataFrame:
    """A table in the format of Weka."""
    names, rows, in_data = [], [], False
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in map(str.strip, file):
            if not line or line.startswith("%"):
                continue
            if in_data:
                rows.append(next(csv.reader([line], quotechar="'", skipinitialspace=True)))
            elif line.lower().startswith("@attribute"):
                found = re.match(r"@attribute\s+('[^']+'|\S+)", line, re.IGNORECASE)
                assert found is not None
                names.append(found.group(1).strip("'"))
            elif line.lower().startswith("@data"):
                in_data = True
    return pd.DataFrame(rows, columns=names).replace("?", np.nan)


def read_scenario(folder: Path) -> Scenario:
    """A scenario as ASlib has it."""
    description = gzip.decompress((folder / "description.txt.gz").read_bytes()).decode()
    found = re.search(r"algorithm_cutoff_time:\s*([\d.e+]+)", description)
    assert found is not None
    limit = float(found.group(1))
    runs = read_table(folder / "algorithm_runs.arff.gz")
    runs["runtime"] = pd.to_numeric(runs["runtime"])
    seconds = runs.pivot(index="instance_id", columns="algorithm", values="runtime")
    status = runs.pivot(index="instance_id", columns="algorithm", values="runstatus")
    seconds = seconds.where(status == "ok", 10 * limit).fillna(10 * limit)

    def by_instance(name: str) -> pd.DataFrame:
        return read_table(folder / f"{name}.arff.gz").set_index("instance_id").reindex(seconds.index)

    steps = pd.read_csv(folder / "steps.csv")
    groups = {step: list(part["feature"]) for step, part in steps.groupby("step", sort=False)}
    # a feature that several steps provide counts as the first's
    seen: set[str] = set()
    for step, names in groups.items():
        groups[step] = [name for name in names if name not in seen]
        seen.update(names)
    needed = steps.dropna(subset=["requires"]).drop_duplicates("step").set_index("step")["requires"]
    features = by_instance("feature_values")[[name for names in groups.values() for name in names]]
    measured = by_instance("feature_costs")[list(groups)].apply(pd.to_numeric).fillna(0.0)
    return Scenario(
        features.apply(pd.to_numeric),
        seconds,
        measured,
        (by_instance("feature_runstatus")[list(groups)] == "presolved").to_numpy(),
        by_instance("cv")["fold"].astype(float).astype(int).to_numpy(),
        groups,
        {step: text.split(";") for step, text in needed.items()},
        limit,
    )


def total_seconds(
    scenario: Scenario, rows: NDArray[np.intp], bought: NDArray[np.bool_], chosen: NDArray[np.intp]
) -> Any:
    """(n,) steps that were bought and the solver that was chosen; a step that solves an instance ends it.

    Where both together exceed the limit, the instance has timed out, as ASlib counts it.
    """
    solver = scenario.seconds.to_numpy()[rows, chosen]
    solved = (bought & scenario.solved[rows]).any(axis=1)
    total = (bought * scenario.step_seconds.to_numpy()[rows]).sum(axis=1) + np.where(solved, 0.0, solver)
    return np.where(~solved & (total > scenario.limit), 10 * scenario.limit, total)


def purchases(model: Any, X: pd.DataFrame) -> NDArray[np.bool_]:
    """(n, G) what rows buy, told by a price of one group at a time."""
    n_groups = len(model.costs_.names)
    one = np.eye(n_groups)
    return np.column_stack(
        [model.cost(X, row_prices=np.tile(one[g], (len(X), 1))) > 0 for g in range(n_groups)]
    )


def one_fold(
    scenario: Scenario, train: NDArray[np.intp], test: NDArray[np.intp], seed: int
) -> dict[str, float]:
    """Mean seconds of all contenders on one fold."""
    seconds = scenario.seconds.to_numpy()
    single = int(seconds[train].mean(axis=0).argmin())
    options = list(scenario.seconds)
    out = {"single": float(seconds[test, single].mean()), "best": float(seconds[test].min(axis=1).mean())}
    columns = [name for names in scenario.groups.values() for name in names]
    whole = scenario.step_seconds.iloc[train].sum(axis=1)
    together = at.FeatureCosts({"all": float(whole.mean())}, groups={"all": columns}, unit="s")
    began = time.process_time()
    for name, costs, prices, penalty in (
        ("all paid", together, whole.to_numpy()[:, None], 0.0),
        ("step by step", scenario.costs(train), scenario.step_seconds.iloc[train].to_numpy(), 1.0),
    ):
        model = at.AlgorithmSelector(costs=costs, cost_penalty=penalty, random_state=seed, **SETTINGS)
        X = scenario.features.iloc[test]
        model.fit(scenario.features.iloc[train], scenario.seconds.iloc[train], row_prices=prices)
        chosen = np.array([options.index(option) for option in model.predict(X)])
        bought = purchases(model, X)
        if name == "all paid":
            bought = np.ones((len(test), scenario.step_seconds.shape[1]), dtype=bool)
        out[name] = float(total_seconds(scenario, test, bought, chosen).mean())
        out[f"{name}: features"] = float((bought * scenario.step_seconds.to_numpy()[test]).sum(axis=1).mean())
        out[f"{name}: steps"] = float(bought.sum(axis=1).mean())
    out["fit_seconds"] = time.process_time() - began
    return out


def run(folder: Path, n_folds: int, development: bool) -> dict[str, Any]:
    """Means over the folds of a scenario."""
    scenario = read_scenario(folder)
    n = len(scenario.seconds)
    drawn = (
        np.random.default_rng(7).integers(n_folds, size=n)
        if development
        else (scenario.fold - 1) // (10 // n_folds)
    )
    lines, sizes = [], []
    for fold in range(n_folds):
        test = np.flatnonzero(drawn == fold)
        lines.append(one_fold(scenario, np.flatnonzero(drawn != fold), test, fold))
        sizes.append(len(test))
    mean = {name: float(np.average([line[name] for line in lines], weights=sizes)) for name in lines[0]}
    gap = mean["single"] - mean["best"]
    closed = {name: (mean["single"] - mean[name]) / gap for name in ("all paid", "step by step")}
    return {
        "instances": n,
        "solvers": scenario.seconds.shape[1],
        "steps": len(scenario.groups),
        **mean,
        "gap closed": closed,
        "points more": 100 * (closed["step by step"] - closed["all paid"]),
        "points that all features cost": 100 * mean["all paid: features"] / gap,
    }


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--development", action="store_true")
    given = parser.parse_args()
    figures = {}
    for name in given.scenarios.split(","):
        figures[name] = run(given.data / "aslib" / name, given.folds, given.development)
        print(name, json.dumps(figures[name], indent=1), flush=True)
    if not given.development:
        more = sum(scenario["points more"] >= 10 for scenario in figures.values())
        write("algorithm_selection", {"ten points more on": more, "settings": SETTINGS, "scenarios": figures})


if __name__ == "__main__":
    main()
