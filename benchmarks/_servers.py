"""Servers and the load generator in processes of their own, for the serving bars."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from anytime_research.serve.load import arrival_times, bodies_of, fire, report


@dataclass(frozen=True)
class Served:
    """A server that runs: where, and its process."""

    root: str
    process: subprocess.Popen[bytes] | None = None  # one that ends with the server

    @property
    def infer(self) -> str:
        """Where model ``m`` answers the Open Inference Protocol."""
        return f"{self.root}/v2/models/m/infer"

    @property
    def predict(self) -> str:
        """Where plain JSON is answered."""
        return f"{self.root}/predict"

    def stats(self) -> dict[str, Any]:
        """What the server says of itself."""
        return json.loads(call(f"{self.root}/stats"))

    def workers(self) -> list[int]:
        """The processes that answer."""
        return [worker["pid"] for worker in self.stats()["workers"]]


def call(url: str, data: bytes | None = None, timeout: float = 30.0) -> bytes:
    """One request."""
    question = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(question, timeout=timeout) as answer:
        return answer.read()


@contextmanager
def anytime_server(
    model: Path, *, slo_ms: float = 10.0, workers: int = 1, name: str = "m"
) -> Iterator[Served]:
    """``anytime serve`` with one model."""
    port = free_port()
    options = [
        "--port",
        str(port),
        "--slo-ms",
        f"{slo_ms:g}",
        "--workers",
        str(workers),
        "--log-level",
        "warning",
    ]
    command = [sys.executable, "-m", "anytime.cli", "serve", f"{name}={model}", *options]
    with _running(command, port, "/v2/health/ready") as server:
        yield server


@contextmanager
def plain_server(booster: Path) -> Iterator[Served]:
    """The plain handler."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "--app-dir", str(Path(__file__).parent)]
    command += ["_plain_handler:app", "--port", str(port), "--log-level", "warning", "--no-access-log"]
    with _running(command, port, "/openapi.json", {"PLAIN_MODEL": str(booster)}) as server:
        yield server


@contextmanager
def _running(
    command: list[str], port: int, sign_of_life: str, environment: dict[str, str] | None = None
) -> Iterator[Served]:
    said = tempfile.TemporaryFile()  # noqa: SIM115  # closed below
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=said, env=os.environ | (environment or {})
    )
    server = Served(f"http://127.0.0.1:{port}", process)
    try:
        ends = time.monotonic() + 120
        while True:
            try:
                call(server.root + sign_of_life, timeout=1)
                break
            except (urllib.error.URLError, OSError):
                if server.process.poll() is not None or time.monotonic() > ends:
                    said.seek(0)
                    raise SystemExit(f"{' '.join(command)}: {said.read().decode()[-2000:]}") from None
                time.sleep(0.1)
        yield server
    finally:
        server.process.terminate()
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.process.kill()
        said.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---------------------------------------------------------------------- load


def generator() -> ProcessPoolExecutor:
    """A process for the load generator: ``generator().submit(shoot, ...)``."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def shoot(
    url: str,
    X: Any,
    rate: float,
    seconds: float,
    *,
    slo: float | None = None,
    labels: Any = None,
    per_request: int = 1,
    patience: float = 5.0,
    random_state: int = 0,
) -> dict[str, Any]:
    """Poisson arrivals; what ``report`` says, and when the requests that failed had come (seconds since 1970)."""
    bodies = bodies_of(X, url, per_request=per_request)
    times = arrival_times(rate, seconds, random_state=random_state)
    began = time.time() + 0.02  # what the generator takes to connect
    log = fire(url, times, bodies, patience=patience)
    said = [json.loads(reply) for reply in log.replies if reply]
    return report(log, slo=slo, labels=labels) | {
        "failed_at": (began + log.arrivals[~log.answered]).tolist(),
        "versions": sorted({str(s.get("version", s.get("model_version"))) for s in said}),
    }


def pound(url: str, X: Any, seconds: float, *, per_request: int = 1, connections: int = 16) -> dict[str, Any]:
    """As many requests as the server can take, each connection sending the next when it has its answer: the capacity."""
    bodies = bodies_of(X, url, per_request=per_request)
    probe = fire(url, np.zeros(100), bodies, connections=connections, patience=60)
    wanted = max(100, round(seconds * 100 / probe.seconds))
    return report(fire(url, np.zeros(wanted), bodies, connections=connections, patience=10 * seconds + 60))


def memory(pid: int) -> int:
    """Kilobytes that a process has in memory, its share of shared pages counted (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def processor_seconds(server: Any) -> float:
    """Seconds that the workers of a server have had of the processors."""
    ticks = 0
    for pid in server.workers():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
