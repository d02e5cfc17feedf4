"""What only a machine with a GPU can show: all stages against the plain forward pass, deadlines, too little memory, two workers.

    python benchmarks/network_gpu.py [--json results.json]
    python benchmarks/network_gpu.py --device cpu --tiny       # a rehearsal: the same steps, figures that mean nothing

Every part stands for itself: one that fails is told, with its error, and the others go on. The bars are those of one large GPU:
all stages of a batch of 256 in at most 1.05 times the plain forward pass, and 99 % of answers no later than their deadline and
one block.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import anytime as at
from anytime.networks import ExitNetwork, NetworkBlock, NetworkTrainer, TrainingError, TrainingRecipe, build

sys.path.insert(0, str(Path(__file__).parents[1] / "research"))  # the load generator

MOST_RATIO, LEAST_IN_TIME = 1.05, 0.99
MEMORY = 2 << 30  # bytes that the part about too little memory may use


@dataclass(frozen=True)
class Setting:
    """What all parts need."""

    device: torch.device
    n: int
    c: int
    side: int  # of images
    batch: int
    rounds: int
    seconds: float  # of each load on the server

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image."""
        return 3, self.side, self.side

    def network(self) -> ExitNetwork:
        """A residual network with random weights: its answers mean nothing, its times are those of any of that size."""
        torch.manual_seed(0)
        return build("resann", n=self.n, c=self.c, input_shape=self.shape).to(self.device).eval()

    def images(self, n_rows: int) -> Any:
        """Noise."""
        return np.random.default_rng(0).normal(size=(n_rows, *self.shape)).astype(np.float32)


