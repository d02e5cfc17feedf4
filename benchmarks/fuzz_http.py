r"""Throws malformed requests at a server of its own on this machine, and writes down how it holds.

    .venv/bin/python benchmarks/fuzz_http.py                    # 200,000 requests
    .venv/bin/python benchmarks/fuzz_http.py --case 4711        # one request, with its answer, by its number

Every case is made from its number and the seed alone: a valid request, spoilt in one of four ways.

- *head*: methods, targets, versions, lengths, chunks and headers that lie, are cut off, or are none;
- *bytes*: a body with flipped, cut, repeated and inserted bytes behind a right head;
- *json*: values of a body replaced, moved, removed, repeated or renamed; still JSON;
- *tensors*: the same for requests of the Open Inference Protocol, and for their binary tensors and lengths.

The server must answer, or refuse in one sentence with a status from 400 to 499, or close a connection on which no whole
request came. Failures are: a status of 500 or more, an answer that is no HTTP, none within ``--time-limit`` seconds (twice),
a process that has ended, an exception in its log, memory beyond ``--memory-limit`` MB over the start, and another answer to
a request that is always the same. Requests that caused them are kept in ``--keep``.

The server and its clients share this machine and nothing leaves it. Figures go to ``benchmarks/results/fuzz_http.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # also when a test loads this file by its path

from _fuzz_requests import CONTROL, KINDS, Requests, served_models

RESULTS = Path(__file__).parent / "results" / "fuzz_http.json"
OUTCOMES = ("answered", "refused", "closed", "failed")
PATIENCE = 0.25  # seconds for the rest of an answer to what may not be a whole request


# ---------------------------------------------------------------------- what must hold


class BrokenPromiseError(AssertionError):
    """An answer that no request may get."""


def judge(status: int, body: bytes, *, is_whole: bool) -> str:
    """``"answered"`` or ``"refused"``; any other answer is a failure of the server."""
    if status < 400:
        return "answered"
    if status >= 500:
        raise BrokenPromiseError(f"status {status}: {body[:300]!r}")
    if not is_whole and body == b"Invalid HTTP request received.":  # the parser of HTTP, before any handler
        return "refused"
    try:
        sentence = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError):
        raise BrokenPromiseError(f"status {status} without a sentence: {body[:300]!r}") from None
    if not 10 < len(sentence) < 400 or "\n" in sentence:
        raise BrokenPromiseError(f"status {status} with more, or less, than a sentence: {sentence!r}")
    return "refused"


# ---------------------------------------------------------------------- a server and its clients


class Served:
    """``anytime serve`` in a process of its own, and what it has said."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    def peak_mb(self) -> float:
        """The most memory that its process has held."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def exceptions(self) -> list[str]:
        """Lines of its log that tell of an error of its own."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if '"level":"error"' in line or "Traceback" in line]


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A server of the models of ``_fuzz_requests``; ended with the block."""
    paths = []
    for name, model in served_models().items():
        paths.append(str(folder / f"{name}.anytime"))
        model.save(paths[-1])
    options = ["--port", "0", "--max-rows", "50", "--max-body-mb", "1", "--slo-ms", "0", "--watch", "0"]
    log = folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "anytime.cli", "serve", *paths, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        address = re.search(r"http://[^/]+:(\d+)", process.stdout.readline())
        assert address, log.read_text()
        yield Served(process, int(address[1]), log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


class Client:
    """One connection after the other; requests with right heads share one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, raw: bytes, *, is_whole: bool) -> tuple[str, int, bytes]:
        """The outcome of a request, its status and the body of the answer."""
        is_kept = self.writer is not None
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        try:
            self.writer.write(raw)
            if is_whole:
                status, body, stays = await self._answer()
            else:
                status, body, stays = await self._any_answer()
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            if is_kept and not getattr(error, "partial", b""):  # the server may close what was idle just then
                return await self.ask(raw, is_whole=is_whole)
            if is_whole:
                raise BrokenPromiseError("a whole request was not answered") from None
            return "closed", 0, b""
        except BaseException:
            self.close()
            raise
        if not (is_whole and stays):
            self.close()
        return ("closed" if status == 0 else judge(status, body, is_whole=is_whole)), status, body

    async def _answer(self) -> tuple[int, bytes, bool]:
        """Status and body of the next answer, and whether the connection stays open."""
        assert self.reader is not None
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        line = re.match(rb"http/1\.1 (\d{3}) ", head)
        if line is None:
            raise BrokenPromiseError(f"no HTTP: {head[:200]!r}")
        status = int(line[1])
        if status == 100:
            return await self._answer()
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head)
        if length is not None:
            body = await self.reader.readexactly(int(length[1]))
        elif b"\r\ntransfer-encoding: chunked\r\n" in head:
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        else:
            body = await self.reader.read()
        return status, body, b"\r\nconnection: close\r\n" not in head

    async def _any_answer(self) -> tuple[int, bytes, bool]:
        """The first answer to what may be no request, or several: then nothing more is sent, and the server has to leave."""
        assert self.reader is not None
        assert self.writer is not None
        status, body = 0, b""
        with suppress(TimeoutError, asyncio.IncompleteReadError):
            status, body, _ = await asyncio.wait_for(self._answer(), PATIENCE)
        if self.writer.can_write_eof():
            self.writer.write_eof()
        await self.reader.read()
        return status, body, False

    def close(self) -> None:
        """Leave."""
        if self.writer is not None:
            self.writer.transport.abort()
            self.reader = self.writer = None


