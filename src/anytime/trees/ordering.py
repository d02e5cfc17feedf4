"""The order of the stages of an imported model: cost-benefit greedy on held-out loss.

Stages need feature groups, and a group is paid once. Scoring stages one by one would make an expensive group that serves a
hundred trees look bad, because the first of them carries the whole price. So what is compared are **purchases**: buy some groups,
then run everything that this makes runnable. The purchase with the largest drop of loss per unit of cost comes next
(cost-benefit greedy, as in SpeedBoost: Grubb, *Anytime Prediction*, chapter 3); inside it, stages follow greedily too.

Every stage appears exactly once, so the full prediction does not change; only the way to it does.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anytime.trees.held_out import HeldOut, HeldOutLoss, Progress

Array = NDArray[np.float64]

# Loss values are means over rows: more numbers (rows times outputs) than this hardly change an order, only the time.
_MOST_NUMBERS = 20_000
# Numbers that scoring purchases may take in all, a few seconds; beyond it they are scored on fewer rows.
_MOST_SCORING_NUMBERS = 1e8
_FEWEST_ROWS = 200
# Inside a purchase: re-evaluations before a pick, and how few stages are left when all of them are evaluated.
_LOOK = 8
_EXHAUSTIVE = 16
# Purchases are evaluated lazily too when there are more than these.
_FEW_PURCHASES = 64


@dataclass(frozen=True)
class BundlePurchase:
    """One step of an order: groups bought together, and the stages that they make runnable."""

    groups: tuple[int, ...]  # bought here; empty for stages that need nothing more
    stages: tuple[int, ...]  # in the order chosen, numbered as trained
    price: int  # ticks for the groups
    evaluation: int  # ticks for evaluating the stages
    # drop of the held-out loss by all stages together, measured on the rows used for comparing purchases
    gain: float
    loss: float  # held-out loss after it
    n_without_gain: int  # stages at the end that did not lower the loss; they stand in trained order

    @property
    def cost(self) -> int:
        """Ticks in all."""
        return self.price + self.evaluation


@dataclass(frozen=True)
class OrderingLog:
    """How an order came about."""

    purchases: tuple[BundlePurchase, ...]
    base_loss: float  # held-out loss before any stage
    n_rows: int  # held-out rows on which stages were compared
    n_scoring_rows: int  # rows of these on which purchases were compared


def order_stages(
    outputs: Array,  # (S, n, K): what each stage adds for each held-out row
    *,
    base: Array,  # (K,): score before any stage
    # ``base`` plus the sum of the stages done, or their mean (``base`` before the first)
    combine: Literal["sum", "mean"],
    loss: HeldOutLoss,  # ``loss(scores (n, K), y, sample_weight) -> float``
    y: NDArray[Any],  # (n,) or (n, K)
    sample_weight: Array | None = None,  # (n,)
    needs: NDArray[np.bool_],  # (S, G): groups that a stage may ask for, closed over what these require
    prices: NDArray[np.int64],  # (G,): ticks per group
    evaluation: NDArray[np.int64],  # (S,): ticks to evaluate a stage
) -> tuple[NDArray[np.int64], OrderingLog]:
    """Order stages by the loss they save per unit of cost: (S,) their numbers, and how that was found.

    Stages that need nothing unpaid come first. A purchase is the set of groups that some remaining stage still misses; its
    bundle is every remaining stage it suffices for; its cost is the price of the groups plus the evaluation of the bundle. Ties
    go to the lower cost, then to the purchase whose first stage was trained earlier. When no purchase lowers the loss, the
    cheapest comes next. Where there are many purchases, those that the last one left untouched are re-evaluated lazily.

    Inside a bundle the stage with the largest drop per evaluation tick is next. Gains are re-evaluated lazily, best first, a few
    per pick (all when few stages are left, and all after 1, 2, 4, 8, … picks, since gains here may also grow).
    Stages without gain stand at the end of their bundle as trained.

    At most 20 000 numbers per stage are looked at (rows times outputs): of more rows a fixed random sample is taken.
    """
    outputs = np.ascontiguousarray(outputs)  # sums of stages read it as a matrix
    problem = HeldOut(outputs, base, combine, loss, y, sample_weight, needs, prices, evaluation)
    rows = problem.sample(_rows_for(len(problem.y), problem.n_outputs, _MOST_NUMBERS))
    scoring = rows.sample(_scoring_rows(rows))
    remaining = np.arange(len(problem.needs))
    progress, shop = Progress(rows), _Shop(Progress(scoring))
    base_loss = progress.loss
    if not np.isfinite(base_loss):
        raise ValueError(
            f"the held-out loss before any stage is {base_loss}: y, base or sample_weight cannot be right"
        )
    purchases: list[BundlePurchase] = []
    while remaining.size:
        groups, bundle, gain = shop.best(remaining)
        stages, n_useful = _order_bundle(progress, bundle)
        shop.buy(groups, bundle)
        purchases.append(
            BundlePurchase(
                groups=tuple(np.flatnonzero(groups).tolist()),
                stages=tuple(stages),
                price=int(problem.prices[groups].sum()),
                evaluation=int(problem.evaluation[bundle].sum()),
                gain=gain,
                loss=progress.loss,
                n_without_gain=len(stages) - n_useful,
            )
        )
        remaining = np.setdiff1d(remaining, bundle)
    order = np.array([stage for purchase in purchases for stage in purchase.stages], dtype=np.int64)
    return order, OrderingLog(tuple(purchases), base_loss, len(rows.y), len(scoring.y))


def _rows_for(n_rows: int, numbers_per_row: float, most_numbers: float) -> int:
    """Rows that stay within a number of numbers, but not absurdly few."""
    return min(n_rows, max(_FEWEST_ROWS, int(most_numbers / numbers_per_row)))


def _scoring_rows(problem: HeldOut) -> int:
    """Rows on which every purchase can be scored again before each of them in bearable time."""
    sets = _distinct_rows(problem.needs)
    n_groups = max(int(sets.any(axis=0).sum()), 1)
    n_rounds = min(len(sets), n_groups)
    # A purchase has to be scored again when it meets the groups just bought: two sets of size m meet with odds of m²/G.
    meeting = min(1.0, float(sets.sum(axis=1).mean()) ** 2 / n_groups)
    # Sets grow fewer from round to round: on average half of them are left when a round begins.
    per_round = _LOOK + meeting * len(sets) / 2
    in_full = len(sets) * (1 + n_rounds.bit_length() / 2)
    evaluations = n_rounds * per_round + in_full
    return _rows_for(len(problem.y), problem.n_outputs * evaluations, _MOST_SCORING_NUMBERS)


# ---------------------------------------------------------------------------------------- which purchase


class _Shop:
    """Purchases on offer, with their gains, known when they were last evaluated."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.bought = progress.problem.prices == 0  # what costs nothing is there from the beginning
        self.n_bought = 0
        # By groups and bundle: the gain, and how many stages were done at that time.
        self.gains: dict[bytes, tuple[float, int]] = {}

    def best(self, remaining: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64], float]:
        """Groups to buy next, the stages that this makes runnable, and what these save together."""
        problem = self.progress.problem
        missing = problem.needs[remaining] & ~self.bought
        sets = _distinct_rows(missing)
        free = ~sets.any(axis=1)
        if free.any():
            sets = sets[free]
        runnable = _within(missing, sets)  # (C, R)
        costs = sets @ problem.prices + runnable @ problem.evaluation[remaining]
        gains = self._gains(sets, remaining, runnable, np.maximum(costs, 1))
        # Ties go to the lower cost, then to the earlier stage.
        by_rate = np.lexsort((costs, -gains / np.maximum(costs, 1)))
        chosen = int(by_rate[0]) if gains.max() > 0 else int(np.argmin(costs))
        return sets[chosen], remaining[runnable[chosen]], float(gains[chosen])

    def buy(self, groups: NDArray[np.bool_], bundle: NDArray[np.int64]) -> None:
        """Make a purchase."""
        self.bought = self.bought | groups
        self.n_bought += 1
        self.progress.add(bundle)

    def _gains(
        self,
        sets: NDArray[np.bool_],
        remaining: NDArray[np.int64],
        runnable: NDArray[np.bool_],
        costs: NDArray[np.int64],
    ) -> Array:
        """(C,) gains, fresh ones for all purchases that are new or promising.

        A purchase whose groups and bundle are as before has a gain from an earlier round. Such ones are evaluated again best
        first, a few per round, and all of them when there are few and after 1, 2, 4, 8, … purchases.
        """
        keys = self._keys(sets, remaining, runnable)
        sizes = runnable.sum(axis=1)
        gains = np.array([self._stale(key, int(size)) for key, size in zip(keys, sizes, strict=True)])
        fresh = np.isnan(gains)
        if len(sets) <= _FEW_PURCHASES or self.n_bought & (self.n_bought - 1) == 0:
            fresh[:] = True
        gains[fresh] = _bundle_gains(self.progress, remaining, runnable[fresh])
        for _ in range(_LOOK):
            top = int(np.argmax(gains / costs))
            if fresh[top]:
                break
            gains[top] = _bundle_gains(self.progress, remaining, runnable[[top]])[0]
            fresh[top] = True
        if gains[fresh].max() <= 0 < gains.max():
            gains[~fresh] = _bundle_gains(self.progress, remaining, runnable[~fresh])
            fresh[:] = True
        n_done = self.progress.n_done
        self.gains.update(
            (key, (gain, n_done)) for key, gain, new in zip(keys, gains, fresh, strict=True) if new
        )
        # A promise that was not looked at again cannot win against a gain that was.
        return np.where(fresh | (gains <= 0), gains, 0.0)

    def _keys(
        self, sets: NDArray[np.bool_], remaining: NDArray[np.int64], runnable: NDArray[np.bool_]
    ) -> list[bytes]:
        """What a gain depends on, apart from the stages done: the groups and the bundle."""
        bundles = np.zeros((len(sets), len(self.progress.problem.needs)), dtype=bool)
        bundles[:, remaining] = runnable
        return _row_keys(np.hstack([sets, bundles]))

    def _stale(self, key: bytes, size: int) -> float:
        """Gain from an earlier round, NaN if there is none."""
        gain, n_done = self.gains.get(key, (np.nan, 0))
        if self.progress.problem.combine == "mean":
            # The same stages move a longer mean by less.
            gain *= (n_done + size) / (self.progress.n_done + size)
        return gain


