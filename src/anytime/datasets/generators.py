"""Seeded data with groups and prices, of which it is known how much each group is worth.

What a set of groups is worth has a closed form in both generators: the ``strengths`` of its groups add up.
"""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset


class PricedDataset(Dataset):
    """A generated ``Dataset`` that knows what its groups are worth.

    Attributes
    ----------
    strengths : (G,) array
        What each group adds: for regression its share of the variance, for classification its squared distance
        between the classes. Steps without columns have 0.
    coef : (d,) array
        Regression: the weight of each column; classification: the direction of the best linear rule.
    """

    strengths: NDArray[np.float64] = np.empty(0)
    coef: NDArray[np.float64] = np.empty(0)
    classes: bool = False


def make_priced_regression(
    n_samples: int = 500,
    n_groups: int = 8,
    *,
    group_size: int = 3,
    n_steps: int = 0,
    noise: float = 0.3,
    correlation: float = 0.5,
    random_state: int | np.random.Generator | None = 0,
) -> PricedDataset:
    """Regression in which groups are exactly orthogonal, so that their shares of the variance add up.

    With ``X = Q A``, the columns of ``Q`` centred and orthonormal over the sample and ``A`` invertible within
    each group, least squares on the groups ``S`` explains ``R²(S) = Σ_{g in S} s_g`` of the variance of ``y``,
    exactly and on these very rows. The best set for a budget is then a knapsack problem.

    Parameters
    ----------
    n_samples : int, default=500
    n_groups : int, default=8
        Groups with columns.
    group_size : int, default=3
        Columns in each.
    n_steps : int, default=0
        Column-less steps, each required by a random half of the groups.
    noise : float, default=0.3
        The share of the variance of ``y`` that no column explains.
    correlation : float, default=0.5
        Between the columns of a group. It misleads methods that score single columns and changes no group's value.
    random_state : int, Generator or None, default=0

    Returns
    -------
    PricedDataset

    Examples
    --------
    >>> data = make_priced_regression(n_groups=5, noise=0.3, random_state=3)
    >>> data.X.shape, len(data.costs.names), round(float(data.strengths.sum()), 12)
    ((500, 15), 5, 0.7)
    """
    rng = np.random.default_rng(random_state)
    d = n_groups * group_size
    _check(n_groups, n_steps, group_size)
    if n_samples < d + 2:
        raise ValueError(
            f"n_samples must be at least {d + 2} for {d} orthogonal columns and noise, not {n_samples}"
        )
    if not 0 <= noise < 1 or not 0 <= correlation < 1:
        raise ValueError(f"noise and correlation must be in [0, 1), not {noise} and {correlation}")
    gaussian = rng.standard_normal((n_samples, d + 1))
    # columns of mean 0 and variance 1
    basis = np.linalg.qr(gaussian - gaussian.mean(axis=0))[0] * sqrt(n_samples)
    costs = _random_costs(n_groups, group_size, n_steps, rng)
    shares = rng.exponential(size=n_groups)
    shares *= (1 - noise) / shares.sum()
    weights = _directions(n_groups, group_size, rng) * np.sqrt(shares)[:, None]
    mixing = np.linalg.cholesky(
        (1 - correlation) * np.eye(group_size) + correlation * np.ones((group_size, group_size))
    )
    hidden = basis[:, :d].reshape(n_samples, n_groups, group_size)
    X = (hidden @ mixing.T).reshape(n_samples, d)
    y = basis[:, :d] @ weights.ravel() + sqrt(noise) * basis[:, d]
    coef = np.linalg.solve(mixing.T, weights.T).T.ravel()
    return _dataset(X, y, costs, shares, coef, name="priced regression")


def make_priced_classification(
    n_samples: int = 1000,
    n_groups: int = 8,
    *,
    group_size: int = 3,
    n_steps: int = 0,
    separation: float = 3.0,
    random_state: int | np.random.Generator | None = 0,
) -> PricedDataset:
    """Two classes whose best possible accuracy is known for every set of groups.

    Given the class, columns are independent Gaussians of variance 1, and the means of the classes are ``δ`` apart. The
    best classifier that sees the groups ``S`` is linear, and right with probability ``Φ(Δ_S / 2)`` where
    ``Δ_S² = Σ_{g in S} ||δ_g||²``. This is an expectation: on a finite sample the accuracy of the best rule varies.

    Parameters
    ----------
    n_samples : int, default=1000
    n_groups : int, default=8
        Groups with columns.
    group_size : int, default=3
        Columns in each.
    n_steps : int, default=0
        Column-less steps, each required by a random half of the groups.
    separation : float, default=3.0
        ``Δ`` of all groups together; 3 allows an accuracy of 0.933.
    random_state : int, Generator or None, default=0

    Returns
    -------
    PricedDataset

    Examples
    --------
    >>> data = make_priced_classification(separation=3, random_state=0)
    >>> data.X.shape, round(float(data.strengths.sum()), 12)
    ((1000, 24), 9.0)
    """
    rng = np.random.default_rng(random_state)
    _check(n_groups, n_steps, group_size)
    if separation < 0:
        raise ValueError(f"separation must not be negative, not {separation}")
    costs = _random_costs(n_groups, group_size, n_steps, rng)
    strengths = rng.exponential(size=n_groups)
    strengths *= separation**2 / strengths.sum()
    apart = (_directions(n_groups, group_size, rng) * np.sqrt(strengths)[:, None]).ravel()
    y = rng.integers(2, size=n_samples)
    X = rng.standard_normal((n_samples, apart.size)) + (y - 0.5)[:, None] * apart
    return _dataset(
        X, y, costs, strengths, apart, name="priced classification", target_names=("0", "1"), classes=True
    )


# ---------------------------------------------------------------------- parts


def _check(n_groups: int, n_steps: int, group_size: int) -> None:
    if n_groups < 1 or group_size < 1 or n_steps < 0:
        raise ValueError("n_groups and group_size must be at least 1, and n_steps not negative")


def _random_costs(n_groups: int, group_size: int, n_steps: int, rng: np.random.Generator) -> FeatureCosts:
    """Whole prices from 1 to 20, more expensive ones rarer; every step is required by a random half of the groups."""
    groups: dict[str, list[int]] = {f"step {s}": [] for s in range(n_steps)}
    groups |= {f"group {g}": [*range(g * group_size, (g + 1) * group_size)] for g in range(n_groups)}
    prices = dict(zip(groups, np.rint(np.exp(rng.uniform(0, np.log(20), len(groups)))).tolist(), strict=True))
    requires: dict[str, list[str]] = {}
    for s in range(n_steps):
        for g in rng.choice(n_groups, size=(n_groups + 1) // 2, replace=False):
            requires.setdefault(f"group {g}", []).append(f"step {s}")
    return FeatureCosts(prices, groups=groups, requires=requires, unit="units")


def _directions(n_groups: int, group_size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(G, k) one random unit vector per group."""
    vectors = rng.standard_normal((n_groups, group_size))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _dataset(
    X: NDArray[np.float64],
    y: NDArray[Any],
    costs: FeatureCosts,
    strengths: NDArray[np.float64],
    coef: NDArray[np.float64],
    **attributes: Any,
) -> PricedDataset:
    steps = len(costs.names) - strengths.size  # they stand first and add nothing
    return PricedDataset(
        X,
        y,
        costs,
        strengths=np.concatenate([np.zeros(steps), strengths]),
        coef=coef,
        feature_names=tuple(f"x{j}" for j in range(X.shape[1])),
        **attributes,
    )
