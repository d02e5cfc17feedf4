"""Data of the same shape as sets that cannot be passed on: groups, sizes, prices and what makes choosing among them hard.

Two of the sets on which feature sequencing was measured (Hu et al., *Efficient Feature Group Sequencing for Anytime Linear
Prediction*) are private or licensed. These are drawn from factor models instead: hidden signals, of which the target is a
sum, seen by groups of columns through errors and disturbances. The methods come apart for the reasons they do on real data:

* columns of a group repeat each other, so that adding up their correlations counts the same thing many times;
* elsewhere a disturbance hides the signal in every single column and cancels in their combination, so that the best single
  column says little of its group;
* groups see the same signals and share the disturbances, so that what a group adds depends on what is there already;
* prices have nothing to do with value, so that who ignores them loses.

The strengths of these effects are not known of the originals. They were set so that the published methods come out in about
the published order: data to measure on and to develop with, no evidence by itself for one method or another.

A third, of fully specified random numbers, is that of Grubb, *Anytime Prediction*, figure 5.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from anytime.costs import FeatureCosts
from anytime_research.datasets.dataset import PublicDataset as Dataset

Array = NDArray[np.float64]

__all__ = [
    "RankingChunk",
    "make_agricultural",
    "make_grouped_synthetic",
    "make_ranking",
    "random_groups",
    "ranking_chunks",
    "write_ranking",
]

_BLOCK = 4096  # rows drawn from one seed, so that data does not depend on how it is cut into chunks

_AGRICULTURAL_SIZES = np.repeat([1, 2, 3, 4, 5, 6, 32], [12, 14, 12, 7, 4, 2, 6])  # 57 groups, 328 columns
_AGRICULTURAL_SHARE = 0.24  # of the second class
_CHEAPEST, _DEAREST, _TOTAL = 50, 880, 11_100  # prices in units of 10 microseconds
_SKEW = 2.0861  # makes prices that rise as a power of this add up to the total

_LEVELS = np.repeat([1.0, 5.0, 20.0, 50.0, 100.0, 150.0, 200.0], [114, 30, 184, 122, 17, 32, 2])  # 501 prices
_RELEVANCE = np.array([0.26, 0.36, 0.28, 0.08, 0.02])  # shares of the grades 0 to 4
_QUERY_SHARE = 0.15  # of the variance of a score: some queries have more good documents than others


# ---------------------------------------------------------------------- hidden factors


@dataclass(frozen=True, eq=False)
class _Factors:
    """Columns ``z L + e * noise`` and a score ``z a + e``, of variance 1, for independent standard normal ``z`` and ``e``.

    Attributes
    ----------
    loadings : (k, d)
        ``L``.
    noise : (d,)
    weights : (k,)
        ``a``.
    """

    loadings: Array
    noise: Array
    weights: Array

    @classmethod
    def scaled(cls, loadings: Array, noise: Array, weights: Array, score_noise: float) -> _Factors:
        """Bring all variances to 1; ``score_noise`` is in units of what the factors explain."""
        deviation = np.sqrt((loadings**2).sum(axis=0) + noise**2)
        weights = weights / (np.linalg.norm(weights) * np.sqrt(1 + score_noise**2))
        return cls(loadings / deviation, noise / deviation, weights)

    def rows(
        self, n: int, first: int, seed: int, dtype: DTypeLike
    ) -> Iterator[tuple[slice, NDArray[Any], Array, Array]]:
        """Rows ``first`` to ``first + n``, block by block: where they are, columns, what factors explain, standard noise."""
        for block in range(first // _BLOCK, -(-(first + n) // _BLOCK)):
            rng = np.random.default_rng([seed, block])
            z = rng.standard_normal((_BLOCK, self.weights.size))
            X = z @ self.loadings
            X += rng.standard_normal(X.shape) * self.noise
            error = rng.standard_normal(_BLOCK)
            low, high = max(first, block * _BLOCK), min(first + n, (block + 1) * _BLOCK)
            part = slice(low - block * _BLOCK, high - block * _BLOCK)
            yield (
                slice(low - first, high - first),
                X[part].astype(dtype),
                (z @ self.weights)[part],
                error[part],
            )

    @property
    def unexplained(self) -> float:
        """Variance of the score that no factor explains."""
        return float(1 - self.weights @ self.weights)


def _seeds(random_state: int | np.random.Generator | None) -> tuple[np.random.Generator, int]:
    """A generator for what all rows share, and a seed for the rows."""
    rng = np.random.default_rng(random_state)
    return rng, int(rng.integers(2**62))


# ---------------------------------------------------------------------- agricultural


def make_agricultural(
    n_samples: int = 10_000,
    *,
    random_state: int | np.random.Generator | None = 0,
    dtype: DTypeLike = np.float64,
) -> Dataset:
    """Two classes, 57 natural groups of 328 columns priced in seconds: like a private set from agriculture.

    Six groups have 32 columns, the others one to six. Groups see one to six of twenty hidden signals, each through errors of its
    own; three conditions (think of light, weather, soil) disturb all groups, some much more than others. In some groups the
    columns repeat one mixture of signals, in others each is another mixture, and a combination of columns removes the
    disturbance. Columns of a group are strongly correlated (about 0.8 on average), those of different groups less (0.4).

    Parameters
    ----------
    n_samples : int, default=10_000
        The original has 510,000.
    random_state : int, Generator or None, default=0
        Equal states give equal groups and prices, and rows that begin alike whatever ``n_samples``.
    dtype : dtype, default=float64
        Of the columns; float32 holds the same numbers, rounded.

    Returns
    -------
    Dataset
        Classes 1 and 2, about 24 % of the second. Prices from 0.0005 to 0.0088 seconds, 0.111 in all. ``folds`` 1 to 5
        have 100 in 510 of the rows each, for testing in turns; the rest, ``valid``, is fold 6.

    Examples
    --------
    >>> X, y, costs = make_agricultural(200)
    >>> X.shape, len(costs.names), costs.total
    ((200, 328), 57, 0.111)
    """
    rng, seed = _seeds(random_state)
    sizes = rng.permutation(_AGRICULTURAL_SIZES)
    ends = np.cumsum(sizes)
    factors = _agricultural_factors(sizes, rng)
    prices = rng.permutation(_agricultural_prices())
    X = np.empty((n_samples, int(ends[-1])), dtype=dtype)
    score = np.empty(n_samples)
    for at, columns, explained, error in factors.rows(n_samples, 0, seed, dtype):
        X[at] = columns
        score[at] = explained + np.sqrt(factors.unexplained) * error
    names = [f"group {g}" for g in range(sizes.size)]
    costs = FeatureCosts(
        dict(zip(names, (prices / 1e5).tolist(), strict=True)),
        groups={name: [*range(end - size, end)] for name, end, size in zip(names, ends, sizes, strict=True)},
        unit="s",
    )
    folds = np.minimum(np.arange(n_samples) * 51 // max(10 * n_samples, 1) + 1, 6)
    return Dataset(
        X,
        np.where(score > NormalDist().inv_cdf(1 - _AGRICULTURAL_SHARE), 2, 1),
        costs,
        name="agricultural look-alike",
        description="57 natural groups priced in seconds, two classes; drawn from a factor model",
        feature_names=tuple(f"x{j}" for j in range(X.shape[1])),
        folds=folds,
        valid=np.flatnonzero(folds == 6),
    )


def _agricultural_factors(sizes: NDArray[np.int64], rng: np.random.Generator) -> _Factors:
    n_signals, n_conditions, most_seen = 20, 3, 6
    n_groups, ends = sizes.size, np.cumsum(sizes)
    loadings = np.zeros((n_signals + n_conditions + n_groups * most_seen, ends[-1]))
    noise = np.empty(ends[-1])
    repeats = rng.random(n_groups) < 0.4
    large = rng.permutation(np.flatnonzero(sizes == sizes.max()))
    repeats[large] = np.arange(large.size) < large.size // 3
    for g, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        own = slice(end - size, end)
        n_seen = int(rng.integers(3, 7) if size == sizes.max() else rng.integers(1, 4))
        seen = rng.choice(n_signals, n_seen, replace=False)
        errors = n_signals + n_conditions + g * most_seen + np.arange(n_seen)
        if repeats[g]:
            mixture = rng.standard_normal((n_seen, 1))
            view = mixture / np.linalg.norm(mixture) * rng.uniform(0.9, 1.1, (1, size))
            noise[own] = 0.4
        else:
            view = 0.5 * rng.standard_normal((n_seen, size))
            noise[own] = 0.2
        loadings[seen, own] = view
        loadings[errors, own] = view * 0.4 * rng.uniform(0.5, 1.5)
        disturbance = (
            1.5 * rng.exponential(size=(n_conditions, 1)) * rng.choice([-1.0, 1.0], (n_conditions, 1))
        )
        loadings[n_signals : n_signals + n_conditions, own] = disturbance * (
            1 + 0.1 * rng.standard_normal((n_conditions, size))
        )
    weights = np.zeros(len(loadings))
    weights[:n_signals] = np.exp(-0.12 * np.arange(n_signals))
    return _Factors.scaled(loadings, noise, weights, score_noise=0.1)


def _agricultural_prices() -> NDArray[np.int64]:
    """In units of 10 microseconds: many cheap groups and a few dear ones."""
    rank = np.linspace(0, 1, _AGRICULTURAL_SIZES.size)
    prices = np.rint(_CHEAPEST * (_DEAREST / _CHEAPEST) ** (rank**_SKEW)).astype(np.int64)
    prices[prices.size // 2] += _TOTAL - prices.sum()  # what rounding left over
    return prices


# ---------------------------------------------------------------------- ranking


class RankingChunk(NamedTuple):
    """Rows of the ranking look-alike: columns (n, d), relevance 0 to 4 (n,), query numbers (n,)."""

    X: NDArray[Any]
    y: NDArray[np.int64]
    qid: NDArray[np.int64]


def make_ranking(
    n_samples: int = 10_000,
    *,
    group_size: int = 10,
    prices: ArrayLike | FeatureCosts | None = None,
    grouping: int = 0,
    random_state: int | np.random.Generator | None = 0,
    dtype: DTypeLike = np.float64,
) -> Dataset:
    """Documents with grades from 0 to 4, 501 priced features of low correlation: like the Yahoo! Learning to Rank set.

    Features come in families of one price (think of one index, asked in many ways). A family sees two of sixty hidden
    signals, or none, through errors of its own, so that its members are correlated and other features hardly (0.08 on average).
    Groups are drawn at random among features of equal price.

    Parameters
    ----------
    n_samples : int, default=10_000
        The original has 883,000 documents in all and 473,134 for training.
    group_size : int, default=10
        Features per group; what is left over of a price makes a smaller one.
    prices : (d,) float or FeatureCosts, default=None
        One per feature: ``load_yahoo_costs()`` for the 519 published ones. By default 501 prices of 1, 5, 20, 50,
        100, 150 or 200 units in about the same shares, 16,944 in all.
    grouping : int, default=0
        Another number draws other groups for the same rows.
    random_state : int, Generator or None, default=0
    dtype : dtype, default=float64
        Of the columns; float32 holds the same numbers, rounded.

    Returns
    -------
    Dataset
        With query numbers ``qid``. The price of a group is the sum of its members'.

    See Also
    --------
    ranking_chunks : The same rows, a chunk at a time.
    random_groups : Other groups for the same features.

    Examples
    --------
    >>> data = make_ranking(300, group_size=20)
    >>> data.X.shape, sorted(set(data.y.tolist())), data.costs.total
    ((300, 501), [0, 1, 2, 3, 4], 16944.0)
    """
    source = _Ranking(n_samples, prices, random_state)
    rows = source.rows(0, n_samples, dtype)
    return Dataset(
        rows.X,
        rows.y,
        random_groups(source.prices, group_size, random_state=grouping),
        name="ranking look-alike",
        description="graded documents, random groups of features of equal price; drawn from a factor model",
        feature_names=source.names,
        qid=rows.qid,
    )


def ranking_chunks(
    n_samples: int = 473_134,
    *,
    prices: ArrayLike | FeatureCosts | None = None,
    rows: int = 4 * _BLOCK,
    random_state: int | np.random.Generator | None = 0,
    dtype: DTypeLike = np.float64,
) -> Iterator[RankingChunk]:
    """The rows of ``make_ranking``, never more than ``rows`` of them in memory.

    Parameters are those of ``make_ranking``; put together, the chunks are its rows, whatever their size. They are drawn
    4096 at a time, so multiples of that are quickest.

    Examples
    --------
    >>> sum(len(chunk.y) for chunk in ranking_chunks(1000, rows=300))
    1000
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}")
    source = _Ranking(n_samples, prices, random_state)
    return (source.rows(first, min(rows, n_samples - first), dtype) for first in range(0, n_samples, rows))


