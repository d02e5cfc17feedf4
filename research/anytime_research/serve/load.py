"""An open-loop load generator: requests leave at their own times, however the server is doing.

    python -m anytime_research.serve.load http://127.0.0.1:8000 --rate 500 --seconds 10 --data rows.csv --target label --slo-ms 10

Users do not wait for each other, so requests are sent by a clock and never because an answer came back; latency is counted from
the moment a request was due to leave. A server that stalls is so charged with every request of the stall (no coordinated
omission), and a generator that falls behind charges itself and says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime_research.serve.sending import Log, fire

__all__ = ["Log", "arrival_times", "bodies_of", "fire", "report"]

Array = NDArray[np.float64]


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
        **({"first_error": log.first_error} if log.errors else {}),
        "offered_rps": round(latency.size / span, 1) if (span := float(log.arrivals[-1])) else None,
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


# ---------------------------------------------------------------------- from the command line


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m anytime_research.serve.load", description=(__doc__ or "").split("\n\n")[0]
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
