"""Kill -9 of a search by growth, of its driver or of its worker, at random moments: what is left, and what it ends with.

    python benchmarks/growth_kills.py [--kills 20] [--longest 16] [--epochs 12] [--random-state 0]

Networks grow on the digits of scikit-learn with one worker process and a fixed seed. The search loses its driver or its worker,
drawn anew each time, after a delay that is drawn too, and is started again where it has ended; the last kill is the driver's.
After each kill the journal is checked, and whether all that was finished is there as it was. Then it trains two networks more,
another search is left alone until it has as many, and all networks of the two are compared: costs, errors, lineage, choices and
every parameter. It needs torch.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from common import write

WORKER = "spawn_main"  # in the command line of a process that multiprocessing has started


def drive(folder: Path, networks: int, epochs: int) -> None:
    """The search, until it has so many networks."""
    import torch
    from sklearn.datasets import load_digits

    from anytime.growth import GrowthSearch, LocalWorkers, NetworkGrowth, for_tables, table_seed

    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16).astype(np.float32), y.astype(np.int64)
    problem = NetworkGrowth(
        table_seed(64, 10, n=1, width=16),
        *(X[:1300], y[:1300], X[1300:], y[1300:]),
        phases=for_tables(epochs=epochs, batch_size=32),
        device="cpu",
        keep_unfinished=True,
    )
    GrowthSearch(problem, folder, workers=LocalWorkers(1)).run(max_models=networks)


def started(folder: Path, given: argparse.Namespace, networks: int = 1000) -> subprocess.Popen[bytes]:
    """A process that goes on with the search of a folder."""
    command = [sys.executable, __file__, "--drive", str(folder)]
    command += ["--networks", str(networks), "--epochs", str(given.epochs)]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})


def workers_of(driver: int) -> list[int]:
    """Processes that the driver has started to train."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == driver and WORKER in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except (OSError, ValueError):  # no process, or one that is gone by now
            continue
    return found


def pool(folder: Path) -> list[dict[str, Any]]:
    """Networks of a search; seconds, and how often they have grown since, are left out."""
    from anytime.growth.journal import snapshot

    kept = [asdict(model) for model in snapshot(folder / "journal.sqlite").models]
    return [{name: value for name, value in m.items() if name not in ("seconds", "n_selected")} for m in kept]


def parameters(folder: Path, checkpoint: str) -> dict[str, Any]:
    """What a network has learned."""
    import torch

    state: dict[str, Any] = torch.load(folder / checkpoint, weights_only=True)
    return state


def differences(one: Path, other: Path) -> list[str]:
    """In what the networks of two searches differ: nothing, or their numbers and why."""
    import torch

    first, second = pool(one), pool(other)
    if len(first) != len(second):
        return [f"{len(first)} networks, and {len(second)}"]
    found = [
        f"network {a['number']}: {', '.join(name for name in a if a[name] != b[name])}"
        for a, b in zip(first, second, strict=True)
        if a != b
    ]
    for a, b in zip(first, second, strict=True):
        left, right = parameters(one, a["checkpoint"]), parameters(other, b["checkpoint"])
        if left.keys() != right.keys() or any(not torch.equal(left[name], right[name]) for name in left):
            found.append(f"network {a['number']}: parameters")
    return found


def selections(folder: Path) -> list[int]:
    """How often each network was chosen to be grown."""
    from anytime.growth.journal import snapshot

    return [model.n_selected for model in snapshot(folder / "journal.sqlite").models]


def journal_is_whole(folder: Path) -> bool:
    """What SQLite says of the file."""
    db = sqlite3.connect(folder / "journal.sqlite")
    try:
        return bool(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok")
    finally:
        db.close()


def under_way(folder: Path) -> Any:
    """The job that runs, where there is one."""
    from anytime.growth.journal import snapshot

    return next(iter(snapshot(folder / "journal.sqlite").running.values()), None)


def killed(folder: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Have a search killed again and again; what each kill met."""
    draw, kills = np.random.default_rng(given.random_state), []
    driver, known = started(folder, given), list[dict[str, Any]]()
    while len(kills) < given.kills:
        while under_way(folder) is None:  # a driver that has been started takes seconds to begin
            if driver.poll() is not None:
                raise SystemExit("the search has failed")
            time.sleep(0.02)
        time.sleep(float(draw.uniform(0, given.longest)))
        whom, job = str(draw.choice(["driver", "worker"])), under_way(folder)
        whom = "driver" if len(kills) == given.kills - 1 else whom
        workers = workers_of(driver.pid)
        if job is None or not workers or driver.poll() is not None:
            continue  # nothing was running at that moment
        os.kill(driver.pid if whom == "driver" else workers[0], signal.SIGKILL)
        if whom == "driver":
            driver.wait()
        else:
            while workers_of(driver.pid) == workers:
                time.sleep(0.02)
        now = pool(folder)
        kills.append(
            {
                "killed": whom,
                "job": job.number,
                "kind": job.kind,
                "networks": len(now),
                "kept all that was finished": now[: len(known)] == known,
                "journal is whole": journal_is_whole(folder),
                "had begun": (folder / f"unfinished-{job.number}.pt").exists(),
            }
        )
        print(kills[-1], flush=True)
        known = now
        if whom == "driver" and len(kills) < given.kills:
            driver = started(folder, given)
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--longest", type=float, default=16.0, help="seconds between kills, at most")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--networks", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive is not None:
        drive(given.drive, given.networks, given.epochs)
        return
    with TemporaryDirectory() as root:
        straight, disturbed = Path(root) / "straight", Path(root) / "disturbed"
        kills = killed(disturbed, given)
        networks = len(pool(disturbed)) + 2
        if started(disturbed, given, networks).wait() or started(straight, given, networks).wait():
            raise SystemExit("the search has failed")
        same = selections(straight) == selections(disturbed)
        found = differences(straight, disturbed)
        write(
            "growth_kills",
            {
                "kills": len(kills),
                "of the driver": sum(kill["killed"] == "driver" for kill in kills),
                "of the worker": sum(kill["killed"] == "worker" for kill in kills),
                "in the middle of a training": sum(kill["had begun"] for kill in kills),
                "journals that were whole": sum(kill["journal is whole"] for kill in kills),
                "kills that kept all that was finished": sum(
                    kill["kept all that was finished"] for kill in kills
                ),
                "networks": len(pool(disturbed)),
                "the same networks as undisturbed, bit for bit": not found and same,
                "differences": found,
                "each": kills,
            },
        )


if __name__ == "__main__":
    main()
