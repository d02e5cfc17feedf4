"""Early and late: groups bought one after the other, and a model of full strength renewed on everything bought so far.

Boosting that continues from what cheap features have explained stays behind a model trained on all features at once: early stages
use up the residual. Here a stage replaces the answer instead. While features cost more than arithmetic, that is nearly free, and
models spaced geometrically in cost add up to a constant times the last.

Quick models choose the order and the sets, on held-out rows. Full models are boosted once, on all rows. How many rounds they
need, and how good they are, is found for a few of them on held-out rows; for the others it is read off the losses of their
quick models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.boosted import Training
from anytime.boosting.branches import branch_sets, budgets, most_gain_first, most_missed_first
from anytime.boosting.foretelling import Foretelling
from anytime.boosting.probes import Probes, by_group
from anytime.boosting.purchasing import Purchasing
from anytime.boosting.rounds import GradientRounds
from anytime.boosting.sets import Groups, GroupSets
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.growing import TreeGrower, join
from anytime.trees.ladder import add_base

__all__ = ["MORE_ROUNDS", "Booster", "Renewal", "Renewed"]

Rows = NDArray[np.intp]

# Below so many rows, all take their turn in being held out, in so many folds.
_FOLDS = ((500, 5), (1_000, 3), (2_000, 2))
_ANCHORS = 4  # models that are judged on held-out rows; the others are foretold
_BRANCHES = 24  # the most known budgets that are planned for
_SAMPLED = 0.5  # of the columns, for each tree, where held-out rows like that
_BAGGED = 0.8  # of the rows, for each round
# Times as many as held-out rows like: models that stay have more rows to learn from. Held-out rows are asked about so many fewer
# than ``n_estimators``
MORE_ROUNDS = 1.4
_TOLERANCE, _WORTH = 0.005, 0.005  # shares of the held-out loss that further rounds, and stages, have to gain
_GAP = 1.1  # stages whose costs are closer than this factor are as good as one
# Factor of cost after which a stage need not gain by quick models, which see less than full ones in large sets: only not be
# worse by more than this share
_STRETCH, _HARM = 1.3, 0.15
_LAST_SHARE, _SEARCH_SHARE = 0.4, 0.6  # of a time budget, when these end
_LATE_TRIALS = (
    3  # sets that are tried although time is up, until one has a model: there has to be a cheap answer
)
_FOLD_PARTS = 5  # of the held-out rows, all of which have to agree that a model does harm


@dataclass(frozen=True)
class Booster:
    """How one model is boosted."""

    grower: TreeGrower
    learning_rate: float
    n_estimators: int  # the most rounds
    n_iter_no_change: int
    shared: bool = False  # one tree for all outputs
    column_share: float = 1.0  # of the columns that each tree may use
    row_share: float = 1.0  # of the rows that each round learns from


@dataclass(frozen=True, eq=False)
class Renewed:
    """One model of full strength."""

    groups: Groups  # what is bought for it
    trees: TreeArrays  # one stage
    loss: float  # on held-out rows, before it was fitted to all, or foretold; NaN: not judged yet
    # (F,): the loss of its quick model on parts of the held-out rows. Empty: unknown
    by_fold: Array = field(default_factory=lambda: np.empty(0))
    cut_short: bool = False  # whether time allowed for fewer rounds than were asked for
    n_estimators: int = 0  # rounds
    measured: float = np.nan  # the loss, where it was not foretold

    def harms(self, other: Renewed, by_more_than: float) -> bool:
        """Whether its quick model is worse than another's, by more than a share of that one's loss, in every fold.

        False if unknown.
        """
        if not self.by_fold.size or self.by_fold.size != other.by_fold.size:
            return False
        return bool((self.by_fold > other.by_fold + by_more_than * np.abs(other.by_fold)).all())


class Renewal:
    """Finds an order of purchases, and models for its prefixes.

    A time budget is shared out: the model of everything, which needs no order, is made first and may take two fifths; the search
    for an order ends after three fifths; each further model, the cheapest first, may take half of what is left.

    Parameters
    ----------
    booster : Booster
        Of the models that stay.
    known : sequence of Renewed, default=()
        Models to continue from: they are kept, and boosted further where they have fewer rounds than ``booster`` allows.
    planned : (b,) or None, default=None
        Known budgets to look for sets for; None: some, spaced evenly on the logarithm.
    evaluation_cost : float, default=0
        Of one tree, which leaves that much less of a known budget for groups.

    Attributes
    ----------
    n_planned : int
        Models that the order asks for.
    cut_short : bool
        Whether the search for the order, or a model, ended because time was up.
    promise : (G,) float
        What each group is worth in a model of everything.
    """

    def __init__(
        self,
        training: Training,
        booster: Booster,
        known: Sequence[Renewed] = (),
        planned: Array | None = None,
        evaluation_cost: float = 0.0,
    ) -> None:
        self.training, self.known, self.planned = training, list(known), planned
        self.evaluation_cost = evaluation_cost
        n_outputs = training.base.size
        # Rounds are counted in trees per output, whether trees are shared or not: who asks for few gets the same strength
        n_rounds = booster.n_estimators * n_outputs
        self.booster = replace(booster, shared=n_outputs > 1, n_estimators=n_rounds, row_share=_BAGGED)
        self.sets = GroupSets(training.costs)
        n_folds = next((folds for rows, folds in _FOLDS if len(training.table) < rows), 0)
        self.splits = [(training.train, training.held)]
        if n_folds or not training.held.size:
            self.splits = training.folds(n_folds or _FOLDS[-1][1])
        self.probes = Probes(
            training, self.sets, self.splits, booster.grower, _SEARCH_SHARE * training.clock.seconds
        )
        self.foretelling = Foretelling()
        self.before = float(
            np.mean([training.objective.judged(self._constant(), judge) for _, judge in self.splits])
        )
        self.seed = int(training.random.randint(2**31 - 1))
        self.n_planned, self.cut_short = 1, False
        self._whole_gains = np.zeros(training.costs.n_groups)
        self.promise = np.zeros(training.costs.n_groups)
        self._branch_sets: list[Groups] | None = None  # None: no search was made
        self._find_branch_sets: Callable[[], list[Groups]] | None = None
        self._whole: tuple[Array, int, bool] | None = None  # how the model of everything was judged

    def _constant(self) -> Array:
        return np.broadcast_to(self.training.base, (len(self.training.table), self.training.base.size))

    # ------------------------------------------------------------------ the order

    def order(self) -> list[int]:
        """The groups with columns in the order of purchase; what they require comes along.

        The groups of a known model stand together, before those of the next.
        """
        names, n_groups = self.training.costs.costs.names, len(self.sets.groups)

        def tell(order: list[int], loss: float) -> None:
            self.training.clock.tell(
                f"bought {names[order[-1]]!r} ({len(order)} of {n_groups}), held-out loss {loss:.5g}",
                n_bought=len(order),
                held_out_loss=loss,
            )

        self.promise = self._whole_gains if self.probes.over else self.probes.promise()
        purchasing = Purchasing(self.sets, self.probes.losses, self.promise, tell)
        order = purchasing.order([model.groups for model in self.known])
        self.cut_short |= purchasing.cut_short
        return order

    def spaced(self, order: Sequence[int], max_stages: int) -> list[Groups]:
        """The prefixes to make models for: all, or where these are too many, some spaced evenly on the logarithm of cost.

        A purchase that costs nothing joins the one before it.
        """
        ends, prices, owned, spent = list[int](), list[int](), set[int](), 0
        for n_bought, g in enumerate(order, start=1):
            price = self.sets.price(self.sets.closures[g] - owned)
            owned |= self.sets.closures[g]
            spent += price
            if ends and price == 0:
                ends[-1] = n_bought
            else:
                ends.append(n_bought)
                prices.append(spent)
        places = _spaced(np.array(prices, dtype=np.float64), max_stages)
        return [self.sets.closed(order[: ends[at]]) for at in places]

    # ------------------------------------------------------------------ the models

    def models(self, max_stages: int) -> Iterator[Renewed]:
        """The known models and new ones, until time is up: that of everything, the cheapest, then what is missed most."""
        clock, everything = self.training.clock, self.sets.everything
        fitted = {model.groups: model for model in self.known}
        yield from self.known
        last = fitted.get(everything)
        if last is None:
            self._choose_sampling(_LAST_SHARE * clock.seconds)
        whole = self.renewed(everything, _LAST_SHARE * clock.seconds, last)
        if whole is not None and whole is not last:
            yield whole
        sets = fitted.keys() if len(fitted) >= max_stages else self._sets(fitted, max_stages)
        todo = [groups for groups in sets if groups != everything]
        self.n_planned = len(todo) + 1
        has_cheap = False
        for n_tried, groups in enumerate(self._in_turn(todo)):
            if clock.over and (has_cheap or n_tried >= _LATE_TRIALS):
                self.cut_short = True
                return
            earlier = fitted.get(groups)
            model = self.renewed(groups, clock.elapsed + (clock.seconds - clock.elapsed) / 2, earlier)
            has_cheap |= model is not None
            if model is not None and model is not earlier:
                yield model

    def _sets(self, fitted: Mapping[Groups, Renewed], max_stages: int) -> list[Groups]:
        """The sets to make models for, from small to large, the known ones among them."""
        order = self.order()
        prefixes = self._worth_a_model(self.spaced(order, max_stages))
        new = [groups for groups in prefixes if groups not in fitted]
        taken = [new[at] for at in _halving(len(new))][: max_stages - len(fitted)]
        chain = sorted({*fitted, *taken}, key=len)
        self._find_branch_sets = partial(self._searched, order, chain, max_stages)
        if not self._foretells_trees:
            self._branch_sets = self._find_branch_sets()
        return chain

    @property
    def _foretells_trees(self) -> bool:
        """Whether what trees cost decides which sets answer a budget: how many there are is foretold by models of the chain."""
        return self.planned is not None and self.evaluation_cost > 0

    def _searched(self, order: Sequence[int], chain: Sequence[Groups], max_stages: int) -> list[Groups]:
        """Sets for known budgets."""

        def evaluation(groups: Groups) -> int:
            n_trees = MORE_ROUNDS * self.foretelling.rounds(self.probes(groups)) if groups else 0.0
            return self.training.costs.costs.ticks(self.evaluation_cost * round(n_trees))

        planned = self._budgets(order, max_stages)
        losses, priced = self.probes.parts, self._foretells_trees and len(self.foretelling) > 0
        branches = branch_sets(
            self.sets, order, chain, losses, self.promise, planned, *([evaluation] if priced else [])
        )
        # what time will not suffice for shall be what is missed least
        limited = np.isfinite(self.training.clock.seconds)
        return most_gain_first(branches, chain, self.sets, self.probes) if limited else branches

    def _budgets(self, order: Sequence[int], max_stages: int) -> list[int]:
        """Ticks to plan for: those that were asked for, or some, fewer where rows are too few to tell many sets apart."""
        if self.planned is None:
            most = min(_BRANCHES, max_stages, max(len(self.training.table) // 20, 8))
            return budgets(self.sets, order, most)
        ticks = self.training.costs.costs.budgets_ticks(np.asarray(self.planned, dtype=np.float64))
        return sorted({int(t) for t in ticks if 0 < t < self.sets.price(self.sets.everything)})

    @property
    def has_searched(self) -> bool:
        """Whether sets for known budgets were looked for."""
        return self._branch_sets is not None

    def branches(self) -> Iterator[Renewed]:
        """Models of the sets that answer known budgets better than the chain, until time is up."""
        clock = self.training.clock
        if self._branch_sets is None and self._find_branch_sets is not None:
            self._branch_sets = self._find_branch_sets()
        for groups in self._branch_sets or []:
            if clock.over:
                self.cut_short = True
                return
            model = self.renewed(groups, clock.elapsed + (clock.seconds - clock.elapsed) / 2)
            if model is not None:
                yield model

    def _worth_a_model(self, prefixes: list[Groups]) -> list[Groups]:
        """The prefixes without those whose quick models gain nothing, and those that cost nearly as much as the next.

        Quick models see less than full ones in large sets. So where money would be left, a stage is made although it gains
        nothing by them.
        """
        gaining, least, spent = list[Groups](), self.probes(frozenset()), 0
        for groups in prefixes:
            quick, price = self.probes(groups), self.sets.price(groups)
            gains = not quick >= least - _WORTH * abs(least)
            stretches = 0 < _STRETCH * spent <= price and quick <= least + _HARM * abs(least)
            if groups == prefixes[-1] or gains or stretches:
                gaining.append(groups)
                least, spent = min(quick, least), price
        worth = gaining[-1:]
        for groups in gaining[-2::-1]:
            if self.sets.price(groups) * _GAP <= self.sets.price(worth[0]):
                worth.insert(0, groups)
        return worth

    def _in_turn(self, todo: list[Groups]) -> list[Groups]:
        """The cheapest first, then those that quick losses can be read by best, then what would be missed most."""
        if not todo:
            return []
        anchors = [todo[0]]
        quick = [self.probes(groups) for groups in (todo[0], self.sets.everything, frozenset[int]())]
        losses = np.array([self.probes(groups) for groups in todo])
        while len(anchors) < min(_ANCHORS - 1, len(todo)) and np.isfinite(losses).all():
            distance = np.min([np.abs(np.sqrt(np.abs(losses)) - np.sqrt(abs(at))) for at in quick], axis=0)
            furthest = int(distance.argmax())
            if todo[furthest] in anchors:
                break
            anchors.append(todo[furthest])
            quick.append(losses[furthest])
        anchors = list(dict.fromkeys(anchors))
        rest = [groups for groups in todo if groups not in anchors]
        return [*anchors, *most_missed_first(rest, [*anchors, self.sets.everything], self.sets, self.probes)]

    def _choose_sampling(self, until: float) -> None:
        """Whether each tree is to see some columns only, or all: what held-out rows like in the model of everything.

        Where time is short, some.
        """
        clock, everything, loss_of_share = self.training.clock, self.sets.everything, dict[float, float]()
        for share in (_SAMPLED, 1.0):
            booster = replace(self.booster, column_share=share)
            before = clock.elapsed
            losses, best, cut_short = self._whole = self._judged(booster, everything, until, None)
            if not loss_of_share or losses[best] < min(loss_of_share.values()):
                self.booster, kept = booster, self._whole
            loss_of_share[share] = float(losses[best])
            if cut_short or clock.elapsed + 2 * (clock.elapsed - before) > until:
                break
        self._whole = kept

    def renewed(
        self, groups: Groups, until: float = np.inf, earlier: Renewed | None = None
    ) -> Renewed | None:
        """A model of full strength on a closed set of groups: as many rounds as held-out rows like, on all rows.

        None where held-out rows like none at all. An ``earlier`` model is taken further where they like that.
        """
        clock, booster = self.training.clock, self.booster
        start = None
        if earlier is not None:
            shared = earlier.trees.value.shape[1] > 1
            most = booster.n_estimators if shared else booster.n_estimators // self.training.base.size
            booster = replace(booster, n_estimators=most - earlier.n_estimators, shared=shared)
            if booster.n_estimators <= 0:
                return earlier
            start = self.training.table.outputs(earlier.trees)
        losses, cut_short = np.array([self.before]), False
        foretold = earlier is None and len(self.foretelling) >= _ANCHORS and np.isfinite(self.probes(groups))
        if foretold:
            until = clock.seconds  # whole, or not at all: with fewer rounds it is not what was foretold
            n_rounds = self.foretelling.rounds(self.probes(groups))
        elif groups == self.sets.everything and earlier is None and self._whole is not None:
            losses, n_rounds, cut_short = self._whole
        else:
            losses, n_rounds, cut_short = self._judged(booster, groups, until, start)
        final = self._boosted(booster, groups, None, None, start)
        n_final = min(round(MORE_ROUNDS * n_rounds), booster.n_estimators)
        final.run(n_final, None, clock.ends(until))
        if final.column_gains is not None:
            self._whole_gains = by_group(self.sets, final.column_gains)
        cut_short |= final.cut_short
        self.cut_short |= cut_short
        if not final.rounds or (foretold and final.cut_short):
            return earlier
        quick = self.probes(groups)
        if earlier is None and not foretold and not cut_short and np.isfinite(quick):
            self.foretelling.add(quick, float(losses[n_rounds]), n_rounds)
        loss = np.nan if foretold else float(losses[min(n_rounds, len(final.rounds))])
        trees, n_rounds = final.trees(one_stage=True), len(final.rounds)
        if earlier is None:
            value = trees.value.copy()
            add_base(trees, value, self.training.base)
            trees = replace(trees, value=value)
            parts = self.probes.parts(groups)
            by_fold = np.array(
                [part.mean() for part in np.array_split(parts, _FOLD_PARTS)]
                if parts.size >= _FOLD_PARTS
                else []
            )
        else:  # it has seen the held-out rows: what is known honestly is by how much they gain now
            trees = join([earlier.trees, trees], [earlier.trees.n_trees + trees.n_trees])
            loss = earlier.loss - float(losses[0]) + loss
            by_fold, n_rounds = np.empty(0), n_rounds + earlier.n_estimators
        model = Renewed(groups, trees, loss, by_fold, cut_short, n_rounds, measured=loss)
        cost = self.sets.amount(groups)
        told = f"model of {n_rounds} rounds at cost {cost:g}, quick loss {quick:.5g}"
        clock.tell(told, round=n_rounds, cost=cost, held_out_loss=quick)
        return model

    def _boosted(
        self, booster: Booster, groups: Groups, rows: Rows | None, judge: Rows | None, start: Array | None
    ) -> GradientRounds:
        """A boosting that has not begun; ``start`` (n, K) are scores to continue from."""
        # With little time, the splits of the model of everything are all that there is to order groups by.
        keep_gains = (
            judge is None and groups == self.sets.everything and np.isfinite(self.training.clock.seconds)
        )
        return self.training.table.rounds(
            self.training.objective,
            booster.grower,
            self.training.base if start is None else start,
            learning_rate=booster.learning_rate,
            rows=rows,
            judge=judge,
            columns=self.sets.columns(groups),
            shared=booster.shared,
            keep_gains=bool(keep_gains),
            column_share=booster.column_share,
            row_share=booster.row_share,
            seed=self.seed,
            keep_trees=judge is None,
            tolerance=_TOLERANCE,
        )

    def _judged(
        self, booster: Booster, groups: Groups, until: float, start: Array | None
    ) -> tuple[Array, int, bool]:
        """Mean held-out loss before the first round and after each, the best number of rounds, and whether time was short.

        Time is shared out evenly among the splits and the model that is kept; when it is up, further splits are left out. The
        losses end with the last round that all boostings have.
        """
        clock = self.training.clock
        until = clock.elapsed + (until - clock.elapsed) * len(self.splits) / (len(self.splits) + 1.5)
        runs: list[GradientRounds] = []
        for rows, judge in self.splits:
            end = clock.elapsed + (until - clock.elapsed) / (len(self.splits) - len(runs))
            run = self._boosted(booster, groups, rows, judge, start)
            n_rounds = max(round(booster.n_estimators / MORE_ROUNDS), 1)
            run.run(
                n_rounds if self.sets.columns(groups).any() else 0, booster.n_iter_no_change, clock.ends(end)
            )
            runs.append(run)
            if clock.elapsed >= until:
                break
        length = max(len(run.losses) for run in runs)
        padded = [run.losses + run.losses[-1:] * (length - len(run.losses)) for run in runs]
        ends = [len(run.losses) for run in runs if run.cut_short]
        losses = np.mean(padded, axis=0)[: min(ends, default=length)]
        if len(runs) < len(self.splits) and start is None:
            # Folds are not equally hard: what is known of all of them is the loss of the constant answer.
            losses += self.before - float(losses[0])
        best = int(np.flatnonzero(losses <= losses.min() + _TOLERANCE * abs(losses.min()))[0])
        return losses, best, any(run.cut_short for run in runs)

    def judged(self, models: Sequence[Renewed]) -> list[Renewed]:
        """The models with a held-out loss each, on one scale: read off their quick models where these are known."""
        earlier_groups = {model.groups for model in self.known}
        with_losses = []
        for model in models:
            quick = self.probes(model.groups)
            foretold = model.groups not in earlier_groups and np.isfinite(quick) and len(self.foretelling) > 0
            with_losses.append(replace(model, loss=self.foretelling.loss(quick)) if foretold else model)
        return with_losses

    def judged_beside(
        self, branches: Mapping[Renewed, float], chain: Mapping[Renewed, float]
    ) -> list[Renewed]:
        """The branches with a held-out loss each, by what models cost; ``chain``: judged, from cheap to expensive.

        A branch is the best of many on the rows that judge it, which flatters it. So it gives way to a more expensive model of
        the chain unless it is better than that by more than a standard error. What is cheaper it has beaten already
        (``branch_sets``).
        """
        with_losses = list[Renewed]()
        least = np.minimum.accumulate([self.before, *(model.loss for model in chain)]).tolist()
        for branch in sorted(branches, key=branches.__getitem__):
            n_cheaper = sum(cost <= branches[branch] for cost in chain.values())
            dearer = zip(list(chain)[n_cheaper:], least[1 + n_cheaper :], strict=True)
            close = [loss for model, loss in dearer if not self._is_clearly_better(branch, model)]
            cheaper = min([least[n_cheaper], *(other.loss for other in with_losses)])
            [judged] = self.judged([branch])
            if judged.loss < cheaper:
                loss = min(max([judged.loss, *close]), float(np.nextafter(cheaper, -np.inf)))
                with_losses.append(replace(judged, loss=loss))
        return with_losses

    def _is_clearly_better(self, model: Renewed, other: Renewed) -> bool:
        """Whether a quick model is better than another's by more than a standard error; False if unknown."""
        gain = self.probes.parts(other.groups) - self.probes.parts(model.groups)
        return bool(gain.size > 1 and gain.mean() > gain.std(ddof=1) / np.sqrt(gain.size))


def _spaced(prices: Array, most: int) -> list[int]:
    """Places among increasing prices, at most so many and the last among them, spaced evenly on the logarithm of price."""
    if len(prices) <= most:
        return list(range(len(prices)))
    places = [0] if most > 1 and prices[0] == 0 else []
    paid = np.flatnonzero(prices > 0)
    n_gaps = most - len(places) - 1
    due = prices[paid[0]] if n_gaps else np.inf
    ratio = (prices[-1] / prices[paid[0]]) ** (1 / max(n_gaps, 1)) * (1 + 1e-12)
    for at in paid.tolist():
        if at == len(prices) - 1 or prices[at] >= due:
            places.append(at)
            due = ratio * prices[at]
    return places


def _halving(n: int) -> list[int]:
    """0..n-1, the middle of every gap in turn: whenever one stops, what is there is spread evenly."""
    order, gaps = list[int](), [(0, n)]
    while gaps:
        first, end = gaps.pop(0)
        if first < end:
            middle = (first + end) // 2
            order.append(middle)
            gaps += [(first, middle), (middle + 1, end)]
    return order
