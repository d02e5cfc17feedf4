"""Trains networks with exits on CIFAR-10: one JSON file per training, several trainings side by side.

    python benchmarks/network_training.py --data DIR --out DIR --jobs jobs.json --side-by-side 3

A job is a dict: n, c, scheme ("const", "linear", "adaloss", "half_end", "auto", "opt:0.25" .. "opt:1"), epochs, seed, and any
field of a recipe. Its "split" is "test" (all training images, judged on the test images), "dev" (the last 5,000 training images
judge) or "calibrate" (they are held out, and what the exits say of them is kept beside what they say of the test images).
"keep_said" keeps scores, "keep_network" the parameters. A job whose file is there is not run again, so that a list of jobs can
be spread over several runs. It needs torch, NumPy and Pillow alone: the package's compiled parts are not touched.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

ARCHITECTURE = ("n", "c", "period", "layers", "growth", "base", "side", "hidden")
SOURCE = Path(__file__).resolve().parents[1] / "src" / "anytime"


def without_compiled_parts() -> None:
    """Let the modules of ``anytime.networks`` be imported where the package is not built."""
    for name, folder in (("anytime", SOURCE), ("anytime.networks", SOURCE / "networks")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules.setdefault(name, package)


def cifar10(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """uint8 images (n, 3, 32, 32) and labels of "train" or "test"."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    names = ["test_batch"] if part == "test" else [f"data_batch_{k}" for k in range(1, 6)]
    images, labels = [], []
    for name in names:
        kept = folder / f"{name}.npy"
        if kept.exists():
            images.append(np.load(kept))
        else:
            sheet = np.asarray(Image.open(folder / f"{name}.webp").convert("RGB"))
            stack = sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)
            images.append(np.ascontiguousarray(stack))
        labels.append(np.fromfile(folder / f"{name}.labels.u8", np.uint8).astype(np.int64))
    return np.concatenate(images), np.concatenate(labels)


def train(job: dict[str, Any], data: Path, out: Path) -> dict[str, Any]:
    """Train what a job asks for, and judge every exit on the test images, or on the last 5,000 training images."""
    without_compiled_parts()
    import torch

    from anytime.networks.backbones import build
    from anytime.networks.counting import mult_adds
    from anytime.networks.devices import chosen_device
    from anytime.networks.exits import ExitNetwork
    from anytime.networks.training import NetworkTrainer

    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(job["seed"])
    (X, y), (X_val, y_val), (X_eval, y_eval) = parts(job, data)
    recipe, scheme = settings(job)
    arguments = {name: job[name] for name in ARCHITECTURE if name in job}
    if job["scheme"] == "auto" and job.get("backbone", "resann") == "resann":
        arguments.setdefault("side", 4)
    network = build(job.get("backbone", "resann"), input_shape=(3, 32, 32), n_outputs=10, **arguments)
    costs = np.array(mult_adds(network, (3, 32, 32)).exits(), dtype=float)
    if job["scheme"].startswith("opt:"):  # a network of its own, with one exit
        affordable = int(
            np.searchsorted(costs, float(job["scheme"][4:]) * costs[-1] * (1 + 1e-9), side="right")
        )
        costs = costs[affordable - 1 : affordable]
        blocks = torch.nn.Sequential(*network.blocks[:affordable])
        network = ExitNetwork([blocks], [network.heads[affordable - 1]])
    device = chosen_device(None)
    mean, deviation = (
        torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]
        for values in (X.mean(axis=(0, 2, 3)), X.std(axis=(0, 2, 3)))
    )

    def prepare(x: Any) -> Any:
        return ((x.float() - mean) / deviation).to(memory_format=torch.channels_last)

    def report(entry: dict[str, Any]) -> None:  # a line for the log; judged in evaluation mode now and then
        said = f"{entry['epoch']} {entry['seconds']:.1f} s, last loss {entry['losses'][-1]:.3f}"
        if entry["epoch"] in (1, 2) or entry["epoch"] % 10 == 0:
            said += f", error on 1,000 training images {trainer.errors(X[:1000], y[:1000])[-1]:.3f}"
        print(said, flush=True)

    trainer = NetworkTrainer(
        network, recipe, scheme, device=device, seed=job["seed"], prepare=prepare, report=report
    )
    began = time.monotonic()
    trainer.fit(X, y, time_budget=job.get("time_budget"))
    seconds = time.monotonic() - began
    said = trainer.outputs_of(X_eval).cpu()
    wrong = (said.argmax(dim=2) != torch.from_numpy(y_eval)).float().mean(dim=1)
    if job.get("keep_said"):
        kept = {"said": said.half().numpy(), "y": y_eval, "mult_adds": costs}
        if len(y_val):
            kept |= {"said_val": trainer.outputs_of(X_val).cpu().half().numpy(), "y_val": y_val}
        np.savez_compressed(out / f"{label(job)}.npz", **kept)
    if job.get("keep_network"):
        torch.save({"job": job, "network": network.state_dict()}, out / f"{label(job)}.pt")
    return {
        "job": job,
        "errors": [round(100 * error, 3) for error in wrong.tolist()],
        "mult_adds": costs.tolist(),
        "train_losses": trainer.history[-1]["losses"],
        "weights": trainer.history[-1]["weights"],
        "epochs": trainer.epoch,
        "seconds": round(seconds, 1),
        "seconds_per_epoch": round(float(np.median([entry["seconds"] for entry in trainer.history])), 2),
    }


