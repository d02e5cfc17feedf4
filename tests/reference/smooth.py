"""The obvious way to fit and to sequence linear models: from scratch each time, in plain coordinates."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from anytime.losses import Loss


def risk(
    Z: np.ndarray, y: np.ndarray, loss: Loss, l2_regularization: float, W: np.ndarray, a: np.ndarray
) -> float:
    """Mean loss and ridge, row by row."""
    rows = [loss.per_row((z @ W + a)[None, :], y[i : i + 1])[0] for i, z in enumerate(Z)]
    return float(np.mean(rows) + 0.5 * l2_regularization * np.sum(W**2))


def fitted(
    Z: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    n_outputs: int,
    l2_regularization: float,
    *,
    intercept: bool = True,
    bound: float | None = None,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Least risk, weights (k, K) and intercept (K,), by a general-purpose method."""
    n, k = Z.shape
    assert loss.gradient is not None

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        W, a = x[: k * n_outputs].reshape(k, n_outputs), x[k * n_outputs :] * intercept
        scores = Z @ W + a
        pull = loss.gradient(scores, y) / n
        value = loss.per_row(scores, y).mean() + 0.5 * l2_regularization * np.sum(W**2)
        return value, np.concatenate(
            [(Z.T @ pull + l2_regularization * W).ravel(), pull.sum(axis=0) * intercept]
        )

    x = np.zeros((k + 1) * n_outputs)
    if bound is None:
        x = minimize(function, x, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    else:
        ball = {
            "type": "ineq",
            "fun": lambda x: bound**2 - np.sum(x[: k * n_outputs] ** 2),
            "jac": lambda x: np.concatenate([-2 * x[: k * n_outputs], np.zeros(n_outputs)]),
        }
        options = {"ftol": 1e-15, "maxiter": 1000}
        x = minimize(function, x, jac=True, method="SLSQP", constraints=ball, options=options).x
    return function(x)[0], x[: k * n_outputs].reshape(k, n_outputs), x[k * n_outputs :] * intercept


def bounded_quadratic(C: np.ndarray, b: np.ndarray, bound: float) -> tuple[float, np.ndarray]:
    """The largest ``b'w - w'Cw/2`` with ``|w| <= bound``, and its w."""
    found = minimize(
        lambda w: 0.5 * w @ C @ w - b @ w,
        np.zeros(b.size),
        jac=lambda w: C @ w - b,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: bound**2 - w @ w, "jac": lambda w: -2 * w},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    w = found.x * min(1.0, bound / np.linalg.norm(found.x))  # the method may end a rounding error outside
    return float(b @ w - 0.5 * w @ C @ w), w


def linear_sequence(
    S: np.ndarray,
    V: np.ndarray,
    groups: list[list[int]],
    costs: list[float],
    l2_regularization: float,
    rule: str,
) -> tuple[list[int], list[float], list[np.ndarray]]:
    """Order, values and weights (in order of purchase) of ``omp``, ``plain``, ``single`` or ``forward`` for squared loss."""
    C = S + l2_regularization * np.eye(len(S))

    def weights(columns: list[int]) -> np.ndarray:
        return np.linalg.solve(C[np.ix_(columns, columns)], V[columns])

    def value(columns: list[int]) -> float:
        return 0.5 * float(np.sum(V[columns] * weights(columns))) if columns else 0.0

    def score(g: int, bought: list[int]) -> float:
        if rule == "forward":
            return value(bought + groups[g]) - value(bought)
        b = V[groups[g]] - (C[np.ix_(groups[g], bought)] @ weights(bought) if bought else 0.0)
        if rule == "omp":
            return float(np.sum(b * np.linalg.solve(C[np.ix_(groups[g], groups[g])], b)))
        squares = np.sum(b**2, axis=1)
        return float(squares.max() if rule == "single" else squares.sum())

    bought: list[int] = []
    order: list[int] = []
    values, path = [], []
    while len(order) < len(groups):
        left = [g for g in range(len(groups)) if g not in order]
        best = max(left, key=lambda g: score(g, bought) / costs[g])
        order.append(best)
        bought = bought + groups[best]
        values.append(value(bought))
        path.append(weights(bought))
    return order, values, path


def values_of_all_sets(value: Callable[[list[int]], float], n: int) -> dict[frozenset[int], float]:
    """A set function written out."""
    return {
        frozenset(chosen): value(chosen)
        for bits in range(2**n)
        for chosen in [[x for x in range(n) if bits >> x & 1]]
    }


def submodularity(F: dict[frozenset[int], float]) -> float:
    """Least ratio of the sum of single gains to the joint gain, over all A and S."""
    ratios = []
    for A in F:
        for S in F:
            joint = F[A | S] - F[A]
            if joint > 1e-9:
                ratios.append(sum(F[A | {x}] - F[A] for x in S) / joint)
    return min(ratios)
