"""Stages that add up: the SpeedBoost family of the papers, followed on held-out rows and turned into a plan."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.boosted import Training
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.filters import Filters
from anytime.boosting.learners import TreeLearner, WeakLearner, blocks_of, scaled
from anytime.boosting.objective import MeanLoss
from anytime.boosting.trainer import BoostingRules, Step, Trainer
from anytime.losses import LINKS
from anytime.plan import Array, Plan

_LEAVES = (4, 16)
_PENALTIES = (0.0, 0.03, 0.3)
_FREE_STEP = (
    1e-3  # of the cheapest group: what a step that buys nothing is taken to cost, so that it has a rate
)


def competing_trees(
    *,
    max_depth: int | None,
    min_samples_leaf: int,
    l2_regularization: float,
    evaluation_cost: float,
    n_threads: int,
    leaves: Sequence[int] = _LEAVES,
    penalties: Sequence[float] = _PENALTIES,
) -> list[TreeLearner]:
    """Trees of several sizes, each at several prices of first use: candidates at many price points."""
    return [
        TreeLearner(
            max_leaf_nodes=size,
            max_depth=max_depth,
            cost_penalty=cost_penalty,
            scale="relative",
            min_samples_leaf=min_samples_leaf,
            l2_regularization=l2_regularization,
            evaluation_cost=evaluation_cost,
            n_threads=n_threads,
        )
        for size in leaves
        for cost_penalty in penalties
    ]


class Adding:
    """A boosting run that can be continued, and the plan of what it has done so far."""

    def __init__(
        self,
        training: Training,
        rules: BoostingRules,
        learners: Sequence[WeakLearner],
        *,
        filters: Filters | None = None,
        kind: type[MeanLoss] = MeanLoss,  # of the objective, which says how long a step is
        trainer: Callable[..., Trainer] = Trainer,
    ) -> None:
        self.training, self.rules, self.cut_short = training, rules, False
        objective, rows = training.objective, training.train
        weight = objective.weight[rows]
        table = training.table.rows(rows) if training.held.size else training.table
        seen = kind(objective.loss, objective.y[rows], weight)
        candidates = FittedCandidates(
            learners,
            table,
            seen.weight,
            training.costs,
            step_cost=_FREE_STEP * _cheapest(training),
            filters=filters,
            link=training.loss.link,
            random=training.random,
            time_is_up=lambda: self.training.clock.over,
        )
        self.trainer = trainer(seen, candidates, rules, training.base, training.random)
        self._held = _HeldOut(training, rules.reweight == "all") if training.held.size else None

    def run(self, n_estimators: int, n_iter_no_change: int) -> None:
        """Go on until there are so many stages, none helps, time is up, or validation rows have not gained for long."""
        steps, clock, self.cut_short = self.trainer.steps, self.training.clock, False
        if n_estimators < len(steps):
            raise ValueError(
                f"n_estimators={n_estimators}, but the fitted model already has {len(steps)} stages; "
                "raise n_estimators or set warm_start=False"
            )
        while len(steps) < n_estimators:
            if steps and clock.over:
                self.cut_short = True
                return
            step = self.trainer.step()
            if step is None:
                break
            if self._held is not None:
                self._held.follow(step)
                if self._held.idle >= n_iter_no_change:
                    break
            clock.tell(
                f"stage {len(steps)} of {n_estimators}, cost {self.trainer.spent:.5g}, gain {step.gain:.3g}",
                stage=len(steps),
                cost=self.trainer.spent,
                gain=step.gain,
            )

    def take_up(self, training: Training, rules: BoostingRules) -> None:
        """Make sure that a further ``run`` is for the same rows and by the same rules; its time begins now."""
        earlier = self.training
        same = (
            rules == self.rules
            and np.array_equal(training.table.X, earlier.table.X, equal_nan=True)
            and np.array_equal(training.objective.y, earlier.objective.y)
            and np.array_equal(training.objective.weight, earlier.objective.weight)
        )
        if not same:
            raise ValueError(
                "warm_start=True continues on the same rows, targets, weights and method; set it to False to start over"
            )
        self.training = replace(earlier, clock=training.clock)

    def __reduce__(self) -> Any:
        return type(None), ()  # a pickle does not hold it: it is as large as the training rows

    @property
    def plan(self) -> Plan:
        """The stages up to the one that held-out rows like best."""
        training, steps, quality = self.training, self.trainer.steps, None
        if self._held is not None:
            best = self._held.best
            steps, quality = steps[:best], -np.array(self._held.losses[: best + 1])
        weak = [step.candidate.weak for step in steps]
        parts = [w.part for w in weak if w is not None]
        weights = None
        if self.rules.reweight == "all":
            weights = [step.weights for step in steps]
        else:
            parts = [scaled(part, float(step.weights[0])) for part, step in zip(parts, steps, strict=True)]
        evaluation = np.array([w.evaluation_cost for w in weak if w is not None])
        return Plan(
            blocks=blocks_of(parts),
            costs=training.costs,
            base=training.base,
            link=training.loss.link,
            weights=weights,
            evaluation_costs=evaluation if evaluation.any() else None,
            passes={
                s: step.candidate.rule for s, step in enumerate(steps) if step.candidate.rule is not None
            },
            quality=quality,
        )


def _cheapest(training: Training) -> float:
    amounts = training.costs.costs.amounts(training.costs.prices)
    return float(amounts[amounts > 0].min(initial=np.inf)) if (amounts > 0).any() else 1.0


class _HeldOut:
    """The loss on held-out rows after each step."""

    def __init__(self, training: Training, keeps_outputs: bool) -> None:
        rows, objective = training.held, training.objective
        self.X, self.y, self.weight = training.table.X[rows], objective.y[rows], objective.weight[rows]
        self.loss, self.link = objective.loss, training.loss.link
        self.start = np.tile(training.base, (rows.size, 1))
        self.scores = self.start
        self.outputs: list[Array] | None = [] if keeps_outputs else None
        self.losses = [self.loss(self.scores, self.y, self.weight)]

    def follow(self, step: Step) -> None:
        """Take a step here too."""
        assert step.candidate.weak is not None
        outputs = step.candidate.weak.on(self.X)
        if step.candidate.rule is not None:
            outputs = np.where(self._passing(step)[:, None], outputs, 0.0)
        if self.outputs is None:
            self.scores = self.scores + step.weights[0] * outputs
        else:
            self.outputs.append(outputs)
            self.scores = self.start + np.tensordot(step.weights, np.stack(self.outputs), axes=1)
        self.losses.append(self.loss(self.scores, self.y, self.weight))

    def _passing(self, step: Step) -> NDArray[np.bool_]:
        assert step.candidate.rule is not None
        return step.candidate.rule.holds(self.X, self.scores, LINKS[self.link])

    @property
    def best(self) -> int:
        """Number of steps with the least loss."""
        return int(np.argmin(self.losses))

    @property
    def idle(self) -> int:
        """Steps since then."""
        return len(self.losses) - 1 - self.best
