"""A network behind HTTP at several times its capacity: answers get shorter, not late.

    python benchmarks/network_serving.py --part load        # ResANN (9, 16), images of 32 x 32: what counts is the clock
    python benchmarks/network_serving.py --part accuracy    # one trained here on digits: what the answers are worth


The network of ``load`` has the weights of one short epoch on noise: its answers mean nothing, its times are those of any
ResANN of that size. Server and load generator are processes of their own, and want a core each. Capacity is what the server
answers with all stages and no SLO. Each part replaces its own entry of results/network_serving.json, unless --dry is given.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import anytime as at
from _servers import anytime_server, generator, pound, shoot
from anytime.networks import TrainingRecipe
from common import RESULTS, write

FACTORS = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Setting:
    """What both parts need."""

    folder: Path
    seconds: float
    slo: float
    load: ProcessPoolExecutor


def load_part(setting: Setting, n: int, c: int) -> dict[str, Any]:
    """ResANN (n, c) on random images of 3 x 32 x 32."""
    random = np.random.default_rng(0)
    X, y = random.integers(0, 256, (120, 3, 32, 32), dtype=np.uint8), np.arange(120) % 10
    recipe = TrainingRecipe(epochs=1, batch_size=20)
    model = at.AnytimeNetworkClassifier(
        backbone="resann", backbone_arguments={"n": n, "c": c}, recipe=recipe, device="cpu", random_state=0
    ).fit(X, y)
    said = {"network": f"ResANN ({n}, {c})", "weights": "one epoch on 108 random images"}
    return said | overload(setting, model, X.reshape(len(X), -1), None)


def accuracy_part(setting: Setting) -> dict[str, Any]:
    """ResANN (9, 16) on digits of 8 x 8, trained for a minute or two: a smaller one answers faster than requests can be read."""
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(
        digits.images.astype(np.float32), digits.target, test_size=0.3, random_state=0
    )
    recipe = TrainingRecipe(epochs=12, batch_size=64, learning_rate=0.05)
    model = at.AnytimeNetworkClassifier(
        backbone="resann", backbone_arguments={"n": 9, "c": 16}, recipe=recipe, device="cpu", random_state=0
    ).fit(X, y)
    curve = [float(np.mean(answer.prediction == y_test)) for answer in model.stages(X_test)]
    said = {
        "network": "ResANN (9, 16)",
        "weights": "12 epochs on 1257 digits",
        "accuracy_by_stage": [round(value, 4) for value in curve],
    }
    found = said | overload(setting, model, X_test.reshape(len(X_test), -1), y_test)
    lines = list(found["ladder"].values())
    found["bars"]["accuracy"] = "never below that of the first stage"
    found["holds"]["accuracy"] = all(line["accuracy"] >= min(curve[1], curve[-1]) - 0.01 for line in lines)
    return found


def overload(setting: Setting, model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Loads from half to five times the capacity of the whole network."""
    file = setting.folder / "m.anytime"
    model.save(file)
    with anytime_server(file, slo_ms=0) as server:
        found = setting.load.submit(pound, server.infer, X, setting.seconds).result()
        assert not found["errors"], found
        capacity = float(found["rps"])
    print(f"{model.n_stages_} stages, capacity with all of them {capacity:.1f}/s", flush=True)
    ladder = {}
    options = {"slo": setting.slo, "labels": y, "patience": 10.0}
    with anytime_server(file, slo_ms=1e3 * setting.slo) as server:
        for factor in FACTORS:
            line = setting.load.submit(
                shoot, server.infer, X, factor * capacity, setting.seconds, **options
            ).result()
            window = server.stats()["window"]
            line = {name: value for name, value in line.items() if name not in ("failed_at", "versions")}
            line["server"] = {name: window[name] for name in ("p50_ms", "p99_ms", "late_share", "mean_batch")}
            ladder[f"{factor:g}"] = line
            print(
                f"{factor:>4} x: {line['rps']:>7.1f}/s, errors {sum(line['errors'].values())}, within SLO "
                f"{line['within_slo']:.4f}, p50 {line['p50_ms']} ms, p99 {line['p99_ms']} ms, mean stage "
                f"{line.get('mean_stage')}, base {line.get('base_share')}, accuracy {line.get('accuracy', '-')}, "
                f"batch {window['mean_batch']}",
                flush=True,
            )
    return {
        "stages": model.n_stages_,
        "slo_ms": 1e3 * setting.slo,
        "capacity": capacity,
        "ladder": ladder,
        "bars": {"errors": "0", "within_slo": ">= 0.99 up to 5 x"},
        "holds": {
            "errors": not any(line["errors"] for line in ladder.values()),
            "within_slo": all(line["within_slo"] >= 0.99 for line in ladder.values()),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=["load", "accuracy"], action="append")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--slo-ms", type=float, default=50.0)
    parser.add_argument("--n", type=int, default=9)
    parser.add_argument("--c", type=int, default=16)
    parser.add_argument("--dry", action="store_true", help="write no results")
    asked = parser.parse_args()
    parts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, generator() as load:
        setting = Setting(Path(folder), asked.seconds, asked.slo_ms / 1e3, load)
        for name in asked.part or ["load", "accuracy"]:
            found = load_part(setting, asked.n, asked.c) if name == "load" else accuracy_part(setting)
            shared = {"cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
            parts[name] = found | {"date": time.strftime("%Y-%m-%d"), **shared}
            print(f"holds: {found['holds']}", flush=True)
    if not asked.dry:
        file = RESULTS / "network_serving.json"
        before = json.loads(file.read_text())["parts"] if file.exists() else {}
        write("network_serving", {"parts": before | parts})


if __name__ == "__main__":
    main()
