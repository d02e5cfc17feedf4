"""Pruning a forest of 40 trees for 65,031 rows: the minimum cut and the primal-dual method, and both beside a linear program.

A forest of scikit-learn (entropy, all columns at every split) on made-up data of the size of MiniBooNE: two classes, 50
correlated columns, 45,523 training rows, prices of 1. Bars: the primal-dual method closes the gap to 1e-3 within 30 s on two
cores; the cut is exact; both are 20 x faster than HiGHS on the largest instance it solves in ten minutes (trees and cost rows are
left out until it does); less than 2 GB. Processor time stands beside wall-clock time, which other work on the machine disturbs;
comparisons are of processor time, all threads counted.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.forests.nodes import node_statistics
from anytime.forests.pruning.problem import PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner, min_cut, primal_dual
from anytime_research.forests.program import pruning_program
from common import write

Array = NDArray[np.float64]
Result = TypeVar("Result")
TRAIN, PAYING, COLUMNS = 45_523, 65_031, 50
LAMS = (1e-4, 3e-4, 1e-3, 2e-3, 4e-3, 6e-3, 8e-3, 1.6e-2, 5e-2)
STEPS: tuple[Any, ...] = ("shares", "sqrt", "polyak", "constant")
# Trees and cost rows of the instances for HiGHS, each some 1.6 x the one before.
LADDER = (
    (10, 250),
    (10, 500),
    (10, 1000),
    (20, 1000),
    (20, 2000),
    (40, 2000),
    (40, 4000),
    (40, 8000),
    (40, 16_000),
)


def particles(n: int, seed: int = 0, factors: int = 8) -> tuple[Array, NDArray[np.int64]]:
    """Two kinds of events, 28 % of one, seen through columns that mix a few causes and add noise; some skewed, some rounded."""
    random, fixed = np.random.default_rng(seed), np.random.default_rng(1)
    y = (random.random(n) < 0.28).astype(int)
    shift = fixed.normal(size=factors)
    cause = random.normal(size=(n, factors)) + y[:, None] * 2.9 * shift / np.linalg.norm(shift)
    cause[:, 1] += y * (cause[:, 0] ** 2 - 1) * 0.5
    mixing = fixed.normal(size=(factors, COLUMNS)) * (fixed.random((factors, COLUMNS)) < 0.4)
    X = cause @ mixing + fixed.uniform(0.5, 1.5, COLUMNS) * random.normal(size=(n, COLUMNS))
    X[:, ::3] = np.exp(X[:, ::3] / 2)
    X[:, 1::3] = np.round(X[:, 1::3], 2)
    return X, y


def instance(n_trees: int = 40) -> tuple[PruningProblem, float]:
    """The problem, and the error of the forest on the rows that pay."""
    from sklearn.ensemble import RandomForestClassifier

    X, y = particles(TRAIN + PAYING)
    forest = RandomForestClassifier(n_trees, criterion="entropy", max_features=None, random_state=0)
    forest.fit(X[:TRAIN], y[:TRAIN])
    nodes = node_statistics(forest)
    costs = FeatureCosts(np.ones(COLUMNS)).bind(COLUMNS)
    problem = PruningProblem.of(nodes.trees, nodes.error, nodes.n_error, X[TRAIN:], costs)
    return problem, float(1 - forest.score(X[TRAIN:], y[TRAIN:]))


def part(problem: PruningProblem, n_trees: int, n_rows: int) -> PruningProblem:
    """Its first trees and first cost rows."""
    n = int(problem.tree_start[n_trees])
    return replace(
        problem,
        parent=problem.parent[:n],
        tree_start=problem.tree_start[: n_trees + 1],
        error=problem.error[:n],
        leaf=problem.leaf[:n_rows, :n_trees],
        group_start=problem.group_start[: n + 1],
        node_groups=problem.node_groups[: problem.group_start[n]],
    )


def timed(task: Callable[[], Result]) -> tuple[Result, float, float]:
    """What it returns, wall-clock seconds, processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = task()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def one_lam(problem: PruningProblem, cost_penalty: float, threads: int) -> dict[str, Any]:
    """Both solvers for one trade-off."""
    cut, cut_wall, cut_cpu = timed(lambda: min_cut(problem, cost_penalty, n_threads=threads))
    dual, dual_wall, dual_cpu = timed(lambda: primal_dual(problem, cost_penalty, n_threads=threads))
    return {
        "error": round(cut.error, 5),
        "cost": round(cut.cost, 3),
        "internal": int(cut.internal.sum()),
        "cut s": round(cut_wall, 2),
        "cut cpu s": round(cut_cpu, 2),
        "dual s": round(dual_wall, 2),
        "dual cpu s": round(dual_cpu, 2),
        "dual iterations": dual.iterations,
        "dual gap": float(f"{dual.gap / dual.value:.3g}"),
        "dual above the best": float(f"{dual.value / cut.value - 1:.3g}"),
        "bound below the best": float(f"{1 - dual.bound / cut.value:.3g}"),
    }


