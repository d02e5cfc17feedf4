"""The tables of chapter 4 of Hu (2019) from trainings on CIFAR-10: lists of jobs first, then the tables from their results.

python benchmarks/network_tables.py --jobs table41 --epochs 40 [--without results/network_schemes.json] > jobs.json
python benchmarks/network_training.py --data DIR --out RUNS --jobs jobs.json --side-by-side 4
python benchmarks/network_tables.py --runs RUNS
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS = [(7, 16), (9, 16), (13, 16), (9, 32), (13, 32), (17, 32)]
SHARES = (0.25, 0.5, 0.75, 1.0)
PRINTED = {  # Table 4.1: relative increase of the error over OPT, %, twelve networks on three data sets
    "const": (15.07, 16.40, 18.76, 18.90),
    "linear": (25.67, 13.02, 12.97, 12.65),
    "adaloss": (32.99, 9.97, 3.96, 2.73),
}


def jobs_of(table: str, epochs: int, seeds: list[int]) -> list[dict[str, Any]]:
    """The trainings of a table, the cheapest networks first."""
    base = {"epochs": epochs, "batch_size": 256, "learning_rate": 0.2}
    if table == "table41":
        schemes = ["const", "linear", "adaloss", "auto", *(f"opt:{share:g}" for share in SHARES)]
        return [
            {
                **base,
                "n": n,
                "c": c,
                "scheme": scheme,
                "seed": seed,
                "keep_said": scheme in ("auto", "adaloss"),
            }
            for seed in seeds
            for n, c in SETTINGS
            for scheme in schemes
        ]
    if table == "ablation":  # Tables 4.3 to 4.5
        settings = [{}, {"gamma": 0.0}, {"gamma": 0.15}, {"momentum": 0.99}, {"period": 100}]
        return [
            {**base, "n": n, "c": 32, "scheme": "adaloss", "seed": seed, "scheme_arguments": arguments}
            for seed in seeds
            for n in (9, 17)
            for arguments in settings
        ]
    if table == "eann":  # section 4.5.3: members of the ensemble, and networks of their own to compare with
        return [
            {**base, "n": n, "c": 32, "scheme": scheme, "seed": seed, "keep_said": scheme != "opt:1"}
            for seed in seeds
            for n in (7, 13, 25)
            for scheme in ("adaloss", "auto", "opt:1")
        ]
    if table == "others":
        return [
            {**base, "backbone": backbone, "scheme": scheme, "seed": seed}
            for seed in seeds
            for backbone in ("denseann", "msdnet")
            for scheme in ("const", "adaloss", "auto")
        ]
    raise SystemExit(f"no table {table!r}; there are table41, ablation, eann and others")


def training_of(job: dict[str, Any]) -> dict[str, Any]:
    """What of a job decides how its network is trained."""
    return {key: value for key, value in job.items() if not key.startswith("keep_")}


def is_of_tables(job: dict[str, Any]) -> bool:
    """Whether a job trained a residual network as all others of the tables, to be judged on the test images."""
    changed = ("scheme_arguments", "weight_decay", "label_smoothing", "cutout", "period")
    return "n" in job and job.get("split", "test") == "test" and not any(job.get(name) for name in changed)


def errors_at(run: dict[str, Any], shares: tuple[float, ...] = SHARES) -> list[float]:
    """The error of the last exit that each share of the whole cost reaches; 90 % (guessing) before the first."""
    costs, errors = np.array(run["mult_adds"]), run["errors"]
    reached = np.searchsorted(costs, np.array(shares) * costs[-1] * (1 + 1e-9), side="right")
    return [90.0 if not exit else errors[exit - 1] for exit in reached]


def relative_increase(errors: list[float], best: list[float]) -> list[float]:
    """100 (error - OPT) / OPT at each share."""
    return [100 * (error - own) / own for error, own in zip(errors, best, strict=True)]


def table41(runs: list[dict[str, Any]]) -> None:
    found: dict[tuple[int, int, int, int], dict[str, list[float]]] = defaultdict(dict)
    for run in runs:
        job = run["job"]
        key = (job["n"], job["c"], job["epochs"], job["seed"])
        scheme = job["scheme"]
        found[key][scheme] = [run["errors"][-1]] if scheme.startswith("opt:") else errors_at(run)
    increases: dict[str, list[list[float]]] = defaultdict(list)
    for (n, c, epochs, seed), errors in sorted(found.items()):
        if all(scheme.startswith("opt:") for scheme in errors):
            continue
        own = [errors.get(f"opt:{share:g}", [np.nan])[0] for share in SHARES]
        print(f"\n({n},{c}), {epochs} epochs, seed {seed}: error, %, at 1/4, 1/2, 3/4 and all of the cost")
        print(f"  {'OPT':10s}" + "".join(f"{value:8.2f}" for value in own))
        for scheme in ("const", "linear", "adaloss", "auto"):
            if scheme in errors:
                more = relative_increase(errors[scheme], own)
                shown = "".join(f"{e:8.2f}" for e in errors[scheme])
                print(f"  {scheme:10s}{shown}   over OPT, %:" + "".join(f"{m:8.1f}" for m in more))
                increases[scheme].append(more)
    print(
        "\nmean increase over OPT, %, and of how many networks      1/4          1/2          3/4            1"
    )
    for scheme, rows in increases.items():
        known = [[value for value in column if np.isfinite(value)] for column in zip(*rows, strict=True)]
        means = "".join(f"{np.mean(values):8.2f} ({len(values):2d})" for values in known if values)
        printed = "".join(f"{value:8.2f}" for value in PRINTED.get(scheme, ()))
        print(f"  {scheme:10s}{'':40s}{means}" + (f"   printed {printed}" if printed else ""))


def over_seeds(runs: list[dict[str, Any]]) -> None:
    """How far last exits are above OPT of the same seed, beside CONST: means over seeds, then over the six networks."""
    longest = max((run["job"]["epochs"] for run in runs if run["job"]["scheme"] == "const"), default=0)
    last = {
        tuple(run["job"][name] for name in ("n", "c", "scheme", "seed")): run["errors"][-1]
        for run in runs
        if run["job"]["epochs"] == longest
    }
    increases: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for n, c, scheme in sorted({key[:3] for key in last}):
        alone = {seed: error for (*network, seed), error in last.items() if network == [n, c, "opt:1"]}
        own = [100 * (last[n, c, scheme, s] / alone[s] - 1) for s in alone if (n, c, scheme, s) in last]
        if own and (n, c) in SETTINGS:
            increases[scheme][n, c] = float(np.mean(own))
    print(f"\nlast exit after {longest} epochs, increase over OPT, %, means over seeds")
    const = increases["const"]
    for scheme in ("const", "linear", "adaloss", "auto"):
        ours = {key: value for key, value in increases[scheme].items() if key in const}
        if ours:
            mean, of_const = (np.mean([of[key] for key in ours]) for of in (ours, const))
            print(f"  {scheme:10s}" + "  ".join(f"{key} {value:.1f}" for key, value in ours.items()))
            print(
                f"{'':12s}below CONST in {sum(ours[key] < const[key] for key in ours)} of {len(ours)}; "
                f"mean {mean:.1f} against {of_const:.1f}: {mean / of_const:.2f} of it"
            )


def early_exits(runs: list[dict[str, Any]]) -> None:
    """At how many of CONST's exits another scheme is no worse for the same mult-adds, and by how much at most."""
    curves = {
        (r["job"]["n"], r["job"]["c"], r["job"]["epochs"], r["job"]["seed"], r["job"]["scheme"]): r
        for r in runs
    }
    for key, const in sorted(curves.items()):
        ours = curves.get((*key[:4], "auto"))
        if key[4] != "const" or ours is None:
            continue
        reached = np.searchsorted(ours["mult_adds"], np.array(const["mult_adds"]) * 1.02, side="right")
        of_ours = np.r_[90.0, ours["errors"]][reached]  # heads that read a grid cost 1.7 % more
        behind = of_ours - const["errors"]
        print(
            f"({key[0]},{key[1]}): auto is no worse than const at {np.sum(behind <= 0)} of {len(behind)} exits, "
            f"behind by at most {max(behind.max(), 0):.2f} points"
        )


