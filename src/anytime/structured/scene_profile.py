"""How long regions, descriptors and codes take on one core of this machine: prices in milliseconds for one picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from anytime.structured.scenes import Scene, SceneFeatures

__all__ = ["measured_prices"]

_TURNS = 3  # of which the fastest counts
_MOST_CODES = 30  # that are timed together


def measured_prices(
    pictures: Sequence[NDArray[np.uint8]], features: SceneFeatures, turns: int = _TURNS
) -> dict[str, float]:
    """Milliseconds per picture, the mean over ``pictures``, with two digits: what ``SceneFeatures.costs`` takes.

    Colours are part of "colour"; every code costs the same as the others of its descriptor. Of ``turns`` the fastest counts.
    """
    times: dict[str, list[float]] = {}
    for rgb in pictures:
        for name, seconds in _times(rgb, features, turns).items():
            times.setdefault(name, []).append(seconds)
    return {name: float(f"{max(1e3 * np.mean(seconds), 1e-3):.2g}") for name, seconds in times.items()}


def _times(rgb: NDArray[np.uint8], features: SceneFeatures, turns: int) -> dict[str, float]:
    shape_columns = np.arange(1, dtype=np.int32)
    colour_columns = np.array([features.first_code - 1], dtype=np.int32)
    scene = Scene(rgb, features)

    def segmented() -> None:
        fresh = Scene(rgb, features)
        fresh.hierarchy.beside(0)

    def shaped() -> None:
        scene.forget_shapes()
        scene.read(0, shape_columns, None)

    def coloured() -> None:
        scene.forget_planes()
        scene.read(0, colour_columns, None)

    first_ones = {"segments": segmented, "shape": shaped, "colour": coloured}
    times = {name: _fastest(work, turns) for name, work in first_ones.items()}
    for name, dictionary in features.codes.items():
        first = features.first_code + features.first[name]
        some = np.arange(first, first + min(len(dictionary), _MOST_CODES), dtype=np.int32)

        def described(name: str = name) -> None:
            scene.forget_planes(name)
            scene.planes(name)

        def coded(some: NDArray[np.int32] = some) -> None:
            scene.computed[:] = False
            scene.read(0, some, None)

        if name != "colour":
            times[name] = _fastest(described, turns)
        scene.planes(name)
        times[f"{name} code"] = _fastest(coded, turns) / some.size
    return times


def _fastest(work: Callable[[], None], turns: int) -> float:
    best = np.inf
    for _ in range(turns):
        began = time.thread_time()  # of the processor: what else the machine does is not counted
        work()
        best = min(best, time.thread_time() - began)
    return best
