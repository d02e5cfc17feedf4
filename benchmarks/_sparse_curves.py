"""What the figures of sparse approximation stand on: curves of many draws, verdicts on orderings, optimum, times, pictures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime.greedy import greedy
from anytime.linear.lasso import group_lasso_path
from anytime_research.curves import at_fraction
from anytime_research.linear.quadratic import QuadraticObjective
from anytime_research.linear.subsets import best_subsets

Array = NDArray[np.float64]

FRACTIONS = (0.1, 0.25, 0.5, 0.75, 1.0)


# ---------------------------------------------------------------------- what is collected and how it is judged


@dataclass
class Panel:
    """What a picture shows: a line per method."""

    title: str
    lines: dict[str, tuple[Any, Any]]
    x: str = "share of the total cost"
    y: str = "objective"
    log: bool = False


@dataclass
class Curves:
    """Curves of several methods, one per draw, by metric; greater is better in all of them."""

    by_metric: dict[str, dict[str, list[at.AnytimeCurve]]] = field(default_factory=dict)

    def add(self, method: str, **curves: at.AnytimeCurve) -> None:
        """Add a draw of a method."""
        for metric, curve in curves.items():
            self.by_metric.setdefault(metric, {}).setdefault(method, []).append(curve)

    def areas(self, method: str, metric: str = "objective") -> Array:
        """(draws,) the mean over all budgets, a budget being held until it buys the next purchase."""
        return np.array([curve.area() / curve.total_cost for curve in self.by_metric[metric][method]])

    def at(self, method: str, fraction: float, metric: str = "objective") -> Array:
        """(draws,) the value at a share of the total cost."""
        return np.array([at_fraction(curve, fraction) for curve in self.by_metric[metric][method]])

    def summary(self, *, areas_only: bool = False) -> dict[str, Any]:
        """Areas and values at a few budgets, averaged over draws."""
        return {
            metric: {method: self._summary(method, metric, areas_only) for method in methods}
            for metric, methods in self.by_metric.items()
        }

    def _summary(self, method: str, metric: str, area_only: bool) -> Any:
        area = round(float(self.areas(method, metric).mean()), 5)
        if area_only:
            return area
        budgets = {f"at {f:.0%}": round(float(self.at(method, f, metric).mean()), 5) for f in FRACTIONS}
        return {"area": area, **budgets}

    def table(self) -> None:
        """Print it."""
        for metric, methods in self.by_metric.items():
            print(f"  {metric:22} {'area':>8}  " + "  ".join(f"{f:>6.0%}" for f in FRACTIONS))
            for method in methods:
                values = "  ".join(f"{self.at(method, f, metric).mean():6.3f}" for f in FRACTIONS)
                print(f"    {method:20} {self.areas(method, metric).mean():8.4f}  {values}")

    def panel(self, title: str, metric: str = "objective", low: float = 0.0) -> Panel:
        """The curves averaged over draws, from a share of the total cost on."""
        grid = np.linspace(low, 1.0, 201)
        lines = {
            method: (grid, np.mean([c.at(grid * c.total_cost * (1 + 1e-12)) for c in curves], axis=0))
            for method, curves in self.by_metric[metric].items()
        }
        return Panel(title, lines, y=metric.replace("_", " "))

    def chain(self, where: str, methods: Sequence[str], metric: str = "objective") -> list[dict[str, Any]]:
        """Whether the areas fall from each method to the next, in the draws that both have."""
        return [
            verdict(
                f"{where}: {better} >= {worse} ({metric}, area)",
                [a - b for a, b in zip(self.areas(better, metric), self.areas(worse, metric), strict=False)],
            )
            for better, worse in pairwise(methods)
        ]


def verdict(claim: str, differences: Iterable[float], *, every: bool = False) -> dict[str, Any]:
    """Whether a claim, put as differences that should not be negative, holds on average (or every time), and how often."""
    d = np.asarray(list(differences), dtype=np.float64)
    held = int((d >= -1e-9).sum())  # refits end at a tolerance
    record = {
        "claim": claim,
        "holds": held == d.size if every else bool(d.mean() >= -1e-9),
        "mean": float(f"{d.mean():.3g}"),
        "worst": float(f"{d.min():.3g}"),
        "held_in": held,
        "of": d.size,
    }
    print(
        f"  {'yes' if record['holds'] else 'NO ':3} {claim}: {d.mean():+.4g} on average, {held} of {d.size} draws, "
        f"worst {d.min():+.2g}"
    )
    return record


# ---------------------------------------------------------------------- data and the optimum


@dataclass(frozen=True)
class Rows:
    """Standardised rows to learn from and rows to judge on, in the units of the first."""

    X: Array
    y: Array
    X_held: Array
    y_held: Array

    @classmethod
    def of(cls, X: Array, y: Array, train: Any, held: Any, *, regression: bool = True) -> Rows:
        """Standardise by the training rows; targets too, for a regression."""
        deviation = X[train].std(axis=0)
        X = (X - X[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        if regression:
            y = (y - y[train].mean()) / y[train].std()
        return cls(X[train], y[train], X[held], y[held])

    @classmethod
    def split(cls, X: Array, y: Array, seed: int = 0) -> Rows:
        """Two thirds to learn from."""
        order = np.random.default_rng(seed).permutation(len(y))
        cut = 2 * len(y) // 3
        return cls.of(X, y, order[:cut], order[cut:])

    @property
    def moments(self) -> tuple[Array, Array]:
        """Covariance and correlation with the target."""
        return self.X.T @ self.X / len(self.y), self.X.T @ self.y / len(self.y)

    def held_out(self, columns: NDArray[np.intp], weights: Array) -> float:
        """R² on the other rows."""
        error = self.y_held - self.X_held[:, columns] @ weights
        return 1.0 - float((error**2).mean() / self.y_held.var())


def run_curve(selection: Any, risk: float) -> at.AnytimeCurve:
    """The share of the initial risk removed after every purchase."""
    return at.AnytimeCurve([0.0, *selection.costs], [0.0, *(selection.values / risk)], perfect=1.0)


def optimal_curves(
    rows: Rows,
    costs: Array,
    *,
    groups: Sequence[NDArray[np.intp]] | None = None,
    l2_regularization: float = 0.0,
    bound: float | None = None,
) -> dict[str, at.AnytimeCurve]:
    """The best objective at every budget, by looking at all sets (OPT in the book); how those sets do on the other rows."""
    C, v = rows.moments
    groups = [np.array([column]) for column in range(len(v))] if groups is None else groups
    columns = np.concatenate(groups)
    start = np.cumsum([0, *(len(group) for group in groups)])
    S, V = C[np.ix_(columns, columns)], v[columns]
    best = best_subsets(S, V, start, costs, l2_regularization=l2_regularization, norm_bound=bound)
    objective = QuadraticObjective(C, v, l2_regularization=l2_regularization, bound=bound)
    held = []
    for number in best.sets.tolist():
        chosen = [group for g, group in enumerate(groups) if number >> g & 1]
        fit = objective.extended(objective.empty(), np.concatenate([np.empty(0, dtype=np.intp), *chosen]))
        held.append(rows.held_out(fit.columns, fit.weights[:, 0]))
    spent = np.append(best.costs, best.all_costs[-1])  # to the price of everything, where all curves end
    return {
        "objective": at.AnytimeCurve(spent, 2 * np.append(best.values, best.values[-1]), perfect=1.0),
        "held_out_r2": at.AnytimeCurve(spent, [*held, held[-1]], perfect=1.0),
    }


# ---------------------------------------------------------------------- times


def timed(oracle: Any, n: int, most: int | None = None) -> list[float]:
    """Seconds until each purchase."""
    seconds: list[float] = []
    began = time.process_time()
    greedy(
        oracle,
        np.ones(n),
        max_elements=most,
        on_step=lambda step, element: seconds.append(time.process_time() - began),
    )
    return seconds


def seconds_for_lasso(C: Array, v: Array, smallest: float) -> float:
    """Seconds for the path down to this share of the largest penalty, as fine as the whole path is by default."""
    began = time.process_time()
    n_lambdas = max(2, round(200 * np.log(smallest) / np.log(1e-4)))
    group_lasso_path(C, v, range(len(C) + 1), np.ones(len(C)), n_lambdas=n_lambdas, smallest=smallest)
    return time.process_time() - began


def timed_plain_omp(C: Array, v: Array, l2_regularization: float) -> list[float]:
    """The same for OMP as one would write it down: solve for the columns chosen, see what correlates with the rest."""
    seconds: list[float] = []
    began = time.process_time()
    K, b, left = C + l2_regularization * np.eye(len(C)), v, np.ones(len(v), dtype=bool)
    chosen: list[int] = []
    while left.any():
        chosen.append(int(np.argmax(np.where(left, b**2, -1.0))))
        left[chosen[-1]] = False
        b = v - K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], v[chosen])
        seconds.append(time.process_time() - began)
    return seconds


# ---------------------------------------------------------------------- pictures


def picture(path: Path, panels: list[Panel]) -> None:
    """Write the panels of a figure side by side."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    wide = min(4, len(panels))
    high = -(-len(panels) // wide)
    figure, axes = pyplot.subplots(
        high, wide, figsize=(4.6 * wide, 3.6 * high), squeeze=False, layout="constrained"
    )
    for panel, ax in zip(panels, axes.flat, strict=False):
        for label, (x, y) in panel.lines.items():
            ax.plot(x, y, label=label, linestyle="--" if label.endswith(("uniform", "spectral")) else "-")
        ax.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, yscale="log" if panel.log else "linear")
        ax.legend(fontsize="small")
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
