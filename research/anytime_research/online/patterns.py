"""Lower bounds for classes of gates and local models. **Conjectural**: the source leaves the argument unfinished.

Nan, *Learning to Predict under a Budget*, section 7.2. On n points, a gate with a local model makes a pattern of answers 0 and 1
and requests. Each pattern has a distribution of labels under which following it is best, and any other answer at a point loses
at least ε there: that much is checked. The bounds on the regret rest on Fano's inequality and are evaluated as they are
printed, within the ranges of costs for which their steps can hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ASK",
    "LabelDistribution",
    "ball_size",
    "fano_regret_bound",
    "pattern_matrix",
    "split_fano_regret_bound",
]

Array = NDArray[np.float64]
Patterns = NDArray[np.int8]

ASK = -1  # in a pattern: a request; 0 and 1 are answers


def pattern_matrix(
    gates: Sequence[Callable[[Any], ArrayLike]], models: Sequence[Callable[[Any], ArrayLike]], points: Any
) -> Patterns:
    """All distinct patterns (N, n) that the gates and local models make on the points; gates ask where they are above 0.

    Examples
    --------
    >>> points = np.array([1.0, 2.0, 3.0])
    >>> gates = [lambda x, s=s: s - x for s in (0.0, 1.5)]
    >>> models = [lambda x, s=s: x > s for s in (1.5, 2.5)]
    >>> pattern_matrix(gates, models, points).tolist()
    [[-1, 0, 1], [-1, 1, 1], [0, 0, 1], [0, 1, 1]]
    """
    asked = [np.asarray(gate(points), dtype=np.float64) > 0 for gate in gates]
    answers = [np.asarray(model(points)).astype(np.int8) for model in models]
    if not asked or not answers:
        raise ValueError("at least one gate and one model are needed")
    return np.unique([np.where(asks, np.int8(ASK), answer) for asks in asked for answer in answers], axis=0)


def ball_size(patterns: ArrayLike, share: float) -> int:
    """The most patterns within a Hamming distance of ``share`` times n of one of them, itself included."""
    table = np.asarray(patterns)
    apart = (table[:, None, :] != table[None, :, :]).sum(axis=2)
    return int((apart <= share * table.shape[1] + 1e-12).sum(axis=1).max())


class LabelDistribution:
    """Points drawn evenly, and labels that make one pattern the best to follow.

    Label 1 has probability ``c + ε`` where the pattern asks, ``1 - c + ε`` where it says 1, ``c - ε`` where it says 0
    (7.7-7.9). Any other action loses at least ε more at its point if ``ε <= c <= 1/2 - ε``, which is required.

    Parameters
    ----------
    pattern : (n,) of 0, 1 and ASK
    evaluation_cost, gap : float
        c and ε.

    Examples
    --------
    >>> LabelDistribution([ASK, 0, 1], evaluation_cost=0.3, gap=0.1).excess().round(10).tolist()
    [[0.0, 0.1, 0.3], [0.1, 0.0, 0.6], [0.1, 0.6, 0.0]]
    """

    def __init__(self, pattern: ArrayLike, evaluation_cost: float, gap: float) -> None:
        _check_mixed(evaluation_cost, gap)
        self.pattern = np.asarray(pattern, dtype=np.int8)
        self.evaluation_cost, self.gap = evaluation_cost, gap
        probabilities = {ASK: evaluation_cost + gap, 1: 1 - evaluation_cost + gap, 0: evaluation_cost - gap}
        self.probabilities = np.array([probabilities[int(action)] for action in self.pattern])

    def losses(self) -> Array:
        """(n, 3) expected loss at each point of asking, of saying 0 and of saying 1."""
        return np.column_stack(
            [np.full(self.pattern.size, self.evaluation_cost), self.probabilities, 1 - self.probabilities]
        )

    def excess(self) -> Array:
        """(n, 3) expected loss of asking, 0 and 1 above that of the pattern's action."""
        losses = self.losses()
        return np.asarray(losses - losses[np.arange(self.pattern.size), self.pattern + 1][:, None])

    def regret(self, pattern: ArrayLike) -> float:
        """Expected loss per round of following another pattern, above that of this one."""
        other = np.asarray(pattern, dtype=np.int8)
        return float(self.excess()[np.arange(self.pattern.size), other + 1].mean())

    def sample(
        self, n_rounds: int, random_state: int | np.random.Generator | None = None
    ) -> tuple[NDArray[np.intp], Patterns]:
        """Numbers of the points drawn and their labels, (n_rounds,) each."""
        random = np.random.default_rng(random_state)
        drawn = random.integers(self.pattern.size, size=n_rounds)
        return drawn, (random.random(n_rounds) < self.probabilities[drawn]).astype(np.int8)


