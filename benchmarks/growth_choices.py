"""Whether growth chooses better than chance: children of one seed by each choice of shortcuts, trained alike.

    python benchmarks/growth_choices.py --data DIR --out FILE [--random-states 0 1 2 --epochs 20 3 15]

CIFAR-10 at 16 x 16, n = 1, F = 16: networks that are trained in seconds on a GPU. Candidates are trained once, on all rows, and
children of three shortcuts per site begin with the ops as they were trained: those of the largest weights, those with the largest
inner products with the gradient on 4,096 training rows, and some that are drawn. "random" is the child of random growth, whose
ops are new. Children are judged on training images that are held out. It needs torch, NumPy and Pillow alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from growth_steps import without_compiled_parts
from network_training import cifar10

HELD_OUT, LOOKED_AT = 4000, 4096


def small_images(folder: Path, n: int) -> tuple[Any, Any]:
    """The first training images, each four pixels averaged to one."""
    X, y = cifar10(folder, "train")
    squares = X[:n].reshape(-1, 3, 16, 2, 16, 2).astype(np.uint16)
    return ((squares.sum(axis=(3, 5)) + 2) // 4).astype(np.uint8), y[:n]


class Study:
    """A seed network and its children."""

    def __init__(self, X: Any, y: Any, random_state: int, rows: int) -> None:
        from anytime.growth.network_growth import Scaling
        from anytime.growth.skeletons import image_seed
        from anytime.networks.recipe import CosineSchedule, TrainingRecipe

        order = np.random.default_rng(100 + random_state).permutation(len(y))
        fit, held = order[:rows], order[rows : rows + HELD_OUT]
        self.X, self.y, self.X_held, self.y_held = X[fit], y[fit], X[held], y[held]
        self.random_state = random_state
        self.scaling = Scaling(self.X.mean(axis=(0, 2, 3)), self.X.std(axis=(0, 2, 3)))
        self.recipe = TrainingRecipe(
            batch_size=128,
            learning_rate=0.1,
            weight_decay=1e-4,
            schedule=CosineSchedule(warmup=0.0),
            augment="crop_flip",
        )
        self.architecture = image_seed((3, 16, 16), 10, n=1, width=16)
        self.results: list[dict[str, Any]] = []

    def train(self, network: Any, epochs: int, seed: int, **options: Any) -> Any:
        """A trainer that is done."""
        from anytime.networks.training import NetworkTrainer

        recipe = replace(self.recipe, epochs=epochs)
        trainer = NetworkTrainer(network, recipe, seed=seed, prepare=self.scaling, **options)
        return trainer.fit(self.X, self.y)

    def judge(self, name: str, trainer: Any, architecture: Any, **told: Any) -> None:
        """Keep a network's error."""
        error = float(trainer.errors(self.X_held, self.y_held)[-1])
        seconds = sum(entry["seconds"] for entry in trainer.history)
        cost = architecture.counts().mult_adds
        self.results.append({"name": name, "cost": cost, "error": error, "seconds": seconds, **told})
        print(self.random_state, name, f"{cost / 1e6:.2f}M {100 * error:.2f} % {seconds:.0f} s", flush=True)

    def child(self, name: str, parent: Any, candidates: Any, strengths: Any, epochs: int, seed: int) -> None:
        """The child of the strongest three of each site."""
        import torch

        from anytime.growth.cells import build
        from anytime.growth.finalising import child_state, choose, chosen_growths

        choices = {
            pattern: choose(
                strength,
                candidates.unions[pattern][0].shortcuts,
                3,
                candidates.weights[pattern].detach().double().cpu().numpy(),
            )
            for pattern, strength in strengths.items()
        }
        torch.manual_seed(1000 + seed)
        grown = chosen_growths(self.architecture, choices, "cat_proj", "zero")
        network = build(grown)
        child_state(network, parent.cpu(), candidates, choices, "zero")
        ops = {p: [f"{s.op} of {s.input}" for s in c.shortcuts] for p, c in choices.items()}
        self.judge(name, self.train(network, epochs, 77 + seed), grown, shortcuts=ops)

    def gradient(self, network: Any, candidates: Any) -> dict[str, Any]:
        """Inner products with the gradient over many rows, without their signs."""
        import torch

        from anytime.growth.finalising import strengths
        from anytime.networks.devices import default_device
        from anytime.networks.stepping import exit_losses

        device = default_device()
        network.to(device).eval()
        rows = np.random.default_rng(3).permutation(len(self.X))[:LOOKED_AT]

        def loss() -> Any:
            x = self.scaling(torch.as_tensor(self.X[rows]).to(device))
            return exit_losses(network(x), torch.as_tensor(self.y[rows]).to(device)).sum()

        return strengths(network, candidates, "gradient", loss)

    def run(self, epochs: list[int], first: float | None) -> list[dict[str, Any]]:
        """All children."""
        import torch

        from anytime.growth.candidates import add_candidates
        from anytime.growth.cells import build
        from anytime.growth.finalising import strengths

        s, (of_seed, of_candidates, of_child) = self.random_state, epochs
        torch.manual_seed(s)
        seed = build(self.architecture)
        self.judge("seed", self.train(seed, of_seed, s), self.architecture)
        learned = copy.deepcopy(seed.cpu().state_dict())

        def parent() -> Any:
            network = build(self.architecture)
            network.load_state_dict(learned)
            return network

        network = parent()
        torch.manual_seed(5 + s)
        candidates = add_candidates(network, first=first)
        self.train(network, of_candidates, 33, extra_loss=lambda: candidates.l1(0.01))
        self.child("weight", network, candidates, strengths(network, candidates, "weight"), of_child, 0)
        self.child("gradient", network, candidates, self.gradient(network, candidates), of_child, 0)
        draw = np.random.default_rng(s + 50)
        for k in range(2):
            drawn = strengths(network, candidates, "random", random=draw)
            self.child("random, trained ops", network, candidates, drawn, of_child, k)
        network = parent()
        torch.manual_seed(50)
        candidates = add_candidates(network)
        drawn = strengths(network, candidates, "random", random=np.random.default_rng(1000 * s))
        self.child("random", network, candidates, drawn, of_child, 0)
        return self.results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--random-states", type=int, nargs="+", default=list(range(8)))
    parser.add_argument("--epochs", type=int, nargs=3, default=[20, 3, 15], help="seed, candidates, child")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--first", type=float, default=1.0, help="weights of candidates at the beginning")
    given = parser.parse_args()
    without_compiled_parts()
    X, y = small_images(given.data, given.rows + HELD_OUT + 1000)
    runs = {f"{s}": Study(X, y, s, given.rows).run(given.epochs, given.first) for s in given.random_states}
    given.out.write_text(json.dumps({"rows": given.rows, "runs": runs}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
