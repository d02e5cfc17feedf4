"""What it costs to run a network block by block, and whether deadlines are kept.

Compared are plain forward passes of the same network in one go, with all heads and with the last head alone, and the model: every
block in turn with an eye on the clock, which computes the last head alone; ``predict`` without a deadline; and ``stages``, which
computes and tells the answer of every exit. Rounds alternate and medians are told, with the median of ratios of neighbours in
time: other work on the machine hits both alike. Ratios of processor time are those to trust where cores are shared; deadlines by
the clock need cores of their own.

    python benchmarks/network_overhead.py [--n 9] [--c 16 32] [--rounds 60] [--json benchmarks/results/network_overhead.json]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import anytime as at
from anytime.networks import ExitNetwork, NetworkBlock, build


def seconds(work: Callable[[], Any], device: torch.device) -> tuple[float, float]:
    """By the clock, and of processor time, which other work on the machine does not add to."""
    began = time.perf_counter(), time.process_time()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def ratio(
    plain: Callable[[], Any], model: Callable[[], Any], rounds: int, device: torch.device
) -> dict[str, float]:
    for _ in range(5):
        plain(), model()
    both = np.array([(seconds(plain, device), seconds(model, device)) for _ in range(rounds)])
    times, worked = both[:, :, 0], both[:, :, 1]
    return {
        "plain_ms": 1e3 * float(np.median(times[:, 0])),
        "model_ms": 1e3 * float(np.median(times[:, 1])),
        "ratio": float(np.median(times[:, 1] / times[:, 0])),
        "ratio_of_least": float(times[:, 1].min() / times[:, 0].min()),
        "ratio_of_processor_time": float(np.median(worked[:, 1] / worked[:, 0])),
    }


def measure(n: int, c: int, rows: int, device: torch.device, rounds: int) -> dict[str, Any]:
    torch.manual_seed(0)
    network = build("resann", n=n, c=c).to(device).eval()
    X = np.random.default_rng(0).normal(size=(rows, 3, 32, 32)).astype(np.float32)
    model = at.make_anytime(network, input_shape=(3, 32, 32))
    block = model.plan_.blocks[0]
    assert isinstance(block, NetworkBlock)
    copy: ExitNetwork = block.network  # in the layout that the model has chosen

    @torch.inference_mode()
    def all_exits() -> Any:
        return copy(block.inputs(X)).cpu()

    @torch.inference_mode()
    def last_exit() -> Any:
        return copy.heads[-1](copy.advance(block.inputs(X), 0, copy.n_exits - 1)).cpu()

    found = {
        "network": f"({n}, {c})",
        "rows": rows,
        "device": device.type,
        "every block, watching the clock, against all heads": ratio(
            all_exits, lambda: model.predict(X, deadline=60.0), rounds, device
        ),
        "every block, watching the clock, against one head": ratio(
            last_exit, lambda: model.predict(X, deadline=60.0), rounds, device
        ),
        "no deadline, against one head": ratio(last_exit, lambda: model.predict(X), rounds, device),
        "every answer told, against all heads": ratio(
            all_exits, lambda: list(model.stages(X)), rounds, device
        ),
    }
    if rows == 1:
        found["deadlines"] = deadlines(model, block, X, max(200, 3 * rounds))
    return found


def deadlines(model: Any, block: NetworkBlock, X: Any, n_answers: int) -> dict[str, dict[str, float]]:
    """By every way to ask: share of answers no later than their deadline and one block, and how far the network went."""
    taken = block.measure(1, 15)
    session = at.Session(model)
    ways: dict[str, Callable[[float], Any]] = {
        "predict": lambda deadline: model.predict(X, deadline=deadline),
        "answer": lambda deadline: model.answer(X, deadline=deadline),
        "session": lambda deadline: session.predict(X[0], deadline=deadline),
    }
    found = {}
    for name, ask in ways.items():
        late: list[float] = []
        stages: list[float] = []
        for deadline in (np.random.default_rng(0).uniform(0.1, 1.2, n_answers) * taken.sum()).tolist():
            began = time.perf_counter()
            answer = ask(deadline)
            late.append(time.perf_counter() - began - deadline)
            if isinstance(answer, at.Answer):  # predict says nothing of stages
                stages.append(float(np.mean(answer.stage)) / block.n_stages)
        found[name] = {
            "one_block_ms": 1e3 * float(taken.max()),
            "in_time": float(np.mean(np.array(late) <= 0)),
            "in_time_and_one_block": float(np.mean(np.array(late) <= taken.max())),
            "worst_ms": 1e3 * float(max(late)),
        }
        if stages:
            found[name]["mean_share_of_stages"] = float(np.mean(stages))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=9)
    parser.add_argument("--c", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = [measure(given.n, c, 1, torch.device("cpu"), given.rounds) for c in given.c]
    if torch.cuda.is_available():
        results += [measure(given.n, c, 256, torch.device("cuda"), given.rounds) for c in given.c]
    for found in results:
        print(f"\nresidual network {found['network']}, {found['rows']} row(s), {found['device']}")
        for name, r in found.items():
            if " against " not in name:
                continue
            print(
                f"  {name}: {r['model_ms']:.2f} ms against {r['plain_ms']:.2f} ms, ratio {r['ratio']:.3f} "
                f"(of the least times {r['ratio_of_least']:.3f}, of processor time {r['ratio_of_processor_time']:.3f})"
            )
        for way, d in found.get("deadlines", {}).items():
            far = f", {d['mean_share_of_stages']:.0%} of the stages" if "mean_share_of_stages" in d else ""
            print(
                f"  deadlines by {way}: {d['in_time_and_one_block']:.1%} no later than one block "
                f"({d['one_block_ms']:.2f} ms) after, {d['in_time']:.1%} in time, worst {d['worst_ms']:.2f} ms{far}"
            )
    if given.json is not None:
        shared = {
            "cores": os.cpu_count(),
            "load_average": os.getloadavg()[0],
        }  # deadlines need cores of their own
        given.json.write_text(json.dumps({"machine": shared, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