def steps(problem: PruningProblem, cost_penalty: float, most: int, threads: int) -> dict[str, Any]:
    """How far the step rules come in so many iterations."""
    out = {}
    for step in STEPS:
        dual, wall, cpu = timed(
            lambda step=step: primal_dual(problem, cost_penalty, step=step, max_iter=most, n_threads=threads)
        )
        out[step] = {
            "iterations": dual.iterations,
            "gap": float(f"{dual.gap / dual.value:.3g}"),
            "s": round(wall, 2),
            "cpu s": round(cpu, 2),
        }
    return out


def beside_highs(
    problem: PruningProblem, cost_penalty: float, limit: float, threads: int
) -> list[dict[str, Any]]:
    """Ever larger instances until HiGHS takes longer than ``limit``, in a process of its own."""
    out: list[dict[str, Any]] = []
    for n_trees, n_rows in LADDER:
        small = part(problem, n_trees, n_rows)
        row: dict[str, Any] = {"trees": n_trees, "rows": n_rows, "links": small.graph.n_links}
        out.append(row)
        solved = highs(small, cost_penalty, limit)
        if solved is None:
            row["highs"] = f"not done after {limit:.0f} s of processor time"
            return out
        cut, _, cut_cpu = timed(lambda small=small: min_cut(small, cost_penalty))
        dual, _, dual_cpu = timed(lambda small=small: primal_dual(small, cost_penalty, n_threads=threads))
        row |= {
            "highs cpu s": round(solved[1], 2),
            "cut cpu s": round(cut_cpu, 4),
            "dual cpu s": round(dual_cpu, 4),
            "highs / cut": round(solved[1] / cut_cpu, 1),
            "highs / dual": round(solved[1] / dual_cpu, 1),
            "dual gap": float(f"{dual.gap / dual.value:.3g}"),
            "difference of highs and cut": float(f"{abs(cut.value - solved[0]) / cut.value:.2g}"),
        }
        print(row, flush=True)
        if 3 * solved[1] > limit:  # the next would take longer
            return out
    return out


def highs(problem: PruningProblem, cost_penalty: float, limit: float) -> tuple[float, float] | None:
    """Value of the linear program and processor seconds of solving it, building not counted; None: it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        fields = {name: getattr(problem, name) for name in problem.__dataclass_fields__}
        np.savez(f"{folder}/problem.npz", **{k: v for k, v in fields.items() if v is not None})
        words = ["--solve", f"{folder}/problem.npz", "--cost_penalty", cost_penalty, "--limit", limit]
        done = subprocess.run([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True)
    if done.returncode == -signal.SIGXCPU:
        return None
    done.check_returncode()
    value, seconds = map(float, done.stdout.split())
    return value, seconds


def solve_program(path: str, cost_penalty: float, limit: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 60))
    with np.load(path) as file:
        fields = {name: value[()] if value.ndim == 0 else value for name, value in file.items()}
    program = pruning_program(PruningProblem(**{"weight": None} | fields), cost_penalty)
    solution, _, cpu = timed(program.solve)
    print(solution.value, cpu)


def along_the_path(problem: PruningProblem, n: int, threads: int) -> dict[str, Any]:
    """Twenty nested prunings, and a budget."""
    path, wall, cpu = timed(lambda: BudgetPruner(problem, n_threads=threads).path(n=n))
    budget, budget_wall, budget_cpu = timed(
        lambda: BudgetPruner(problem, n_threads=threads).to_budget(path[-1].cost / 2)
    )
    return {
        "prunings": len(path),
        "s": round(wall, 1),
        "cpu s": round(cpu, 1),
        "cost_penalty, cost, error": [
            [float(f"{p.cost_penalty:.4g}"), round(p.cost, 3), round(p.error, 5)] for p in path
        ],
        "half the cost s": round(budget_wall, 1),
        "half the cost cpu s": round(budget_cpu, 1),
        "half the cost": [round(budget.cost, 3), round(budget.error, 5)],
    }


def most_mib() -> float:
    """The most memory this process has had."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds of processor time for one linear program"
    )
    parser.add_argument("--solve", help="a problem to solve by its linear program")
    parser.add_argument("--cost_penalty", type=float, default=4e-3)
    given = parser.parse_args()
    if given.solve:
        return solve_program(given.solve, given.cost_penalty, given.limit)
    problem, error = instance()
    graph, graph_wall, _ = timed(lambda: problem.graph)
    figures: dict[str, Any] = {
        "threads": given.threads,
        "nodes": problem.n_nodes,
        "links": graph.n_links,
        "different rows": graph.n_rows,
        "test error of the forest": round(error, 4),
        "graph s": round(graph_wall, 2),
        "dual memory": {"before MiB": round(most_mib())},
    }
    primal_dual(problem, 4e-3, n_threads=given.threads)
    figures["dual memory"]["after MiB"] = round(most_mib())
    figures["by cost_penalty"] = {
        f"{cost_penalty:g}": one_lam(problem, cost_penalty, given.threads) for cost_penalty in LAMS
    }
    figures["path"] = along_the_path(problem, 20, given.threads)
    figures["peak MiB of cut and dual, all in all"] = round(most_mib())
    figures["steps, at most 100 iterations, cost_penalty 0.004"] = steps(problem, 4e-3, 100, given.threads)
    figures["beside HiGHS, cost_penalty 0.004"] = beside_highs(problem, 4e-3, given.limit, given.threads)
    write("pruning", figures)


if __name__ == "__main__":
    main()
