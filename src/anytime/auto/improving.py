"""Stages of boosted trees, each replaced by the kind of model, or the blend, that held-out rows prefer for its set of groups."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anytime.auto.blend_block import BlendBlock
from anytime.auto.choosing import chosen
from anytime.auto.kinds import Boosted, ExtraRandom, Kind, Linear
from anytime.auto.masked_network import MaskedNetwork
from anytime.blocks import Block
from anytime.boosting.boosted import Training
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock

Rows = NDArray[np.intp]

_ANCHORS = 6  # sets on which all kinds are tried; others try what the nearest of these have taken
_STRENGTHS = (0.02, 0.2, 2.0)  # of linear models
_FOLDS = ((1_000, 5), (2_000, 3))  # below so many rows, all take their turn in being held out
_LAST = 0.95  # of the time, when nothing more is begun


@dataclass
class _Set:
    """What is owned at one stage of the chain or at one branch, and what answers there."""

    groups: NDArray[np.bool_]  # (G,)
    columns: NDArray[np.bool_]  # (d,)
    block: TreeBlock
    cost: float
    shares: dict[str, float] | None = None  # None: trees, and nothing else was tried
    gain: float = 0.0  # in quality
    better: Block | None = None


class Improvement:
    """Tries other kinds of models on the sets of a plan.

    Parameters
    ----------
    training : Training
    plan : Plan
        Stages of boosted trees that replace each other, perhaps with branches.
    boosted : Boosted
        How such trees are grown again on fewer rows.
    kinds : collection of str
        Which others to try.
    n_jobs : int
    """

    def __init__(
        self, training: Training, plan: Plan, boosted: Boosted, kinds: Collection[str], n_jobs: int
    ) -> None:
        self.training, self.plan, self.boosted = training, plan, boosted
        n = len(training.table)
        n_folds = next((folds for rows, folds in _FOLDS if n < rows), 0)
        self.splits = [(training.train, training.held)]
        if n_folds or not training.held.size:
            self.splits = training.folds(n_folds or _FOLDS[-1][1])
        self.chain = [self._set(plan, stage) for stage in range(plan.n_stages)]
        self.branches = [self._set(branch, branch.n_stages - 1) for branch in plan.branches]
        seed = int(training.random.randint(2**31 - 1))
        linear = [Linear(training, strength, False) for strength in _STRENGTHS]
        products = [Linear(training, strength, True) for strength in _STRENGTHS[:2]]
        masks = [one.groups for one in (*self.chain, *self.branches)]
        variants: dict[str, Sequence[Kind]] = {
            "linear": linear,
            "products": products,
            "forest": [ExtraRandom(training, seed, n_jobs)],
            "network": [MaskedNetwork(training, masks, linear[0].levels, seed)],
        }
        self.variants = {kind: variants[kind] for kind in variants if kind in kinds}
        self._variant: dict[tuple[int, str], int] = {}
        self._longest = 0.0  # seconds that one set has taken

    def _set(self, plan: Plan, stage: int) -> _Set:
        groups = np.zeros(plan.costs.n_groups, dtype=bool)
        groups[plan.purchases.order[: plan.purchases.groups[stage + 1]]] = True
        block = plan.blocks[plan.locate(stage)[0]]
        assert isinstance(block, TreeBlock)
        return _Set(groups, groups[plan.costs.column_group], block, float(plan.stage_costs[stage]))

    def improved(self) -> Plan:
        """The plan with what was found, as far as time allowed."""
        clock = self.training.clock
        if not self.chain:
            return self.plan
        anchors = np.unique(np.linspace(0, len(self.chain) - 1, _ANCHORS).round().astype(int))
        # everything first, then the cheapest: what most budgets ask for is settled however short the time is
        for at in (anchors[-1], *anchors[:-1]):
            self._try(self.chain[at], list(self.variants))
        costs = np.array([self.chain[at].cost for at in anchors])
        for one in (*self.chain, *self.branches):
            if one.shares is None and any(self.chain[at].shares is not None for at in anchors):
                above = int(np.searchsorted(costs, one.cost))
                near = [self.chain[anchors[k]] for k in (above - 1, above) if 0 <= k < anchors.size]
                kinds = {kind for other in near for kind in other.shares or ()} - {"trees"}
                if kinds:
                    self._try(one, sorted(kinds))
        clock.tell("kinds of models: " + ", ".join(sorted({k for s in self.chain for k in s.shares or ()})))
        return self._plan()

    def _try(self, one: _Set, kinds: Sequence[str]) -> None:
        clock = self.training.clock
        if not one.columns.any() or clock.elapsed + 2 * self._longest > _LAST * clock.seconds:
            return
        began = time.monotonic()
        scores, rows = self._held_out(one, kinds)
        one.shares, one.gain = chosen(self.training.objective, scores, rows)
        if one.gain <= 0:
            one.shares, one.gain = {"trees": 1.0}, 0.0
        one.better = self._final(one)
        self._longest = max(self._longest, time.monotonic() - began)

    def _held_out(self, one: _Set, kinds: Sequence[str]) -> tuple[dict[str, Array], Rows]:
        """What kinds, each the best of its variants, say of rows that they have not learned from; those which can."""
        X, objective = self.training.table.X, self.training.objective
        rows = np.concatenate([judge for _, judge in self.splits])
        trees = self.boosted.like(one.block)
        tried: dict[str, list[Kind]] = {
            "trees": [trees],
            **{kind: list(self.variants[kind]) for kind in kinds},
        }
        scores: dict[str, Array] = {}
        for kind, variants in tried.items():
            best = np.inf
            for number, variant in enumerate(variants):
                blocks = [variant.fit(one.columns, learned) for learned, _ in self.splits]
                if any(block is None for block in blocks):
                    continue
                said = np.concatenate(
                    [
                        block.outputs(0, np.ascontiguousarray(X[judge]))
                        for block, (_, judge) in zip(blocks, self.splits, strict=True)
                        if block is not None
                    ]
                )
                loss = objective.value_of(said, rows)
                if loss < best:
                    best, scores[kind] = loss, said
                    self._variant[id(one), kind] = number
        return scores, rows

    def _final(self, one: _Set) -> Block | None:
        """What answers at a set, learned from all rows; None: the trees that are there."""
        shares = one.shares or {"trees": 1.0}
        if set(shares) == {"trees"}:
            return None
        parts: list[Block] = []
        for kind in shares:
            if kind == "trees":
                parts.append(one.block)
                continue
            block = self.variants[kind][self._variant[id(one), kind]].fit(one.columns, None)
            if block is None:
                one.shares, one.gain = {"trees": 1.0}, 0.0
                return None
            parts.append(block)
        return parts[0] if len(parts) == 1 else BlendBlock(parts, list(shares.values()))

    def _plan(self) -> Plan:
        plan = self.plan
        assert plan.quality is not None
        quality = plan.quality + np.array([0.0, *(one.gain for one in self.chain)])
        quality = np.maximum.accumulate(quality)
        branches = [
            replace(
                branch,
                blocks=[one.better or one.block],
                quality=np.array(
                    [quality[0], min(branch.quality[-1] + one.gain, np.nextafter(quality[-1], -np.inf))]
                ),
            )
            for branch, one in zip(plan.branches, self.branches, strict=True)
            if branch.quality is not None
        ]
        blocks = [one.better or one.block for one in self.chain]
        # a kind may read groups that trees did not, so that stages may cost more: in the order of what they read
        made = replace(plan, blocks=blocks, quality=quality, branches=branches)
        if not branches:
            return made
        used = np.unique(made.choices[1].branch)
        return replace(made, branches=[branches[number] for number in used if number >= 0])
