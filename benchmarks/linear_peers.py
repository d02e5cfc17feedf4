"""Sequences of groups against paths of the group lasso: time to train, and held-out R² at every budget.

5,000 rows of 2,000 columns in 200 groups of 10 whose prices have nothing to do with their value. The peers (skglm, celer,
adelie) solve the cost-weighted group lasso at 50 penalties, to their own default tolerances; adelie's is loose, so it also
runs with a tighter one. They live in an environment of their own, made on first use; they get the same arrays, and each is
timed in its first call, in which some compile, and in its second.

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
from pathlib import Path
from typing import Any

import numpy as np

PEERS = ("skglm", "celer", "adelie", "adelie, tight")
MODULES = ("skglm", "celer", "adelie")
N_GROUPS, SIZE, N_USEFUL = 200, 10, 40
N_LAMBDAS, SMALLEST = 50, 1e-2
RIDGE = 1e-5
OURS = ("OMP", "FR", "OMP, ridge chosen", "FR, ridge chosen")
GRIDS = {  # of budgets, as shares of the price of everything
    "finer where it is cheap": np.geomspace(0.005, 1.0, 24),
    "even": np.linspace(0.05, 1.0, 20),
}
N_ASIDE = 1000


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
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        coefficients = path(X, y, weights, lambdas)
        seconds.append(time.perf_counter() - began)
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


def measure(python: Path, folder: Path, options: argparse.Namespace) -> None:
    from threadpoolctl import threadpool_limits

    import anytime as at
    from anytime.linear.lasso import group_lasso_path
    from common import median, write

    rows = options.rows
    everything, targets, prices = make_data(rows, options.noise)
    X, y = everything[:rows], targets[:rows]
    set_aside = everything[rows : rows + N_ASIDE], targets[rows : rows + N_ASIDE]
    held_out = everything[rows + N_ASIDE :], targets[rows + N_ASIDE :]
    names = [f"group {g}" for g in range(N_GROUPS)]
    costs = at.FeatureCosts(
        dict(zip(names, prices.tolist(), strict=True)),
        groups={name: [*range(g * SIZE, (g + 1) * SIZE)] for g, name in enumerate(names)},
    )
    start, relative = np.arange(0, N_GROUPS * SIZE + 1, SIZE), prices / prices.mean()

    def moments() -> Any:
        return X.T @ X / rows

    def pursuit(selection: str, ridge: float | str = RIDGE) -> Any:
        return at.GroupPursuitRegressor(costs=costs, selection=selection, ridge=ridge, random_state=0).fit(
            X, y
        )

    def own_path() -> Any:  # as the peers do: columns as they are, from the rows, to the last penalty
        return group_lasso_path(
            moments(),
            X.T @ y / rows,
            start,
            relative,
            n_lambdas=N_LAMBDAS,
            smallest=SMALLEST,
            whiten=False,
            whole=True,
        )

    with threadpool_limits(options.threads):
        path = own_path()
        for name, values in {"X": X, "y": y, "weights": relative, "lambdas": path.lambdas}.items():
            np.save(folder / f"{name}.npy", values)
        tasks = {
            "X.T @ X": moments,
            "OMP": lambda: pursuit("omp"),
            "FR": lambda: pursuit("forward"),
            "OMP, ridge chosen": lambda: pursuit("omp", "auto"),
            "FR, ridge chosen": lambda: pursuit("forward", "auto"),
            "group lasso path of anytime": own_path,
        }
        seconds: dict[str, list[float]] = {name: [] for name in tasks}
        peers: dict[str, list[list[float]]] = {name: [] for name in PEERS}
        problems: dict[str, str] = {}
        for task in tasks.values():
            task()
        for _ in range(options.repeats):  # in turns, so that a noisy moment hits all
            for name, task in tasks.items():
                began = time.perf_counter()
                task()
                seconds[name].append(time.perf_counter() - began)
            for name in PEERS:
                found = timed_peer(python, name, folder, options.threads)
                if isinstance(found, str):
                    problems[name] = found
                else:
                    peers[name].append(found)
        models = {name: tasks[name]() for name in OURS}

    S, v = moments(), X.T @ y / rows
    paths = {name: prefixes(model) for name, model in models.items()}
    solved = {name: np.load(folder / f"{name}.npy") for name in PEERS if peers[name]}
    for name, coefficients in solved.items():
        paths[name] = coefficients
        paths[f"{name}, refitted"] = refitted(S, v, coefficients)
    curves: dict[str, dict[str, list[float]]] = {}
    for name, coefficients in paths.items():
        spent = coefficients.reshape(len(coefficients), N_GROUPS, SIZE).any(axis=2) @ prices
        fit = 2 * coefficients @ v - np.einsum("li,ij,lj->l", coefficients, S, coefficients, optimize=True)
        aside, held = (np.array([r2(t, Z @ w) for w in coefficients]) for Z, t in (set_aside, held_out))
        for grid, shares in GRIDS.items():
            for way, quality in (("best fit to the training rows", fit), ("best on rows set aside", aside)):
                found = best_affordable(spent, quality, held, shares * prices.sum())
                curves.setdefault(f"budgets {grid}, {way}", {})[name] = found
    gram = median(seconds["X.T @ X"])
    write(
        "linear_peers",
        {
            "data": f"{rows} rows, {N_GROUPS} groups of {SIZE}, prices 1 to 20, noise {options.noise} of the signal",
            "paths": f"{N_LAMBDAS} penalties down to {SMALLEST:g} of the first",
            "threads": options.threads,
            "peers": peer_versions(python),
            "seconds, medians": {name: round(median(times), 4) for name, times in seconds.items()}
            | {
                f"{name}, first call": round(median([t[0] for t in times]), 4)
                for name, times in peers.items()
                if times
            }
            | {
                f"{name}, second call": round(median([t[1] for t in times]), 4)
                for name, times in peers.items()
                if times
            },
            "times of X.T @ X": {name: round(median(seconds[name]) / gram, 2) for name in OURS},
            "speed-up over the second call": {
                f"{mine} over {name}": round(median([t[1] for t in times]) / median(seconds[mine]), 2)
                for mine in OURS
                for name, times in peers.items()
                if times
            },
            "largest violation of an optimality condition": {
                name: float(f"{violation(coefficients, path.lambdas, relative, S, v):.2g}")
                for name, coefficients in {**solved, "anytime": path.coefficients[:, :, 0]}.items()
            },
            "budgets at which held-out R2 is equal or better": {
                key: compare(by) for key, by in curves.items()
            },
            "share of the total cost": {
                grid: " ".join(f"{share:.4f}" for share in shares) for grid, shares in GRIDS.items()
            },
            "held-out R2": {key: rounded(by) for key, by in curves.items()},
            "problems": problems,
        },
    )


if __name__ == "__main__":
    main()
