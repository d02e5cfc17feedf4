"""Which rows go to the costly model: the objective that gate and cheap model share, and its alternating minimisation.

A gate ``g`` sends a row to the costly model with probability ``sigma(g(x))``. Gate and cheap model are learned together with
routing probabilities ``q``, one per training row, by lowering in turns

    mean [ q l0 + (1 - q) l1 + D(q, g) ]  +  cost_penalty * cost of all features that gate and cheap model use

under ``mean q <= fraction``: ``l0`` and ``l1`` are the losses of the costly and the cheap model, ``D`` says how far the gate is
from ``q``. Everywhere in this package a gate's score above 0 means: send it to the costly model. (OPT) of Nan, *Learning to
predict under a budget*, 2018, chapter 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, xlogy

from anytime.blocks import Block
from anytime.losses import Loss, training_loss

Array = NDArray[np.float64]

__all__ = [
    "Alternation",
    "Divergence",
    "KullbackLeibler",
    "Learned",
    "PairLearner",
    "Terms",
    "alternate",
    "best_of",
    "routing_probabilities",
]


# ---------------------------------------------------------------------- the q-step


def routing_probabilities(
    excess: ArrayLike, gate: ArrayLike, fraction: float, weight: ArrayLike | None = None
) -> tuple[Array, float]:
    """The best probabilities of going to the costly model, given gate and cheap model (OPT1).

    ``q = sigma(g + (l1 - l0) - beta)``: log-odds are the gate's score, plus what the cheap model loses, less the price of the
    budget. ``beta`` is 0 where that leaves ``mean q <= fraction``; otherwise it is found by bisection, and the feasible end of
    the last interval is taken.

    Parameters
    ----------
    excess : (n,)
        ``l1 - l0``: how much worse the cheap model is.
    gate : (n,)
    fraction : float
        Rows that may be sent, on average. At most 0: none; at least 1: no limit.
    weight : (n,), default=None

    Returns
    -------
    probabilities : (n,)
    beta : float

    Examples
    --------
    >>> q, beta = routing_probabilities([0.8, 1.9, 0.2, 2.6], 0.0, 0.5)
    >>> q.round(4), round(beta, 4)
    (array([0.3608, 0.6291, 0.2365, 0.7735]), 1.3717)
    """
    odds = np.asarray(excess, dtype=np.float64) + np.asarray(gate, dtype=np.float64)
    if fraction <= 0:
        return np.zeros_like(odds), np.inf

    weights = None if weight is None else np.asarray(weight, dtype=np.float64)

    def sent(price: float) -> float:
        return float(np.average(expit(odds - price), weights=weights))

    if fraction >= 1 or sent(0.0) <= fraction:
        return expit(odds), 0.0
    beta = smallest_price(
        sent, fraction, max(0.0, odds.min() - logit(fraction)), odds.max() - logit(fraction)
    )
    return expit(odds - beta), beta


def smallest_price(
    sent: Callable[[float], float], fraction: float, low: float, high: float, steps: int = 200
) -> float:
    """Where a falling function meets ``fraction``, by bisection; at what is returned it is not above it."""
    while sent(high) > fraction:  # the end of the bracket may be a rounding error too low
        high += max(1e-12, abs(high) * 1e-12)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if sent(middle) <= fraction:
            high = middle
        else:
            low = middle
    return float(high)


def shares_of(weight: ArrayLike | None, n: int) -> Array:
    """(n,) Weights that add up to 1."""
    if weight is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(weight, dtype=np.float64)
    return np.asarray(weights / weights.sum())


# ---------------------------------------------------------------------- how far a gate is from the probabilities


class Divergence(Protocol):
    """How far a gate is from routing probabilities, and the best probabilities under it."""

    loss: Loss  # by which a gate is fitted: to ``target(q)``, each row counting ``scale``
    scale: float
    smoothness: float  # the most that ``gate_loss`` bends

    def target(self, probabilities: Array) -> Array:
        """(n,) What the gate has to match."""

    def gate_loss(self, gate: Array, target: Array) -> Array:
        """(n,) The part of ``per_row`` that depends on the gate."""

    def gate_slope(self, gate: Array, target: Array) -> Array:
        """(n,) Its derivative in the gate."""

    def per_row(self, probabilities: Array, gate: Array) -> Array:
        """(n,) How far it is from it."""

    def probabilities(
        self, excess: Array, gate: Array, fraction: float, weight: Array | None = None
    ) -> tuple[Array, float]:
        """The best probabilities for this gate, and the multiplier of the constraint."""


class KullbackLeibler:
    """``KL(q || sigma(g))``: the gate is a logistic regression on soft labels."""

    loss = training_loss("logistic")
    scale = 1.0
    smoothness = 0.25

    def target(self, probabilities: Array) -> Array:
        """The probabilities themselves."""
        return probabilities

    def gate_loss(self, gate: Array, target: Array) -> Array:
        """(n,) The logistic loss on soft labels."""
        return np.asarray(np.logaddexp(0.0, gate) - target * gate)

    def gate_slope(self, gate: Array, target: Array) -> Array:
        """(n,) Its derivative."""
        return np.asarray(expit(gate) - target)

    def per_row(self, probabilities: Array, gate: Array) -> Array:
        """(n,) ``KL(q || sigma(g))``."""
        entropy = xlogy(probabilities, probabilities) + xlogy(1.0 - probabilities, 1.0 - probabilities)
        return np.asarray(entropy + self.gate_loss(gate, probabilities))

    def probabilities(
        self, excess: Array, gate: Array, fraction: float, weight: Array | None = None
    ) -> tuple[Array, float]:
        """See ``routing_probabilities``."""
        return routing_probabilities(excess, gate, fraction, weight)


# ---------------------------------------------------------------------- the objective


@dataclass(frozen=True)
class Terms:
    """The objective, term by term."""

    losses: float
    divergence: float
    cost: float  # already times cost_penalty

    @property
    def total(self) -> float:
        """Their sum."""
        return self.losses + self.divergence + self.cost


@dataclass(frozen=True, eq=False)
class Learned:
    """A gate and a cheap model.

    Attributes
    ----------
    gate : (n,)
        Scores of the training rows.
    cheap_loss : (n,)
        Of the training rows.
    penalty : float
        ``cost_penalty`` times the cost of what both use, as the learner counts it.
    blocks : callable
        Gives the gate, a block of one stage and one output, and the cheap model, a block of one stage.
    """

    gate: Array
    cheap_loss: Array
    penalty: float
    blocks: Callable[[], tuple[Block, Block]] = field(repr=False)


class PairLearner(Protocol):
    """A learner of a gate and a cheap model for given routing probabilities (the M-step)."""

    divergence: Divergence

    def start(self, random: np.random.RandomState | None) -> Learned:
        """Where to begin; with ``random``, somewhere else each time."""

    def learn(self, probabilities: Array, before: Learned) -> Learned:
        """Gate and cheap model for these probabilities, warm from those before."""


@dataclass(frozen=True, eq=False)
class Alternation:
    """The outcome of alternating.

    Attributes
    ----------
    learned : Learned
    probabilities : (n,)
        Of the training rows, best for the gate and the cheap model that were kept.
    beta : float
        Price of sending one more row.
    terms : Terms
    trace : list of float
        The objective after each q-step, that of the start first.
    interrupted : bool, default=False
        Whether Ctrl-C ended it.
    """

    learned: Learned
    probabilities: Array
    beta: float
    terms: Terms
    trace: list[float]
    interrupted: bool = False


def alternate(
    learner: PairLearner,
    costly_loss: Array,
    fraction: float,
    *,
    weight: Array | None = None,
    start: Learned | None = None,
    max_iter: int = 50,
    tol: float = 1e-6,
    over: Callable[[], bool] = lambda: False,
) -> Alternation:
    """Lower the objective in turns, until it changes by less than a share ``tol``; the best that was met is kept.

    Ctrl-C ends it with what there is, from the second turn on.

    Parameters
    ----------
    learner : PairLearner
    costly_loss : (n,)
    fraction : float
        The most rows sent to the costly model, on average.
    weight : (n,), default=None
    start : Learned, default=None
        None: ``learner.start(None)``.
    max_iter : int, default=50
        Turns; at least one.
    tol : float, default=1e-6
    over : callable, default=never
        Whether time is up: asked after each turn.
    """
    shares = shares_of(weight, costly_loss.size)
    learned = learner.start(None) if start is None else start
    probabilities, beta, terms = _judge(learned, learner.divergence, costly_loss, fraction, shares)
    trace = [terms.total]
    best: Alternation | None = None
    for _ in range(max(max_iter, 1)):
        try:
            learned = learner.learn(probabilities, learned)
        except KeyboardInterrupt:
            if best is None:
                raise
            return replace(best, interrupted=True)
        probabilities, beta, terms = _judge(learned, learner.divergence, costly_loss, fraction, shares)
        trace.append(terms.total)
        if best is None or terms.total < best.terms.total:
            best = Alternation(learned, probabilities, beta, terms, trace)
        if abs(trace[-2] - trace[-1]) <= tol * max(abs(trace[-1]), 1e-12) or over():
            break
    assert best is not None
    return best


def _judge(
    learned: Learned, divergence: Divergence, costly_loss: Array, fraction: float, shares: Array
) -> tuple[Array, float, Terms]:
    excess = learned.cheap_loss - costly_loss
    probabilities, beta = divergence.probabilities(excess, learned.gate, fraction, shares)
    losses = shares @ (probabilities * costly_loss + (1.0 - probabilities) * learned.cheap_loss)
    far = shares @ divergence.per_row(probabilities, learned.gate)
    return probabilities, beta, Terms(float(losses), float(far), learned.penalty)


def best_of(alternations: Sequence[Alternation]) -> Alternation:
    """The one with the least objective, the first of equal ones."""
    return min(alternations, key=lambda done: done.terms.total)
