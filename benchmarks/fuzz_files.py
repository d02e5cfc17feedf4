r"""Throws damaged and malicious ``.anytime`` files at the loader, and writes down how it holds.

    .venv/bin/python benchmarks/fuzz_files.py                    # 200,000 files on 2 cores
    .venv/bin/python benchmarks/fuzz_files.py --start 200000 --cases 400000   # goes on; the figures are added up
    .venv/bin/python benchmarks/fuzz_files.py --case 4711        # one file again, by its number

Every case is made from its number and the seed alone. A case starts from one of a few small valid files that use all
that a file can hold, and changes it in one of four ways:

- *bytes*: flipped bits, cuts, splices, repeated and removed pieces;
- *zip*: headers that lie about sizes, methods, names and places, the same lie in all copies; bombs;
- *json*: values of the manifest replaced, moved, removed or repeated, all checksums made right again;
- *arrays*: contents, shapes and types changed, arrays swapped or resized, all checksums made right again.

The last two reach the deepest checks, because nothing in such a file is damaged: it is wrong. The loader must raise
``BadFileError``, or give a model that then answers at every budget without an error; bytes that were changed at random may
never load at all. Wrong exceptions, crashes, cases longer than ``--time-limit`` seconds and memory beyond
``--memory-limit`` MB over the start are failures. The files that caused them are kept in ``--keep``.

Under sanitizers (address and undefined behaviour), in a scratch copy that shares the packages of ``.venv``::

    mkdir /tmp/asan && cp -r src CMakeLists.txt pyproject.toml LICENSE benchmarks /tmp/asan
    export BIN=$PWD/.venv/bin && cd /tmp/asan
    $BIN/cmake -S . -B build -G Ninja -DCMAKE_MAKE_PROGRAM=$BIN/ninja -DANYTIME_SANITIZE=ON \
        -DPython_EXECUTABLE=$BIN/python -Dnanobind_DIR=$($BIN/python -m nanobind --cmake_dir)
    $BIN/cmake --build build && cp build/_native*.so src/anytime/
    $BIN/python -m venv --without-pip .venv
    printf '%s\n' $PWD/src $($BIN/python -c 'import numpy, pathlib; print(pathlib.Path(numpy.__file__).parents[1])') \
        > $(echo .venv/lib/python*/site-packages)/scratch.pth
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
        .venv/bin/python benchmarks/fuzz_files.py --cases 20000 --seed 1 --time-limit 30 --sanitized

In an environment of its own, ``pip install --no-build-isolation -e . -C cmake.define.ANYTIME_SANITIZE=ON`` builds the same.

A finding of a sanitizer ends the process, which counts as a crash of the case it was at. Figures go to
``benchmarks/results/fuzz_files.json``.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import resource
import shlex
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # also when a test loads this file by its path

from _fuzz_cases import KINDS, Cases
from anytime import files
from anytime.adaptive import CostlyBlock
from anytime.trees.importers import Columns

RESULTS = Path(__file__).parent / "results" / "fuzz_files.json"


# ---------------------------------------------------------------------- what must hold


class TooLong(BaseException):
    """Raised by the alarm; not an ``Exception``, so that nothing takes it for a bad file."""


class WronglyAcceptedError(AssertionError):
    """Damaged bytes were loaded as a model."""


def judge(kind: str, raw: bytes, originals: tuple[bytes, ...]) -> str:
    """``"refused"`` or ``"loaded"``; anything else that may come out is a failure of the loader."""
    try:
        model = files.load(io.BytesIO(raw))
    except files.BadFileError:
        return "refused"
    if kind == "bytes" and raw not in originals:
        raise WronglyAcceptedError("damaged bytes were loaded as a model")
    use(model)
    files.describe(io.BytesIO(raw))
    return "loaded"


def use(model: Any) -> None:
    """Answers of a model in every way there is; whatever a stranger's model computes, it computes it without an error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, model.n_features_in_)) * 3
    X[0] = np.abs(X[0]).round()
    _attach(model)
    columns = getattr(model, "columns_", Columns(model.n_features_in_, ensure_all_finite="allow-nan"))
    finite = columns.ensure_all_finite  # a model may refuse what its original refused
    takes_nan = finite is False or finite == "allow-nan"
    if takes_nan:
        X[1, ::2] = np.nan
    elif not columns.are_plain:
        return  # an unknown category becomes NaN, and is rightly refused
    model.predict(X)
    model.answer(X)
    for budget in (0, 3.0, 1e9):
        model.predict(X, budget=budget)
    model.cost(X, budget=10.0)
    model.predict_one(np.ascontiguousarray(X[2]))
    if model.n_stages_ <= 20:
        list(model.stages(X))
        model.truncate(5.0).predict(X)
    if hasattr(model, "classes_"):
        model.predict_proba(X, deadline=0.5)
    if columns.categories and takes_nan:
        model.predict(pd.DataFrame(X, columns=getattr(model, "feature_names_in_", None)))


