"""From the hull of a search to a plan: every network of the hull is a stage that replaces the one before."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from anytime.costs import BoundCosts
from anytime.growth.cells import GrownNetwork
from anytime.growth.network_growth import Scaling
from anytime.networks.block import NetworkBlock

Array = NDArray[np.float64]

__all__ = ["ColumnPrices", "Gallery", "increments", "nested", "spread_out"]


@dataclass(frozen=True)
class ColumnPrices:
    """What columns cost that a network reads: their groups, each once, with all that these require."""

    bound: BoundCosts

    def __call__(self, columns: Sequence[int]) -> float:
        """The price of all of them together."""
        groups = self.bound.groups_of(np.asarray(columns, dtype=np.int32))
        return float(self.bound.costs.price([self.bound.costs.names[g] for g in groups]))


@dataclass(frozen=True)
class Gallery:
    """How networks of a search become stages."""

    input_shape: tuple[int, ...]
    scaling: Scaling  # that of training
    # (K,): of targets that were scaled in training
    offset: Array | None
    unit: Array | None
    device: torch.device
    dtype: torch.dtype
    batch_rows: int = 1024

    def stage(self, network: GrownNetwork, temperature: float = 1.0) -> NetworkBlock:
        """A network as one stage, which reads the columns of its parts."""
        grown = network.grown
        d = int(np.prod(self.input_shape))
        columns = grown.columns() if grown.space == "table" else range(d)
        own = copy.deepcopy(network)
        if grown.space == "module":
            own.architecture = None
        return NetworkBlock(
            own,
            [np.asarray(columns)],
            self.input_shape,
            centre=self.scaling.centre,
            spread=self.scaling.spread,
            temperatures=[temperature],
            offset=self.offset,
            unit=self.unit,
            device=self.device,
            batch_rows=self.batch_rows,
            dtype=self.dtype,
            width=grown.n_outputs,
        )


def nested(columns: Sequence[Sequence[int]]) -> list[int]:
    """Networks by cost, each of which reads everything that cheaper ones read: the last, and backwards those that fit."""
    kept = [len(columns) - 1]
    for i in reversed(range(len(columns) - 1)):
        if set(columns[i]) <= set(columns[kept[0]]):
            kept.insert(0, i)
    return kept


def spread_out(costs: Sequence[float], most: int) -> list[int]:
    """At most ``most`` of several costs, the last among them, evenly on the logarithm."""
    n = len(costs)
    if n <= most:
        return list(range(n))
    logs = np.log(np.maximum(np.asarray(costs, dtype=np.float64), 1e-9))
    if most == 1:
        return [n - 1]
    marks = np.linspace(logs[0], logs[-1], most)
    nearest = {int(np.abs(logs - mark).argmin()) for mark in marks}
    return sorted(nearest | {0, n - 1})


def increments(costs: Sequence[float]) -> Array:
    """By how much each stage costs more than the one before: a known budget runs one network, and not those before it."""
    rising = np.maximum.accumulate(np.asarray(costs, dtype=np.float64))
    return np.diff(rising, prepend=0.0)
