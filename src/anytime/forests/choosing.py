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
        The squared distance of what is answered from the truth, which decides where errors are the same.
    """

    setting: Setting
    n_trees: int
    cost: float
    error: float
    loss: float


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

    @property
    def rank(self) -> tuple[float, float, float]:
        """Less is better."""
        return self.trial.error, self.trial.loss, self.trial.cost


def choose(
    sizes: Sequence[float | None],
    weightings: Sequence[float],
    attempt: Callable[[Setting, float], Attempt],
    clock: Clock,
) -> tuple[Attempt, list[Trial]]:
    """Try weightings with the middle one of the sizes, then the other sizes with the best weighting.

    Parameters
    ----------
    sizes, weightings : sequence of float
    attempt : callable
        ``attempt(setting, seconds)`` grows until the clock shows so many seconds.
    clock : Clock
        Where time is up, or the user interrupts, the best so far is taken; there is at least one.
    """
    middle = sizes[len(sizes) // 2]
    n = len(weightings) + len(sizes) - 1
    best: Attempt | None = None
    trials: list[Trial] = []
    waiting = [Setting(middle, weighting) for weighting in weightings]
    while waiting and not (best is not None and (clock.over or best.growth.interrupted)):
        setting = waiting.pop(0)
        clock.tell(f"setting {len(trials) + 1} of {n}: size {setting.size}, weighting {setting.weighting}")
        try:
            found = attempt(setting, clock.seconds * (len(trials) + 1) / n)
        except KeyboardInterrupt:
            if best is None:
                raise
            warnings.warn(f"interrupted: {len(trials)} of {n} settings were tried", stacklevel=4)
            break
        trials.append(found.trial)
        if best is None or found.rank < best.rank:
            best = found
        if len(trials) == len(weightings):
            waiting = [Setting(size, best.trial.setting.weighting) for size in sizes if size != middle]
    assert best is not None
    return best, trials


def softened(costs: BoundCosts, weighting: float) -> BoundCosts | None:
    """The prices that splits are to be judged by: the real ones to some power; None, all the same, for a power of 0."""
    if weighting == 0:
        return None
    if weighting == 1:
        return costs
    real = costs.costs
    prices = {name: price**weighting for name, price in real.prices.items()}
    return BoundCosts(FeatureCosts(prices, groups=real.groups, requires=real.requires), costs.column_group)
