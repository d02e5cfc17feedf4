"""Numbers made of columns for linear models and networks: standardised values, what is missing, categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Array

VALUE, MISSING, CATEGORY = 0, 1, 2  # what an input says of its column
_FURTHEST = 8.0  # deviations from the mean beyond which a value counts as no further
_MOST_STEPS, _MOST_INPUTS = 8, 1024  # of a column, and of all together


class Inputs(NamedTuple):
    """Numbers made of columns: ``m`` of one column each, then products of pairs of these."""

    column: NDArray[np.int32]  # (m,)
    kind: NDArray[np.int32]  # (m,): VALUE, MISSING or CATEGORY
    # (m,) each: a value is (x - centre) / scale, 0 where it is missing; a category is 1 where x is the centre
    centre: Array
    scale: Array
    pairs: NDArray[np.int32]  # (p, 2): places among the m

    @classmethod
    def of(
        cls, X: Array, columns: Sequence[int], categories: Mapping[int, Sequence[int]], products: bool
    ) -> Inputs:
        """Inputs that say all of some columns; ``categories``: which codes of each categorical one."""
        made: list[tuple[int, int, float, float]] = []
        for column in columns:
            x = X[:, column]
            missing = np.isnan(x)
            if column in categories:
                made += [(column, CATEGORY, float(code), 1.0) for code in categories[column]]
            elif not missing.all():
                spread = float(np.nanstd(x))
                made.append((column, VALUE, float(np.nanmean(x)), spread if spread > 0 else 1.0))
            if missing.any() and not missing.all():
                made.append((column, MISSING, 0.0, 1.0))
        of, kind, centre, scale = (np.array([entry[part] for entry in made]) for part in range(4))
        values = np.flatnonzero(kind == VALUE)
        pairs = (
            np.stack(np.triu_indices(values.size), axis=1) if products else np.empty((0, 2), dtype=np.intp)
        )
        return cls(
            of.astype(np.int32),
            kind.astype(np.int32),
            centre.astype(np.float64),
            scale.astype(np.float64),
            (values[pairs] if products else pairs).astype(np.int32),
        )

    @property
    def size(self) -> int:
        """Number of inputs, products included."""
        return self.column.size + len(self.pairs)

    def taken(self, which: NDArray[np.bool_]) -> Inputs:
        """Some of the ``m`` inputs of one column; there must be no products."""
        return Inputs(self.column[which], self.kind[which], self.centre[which], self.scale[which], self.pairs)

    def matrix(self, X: Array) -> Array:
        """(n, m + p) the inputs of rows."""
        x = X[:, self.column]
        missing = np.isnan(x)
        z = np.clip((x - self.centre) / self.scale, -_FURTHEST, _FURTHEST)
        z[missing] = 0.0
        if (self.kind != VALUE).any():
            z = np.where(self.kind == MISSING, missing, z)
            z = np.where(self.kind == CATEGORY, x == self.centre, z)
        if not len(self.pairs):
            return np.ascontiguousarray(z)
        return np.concatenate([z, z[:, self.pairs[:, 0]] * z[:, self.pairs[:, 1]]], axis=1)


class ValueSteps(NamedTuple):
    """More numbers made of inputs: how far a value has come from one quantile to the next, between -0.5 and 0.5.

    With these a small network can treat a column as a tree does, where a value alone would be a straight line to it (piecewise
    linear encoding: Gorishniy et al., *On embeddings for numerical features*, 2022).
    """

    source: NDArray[np.int32]  # (s,): the input that each is made of
    low: NDArray[np.float32]  # (s,) each: between which values of it
    high: NDArray[np.float32]

    @classmethod
    def of(cls, Z: NDArray[np.float32], inputs: Inputs) -> ValueSteps:
        """Steps between quantiles of all values; fewer of each where there are many columns."""
        n_steps = min(_MOST_STEPS, _MOST_INPUTS // max(inputs.column.size, 1) - 1)
        made: list[tuple[int, float, float]] = []
        for j in np.flatnonzero(inputs.kind == VALUE) if n_steps > 1 else ():
            edges = np.unique(np.quantile(Z[:, j], np.linspace(0, 1, n_steps + 1)).astype(np.float32))
            if edges.size > 2:
                made += [(int(j), float(low), float(high)) for low, high in pairwise(edges)]
        source, low, high = (np.array([step[part] for step in made]) for part in range(3))
        return cls(source.astype(np.int32), low.astype(np.float32), high.astype(np.float32))

    def expanded(self, Z: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, m + s) inputs, and what is made of them."""
        if not self.source.size:
            return np.ascontiguousarray(Z)
        steps = np.clip((Z[:, self.source] - self.low) / (self.high - self.low), 0.0, 1.0) - np.float32(0.5)
        return np.ascontiguousarray(np.concatenate([Z, steps], axis=1, dtype=np.float32))
