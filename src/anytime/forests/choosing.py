"""Choose the setting of a forest within a budget on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from anytime.costs import BoundCosts, FeatureCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.within_budget import Growth, Rival
from anytime.plan import Plan
from anytime.trees.clock import Clock

_GROWING = (
    0.85  # share of the time that trees may be grown in: then they are ordered, and the plan is measured
)


@dataclass(frozen=True)
class Setting:
    """The settings of growing that validation rows choose.

    Attributes
    ----------
    size : float or None
        What makes trees shallow: the threshold of ClassPairs, or the minimum number of rows in a leaf. None if neither applies.
    weighting : float
        How much prices count in a split: they are raised to this power.
    """

    size: float | None
    weighting: float


@dataclass(frozen=True)
class SettingTrial:
    """The result of a setting.

    Attributes
    ----------
    setting : Setting
    n_trees : int
        Trees within the budget; fewer if another setting was clearly better early on.
    cost : float
        Mean cost of a row.
    error : float
        Error rate on held-out rows, or squared error; NaN if no rows were held out.
    loss : float
        The squared distance of the answers from the truth.
    spread : float
        A standard error of ``error``.
    """

    setting: Setting
    n_trees: int
    cost: float
    error: float
    loss: float
    spread: float = 0.0


def best_trial(trials: Iterable[SettingTrial]) -> SettingTrial:
    """Of all whose error is within a standard error of the least, the one of least loss; of equals the cheaper, the earlier."""
    trials = list(trials)
    least = min(trials, key=lambda trial: (trial.error, trial.loss, trial.cost))
    # NaN: nothing was held out
    near = [trial for trial in trials if not trial.error > least.error + least.spread]
    return min(near, key=lambda trial: (trial.loss, trial.cost))


@dataclass(frozen=True, eq=False)
class Attempt:
    """A trial with what was grown in it."""

    trial: SettingTrial
    grower: ClassTreeGrower
    growth: Growth
    plan: Plan | None = None  # levels of the first tree, where no whole tree is within the budget

    @property
    def rival(self) -> Rival:
        """What later attempts are compared with."""
        return Rival(self.growth.errors, self.trial.error, self.trial.spread)

    def excels(self, other: Attempt) -> bool:
        """Whether the other can never be chosen while this one is there: neither its error nor its loss is less."""
        a, b = self.trial, other.trial
        return a.error <= b.error and (a.loss, a.cost) < (b.loss, b.cost)


Try = Callable[[Setting, float, Rival | None], Attempt]


def choose(
    sizes: Sequence[float | None], weightings: Sequence[float], attempt: Try, clock: Clock, notes: list[str]
) -> tuple[Attempt, list[SettingTrial]]:
    """Try weightings with the first and the middle size, then sizes with the best weighting, then weightings with the best size.

    ``attempt(setting, seconds, rival)`` grows until the clock shows so many seconds, or the rival, the best so far, is clearly
    better. Where time is up, or the user interrupts, the best so far is taken; there is at least one. What the user should be
    warned of is added to ``notes``.
    """
    begin = list(dict.fromkeys([sizes[0], sizes[len(sizes) // 2]]))
    others = len(sizes) - len(begin)
    most = len(begin) * len(weightings) + others + (len(weightings) - 1 if others else 0)
    search = _Search(attempt, clock, notes, most)
    for size in begin:
        search.look([Setting(size, weighting) for weighting in weightings])
    search.look([Setting(size, search.best.trial.setting.weighting) for size in sizes])
    search.look([Setting(search.best.trial.setting.size, weighting) for weighting in weightings])
    return search.best, list(search.trials.values())


class _Search:
    """Settings tried so far. Only those that may still turn out best keep their trees."""

    def __init__(self, attempt: Try, clock: Clock, notes: list[str], most: int) -> None:
        self.attempt, self.clock, self.notes, self.most = attempt, clock, notes, most
        self.trials: dict[Setting, SettingTrial] = {}
        self.kept: list[Attempt] = []
        self.over = False

    @property
    def best(self) -> Attempt:
        """By what is known so far."""
        chosen = best_trial(attempt.trial for attempt in self.kept)
        return next(attempt for attempt in self.kept if attempt.trial is chosen)

    def look(self, settings: Sequence[Setting]) -> None:
        """Try those that are new, unless the search is over."""
        for setting in settings:
            if setting in self.trials or self.over:
                continue
            n = len(self.trials)
            label = f"size {setting.size}, weighting {setting.weighting}"
            self.clock.tell(f"setting {n + 1} of at most {self.most}: {label}")
            try:
                share = _GROWING * (n + 1) / self.most
                result = self.attempt(setting, share * self.clock.seconds, self.best.rival if n else None)
                if not any(attempt.excels(result) for attempt in self.kept):
                    self.kept = [*(attempt for attempt in self.kept if not result.excels(attempt)), result]
                self.trials[setting] = result.trial
            except KeyboardInterrupt:
                if not self.kept:
                    raise
                self.notes.append(f"interrupted: {n} of at most {self.most} settings were tried")
                self.over = True
                return
            self.over = self.clock.elapsed >= _GROWING * self.clock.seconds or result.growth.interrupted


def softened(costs: BoundCosts, weighting: float) -> BoundCosts | None:
    """The prices that splits are to be judged by: the real ones to some power; None, all the same, for a power of 0."""
    if weighting == 0:
        return None
    if weighting == 1:
        return costs
    real = costs.costs
    prices = {name: price**weighting for name, price in real.prices.items()}
    return BoundCosts(FeatureCosts(prices, groups=real.groups, requires=real.requires), costs.column_group)
