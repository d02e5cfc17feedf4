"""What the runtime's tests stand on: models whose plan is written by hand, extractors that log, and a clock that obeys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace, RegressorFace
from anytime.features import Extractor, Features
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import ScoreRule
from anytime.trees.arrays import LEAF, MISSING_NAN, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock
from tests.strategies import plans

ROWS = np.random.default_rng(1).normal(size=(12, 4)).round(1)


class _ByHand(AnytimeModel):
    def __init__(self, costs=None, budget=None, meter="model", n_jobs=None):
        self.costs, self.budget, self.meter, self.n_jobs = costs, budget, meter, n_jobs

    def fit(self, X, y=None):
        raise NotImplementedError("its plan is given")


class ClassifierByHand(ClassifierFace, _ByHand):
    pass


class RegressorByHand(RegressorFace, _ByHand):
    pass


def model_of(plan: Plan, **parameters: Any) -> AnytimeModel:
    """A fitted model with this plan."""
    link = LINKS[plan.link]
    model = (ClassifierByHand if link.classifies else RegressorByHand)(**parameters)
    model.plan_ = plan
    model.n_features_in_ = plan.n_features
    if link.classifies:
        model.classes_ = np.arange(link.n_classes(plan.n_outputs))
    return model


@st.composite
def incomplete(draw):
    """A plan, some of whose rules read columns, the groups that rows have, and a budget in ticks."""
    plan = draw(plans())
    n_groups, n_stages = plan.costs.n_groups, plan.n_stages
    held = np.array(draw(st.lists(st.booleans(), min_size=n_groups, max_size=n_groups)))
    rule = ScoreRule(LinearBlock([draw(st.integers(0, 3))], np.ones((1, 1))))
    reading = draw(st.sets(st.integers(0, n_stages - 1), max_size=2))
    passes = {} if plan.weights is not None else dict.fromkeys(reading, rule)
    plan = replace(
        plan, passes={**plan.passes, **passes}, stops={**plan.stops, **dict.fromkeys(reading, rule)}
    )
    held[np.setdiff1d(np.arange(n_groups), plan.costs.groups_of(np.flatnonzero(plan.read_columns)))] = True
    everything = int(plan.costs.prices.sum() + plan.evaluation_ticks.sum())
    return plan, held, draw(st.none() | st.integers(0, everything))


def one_tree() -> Plan:
    """A tree that tests column 0, then column 1 on the left and column 2 on the right."""
    feature = np.array([0, 1, 2, LEAF, LEAF, LEAF, LEAF], dtype=np.int32)
    trees = TreeArrays(
        tree_start=np.array([0, 7]),
        stage_start=np.array([0, 1]),
        feature=feature,
        threshold=np.zeros(7),
        left=np.array([1, 3, 5, LEAF, LEAF, LEAF, LEAF], dtype=np.int32),
        right=np.array([2, 4, 6, LEAF, LEAF, LEAF, LEAF], dtype=np.int32),
        default_left=np.zeros(7, dtype=np.uint8),
        missing=np.full(7, MISSING_NAN, dtype=np.uint8),
        category_set=np.full(7, NUMERIC, dtype=np.int32),
        members_left=np.zeros(7, dtype=np.uint8),
        category_start=np.zeros(1, dtype=np.int64),
        categories=np.zeros(0, dtype=np.int32),
        value=np.arange(7.0)[:, None],
        tree_output=np.zeros(1, dtype=np.int32),
        n_outputs=1,
        n_features=3,
    )
    costs = FeatureCosts(
        {"root": 1.0, "left": 2.0, "right": 4.0}, groups={"root": [0], "left": [1], "right": [2]}
    )
    return Plan(blocks=[TreeBlock(trees)], costs=costs.bind(3), base=[0.0], link="identity")


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def features_of(plan: Plan, log: list[str] | None = None, **replaced: Any) -> Features:
    """Extractors whose raw example is the row itself; they write their names to ``log``."""
    extractors: dict[str, Any] = {}
    for g, name in enumerate(plan.costs.costs.names):
        columns = np.array(plan.costs.costs.groups[name], dtype=int)
        assert (plan.costs.column_group[columns] == g).all()
        extractors[name] = _logged(name, columns, [] if log is None else log)
    return Features({**extractors, **replaced})


def _logged(name: str, columns: np.ndarray, log: list[str]) -> Any:
    def extract(row: np.ndarray) -> np.ndarray:
        log.append(name)
        return row[columns]

    return extract


def linear_plan(n_stages: int = 3, **more: Any) -> Plan:
    """Stage t adds ``10**t * x[t]`` and uses the group ``g{t}`` of price ``t + 1``."""
    names = [f"g{t}" for t in range(n_stages)]
    given: dict[str, Any] = {
        "blocks": [LinearBlock([t], [[10.0**t]]) for t in range(n_stages)],
        "costs": FeatureCosts(
            {name: t + 1.0 for t, name in enumerate(names)}, groups={n: [t] for t, n in enumerate(names)}
        ).bind(n_stages),
        "base": [0.5],
        "link": "identity",
    }
    return Plan(**{**given, **more})


def timed_plan(seconds: list[float], tails: list[float] | None = None, **more: Any) -> Plan:
    """``linear_plan`` whose prices are seconds."""
    names = [f"g{t}" for t in range(len(seconds))]
    costs = FeatureCosts(
        dict(zip(names, seconds, strict=True)),
        groups={name: [t] for t, name in enumerate(names)},
        unit="s",
        tails=None if tails is None else dict(zip(names, tails, strict=True)),
    )
    return linear_plan(len(seconds), costs=costs.bind(len(seconds)), **more)


def slow_features(clock: Clock, seconds: list[float], **options: Any) -> Features:
    """Extractors of ``timed_plan`` that take ``seconds`` on ``clock``."""

    def extractor(t: int) -> Any:
        def extract(row: np.ndarray) -> float:
            clock.sleep(seconds[t])
            return row[t]

        return Extractor(extract, **options)

    return Features({f"g{t}": extractor(t) for t in range(len(seconds))})


def function_block(column: int, function: Any) -> FunctionBlock:
    """A stage that is a Python function of one column."""
    return FunctionBlock([column], function)
