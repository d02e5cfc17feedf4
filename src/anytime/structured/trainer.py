"""Structured functional gradient descent, and its cost-greedy form: selectors x learners, the most gain per unit of cost.

Grubb, *Anytime Prediction*, 2014: Algorithm 3.1 (``cost_aware=False``), StructuredSpeedBoost, Algorithm 7.1, and, with
``folds``, Algorithm 3.3: copies that have not seen a fold predict it, and what updates are told of the predictions of others,
while they are learned, are those held-out predictions. At prediction the copies are gone.

The objective, of the scores as they are added up in training, never rises: an update is taken by a line search, and one that
replaces the scores only part of the way where they would be worse.

To use it for another kind of data: a subclass of ``Structures``, distributions to be predicted, prices, selectors and learners.

    trainer = StructuredSpeedBoost(structures, truth, weight, costs, selectors, learners, StructuredRules(...))
    trainer.run(100)
    block = trainer.block()                               # for a Plan
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts, Ledger
from anytime.losses import LINKS
from anytime.structured.block import EntropySelector, StructuredBlock, Update
from anytime.structured.learners import FittedUpdate, UpdateLearner, UpdateTask
from anytime.structured.level_table import BinnedLevels, LevelTable
from anytime.structured.objective import ElementLoss
from anytime.structured.rules import StructuredRules, StructuredStep
from anytime.structured.structures import WHOLE, Array, Structures

__all__ = ["StructuredSpeedBoost"]


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
    region_weights: dict[int, Array] = field(default_factory=dict)  # by level


class _StepInputs:
    """What updates are told at one step: predictions, what is selected by them, and the context that they make."""

    def __init__(self, structures: Structures, scores: Array) -> None:
        self.scores, self._structures = scores, structures
        self.probabilities = np.asarray(LINKS["softmax"].transform(scores))
        self._contexts: dict[int, Array] = {}
        self._selected: dict[EntropySelector, NDArray[np.intp]] = {}

    def context(self, level: int) -> Array:
        """(R, q) of the regions of a level."""
        if level not in self._contexts:
            self._contexts[level] = self._structures.context(level, self.probabilities)
        return self._contexts[level]

    def selected(self, selector: EntropySelector) -> NDArray[np.intp]:
        """The regions that a selector takes."""
        if selector not in self._selected:
            regions = selector.select(self._structures, self.probabilities)
            if regions is None:
                regions = np.arange(self._structures.regions(selector.level).n_regions)
            self._selected[selector] = regions
        return self._selected[selector]


@dataclass(frozen=True, eq=False)
class _Candidate:
    selector: EntropySelector
    learner: int
    fitted: FittedUpdate
    regions: NDArray[np.intp]  # that are selected
    improvement: float
    cost: float
    draw: int  # of the structures that were held out


class StructuredSpeedBoost:
    """Cost-aware structured boosting (Algorithm 7.1), one step at a time; see the module.

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
    groups : (n,) int, default=None
        Structures of the same group are alike (frames of a video): they are in the same fold, and held out together. None: each
        structure is a group.
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
        groups: NDArray[np.intp] | None = None,
        seed: int = 0,
        n_threads: int = 1,
    ) -> None:
        self.structures, self.costs, self.rules = structures, costs, rules or StructuredRules()
        self.selectors, self.learners, self.seed = tuple(selectors), tuple(learners), seed
        self.n_classes = truth.shape[1]
        self.base = np.zeros(self.n_classes) if base is None else np.asarray(base, dtype=np.float64)
        self._owner = structures.regions(WHOLE).label
        n = len(structures)
        self._group = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        n_groups = int(self._group.max(initial=-1)) + 1
        if self.rules.folds > n_groups:
            what = "structures" if groups is None else "groups"
            raise ValueError(f"{self.rules.folds} folds need as many {what}, but there are {n_groups}")
        in_group = self._group[self._owner] if n else self._owner
        labelled = np.bincount(in_group, weights=weight, minlength=n_groups) > 0
        if self.rules.folds and labelled.sum() == 1:
            what = "structure" if groups is None else "group"
            raise ValueError(f"only one {what} has labels; with folds, at least two need some")
        # those with labels first, so that each copy sees some
        order = np.lexsort((np.random.RandomState(seed).permutation(n_groups), ~labelled))
        self._in_fold = self._parts(order, max(self.rules.folds, 1))[self._owner]
        levels = sorted({s.level for s in self.selectors})
        binned = BinnedLevels(structures, levels, self.n_classes, n_threads=n_threads)
        self._tables = {level: LevelTable(binned, level, self.n_classes) for level in levels}
        self._main = self._start(ElementLoss(truth, weight), costs.ledger(n))
        self._copies = [
            self._start(
                self._main.loss.on(self._in_fold != k),
                self._main.ledger if self.rules.stacking == "shared" else costs.ledger(n),
            )
            for k in range(self.rules.folds)
        ]
        self.steps: list[StructuredStep] = []
        self.expected_costs: list[float] = []
        self.time_is_up: Callable[[], bool] = lambda: False  # asked between the candidates of a step

    def _parts(self, order: NDArray[np.intp], n_parts: int) -> NDArray[np.intp]:
        """(n,) the part of each structure: groups come in some order, each to the part with the fewest structures so far."""
        sizes = np.bincount(self._group, minlength=order.size)
        part, filled = np.zeros(order.size, dtype=np.intp), np.zeros(n_parts, dtype=np.intp)
        for group in order:
            part[group] = np.argmin(filled)
            filled[part[group]] += sizes[group]
        return part[self._group]

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
        out = self._main.scores.copy()
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
        """Take the best next step; None when nothing gains.

        When time is up, the best so far is taken as it is; one that copies have not learned is not, unless it is the first.
        """
        inputs = _StepInputs(self.structures, self.held_out_scores())  # before any copy is updated
        main, before = self._main, self._main.value
        best = None
        for draw in range(1 if self.rules.holdout is None else self.rules.draws):
            best = best or self._best(main, inputs, None, draw, self._drawn(draw))
        if best is None and self.rules.tried_candidates is not None:
            best = self._best(main, inputs, None)
        if best is None:
            return None
        if best.fitted.provisional and not self.time_is_up():
            best = self._best(main, inputs, None, best.draw, [(best.selector, best.learner)], trial=False)
            if best is None:
                return None
        new = []
        for k, copy in enumerate(self._copies):
            if self.steps and self.time_is_up():
                return None
            new.append(self._copy_update(k, copy, inputs, best))
        update = self._move(main, best)
        if update is None:
            return None
        paid = float(main.ledger.paid.sum())
        self._pay(main.ledger, best)
        amount = self.costs.costs.amount(1) / max(len(self.structures), 1)  # of one tick, per structure
        self.expected_costs.append(amount * float(main.ledger.paid.sum()))
        cost = self.expected_costs[-1] - amount * paid
        for copy, candidate in zip(self._copies, new, strict=True):
            if candidate is not None and self._move(copy, candidate) and copy.ledger is not main.ledger:
                self._pay(copy.ledger, candidate)
        held_out = main.loss.value(self.held_out_scores()) if self._copies else float("nan")
        share = best.regions.size / max(self._tables[update.selector.level].regions.n_regions, 1)
        taken = StructuredStep(update, before - main.value, cost, main.value, held_out, share)
        self.steps.append(taken)
        return taken

    # ------------------------------------------------------------------ candidates

    def _pairs(self) -> list[tuple[EntropySelector, int]]:
        return [(selector, number) for selector in self.selectors for number in range(len(self.learners))]

    def _drawn(self, draw: int) -> list[tuple[EntropySelector, int]]:
        """Pairs of selector and learner that are tried at this step."""
        pairs, n = self._pairs(), self.rules.tried_candidates
        if n is None or n >= len(pairs):
            return pairs
        random = self._random(15485863, draw)
        return [pairs[i] for i in np.sort(random.permutation(len(pairs))[:n])]

    def _random(self, number: int, draw: int = 0) -> np.random.RandomState:
        """Randomness of this step."""
        return np.random.RandomState((self.seed + number * (len(self.steps) + 1) + draw) % 2**31)

    def _best(
        self,
        learned: _Learned,
        inputs: _StepInputs,
        like: _Candidate | None,
        draw: int = 0,
        pairs: Sequence[tuple[EntropySelector, int]] | None = None,
        trial: bool = True,
    ) -> _Candidate | None:
        """The best candidate.

        ``like``: the one that makes this choice again; ``pairs``: None, all are tried; ``trial``: whether learners may do less.
        """
        if like is not None:
            pairs = [(like.selector, like.learner)]
        split = self._split(draw)
        best: _Candidate | None = None
        for selector, number in self._pairs() if pairs is None else pairs:
            if like is None and trial and (best is not None or self.steps) and self.time_is_up():
                break
            table = self._tables[selector.level]
            weight = self._region_weight(learned, selector.level)
            fitted_on = inputs.selected(selector)
            fitted_on = fitted_on[weight[fitted_on] > 0]
            if split is not None:
                fitted_on = fitted_on[split[self._owner[table.regions.first[fitted_on]]]]
            if not fitted_on.size:
                continue
            task = UpdateTask(
                table,
                fitted_on,
                weight,
                inputs.context(selector.level),
                learned.loss,
                learned.scores,
                inputs.scores,
                self.costs,
                learned.bought if like is None else self._main.bought,
                self.rules.evaluation_cost + self.rules.least_cost,
                (self.seed + 7919 * len(learned.updates)) % 2**31,
                None if like is None else like.fitted.predictor,
                trial and like is None,
                len(learned.updates),
            )
            candidate = self._judge(learned, task, selector, number, inputs.selected(selector), draw)
            if candidate is None:
                continue
            if like is not None:
                return candidate
            if best is None or self._rank(candidate) < self._rank(best):
                best = candidate
        return best

    def _split(self, draw: int) -> NDArray[np.bool_] | None:
        """(n,) structures that candidates are fitted to at this step; None: all."""
        if self.rules.holdout is None:
            return None
        order = self._random(104729, draw).permutation(int(self._group.max(initial=-1)) + 1)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        by_group = np.cumsum(np.bincount(self._group, minlength=order.size)[order])
        n_groups = 1 + int(np.searchsorted(by_group, self.rules.holdout * self._group.size - 0.5))
        return np.asarray(place[self._group] >= n_groups)

    def _region_weight(self, learned: _Learned, level: int) -> Array:
        if level not in learned.region_weights:
            regions = self._tables[level].regions
            learned.region_weights[level] = np.bincount(
                regions.label, weights=learned.loss.weight, minlength=regions.n_regions
            ).astype(np.float64)
        return learned.region_weights[level]

    def _drawn_elements(self, among: NDArray[np.bool_] | None) -> NDArray[np.intp]:
        """Elements on which gains are measured at this step, all or some of those in a mask."""
        n = self.rules.judged_elements
        elements = np.arange(self.structures.n_elements) if among is None else np.flatnonzero(among)
        if n is None or n >= elements.size:
            return elements
        return np.sort(self._random(32452843).choice(elements, n, replace=False))

    def _direction(self, candidate: _Candidate, elements: NDArray[np.intp]) -> Array:
        """(m, K) the outputs of the regions of elements; 0 where they are not selected."""
        regions = self._tables[candidate.selector.level].regions
        chosen = np.zeros(regions.n_regions, dtype=bool)
        chosen[candidate.regions] = True
        label = regions.label[elements]
        return np.where(chosen[label][:, None], candidate.fitted.outputs[label], 0.0)

    def _gain(
        self, learned: _Learned, candidate: _Candidate, scores: Array, split: NDArray[np.bool_] | None
    ) -> float:
        """How much the mean loss falls at the best step; measured on structures that are held out, if any.

        With copies it is the loss of held-out predictions: on elements that earlier steps know by heart nothing seems to gain.
        """
        loss, inside = learned.loss, None if split is None else split[self._owner]
        if candidate.fitted.replaces:
            judged = loss if inside is None else loss.on(~inside)
            value = learned.value if inside is None else judged.value(learned.scores)
            step, gain = judged.replace(value, learned.scores, candidate.fitted.outputs)
            # what buys nothing replaces the scores as a whole: going part of the way again and again gains next to nothing
            owned = learned.bought[self.costs.groups_of(candidate.fitted.predictor.columns)].all()
            return 0.0 if step < 1 and owned else gain
        step = self._length(learned, candidate, inside)
        elements = self._drawn_elements(None if inside is None else ~inside)
        direction = self._direction(candidate, elements)
        weight = float(loss.weight[elements].sum())
        if not self.rules.cost_aware:  # Algorithm 3.1: closest to the gradient
            residual = loss.residual(learned.scores)[elements]
            closer = (residual**2 - (residual - direction) ** 2).sum(axis=1)
            return float(loss.weight[elements] @ closer) / max(weight, 1e-300)
        return loss.fall(scores, step * direction, elements) / weight if weight > 0 else 0.0

    def _length(
        self, learned: _Learned, candidate: _Candidate, among: NDArray[np.bool_] | None = None
    ) -> float:
        """The best step along a candidate, no longer than it allows."""
        elements = self._drawn_elements(among)
        step, _ = learned.loss.search(learned.scores, self._direction(candidate, elements), elements)
        return min(step, candidate.fitted.longest)

    def _judge(
        self,
        learned: _Learned,
        task: UpdateTask,
        selector: EntropySelector,
        number: int,
        selected: NDArray[np.intp],
        draw: int,
    ) -> _Candidate | None:
        fitted = self.learners[number].fit(task)
        if fitted is None:
            return None
        candidate = _Candidate(selector, number, fitted, selected, 0.0, 0.0, draw)
        if task.like is not None:  # copies follow the choice
            return candidate
        gain = self._gain(learned, candidate, task.held_out_scores, self._split(draw))
        if gain <= 0:
            return None
        groups = self.costs.groups_of(fitted.predictor.columns)
        payers = np.unique(self._owner[task.table.regions.first[selected]]).astype(np.int64)
        ticks = learned.ledger.quote(groups, payers).sum() if groups.size else 0
        price = self.costs.costs.amount(1) * float(ticks) / max(len(self.structures), 1)
        cost = price + self.rules.evaluation_cost + self.rules.least_cost
        return _Candidate(selector, number, fitted, selected, gain, cost, draw)

    def _rank(self, candidate: _Candidate) -> tuple[float, float]:
        """The best comes first; of equals the cheaper, then the earlier."""
        rate = candidate.improvement / (candidate.cost if self.rules.cost_aware else 1.0)
        return -rate, candidate.cost

    def _copy_update(
        self, k: int, copy: _Learned, inputs: _StepInputs, best: _Candidate
    ) -> _Candidate | None:
        """What copy ``k`` learns at this step, from structures that are not in its fold."""
        if self.rules.copies_are_told == "own":
            inputs = _StepInputs(self.structures, copy.scores)
        return self._best(copy, inputs, best if self.rules.stacking == "shared" else None)

    # ------------------------------------------------------------------ taking

    def _pay(self, ledger: Ledger, taken: _Candidate) -> None:
        """Charge structures for what the update reads of them."""
        regions = self._tables[taken.selector.level].regions
        payers = np.unique(self._owner[regions.first[taken.regions]]).astype(np.int64)
        groups = self.costs.groups_of(taken.fitted.predictor.columns)
        if groups.size:
            ledger.buy(groups, payers)
        ledger.charge(self.costs.costs.ticks(self.rules.evaluation_cost), None)

    def _move(self, learned: _Learned, candidate: _Candidate) -> Update | None:
        """Take a step along a candidate; None, and nothing changes, where that does not lower the loss."""
        fitted, loss = candidate.fitted, learned.loss
        if fitted.replaces:
            step, _ = loss.replace(learned.value, learned.scores, fitted.outputs)
            scores = step * fitted.outputs + ((1 - step) * learned.scores if step < 1 else 0.0)
        else:
            step = self.rules.learning_rate * self._length(learned, candidate)
            every = np.arange(self.structures.n_elements)
            scores = learned.scores + step * self._direction(candidate, every)
        value = loss.value(scores)
        if not value < learned.value:
            return None
        update = Update(candidate.selector, fitted.predictor, step, fitted.replaces)
        learned.scores, learned.value = scores, value
        learned.updates.append(update)
        learned.bought = learned.bought | self.costs.closure(self.costs.groups_of(update.predictor.columns))
        return update
