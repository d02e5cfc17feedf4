"""Boosting chosen at held-out scores: early steps then do not use up the residual by fitting its noise.

Stacked functional gradient descent (Grubb, *Anytime Prediction*, 2014, Algorithm 3.3), where stacking protected learners that
read earlier predictions. Here it protects the step and the choice by gain per cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.boosting.additive import AdditiveSpeedBoostClassifier
from anytime.boosting.candidates import Candidate, FittedCandidates
from anytime.boosting.objective import MeanLoss
from anytime.boosting.trainer import BoostingRules, Judged, Step, Trainer
from anytime.plan import Array


class CrossFitted(Trainer):
    """A trainer with one copy of the scores per fold, trained on all other folds only.

    The scores of a row in the copy without its fold are its *held-out scores*. At each step every learner is fitted to all rows,
    for the predictor that is kept, and without each fold, for the copies. Choice and step are made on held-out scores with
    held-out outputs, and are the same for all copies. It takes one more fit per fold, learner and step.

    Parameters
    ----------
    objective, rules, base, random
        As for ``Trainer``. Nothing is refitted or held out besides (``reweight="last"``, no ``holdout``).
    candidates : FittedCandidates
        Without filters.
    n_folds : int, default=5
        Rows of a query are in the same fold.
    gradient_at : {"own", "held_out"}, default="own"
        The scores at which the gradient that is fitted to all rows is taken: those of the predictor that is kept, or, as in
        Algorithm 3.3, the held-out ones. These lag behind, so that the predictor that is kept goes too far: its loss on new rows
        can rise while that of the held-out scores falls.

    Attributes
    ----------
    scores : (n, K)
        Of the predictor that is kept.
    held_out : (n, K)
    value : float
        Of the objective at the held-out scores.
    """

    def __init__(
        self,
        objective: MeanLoss,
        candidates: FittedCandidates,
        rules: BoostingRules,
        base: ArrayLike | None = None,
        random: np.random.RandomState | None = None,
        *,
        n_folds: int = 5,
        gradient_at: Literal["own", "held_out"] = "own",
    ) -> None:
        if rules.reweight != "last" or rules.holdout is not None or candidates.filters is not None:
            raise ValueError("cross-fitting needs reweight='last', no holdout and no filters")
        super().__init__(objective, candidates, rules, base, random)
        self.gradient_at = gradient_at
        self.folds = folds_of(objective, n_folds, self._random())
        self.copies = [self.scores] * n_folds
        self.held_out = self.scores
        self._offered: list[dict[int, Candidate]] = []

    def _target(self) -> Array:
        return self.objective.residual(self.held_out if self.gradient_at == "held_out" else self.scores)

    def _judge(self, target: Array) -> list[Judged]:
        """All candidates that every copy has too, by what they would do for the held-out scores."""
        kept = self.candidates.offer(self.scores, target, None)
        self._offered = [
            {
                c.number: c
                for c in self.candidates.offer(copy, self.objective.residual(copy), self._without(k))
            }
            for k, copy in enumerate(self.copies)
        ]
        return [self._judged(c) for c in kept if all(c.number in offered for offered in self._offered)]

    def _judged(self, candidate: Candidate) -> Judged:
        objective, rules = self.objective, self.rules
        h = self._held_out_of([offered[candidate.number].outputs for offered in self._offered])
        step, improvement = objective.search(self.held_out, h, rules.largest, value=self.value)
        if step < 0:  # what was fitted to the gradient points away from it where it was held out: noise
            return Judged(candidate, 0.0)
        if rules.selection == "inner":
            norm = objective.inner(h, h) if rules.normalise else 1.0
            pull = objective.residual(self.held_out)
            improvement = objective.inner(pull, h) ** 2 / norm if norm > 0 else 0.0
        return Judged(candidate, improvement, step, 0.0)  # the gain is known when all copies have moved

    def _take(self, best: Judged, target: Array, judged: Sequence[Judged]) -> Step | None:
        copies = [offered[best.candidate.number] for offered in self._offered]
        before = self.value
        taken = super()._take(best, target, judged)
        if taken is None:
            return None
        self._move_copies([copy.outputs for copy in copies], taken.weights)
        self._offered = []
        self.steps[-1] = replace(taken, gain=before - self.value)
        return self.steps[-1]

    def _move_copies(self, outputs: Sequence[Array], weights: Array) -> None:
        self.copies = [copy + weights[0] * h for copy, h in zip(self.copies, outputs, strict=True)]
        self.held_out = self._held_out_of(self.copies)
        self.value = self.objective.value(self.held_out)

    def _without(self, fold: int) -> NDArray[np.intp]:
        return np.flatnonzero(self.folds != fold)

    def _held_out_of(self, copies: Sequence[Array]) -> Array:
        """(n, K) each row's numbers from the copy without its fold."""
        out = np.empty_like(copies[0])
        for k, copy in enumerate(copies):
            out[self.folds == k] = copy[self.folds == k]
        return out


def folds_of(objective: MeanLoss, n_folds: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """(n,) a fold for each row: as many units (rows, or queries) in each, up to one."""
    n_units = objective.n_units()
    if not 2 <= n_folds <= n_units:
        raise ValueError(f"there must be 2 to {n_units} folds (rows, or queries), not {n_folds}")
    return np.asarray((random.permutation(n_units) % n_folds)[objective.units])


class CrossFittedSpeedBoostClassifier(AdditiveSpeedBoostClassifier):
    """SpeedBoost of the papers that chooses and weighs stages by what five copies that have not seen a row gain on it."""

    _trainer = staticmethod(partial(CrossFitted, n_folds=5))
