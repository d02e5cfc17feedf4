"""Look-alikes drawn from a sample of the real thing, and prices made from the weights of a linear classifier.

Of MiniBooNE only a small part can be had freely. A set of its full size and split is drawn from that part: rows of it, disturbed
in a way that keeps, class by class, the marginals and the rank correlations of its columns. How much they are disturbed was
calibrated on the errors of forests, see ``make_miniboone``. Data to measure on at that size; no substitute for the original.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import FeatureCosts
from anytime_research.datasets.dataset import PublicDataset as Dataset

Array = NDArray[np.float64]

__all__ = ["enlarge", "make_miniboone", "weight_prices"]

_MINIBOONE_ROWS, _MINIBOONE_SIGNAL = 130_064, 36_499
_MINIBOONE_PARTS = (45_523, 19_510, 65_031)  # train, valid, test of Nan's thesis
_MINIBOONE_LIKENESS = 0.8


def enlarge(
    data: Dataset,
    counts: ArrayLike,
    *,
    likeness: float = 0.8,
    placeholder: float | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Dataset:
    """More rows like those of a sample, any number of each class.

    Columns are brought to normal scores by their ranks. There a new row is ``m + a (z - m) + sqrt(1 - a²) e``: a row ``z``
    of its class drawn at random, of which a share ``a`` is kept, and normal noise ``e`` with the covariance of the class. Class
    means and covariances of the scores are those of the sample whatever ``a`` is. Ranks become values of the sample again, in
    straight lines between neighbours.

    Parameters
    ----------
    data : Dataset
        Numeric columns, classes numbered from 0.
    counts : (C,) int
        Rows to draw of each class.
    likeness : float, default=0.8
        ``a``: 0 draws from one normal distribution per class, 1 repeats the rows of the sample.
    placeholder : float, default=None
        What stands where nothing was measured. Rows that hold it are drawn as often as in their class of the sample, unchanged.
    random_state : int, Generator or None, default=0

    Returns
    -------
    Dataset
        Rows in random order, with the prices and names of the sample.

    Examples
    --------
    >>> from anytime.datasets import load
    >>> large = enlarge(load("iris"), [1000, 500, 2000])
    >>> large.X.shape, np.bincount(large.y).tolist()
    ((3500, 4), [1000, 500, 2000])
    """
    from scipy.special import ndtr, ndtri
    from scipy.stats import rankdata

    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    wanted = np.asarray(counts, dtype=np.int64)
    if not 0 <= likeness <= 1:
        raise ValueError(f"likeness must be between 0 and 1, not {likeness}")
    if not np.isfinite(X).all():
        raise ValueError(
            "enlarge needs columns without missing values; name what stands for them as placeholder"
        )
    present = np.isin(np.arange(wanted.size), y)
    if wanted.ndim != 1 or (wanted < 0).any() or (wanted > 0)[~present].any():
        raise ValueError(f"counts must be one number per class that the sample has, not {wanted.tolist()}")
    rng = np.random.default_rng(random_state)
    empty = np.asarray(np.isin(X, [] if placeholder is None else [placeholder]).any(axis=1), dtype=bool)
    measured = X[~empty]
    n, d = measured.shape
    scores = ndtri((rankdata(measured, axis=0) - 0.5) / n)
    drawn: list[Array] = []
    for c, count in enumerate(wanted.tolist()):
        rows = rng.choice(np.flatnonzero(y == c), count)
        out = X[rows]
        new = ~empty[rows]
        own = scores[y[~empty] == c]
        kept = scores[(np.cumsum(~empty) - 1)[rows[new]]]
        noise = rng.standard_normal((len(kept), d)) @ _root(own).T
        centre = own.mean(axis=0) if len(own) else 0.0
        position = ndtr(centre + likeness * (kept - centre) + np.sqrt(1 - likeness**2) * noise) * n - 0.5
        for j in range(d):
            out[new, j] = np.interp(position[:, j], np.arange(n), np.sort(measured[:, j]))
        drawn.append(out)
    order = rng.permutation(int(wanted.sum()))
    return Dataset(
        np.concatenate(drawn)[order],
        np.repeat(np.arange(wanted.size), wanted)[order],
        data.costs,
        name=f"{data.name} look-alike",
        description=f"rows drawn like those of {data.name}, which has {len(X)}",
        feature_names=data.feature_names,
        target_names=data.target_names,
    )


def _root(scores: Array) -> Array:
    """(d, d) root of the covariance."""
    covariance = np.atleast_2d(np.cov(scores.T)) if len(scores) > 1 else np.zeros((scores.shape[1],) * 2)
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def make_miniboone(
    sample: Dataset, n_samples: int = _MINIBOONE_ROWS, *, random_state: int | np.random.Generator | None = 0
) -> Dataset:
    """A look-alike of MiniBooNE at its full size, drawn from ``load("miniboone-small")``: 130,064 rows, 28 % of them signal.

    Real are the 5,000 rows of the sample; everything else is drawn from them, see ``enlarge``. ``likeness`` is 0.8, at which
    forests err as published for the original: 40 trees (Gini, square root of the columns per split) 0.068 instead of 0.0693, one
    tree 0.136 instead of 0.128; and, from 2,000 rows of balanced classes, 0.097 instead of 0.085 on the sample itself.

    Parameters
    ----------
    sample : Dataset
        ``load("miniboone-small")``.
    n_samples : int, default=130_064
    random_state : int, Generator or None, default=0

    Returns
    -------
    Dataset
        Every column costs 1. ``train``, ``valid`` and ``test`` are in the proportions of Nan's thesis: 45,523, 19,510 and 65,031
        rows at full size.
    """
    signal = round(n_samples * _MINIBOONE_SIGNAL / _MINIBOONE_ROWS)
    counts = [n_samples - signal, signal]
    data = enlarge(
        sample, counts, likeness=_MINIBOONE_LIKENESS, placeholder=-999.0, random_state=random_state
    )
    ends = np.round(np.cumsum(_MINIBOONE_PARTS) * n_samples / _MINIBOONE_ROWS).astype(np.int64)
    train, valid, test = np.split(np.arange(n_samples), ends[:-1])
    return data.with_attributes(name="MiniBooNE look-alike", train=train, valid=valid, test=test)


def weight_prices(
    X: ArrayLike, y: ArrayLike, *, C: float = 0.01, highest: float = 40.0, total: float = 50.0
) -> FeatureCosts:
    """Prices that rise with what a column is worth: the recipe by which Nan's thesis prices MiniBooNE (section 4.4).

    Columns are scaled to equal norm and a linear support vector machine is trained. The sizes of its weights, scaled so that the
    largest is ``highest``, are rounded to whole numbers of at least 1 and then scaled so that all together cost ``total``.

    Parameters
    ----------
    X : (n, d)
    y : (n,)
        Two classes, or more: then the largest weight of a column counts.
    C : float, default=0.01
        Inverse strength of the machine's regularisation; the thesis does not say which.
    highest, total : float, default=40, 50

    Examples
    --------
    >>> from anytime.datasets import load
    >>> X, y, _ = load("breast_cancer")
    >>> prices = np.array([*weight_prices(X, y).prices.values()])
    >>> print(round(prices.sum(), 6), round(prices.max() / prices.min(), 6))
    50.0 40.0
    """
    from sklearn.svm import LinearSVC

    columns = np.asarray(X, dtype=np.float64)
    norm = np.sqrt((columns**2).mean(axis=0))
    machine = LinearSVC(dual=False, C=C).fit(columns / np.where(norm > 0, norm, 1.0), np.asarray(y))
    weight = np.abs(machine.coef_).max(axis=0)
    if not weight.any():
        raise ValueError("no column has a weight: there is nothing to make prices of")
    rounded = np.maximum(np.round(highest * weight / weight.max()), 1.0)
    return FeatureCosts(rounded * (total / rounded.sum()), unit="units")
