"""A server for tests: the application in this process, or a real one in another."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import anytime as at
from anytime.serve.app import Server
from anytime.serve.board import Board
from anytime.serve.settings import Settings

COSTS = at.FeatureCosts(
    groups={"record": ["age", "sex"], "blood": ["iron", "sugar"], "scan": ["size"]},
    prices={"record": 1.0, "blood": 5.0, "scan": 20.0},
    unit="EUR",
)


@cache
def table(n=200):
    """Five numbers of patients."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 5)).round(3), columns=["age", "sex", "iron", "sugar", "size"])
    return X, (X["age"] + X["iron"] - X["size"] > 0).map({True: "ill", False: "well"}).to_numpy(dtype=str)


@cache
def classifier(trees=20, seed=0):
    X, y = table()
    return at.make_anytime(
        RandomForestClassifier(trees, max_depth=4, random_state=seed).fit(X, y), costs=COSTS
    )


@cache
def regressor():
    X, _ = table()
    forest = RandomForestRegressor(10, max_depth=4, random_state=0).fit(X.to_numpy(), X["size"])
    return at.make_anytime(forest)


@cache
def with_words():
    """A model with a column of words."""
    X, y = table()
    X = X.assign(
        ward=pd.Categorical(np.where(X["age"] > 0, "north", np.where(X["sex"] > 0, "south", "east")))
    )
    return at.GradientBoostingClassifier(n_estimators=10).fit(X, y)


def saved(folder: Path, **models):
    """Files of models by name."""
    paths = {}
    for name, model in models.items():
        paths[name] = folder / f"{name}.anytime"
        model.save(paths[name])
    return paths


def application(folder: Path, models=None, **settings):
    """The application of one worker, its models loaded."""
    models = {"patients": classifier()} if models is None else models
    chosen = Settings(models=saved(folder, **models), **{"slo": 5.0, "watch": None, **settings})
    server = Server(chosen, Board(chosen.workers, list(chosen.models)))
    server.load()
    return server


@asynccontextmanager
async def client(server: Server):
    """A client that talks to the application without a socket."""
    async with server.api.router.lifespan_context(server.api):
        transport = httpx.ASGITransport(server, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as talks:
            yield talks


def ask(server: Server, *requests, headers=None):
    """Answers to requests (method, path, body, headers) one after the other; a body that is not bytes is sent as JSON."""

    async def all_of_them():
        async with client(server) as talks:
            out = []
            for method, path, body, *more in requests:
                content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
                out.append(
                    await talks.request(
                        method,
                        path,
                        content=content,
                        headers={**(headers or {}), **(more[0] if more else {})},
                    )
                )
            return out

    return asyncio.run(all_of_them())


def post(server: Server, path, body, headers=None):
    """The answer to one POST."""
    return ask(server, ("POST", path, body), headers=headers)[0]


def get(server: Server, path, headers=None):
    """The answer to one GET."""
    return ask(server, ("GET", path, None), headers=headers)[0]


class Talking:
    """One application and one client for many requests: starting and stopping would take most of the time."""

    def __init__(self, server):
        self.server, self.loop = server, asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.context = client(server)
        self.client = self.wait(self.context.__aenter__())

    def wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def post(self, path, content, headers=None):
        return self.wait(self.client.post(path, content=content, headers=headers))

    def get(self, path, headers=None):
        return self.wait(self.client.get(path, headers=headers))

    def close(self):
        self.wait(self.context.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


# ---------------------------------------------------------------------- a process of its own


class Running:
    """A server that runs: its address, its process, and what it has said."""

    def __init__(self, process, address, log):
        self.process, self.address, self.log = process, address, log

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    def request(self, path, body=None, headers=None, timeout=60.0):
        """Status and JSON of one request over a new connection."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=data, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def said(self):
        """Lines of the log, parsed."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextmanager
def running(folder: Path, *arguments, models=None, environment=None):
    """``anytime serve`` in a process of its own, ready to answer; stopped with SIGTERM."""
    models = saved(folder, **({"patients": classifier()} if models is None else models))
    log = folder / "log"
    command = [
        sys.executable,
        "-m",
        "anytime.cli",
        "serve",
        *map(str, models.values()),
        "--port",
        "0",
        *map(str, arguments),
    ]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(environment or {})},
        )
    try:
        first = process.stdout.readline()
        found = re.search(r"http://[^/]+", first)
        assert found, first + log.read_text()
        server = Running(process, found[0], log)
        wait_for(lambda: server.request("/v2/health/ready")[0] == 200)
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


def wait_for(holds, seconds=120.0):
    """Wait until something holds, however slow the machine is; it is as good as never if it has not by then."""
    ends = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except (OSError, urllib.error.URLError):
            pass
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.02)


async def until(holds, seconds=120.0):
    """The same, while the event loop goes on."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.002)
