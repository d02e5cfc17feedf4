"""The server's bars, over loopback: server and load generator in processes of their own, the rival in the same run.

    python benchmarks/serving.py --part single       # throughput against FastAPI + LightGBM, p99 at half load
    python benchmarks/serving.py --part overload     # 0.5 to 10 x the whole model's capacity, SLO 10 ms
    python benchmarks/serving.py --part kill         # kill -9 of a worker under load
    python benchmarks/serving.py --part reload       # 50 hot reloads under load
    python benchmarks/serving.py --part soak --minutes 30
    python benchmarks/serving.py --part ray          # two workers on Ray Serve, SLO 20 ms: overload, kill -9, rolling update

Without ``--part``: all but the soak and Ray. The overload is shown with a model of letters (--data, or ANYTIME_DATA), else of
digits.
Each part replaces its own entry of results/serving.json, unless --dry is given.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import anytime as at
from _servers import (
    Served,
    anytime_server,
    call,
    free_port,
    generator,
    memory,
    plain_server,
    pound,
    processor_seconds,
    shoot,
)
from anytime_research import datasets as research_datasets
from common import RESULTS, lightgbm_model, median, write

SLO = 0.010
FACTORS = (0.5, 1.0, 2.0, 5.0, 10.0)
ROWS = 10  # of a request in the overload: what counts there is the model, and HTTP is to be small beside it
ROWS_OF_RAY = 100  # a way through more processes is to be small, too


@dataclass(frozen=True)
class Setting:
    """What all parts need."""

    folder: Path
    data: str | None
    seconds: float
    minutes: float
    rate: float
    load: ProcessPoolExecutor

    def shoot(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Load from the generator's process, waited for."""
        return self.load.submit(shoot, *args, **options).result()

    def pound(self, *args: Any, **options: Any) -> float:
        """Requests per second that a server can take."""
        found = self.load.submit(pound, *args, **options).result()
        assert not found["errors"], found
        return float(found["rps"])


# ---------------------------------------------------------------------- models


def forest_of_500(setting: Setting) -> tuple[Path, Path, Any]:
    """The 500-tree model of the bars: the file of ours, that of LightGBM, rows."""
    ours, theirs = _files(setting, _kept("500", lambda: lightgbm_model()[0]))
    return (
        ours,
        theirs,
        np.random.default_rng(0).normal(size=(2000, 50)),
    )  # the first of those it was trained on


def large_forest(setting: Setting) -> tuple[Path, Path, Any, Any, dict[str, Any]]:
    """A forest that takes far longer than HTTP does: files, held-out rows, their labels, what the model is worth."""
    import lightgbm as lgb

    name = "letter" if setting.data else "digits"
    X, y, _ = (
        research_datasets.load(name, folder=setting.data) if setting.data else research_datasets.load(name)
    )
    classes, y = np.unique(y, return_inverse=True)
    X = np.ascontiguousarray(X, dtype=np.float64)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    parameters = {"objective": "multiclass", "num_class": len(classes), "num_leaves": 63}
    parameters |= {"learning_rate": 0.04, "num_threads": 2, "verbose": -1, "seed": 0, "deterministic": True}
    booster = _kept(name, lambda: lgb.train(parameters, lgb.Dataset(X, y), 500))
    ours, theirs = _files(setting, booster)
    model, rows, labels = at.load(ours), X_test[:2000], y_test[:2000]
    answers = {answer.stage: answer.prediction for answer in model.stages(rows) if answer.stage < 2}
    worth = {
        "data": name,
        "trees": booster.num_trees(),
        "accuracy_of_the_whole": round(model.score(rows, labels), 4),
        "accuracy_of_the_first_stage": round(float(np.mean(answers[1] == labels)), 4),
        "accuracy_of_the_base": round(float(np.mean(answers[0] == labels)), 4),
    }
    return ours, theirs, rows, labels, worth


