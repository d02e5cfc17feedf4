"""The order in which groups are bought: forward by held-out gain per price, most gains being those of earlier steps.

A cheaper group goes first where that makes the area under the curve of loss against the logarithm of cost smaller. What a group
gains mostly falls while others are bought. So a gain that was found earlier is a bound, and only those that would win by it
are looked at again (lazy greedy, after Minoux 1978). Gains can also grow, as in pairs that tell something only together: a few
groups are looked at in every step anyway.
"""

from collections.abc import Callable, Sequence

import numpy as np

from anytime.boosting.sets import Groups, GroupSets
from anytime.plan import Array

Losses = Callable[[Sequence[Groups]], Array]  # held-out loss of each set; NaN where there is no time for it

_FIRST = 100  # groups looked at in the first step, where models have one group each and take little time
_ANEW = 1  # groups looked at for the first time in every later step
_AT_A_TIME = 1  # groups looked at together, so that threads share them
_REST = 0.01  # share of all that can be gained; when only so much is left, what is promised decides
_FREE = 1e-100  # stands for a price of nothing where promises are divided by prices
_CHANGE = 0.1  # share of what is spent that is bought at a time, without looking again


class Purchasing:
    """Finds an order of purchases."""

    def __init__(
        self,
        sets: GroupSets,
        losses: Losses,
        promise: Array,  # (G,) what each group is worth in a model of everything
        tell: Callable[[list[int], float], None] = lambda bought, loss: None,
    ) -> None:
        self.sets, self.losses, self.promise, self.tell = sets, losses, promise, tell
        # whether there was no time for all losses: what is left is then ordered by promise alone
        self.cut_short = False

    def order(self, goals: Sequence[Groups] = ()) -> list[int]:
        """The groups with columns; those of a goal stand together, before those of the next. What they require comes along."""
        order: list[int] = []
        for goal in (*goals, self.sets.everything):
            self._extend(order, goal)
        return order

    def _extend(self, order: list[int], goal: Groups) -> None:
        sets = self.sets
        owned = sets.closed(order)
        left = {g for g in sets.groups if g in goal} - set(order)
        if not left:
            return
        loss, least = (float(value) for value in self.losses([owned, owned | goal]))
        step = _Step(self, owned, left, loss)
        while left:
            step.price(owned, left)
            bought = [g for g in sorted(left) if step.paid[g] == 0] or (list(left) if len(left) == 1 else [])
            if not bought:
                bought = step.bought()
                least = min(least, step.loss)
                rest = _REST * (loss - least)
                if not bought or max(step.loss - least, step.gain[bought[0]]) <= rest:
                    self.cut_short |= not bought
                    order += step.ranked
                    return
            order += bought
            left -= set(bought)
            owned = owned | sets.closed(bought)
            if left:
                step.advance(owned)
                self.tell(order, step.loss)


class _Step:
    """What is known of the groups left: gains, and in which step each was found."""

    def __init__(self, purchasing: Purchasing, owned: Groups, left: set[int], loss: float) -> None:
        self.of, self.owned, self.loss = purchasing, owned, loss
        self.number = 0
        self.gain: dict[int, float] = {}
        self.found: dict[int, int] = {}
        self.price(owned, left)

    def price(self, owned: Groups, left: set[int]) -> None:
        """Note what groups cost now; the most promising per price first."""
        sets, promise = self.of.sets, self.of.promise
        self.owned, self.spent = owned, sets.price(owned)
        self.paid = {g: sets.price(sets.closures[g] - owned) for g in left}
        self.ranked = sorted(left, key=lambda g: (-promise[g] / max(self.paid[g], _FREE), self.paid[g], g))
        self.gain = {g: gain for g, gain in self.gain.items() if g in left}

    def advance(self, owned: Groups) -> None:
        """To the next step: the loss of what is owned now."""
        self.number += 1
        loss = float(self.of.losses([owned])[0])
        self.loss = self.loss if np.isnan(loss) else min(self.loss, loss)

    def bought(self) -> list[int]:
        """The group to buy, and others that are small change by now; empty where there is no time to find out."""
        unseen = [g for g in self.ranked if g not in self.gain]
        anew = sorted(self.gain, key=lambda g: (self.found[g], self.ranked.index(g)))
        first = unseen[: _FIRST if not self.gain else _ANEW]
        if not self._look(first or anew[: self.number % 2]):
            return []
        while True:
            best = self._best()
            if self.found[best] == self.number:
                return [best, *self._change(best)]
            stale = [g for g in self.gain if self.found[g] < self.number and g != best]
            stale.sort(key=lambda g: (-self._rate(g), g))
            if not self._look([best, *stale[: _AT_A_TIME - 1]]):
                return []

    def _look(self, groups: list[int]) -> bool:
        """Find gains; False where there is no time."""
        losses = self.of.losses([self.owned | self.of.sets.closures[g] for g in groups])
        if np.isnan(losses).any():
            return False
        self.gain |= {g: self.loss - float(loss) for g, loss in zip(groups, losses, strict=True)}
        self.found |= dict.fromkeys(groups, self.number)
        return True

    def _rate(self, g: int) -> float:
        gain, paid = self.gain[g], self.paid[g]
        return gain / paid if gain > 0 else gain * paid  # harm: worse if it costs more

    def _best(self) -> int:
        """The group of most gain per price, or a cheaper one where buying it first makes the area smaller."""
        gain, paid, spent = self.gain, self.paid, self.spent

        def saved(g: int, first: int) -> float:
            """Area over the logarithm of cost, of two purchases, that is saved if ``first`` comes before ``g``."""
            both = spent + paid[g] + paid[first]
            early, late = (np.log(both / (spent + paid[h])) for h in (first, g))
            return float(gain[first] * early - gain[g] * late)

        best = max(gain, key=lambda g: (self._rate(g), -paid[g], -g))
        while True:
            cheaper = [g for g in gain if paid[g] < paid[best] and saved(best, g) > 0]
            if not cheaper:
                return best
            best = max(cheaper, key=lambda g: (saved(best, g), -g))

    def _change(self, best: int) -> list[int]:
        """The next best groups, as far as all together are small change."""
        change = _CHANGE * self.spent - self.paid[best]
        bought = []
        for g in sorted(self.gain, key=lambda g: (-self._rate(g), g)):
            if g != best and self.gain[g] > 0 and self.paid[g] <= change:
                bought.append(g)
                change -= self.paid[g]
        return bought
