"""What the runtime's tests stand on: models whose plan is written by hand, extractors that log, and a clock that obeys."""

from __future__ import annotations

from typing import Any

import numpy as np

from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel, ClassifierFace, RegressorFace
from anytime.features import Extractor, Features
from anytime.losses import LINKS
from anytime.plan import Plan

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
