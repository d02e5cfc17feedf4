"""Weights of exits on a set that a CPU can do: one residual network on a quarter of Fashion-MNIST, trained by every scheme.

Errors on the official test images at 1/4, 1/2, 3/4 and all of the full network's mult-adds, beside four networks that were each
trained for one of these depths alone (OPT). About ten minutes on two quiet cores.

    python benchmarks/network_fashion.py [--epochs 6] [--rows 15000] [--seeds 1] [--threads 2] [--quick]

Set ``ANYTIME_DATA`` to the folder that holds ``fashion-mnist``. ``--quick`` trains for a moment on a few hundred images, and
writes no file.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import anytime as at
from anytime.networks import ExitNetwork, OneExit, TrainingRecipe, mult_adds, resann
from common import write

SHAPE = (1, 28, 28)
SIZE: dict[str, Any] = {"n": 2, "c": 8}
SHARES = (0.25, 0.5, 0.75, 1.0)
SCHEMES = {"CONST": "constant", "LINEAR": "linear", "AdaLoss": "adaloss", "auto": "auto"}


def trained(rows: tuple[Any, Any], recipe: TrainingRecipe, seed: int, **settings: Any) -> tuple[Any, float]:
    """A fitted network and the seconds that it took."""
    began = time.perf_counter()
    model = at.AnytimeNetworkClassifier(
        recipe=recipe, random_state=seed, device="cpu", validation_fraction=None, **settings
    ).fit(*rows)
    return model, time.perf_counter() - began


def errors_of_exits(model: Any, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> list[float]:
    """Error of every exit, in %."""
    answers = [answer for answer in model.stages(images) if answer.stage]
    return [round(100 * float(np.mean(answer.prediction != labels)), 2) for answer in answers]


def affordable(costs: list[float], budget: float) -> int:
    """The last exit that ``budget`` pays for."""
    return int(np.searchsorted(costs, budget * (1 + 1e-9), side="right")) - 1


def alone(share: float, seed: int) -> ExitNetwork:
    """The network that ends at the last exit within ``share`` of the full cost, with this exit only."""
    torch.manual_seed(seed)
    network = resann(**SIZE, input_shape=SHAPE, n_outputs=10)
    costs = mult_adds(network, SHAPE).exits()
    k = affordable(costs, share * costs[-1])
    return ExitNetwork([torch.nn.Sequential(*network.blocks[: k + 1])], [network.heads[k]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rows", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.epochs, given.rows = 1, 256
    torch.set_num_threads(given.threads)
    X, y = (part[: given.rows] for part in at.datasets.load_images("fashion-mnist"))
    X_test, y_test = at.datasets.load_images("fashion-mnist", "test")
    if given.quick:
        X_test, y_test = X_test[:500], y_test[:500]
    recipe = TrainingRecipe(epochs=given.epochs, batch_size=64, learning_rate=0.1)
    runs = []
    for seed in range(given.seeds):
        for name, scheme in SCHEMES.items():
            model, seconds = trained(
                (X, y), recipe, seed, backbone="resann", backbone_arguments=SIZE, loss_weights=scheme
            )
            errors = errors_of_exits(model, X_test, y_test)
            costs = [float(cost) for cost in model.stage_costs_]
            at_shares = [errors[affordable(costs, share * costs[-1])] for share in SHARES]
            runs.append({"scheme": name, "seed": seed, "errors": errors, "mult_adds": costs})
            runs[-1] |= {"at_shares": at_shares, "seconds": round(seconds, 1)}
            print(json.dumps(runs[-1]), flush=True)
        own, total = [], 0.0
        for share in SHARES:
            model, seconds = trained(
                (X, y), recipe, seed, backbone=alone(share, seed), loss_weights=OneExit(-1)
            )
            own += errors_of_exits(model, X_test, y_test)
            total += seconds
        runs.append({"scheme": "OPT", "seed": seed, "at_shares": own, "seconds": round(total, 1)})
        print(json.dumps(runs[-1]), flush=True)
    if not given.quick:
        setting = {"epochs": given.epochs, "rows": given.rows, "network": SIZE, "shares": list(SHARES)}
        write("network_fashion", {"setting": setting, "runs": runs})


if __name__ == "__main__":
    main()
