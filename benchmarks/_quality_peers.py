"""What a practitioner has without this library: LightGBM blind to costs, with its penalties on features, or once per budget.

Every peer learns from training rows, chooses on validation rows what answers at each budget, and refits that on both. LightGBM is
tried as it comes and with column sampling and bagging, wherever it is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

import anytime as at
from _quality_sets import Array, Problem

Groups = frozenset[str]

COUPLED = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # trade-offs of a price paid once
LAZY = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3)  # of a price that every row pays
MOST_ROUNDS, PATIENCE = 300, 20
QUICK = {"learning_rate": 0.3, "num_leaves": 15}
QUICK_MODELS = 240  # about as many, to find out what to buy for each budget
WIDTH = (3, 12)  # candidates that are tried per purchase, best by split gain per price
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"feature_fraction": 0.5, "bagging_fraction": 0.8, "bagging_freq": 1},
)


class Said(NamedTuple):
    """Of one entry at each budget: the loss on validation rows (NaN: it has no such rows), and what it says of test rows."""

    validation: list[float]
    test: list[NDArray[Any]]


class Boosting:
    """LightGBM on the columns of some groups: rounds by early stopping on validation rows, then once more on all rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.costs = problem, problem.costs
        self.groups = [name for name in self.costs.names if self.costs.groups[name]]
        self.column_group = self.costs.bind(problem.X.shape[1]).column_group
        self._stopped: dict[tuple[Groups, int], tuple[Any, float]] = {}
        self._quick: dict[Groups, float] = {}

    def columns(self, owned: Iterable[str]) -> NDArray[np.intp]:
        """Positions of the columns of groups, and of all that these require."""
        number = {name: g for g, name in enumerate(self.costs.names)}
        return np.flatnonzero(
            np.isin(self.column_group, [number[name] for name in self.costs.closure(sorted(owned))])
        )

    def train(self, columns: NDArray[np.intp], rounds: int, patience: int | None, **options: Any) -> Any:
        """On training rows, stopped by validation rows; on both without patience."""
        p = self.problem
        parameters = {
            "objective": {0: "regression", 2: "binary"}.get(p.n_classes, "multiclass"),
            "verbose": -1,
            "num_threads": 1,
            "seed": 0,
            "deterministic": True,
            "force_col_wise": True,
            "min_data_in_leaf": 20 if len(p.y) >= 1000 else 10,
            **({"num_class": p.n_classes} if p.n_classes > 2 else {}),
            **options,
        }
        X, y = (p.X, p.y) if patience else p.joined()
        data = lgb.Dataset(np.ascontiguousarray(X[:, columns]), y)
        if not patience:
            return lgb.train(parameters, data, rounds)
        held = lgb.Dataset(np.ascontiguousarray(p.X_valid[:, columns]), p.y_valid, reference=data)
        stop = lgb.early_stopping(patience, verbose=False)
        return lgb.train(parameters, data, rounds, valid_sets=[held], callbacks=[stop])

    def stopped(self, owned: Groups, way: int = 0) -> tuple[Any, float]:
        """The model of the training rows, and its loss on validation rows."""
        if (owned, way) not in self._stopped:
            model = self.train(self.columns(owned), MOST_ROUNDS, PATIENCE, **WAYS[way])
            self._stopped[owned, way] = model, _best(model)
        return self._stopped[owned, way]

    def quick(self, owned: Groups) -> float:
        """Validation loss of a model that learns fast."""
        if owned not in self._quick:
            self._quick[owned] = _best(self.train(self.columns(owned), 60, 5, **QUICK))
        return self._quick[owned]

    def final(self, owned: Groups, way: int = 0) -> Any:
        """The same number of rounds, on training and validation rows."""
        rounds = max(self.stopped(owned, way)[0].best_iteration, 1)
        return self.train(self.columns(owned), rounds, None, **WAYS[way])

    @cached_property
    def split_gain(self) -> dict[str, float]:
        """Of each group, in a model of all columns."""
        gain = self.stopped(frozenset(self.groups))[0].feature_importance("gain")
        shares = np.bincount(self.column_group, gain, len(self.costs.names))
        return dict(zip(self.costs.names, shares.tolist(), strict=True))

    @cached_property
    def constant_loss(self) -> float:
        """Of the answer that needs no feature, on validation rows."""
        return float(_row_losses(self, frozenset()).mean())

    def price_of_columns(self) -> Array:
        """(d,) price of each column's group, with all that it requires, in units of their mean."""
        price = np.array([self.costs.price([self.costs.names[g]]) for g in self.column_group])
        return np.asarray(price / price.mean())