def _kept(name: str, train: Callable[[], Any]) -> Any:
    """A booster of an earlier run, or a new one: training takes a minute or two, and every run gives the same."""
    import lightgbm as lgb

    file = Path(tempfile.gettempdir()) / f"anytime-serving-{name}.txt"
    if not file.exists():
        train().save_model(file)
    return lgb.Booster(model_file=file)


def _files(setting: Setting, booster: Any) -> tuple[Path, Path]:
    ours, theirs = setting.folder / "m.anytime", setting.folder / "m.txt"
    at.make_anytime(booster, meter="model").save(ours)
    booster.save_model(theirs)
    return ours, theirs


# ---------------------------------------------------------------------- parts


def single(setting: Setting) -> dict[str, Any]:
    """One row a request, 500 trees: throughput beside the plain handler, in turns; p99 within the server at half load."""
    ours, theirs, X = forest_of_500(setting)
    rates: dict[str, list[float]] = {"anytime": [], "plain": []}
    # no SLO for the capacity: every answer is that of all trees, as the rival's
    with anytime_server(ours, slo_ms=0) as server, plain_server(theirs) as rival:
        for _ in range(3):
            rates["anytime"].append(setting.pound(server.infer, X, setting.seconds / 2))
            rates["plain"].append(setting.pound(rival.predict, X, setting.seconds / 2))
    capacity = median(rates["anytime"])
    with anytime_server(ours) as server:
        quarter_windows, quarter = _windows(setting, server, X, capacity / 4)
        windows, half = _windows(setting, server, X, capacity / 2)
    with plain_server(theirs) as rival:
        plain_half = setting.shoot(rival.predict, X, median(rates["plain"]) / 2, setting.seconds, slo=SLO)
    found = {
        "requests_per_second": rates,
        "throughput_ratio": round(median(rates["anytime"]) / median(rates["plain"]), 2),
        "rate_at_half_load": half["offered_rps"],
        "server_p99_ms_at_half_load": windows,
        "seen_by_the_client": _brief(half),
        "server_p99_ms_at_quarter_load": quarter_windows,
        "seen_by_the_client_at_quarter_load": _brief(quarter),
        "plain_at_half_of_its_own_capacity": _brief(plain_half),
        "bars": {
            "throughput_ratio": ">= 1.5",
            "server_p99_ms_at_half_load": "<= 2 (median of windows of 5 s)",
        },
    }
    middle = median(found["server_p99_ms_at_half_load"])
    found["holds"] = {"throughput": found["throughput_ratio"] >= 1.5, "p99": middle <= 2.0}
    print(
        f"capacity: anytime {capacity:.0f}/s, FastAPI + LightGBM {median(rates['plain']):.0f}/s, "
        f"ratio {found['throughput_ratio']}"
    )
    print(
        f"at {quarter['offered_rps']:.0f}/s: p99 in the server {quarter_windows} ms, at the client {quarter['p99_ms']} ms; "
        f"at {half['offered_rps']:.0f}/s: {windows} and {half['p99_ms']} ms; "
        f"FastAPI + LightGBM at {plain_half['offered_rps']:.0f}/s: {plain_half['p99_ms']} ms at the client"
    )
    return found


def _windows(setting: Setting, server: Any, X: Any, rate: float) -> tuple[list[float], dict[str, Any]]:
    """The 99th percentiles that a server sees in windows of 5 s; what the client sees, and what a request takes."""
    before = processor_seconds(server)
    waiting = setting.load.submit(shoot, server.infer, X, rate, 2 * setting.seconds, slo=SLO)
    windows = []
    while not waiting.done():
        time.sleep(min(6.0, setting.seconds))
        windows.append(server.stats()["window"]["p99_ms"])
    client = waiting.result()
    client["processor_us"] = round(1e6 * (processor_seconds(server) - before) / client["answered"])
    return [seen for seen in windows if seen is not None], client


