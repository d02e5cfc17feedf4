"""Does descent find the weights that made the data? The source's experiment, and its open questions as diagnostics.

What is shown (Nan, section 7.1.2): at the weights that made noise-free data the mean squared error is locally convex. What is
**conjectured** (section 7.1.4) and can be looked at here, but is not guaranteed by anything: that it is so at the best weights
within a budget (``least_curvature`` there), that projected gradient converges to them from a good start, and that their value on
a sample is near that on all examples (``sampling_gaps``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anytime.sensing.problem import SensingProblem, SensorGate, SensorWeights
from anytime.sensing.solvers import within_participation
from anytime_research.sensing.generators import SensorData, make_adaptive_sparse_regression
from anytime_research.sensing.projection import ProjectedGates

__all__ = [
    "PANELS",
    "Panel",
    "Recovery",
    "cosine_distances",
    "hessian",
    "least_curvature",
    "recover",
    "sampling_gaps",
]

Array = NDArray[np.float64]


# ---------------------------------------------------------------------- the experiment


@dataclass(frozen=True)
class Panel:
    """Settings of one panel of Figure 7.2."""

    gate: Literal["sigmoid", "relu"]
    slope: float
    noise: float
    step: float
    n_dims: int = 2


PANELS = {
    **{name: Panel("sigmoid", 1.0, noise, 1e-2) for name, noise in zip("abc", (1.0, 0.1, 0.01), strict=True)},
    **{
        name: Panel("sigmoid", 10.0, noise, 1e-2) for name, noise in zip("def", (1.0, 0.1, 0.01), strict=True)
    },
    **{name: Panel("relu", 1.0, noise, 1e-2) for name, noise in zip("ghi", (1.0, 0.1, 0.01), strict=True)},
    "j": Panel("relu", 1.0, 1.0, 1e-4, 100),
    "k": Panel("relu", 1.0, 1.0, 5e-3, 10),
    "l": Panel("sigmoid", 1.0, 1.0, 1e-4, 100),
    "m": Panel("sigmoid", 1.0, 1.0, 1e-3, 100),
}


@dataclass(frozen=True, eq=False)
class Recovery:
    """How descent went: after each turn the mean loss (t,), and its ``cosine_distances`` to the truth (t, 2)."""

    weights: SensorWeights
    losses: Array
    distances: Array


def recover(
    data: SensorData,
    noise: float,
    *,
    step: float = 1e-2,
    turns: int = 1000,
    steps: int = 50,
    random_state: int | np.random.Generator | None = None,
) -> Recovery:
    """Start at the truth plus noise, and descend on v and on (w, b) in turns, ``steps`` steps each.

    Parameters
    ----------
    data : SensorData
        From ``make_adaptive_sparse_regression``.
    noise : float
        Standard deviation of what is added to the truth at the start.
    step : float, default=1e-2
        Times the gradient of the mean squared error. (By that of the sum, 2000 times as large, it would not be stable.)
    turns, steps : int, default=1000, 50
    random_state : int, Generator or None, default=None
    """
    truth, problem = _truth(data), data.problem
    random = np.random.default_rng(random_state)
    shifts = [random.standard_normal(array.shape) for array in (truth.v, truth.w, truth.b)]
    weights = replace(
        truth, v=truth.v + noise * shifts[0], w=truth.w + noise * shifts[1], b=truth.b + noise * shifts[2]
    )
    losses, distances = np.empty(turns), np.empty((turns, 2))
    for turn in range(turns):
        for _ in range(steps):
            weights = replace(weights, v=weights.v - step * problem.direct_gradient(weights, 0.0).v)
        for _ in range(steps):
            slope = problem.direct_gradient(weights, 0.0)
            weights = replace(weights, w=weights.w - step * slope.w, b=weights.b - step * slope.b)
        losses[turn] = problem.direct(weights, 0.0)
        distances[turn] = cosine_distances(weights, truth)
    return Recovery(weights, losses, distances)


def cosine_distances(found: SensorWeights, true: SensorWeights) -> tuple[float, float]:
    """``1 - cos`` between v_k and between (w_k, b_k), each the mean over devices.

    Device by device, because ReLU gates leave the scale of each open: (v/s, sw, sb) says the same for all s > 0.
    """
    gates = [np.column_stack([weights.w, weights.b]) for weights in (found, true)]
    return _apart(found.v[:, :, 0], true.v[:, :, 0]), _apart(*gates)


def _apart(found: Array, true: Array) -> float:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(true, axis=1)
    cosines = np.divide((found * true).sum(axis=1), lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return float(np.mean(1 - cosines))


# ---------------------------------------------------------------------- curvature


def hessian(problem: SensingProblem, weights: SensorWeights) -> Array:
    """Second derivatives of the mean squared error by v, w and b, in this order, each device by device.

    ``2/n Σ (ψψ' + e ∇²s)``, where s is the answer, ψ its gradient and e its error; without noise e is 0 at the truth, and
    what is left is positive semi-definite.
    """
    if problem.loss != "squared":
        raise ValueError("the second derivatives are those of the squared error")
    n_devices, n, width = problem.inputs.shape
    z = weights.scores(problem.inputs)
    said = weights.messages(problem.inputs)[:, :, 0]
    value, first, second = problem.gate.value(z), problem.gate.derivative(z), curvature(problem.gate, z)
    error = problem.answers(weights, value)[:, 0] - problem.targets[:, 0]

    by_v = problem.inputs * value[:, :, None]
    by_w = problem.inputs * (said * first)[:, :, None]
    psi = np.concatenate([*by_v, *by_w, (said * first).T], axis=1)  # (n, KD + KD + K)
    result = psi.T @ psi
    for k, seen in enumerate(problem.inputs):
        v = slice(k * width, (k + 1) * width)
        u = np.append(np.arange(width) + (n_devices + k) * width, 2 * n_devices * width + k)  # of w_k and b_k
        with_one = np.column_stack([seen, np.ones(n)])
        mixed = (seen * (error * first[k])[:, None]).T @ with_one
        result[v, u] += mixed
        result[u, v] += mixed.T
        result[np.ix_(u, u)] += (with_one * (error * said[k] * second[k])[:, None]).T @ with_one
    return np.asarray(2 / n * result)


def least_curvature(problem: SensingProblem, weights: SensorWeights) -> float:
    """The least eigenvalue of ``hessian``: not negative where the error is locally convex."""
    return float(np.linalg.eigvalsh(hessian(problem, weights))[0])


def sampling_gaps(
    sizes: Sequence[int],
    max_active_devices: float,
    *,
    reference: int = 20_000,
    solver: ProjectedGates | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Array:
    """For samples of each size, how far their least error within the budget is from that of a large sample, (len(sizes),).

    Both as far as projected gradient finds them from the truth, brought within the budget. A diagnostic of an unproved
    statement.
    """
    random = np.random.default_rng(random_state)
    data = make_adaptive_sparse_regression(reference, random_state=random)
    solver = solver or ProjectedGates()
    truth, problem = _truth(data), data.problem
    share = max_active_devices / problem.n_devices

    def optimum(part: SensingProblem) -> float:
        start = within_participation(truth, part.inputs, share)
        return part.direct(solver.solve(part, start, share, random), 0.0)

    whole = optimum(problem)
    samples = [problem.rows(random.choice(reference, size=size, replace=False)) for size in sizes]
    return np.array([abs(optimum(sample) - whole) for sample in samples])


def _truth(data: SensorData) -> SensorWeights:
    if data.truth is None:
        raise ValueError("the weights that made the data are unknown; use make_adaptive_sparse_regression")
    return data.truth


def curvature(gate: SensorGate, z: Array) -> Array:
    """φ''(z) of a gate."""
    if gate.kind == "relu":
        return np.zeros_like(z)
    value = gate.value(z)
    return np.asarray(gate.slope**2 * value * (1 - value) * (1 - 2 * value))