def _best(model: Any) -> float:
    return float(next(iter(model.best_score["valid_0"].values())))


def row_losses(said: Array, y: NDArray[Any], n_classes: int) -> Array:
    """(n,) log loss of probabilities, or squared error."""
    if not n_classes:
        return np.asarray((said - y) ** 2)
    return np.asarray(-np.log(np.maximum(said[np.arange(len(y)), y], 1e-12)))


def budget_loss(model: Any, problem: Problem, budget: float, joined: bool = False) -> float:
    """Mean loss at a budget on validation rows, or on those and the training rows."""
    X, y = problem.joined() if joined else (problem.X_valid, problem.y_valid)
    if not problem.n_classes:
        return float(row_losses(model.predict(X, budget=budget), y, 0).mean())
    chance = np.zeros((len(y), problem.n_classes))
    chance[:, model.classes_.astype(int)] = model.predict_proba(X, budget=budget)
    return float(row_losses(chance, y, problem.n_classes).mean())


def best_of(problem: Problem, tried: Sequence[tuple[Any, Callable[[], Any]]]) -> Said:
    """At each budget, of pairs (model of training rows, how to refit it on all), the one best on validation rows.

    A refitted model may buy something else, and have nothing to say at a budget: where it is worse than the first on all these
    rows, which include those it was refitted on, the first answers.
    """
    said, refitted = Said([], []), dict[int, Any]()
    for budget in problem.budgets:
        losses = [budget_loss(model, problem, budget) for model, _ in tried]
        best = int(np.argmin(losses))
        if best not in refitted:
            refitted[best] = tried[best][1]()
        said.validation.append(losses[best])
        pair = (refitted[best], tried[best][0])
        answering = min(pair, key=lambda model: budget_loss(model, problem, budget, joined=True))
        said.test.append(answering.predict(problem.X_test, budget=budget))
    return said


# ---------------------------------------------------------------------- the peers


def cost_blind(problem: Problem) -> Said:
    """LightGBM, its trees in the order in which they were trained."""
    return _interruptible(Boosting(problem), "model", [{}])


def coupled_penalties(problem: Problem) -> Said:
    """LightGBM's own penalty on the first use of a feature, at many trade-offs."""
    boosting = Boosting(problem)
    price = boosting.price_of_columns().tolist()
    options = [{"cegb_tradeoff": c, "cegb_penalty_feature_coupled": price} for c in COUPLED]
    return _interruptible(boosting, "model", options)


def lazy_penalties(problem: Problem) -> Said:
    """LightGBM's penalty on each row's first use of a feature; rows pay for what they use, up to the budget."""
    boosting = Boosting(problem)
    price = boosting.price_of_columns().tolist()
    options = [{"cegb_tradeoff": c, "cegb_penalty_feature_lazy": price} for c in LAZY]
    return _interruptible(boosting, "realised", options)


def _interruptible(boosting: Boosting, meter: str, settings: Sequence[dict[str, Any]]) -> Said:
    problem, columns = boosting.problem, np.arange(boosting.problem.X.shape[1])

    def tried(options: dict[str, Any]) -> tuple[Any, Callable[[], Any]]:
        model = boosting.train(columns, MOST_ROUNDS, PATIENCE, **options)
        rounds = max(model.best_iteration, 1)

        def made(booster: Any) -> Any:
            return at.make_anytime(booster, costs=problem.costs, meter=meter)

        return made(model), lambda: made(boosting.train(columns, rounds, None, **options))

    return best_of(problem, [tried({**options, **way}) for options in settings for way in WAYS])


