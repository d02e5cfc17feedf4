"""Greedy selection, word for word, and the best set of every cost, by looking at all of them.

A set function on n elements is a table of 2**n values: element ``x`` is in set number ``i`` if bit ``x`` of ``i`` is 1.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import count, pairwise

import numpy as np

SLACK = 1e-9  # relative rounding of a bound

# ---------------------------------------------------------------------- the algorithms


def rate(gain, price):
    """Gain per unit of cost, exactly; what is free and gains anything is beyond all price."""
    if price == 0:
        return (1, 0) if gain > 0 else (0, Fraction(0))
    return 0, Fraction(gain) / Fraction(price)


def greedy(table, costs, *, cost_aware=True, budget=np.inf, max_elements=None, min_gain=0.0, c_min=None):
    """(order, step at which doubling got stuck or None): all gains anew at each step. Doubling where ``c_min`` is given."""
    n = len(costs)
    order, chosen, spent, stuck = [], 0, 0.0, None
    while len(order) < (n if max_elements is None else min(n, max_elements)):
        left = [x for x in range(n) if x not in order and spent + costs[x] <= budget]
        gains = {x: table[chosen | 1 << x] - table[chosen] for x in left}
        if not left or max(gains.values()) < min_gain:
            break
        if c_min is not None:
            allowed = [x for x in left if costs[x] <= (spent if spent > 0 else c_min)]
            if not allowed:
                stuck = len(order) + 1 if stuck is None else stuck
                allowed = [x for x in left if costs[x] == min(costs[y] for y in left)]
            left = allowed
        best = max(left, key=lambda x: (rate(gains[x], costs[x]) if cost_aware else gains[x], -costs[x], -x))
        order.append(best)
        chosen |= 1 << best
        spent += costs[best]
    return order, stuck


def smallest_start(table, costs, **limits):
    """The smallest price that never gets doubling stuck, else the one that gets furthest: by trying them all."""
    furthest, start = -1, None
    for price in sorted({c for c in costs if 0 < c <= limits.get("budget", np.inf)}):
        _, stuck = greedy(table, costs, c_min=price, **limits)
        if stuck is None:
            return price
        if stuck > furthest:
            furthest, start = stuck, price
    return start


# ---------------------------------------------------------------------- all sets at once


def members(n):
    """(2**n, n) bool: which elements are in which set."""
    return (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(bool)


def set_costs(costs):
    """(2**n,) float: what each set costs."""
    return members(len(costs)) @ np.asarray(costs, dtype=float)


def best_within(table, costs, budgets):
    """The value of the best set that costs no more, for each budget."""
    prices = set_costs(costs)
    by_price = np.argsort(prices, kind="stable")
    best = np.maximum.accumulate(table[by_price])
    return best[np.searchsorted(prices[by_price], np.asarray(budgets) * (1 + 1e-12), side="right") - 1]


class TableOracle:
    """A ``GainOracle`` that looks values up; ``scores`` (from a set number to (n,) float) stand for gains where given."""

    def __init__(self, table, scores=None):
        self.table, self.scores = np.asarray(table, dtype=float), scores
        self.n_elements = self.table.size.bit_length() - 1
        self.chosen, self.value, self.looks = 0, 0.0, 0

    def gains(self, candidates):
        self.looks += len(candidates)
        if self.scores is not None:
            return self.scores(self.chosen)[candidates]
        return self.table[self.chosen | 1 << candidates] - self.table[self.chosen]

    def add(self, element):
        self.chosen |= 1 << element
        self.value = float(self.table[self.chosen] - self.table[0])

    def restart(self):
        return TableOracle(self.table, self.scores)


def values_along(table, order):
    """(value before, value after) of each step."""
    after = table[np.cumsum(1 << np.asarray(order))]
    return np.concatenate([[0.0], after[:-1]]), after


def holds(value, bound):
    """Whether values are nowhere below a bound, but for rounding."""
    return bool((value >= bound - SLACK * np.maximum(1.0, np.abs(bound))).all())


# ---------------------------------------------------------------------- functions


def modular(worth):
    """Elements that add up."""
    return members(len(worth)) @ np.asarray(worth, dtype=float)


def coverage(covers, weights):
    """Weight of what a set covers: ``covers`` is (n, points) bool."""
    return np.array([covers[row].any(axis=0) @ weights for row in members(len(covers))])


def random_coverage(random, n, n_points=12):
    """Weighted coverage with integer weights, so that sums are exact."""
    covers = random.random((n, n_points)) < random.uniform(0.1, 0.5)
    return coverage(covers, random.integers(1, 10, n_points).astype(float))


def random_costs(random, n, spread=32.0):
    """Costs over a factor of ``spread``."""
    return np.round(spread ** random.random(n), 3)


def random_moments(random, n_columns, strength=1.0):
    """``X'X / n`` and ``X'y / n`` of standardised columns; ``strength`` is how much they have in common."""
    common = random.normal(size=(60, max(n_columns // 2, 1)))
    X = random.normal(size=(60, n_columns)) + strength * common @ random.normal(
        size=(common.shape[1], n_columns)
    )
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = X @ random.normal(size=n_columns) + random.normal(size=60)
    y = (y - y.mean()) / y.std()
    return X.T @ X / 60, X.T @ y / 60


def penalty_of(S, start, penalty):
    """The matrix P of ``C = S + l2_regularization P``."""
    if penalty == "identity":
        return np.eye(len(S))
    P = np.zeros_like(S)
    for i, j in pairwise(start):
        P[i:j, i:j] = S[i:j, i:j]
    return P


def least_squares(S, v, l2_regularization=0.0, start=None, penalty="identity"):
    """``v_A' C_A^-1 v_A / 2`` for all unions A of groups."""
    start = np.arange(len(v) + 1) if start is None else np.asarray(start)
    C = S + l2_regularization * penalty_of(S, start, penalty)
    columns = np.repeat(members(len(start) - 1), np.diff(start), axis=1)
    both = columns[:, :, None] & columns[:, None, :]
    inside = np.where(both, C, np.eye(len(v)))
    right = np.where(columns, v, 0.0)
    return 0.5 * np.einsum("sd,sd->s", right, np.linalg.solve(inside, right[:, :, None])[:, :, 0])


