"""What a careful user does without this library: one LightGBM per budget, or LightGBM's own penalties on costly features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from anytime.cli.digits import Digits

Labels = NDArray[np.intp]
Predict = Callable[["pd.DataFrame"], Labels]
Fit = Callable[["pd.DataFrame", Labels, int], Predict]  # on these columns, in so many rounds

_TRADEOFFS = (0.1, 1.0, 10.0, 100.0)  # of LightGBM's penalties against its gains
_HELD_OUT = 4  # one image in so many is held out, to choose by
_QUICK = 4  # times fewer rounds, to find out which group to buy next


@dataclass(frozen=True)
class PricedModel:
    """A model of some groups."""

    price: float
    held_out_accuracy: float
    predict: Predict


class BestOffer:
    """Several models, of which the best affordable one answers; ``anytime.compare`` reads it as a model with stages."""

    def __init__(self, y: Labels, offers: Sequence[PricedModel]) -> None:
        self.classes_, counts = np.unique(y, return_counts=True)
        self._commonest = self.classes_[counts.argmax()]
        self.offers = list[PricedModel]()
        best = float(counts.max() / counts.sum())
        for offer in sorted(offers, key=lambda offer: (offer.price, -offer.held_out_accuracy)):
            if offer.held_out_accuracy > best:
                self.offers.append(offer)
                best = offer.held_out_accuracy

    def stages(self, X: pd.DataFrame) -> Iterator[SimpleNamespace]:
        """Answers from cheap to expensive; the first needs no features."""
        answers = [(0.0, np.full(len(X), self._commonest))]
        answers += [(offer.price, offer.predict(X)) for offer in self.offers]
        for stage, (price, prediction) in enumerate(answers):
            yield SimpleNamespace(
                stage=stage,
                prediction=prediction,
                scores=None,
                probabilities=None,
                cost=price,
                model_cost=price,
            )


def rivals(data: Digits, rounds: int, trees: dict[str, Any]) -> dict[str, BestOffer]:
    """The rivals by name, all with the same kind of trees; without LightGBM, our own boosting once per budget."""
    try:
        import lightgbm
    except ImportError:
        offers = _Offers(data, _ours(trees), rounds)
        return {"one model per budget": offers.one_per_budget()}
    boosting = _LightGBM(lightgbm, trees)
    offers = _Offers(data, boosting.fit, rounds)
    sets = [boosting.bought(data, rounds, tradeoff) for tradeoff in _TRADEOFFS]
    return {
        "one LightGBM per budget": offers.one_per_budget(),
        "LightGBM's penalties": offers.of(groups for groups in sets if groups),
    }


class _Offers:
    """Models of sets of groups, each made once."""

    def __init__(self, data: Digits, fit: Fit, rounds: int) -> None:
        self.data, self.fit, self.rounds = data, fit, rounds
        self.held = np.arange(len(data.train.y)) % _HELD_OUT == 0
        self._made: dict[frozenset[str], PricedModel] = {}

    def of(self, sets: Iterable[frozenset[str]]) -> BestOffer:
        """The best of the models of these sets."""
        return BestOffer(self.data.train.y, [self._offer(groups) for groups in sets])

    def one_per_budget(self) -> BestOffer:
        """Sets on the way from nothing to everything: next comes the group that gains most per unit of price."""
        costs, owned, sets = self.data.costs, frozenset[str](), list[frozenset[str]]()
        while left := [group for group in costs.groups if group not in owned]:
            accuracy = {group: self._accuracy(owned | {group}, self.rounds // _QUICK) for group in left}
            now = self._accuracy(owned, self.rounds // _QUICK) if owned else 0.0
            rate = {group: (accuracy[group] - now) / costs.price([group]) for group in left}
            owned |= {max(left, key=rate.__getitem__)}
            sets.append(owned)
        return self.of(sets)

    def _offer(self, groups: frozenset[str]) -> PricedModel:
        if groups not in self._made:
            columns, train = self._columns(groups), self.data.train
            predict = self.fit(train.X[columns], train.y, self.rounds)
            self._made[groups] = PricedModel(
                self.data.costs.price(sorted(groups)),
                self._accuracy(groups, self.rounds),
                lambda X: predict(X[columns]),
            )
        return self._made[groups]

    def _accuracy(self, groups: frozenset[str], rounds: int) -> float:
        """On the held-out images, of a model of the others."""
        X, y = self.data.train.X[self._columns(groups)], self.data.train.y
        predict = self.fit(X[~self.held], y[~self.held], rounds)
        return float((predict(X[self.held]) == y[self.held]).mean())

    def _columns(self, groups: frozenset[str]) -> list[Any]:
        return [
            column
            for group, columns in self.data.costs.groups.items()
            if group in groups
            for column in columns
        ]


def _ours(trees: dict[str, Any]) -> Fit:
    from anytime.boosting import GradientBoostingClassifier

    def fit(X: pd.DataFrame, y: Labels, rounds: int) -> Predict:
        model = GradientBoostingClassifier(n_estimators=rounds, **trees).fit(X, y)
        return lambda new: np.asarray(model.predict(new))

    return fit


class _LightGBM:
    """Boosting by LightGBM."""

    def __init__(self, lightgbm: Any, trees: dict[str, Any]) -> None:
        self.lightgbm = lightgbm
        self.parameters = {
            "objective": "multiclass",
            "learning_rate": trees["learning_rate"],
            "num_leaves": trees["max_leaf_nodes"],
            "min_data_in_leaf": trees["min_samples_leaf"],
            "lambda_l2": trees["l2_regularization"],
            "num_threads": 1,
            "verbose": -1,
            "seed": 0,
        }

    def fit(self, X: pd.DataFrame, y: Labels, rounds: int) -> Predict:
        """A model of these columns."""
        booster = self._trained(X, y, rounds)
        return lambda new: np.asarray(booster.predict(new.to_numpy()).argmax(axis=1))

    def bought(self, data: Digits, rounds: int, tradeoff: float) -> frozenset[str]:
        """The groups that LightGBM uses if the first use of a column costs as much as its group."""
        columns = list(data.train.X.columns)
        group_of = {column: group for group, members in data.costs.groups.items() for column in members}
        price = np.array([data.costs.price([group_of[column]]) for column in columns])
        booster = self._trained(
            data.train.X,
            data.train.y,
            rounds,
            cegb_tradeoff=tradeoff,
            cegb_penalty_feature_coupled=(price / price.mean()).tolist(),
        )
        return frozenset(group_of[columns[at]] for at in np.flatnonzero(booster.feature_importance()))

    def _trained(self, X: pd.DataFrame, y: Labels, rounds: int, **penalties: Any) -> Any:
        parameters = {**self.parameters, "num_class": int(y.max()) + 1, **penalties}
        return self.lightgbm.train(parameters, self.lightgbm.Dataset(X.to_numpy(), y), rounds)
