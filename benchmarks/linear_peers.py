"""Sequences of groups against paths of the group lasso: time to train, and held-out R² at every budget.

5,000 rows of 2,000 columns in 200 groups of 10 whose prices have nothing to do with their value. The peers (skglm, celer,
adelie) solve the cost-weighted group lasso at 50 penalties, to their own default tolerances; adelie's is loose, so it also
runs with a tighter one. They live in an environment of their own, made on first use; they get the same arrays. Everything,
ours included, is timed in its first call, which has to get its memory and in which some compile, and in its second.

At a budget a method answers with one of the models it can afford: the one that fits its training rows best, as bought, or
the one that is best on a thousand rows set aside, which spares everybody the useless groups at the end.

    python benchmarks/linear_peers.py [--peers-env FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PEERS = ("skglm", "celer", "adelie", "adelie, tight")
MODULES = ("skglm", "celer", "adelie")
N_GROUPS, SIZE, N_USEFUL = 200, 10, 40
N_LAMBDAS, SMALLEST = 50, 1e-2
RIDGE = 1e-5
GRAM = "X.T @ X"
OURS = ("OMP", "FR", "OMP, ridge chosen", "FR, ridge chosen")
GRIDS = {  # of budgets, as shares of the price of everything
    "finer where it is cheap": np.geomspace(0.005, 1.0, 24),
    "even": np.linspace(0.05, 1.0, 20),
}
N_ASIDE = 1000
N_OWN = 2  # ours are short, and timed so often in each turn


def clock_for(threads: int) -> Callable[[], float]:
    """Of the processor where one thread works, so that others on the machine do not count."""
    return time.process_time if threads == 1 else time.perf_counter


# ---------------------------------------------------------------------- run by the peers' own interpreter


def skglm_path(X: Any, y: Any, weights: Any, lambdas: Any) -> Any:
    from skglm import GroupLasso

    model = GroupLasso(groups=SIZE, weights=weights, fit_intercept=False, warm_start=True)
    found = []
    for penalty in lambdas:
        model.alpha = penalty
        found.append(model.fit(X, y).coef_.copy())
    return np.array(found)


def celer_path(X: Any, y: Any, weights: Any, lambdas: Any) -> Any:
    from celer.homotopy import celer_path

    return celer_path(X, y, "grouplasso", alphas=lambdas, groups=SIZE, weights=weights)[1].T


def adelie_path(X: Any, y: Any, weights: Any, lambdas: Any, tol: float = 1e-7) -> Any:
    import adelie

    state = adelie.grpnet(
        X=X,
        glm=adelie.glm.gaussian(y),
        groups=np.arange(0, X.shape[1], SIZE),
        penalty=weights,
        lmda_path=lambdas,
        intercept=False,
        early_exit=False,
        tol=tol,
        progress_bar=False,
        n_threads=int(os.environ["OMP_NUM_THREADS"]),
    )
    return state.betas.toarray()


def run_peer(name: str, folder: Path) -> None:
    """Solve the path twice; print the seconds of both calls and leave the coefficients in the folder."""
    X, y, weights, lambdas = (np.load(folder / f"{part}.npy") for part in ("X", "y", "weights", "lambdas"))
    X = np.asfortranarray(X)
    path = {
        "skglm": skglm_path,
        "celer": celer_path,
        "adelie": adelie_path,
        "adelie, tight": lambda *problem: adelie_path(*problem, tol=1e-11),
    }[name]
    seconds, clock = [], clock_for(int(os.environ["OMP_NUM_THREADS"]))
    for _ in range(2):
        began = clock()
        coefficients = path(X, y, weights, lambdas)
        seconds.append(clock() - began)
    np.save(folder / f"{name}.npy", coefficients)
    print(json.dumps(seconds))


# ---------------------------------------------------------------------- the peers' environment


def peers_python(folder: Path) -> Path:
    """The interpreter of an environment with the peers, made when it is not there; each peer is tried by itself."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for name in MODULES:
        known = subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False)
        if known.returncode:
            subprocess.run(
                [python, "-m", "pip", "install", "-q", name], check=False, stderr=subprocess.DEVNULL
            )
    return python