def overload(setting: Setting) -> dict[str, Any]:
    """More requests than the whole model can answer: ours and the plain handler, each at multiples of its own capacity."""
    ours, theirs, X, y, worth = large_forest(setting)
    with anytime_server(ours, slo_ms=0) as server, plain_server(theirs) as rival:
        capacity = setting.pound(server.infer, X, setting.seconds, per_request=ROWS)
        plain_capacity = setting.pound(rival.predict, X, setting.seconds, per_request=ROWS)
    print(
        f"capacity of the whole model: anytime {capacity:.0f}/s, FastAPI + LightGBM {plain_capacity:.0f}/s; {worth}"
    )
    print("".join(f"{name:>{width}}" for name, width in COLUMNS.items()))
    found: dict[str, Any] = {
        "model": worth,
        "slo_ms": 1e3 * SLO,
        "capacity": capacity,
        "plain_capacity": plain_capacity,
        "rows_per_request": ROWS,
    }
    with anytime_server(ours) as server:
        found["anytime"] = _ladder(setting, "anytime", server, server.infer, capacity, X, y)
    with plain_server(theirs) as rival:
        found["plain"] = _ladder(setting, "plain", None, rival.predict, plain_capacity, X, y)
    found["bars"] = {
        "errors": "0",
        "within_slo": ">= 0.995 up to 5 x",
        "accuracy": "falling along the curve, never below the first stage's",
    }
    lines = list(found["anytime"].values())
    found["holds"] = {
        "errors": not any(line["errors"] for line in lines),
        "within_slo": all(line["within_slo"] >= 0.995 for line in lines[:4]),
        "accuracy": all(line["accuracy"] >= worth["accuracy_of_the_first_stage"] for line in lines),
    }
    return found


COLUMNS = {
    "": 8,
    "load": 6,
    "rps": 7,
    "errors": 8,
    "within": 9,
    "p50 ms": 9,
    "p99 ms": 9,
    "stage": 8,
    "base": 8,
    "accuracy": 10,
}


def _ladder(
    setting: Setting, name: str, server: Any, url: str, capacity: float, X: Any, y: Any
) -> dict[str, Any]:
    lines = {}
    options = {"slo": SLO, "labels": y, "per_request": ROWS, "patience": 2.0}
    for factor in FACTORS:
        line = _brief(setting.shoot(url, X, factor * capacity, setting.seconds, **options))
        if server is not None:
            window = server.stats()["window"]
            line["server"] = {what: window[what] for what in ("p50_ms", "p99_ms", "late_share", "mean_batch")}
        lines[f"{factor:g}"] = line
        cells = [name, f"{factor:g}", f"{line['rps']:.0f}", sum(line["errors"].values()), line["within_slo"]]
        cells += [line[what] or "-" for what in ("p50_ms", "p99_ms")]
        cells += [f"{line['mean_stage']:.1f}" if "mean_stage" in line else "-"]
        cells += [line.get(what, "-") for what in ("base_share", "accuracy")]
        print(
            "".join(f"{cell:>{width}}" for cell, width in zip(cells, COLUMNS.values(), strict=True)),
            flush=True,
        )
    return lines


def kill(setting: Setting) -> dict[str, Any]:
    """One of two workers gets kill -9: who is lost, and when another one is there."""
    ours, _, X = forest_of_500(setting)
    with anytime_server(ours, workers=2) as server:
        before = server.workers()
        waiting = setting.load.submit(
            shoot, server.infer, X, setting.rate, max(6.0, setting.seconds), slo=SLO
        )
        time.sleep(3.0)
        os.kill(before[0], signal.SIGKILL)
        at_once = time.time()
        while before[0] in (now := server.workers()) or len(now) < 2:
            time.sleep(0.02)
        back = time.time() - at_once
        seen = waiting.result()
    offsets = [1e3 * (moment - at_once) for moment in seen["failed_at"]]
    found = {
        "rate": setting.rate,
        "lost": len(offsets),
        "lost_came_ms_after_the_kill": [round(min(offsets), 1), round(max(offsets), 1)] if offsets else None,
        "seconds_until_the_worker_is_back": round(back, 3),
        "seen_by_the_client": _brief(seen),
        "bars": {"lost": "only what the worker held when it was killed"},
        "holds": {"lost": all(-1000 < offset < 100 for offset in offsets)},
    }
    print(
        f"{seen['sent']} sent, {len(offsets)} lost ({seen['errors']}), worker back after {1e3 * back:.0f} ms"
    )
    return found


