"""Figure 2.3 of Grubb's thesis on a task of our own: learning from demonstrated paths which ground is costly.

The thesis shows one "sample planning dataset" of maximum margin planning without a name and without numbers. Here, walkers cross
square maps from the left edge to the right, one column at a step, up or down by one row at most. Cells have five features (four
of ground, smooth over the map, and one of noise). What a cell costs is a function of them that bends and jumps; a learner sees
only the cheapest paths, as demonstrations, on 40 maps. It looks for costs at which each demonstrated path is cheaper than every
other, by a margin of 0.1 for every cell off it; the planner is exact dynamic programming, for which costs may be below 0.

Weak learners are neural networks with five hidden units, as in the thesis, fitted to the gradient by least squares. Basic,
repeated and residual projection take steps ``a / sqrt(t)``, with ``a`` chosen for each by the regret on the test maps of world 0
after 30 networks. "Loss" is that of maximum margin planning per map; "regret" is how much dearer the planned path is than the
best. World 0 and, while the task had 20 maps and a margin of 1, worlds 1 to 5 were looked at before; worlds from 11 on are told.

    python benchmarks/imitation.py [--worlds 5] [--learners 60]
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from anytime.losses import Loss
from anytime_research.boosting.descent import descend
from common import write

Array = NDArray[np.float64]
SIDE, FEATURES = 20, 5
TRAIN_MAPS, TEST_MAPS = 40, 40
MARGIN = 0.1  # of a path, for each cell off the demonstrated one
ALGORITHMS = ("basic", "repeated", "residual")
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)
SHOWN = (1, 3, 5, 10, 20, 40, 60)
SHORT = 30  # networks of the runs that choose steps


class World:
    """Maps, and the paths that were demonstrated on them.

    Attributes
    ----------
    X : (maps * SIDE * SIDE, FEATURES)
    true : (maps, SIDE, SIDE)
        What cells cost.
    shown : (maps, SIDE, SIDE) bool
        Cells of the demonstrated path.
    """

    def __init__(self, n_maps: int, rng: np.random.Generator) -> None:
        ground = ndimage.gaussian_filter(
            rng.normal(size=(FEATURES - 1, n_maps, SIDE, SIDE)), (0.0, 0.0, 1.5, 1.5)
        )
        ground /= ground.std()
        self.true = (
            1 + 1.5 * np.maximum(ground[0] * ground[1], 0) + 2.0 * (ground[2] > 0.5) + 0.5 * ground[3] ** 2
        )
        features = np.concatenate([ground, rng.normal(size=(1, n_maps, SIDE, SIDE))])
        self.X = features.reshape(FEATURES, -1).T.copy()
        self.shown = cheapest(self.true)

    def planned(self, scores: Array) -> NDArray[np.bool_]:
        """The cheapest paths if a cell costs its score."""
        return cheapest(scores.reshape(self.true.shape))

    def loss(self, scores: Array) -> float:
        """Mean over maps."""
        return float(margin_loss(scores, self.shown).sum() / len(self.shown))

    def regret(self, scores: Array) -> float:
        """How much more planned paths truly cost than demonstrated ones, as a share."""
        costs = [(self.true * path).sum() for path in (self.planned(scores), self.shown)]
        return float(costs[0] / costs[1] - 1)


def cheapest(costs: Array) -> NDArray[np.bool_]:
    """(maps, SIDE, SIDE) cells of the cheapest path of each map, from any cell of the first column to any of the last."""
    maps, rows = np.arange(len(costs)), np.arange(SIDE)
    total, came = costs[:, :, 0], np.empty((SIDE, len(costs), SIDE), dtype=np.intp)
    for column in range(1, SIDE):
        wide = np.pad(total, ((0, 0), (1, 1)), constant_values=np.inf)
        three = np.stack([wide[:, step : step + SIDE] for step in range(3)])
        came[column] = rows + three.argmin(axis=0) - 1
        total = three.min(axis=0) + costs[:, :, column]
    path = np.zeros(costs.shape, dtype=bool)
    row = total.argmin(axis=1)
    for column in range(SIDE - 1, -1, -1):
        path[maps, row, column] = True
        if column:
            row = came[column, maps, row]
    return path


def margin_loss(scores: Array, shown: NDArray[np.bool_]) -> Array:
    """(n,) costs of the shown path's cells less those of the cheapest path; off the former, cells cost the margin less."""
    cost = scores.reshape(shown.shape)
    eager = cost - MARGIN * ~shown
    return (cost * shown - eager * cheapest(eager)).ravel()


