"""Early and late: groups bought one after the other, and a model of full strength renewed on everything bought so far.

Boosting that goes on from what cheap features have explained stays behind a model trained on all features at once: early stages
use up the residual. Here a stage replaces the answer instead. While features cost more than arithmetic, that is nearly free, and
models spaced geometrically in cost add up to a constant times the last.

The order is chosen on held-out rows: forward by what a quick model gains per price, with one look ahead. A cheaper group goes
first where that makes the area under the curve of loss against the logarithm of cost smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from anytime.boosting.boosted import Training
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.clock import Clock
from anytime.trees.growing import TreeGrower, join
from anytime.trees.ladder import add_base

__all__ = ["Booster", "Renewal", "Renewed"]

Rows = NDArray[np.intp]
Groups = frozenset[int]

_SEARCH_ROWS = 8_000  # on which orders are compared; more rows change the order little
# Below so many rows all take their turn in being held out, in so many folds.
_FOLDS = ((2_000, 5), (4_000, 3))
# Groups x candidates x rows x columns x outputs x folds of a search: where that is more, there are fewer folds.
_SEARCH_WORK = 1e9
# With more groups left, not all are looked at, and several are bought at a time, for a share of what is spent together.
_MANY = 40
_CHANGE = 0.1
_WIDTH = 12  # candidates looked at then: those of most split gain per price
_LAST_SHARE, _SEARCH_SHARE = 0.4, 0.6  # of a time budget, when these end
_LATE_TRIALS = (
    3  # sets that are tried although time is up, until one has a model: there has to be a cheap answer
)
_PARTS = 5  # of the held-out rows, where there is one split only


@dataclass(frozen=True)
class Booster:
    """How one model is boosted."""

    grower: TreeGrower
    learning_rate: float
    n_estimators: int
    n_iter_no_change: int
    quick: bool = False  # one tree for all outputs, judged by the loss, which tells small differences best


_QUICK: dict[str, Any] = {"learning_rate": 0.3, "n_estimators": 25, "n_iter_no_change": 5, "quick": True}
_QUICK_LEAVES = 15


class HeldOutJudge:
    """Held-out loss of boosted models on sets of columns."""

    def __init__(
        self,
        table: TrainingRows,
        objective: MeanLoss,
        base: Array,  # (K,)
        splits: Sequence[tuple[Rows, Rows]],
        clock: Clock,
    ) -> None:
        self.table, self.objective, self.base = table, objective, base
        self.splits, self.clock = splits, clock

    def boosted(
        self,
        booster: Booster,
        columns: NDArray[np.bool_],
        rows: Rows | None,
        judge: Rows | None,
        start: Array | None = None,
        keep_gains: bool = False,
    ) -> GradientRounds:
        """A boosting that has not begun; ``start`` (n, K) are scores to go on from."""
        return GradientRounds(
            self.table.binned,
            self.objective,
            booster.grower,
            self.base if start is None else start,
            learning_rate=booster.learning_rate,
            rows=rows,
            judge=judge,
            columns=columns,
            shared=booster.quick,
            keep_gains=keep_gains,
            by_loss=booster.quick,
        )

    def losses(
        self,
        booster: Booster,
        columns: NDArray[np.bool_],
        *,
        until: float = np.inf,
        start: Array | None = None,
        keep_gains: bool = False,
    ) -> tuple[Array, list[GradientRounds]]:
        """Mean held-out loss before the first round and after each, and the boostings, one per split.

        When the clock shows ``until`` seconds, further splits are left out; time is shared out evenly among them before. The
        losses end with the last round that all boostings have.
        """
        runs: list[GradientRounds] = []
        for rows, judge in self.splits:
            n_left = len(self.splits) - len(runs)
            end = self.clock.elapsed + (until - self.clock.elapsed) / n_left
            run = self.boosted(booster, columns, rows, judge, start, keep_gains)
            run.run(
                booster.n_estimators if columns.any() else 0, booster.n_iter_no_change, self.clock.ends(end)
            )
            runs.append(run)
            if self.clock.elapsed >= until:
                break
        length = max(len(run.losses) for run in runs)
        padded = [run.losses + run.losses[-1:] * (length - len(run.losses)) for run in runs]
        ends = [len(run.losses) for run in runs if run.cut_short]
        return np.mean(padded, axis=0)[: min(ends, default=length)], runs

    def by_fold(self, runs: Sequence[GradientRounds], n_estimators: int, start: Array | None) -> Array:
        """(F,) held-out loss of each boosting's first rounds; of a single one on each fifth of its held-out rows.

        Empty where there was no time for all splits: other models may have been judged on more of them.
        """
        if len(runs) < len(self.splits):
            return np.empty(0)
        if len(runs) > 1:
            return np.array([run.losses[min(n_estimators, len(run.losses) - 1)] for run in runs])
        judge = self.splits[0][1]
        scores = np.empty_like(runs[0].scores)
        scores[:] = self.base if start is None else start
        if n_estimators:
            trees = TreeBlock(runs[0].trees(n_estimators, one_stage=True))
            scores[judge] += trees.outputs(0, np.ascontiguousarray(self.table.X[judge]))
        units = np.unique(self.objective.units[judge], return_inverse=True)[1] % _PARTS
        return np.array([self.objective.judged(scores, judge[units == k]) for k in np.unique(units)])


@dataclass(frozen=True, eq=False)
class Renewed:
    """One model of full strength."""

    groups: Groups  # what is bought for it
    trees: TreeArrays  # one stage
    loss: float  # on held-out rows, before it was fitted to all
    # (F,): the same on parts of the held-out rows. Empty: unknown, as for a model that has seen them
    by_fold: Array = field(default_factory=lambda: np.empty(0))
    cut_short: bool = False  # whether time allowed for fewer rounds than were asked for

    @property
    def n_estimators(self) -> int:
        """Rounds, of one tree per output."""
        return self.trees.n_trees // self.trees.n_outputs

    def harms(self, other: Renewed, by_more_than: float) -> bool:
        """Whether it is worse than another model, by more than a share of that one's loss, in every fold; False if unknown."""
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
        Models to go on from: they are kept, and boosted further where they have fewer rounds than ``booster`` allows.

    Attributes
    ----------
    n_planned : int
        Models that the order asks for.
    cut_short : bool
        Whether the search for the order, or a model, ended because time was up.
    """

    def __init__(self, training: Training, booster: Booster, known: Sequence[Renewed] = ()) -> None:
        self.training, self.booster, self.known = training, booster, list(known)
        costs = training.costs
        self.costs = costs
        self.members = np.bincount(costs.column_group, minlength=costs.n_groups)
        self.closures = [frozenset(costs.table.closure(g)) for g in range(costs.n_groups)]
        self.groups = [g for g in range(costs.n_groups) if self.members[g]]
        self.everything = self.closed(self.groups)
        self._prices = costs.costs.amounts(costs.prices).tolist()
        grower = booster.grower
        leaves = min(grower.max_leaf_nodes or _QUICK_LEAVES, _QUICK_LEAVES)
        # At so large a rate, leaves of little curvature would go astray without a ridge.
        quick = replace(
            grower, max_leaf_nodes=leaves, l2_regularization=max(grower.l2_regularization, 1.0), n_threads=1
        )
        self.quick_booster = Booster(quick, **_QUICK)
        self._losses: dict[Groups, float] = {}
        n_folds = next((folds for rows, folds in _FOLDS if len(training.table) < rows), 0)
        splits = [(training.train, training.held)]
        if n_folds or not training.held.size:
            splits = training.folds(n_folds or _FOLDS[-1][1])
            work = len(self.groups) * _WIDTH * training.table.X.size * training.base.size
            splits = splits[: max(int(_SEARCH_WORK / work), 1)]
        self.full = HeldOutJudge(training.table, training.objective, training.base, splits, training.clock)
        self.small = self._on_fewer_rows()
        self.n_planned, self.cut_short = 1, False
        self._whole_gains = np.zeros(costs.n_groups)

    def _on_fewer_rows(self) -> HeldOutJudge:
        """The judge of orders: the same splits, on rows enough to tell groups apart."""
        training, full = self.training, self.full
        if len(training.table) <= _SEARCH_ROWS:
            return full
        kept = self._some_rows()
        place = np.full(len(training.table), -1)
        place[kept] = np.arange(kept.size)
        objective = training.objective
        table = training.table.rows(kept)
        splits = [
            (place[learned][place[learned] >= 0], place[judged][place[judged] >= 0])
            for learned, judged in full.splits
        ]
        # As the weights were given: the ridge is a number of rows of weight 1, whatever their number.
        few = MeanLoss(objective.loss, objective.y[kept], objective.weight[kept] * objective.total)
        return HeldOutJudge(table, few, training.base, splits, training.clock)

    def _some_rows(self) -> Rows:
        training = self.training
        if training.query is None:
            return np.sort(training.random.permutation(len(training.table))[:_SEARCH_ROWS])
        drawn = training.random.permutation(int(training.query.max()) + 1)
        share = _SEARCH_ROWS / len(training.table)
        return np.flatnonzero(np.isin(training.query, drawn[: max(int(share * drawn.size), 2)]))

    # ------------------------------------------------------------------ sets of groups

    def closed(self, groups: Sequence[int] | Groups) -> Groups:
        """Groups with all that they require."""
        return frozenset().union(*(self.closures[g] for g in groups))

    def columns(self, groups: Groups) -> NDArray[np.bool_]:
        """(d,) mask of the columns of groups."""
        return np.isin(self.costs.column_group, list(groups))

    def price(self, groups: Groups) -> float:
        """Of a set of groups."""
        return float(sum(self._prices[g] for g in groups))

    @property
    def _search_is_over(self) -> bool:
        clock = self.training.clock
        return clock.elapsed >= _SEARCH_SHARE * clock.seconds

    def quick(self, groups: Groups) -> float:
        """Held-out loss of a quick model on a closed set of groups; NaN where there was no time for it."""
        if groups not in self._losses:
            if self._search_is_over:
                return np.nan
            until = _SEARCH_SHARE * self.training.clock.seconds
            losses, runs = self.small.losses(self.quick_booster, self.columns(groups), until=until)
            if any(run.cut_short for run in runs) or len(runs) < len(self.small.splits):
                return np.nan
            self._losses[groups] = float(losses.min())
        return self._losses[groups]

    # ------------------------------------------------------------------ the order

    def order(self) -> list[int]:
        """The groups with columns in the order of purchase; what they require comes along.

        The groups of a known model stand together, before those of the next.
        """
        promising = self._by_split_gain()
        order: list[int] = []
        for goal in (*(model.groups for model in self.known), self.everything):
            self._extend(order, goal, promising)
        return order

    def _extend(self, order: list[int], goal: Groups, promising: Array) -> None:
        """Buy the groups of ``goal`` that are not in the order yet."""
        owned = self.closed(order)
        left = {g for g in self.groups if g in goal} - set(order)
        loss = self.quick(owned) if left else 0.0
        while left:
            paid = {g: self.price(self.closures[g] - owned) for g in left}
            ranked = sorted(left, key=lambda g: (-promising[g] / max(paid[g], 1e-300), paid[g], g))
            bought = [g for g in sorted(left) if paid[g] == 0]
            if not bought and len(left) > 1:
                looked_at = ranked if len(left) <= _MANY else ranked[:_WIDTH]
                gains = self._gains(owned, looked_at, loss)
                if gains is None:
                    self.cut_short = True
                if gains is None or (len(left) > _MANY and max(gains.values()) <= 0):
                    order += ranked
                    return
                bought = self._bundle(gains, paid, self.price(owned))
            order += bought or list(left)
            left -= set(bought or left)
            if left:
                owned = owned | self.closed(bought)
                found = self.quick(owned)
                loss = loss if np.isnan(found) else min(loss, found)
                names = ", ".join(repr(self.costs.costs.names[g]) for g in bought)
                self.training.clock.tell(
                    f"bought {names} ({len(order)} of {len(self.groups)}), held-out loss {loss:.5g}"
                )

    def _gains(self, owned: Groups, candidates: list[int], loss: float) -> dict[int, float] | None:
        """By how much each group would lower the loss, looked at side by side; None where time ends before all are."""
        jobs = self.booster.grower.n_threads
        together = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(self.quick)(owned | self.closures[g]) for g in candidates
        )
        if np.isnan(together).any():
            return None
        return {g: loss - found for g, found in zip(candidates, together, strict=True)}

    def _bundle(self, gains: dict[int, float], paid: dict[int, float], spent: float) -> list[int]:
        """The best group; where many are to be bought, also the next best that are small change by now."""
        bought = [self._best(gains, paid, spent)]
        if len(paid) <= _MANY:
            return bought
        change = _CHANGE * spent - paid[bought[0]]
        for g in sorted(gains, key=lambda g: (-gains[g] / paid[g], g)):
            if g != bought[0] and gains[g] > 0 and paid[g] <= change:
                bought.append(g)
                change -= paid[g]
        return bought

    def _best(self, gains: dict[int, float], paid: dict[int, float], spent: float) -> int:
        """The group of most gain per price, or a cheaper one where buying it first makes the area smaller."""

        def rate(g: int) -> float:
            return gains[g] / paid[g] if gains[g] > 0 else gains[g] * paid[g]  # harm: worse if it costs more

        def saved(g: int, first: int) -> float:
            """Area over the logarithm of cost, of two purchases, that is saved if ``first`` comes before ``g``."""
            both = spent + paid[g] + paid[first]
            early, late = (np.log(both / max(spent + paid[h], 1e-300)) for h in (first, g))
            return float(gains[first] * early - gains[g] * late)

        best = max(gains, key=lambda g: (rate(g), -paid[g], -g))
        while True:
            cheaper = [g for g in gains if paid[g] < paid[best] and saved(best, g) > 0]
            if not cheaper:
                break
            best = max(cheaper, key=lambda g: (saved(best, g), -g))
        return best

    def _by_split_gain(self) -> Array:
        """(G,) share of the loss that the splits on each group take off in a model of all columns.

        Of a quick model; where there is no time for it, of the model of everything, which has been made by then.
        """
        if self._search_is_over:
            return self._whole_gains
        clock = self.training.clock
        until = clock.elapsed + (_SEARCH_SHARE * clock.seconds - clock.elapsed) / 2
        runs = self.small.losses(
            self.quick_booster, self.columns(self.everything), until=until, keep_gains=True
        )[1]
        total = np.sum([run.column_gains for run in runs if run.column_gains is not None], axis=0)
        return self._by_group(total)

    def _by_group(self, of_columns: Array) -> Array:
        return np.asarray(
            np.bincount(self.costs.column_group, of_columns, self.costs.n_groups), dtype=np.float64
        )

    # ------------------------------------------------------------------ the models

    def spaced(self, order: Sequence[int], max_stages: int) -> list[Groups]:
        """The prefixes to make models for: all, or where these are too many, some spaced evenly on the logarithm of cost.

        A purchase that costs nothing joins the one before it.
        """
        ends, prices, owned, spent = list[int](), list[float](), set[int](), 0.0
        for n_bought, g in enumerate(order, start=1):
            price = self.price(self.closures[g] - owned)
            owned |= self.closures[g]
            spent += price
            if ends and price == 0:
                ends[-1] = n_bought
            else:
                ends.append(n_bought)
                prices.append(spent)
        places = _spaced(np.array(prices), max_stages)
        return [self.closed(order[: ends[at]]) for at in places]

    def models(self, max_stages: int) -> Iterator[Renewed]:
        """The known models and new ones, until time is up: that of everything, the cheapest, then those that halve the gaps."""
        clock = self.training.clock
        known = {model.groups: model for model in self.known}
        yield from self.known
        last = known.get(self.everything)
        whole = self.renewed(self.everything, _LAST_SHARE * clock.seconds, last)
        if whole is not None and whole is not last:
            yield whole
        sets = known.keys() if len(known) >= max_stages else self._sets(known, max_stages)
        todo = [groups for groups in sets if groups != self.everything]
        self.n_planned = len(todo) + 1
        has_cheap = False
        for n_tried, at in enumerate([0, *_halving(len(todo))] if todo else []):
            if clock.over and (has_cheap or n_tried >= _LATE_TRIALS):
                self.cut_short = True
                return
            if n_tried and at == 0:
                continue
            earlier = known.get(todo[at])
            model = self.renewed(todo[at], clock.elapsed + (clock.seconds - clock.elapsed) / 2, earlier)
            has_cheap |= model is not None
            if model is not None and model is not earlier:
                yield model

    def _sets(self, known: Mapping[Groups, Renewed], max_stages: int) -> list[Groups]:
        """The sets to make models for, from small to large, the known ones among them."""
        prefixes = self.spaced(self.order(), max_stages)
        new = [groups for groups in prefixes if groups not in known]
        taken = [new[at] for at in _halving(len(new))][: max_stages - len(known)]
        return sorted({*known, *taken}, key=len)

    def before(self) -> float:
        """Held-out loss of the constant answer, as the models are judged."""
        return float(self.full.losses(self.booster, self.columns(frozenset()))[0][0])

    def renewed(
        self, groups: Groups, until: float = np.inf, earlier: Renewed | None = None
    ) -> Renewed | None:
        """A model of full strength on a closed set of groups: as many rounds as held-out rows like, on all rows.

        None where held-out rows like none at all. An ``earlier`` model is taken further where they like that.
        """
        columns, clock, booster = self.columns(groups), self.training.clock, self.booster
        start = None
        if earlier is not None:
            booster = replace(booster, n_estimators=booster.n_estimators - earlier.n_estimators)
            if booster.n_estimators <= 0:
                return earlier
            start = TreeBlock(earlier.trees).outputs(0, np.ascontiguousarray(self.training.table.X))
        for_folds = clock.elapsed + (until - clock.elapsed) * len(self.full.splits) / (
            len(self.full.splits) + 1.5
        )
        losses, runs = self.full.losses(booster, columns, until=for_folds, start=start)
        # With little time, the splits of the model of everything are all that there is to order groups by.
        keep_gains = groups == self.everything and np.isfinite(clock.seconds)
        final = self.full.boosted(booster, columns, None, None, start, bool(keep_gains))
        final.run(int(np.argmin(losses)), None, clock.ends(until))
        if final.column_gains is not None:
            self._whole_gains = self._by_group(final.column_gains)
        cut_short = final.cut_short or any(run.cut_short for run in runs)
        self.cut_short |= cut_short
        if not final.rounds:
            return earlier
        n_estimators, trees = len(final.rounds), final.trees(one_stage=True)
        by_fold, loss = self.full.by_fold(runs, n_estimators, start), float(losses[n_estimators])
        if earlier is None and len(runs) < len(self.full.splits):
            # Folds are not equally hard: what is known of all of them is the loss of the constant answer.
            loss += self.before() - float(losses[0])
        if earlier is None:
            value = trees.value.copy()
            add_base(trees, value, self.training.base)
            trees = replace(trees, value=value)
        else:  # it has seen the held-out rows: what is known honestly is by how much they gain now
            trees = join([earlier.trees, trees], [earlier.trees.n_trees + trees.n_trees])
            loss = earlier.loss - float(losses[0]) + loss
            by_fold = np.empty(0)
        model = Renewed(groups, trees, loss, by_fold, cut_short)
        clock.tell(
            f"model of {model.n_estimators} rounds at cost {self.price(groups):g}, held-out {loss:.5g}"
        )
        return model


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
