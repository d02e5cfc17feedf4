"""A search by growth on CIFAR-10 (n = 3, F = 16), spread over as many runs as it takes, and what is made of it.

    python benchmarks/growth_cifar.py search --data DIR --out DIR --name weight-0 --minutes 9 [--preset short --random-state 0]
    python benchmarks/growth_cifar.py search --data DIR --out DIR --name random-0 --minutes 9 --criterion random
    python benchmarks/growth_cifar.py seed   --data DIR --out DIR --name weight-0 --minutes 9
    python benchmarks/growth_cifar.py best   --data DIR --out DIR --name weight-0
    python benchmarks/growth_cifar.py final  --data DIR --out DIR --name weight-0 --minutes 9 --epochs 60
    python benchmarks/growth_cifar.py report --out DIR

"search" goes on with the search of that name; a job that a run does not finish goes on from its last epoch in the next. "seed"
trains the seed alone for ``--minutes``, which should be those of the search, with a schedule that ends then. "final" makes the
most accurate network of the search deeper (n = 6) and as wide as ``--parameters`` allow, and trains it anew on all training
images within ``--minutes``. Searches and the seed are judged on the last 5,000 training images, the last network and the seed on
the test images. It needs torch, NumPy and Pillow alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from growth_steps import without_compiled_parts
from network_training import cifar10

HELD_OUT = 5000
_TO_JUDGE = 5.0  # seconds that a run keeps for judging the network of its last job
_WORTHWHILE = 25.0  # seconds in which a job can be brought to an end


def images(given: argparse.Namespace, part: str) -> tuple[Any, Any]:
    """Images and labels of "train", "held" or "test", or a few of them."""
    X, y = cifar10(given.data, "test" if part == "test" else "train")
    if part != "test":
        cut = len(y) - HELD_OUT
        X, y = (X[:cut], y[:cut]) if part == "train" else (X[cut:], y[cut:])
    return (X, y) if given.rows is None else (X[: given.rows], y[: given.rows])


def scaling(X: Any) -> Any:
    """By the mean and deviation of each channel."""
    from anytime.growth.network_growth import Scaling

    return Scaling(X.mean(axis=(0, 2, 3)), X.std(axis=(0, 2, 3)))


def phases(given: argparse.Namespace) -> Any:
    """The preset, or fewer epochs of it."""
    from anytime.growth.phases import PRESETS, Phases

    preset = PRESETS[given.preset]
    own = {"compile": given.compile, "channels_last": None if not given.channels_first else False}
    recipes = [replace(r, **own) for r in (preset.seed, preset.candidates, preset.child)]
    if given.batch is not None:
        recipes = [replace(r, batch_size=given.batch) for r in recipes]
    for name, asked in (("learning_rate", given.rate), ("epochs", given.epochs)):
        if asked is not None:
            each = asked * 3 if len(asked) == 1 else asked
            recipes = [replace(r, **{name: value}) for r, value in zip(recipes, each, strict=True)]
    return Phases(*recipes, drop_path=preset.drop_path)


def problem(given: argparse.Namespace, due: float) -> Any:
    """What the search grows."""
    from anytime.growth.network_growth import NetworkGrowth
    from anytime.growth.phases import GrowthSettings
    from anytime.growth.skeletons import image_seed

    class Hurried(NetworkGrowth):
        """The job under way when the time is nearly over ends with it: its schedule is hurried."""

        def _fit(self, trainer: Any) -> None:
            left = due - _TO_JUDGE - time.monotonic()
            self.job_seconds = left if left > _WORTHWHILE else None
            super()._fit(trainer)

    X, y = images(given, "train")
    return (Hurried if given.hurry else NetworkGrowth)(
        image_seed(n=given.n, width=given.width, tying=given.tying),
        *(X, y, *images(given, "held")),
        phases=phases(given),
        settings=GrowthSettings(
            n_shortcuts=given.shortcuts,
            mode=given.mode,
            merge=given.merge,
            criterion=given.criterion,
            turns=given.turns if given.mode == "isolated" else 1,
            share=given.share if given.mode == "isolated" else 1.0,
        ),
        scaling=scaling(X),
        keep_unfinished=True,
    )


def search(given: argparse.Namespace) -> None:
    """Go on with a search until the time of this run is over."""
    from anytime.growth.search import GrowthSearch

    began, folder = time.monotonic(), given.out / given.name
    ours = GrowthSearch(
        problem(given, began + 60 * given.minutes),
        folder,
        cost_limit=given.cost_limit,
        random_state=given.random_state,
    )
    known = {model.number for model in ours.models}
    left = 60 * given.minutes - (time.monotonic() - began)
    ours.run(left, None if given.models is None else given.models, report=lambda s: tell(s, known))
    spent = read(folder).get("seconds", 0.0) + time.monotonic() - began
    summary = {
        "arguments": {k: str(v) if isinstance(v, Path) else v for k, v in vars(given).items() if k != "do"},
        "seconds": spent,
        "failures": [f"{failure}"[:500] for failure in ours.failures],
        "models": [
            {
                "number": model.number,
                "parent": model.parent,
                "cost": model.cost,
                "error": model.error,
                "seconds": model.seconds,
                "notes": model.notes,
                "architecture": model.architecture,
                "checkpoint": model.checkpoint,
            }
            for model in ours.models
        ],
        "hull": [model.number for model in ours.hull()],
    }
    (folder / "search.json").write_text(json.dumps(summary), encoding="utf-8")
    print(f"{given.name}: {len(ours.models)} networks in {spent:.0f} s, ended by {ours.ended_by}", flush=True)


def tell(ours: Any, known: set[int]) -> None:
    for model in ours.models:
        if model.number not in known:
            known.add(model.number)
            print(
                f"network {model.number} of {model.parent}: {model.cost / 1e6:.1f}M, error {100 * model.error:.2f} %",
                flush=True,
            )


def read(folder: Path) -> dict[str, Any]:
    """What a search has written, or nothing."""
    path = folder / "search.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def trained(
    given: argparse.Namespace, architecture: Any, recipe: Any, X: Any, y: Any, kept: Path
) -> dict[str, Any]:
    """Train a network from scratch, with a schedule that ends within the minutes, and judge it on the test images."""
    import torch

    from anytime.growth.cells import build
    from anytime.growth.network_growth import Scaling
    from anytime.networks.training import NetworkTrainer

    prepare: Scaling = scaling(X)
    torch.manual_seed(given.random_state)
    network = build(architecture)
    trainer = NetworkTrainer(
        network,
        recipe,
        seed=given.random_state,
        prepare=prepare,
        report=lambda entry: print(
            f"epoch {entry['epoch']}: loss {entry['losses'][-1]:.4f}, {entry['seconds']:.1f} s", flush=True
        ),
    )
    began = time.monotonic()
    trainer.fit(X, y, time_budget=60 * given.minutes)
    result = {
        "epochs": trainer.epoch,
        "training_seconds": time.monotonic() - began,
        "parameters": architecture.counts().parameters,
        "mult_adds": architecture.counts().mult_adds,
        "recipe": {k: v for k, v in vars(recipe).items() if isinstance(v, int | float | str)},
        "test_error": float(trainer.errors(*images(given, "test"))[-1]),
        "architecture": architecture.to_json(),
    }
    if given.do == "seed":
        result["held_out_error"] = float(trainer.errors(*images(given, "held"))[-1])
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print({k: v for k, v in result.items() if k != "architecture"}, flush=True)
    return result


def best_of_all(given: argparse.Namespace) -> None:
    """The most accurate network of the search on the test images, as it stands."""
    from anytime.growth.network_growth import Scaling
    from anytime.networks.training import NetworkTrainer

    folder = given.out / given.name
    best = min(read(folder)["models"], key=lambda model: (model["error"], model["cost"]))
    ours = problem(given, 0.0)
    network = ours.load(best["architecture"], folder / best["checkpoint"])
    prepare: Scaling = ours.scaling
    trainer = NetworkTrainer(network, phases(given).child, prepare=prepare)
    result = {
        "number": best["number"],
        "held_out_error": float(trainer.errors(*images(given, "held"))[-1]),
        "test_error": float(trainer.errors(*images(given, "test"))[-1]),
    }
    (folder / "best.json").write_text(json.dumps(result), encoding="utf-8")
    print(result, flush=True)


def seed_alone(given: argparse.Namespace) -> None:
    """The seed, trained on the search's images for the time of a search, judged as its networks were."""
    from anytime.growth.skeletons import image_seed

    X, y = images(given, "train")
    recipe = replace(phases(given).seed, epochs=10_000)  # the clock ends it
    trained(
        given,
        image_seed(n=given.n, width=given.width, tying=given.tying),
        recipe,
        X,
        y,
        given.out / given.name / "seed-alone.json",
    )