def small_against_large(runs: list[dict[str, Any]]) -> None:
    """Section 4.5.2: at which share of its cost a small network by AdaLoss, or ours, is as good as a large one by CONST."""
    by_key = {
        (r["job"]["n"], r["job"]["c"], r["job"]["scheme"], r["job"]["seed"], r["job"]["epochs"]): r
        for r in runs
    }
    for (n, c, scheme, seed, epochs), large in sorted(by_key.items(), key=str):
        if scheme != "const":
            continue
        small_n = {13: 7, 17: 9, 25: 13}.get(n)
        for ours in ("adaloss", "auto"):
            small = by_key.get((small_n, c, ours, seed, epochs))
            if small is None:
                continue
            reached = np.flatnonzero(np.array(small["errors"]) <= large["errors"][-1])
            share = small["mult_adds"][reached[0]] / large["mult_adds"][-1] if reached.size else np.nan
            print(
                f"({n},{c}) const ends at {large['errors'][-1]:.2f} %; ({small_n},{c}) {ours} is there at "
                f"{share:.2f} of its cost, and ends at {small['errors'][-1]:.2f} %"
            )


def idle_depth(runs: list[dict[str, Any]]) -> None:
    """What the units behind the third of the last group are worth, how well the last exit fits, and how much it counts."""
    alone = {_setting(run): run for run in runs if run["job"]["scheme"] == "opt:1"}
    print(
        "\nthe last exit: points gained since the third unit of its group, training loss over OPT's, share of all weights"
    )
    for run in sorted(runs, key=lambda run: (run["job"]["scheme"], _setting(run))):
        own, third = alone.get(_setting(run)), 2 * run["job"]["n"] + 2
        if own is None or run["job"]["scheme"] not in ("const", "linear", "adaloss", "auto"):
            continue
        gain = run["errors"][third] - run["errors"][-1]
        loss = run["train_losses"][-1] / own["train_losses"][-1]
        share = run["weights"][-1] / sum(run["weights"])
        print(
            f"  {run['job']['scheme']:8s} {_setting(run)}: {gain:5.2f} points, loss {loss:.1f} x, weight {share:.3f}"
        )


