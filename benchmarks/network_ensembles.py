"""Section 4.5.3 of Hu (2019): an ensemble of ever deeper networks beside networks that were trained for one depth alone (OPT).

    python benchmarks/network_tables.py --jobs eann --epochs 40 > jobs.json
    python benchmarks/network_training.py --data DIR --out RUNS --jobs jobs.json --side-by-side 6
    python benchmarks/network_ensembles.py --runs RUNS [--members 7 13 25]

Which exits of each member were wrong about which test images is taken from RUNS into results/network_wrong.npz, one bit each.
Without --runs the figures are made from what is kept there.

Which outputs are adopted is decided on one half of the test images and judged on the other, then the other way round; errors are
means of both. OPT is told at any cost by a line between the networks that were trained, over the logarithm of cost. The bar: at
every cost beyond the first member's, an error at most 1.1 times that of OPT at 1/2.44 of that cost.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from anytime.networks import output_schedule
from anytime.networks.ensemble import adopted_outputs
from common import RESULTS, write
from network_tables import is_of_tables

C, INFLATION, MOST = 32, 2.44, 1.1
GUESSING = 0.9  # error before the first output
N_IMAGES = 10_000
KEPT = RESULTS / "network_wrong.npz"


def runs_of(place: Path) -> list[dict[str, Any]]:
    """Results of trainings on the test images, from a folder with one file each or from a file with a list of them."""
    if place.is_file():
        runs = json.loads(place.read_text())
    else:
        runs = [json.loads(file.read_text()) for file in sorted(place.glob("*.json"))]
    return [r for r in runs if r["job"].get("c") == C and r["job"].get("split", "test") == "test"]


def alone(runs: list[dict[str, Any]], epochs: int) -> dict[int, tuple[float, float]]:
    """Cost and error, in %, of the OPT networks by their depth n."""
    return {
        r["job"]["n"]: (r["mult_adds"][-1], r["errors"][-1])
        for r in sorted(runs, key=lambda r: r["job"]["n"])
        if r["job"]["scheme"] == "opt:1"
        and r["job"]["epochs"] == epochs
        and r["job"]["seed"] == 0
        and is_of_tables(r["job"])
    }


def take(folder: Path, epochs: int) -> None:
    """Keep what the exits of trained members were wrong about, and their costs."""
    found: dict[str, Any] = {}
    if KEPT.exists():
        with np.load(KEPT) as content:
            found = dict(content)
    for file in sorted(folder.glob(f"*_c{C}_epochs{epochs}_*.npz")):
        job = json.loads(file.with_suffix(".json").read_text())["job"]
        if job["seed"] == 0 and job.get("split", "test") == "test":
            with np.load(file) as content:
                wrong = content["said"].argmax(axis=2) != content["y"]
                name = f"{job['scheme']}_{job['n']}_{epochs}"
                found |= {f"{name}_wrong": np.packbits(wrong, axis=1), f"{name}_costs": content["mult_adds"]}
    np.savez_compressed(KEPT, **found)


def kept(n: int, scheme: str, epochs: int) -> tuple[Any, Any] | None:
    """(exits, images) whether a member is wrong, and its costs; None where that is not kept."""
    name = f"{scheme}_{n}_{epochs}"
    with np.load(KEPT) as content:
        if f"{name}_wrong" not in content:
            return None
        wrong = np.unpackbits(content[f"{name}_wrong"], axis=1, count=N_IMAGES).astype(bool)
        return wrong, content[f"{name}_costs"]


def curve(members: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Costs at which outputs are there, and the error of what is adopted by then, in %."""
    schedule = output_schedule([costs for _, costs in members])
    wrong = np.concatenate(
        [wrong for wrong, _ in members]
    )  # one worker: outputs come in the order of members
    n_exits = [len(costs) for _, costs in members]
    errors = []
    for chosen_on in (0, 1):
        own = wrong[:, chosen_on::2].mean(axis=1)
        masks = adopted_outputs(np.split(own, np.cumsum(n_exits)[:-1]), GUESSING)
        last = np.maximum.accumulate(np.where(np.concatenate(masks), np.arange(len(wrong)), -1))
        judged = np.r_[GUESSING, wrong[:, 1 - chosen_on :: 2].mean(axis=1)]
        errors.append(judged[last + 1])
    return np.array([output.time for output in schedule]), 100 * np.mean(errors, axis=0)


def judged(costs: Any, errors: Any, first: float, own: dict[int, tuple[float, float]]) -> dict[str, Any]:
    """The curve against OPT at 1/2.44 of each cost beyond ``first``."""
    at_cost, of_network = np.array(list(own.values())).T
    grid = np.exp(np.linspace(np.log(first), np.log(costs[-1]), 400))
    ours = errors[np.searchsorted(costs, grid * (1 + 1e-9), side="right") - 1]
    reference = np.interp(np.log(grid / INFLATION), np.log(at_cost), of_network)
    ratios = ours / reference
    return {
        "worst_ratio": round(float(ratios.max()), 3),
        "at_share_of_cost": round(float(grid[ratios.argmax()] / costs[-1]), 3),
        "share_of_log_cost_within": round(float((ratios <= MOST).mean()), 3),
        "first_and_last_ratio": [round(float(ratios[0]), 3), round(float(ratios[-1]), 3)],
        "holds": bool((ratios <= MOST).all()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, help="the folder of trainings, with what their exits said")
    parser.add_argument("--members", type=int, nargs="+", default=[7, 13, 25])
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    trained = runs_of(RESULTS / "network_schemes.json")
    if given.runs is not None:
        take(given.runs, given.epochs)
        trained += runs_of(given.runs)
    own = alone(trained, given.epochs)
    print("OPT:", {n: error for n, (_, error) in own.items()})
    found: dict[str, Any] = {}
    for scheme in ("adaloss", "auto"):
        members = {n: kept(n, scheme, given.epochs) for n in given.members}
        trained_n = [n for n, member in members.items() if member is not None]
        there = [member for member in members.values() if member is not None]
        if len(there) < 2:
            print(f"{scheme}: fewer than two of n = {given.members} were trained and kept")
            continue
        costs, errors = curve(there)
        verdict = judged(costs, errors, float(there[0][1][-1]), own)
        found[scheme] = {
            "members": trained_n,
            "costs": costs.tolist(),
            "errors": [round(float(e), 3) for e in errors],
            "against_opt": verdict,
        }
        print(scheme, trained_n, f"ends at {errors[-1]:.2f} %", verdict)
    opt = {str(n): {"mult_adds": cost, "error": error} for n, (cost, error) in own.items()}
    write("network_ensembles", {"epochs": given.epochs, "opt": opt, "ensembles": found})


if __name__ == "__main__":
    main()
