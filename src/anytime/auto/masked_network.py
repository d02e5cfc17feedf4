"""One small network for all sets of groups: it is trained with groups hidden at random, and told which.

A stage on a set of groups is the network with all others hidden. What it is told of them is constant then, and becomes part of
the first layer's bias, so that the stage reads the columns of its set and nothing else.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor

from anytime.auto.dense_block import DenseBlock, Inputs
from anytime.auto.kinds import can_learn, frequent_codes, learned_from
from anytime.blocks import Block
from anytime.boosting.boosted import Training
from anytime.losses import LINKS
from anytime.plan import Array

Rows = NDArray[np.intp]
Layers = list[tuple[Array, Array]]

_HIDDEN = (128, 64)
_ROWS_SEEN = 600_000  # in all epochs together, and
_EPOCHS = (10, 150)  # at least and at most so many of these
_BATCH = 128
_UNWATCHED = 16_384  # rows learned from between two looks at the clock
_LOOK, _PATIENCE = 5, 4  # epochs between two looks at held-out rows, and looks without gain
_ASIDE = 0.1  # of the rows, to look at
_LEAST_ROWS = 800  # below which a network has too little to learn from


class MaskedNetwork:
    """A network that answers from any set of groups.

    Parameters
    ----------
    training : Training
    sets : sequence of (G,) bool
        Half of the masks in training are of these, half are drawn at random.
    seed : int

    Attributes
    ----------
    seconds : float
        That a training may take; one that has to be cut short gives nothing.
    """

    name = "network"

    def __init__(self, training: Training, sets: Sequence[NDArray[np.bool_]], seed: int) -> None:
        self.training, self.sets, self.seed = training, np.array(sets), seed
        self.codes, self.seconds = frequent_codes(training), np.inf
        self._trained: dict[int, tuple[Inputs, Layers] | None] = {}  # one for each part of the rows

    def fit(self, columns: NDArray[np.bool_], rows: Rows, number: int = 0) -> Block | None:
        """The network on the groups of some columns, trained on ``rows`` with masks of all kinds; None: it could not be."""
        if number not in self._trained:
            self._trained[number] = self._train(rows, (self.seed + number) % 2**31)
        trained = self._trained[number]
        if trained is None:
            return None
        inputs, ((weights, bias), *others) = trained
        group = self.training.costs.column_group
        owned = np.zeros(self.training.costs.n_groups, dtype=bool)
        owned[group[columns]] = True
        kept = columns[inputs.column]
        first = weights[: inputs.size][kept]
        told = bias + owned.astype(np.float64) @ weights[inputs.size :]
        return DenseBlock(inputs.taken(kept), [(first, told), *others])

    def _train(self, rows: Rows, seed: int) -> tuple[Inputs, Layers] | None:
        training, objective, began = self.training, self.training.objective, time.monotonic()
        X, y, weight = learned_from(training, rows)
        classifies, n_outputs = LINKS[training.loss.link].classifies, training.base.size
        if len(X) < _LEAST_ROWS or not can_learn(training, X, y):
            return None
        random = np.random.RandomState(seed)
        inputs = Inputs.of(X, range(X.shape[1]), self.codes, products=False)
        Z, group = inputs.matrix(X), training.costs.column_group[inputs.column]
        unit, offset = np.ones(n_outputs), np.zeros(n_outputs)
        target = y
        if not classifies:
            offset, unit = np.atleast_1d(np.mean(y, axis=0)), np.atleast_1d(np.std(y, axis=0))
            unit = np.where(unit > 0, unit, 1.0)
            target = (y - offset.reshape(y.shape[1:])) / unit.reshape(y.shape[1:])
        order = random.permutation(len(X))
        aside, learned = np.split(order, [int(_ASIDE * len(X))])
        kind = MLPClassifier if classifies else MLPRegressor
        net = kind(
            hidden_layer_sizes=_HIDDEN,
            batch_size=min(_BATCH, learned.size),
            random_state=seed,
            alpha=1e-4,
        )
        judged = self._masked(Z[aside], group, random)
        best, kept, idle = np.inf, None, 0
        low, high = _EPOCHS
        for epoch in range(min(max(_ROWS_SEEN // len(X), low), high)):
            taken = learned
            if weight is not None:  # rows come as often as they weigh
                taken = random.choice(learned, learned.size, p=weight[learned] / weight[learned].sum())
            masked = self._masked(Z[taken], group, random)
            more = {"classes": np.arange(max(n_outputs, 2))} if classifies and not epoch else {}
            for part in np.array_split(np.arange(taken.size), -(-taken.size // _UNWATCHED)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    net.partial_fit(masked[part], target[taken[part]], **more)
                if time.monotonic() - began > self.seconds:
                    return None  # a network that has not learned to its end is no match for trees
            if epoch % _LOOK:
                continue
            loss = objective.value_of(unit * _forward(net, judged) + offset, rows[aside])
            if loss < best:
                best, idle = loss, 0
                kept = [(w.copy(), b.copy()) for w, b in zip(net.coefs_, net.intercepts_, strict=True)]
            elif (idle := idle + 1) > _PATIENCE:
                break
        if kept is None:
            return None
        weights, bias = kept[-1]
        return inputs, [*kept[:-1], (weights * unit, bias * unit + offset)]

    def _masked(self, Z: Array, group: NDArray[np.int32], random: np.random.RandomState) -> Array:
        """(n, m + G) inputs of rows, each with some groups hidden, and which of them are not."""
        n, n_groups = len(Z), self.training.costs.n_groups
        known = self.sets[random.randint(len(self.sets), size=n)]
        drawn = random.uniform(size=(n, n_groups)) < random.uniform(size=(n, 1))
        mask = np.where(random.uniform(size=(n, 1)) < 0.5, known, drawn)
        return np.concatenate([Z * mask[:, group], mask], axis=1)


def _forward(net: MLPClassifier | MLPRegressor, Z: Array) -> Array:
    """(n, K) what the last layer says, before probabilities are made of it."""
    for depth, (weights, bias) in enumerate(zip(net.coefs_, net.intercepts_, strict=True)):
        Z = (Z if not depth else np.maximum(Z, 0.0)) @ weights + bias
    return Z