def one_per_budget(problem: Problem) -> Said:
    """For each budget a model of its own, on what fits it: by split gain, or by held-out gain, per price.

    Which of the two, or the model of a smaller budget, and whether with sampling, validation rows say.
    """
    boosting = Boosting(problem)
    said = Said([], [])
    last: Groups = frozenset()
    for budget in problem.budgets:
        sets = {_filled(boosting, budget, _by_split_gain), _filled(boosting, budget, _by_held_out_gain), last}
        losses = {
            (s, way): boosting.stopped(s, way)[1] if s else boosting.constant_loss
            for s in sorted(sets, key=sorted)
            for way in range(len(WAYS))
        }
        last, way = min(losses, key=losses.__getitem__)
        said.validation.append(losses[last, way])
        columns = boosting.columns(last)
        said.test.append(
            labels(boosting.final(last, way).predict(problem.X_test[:, columns]), problem)
            if last
            else constant(problem, len(problem.y_test))
        )
    return said


def constant(problem: Problem, n_rows: int) -> NDArray[Any]:
    """The answer that needs no feature."""
    return np.full(n_rows, np.bincount(problem.y).argmax() if problem.n_classes else problem.y.mean())


def labels(prediction: Array, problem: Problem) -> NDArray[Any]:
    """Classes of probabilities; of regressions what they say."""
    if problem.n_classes == 2:
        return np.asarray(prediction > 0.5, dtype=np.intp)
    return np.asarray(prediction.argmax(axis=1)) if problem.n_classes else prediction


Choice = Callable[[Boosting, Groups, dict[str, float]], str]


def _filled(boosting: Boosting, budget: float, choose: Choice) -> Groups:
    """Buy by one rule for as long as something fits."""
    owned: Groups = frozenset()
    while fitting := affordable(boosting, owned, budget):
        owned = owned | {choose(boosting, owned, fitting)}
    return owned


def affordable(boosting: Boosting, owned: Groups, budget: float) -> dict[str, float]:
    """Groups that still fit, with what they cost now."""
    costs = boosting.costs
    spent = costs.price(owned)
    price = {g: costs.price(owned | {g}) - spent for g in boosting.groups if g not in owned}
    return {g: p for g, p in price.items() if spent + p <= budget * (1 + 1e-9)}


def _by_split_gain(boosting: Boosting, owned: Groups, price: dict[str, float]) -> str:
    return max(price, key=lambda g: (boosting.split_gain[g] + 1e-12) / max(price[g], 1e-9))


def _by_held_out_gain(boosting: Boosting, owned: Groups, price: dict[str, float]) -> str:
    free = [g for g, p in price.items() if p <= 0]
    if free:
        return free[0]
    now = boosting.quick(owned) if owned else boosting.constant_loss
    width = int(np.clip(QUICK_MODELS // len(boosting.groups), *WIDTH))
    tried = sorted(price, key=lambda g: -(boosting.split_gain[g] + 1e-12) / price[g])[:width]
    gain = {g: now - boosting.quick(owned | {g}) for g in tried}
    return max(tried, key=lambda g: gain[g] / price[g] if gain[g] > 0 else gain[g] * price[g])


def useful_group_fits(boosting: Boosting, owned: Groups, budget: float) -> bool:
    """Whether validation rows like a LightGBM better that also has what the rest of the budget buys.

    By more than two standard errors of the paired difference: with everything that still fits, best split gain per price first,
    or with the single group of most split gain that fits.
    """
    fitting = affordable(boosting, owned, budget)
    if not fitting:
        return False
    filled = owned
    while more := affordable(boosting, filled, budget):
        filled = filled | {_by_split_gain(boosting, filled, more)}
    single = owned | {max(fitting, key=lambda g: boosting.split_gain[g])}
    before = _row_losses(boosting, owned)
    for larger in {filled, single}:
        gain = before - _row_losses(boosting, larger)
        if gain.mean() > 2 * gain.std() / np.sqrt(gain.size):
            return True
    return False


def _row_losses(boosting: Boosting, owned: Groups) -> Array:
    """(n,) of the validation rows."""
    p = boosting.problem
    if not owned:
        share = np.bincount(p.y, minlength=p.n_classes) / len(p.y) if p.n_classes else p.y.mean()
        return row_losses(np.broadcast_to(share, (len(p.y_valid), *np.shape(share))), p.y_valid, p.n_classes)
    said = boosting.stopped(owned)[0].predict(p.X_valid[:, boosting.columns(owned)])
    if p.n_classes == 2:
        said = np.stack([1 - said, said], axis=1)
    return row_losses(said, p.y_valid, p.n_classes)
