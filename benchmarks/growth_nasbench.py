"""Which model should grow next? Rules for parents compared on all 15,625 cells of NAS-Bench-201, thousands of trainings each.

A cell has six edges with one of five operations each; all were trained (NAS-Bench-201, CIFAR-10 and CIFAR-100) and timed on
devices (HW-NAS-Bench), so that a search only looks results up. It begins with one skip connection from input to output. A
growth changes the operation of one edge at random, and of further edges while that cell is known already. All methods make
children in this way and pay for each new cell; they differ in whose child is made:

* ``hull``: parents from the lower hull of error against cost, most accurate first, each with probability 1/(n+1), with three
  tolerance bands; the same for the Pareto frontier and for the whole pool; uniform on the hull; the best model; the latest;
* ``evolution``: regularised evolution (population 100, tournament of 25) by error, or by error relative to the hull;
* ``random``: cells drawn at random, none twice.

A search sees the validation error of one training; what it finds is judged by that of a second one. Quality is the area
between the hull and the seed's error, up to the costliest cell, as a share of what the whole table gives when its hull is chosen
and judged in the same way. Costs: mult-adds as the table counts them, and latencies measured on three devices.

    python benchmarks/growth_nasbench.py [--data DIR] [--seeds 20] [--evaluations 2000] [--processes 2]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.growth import (
    GrowthSearch,
    Job,
    Outcome,
    Pool,
    draw_parent,
    hull_area,
    hull_probabilities,
    hull_values,
    lower_hull,
    whole_file,
)
from common import RESULTS, write

Floats = NDArray[np.float64]
SEED = "000100"  # one skip connection from input to output
OPERATIONS = "01234"  # none, skip, 1x1 convolution, 3x3 convolution, 3x3 average pooling
COSTS = ("mult-adds", "edge GPU", "Raspberry Pi 4", "Pixel 3")
LATENCIES = {
    "edge GPU": "cifar10_edgegpu_latency",
    "Raspberry Pi 4": "cifar10_raspi4_latency",
    "Pixel 3": "cifar10_pixel3_latency",
}
SETS = ("cifar10", "cifar100")
SHOWN = (50, 100, 200, 500, 1000, 2000)
POPULATION, TOURNAMENT = 100, 25  # of regularised evolution, as in Real et al. (2019)


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Cells:
    """All cells for one data set and one cost: ``number`` of each code; cost, error that is seen, error that judges."""

    number: dict[str, int]
    costs: Floats
    seen: Floats
    judged: Floats

    @property
    def reference(self) -> tuple[float, float]:
        """The costliest cell's cost, the seed's error."""
        return float(self.costs.max()), float(self.judged[self.number[SEED]])

    def area(self, cells: NDArray[np.intp]) -> float:
        """Area under the reference of the hull of these cells: chosen by the error that is seen, judged by the other."""
        chosen = cells[lower_hull(self.costs[cells], self.seen[cells])]
        return hull_area(self.costs[chosen], self.judged[chosen], self.reference)

    def quality(self, cells: NDArray[np.intp]) -> float:
        """Share of the area that all cells of the table together have."""
        return self.area(cells) / self.area(np.arange(len(self.costs)))


@cache
def read_cells(data: Path, which: str, cost: str) -> Cells:
    import pandas as pd

    errors = pd.read_csv(data / "nasbench201" / f"nb201_{which}.csv.gz", dtype={"arch": str})
    devices = pd.read_csv(data / "nasbench201-hw" / "nb201_hw.csv.xz", dtype={"arch": str})
    table = errors.merge(devices, on="arch", validate="one_to_one")
    prices = mult_adds(table) if cost == "mult-adds" else table[LATENCIES[cost]].to_numpy()
    number = {arch: i for i, arch in enumerate(table["arch"])}
    seen, judged = (1 - table[f"val_acc_{k}"].to_numpy() / 100 for k in (0, 1))
    return Cells(number, prices / prices[number[SEED]], seen, judged)


def mult_adds(table: Any) -> Floats:
    """Millions of mult-adds: the table has them for cells without idle operations, where they are a sum over operations."""
    counts = np.array([[arch.count(op) for op in OPERATIONS] for arch in table["arch"]], dtype=float)
    counted = table["flops_M"].notna().to_numpy()
    each, *_ = np.linalg.lstsq(counts[counted], table["flops_M"][counted], rcond=None)
    flops: Floats = counts @ each
    assert np.abs(flops[counted] - table["flops_M"][counted]).max() < 1e-9
    return flops


# ---------------------------------------------------------------------- growing


def grown(arch: str, generator: np.random.Generator, is_known: Callable[[str], bool]) -> str:
    """A cell that was not trained yet: one edge changed, and further ones while the cell is known."""
    while True:
        edge = int(generator.integers(6))
        others = OPERATIONS.replace(arch[edge], "")
        arch = arch[:edge] + others[int(generator.integers(4))] + arch[edge + 1 :]
        if not is_known(arch):
            return arch


@dataclass(frozen=True)
class CellGrowth:
    """The cells as a problem for `GrowthSearch`; what is trained is known by its file."""

    data: Path
    which: str
    cost: str

    def first(self) -> dict[str, Any]:
        """The seed's code."""
        return {"arch": SEED}

    def run(self, job: Job, folder: Path, stop: Callable[[], bool]) -> Outcome:
        """Change an edge, or look the cell up."""
        cells, arch = read_cells(self.data, self.which, self.cost), job.architecture["arch"]
        if job.kind == "candidates":
            known = partial(is_file_in, folder)
            arch = grown(arch, np.random.default_rng(job.random_state), known)
            return Outcome({"arch": arch}, "", 0.0, 0.0, 0.0)
        with whole_file(folder / arch) as unfinished:
            unfinished.touch()
        i = cells.number[arch]
        return Outcome(job.architecture, arch, cells.costs[i], cells.seen[i], 0.0)


