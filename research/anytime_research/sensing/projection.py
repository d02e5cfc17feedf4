"""Scores with few open gates: the nearest ones, gates that have them, and descent by projection (Nan, section 7.1.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.sensing.problem import SensingProblem, SensorWeights
from anytime.sensing.solvers import check_share, within_participation

__all__ = ["ProjectedGates", "project_scores", "recover_gates"]

Array = NDArray[np.float64]


def project_scores(scores: ArrayLike, max_active_devices: float) -> Array:
    """The nearest scores (K, n) of which at most ``max_active_devices`` per example are positive on average, (7.5).

    The smallest positive ones become 0 until few enough are left.

    Examples
    --------
    >>> project_scores([[0.5, -1.0], [2.0, 0.1]], 1.0).tolist()
    [[0.5, -1.0], [2.0, 0.0]]
    """
    z = np.array(scores, dtype=np.float64)
    check_share(max_active_devices)
    allowed = int(np.floor(z.shape[1] * max_active_devices + 1e-9))
    positive = np.flatnonzero(z > 0)
    excess = positive.size - allowed
    if excess > 0:
        smallest = positive[np.argsort(z.ravel()[positive], kind="stable")[:excess]]
        z.ravel()[smallest] = 0.0
    return z


def recover_gates(inputs: Array, scores: Array) -> tuple[Array, Array]:
    """``w`` (K, D) and ``b`` (K,) whose scores on the inputs (K, n, D) are nearest to the given ones, by least squares."""
    w, b = np.empty((inputs.shape[0], inputs.shape[2])), np.empty(inputs.shape[0])
    for k, (seen, wanted) in enumerate(zip(inputs, scores, strict=True)):
        solution = np.linalg.lstsq(np.column_stack([seen, np.ones(len(seen))]), wanted, rcond=None)[0]
        w[k], b[k] = solution[:-1], solution[-1]
    return w, b


@dataclass(frozen=True)
class ProjectedGates:
    """Gradient steps, each followed by the nearest scores within the budget and gates fitted to them, (7.3)-(7.5).

    That it converges from a good start is a conjecture of the source. The best weights within the budget are kept.

    Parameters
    ----------
    iterations : int, default=2000
    step : float, default=0.05
        Times the gradient of the mean loss.
    """

    iterations: int = 2000
    step: float = 0.05

    def solve(
        self,
        problem: SensingProblem,
        start: SensorWeights,
        participation: float | None,
        random: np.random.Generator,
    ) -> SensorWeights:
        """See ``GateSolver``."""
        share = 1.0 if participation is None else participation
        weights = best = within_participation(start, problem.inputs, share)
        least = problem.direct(best, 0.0)
        for _ in range(self.iterations):
            gradient = problem.direct_gradient(weights, 0.0)
            pairs = zip(weights.arrays, gradient.arrays, strict=True)
            stepped = SensorWeights(*(mine - self.step * slope for mine, slope in pairs))
            weights = self.projected(problem, stepped, share)
            if (value := problem.direct(weights, 0.0)) < least:
                best, least = weights, value
        return best

    @staticmethod
    def projected(problem: SensingProblem, weights: SensorWeights, share: float) -> SensorWeights:
        """The nearest weights whose gates are open often enough, as far as least squares finds them."""
        scores = weights.scores(problem.inputs)
        nearest = project_scores(scores, share * problem.n_devices)
        if np.array_equal(nearest, scores):
            return weights
        w, b = recover_gates(problem.inputs, nearest)
        return within_participation(replace(weights, w=w, b=b), problem.inputs, share)
