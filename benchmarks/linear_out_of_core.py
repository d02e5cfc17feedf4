"""A table of the size of the Yahoo! ranking set (473,134 x 519, float32 on disk), fitted without ever being in memory.

Run: python benchmarks/linear_out_of_core.py [--rows N] [--folder DIR] [--repeats K]

The fit is compared with what it cannot do without: one read of the file, and one Gram matrix of its rows. Each runs in a
process of its own, whose peak memory is what the system says. The bars: 1.5 times the two together, and 1 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import median, write

COLUMNS = 519
CHUNK = 16_384


def make(path: Path, rows: int) -> None:
    """Correlated columns and a target that a few of them explain."""
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(0)
    mixing = random.normal(size=(40, COLUMNS)).astype(np.float32)
    weights = random.normal(size=COLUMNS).astype(np.float32) * (random.random(COLUMNS) < 0.2)
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([(name, pa.float32()) for name in [*names, "y"]])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, rows, CHUNK):
            n = min(CHUNK, rows - first)
            X = random.standard_normal((n, 40), dtype=np.float32) @ mixing
            X += 6.0 * random.standard_normal((n, COLUMNS), dtype=np.float32)
            y = X @ weights + 10.0 * random.standard_normal(n, dtype=np.float32)
            arrays = [pa.array(np.ascontiguousarray(column)) for column in [*X.T, y]]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def count(path: Path) -> int:
    """Rows of a Parquet file."""
    from pyarrow import parquet

    return int(parquet.ParquetFile(path).metadata.num_rows)


def step(what: str, path: Path) -> dict[str, float]:
    """One of the three things, in this process."""
    from anytime.linear.chunks import parquet_chunks

    began = time.perf_counter()
    if what == "fit":
        import anytime as at

        prices = np.random.default_rng(1).choice([1, 5, 20, 50, 100, 150, 200], size=COLUMNS).astype(float)
        costs = at.FeatureCosts({f"x{j}": price for j, price in enumerate(prices)})
        began = time.perf_counter()
        model = at.GroupPursuitRegressor(costs=costs, selection="forward", l2_regularization=1e-5)
        model.fit_chunks(path, target="y")
        assert model.n_stages_ == COLUMNS
    elif what == "read":
        for X, _ in parquet_chunks(path, "y")[0]:
            assert len(X)
    else:
        # of one chunk, as often as it takes to make all rows: nothing is read meanwhile
        rows, (X, _) = count(path), next(parquet_chunks(path, "y")[0])
        gram = np.zeros((COLUMNS, COLUMNS))
        time.sleep(1.0)  # until the chunk after it has been read, too
        began = time.perf_counter()
        for first in range(0, rows, len(X)):
            chunk = X.to_numpy()[: rows - first].astype(np.float64)
            gram += chunk.T @ chunk
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Make the file, run the three things in turns, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=473_134)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--step", choices=["read", "gram", "fit"])
    parser.add_argument("--path", type=Path)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step, options.path)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "ranking.parquet"
        make(path, options.rows)
        found: dict[str, list[dict[str, float]]] = {"read": [], "gram": [], "fit": []}
        for _ in range(options.repeats):
            for what, runs in found.items():
                command = [sys.executable, __file__, "--step", what, "--path", str(path)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                runs.append(json.loads(done.stdout))
        seconds = {what: median([run["seconds"] for run in runs]) for what, runs in found.items()}
        figures = {
            "rows": options.rows,
            "columns": COLUMNS,
            "file_mb": path.stat().st_size / 2**20,
            "seconds": {what: round(value, 3) for what, value in seconds.items()},
            "ratio_to_read_plus_gram": round(seconds["fit"] / (seconds["read"] + seconds["gram"]), 3),
            "ratios": [
                round(f["seconds"] / (r["seconds"] + g["seconds"]), 3)
                for r, g, f in zip(found["read"], found["gram"], found["fit"], strict=True)
            ],
            "peak_mb": round(max(run["peak_mb"] for run in found["fit"]), 1),
            "bars": {"ratio_to_read_plus_gram": 1.5, "peak_mb": 1024},
        }
    write("linear_out_of_core", figures)


if __name__ == "__main__":
    main()