def write_ranking(
    path: str | Path,
    n_samples: int = 473_134,
    *,
    prices: ArrayLike | FeatureCosts | None = None,
    random_state: int | np.random.Generator | None = 0,
    dtype: DTypeLike = np.float32,
) -> None:
    """Write the rows of ``make_ranking`` to a Parquet file, chunk by chunk: features ``x1``, ``x2``, … and ``relevance``.

    Query numbers are left out, so that every column but ``relevance`` is a feature.
    """
    import pyarrow as pa
    from pyarrow import parquet

    names = _Ranking(0, prices, 0).names
    kind = pa.from_numpy_dtype(np.dtype(dtype))
    schema = pa.schema([*((name, kind) for name in names), ("relevance", pa.int64())])
    # random numbers compress to nothing less
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for chunk in ranking_chunks(n_samples, prices=prices, random_state=random_state, dtype=dtype):
            columns = [pa.array(column) for column in np.ascontiguousarray(chunk.X.T)]
            writer.write_table(pa.table([*columns, pa.array(chunk.y)], schema=schema))


def random_groups(
    prices: ArrayLike, group_size: int, *, random_state: int | np.random.Generator | None = 0
) -> FeatureCosts:
    """Random groups of columns of equal price; a group's price is the sum of its members'.

    Parameters
    ----------
    prices : (d,) float
    group_size : int
        Columns per group; what is left over of a price makes a smaller one.
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> random_groups([1, 5, 1, 5, 1], 2).prices
    {'group 0': 2.0, 'group 1': 1.0, 'group 2': 10.0}
    """
    prices = np.asarray(prices, dtype=np.float64)
    if prices.ndim != 1 or group_size < 1:
        raise ValueError(
            f"prices must be one number per column and group_size at least 1, not {prices.shape} and {group_size}"
        )
    rng = np.random.default_rng(random_state)
    members: list[list[int]] = []
    for price in np.unique(prices):
        columns = rng.permutation(np.flatnonzero(prices == price)).tolist()
        members += [sorted(columns[k : k + group_size]) for k in range(0, len(columns), group_size)]
    groups = {f"group {g}": columns for g, columns in enumerate(members)}
    return FeatureCosts(
        {name: float(prices[columns].sum()) for name, columns in groups.items()}, groups=groups, unit="units"
    )