def is_file_in(folder: Path, name: str) -> bool:
    return (folder / name).exists()


Draw = Callable[[Pool, np.random.Generator], int]


class Trained:
    """Cells that were trained, in order, as arrays that grow."""

    def __init__(self, cells: Cells, most: int) -> None:
        self._cells, self._n = cells, 0
        self.codes: list[str] = []
        self.known: set[str] = set()
        self._costs, self._errors, self._selected = (
            np.empty(most),
            np.empty(most),
            np.zeros(most, dtype=np.int64),
        )

    def add(self, arch: str) -> int:
        """Train a cell; its place in the table."""
        i = self._cells.number[arch]
        self._costs[self._n], self._errors[self._n] = self._cells.costs[i], self._cells.seen[i]
        self.codes.append(arch)
        self.known.add(arch)
        self._n += 1
        return i

    @property
    def pool(self) -> Pool:
        """What parents are chosen by."""
        return Pool(self._costs[: self._n], self._errors[: self._n], self._selected[: self._n])


def growth(cells: Cells, seed: int, draw: Draw) -> Iterator[int]:
    """Cells in the order in which `GrowthSearch` would train them, without its journal."""
    trained = Trained(cells, len(cells.number))
    yield trained.add(SEED)
    for number in range(1, 2 * len(cells.number), 2):
        parent = draw(trained.pool, np.random.default_rng([seed, number, 1]))
        trained.pool.n_selected[parent] += 1
        state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        generator = np.random.default_rng(state)
        yield trained.add(grown(trained.codes[parent], generator, trained.known.__contains__))


def draw_pareto(pool: Pool, generator: np.random.Generator) -> int:
    """1/(n+1) over all models that no single one dominates, most accurate first."""
    order = np.lexsort((pool.errors, pool.costs))
    before = np.append(np.inf, np.minimum.accumulate(pool.errors[order])[:-1])
    frontier = order[pool.errors[order] < before][::-1]
    return int(generator.choice(frontier, p=hull_probabilities(pool.n_selected[frontier])))


def evolution(cells: Cells, seed: int, relative: bool) -> Iterator[int]:
    """Regularised evolution: the best of a random few has a child, the oldest dies."""
    generator, codes = np.random.default_rng([seed, 7]), list(cells.number)
    trained, population = Trained(cells, len(codes)), [SEED]
    yield trained.add(SEED)
    while True:
        if len(population) < POPULATION:
            parent = codes[int(generator.integers(len(codes)))]
        else:
            drawn = [population[int(k)] for k in generator.choice(POPULATION, TOURNAMENT, replace=False)]
            parent = drawn[_fittest(cells, trained.pool, drawn, relative)]
            population.pop(0)
        population.append(grown(parent, generator, trained.known.__contains__))
        yield trained.add(population[-1])


def _fittest(cells: Cells, pool: Pool, drawn: list[str], relative: bool) -> int:
    rivals = np.array([cells.number[arch] for arch in drawn])
    values = hull_values(pool.costs, pool.errors, cells.costs[rivals]) if relative else 1.0
    return int((cells.seen[rivals] / values).argmin())


def random_search(cells: Cells, seed: int) -> Iterator[int]:
    """The seed, then cells in random order."""
    first = cells.number[SEED]
    yield first
    yield from (int(i) for i in np.random.default_rng([seed, 8]).permutation(len(cells.number)) if i != first)