# ---------------------------------------------------------------------- running many


class Run:
    """All cases, from several clients at once, and what came of them."""

    def __init__(self, options: argparse.Namespace, server: Served) -> None:
        self.options, self.server = options, server
        self.requests = Requests(options.seed)
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.failures: list[dict[str, Any]] = []
        self.slowest = (0.0, -1)
        self.n_controls = 0
        self.expected: dict[str, Any] | None = None

    async def all(self) -> None:
        """Every case once, each by the first client that is free."""
        self.expected = await self._control()
        numbers = iter(range(self.options.start, self.options.cases))
        await asyncio.gather(*(self._work(numbers) for _ in range(self.options.clients)))
        await self._check_control(self.options.cases)

    async def _work(self, numbers: Iterator[int]) -> None:
        client = Client(self.server.port)
        for number in numbers:
            if self.server.process.poll() is not None:
                break
            kind, raw = self.requests.make(number)
            outcome, reason, status = await self._tried(client, kind, raw, number)
            self.counts[f"{kind} {outcome}"] += 1
            self.statuses[status] += 1
            if reason:
                self._keep(number, kind, reason, raw)
            if number % 1000 == 999:
                await self._check_control(number)
            if number % 10_000 == 9_999:
                print(f"{number + 1:>8} of {self.options.cases}, {len(self.failures)} failures", flush=True)
        client.close()

    async def _tried(self, client: Client, kind: str, raw: bytes, number: int) -> tuple[str, str | None, int]:
        for attempt in range(2):  # a machine that stood still for a while is no failure of the server
            began = time.perf_counter()
            try:
                work = client.ask(raw, is_whole=kind != "head")
                outcome, status, _ = await asyncio.wait_for(work, self.options.time_limit)
            except TimeoutError:
                if attempt:
                    return "failed", f"no answer within {self.options.time_limit} s, twice", 0
                continue
            except (BrokenPromiseError, OSError, ValueError, asyncio.LimitOverrunError) as error:
                return "failed", f"{type(error).__name__}: {error}", 0
            self.slowest = max(self.slowest, (time.perf_counter() - began, number))
            return outcome, None, status
        raise AssertionError

    async def _control(self) -> dict[str, Any]:
        client = Client(self.server.port)
        try:
            _, status, body = await asyncio.wait_for(
                client.ask(CONTROL, is_whole=True), self.options.time_limit
            )
        except TimeoutError:  # as in ``_tried``: once may be the machine
            _, status, body = await asyncio.wait_for(
                client.ask(CONTROL, is_whole=True), self.options.time_limit
            )
        client.close()
        self.n_controls += 1
        answer: dict[str, Any] = {"status": status, **json.loads(body)}
        answer.pop("elapsed_ms", None)
        return answer

    async def _check_control(self, number: int) -> None:
        try:
            answer = await self._control()
        except (BrokenPromiseError, OSError, TimeoutError) as error:
            answer = {"error": repr(error)}
        if answer != self.expected:
            self._keep(number, "control", f"{self.expected} was answered before, now {answer}", CONTROL)

    def _keep(self, number: int, kind: str, reason: str, raw: bytes) -> None:
        folder = self.options.keep
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / f"seed{self.options.seed}-request{number}"
        stem.with_suffix(".http").write_bytes(raw)
        stem.with_suffix(".txt").write_text(f"{kind}\n{reason}\n")
        print(f"case {number} ({kind}): {reason}; kept as {stem}.http", flush=True)
        self.failures.append({"case": number, "kind": kind, "reason": reason})

    def check_server(self, at_start: float) -> float:
        """Megabytes that the server has grown by; what it should not have done is a failure."""
        if self.server.process.poll() is not None:
            self._keep(-1, "server", f"the server ended with status {self.server.process.returncode}", b"")
            return 0.0
        for line in self.server.exceptions():
            self._keep(-1, "log", line, b"")
        grown = self.server.peak_mb() - at_start
        if grown > self.options.memory_limit:
            self._keep(-1, "memory", f"{grown:.0f} MB over the start", b"")
        return grown


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All cases; returns the figures."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        done = Run(options, server)
        at_start, began = server.peak_mb(), time.perf_counter()
        asyncio.run(done.all())
        seconds = time.perf_counter() - began
        grown = done.check_server(at_start)
    outcomes = {kind: {outcome: done.counts[f"{kind} {outcome}"] for outcome in OUTCOMES} for kind in KINDS}
    return {
        "cases": sum(done.counts.values()),
        "seed": options.seed,
        "failures": len(done.failures),
        "failed_cases": [failure["case"] for failure in done.failures[:50]],
        "outcomes": outcomes,
        "statuses": {str(status): count for status, count in sorted(done.statuses.items())},
        "equal_controls": done.n_controls,
        "slowest_case_seconds": round(done.slowest[0], 3),
        "slowest_case": done.slowest[1],
        "peak_memory_growth_mb": round(grown, 1),
        "seconds": round(seconds, 1),
        "clients": options.clients,
        "limits": {"seconds": options.time_limit, "memory_mb": options.memory_limit},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description="Throw malformed requests at a server of its own.")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--start", type=int, default=0, help="first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=32, help="connections at once")
    parser.add_argument("--case", type=int, help="only this one; prints the request and its answer")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per case")
    parser.add_argument("--memory-limit", type=float, default=256.0, help="MB over the start")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/fuzz_failures"), help="folder for requests that failed"
    )
    return parser.parse_args(arguments)


def show(options: argparse.Namespace) -> None:
    """One case: what is sent, and what comes back."""
    kind, raw = Requests(options.seed).make(options.case)
    print(kind, raw[:4000])
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        print(asyncio.run(Client(server.port).ask(raw, is_whole=kind != "head")))
        print(*server.exceptions(), sep="\n")


def main() -> int:
    """Run, print and write the figures; 1 if anything failed."""
    options = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server ends with this program
    if options.case is not None:
        show(options)
        return 0
    figures = {"command": "python " + shlex.join(sys.argv), **run(options)}
    print(json.dumps(figures, indent=2))
    if options.cases - options.start >= 10_000:
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