class _Ranking:
    """Everything the rows of the ranking look-alike have in common."""

    def __init__(
        self,
        n_samples: int,
        prices: ArrayLike | FeatureCosts | None,
        random_state: int | np.random.Generator | None,
    ) -> None:
        rng, self.seed = _seeds(random_state)
        self.prices = _feature_prices(prices, rng)
        self.names = tuple(f"x{j + 1}" for j in range(self.prices.size))
        self.factors = _ranking_factors(self.prices, rng)
        self.limits = [NormalDist().inv_cdf(share) for share in _RELEVANCE.cumsum()[:-1]]
        # from a generator of their own, so that rows begin alike whatever their number
        queries = np.random.default_rng([self.seed, 2**40])
        sizes = np.empty(0)
        while sizes.sum() < n_samples:
            sizes = np.append(sizes, np.clip(np.rint(queries.gamma(2.5, 9.5, 4096)), 1, 139))
        self.query = np.repeat(np.arange(sizes.size), sizes.astype(np.int64))[:n_samples]
        self.query_effect = np.random.default_rng([self.seed, 2**41]).standard_normal(sizes.size)

    def rows(self, first: int, n: int, dtype: DTypeLike) -> RankingChunk:
        X = np.empty((n, self.prices.size), dtype=dtype)
        score = np.empty(n)
        qid = self.query[first : first + n]
        for at, columns, explained, error in self.factors.rows(n, first, self.seed, dtype):
            X[at] = columns
            score[at] = (
                explained
                + np.sqrt(self.factors.unexplained - _QUERY_SHARE) * error
                + np.sqrt(_QUERY_SHARE) * self.query_effect[qid[at]]
            )
        return RankingChunk(X, np.searchsorted(self.limits, score), qid)


