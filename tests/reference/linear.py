"""Group pursuit, word for word: every score and every weight by a least-squares fit of its own, on the rows themselves.

Hu 2019, Algorithms 1 to 4, and the baselines of its section 3.6. Nothing is kept from one fit to the next.
"""

from __future__ import annotations

import numpy as np

from anytime.costs import FeatureCosts

RANK = 1e-10  # share of a group's largest variance below which a direction of it is not there


class Rows:
    """A regression problem: standardised rows, their groups, the ridge, and how groups are whitened.

    ``whiten="data"`` replaces each group by orthonormal columns before anything else, as the theory has it.
    """

    def __init__(self, X, y, groups, *, l2_regularization=0.0, whiten="data", weight=None):
        self.groups, self.l2_regularization, self.whiten = (
            [list(group) for group in groups],
            l2_regularization,
            whiten,
        )
        self.weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
        self.mean, self.scale, self.Z = self._standardised(np.array(X, dtype=float))
        self.target_mean, self.target_scale, self.T = self._standardised(
            np.reshape(np.array(y, dtype=float), (len(X), -1))
        )
        self.maps = [self._map(group) for group in self.groups]

    def _standardised(self, table):
        """Means over the values that are there; what is missing becomes the mean, what is constant 0."""
        share = self.weight / self.weight.sum()
        mean, scale = np.zeros(table.shape[1]), np.ones(table.shape[1])
        for j, column in enumerate(table.T):
            seen = ~np.isnan(column) & (self.weight > 0)
            mean[j] = np.average(column[seen], weights=self.weight[seen]) if seen.any() else 0.0
            column[np.isnan(column)] = mean[j]
            spread = np.sqrt(share @ (column - mean[j]) ** 2)
            scale[j] = spread if spread > 1e-12 * abs(mean[j]) else 1.0
            column[:] = (column - mean[j]) / scale[j] if spread > 1e-12 * abs(mean[j]) else 0.0
        return mean, scale, table

    def _map(self, group):
        """(d_g, r) from the group's columns to those that are fitted."""
        if self.whiten != "data":
            return np.eye(len(group))
        variances, directions = np.linalg.eigh(self.second_moment(self.Z[:, group]))
        kept = variances > RANK * max(variances[-1], 1e-300)
        return directions[:, kept] / np.sqrt(variances[kept])

    def second_moment(self, A, B=None):
        """``A'B / n`` with the rows' weights."""
        return A.T @ (self.weight[:, None] * (A if B is None else B)) / self.weight.sum()

    # ------------------------------------------------------------------ fits

    def solved(self, columns, targets=None):
        """Weights of least ridge risk on some columns, (m, k), and the gain over the constant answer."""
        targets = self.T if targets is None else targets
        root = np.sqrt(self.weight / self.weight.sum())[:, None]
        m, k = columns.shape[1], targets.shape[1]
        A = np.vstack([root * columns, np.sqrt(self.l2_regularization) * np.eye(m)])
        B = np.vstack([root * targets, np.zeros((m, k))])
        w = np.linalg.lstsq(A, B, rcond=1e-12)[0]
        return w, 0.5 * ((B**2).sum() - ((B - A @ w) ** 2).sum())

    def fitted_columns(self, chosen):
        """What is fitted where these groups are bought: their columns as they are, or whitened."""
        parts = [self.Z[:, self.groups[g]] @ self.maps[g] for g in chosen]
        return np.hstack([np.empty((len(self.Z), 0)), *parts])

    def value(self, chosen):
        """``F`` of a set of groups."""
        return self.solved(self.fitted_columns(chosen))[1]

    def residual(self, chosen):
        columns = self.fitted_columns(chosen)
        return self.T - columns @ self.solved(columns)[0]

    def unrefitted_residual(self, chosen):
        """Where each group was fitted to what those before it had left, and never again (matching pursuit)."""
        left = self.T
        for g in chosen:
            columns = self.fitted_columns([g])
            left = left - columns @ self.solved(columns, left)[0]
        return left

    def gain(self, chosen, g):
        return self.joint_score(chosen, [g], "forward")

    def score(self, chosen, g, criterion):
        """By what a group is chosen after others."""
        own = self.Z[:, self.groups[g]]
        if criterion == "forward_single":
            have = self.fitted_columns(chosen)
            values = [self.solved(np.hstack([have, own[:, [j]]]))[1] for j in range(own.shape[1])]
            return max(values) - self.value(chosen)
        b = self.second_moment(own, self.residual(chosen))
        if criterion == "norm":
            return 0.5 * (b**2).sum()
        if criterion == "single":
            return 0.5 * (b**2).sum(axis=1).max()
        return self.joint_score(chosen, [g], criterion)

    def joint_score(self, chosen, elements, criterion):
        """The score of several groups as if they were one; by criteria that know no such thing, the sum of theirs."""
        if criterion == "forward":
            return self.value([*chosen, *elements]) - self.value(chosen)
        if criterion != "omp" and len(elements) > 1:
            return sum(self.score(chosen, g, criterion) for g in elements)
        columns = self.fitted_columns(elements)
        residual = self.residual(chosen) if criterion == "omp" else self.unrefitted_residual(chosen)
        b, C = self.second_moment(columns, residual), self.second_moment(columns)
        return 0.5 * np.sum(
            b * (np.linalg.pinv(C + self.l2_regularization * np.eye(len(C)), rcond=1e-12) @ b)
        )

    # ------------------------------------------------------------------ answers

    def answers(self, chosen, X):
        """Predictions in the units of ``y``, (n, k), after these groups are bought."""
        chosen = list(chosen)
        w = self.solved(self.fitted_columns(chosen))[0]
        Z = (np.asarray(X, dtype=float) - self.mean) / self.scale
        Z[np.isnan(Z)] = 0.0
        Z[:, ~self.Z.any(axis=0)] = 0.0
        white = np.hstack([np.empty((len(Z), 0)), *(Z[:, self.groups[g]] @ self.maps[g] for g in chosen)])
        return self.target_mean + white @ w * self.target_scale


