"""What it costs to train all candidates beside a network: time of a step and memory, beside those of the network alone.

    python benchmarks/growth_steps.py [--n 3 --width 16 --batch 128 --device cuda --growths 0 2]

IJ / I_max is the factor of the paper: the union of all candidates against the few that stay. In isolated mode candidates do
not hear each other, so that ops can take turns, and a share of the rows of each batch may train them: "4x1/2" is four turns on
half of the rows. The time is that of the mean step. It needs torch and NumPy alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import types
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).resolve().parents[1] / "src" / "anytime"


def without_compiled_parts() -> None:
    """Let networks that grow be imported where the package is not built."""
    rooms = ("networks", "growth")
    for name, folder in (("anytime", SOURCE), *((f"anytime.{room}", SOURCE / room) for room in rooms)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]  # type: ignore[attr-defined]
        sys.modules.setdefault(name, package)


def grown(n: int, width: int, growths: int) -> Any:
    """The seed for CIFAR-10 after some growths of three separable or dilated shortcuts each."""
    from anytime.growth.architecture import GrownLayer, Shortcut
    from anytime.growth.skeletons import image_seed

    layer = GrownLayer((Shortcut("before", "sep3"), Shortcut("previous", "dil3"), Shortcut("a", "max3")))
    architecture = image_seed(n=n, width=width)
    for _ in range(growths):
        architecture = architecture.grown(dict.fromkeys(architecture.patterns, layer))
    return architecture


def prepared(
    architecture: Any, turns: int, share: float, batch: int, device: str, compile: bool, channels_last: bool
) -> tuple[list[Any], list[Any], Any]:
    """Training steps that take turns, what to call before each, and the network; 0 turns: without candidates."""
    import torch

    from anytime.growth.candidates import add_candidates
    from anytime.growth.cells import build
    from anytime.networks.recipe import TrainingRecipe
    from anytime.networks.stepping import TrainingStep, image_layout, laid_out, make_optimizer
    from anytime.networks.weights import ConstantWeights

    torch.manual_seed(0)
    recipe = TrainingRecipe(batch_size=batch, learning_rate=0.1, compile=compile, channels_last=channels_last)
    layout = image_layout(recipe, torch.device(device))
    network = build(architecture)
    candidates = add_candidates(network, share=share) if turns else None
    network = network.to(device, memory_format=layout).train()
    optimizer = make_optimizer(recipe, list(network.parameters()), torch.device(device))
    extra = None if candidates is None else lambda: candidates.l1(0.01)
    before = [] if candidates is None else candidates.turns(turns)
    before = before or [lambda: None]
    pool = torch.cuda.graph_pool_handle() if device == "cuda" else None
    steps = [
        TrainingStep(
            network, recipe, ConstantWeights(), optimizer, lambda x: laid_out(x, layout), extra, pool
        )
        for _ in before
    ]
    return steps, before, network


def saved_bytes(network: Any, x: Any) -> int:
    """Bytes that a forward pass keeps for the backward pass, each tensor once."""
    import torch

    kept: dict[int, int] = {}

    def note(tensor: Any) -> Any:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        network(x).sum()
    return sum(kept.values())


def measured(steps: dict[str, Any], x: Any, y: Any, repeats: int, device: str) -> dict[str, float]:
    """Median seconds of a step of each way, the ways taken one after the other."""
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def run(made: tuple[list[Any], list[Any], Any], k: int) -> None:
        steps, before, _ = made
        before[k % len(steps)]()
        steps[k % len(steps)](x, y, None, k + 1)

    for made in steps.values():
        for k in range(3 * len(made[0])):
            run(made, k)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, made in steps.items():
            wait()
            began = time.perf_counter()
            for k in range(len(made[0])):
                run(made, k)
            wait()
            times[name].append((time.perf_counter() - began) / len(made[0]))
    return {name: float(np.median(taken)) for name, taken in times.items()}


def read(way: str) -> tuple[int, float]:
    """Turns and share of "4x1/2"."""
    turns, share = way.split("x")
    return int(turns), float(Fraction(share))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=3)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default=None)
    parser.add_argument("--growths", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--ways", nargs="*", default=["1x1", "1x1/4", "7x1", "7x1/2", "7x1/4"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-first", action="store_true", help="store images as torch does by default")
    parser.add_argument("--try-algorithms", action="store_true", help="let cuDNN time its algorithms first")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    without_compiled_parts()
    import torch

    from anytime.networks.devices import default_device

    device = given.device or default_device().type
    torch.backends.cudnn.benchmark = given.try_algorithms
    torch.set_float32_matmul_precision("high")
    x = torch.randn(given.batch, 3, 32, 32, device=device)
    y = torch.randint(0, 10, (given.batch,), device=device)
    rows = []
    for growths in given.growths:
        architecture = grown(given.n, given.width, growths)
        made = {
            way: prepared(
                architecture, *read(way), given.batch, device, given.compile, not given.channels_first
            )
            for way in ("0x1", *given.ways)
        }
        seconds = measured(made, x, y, given.repeats, device)
        counted = len(architecture.inputs("normal")) * len(architecture.ops)
        for way, (_, before, network) in made.items():
            before[0]()
            row = {
                "growths": growths,
                "candidates": "none" if way == "0x1" else way,
                "milliseconds": round(1e3 * seconds[way], 3),
                "times the network's step": round(seconds[way] / seconds["0x1"], 2),
                "IJ / I_max": round(counted / 3, 2),
                "saved MiB": round(saved_bytes(network, x) / 2**20, 1),
            }
            rows.append(row)
            print(row, flush=True)
    record = {
        "device": torch.cuda.get_device_name()
        if device == "cuda"
        else f"cpu, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "n": given.n,
        "width": given.width,
        "batch": given.batch,
        "compile": given.compile,
        "channels last": not given.channels_first,
        "cuDNN times its algorithms": given.try_algorithms,
        "rows": rows,
    }
    if given.out is not None:
        given.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
