"""The SpeedBoost family: at each step the weak predictor with the most improvement per unit of cost.

One trainer, three switches (Grubb, *Anytime Prediction*, 2014, chapter 6; Grubb and Bagnell, *SpeedBoost*, 2012). The
thesis and the paper use the name ``.MP`` for different algorithms; the names here are the thesis'.

============================  ============  ===========  ==============
algorithm                     candidates    selection    reweight
============================  ============  ===========  ==============
SpeedBoost (6.1)              dictionary    gain         last
SpeedBoost.Proj (6.2)         learners      gain         last
SpeedBoost.MP (6.3)           learners      inner        last
SpeedBoost.FR (6.4)           dictionary    gain         all
SpeedBoost.OMP (6.5)          learners      inner        all
SpeedBoost.OMP of the paper   learners      gain         all
============================  ============  ===========  ==============
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from anytime.boosting.candidates import Candidate, Candidates, reseeded
from anytime.boosting.objective import MeanLoss, Rows
from anytime.boosting.reweighting import Reweighting
from anytime.plan import Array

__all__ = ["BoostingRules", "MeanLoss", "Step", "Trainer"]

ALL = slice(None)


@dataclass(frozen=True)
class BoostingRules:
    """Rules of selection and weighting of a trainer.

    Parameters
    ----------
    selection : {"gain", "inner"}, default="gain"
        By the reduction of the objective, or by the squared inner product with the gradient.
    reweight : {"last", "all"}, default="last"
        Whether only the newest weight is fitted after each step, or all weights.
    normalise : bool, default=True
        For "inner": divide by the squared norm. False: as in the papers, which assume norms of 1.
    weight_regularization : float, default=0
        For "all": ``weight_regularization / 2`` times the squared weights is added to the objective, as the theorems assume.
    cost_aware : bool, default=True
        False: choose by improvement alone, as ordinary boosting does; costs are still charged.
    schedule : {"greedy", "doubling"}, default="greedy"
        "doubling": never add a step that costs more than everything before it.
    c_min : float, default=None
        For "doubling": maximum cost of the first step. None: that of the cheapest candidate.
    holdout : float, default=None
        Share of the rows (ranking: queries), drawn anew at each step, on which improvement is measured; candidates and their
        steps are fitted to the others. The step of the chosen one is then fitted to all rows.
    n_iter_no_change : int, default=5
        Training ends after this many consecutive draws without a gain on held-out rows.
    learning_rate : float, default=1
        Factor of each step ("last"), applied after it was chosen.
    largest : float, default=10
        Maximum step ("last") or weight ("all", except for squared loss): perfectly separable classes would need infinite ones.
    tol : float, default=1e-12
        Gains up to this share of the initial objective count as none.
    """

    selection: Literal["gain", "inner"] = "gain"
    reweight: Literal["last", "all"] = "last"
    normalise: bool = True
    weight_regularization: float = 0.0
    cost_aware: bool = True
    schedule: Literal["greedy", "doubling"] = "greedy"
    c_min: float | None = None
    holdout: float | None = None
    n_iter_no_change: int = 5
    learning_rate: float = 1.0
    largest: float = 10.0
    tol: float = 1e-12

    def __post_init__(self) -> None:
        for name, choices in (
            ("selection", ("gain", "inner")),
            ("reweight", ("last", "all")),
            ("schedule", ("greedy", "doubling")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, not {getattr(self, name)!r}")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ValueError(f"holdout must be between 0 and 1, not {self.holdout}")
        if not 0 < self.learning_rate <= 1 or (self.reweight == "all" and self.learning_rate != 1):
            raise ValueError(
                f"learning_rate must be in (0, 1], and 1 if all weights are refitted; got {self.learning_rate}"
            )
        if not (
            self.weight_regularization >= 0
            and self.largest > 0
            and self.tol >= 0
            and self.n_iter_no_change >= 1
        ):
            raise ValueError(
                "weight_regularization and tol must not be negative, largest and n_iter_no_change must be positive"
            )


@dataclass(frozen=True, eq=False)
class Step:
    """The record of one step.

    Attributes
    ----------
    candidate : Candidate
        The candidate without its outputs, which take much memory; ``weak.on`` recomputes them.
    weights : (t,)
        "last": one number, the weight of this step. "all": the weights of all steps so far.
    gain : float
        Drop of the objective (with its ridge) on all training rows.
    score : float
        The criterion of its choice, per unit of cost.
    edge : float
        Cosine of the angle between its outputs and the negative gradient.
    table : tuple of (number, score, cost)
        All candidates, including those that doubling does not allow yet.
    """

    candidate: Candidate
    weights: Array
    gain: float
    score: float
    edge: float
    table: tuple[tuple[int, float, float], ...]

    @property
    def cost(self) -> float:
        """What it cost."""
        return self.candidate.cost


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate, by how much it improves things, and where it is known already the step along it and its gain on all rows."""

    candidate: Candidate
    improvement: float
    step: float | None = None
    gain: float | None = None