METHODS: dict[str, Callable[[Cells, int], Iterable[int]]] = {
    "hull, band 2.5 %": lambda cells, seed: growth(cells, seed, partial(draw_parent, tolerance=0.025)),
    "hull": lambda cells, seed: growth(cells, seed, draw_parent),
    "hull, band 10 %": lambda cells, seed: growth(cells, seed, partial(draw_parent, tolerance=0.1)),
    "Pareto frontier": lambda cells, seed: growth(cells, seed, draw_pareto),
    "whole pool": lambda cells, seed: growth(cells, seed, partial(draw_parent, tolerance=np.inf)),
    "uniform on the hull": lambda cells, seed: growth(
        cells, seed, partial(draw_parent, rule="uniform_hull", tolerance=0.025)
    ),
    "best model": lambda cells, seed: growth(cells, seed, partial(draw_parent, rule="greedy_best")),
    "latest model": lambda cells, seed: growth(cells, seed, partial(draw_parent, rule="latest")),
    "evolution, error": lambda cells, seed: evolution(cells, seed, relative=False),
    "evolution, relative to the hull": lambda cells, seed: evolution(cells, seed, relative=True),
    "random": random_search,
}
DEFAULT = "hull, band 2.5 %"


# ---------------------------------------------------------------------- measuring


def measured(data: Path, which: str, cost: str, method: str, seed: int, at: tuple[int, ...]) -> list[float]:
    """Quality after each number of trainings in ``at``."""
    cells = read_cells(data, which, cost)
    trained = np.array(list(islice(METHODS[method](cells, seed), max(at))))
    return [cells.quality(trained[:n]) for n in at]


def check_search(data: Path, n: int = 60) -> None:
    """The loop above gives the pool of `GrowthSearch` on the same cells."""
    problem = CellGrowth(data, "cifar10", "edge GPU")
    with TemporaryDirectory() as folder:
        search = GrowthSearch(problem, folder, random_state=3).run(max_models=n)
        found = [model.architecture["arch"] for model in search.models]
    cells = read_cells(data, "cifar10", "edge GPU")
    codes = list(cells.number)
    assert found == [codes[i] for i in islice(METHODS[DEFAULT](cells, 3), n)]


def run(data: Path, seeds: int, at: tuple[int, ...], processes: int) -> dict[str, Any]:
    check_search(data)
    tasks = [(w, c, m, s) for w in SETS for c in COSTS for m in METHODS for s in range(seeds)]
    with ProcessPoolExecutor(processes) as pool:
        rows = list(pool.map(partial(_measured, data, at), tasks, chunksize=4))
    shares: dict[str, Any] = {}
    for (which, cost, method, _), row in zip(tasks, rows, strict=True):
        shares.setdefault(which, {}).setdefault(cost, {}).setdefault(method, []).append(row)
    return {
        "evaluations": list(at),
        "seeds": seeds,
        "table": {w: {c: {m: summary(shares[w][c], m) for m in METHODS} for c in COSTS} for w in SETS},
    }


def _measured(data: Path, at: tuple[int, ...], task: tuple[str, str, str, int]) -> list[float]:
    return measured(data, *task, at)


def summary(shares: dict[str, list[list[float]]], method: str) -> dict[str, list[float]]:
    """Mean share of the area with its standard error, and in what part of the seeds the default is better."""
    mine, default = np.array(shares[method]), np.array(shares[DEFAULT])
    wins = (default > mine) + 0.5 * (default == mine)
    spread = mine.std(axis=0, ddof=1) / np.sqrt(len(mine))
    columns = {"mean": mine.mean(axis=0), "standard_error": spread, "default_better": wins.mean(axis=0)}
    return {name: [round(float(value), 5) for value in values] for name, values in columns.items()}


def print_means(results: dict[str, Any]) -> None:
    """Means over both sets and all costs, and in what part of all seeds the default is ahead, as lines of a table."""
    for method in METHODS:
        lines = [results["table"][which][cost][method] for which in SETS for cost in COSTS]
        mean = 100 * np.mean([line["mean"] for line in lines], axis=0)
        ahead = 100 * np.mean([line["default_better"] for line in lines], axis=0)
        cells = [f"{m:.1f} ({a:.0f})" for m, a in zip(mean, ahead, strict=True)]
        print(f"| {method} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ANYTIME_DATA", "data")))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="few seeds, nothing is written")
    parser.add_argument("--means", action="store_true", help="run nothing, print means of the results")
    arguments = parser.parse_args()
    if arguments.quick:
        results = run(arguments.data, 3, (50, 200), arguments.processes)
        print(json.dumps(results, indent=1))
        return
    if arguments.means:
        print_means(json.loads((RESULTS / "growth_nasbench.json").read_text(encoding="utf-8")))
        return
    at = tuple(n for n in SHOWN if n <= arguments.evaluations)
    results = run(arguments.data, arguments.seeds, at, arguments.processes)
    write("growth_nasbench", results)


if __name__ == "__main__":
    main()