def _attach(model: Any) -> None:
    """Put a stand-in in the place of a model that no file holds."""
    blocks = []
    for block in model.plan_.blocks:
        if isinstance(block, CostlyBlock):  # without probe rows, which would give the stand-in away
            block.probe = block.probe_answers = None
            width = block.n_classes if block.calibration is None else len(block.calibration) - 1
            block = block.attached(lambda X, width=width: np.full((len(X), width), 0.5))
        blocks.append(block)
    model.plan_ = replace(model.plan_, blocks=blocks)


# ---------------------------------------------------------------------- running many


class Worker:
    """One process that judges every so many-th case; the parent watches it from outside."""

    def __init__(self, options: argparse.Namespace, first: int) -> None:
        context = multiprocessing.get_context("fork")
        self.options, self.first = options, first
        self.at = context.Value("q", options.start + first, lock=False)
        self.began = context.Value("d", time.monotonic(), lock=False)
        self.reader, self.writer = context.Pipe(duplex=False)
        self.process = context.Process(target=self._work, daemon=True)
        self.process.start()
        self.writer.close()

    def _work(self) -> None:
        options = self.options
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        signal.signal(signal.SIGALRM, _alarmed)
        cases = Cases(options.seed)
        judge("json", cases.raw[0], cases.raw)  # all that is loaded at first use is there
        if not options.sanitized:
            _limit_memory(options.memory_limit)
        start_rss = _peak_mb()
        counts: Counter[str] = Counter()
        slowest = (0.0, -1)
        for number in range(options.start + self.first, options.cases, options.workers):
            self.at.value, self.began.value = number, time.monotonic()
            kind, raw = cases.make(number)
            before, began = _peak_mb(), time.perf_counter()
            outcome, failure = _outcome(kind, raw, cases.raw, options.time_limit)
            slowest = max(slowest, (time.perf_counter() - began, number))
            grown = _peak_mb() - start_rss
            if (
                not failure and grown > options.memory_limit and not options.sanitized
            ):  # which keep freed memory
                failure = (
                    f"memory: {before - start_rss:.0f} MB over the start before this case, {grown:.0f} after"
                )
            counts[f"{kind} {outcome}"] += 1
            if failure:
                self.writer.send(("failure", number, kind, failure, raw))
            if number // options.workers % 500 == 0:
                self.writer.send(("progress", counts, slowest, grown))
                counts.clear()
        self.writer.send(("done", counts, slowest, _peak_mb() - start_rss, time.process_time()))


def _outcome(kind: str, raw: bytes, originals: tuple[bytes, ...], limit: float) -> tuple[str, str | None]:
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        return judge(kind, raw, originals), None
    except (Exception, TooLong):
        return "failed", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _alarmed(*_: Any) -> None:
    raise TooLong


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _limit_memory(megabytes: float) -> None:
    """A wall some way behind the limit: threads reserve addresses that they never use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int((megabytes + 512) * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All cases; returns the figures."""
    began = time.perf_counter()
    workers = [Worker(options, first) for first in range(min(options.workers, options.cases - options.start))]
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    slowest, grown, shown, processor = (0.0, -1), 0.0, 0.0, 0.0
    while workers:
        multiprocessing.connection.wait([worker.reader for worker in workers], timeout=1)
        for worker in list(workers):
            message = _receive(worker)
            if message is None:
                continue
            if message[0] == "failure":
                _, number, kind, reason, raw = message
                failures.append(_keep(options, number, kind, reason, raw))
            elif message[0] in ("progress", "done"):
                counts.update(message[1])
                slowest, grown = max(slowest, message[2]), max(grown, message[3])
                if message[0] == "done":
                    processor += message[4]
                    workers.remove(worker)
            else:
                number = int(worker.at.value)
                kind, raw = Cases(options.seed).make(number)
                failures.append(_keep(options, number, kind, message[1], raw))
                counts[f"{kind} crashed"] += 1
                workers.remove(worker)
                if number + options.workers < options.cases:
                    workers.append(Worker(options, number + options.workers - options.start))
        if time.perf_counter() - shown > 10:
            shown = time.perf_counter()
            done = max((worker.at.value for worker in workers), default=options.cases)
            print(
                f"{done:>8} of {options.cases}, {len(failures)} failures, {shown - began:.0f} s", flush=True
            )
    seconds = time.perf_counter() - began
    outcomes = {
        kind: {o: counts[f"{kind} {o}"] for o in ("refused", "loaded", "failed", "crashed")} for kind in KINDS
    }
    return {
        "cases": options.cases,
        "seed": options.seed,
        "failures": len(failures),
        "failed_cases": [failure["case"] for failure in failures[:50]],
        "outcomes": outcomes,
        "slowest_case_seconds": round(slowest[0], 3),
        "slowest_case": slowest[1],
        "peak_memory_growth_mb": round(grown, 1),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "cases_per_second": round((options.cases - options.start) / seconds, 1),
        "workers": options.workers,
        "limits": {"seconds": options.time_limit, "memory_mb": options.memory_limit},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}",
    }


