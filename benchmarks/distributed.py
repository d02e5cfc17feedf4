"""What a cluster costs and what it keeps: bit identity, processor time, bytes, memory, kills, and a model of the time.

    python benchmarks/distributed.py                          # everything but rows on disk
    python benchmarks/distributed.py --only overhead          # one part; --help names them all
    python benchmarks/distributed.py --only disk --rows 20_000_000

Workers are processes of this machine, so that figures on the clock say what two cores can do and not what a network can.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import resource
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import anytime as at
from _cluster_rivals import (
    COLUMNS,
    LEAVES,
    free_port,
    lightgbm_worker,
    log_loss,
    made_up,
    race,
    xgboost_worker,
)
from _processes import Memory, kill_tasks, session_seconds

BINS = 257
_FEW = 4000  # rows of a fit that measures latencies


def digest(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.anytime")
        return hashlib.sha256((Path(folder) / "m.anytime").read_bytes()).hexdigest()


def own_seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def uses(cluster):
    return cluster.crew.together("process", [()] * cluster.crew.size)


def keep(args, name, figures):
    """Write what a part has found, beside what others have."""
    if args.json is not None:
        kept = json.loads(args.json.read_text()) if args.json.exists() else {}
        args.json.write_text(json.dumps({**kept, name: figures}, indent=1, default=float) + "\n")


def boosted(n_trees):
    return at.GradientBoostingClassifier(n_estimators=n_trees)


def identity(args):
    X, y = made_up(20_000)
    found = {"local": digest(boosted(20).fit(X, y))}
    for n_workers in (1, 2, 3, 4):
        with at.distributed.cluster(workers=n_workers, shares=list(range(1, n_workers + 1))):
            found[f"{n_workers} workers"] = digest(boosted(20).fit(X, y))
    same = len(set(found.values())) == 1
    print(f"identity: {len(found)} files of 20,000 x {COLUMNS} rows, all the same: {same}")
    return {"files": found, "same": same}


def overhead(args):
    """Processor seconds of all processes against the local fit; bytes against the formula; memory of each worker."""
    n, n_trees = args.rows or 1_000_000, args.trees
    X, y = made_up(n)
    began = own_seconds()
    alone = boosted(n_trees).fit(X, y)
    local = own_seconds() - began
    with at.distributed.cluster(workers=2) as cluster:
        before = uses(cluster)
        began = own_seconds()
        together = boosted(n_trees).fit(X, y)
        driver = own_seconds() - began
        after = uses(cluster)
        reports = cluster.reports
    workers = [b.processor_seconds - a.processor_seconds for a, b in zip(before, after, strict=True)]
    sent = float(np.mean([sum(report.bytes_sent for report in of_round) for of_round in reports]))
    formula = (LEAVES - 1) * COLUMNS * BINS * 16 * (2 - 1)
    most = max(use.most_bytes for use in after)
    allowed = X.nbytes / 2 + 300e6
    ratio = (driver + sum(workers)) / local
    print(
        f"overhead: {n:,} x {COLUMNS}, {n_trees} trees: local {local:.1f} s of processor time, driver {driver:.1f} s and workers "
        f"{', '.join(f'{w:.1f} s' for w in workers)}: {ratio:.2f} x (bar 1.40); same file: {digest(alone) == digest(together)}"
    )
    print(
        f"bytes per tree: {sent / 1e6:.2f} MB sent, formula {formula / 1e6:.2f} MB: {sent / formula:.3f} x (bar 1.2)"
    )
    print(
        f"memory: at most {most / 1e6:.0f} MB per worker; half of the data + 300 MB is {allowed / 1e6:.0f} MB"
    )
    return {
        "rows": n, "trees": n_trees, "local_seconds": local, "driver_seconds": driver, "worker_seconds": workers, "ratio": ratio,
        "bytes_per_tree": sent, "formula_bytes": formula, "peak_bytes": most, "allowed_bytes": allowed,
    }  # fmt: skip


def kills(args):
    """Fits in each of which a random worker is killed at a random moment."""
    X, y = made_up(20_000)
    expected, same, lost = digest(boosted(20).fit(X, y)), 0, 0
    random = np.random.default_rng(1)
    with at.distributed.cluster(workers=3) as cluster:
        took = time.perf_counter()
        boosted(20).fit(X, y)
        took = time.perf_counter() - took
        for _ in range(args.runs):
            victim, after = uses(cluster)[random.integers(3)].pid, random.uniform(0, took)
            killer = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
            killer.start()
            same += digest(boosted(20).fit(X, y)) == expected
            killer.join()
        lost = cluster.crew.n_losses
    print(
        f"kills: {args.runs} fits with a killed worker each ({lost} losses noticed): {same} identical files"
    )
    return {"runs": args.runs, "same": same, "losses": lost}


def cost_model(args):
    """Seconds of a tree on the clock, and of a worker's processor, from a few constants.

    On the clock they are latencies, which are those of few rows, + compute x rows of the fullest core: workers that share a core
    wait for each other there, and the fullest of c cores has ceil(W / c) of W workers. Of a processor they are those of few rows,
    as one and two workers have them, + compute x rows of a worker.
    """
    import ray

    n, n_trees, cores = args.rows or 400_000, 20, os.cpu_count() or 1
    X, y = made_up(n)
    least = {}  # seconds on the clock, and of the processor, by the numbers of workers and rows
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    for n_workers in 2 * (1, 2, 3, 4):  # twice, as something else may run on the machine at times
        with at.distributed.cluster(workers=n_workers) as cluster:
            for n_rows in 2 * (_FEW, n):
                boosted(2 + n_trees).fit(X[:n_rows], y[:n_rows])
                seconds = [
                    (
                        max(r.busy_seconds + r.waiting_seconds for r in of_round),
                        max(r.processor_seconds for r in of_round),
                    )
                    for of_round in cluster.reports[2:]
                ]
                before = least.get((n_workers, n_rows), (math.inf, math.inf))
                least[n_workers, n_rows] = tuple(np.minimum(before, np.median(seconds, axis=0)))
    ray.shutdown()
    small, large = ({w: least[w, n_rows] for w in (1, 2, 3, 4)} for n_rows in (_FEW, n))
    compute, compute_of_processor = (np.array(large[1]) - small[1]) / (n - _FEW)
    per_worker = max(small[2][1] - small[1][1], 1e-6)
    rows = {}
    for w in large:
        on_clock = small[w][0] + compute * (n - _FEW) * math.ceil(w / cores) / w
        few = small[1][1] + per_worker * (w - 1)
        of_processor = few + compute_of_processor * (n - _FEW) / w
        rows[w] = {
            "few_rows": small[w][0], "model": on_clock, "measured": large[w][0], "off": on_clock / large[w][0] - 1,
            "processor_model": of_processor, "processor_measured": large[w][1], "processor_off": of_processor / large[w][1] - 1,
        }  # fmt: skip
        print(
            f"model: {w} workers, {n:,} rows: {on_clock * 1e3:.0f} ms per tree foretold and {large[w][0] * 1e3:.0f} measured on "
            f"the clock ({rows[w]['off']:+.0%}); of a worker's processor {of_processor * 1e3:.1f} and {large[w][1] * 1e3:.1f} "
            f"({rows[w]['processor_off']:+.0%})"
        )
    constants = {"few_rows": small[1][1], "per_worker": per_worker, "compute": compute_of_processor}
    return {"rows": n, "workers": rows, "constants": constants, "foretold": foretold(**constants)}


def foretold(few_rows, per_worker, compute):
    """Seconds per tree on machines of one core with a network of 10 Gbit/s and 0.1 ms, and where more of them stop to pay."""
    print(
        f"model: of a processor {compute * 1e6:.3f} s per tree and million rows; another worker costs {per_worker * 1e3:.1f} ms "
        "per tree"
    )
    histograms, bandwidth, messages, latency = (
        (LEAVES - 1) * COLUMNS * BINS * 16,
        1.25e9,
        2 * (LEAVES - 1),
        1e-4,
    )
    ahead = {}
    for total in (10_000_000, 1_000_000_000):
        for n_workers in (1, 10, 100, 1000):
            network = histograms * (n_workers - 1) / n_workers / bandwidth + messages * latency * (
                n_workers > 1
            )
            seconds = few_rows + per_worker * (n_workers - 1) + compute * total / n_workers + network
            ahead[f"{total} rows, {n_workers} workers"] = seconds
            print(
                f"  foretold for {total:,} rows on {n_workers} machines of one core: {seconds:.2f} s per tree"
            )
        best = float(np.sqrt(compute * total / per_worker))
        ahead[f"{total} rows, most workers that pay"] = best
        print(f"  {total:,} rows: more than {best:.0f} workers make a tree slower again")
    return ahead


def prediction(args):
    """Rows per second and core of batch prediction, against the local path from the same files to the same files."""
    import pandas as pd

    n = args.rows or 1_000_000
    X, y = made_up(n)
    names = [f"x{j}" for j in range(COLUMNS)]
    frame = pd.DataFrame(X, columns=names)
    model = at.GradientBoostingClassifier(n_estimators=100).fit(frame[:50_000], y[:50_000])
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows", Path(folder) / "answers"
        source.mkdir()
        for number in range(10):
            frame[number * n // 10 : (number + 1) * n // 10].to_parquet(source / f"{number}.parquet")
        began = own_seconds()
        for path in sorted(source.iterdir()):
            answer = model.answer(pd.read_parquet(path))
            pd.DataFrame(
                {"prediction": answer.prediction, "cost": answer.cost, "stage": answer.stage}
            ).to_parquet(Path(folder) / "local.parquet")
        local = own_seconds() - began
        with at.distributed.cluster(workers=2):
            at.distributed.predict(model, source, Path(folder) / "warm")  # starts the processes
            began, spent = time.perf_counter(), session_seconds()
            at.distributed.predict(model, source, target)
            wall, spent = time.perf_counter() - began, session_seconds() - spent
    print(
        f"prediction: {n:,} rows, 100 trees: local {n / local / 1e3:.0f} k rows per processor second; cluster "
        f"{n / spent / 1e3:.0f} k "
        f"({local / spent:.2f} of it, bar 0.8), {n / wall / 1e3:.0f} k rows/s on the clock with 2 cores"
    )
    return {"rows": n, "local_seconds": local, "cluster_seconds": spent, "wall": wall, "share": local / spent}


def prediction_kills(args):
    """Batch predictions while busy processes are killed, a hundred in all: rows that are lost, doubled or different."""
    import pandas as pd

    n, names = args.rows or 400_000, [f"x{j}" for j in range(COLUMNS)]
    X, y = made_up(n)
    prices = at.FeatureCosts(dict.fromkeys(names, 1.0))
    frame = pd.DataFrame(X, columns=names)
    model = at.GradientBoostingClassifier(costs=prices, n_estimators=100).fit(frame[:50_000], y[:50_000])
    expected = model.answer(frame, 20.0)
    random, killed, calls, wrong = np.random.default_rng(0), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows"
        source.mkdir()
        for number, rows in enumerate(np.array_split(np.arange(n), 16)):
            frame.iloc[rows].assign(key=rows).to_parquet(source / f"{number:02d}.parquet")
        with at.distributed.cluster(workers=2):
            while killed < args.kills:
                over, target = threading.Event(), Path(folder) / f"answers-{calls}"
                hits = []
                killer = threading.Thread(
                    target=kill_tasks, args=(random, over, hits, args.kills - killed, "ray::_predict_block")
                )
                killer.start()
                done = at.distributed.predict(model, source, target, budget=20.0, keep=["key"])
                over.set()
                killer.join()
                killed, calls = killed + len(hits), calls + 1
                answers = pd.concat(pd.read_parquet(path) for path in done.files)
                wrong += not (
                    done.n_rows == n
                    and np.array_equal(answers["key"], np.arange(n))
                    and np.array_equal(answers["prediction"], expected.prediction)
                    and np.array_equal(answers["cost"], expected.cost)
                    and len(list(target.glob("*.parquet"))) == 16
                    and not list(target.glob(".*"))
                )
    print(
        f"prediction kills: {calls} calls of {n:,} rows, {killed} busy processes killed: {wrong} calls with lost, doubled or "
        "different rows"
    )
    return {"rows": n, "calls": calls, "kills": killed, "wrong": wrong}


def disk(args):
    """Rows that never are in memory at once: Parquet files made on the spot, group pursuit and 50 trees, at three sizes."""
    most = args.rows or 20_000_000
    kept = json.loads(args.json.read_text()) if args.json is not None and args.json.exists() else {}
    out = {int(n): found for n, found in kept.get("disk", {}).items()}
    with contextlib.ExitStack() as stack:
        folder = Path(args.folder or stack.enter_context(tempfile.TemporaryDirectory()))
        files = _parquet_files(folder, most)
        for share in args.shares:
            some = files[: round(share * len(files))]
            n, found = _out_of_core(some, args.trees)
            out[n] = found
            print(
                f"disk: {n:,} rows ({found['files_bytes'] / 1e9:.1f} GB of Parquet), {found['trees']} trees: "
                f"{found['processor_seconds_per_tree']:.2f} s of processor time per tree and worker, "
                f"{found['seconds_per_tree']:.2f} s on the clock; boosting {found['fit_seconds']['boosting']:.0f} s, pursuit "
                f"{found['fit_seconds']['pursuit']:.0f} s; workers have at most "
                f"{', '.join(f'{m / 1e9:.2f} GB' for m in found['worker_bytes'])}, all processes "
                f"{found['all_bytes'] / 1e9:.2f} GB (bar 8)",
                flush=True,
            )
    few, *more = ((n, found["processor_seconds_per_tree"] / n) for n, found in sorted(out.items()))
    for n, per_row in more:
        print(
            f"disk: seconds per tree and row grow by {per_row / few[1] - 1:+.0%} from {few[0]:,} to {n:,} rows (bar 20 %)"
        )
    return out


def _parquet_files(folder, n):
    """So many rows in files of a quarter million; those that are there already are taken as they are."""
    import pandas as pd

    per_file, names = min(250_000, n // 4), [f"x{j}" for j in range(COLUMNS)]
    files = [folder / f"{number:04d}.parquet" for number in range(n // per_file)]
    for number, path in enumerate(files):
        if not path.exists():
            X, y = made_up(per_file, seed=number)
            beside = path.with_suffix(".part")
            pd.DataFrame(X.astype(np.float32), columns=names).assign(label=y).to_parquet(
                beside, compression=None, use_dictionary=False
            )  # what is drawn at random has no patterns
            beside.rename(path)
    return files


def _out_of_core(files, n_trees):
    """The number of rows in the files, and what group pursuit and boosting on two workers take."""
    from pyarrow import parquet

    n, seconds = sum(parquet.read_metadata(path).num_rows for path in files), {}
    with Memory() as memory, at.distributed.cluster(workers=2, object_store_memory=1_500_000_000) as cluster:
        began = time.perf_counter()
        at.GroupPursuitRegressor(random_state=0).fit(files, "label")
        seconds["pursuit"] = time.perf_counter() - began
        began = time.perf_counter()
        at.GradientBoostingClassifier(n_estimators=n_trees).fit(files, "label")
        seconds["boosting"] = time.perf_counter() - began
        by_round = [
            max(of_round, key=lambda report: report.processor_seconds) for of_round in cluster.reports
        ]
        of_workers = [use.most_bytes for use in uses(cluster)]
    return n, {
        "files_bytes": sum(path.stat().st_size for path in files), "trees": len(by_round), "fit_seconds": seconds,
        "processor_seconds_per_tree": float(np.mean([report.processor_seconds for report in by_round])),
        "seconds_per_tree": float(np.median([r.busy_seconds + r.waiting_seconds for r in by_round])),
        "worker_bytes": of_workers, "all_bytes": memory.most,
    }  # fmt: skip


def rivals(args):
    """Seconds of trees until a loss on new rows: LightGBM's socket mode and XGBoost's collective with two workers, beside ours.

    Same rows, leaves, bins, learning rate and number of threads. Preparing the rows, and the first two trees, are not counted; of
    processors, those of the busier worker are, and here those of the driver besides.
    """
    n, n_trees = args.rows or 400_000, args.trees
    X, y = made_up(n)
    found = {
        "lightgbm": race(lightgbm_worker, X, y, n_trees, [free_port() for _ in range(2)]),
        "xgboost": race(xgboost_worker, X, y, n_trees, free_port()),
    }
    with at.distributed.cluster(workers=2) as cluster:
        boosted(2).fit(X, y)
        moments = [(time.perf_counter(), own_seconds())]
        for number in (2, 2 + n_trees):
            model = boosted(number).fit(X, y)
            moments.append((time.perf_counter(), own_seconds()))
        rounds = cluster.reports[2:]
    clock, of_driver = np.array([-1, 1]) @ np.diff(moments, axis=0) / n_trees
    of_worker = np.mean([max(report.processor_seconds for report in of_round) for of_round in rounds])
    per_tree = {"clock": float(clock), "processor": float(of_worker + of_driver)}
    fresh, truth = made_up(50_000, seed=9)
    _, *losses = (log_loss(answer.probabilities[:, 1], truth) for answer in model.stages(fresh))
    found["ours"] = per_tree, losses
    reached = max(losses[-1] for _, losses in found.values())
    out = {"rows": n, "trees": 2 + n_trees, "loss": reached, "of": {}}
    for name, (per_tree, losses) in found.items():
        needed = int(np.argmax(np.array(losses) <= reached)) + 1
        out["of"][name] = {
            "seconds_per_tree": per_tree,
            "last_loss": losses[-1],
            "trees_to_loss": needed,
            "seconds_to_loss": {what: needed * seconds for what, seconds in per_tree.items()},
        }
        print(
            f"rivals: {name}: {per_tree['clock'] * 1e3:.0f} ms per tree on the clock, {per_tree['processor'] * 1e3:.0f} of the "
            f"busier worker's processor; log loss {reached:.4f} on new rows after {needed} trees, {losses[-1]:.4f} after "
            f"{2 + n_trees}"
        )
    return out


PARTS = {
    "identity": identity, "overhead": overhead, "kills": kills, "model": cost_model, "prediction": prediction,
    "prediction_kills": prediction_kills, "rivals": rivals, "disk": disk,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, default=None)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--runs", type=int, default=20, help="fits with kills")
    parser.add_argument("--kills", type=int, default=100, help="of processes that predict")
    parser.add_argument("--folder", default=None, help="where files of the part 'disk' are made, and stay")
    parser.add_argument(
        "--shares", type=float, nargs="+", default=[0.25, 0.5, 1.0], help="of the rows on disk, one fit each"
    )
    parser.add_argument(
        "--json", type=Path, default=None, help="a file for the figures, beside those that it has"
    )
    args = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")  # as the rivals' workers have; Ray's own choice is 15
    for name, part in PARTS.items():
        if name == args.only or (args.only is None and name != "disk"):
            figures = part(args)
            keep(args, name, figures)


if __name__ == "__main__":
    main()
