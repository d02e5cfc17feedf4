"""The group lasso on the rows themselves, by plain proximal gradient steps; and its conditions, written out."""

import numpy as np


def whitened(X, groups):
    """Columns of each group (a list of column lists) made uncorrelated with variance 1, and the new groups."""
    parts, new, first = [], [], 0
    for columns in groups:
        values, vectors = np.linalg.eigh(X[:, columns].T @ X[:, columns] / len(X))
        kept = values > 1e-10 * values.max()
        parts.append(X[:, columns] @ (vectors[:, kept] / np.sqrt(values[kept])))
        new.append(list(range(first, first + kept.sum())))
        first += kept.sum()
    return np.hstack(parts), new


def group_lasso(X, Y, groups, weights, penalty, w=None):
    """Weights that minimise ``|Y - X w|² + penalty * sum_g weights[g] |w_g|``, the formula without 1 / 2n."""
    w = np.zeros((X.shape[1], Y.shape[1])) if w is None else w
    curvature = 2 * np.linalg.eigvalsh(X.T @ X)[-1]
    for _ in range(20_000):
        before = w
        w = w + 2 * X.T @ (Y - X @ w) / curvature
        for g, columns in enumerate(groups):
            norm = np.linalg.norm(w[columns])
            w[columns] *= max(0.0, 1 - penalty * weights[g] / curvature / norm) if norm > 0 else 0.0
        if np.abs(w - before).max() < 1e-13:
            break
    return w


def worst_violation(X, Y, groups, weights, penalty, w):
    """The optimality conditions of that problem: the largest violation, as a share of ``penalty * weights[g]``."""
    worst = 0.0
    for g, columns in enumerate(groups):
        pull = 2 * X[:, columns].T @ (Y - X @ w)
        limit, norm = penalty * weights[g], np.linalg.norm(w[columns])
        miss = np.linalg.norm(pull - limit * w[columns] / norm) if norm > 0 else np.linalg.norm(pull) - limit
        worst = max(worst, miss / limit)
    return worst


def first_entries(X, Y, groups, weights, penalties):
    """The first of the falling penalties at which each group is in use, 0 for never."""
    entered, w = np.zeros(len(groups)), None
    for penalty in penalties:
        w = group_lasso(X, Y, groups, weights, penalty, w)
        for g, columns in enumerate(groups):
            if entered[g] == 0 and np.abs(w[columns]).max() > 1e-9:
                entered[g] = penalty
    return entered
