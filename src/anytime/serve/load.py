"""An open-loop load generator: requests leave at their own times, however the server is doing.

    python -m anytime.serve.load http://127.0.0.1:8000/predict --rate 500 --seconds 10 --data rows.csv --target label --slo-ms 10

Users do not wait for each other, so requests are sent by a clock and never because an answer came back; latency is counted from
the moment a request was due to leave. A server that stalls is so charged with every request of the stall (no coordinated
omission), and a generator that falls behind charges itself and says so. One thread, one selector, raw HTTP/1.1 over kept
connections: the event loops of ``asyncio`` and ``uvloop`` look at their clocks once a millisecond, which is as long as what is
measured here.
"""

from __future__ import annotations

import argparse
import errno
import gc
import json
import select
import selectors
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Log", "arrival_times", "bodies_of", "fire", "report"]

Array = NDArray[np.float64]
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_PIECE = 1 << 16  # bytes that are read at a time


# ---------------------------------------------------------------------- what is sent, and when


def arrival_times(rate: float, seconds: float, *, fixed: bool = False, random_state: int = 0) -> Array:
    """(n,) seconds after the start: a Poisson process of ``rate`` per second, or one arrival every ``1 / rate``."""
    if rate <= 0 or seconds <= 0:
        raise ValueError(f"rate and seconds must be above 0; got {rate:g} and {seconds:g}")
    if fixed:
        return np.arange(max(1, round(rate * seconds))) / rate
    rng = np.random.default_rng(random_state)
    return np.sort(rng.uniform(0.0, seconds, size=max(1, rng.poisson(rate * seconds))))


def bodies_of(rows: Any, path: str = "/predict", *, per_request: int = 1, **parameters: Any) -> list[bytes]:
    """Request bodies for the rows of a matrix or a table, in the form that ``path`` of a server reads.

    Parameters
    ----------
    rows : (n, d) array or DataFrame
        Missing values are sent as null.
    path : str, default="/predict"
        Where it ends in ``/infer``: the Open Inference Protocol; else plain JSON.
    per_request : int, default=1
        Rows in each body; what is left over at the end is not sent.
    **parameters
        ``budget``, ``deadline_ms``, ``confidence`` and the like; None is left out.
    """
    told = {name: value for name, value in parameters.items() if value is not None}
    names = [str(name) for name in rows.columns] if hasattr(rows, "columns") else None
    table = [
        [None if value != value else _plain(value) for value in line]
        for line in np.asarray(rows, dtype=object)
    ]
    parts = [table[i : i + per_request] for i in range(0, len(table) - per_request + 1, per_request)]
    if path.rstrip("/").endswith("/infer"):
        wrapped = {"parameters": told} if told else {}
        return [json.dumps({"inputs": _tensors(part, names), **wrapped}).encode() for part in parts]
    if names is not None:
        parts = [[dict(zip(names, line, strict=True)) for line in part] for part in parts]  # type: ignore[misc]
    return [json.dumps({"rows": part, **told}).encode() for part in parts]