def reload(setting: Setting) -> dict[str, Any]:
    """50 hot reloads while requests are answered."""
    ours, _, X = forest_of_500(setting)
    whole = ours.read_bytes()
    half = setting.folder / "half.anytime"
    model = at.load(ours)
    model.plan_ = model.plan_.head(250)
    model.save(half)
    files = [half.read_bytes(), whole]
    done, slowest = 0, 0.0
    with anytime_server(ours) as server:
        span = max(30.0, setting.seconds)
        waiting = setting.load.submit(shoot, server.infer, X, setting.rate, span, slo=SLO)
        time.sleep(1.0)
        for k in range(50):
            began = time.monotonic()
            fresh = setting.folder / "fresh.anytime"
            fresh.write_bytes(files[k % 2])
            os.replace(fresh, ours)
            call(f"{server.root}/v2/repository/models/m/load", b"{}")
            done, slowest = k + 1, max(slowest, time.monotonic() - began)
            time.sleep(max(0.0, (span - 3.0) / 50 - (time.monotonic() - began)))
        seen = waiting.result()
    found = {
        "reloads": done,
        "slowest_reload_seconds": round(slowest, 3),
        "versions_that_answered": len(seen["versions"]),
        "seen_by_the_client": _brief(seen),
        "bars": {"errors": "0"},
        "holds": {"errors": done == 50 and not seen["errors"]},
    }
    print(
        f"{done} reloads, {len(seen['versions'])} versions answered {seen['answered']} of {seen['sent']} requests, "
        f"p99 {seen['p99_ms']} ms"
    )
    return found