def _feature_prices(prices: ArrayLike | FeatureCosts | None, rng: np.random.Generator) -> Array:
    if prices is None:
        return rng.permutation(_LEVELS)
    if isinstance(prices, FeatureCosts):
        if any(len(columns) != 1 for columns in prices.groups.values()):
            raise ValueError("prices must be one per feature, but these are of groups of columns")
        prices = list(prices.prices.values())
    found = np.array(prices, dtype=np.float64)
    if found.ndim != 1 or found.size == 0 or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError("prices must be one finite number per feature, none negative")
    return found


def _ranking_factors(prices: Array, rng: np.random.Generator) -> _Factors:
    n_signals, n_shared = 60, 10
    families: list[NDArray[np.intp]] = []
    for price in np.unique(prices):
        columns = rng.permutation(np.flatnonzero(prices == price))
        while columns.size:
            size = int(rng.integers(2, 15))
            families.append(columns[:size])
            columns = columns[size:]
    loadings = np.zeros((n_signals + n_shared + len(families), prices.size))
    for k, columns in enumerate(families):
        if rng.random() < 0.7:
            seen = rng.choice(n_signals, 2, replace=False)
            loadings[np.ix_(seen, columns)] = rng.standard_normal((2, 1)) + 0.5 * rng.standard_normal(
                (2, columns.size)
            )
        shared = n_signals + np.arange(n_shared)
        loadings[np.ix_(shared, columns)] = 0.2 * rng.standard_normal(
            (n_shared, 1)
        ) + 0.1 * rng.standard_normal((n_shared, columns.size))
        loadings[n_signals + n_shared + k, columns] = 0.5 * rng.uniform(0.5, 1.5)
    weights = np.zeros(len(loadings))
    weights[:n_signals] = np.exp(-0.08 * np.arange(n_signals))
    return _Factors.scaled(loadings, np.full(prices.size, 0.4), weights, score_noise=1.0)


