"""Forests on a cluster: trees side by side, each grown by one task from all rows.

A tree depends on the seed and on its number alone: any task may grow it, and a task whose worker dies is simply done again.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from anytime import _native
from anytime.forests.growing import ClassTreeGrower
from anytime.plan import Array
from anytime.trees.binning import BinnedData

__all__ = ["grow_side_by_side"]

_RETRIES = 100
_SENT: WeakKeyDictionary[BinnedData, Any] = WeakKeyDictionary()  # rows that the object store has already


def grow_side_by_side(
    grower: ClassTreeGrower, data: BinnedData, given: tuple[Any, ...], which: tuple[int, int, int, bool]
) -> list[Any]:
    """What ``grower.native_trees`` gives, from tasks of the cluster."""
    import ray

    seed, first, n_trees, bootstrap = which
    n_tasks = min(n_trees, max(1, int(ray.cluster_resources().get("CPU", 1))))
    if data not in _SENT:
        _SENT[data] = ray.put((data.native.columns(), middle_values(data)))
    shared = ray.put((grower, given))
    task = ray.remote(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")(_grown)
    ends = [first + n_trees * i // n_tasks for i in range(n_tasks + 1)]
    futures = [
        task.remote([_SENT[data], shared], (seed, begin, end - begin, bootstrap))
        for begin, end in pairwise(ends)
    ]
    return [tree for trees in ray.get(futures) for tree in trees]


def middle_values(data: BinnedData) -> Array:
    """(n, d) values that fall into the bins of the data: what is sent of rows of which only bins are left."""
    bins, out = data.bins(), np.empty((data.n_rows, data.n_features))
    for j, (categorical, _, _, numbers) in enumerate(data.native.columns()):
        last = -1.0 if categorical else np.inf  # a category of no bin of its own; above every cut
        out[:, j] = np.concatenate([numbers, [last, np.nan]])[bins[:, j]]
    return out


def _grown(references: list[Any], which: tuple[int, int, int, bool]) -> list[Any]:
    import ray

    rows, shared = references
    grower, given = ray.get(shared)
    trees: list[Any] = grower.native_trees(_binned(rows), given, which)
    return trees


@lru_cache(maxsize=1)
def _binned(rows: Any) -> BinnedData:
    """The rows in bins, once per process."""
    import ray

    columns, values = ray.get(rows)
    data = BinnedData(_native.Bins.of_cuts(columns, len(values)))
    data.fill_rows(0, values)
    return data