def plain_answers(X, y, columns, new):
    """Predictions of least squares with an intercept on raw columns, without any of the above."""
    A = np.column_stack([np.ones(len(X)), X[:, columns]])
    w = np.linalg.lstsq(A, y, rcond=None)[0]
    return np.column_stack([np.ones(len(new)), new[:, columns]]) @ w


# ---------------------------------------------------------------------- sequences


def sequence(rows, costs, criterion, *, cost_aware=True, c_min=None):
    """The order of the groups that have columns; doubling where ``c_min`` is given.

    Of several groups that need the same unpaid group, the one that is best without it may be judged with others for company.
    """
    names = [name for name in costs.names if costs.groups[name]]
    ticks = {name: costs.ticks(price) for name, price in costs.prices.items()}
    closure = [set(costs.closure([name])) for name in names]
    order, bought, spent = [], set(), 0
    while len(order) < len(names):
        left = [g for g in range(len(names)) if g not in order]
        price = {g: sum(ticks[name] for name in closure[g] - bought) for g in left}
        score = {g: rows.score(order, g, criterion) for g in left}
        rate = {g: _rate(score[g], price[g]) for g in left} if cost_aware else dict(score)
        for name in costs.names if cost_aware else ():
            company = [g for g in left if name in closure[g]]
            if len(company) > 1 and name not in bought and ticks[name]:
                _judge_together(rows, order, criterion, company, ticks[name], price, score, rate)
        if c_min is not None:
            most = spent or costs.budget_ticks(c_min)
            left = [g for g in left if price[g] <= most] or [
                g for g in left if price[g] == min(price.values())
            ]
        best = max(left, key=lambda g: (rate[g], -price[g], -g))
        spent += price[best]
        bought |= closure[best]
        order.append(best)
    return order


def _rate(score, price):
    return score / price if price else np.inf if score > 0 else 0.0


def _judge_together(rows, chosen, criterion, company, shared, price, score, rate):
    """Give the best of a company that shares a requirement the rate of all that are worth buying with it."""
    ranked = sorted(company, key=lambda g: -_rate(score[g], price[g] - shared))
    paid = [shared + sum(price[g] - shared for g in ranked[: k + 1]) for k in range(len(ranked))]
    rates = [sum(score[g] for g in ranked[: k + 1]) / paid[k] for k in range(len(ranked))]
    k = int(np.argmax(rates))
    if k and rates[k] > rate[ranked[0]]:
        rate[ranked[0]] = max(rate[ranked[0]], rows.joint_score(chosen, ranked[: k + 1], criterion) / paid[k])


# ---------------------------------------------------------------------- instances


def rows_with_moments(C, V, power=1.0, n=None, seed=0):
    """(X, y) whose sample moments are exactly these (linear_and_networks 11), and whose means are 0.

    ``C`` (d, d) is that of the columns, ``V`` (d,) or (d, k) that of columns and targets; targets have the variance ``power`` and
    are uncorrelated but for what the columns make them share.
    """
    C, V = np.asarray(C, dtype=float), np.asarray(V, dtype=float)
    wide = V.reshape(len(C), -1)
    d, k = wide.shape
    K = np.block([[C, wide], [wide.T, np.diag(np.full(k, float(power)))]])
    values, vectors = np.linalg.eigh(K)
    assert values[0] > -1e-12, "no data has these moments"
    n = d + k + 2 if n is None else n
    table = np.random.default_rng(seed).normal(size=(n, d + k))
    table = np.linalg.qr(table - table.mean(axis=0))[0] * np.sqrt(n)
    table = table @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return table[:, :d], table[:, d:].reshape((n, *V.shape[1:]))


def random_problem(random, sizes, *, n=40, strength=1.0, k=1, noise=1.0):
    """(X, y, groups): correlated columns in groups of these sizes, in any order of columns, and ``k`` targets."""
    d = sum(sizes)
    common = random.normal(size=(n, max(d // 3, 1)))
    X = random.normal(size=(n, d)) + strength * common @ random.normal(size=(common.shape[1], d))
    y = X @ random.normal(size=(d, k)) + noise * np.sqrt(d) * random.normal(size=(n, k))
    X = X * np.exp(random.normal(size=d)) + 3.0 * random.normal(size=d)
    columns = random.permutation(d)
    groups = [columns[sum(sizes[:g]) : sum(sizes[: g + 1])].tolist() for g in range(len(sizes))]
    return X, y[:, 0] if k == 1 else y, groups


def priced_problem(seed=0, sizes=(2, 1, 3, 2), **options):
    """(X, y, costs) of such a problem, a group with a price per size."""
    random = np.random.default_rng(seed)
    X, y, groups = random_problem(random, list(sizes), **options)
    names = [f"g{g}" for g in range(len(sizes))]
    prices = dict(zip(names, np.round(random.uniform(0.5, 5.0, len(sizes)), 2), strict=True))
    return X, y, FeatureCosts(prices, groups=dict(zip(names, groups, strict=True)))