def fano_regret_bound(
    patterns: ArrayLike, horizon: int, requests: float, *, evaluation_cost: float, gap: float, share: float
) -> float:
    """Conjectural: regret of a learner that asks ``requests`` times, over patterns drawn evenly, (7.18) with (7.20).

    ``T ε δ (1 - (2 M KL(Ber(c - ε), Ber(1 - c + ε)) + log 2) / log(N / N_max))``, and 0 where that is negative.

    Parameters
    ----------
    patterns : (N, n)
    horizon : int
        T.
    requests : float
        M.
    evaluation_cost, gap : float
        c and ε, ``ε <= c <= 1/2 - ε``.
    share : float
        δ: patterns count as different if more than this share of points is.
    """
    _check_mixed(evaluation_cost, gap)
    information = 2 * requests * _divergence(evaluation_cost - gap, 1 - evaluation_cost + gap)
    return horizon * gap * share * _fano(np.asarray(patterns), share, information)


def split_fano_regret_bound(
    patterns: ArrayLike, horizon: int, requests: float, *, evaluation_cost: float, gap: float, share: float
) -> float:
    """Conjectural: the same for patterns with and without requests apart (7.22, 7.26).

    Only one of the two groups counts at a given cost: without requests, labels ``1/2 ± ε``, if ``c >= 1/2``, weighted by c;
    with requests, if ``ε <= c <= 1/2 - ε``, weighted by 1 - c. The source adds both at any cost, where neither argument holds.
    """
    table = np.asarray(patterns)
    silent = ~(table == ASK).any(axis=1)
    if evaluation_cost >= 0.5:
        _check_share(gap, "gap", 0.5)
        information = 2 * requests * _divergence(0.5 - gap, 0.5 + gap)
        return evaluation_cost * horizon * gap * share * _fano(table[silent], share, information)
    return (1 - evaluation_cost) * fano_regret_bound(
        table[~silent], horizon, requests, evaluation_cost=evaluation_cost, gap=gap, share=share
    )


def _fano(patterns: Patterns, share: float, information: float) -> float:
    """How likely the wrong pattern is at least, by the generalised inequality of Fano; 0 where it says nothing."""
    _check_share(share, "share", 1.0)
    if len(patterns) < 2:
        return 0.0
    rivals = math.log(len(patterns) / ball_size(patterns, share))
    return max(0.0, 1 - (information + math.log(2)) / rivals) if rivals > 0 else 0.0


def _divergence(p: float, q: float) -> float:
    """KL between coins."""
    if q in (0.0, 1.0):
        return 0.0 if p == q else math.inf
    return sum(a * math.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)


def _check_mixed(evaluation_cost: float, gap: float) -> None:
    if not 0 < gap <= evaluation_cost <= 0.5 - gap:
        raise ValueError(
            f"evaluation_cost is {evaluation_cost} and gap {gap}; the labels need 0 < gap <= evaluation_cost <= 1/2 - gap"
        )


def _check_share(value: float, name: str, top: float) -> None:
    if not 0 < value < top:
        raise ValueError(f"{name} is {value}; it has to lie between 0 and {top}")