def peer_versions(python: Path) -> dict[str, str | None]:
    code = (
        "import importlib.metadata as m, json\n"
        "def v(name):\n"
        "    try: return m.version(name)\n"
        "    except m.PackageNotFoundError: return None\n"
        f"print(json.dumps({{n: v(n) for n in {(*MODULES, 'numpy', 'numba')!r}}}))"
    )
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


def timed_peer(python: Path, name: str, folder: Path, threads: int) -> list[float] | str:
    """Seconds of the first and second call, or the last line of what went wrong."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    command = [python, Path(__file__).resolve(), "--peer", name, "--arrays", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **counts})
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed without a word"])[-1]
    return [float(seconds) for seconds in json.loads(done.stdout.strip().splitlines()[-1])]


# ---------------------------------------------------------------------- data and quality


def make_data(rows: int, noise: float) -> tuple[Any, Any, Any]:
    """Standardised rows to learn from, to set aside and to hold out; targets; prices.

    Groups share eight factors, and a fifth of them matter; ``noise`` is in standard deviations of what they explain.
    """
    rng = np.random.default_rng(0)
    d, n = N_GROUPS * SIZE, 2 * rows + N_ASIDE
    X = np.sqrt(0.7) * rng.standard_normal((n, d))
    X += np.sqrt(0.3 / 8) * rng.standard_normal((n, 8)) @ rng.standard_normal((8, d))
    weights = np.zeros((N_GROUPS, SIZE))
    useful = rng.choice(N_GROUPS, N_USEFUL, replace=False)
    weights[useful] = rng.standard_normal((N_USEFUL, SIZE)) * rng.exponential(size=(N_USEFUL, 1))
    signal = X @ weights.ravel()
    y = signal + noise * signal.std() * rng.standard_normal(n)
    prices = np.rint(np.exp(rng.uniform(0, np.log(20), N_GROUPS)))
    for values in (X, y):
        values -= values[:rows].mean(axis=0)
        values /= values[:rows].std(axis=0)
    return X, y, prices


def r2(y: Any, answer: Any) -> float:
    return float(1 - ((y - answer) ** 2).sum() / (y**2).sum())


def refitted(S: Any, v: Any, coefficients: Any) -> Any:
    """Least squares on the columns in use, with the same ridge as the sequences."""
    out = np.zeros_like(coefficients)
    for row, weights in zip(out, coefficients, strict=True):
        used = np.flatnonzero(weights)
        row[used] = np.linalg.solve(S[np.ix_(used, used)] + RIDGE * np.eye(used.size), v[used])
    return out


def best_affordable(costs: Any, quality: Any, held: Any, budgets: Any) -> list[float]:
    """Held-out R² at each budget of the model of the best quality among those it pays; 0 where it pays none."""
    out = []
    for budget in budgets:
        affordable = np.flatnonzero(costs <= budget * (1 + 1e-12))
        out.append(float(held[affordable[np.argmax(quality[affordable])]]) if affordable.size else 0.0)
    return out


def prefixes(model: Any) -> Any:
    """Standardised coefficients (stages, d) of every prefix of a sequence, read off its answers to unit rows."""
    unit = np.eye(N_GROUPS * SIZE)
    zero = np.zeros((1, N_GROUPS * SIZE))
    found = []
    for answer, base in zip(model.stages(unit), model.stages(zero), strict=True):
        found.append(answer.prediction - base.prediction)
    return np.array(found)


def violation(coefficients: Any, lambdas: Any, prices: Any, S: Any, v: Any) -> float:
    """The largest violation of an optimality condition on a path, as a share of its limit."""
    worst = 0.0
    for penalty, weights in zip(lambdas, coefficients, strict=True):
        gradient = (v - S @ weights).reshape(N_GROUPS, SIZE)
        groups = weights.reshape(N_GROUPS, SIZE)
        norms, limits = np.linalg.norm(groups, axis=1), penalty * prices
        used = norms > 0
        pull = groups * np.divide(limits, norms, out=np.zeros_like(norms), where=used)[:, None]
        missed = np.where(
            used, np.linalg.norm(gradient - pull, axis=1), np.linalg.norm(gradient, axis=1) - limits
        )
        worst = max(worst, float((missed / limits).max()))
    return worst


def compare(curves: dict[str, list[float]]) -> dict[str, dict[str, str]]:
    """At how many budgets our R² is equal or better; equal means to three decimals."""
    return {
        mine: {
            name: f"{sum(a >= b - 5e-4 for a, b in zip(curves[mine], other, strict=True))} of {len(other)}"
            for name, other in curves.items()
            if name not in OURS
        }
        for mine in OURS
    }


def rounded(curves: dict[str, list[float]]) -> dict[str, str]:
    return {name: " ".join(f"{value:.4f}" for value in values) for name, values in curves.items()}


# ---------------------------------------------------------------------- the benchmark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers-env", type=Path, help="folder of the peers' environment; temporary when not given"
    )
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--noise", type=float, default=0.5, help="in standard deviations of the signal")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--arrays", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        run_peer(options.peer, options.arrays)
        return
    with tempfile.TemporaryDirectory() as scratch:
        python = peers_python(options.peers_env or Path(scratch) / "peers")
        measure(python, Path(scratch), options)


@dataclass(frozen=True)
class Problem:
    """The rows to learn from, and those that only judge."""

    X: Any
    y: Any
    set_aside: tuple[Any, Any]
    held_out: tuple[Any, Any]
    prices: Any
    costs: Any

    @classmethod
    def of(cls, rows: int, noise: float) -> Problem:
        """Data made for these sizes."""
        import anytime as at

        X, y, prices = make_data(rows, noise)
        learn, aside, held = slice(rows), slice(rows, rows + N_ASIDE), slice(rows + N_ASIDE, None)
        names = [f"group {g}" for g in range(N_GROUPS)]
        costs = at.FeatureCosts(
            dict(zip(names, prices.tolist(), strict=True)),
            groups={name: [*range(g * SIZE, (g + 1) * SIZE)] for g, name in enumerate(names)},
        )
        return cls(X[learn], y[learn], (X[aside], y[aside]), (X[held], y[held]), prices, costs)

    def covariance(self) -> Any:
        """``X'X / n``."""
        return self.X.T @ self.X / len(self.X)

    def correlation(self) -> Any:
        """``X'y / n``."""
        return self.X.T @ self.y / len(self.X)

    def weights(self) -> Any:
        """What the group lasso charges each group."""
        return self.prices / self.prices.mean()

    def pursuit(self, selection: str, l2_regularization: float | str = RIDGE) -> Any:
        """A sequence of ours, learned from the rows."""
        import anytime as at

        model = at.GroupPursuitRegressor(
            costs=self.costs, selection=selection, l2_regularization=l2_regularization, random_state=0
        )
        return model.fit(self.X, self.y)

    def own_path(self) -> Any:
        """As the peers do: columns as they are, from the rows, to the last penalty."""
        from anytime.linear.lasso import group_lasso_path

        return group_lasso_path(
            self.covariance(),
            self.correlation(),
            np.arange(0, N_GROUPS * SIZE + 1, SIZE),
            self.weights(),
            n_lambdas=N_LAMBDAS,
            smallest=SMALLEST,
            whiten=False,
            whole=True,
        )

    def tasks(self) -> dict[str, Callable[[], Any]]:
        """What is timed of ours, by name."""
        return {
            GRAM: self.covariance,
            "OMP": lambda: self.pursuit("omp"),
            "FR": lambda: self.pursuit("forward"),
            "OMP, ridge chosen": lambda: self.pursuit("omp", "auto"),
            "FR, ridge chosen": lambda: self.pursuit("forward", "auto"),
            "group lasso path of anytime": self.own_path,
        }