# ---------------------------------------------------------------------- figure 5.8


def make_grouped_synthetic(
    n_samples: int = 100,
    *,
    n_groups: int = 16,
    group_size: int = 10,
    correlation: float = 0.6,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = 0,
) -> Dataset:
    """Correlated columns in random groups, half of which make up the target: the synthetic set of figure 5.8.

    Every two columns correlate by 0.6 (``X = sqrt(0.4) Z + sqrt(0.6) z``, standardised). The groups are drawn at random;
    the columns of half of them have equal weights in the target, and noise of deviation 0.1 is added. The text gives no
    scale: here the target has variance 1 before the noise. There are fewer rows than columns, so that least squares on all
    groups needs a ridge.

    Parameters
    ----------
    n_samples : int, default=100
    n_groups, group_size : int, default=16, 10
    correlation, noise : float, default=0.6, 0.1
    random_state : int, Generator or None, default=0

    Returns
    -------
    Dataset
        Each group costs 1 unit.

    Examples
    --------
    >>> make_grouped_synthetic()
    Dataset('grouped synthetic', 100 rows, 160 columns, FeatureCosts(16 groups, 160 columns, total 16 units))
    """
    if not 0 <= correlation < 1:
        raise ValueError(f"correlation must be in [0, 1), not {correlation}")
    rng = np.random.default_rng(random_state)
    d = n_groups * group_size
    X = np.sqrt(1 - correlation) * rng.standard_normal((n_samples, d))
    X += np.sqrt(correlation) * rng.standard_normal((n_samples, 1))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    members = np.sort(rng.permutation(d).reshape(n_groups, group_size), axis=1)
    useful = rng.choice(n_groups, n_groups // 2, replace=False)
    y = X[:, members[useful].ravel()].sum(axis=1)
    y = y / y.std() + noise * rng.standard_normal(n_samples)
    groups = {f"group {g}": columns.tolist() for g, columns in enumerate(members)}
    return Dataset(
        X,
        y,
        FeatureCosts(dict.fromkeys(groups, 1.0), groups=groups, unit="units"),
        name="grouped synthetic",
        description="columns with pairwise correlation in random groups, half of which make up the target",
        feature_names=tuple(f"x{j}" for j in range(d)),
    )