def pursuit_scores(S, v, start, l2_regularization, penalty, criterion):
    """From the number of a set of groups to the score of every group, by refitting on that set."""
    start = np.asarray(start)
    C = S + l2_regularization * penalty_of(S, start, penalty)
    n = len(start) - 1
    group = np.repeat(np.arange(n), np.diff(start))

    def scores(chosen):
        on = (chosen >> group & 1).astype(bool)
        b = v - C[:, on] @ np.linalg.solve(C[np.ix_(on, on)], v[on])
        out = np.zeros(n)
        for g in range(n):
            block = slice(start[g], start[g + 1])
            if criterion == "omp":
                out[g] = b[block] @ np.linalg.solve(C[block, block], b[block]) / 2
            elif criterion == "literal":
                out[g] = b[block] @ np.linalg.solve(S[block, block], b[block]) / 2
            elif criterion == "unwhitened":
                out[g] = b[block] @ b[block] / 2
            elif criterion == "single":
                out[g] = (b[block] ** 2).max() / 2
        return out

    return scores


def constrained_least_squares(b, C, radius):
    """``max b'w - w'Cw / 2`` over ``|w| <= radius``: its value and where it is."""
    b, C = np.asarray(b, dtype=float), np.asarray(C, dtype=float)
    e, V = np.linalg.eigh(C)
    t = V.T @ b

    def weights(mu):
        return t / (e + mu)

    low, high = 0.0, np.linalg.norm(b) / radius
    if e[0] > 1e-12 and np.linalg.norm(weights(0.0)) <= radius:
        high = 0.0
    for _ in range(200 if high else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if np.linalg.norm(weights(middle)) > radius else (low, middle)
    w = V @ weights(high)
    return float(b @ w - 0.5 * w @ C @ w), w


# ---------------------------------------------------------------------- instances


def instances(kind, how_many=None, n=6, seed=0):
    """(table, costs) of one kind, so many or without end."""
    for k in count() if how_many is None else range(how_many):
        random = np.random.default_rng([seed, k])
        if kind == "modular":
            table = modular(random.random(n) * random_costs(random, n))
        elif kind == "coverage":
            table = random_coverage(random, n)
        else:
            table = least_squares(
                *random_moments(random, n, random.choice([0.3, 1.0])), random.choice([0.0, 0.1])
            )
        yield table, random_costs(random, n)
