"""Routing the obvious way: a generic constrained solver, every subset, plain penalised trees."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, expit


def chances_by_solver(cheap_loss, costly_loss, gate, fraction):
    """The q-step by sequential quadratic programming."""
    stay = cheap_loss + np.logaddexp(0.0, gate)
    go = costly_loss + np.logaddexp(0.0, -gate)
    n = gate.size

    def value(q):
        return float(np.mean((1 - q) * stay + q * go - entr(q) - entr(1 - q)))

    def slope(q):
        return (go - stay + np.log(q) - np.log1p(-q)) / n

    start = np.full(n, min(0.5, 0.9 * fraction))
    found = minimize(
        value,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(1e-9, 1 - 1e-9)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda q: fraction - q.mean(),
            "jac": lambda q: np.full(n, -1 / n),
        },
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.x, found.fun


def least_loss_within(costly_loss, cheap_loss, costly_cost, cheap_cost, budget):
    """The least mean loss over all 2^n ways to route rows at a mean cost of at most ``budget``."""
    best = np.inf
    for routed in product((False, True), repeat=len(costly_loss)):
        cheap = np.array(routed)
        if np.where(cheap, cheap_cost, costly_cost).mean() <= budget + 1e-12:
            best = min(best, np.where(cheap, cheap_loss, costly_loss).mean())
    return best


def smooth_part(cheap_scores, gate, chances, y):
    """The sum over rows of what gate and cheap model lower, for labels -1 and 1, and its derivatives in both."""
    stays = 1 - chances
    value = np.sum(
        stays * np.logaddexp(0, -y * cheap_scores)
        + stays * np.logaddexp(0, gate)
        + chances * np.logaddexp(0, -gate)
    )
    return value, -stays * y * expit(-y * cheap_scores), expit(gate) - chances