def _tensors(lines: list[list[Any]], names: list[str] | None) -> list[dict[str, Any]]:
    """One tensor of numbers, or if there are words one for each column."""
    n = len(lines)
    if names is None or not any(isinstance(value, str) for line in lines for value in line):
        data = [value for line in lines for value in line]
        return [{"name": "X", "datatype": "FP64", "shape": [n, len(lines[0])], "data": data}]
    columns = [[line[j] for line in lines] for j in range(len(names))]
    kinds = ["BYTES" if any(isinstance(value, str) for value in column) else "FP64" for column in columns]
    return [
        {"name": name, "datatype": kind, "shape": [n, 1], "data": column}
        for name, kind, column in zip(names, kinds, columns, strict=True)
    ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# ---------------------------------------------------------------------- what came of it


@dataclass(frozen=True, eq=False)
class Log:
    """What became of each request, in the order of arrival.

    Attributes
    ----------
    arrivals : (n,) float
        When it was due to leave, in seconds after the start.
    latency : (n,) float
        Seconds from then until the whole answer was there; infinite where none came.
    status : (n,) int
        HTTP status; 0 where no answer came.
    fault : list of str
        Why none came: ``refused``, ``closed`` (the server ended the connection), ``unanswered`` (patience ended); else empty.
    replies : list of bytes
        Bodies of answers; empty where none came or none was kept.
    body : (n,) int
        Which of the bodies was sent.
    lag : (n,) float
        Seconds by which the generator itself looked at the request too late: its own doing, within ``latency`` all the same.
    seconds : float
        From the start to the last answer.
    """

    arrivals: Array
    latency: Array
    status: NDArray[np.int64]
    fault: list[str]
    replies: list[bytes]
    body: NDArray[np.int64]
    lag: Array
    seconds: float

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(n,) whether the answer was one of success."""
        return np.asarray((self.status >= 200) & (self.status < 300))

    @property
    def errors(self) -> dict[str, int]:
        """How many requests failed, by status or by fault."""
        kinds = Counter(kind for kind in self.fault if kind)
        kinds.update(str(code) for code in self.status[(self.status != 0) & ~self.answered])
        return dict(kinds)


def report(log: Log, *, slo: float | None = None, labels: ArrayLike | None = None) -> dict[str, Any]:
    """What there is to say of a run, in plain numbers.

    Parameters
    ----------
    log : Log
    slo : float, default=None
        Seconds. The share within counts all requests: one that failed is not within.
    labels : (n,), default=None
        The truth for each row that bodies were made of: the share of right answers among those given is ``accuracy``.
    """
    good = log.answered
    latency = np.where(good, log.latency, np.inf)
    cuts = {f"p{q:g}_ms": _milliseconds(latency, q) for q in (50, 95, 99, 99.9)}
    out: dict[str, Any] = {
        "sent": int(latency.size),
        "answered": int(good.sum()),
        "errors": log.errors,
        "offered_rps": round(latency.size / max(float(log.arrivals[-1]), 1e-9), 1),
        "rps": round(float(good.sum()) / log.seconds, 1),
        **cuts,
        "generator_lag_p99_ms": _milliseconds(log.lag, 99),
    }
    if slo is not None:
        out["within_slo"] = round(float(np.mean(latency <= slo)), 5)
    said = [
        (log.body[i], _answer(reply)) for i, reply in enumerate(log.replies) if reply and log.status[i] == 200
    ]
    for name in ("stage", "cost", "partial"):
        values = [value for _, answer in said for value in answer.get(name, [])]
        if values:
            out[f"mean_{name}"] = round(float(np.mean(values)), 4)
        if name == "stage" and values:
            out["base_share"] = round(float(np.mean(np.array(values) == 0)), 5)  # no stage was done
    if labels is not None and said:
        truth = np.asarray(labels)
        right = [
            _same(one, truth[i * len(answer["prediction"]) + k])
            for i, answer in said
            for k, one in enumerate(answer.get("prediction", []))
        ]
        out["accuracy"] = round(float(np.mean(right)), 4) if right else None
    return out


def _milliseconds(seconds: Array, q: float) -> float | None:
    value = float(np.quantile(seconds, q / 100, method="higher"))
    return round(1e3 * value, 3) if np.isfinite(value) else None


def _answer(reply: bytes) -> dict[str, list[Any]]:
    """Prediction, stage, cost and partial of a plain answer or of one of the Open Inference Protocol."""
    data = json.loads(reply)
    if "outputs" in data:
        return {output["name"]: np.ravel(output["data"]).tolist() for output in data["outputs"]}
    return {"prediction": data.get("predictions", [])} | {
        name: data[name] for name in ("stage", "cost", "partial") if name in data
    }


def _same(said: Any, truth: Any) -> bool:
    """Whether a prediction is the label; numbers may have become words, or the other way round, on their way."""
    try:
        return float(said) == float(truth)
    except (TypeError, ValueError):
        return str(said) == str(truth)


# ---------------------------------------------------------------------- sending


def fire(
    url: str,
    arrivals: ArrayLike,
    bodies: Sequence[bytes],
    *,
    headers: Mapping[str, str] | None = None,
    connections: int = 256,
    patience: float = 5.0,
    keep: bool = True,
) -> Log:
    """Send a request at each of ``arrivals``; return when all are answered or patience has ended.

    Parameters
    ----------
    url : str
        ``http://host:port/path``.
    arrivals : (n,)
        Seconds after the start, increasing.
    bodies : sequence of bytes
        Sent in turn: request ``i`` carries body ``i % len(bodies)``.
    headers : mapping, default=None
        More headers, such as ``{"Authorization": "Bearer ..."}``.
    connections : int, default=256
        As many are opened at most; each carries one request at a time. A request that finds all of them busy waits, and its
        waiting counts.
    patience : float, default=5.0
        Seconds after the last arrival until requests without an answer are given up.
    keep : bool, default=True
        Keep the bodies of answers.
    """
    if not bodies:
        raise ValueError("there is no body to send")
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is no address of the form http://host:port/path; TLS ends at the balancer")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n{more}Content-Length: "
    requests = [b"%s%d\r\n\r\n%s" % (head.encode(), len(body), body) for body in bodies]
    family, _, _, _, address = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)[
        0
    ]
    sender = _Sender(
        family, address, requests, np.asarray(arrivals, dtype=np.float64), max(1, connections), keep
    )
    collecting = gc.isenabled()
    gc.disable()  # a pause here would look like one of the server
    try:
        return sender.run(patience)
    finally:
        sender.close()
        if collecting:
            gc.enable()


class _Connection:
    """A kept connection and the request that it carries; -1: none."""

    __slots__ = ("buffer", "request", "rest", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.request = -1
        self.buffer = b""
        self.rest: bytes | memoryview | None = b""  # not sent yet; None: not even connected


class _Sender:
    """The loop. Idle connections are taken in turn, so that all workers of a server get their share."""

    def __init__(
        self,
        family: int,
        address: Any,
        requests: list[bytes],
        arrivals: Array,
        connections: int,
        keep: bool,
    ) -> None:
        n = len(arrivals)
        if not n:
            raise ValueError("there is no arrival to send a request at")
        self.family, self.address, self.most, self.keep = family, address, connections, keep
        self.requests, self.arrivals = requests, arrivals
        self.latency, self.lag = np.full(n, np.inf), np.zeros(n)
        self.status = np.zeros(n, dtype=np.int64)
        self.fault, self.replies = [""] * n, [b""] * n
        self.selector = selectors.DefaultSelector()
        self.idle: deque[_Connection] = deque()
        self.waiting: deque[int] = deque()  # due, and without a connection
        self.open: set[_Connection] = set()
        self.connecting = 0  # of those in ``open``
        self.settled = 0
        self.clock = time.perf_counter

    def run(self, patience: float) -> Log:
        """Send everything; wait for the answers."""
        n = len(self.arrivals)
        for _ in range(min(self.most, 16)):  # so that the first requests need not wait for a handshake
            self._connect()
        self.start = self.clock() + 0.02
        due, ends = self.start + self.arrivals, self.start + float(self.arrivals[-1]) + patience
        upcoming = 0
        while self.settled < n:
            now = self.clock()
            if now >= ends:
                break
            while upcoming < n and due[upcoming] <= now:
                self.lag[upcoming] = now - due[upcoming]
                self.waiting.append(upcoming)
                upcoming += 1
            self._send_waiting()
            wake = due[upcoming] if upcoming < n else ends
            self._look(max(0.0, wake - self.clock()))
        for i in np.flatnonzero(self.status == 0):
            self.fault[i] = self.fault[i] or "unanswered"
        body = np.arange(n) % len(self.requests)
        seconds = self.clock() - self.start
        return Log(
            self.arrivals,
            self.latency,
            self.status,
            self.fault,
            self.replies,
            body,
            self.lag,
            seconds,
        )

    def close(self) -> None:
        """Close all connections."""
        for connection in self.open:
            connection.sock.close()
        self.selector.close()

    # ------------------------------------------------------------------ out

    def _send_waiting(self) -> None:
        while self.waiting and self.idle:
            connection, i = self.idle.popleft(), self.waiting.popleft()
            connection.request = i
            request = self.requests[i % len(self.requests)]
            try:
                sent = connection.sock.send(request)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._drop(connection, "closed")
                continue
            if sent < len(request):
                connection.rest = memoryview(request)[sent:]
                self.selector.modify(connection.sock, _READ | _WRITE, connection)
        for _ in range(min(len(self.waiting) - self.connecting, self.most - len(self.open))):
            self._connect()

    def _connect(self) -> None:
        sock = socket.socket(self.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(sock)
        connection.rest = None
        code = sock.connect_ex(self.address)
        self.open.add(connection)
        self.connecting += 1
        self.selector.register(sock, _WRITE, connection)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._drop(connection, "refused")

    def _go_on_sending(self, connection: _Connection) -> None:
        if connection.rest is None:  # the handshake is over, one way or the other
            if connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._drop(connection, "refused")
                return
            self.connecting -= 1
            connection.rest = b""
            self.idle.append(connection)
        if connection.rest:
            try:
                connection.rest = connection.rest[connection.sock.send(connection.rest) :]
            except BlockingIOError:
                return
            except OSError:
                self._drop(connection, "closed")
                return
        if not connection.rest:
            self.selector.modify(connection.sock, _READ, connection)

    # ------------------------------------------------------------------ in

    def _look(self, seconds: float) -> None:
        """Wait for something to read for at most so long, to the microsecond, and read it."""
        if (
            seconds > 0
        ):  # a selector of epoll counts milliseconds; select does not, and one descriptor is enough
            select.select([self.selector.fileno()], [], [], seconds)
        for key, events in self.selector.select(0):
            if events & _WRITE:
                self._go_on_sending(key.data)
            if events & _READ and key.data in self.open:
                self._read(key.data)

    def _read(self, connection: _Connection) -> None:
        try:
            piece = connection.sock.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(connection, "closed")
            return
        buffer = connection.buffer + piece if connection.buffer else piece
        answer = _parsed(buffer)
        if answer is None:
            connection.buffer = buffer
            return
        i, connection.request, connection.buffer = connection.request, -1, b""
        if i < 0:  # an answer to nothing: not a connection to go on with
            self._drop(connection, "closed")
            return
        status, body, closing = answer
        self.latency[i] = self.clock() - self.start - self.arrivals[i]
        self.status[i] = status
        if self.keep:
            self.replies[i] = body
        self.settled += 1
        if closing:
            self._drop(connection, "closed")
        else:
            self.idle.append(connection)

    def _drop(self, connection: _Connection, fault: str) -> None:
        """Forget a connection. The request that it carries fails; a refused connection fails the one that has waited longest."""
        self.open.discard(connection)
        self.connecting -= connection.rest is None
        self.selector.unregister(connection.sock)
        connection.sock.close()
        if connection in self.idle:
            self.idle.remove(connection)
        lost = connection.request
        if fault == "refused" and self.waiting:
            lost = self.waiting.popleft()
        if lost >= 0:
            self.fault[lost] = fault
            self.settled += 1


def _parsed(buffer: bytes) -> tuple[int, bytes, bool] | None:
    """Status, body, and whether the connection ends with it; None while the answer is not whole."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, start = buffer[: end + 2].lower(), end + 4
    status, closing = int(head[9:12]), b"\r\nconnection: close\r\n" in head
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        length = int(head[at + 17 : head.index(b"\r\n", at + 17)])
        return None if len(buffer) < start + length else (status, buffer[start : start + length], closing)
    if b"\r\ntransfer-encoding: chunked\r\n" not in head:
        return status, b"", closing
    body = b""
    while True:
        line = buffer.find(b"\r\n", start)
        if line < 0:
            return None
        size = int(buffer[start:line].split(b";")[0], 16)
        start = line + 2 + size + 2
        if len(buffer) < start:
            return None
        if size == 0:
            return status, body, closing
        body += buffer[line + 2 : start - 2]


# ---------------------------------------------------------------------- from the command line


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m anytime.serve.load", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "url", help="http://host:port, or with a path: /predict (default), /v2/models/NAME/infer"
    )
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second (default 100)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument(
        "--data", type=Path, help="CSV of rows to send in turn; else the example of the server"
    )
    parser.add_argument("--target", help="column of --data with the labels: answers are judged")
    parser.add_argument("--rows", type=int, default=1, help="rows of a request (default 1)")
    parser.add_argument("--slo-ms", type=float, help="latency that is wanted; the share within is told")
    parser.add_argument("--fixed", action="store_true", help="evenly spaced arrivals, not a Poisson process")
    parser.add_argument("--connections", type=int, default=256, help="at most (default 256)")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--deadline-ms", type=float)
    parser.add_argument("--confidence", type=float)
    parser.add_argument("--token", help="sent as a bearer token")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    asked = _arguments().parse_args(given)
    parts = urlsplit(asked.url)
    url = asked.url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/predict"
    headers = {"Authorization": f"Bearer {asked.token}"} if asked.token else {}
    rows, labels = _rows(asked, url, headers)
    parameters = {"budget": asked.budget, "deadline_ms": asked.deadline_ms, "confidence": asked.confidence}
    times = arrival_times(asked.rate, asked.seconds, fixed=asked.fixed, random_state=asked.seed)
    bodies = bodies_of(rows, urlsplit(url).path, per_request=asked.rows, **parameters)
    print(f"{len(times)} requests in {asked.seconds:g} s to {url}", file=sys.stderr)
    log = fire(url, times, bodies, headers=headers, connections=asked.connections)
    found = report(log, slo=None if asked.slo_ms is None else asked.slo_ms / 1e3, labels=labels)
    if asked.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<22} {'-' if value is None else value}")


def _rows(asked: argparse.Namespace, url: str, headers: dict[str, str]) -> tuple[Any, Any]:
    """Rows to send, and labels where there are any."""
    if asked.data is None:
        import urllib.request

        parts = urlsplit(url)
        question = urllib.request.Request(f"{parts.scheme}://{parts.netloc}/stats", headers=headers)
        with urllib.request.urlopen(question, timeout=5) as answer:
            model = json.load(answer)["models"][0]
        return np.array([model["example"]], dtype=object), None
    import pandas as pd

    table = pd.read_csv(asked.data)
    if asked.target is None:
        return table, None
    if asked.target not in table.columns:
        raise SystemExit(f"{asked.data} has no column {asked.target!r}")
    return table.drop(columns=asked.target), table[asked.target].to_numpy()


if __name__ == "__main__":
    main()
