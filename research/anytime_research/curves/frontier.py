"""The frontier of several models: for every cost, the best that any of them does, chosen without looking at the test data.

Choosing the best of many noisy scores and reporting that same score overstates it (the maximum of noise is above its mean), and
the more candidates there are the more so. Points are therefore chosen on validation data alone, and judged on test data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime.curves import AnytimeCurve, pareto_frontier
from anytime.curves.comparison import check_comparable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Frontier", "select_on_validation", "upper_envelope", "worst_ratio"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points chosen on validation data, judged on test data.

    Attributes
    ----------
    models : tuple of str
        The model of each point, by increasing cost.
    positions : (f,) int
        Its point on that model's curves.
    validation : AnytimeCurve
        Costs and values by which the points were chosen; better at every step.
    test : AnytimeCurve
        What they are worth: the test values at the validation costs, since a budget is spent by the choice made on validation.
    test_costs : (f,) float
        The points' own costs on the test data. They differ where realised cost or time is metered.
    """

    models: tuple[str, ...]
    positions: NDArray[np.intp]
    validation: AnytimeCurve
    test: AnytimeCurve
    test_costs: Array

    def to_frame(self) -> pd.DataFrame:
        """One row per point."""
        import pandas as pd

        return pd.DataFrame(
            {
                "model": list(self.models),
                "stage": np.asarray(self.validation.stages),
                "cost": self.validation.costs,
                "validation": self.validation.values,
                "test": self.test.values,
                "test_cost": self.test_costs,
            }
        )


def select_on_validation(
    curves_val: Mapping[str, AnytimeCurve], curves_test: Mapping[str, AnytimeCurve]
) -> Frontier:
    """The Pareto frontier of several models' stages, chosen on validation curves and read off the test curves.

    Parameters
    ----------
    curves_val, curves_test : mapping from str to AnytimeCurve
        The same models, metric and meter on both sides; each model's curves have the same stages.

    Examples
    --------
    >>> val = {"a": AnytimeCurve([0, 2], [0.5, 0.8]), "b": AnytimeCurve([0, 1], [0.5, 0.7])}
    >>> test = {"a": AnytimeCurve([0, 2], [0.5, 0.75]), "b": AnytimeCurve([0, 1], [0.5, 0.72])}
    >>> chosen = select_on_validation(val, test)
    >>> chosen.models, chosen.test.values.tolist()
    (('a', 'b', 'a'), [0.5, 0.72, 0.75])
    """
    _check_pairs(curves_val, curves_test)
    names = list(curves_val)
    lengths = [len(curves_val[name]) for name in names]
    owner = np.repeat(np.arange(len(names)), lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    first = curves_val[names[0]]
    chosen = pareto_frontier(
        np.concatenate([curves_val[name].costs for name in names]),
        np.concatenate([curves_val[name].values for name in names]),
        greater_is_better=first.greater_is_better,
    )
    picks = [(names[owner[j]], int(position[j])) for j in chosen]
    costs = np.array([curves_val[name].costs[p] for name, p in picks])
    stages = np.array([np.asarray(curves_val[name].stages)[p] for name, p in picks])

    def read(curves: Mapping[str, AnytimeCurve], label: str) -> AnytimeCurve:
        values = np.array([curves[name].values[p] for name, p in picks])
        return _like(first, costs, values, f"frontier ({label})", stages)

    return Frontier(
        models=tuple(name for name, _ in picks),
        positions=position[chosen],
        validation=read(curves_val, "validation"),
        test=read(curves_test, "test"),
        test_costs=np.array([curves_test[name].costs[p] for name, p in picks]),
    )


def upper_envelope(curves: Sequence[AnytimeCurve]) -> AnytimeCurve:
    """At every cost the best of the curves there: what an oracle choice of model and stage would hold."""
    check_comparable(list(curves))
    first = curves[0]
    costs = np.unique(np.concatenate([c.costs for c in curves]))
    held = np.array([np.atleast_1d(c.at(costs)) for c in curves])
    best = np.nanmax(held, axis=0) if first.greater_is_better else np.nanmin(held, axis=0)
    return _like(first, costs, best, "envelope", None)


def worst_ratio(curve: AnytimeCurve, envelope: AnytimeCurve) -> float:
    """The least ratio of the curve's value to that of the envelope over the costs of both (for a loss: the greatest).

    1 where the curve is the envelope; meant for values above zero, such as NDCG or an error.
    """
    check_comparable([curve, envelope])
    costs = np.union1d(curve.costs, envelope.costs)
    costs = costs[costs >= max(curve.costs[0], envelope.costs[0])]
    mine, theirs = np.atleast_1d(curve.at(costs)), np.atleast_1d(envelope.at(costs))
    if (theirs <= 0).any() or (mine < 0).any():
        raise ValueError("worst_ratio compares values above zero")
    return float((mine / theirs).min() if curve.greater_is_better else (mine / theirs).max())


def _like(
    model: AnytimeCurve, costs: Array, values: Array, label: str, stages: NDArray[np.int64] | None
) -> AnytimeCurve:
    """A curve with other points but the metric and meter of ``model``."""
    return AnytimeCurve(
        costs,
        values,
        metric=model.metric,
        greater_is_better=model.greater_is_better,
        perfect=model.perfect,
        meter=model.meter,
        unit=model.unit,
        stages=stages,
        label=label,
    )


def _check_pairs(curves_val: Mapping[str, AnytimeCurve], curves_test: Mapping[str, AnytimeCurve]) -> None:
    if set(curves_val) != set(curves_test):
        odd = sorted(set(curves_val) ^ set(curves_test))
        raise ValueError(
            f"both sides need the same models; {', '.join(map(repr, odd))} stands on one side only"
        )
    check_comparable([*curves_val.values(), *curves_test.values()])
    for name, validation in curves_val.items():
        if not np.array_equal(np.asarray(validation.stages), np.asarray(curves_test[name].stages)):
            raise ValueError(
                f"the curves of {name!r} have different stages: they must come from one fitted model"
            )