def ablation(runs: list[dict[str, Any]]) -> None:
    """Tables 4.3 to 4.5: the error of AdaLoss with another value of one constant, beside its default."""
    default = {"gamma": 0.05, "momentum": 0.9, "period": 1}
    tried = [run for run in runs if run["job"]["scheme"] == "adaloss" and not run["job"].get("weight_decay")]
    changed = [run for run in tried if run["job"].get("scheme_arguments")]
    print("\nAdaLoss with other constants: error, %, at 1/4, 1/2, 3/4 and all of the cost, and change, %")
    for usual in (run for run in tried if not run["job"].get("scheme_arguments")):
        beside = [run for run in changed if _setting(run) == _setting(usual)]
        if beside:
            print(f"  {_setting(usual)} as in the thesis, {default}" + _shown(errors_at(usual)))
        for run in beside:
            change = relative_increase(errors_at(run), errors_at(usual))
            print(f"    {run['job']['scheme_arguments']}{_shown(errors_at(run))}   change{_shown(change)}")


def other_backbones(runs: list[dict[str, Any]]) -> None:
    """DenseANN and MSDNet: the error of every exit."""
    for backbone in sorted({run["job"]["backbone"] for run in runs}):
        ours = [run for run in runs if run["job"]["backbone"] == backbone]
        print(f"\n{backbone}: million mult-adds{_shown(np.array(ours[0]['mult_adds']) / 1e6)}")
        for run in sorted(ours, key=lambda run: str(run["job"]["scheme"])):
            print(
                f"  {run['job']['scheme']:10s}{run['job']['epochs']} epochs: error, %,{_shown(run['errors'])}"
            )


def _shown(values: Any) -> str:
    return "".join(f"{value:8.2f}" for value in values)


def _setting(run: dict[str, Any]) -> tuple[int, ...]:
    """(n, c, epochs, seed)."""
    return tuple(run["job"][name] for name in ("n", "c", "epochs", "seed"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", help="print the jobs of a table: table41, ablation, eann or others")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--without", type=Path, help="a file with results: their jobs are left out")
    parser.add_argument("--runs", type=Path, help="a folder with results, or a file with a list of them")
    given = parser.parse_args()
    if given.jobs:
        wanted = jobs_of(given.jobs, given.epochs, given.seeds)
        done = (
            []
            if given.without is None
            else [training_of(r["job"]) for r in json.loads(given.without.read_text())]
        )
        print(json.dumps([job for job in wanted if training_of(job) not in done], indent=0))
    if given.runs:
        files = [given.runs] if given.runs.is_file() else sorted(given.runs.glob("*.json"))
        runs: list[dict[str, Any]] = []
        for file in files:
            content = json.loads(file.read_text())
            runs += content if isinstance(content, list) else [content]
        ablation([run for run in runs if "n" in run["job"] and run["job"].get("split", "test") == "test"])
        other_backbones([run for run in runs if "backbone" in run["job"]])
        runs = [run for run in runs if is_of_tables(run["job"])]
        table41(runs)
        over_seeds(runs)
        early_exits(runs)
        small_against_large(runs)
        idle_depth(runs)


if __name__ == "__main__":
    main()
