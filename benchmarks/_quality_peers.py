"""What a practitioner has without this library: LightGBM blind to costs, with its penalties on features, or once per budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

import anytime as at
from _quality_sets import Array, Problem

Groups = frozenset[str]

TRADE_OFFS = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
MOST_ROUNDS, PATIENCE = 300, 20
WIDTH = 12  # candidates that are tried per purchase, best by split gain per price
QUICK = {"learning_rate": 0.3, "num_leaves": 15}


class Boosting:
    """LightGBM on the columns of some groups: rounds by early stopping on validation rows, then once more on all rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.costs = problem, problem.costs
        self.groups = [name for name in self.costs.names if self.costs.groups[name]]
        self.column_group = self.costs.bind(problem.X.shape[1]).column_group
        self._stopped: dict[Groups, tuple[Any, float]] = {}
        self._quick: dict[Groups, float] = {}
        self._final: dict[Groups, Any] = {}

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

    def stopped(self, owned: Groups) -> tuple[Any, float]:
        """The model of the training rows, and its loss on validation rows."""
        if owned not in self._stopped:
            model = self.train(self.columns(owned), MOST_ROUNDS, PATIENCE)
            self._stopped[owned] = model, _best(model)
        return self._stopped[owned]

    def quick(self, owned: Groups) -> float:
        """Validation loss of a model that learns fast."""
        if owned not in self._quick:
            self._quick[owned] = _best(self.train(self.columns(owned), 60, 5, **QUICK))
        return self._quick[owned]

    def final(self, owned: Groups) -> Any:
        """The same number of rounds, on training and validation rows."""
        if owned not in self._final:
            rounds = max(self.stopped(owned)[0].best_iteration, 1)
            self._final[owned] = self.train(self.columns(owned), rounds, None)
        return self._final[owned]

    @cached_property
    def split_gain(self) -> dict[str, float]:
        """Of each group, in a model of all columns."""
        gain = self.stopped(frozenset(self.groups))[0].feature_importance("gain")
        shares = np.bincount(self.column_group, gain, len(self.costs.names))
        return dict(zip(self.costs.names, shares.tolist(), strict=True))

    @cached_property
    def constant_loss(self) -> float:
        """Of the answer that needs no feature, on validation rows."""
        p = self.problem
        if not p.n_classes:
            return float(np.mean((p.y_valid - p.y.mean()) ** 2))
        share = np.bincount(p.y, minlength=p.n_classes) / len(p.y)
        return float(-np.log(np.maximum(share[p.y_valid], 1e-12)).mean())


def _best(model: Any) -> float:
    return float(next(iter(model.best_score["valid_0"].values())))


def answers(model: Any, problem: Problem) -> list[NDArray[Any]]:
    """What an interruptible model says of the test rows at each budget."""
    return [model.predict(problem.X_test, budget=budget) for budget in problem.budgets]


def constant(problem: Problem, n_rows: int) -> NDArray[Any]:
    """The answer that needs no feature."""
    return np.full(n_rows, np.bincount(problem.y).argmax() if problem.n_classes else problem.y.mean())


def validation_loss(model: Any, problem: Problem, budget: float) -> float:
    """Log loss, or mean squared error, at a budget."""
    if not problem.n_classes:
        return float(np.mean((model.predict(problem.X_valid, budget=budget) - problem.y_valid) ** 2))
    chance = model.predict_proba(problem.X_valid, budget=budget)
    return float(-np.log(np.maximum(chance[np.arange(len(problem.y_valid)), problem.y_valid], 1e-12)).mean())


def best_of(problem: Problem, pairs: list[tuple[Any, Any]]) -> list[NDArray[Any]]:
    """At each budget, of pairs (model of training rows, model of all rows), the one best on validation rows."""
    found = []
    for budget in problem.budgets:
        losses = [validation_loss(model, problem, budget) for model, _ in pairs]
        found.append(pairs[int(np.argmin(losses))][1].predict(problem.X_test, budget=budget))
    return found


