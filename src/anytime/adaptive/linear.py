"""Gate and cheap model as linear models on one sparse set of features: ADAPT-LIN.

The gate is a logistic regression on soft labels, the cheap model one with weights; they are coupled by a norm over all weights
of a feature in both, so that what one uses costs the other nothing:

    ``cost_penalty * sum_a c_a ||(w_gate[a], w_cheap[a])||_2``, intercepts free.

Nan, *Learning to predict under a budget*, 2018, Algorithm 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from anytime.adaptive.routing import Divergence, KullbackLeibler, Learned
from anytime.blocks import Block, LinearBlock
from anytime.costs import BoundCosts
from anytime.losses import LINKS, Loss, training_loss
from anytime.plan import Array

__all__ = ["GroupPenalty", "LinearPair", "LinearPairLearner", "standardised"]

_SWEEPS = 200  # of the proximal step, at most, where requirements make norms overlap


class GroupPenalty:
    """Prices of groups as norms of weights.

    A group that others require is paid for by all columns that need it: its norm is over theirs and its own.

    Parameters
    ----------
    costs : BoundCosts
    cost_penalty : float
    """

    def __init__(self, costs: BoundCosts, cost_penalty: float) -> None:
        self.prices = costs.costs.amounts(costs.prices)
        self.limits = cost_penalty * self.prices
        needs = np.array([costs.closure(np.array([g], dtype=np.int32)) for g in range(costs.n_groups)])
        self._columns = [np.flatnonzero(needs[costs.column_group, g]) for g in range(costs.n_groups)]
        self._own = costs.column_group
        self._overlap = sum(columns.size for columns in self._columns) > costs.column_group.size
        # with requirements, dependants come first: one sweep is then exact where requirements form a tree
        self._order = [g for g in np.argsort(-needs.sum(axis=1), kind="stable") if self._columns[g].size]

    def norms(self, weights: Array) -> Array:
        """(G,) Lengths of the weights (d, m) that pay for each group."""
        if not self._overlap:
            return self._own_norms(weights)
        return np.array([np.linalg.norm(weights[columns]) for columns in self._columns])

    def _own_norms(self, weights: Array) -> Array:
        squares = np.einsum("dm,dm->d", weights, weights)
        return np.sqrt(np.bincount(self._own, squares, minlength=self.limits.size))

    def value(self, weights: Array) -> float:
        """The penalty of weights (d, m)."""
        return float(self.limits @ self.norms(weights))

    def shrink(self, weights: Array, step: float) -> Array:
        """The proximal step: the minimiser of ``|w - weights|² / 2 + step * penalty(w)``."""
        if self._overlap:
            return self._shrink_overlapping(weights, step)
        length, limit = self._own_norms(weights), step * self.limits
        kept = np.divide(length - limit, length, out=np.zeros_like(length), where=length > limit)
        return np.asarray(weights * kept[self._own, None])

    def _shrink_overlapping(self, weights: Array, step: float) -> Array:
        """By block coordinate ascent in the dual: each norm takes off what is left by the others, up to its limit."""
        left = weights.copy()
        taken = {g: np.zeros((self._columns[g].size, weights.shape[1])) for g in self._order}
        for _ in range(_SWEEPS):
            change = 0.0
            for g in self._order:
                columns, limit = self._columns[g], step * self.limits[g]
                whole = left[columns] + taken[g]
                length = float(np.linalg.norm(whole))
                new = whole if length <= limit else whole * (limit / length)
                change = max(change, float(np.abs(new - taken[g]).max(initial=0.0)))
                left[columns], taken[g] = whole - new, new
            if change <= 1e-12 * (1.0 + float(np.abs(weights).max(initial=0.0))):
                break
        return left


@dataclass(frozen=True, eq=False)
class LinearPair(Learned):
    """A gate and a cheap model that are linear.

    Attributes
    ----------
    weights : (d, 1 + K)
        Of the standardised columns: the gate's, then the cheap model's.
    intercepts : (1 + K,)
    """

    weights: Array
    intercepts: Array

    @property
    def support(self) -> NDArray[np.intp]:
        """Columns that gate or cheap model uses."""
        return np.flatnonzero((self.weights != 0).any(axis=1))


class LinearPairLearner:
    """Learns gate and cheap model as linear models.

    Parameters
    ----------
    X : (n, d)
        A missing value counts as the mean of its column.
    y : (n,) int
        Numbers of classes; for another ``loss`` the targets that it takes.
    costs : BoundCosts
    n_classes : int, default=None
        None: as many as there are in ``y``.
    loss : Loss, default=None
        Of the cheap model, convex and smooth. None: the logarithmic one, for classes.
    cost_penalty : float, default=0
        Mean loss that one unit of cost must save.
    divergence : Divergence, default=KullbackLeibler()
    weight : (n,), default=None
    standardise : bool, default=True
        Penalise the weights of columns of mean 0 and deviation 1.
    l2_regularization : float, default=1e-6
        Half of it times the squared length of the weights is added: separable rows have no finite solution without.
    max_steps : int, default=200
        Of the accelerated proximal gradient, per turn.
    tol : float, default=1e-6
        Length of the last step, relative to the weights, at which they end.
    """

    def __init__(
        self,
        X: Array,
        y: NDArray[Any],
        costs: BoundCosts,
        *,
        n_classes: int | None = None,
        loss: Loss | None = None,
        cost_penalty: float = 0.0,
        divergence: Divergence | None = None,
        weight: Array | None = None,
        standardise: bool = True,
        l2_regularization: float = 1e-6,
        max_steps: int = 200,
        tol: float = 1e-6,
    ) -> None:
        if loss is None:
            n_classes = int(y.max()) + 1 if n_classes is None else n_classes
            loss = training_loss("logistic" if n_classes == 2 else "multinomial")
        elif loss.smoothness is None:
            raise ValueError(
                f"the loss {loss.name!r} has no smoothness constant, so the step size is unknown; give Loss(..., smoothness=...)"
            )
        self.divergence = KullbackLeibler() if divergence is None else divergence
        self.loss = loss
        self.n_outputs = loss.n_outputs(y) if n_classes is None else LINKS[loss.link].n_outputs(n_classes)
        self.y, self.cost_penalty, self.l2_regularization, self.max_steps, self.tol = (
            y,
            cost_penalty,
            l2_regularization,
            max_steps,
            tol,
        )
        weights = np.ones(len(y)) if weight is None else weight
        self.share = weights / weights.sum()
        self.mean, self.scale, self.Z = standardised(X, self.share, standardise)
        self.costs, self.penalty = costs, GroupPenalty(costs, cost_penalty)
        ones = np.column_stack([self.Z, np.ones(len(y))])
        spread = float(np.linalg.norm(ones.T @ (self.share[:, None] * ones), 2))
        self.bend = max(self.divergence.smoothness, self.loss.smoothness or 1.0) * spread + l2_regularization

    # ------------------------------------------------------------------ starts

    def at(self, weights: ArrayLike, intercepts: ArrayLike) -> LinearPair:
        """Gate and cheap model with given weights (d, 1 + K) and intercepts (1 + K,)."""
        W = np.array(
            np.broadcast_to(np.asarray(weights, dtype=np.float64), (self.Z.shape[1], 1 + self.n_outputs))
        )
        b = np.array(np.broadcast_to(np.asarray(intercepts, dtype=np.float64), 1 + self.n_outputs))
        scores = self.Z @ W + b
        return LinearPair(
            gate=scores[:, 0],
            cheap_loss=self.loss.per_row(scores[:, 1:], self.y),
            penalty=self.penalty.value(W) + 0.5 * self.l2_regularization * float((W**2).sum()),
            blocks=lambda: self._blocks(W, b),
            weights=W,
            intercepts=b,
        )

    def start(self, random: np.random.RandomState | None) -> LinearPair:
        """No gate and, for classes, a ridge-regularised logistic regression on all columns; with ``random``, Gaussian weights."""
        W, b = np.zeros((self.Z.shape[1], 1 + self.n_outputs)), np.zeros(1 + self.n_outputs)
        if random is not None:
            wide = 3.0 ** random.uniform()  # narrow starts all end in the same minimum
            W[:], b[:] = wide * random.standard_normal(W.shape), wide * random.standard_normal(b.shape)
        elif LINKS[self.loss.link].classifies and np.unique(self.y).size > 1:
            fitted = LogisticRegression(max_iter=200).fit(self.Z, self.y, self.share * len(self.y))
            present = np.unique(self.y) if self.n_outputs > 1 else np.zeros(1, dtype=np.intp)
            W[:, 1 + present], b[1 + present] = (
                fitted.coef_.T[:, : present.size],
                fitted.intercept_[: present.size],
            )
        return self.at(W, b)

    # ------------------------------------------------------------------ the M-step

    def learn(self, probabilities: Array, before: Learned) -> LinearPair:
        """Minimise the convex M-step, from the weights before; it never gets worse."""
        assert isinstance(before, LinearPair)
        target, stays = self.divergence.target(probabilities), self.share * (1.0 - probabilities)
        return self._descend(before, target, stays, self.penalty, self.max_steps, self.tol)

    def slopes(self, pair: LinearPair, probabilities: Array) -> tuple[Array, Array]:
        """Derivatives of the smooth part in weights and intercepts: what the conditions of optimality are about."""
        target, stays = self.divergence.target(probabilities), self.share * (1.0 - probabilities)
        return self._slopes(pair.weights, self.Z @ pair.weights + pair.intercepts, target, stays)

    def _descend(
        self,
        start: LinearPair,
        target: Array,
        stays: Array,
        penalty: GroupPenalty,
        max_steps: int,
        tol: float,
    ) -> LinearPair:
        """Accelerated proximal gradient; momentum is dropped where the objective rises (O'Donoghue and Candès, 2015)."""
        W, b = start.weights, start.intercepts
        scores = self.Z @ W + b
        step = 1.0 / self.bend
        now = self._objective(W, scores, target, stays, penalty)
        ahead_W, ahead_b, ahead, momentum = W, b, scores, 1.0
        for _ in range(max_steps):
            in_W, in_b = self._slopes(ahead_W, ahead, target, stays)
            new_W, new_b = penalty.shrink(ahead_W - step * in_W, step), ahead_b - step * in_b
            new = self.Z @ new_W + new_b
            value = self._objective(new_W, new, target, stays, penalty)
            if value > now and momentum > 1.0:
                ahead_W, ahead_b, ahead, momentum = W, b, scores, 1.0
                continue
            if value > now:
                break  # a plain step does not help any more: this is as far as rounding lets one go
            moved = max(float(np.abs(new_W - ahead_W).max(initial=0.0)), float(np.abs(new_b - ahead_b).max()))
            following = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * momentum**2)))
            push = (momentum - 1.0) / following
            ahead_W, ahead_b = new_W + push * (new_W - W), new_b + push * (new_b - b)
            ahead = new + push * (new - scores)
            W, b, scores, now, momentum = new_W, new_b, new, value, following
            if moved <= tol * (1.0 + float(np.abs(W).max(initial=0.0))):
                break
        return self.at(W, b)

    def _objective(
        self, W: Array, scores: Array, target: Array, stays: Array, penalty: GroupPenalty
    ) -> float:
        value = stays @ self.loss.per_row(scores[:, 1:], self.y)
        value += self.share @ self.divergence.gate_loss(scores[:, 0], target)
        return float(value + penalty.value(W) + 0.5 * self.l2_regularization * (W**2).sum())

    def _slopes(self, W: Array, scores: Array, target: Array, stays: Array) -> tuple[Array, Array]:
        slope = np.empty_like(scores)
        slope[:, 0] = self.share * self.divergence.gate_slope(scores[:, 0], target)
        slope[:, 1:] = stays[:, None] * self.loss.required_gradient()(scores[:, 1:], self.y)
        return self.Z.T @ slope + self.l2_regularization * W, slope.sum(axis=0)

    # ------------------------------------------------------------------ what remains

    def _blocks(self, W: Array, b: Array) -> tuple[Block, Block]:
        return self._block(W[:, :1], b[:1]), self._block(W[:, 1:], b[1:])

    def _block(self, W: Array, b: Array) -> LinearBlock:
        used = np.flatnonzero((W != 0).any(axis=1)).astype(np.int32)
        table = W[used] / self.scale[used, None]
        return LinearBlock(used, table, intercepts=b[None, :], centres=self.mean[used])


def standardised(X: Array, share: Array, standardise: bool) -> tuple[Array, Array, Array]:
    """Centres and scales of the columns, and the rows so measured; a missing or infinite value counts as the centre."""
    finite = np.isfinite(X)
    filled = np.where(finite, X, 0.0)
    mass = share @ finite
    mean = np.divide(share @ filled, mass, out=np.zeros(X.shape[1]), where=mass > 0)
    if not standardise:
        return np.zeros_like(mean), np.ones_like(mean), np.where(finite, X, mean)
    centred = np.where(finite, X - mean, 0.0)
    deviation = np.sqrt(share @ centred**2)
    scale = np.where(deviation > 1e-12 * (1.0 + np.abs(mean)), deviation, 1.0)
    constant = deviation <= 1e-12 * (1.0 + np.abs(mean))
    return mean, scale, np.where(constant, 0.0, centred / scale)
