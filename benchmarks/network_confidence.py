"""Rows that leave a network early, by our rule and by that of earlyon 0.3.0: accuracy at every mean cost, same exits, same rows.

The exits' scores come from ``network_training.py`` (jobs with ``keep_said``), with the mult-adds of the exits in the file beside.
Temperatures and thresholds are chosen on rows held out of training, and test images judge. Where a file holds scores of test
images alone, one half of them stands for the rows held out and the other half judges; this is repeated over splits.

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

from anytime.stopping import exits_taken, stop_table, temperature

SHARES = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)
FINE_SHARES = tuple(np.round(np.arange(0.04, 1.0, 0.01), 2).tolist())  # of our curve
DROPS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass
class Half:
    """Scores, (L, n, K), and labels, (n,), of rows that choose or judge."""

    said: Any
    y: Any

    def judge(self, taken: Any, costs: Any) -> tuple[float, float]:
        """Mean cost and accuracy, in percent, of rows that leave at these exits."""
        right = self.said.argmax(axis=2) == self.y
        return float(costs[taken].mean()), 100 * float(right[taken, np.arange(len(self.y))].mean())


def ours(first: Half, second: Half, costs: Any) -> dict[float, tuple[float, float]]:
    """A point for each mean cost asked for, as ``predict(X, mean_budget=...)`` answers."""
    heat = np.array([temperature(exit, first.y) for exit in first.said])[:, None, None]
    table = stop_table(confidence(first, heat), margins(first, heat), costs)
    spent, ahead = table.leaving @ costs, margins(second, heat)
    points = {}
    for share in FINE_SHARES:
        policy = max(int(np.searchsorted(spent, share + 1e-9, side="right")) - 1, 0)
        points[share] = second.judge(exits_taken(ahead, table.margins[policy]), costs)
    return points


def confidence(half: Half, heat: Any) -> Any:
    return np.exp(log_softmax(half.said / heat, axis=2).max(axis=2))


def margins(half: Half, heat: Any) -> Any:
    top = np.partition(half.said / heat, -2, axis=2)
    return top[:, :, -1] - top[:, :, -2]


def one_threshold(first: Half, second: Half, costs: Any) -> dict[float, tuple[float, float]]:
    """The same with one threshold for all exits: what choosing them one by one is worth."""
    heat = np.array([temperature(exit, first.y) for exit in first.said])[:, None, None]
    sure, sure2 = confidence(first, heat), confidence(second, heat)
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
        held = None
        if "said_val" in kept:
            held = Half(kept["said_val"].astype(np.float64), kept["y_val"].astype(np.int64))
    counted = np.array(json.loads(path.with_suffix(".json").read_text())["mult_adds"], dtype=np.float64)
    costs = counted / counted[-1]
    mine: dict[float, list[Any]] = {share: [] for share in FINE_SHARES}
    plain: dict[float, list[Any]] = {share: [] for share in SHARES}
    theirs: list[list[Any]] = []
    for split in range(splits if held is None else 1):
        first, second = held, Half(said, y)
        if first is None:
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
    our_curve = np.array([np.mean(mine[share], axis=0) for share in FINE_SHARES])
    plain_curve = np.array([np.mean(plain[share], axis=0) for share in SHARES])
    their_points = np.mean(theirs, axis=0)
    # what we reach at the mean cost of each point of theirs
    ends = np.array([[costs[0], 100 * (said[0].argmax(axis=1) == y).mean()], [1.0, full]])
    curve = np.vstack([ends[:1], our_curve, ends[1:]])
    curve = curve[np.argsort(curve[:, 0], kind="stable")]
    at_theirs = np.interp(their_points[:, 0], curve[:, 0], curve[:, 1])
    near = our_curve[our_curve[:, 1] >= full - 0.2]
    return {
        "file": path.name,
        "rows": "half of the test images" if held is None else f"{len(held.y):,} rows held out of training",
        "full": full,
        "within_0.2_at": near[:, 0].min() if len(near) else 1.0,
        "ours": our_curve.tolist(),
        "one_threshold": plain_curve.tolist(),
        "earlyon": their_points.tolist(),
        "ours_at_the_cost_of_earlyon": at_theirs.tolist(),
    }


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['file']}, thresholds chosen on {found['rows']}")
    print(
        f"full network {found['full']:.2f} %; at most 0.2 points less at {found['within_0.2_at']:.3f} of its cost"
    )
    print("mean cost   ours    one threshold for all exits")
    ours = np.array(found["ours"])
    for cost, right in found["one_threshold"]:
        print(f"  {cost:.3f}    {np.interp(cost, ours[:, 0], ours[:, 1]):.2f}    {right:.2f}")
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
