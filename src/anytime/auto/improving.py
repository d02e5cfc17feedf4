"""Stages of boosted trees, each replaced by the kind of model, or the blend, that held-out rows prefer for its set of groups."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from anytime.auto.blend_block import BlendBlock
from anytime.auto.choosing import Decision, decided, row_losses
from anytime.auto.kinds import Boosted, ExtraRandom, Kind, Linear
from anytime.auto.masked_network import MaskedNetwork
from anytime.blas import blas_threads
from anytime.blocks import Block
from anytime.boosting.boosted import Training
from anytime.boosting.renewal import Booster
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock

Rows = NDArray[np.intp]

_ANCHORS = 6  # sets on which all kinds are tried; others try what the nearest of these have taken
_STRENGTHS = (0.02, 0.2, 2.0)  # of linear models
_FOLDS = ((1_000, 5), (2_000, 3))  # below so many rows, all take their turn in being held out
_FEW = 1_000  # rows below which the simplest of the kinds that are about as good is taken
_LAST = 0.95  # of the time, when everything has to be done
_TENTH, _LEAST = 10, 200  # a kind is timed on a tenth and a fifth of the rows; a tenth has so many at least
_NETWORK_SHARE = 0.6  # of the time that is left, for all trainings of the network


@dataclass
class OwnedSet:
    """What is owned at one stage of the chain or at one branch, and what answers there."""

    groups: NDArray[np.bool_]  # (G,)
    columns: NDArray[np.bool_]  # (d,)
    trees: TreeBlock
    cost: float
    told_quality: float  # of the trees, by who has boosted them
    decision: Decision | None = None  # None: no other kind was tried
    variant: dict[str, int] = field(default_factory=dict)  # the best of each kind
    block: Block | None = None  # what answers instead of the trees


class Improvement:
    """Tries other kinds of models on the sets of a plan.

    Parameters
    ----------
    training : Training
    plan : Plan
        Stages of boosted trees that replace each other, perhaps with branches.
    booster : Booster
        How these trees were boosted.
    kinds : collection of str
        Which others to try.
    n_jobs : int

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C has ended it.
    out_of_time : bool
        Whether some kind was not tried because time was short.
    """

    def __init__(
        self, training: Training, plan: Plan, booster: Booster, kinds: Collection[str], n_jobs: int
    ) -> None:
        self.training, self.plan, self.booster = training, plan, booster
        self.interrupted = self.out_of_time = False
        self.splits = list(self._splits())
        self.judged = np.concatenate([np.empty(0, dtype=np.intp), *(judge for _, judge in self.splits)])
        self.half = training.random.uniform(size=self.judged.size) < 0.5
        self.chain = [self._owned(plan, stage) for stage in range(plan.n_stages)]
        self.branches = [self._owned(branch, branch.n_stages - 1) for branch in plan.branches]
        seed = int(training.random.randint(2**31 - 1))
        sets = [one.groups for one in (*self.chain, *self.branches)]
        self._network = MaskedNetwork(training, sets, seed)
        variants: dict[str, Sequence[Kind]] = {
            "linear": [Linear(training, strength, products=False) for strength in _STRENGTHS],
            "products": [Linear(training, strength, products=True) for strength in _STRENGTHS[:2]],
            "forest": [ExtraRandom(training, seed, n_jobs)],
            "network": [self._network],
        }
        self.variants = {kind: variants[kind] for kind in variants if kind in kinds}
        self._seconds: dict[str, float] = {}  # that one fit of each kind has taken at most

    def _splits(self) -> Iterator[tuple[Rows, Rows]]:
        """Rows to learn from and rows to judge on; rows of classes rarer than the folds are always learned from."""
        training = self.training
        n = len(training.table)
        n_folds = next((folds for rows, folds in _FOLDS if n < rows), 0)
        if not n_folds and training.held.size:
            yield training.train, training.held
            return
        n_folds = n_folds or _FOLDS[-1][1]
        classifies = LINKS[training.loss.link].classifies
        stratum = (
            np.asarray(training.objective.y, dtype=np.intp) if classifies else np.zeros(n, dtype=np.intp)
        )
        fold = np.full(n, -1)
        for label in np.unique(stratum):
            members = training.random.permutation(np.flatnonzero(stratum == label))
            if members.size >= n_folds:
                fold[members] = np.arange(members.size) % n_folds
        for k in range(n_folds):
            if (fold == k).any():
                yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def _owned(self, plan: Plan, stage: int) -> OwnedSet:
        assert plan.quality is not None
        groups = np.zeros(plan.costs.n_groups, dtype=bool)
        groups[plan.purchases.order[: plan.purchases.groups[stage + 1]]] = True
        block = plan.blocks[plan.locate(stage)[0]]
        assert isinstance(block, TreeBlock)
        cost, quality = float(plan.stage_costs[stage]), float(plan.quality[stage + 1])
        return OwnedSet(groups, groups[plan.costs.column_group], block, cost, quality)

    # ------------------------------------------------------------------ what is tried where

    def improved(self) -> Plan:
        """The plan with what was found, as far as time allowed."""
        if not self.chain or not self.variants or not self.judged.size:
            return self.plan
        try:
            with blas_threads(1):  # batches are small: more threads wait for each other longer than they work
                self._try_all()
        except KeyboardInterrupt:
            self.interrupted = True
        return self._plan()

    def _try_all(self) -> None:
        anchors = np.unique(np.linspace(0, len(self.chain) - 1, _ANCHORS).round().astype(int))
        # everything first, then the cheapest: what most budgets ask for is settled however short the time is
        for at in (anchors[-1], *anchors[:-1]):
            self._try(self.chain[at], list(self.variants))
        costs = np.array([self.chain[at].cost for at in anchors])
        for one in (*self.chain, *self.branches):
            if one.decision is None:
                above = int(np.searchsorted(costs, one.cost))
                near = [self.chain[anchors[k]] for k in (above - 1, above) if 0 <= k < anchors.size]
                taken = {kind for other in near if other.decision for kind in other.decision.shares}
                if taken - {"trees"}:
                    self._try(one, sorted(taken - {"trees"}))

    def _try(self, one: OwnedSet, kinds: Sequence[str]) -> None:
        """Let kinds that there is time for compete on a set."""
        objective, few = self.training.objective, len(self.training.table) < _FEW
        if not one.columns.any():
            return
        scores: dict[str, Array] = {}
        for kind in ("trees", *kinds):
            variants: Sequence[Kind] = self.variants.get(kind, ())
            if kind == "trees":
                variants = [Boosted(self.training, self.booster, one.trees)]
            if not self._has_time(kind, variants, one):
                self.out_of_time = True
                continue
            least = np.inf
            for number, variant in enumerate(variants):
                said = self._held_out(kind, variant, one)
                if said is not None:
                    loss = float(objective.shares(self.judged) @ row_losses(objective, said, self.judged))
                    if loss < least:
                        least, scores[kind], one.variant[kind] = loss, said, number
        if "trees" not in scores or len(scores) < 2:
            return
        decision = decided(objective, scores, self.judged, self.half, few=few)
        one.block = self._final(one, decision.shares)
        if one.block is None:
            decision = decision._replace(shares={"trees": 1.0}, loss=decision.loss_of_trees)
        one.decision = decision
        shown = ", ".join(f"{share:.0%} {kind}" for kind, share in decision.shares.items())
        self.training.clock.tell(f"{shown} at cost {one.cost:g}, held-out {decision.loss:.5g}")

    @property
    def _left(self) -> float:
        """Seconds until everything has to be done."""
        clock = self.training.clock
        return _LAST * clock.seconds - clock.elapsed

    def _has_time(self, kind: str, variants: Sequence[Kind], one: OwnedSet) -> bool:
        """Whether there is time to fit a kind on all splits and on all rows."""
        if not np.isfinite(self._left):
            return True
        if kind == "network":
            # the last one, on all rows, takes longer than those on parts
            self._network.seconds = _NETWORK_SHARE * max(self._left, 0.0) / (len(self.splits) + 1.5)
            return self._left > 0
        if kind not in self._seconds and variants:
            self._seconds[kind] = self._foretold_seconds(variants[0], one)
        fits = len(self.splits) * len(variants) + 1
        return fits * self._seconds.get(kind, 0.0) < self._left

    def _foretold_seconds(self, variant: Kind, one: OwnedSet) -> float:
        """What a fit on all rows takes, by fits on a tenth and a fifth of them; infinite where these would take too long."""
        n = len(self.training.table)
        order, least = self.training.random.permutation(n), max(n // _TENTH, _LEAST)
        sizes, seconds = [min(least, n), min(2 * least, n)], list[float]()
        for size in sizes:
            if 2 * sum(seconds) >= self._left:
                return np.inf
            began = time.monotonic()
            variant.fit(one.columns, np.sort(order[:size]))
            seconds.append(time.monotonic() - began)
        per_row = max(seconds[1] - seconds[0], 0.0) / max(sizes[1] - sizes[0], 1)
        return seconds[1] + per_row * (n - sizes[1])

    def _held_out(self, kind: str, variant: Kind, one: OwnedSet) -> Array | None:
        """(m, K) what a variant says of rows that it has not learned from; None where it cannot learn, or not in time."""
        X, said = self.training.table.X, []
        for learned, judge in self.splits:
            # this fit, and the one on all rows; the network watches its own clock, and learns once for all sets
            if kind != "network" and 2 * self._seconds.get(kind, 0.0) > self._left:
                self.out_of_time = True
                return None
            began = time.monotonic()
            block = variant.fit(one.columns, learned)
            self._seconds[kind] = max(self._seconds.get(kind, 0.0), time.monotonic() - began)
            if block is None:
                return None
            said.append(block.outputs(0, np.ascontiguousarray(X[judge])))
        return np.concatenate(said)

    def _final(self, one: OwnedSet, shares: dict[str, float]) -> Block | None:
        """What answers at a set, learned from all rows; None: the trees that are there."""
        if set(shares) == {"trees"}:
            return None
        parts: list[Block] = []
        for kind in shares:
            block: Block | None = one.trees
            if kind != "trees":
                block = self.variants[kind][one.variant[kind]].fit(one.columns, None)
            if block is None:
                return None
            parts.append(block)
        return parts[0] if len(parts) == 1 else BlendBlock(parts, list(shares.values()))

    # ------------------------------------------------------------------ the plan

    def _plan(self) -> Plan:
        """The plan with what answers at each set.

        More money does not harm on average: where held-out rows say so of a stage, by chance, its quality and those of its
        neighbours become their mean (isotonic regression).
        """
        plan = self.plan
        assert plan.quality is not None
        quality = isotonic_regression(np.array([plan.quality[0], *self._qualities(self.chain)]))
        branches = []
        for branch, one, own in zip(
            plan.branches, self.branches, self._qualities(self.branches), strict=True
        ):
            # the end of the chain answers whoever can pay for it, so nothing may seem better
            told = np.array([quality[0], min(own, np.nextafter(quality[-1], -np.inf))])
            branches.append(replace(branch, blocks=[one.block or one.trees], quality=told))
        made = replace(
            plan,
            blocks=[one.block or one.trees for one in self.chain],
            quality=np.maximum.accumulate(quality),  # up to rounding it is that already
            branches=branches,
        )
        if not branches:
            return made
        used = np.unique(made.choices[1].branch)
        return replace(made, branches=[branches[number] for number in used if number >= 0])

    @staticmethod
    def _qualities(sets: Sequence[OwnedSet]) -> Array:
        """(s,) what was told of the trees, and by how much at least the measured loss of what answers instead is less.

        One scale for all sets, tried or not: what matters is which of two answers is better. A gain counts less a standard error:
        a set on which the trees were unlucky would seem better than larger ones otherwise.
        """
        gains = [0.0 if one.decision is None else one.decision.gain for one in sets]
        return np.array([one.told_quality + gain for one, gain in zip(sets, gains, strict=True)])
