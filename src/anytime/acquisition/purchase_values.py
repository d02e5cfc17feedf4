"""What purchases are worth, by backward induction over the sets of groups that a row may own.

With few groups all sets can be looked at. For each, a forest says what is to be expected of the answers; a second one, what is to
be expected of going on: of ending with any larger set, and of buying a group and then going on as well as one can, at many
prices of money. Larger sets come first, so that what follows a purchase is known when the purchase is judged (dynamic
programming; Bellman, 1957). Rows are judged by trees that have not seen them, and what they then pay and lose is their own and no
estimate: expectations that are too high do not feed on themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.acquisition.leaf_means import LeafMeans
from anytime.costs import BoundCosts
from anytime.plan import Array
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.clock import Clock

__all__ = ["LearnedValues", "OwnedSets", "PricesOfMoney", "ValueLearner"]

_PRICES_OF_MONEY = 24  # at which going on is valued; between them values are interpolated
# shares of the training time by which forests that answer, and those that value, have been grown
_ANSWERING, _VALUING = 0.5, 0.8
_FIRST_LOOK = 40  # prices of money of the first pass, which finds those that matter
_FEW_ROWS = 250  # on which the induction is timed; with more trees it takes up to so many times as long
_SLOWER = 2.0


class OwnedSets:
    """The sets of groups that rows may own, each closed under requirements, and which follows which.

    What costs nothing comes first and together. There are all sets, or, where these are more than ``most``, those one purchase
    away from the sets of a chain, from each of which everything else may also be bought at once.

    Parameters
    ----------
    costs : BoundCosts
    candidates : (c,) int
        Groups that may be bought.
    most : int
    next_of_chain : callable
        From (s, G), sets one purchase away from the end of the chain, to the number of the one with which it goes on.
    """

    def __init__(
        self,
        costs: BoundCosts,
        candidates: NDArray[np.intp],
        most: int,
        next_of_chain: Callable[[NDArray[np.bool_]], int],
    ) -> None:
        closures = np.zeros((costs.n_groups, costs.n_groups), dtype=bool)
        for g in range(costs.n_groups):
            closures[g, costs.table.closure(g)] = True
        closures = closures[candidates]
        nothing = np.zeros(costs.n_groups, dtype=bool)
        free = closures[closures @ costs.prices == 0].any(axis=0) if len(closures) else nothing
        first_sets = [nothing, free] if free.any() else [nothing]
        everything = _all_sets(first_sets[-1], closures, most)
        if everything is None:
            closures = np.concatenate([closures, closures.any(axis=0, keepdims=True)])
            everything = _along_a_chain(first_sets[-1], closures, most, next_of_chain)
        self.owned = np.array([*first_sets, *everything])
        self._link(closures, costs)

    def _link(self, closures: NDArray[np.bool_], costs: BoundCosts) -> None:
        """Which sets contain which, and which are one purchase apart."""
        owned = self.owned
        self.contains = np.asarray((owned[None] >= owned[:, None]).all(axis=2))  # (m, m): s is part of t
        self.larger = [np.flatnonzero(row) for row in self.contains]
        number = {row.tobytes(): s for s, row in enumerate(owned)}
        self.after: list[NDArray[np.intp]] = []  # of each set those one purchase away
        for s, row in enumerate(owned):
            if s == 0 and len(owned) > 1 and (owned[1] @ costs.prices) == 0:
                self.after.append(np.array([1]))
                continue
            steps = {number.get((row | c).tobytes(), s) for c in closures}
            self.after.append(np.array(sorted(steps - {s}), dtype=np.intp))

    def __len__(self) -> int:
        return len(self.owned)

    @property
    def depth(self) -> int:
        """The most purchases that a row can make."""
        steps = np.zeros(len(self), dtype=int)
        for s in np.argsort(-self.owned.sum(axis=1), kind="stable"):
            steps[s] = max((steps[t] + 1 for t in self.after[s]), default=0)
        return int(steps[0])


def _all_sets(
    first: NDArray[np.bool_], closures: NDArray[np.bool_], most: int
) -> list[NDArray[np.bool_]] | None:
    """All closed sets beyond the first, smaller ones first; None where they are more than ``most``."""
    reached, front, out = {first.tobytes()}, [first], list[NDArray[np.bool_]]()
    while front:
        ahead = []
        for row in front:
            for step in row | closures:
                if step.tobytes() not in reached:
                    reached.add(step.tobytes())
                    ahead.append(step)
        out += ahead
        if len(out) > most:
            return None
        front = ahead
    return out


def _along_a_chain(
    first: NDArray[np.bool_],
    closures: NDArray[np.bool_],
    most: int,
    next_of_chain: Callable[[NDArray[np.bool_]], int],
) -> list[NDArray[np.bool_]]:
    """Sets one purchase away from those of a chain, smaller ones first, at most about ``most``."""
    out: list[NDArray[np.bool_]] = []
    while len(out) < most:
        steps = np.unique(first | closures, axis=0)
        steps = steps[(steps != first).any(axis=1)]
        if not len(steps):
            break
        out += list(steps)
        whole = steps.sum(axis=1) == closures.any(axis=0).sum()
        if whole.all():
            break
        steps = steps[~whole]
        first = steps[next_of_chain(steps)]
    return sorted({row.tobytes(): row for row in out}.values(), key=lambda row: int(row.sum()))


class PricesOfMoney(NamedTuple):
    """Prices of money, and what rows pay and lose on average when they go by them."""

    penalty: Array  # (M,) increasing from 0: loss that a unit of cost has to save
    cost: Array  # (M,)
    loss: Array  # (M,)

    def for_mean_cost(self, cost: float) -> float:
        """The lowest of these prices, above 0, at which rows pay at most ``cost`` on average.

        Between two prices rows may begin with something else and pay more than at either, so none between them is taken.
        """
        within = np.maximum.accumulate(self.cost[:0:-1])[::-1] <= cost
        return float(self.penalty[1:][within.argmax()] if within.any() else self.penalty[-1])

    def below(self, penalty: float) -> float:
        """The next lower of these prices above 0; the same where there is none."""
        lower = self.penalty[1:][self.penalty[1:] < penalty]
        return float(lower[-1]) if lower.size else penalty

    def for_mean_loss(self, loss: float) -> float:
        """The highest price of money at which rows lose at most ``loss`` on average; 0 where none does."""
        enough = np.flatnonzero(self.loss <= loss)
        return float(self.penalty[enough[-1]]) if enough.size else 0.0


Table = tuple[TreeArrays, Array]  # trees that give the number of a leaf, and what is said in each leaf


@dataclass(frozen=True, eq=False)
class LearnedValues:
    """Of each set what is answered, and what going on is worth.

    The table of answers gives (A,) means of the targets. That of values gives the loss with each of ``sets.larger``, then for
    each of ``sets.after`` what going on costs in all, price included, at each price of money. Its trees also ask two columns
    after the inputs: the least expected loss, and the second least.
    """

    sets: OwnedSets
    answers: list[Table]
    values: list[Table]
    money: PricesOfMoney


@dataclass(eq=False)
class ValueLearner:
    """Grows the forests of all sets, and works out what going on is worth.

    Parameters
    ----------
    Z : (n, m)
        Inputs, of which ``input_groups``, (m, G), says what they need.
    target : (n, k)
        What answers are made of: indicators of the classes, or losses of the options.
    realised : callable
        From a set to (n, A), what each answer would cost each row that owns it.
    expected : callable
        From (n, k), means of the targets, and a set to (n, A), what each answer is expected to cost.
    costs : BoundCosts
    paid : (n, G)
        What groups cost these rows.
    n_trees, min_samples_leaf : int
        Of the forests that answer; where time is short, they have fewer trees.
    value_leaves : (int, int)
        Of the trees that say what going on is worth: the fewest rows in a leaf, and into how many they cut the rows at most.
    most_sets : int
    random : RandomState
    clock : Clock
    """

    Z: Array
    input_groups: NDArray[np.bool_]
    target: Array
    realised: Callable[[NDArray[np.bool_]], Array]
    expected: Callable[[Array, NDArray[np.bool_]], Array]
    costs: BoundCosts
    paid: Array
    n_trees: int
    min_samples_leaf: int
    value_leaves: tuple[int, int]
    most_sets: int
    random: np.random.RandomState
    clock: Clock

    def __post_init__(self) -> None:
        self._judged: dict[bytes, _SetOfRows] = {}
        self._prices = self.costs.costs.amounts(self.costs.prices)

    def learn(self, candidates: NDArray[np.intp], penalty: float) -> LearnedValues:
        """From the groups that may be bought, and a price of money at which going on is valued in any case."""
        self._most_judged = self.most_sets + len(candidates) + 2
        sets = OwnedSets(self.costs, candidates, self.most_sets, self._next_of_chain)
        self._most_judged = len(sets)
        of_sets = [self._judge(owned) for owned in sets.owned]
        return self._valued(sets, of_sets, self._rows_in_time(sets, of_sets, penalty), penalty)

    def _rows_in_time(self, sets: OwnedSets, of_sets: list[_SetOfRows], penalty: float) -> NDArray[np.intp]:
        """The rows by which going on is valued: all, or as many as there is time for, by what a few of them take."""
        n, clock = len(self.Z), self.clock
        if n <= _FEW_ROWS or np.isinf(clock.seconds):
            return np.arange(n)
        began, few = clock.elapsed, np.linspace(0, n - 1, _FEW_ROWS).astype(np.intp)
        replace(self, n_trees=1, random=np.random.RandomState(0))._valued(sets, of_sets, few, penalty)
        pace = _FEW_ROWS / (_SLOWER * (clock.elapsed - began))
        most = max(int((1 - _VALUING) * clock.seconds * pace), _FEW_ROWS)
        return np.arange(n) if most >= n else np.sort(self.random.permutation(n)[:most])

    def _valued(
        self, sets: OwnedSets, of_sets: list[_SetOfRows], rows: NDArray[np.intp], penalty: float
    ) -> LearnedValues:
        """What going on is worth, by some of the rows."""
        losses = [own.loss[rows] for own in of_sets]
        worth = [
            self._grow_worth(own, [losses[t] for t in sets.larger[s]], rows, len(of_sets) - s)
            for s, own in enumerate(of_sets)
        ]
        induction = _Induction(sets, losses, self.paid[rows], worth)
        money = PricesOfMoney(np.zeros(1), np.zeros(1), np.zeros(1))
        if (positive := self._prices[self._prices > 0]).size:
            lost = np.array([loss.mean() for loss in losses])
            scale = float(lost.max() - lost.min()) or 1.0
            first = scale * np.geomspace(1e-3 / self._prices.sum(), 1.0 / positive.min(), _FIRST_LOOK)
            money, _ = induction.at(np.concatenate([[0.0], first]))
        money, targets = induction.at(np.unique(np.append(_evenly_spent(money), penalty)))
        width = self.Z.shape[1]
        values = [
            _asking(leaves.table(what), np.concatenate([own.asked, [width, width + 1]]), width + 2)
            for own, leaves, what in zip(of_sets, worth, targets, strict=True)
        ]
        return LearnedValues(sets, [own.answers for own in of_sets], values, money)

    def _judge(self, owned: NDArray[np.bool_]) -> _SetOfRows:
        """What is answered with a set of groups, and what rows lose by it."""
        key = owned.tobytes()
        if key not in self._judged:
            done = len(self._judged)
            self.clock.tell(f"{done + 1} sets of groups")
            asked = np.flatnonzero(~(self.input_groups & ~owned).any(axis=1))
            grown = LeafMeans(
                self.Z[:, asked],
                self.target,
                n_trees=self.n_trees if asked.size else 1,
                min_samples_leaf=self.min_samples_leaf,
                random=self.random,
                time_is_up=self._share_of_time(_ANSWERING, self._most_judged - done),
            )
            costs_of_answers = self.expected(grown.honest(self.target), owned)
            chosen = costs_of_answers.argmin(axis=1)
            self._judged[key] = _SetOfRows(
                _asking(grown.table(self.target), asked, self.Z.shape[1] + 2),
                asked,
                least_two(costs_of_answers),
                self.realised(owned)[np.arange(len(chosen)), chosen],
            )
        return self._judged[key]

    def _next_of_chain(self, steps: NDArray[np.bool_]) -> int:
        lost = np.array([self._judge(owned).loss.mean() for owned in steps])
        before = self._judge(np.asarray(steps.all(axis=0))).loss.mean()
        return int(((before - lost) / np.maximum(steps @ self._prices, 1e-300) ** 0.5).argmax())

    def _grow_worth(
        self, own: _SetOfRows, losses: list[Array], rows: NDArray[np.intp], n_left: int
    ) -> LeafMeans:
        """The trees of what going on from a set is worth: they tell apart rows that lose different amounts with larger sets."""
        one_leaf = len(losses) == 1 or not own.asked.size
        inputs = np.column_stack([self.Z[np.ix_(rows, own.asked)], own.least[rows]])
        fewest, most = self.value_leaves
        return LeafMeans(
            inputs[:, : 0 if one_leaf else None],
            np.column_stack(losses),
            n_trees=1 if one_leaf else max(self.n_trees // 2, 1),
            min_samples_leaf=max(fewest, len(inputs) // most),
            random=self.random,
            time_is_up=self._share_of_time(_VALUING, n_left),
        )

    def _share_of_time(self, until: float, n_left: int) -> Callable[[], bool]:
        """Whether one of ``n_left`` forests has had its share of the time that ends after ``until`` of all of it."""
        left = until * self.clock.seconds - self.clock.elapsed
        return self.clock.ends(self.clock.elapsed + left / max(n_left, 1))


class _SetOfRows(NamedTuple):
    """What training rows that own a set are told, and what they lose by it."""

    answers: Table
    asked: NDArray[np.intp]  # inputs
    least: Array  # (n, 2)
    loss: Array  # (n,)


@dataclass(frozen=True)
class _Induction:
    """What rows pay and lose that go on as well as they can, from each set."""

    sets: OwnedSets
    losses: list[Array]  # of each set (n,): what rows lose that end there
    paid: Array  # (n, G)
    worth: list[LeafMeans]

    def at(self, penalties: Array) -> tuple[PricesOfMoney, list[Array]]:
        """The means of cost and loss from nothing on, and what trees of values are to say of each set."""
        n, m = len(self.paid), penalties.size
        cost: dict[int, Array] = {}
        loss: dict[int, Array] = {}
        targets: list[Array] = [np.empty(0)] * len(self.sets)
        for s in np.argsort(-self.sets.owned.sum(axis=1), kind="stable"):
            ended = np.column_stack([self.losses[t] for t in self.sets.larger[s]])
            cost[s], loss[s] = np.zeros((n, m)), np.repeat(self.losses[s][:, None], m, axis=1)
            steps = self.sets.after[s]
            if not steps.size:
                targets[s] = ended
                continue
            bought = self.sets.owned[steps] & ~self.sets.owned[s]
            paid = self.paid @ bought.T  # (n, steps)
            costs = np.stack([paid[:, [i]] + cost[t] for i, t in enumerate(steps)], axis=1)
            lost = np.stack([loss[t] for t in steps], axis=1)
            total = lost + penalties * costs
            targets[s] = np.column_stack([ended, total.reshape(n, -1)])
            expected = self.worth[s].honest(targets[s])
            place = int(np.flatnonzero(self.sets.larger[s] == s)[0])
            going_on = expected[:, ended.shape[1] :].reshape(total.shape)
            best = going_on.argmin(axis=1)[:, None]
            ends = (penalties > 0) & (expected[:, [place]] <= going_on.min(axis=1))
            cost[s] = np.where(ends, 0.0, np.take_along_axis(costs, best, axis=1)[:, 0])
            loss[s] = np.where(ends, loss[s], np.take_along_axis(lost, best, axis=1)[:, 0])
        return PricesOfMoney(penalties, cost[0].mean(axis=0), loss[0].mean(axis=0)), targets


def _evenly_spent(money: PricesOfMoney) -> Array:
    """Prices of money at which rows pay evenly spaced amounts, on the square root, with 0 before them."""
    if money.penalty.size < 3 or money.cost[1:].max() <= 0:
        return money.penalty
    spent = np.maximum.accumulate(money.cost[:0:-1])
    spent = np.sqrt(spent / spent[-1]) + np.arange(spent.size) * 1e-9
    wanted = np.linspace(spent[0], spent[-1], _PRICES_OF_MONEY)
    penalties = np.exp(np.interp(wanted, spent, np.log(money.penalty[:0:-1])))
    return np.unique(np.concatenate([[0.0], penalties]))


def _asking(table: Table, columns: NDArray[np.intp], n_features: int) -> Table:
    """Trees that were grown on some columns, for rows that have all."""
    trees, said = table
    inner = trees.feature != LEAF
    feature = trees.feature.copy()
    feature[inner] = columns[trees.feature[inner]]
    return replace(trees, feature=feature, n_features=n_features), said


def least_two(expected: Array) -> Array:
    """(n, 2) the least expected loss, and the second least."""
    if expected.shape[1] == 1:
        return np.repeat(expected, 2, axis=1)
    return np.asarray(np.partition(expected, 1, axis=1)[:, :2])
