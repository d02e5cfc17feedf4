"""Pictures that a scene parser can learn from in the time that it may take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anytime.structured.scenes import Scene, SceneFeatures, Scenes
from anytime.trees.clock import Clock

__all__ = ["pictures_in_time"]

_DESCRIBING = 0.3  # share of the time that is left, for pictures: some are described twice, and stages need time as well


def pictures_in_time(
    pictures: Sequence[NDArray[np.uint8]],
    labelled: NDArray[np.bool_],
    group: NDArray[np.intp],
    features: SceneFeatures,
    levels: Sequence[int],
    folds: int,
    clock: Clock,
    random: np.random.RandomState,
    threads: int,
) -> NDArray[np.intp]:
    """Numbers of the pictures that can be described in time, increasing: all, or as many as that, drawn at random.

    How long that takes is measured on one of them. Pictures with labels come first, and of those one of each group.
    """
    n = len(pictures)
    if np.isinf(clock.seconds):
        return np.arange(n)
    order = random.permutation(n)
    again = np.ones(n, dtype=bool)
    again[np.unique(group[order], return_index=True)[1]] = False
    order = order[np.lexsort((again, ~labelled[order]))]
    pixels = np.cumsum([pictures[i].shape[0] * pictures[i].shape[1] for i in order])
    began = clock.elapsed
    one, columns = (
        Scenes([Scene(pictures[order[0]], features)], features),
        np.arange(features.n_columns, dtype=np.int32),
    )
    for level in levels:
        one.read(level, columns)
    pace = (clock.elapsed - began) / pixels[0]
    affordable = _DESCRIBING * threads * (clock.seconds - clock.elapsed) / pace
    n_affordable = int(np.searchsorted(pixels, affordable, side="right"))
    return np.sort(order[: max(n_affordable, folds, 1)])