@dataclass
class Times:
    """Seconds of the first and second of two calls in a row, in each turn; what went wrong with peers.

    The first call also waits for memory, which takes longer than some of the work, and compiles with some of the peers.
    """

    ours: dict[str, list[list[float]]]
    peers: dict[str, list[list[float]]]
    problems: dict[str, str]

    @classmethod
    def taken(cls, problem: Problem, python: Path, folder: Path, repeats: int, threads: int) -> Times:
        """In turns, so that a noisy moment hits all."""
        tasks, clock = problem.tasks(), clock_for(threads)
        times = cls({name: [] for name in tasks}, {name: [] for name in PEERS}, {})
        for _ in range(repeats):
            for name, task in [*tasks.items()] * N_OWN:
                began = clock()
                task()
                between = clock()
                task()
                times.ours[name].append([between - began, clock() - between])
            for name in PEERS:
                found = timed_peer(python, name, folder, threads)
                if isinstance(found, str):
                    times.problems[name] = found
                else:
                    times.peers[name].append(found)
        times.peers = {name: calls for name, calls in times.peers.items() if calls}
        return times

    def report(self) -> dict[str, Any]:
        """Medians, and what they are beside each other."""
        from common import median

        first, second = (
            {name: median([call[at] for call in calls]) for name, calls in (self.ours | self.peers).items()}
            for at in (0, 1)
        )
        return {
            "seconds, medians": {
                f"{name}, {call} call": round(seconds[name], 4)
                for call, seconds in (("first", first), ("second", second))
                for name in seconds
            },
            "times of X.T @ X": {name: round(second[name] / second[GRAM], 2) for name in OURS},
            "times of X.T @ X, first call": {name: round(first[name] / first[GRAM], 2) for name in OURS},
            "speed-up over the second call": {
                f"{mine} over {name}": round(second[name] / second[mine], 2)
                for mine in OURS
                for name in self.peers
            },
        }


