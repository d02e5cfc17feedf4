"""Participation apart from the gates, which follow it: OPT-Relax of the source, by Adam and Frank-Wolfe in turns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, xlogy

from anytime.sensing.problem import SensingProblem, SensorWeights
from anytime.sensing.solvers import Adam, within_participation
from anytime_research.sensing.frank_wolfe import frank_wolfe

__all__ = ["RelaxedGates", "participation_gradient", "relaxed", "relaxed_gradient"]

Array = NDArray[np.float64]

_EDGE = 1e-6  # participation is kept this far from 0 and 1 where its logarithm is needed


@dataclass(frozen=True)
class RelaxedGates:
    """Participation is free within the budget, and gates follow it (OPT-Relax): Adam and Frank-Wolfe in turns.

    Offsets are moved at the end so that as many gates are open as participation was found worth its budget. Defaults are
    those of the source. Needs sigmoid gates and a ``participation``.

    Parameters
    ----------
    closeness : float, default=0.1
        Weight of the divergence between participation and gates.
    alternations, epochs, steps : int, default=30, 50, 20
        Turns; epochs of Adam and steps of Frank-Wolfe in each.
    step : float, default=0.01
        Weight of the corner in a step of Frank-Wolfe.
    batch_size : int, default=100
    learning_rate : float, default=1e-3
    """

    closeness: float = 0.1
    alternations: int = 30
    epochs: int = 50
    steps: int = 20
    step: float | None = 0.01
    batch_size: int = 100
    learning_rate: float = 1e-3

    def solve(
        self,
        problem: SensingProblem,
        start: SensorWeights,
        participation: float | None,
        random: np.random.Generator,
    ) -> SensorWeights:
        """See ``GateSolver``."""
        if participation is None:
            raise ValueError("RelaxedGates needs a mean_budget to keep to")
        if problem.prices is not None and np.ptp(problem.prices):
            raise ValueError(
                "RelaxedGates is for sensors of one price: give the same to all, or use DirectGates"
            )
        weights, adam = start, Adam(self.learning_rate)
        q = np.full((problem.n_devices, problem.n_rows), participation)  # within the budget from the first
        for _ in range(self.alternations):

            def gradient(now: SensorWeights, rows: NDArray[np.intp], fixed: Array = q) -> SensorWeights:
                return relaxed_gradient(problem.rows(rows), now, fixed[:, rows], self.closeness)

            for _ in range(self.epochs):
                weights = adam.epoch(weights, problem.n_rows, self.batch_size, random, gradient)

            def slopes(now: Array, settled: SensorWeights = weights) -> Array:
                return participation_gradient(problem, settled, now, self.closeness)

            q, _ = frank_wolfe(slopes, q, participation, n_steps=self.steps, step=self.step)
        return within_participation(
            weights, problem.inputs, min(float(q.mean()), participation), exactly=True
        )


def relaxed(problem: SensingProblem, weights: SensorWeights, q: Array, closeness: float) -> float:
    """Mean loss with participation q (K, n), plus ``closeness / n · Σ KL(q, φ)`` (OPT-Relax, divided by n)."""
    scores = _log_odds(problem, weights)
    entropy = xlogy(q, q) + xlogy(1 - q, 1 - q)
    divergence = entropy + np.logaddexp(0, scores) - q * scores
    return (
        problem.mean_loss(problem.answers(weights, q)) + closeness * float(divergence.sum()) / problem.n_rows
    )


def relaxed_gradient(
    problem: SensingProblem, weights: SensorWeights, q: Array, closeness: float
) -> SensorWeights:
    """Of ``relaxed`` by the weights."""
    pull = problem.pull(problem.answers(weights, q))
    by_score = closeness * problem.gate.slope * (expit(_log_odds(problem, weights)) - q) / problem.n_rows
    return problem.gradient(q, pull, by_score)


def participation_gradient(
    problem: SensingProblem, weights: SensorWeights, q: Array, closeness: float
) -> Array:
    """(K, n) of ``relaxed`` by q, which is kept a little off 0 and 1."""
    messages = weights.messages(problem.inputs)
    pull = problem.pull(problem.base + np.einsum("kn,knm->nm", q, messages))
    inner = np.clip(q, _EDGE, 1 - _EDGE)
    apart = np.asarray(logit(inner)) - _log_odds(problem, weights)
    return np.asarray(np.einsum("nm,knm->kn", pull, messages) + closeness * apart / problem.n_rows)


def _log_odds(problem: SensingProblem, weights: SensorWeights) -> Array:
    if problem.gate.kind != "sigmoid":
        raise ValueError("the relaxed form compares probabilities; its gate has to be 'sigmoid'")
    return problem.gate.slope * weights.scores(problem.inputs)
