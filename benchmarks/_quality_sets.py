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

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of the price of everything
RARE = 20  # rows; classes of fewer are left out


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
    def budgets(self) -> list[float]:
        """The shares of the price of everything."""
        return [share * self.costs.total for share in SHARES]

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
    official: bool = True  # keep the official test rows for testing
    on_request: bool = False  # takes long: run only where it is named

    def problem(self, folder: str, seed: int, development: bool = False, rows: int | None = None) -> Problem:
        """The split of this number, with at most ``rows`` rows to learn and choose from, and as many to judge by.

        Methods are chosen on splits for development; the others are kept for results. Official test rows are test rows of the
        latter, and in no split for development.
        """
        data = self.read(folder)
        rng = np.random.default_rng([53 if development else 107, seed])
        X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
        regression = y.dtype.kind == "f"
        usable = np.ones(len(y), dtype=bool) if regression else _frequent(y)
        test = data.test if self.official else None
        if test is not None and development:
            usable[test], test = False, None
        kept = np.flatnonzero(usable)
        if test is None:
            shuffled = rng.permutation(kept)
            n_test = max(kept.size // 4, kept.size - self.rows) if kept.size > 4000 else kept.size // 4
            test, rest = np.split(shuffled, [n_test])
        else:
            test, rest = np.intersect1d(test, kept), np.setdiff1d(kept, test)
        n_rest, n_test = (most if rows is None else min(rows, most) for most in (self.rows, self.test_rows))
        test, rest = rng.permutation(test)[:n_test], rng.permutation(rest)[:n_rest]
        valid, train = np.split(rest, [len(rest) // 4])
        classes = np.unique(y[kept])
        if not regression:
            y = np.searchsorted(classes, y)
        return Problem(
            X[train], y[train], X[valid], y[valid], X[test], y[test],
            self.prices(data, seed + 1000 * development), 0 if regression else classes.size,
        )  # fmt: skip


def _frequent(y: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) whether a row's class has enough rows."""
    _, place, count = np.unique(y, return_inverse=True, return_counts=True)
    return np.asarray(count[place] >= RARE)


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
        prices = dict(zip(names, map(float, drawn), strict=True))
        return at.FeatureCosts(prices, groups=data.costs.groups, requires=data.costs.requires)

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


def _pixels(n_pixels: int, name: str = "mnist") -> Callable[[str], Any]:
    """Pictures of 8 x 8 pixels, or the middle ones of these; every pixel has a price."""

    def read(folder: str) -> Any:
        data = research_datasets.load(name, folder=folder)
        images = np.asarray(data.X, dtype=np.float64).reshape(-1, 28, 28)[:10_000, 2:26, 2:26]
        X = images.reshape(-1, 8, 3, 8, 3).mean(axis=(2, 4)).reshape(-1, 64)
        row, column = np.divmod(np.arange(64), 8)
        middle = np.argsort(np.hypot(row - 3.5, column - 3.5), kind="stable")[:n_pixels]
        return SimpleNamespace(X=X[:, np.sort(middle)], y=np.asarray(data.y)[:10_000], test=None)

    return read


_LEVELS = (1.0, 5.0, 20.0)

SETS: dict[str, DataSet] = {
    "heart": DataSet(_named("heart"), _own),
    "hepatitis": DataSet(_named("hepatitis"), _own),
    "pima": DataSet(_named("pima"), _own),
    "bupa": DataSet(_named("bupa"), _own, official=False),
    "thyroid": DataSet(_named("thyroid"), _own),
    "graphs-2015": DataSet(_named("GRAPHS-2015"), _own),
    "asp-potassco": DataSet(_named("ASP-POTASSCO"), _own),
    "sat11-rand": DataSet(_named("SAT11-RAND"), _own),
    "sat11-hand": DataSet(_named("SAT11-HAND"), _own),
    "sat11-indu": DataSet(_named("SAT11-INDU"), _own),
    "sat12-indu": DataSet(_named("SAT12-INDU"), _own),
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
    "mushroom": DataSet(_named("mushroom"), _drawn(*_LEVELS)),
    "poker": DataSet(_named("poker"), _drawn(*_LEVELS)),
    "higgs": DataSet(_named("higgs-sample"), _drawn(*_LEVELS), official=False),
    "sonar": DataSet(_named("sonar"), _drawn(*_LEVELS)),
    "ionosphere": DataSet(_named("ionosphere"), _drawn(*_LEVELS)),
    "vote": DataSet(_named("vote"), _drawn(*_LEVELS)),
    "soybean": DataSet(_named("soybean"), _drawn(*_LEVELS)),
    "dna": DataSet(_named("dna"), _drawn(*_LEVELS)),
    "mammographic": DataSet(_named("mammographic"), _drawn(*_LEVELS)),
    "wdbc": DataSet(_named("wdbc"), _drawn(*_LEVELS)),
    "cytology": DataSet(_named("breast-cancer-wisconsin"), _drawn(*_LEVELS)),
    "abalone": DataSet(_float_target(_named("abalone")), _drawn()),
    "housing": DataSet(_float_target(_named("housing")), _drawn()),
    "kin40k": DataSet(_float_target(_named("kin40k")), _drawn(*_LEVELS)),
    "pumadyn": DataSet(_float_target(_named("pumadyn32nm")), _drawn(*_LEVELS)),
    "ranking": DataSet(_ranking, _own, rows=4000, on_request=True),
    "pixels": DataSet(_pixels(64), _singly(*_LEVELS), rows=5000, test_rows=5000),
    "clothes": DataSet(_pixels(64, "fashion-mnist"), _singly(*_LEVELS), rows=5000, test_rows=5000),
    "pixels-40": DataSet(_pixels(40), _singly(*_LEVELS), rows=5000, test_rows=5000, on_request=True),
}  # fmt: skip