def _receive(worker: Worker) -> tuple[Any, ...] | None:
    """The next message; a worker that died, or hangs where the alarm cannot reach it, is reported as dead."""
    try:
        if worker.reader.poll():
            message: tuple[Any, ...] = worker.reader.recv()
            return message
    except EOFError:
        worker.process.join()
        return "dead", f"the process ended with status {worker.process.exitcode}"
    if time.monotonic() - worker.began.value > 10 * worker.options.time_limit + 30:
        worker.process.kill()
        worker.process.join()
        return "dead", "hung where no signal reaches"
    return None


def _keep(options: argparse.Namespace, number: int, kind: str, reason: str, raw: bytes) -> dict[str, Any]:
    options.keep.mkdir(parents=True, exist_ok=True)
    stem = options.keep / f"seed{options.seed}-case{number}"
    stem.with_suffix(".anytime").write_bytes(raw)
    stem.with_suffix(".txt").write_text(f"{kind}\n{reason}\n")
    print(f"case {number} ({kind}): {reason.strip().splitlines()[-1]}; kept as {stem}.anytime", flush=True)
    return {"case": number, "kind": kind, "reason": reason}


def write_results(section: str, figures: dict[str, Any], start: int = 0) -> None:
    """Put figures beside those of the other kind of run; a run that goes on from ``start`` is added to the one before it."""
    on_record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    earlier = on_record.get(section, {"cases": 0})
    if start and (start, figures["seed"]) != (earlier["cases"], earlier["seed"]):
        print(f"the run on record ends at case {earlier['cases']}: these figures do not go on from there")
        return
    if figures["cases"] < earlier["cases"]:
        print("a longer run is on record: it stays")
        return
    on_record[section] = {
        "command": "python " + shlex.join(sys.argv),
        **(added(earlier, figures) if start else figures),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(on_record, indent=2) + "\n")


def added(earlier: dict[str, Any], figures: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run and of the one that went on from it."""
    total = dict(figures)
    for name in ("failures", "failed_cases", "seconds", "processor_seconds"):
        total[name] = earlier[name] + figures[name]
    total["outcomes"] = {
        kind: {outcome: count + earlier["outcomes"][kind][outcome] for outcome, count in counts.items()}
        for kind, counts in figures["outcomes"].items()
    }
    slowest = max(earlier, figures, key=lambda run: run["slowest_case_seconds"])
    total |= {name: slowest[name] for name in ("slowest_case_seconds", "slowest_case")}
    total["peak_memory_growth_mb"] = max(earlier["peak_memory_growth_mb"], figures["peak_memory_growth_mb"])
    total["cases_per_second"] = round(total["cases"] / total["seconds"], 1)
    return total


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description="Throw damaged and malicious .anytime files at the loader.")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--start", type=int, default=0, help="first case; go on from a run that ended there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--case", type=int, help="only this one, in this process, with its traceback")
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds per case")
    parser.add_argument("--memory-limit", type=float, default=256.0, help="MB over the start")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/fuzz_failures"), help="folder for files that failed"
    )
    parser.add_argument(
        "--sanitized", action="store_true", help="native code is built with sanitizers: no address limit"
    )
    return parser.parse_args(arguments)


def main() -> int:
    """Run, print and write the figures; 1 if anything failed."""
    options = parsed()
    if options.case is not None:
        cases = Cases(options.seed)
        kind, raw = cases.make(options.case)
        print(kind, len(raw), "bytes:", judge(kind, raw, cases.raw))
        return 0
    figures = run(options)
    print(json.dumps(figures, indent=2))
    write_results("sanitized" if options.sanitized else "plain", figures, options.start)
    return 1 if figures["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
