"""Peers that boost with a price on features: Greedy Miser, and CatBoost's penalties."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from _quality_peers import MOST_ROUNDS, PATIENCE, Boosting, Said, best_of
from _quality_sets import Array, Problem

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 1.0)  # shares of the impurity at the start, per mean price
COEFFICIENTS = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
MANY_CLASSES = 3  # from which on CatBoost learns in half as many rounds, twice as fast


def greedy_miser(problem: Problem) -> Said:
    """Boosting with a fixed price on first use, for many prices."""
    mean_price = problem.costs.total / len(problem.costs.names)
    scale = len(problem.y) * (float(np.var(problem.y)) if not problem.n_classes else 0.25) / mean_price
    kind = at.GradientBoostingClassifier if problem.n_classes else at.GradientBoostingRegressor

    def tried(penalty: float) -> tuple[Any, Callable[[], Any]]:
        shared: dict[str, Any] = {
            "costs": problem.costs,
            "random_state": 0,
            "cost_penalty": penalty * scale,
            "meter": "model",
        }
        stopped = kind(**shared, n_estimators=MOST_ROUNDS, validation_fraction=0.25)
        n_rounds = max(stopped.fit(problem.X, problem.y).n_stages_, 1)
        first, again = (kind(**shared, n_estimators=n_rounds) for _ in range(2))
        return first.fit(problem.X, problem.y), lambda: again.fit(*problem.joined())

    return best_of(problem, [tried(penalty) for penalty in PENALTIES])


# ---------------------------------------------------------------------- CatBoost

HAS_CATBOOST = importlib.util.find_spec("catboost") is not None


def catboost_penalties(problem: Problem) -> Said | None:
    """CatBoost's penalty on the first use of a feature, at many coefficients; None where it is not installed."""
    if not HAS_CATBOOST:
        return None
    price = Boosting(problem).price_of_columns()

    def tried(coefficient: float) -> tuple[Any, Callable[[], Any]]:
        first = _fitted(problem, price, coefficient)
        return first, lambda: _fitted(problem, price, coefficient, first.n_trees)

    return best_of(problem, [tried(coefficient) for coefficient in COEFFICIENTS])


@dataclass
class _CatBoost:
    """A model of CatBoost that stops before the first tree that is too dear."""

    model: Any
    problem: Problem
    tree_costs: Array  # (T,) of everything that the trees so far read

    @property
    def n_trees(self) -> int:
        return len(self.tree_costs)

    @property
    def classes_(self) -> NDArray[np.intp]:
        return np.arange(self.problem.n_classes)

    def predict_proba(self, X: Array, budget: float) -> Array:
        """Probabilities, or values; those of the constant answer where no tree is affordable."""
        n_trees = int(np.searchsorted(self.tree_costs, budget * (1 + 1e-9), side="right"))
        p = self.problem
        if n_trees:
            kind = "Probability" if p.n_classes else "RawFormulaVal"
            return np.asarray(self.model.predict(X, prediction_type=kind, ntree_end=n_trees))
        share = np.bincount(p.y, minlength=p.n_classes) / len(p.y) if p.n_classes else p.y.mean()
        return np.broadcast_to(share, (len(X), *np.shape(share)))

    def predict(self, X: Array, budget: float) -> NDArray[Any]:
        said = self.predict_proba(X, budget)
        return np.asarray(said.argmax(axis=1)) if self.problem.n_classes else said


def _fitted(problem: Problem, price: Array, coefficient: float, n_trees: int | None = None) -> _CatBoost:
    """On training rows, stopped by validation rows; on both with so many trees."""
    from catboost import CatBoost

    many = problem.n_classes >= MANY_CLASSES
    parameters = {
        "loss_function": {0: "RMSE", 2: "Logloss"}.get(problem.n_classes, "MultiClass"),
        "iterations": max(n_trees, 1) if n_trees is not None else MOST_ROUNDS // 2 if many else MOST_ROUNDS,
        "learning_rate": 0.2 if many else 0.1,
        "first_feature_use_penalties": price.tolist(),
        "penalties_coefficient": coefficient,
        "random_seed": 0,
        "thread_count": 1,
        "verbose": 0,
        "allow_writing_files": False,
        **({"classes_count": problem.n_classes} if many else {}),
    }
    model = CatBoost(parameters)
    if n_trees is None:
        held = (problem.X_valid, problem.y_valid)
        model.fit(problem.X, problem.y, eval_set=held, early_stopping_rounds=PATIENCE, use_best_model=True)
    else:
        model.fit(*problem.joined())
    return _CatBoost(model, problem, _tree_costs(model, problem))


def _tree_costs(model: Any, problem: Problem) -> Array:
    """(T,) price of what trees up to each read."""
    costs = problem.costs
    group = costs.bind(problem.X.shape[1]).column_group
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        model.save_model(str(file), format="json")
        trees = json.loads(file.read_text())["oblivious_trees"]
    owned: set[str] = set()
    prices = []
    for tree in trees:
        owned |= {costs.names[group[split["float_feature_index"]]] for split in tree["splits"] or ()}
        prices.append(costs.price(owned))
    return np.array(prices)