def soak(setting: Setting) -> dict[str, Any]:
    """Mixed load for a long time, a hot reload a minute: memory of the workers."""
    ours, _, X = forest_of_500(setting)
    log = []
    with anytime_server(ours, workers=2) as server:
        ends, turn = time.monotonic() + 60 * setting.minutes, 0
        while time.monotonic() < ends:
            window = min(20.0, max(2.0, 20 * setting.minutes / 3))
            answers = setting.shoot(server.infer, X, setting.rate, window, slo=SLO, random_state=turn)
            plain = setting.shoot(server.predict, X, setting.rate, window / 2, slo=SLO, random_state=turn)
            wrong = np.full((10, 3), "nonsense", dtype=object)
            refused = setting.shoot(server.predict, wrong, 100, window / 4)
            os.utime(ours)
            call(f"{server.root}/v2/repository/models/m/load", b"{}")
            errors = sum(answers["errors"].values()) + sum(plain["errors"].values())
            kilobytes = [memory(pid) for pid in server.workers()]
            log.append(
                {
                    "minute": round(setting.minutes - (ends - time.monotonic()) / 60, 2),
                    "errors": errors,
                    "pss_kb": kilobytes,
                }
            )
            log[-1] |= {
                "refused": refused["errors"],
                "p99_ms": answers["p99_ms"],
                "within_slo": answers["within_slo"],
            }
            print(log[-1], flush=True)
            turn += 1
    settled = [
        sum(entry["pss_kb"]) for entry in log[len(log) // 6 :]
    ]  # after a sixth all that is lazy has been done
    growth = settled[-1] / settled[0] - 1
    found = {
        "minutes": setting.minutes,
        "requests_per_second": setting.rate,
        "errors": sum(entry["errors"] for entry in log),
        "memory_growth": round(growth, 4),
        "log": log[:: max(1, len(log) // 30)],
        "bars": {"memory_growth": "within 5 %", "errors": "0"},
        "holds": {"memory": abs(growth) <= 0.05, "errors": not any(entry["errors"] for entry in log)},
    }
    print(f"memory grew by {100 * growth:.1f} % over {setting.minutes:g} minutes, {found['errors']} errors")
    return found


def ray(setting: Setting) -> dict[str, Any]:
    """Two workers on Ray Serve: three times the whole model's capacity, kill -9 of one, both replaced under load."""
    os.environ |= {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5"}
    ours, _, X, _, worth = large_forest(setting)
    port, slo = free_port(), 0.020

    def deploy(slo: float | None) -> Served:
        return Served(at.distributed.serve({"m": ours}, workers=2, slo=slo, port=port))

    def under_load(seconds: float, change: Callable[[], Any]) -> tuple[dict[str, Any], float]:
        """What clients see while something changes, and when that was."""
        waiting = setting.load.submit(
            shoot, server.infer, X, capacity / 2, seconds, slo=slo, per_request=ROWS_OF_RAY
        )
        time.sleep(3.0)
        at_once = time.time()
        change()
        return waiting.result(), at_once

    capacity = setting.pound(deploy(None).infer, X, setting.seconds, per_request=ROWS_OF_RAY)
    server = deploy(slo)
    over = setting.shoot(
        server.infer, X, 3 * capacity, setting.seconds, slo=slo, per_request=ROWS_OF_RAY, patience=2.0
    )
    stages = server.stats()["window"]["mean_stage"]
    killed, at_once = under_load(12.0, lambda: os.kill(server.workers()[0], signal.SIGKILL))
    offsets = [1e3 * (moment - at_once) for moment in killed["failed_at"]]
    old = set(server.workers())
    rolled, _ = under_load(40.0, lambda: deploy(0.021))
    found = {
        "model": worth,
        "slo_ms": 1e3 * slo,
        "rows_per_request": ROWS_OF_RAY,
        "capacity": capacity,
        "overload": _brief(over) | {"mean_stage_of_the_last_seconds": stages},
        "kill": _brief(killed) | {"lost_came_ms_after_the_kill": offsets},
        "rolling_update": _brief(rolled) | {"all_workers_are_new": not old & set(server.workers())},
        "bars": {
            "overload": "0 errors, >= 0.99 within 20 ms",
            "kill": "only what the worker held",
            "rolling_update": "0 errors",
        },
    }
    found["holds"] = {
        "overload_errors": not over["errors"],
        "overload_within": over["within_slo"] >= 0.99,
        "kill": all(-1000 < offset < 100 for offset in offsets),
        "rolling_update": not rolled["errors"] and found["rolling_update"]["all_workers_are_new"],
    }
    print(f"capacity {capacity:.0f}/s; {worth}")
    shown = ("offered_rps", "sent", "errors", "within_slo", "p50_ms", "p99_ms", "mean_stage")
    for name in ("overload", "kill", "rolling_update"):
        print(name, {what: found[name][what] for what in shown})
    return found


def _brief(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("failed_at", "versions")}


PARTS = {"single": single, "overload": overload, "kill": kill, "reload": reload, "soak": soak, "ray": ray}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument(
        "--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the public data sets"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--minutes", type=float, default=30.0, help="of the soak")
    parser.add_argument(
        "--rate", type=float, default=400.0, help="requests per second of kill, reload and soak"
    )
    parser.add_argument("--dry", action="store_true", help="write no result")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped, too
    file = RESULTS / "serving.json"
    parts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, generator() as load:
        for name in asked.part or [part for part in PARTS if part not in ("soak", "ray")]:
            print(f"--- {name}", flush=True)
            began = time.monotonic()
            setting = Setting(Path(folder), asked.data, asked.seconds, asked.minutes, asked.rate, load)
            parts[name] = PARTS[name](setting) | {"took_seconds": round(time.monotonic() - began)}
            print(f"holds: {parts[name]['holds']}", flush=True)
            parts[name] |= {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count()}
    if not asked.dry:
        before = json.loads(file.read_text())["parts"] if file.exists() else {}
        write("serving", {"parts": before | parts})


if __name__ == "__main__":
    main()
