"""Trains networks with exits on CIFAR-10: one JSON file per training, several trainings side by side.

    python benchmarks/network_training.py --data DIR --out DIR --jobs jobs.json --side-by-side 3

A job is a dict: n, c, scheme ("const", "linear", "adaloss", "half_end", "opt:0.25" .. "opt:1", ...), epochs, seed, and any
field of a
recipe. A job whose file is there is not run again, so that a list of jobs can be spread over several runs. It needs torch,
NumPy and
Pillow alone: the package's compiled parts are not touched.
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

SOURCE = Path(__file__).resolve().parents[1] / "src" / "anytime"


def without_compiled_parts() -> None:
    """Let ``anytime.networks`` be imported where the package is not built."""
    package = types.ModuleType("anytime")
    package.__path__ = [str(SOURCE)]  # type: ignore[attr-defined]
    sys.modules.setdefault("anytime", package)


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
    without_compiled_parts()
    import torch

    from anytime.networks.backbones import build
    from anytime.networks.counting import mult_adds
    from anytime.networks.training import NetworkTrainer, StepSchedule, TrainingRecipe
    from anytime.networks.weights import (
        AdaLoss,
        ConstantWeights,
        FirstOrder,
        HalfEnd,
        LinearWeights,
        Once,
        OneExit,
    )

    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(job["seed"])
    X, y = cifar10(data, "train")
    if job.get("split", "test") == "test":
        X_eval, y_eval = cifar10(data, "test")
    else:
        X, y, X_eval, y_eval = X[:-5000], y[:-5000], X[-5000:], y[-5000:]
    if job.get("rows"):
        X, y, X_eval, y_eval = X[: job["rows"]], y[: job["rows"]], X_eval[:500], y_eval[:500]
    backbone = job.get("backbone", "resann")
    arguments = {
        k: job[k] for k in ("n", "c", "period", "layers", "growth", "base", "side", "hidden") if k in job
    }
    network = build(backbone, input_shape=(3, 32, 32), n_outputs=10, **arguments)
    counts = mult_adds(network, (3, 32, 32))
    costs = np.array(counts.exits())
    name = job["scheme"]
    if name.startswith("opt:"):
        share = float(name[4:])
        network = network.head(int(np.searchsorted(costs, share * costs[-1] * (1 + 1e-9), side="right")))
        scheme = OneExit(-1)
    else:
        scheme = {
            "const": ConstantWeights,
            "linear": LinearWeights,
            "half_end": HalfEnd,
            "adaloss": AdaLoss,
            "once": Once,
            "first_order": FirstOrder,
            "handover": handover(HalfEnd),
        }[name](**job.get("scheme_arguments", {}))
    fields = {f: job[f] for f in TrainingRecipe.__dataclass_fields__ if f in job and f != "schedule"}
    if job.get("schedule") == "steps":
        fields["schedule"] = StepSchedule()
    recipe = TrainingRecipe(**{"augment": "crop_flip", "compile": torch.cuda.is_available(), **fields})
    mean = torch.tensor(X.mean(axis=(0, 2, 3)), dtype=torch.float32)[:, None, None]
    std = torch.tensor(X.std(axis=(0, 2, 3)), dtype=torch.float32)[:, None, None]
    trainer = NetworkTrainer(network, recipe, scheme, seed=job["seed"])
    mean, std = mean.to(trainer.device), std.to(trainer.device)
    trainer.prepare = lambda x: ((x.float() - mean) / std).to(memory_format=torch.channels_last)
    if isinstance(scheme, OneExit):
        whole = network
        only = type(network)([torch.nn.Sequential(*whole.blocks)], [whole.heads[-1]])
        trainer = NetworkTrainer(only, recipe, scheme, seed=job["seed"], prepare=trainer.prepare)
    began = time.monotonic()
    trainer.fit(X, y, time_budget=job.get("time_budget"))
    seconds = time.monotonic() - began
    said = trainer.said(X_eval).cpu()
    wrong = (said.argmax(dim=2) != torch.from_numpy(y_eval)).float().mean(dim=1)
    result = {
        "job": job,
        "errors": [round(100 * e, 3) for e in wrong.tolist()],
        "mult_adds": costs.tolist()
        if not isinstance(scheme, OneExit)
        else [float(costs[network.n_exits - 1])],
        "train_losses": trainer.history[-1]["losses"],
        "weights": trainer.history[-1]["weights"],
        "epochs": trainer.epoch,
        "seconds": round(seconds, 1),
        "seconds_per_epoch": round(float(np.median([h["seconds"] for h in trainer.history])), 2),
    }
    if job.get("keep_said"):
        np.savez_compressed(out / f"{label(job)}.npz", said=said.half().numpy(), y=y_eval)
    return result


def handover(base: Any) -> Any:
    """A scheme that begins with equal weights and ends with almost all of the weight on the last exit."""

    class Handover(base):  # type: ignore[misc]
        name = "handover"

        def __init__(self, total: int, start: float = 0.0, end: float = 1.0, low: float = 0.0) -> None:
            super().__init__(0.5)
            self.total, self.start, self.end, self.low, self.batches = total, start, end, low, 0

        def first(self, n_exits: int) -> list[float]:
            return [1.0] * n_exits

        def update(self, losses: Any) -> None:
            self.batches += 1
            passed = min(max((self.batches / self.total - self.start) / (self.end - self.start), 0.0), 1.0)
            self.weights = self.weights * 0 + (1 - passed) + passed * self.low
            self.weights[-1] = 1.0

    return Handover


def label(job: dict[str, Any]) -> str:
    """A file name that tells the job."""
    parts = []
    for key in sorted(job):
        value = job[key]
        if isinstance(value, dict):
            value = "-".join(f"{k}{v}" for k, v in sorted(value.items()))
        if key not in ("keep_said", "time_budget", "compile"):
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
