"""A whole model as part of an ensemble: how it is read, and its outputs as stages that replace the answer so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from anytime.blocks import Block, FunctionBlock, Memory, State
from anytime.costs import BoundCosts
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.forest_run import ForestRun, start
from anytime.losses import LINKS
from anytime.networks.images import ImageRows
from anytime.plan import Array, Plan
from anytime.trees.clock import inner_fit
from anytime.trees.importers import Columns, import_trees
from anytime.trees.importers.columns import Finite
from anytime.trees.making import make_anytime
from anytime.validation import is_amount

__all__ = [
    "Member",
    "MemberBlock",
    "PlainModel",
    "as_anytime",
    "common_columns",
    "common_images",
    "common_link",
    "fit_member",
    "named_price",
    "read_member",
]


class MemberBlock(Block):
    """Outputs of a plan as stages that replace the answer, each with the plan's whole answer at that point.

    A stage takes rows from one of these outputs to the next. What the plan knows of a row by then is remembered, so
    that going on costs nothing twice.

    Parameters
    ----------
    plan : Plan
        Its prices are not looked at: the larger plan has them.
    ends : (S,) int
        Stages of ``plan`` after which its answer is an output, increasing.
    transformed : bool, default=False
        Give what the plan's link makes of its scores, instead of the scores.
    """

    kind = "member"

    def __init__(self, plan: Plan, ends: ArrayLike, transformed: bool = False) -> None:
        self.ends = np.asarray(ends, dtype=np.int64)
        if not self.ends.size or (np.diff(self.ends, prepend=0) < 1).any() or self.ends[-1] > plan.n_stages:
            raise ValueError(f"outputs of a member grow from stage 1 to {plan.n_stages} at most")
        self.plan = replace(
            plan.head(int(self.ends[-1])),
            evaluation_costs=None,
            expected_costs=None,
            stop_table=None,
            quality=None,
            limit=np.inf,
        )
        self.transformed = transformed
        self.n_stages = self.ends.size
        batches = [block.batch_rows for block in plan.blocks if block.batch_rows is not None]
        self.batch_rows = min(batches, default=None)
        link = LINKS[plan.link]
        self.width = link.n_classes(plan.n_outputs) if transformed and link.classifies else plan.n_outputs

    @property
    def can_be_forked(self) -> bool:
        return all(block.can_be_forked for block in self.plan.blocks)

    @cached_property
    def _columns(self) -> list[NDArray[np.int32]]:
        """Columns that the answer of each output may depend on."""
        plan, read = self.plan, np.zeros(self.plan.n_features, dtype=bool)
        columns: list[NDArray[np.int32]] = []
        for s in range(plan.n_stages):
            b, within = plan.locate(s)
            read[plan.blocks[b].columns(within)] = True
            for rules in (plan.passes, plan.stops):
                if s in rules:
                    read[rules[s].columns()] = True
            if s + 1 == self.ends[len(columns)]:
                columns.append(np.flatnonzero(read).astype(np.int32))
        return columns

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self._columns[stage]

    def outputs(self, stage: int, X: Array) -> Array:
        return self._answer(start(self.plan, self._numbers(X)), stage)

    def remember(self, n_rows: int) -> Memory:
        return Run(self.plan, np.empty((n_rows, 0))).memory()

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        run = Run(self.plan, self._numbers(X))
        run.recall(memory)
        return self._answer(run, stage)

    def _numbers(self, X: Array) -> Array:
        """Rows as the plan reads them: pixels are whole numbers to networks only."""
        return X if self.batch_rows is not None else np.ascontiguousarray(X, dtype=np.float64)

    def _answer(self, run: Run | ForestRun, stage: int) -> Array:
        run.advance(int(self.ends[stage]))
        scores = run.scores()
        return LINKS[self.plan.link].transform(scores) if self.transformed else scores

    def seconds(self, stage: int, n_rows: int) -> float:
        first, last = (self.ends[stage - 1] if stage else 0), self.ends[stage]
        places = (self.plan.locate(s) for s in range(first, last))
        return sum(self.plan.blocks[b].seconds(within, n_rows) for b, within in places)

    def head(self, n_stages: int) -> MemberBlock:
        return (
            self
            if n_stages == self.n_stages
            else MemberBlock(self.plan, self.ends[:n_stages], self.transformed)
        )

    def state(self) -> State:
        return {"transformed": self.transformed}, {"ends": self.ends}

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], plan: Plan
    ) -> MemberBlock:
        """Read what ``state`` gave."""
        return cls(plan, arrays["ends"], description["transformed"])


@dataclass(frozen=True, eq=False)
class Member:
    """A fitted model as an ensemble takes it.

    Attributes
    ----------
    name : str
        For messages.
    plan : Plan
        Under the prices of the ensemble.
    columns : Columns
        How it reads a row.
    evaluation : (S,) int
        Ticks that evaluating each stage costs.
    """

    name: str
    plan: Plan
    columns: Columns
    evaluation: NDArray[np.int64]


def named_price(k: int, entry: Any) -> tuple[Any, float | None]:
    """A member and its price, where it has one."""
    model, price = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
    if price is not None and not (is_amount(price) and np.isfinite(price)):
        raise ValueError(f"the price of member {k} must be a non-negative number, not {price!r}")
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise TypeError(f"member {k} must be a model or a pair (model, price), not {entry!r}")
    return model, price


def fit_member(model: Any, X: Any, y: NDArray[Any], weight: Array | None) -> Any:
    """A clone of a member, fitted."""
    fresh = clone(model)
    parameters = {}
    if weight is not None:
        if not has_fit_parameter(fresh, "sample_weight"):
            raise ValueError(
                f"{type(fresh).__name__} takes no sample_weight: fit it beforehand, or without weights of rows or classes"
            )
        parameters["sample_weight"] = weight
    with inner_fit():
        fresh.fit(X, y, **parameters)
    return fresh


class PlainModel:
    """An estimator of another library as a model of one stage."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.n_features_in_ = int(model.n_features_in_)
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        if is_classifier(model):
            self.classes_ = np.asarray(model.classes_)
        self.takes_missing = bool(get_tags(model).input_tags.allow_nan)

    def __call__(self, X: Array) -> Array:
        """(n, K) probabilities of classes, or numbers."""
        rows: Any = X
        if hasattr(self, "feature_names_in_"):
            import pandas as pd

            rows = pd.DataFrame(X, columns=self.feature_names_in_)
        if not hasattr(self, "classes_"):
            return np.asarray(self.model.predict(rows), dtype=np.float64).reshape(len(X), -1)
        if hasattr(self.model, "predict_proba"):
            return np.asarray(self.model.predict_proba(rows), dtype=np.float64)
        return np.asarray(self.model.predict(rows)[:, None] == self.classes_, dtype=np.float64)

    def plan(self, costs: BoundCosts) -> Plan:
        """One stage that reads all columns."""
        d = self.n_features_in_
        classifies = hasattr(self, "classes_")
        width = len(self.classes_) if classifies else self(np.zeros((1, d))).shape[1]
        return Plan(
            blocks=[FunctionBlock(np.arange(d), self, width)],
            costs=costs,
            base=np.full(width, 1.0 / width if classifies else 0.0),
            link="probability" if classifies else "identity",
            replaces=np.ones(1, dtype=bool),
        )


