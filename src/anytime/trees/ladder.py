"""A whole model as one replacing stage: the rungs of a ladder from cheap to costly."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.importers import Imported
from anytime.trees.names import check_names


def as_replacing_stage(
    imported: Imported, columns: Sequence[str | int] | None, n_features: int, names: Sequence[str] | None
) -> TreeArrays:
    """All trees of a model as one stage whose output is the model's complete score, base included.

    ``columns`` says where the model's columns stand among the ``n_features`` columns of the plan; None: in the same places.
    """
    trees = imported.trees
    # A stage of the mean has a tree for each output, or one for all.
    value = trees.value / trees.n_stages if imported.combine == "mean" else trees.value.copy()
    if imported.combine == "sum":
        add_base(trees, value, imported.base)
    feature = trees.feature.copy()
    read = names
    if columns is not None:
        place = _places(columns, names, n_features)
        if place.size != trees.n_features:
            raise ValueError(
                f"{imported.source} has {trees.n_features} columns, but {place.size} are named for it"
            )
        inner = feature != LEAF
        feature[inner] = place[feature[inner]]
        read = None if names is None else [names[j] for j in place]
    elif trees.n_features != n_features:
        raise ValueError(
            f"{imported.source} has {trees.n_features} columns, but X has {n_features}: name its columns"
        )
    if read is not None:
        check_names(read, imported)
    whole = np.array([0, trees.n_trees], dtype=np.int64)
    return replace(trees, value=value, feature=feature, stage_start=whole, n_features=n_features)


def add_base(trees: TreeArrays, value: NDArray[np.float64], base: NDArray[np.float64]) -> None:
    """Add the base to ``value``, the leaves of one tree per output, so that every row gets it exactly once."""
    if value.shape[1] == base.size and (base.size > 1 or trees.n_trees):
        value[: trees.tree_start[1]] += base
        return
    for k, amount in enumerate(base):
        answering = np.flatnonzero(trees.tree_output == k)
        if answering.size == 0:
            raise ValueError(f"no tree answers for output {k}")
        t = answering[0]
        value[trees.tree_start[t] : trees.tree_start[t + 1]] += amount


def _places(columns: Sequence[str | int], names: Sequence[str] | None, n_features: int) -> NDArray[np.int32]:
    position = {name: j for j, name in enumerate(names)} if names is not None else {}
    places = []
    for column in columns:
        if isinstance(column, str) and column not in position:
            raise ValueError(f"column {column!r} is not among the columns of X")
        j = position[column] if isinstance(column, str) else int(column)
        if not 0 <= j < n_features:
            raise ValueError(f"column {j} is not among the {n_features} columns of X")
        places.append(j)
    return np.array(places, dtype=np.int32)
