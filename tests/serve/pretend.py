"""A stand-in for the server, for states that a real one is seldom in: figures of a growing load, answers by a formula."""

from __future__ import annotations

import json
import math
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from anytime.serve.page import HEADERS, assets

CHECKPOINTS = [0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 100, 120]
COSTS = [0.0, 0.5, 0.5, 1.0, 1.0, 2.5, 2.5, 4.0, 6.0, 8.0, 8.0, 14.0, 14.0, 22.0, 30.0, 34.0, 40.0]
COLUMNS = [
    {"name": "age", "group": "record", "price": 0.5},
    {"name": "glucose", "group": "blood", "price": 8.0},
    {"name": "ferritin", "group": "blood", "price": 8.0},
    {"name": "lesion size", "group": "scan", "price": 25.0},
    {"name": "lesion contrast", "group": "scan", "price": 25.0},
    {"name": "ward", "group": "record", "price": 0.5},  # apart from the other one of its group
]


def model(name="patients", **changes):
    """One entry of ``/stats``."""
    return {
        "name": name,
        "version": "1",
        "n_stages": 120,
        "checkpoints": CHECKPOINTS,
        "stage_costs": COSTS,
        "quality": [-0.1 - 0.5 * math.exp(-c / 7) for c in COSTS],
        "unit": "ms",
        "columns": COLUMNS,
        "classes": ["benign", "malignant", "unclear"],
        "example": [61, 5.4, 88, 12.5, 0.31, "B2"],
        "stage_seconds": [1e-6 * s for s in CHECKPOINTS],
        **changes,
    }


class Pretend:
    """What the stand-in says, to be changed by a test; ``requests`` is what it was asked."""

    def __init__(self):
        self.models = [model()]
        self.window = {}
        self.slo = 10.0
        self.refused = 0  # requests per second
        self.hurried = 0  # streams that are cut short for time before one is not
        self.broken = None  # the sentence with which streams end after two answers
        self.token = None
        self.pause = 0.05
        self.until = None  # the number of events after which the stream of figures ends
        self.requests = []
        self.stopped = threading.Event()

    def stats(self, second):
        """Figures at a second of a day on which load grows fivefold."""
        load = 1 / (1 + math.exp(-(second - 60) / 6))
        stage = 120 - 84 * load
        window = {
            "seconds": 10,
            "rps": 900 + 3900 * load + 60 * math.sin(second),
            "p50_ms": 0.9 + 4.5 * load + 0.1 * math.sin(second / 2),
            "p95_ms": 2.1 + 5.4 * load + 0.2 * math.sin(second / 3),
            "p99_ms": 3.0 + 5.6 * load + 0.4 * math.sin(second / 1.7),
            "late_share": 0.0004 * load,
            "partial_share": 0.97 * load,
            "mean_stage": stage,
            "mean_cost": 40 - 24 * load,
            "mean_batch": 1.2 + 11 * load,
            "queue": round(1 + 22 * load),
        }
        share = [math.exp(-(((i - 16 + 5 * load) / (0.4 + load)) ** 2)) for i in range(17)]
        window |= self.window
        moving = {
            "stages": {"edges": CHECKPOINTS, "share": [s / sum(share) for s in share]},
            "window": {"answers": 10 * window["rps"]}
            | {key: window[key] for key in ("mean_stage", "mean_cost")},
        }
        return {
            "uptime": 3600 + second,
            "slo_ms": self.slo,
            "workers": [{"pid": 1}, {"pid": 2}],
            "totals": {"refused": self.refused * second, "failed": 0, "turned_away": 0},
            "window": window,
            "models": [model | moving for model in self.models],
        }

    def answer(self, body, budget):
        """An answer that grows surer with the budget."""
        bought = max((i for i, c in enumerate(COSTS) if c <= budget), default=0)
        sure = 1 - math.exp(-COSTS[bought] / 12)
        shares = [0.2 + 0.1 * (1 - sure), 0.3 + 0.45 * sure, 0.4 - 0.35 * sure]
        shares = [s / sum(shares) for s in shares]
        classes = {
            "predictions": [["benign", "malignant", "unclear"][shares.index(max(shares))]],
            "classes": ["benign", "malignant", "unclear"],
            "probabilities": [shares],
        }
        return {
            **(classes if body.get("probabilities") else {"predictions": [1200 + 34.5678 * sure]}),
            "cost": [COSTS[bought]],
            "stage": [CHECKPOINTS[bought]],
            "partial": [False],
            "elapsed_ms": 0.4,
        }

    def advice(self, body):
        """The first group that was not bought, then the others."""
        prices = {column["group"]: column["price"] for column in COLUMNS}
        left = [name for name in prices if name not in body["bought"]]
        offers = [
            {"group": name, "buys": [name], "price": prices[name], "gain": 0.1, "change": 0.25}
            for name in left
        ]
        said = f"Now benign. Buy {left[0]!r} next." if left else "Now benign. Nothing is left."
        return {"advice": said, "offers": offers, "probability": 0.6, "unit": "ms"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body, kind="application/json", status=200, headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for key, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            **(headers or {}),
        }.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def events(self, messages):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event, data in messages:
            self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

    def denied(self):
        wanted = self.server.pretend.token
        if wanted is None or self.headers.get("Authorization") == f"Bearer {wanted}":
            return False
        self.reply({"error": "a token is needed"}, status=401)
        return True

    def do_GET(self):
        pretend, path = self.server.pretend, self.path.lstrip("/")
        if path in assets():
            asset = assets()[path]
            self.reply(asset.body, asset.media_type, headers=HEADERS)
        elif self.denied():
            pass
        elif path == "stats/stream":
            self.close_connection = True
            with suppress(BrokenPipeError, ConnectionResetError):
                self.events(self.seconds(pretend))
        elif path == "stats":
            self.reply(pretend.stats(0))
        else:
            self.reply({"error": f"nothing at /{path}"}, status=404)

    @staticmethod
    def seconds(pretend):
        second = 0
        while not pretend.stopped.is_set() and (pretend.until is None or second < pretend.until):
            yield "stats", pretend.stats(second)
            second += 1
            pretend.stopped.wait(pretend.pause if second > 120 or pretend.until else 0)
            if second > 120:
                pretend.stopped.wait(1)

    def do_POST(self):
        pretend = self.server.pretend
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pretend.requests.append((self.path, body))
        if self.denied():
            return
        if self.path == "/next":
            self.reply(pretend.advice(body))
            return
        (row,) = body["rows"]
        if isinstance(row[0], str):
            self.reply({"error": f"column 'age' is numeric, got {row[0]!r}"}, status=422)
        elif self.path == "/predict":
            self.reply(pretend.answer(body, body["budget"]))
        else:
            self.close_connection = True
            answers = [pretend.answer(body, cost) for cost in COSTS]
            if pretend.hurried:
                pretend.hurried -= 1
                answers = [answers[0] | {"partial": [True]}]
            last = ("done", answers[-1])
            if pretend.broken is not None:
                answers, last = answers[:2], ("error", {"error": pretend.broken})
            self.events([*(("answer", a) for a in answers), last])


@contextmanager
def pretending():
    """A running stand-in and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.pretend = Pretend()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.pretend, f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.pretend.stopped.set()
        server.shutdown()
        server.server_close()
