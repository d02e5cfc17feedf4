"""SpeedBoost on finite dictionaries in the obvious way: every candidate is fitted from scratch by a general-purpose method."""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from anytime.losses import Loss
from tests.reference.greedy import members


def best_step(
    loss: Loss, scores: np.ndarray, h: np.ndarray, y: np.ndarray, largest: float = 10.0
) -> tuple[float, float]:
    """Step and gain, by bracketing."""
    found = minimize_scalar(
        lambda a: loss(scores + a * h, y),
        bounds=(-largest, largest),
        method="bounded",
        options={"xatol": 1e-11, "maxiter": 2000},
    )
    return float(found.x), loss(scores, y) - float(found.fun)


def refitted(
    chosen: np.ndarray, y: np.ndarray, loss: Loss, weight_regularization: float = 0.0
) -> tuple[np.ndarray, float]:
    """All weights of the predictors ``chosen`` (t, n, K) and the least value of the objective with its ridge."""
    t, n, _ = chosen.shape

    def objective(w: np.ndarray) -> float:
        return loss(np.tensordot(w, chosen, 1), y) + 0.5 * weight_regularization * float(w @ w)

    if loss.name == "squared":  # rows, and one more per weight for the ridge
        design = np.concatenate(
            [chosen.reshape(t, -1).T / np.sqrt(n), np.sqrt(weight_regularization) * np.eye(t)]
        )
        w = np.linalg.lstsq(design, np.concatenate([np.ravel(y) / np.sqrt(n), np.zeros(t)]))[0]
        return w, objective(w)

    def slope(w: np.ndarray) -> np.ndarray:
        return (
            np.tensordot(chosen, loss.gradient(np.tensordot(w, chosen, 1), y), 2) / n
            + weight_regularization * w
        )

    w = np.zeros(t)
    for _ in range(3):  # each time with a fresh idea of the curvature
        w = minimize(objective, w, jac=slope, method="BFGS", options={"gtol": 1e-12, "maxiter": 2000}).x
    return w, objective(w)


@dataclass
class Run:
    """What the obvious implementation did; ``weights`` as in ``anytime.boosting.trainer.Step``."""

    scores: np.ndarray
    order: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)


def speedboost(
    dictionary: np.ndarray,
    costs: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    n_steps: int,
    *,
    selection: str = "gain",
    reweight: str = "last",
    normalise: bool = True,
    weight_regularization: float = 0.0,
    cost_aware: bool = True,
) -> Run:
    """Algorithms 6.1 and 6.3 (``last``), 6.4, 6.5 and the paper's Algorithm 3 (``all``), each element a class of its own."""
    run = Run(np.zeros(dictionary.shape[1:]))
    value = loss(run.scores, y)

    def with_new(j: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Weights, scores and objective if element j came next."""
        if reweight == "last":
            step, _ = best_step(loss, run.scores, dictionary[j], y)
            moved = run.scores + step * dictionary[j]
            return np.array([step]), moved, loss(moved, y)
        w, least = refitted(dictionary[[*run.order, j]], y, loss, weight_regularization)
        return w, np.tensordot(w, dictionary[[*run.order, j]], 1), least

    def improvement(j: int) -> float:
        if selection == "gain":
            return value - with_new(j)[2]
        h, pull = dictionary[j], -loss.gradient(run.scores, y)
        square = float(np.mean((pull * h).sum(axis=1))) ** 2
        return square / float(np.mean((h**2).sum(axis=1))) if normalise else square

    for _ in range(n_steps):
        left = [j for j in range(len(costs)) if reweight == "last" or j not in run.order]
        best = max(left, key=lambda j: (improvement(j) / (costs[j] if cost_aware else 1.0), -costs[j], -j))
        weights, run.scores, after = with_new(best)
        run.order.append(best)
        run.gains.append(value - after)
        run.weights.append(weights)
        value = after
    return run


def set_values(dictionary: np.ndarray, y: np.ndarray, loss: Loss, weight_regularization: float) -> np.ndarray:
    """(2**m,) ``F(S) = R[0] - min_a { R[sum of a_h h] + r / 2 |a|² }`` of every subset S; bits of its number say which."""
    nothing = loss(np.zeros(dictionary.shape[1:]), y)
    least = [
        refitted(dictionary[inside], y, loss, weight_regularization)[1]
        for inside in members(len(dictionary))[1:]
    ]
    return nothing - np.array([nothing, *least])