Split = tuple[np.ndarray, np.ndarray]


def parts(job: dict[str, Any], data: Path) -> tuple[Split, Split, Split]:
    """Images and labels to train on, those held out (maybe none), and those to judge on."""
    X, y = cifar10(data, "train")
    split = job.get("split", "test")
    kept = len(y) - (0 if split == "test" else 5000)
    train, held_out = (X[:kept], y[:kept]), (X[kept:], y[kept:])
    judged = held_out if split == "dev" else cifar10(data, "test")
    rows = job.get("rows")
    if rows is not None:
        train, held_out, judged = (
            (images[:n], labels[:n])
            for (images, labels), n in ((train, rows), (held_out, 500), (judged, 500))
        )
    return train, held_out, judged


def settings(job: dict[str, Any]) -> tuple[Any, Any]:
    """The recipe and the scheme of a job."""
    import torch

    from anytime.networks import weights
    from anytime.networks.recipe import StepSchedule, TrainingRecipe, auto_weights

    fields = {
        name: job[name] for name in TrainingRecipe.__dataclass_fields__ if name in job and name != "schedule"
    }
    if job.get("schedule") == "steps":
        fields["schedule"] = StepSchedule()
    recipe = TrainingRecipe(**{"augment": "crop_flip", "compile": torch.cuda.is_available(), **fields})
    if job["scheme"] == "auto":
        return auto_weights(recipe)
    schemes = {"const": "constant", "opt": "one_exit"}
    name = job["scheme"].partition(":")[0]
    return recipe, weights.SCHEMES[schemes.get(name, name)](**job.get("scheme_arguments", {}))


def label(job: dict[str, Any]) -> str:
    """A file name that tells the job."""
    parts = []
    for key in sorted(job):
        value = job[key]
        if isinstance(value, dict):
            value = "-".join(f"{k}{v}" for k, v in sorted(value.items()))
        if key not in ("keep_said", "keep_network", "time_budget", "compile"):
            parts.append(f"{key}{value}")
    return (
        "_".join(parts).replace(" ", "").replace(":", "").replace("[", "").replace("]", "").replace(",", ".")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--one", help="run this job, a JSON dict, and nothing else")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one is not None:
        job = json.loads(given.one)
        result = train(job, given.data, given.out)
        (given.out / f"{label(job)}.json").write_text(json.dumps(result))
        shown = [
            result["errors"][round(f * (len(result["errors"]) - 1))] for f in (0.0, 0.25, 0.5, 0.75, 1.0)
        ]
        print(label(job), shown, result["seconds"], result["seconds_per_epoch"], flush=True)
        return
    running: list[tuple[dict[str, Any], subprocess.Popen[bytes]]] = []
    started: set[str] = set()
    while True:  # the list is read again and again, so that jobs can be added while others run
        jobs = [j for j in json.loads(given.jobs.read_text()) if label(j) not in started]
        jobs = [j for j in jobs if not (given.out / f"{label(j)}.json").exists()]
        running = [(j, p) for j, p in running if p.poll() is None]
        if jobs and len(running) < given.side_by_side:
            job = jobs[0]
            started.add(label(job))
            arguments = [
                "--data",
                given.data,
                "--out",
                given.out,
                "--jobs",
                given.jobs,
                "--one",
                json.dumps(job),
            ]
            log = open(given.out / f"{label(job)}.log", "wb")  # noqa: SIM115
            running.append(
                (
                    job,
                    subprocess.Popen(
                        [sys.executable, __file__, *map(str, arguments)], stdout=log, stderr=log
                    ),
                )
            )
        elif not jobs and not running:
            break
        else:
            time.sleep(1.0)


if __name__ == "__main__":
    main()
