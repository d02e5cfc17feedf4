"""What a cluster costs and what it keeps: bit identity, processor time, bytes, memory, kills, and a model of the time.

    python benchmarks/distributed.py                          # everything but rows on disk
    python benchmarks/distributed.py --only overhead          # one part: identity, overhead, kills, model, prediction, lightgbm
    python benchmarks/distributed.py --only disk --rows 20_000_000

Workers are processes of this machine, so that figures on the clock say what two cores can do and not what a network can.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import anytime as at

COLUMNS, BINS, LEAVES = 50, 257, 31
_FEW = 4000  # rows of a fit that measures latencies


def made_up(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, COLUMNS))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * np.sin(3 * X[:, 3]) + random.normal(size=n) > 0).astype(int)
    return X, y


def digest(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.anytime")
        return hashlib.sha256((Path(folder) / "m.anytime").read_bytes()).hexdigest()


def own_seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def log_loss(probability, truth):
    return float(-np.mean(np.log(np.where(truth == 1, probability, 1 - probability))))


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
    """Seconds per tree = those of few rows, which are latencies, with as many workers + compute x rows of the fullest core."""
    import ray

    n, n_trees, cores = args.rows or 400_000, 12, os.cpu_count() or 1
    X, y = made_up(n)
    small, large = {}, {}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    for n_workers in (1, 2, 3, 4):
        with at.distributed.cluster(workers=n_workers):
            for rows, into in ((_FEW, small), (n, large)):
                boosted(2).fit(X[:rows], y[:rows])
                began = time.perf_counter()
                boosted(2).fit(X[:rows], y[:rows])
                short = time.perf_counter() - began
                began = time.perf_counter()
                boosted(2 + n_trees).fit(X[:rows], y[:rows])
                into[n_workers] = (time.perf_counter() - began - short) / n_trees
    ray.shutdown()
    per_worker, compute = max(small[2] - small[1], 1e-6), (large[1] - small[1]) / (n - _FEW)
    rows = {}
    for n_workers, measured in large.items():
        told = small[n_workers] + compute * (n - _FEW) * math.ceil(n_workers / cores) / n_workers
        rows[n_workers] = {
            "measured": measured,
            "few_rows": small[n_workers],
            "model": told,
            "off": told / measured - 1,
        }
    print(
        f"model: {compute * 1e6:.4f} s per tree and million rows; another worker costs {per_worker * 1e3:.2f} ms per tree"
    )
    for n_workers, row in rows.items():
        told = ", ".join(f"{name} {row[name] * 1e3:.0f} ms" for name in ("few_rows", "model", "measured"))
        print(f"  {n_workers} workers, {n:,} rows, per tree: {told} ({row['off']:+.0%})")
    bandwidth = 1.25e9  # bytes per second: a 10 Gbit network
    histograms = (LEAVES - 1) * COLUMNS * BINS * 16
    ahead = {}
    for total in (10_000_000, 1_000_000_000):
        for n_workers in (1, 10, 100, 1000):
            seconds = (
                compute * total / n_workers
                + histograms * (n_workers - 1) / n_workers / bandwidth
                + small[1]
                + per_worker * (n_workers - 1)
            )
            ahead[f"{total} rows, {n_workers} workers"] = seconds
            print(
                f"  foretold for {total:,} rows on {n_workers} machines of one core: {seconds:.2f} s per tree"
            )
        best = np.sqrt(compute * total / per_worker)
        ahead[f"{total} rows, most workers that pay"] = best
        print(f"  {total:,} rows: more than {best:.0f} workers make a tree slower again")
    return {
        "rows": n,
        "compute": compute,
        "per_worker": per_worker,
        "workers": rows,
        "foretold": ahead,
    }


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
            began, spent = time.perf_counter(), _session_seconds()
            at.distributed.predict(model, source, target)
            wall, spent = time.perf_counter() - began, _session_seconds() - spent
    print(
        f"prediction: {n:,} rows, 100 trees: local {n / local / 1e3:.0f} k rows per processor second; cluster "
        f"{n / spent / 1e3:.0f} k "
        f"({local / spent:.2f} of it, bar 0.8), {n / wall / 1e3:.0f} k rows/s on the clock with 2 cores"
    )
    return {"rows": n, "local_seconds": local, "cluster_seconds": spent, "wall": wall, "share": local / spent}


def _processes():
    """Numbers of this process and of all below it."""
    parent = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    for _ in range(8):
        found |= {pid for pid, above in parent.items() if above in found}
    return found


def _session_seconds():
    """Processor seconds of this process and all below it, those that have ended included."""
    ticks, total = os.sysconf("SC_CLK_TCK"), 0.0
    for pid in _processes():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / ticks
    return total


class Memory:
    """The most that this process and all below it have in memory together, looked at every half second.

    Shares of pages that several map add up to the page (PSS), so that the object store counts once.
    """

    def __enter__(self):
        self.most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.wait(0.5):
            self.most = max(self.most, sum(map(_own_share, _processes())))


def _own_share(pid):
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return 0


def disk(args):
    """Rows that never are in memory at once: Parquet files made on the spot, group pursuit and 50 trees, at three sizes."""
    import pandas as pd

    most, per_file, names = args.rows or 20_000_000, 250_000, [f"x{j}" for j in range(COLUMNS)]
    out = {}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        files = [Path(folder) / f"{number:04d}.parquet" for number in range(max(4, most // per_file))]
        for number, path in enumerate(files):
            X, y = made_up(min(per_file, most // 4), seed=number)
            pd.DataFrame(X.astype(np.float32), columns=names).assign(label=y).to_parquet(path)
        for n_files in (len(files) // 4, len(files) // 2, len(files)):
            some = files[:n_files]
            n, size = n_files * len(X), sum(path.stat().st_size for path in some)
            with (
                Memory() as memory,
                at.distributed.cluster(workers=2, object_store_memory=1_500_000_000) as cluster,
            ):
                seconds = {}
                began = time.perf_counter()
                at.GroupPursuitRegressor(random_state=0).fit(some, "label")
                seconds["pursuit"] = time.perf_counter() - began
                began = time.perf_counter()
                at.GradientBoostingClassifier(n_estimators=args.trees).fit(some, "label")
                seconds["boosting"] = time.perf_counter() - began
                by_round = [
                    max(of_round, key=lambda report: report.processor_seconds) for of_round in cluster.reports
                ]
                of_workers = [use.most_bytes for use in uses(cluster)]
            out[n] = {
                "files_bytes": size, "trees": len(by_round), "fit_seconds": seconds,
                "processor_seconds_per_tree": float(np.mean([report.processor_seconds for report in by_round])),
                "seconds_per_tree": float(np.median([r.busy_seconds + r.waiting_seconds for r in by_round])),
                "worker_bytes": of_workers, "all_bytes": memory.most,
            }  # fmt: skip
            print(
                f"disk: {n:,} rows ({size / 1e9:.1f} GB of Parquet), {len(by_round)} trees: "
                f"{out[n]['processor_seconds_per_tree']:.2f} s of processor time per tree and worker, "
                f"{out[n]['seconds_per_tree']:.2f} s on the clock; pursuit {seconds['pursuit']:.0f} s; workers have at most "
                f"{', '.join(f'{m / 1e9:.2f} GB' for m in of_workers)}, all processes {memory.most / 1e9:.2f} GB (bar 8)",
                flush=True,
            )
            keep(args, "disk", out)
    few, *more = ((n, found["processor_seconds_per_tree"] / n) for n, found in out.items())
    for n, per_row in more:
        print(
            f"disk: seconds per tree and row grow by {per_row / few[1] - 1:+.0%} from {few[0]:,} to {n:,} rows (bar 20 %)"
        )
    return out


def lightgbm(args):
    """Seconds per tree of LightGBM's socket mode with the same two workers, beside ours, in one run."""
    n, n_trees = args.rows or 400_000, args.trees
    X, y = made_up(n)
    ports = [_free_port() for _ in range(2)]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    halves = [(X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])]
    jobs = [
        context.Process(target=_lightgbm_worker, args=(rank, ports, *halves[rank], n_trees, results))
        for rank in range(2)
    ]
    for job in jobs:
        job.start()
    theirs, their_loss = max(results.get(timeout=600) for _ in jobs)
    for job in jobs:
        job.join()
    with at.distributed.cluster(workers=2):
        boosted(2).fit(X, y)
        began = time.perf_counter()
        boosted(2).fit(X, y)
        short = time.perf_counter() - began
        began = time.perf_counter()
        model = boosted(2 + n_trees).fit(X, y)
        ours = (time.perf_counter() - began - short) / n_trees
    fresh, truth = made_up(50_000, seed=9)
    our_loss = log_loss(model.predict_proba(fresh)[:, 1], truth)
    print(
        f"lightgbm: {n:,} rows, 2 workers: LightGBM's socket mode {theirs * 1e3:.0f} ms per tree (log loss "
        f"{their_loss:.4f}), ours {ours * 1e3:.0f} ms ({our_loss:.4f})"
    )
    seconds, losses = {"lightgbm": theirs, "ours": ours}, {"lightgbm": their_loss, "ours": our_loss}
    return {"rows": n, "seconds_per_tree": seconds, "log_loss": losses}


