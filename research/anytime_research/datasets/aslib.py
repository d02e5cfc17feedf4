"""Algorithm selection: which solver is fastest on an instance, from features whose measured time is their price.

The scenarios of ASlib (Bischl et al., *ASlib: a benchmark library for algorithm selection*, 2016) compute features in
steps. A step may require others, and what it took was measured instance by instance, so prices are real: seconds that
could have been spent on solving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime_research.datasets.dataset import PublicDataset as Dataset
from anytime_research.datasets.formats import arff, text
from anytime_research.datasets.sources import Source, reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Scenario", "best_solver", "one_step_per_feature"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One ASlib folder: description.txt, feature_values.arff, feature_costs.arff, algorithm_runs.arff, cv.arff.

    ``X`` has NaN where a step gave nothing (it crashed, or an earlier step had already solved the instance). The price
    of a step is its mean time over the instances on which a time is on record; ``row_costs`` holds the times themselves,
    NaN where there is none, which only happens where the features of the step are missing as well.

    ``y`` is the fastest solver that finished. Of equally fast ones the first in alphabetical order is taken. Where
    none finished, no answer is better than another: the label is the solver that is best over the scenario, and
    ``solved`` tells these rows apart. ``runtimes`` holds seconds, the cut-off for a run that did not finish.
    """

    folder: str
    seconds: float = 1.0  # the length of the unit in which the files count time

    def __call__(self, source: Source, *, unsolved: str = "keep", fold: int | None = None) -> Dataset:
        """Read the files.

        Parameters
        ----------
        source : Source
        unsolved : {"keep", "drop"}, default="keep"
            What becomes of instances that no solver finished.
        fold : int, default=None
            The official fold, 1 to 10, that becomes ``test``; the others are ``train``.
        """
        if unsolved not in ("keep", "drop"):
            raise ValueError(f"unsolved must be 'keep' or 'drop', not {unsolved!r}")
        steps, cutoff = self._description(source)
        values = self._by_instance(source, "feature_values")
        names = tuple(map(str, values.columns))
        groups = {step: [names.index(f) for f in features] for step, features in steps.provides.items()}
        times = self._by_instance(source, "feature_costs").reindex(values.index)
        with reading(source.path(f"{self.folder}/feature_costs.arff")):
            row_costs = times[list(groups)].to_numpy(dtype=np.float64) * self.seconds
            prices = dict(zip(groups, np.nanmean(row_costs, axis=0), strict=True))
        runtimes, solved, solvers = self._runs(source, values.index, cutoff)
        data = Dataset(
            values.to_numpy(dtype=np.float64),
            best_solver(runtimes, solved, cutoff * self.seconds),
            FeatureCosts(prices, groups=groups, requires=steps.requires, unit="s"),
            feature_names=names,
            target_names=solvers,
            row_costs=row_costs,
            runtimes=runtimes,
            solved=solved,
            folds=self._by_instance(source, "cv").reindex(values.index)["fold"].to_numpy(dtype=np.intp),
        )
        if unsolved == "drop":
            data = _rows(data, np.asarray(solved.any(axis=1)))
        return data if fold is None else in_fold(data, fold)

    def _description(self, source: Source) -> tuple[_Steps, float]:
        import yaml

        file = f"{self.folder}/description.txt"
        description = text(source, file)
        with reading(source.path(file)):
            try:
                described = yaml.safe_load(description)
            except yaml.YAMLError as error:
                raise ValueError(f"it is not valid YAML ({error})") from None
            steps = described["feature_steps"]
            order = _requirements_first({s: tuple(d.get("requires") or ()) for s, d in steps.items()})
            provides = one_step_per_feature({s: steps[s]["provides"] for s in order})
            requires = {s: tuple(steps[s].get("requires") or ()) for s in order}
            return _Steps(provides, requires), float(described["algorithm_cutoff_time"])

    def _by_instance(self, source: Source, file: str) -> pd.DataFrame:
        """A table with one row per instance; the first repetition, of which these scenarios have one."""
        path = f"{self.folder}/{file}.arff"
        table, _ = arff(source, path)
        with reading(source.path(path)):
            return table.drop_duplicates("instance_id").set_index("instance_id").drop(columns="repetition")

    def _runs(
        self, source: Source, instances: pd.Index[Any], cutoff: float
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], tuple[str, ...]]:
        """Seconds and success of each solver on each instance, a run without success at the cut-off."""
        path = f"{self.folder}/algorithm_runs.arff"
        table, _ = arff(source, path)
        with reading(source.path(path)):
            table = table.drop_duplicates(["instance_id", "algorithm"])
            table["finished"] = (table["runstatus"] == "ok") & (table["runtime"] < cutoff)
            shape = {"index": "instance_id", "columns": "algorithm"}
            runtimes = table.pivot(values="runtime", **shape).reindex(instances)
            finished = table.pivot(values="finished", **shape).reindex(instances)
            solved = np.asarray(finished.to_numpy() == True, dtype=bool)  # noqa: E712  # an absent run is no success
            seconds = np.where(solved, runtimes.to_numpy(dtype=np.float64), cutoff) * self.seconds
        return seconds, solved, tuple(map(str, runtimes.columns))


@dataclass(frozen=True)
class _Steps:
    provides: dict[str, list[str]]
    requires: dict[str, tuple[str, ...]]


def one_step_per_feature(provides: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Give a feature that several steps list to the last of them.

    A group owns its columns alone. In ASP-POTASSCO the feature ``Choices-4`` stands under Dynamic-3 and Dynamic-4; its
    values are missing exactly where Dynamic-4 was not run, so the later step is the one that computes it.

    Examples
    --------
    >>> one_step_per_feature({"first": ["a", "b"], "second": ["b", "c"]})
    {'first': ['a'], 'second': ['b', 'c']}
    """
    owner = {feature: step for step, features in provides.items() for feature in features}
    return {step: [f for f in features if owner[f] == step] for step, features in provides.items()}


def best_solver(runtimes: NDArray[np.float64], solved: NDArray[np.bool_], cutoff: float) -> NDArray[np.intp]:
    """(n,) the fastest solver of each row; where none finished, the best by mean time with failures at ten cut-offs."""
    penalised = np.where(solved, runtimes, 10 * cutoff)  # PAR10
    overall = int(np.argmin(penalised.mean(axis=0)))
    return np.where(solved.any(axis=1), np.argmin(penalised, axis=1), overall)


def in_fold(data: Dataset, fold: int) -> Dataset:
    """``data`` with the rows of ``fold`` as test and all others as train."""
    assert data.folds is not None
    if fold not in data.folds:
        raise ValueError(f"fold must be from 1 to {data.folds.max()}, not {fold!r}")
    held_out = data.folds == fold
    return data.with_attributes(train=np.flatnonzero(~held_out), test=np.flatnonzero(held_out))


def _rows(data: Dataset, keep: NDArray[np.bool_]) -> Dataset:
    per_row = {"X": data.X, "y": data.y, "folds": data.folds, "row_costs": data.row_costs}
    per_row |= {"runtimes": data.runtimes, "solved": data.solved}
    return data.with_attributes(**{key: value[keep] for key, value in per_row.items() if value is not None})


def _requirements_first(requires: Mapping[str, Sequence[str]]) -> list[str]:
    """Steps in an order in which each stands after what it requires."""
    placed: list[str] = []
    while len(placed) < len(requires):
        ready = [s for s in requires if s not in placed and all(r in placed for r in requires[s])]
        if not ready:
            raise ValueError("its feature steps require each other in a circle, or one that does not exist")
        placed += ready
    return placed
