"""Rows of a sparse matrix, of which second moments are all that is wanted: nothing is filled up with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anytime.spreading import SpreadRows


class SparseRows(SpreadRows):
    """Rows of a CSR array that can be counted and chosen, and whose moments are sparse products."""

    def __init__(self, rows: Any) -> None:
        self.rows = csr_array(rows)
        self.shape = self.rows.shape

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: NDArray[np.integer[Any] | np.bool_]) -> SparseRows:
        return SparseRows(self.rows[np.flatnonzero(rows) if rows.dtype == bool else rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All zeros written out, for workers of a cluster."""
        return np.asarray(self.rows.toarray(), dtype=dtype)

    def add_to_moments(self, sums: list[Any], Y: Any, weight: Any, which: NDArray[np.intp]) -> None:
        """Add each row to one of several ``linear.moments.Moments``, that of its number in ``which`` (n,)."""
        sums[0].locate_at_zero(Y)
        for number, moments in enumerate(sums):
            moments.shift, moments.target_shift = sums[0].shift, sums[0].target_shift
            rows = np.flatnonzero(which == number)
            if rows.size:
                moments.add_sparse(self.rows[rows], Y[rows], None if weight is None else weight[rows])