def _free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def _lightgbm_worker(rank, ports, X, y, n_trees, results):
    import lightgbm as lgb

    parameters = {
        "objective": "binary", "tree_learner": "data", "num_machines": 2, "local_listen_port": ports[rank], "num_threads": 1,
        "machines": ",".join(f"127.0.0.1:{port}" for port in ports), "pre_partition": True, "num_leaves": LEAVES, "max_bin": 255,
        "min_data_in_leaf": 20, "learning_rate": 0.1, "verbose": -1,
    }  # fmt: skip
    data = lgb.Dataset(X, y, params=parameters, free_raw_data=False)
    times = []

    def clocked(environment):
        times.append(time.perf_counter())

    model = lgb.train(parameters, data, num_boost_round=2 + n_trees, callbacks=[clocked])
    fresh, truth = made_up(50_000, seed=9)
    results.put(((times[-1] - times[1]) / n_trees, log_loss(model.predict(fresh), truth)))


PARTS = {
    "identity": identity, "overhead": overhead, "kills": kills, "model": cost_model, "prediction": prediction,
    "lightgbm": lightgbm, "disk": disk,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, default=None)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--runs", type=int, default=20, help="fits with kills")
    parser.add_argument("--folder", default=None, help="where files of the part 'disk' are made")
    parser.add_argument(
        "--json", type=Path, default=None, help="a file for the figures, beside those that it has"
    )
    args = parser.parse_args()
    for name, part in PARTS.items():
        if name == args.only or (args.only is None and name != "disk"):
            figures = part(args)
            keep(args, name, figures)


if __name__ == "__main__":
    main()