def as_anytime(model: Any) -> Any:
    """A fitted model with a plan, or else a ``PlainModel``."""
    if isinstance(model, AnytimeModel):
        return model
    try:
        import_trees(model)
    except (TypeError, ValueError):
        return PlainModel(model)
    return make_anytime(model)


def read_member(k: int, model: Any, price: float | None, costs: BoundCosts) -> Member:
    """The plan of a member under the ensemble's prices, and what evaluating its stages costs."""
    name = f"member {k}"
    if isinstance(model, PlainModel):
        missing = not model.takes_missing
        plan, columns = model.plan(costs), Columns(model.n_features_in_, ensure_all_finite=missing)
    else:
        plan = replace(model.plan_, costs=costs, expected_costs=None, branches=())
        if np.isfinite(plan.limit):
            raise ValueError(
                f"{name} was truncated by realised cost, which an ensemble does not support: pass the untruncated model, or "
                "truncate it with meter='model'"
            )
        if not plan.n_stages:
            raise ValueError(f"{name} has no stage: it was truncated to a budget that buys nothing")
        own_columns = getattr(model, "columns_", None)
        columns = own_columns or Columns(plan.n_features, ensure_all_finite=not model._takes_missing)
    evaluation = plan.evaluation_ticks
    if price is not None:
        share = np.cumsum(evaluation) if evaluation.any() else np.arange(1, plan.n_stages + 1)
        # of cumulative sums, so that rounding leaves the whole exact
        spent = np.rint(costs.costs.ticks(price) * (share / share[-1])).astype(np.int64)
        evaluation = np.diff(spent, prepend=0)
    return Member(name, plan, columns, evaluation)


def common_columns(members: Sequence[Member]) -> Columns:
    """How all members read a row; the strictest about missing values."""
    first = members[0].columns
    forms = [replace(member.columns, ensure_all_finite=False).state() for member in members]
    for member, form in zip(members, forms, strict=True):
        if form != forms[0]:
            raise ValueError(
                f"{members[0].name} and {member.name} read columns differently, such as other categories: encode categories as "
                "numbers first"
            )
    demands = [member.columns.ensure_all_finite for member in members]
    strictest: Finite = True if True in demands else "allow-nan" if "allow-nan" in demands else False
    return replace(first, ensure_all_finite=strictest)


def common_images(models: Sequence[Any]) -> ImageRows | None:
    """What makes rows of images, where a member reads images; the others then read these rows."""
    readers = [(k, m._flattened) for k, m in enumerate(models, 1) if isinstance(m, AnytimeModel)]
    of_images = [(k, reader) for k, reader in readers if reader is not None]
    for k, reader in of_images:
        if reader.shape != of_images[0][1].shape:
            raise ValueError(
                f"members {of_images[0][0]} and {k} read images of different shapes, {of_images[0][1].shape} and {reader.shape}"
            )
    return of_images[0][1] if of_images else None


def common_link(plans: Sequence[Plan]) -> tuple[str, bool]:
    """The link of the ensemble, and whether members give what their own links make of scores."""
    kinds = {(plan.link, plan.n_outputs) for plan in plans}
    if len(kinds) == 1:
        return plans[0].link, False
    return ("probability" if LINKS[plans[0].link].classifies else "identity"), True
