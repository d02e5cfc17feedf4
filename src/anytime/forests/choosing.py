"""Which setting makes the best forest within a budget: tried on validation rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anytime.costs import BoundCosts, FeatureCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.within_budget import Growth
from anytime.plan import Plan
from anytime.trees.clock import Clock

__all__ = ["Attempt", "Setting", "Trial", "choose", "softened"]


@dataclass(frozen=True)
class Setting:
    """How trees are grown, as far as validation rows may choose it.

    Attributes
    ----------
    size : float or None
        What makes trees shallow: the threshold of Pairs, or the fewest rows of a leaf. None where neither applies.
    weighting : float
        How much prices count in a split: they are raised to this power.
    """

    size: float | None
    weighting: float


@dataclass(frozen=True)
class Trial:
    """What came of a setting.

    Attributes
    ----------
    setting : Setting
    n_trees : int
        Trees within the budget.
    cost : float
        What the average row pays.
    error : float
        Share of held-out rows that are wrong, or squared error; NaN where no rows were held out.
    loss : float
        The squared distance of what is answered from the truth.
    spread : float
        A standard error of ``error``; 0 where error and loss are the same.
    """

    setting: Setting
    n_trees: int
    cost: float
    error: float
    loss: float
    spread: float = 0.0

    def beats(self, other: Trial) -> bool:
        """Whether it is better: errors closer than a standard error decide nothing, and then the loss does; then the cost."""
        if abs(self.error - other.error) > max(self.spread, other.spread):
            return self.error < other.error
        return (self.loss, self.cost) < (other.loss, other.cost)


@dataclass(frozen=True, eq=False)
class Attempt:
    """A trial with what was grown in it.

    Attributes
    ----------
    trial : Trial
    grower : ClassTreeGrower
    growth : Growth
    plan : Plan or None
        Levels of the first tree, where no whole tree is within the budget.
    """

    trial: Trial
    grower: ClassTreeGrower
    growth: Growth
    plan: Plan | None = None


def choose(
    sizes: Sequence[float | None],
    weightings: Sequence[float],
    attempt: Callable[[Setting, float], Attempt],
    clock: Clock,
) -> tuple[Attempt, list[Trial]]:
    """Try weightings with the first and the middle size, then sizes with the best weighting, then weightings with the best size.

    Parameters
    ----------
    sizes, weightings : sequence of float
    attempt : callable
        ``attempt(setting, seconds)`` grows until the clock shows so many seconds.
    clock : Clock
        Where time is up, or the user interrupts, the best so far is taken; there is at least one.
    """
    begin = list(dict.fromkeys([sizes[0], sizes[len(sizes) // 2]]))
    others = len(sizes) - len(begin)
    most = len(begin) * len(weightings) + others + (len(weightings) - 1 if others else 0)
    search = _Search(attempt, clock, most)
    for size in begin:
        search.look([Setting(size, weighting) for weighting in weightings])
    search.look([Setting(size, search.best.trial.setting.weighting) for size in sizes])
    search.look([Setting(search.best.trial.setting.size, weighting) for weighting in weightings])
    return search.best, list(search.trials.values())


class _Search:
    """Settings tried so far. Only the best keeps its trees."""

    best: Attempt

    def __init__(self, attempt: Callable[[Setting, float], Attempt], clock: Clock, most: int) -> None:
        self.attempt, self.clock, self.most = attempt, clock, most
        self.trials: dict[Setting, Trial] = {}
        self.over = False

    def look(self, settings: Sequence[Setting]) -> None:
        """Try those that are new, unless the search is over."""
        for setting in settings:
            if setting in self.trials or self.over:
                continue
            n = len(self.trials)
            told = f"size {setting.size}, weighting {setting.weighting}"
            self.clock.tell(f"setting {n + 1} of at most {self.most}: {told}")
            try:
                found = self.attempt(setting, self.clock.seconds * (n + 1) / self.most)
            except KeyboardInterrupt:
                if not n:
                    raise
                warnings.warn(f"interrupted: {n} of at most {self.most} settings were tried", stacklevel=5)
                self.over = True
                return
            self.trials[setting] = found.trial
            if not n or found.trial.beats(self.best.trial):
                self.best = found
            self.over = self.clock.over or found.growth.interrupted


def softened(costs: BoundCosts, weighting: float) -> BoundCosts | None:
    """The prices that splits are to be judged by: the real ones to some power; None, all the same, for a power of 0."""
    if weighting == 0:
        return None
    if weighting == 1:
        return costs
    real = costs.costs
    prices = {name: price**weighting for name, price in real.prices.items()}
    return BoundCosts(FeatureCosts(prices, groups=real.groups, requires=real.requires), costs.column_group)