def margin_gradient(scores: Array, shown: NDArray[np.bool_]) -> Array:
    """(n, 1) cells that were shown less cells that would be planned."""
    eager = scores.reshape(shown.shape) - MARGIN * ~shown
    return (shown.astype(np.float64) - cheapest(eager)).reshape(-1, 1)


def networks(X: Array, seed: int) -> Any:
    """The learner: five hidden units, least squares."""
    rng = np.random.default_rng(seed)

    def fit(target: Array, weight: Array) -> tuple[Any, Array]:
        network = MLPRegressor(
            hidden_layer_sizes=(5,), solver="lbfgs", max_iter=25, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(X, target[:, 0])
        return (lambda Z: network.predict(Z)[:, None]), network.predict(X)[:, None]

    return fit


def run(
    train: World, test: World, algorithm: str, scale: float, n_learners: int, seed: int
) -> dict[str, Any]:
    """Losses and regret on the test maps by number of networks."""
    loss = Loss(
        "maximum margin planning",
        lambda scores, shown: margin_loss(scores, shown.reshape(train.shown.shape)),
        gradient=lambda scores, shown: margin_gradient(scores, shown.reshape(train.shown.shape)),
        kinked=True,
    )
    steps = int(np.sqrt(2 * n_learners)) if algorithm == "repeated" else n_learners
    found = descend(
        loss, train.shown.ravel(), networks(train.X, seed), steps, algorithm=algorithm, start=np.ones(1),
        step=lambda t: scale / np.sqrt(t),
    )  # fmt: skip
    record: dict[str, Any] = {"networks": [], "training_loss": [], "loss": [], "regret": []}
    ends = set(found.ends.tolist())
    for k, (seen, new) in enumerate(zip(found.staged(train.X), found.staged(test.X), strict=True), start=1):
        if k in ends and (algorithm == "repeated" or k in SHOWN or k == len(found.weights)):
            record["networks"].append(k)
            record["training_loss"].append(round(train.loss(seen), 4))
            record["loss"].append(round(test.loss(new), 4))
            record["regret"].append(round(test.regret(new), 4))
    return record


def drawn(seed: int) -> tuple[World, World]:
    """Training and test maps."""
    rng = np.random.default_rng([23, seed])
    return World(TRAIN_MAPS, rng), World(TEST_MAPS, rng)


def main() -> None:
    """Choose steps on world 0, report the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=5)
    parser.add_argument("--learners", type=int, default=60)
    options = parser.parse_args()
    began = time.process_time()
    train, test = drawn(0)
    tried = {
        algorithm: {
            scale: run(train, test, algorithm, scale, min(SHORT, options.learners), 0)["regret"][-1]
            for scale in SCALES
        }
        for algorithm in ALGORITHMS
    }
    scales = {algorithm: min(losses, key=losses.__getitem__) for algorithm, losses in tried.items()}
    worlds = []
    for seed in range(11, 11 + options.worlds):
        train, test = drawn(seed)
        constant = np.ones(len(test.X))
        worlds.append(
            {
                "before": {"loss": test.loss(constant), "regret": round(test.regret(constant), 4)},
                **{a: run(train, test, a, scales[a], options.learners, seed) for a in ALGORITHMS},
            }
        )
    keys = ("training_loss", "loss", "regret")
    last = {key: {a: [world[a][key][-1] for world in worlds] for a in ALGORITHMS} for key in keys}
    summary = {
        a: {key: round(float(np.mean([world[a][key][-1] for world in worlds])), 4) for key in keys}
        for a in ALGORITHMS
    }
    figures = {
        "learners": options.learners,
        "regret_by_step_on_world_0": tried,
        "step": scales,
        "processor_seconds": round(time.process_time() - began, 1),
        "mean_at_the_end": summary,
        "before": {
            key: round(float(np.mean([world["before"][key] for world in worlds])), 4)
            for key in ("loss", "regret")
        },
        "worlds_in_which_it_ends_below_basic": {
            f"{a}, {key}": sum(b < c for b, c in zip(last[key][a], last[key]["basic"], strict=True))
            for key in keys
            for a in ("repeated", "residual")
        },
        "worlds": worlds,
    }
    write("imitation", figures)


if __name__ == "__main__":
    main()
