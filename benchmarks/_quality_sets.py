"""Data sets with prices, cut into rows to learn from, rows to choose by and rows to judge by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime_research import datasets as research_datasets
from anytime_research.datasets import load_yahoo_costs, weight_prices
from anytime_research.datasets.lookalikes import make_ranking

Array = NDArray[np.float64]

N_BUDGETS = 12


@dataclass(frozen=True)
class Problem:
    """One split of a data set: training, validation and test rows, prices, and the budgets to judge at."""

    X: Array
    y: NDArray[Any]
    X_valid: Array
    y_valid: NDArray[Any]
    X_test: Array
    y_test: NDArray[Any]
    costs: at.FeatureCosts
    n_classes: int  # 0: regression

    @property
    def budgets(self) -> Array:
        """Log-spaced from the cheapest column to everything."""
        cheapest = min(
            price
            for name in self.costs.names
            if self.costs.groups[name] and (price := self.costs.price([name])) > 0
        )
        grid = np.geomspace(cheapest, self.costs.total, N_BUDGETS)
        grid[-1] = self.costs.total
        return grid

    def joined(self) -> tuple[Array, NDArray[Any]]:
        """Training and validation rows together."""
        return np.concatenate([self.X, self.X_valid]), np.concatenate([self.y, self.y_valid])

    def loss(self, prediction: NDArray[Any], y: NDArray[Any] | None = None) -> Array:
        """Of each test row: 1 for a wrong class, or the squared error in units of the variance."""
        y = self.y_test if y is None else y
        if self.n_classes:
            return np.asarray(prediction != y, dtype=np.float64)
        return np.asarray((prediction - y) ** 2 / np.var(self.y))


@dataclass(frozen=True)
class DataSet:
    """How to read one, what its columns cost, and how many rows to use."""

    read: Callable[[str], Any]
    prices: Callable[[Any, int], at.FeatureCosts]  # of the data, for the split of this number
    rows: int = 8000  # to learn and choose from
    test_rows: int = 5000
    seeds: int = 3
    official: bool = True  # keep the official test rows for testing
    on_request: bool = False  # takes long: run only where it is named

    def problem(self, folder: str, seed: int, development: bool = False) -> Problem:
        """The split of this number. Official test rows stay test rows.

        Methods are chosen on splits for development; the others are kept for results.
        """
        data = self.read(folder)
        rng = np.random.default_rng([53 if development else 107, seed])
        X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
        regression = y.dtype.kind == "f"
        test = data.test if self.official else None
        if test is None:
            shuffled = rng.permutation(len(y))
            test, rest = np.split(
                shuffled, [max(len(y) // 4, len(y) - self.rows) if len(y) > 4000 else len(y) // 4]
            )
        else:
            rest = np.setdiff1d(np.arange(len(y)), test)
        test, rest = rng.permutation(test)[: self.test_rows], rng.permutation(rest)[: self.rows]
        valid, train = np.split(rest, [len(rest) // 4])
        if not regression:
            y = np.unique(y, return_inverse=True)[1]
        return Problem(
            X[train], y[train], X[valid], y[valid], X[test], y[test],
            self.prices(data, seed), 0 if regression else int(y.max()) + 1,
        )  # fmt: skip


def _named(name: str, **options: Any) -> Callable[[str], Any]:
    return lambda folder: research_datasets.load(name, folder=folder, **options)


def _own(data: Any, seed: int) -> at.FeatureCosts:
    costs: at.FeatureCosts = data.costs
    return costs


def _drawn(*levels: float) -> Callable[[Any, int], at.FeatureCosts]:
    """The groups of the data, each at a price drawn from ``levels``; without any, from a gamma distribution (2, 2)."""

    def prices(data: Any, seed: int) -> at.FeatureCosts:
        rng = np.random.default_rng([11, seed])
        names = data.costs.names
        drawn = (
            rng.choice(levels, len(names))
            if levels
            else np.round(np.maximum(rng.gamma(2.0, 2.0, len(names)), 0.01), 2)
        )
        return at.FeatureCosts(dict(zip(names, map(float, drawn), strict=True)), groups=data.costs.groups)

    return prices


def _singly(*levels: float) -> Callable[[Any, int], at.FeatureCosts]:
    """Every column by itself, at a price drawn from ``levels``."""
    return lambda data, seed: at.FeatureCosts(
        np.random.default_rng([11, seed]).choice(levels, data.X.shape[1])
    )


def _families(**families: tuple[float, float, range]) -> Callable[[Any, int], at.FeatureCosts]:
    """Columns computed together: a price for the step they share, and one for each column."""

    def prices(data: Any, seed: int) -> at.FeatureCosts:
        groups: dict[str, list[int]] = {}
        priced: dict[str, float] = {}
        requires: dict[str, list[str]] = {}
        for family, (shared, single, columns) in families.items():
            groups[family], priced[family] = [], shared
            for j in columns:
                name = f"{family} {j}"
                groups[name], priced[name], requires[name] = [j], single, [family]
        return at.FeatureCosts(priced, groups=groups, requires=requires)

    return prices


def _weights(data: Any, seed: int) -> at.FeatureCosts:
    """The recipe of the pruning literature: price = rounded weight in a linear classifier."""
    return weight_prices(np.asarray(data.X)[data.train], np.asarray(data.y)[data.train])


def _float_target(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def wrapped(folder: str) -> Any:
        data = read(folder)
        return data.with_attributes(y=np.asarray(data.y, dtype=np.float64))

    return wrapped


def _ranking(folder: str) -> Any:
    data = make_ranking(9000, prices=load_yahoo_costs(folder=folder), group_size=10)
    return data.with_attributes(y=np.asarray(data.y, dtype=np.float64))


def _pixels(n_pixels: int) -> Callable[[str], Any]:
    """Handwritten digits of 8 x 8 pixels, or the middle ones of these; every pixel has a price."""

    def read(folder: str) -> Any:
        data = research_datasets.load("mnist", folder=folder)
        images = np.asarray(data.X, dtype=np.float64).reshape(-1, 28, 28)[:10_000, 2:26, 2:26]
        X = images.reshape(-1, 8, 3, 8, 3).mean(axis=(2, 4)).reshape(-1, 64)
        row, column = np.divmod(np.arange(64), 8)
        middle = np.argsort(np.hypot(row - 3.5, column - 3.5), kind="stable")[:n_pixels]
        return SimpleNamespace(X=X[:, np.sort(middle)], y=np.asarray(data.y)[:10_000], test=None)

    return read


_LEVELS = (1.0, 5.0, 20.0)

SETS: dict[str, DataSet] = {
    "heart": DataSet(_named("heart"), _own, seeds=6),
    "hepatitis": DataSet(_named("hepatitis"), _own, seeds=6),
    "pima": DataSet(_named("pima"), _own, seeds=6),
    "thyroid": DataSet(_named("thyroid"), _own),
    "graphs-2015": DataSet(_named("GRAPHS-2015"), _own),
    "pendigits": DataSet(_named("pendigits"), _drawn(*_LEVELS)),
    "letter": DataSet(_named("letter"), _drawn(*_LEVELS), rows=8000),
    "satimage": DataSet(_named("satimage"), _singly(*_LEVELS)),
    "segment": DataSet(
        _named("segment"),
        _families(
            position=(0.0, 1.0, range(2)), count=(0.0, 1.0, range(2, 3)), lines=(20.0, 2.0, range(3, 5)),
            edges=(10.0, 5.0, range(5, 9)), colour=(5.0, 1.0, range(9, 19)),
        ),
    ),
    "spambase": DataSet(_named("spambase"), _drawn(*_LEVELS)),
    "magic": DataSet(_named("magic"), _drawn(*_LEVELS)),
    "miniboone": DataSet(_named("miniboone-small"), _weights),
    "covtype": DataSet(_named("covtype"), _drawn(*_LEVELS), official=False),
    "adult": DataSet(_named("adult"), _drawn(*_LEVELS)),
    "connect-4": DataSet(_named("connect-4"), _drawn(*_LEVELS)),
    "wine-quality": DataSet(_float_target(_named("wine-quality")), _drawn()),
    "cpu": DataSet(_float_target(_named("cpu-act")), _drawn()),
    "pol": DataSet(_float_target(_named("pol")), _drawn(*_LEVELS)),
    "ranking": DataSet(_ranking, _own, rows=4000, on_request=True),
    "pixels": DataSet(_pixels(64), _singly(*_LEVELS), rows=5000, test_rows=5000, on_request=True),
    "pixels-40": DataSet(_pixels(40), _singly(*_LEVELS), rows=5000, test_rows=5000, on_request=True),
}  # fmt: skip