def wait(device: torch.device) -> None:
    """Until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


def ratio(plain: Callable[[], Any], model: Callable[[], Any], setting: Setting) -> dict[str, float]:
    """Rounds alternate; the median of ratios of neighbours in time."""
    for _ in range(5):
        plain(), model()
    device = setting.device
    times = np.array([(seconds(plain, device), seconds(model, device)) for _ in range(setting.rounds)])
    return {
        "plain_ms": 1e3 * float(np.median(times[:, 0])),
        "model_ms": 1e3 * float(np.median(times[:, 1])),
        "ratio": float(np.median(times[:, 1] / times[:, 0])),
        "ratio_of_least": float(times[:, 1].min() / times[:, 0].min()),
    }


# ---------------------------------------------------------------------- all stages, and deadlines


def overhead(setting: Setting) -> dict[str, Any]:
    """All stages against plain forward passes of the same network, in the layout that the model has chosen."""
    X, model, block = _made(setting, setting.batch)
    network = block.network

    @torch.inference_mode()
    def all_heads() -> Any:
        return network(block.inputs(X)).cpu()

    @torch.inference_mode()
    def one_head() -> Any:
        return network.heads[-1](network.advance(block.inputs(X), 0, network.n_exits - 1)).cpu()

    hurried: Callable[[], Any] = lambda: model.predict(X, deadline=600.0)  # noqa: E731
    found: dict[str, Any] = {
        "every block, watching the clock, against all heads": ratio(all_heads, hurried, setting),
        "every block, watching the clock, against one head": ratio(one_head, hurried, setting),
        "no deadline, against one head": ratio(one_head, lambda: model.predict(X), setting),
        "every answer told, against all heads": ratio(all_heads, lambda: list(model.stages(X)), setting),
    }
    with torch.inference_mode():
        said = network(block.inputs(X))[-1].float().cpu().numpy()
    found["largest_difference"] = _difference(model.decision_function(X, deadline=600.0), said)
    found["holds"] = found["every block, watching the clock, against all heads"]["ratio"] <= MOST_RATIO
    return found


def deadlines(setting: Setting) -> dict[str, Any]:
    """Share of answers that come no later than their deadline and one block, for a batch and for one image."""
    found: dict[str, Any] = {}
    for n_rows in (setting.batch, 1):
        X, model, block = _made(setting, n_rows)
        runs = [seconds(partial(model.predict, X, deadline=600.0), setting.device) for _ in range(12)]
        whole = float(np.median(runs[3:]))
        one_block = float(block.measure(n_rows, 9).max())
        late, reached = [], []
        shares = np.random.default_rng(0).uniform(0.1, 1.2, max(100, 3 * setting.rounds))
        for deadline in (shares * whole).tolist():
            wait(setting.device)
            began = time.perf_counter()
            due = time.monotonic() + deadline
            run = model._run_plan(model._read_in(X), None, None, due)
            model._decide(run.scores())
            late.append(time.perf_counter() - began - deadline)
            reached.append(float(run.done.mean()) / block.n_stages)
        in_time = float(np.mean(np.array(late) <= one_block))
        found[f"{n_rows} rows"] = {
            "whole_ms": 1e3 * whole,
            "one_block_ms": 1e3 * one_block,
            "in_time": float(np.mean(np.array(late) <= 0)),
            "in_time_and_one_block": in_time,
            "mean_share_of_stages": float(np.mean(reached)),
            "mean_share_of_deadlines": float(np.minimum(shares, 1.0).mean()),
            "worst_ms": 1e3 * float(max(late)),
            "holds": in_time >= LEAST_IN_TIME,
        }
    found["holds"] = all(entry["holds"] for entry in found.values())
    return found


def _difference(scores: Any, others: Any) -> float:
    """The largest, as a share of the largest score: a GPU adds up in another order, and in fewer digits."""
    return float(np.abs(scores - others).max() / np.abs(others).max())


def _made(setting: Setting, n_rows: int) -> tuple[Any, Any, NetworkBlock]:
    """Images, a model, and its one block of stages."""
    model = at.make_anytime(setting.network(), input_shape=setting.shape)
    block = model.plan_.blocks[0]
    assert isinstance(block, NetworkBlock)
    return setting.images(n_rows), model, block


# ---------------------------------------------------------------------- too little memory


class _Narrow(torch.nn.Module):
    """In a rehearsal: a head for which there is memory for so many rows only."""

    def __init__(self, head: torch.nn.Module, most: int) -> None:
        super().__init__()
        self.head, self.most = head, most

    def forward(self, state: Any) -> Any:
        if len(state) > self.most:
            raise torch.cuda.OutOfMemoryError("rehearsed")
        return self.head(state)


def too_little_memory(setting: Setting) -> dict[str, Any]:
    """Training and prediction with batches for which there is no memory: what is said, and whether that is true."""
    is_gpu = setting.device.type == "cuda"
    if is_gpu:
        whole = torch.cuda.get_device_properties(setting.device).total_memory
        torch.cuda.set_per_process_memory_fraction(MEMORY / whole, setting.device)
    try:
        batch = 8192 if is_gpu else 64
        X = np.zeros((batch, *setting.shape), dtype=np.uint8)
        y = np.arange(batch) % 10

        def train(size: int) -> str:
            network = setting.network()
            if not is_gpu:
                network = ExitNetwork(network.blocks, [_Narrow(head, 12) for head in network.heads])
            recipe = TrainingRecipe(epochs=1, batch_size=size)
            try:
                NetworkTrainer(network, recipe, device=setting.device).fit(X, y)
            except TrainingError as error:
                return str(error)
            return "it fits"

        said = train(batch)
        named = int(said.split(";")[1].split()[0]) if ";" in said else 0
        again = train(named) if named else "no size was named"
        found = {"training": said, "training_with_the_size_that_was_named": again}
        found["prediction"] = _predicted_with_little(setting, batch)
    finally:
        if is_gpu:
            torch.cuda.set_per_process_memory_fraction(1.0, setting.device)
            torch.cuda.empty_cache()
    return found | {"holds": named > 0 and again == "it fits" and found["prediction"]["agrees"]}


def _predicted_with_little(setting: Setting, n_rows: int) -> dict[str, Any]:
    """A batch that is too large is halved until it fits; answers are those of small batches."""
    import warnings

    network, X = setting.network(), setting.images(n_rows)
    if setting.device.type != "cuda":
        network = ExitNetwork(network.blocks, [_Narrow(head, 12) for head in network.heads])
    few = 8
    small = NetworkBlock(
        network, [np.arange(X[0].size)] * network.n_exits, setting.shape, device=setting.device
    )
    small.batch_rows = few
    large = small.changed(network, batch_rows=n_rows)
    last, rows = network.n_exits - 1, X.reshape(n_rows, -1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        said = large.outputs(last, rows)
    difference = _difference(said[:256], small.outputs(last, rows[:256]))
    return {
        "rows": n_rows,
        "rows_at_a_time": large.batch_rows,
        "warning": [str(entry.message) for entry in told],
        "largest_difference": difference,
        "agrees": large.batch_rows < n_rows and difference < 0.02,
    }


# ---------------------------------------------------------------------- serving


def serving(setting: Setting) -> dict[str, Any]:
    """``anytime serve`` with one worker and with two, which share the device."""
    from _servers import anytime_server, call, generator, shoot

    X = np.random.default_rng(0).integers(0, 256, (120, *setting.shape), dtype=np.uint8)
    recipe = TrainingRecipe(epochs=1, batch_size=20)
    model = at.AnytimeNetworkClassifier(
        backbone="resann",
        backbone_arguments={"n": setting.n, "c": setting.c},
        recipe=recipe,
        device=str(setting.device),
        random_state=0,
    ).fit(X, np.arange(120) % 10)
    rows = X.reshape(len(X), -1)
    expected = model.predict_proba(X)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, generator() as load:
        file = Path(folder) / "m.anytime"
        model.save(file)
        for workers in (1, 2):
            with anytime_server(file, slo_ms=50.0, workers=workers) as server:
                # one question after the other, each on a connection of its own: every worker gets some
                worst = 0.0
                for i in range(20):
                    body = {"row": rows[i].tolist(), "probabilities": True, "deadline_ms": 60_000}
                    answer = json.loads(call(server.predict, json.dumps(body).encode()))
                    worst = max(
                        worst, float(np.abs(np.array(answer["probabilities"][0]) - expected[i]).max())
                    )
                line = load.submit(
                    shoot, server.infer, rows, 100.0, setting.seconds, slo=0.05, patience=10.0
                ).result()
                stats = server.stats()
            entry = {
                name: line[name] for name in ("rps", "errors", "within_slo", "p50_ms", "p99_ms", "mean_stage")
            }
            entry["requests_by_worker"] = [worker.get("requests") for worker in stats["workers"]]
            entry["largest_difference"] = worst
            entry["holds"] = not line["errors"] and worst < 0.1 and len(stats["workers"]) == workers
            found[f"{workers} worker{'s' * (workers > 1)}"] = entry
    found["holds"] = all(entry["holds"] for entry in found.values())
    return found


# ---------------------------------------------------------------------- the command

PARTS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "overhead": overhead,
    "deadlines": deadlines,
    "too_little_memory": too_little_memory,
    "serving": serving,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=list(PARTS), action="append")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="rehearse with a small network")
    parser.add_argument("--n", type=int, default=9)
    parser.add_argument("--c", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path, help="where results are written")
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", 0)  # some calls ask for the number
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU here; --device cpu --tiny rehearses without one")
    if given.tiny:
        setting = Setting(device, n=1, c=4, side=8, batch=16, rounds=5, seconds=1.0)
        torch.set_num_threads(1)
    else:
        setting = Setting(device, given.n, given.c, side=32, batch=256, rounds=given.rounds, seconds=10.0)
    results: dict[str, Any] = {
        "network": f"ResANN ({setting.n}, {setting.c})",
        "batch": setting.batch,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
        "parts": {},
    }
    for name in given.part or PARTS:
        began = time.monotonic()
        try:
            found = PARTS[name](setting)
        except (Exception, SystemExit) as error:  # the other parts are worth having
            traceback.print_exc()
            found = {"holds": False, "error": f"{type(error).__name__}: {error}"}
        results["parts"][name] = found | {"seconds": round(time.monotonic() - began, 1)}
        print(f"\n{name}: {'holds' if found['holds'] else 'DOES NOT HOLD'}")
        print(json.dumps(results["parts"][name], indent=1), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