def final(given: argparse.Namespace) -> None:
    """The most accurate network of the search, deeper and wider, on all training images: nothing is held out any more."""
    from anytime.growth.architecture import Architecture
    from anytime.growth.phases import FINAL_RECIPE

    folder = given.out / given.name
    models = {model["number"]: model for model in read(folder)["models"]}
    best = min(models.values(), key=lambda model: (model["error"], model["cost"]))
    found = Architecture.from_json(
        best["architecture"] if given.model is None else models[given.model]["architecture"]
    )
    X, y = cifar10(given.data, "train")
    if given.rows is not None:
        X, y = X[: given.rows], y[: given.rows]
    recipe = replace(
        FINAL_RECIPE,
        epochs=given.epochs[0] if given.epochs else 60,
        batch_size=given.batch or 128,
        learning_rate=given.rate[0] if given.rate else 0.1,
        weight_decay=5e-4,
        label_smoothing=0.1,
        compile=given.compile,
        channels_last=None if not given.channels_first else False,
    )
    architecture = widest(found, given.parameters)
    print(f"width {architecture.width}, {architecture.counts()}", flush=True)
    trained(given, architecture, recipe, X, y, folder / "final.json")


def widest(found: Any, parameters: float) -> Any:
    """The network with n = 6 and as many channels, in fours, as so many parameters allow."""
    from anytime.growth.skeletons import doubled, scaled

    deep = doubled(found).merged("cat_proj")
    width = 16
    while scaled(deep, width=width + 4).counts().parameters <= parameters:
        width += 4
    return scaled(deep, width=width)


