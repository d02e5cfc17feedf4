"""Two small sets in the plane on which a gate, a cheap and a costly model can be looked at."""

from __future__ import annotations

import numpy as np

from anytime.costs import FeatureCosts
from anytime_research.datasets.dataset import PublicDataset as Dataset

__all__ = ["make_ambiguous_centre", "make_misleading_feature"]

_CENTRES = ((1, 1), (-1, 1), (-1, -1), (-1, -3))
_SIZES = (20, 20, 15, 15)
_CLASSES = (1, 0, 1, 0)


def make_ambiguous_centre() -> Dataset:
    """1000 rows of two classes in the plane, each of two clusters: easy outside, and mixed where the clusters meet.

    Synthetic-1 of Nan, *Learning to predict under a budget*, 2018, section 5.4 and appendix A.2.1, which
    shows the power of adaptation: a cheap model learns to fit the region that a gate leaves to it, and the rest goes to a
    costly model. Columns cost nothing.

    Examples
    --------
    >>> data = make_ambiguous_centre()
    >>> data.X.shape, data.costs.total
    ((1000, 2), 0.0)
    """
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_samples=1000,
        n_features=2,
        n_informative=2,
        n_redundant=0,
        n_clusters_per_class=2,
        flip_y=0.01,
        random_state=17,
    )
    return Dataset(
        np.asarray(X),
        np.asarray(y),
        FeatureCosts([0.0, 0.0]),
        name="ambiguous centre",
        description="two classes of two clusters each, mixed where they meet",
        feature_names=("x0", "x1"),
        target_names=("0", "1"),
    )


def make_misleading_feature(
    *, spread: float = 0.01, random_state: int | np.random.Generator | None = 0
) -> Dataset:
    """70 rows in four tight clusters: the column that says more of the class is not the one to buy.

    Synthetic-2 of Nan, *Learning to predict under a budget*, 2018, section 5.4 and appendix A.2.2, which
    shows the power of learning gate and cheap model together. Each column costs 1, and with both a costly model is always
    right. Alone, the first column is the better one; a gate that has it can keep the first cluster only, and the average row
    pays 120/70. With the second column a gate can keep the last two clusters, and the average row pays 110/70.

    Rows stand cluster by cluster: 20 about (1, 1), 20 about (-1, 1), 15 about (-1, -1), 15 about (-1, -3), of the classes 1, 0,
    1 and 0. The thesis does not print the classes; these are the ones with which its story holds.

    Parameters
    ----------
    spread : float, default=0.01
        Standard deviation of the clusters.
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> X, y, costs = make_misleading_feature()
    >>> (X.T @ (2 * y - 1) / len(y)).round(2).tolist()  # how far each column goes with the class
    [0.57, 0.43]
    """
    if not spread >= 0:
        raise ValueError(f"spread must not be negative, not {spread}")
    cluster = np.repeat(np.arange(len(_SIZES)), _SIZES)
    noise = np.random.default_rng(random_state).standard_normal((cluster.size, 2))
    return Dataset(
        np.asarray(_CENTRES)[cluster] + spread * noise,
        np.asarray(_CLASSES)[cluster],
        FeatureCosts([1.0, 1.0], unit="columns"),
        name="misleading feature",
        description="four tight clusters of which one column keeps one apart, and the other two",
        feature_names=("x0", "x1"),
        target_names=("0", "1"),
    )
