"""Streams on which models are compared by progressive validation, and others on which defaults may be chosen.

Both lists were fixed before anything was run on the first. A stream has at most 5,000 rows, 2,500 where it has more than 30
columns: river's ensembles take 1 to 10 milliseconds per row. Rows come in the order of their file, but shuffled once where that
is sorted by class or region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime_research import datasets as research_datasets

__all__ = ["DEVELOPMENT", "TRIED", "Stream"]

MOST, MOST_OF_WIDE, WIDE = 5_000, 2_500, 30  # rows, rows where there are more columns than


@dataclass(frozen=True)
class Stream:
    """Rows in order: numbers, and classes or a number to say of each."""

    X: NDArray[np.float64]
    y: NDArray[Any]

    @property
    def classifies(self) -> bool:
        """Whether ``y`` are classes."""
        return self.y.dtype.kind != "f"


Source = Callable[[str], Stream]  # from the folder of the public sets


def cut(X: Any, y: Any) -> Stream:
    """The first rows, as many as a stream may have."""
    X, y = np.asarray(X), np.asarray(y)
    most = MOST if X.shape[1] <= WIDE else MOST_OF_WIDE
    if y.dtype.kind != "f":
        y = np.unique(y, return_inverse=True)[1]
    return Stream(np.ascontiguousarray(X[:most], dtype=np.float64), y[:most])


def public(name: str, *, shuffled: bool = False) -> Source:
    """A set of the folder."""

    def make(folder: str) -> Stream:
        X, y, _ = research_datasets.load(name, folder=folder)
        X, y = np.asarray(X), np.asarray(y)
        if shuffled:
            order = np.random.default_rng(0).permutation(len(X))
            X, y = X[order], y[order]
        return cut(X, y)

    return make


def rows_of(pairs: Iterable[tuple[dict[Any, Any], Any]]) -> Stream:
    """Pairs of a dictionary and a truth, as river has them; words become numbers in the order in which they come."""
    inputs, truths = zip(*islice(pairs, MOST), strict=True)
    words: dict[str, int] = {}
    X = np.array(
        [
            [float(words.setdefault(v, len(words)) if isinstance(v, str) else v) for v in row.values()]
            for row in inputs
        ]
    )
    numbers = isinstance(truths[0], float)
    return cut(X, np.array(truths, dtype=np.float64) if numbers else np.array([str(t) for t in truths]))


def bundled(name: str, *, regression: bool = False) -> Source:
    """A set that comes with river."""

    def make(_folder: str) -> Stream:
        from river import datasets

        pairs = getattr(datasets, name)()
        return rows_of((x, float(y) if regression else y) for x, y in pairs)

    return make


def made(name: str, *rest: dict[str, Any], **settings: Any) -> Source:
    """One of river's generators; with further settings, a sudden change to each after equally many rows."""

    def make(_folder: str) -> Stream:
        from river.datasets import synth

        parts = [getattr(synth, name)(**(settings | other)) for other in ({}, *rest)]
        return rows_of(chain.from_iterable(part.take(MOST // len(parts)) for part in parts))

    return make


TRIED: dict[str, Source] = {
    "a9a": public("a9a"),
    "covtype": public("covtype"),
    "poker": public("poker"),
    "pendigits": public("pendigits"),
    "magic": public("magic", shuffled=True),
    "higgs-sample": public("higgs-sample"),
    "connect-4": public("connect-4"),
    "spambase": public("spambase", shuffled=True),
    "Phishing": bundled("Phishing"),
    "Bananas": bundled("Bananas"),
    "ImageSegments": bundled("ImageSegments"),
    "SEA, two changes": made("SEA", {"variant": 2}, {"variant": 1}, variant=0, noise=0.1, seed=0),
    "Agrawal": made("Agrawal", classification_function=0, perturbation=0.05, seed=0),
    "LED, drifting": made(
        "LEDDrift", noise_percentage=0.1, irrelevant_features=True, n_drift_features=5, seed=0
    ),
    "RandomRBF, drifting": made(
        "RandomRBFDrift",
        seed_model=0,
        seed_sample=0,
        n_classes=4,
        n_features=10,
        n_centroids=20,
        change_speed=0.001,
        n_drift_centroids=10,
    ),
    "Hyperplane, drifting": made("Hyperplane", n_features=10, n_drift_features=2, mag_change=0.001, seed=0),
    "abalone": public("abalone"),
    "cpu-act": public("cpu-act"),
    "pol": public("pol"),
    "TrumpApproval": bundled("TrumpApproval", regression=True),
    "ChickWeights": bundled("ChickWeights", regression=True),
    "Friedman, two changes": made("FriedmanDrift", drift_type="gra", position=(1_500, 3_500), seed=0),
    "Mv": made("Mv", seed=0),
    "Planes2D": made("Planes2D", seed=0),
}

DEVELOPMENT: dict[str, Source] = {
    "satimage": public("satimage", shuffled=True),
    "letter": public("letter"),
    "mushroom-onehot": public("mushroom-onehot"),
    "musk2": public("musk2", shuffled=True),
    "thyroid": public("thyroid"),
    "miniboone-small": public("miniboone-small", shuffled=True),
    "mammographic": public("mammographic", shuffled=True),
    "pima": public("pima"),
    "Sine, one change": made("Sine", {"classification_function": 2}, classification_function=0, seed=7),
    "Waveform": made("Waveform", seed=7),
    "STAGGER, two changes": made(
        "STAGGER", {"classification_function": 1}, {"classification_function": 2}, seed=7
    ),
    "RandomTree": made("RandomTree", seed_tree=7, seed_sample=7, n_num_features=6, n_cat_features=3),
    "Mixed": made("Mixed", seed=7),
    "RandomRBF": made("RandomRBF", seed_model=7, seed_sample=7, n_classes=3, n_features=8, n_centroids=30),
    "Agrawal, function 6": made("Agrawal", classification_function=6, seed=7),
    "kin40k": public("kin40k"),
    "pumadyn32nm": public("pumadyn32nm"),
    "wine-quality": public("wine-quality", shuffled=True),
    "housing": public("housing", shuffled=True),
    "diabetes": public("diabetes"),
    "Friedman": made("Friedman", seed=7),
}
