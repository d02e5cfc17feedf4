"""Structured functional gradient descent, and its cost-greedy form: selectors x learners, the most gain per unit of cost.

Grubb, *Anytime Prediction*, 2014: Algorithm 3.1 (``cost_aware=False``), StructuredSpeedBoost, Algorithm 7.1, and, with
``folds``, Algorithm 3.3: copies that have not seen a fold predict it, and what updates are told of the predictions of others,
while they are learned, are those held-out predictions. At prediction the copies are gone.

To use it for another kind of data: a subclass of ``Structures``, distributions to be predicted, prices, selectors and learners.

    trainer = StructuredTrainer(structures, truth, weight, costs, selectors, learners, StructuredRules(...))
    trainer.run(100)
    block = trainer.block()                               # for a Plan
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts, Ledger
from anytime.losses import LINKS
from anytime.structured.block import EntropySelector, StructuredBlock, Update
from anytime.structured.learners import LevelTable, UpdateLearner, UpdateTask
from anytime.structured.objective import ElementLoss
from anytime.structured.structures import WHOLE, Array, Structures

__all__ = ["StructuredRules", "StructuredStep", "StructuredTrainer"]


@dataclass(frozen=True)
class StructuredRules:
    """How a structured trainer chooses.

    Parameters
    ----------
    cost_aware : bool, default=True
        Choose by gain per unit of cost (Algorithm 7.1). False: by how close a candidate comes to the gradient (3.1).
    evaluation_cost : float, default=0
        Price of an update, whatever it reads.
    least_cost : float, default=0.01
        Added to the cost of every candidate when they are compared: what costs nothing has no gain per unit of cost.
    folds : int, default=0
        Copies for held-out predictions (3.3), over structures; 0: updates are told training predictions.
    copies_are_told : {"held_out", "own"}, default="held_out"
        What copies, while they learn, are told of the predictions of others. "own": those of the copy itself, as printed in 3.3.
        "held_out": those that the main predictor is told, as in forward stacking (3.2).
    stacking : {"shared", "independent"}, default="shared"
        Whether copies make the main predictor's choice of selector, learner and columns again, or choose for themselves, by
        what they have bought themselves.
    holdout : float or None, default=None
        Share of the structures, drawn anew at each step, on which gain is measured; candidates are fitted to the others, and the
        step of the one that is taken to all (section 6.5.4).
    draws : int, default=5
        ``holdout``: draws in a row without a gain on what is held out after which there is no further step.
    learning_rate : float, default=1
        Times each step, after it was chosen.
    tried_selectors : int or None, default=None
        Selectors that are tried at each step, drawn anew; all are where none of these gains. None: all at each step.
    judged_elements : int or None, default=None
        On about how many elements, drawn anew at each step, the gains of candidates are measured; the step of the one that is
        taken is fitted to all. None: on all.
    """

    cost_aware: bool = True
    evaluation_cost: float = 0.0
    least_cost: float = 0.01
    folds: int = 0
    copies_are_told: Literal["held_out", "own"] = "held_out"
    stacking: Literal["shared", "independent"] = "shared"
    holdout: float | None = None
    draws: int = 5
    learning_rate: float = 1.0
    tried_selectors: int | None = None
    judged_elements: int | None = None

    def __post_init__(self) -> None:
        if not (self.least_cost > 0 and self.evaluation_cost >= 0):
            raise ValueError("least_cost must be positive, and evaluation_cost not negative")
        if self.folds == 1 or self.folds < 0:
            raise ValueError(f"folds is {self.folds}; it must be 0 or at least 2")


@dataclass(frozen=True, eq=False)
class StructuredStep:
    """What one step did.

    Attributes
    ----------
    update : Update
    gain : float
        Drop of the objective on all training elements.
    cost : float
        Mean over structures of what it cost, given what they had bought.
    value : float
        The objective after it.
    held_out : float
        The objective of the copies' held-out predictions after it; NaN without copies.
    selected : float
        Share of the regions of its level that it worked on.
    """

    update: Update
    gain: float
    cost: float
    value: float
    held_out: float
    selected: float


@dataclass(eq=False)
class _Learned:
    """A predictor in the making: the main one, or a copy that has not seen a fold."""

    loss: ElementLoss
    scores: Array
    value: float  # of the loss
    bought: NDArray[np.bool_]
    ledger: (
        Ledger  # what structures have paid; copies that do not choose for themselves have none of their own
    )
    updates: list[Update] = field(default_factory=list)


@dataclass(eq=False)
class _Candidate:
    update: Update
    direction: Array  # (E, K)
    moved: NDArray[np.intp]  # elements
    regions: NDArray[np.intp]
    learner: int
    improvement: float
    cost: float
    best_step: tuple[float, float] | None  # on all elements, and its gain, once known


class StructuredTrainer:
    """Structured boosting, one step at a time; see the module.

    Parameters
    ----------
    structures : Structures
    truth : (E, K)
        Distributions to predict.
    weight : (E,)
        How much each element counts: its size, 0 where it has no label.
    costs : BoundCosts
        Of the columns of ``structures``, per structure.
    selectors : sequence of EntropySelector
    learners : sequence of UpdateLearner
    rules : StructuredRules
    base : (K,), default=None
        Scores before the first step; None: 0, the even distribution.
    seed : int, default=0
    n_threads : int, default=1

    Attributes
    ----------
    steps : list of StructuredStep
    scores : (E, K)
        Of the main predictor on the training elements, as they were added up in training.
    value : float
        The objective now.
    """

    def __init__(
        self,
        structures: Structures,
        truth: Array,
        weight: Array,
        costs: BoundCosts,
        selectors: Sequence[EntropySelector],
        learners: Sequence[UpdateLearner],
        rules: StructuredRules | None = None,
        *,
        base: Array | None = None,
        seed: int = 0,
        n_threads: int = 1,
    ) -> None:
        self.structures, self.costs, self.rules = structures, costs, rules or StructuredRules()
        self.selectors, self.learners, self.seed = tuple(selectors), tuple(learners), seed
        self.n_classes = truth.shape[1]
        self.base = np.zeros(self.n_classes) if base is None else np.asarray(base, dtype=np.float64)
        self._owner = structures.regions(WHOLE).label
        n = len(structures)
        if self.rules.folds > n:
            raise ValueError(f"{self.rules.folds} folds need as many structures, but there are {n}")
        labelled = np.bincount(self._owner, weights=weight, minlength=n) > 0
        if self.rules.folds and labelled.sum() == 1:
            raise ValueError("only one structure has labels; with folds, at least two need some")
        # structures with labels first, so that each copy sees some
        drawn = np.lexsort((np.random.RandomState(seed).permutation(n), ~labelled))
        self._fold = np.empty(n, dtype=np.intp)
        self._fold[drawn] = np.arange(n) % max(self.rules.folds, 1)
        self._tables = {
            level: LevelTable(structures, level, self.n_classes, n_threads=n_threads)
            for level in sorted({s.level for s in self.selectors})
        }
        self._main = self._start(ElementLoss(truth, weight), costs.ledger(n))
        self._in_fold = self._fold[self._owner]
        self._copies = [
            self._start(
                self._main.loss.on(self._in_fold != k),
                self._main.ledger if self.rules.stacking == "shared" else costs.ledger(n),
            )
            for k in range(self.rules.folds)
        ]
        self._told: tuple[Array, Array, dict[int, Array]] | None = None  # see ``_contexts``
        self.steps: list[StructuredStep] = []
        self.expected_costs: list[float] = []

    def _start(self, loss: ElementLoss, ledger: Ledger) -> _Learned:
        scores = np.tile(self.base, (self.structures.n_elements, 1))
        return _Learned(loss, scores, loss.value(scores), np.zeros(self.costs.n_groups, dtype=bool), ledger)

    @property
    def scores(self) -> Array:
        """(E, K) of the main predictor."""
        return self._main.scores

    @property
    def value(self) -> float:
        """The objective now."""
        return self._main.value

    @property
    def copies(self) -> list[list[Update]]:
        """Updates of each copy."""
        return [copy.updates for copy in self._copies]

    def block(self, n_stages: int | None = None) -> StructuredBlock:
        """The steps so far, or the first of them, as stages of a plan."""
        updates = self._main.updates if n_stages is None else self._main.updates[:n_stages]
        return StructuredBlock(updates, self.n_classes, self.structures.n_columns)

    def held_out_scores(self) -> Array:
        """(E, K) what copies say of the folds that they have not seen; without copies, the main predictor's scores."""
        if not self._copies:
            return self._main.scores
        out = np.empty_like(self._main.scores)
        for k, copy in enumerate(self._copies):
            out[self._in_fold == k] = copy.scores[self._in_fold == k]
        return out

    def run(
        self, n_steps: int, go_on: Callable[[StructuredStep], bool] | None = None
    ) -> list[StructuredStep]:
        """Up to so many further steps, while there is something to gain and ``go_on`` says so after each."""
        taken = []
        for _ in range(n_steps):
            step = self.step()
            if step is None:
                break
            taken.append(step)
            if go_on is not None and not go_on(step):
                break
        return taken

    def step(self) -> StructuredStep | None:
        """Take the best next step; None when nothing gains."""
        told = self.held_out_scores()  # before any copy is updated
        main = self._main
        best = None
        for draw in range(1 if self.rules.holdout is None else self.rules.draws):
            best = best or self._best(main, told, None, draw, self._drawn_selectors(draw))
        if best is None and self.rules.tried_selectors is not None:
            best = self._best(main, told, None)
        if best is None:
            return None
        if self._step(main, best)[1] <= 0:
            return None
        new = [self._copy_update(k, copy, told, best) for k, copy in enumerate(self._copies)]
        before = float(main.ledger.paid.sum())
        self._pay(main.ledger, best)
        paid = float(main.ledger.paid.sum())
        update, gain = self._move(main, best)
        for copy, candidate in zip(self._copies, new, strict=True):
            if candidate is not None:
                self._move(copy, candidate)
                if copy.ledger is not main.ledger:
                    self._pay(copy.ledger, candidate)
        held_out = main.loss.value(self.held_out_scores()) if self._copies else float("nan")
        share = best.regions.size / max(self._tables[update.selector.level].regions.n_regions, 1)
        amount = self.costs.costs.amount(1) / max(len(self.structures), 1)  # of one tick, per structure
        taken = StructuredStep(update, gain, amount * (paid - before), self.value, held_out, share)
        self.steps.append(taken)
        self.expected_costs.append(amount * paid)
        return taken

    # ------------------------------------------------------------------ candidates

    def _drawn_selectors(self, draw: int) -> Sequence[EntropySelector]:
        """Those that are tried at this step."""
        n = self.rules.tried_selectors
        if n is None or n >= len(self.selectors):
            return self.selectors
        random = np.random.RandomState((self.seed + 15485863 * (len(self.steps) + 1) + draw) % 2**31)
        return [self.selectors[i] for i in np.sort(random.permutation(len(self.selectors))[:n])]

    def _best(
        self,
        learned: _Learned,
        told: Array,
        like: _Candidate | None,
        draw: int = 0,
        selectors: Sequence[EntropySelector] | None = None,
    ) -> _Candidate | None:
        """The best candidate; ``like``: only the one that makes this choice again; ``selectors``: None, all are tried."""
        if like is not None:
            selectors = (like.update.selector,)
        split = self._split(draw)
        probabilities, contexts = self._contexts(told)
        residual = learned.loss.residual(learned.scores)
        best: _Candidate | None = None
        for selector in self.selectors if selectors is None else selectors:
            regions = selector.select(self.structures, probabilities)
            table = self._tables[selector.level]
            which = np.arange(table.regions.n_regions) if regions is None else regions
            target, weight = self._projection(learned.loss, residual, selector.level)
            honest = target
            if self._copies:
                honest, _ = self._projection(learned.loss, learned.loss.residual(told), selector.level)
            fitted_on = which[weight[which] > 0]
            if split is not None:
                fitted_on = fitted_on[split[self._owner[table.regions.first[fitted_on]]]]
            if not fitted_on.size:
                continue
            for number in range(len(self.learners)):
                if like is not None and number != like.learner:
                    continue
                task = UpdateTask(
                    table,
                    fitted_on,
                    target,
                    weight,
                    honest,
                    contexts[selector.level],
                    learned.loss.truth,
                    learned.scores,
                    self.costs,
                    learned.bought if like is None else self._main.bought,
                    self.rules.evaluation_cost + self.rules.least_cost,
                    (self.seed + 7919 * len(learned.updates)) % 2**31,
                    None if like is None else like.update.predictor,
                )
                candidate = self._judge(learned, task, selector, number, which, split)
                if candidate is None:
                    continue
                if like is not None:
                    return candidate
                if best is None or self._rank(candidate) < self._rank(best):
                    best = candidate
        return best

    def _contexts(self, told: Array) -> tuple[Array, dict[int, Array]]:
        """Distributions of scores, and what regions of each level are told of them; kept, as copies may be told the same."""
        if self._told is None or self._told[0] is not told:
            probabilities = LINKS["softmax"].transform(told)
            contexts = {level: self.structures.context(level, probabilities) for level in self._tables}
            self._told = told, probabilities, contexts
        return self._told[1], self._told[2]

    def _split(self, draw: int) -> NDArray[np.bool_] | None:
        """(n,) structures that candidates are fitted to at this step; None: all."""
        if self.rules.holdout is None:
            return None
        random = np.random.RandomState((self.seed + 104729 * (len(self.steps) + 1) + draw) % 2**31)
        n = len(self.structures)
        fitted = np.ones(n, dtype=bool)
        fitted[random.permutation(n)[: max(1, round(self.rules.holdout * n))]] = False
        return fitted

    def _projection(self, loss: ElementLoss, residual: Array, level: int) -> tuple[Array, Array]:
        """(R, K) mean negative gradients of regions, and (R,) weights (7.11)."""
        regions = self._tables[level].regions
        if regions.are_elements:
            return residual, loss.weight
        weight = np.bincount(regions.label, weights=loss.weight, minlength=regions.n_regions).astype(float)
        total = np.empty((regions.n_regions, residual.shape[1]))
        for k in range(residual.shape[1]):
            total[:, k] = np.bincount(
                regions.label, weights=loss.weight * residual[:, k], minlength=regions.n_regions
            )
        return total / np.where(weight > 0, weight, 1.0)[:, None], weight

    def _gain(
        self,
        learned: _Learned,
        direction: Array,
        moved: NDArray[np.intp],
        split: NDArray[np.bool_] | None,
    ) -> tuple[float, tuple[float, float] | None]:
        """How much the mean loss falls along a direction, at the best step; measured on structures that are held out, if any.

        And that step with its gain, where it was measured on all elements.
        """
        n, share = self.rules.judged_elements, 1.0
        judged = moved
        if n is not None and n < self.structures.n_elements:
            share = n / self.structures.n_elements
            random = np.random.RandomState((self.seed + 32452843 * (len(self.steps) + 1)) % 2**31)
            judged = moved[(random.random_sample(self.structures.n_elements) < share)[moved]]
        loss = learned.loss
        if split is None:
            found = loss.search(learned.scores, direction, judged)
            return found[1] / share, found if judged is moved else None
        inside = split[self._owner]
        step, _ = loss.search(learned.scores, direction, judged[inside[judged]])
        held_out = float(loss.weight[~inside].sum())
        fall = loss.fall(learned.scores, step * direction, moved[~inside[moved]])
        return fall / held_out if held_out > 0 else 0.0, None

    def _judge(
        self,
        learned: _Learned,
        task: UpdateTask,
        selector: EntropySelector,
        number: int,
        which: NDArray[np.intp],
        split: NDArray[np.bool_] | None,
    ) -> _Candidate | None:
        fitted = self.learners[number].fit(task)
        if fitted is None:
            return None
        regions = task.table.regions
        chosen = np.zeros(regions.n_regions, dtype=bool)
        chosen[which] = True
        direction = np.where(chosen[:, None], fitted.outputs, 0.0)[regions.label]
        moved = np.flatnonzero(chosen[regions.label])
        if not fitted.replaces:
            gain, best_step = self._gain(learned, direction, moved, split)
        elif split is None:
            best_step = learned.loss.replace(learned.value, learned.scores, direction)
            gain = best_step[1]
        else:
            judged, best_step = learned.loss.on(~split[self._owner]), None
            gain = judged.replace(judged.value(learned.scores), learned.scores, direction)[1]
        if not self.rules.cost_aware:  # Algorithm 3.1: closest to the gradient
            residual, weight = learned.loss.residual(learned.scores), learned.loss.weight
            gain = (
                float(weight @ (residual**2 - (residual - direction) ** 2).sum(axis=1)) / learned.loss.total
            )
        if gain <= 0 and task.like is None:  # copies follow the choice
            return None
        update = Update(selector, fitted.predictor, 1.0, fitted.replaces)
        groups = self.costs.groups_of(fitted.predictor.columns)
        payers = np.unique(self._owner[regions.first[which]]).astype(np.int64)
        ticks = learned.ledger.quote(groups, payers).sum() if groups.size else 0
        price = self.costs.costs.amount(1) * float(ticks) / max(len(self.structures), 1)
        cost = price + self.rules.evaluation_cost + self.rules.least_cost
        return _Candidate(update, direction, moved, which, number, gain, cost, best_step)

    def _rank(self, candidate: _Candidate) -> tuple[float, float]:
        """The best comes first; of equals the cheaper, then the earlier."""
        rate = candidate.improvement / (candidate.cost if self.rules.cost_aware else 1.0)
        return -rate, candidate.cost

    def _copy_update(self, k: int, copy: _Learned, told: Array, best: _Candidate) -> _Candidate | None:
        """What copy ``k`` learns at this step, from structures that are not in its fold."""
        context = copy.scores if self.rules.copies_are_told == "own" else told
        return self._best(copy, context, best if self.rules.stacking == "shared" else None)

    # ------------------------------------------------------------------ taking

    def _pay(self, ledger: Ledger, taken: _Candidate) -> None:
        """Charge structures for what the update reads of them."""
        regions = self._tables[taken.update.selector.level].regions
        payers = np.unique(self._owner[regions.first[taken.regions]]).astype(np.int64)
        groups = self.costs.groups_of(taken.update.predictor.columns)
        if groups.size:
            ledger.buy(groups, payers)
        ledger.charge(self.costs.costs.ticks(self.rules.evaluation_cost), None)

    @staticmethod
    def _step(learned: _Learned, candidate: _Candidate) -> tuple[float, float]:
        """The best step along a candidate on all elements that are learned from, and its gain."""
        if candidate.best_step is None:
            loss, scores, direction = learned.loss, learned.scores, candidate.direction
            if candidate.update.replaces:
                candidate.best_step = loss.replace(learned.value, scores, direction)
            else:
                candidate.best_step = loss.search(scores, direction, candidate.moved)
        return candidate.best_step

    def _move(self, learned: _Learned, candidate: _Candidate) -> tuple[Update, float]:
        step, _ = self._step(learned, candidate)
        kept = 1 - step if candidate.update.replaces else 1.0  # of the scores so far
        if not candidate.update.replaces:
            step *= self.rules.learning_rate
        learned.scores = step * candidate.direction + (kept * learned.scores if kept else 0.0)
        update = replace(candidate.update, step=step)
        learned.updates.append(update)
        learned.bought |= self.costs.closure(self.costs.groups_of(update.predictor.columns))
        before, learned.value = learned.value, learned.loss.value(learned.scores)
        return update, before - learned.value
