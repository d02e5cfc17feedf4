"""Standardised columns through one linear layer or a small network, as a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime._native import row_products
from anytime.blocks import Array, Block, State

VALUE, MISSING, CATEGORY = 0, 1, 2  # what an input says of its column
_FURTHEST = 8.0  # deviations from the mean beyond which a value counts as no further


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


class DenseBlock(Block):
    """One stage: layers over inputs, with ReLU between them.

    Parameters
    ----------
    inputs : Inputs
    layers : sequence of ((m, h), (h,))
        Weights and biases. One layer is a linear model.
    """

    kind = "dense"
    n_stages = 1

    def __init__(self, inputs: Inputs, layers: Sequence[tuple[Array, Array]]) -> None:
        self.inputs = inputs
        self.layers = [
            (np.ascontiguousarray(w, dtype=np.float64), np.asarray(b, dtype=np.float64)) for w, b in layers
        ]
        self.width = self.layers[-1][1].size
        sizes = [inputs.size, *(bias.size for _, bias in self.layers)]
        shapes = [weights.shape for weights, _ in self.layers]
        if shapes != list(pairwise(sizes)):
            raise ValueError(f"layers of shapes {shapes} do not follow each other from {inputs.size} inputs")
        if not all(np.isfinite(part).all() for layer in self.layers for part in layer):
            raise ValueError("layers must be finite")
        if not (
            np.isfinite(inputs.centre).all() and (inputs.scale > 0).all() and np.isfinite(inputs.scale).all()
        ):
            raise ValueError("inputs need finite centres and positive scales")

    def columns(self, stage: int) -> NDArray[np.int32]:
        return np.unique(self.inputs.column)

    def outputs(self, stage: int, X: Array) -> Array:
        z = self.inputs.matrix(X)
        for depth, (weights, bias) in enumerate(self.layers):
            z = row_products(z if not depth else np.maximum(z, 0.0), weights) + bias
        return z

    def head(self, n_stages: int) -> DenseBlock:
        return self

    def state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            **{name: part for name, part in self.inputs._asdict().items() if name != "column"},
            "columns": self.inputs.column,
            "sizes": np.array([bias.size for _, bias in self.layers], dtype=np.int64),
            "weights": np.concatenate([weights.ravel() for weights, _ in self.layers]),
            "biases": np.concatenate([bias for _, bias in self.layers]),
        }
        return {}, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> DenseBlock:
        """Read what ``state`` gave."""
        sizes = arrays["sizes"].tolist()
        m = arrays["columns"].size
        per_input = [arrays[name] for name in ("kind", "centre", "scale")]
        pairs = arrays["pairs"]
        fits = all(part.shape == (m,) for part in per_input) and pairs.shape[1:] == (2,)
        if (
            not fits
            or not sizes
            or min(sizes) < 1
            or (pairs.size and not 0 <= pairs.min() <= pairs.max() < m)
        ):
            raise ValueError("the inputs of a dense block do not fit together")
        ends = np.cumsum(np.array([m + len(pairs), *sizes])[:-1] * sizes)
        if ends[-1] != arrays["weights"].size or sum(sizes) != arrays["biases"].size:
            raise ValueError("the layers of a dense block do not fit its sizes")
        weights = np.split(arrays["weights"], ends[:-1])
        biases = np.split(arrays["biases"], np.cumsum(sizes)[:-1])
        layers = [(w.reshape(-1, size), b) for w, b, size in zip(weights, biases, sizes, strict=True)]
        kind, centre, scale = per_input
        return cls(Inputs(arrays["columns"], kind, centre, scale, pairs), layers)