def quality_curves(problem: Problem, paths: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Held-out R² at each budget, by grid of budgets and way to choose among the models it pays, then by method."""
    S, v, prices = problem.covariance(), problem.correlation(), problem.prices
    curves: dict[str, dict[str, list[float]]] = {}
    for name, coefficients in paths.items():
        spent = coefficients.reshape(len(coefficients), N_GROUPS, SIZE).any(axis=2) @ prices
        fit = 2 * coefficients @ v - np.einsum("li,ij,lj->l", coefficients, S, coefficients, optimize=True)
        aside, held = (
            np.array([r2(t, Z @ w) for w in coefficients]) for Z, t in (problem.set_aside, problem.held_out)
        )
        for grid, shares in GRIDS.items():
            for way, quality in (("best fit to the training rows", fit), ("best on rows set aside", aside)):
                found = best_affordable(spent, quality, held, shares * prices.sum())
                curves.setdefault(f"budgets {grid}, {way}", {})[name] = found
    return curves


def measure(python: Path, folder: Path, options: argparse.Namespace) -> None:
    from threadpoolctl import threadpool_limits

    from common import write

    problem = Problem.of(options.rows, options.noise)
    with threadpool_limits(options.threads):
        path = problem.own_path()
        given = {"X": problem.X, "y": problem.y, "weights": problem.weights(), "lambdas": path.lambdas}
        for name, values in given.items():
            np.save(folder / f"{name}.npy", values)
        times = Times.taken(problem, python, folder, options.repeats, options.threads)
        tasks = problem.tasks()
        paths = {name: prefixes(tasks[name]()) for name in OURS}
    S, v = problem.covariance(), problem.correlation()
    solved = {name: np.load(folder / f"{name}.npy") for name in times.peers}
    for name, coefficients in solved.items():
        paths[name] = coefficients
        paths[f"{name}, refitted"] = refitted(S, v, coefficients)
    curves = quality_curves(problem, paths)
    write(
        "linear_peers",
        {
            "data": f"{options.rows} rows, {N_GROUPS} groups of {SIZE}, prices 1 to 20, noise {options.noise} of the signal",
            "paths": f"{N_LAMBDAS} penalties down to {SMALLEST:g} of the first",
            "threads": options.threads,
            "clock": "of the processor" if options.threads == 1 else "on the wall",
            "peers": peer_versions(python),
            **times.report(),
            "largest violation of an optimality condition": {
                name: float(f"{violation(found, path.lambdas, problem.weights(), S, v):.2g}")
                for name, found in {**solved, "anytime": path.coefficients[:, :, 0]}.items()
            },
            "budgets at which held-out R2 is equal or better": {
                key: compare(by) for key, by in curves.items()
            },
            "share of the total cost": {
                grid: " ".join(f"{share:.4f}" for share in shares) for grid, shares in GRIDS.items()
            },
            "held-out R2": {key: rounded(by) for key, by in curves.items()},
            "problems": times.problems,
        },
    )


if __name__ == "__main__":
    main()