class Trainer:
    """Boosting, one step at a time.

    Parameters
    ----------
    objective : MeanLoss
    candidates : Candidates
        Candidates, none of which is in use yet.
    rules : BoostingRules
    base : (K,)
        Scores before the first step. The theorems assume 0.
    random : RandomState, default=None
        One number is drawn from it; together with the step number, it decides which rows are held out.

    Attributes
    ----------
    scores : (n, K)
        Current scores of the training rows.
    value : float
        Current objective (with its ridge).
    steps : list of Step
    spent : float
    stopped : str
        Why there is no further step: "", "no gain" or "stuck" (doubling: only steps that cost more than everything so far gain).

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.boosting.learners import LinearLearner, TrainingRows
    >>> y = np.array([1.0, -1.0, 2.0, -2.0])
    >>> table, costs = TrainingRows(np.c_[y, np.sign(y)]), at.FeatureCosts([5.0, 1.0]).bind(2)
    >>> candidates = at.boosting.FittedCandidates([LinearLearner()], table, np.full(4, 0.25), costs, step_cost=0.1)
    >>> trainer = Trainer(MeanLoss(at.losses.training_loss("squared"), y), candidates, BoostingRules())
    >>> [step.candidate.weak.columns.tolist() for step in trainer.run(2)]
    [[1], [0]]
    """

    def __init__(
        self,
        objective: MeanLoss,
        candidates: Candidates,
        rules: BoostingRules,
        base: ArrayLike | None = None,
        random: np.random.RandomState | None = None,
    ) -> None:
        n_outputs = objective.loss.n_outputs(objective.y)
        self.objective, self.candidates, self.rules = objective, candidates, rules
        self.base = np.zeros(n_outputs) if base is None else np.asarray(base, dtype=np.float64)
        self.scores = np.tile(self.base, (len(objective), 1))
        self.value = objective.value(self.scores)
        self.steps: list[Step] = []
        self.spent, self.stopped = 0.0, ""
        self.reweighting = None
        if rules.reweight == "all":
            self.reweighting = Reweighting(objective, self.base, rules.weight_regularization, rules.largest)
        self._random, self._idle = reseeded(random), 0
        self._least = rules.tol * max(abs(self.value), 1e-300)

    def run(self, n_steps: int) -> list[Step]:
        """Take up to this many further steps."""
        taken = []
        for _ in range(n_steps):
            step = self.step()
            if step is None:
                break
            taken.append(step)
        return taken

    def step(self) -> Step | None:
        """Take the best next step; None if there is none, with the reason in ``stopped``."""
        if self.stopped:
            return None
        target = self._target()
        while not self.stopped:
            judged = self._judge(target)
            limit = self._limit(judged)
            gaining = [j for j in judged if j.improvement > self._least]
            allowed = [j for j in gaining if j.candidate.cost <= limit]
            for best in sorted(allowed, key=self._rank):
                taken = self._take(best, target, judged)
                if taken is not None:
                    self._idle = 0
                    return taken
            self._idle += 1
            if self.rules.holdout is None or self._idle >= self.rules.n_iter_no_change:
                self.stopped = "stuck" if len(gaining) > len(allowed) else "no gain"
        return None  # else another draw of rows may tell candidates apart

    # ------------------------------------------------------------------ choosing

    def _target(self) -> Array:
        """What learners are to fit."""
        return self.objective.residual(self.scores)

    def _judge(self, target: Array) -> list[Judged]:
        """All candidates."""
        fit_on: Rows = ALL
        judge_on: Rows = ALL
        rows = None
        if self.rules.holdout is not None:
            random = self._random(len(self.steps), self._idle)
            fit_on, judge_on = rows, _ = self.objective.split(self.rules.holdout, random)
        judge = self._judge_by_inner if self.rules.selection == "inner" else self._judge_by_gain
        judged = judge(target, fit_on, judge_on)
        return [judged(candidate) for candidate in self.candidates.offer(self.scores, target, rows)]

    def _judge_by_gain(self, target: Array, fit_on: Rows, judge_on: Rows) -> Callable[[Candidate], Judged]:
        objective, scores, largest = self.objective, self.scores, self.rules.largest
        if self.reweighting is not None:
            gain_of = self.reweighting.gains(fit_on, judge_on)
            return lambda candidate: Judged(candidate, gain_of(candidate.outputs))
        if judge_on is ALL:

            def on_all(candidate: Candidate) -> Judged:
                step, gain = objective.search(scores, candidate.outputs, largest, value=self.value)
                return Judged(candidate, gain, step, gain)

            return on_all
        before = objective.value(scores, judge_on)

        def held_out(candidate: Candidate) -> Judged:
            h = candidate.outputs
            step, _ = objective.search(scores, h, largest, fit_on)
            moved = scores[judge_on] + step * h[judge_on]
            return Judged(candidate, before - objective.value_of(moved, judge_on))

        return held_out

    def _judge_by_inner(self, target: Array, fit_on: Rows, judge_on: Rows) -> Callable[[Candidate], Judged]:
        objective, normalise = self.objective, self.rules.normalise

        def judged(candidate: Candidate) -> Judged:
            h = candidate.outputs
            inner = objective.inner(target, h, judge_on)
            if judge_on is not ALL and inner * objective.inner(target, h, fit_on) < 0:
                return Judged(candidate, 0.0)  # the step would go the wrong way
            norm = objective.inner(h, h, judge_on) if normalise else 1.0
            return Judged(candidate, inner**2 / norm if norm > 0 else 0.0)

        return judged

    def _limit(self, judged: Sequence[Judged]) -> float:
        """The most that the next step may cost."""
        if self.rules.schedule == "greedy" or not judged:
            return np.inf
        limit = self.spent
        if not self.steps:
            cheapest = min(j.candidate.cost for j in judged)
            limit = cheapest if self.rules.c_min is None else self.rules.c_min
        return limit * (1 + 1e-12)  # costs are sums, with rounding errors

    def _score(self, judged: Judged) -> float:
        """Improvement per unit of cost; 0 where there is none worth the name."""
        if not judged.improvement > self._least:
            return 0.0
        return judged.improvement / (judged.candidate.cost if self.rules.cost_aware else 1.0)

    def _rank(self, judged: Judged) -> tuple[float, float, int]:
        """The best comes first; of equals the cheaper one, then the earlier."""
        return -self._score(judged), judged.candidate.cost, judged.candidate.number

    # ------------------------------------------------------------------ taking

    def _take(self, best: Judged, target: Array, judged: Sequence[Judged]) -> Step | None:
        """Take a candidate; None where on all rows there is nothing to gain by it."""
        objective, h, weights, gain = self.objective, best.candidate.outputs, None, None
        if self.reweighting is None:
            step, gain = best.step, best.gain
            if step is None:
                step, gain = objective.search(self.scores, h, self.rules.largest, value=self.value)
            if step == 0:
                return None
            weights = np.array([self.rules.learning_rate * step])
            if self.rules.learning_rate < 1:
                gain = None
        norms = objective.inner(target, target) * objective.inner(h, h)
        edge = objective.inner(target, h) / float(np.sqrt(norms)) if norms > 0 else 0.0
        weights, gain = self._move(best.candidate, weights, gain)
        table = tuple((j.candidate.number, self._score(j), j.candidate.cost) for j in judged)
        taken = Step(best.candidate.without_outputs(), weights, gain, self._score(best), edge, table)
        self.steps.append(taken)
        return taken

    def _move(self, candidate: Candidate, weights: Array | None, gain: float | None) -> tuple[Array, float]:
        """Add a candidate with these weights, or where all are refitted with the best ones; returns weights and gain."""
        if self.reweighting is not None:
            gain = self.reweighting.add(candidate.outputs, weights)
            weights, self.scores = self.reweighting.weights, self.reweighting.scores
        else:
            assert weights is not None
            self.scores = self.scores + weights[0] * candidate.outputs
            if gain is None:
                gain = self.value - self.objective.value(self.scores)
        self.value -= gain
        self.candidates.take(candidate)
        self.spent += candidate.cost
        return weights, gain
