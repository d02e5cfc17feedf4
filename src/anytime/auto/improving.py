"""Stages of boosted trees, each replaced by an ensemble of several kinds of models on its set of groups.

The rows are cut into parts. A member of an ensemble is a kind of model with one model for each part, learned from all other rows:
what the members say of rows that they have not learned from decides how much each counts, how good an ensemble is, and which of
them answers a budget. All models stay, so that nothing is trained again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anytime.auto.choosing import excess, row_losses, weighed
from anytime.auto.kinds import FEW_ROWS, Boosted, ExtraRandom, Kind, Linear, blended
from anytime.auto.masked_network import MaskedNetwork
from anytime.blas import blas_threads
from anytime.blocks import Block
from anytime.boosting.boosted import Training
from anytime.boosting.branches import budgets, filled, sets_within
from anytime.boosting.probes import Probes
from anytime.boosting.renewal import Booster
from anytime.boosting.sets import GroupSets
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock

Rows = NDArray[np.intp]

_STRENGTHS = (0.02, 0.2, 2.0)  # of linear models
_PARTS = ((1_000, 5), (4_000, 4), (np.inf, 3))  # below so many rows: into how many parts they are cut
_SEARCHED = 16  # budgets for which further sets are looked for
_SEARCH_SHARE = 0.65  # of a time budget, when that ends
_UNSPENT = 0.05  # share of a budget that may be left
_WORTH = 0.002  # share of all that is promised, which more groups have to promise
_TRIED = 3  # sets after which a member that has had no share is left out
_LEVEL = 1.0  # standard errors by which a dearer set may be worse than a cheaper one and still answer
_CLEARLY = 2.0  # and by which that of everything may be
_LAST = 0.95  # of the time, when everything has to be done
_TENTH, _LEAST = 10, 200  # a kind is timed on a tenth and a fifth of the rows; a tenth has so many at least
_NETWORK_SHARE = 0.6  # of the time that is left, for all trainings of the network


@dataclass
class OwnedSet:
    """What is owned at one stage of the chain, or for one known budget, and what answers there."""

    groups: NDArray[np.bool_]  # (G,)
    columns: NDArray[np.bool_]  # (d,)
    trees: TreeBlock  # of this set, or of the largest part of it that has some
    ticks: int
    quality: float  # of the trees, by who has boosted them; NaN: they are not of this set
    in_chain: bool
    block: Block | None = None  # the ensemble; None: there was no time for one
    losses: Array | None = None  # (m,) of rows that it has not learned from


class Improvement:
    """Makes ensembles for the sets of a plan, and for what its answers leave unspent.

    Parameters
    ----------
    training : Training
    plan : Plan
        Stages of boosted trees that replace each other, perhaps with branches.
    booster : Booster
        How these trees were boosted.
    promise : (G,) float
        What each group is worth among all others.
    planned : (b,) float or None
        Known budgets to plan for; None: some, spaced evenly on the logarithm of cost.
    kinds : collection of str
        Which models to try besides trees.
    n_jobs : int

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C has ended it.
    out_of_time : bool
        Whether some set or kind was not tried because time was short.
    """

    def __init__(
        self,
        training: Training,
        plan: Plan,
        booster: Booster,
        promise: Array,
        planned: Array | None,
        kinds: Collection[str],
        n_jobs: int,
    ) -> None:
        self.training, self.plan, self.booster = training, plan, booster
        self.interrupted = self.out_of_time = False
        self.splits = list(self._splits())
        self.judged = np.concatenate([np.empty(0, np.intp), *(judge for _, judge in self.splits)])
        self.sets = self._owned_sets(promise, planned)
        seed = int(training.random.randint(2**31 - 1))
        # masks of further sets as well would leave it fewer rows with many groups
        of_plan = [one.groups for one in self.sets if not np.isnan(one.quality)]
        self._network = MaskedNetwork(training, of_plan or [np.zeros(0, bool)], seed)
        others: dict[str, Sequence[Kind]] = {
            "linear": [Linear(training, strength, products=False) for strength in _STRENGTHS],
            "products": [Linear(training, strength, products=True) for strength in _STRENGTHS[:2]],
            "forest": [ExtraRandom(training, seed, n_jobs)],
            "network": [self._network],
        }
        self.others = [member for kind, members in others.items() if kind in kinds for member in members]
        self._tried = dict.fromkeys(self.others, 0)
        self._useful = set[Kind]()
        self._seconds: dict[str, float] = {}  # that one fit of each kind has taken at most

    def _splits(self) -> Iterator[tuple[Rows, Rows]]:
        """Rows to learn from and rows to judge on; rows of classes rarer than the parts are always learned from."""
        training = self.training
        n = len(training.table)
        n_parts = next(parts for rows, parts in _PARTS if n < rows)
        classifies = LINKS[training.loss.link].classifies
        stratum = (
            np.asarray(training.objective.y, dtype=np.intp) if classifies else np.zeros(n, dtype=np.intp)
        )
        part = np.full(n, -1)
        for label in np.unique(stratum):
            members = training.random.permutation(np.flatnonzero(stratum == label))
            if members.size >= n_parts:
                part[members] = np.arange(members.size) % n_parts
        for k in range(n_parts):
            if (part == k).any():
                yield np.flatnonzero(part != k), np.flatnonzero(part == k)

    # ------------------------------------------------------------------ which sets

    def _owned_sets(self, promise: Array, planned: Array | None) -> list[OwnedSet]:
        """Those of the plan and, for some budgets, two more, from cheap to dear.

        One spends what the answer of the plan leaves. The other is the best that quick models find on all parts of the rows,
        which tell sets apart better than the part that SpeedBoost holds out. Of fewer rows it has held out every one itself.
        """
        plan, training = self.plan, self.training
        sets = [self._owned(plan, stage, in_chain=True) for stage in range(plan.n_stages)]
        sets += [self._owned(branch, branch.n_stages - 1, in_chain=False) for branch in plan.branches]
        sets.sort(key=lambda one: (one.ticks, not one.in_chain))
        closed = GroupSets(training.costs)
        quick = None
        if self.splits and len(training.table) >= FEW_ROWS:
            until = _SEARCH_SHARE * training.clock.seconds
            quick = Probes(training, closed, self.splits, self.booster.grower, until)
        if planned is None:
            ticks = budgets(closed, plan.purchases.order, _SEARCHED)
        else:
            ticks = training.costs.costs.budgets_ticks(np.asarray(planned, dtype=np.float64)).tolist()
        rate = {g: promise[g] / max(closed.price(closed.closures[g]), 1) for g in closed.groups}
        by_rate = sorted(closed.groups, key=lambda g: (-rate[g], g))
        made = {one.groups.tobytes() for one in sets}
        further = list[OwnedSet]()
        for budget in ticks:
            answering = [one for one in sets if one.ticks <= budget and not np.isnan(one.quality)]
            if not answering:
                continue
            best = max(answering, key=lambda one: one.quality)
            owned = frozenset(np.flatnonzero(best.groups).tolist())
            more = filled(closed, budget, by_rate, owned)
            gains = promise[list(more - owned)].sum() > _WORTH * promise.sum()
            found = [more] if gains and closed.price(more) * (1 - _UNSPENT) > best.ticks else []
            if quick is not None:
                found += sets_within(
                    closed, budget, plan.purchases.order, lambda groups: -quick(groups), promise
                )[:1]
            for groups in found:
                mask = np.zeros_like(best.groups)
                mask[list(groups)] = True
                if mask.tobytes() not in made:
                    made.add(mask.tobytes())
                    columns, ticks_of = mask[plan.costs.column_group], closed.price(groups)
                    further.append(OwnedSet(mask, columns, best.trees, ticks_of, np.nan, in_chain=False))
        return sorted([*sets, *further], key=lambda one: (one.ticks, not one.in_chain))

    @staticmethod
    def _owned(plan: Plan, stage: int, *, in_chain: bool) -> OwnedSet:
        assert plan.quality is not None
        groups = np.zeros(plan.costs.n_groups, dtype=bool)
        groups[plan.purchases.order[: plan.purchases.groups[stage + 1]]] = True
        block = plan.blocks[plan.locate(stage)[0]]
        assert isinstance(block, TreeBlock)
        ticks, quality = int(plan.stage_ticks[stage]), float(plan.quality[stage + 1])
        return OwnedSet(groups, groups[plan.costs.column_group], block, ticks, quality, in_chain)

    # ------------------------------------------------------------------ ensembles

    def improved(self) -> Plan:
        """The plan with ensembles, as far as time allowed."""
        if not self.plan.n_stages or not self.judged.size:
            return self.plan
        try:
            with blas_threads(1):  # batches are small: more threads wait for each other longer than they work
                for number in _coarse_to_fine(len(self.sets)):
                    self._combine(self.sets[number])
        except KeyboardInterrupt:
            self.interrupted = True
        return self._plan()

    def _combine(self, one: OwnedSet) -> None:
        """An ensemble of the members that there is time for."""
        objective, random = self.training.objective, self.training.random
        if not one.columns.any():
            return
        parts, said, used = list[list[Block]](), list[Array](), list[Kind]()
        trees = Boosted(self.training, self.booster, one.trees)
        for member in (trees, *self.others):
            if self._tried.get(member, 0) >= _TRIED and member not in self._useful:
                continue
            has_time = self._has_time(member, one)
            self.out_of_time |= not has_time
            fitted = self._fitted(member, one) if has_time else None
            if fitted is not None:
                parts.append(fitted[0])
                said.append(fitted[1])
                used.append(member)
            elif member is trees:
                return  # SpeedBoost's trees stay where nothing can be compared with them
        ensemble = weighed(objective, said, self.judged, random)
        pieces = list[tuple[Block, float]]()
        for member, blocks, share in zip(used, parts, ensemble.shares.tolist(), strict=True):
            if member in self._tried:
                self._tried[member] += 1
            if share > 0:
                self._useful.add(member)
                pieces += [(block, share / len(blocks)) for block in blocks]
        one.block, one.losses = blended(pieces), ensemble.losses
        shown = ", ".join(
            f"{share:.0%} {kind.name}" for kind, share in zip(used, ensemble.shares, strict=True) if share
        )
        cost, loss = self.training.costs.costs.amount(one.ticks), objective.shares(self.judged) @ one.losses
        self.training.clock.tell(
            f"{shown} at cost {cost:g}, held-out {loss:.5g}", cost=cost, held_out_loss=float(loss)
        )

    def _fitted(self, member: Kind, one: OwnedSet) -> tuple[list[Block], Array] | None:
        """A model for each part of the rows, and (m, K) what they say of rows that they have not learned from.

        None where it cannot learn, or not in time.
        """
        X, blocks, said = self.training.table.X, list[Block](), list[Array]()
        for number, (learned, judge) in enumerate(self.splits):
            # the network watches its own clock, and learns once for all sets
            if member.name != "network" and self._seconds.get(member.name, 0.0) > self._left:
                self.out_of_time = True
                return None
            began = time.monotonic()
            block = member.fit(one.columns, learned, number)
            self._seconds[member.name] = max(self._seconds.get(member.name, 0.0), time.monotonic() - began)
            if block is None:
                return None
            blocks.append(block)
            said.append(block.outputs(0, np.ascontiguousarray(X[judge])))
        return blocks, np.concatenate(said)

    @property
    def _left(self) -> float:
        """Seconds until everything has to be done."""
        clock = self.training.clock
        return _LAST * clock.seconds - clock.elapsed

    def _has_time(self, member: Kind, one: OwnedSet) -> bool:
        """Whether there is time to fit a member on all parts of the rows."""
        if not np.isfinite(self._left):
            return True
        if member is self._network:
            self._network.seconds = _NETWORK_SHARE * max(self._left, 0.0) / len(self.splits)
            return self._left > 0
        if member.name not in self._seconds:
            self._seconds[member.name] = self._foretold_seconds(member, one)
        return len(self.splits) * self._seconds[member.name] < self._left

    def _foretold_seconds(self, member: Kind, one: OwnedSet) -> float:
        """What a fit on all rows takes, by fits on a tenth and a fifth of them; infinite where these would take too long."""
        n = len(self.training.table)
        order, least = self.training.random.permutation(n), max(n // _TENTH, _LEAST)
        sizes, seconds = [min(least, n), min(2 * least, n)], list[float]()
        for size in sizes:
            if 2 * sum(seconds) >= self._left:
                return np.inf
            began = time.monotonic()
            member.fit(one.columns, np.sort(order[:size]))
            seconds.append(time.monotonic() - began)
        per_row = max(seconds[1] - seconds[0], 0.0) / max(sizes[1] - sizes[0], 1)
        return seconds[1] + per_row * (n - sizes[1])

    # ------------------------------------------------------------------ the plan

    def _plan(self) -> Plan:
        """The plan with what answers at each set that is as good as all cheaper ones, but for noise.

        More money may always be spent: of two ensembles that differ by less than a standard error the one of more groups answers,
        and that of everything gives way only where it is worse by more than two. A branch of other groups has to be better than
        what answers so far. Where there was no time for an ensemble, SpeedBoost's trees answer as they did.
        """
        plan, objective, rows = self.plan, self.training.objective, self.judged
        assert plan.quality is not None
        if all(one.losses is None for one in self.sets):
            return plan
        weight = objective.shares(rows)
        best = row_losses(objective, np.broadcast_to(plan.base, (rows.size, plan.base.size)), rows)
        before = told = -float(weight @ best)
        answering = np.zeros(plan.costs.n_groups, dtype=bool)
        stages, qualities, branches = list[Block](), [before], list[Plan]()
        of_trees = -np.inf  # the best quality of SpeedBoost's trees so far
        for one in self.sets:
            whole = one.in_chain and one.ticks == self.plan.stage_ticks[-1]
            better_trees, of_trees = one.quality > of_trees, np.fmax(of_trees, one.quality)
            if one.losses is None or one.block is None:
                if one.in_chain:
                    stages.append(one.trees)
                    qualities.append(told)
                elif better_trees:
                    told = float(np.nextafter(told, np.inf))
                    branches.append(self._branch(one.trees, before, told))
                answering = one.groups if one.in_chain or better_trees else answering
                continue
            more, error = excess(one.losses, best, weight)
            level = _LEVEL * error if one.in_chain or not (answering & ~one.groups).any() else 0.0
            if more > (_CLEARLY * error if whole else level) and (stages or not whole):
                continue
            if more < 0:
                best = one.losses
            answering = one.groups
            if one.in_chain:
                told = max(told, -float(weight @ one.losses))
                stages.append(one.block)
                qualities.append(told)
            else:
                told = max(float(np.nextafter(told, np.inf)), -float(weight @ one.losses))
                branches.append(self._branch(one.block, before, told))
        chain = replace(
            plan,
            blocks=stages,
            replaces=np.ones(len(stages), dtype=bool),
            quality=np.array(qualities),
            branches=branches,
        )
        if not branches:
            return chain
        used = np.unique(chain.choices[1].branch)
        return replace(chain, branches=[branches[number] for number in used if number >= 0])

    def _branch(self, block: Block, before: float, quality: float) -> Plan:
        """A plan of one stage."""
        plan = self.plan
        return Plan(
            blocks=[block],
            costs=plan.costs,
            base=plan.base,
            link=plan.link,
            replaces=np.ones(1, dtype=bool),
            quality=np.array([before, quality]),
        )


def _coarse_to_fine(n: int) -> list[int]:
    """0..n-1: the last, the first, and then ever smaller gaps, so that whenever one stops, what is there is spread evenly."""
    return list(dict.fromkeys([n - 1, *(at for stride in (16, 8, 4, 2, 1) for at in range(0, n, stride))]))
