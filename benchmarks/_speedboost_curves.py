"""Boosting runs followed on test rows, and what is read off their curves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.learners import Weak
from anytime.boosting.trainer import Trainer
from anytime.curves import AnytimeCurve
from anytime.trees.arrays import LEAF, TreeArrays

Array = NDArray[np.float64]

_SPARSER = 1.01  # a quality that takes long to work out is read when the cost has grown by this factor


@dataclass(frozen=True, eq=False)
class Course:
    """A run, before the first step and after each.

    Attributes
    ----------
    costs, objective, quality, bought : (S + 1,)
        Cost so far, training objective, what test rows say (an error, or NDCG), and the price of the features bought.
    learners : (S,) int
        Which learner made each step.
    stopped : str
    seconds : float
    """

    costs: Array
    objective: Array
    quality: Array
    bought: Array
    learners: NDArray[np.intp]
    stopped: str
    seconds: float

    def curve(self, of: str, *, greater_is_better: bool = False) -> AnytimeCurve:
        """What is followed, "objective" or "quality", against cost."""
        return AnytimeCurve(self.costs, getattr(self, of), metric=of, greater_is_better=greater_is_better)

    def cost_of(self, error: float) -> float | None:
        """The cost at which the error is first as low as this; None where it never is."""
        low = np.flatnonzero(self.quality <= error)
        return round(float(self.costs[low[0]]), 1) if low.size else None

    def table(self, budgets: tuple[float, ...]) -> dict[str, Any]:
        """What stands after each budget, and at the end."""
        at = [int(np.searchsorted(self.costs, b, side="right")) - 1 for b in (*budgets, np.inf)]
        return {
            "steps": len(self.learners),
            "cost": [round(float(self.costs[i]), 2) for i in at],
            "objective": [float(f"{self.objective[i]:.4g}") for i in at],
            "quality": [round(float(self.quality[i]), 4) for i in at],
            "stopped": self.stopped,
            "seconds": round(self.seconds, 1),
        }


def follow(
    trainer: Trainer,
    X: Array,
    judge: Callable[[Array], float],
    *,
    n_steps: int,
    most: float = np.inf,
    evaluation: Callable[[Weak], float] | None = None,
    sparse: bool = False,
) -> Course:
    """Run until so many steps or so much cost; ``evaluation`` gives a step's cost where it is not that of training rows."""
    began = time.perf_counter()
    assert isinstance(trainer.candidates, FittedCandidates)
    prices = trainer.candidates.costs.costs.amounts(trainer.candidates.costs.prices)
    start = np.tile(trainer.base, (len(X), 1))
    scores, outputs = start, []
    points = [(0.0, trainer.value, judge(scores), 0.0)]
    judged_at = 0.0
    while len(trainer.steps) < n_steps and points[-1][0] < most:
        step = trainer.step()
        if step is None:
            break
        weak = step.candidate.weak
        assert weak is not None
        if trainer.reweighting is None:
            scores = scores + step.weights[0] * weak.on(X)
        else:
            outputs.append(weak.on(X))
            scores = start + np.tensordot(step.weights, np.stack(outputs), axes=1)
        cost = points[-1][0] + (step.cost if evaluation is None else evaluation(weak))
        quality = points[-1][2]
        if not sparse or cost >= _SPARSER * judged_at:
            quality, judged_at = judge(scores), cost
        points.append((cost, trainer.value, quality, float(prices @ trainer.candidates.bought[0])))
    costs, objective, quality, bought = np.array(points).T
    learners = np.array([step.candidate.number for step in trainer.steps])
    return Course(costs, objective, quality, bought, learners, trainer.stopped, time.perf_counter() - began)


def visits(X: Array) -> Callable[[Weak], float]:
    """Of a tree: the mean number of tests that these rows pass."""

    def mean(weak: Weak) -> float:
        tree = weak.part
        assert isinstance(tree, TreeArrays)
        depth = np.zeros((tree.feature.size, 1))
        for node in np.flatnonzero(tree.feature != LEAF):  # a child stands after its parent
            depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
        return float(replace(weak, part=replace(tree, value=depth, n_outputs=1)).on(X).mean())

    return mean


def log_area(course: Course, first: float, last: float) -> float:
    """Mean quality over the logarithm of the cost."""
    edges = np.unique(np.clip(np.concatenate([[first, last], course.costs]), first, last))
    held = np.atleast_1d(course.curve("quality").at(edges[:-1]))
    return float(held @ np.diff(np.log(edges)) / np.log(last / first))


def picture(
    folder: Path, name: str, courses: dict[str, Course], labels: dict[str, str], *, log: bool = True
) -> None:
    """One panel per thing that is followed, cost across."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(labels), figsize=(5.5 * len(labels), 4), squeeze=False)
    for axis, (of, label) in zip(axes[0], labels.items(), strict=True):
        for run, course in courses.items():
            axis.step(course.costs[1:], getattr(course, of)[1:], where="post", label=run, linewidth=1)
        axis.set(xlabel="cost", ylabel=label, xscale="log" if log else "linear")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=120)
    plt.close(figure)
