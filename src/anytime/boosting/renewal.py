"""Early and late: groups bought one after the other, and a model of full strength renewed on everything bought so far.

Boosting that goes on from what cheap features have explained stays behind a model trained on all features at once: early stages
use up the residual. Here a stage replaces the answer instead. While features cost more than arithmetic, that is nearly free, and
models spaced geometrically in cost add up to a constant times the last.

The order is chosen on held-out rows: forward by what a quick model gains per price, with one look ahead. A cheaper group goes
first where that makes the area under the curve of loss against the logarithm of cost smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from anytime.trees.growing import TreeGrower
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
    """Held-out loss of boosted models on sets of columns.

    Parameters
    ----------
    table : TrainingRows
    objective : MeanLoss
    base : (K,)
    splits : sequence of (rows to learn from, rows to judge on)
    """

    def __init__(
        self, table: TrainingRows, objective: MeanLoss, base: Array, splits: Sequence[tuple[Rows, Rows]]
    ) -> None:
        self.table, self.objective, self.base, self.splits = table, objective, base, splits

    def boosted(
        self,
        booster: Booster,
        columns: NDArray[np.bool_],
        rows: Rows | None,
        judge: Rows | None,
        keep_gains: bool = False,
    ) -> GradientRounds:
        """A boosting that has not begun."""
        return GradientRounds(
            self.table.binned,
            self.objective,
            booster.grower,
            self.base,
            learning_rate=booster.learning_rate,
            rows=rows,
            judge=judge,
            columns=columns,
            shared=booster.quick,
            keep_gains=keep_gains,
            by_loss=booster.quick,
        )

    def losses(
        self, booster: Booster, columns: NDArray[np.bool_], keep_gains: bool = False
    ) -> tuple[Array, list[GradientRounds]]:
        """Mean held-out loss before the first round and after each, and the boostings, one per split."""
        runs = []
        for rows, judge in self.splits:
            run = self.boosted(booster, columns, rows, judge, keep_gains)
            run.run(booster.n_estimators if columns.any() else 0, booster.n_iter_no_change)
            runs.append(run)
        last = [run.losses[-1] for run in runs]
        length = max(len(run.losses) for run in runs)
        padded = [
            run.losses + [end] * (length - len(run.losses)) for run, end in zip(runs, last, strict=True)
        ]
        return np.mean(padded, axis=0), runs


@dataclass(frozen=True, eq=False)
class Renewed:
    """One model of full strength.

    Attributes
    ----------
    trees : TreeArrays
        One stage.
    n_rounds : int
    loss : float
        On held-out rows, before it was fitted to all.
    """

    trees: TreeArrays
    n_rounds: int
    loss: float


class Renewal:
    """Finds an order of purchases, and models for its prefixes.

    Parameters
    ----------
    training : Training
    booster : Booster
        Of the models that stay.
    """

    def __init__(self, training: Training, booster: Booster) -> None:
        self.training, self.booster = training, booster
        costs = training.costs
        self.costs = costs
        self.members = [np.flatnonzero(costs.column_group == g) for g in range(costs.n_groups)]
        self.closures = [frozenset(costs.table.closure(g)) for g in range(costs.n_groups)]
        self.groups = [g for g in range(costs.n_groups) if self.members[g].size]
        self._amounts = costs.costs.amounts(costs.prices)
        grower = booster.grower
        leaves = min(grower.max_leaf_nodes or _QUICK_LEAVES, _QUICK_LEAVES)
        # At so large a rate, leaves of little curvature would go astray without a ridge.
        quick = replace(
            grower, max_leaf_nodes=leaves, l2_regularization=max(grower.l2_regularization, 1.0), n_threads=1
        )
        self.quick_booster = Booster(quick, **_QUICK)
        self._known: dict[Groups, float] = {}
        n_folds = next((folds for rows, folds in _FOLDS if len(training.table) < rows), 0)
        splits = [(training.train, training.held)]
        if n_folds or not training.held.size:
            splits = training.folds(n_folds or _FOLDS[-1][1])
            work = len(self.groups) * _WIDTH * training.table.X.size * training.base.size
            splits = splits[: max(int(_SEARCH_WORK / work), 1)]
        self.full = HeldOutJudge(training.table, training.objective, training.base, splits)
        self.small = self._on_fewer_rows()

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
        return HeldOutJudge(table, few, training.base, splits)

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
        return float(self._amounts[list(groups)].sum()) if groups else 0.0

    def quick(self, groups: Groups) -> float:
        """Held-out loss of a quick model on a closed set of groups."""
        if groups not in self._known:
            columns = self.columns(groups)
            losses = self.small.losses(self.quick_booster, columns)[0]
            self._known[groups] = float(losses.min())
        return self._known[groups]

    # ------------------------------------------------------------------ the order

    def order(self) -> list[int]:
        """The groups with columns in the order of purchase; what they require comes along."""
        promising = self._by_split_gain()
        owned: Groups = frozenset()
        order: list[int] = []
        left = set(self.groups)
        loss = self.quick(owned)
        while left:
            free = [g for g in sorted(left) if self.price(self.closures[g] - owned) == 0]
            paid = {g: self._paid(owned, g) for g in left}
            ranked = sorted(left, key=lambda g: (-promising[g] / max(paid[g], 1e-300), g))
            if self.training.clock.half_over:  # the models need time, too
                return [*order, *ranked]
            if free:
                bought = free
            else:
                looked_at = ranked if len(left) <= _MANY else ranked[:_WIDTH]
                gains = self._gains(owned, looked_at, loss)
                if len(left) > _MANY and max(gains.values()) <= 0:
                    return [*order, *ranked]
                bought = self._bundle(gains, paid, self.price(owned))
            order += bought
            left -= set(bought)
            owned = owned | self.closed(bought)
            loss = min(loss, self.quick(owned))
            names = ", ".join(repr(self.costs.costs.names[g]) for g in bought)
            self.training.clock.tell(
                f"bought {names} ({len(order)} of {len(self.groups)}), held-out loss {loss:.5g}"
            )
        return order

    def _gains(self, owned: Groups, candidates: list[int], loss: float) -> dict[int, float]:
        """By how much each group would lower the loss; looked at side by side."""
        jobs = self.booster.grower.n_threads
        together = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(self.quick)(owned | self.closures[g]) for g in candidates
        )
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
        """(G,) share of the loss that the splits on each group take off in a model of all columns."""
        everything = self.columns(self.closed(self.groups))
        runs = self.small.losses(self.quick_booster, everything, keep_gains=True)[1]
        total = np.sum([run.column_gains for run in runs if run.column_gains is not None], axis=0)
        return np.asarray(np.bincount(self.costs.column_group, total, self.costs.n_groups), dtype=np.float64)

    def _paid(self, owned: Groups, group: int) -> float:
        """What a group costs now."""
        return self.price(self.closures[group] - owned)

    def prefixes(self, order: Sequence[int]) -> list[Groups]:
        """The sets that an order owns after each purchase that costs something."""
        owned: Groups = frozenset()
        found: list[Groups] = []
        for g in order:
            added = self.closures[g] - owned
            owned = owned | added
            if found and self.price(added) == 0:
                found[-1] = owned
            else:
                found.append(owned)
        return found

    # ------------------------------------------------------------------ the models

    def spaced(self, order: Sequence[int], max_stages: int) -> list[Groups]:
        """The prefixes to make models for: all, or where these are too many, some spaced evenly on the logarithm of cost."""
        prefixes = self.prefixes(order)
        if len(prefixes) <= max_stages:
            return prefixes
        free = [owned for owned in prefixes[:1] if self.price(owned) == 0 and max_stages > 1]
        paid = [owned for owned in prefixes if self.price(owned) > 0]
        n_gaps = max_stages - len(free) - 1
        first, last = self.price(paid[0]), self.price(paid[-1])
        spacing = (last / first) ** (1 / n_gaps) * (1 + 1e-12) if n_gaps else np.inf
        chosen, due = free, first if n_gaps else last
        for owned in paid:
            if owned is paid[-1] or self.price(owned) >= due:
                chosen.append(owned)
                due = spacing * self.price(owned)
        return chosen

    def models(self, sets: Sequence[Groups]) -> Iterator[tuple[int, Renewed]]:
        """Models for nested sets, with their places; the last first, then those that halve the gaps, until time is up."""
        for at in _halving(len(sets)):
            model = self.renewed(sets[at])
            if model is not None:
                self.training.clock.tell(
                    f"model of {model.n_rounds} rounds at cost {self.price(sets[at]):g}, held-out {model.loss:.5g}"
                )
                yield at, model
            if self.training.clock.over:
                return

    def before(self) -> float:
        """Held-out loss of the constant answer, as the models are judged."""
        return float(self.full.losses(self.booster, self.columns(frozenset()))[0][0])

    def renewed(self, groups: Groups) -> Renewed | None:
        """A model of full strength on a closed set of groups: as many rounds as held-out rows like, on all rows.

        None where held-out rows like none at all.
        """
        columns = self.columns(groups)
        losses, _ = self.full.losses(self.booster, columns)
        final = self.full.boosted(self.booster, columns, None, None)
        final.run(int(np.argmin(losses)))
        if not final.rounds:
            return None
        trees = final.trees(one_stage=True)
        value = trees.value.copy()
        add_base(trees, value, self.training.base)
        return Renewed(replace(trees, value=value), len(final.rounds), float(losses.min()))


def _halving(n: int) -> list[int]:
    """0..n-1 with the last first, then the middle of every gap: whenever one stops, what is there is spread evenly."""
    order, gaps = ([n - 1] if n else []), [(0, n - 1)]
    while gaps:
        first, last = gaps.pop(0)
        if first < last:
            middle = (first + last) // 2
            order.append(middle)
            gaps += [(first, middle), (middle + 1, last)]
    return order
