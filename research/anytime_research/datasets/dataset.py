"""What public sets know beside what every ``Dataset`` of the package does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.datasets import Dataset

__all__ = ["PublicDataset"]


class PublicDataset(Dataset):
    """A ``Dataset`` with what rankings, algorithm selection and official folds need.

    Attributes
    ----------
    folds : (n,) int array or None
        The official fold of each row, counted from 1.
    qid : (n,) int array or None
        The query of each row, for ranking.
    blocks : (n,) array or None
        Rows with the same entry describe one thing and belong on the same side of a split.
    row_costs : (n, G) array or None
        What each group cost for each row, where it was measured row by row; NaN where it was not bought there.
    runtimes, solved : (n, A) arrays or None
        Algorithm selection: seconds of each solver on each row, and whether it finished.
    categories : mapping from str to tuple of str, or None
        The values behind the codes 0, 1, 2, … of the columns that were words.
    """

    folds: NDArray[np.intp] | None = None
    qid: NDArray[np.int64] | None = None
    blocks: NDArray[Any] | None = None
    row_costs: NDArray[np.float64] | None = None
    runtimes: NDArray[np.float64] | None = None
    solved: NDArray[np.bool_] | None = None
    categories: Mapping[str, Sequence[str]] | None = None