# ---------------------------------------------------------------------- the peers


def cost_blind(problem: Problem) -> list[NDArray[Any]]:
    """LightGBM, its trees in the order in which they were trained."""
    boosting = Boosting(problem)
    whole = boosting.final(frozenset(boosting.groups))
    return answers(at.make_anytime(whole, costs=problem.costs, meter="model"), problem)


def with_penalties(problem: Problem) -> list[NDArray[Any]]:
    """LightGBM's own penalty on the first use of a feature, at many trade-offs; the frontier chosen on validation rows."""
    boosting, costs = Boosting(problem), problem.costs
    price = np.array([costs.price([costs.names[g]]) for g in boosting.column_group])
    penalty = (price / price.mean()).tolist()
    pairs = []
    for trade_off in TRADE_OFFS:
        options = {"cegb_tradeoff": trade_off, "cegb_penalty_feature_coupled": penalty}
        columns = np.arange(price.size)
        model = boosting.train(columns, MOST_ROUNDS, PATIENCE, **options)
        again = boosting.train(columns, max(model.best_iteration, 1), None, **options)
        pairs.append(tuple(at.make_anytime(m, costs=costs, meter="model") for m in (model, again)))
    return best_of(problem, pairs)


def one_per_budget(problem: Problem) -> list[NDArray[Any]]:
    """For each budget a model of its own, on what fits it: by split gain, or by held-out gain, per price.

    Which of the two, or the model of a smaller budget, validation rows say.
    """
    boosting = Boosting(problem)
    found: list[NDArray[Any]] = []
    last: Groups = frozenset()
    for budget in problem.budgets:
        sets = {_filled(boosting, budget, _by_split_gain), _filled(boosting, budget, _by_held_out_gain), last}
        losses = {s: boosting.stopped(s)[1] if s else boosting.constant_loss for s in sets}
        last = min(sorted(losses, key=sorted), key=losses.__getitem__)
        if last:
            found.append(
                _labels(boosting.final(last).predict(problem.X_test[:, boosting.columns(last)]), problem)
            )
        else:
            found.append(constant(problem, len(problem.y_test)))
    return found


Choice = Callable[[Boosting, Groups, dict[str, float]], str]


def _filled(boosting: Boosting, budget: float, choose: Choice) -> Groups:
    """Buy by one rule for as long as something fits."""
    costs = boosting.costs
    owned: Groups = frozenset()
    while True:
        spent = costs.price(owned)
        price = {g: costs.price(owned | {g}) - spent for g in boosting.groups if g not in owned}
        fitting = {g: p for g, p in price.items() if spent + p <= budget * (1 + 1e-9)}
        if not fitting:
            return owned
        owned = owned | {choose(boosting, owned, fitting)}


def _by_split_gain(boosting: Boosting, owned: Groups, price: dict[str, float]) -> str:
    return max(price, key=lambda g: (boosting.split_gain[g] + 1e-12) / max(price[g], 1e-9))


def _by_held_out_gain(boosting: Boosting, owned: Groups, price: dict[str, float]) -> str:
    free = [g for g, p in price.items() if p <= 0]
    if free:
        return free[0]
    now = boosting.quick(owned) if owned else boosting.constant_loss
    tried = sorted(price, key=lambda g: -(boosting.split_gain[g] + 1e-12) / price[g])[:WIDTH]
    gain = {g: now - boosting.quick(owned | {g}) for g in tried}
    return max(tried, key=lambda g: gain[g] / price[g] if gain[g] > 0 else gain[g] * price[g])


def _labels(prediction: Array, problem: Problem) -> NDArray[Any]:
    if problem.n_classes == 2:
        return np.asarray(prediction > 0.5, dtype=np.intp)
    return np.asarray(prediction.argmax(axis=1)) if problem.n_classes else prediction