def report(given: argparse.Namespace) -> None:
    """All searches of a folder: hull, area up to a common point, the seed alone, the last network."""
    from anytime.growth.hull import hull_area, lower_hull

    found = {path.parent.name: read(path.parent) for path in sorted(given.out.glob("*/search.json"))}
    most = max(model["cost"] for entry in found.values() for model in entry["models"])
    worst = max(entry["models"][0]["error"] for entry in found.values())
    for name, entry in found.items():
        costs, errors = (np.array([model[key] for model in entry["models"]]) for key in ("cost", "error"))
        area = hull_area(costs, errors, (most, worst))
        hull = "  ".join(f"{costs[i] / 1e6:.1f}M: {100 * errors[i]:.2f}" for i in lower_hull(costs, errors))
        print(
            f"{name}: {len(costs)} networks, {entry['seconds']:.0f} s, area {area:.4g}; hull, mult-adds and error in %: {hull}"
        )
        for other in ("seed-alone", "final"):
            path = given.out / name / f"{other}.json"
            if path.exists():
                print(f"  {other}: {path.read_text(encoding='utf-8')}".replace("\n", ""))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["search", "seed", "best", "final", "report"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="search")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--preset", choices=["smoke", "short", "paper"], default="short")
    parser.add_argument("--criterion", default="weight")
    parser.add_argument("--hurry", action="store_true", help="end the last job of the run with the run")
    parser.add_argument("--mode", default="isolated")
    parser.add_argument("--merge", default="cat_proj")
    parser.add_argument("--tying", default="cell")
    parser.add_argument("--shortcuts", type=int, default=3)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--n", type=int, default=3)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--parameters", type=float, default=3e6, help="the most of the last network")
    parser.add_argument("--model", type=int)
    parser.add_argument("--models", type=int, help="the most networks of a search")
    parser.add_argument("--cost-limit", type=float)
    parser.add_argument(
        "--epochs", type=int, nargs="+", help="of all trainings, or of seed, candidates and child"
    )
    parser.add_argument("--rate", type=float, nargs="+", help="learning rates, as epochs")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rows", type=int, help="only so many images, for a rehearsal")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-first", action="store_true", help="store images as torch does by default")
    given = parser.parse_args()
    without_compiled_parts()
    if given.do != "report":
        import torch

        torch.set_float32_matmul_precision("high")
    given.out.mkdir(parents=True, exist_ok=True)
    {"search": search, "seed": seed_alone, "best": best_of_all, "final": final, "report": report}[given.do](
        given
    )


if __name__ == "__main__":
    main()
