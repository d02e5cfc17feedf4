"""What is known of the routing step besides its solution: its dual, the loss it bounds, and the source's own solver (ADMM)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit

from anytime.adaptive import AdaptiveClassifier
from anytime.adaptive.routing import shares_of, smallest_price
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["composite_loss", "dual_value", "probabilities_by_admm", "soft_proba"]


def dual_value(
    cheap_loss: Array,
    costly_loss: Array,
    gate: Array,
    beta: float,
    fraction: float,
    weight: Array | None = None,
) -> float:
    """The Lagrange dual of the q-step at ``beta``: the value of its solution, and below that of any other."""
    shares = shares_of(weight, gate.size)
    stay, go = cheap_loss + np.logaddexp(0.0, gate), costly_loss + np.logaddexp(0.0, -gate)
    bound = -np.logaddexp(-stay, -go - beta)
    return float(shares @ bound) - (beta * fraction if beta else 0.0)


def composite_loss(costly_loss: Array, cheap_loss: Array, gate: Array) -> Array:
    """(n,) ``-log(sigma(g) p0 + sigma(-g) p1)``: the mean of (OPT) is never below it if losses are log-losses."""
    stay, go = cheap_loss + np.logaddexp(0.0, gate), costly_loss + np.logaddexp(0.0, -gate)
    return -np.logaddexp(-stay, -go)


def probabilities_by_admm(
    excess: Array, gate: Array, fraction: float, *, rho: float = 5.0, max_iter: int = 400, tol: float = 1e-8
) -> Array:
    """The best probabilities by splitting the constraint off (ADMM), as the source has it: slower, and no better, than a price.

    The problem is not convex in the probabilities, so there is no guarantee; probabilities that are too many in the end are
    lowered by a common price.
    """
    span = np.abs(excess) / 8 + 1.0
    grid = gate + span * np.linspace(-3.0, 3.0, 801)[:, None]
    probabilities = expit(grid)
    fixed = (1.0 - probabilities) * excess + (grid - gate) ** 2
    q = expit(gate)
    r, u = q.copy(), np.zeros_like(q)
    columns = np.arange(q.size)
    for _ in range(max_iter):
        best = (fixed + 0.5 * rho * (probabilities - r + u) ** 2).argmin(axis=0)
        s = grid[best, columns]
        for _ in range(20):  # Newton's method from the grid's best point
            p = expit(s)
            d = p * (1 - p)
            slope = 2 * (s - gate) - excess * d + rho * (p - r + u) * d
            bend = 2 - excess * d * (1 - 2 * p) + rho * (d**2 + (p - r + u) * d * (1 - 2 * p))
            s = s - np.where(bend > 0, slope / np.where(bend > 0, bend, 1.0), 0.0)
        q = expit(s)
        before, whole = r, q + u
        r = whole - max(0.0, float(whole.mean()) - fraction)
        u = u + q - r
        if np.abs(q - r).max() <= tol and rho * np.abs(r - before).max() <= tol:
            break
    if q.mean() <= fraction:
        return np.asarray(q)
    odds = logit(q)
    return np.asarray(
        expit(odds - smallest_price(lambda b: float(expit(odds - b).mean()), fraction, 0.0, 50.0))
    )


def soft_proba(model: AdaptiveClassifier, X: Any) -> Array:
    """(n, C) The mixture ``sigma(g) p0 + sigma(-g) p1`` that training bounds; both models are asked about all rows."""
    rows, chain = model._checked(X), model._chain()
    if chain is None or not chain.exits:
        return np.asarray(model.predict_proba(X))
    first, link = chain.exits[0], LINKS[model.plan_.link]
    share = expit(first.gate.outputs(0, rows))
    run = Run(chain.costly_alone.plan(model.plan_.costs, model.plan_.base, link.name), rows)
    run.advance()
    cheap, costly = link.transform(first.cheap.outputs(0, rows)), link.transform(run.scores())
    return np.asarray(share * costly + (1.0 - share) * cheap)
