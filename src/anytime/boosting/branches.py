"""Sets of groups for known budgets.

An interrupt needs one nested chain of sets. Who names a budget in advance can have any set that fits: what the chain leaves
unspent buys something, an exchange buys something better (a contract algorithm, not an interruptible one: Russell and
Zilberstein 1991). The best single set beside the greedy one keeps greedy choice within a constant factor of the best (Khuller,
Moss and Naor 1999).

All functions take ``value``, the worth of a closed set on held-out rows; larger is better, NaN is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from anytime.boosting.sets import Groups, GroupSets
from anytime.plan import Array

Value = Callable[[Groups], float]

_TRIED = 2  # exchanges that are valued in each step: those of most promise
_STEPS = 2  # exchanges, one after the other
_MANY = 60  # groups; of more, not all are looked at
_UNSPENT = 0.05  # share of a budget that a chain may leave without being asked why
_FOLDS = 5  # of the parts of the held-out rows, which choose for each other


def budgets(sets: GroupSets, order: Sequence[int], most: int) -> list[int]:
    """Ticks to plan for: spaced evenly on the logarithm, each moved to a cost near it at which something new fits."""
    prefix, costs = frozenset[int](), set[int]()
    some = order[:: len(order) // _MANY + 1]
    for g in order:
        if g in some:
            spent = sets.price(prefix)
            costs |= {spent + sets.price(sets.closures[other] - prefix) for other in some}
        prefix |= sets.closures[g]
    total = sets.price(sets.everything)
    new = np.array(sorted(costs - {0, total}), dtype=np.float64)
    if not new.size:
        return []
    grid = np.geomspace(new[0], total, most)[:-1]
    step = np.log(total / new[0]) / max(most - 1, 1)
    moved = set[int]()
    for at in grid:
        distance = np.abs(np.log(new / at))
        moved.add(int(new[distance.argmin()] if distance.min() <= step else at))
    return sorted(moved)


def filled(sets: GroupSets, budget: int, order: Iterable[int], owned: Groups = frozenset()) -> Groups:
    """What is owned, and in this order everything that still fits."""
    money = budget - sets.price(owned)
    for g in order:
        price = sets.price(sets.closures[g] - owned)
        if price <= money:
            owned, money = owned | sets.closures[g], money - price
    return owned


def longest_prefix(sets: GroupSets, budget: int, order: Sequence[int]) -> Groups:
    """The groups of an order until one does not fit."""
    owned = frozenset[int]()
    for g in order:
        more = owned | sets.closures[g]
        if sets.price(more) > budget:
            break
        owned = more
    return owned


def sets_within(
    sets: GroupSets, budget: int, order: Sequence[int], value: Value, promise: Array
) -> list[Groups]:
    """Candidates for one budget, the best first: prefix, fill, skip, single groups, and exchanges from the best of these."""
    rate = {g: promise[g] / max(sets.price(sets.closures[g]), 1) for g in sets.groups}
    by_rate = sorted(sets.groups, key=lambda g: (-rate[g], g))
    single = [sets.closures[g] for g in sorted(sets.groups, key=lambda g: (-promise[g], g))]
    begun = [
        longest_prefix(sets, budget, order),
        filled(sets, budget, order),
        filled(sets, budget, by_rate),
        *[groups for groups in single if sets.price(groups) <= budget][:_TRIED],
    ]
    worth_of = {groups: value(groups) for groups in begun if groups}
    for groups in _best_first(worth_of)[:1]:
        _exchanged(sets, budget, groups, value, promise, worth_of)
    return _best_first(worth_of)


def _best_first(worth_of: dict[Groups, float]) -> list[Groups]:
    measured = [groups for groups, worth in worth_of.items() if not np.isnan(worth)]
    return sorted(measured, key=lambda groups: (-worth_of[groups], sorted(groups)))


def _exchanged(
    sets: GroupSets,
    budget: int,
    groups: Groups,
    value: Value,
    promise: Array,
    worth_of: dict[Groups, float],
) -> None:
    """Swap one group, or none, for one or two that fit, while the value rises."""

    def promised(groups: Groups) -> float:
        return float(promise[list(groups)].sum())

    for _ in range(_STEPS):
        others = sorted(_swaps(sets, budget, groups, promise), key=lambda s: (-promised(s), sorted(s)))
        tried = [other for other in others if other not in worth_of][:_TRIED]
        worth_of |= {other: value(other) for other in tried}
        better = [other for other in tried if worth_of[other] > worth_of[groups]]
        if not better:
            return
        groups = max(better, key=worth_of.__getitem__)


def _swaps(sets: GroupSets, budget: int, groups: Groups, promise: Array) -> set[Groups]:
    swaps = set[Groups]()

    def rate(g: int) -> float:
        return float(promise[g]) / max(sets.price(sets.closures[g] - groups), 1)

    left = [g for g in sets.groups if g not in groups]
    by_promise = sorted(left, key=lambda g: (-promise[g], g))
    by_rate = sorted(left, key=lambda g: (-rate(g), g))
    given_up = sorted(groups, key=lambda g: (promise[g] / max(sets.price(frozenset([g])), 1), g))
    for rest in (groups, *(sets.without(groups, g) for g in given_up[:_MANY])):
        for order in (by_promise[:_MANY], by_rate[:_MANY]):
            fitting = (g for g in order if sets.price(sets.closures[g] - rest) <= budget - sets.price(rest))
            swaps.add(filled(sets, budget, itertools.islice(fitting, 2), rest))
    return swaps - {groups, frozenset()}


# ---------------------------------------------------------------------- the choice


def chosen(losses: Sequence[Array], chain: Array, unspent: float) -> bool:
    """Whether the best of several sets is to answer instead of the chain, by losses (P,) on parts of the held-out rows.

    To take the best of many by the same rows that it is judged on flatters it. So the parts choose for each other: on each fold
    of parts, the set counts that the other folds like best. It has to be better than the chain by more than one standard error
    of the paired difference; where the chain leaves more than a twentieth of the budget, not worse.
    """
    table = np.array(losses)
    fold = np.arange(chain.size) % _FOLDS
    gains = np.empty(chain.size)
    for k in np.unique(fold):
        others = fold != k if (fold != k).any() else fold == k
        best = int(table[:, others].mean(axis=1).argmin())
        gains[fold == k] = chain[fold == k] - table[best, fold == k]
    error = float(gains.std(ddof=1) / np.sqrt(gains.size)) if gains.size > 1 else np.inf
    gain = float(gains.mean())
    return gain > error or (unspent > _UNSPENT and gain >= 0)


def branch_sets(
    sets: GroupSets,
    order: Sequence[int],
    chain: Sequence[Groups],
    losses: Callable[[Groups], Array],  # (P,) held-out losses of a set, NaN where unknown
    promise: Array,
    planned: Sequence[int],  # budgets, in ticks, increasing
    evaluation: Callable[[Groups], int] = lambda groups: 0,  # ticks that evaluating the model of a set costs
) -> list[Groups]:
    """Sets beside the chain that answer some known budget better, increasing in price and in quality."""
    taken: list[Groups] = []

    def mean(groups: Groups) -> float:
        return float(losses(groups).mean())

    evaluated = np.cumsum(
        [evaluation(groups) for groups in chain]
    )  # who goes along the chain pays for all on the way
    along = [(groups, sets.price(groups) + int(paid)) for groups, paid in zip(chain, evaluated, strict=True)]
    for budget in planned:
        affordable = [groups for groups, cost in along if cost <= budget]
        answering = max(affordable, key=sets.price, default=frozenset[int]())
        if np.isnan(mean(answering)):
            return taken
        for_groups = budget - evaluation(answering)
        ranked = sets_within(sets, for_groups, order, lambda groups: -mean(groups), promise)
        ranked = [groups for groups in ranked if sets.price(groups) + evaluation(groups) <= budget]
        least = min(mean(groups) for groups in (frozenset[int](), *affordable, *taken))
        if not ranked or ranked[0] in affordable or ranked[0] in taken or not mean(ranked[0]) < least:
            continue
        unspent = 1 - sets.price(answering) / budget
        if chosen([losses(groups) for groups in ranked], losses(answering), unspent):
            taken.append(ranked[0])
    return taken


def most_gain_first(
    branches: Sequence[Groups], chain: Sequence[Groups], sets: GroupSets, loss: Callable[[Groups], float]
) -> list[Groups]:
    """Branches by the share of the loss of the chain's answer, for as much money, that they take off."""

    def share_left(groups: Groups) -> float:
        affordable = [other for other in chain if sets.price(other) <= sets.price(groups)]
        answering = loss(max(affordable, key=sets.price, default=frozenset[int]()))
        return loss(groups) / max(answering, 1e-300) if answering > 0 else loss(groups) - answering

    return sorted(branches, key=share_left)


def most_missed_first(
    todo: Sequence[Groups], made: Sequence[Groups], sets: GroupSets, loss: Callable[[Groups], float]
) -> list[Groups]:
    """Sets by the area under the curve of losses against the logarithm of cost that each takes off all before it.

    As they are given, where a loss is unknown.
    """
    left, before, order = list(todo), [frozenset[int](), *made], list[Groups]()
    if np.isnan([loss(groups) for groups in (*before, *left)]).any():
        return left

    def missed(groups: Groups) -> float:
        price = sets.price(groups)
        answering = min(loss(other) for other in before if sets.price(other) <= price)
        until = min((sets.price(other) for other in before if sets.price(other) > price), default=price)
        return (answering - loss(groups)) * float(np.log(max(until, 1) / max(price, 1)))

    while left:
        order.append(max(left, key=missed))
        before.append(order[-1])
        left.remove(order[-1])
    return order
