"""Look-up tables of a model and its extractors, computed once and shared by all sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.features import Features
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.rows import reader_of
from anytime.rules import Rule
from anytime.runtime.skipping import Skips

Groups = NDArray[np.int32]
Mask = NDArray[np.bool_]


class Layout:
    """A plan seen from the runtime: where the features of each group go, and when each group is next used.

    Without ``features`` examples are rows, some groups of which may be missing; without ``plan`` the chain of the model is run.
    """

    def __init__(self, model: AnytimeModel, features: Features | None, plan: Plan | None = None) -> None:
        _refuse_structures(model)
        self.model, self.features = model, features
        self.plan = plan = model._plan if plan is None else plan
        costs = plan.costs.costs
        self.names = costs.names
        self.column_group = plan.costs.column_group
        self.number = {name: g for g, name in enumerate(self.names)}
        # each group with all it requires, requirements first, itself last
        self.closures = [tuple(self.number[n] for n in costs.closure([name])) for name in self.names]
        self.reader = reader_of(model)
        # positions that a group's vector fills, in the order in which ``FeatureCosts`` lists its columns
        self.columns = [np.array(self.reader.places(name), dtype=np.intp) for name in self.names]
        self.labels = [self._labels(name) for name in self.names]
        for group in self.reader.unplaced:
            raise ValueError(
                f"group {group!r} names columns {', '.join(map(str, costs.groups[group][:3]))}..., but the model has no "
                "feature_names_in_ to locate them: name columns by position, or fit on a table"
            )
        self.link = LINKS[plan.link]
        self.n_stages = plan.n_stages
        self._answer = partial(Answer, plan, getattr(model, "classes_", None))
        # of a way to a branch: the layout of the chain, the branch, and stages of the chain before it
        self.chain, self.branch, self.before = self, -1, 0
        self.is_final = True  # whether no budget leads further than the end of this plan
        self._ways: dict[int, Layout] = {}
        self.block_of = [plan.locate(s)[0] for s in range(self.n_stages)]
        probe = Run(plan, np.empty((0, plan.n_features)))
        # blocks of which many stages run in one native call: for rows of a matrix, and plain forests for one row too
        self.strides = [probe.is_native(b) for b in range(len(plan.blocks))]
        self.native = [native and not plan.has_rules(b) for b, native in enumerate(self.strides)]
        if features is not None:
            # what a filter keeps out must not be fetched: such stages go one by one
            self.strides = self.native
            self._check(features)

    def _labels(self, group: str) -> Sequence[Any]:
        """What the columns of a group are called by an extractor that returns a mapping."""
        listed = self.plan.costs.costs.groups[group]
        named = self.features.columns.get(group, listed) if self.features is not None else listed
        return named if len(named) == len(listed) else listed

    # ------------------------------------------------------------------ stages

    @cached_property
    def next_use(self) -> NDArray[np.int32]:
        """(S + 1, G) the first stage from ``s`` on that may use a group; S when none does."""
        out = np.full((self.n_stages + 1, len(self.names)), self.n_stages, dtype=np.int32)
        for s in range(self.n_stages - 1, -1, -1):
            out[s] = out[s + 1]
            out[s, self.plan.stage_groups[s]] = s
        return out

    def known_path(self, s: int, x: Array, available: Mask, lost: Mask | None) -> Sequence[int]:
        """Groups that the trees of stage ``s`` are known to need of a row: the next one, and one that cannot be had.

        A row leaves a stage out whose path meets a lost group, and pays for nothing more as soon as a tree shows that.
        """
        b = self.block_of[s]
        forest, within, table = (
            self.plan.blocks[b].forest,
            s - self.plan.block_start[b],
            self.plan.costs.table,
        )
        assert forest is not None
        group = forest.need(x, within, available, table)
        if group < 0 or lost is None:
            return () if group < 0 else (group,)
        cannot_be_had = forest.need(x, within, available, table, lost)
        return (group,) if cannot_be_had < 0 else (group, cannot_be_had)

    def rule_groups(self, rule: Rule) -> Groups:
        """Groups that a rule reads."""
        return self.plan.costs.groups_of(rule.columns())

    def way(self, branch: int) -> Layout:
        """The layout of stages of the chain and then a branch; of the chain itself where that is -1."""
        if branch < 0:
            return self
        way = self._ways.get(branch)
        if way is None:
            before = self.plan.stages_before(branch)
            way = Layout(self.model, self.features, self.plan.by_way_of(branch, before))
            way.chain, way.branch, way.before = self, branch, before
            way.is_final = branch == self.plan.choice(UNLIMITED).branch
            self._ways[branch] = way
        return way

    def answer(self, *parts: Any) -> Answer:
        """What is known of rows, in the terms of the model's plan."""
        answer = self._answer(*parts)
        return answer if self.branch < 0 else answer.on_the_way(self.chain.plan, self.branch, self.before)

    @cached_property
    def ungated(self) -> Plan:
        """The plan without its stopping rules."""
        return replace(self.plan, stops={})

    @cached_property
    def skips(self) -> Skips | None:
        """Jumps over stages whose filter is known to say no; None for a plan without such filters."""
        return Skips.of(self.plan)

    # ------------------------------------------------------------------ groups

    @cached_property
    def used(self) -> NDArray[np.intp]:
        """Groups that any stage may use, with all they require."""
        parts = (self.plan, *self.plan.branches)
        groups_read = {int(g) for part in parts for groups in part.stage_groups for g in groups}
        return np.array(sorted({needed for g in groups_read for needed in self.closures[g]}), dtype=np.intp)

    @cached_property
    def dependents(self) -> dict[int, list[int]]:
        """Groups whose extractor is given what another group's extractor returned, by that other group."""
        out: dict[int, list[int]] = {}
        for name, extractor in (self.features.extractors if self.features else {}).items():
            if extractor.takes != "raw" and name in self.number:
                for source in extractor.requires:
                    out.setdefault(self.number[source], []).append(self.number[name])
        return out

    def missing(self, groups: Sequence[int], available: NDArray[np.bool_]) -> list[int]:
        """``groups`` and their requirements that are not available, each once, requirements first."""
        lacking: dict[int, None] = {}
        for g in groups:
            lacking.update((needed, None) for needed in self.closures[g] if not available[needed])
        return list(lacking)

    def _check(self, features: Features) -> None:
        costs = self.plan.costs.costs
        for g in self.used.tolist():
            name = self.names[g]
            extractor = features.extractors.get(name)
            if extractor is None:
                if self.columns[g].size:
                    raise ValueError(
                        f"the model uses group {name!r}, but features has no extractor for it; "
                        f"it has {', '.join(map(repr, features.names))}"
                    )
                continue  # a step that is only paid for
            for needed in extractor.requires:
                if needed not in self.number or self.number[needed] not in self.closures[g]:
                    raise ValueError(
                        f"the extractor of {name!r} requires {needed!r}, but the model's costs do not: put "
                        f"requires={{{name!r}: [{needed!r}]}} into FeatureCosts, so that it is paid for"
                    )
            for source in costs.requires.get(name, ()):
                if source not in features.extractors and self.columns[self.number[source]].size:
                    raise ValueError(
                        f"group {name!r} requires {source!r}, for which features has no extractor"
                    )


def _refuse_structures(model: AnytimeModel) -> None:
    """Sessions take rows; a model that labels the elements of structures says what takes those."""
    if not getattr(model, "labels_elements", False):
        return
    what, name = model._what, type(model).__name__
    instead = "at.structured.SceneSession(model)" if what == "picture" else "model.stages(X)"
    raise TypeError(
        f"Session and BatchSession take models of rows, but a {name} labels whole {what}s: use {instead}, "
        "which has an answer after every stage"
    )