def _row_keys(rows: NDArray[np.bool_]) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(rows, axis=1)]


def _distinct_rows(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Each different row once, in the order in which they first appear."""
    first: dict[bytes, int] = {}
    for i, key in enumerate(_row_keys(rows)):
        first.setdefault(key, i)
    return rows[list(first.values())]


def _within(rows: NDArray[np.bool_], sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(C, R) whether nothing of row ``r`` lies outside of set ``c``."""
    members = rows.any(axis=0)
    packed_rows, packed_sets = (np.packbits(mask[:, members], axis=1) for mask in (rows, sets))
    outside = np.zeros((len(sets), len(rows)), dtype=np.uint8)
    for some_rows, some_sets in zip(packed_rows.T, packed_sets.T, strict=True):  # eight groups at a time
        outside |= some_rows & ~some_sets[:, None]
    return np.logical_not(outside)


def _bundle_gains(progress: Progress, remaining: NDArray[np.int64], runnable: NDArray[np.bool_]) -> Array:
    """(C,) what each bundle of stages saves as a whole."""
    outputs = progress.problem.outputs
    _, n, K = outputs.shape
    flat = outputs.reshape(len(outputs), n * K)
    gains = np.empty(len(runnable))
    chunk = max(1, 4_000_000 // (n * K))  # keeps the sums of one chunk in about 32 MB
    for start in range(0, len(runnable), chunk):
        some = runnable[start : start + chunk]
        members = np.zeros((len(some), len(outputs)))
        members[:, remaining] = some
        # Most bundles are small: adding up their few stages is faster than a dense product.
        sums = csr_array(members) @ flat if some.mean() < 0.05 else members @ flat
        gains[start : start + chunk] = [
            progress.gain(total.reshape(n, K), int(size))
            for total, size in zip(sums, some.sum(axis=1), strict=True)
        ]
    return gains


# ---------------------------------------------------------------------------------------- inside a purchase


def _order_bundle(progress: Progress, bundle: NDArray[np.int64]) -> tuple[list[int], int]:
    """Do the stages of a bundle, best first; give them in that order, and how many of them were chosen for their gain."""
    chosen: list[int] = []
    candidates = _Candidates(progress, bundle)
    while candidates.waiting.any():
        best = candidates.best()
        if candidates.gain[best] <= 0 and not progress.replaces_base:
            break
        chosen.append(int(bundle[best]))
        candidates.take(best)
    n_useful = len(chosen)
    rest = bundle[candidates.waiting]
    if rest.size:
        progress.add(rest)
    return chosen + rest.tolist(), n_useful


class _Candidates:
    """Stages of a bundle with their gains, known when they were last evaluated."""

    def __init__(self, progress: Progress, bundle: NDArray[np.int64]) -> None:
        self.progress = progress
        self.bundle = bundle
        # Without evaluation costs the gain itself decides; where only some are free, these come first.
        self.evaluation = np.maximum(progress.problem.evaluation[bundle].astype(np.float64), 1e-9)
        self.gain = np.zeros(bundle.size)
        self.fresh = np.zeros(bundle.size, dtype=bool)
        self.waiting = np.ones(bundle.size, dtype=bool)
        self.n_taken = 0
        self.refreshes_left = 2 * int(bundle.size).bit_length()

    def best(self) -> int:
        """The stage to do next; if its gain is not positive, none has a positive one."""
        is_power_of_two = self.n_taken & (self.n_taken - 1) == 0
        if is_power_of_two or np.count_nonzero(self.waiting) <= _EXHAUSTIVE:
            return self._refreshed()
        for _ in range(_LOOK):
            top = self._top(self.waiting)
            if self.fresh[top]:
                break
            self._evaluate(top)
        top = self._top(self.fresh)
        if self.gain[top] <= 0 and self.refreshes_left:
            self.refreshes_left -= 1
            return self._refreshed()
        return top

    def take(self, stage: int) -> None:
        """Do a stage; all gains are stale after it."""
        self.progress.add(self.bundle[[stage]])
        self.waiting[stage] = False
        self.fresh[:] = False
        self.n_taken += 1
        if self.progress.problem.combine == "mean":
            # One of m stages moves a mean by 1/m: without this, every stale gain would look better than a fresh one.
            self.gain *= self.progress.n_done / (self.progress.n_done + 1)

    def _refreshed(self) -> int:
        for stage in np.flatnonzero(self.waiting & ~self.fresh):
            self._evaluate(int(stage))
        return self._top(self.waiting)

    def _evaluate(self, stage: int) -> None:
        self.gain[stage] = self.progress.gain(self.progress.problem.outputs[self.bundle[stage]], 1)
        self.fresh[stage] = True

    def _top(self, among: NDArray[np.bool_]) -> int:
        """Largest gain per evaluation tick; ties to the trained order."""
        return int(np.argmax(np.where(among, self.gain / self.evaluation, -np.inf)))
