"""Rows that leave a network early, by our rule and by that of earlyon 0.3.0: accuracy at every mean cost, same exits, same rows.

The exits' scores come from ``network_training.py`` (jobs with ``keep_said``), with the mult-adds of the exits in the file beside.
On one half of the rows temperatures and thresholds are chosen, the other half judges; this is repeated over splits.

    python benchmarks/network_confidence.py FOLDER [--splits 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from anytime.networks.stopping import exits_taken, stopping_thresholds, temperature

SHARES = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)
DROPS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass
class Half:
    """Scores, (L, n, K), and labels, (n,), of half of the rows."""

    said: Any
    y: Any

    def judge(self, taken: Any, costs: Any) -> tuple[float, float]:
        """Mean cost and accuracy, in percent, of rows that leave at these exits."""
        right = self.said.argmax(axis=2) == self.y
        return float(costs[taken].mean()), 100 * float(right[taken, np.arange(len(self.y))].mean())


def ours(first: Half, second: Half, costs: Any) -> dict[float, tuple[float, float]]:
    """A point for each mean cost asked for."""
    heat = np.array([temperature(exit, first.y) for exit in first.said])[:, None, None]
    sure, sure2 = (np.exp(log_softmax(half.said / heat, axis=2).max(axis=2)) for half in (first, second))
    points = {}
    for share in SHARES:
        thresholds = stopping_thresholds(sure, costs, share)
        points[share] = second.judge(exits_taken(sure2, thresholds), costs)
    return points


def one_threshold(first: Half, second: Half, costs: Any) -> dict[float, tuple[float, float]]:
    """The same with one threshold for all exits: what choosing them one by one is worth."""
    heat = np.array([temperature(exit, first.y) for exit in first.said])[:, None, None]
    sure, sure2 = (np.exp(log_softmax(half.said / heat, axis=2).max(axis=2)) for half in (first, second))
    grid = np.unique(np.quantile(sure, np.linspace(0, 1, 500)))
    spent = np.array([costs[exits_taken(sure, np.full(len(costs), t))].mean() for t in grid])
    points = {}
    for share in SHARES:
        t = grid[max(np.searchsorted(spent, share, side="right") - 1, 0)]
        points[share] = second.judge(exits_taken(sure2, np.full(len(costs), t)), costs)
    return points


def earlyon(first: Half, second: Half, costs: Any) -> list[tuple[float, float]]:
    """All points that both searches of earlyon give: for mean costs and for drops of accuracy, with and without temperatures."""
    import torch
    from earlyon.core import thresholds as search

    n_exits = len(costs) - 1

    class Config:
        def __init__(self) -> None:
            self.routing_policy, self.num_classes = "confidence", first.said.shape[2]
            points = [{"name": f"exit{i}", "layer_name": f"exit{i}"} for i in range(n_exits)]
            self.exit_points = [SimpleNamespace(**point) for point in points]

        def validate(self) -> None:
            pass

    class Model:
        """What earlyon's search asks of a model; its logits are known already."""

        config = Config()

        def to(self, device: str) -> Model:
            return self

    model: Any = Model()
    names = [point.name for point in model.config.exit_points]

    def kept(half: Half) -> Any:
        logits = [torch.from_numpy(exit).float() for exit in half.said]
        return search.HeadLogits([*names, "final"], logits, torch.from_numpy(half.y), torch.from_numpy(costs))

    caches = kept(first), kept(second)
    collect = search.collect_head_logits
    search.collect_head_logits = lambda *_: caches[0]  # the network is not run again
    points = []
    try:
        for fit in (False, True):
            searches = [
                (search.calibrate_thresholds_for_budget, {"target_computation": share}) for share in SHARES
            ]
            searches += [(search.calibrate_thresholds, {"target_accuracy_drop": drop}) for drop in DROPS]
            for calibrate, target in searches:
                model.config.temperatures = dict.fromkeys([*names, "final"], 1.0)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    calibrate(model, None, fit_temperature=fit, **target)
                found = search.simulate_policy(caches[1], model)
                points.append((found.avg_flops_fraction, 100 * found.accuracy))
    finally:
        search.collect_head_logits = collect
    return points


def compare(path: Path, splits: int) -> dict[str, Any]:
    with np.load(path) as kept:
        said, y = kept["said"].astype(np.float64), kept["y"].astype(np.int64)
    counted = np.array(json.loads(path.with_suffix(".json").read_text())["mult_adds"], dtype=np.float64)
    costs = counted / counted[-1]
    mine: dict[float, list[Any]] = {share: [] for share in SHARES}
    plain: dict[float, list[Any]] = {share: [] for share in SHARES}
    theirs: list[list[Any]] = []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(y))
        first, second = (Half(said[:, rows], y[rows]) for rows in np.array_split(order, 2))
        for found, points in (
            (mine, ours(first, second, costs)),
            (plain, one_threshold(first, second, costs)),
        ):
            for share, point in points.items():
                found[share].append(point)
        theirs.append(earlyon(first, second, costs))
    full = 100 * float((said[-1].argmax(axis=1) == y).mean())
    our_curve = np.array([np.mean(mine[share], axis=0) for share in SHARES])
    plain_curve = np.array([np.mean(plain[share], axis=0) for share in SHARES])
    their_points = np.mean(theirs, axis=0)
    # what we reach at the mean cost of each point of theirs; the curve rises from the first exit to the last
    ends = np.array([[costs[0], 100 * (said[0].argmax(axis=1) == y).mean()], [1.0, full]])
    curve = np.vstack([ends[:1], our_curve, ends[1:]])
    curve = curve[np.argsort(curve[:, 0], kind="stable")]
    at_theirs = np.interp(their_points[:, 0], curve[:, 0], np.maximum.accumulate(curve[:, 1]))
    return {
        "file": path.name,
        "full": full,
        "ours": our_curve.tolist(),
        "one_threshold": plain_curve.tolist(),
        "earlyon": their_points.tolist(),
        "ours_at_the_cost_of_earlyon": at_theirs.tolist(),
    }


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['file']}\nfull network {found['full']:.2f} %")
    print("mean cost   ours    one threshold for all exits")
    for (cost, right), (cost1, right1) in zip(found["ours"], found["one_threshold"], strict=True):
        print(f"  {cost:.3f}    {right:.2f}    {right1:.2f} at {cost1:.3f}")
    print("mean cost   earlyon  ours   better")
    gaps = []
    rows = sorted(zip(found["earlyon"], found["ours_at_the_cost_of_earlyon"], strict=True))
    for (cost, right), own in rows:
        gaps.append(own - right)
        print(
            f"  {cost:.3f}    {right:.2f}    {own:.2f}   {'ours' if own >= right else 'earlyon'} by {abs(own - right):.2f}"
        )
    print(
        f"ours is no worse at {np.mean(np.array(gaps) >= 0):.0%} of {len(gaps)} points; worst gap {min(gaps):+.2f} points"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = [compare(path, given.splits) for path in sorted(given.folder.glob("*.npz"))]
    for found in results:
        show(found)
    if given.json is not None:
        given.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
