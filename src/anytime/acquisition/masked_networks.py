"""Small networks that answer from any set of groups: trained with groups hidden at random, and told which.

One network is trained for each fold of the rows, without that fold. The answer is the mean of them all; rows are judged by the
network that has not seen them, so that what their losses say of a purchase holds for new rows too.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from anytime.blas import blas_threads
from anytime.costs import BoundCosts
from anytime.trees.clock import Clock

__all__ = ["LAYERS", "MaskedNetworks", "Masks", "Targets", "train_networks"]

Floats = NDArray[np.float32]
Layers = list[Floats]  # weights and biases of the three layers, one after the other

LAYERS = ("w1", "b1", "w2", "b2", "w3", "b3")
_BATCH = 128
# rows that pass by in a training, all epochs together, and epochs at least and at most
_ROWS_SEEN, _EPOCHS = 1_000_000, (5, 300)
# masks: budgets are this power of a share of everything, cheap groups come first by this power of their price, and this share of
# the masks does not look at prices
_THRIFT, _CHEAP_FIRST, _ANYHOW = 2.5, 0.7, 0.3
_LEARNING_RATE, _DECAY = 2e-3, 1e-4
_MOMENTS = 0.9, 0.999  # of Adam


class MaskedNetworks(NamedTuple):
    """Layers of F networks with two hidden layers, over m inputs and which of the G groups are there."""

    w1: Floats  # (F, m + G, h1)
    b1: Floats  # (F, h1)
    w2: Floats  # (F, h1, h2)
    b2: Floats  # (F, h2)
    w3: Floats  # (F, h2, K)
    b3: Floats  # (F, K)

    def scores(self, f: int, Z: Floats, owned: NDArray[np.bool_], group: NDArray[np.int32]) -> Floats:
        """(n, K) what network ``f`` says of rows with inputs ``Z``, (n, m), that own these groups, (n, G)."""
        inputs = np.concatenate([Z * owned[:, group], owned], axis=1, dtype=np.float32)
        one = np.maximum(inputs @ self.w1[f] + self.b1[f], 0.0)
        two = np.maximum(one @ self.w2[f] + self.b2[f], 0.0)
        return np.asarray(two @ self.w3[f] + self.b3[f])


class Targets(NamedTuple):
    """What rows are to be answered with."""

    values: NDArray[np.intp] | Floats  # (n,): numbers of classes; or (n, K)
    n_outputs: int
    weight: Floats | None  # (n,), of mean 1

    @property
    def are_classes(self) -> bool:
        """Whether these are numbers of classes."""
        return self.values.ndim == 1


class Masks:
    """Draws sets of groups, each of which some budget buys, for predictors to be trained with.

    Parameters
    ----------
    costs : BoundCosts
    visited : (s, G) bool, default=None
        Sets of groups that rows will have; half of the sets are drawn from these.
    """

    def __init__(self, costs: BoundCosts, visited: NDArray[np.bool_] | None = None) -> None:
        self.n_groups, self._visited, self._closure = costs.n_groups, visited, _closures(costs)
        self._prices = costs.prices / max(int(costs.prices.sum()), 1)
        self._everything, self._late = self._prices.sum(), self._prices**_CHEAP_FIRST

    def draw(self, random: np.random.Generator, n: int) -> NDArray[np.bool_]:
        """(n, G) sets, closed under requirements."""
        money = self._everything * random.random((n, 1)) ** _THRIFT
        order = (random.standard_exponential((n, self.n_groups)) * self._late).argsort(axis=1)
        mask = np.empty((n, self.n_groups), dtype=bool)
        mask[np.arange(n)[:, None], order] = self._prices[order].cumsum(axis=1) <= money
        anyhow = random.random((n, self.n_groups)) < random.random((n, 1))
        mask = np.where(random.random((n, 1)) < _ANYHOW, anyhow, mask)
        if self._closure is not None:
            mask = mask @ self._closure
        if self._visited is not None:
            visited = self._visited[random.integers(len(self._visited), size=n)]
            mask = np.where(random.random((n, 1)) < 0.5, visited, mask)
        return mask


def train_networks(
    Z: Floats,
    group: NDArray[np.int32],
    targets: Targets,
    fold: NDArray[np.int32],
    masks: Masks,
    hidden: tuple[int, int],
    *,
    clock: Clock,
    time_share: float = 1.0,
    seed: int,
    n_jobs: int | None,
    earlier: MaskedNetworks | None = None,
) -> MaskedNetworks:
    """One network for each fold, trained on all others.

    Parameters
    ----------
    Z : (n, m)
        Inputs of the rows.
    group : (m,)
        The group of each input.
    targets : Targets
    fold : (n,) int
        Numbers from 0 on.
    masks : Masks
    hidden : (int, int)
        Units of the hidden layers.
    clock : Clock
        Where time ends early, the steps that are left become small sooner.
    time_share : float, default=1
        Of the time that is left.
    seed : int
    n_jobs : int or None
    earlier : MaskedNetworks, default=None
        What to continue from.
    """
    n_folds = int(fold.max()) + 1
    allowed = (
        time_share
        * (clock.seconds - clock.elapsed)
        / math.ceil(n_folds / min(n_folds, effective_n_jobs(n_jobs)))
    )

    def one(f: int) -> Layers:
        rows = np.flatnonzero(fold != f)
        time = Clock(None if np.isinf(allowed) else max(allowed, 1e-3), 0)
        training = _NetworkTraining(Z, group, masks, targets, rows, hidden, seed + f)
        layers = training.run(time, None if earlier is None else [part[f].copy() for part in earlier])
        clock.tell(f"network {f + 1} of {n_folds} is trained")
        return layers

    with blas_threads(1):  # the same bits on any number of cores
        networks = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(one)(f) for f in range(n_folds))
    return MaskedNetworks(*(np.stack(parts) for parts in zip(*networks, strict=True)))


def _closures(costs: BoundCosts) -> NDArray[np.bool_] | None:
    """(G, G) groups that each group requires, itself included; None: none requires any."""
    closure = np.eye(costs.n_groups, dtype=bool)
    for g in range(costs.n_groups):
        closure[g, costs.table.closure(g)] = True
    return closure if closure.sum() > costs.n_groups else None


class _NetworkTraining:
    """Adam on batches of rows, each with other groups hidden; the steps shrink to nothing along half a cosine."""

    def __init__(
        self,
        Z: Floats,
        group: NDArray[np.int32],
        masks: Masks,
        targets: Targets,
        rows: NDArray[np.intp],
        hidden: tuple[int, int],
        seed: int,
    ) -> None:
        self.Z, self.group, self.masks, self.targets, self.rows = Z, group, masks, targets, rows
        self.random, self.hidden = np.random.default_rng(seed), hidden

    def run(self, clock: Clock, earlier: Layers | None) -> Layers:
        n, random = self.rows.size, self.random
        batch = min(_BATCH, n)
        least, most = (epochs * n for epochs in _EPOCHS)
        seen = min(most, max(_ROWS_SEEN, least))
        n_steps = max(seen // batch, 1)
        # one vector holds all layers, so that a step takes a few operations and not a few for each part
        weights = self._started() if earlier is None else np.concatenate([part.ravel() for part in earlier])
        layers = self._layers(weights)
        gradient, first, second, decay = (np.zeros_like(weights) for _ in range(4))
        slopes = self._layers(gradient)
        for part in self._layers(decay)[::2]:  # weights, not biases
            part[:] = _DECAY
        fastest = _LEARNING_RATE if earlier is None else 0.5 * _LEARNING_RATE
        order, at = random.permutation(self.rows), 0
        for step in range(1, n_steps + 1):
            over = max(step / n_steps, min(clock.elapsed / clock.seconds, 1.0))
            if at + batch > n:
                order, at = random.permutation(self.rows), 0
            self._differentiate(layers, order[at : at + batch], slopes)
            at += batch
            rate = fastest * 0.5 * (1.0 + np.cos(np.pi * over))
            first += (1.0 - _MOMENTS[0]) * (gradient - first)
            second += (1.0 - _MOMENTS[1]) * (gradient * gradient - second)
            size = np.sqrt(second / (1.0 - _MOMENTS[1] ** step)) + 1e-8
            weights -= rate * (first / (1.0 - _MOMENTS[0] ** step) / size + decay * weights)
            if over >= 1.0:
                break
        return layers

    def _shapes(self) -> list[tuple[int, ...]]:
        sizes = [self.Z.shape[1] + self.masks.n_groups, *self.hidden, self.targets.n_outputs]
        return [shape for inside, outside in pairwise(sizes) for shape in ((inside, outside), (outside,))]

    def _layers(self, vector: Floats) -> Layers:
        """Views of one vector, a part of each layer after the other."""
        shapes = self._shapes()
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]

    def _started(self) -> Floats:
        """(d,) random weights, and biases of zero."""
        parts = [
            self.random.standard_normal(shape).ravel() * np.sqrt(2.0 / max(shape[0], 1))
            if len(shape) == 2
            else np.zeros(shape)
            for shape in self._shapes()
        ]
        return np.concatenate(parts, dtype=np.float32)

    def _differentiate(self, layers: Layers, rows: NDArray[np.intp], slopes: Layers) -> None:
        """Write the derivatives of the mean loss of rows in all layers to ``slopes``."""
        w1, b1, w2, b2, w3, b3 = layers
        owned = self.masks.draw(self.random, rows.size)
        inputs = np.concatenate([self.Z[rows] * owned[:, self.group], owned], axis=1, dtype=np.float32)
        one = np.maximum(inputs @ w1 + b1, 0.0)
        two = np.maximum(one @ w2 + b2, 0.0)
        pull = self._pull(two @ w3 + b3, rows)
        on_two = (pull @ w3.T) * (two > 0)
        on_one = (on_two @ w2.T) * (one > 0)
        for k, (below, above) in enumerate([(inputs, on_one), (one, on_two), (two, pull)]):
            np.matmul(below.T, above, out=slopes[2 * k])
            np.add.reduce(above, axis=0, out=slopes[2 * k + 1])

    def _pull(self, scores: Floats, rows: NDArray[np.intp]) -> Floats:
        """(n, K) derivative of the mean loss in the scores: logarithmic of classes, half the square of numbers."""
        targets = self.targets
        if targets.are_classes:
            pull = np.exp(scores - scores.max(axis=1, keepdims=True))
            pull /= pull.sum(axis=1, keepdims=True)
            pull[np.arange(rows.size), targets.values[rows]] -= 1.0
        else:
            pull = scores - targets.values[rows]
        if targets.weight is not None:
            pull *= targets.weight[rows, None]
        return np.asarray(pull / rows.size, dtype=np.float32)
