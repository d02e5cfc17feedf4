"""Data sets of the experiments with forests: rows to learn from, to choose by and to judge by, and what columns cost.

Sizes are those of Nan's thesis where the set is one of its own (Covertype, MiniBooNE at full size as a look-alike); elsewhere
60, 20 and 20 percent, or the official test rows with the others in proportion 70 to 30. A repeat draws other rows.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime_research import datasets as research_datasets
from anytime_research.datasets import load_yahoo_costs, make_miniboone, make_ranking, weight_prices

Array = NDArray[np.float64]
Rows = tuple[Array, NDArray[np.intp]]

RELEVANT = 2  # least grade of the ranking look-alike that counts as relevant: 38 % of the documents


@dataclass(frozen=True)
class Split:
    """One draw: training, validation and test rows, prices, and queries where rows are ranked."""

    name: str
    seed: int
    train: Rows
    valid: Rows
    test: Rows
    costs: at.FeatureCosts
    n_classes: int
    queries: tuple[NDArray[Any], NDArray[Any]] | None = None  # of validation and test rows

    @property
    def sizes(self) -> list[int]:
        """Rows of the three parts, and columns."""
        return [len(self.train[1]), len(self.valid[1]), len(self.test[1]), self.train[0].shape[1]]

    def priced_by_weight(self) -> Split:
        """The same rows, columns at prices that rise with their weights in a linear classifier."""
        return replace(self, costs=weight_prices(*self.train), name=f"{self.name}, priced by weight")


@dataclass(frozen=True)
class ForestSet:
    """How to read a set, and how to draw from it."""

    read: Callable[[str], Any]
    sizes: tuple[int, int, int] | None = None  # None: shares as above
    columns_singly: bool = True  # every column costs 1; False: the groups and prices of the set
    repeats: int = 10
    on_request: bool = False  # takes long: run only where it is named
    note: str = "real"

    def split(self, name: str, folder: str, seed: int, scale: float = 1.0) -> Split:
        """The draw of this number, or a share of it."""
        data = _read(name, folder)
        X, y = np.asarray(data.X, dtype=np.float64), np.unique(np.asarray(data.y), return_inverse=True)[1]
        rng = np.random.default_rng([55, seed])
        queries = None
        if data.qid is not None:
            train, valid, test = _by_query(data.qid, rng)
            queries = data.qid[valid], data.qid[test]
        else:
            train, valid, test = self._rows(data, len(y), rng)
        if scale < 1:
            train, valid, test = (rows[: max(int(scale * len(rows)), 300)] for rows in (train, valid, test))
        costs = at.FeatureCosts(np.ones(X.shape[1]), unit="columns") if self.columns_singly else data.costs
        parts = [(X[rows], y[rows]) for rows in (train, valid, test)]
        if queries is not None:
            queries = tuple(q[: len(part[1])] for q, part in zip(queries, parts[1:], strict=True))
        return Split(name, seed, *parts, costs, int(y.max()) + 1, queries)

    def _rows(self, data: Any, n: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
        if self.sizes is not None:
            drawn = rng.permutation(n)[: sum(self.sizes)]
            return np.split(drawn, np.cumsum(self.sizes)[:-1])
        if data.test is not None:
            test = rng.permutation(data.test)
            rest = rng.permutation(np.setdiff1d(np.arange(n), test))
            return [*np.split(rest, [round(0.7 * len(rest))]), test]
        drawn = rng.permutation(n)
        return np.split(drawn, [round(0.6 * n), round(0.8 * n)])


@lru_cache(maxsize=1)
def _read(name: str, folder: str) -> Any:
    return SETS[name].read(folder)


def _by_query(qid: NDArray[Any], rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Whole queries: 30, 31 and 39 percent, as the thesis splits."""
    queries = rng.permutation(np.unique(qid))
    cuts = np.split(queries, np.round(np.array([0.299, 0.609]) * len(queries)).astype(int))
    return [np.flatnonzero(np.isin(qid, some)) for some in cuts]


def _named(name: str, **options: Any) -> Callable[[str], Any]:
    return lambda folder: research_datasets.load(name, folder=folder, **options)


def _measured(data: Any) -> Any:
    """MiniBooNE's -999 at the least measured value of the column: no difference to trees, a great one to linear models."""
    X = np.asarray(data.X)
    return data.with_attributes(X=np.maximum(X, np.where(X == -999.0, np.inf, X).min(axis=0)))


def _ranking(folder: str) -> Any:
    data = make_ranking(24_000, prices=load_yahoo_costs(folder=folder), group_size=1)
    return data.with_attributes(y=(np.asarray(data.y) >= RELEVANT).astype(np.intp))


def _plain(data: Any) -> Any:
    """Without the official split: it has too few test rows, or another task in mind."""
    return data.with_attributes(train=None, valid=None, test=None)


SETS: dict[str, ForestSet] = {
    "thyroid": ForestSet(_named("thyroid"), columns_singly=False, note="real, real prices (CAD)"),
    "spambase": ForestSet(_named("spambase")),
    "satimage": ForestSet(_named("satimage")),
    "pendigits": ForestSet(_named("pendigits")),
    "magic": ForestSet(_named("magic")),
    "mfeat": ForestSet(_named("mfeat"), columns_singly=False, repeats=3, note="real, six groups of columns at 1 each"),
    "higgs-sample": ForestSet(
        lambda folder: _plain(research_datasets.load("higgs-sample", folder=folder)), columns_singly=False,
        note="real, groups of columns; derived masses require all others",
    ),
    "miniboone-small": ForestSet(
        lambda folder: _measured(_plain(research_datasets.load("miniboone-small", folder=folder))), (2000, 1000, 2000),
    ),
    "letter": ForestSet(_named("letter"), (12_000, 4_000, 4_000), repeats=3),
    "adult": ForestSet(_named("adult"), repeats=5),
    "connect-4": ForestSet(_named("connect-4"), (20_000, 8_000, 20_000), repeats=3),
    "covtype": ForestSet(_named("covtype"), (36_603, 15_688, 58_101), repeats=3, note="real, sizes of the thesis"),
    "miniboone": ForestSet(
        lambda folder: _measured(make_miniboone(research_datasets.load("miniboone-small", folder=folder))),
        (45_523, 19_510, 65_031), repeats=3, note="look-alike of full size, sizes of the thesis",
    ),
    "ranking": ForestSet(
        _ranking, columns_singly=False, repeats=2, on_request=True,
        note="look-alike of Yahoo! LTR, real prices; judged by prefix precision@5",
    ),
}  # fmt: skip


# ---------------------------------------------------------------------- what is asked for

QUICK_SETS = ("thyroid", "miniboone-small", "spambase")


def asked(about: str | None) -> tuple[argparse.Namespace, dict[str, range]]:
    """The command line of an experiment, and the repeats of each set that it names."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three sets, two repeats")
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", help="comma separated; name:n asks for n repeats of it")
    parser.add_argument("--repeats", type=int, default=99, help="of each set, at most")
    parser.add_argument("--keep", type=Path, help="folder of what is done: a run can then go on")
    parser.add_argument("--name", default=Path(sys.argv[0]).stem, help="results/NAME.json is written")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the data sets: --data DIR, or ANYTIME_DATA")
    usual = [name for name in SETS if not SETS[name].on_request]
    names = options.sets.split(",") if options.sets else list(QUICK_SETS if options.quick else usual)
    most = 2 if options.quick else options.repeats
    wanted = [named.partition(":")[::2] for named in names]
    return options, {name: range(int(n) if n else min(SETS[name].repeats, most)) for name, n in wanted}
