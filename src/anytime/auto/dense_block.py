"""Standardised columns through one linear layer or a small network, as a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime._native import row_products
from anytime.acquisition.inputs import Inputs
from anytime.blocks import Array, Block, State

__all__ = ["DenseBlock", "Inputs"]


_CAUTIOUS_INPUT, _CAUTIOUS_PRODUCT = 2e-7, 5e-9  # seconds per row


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

    def seconds(self, stage: int, n_rows: int) -> float:
        n_products = sum(weights.size for weights, _ in self.layers)
        return n_rows * (_CAUTIOUS_INPUT * self.inputs.size + _CAUTIOUS_PRODUCT * n_products)

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
