"""Banks of on-line learners, written in the obvious way: what the tests of boosting run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from anytime.blocks import Block, LinearBlock
from anytime.streaming.banks.bank import Bank, StreamLearner


@dataclass(frozen=True)
class PlainRidge(StreamLearner):
    """Recursive least squares with an intercept."""

    penalty: float = 1.0
    kind = "plain ridge"

    def bank_type(self) -> Any:
        return RidgeBank


class RidgeBank(Bank):
    def __init__(self, learner: PlainRidge, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        d = self.n_features + 1
        self.inverse = np.stack([np.eye(d) / learner.penalty] * self.n_estimators)
        self.weights = np.zeros((self.n_estimators, d, self.n_outputs))

    def predict(self, X):
        return np.einsum("bj,njm->nbm", _with_one(X), self.weights)

    def update(self, X, targets, weight=None):
        for t, z in enumerate(_with_one(X)):
            w = 1.0 if weight is None else weight[t]
            Pz = np.einsum("nij,j->ni", self.inverse, z)
            gain = w * Pz / (1.0 + w * np.einsum("nj,j->n", Pz, z)[:, None])
            missed = targets[:, t] - np.einsum("njm,j->nm", self.weights, z)
            self.weights += gain[:, :, None] * missed[:, None, :]
            self.inverse -= gain[:, :, None] * Pz[:, None, :]

    def append(self, n):
        fresh = self.learner.make(n, self.n_features, self.n_outputs, self.random_state)
        self.inverse = np.concatenate([self.inverse, fresh.inverse])
        self.weights = np.concatenate([self.weights, fresh.weights])
        self.n_estimators += n

    def restart(self, learners):
        fresh = self.learner.make(1, self.n_features, self.n_outputs, self.random_state)
        self.inverse[learners], self.weights[learners] = fresh.inverse[0], 0.0

    def block(self) -> Block:
        columns = np.arange(self.n_features)
        return LinearBlock(columns, list(self.weights[:, 1:].copy()), intercepts=self.weights[:, 0].copy())

    def state(self) -> Any:
        sizes = [self.n_estimators, self.n_features, self.n_outputs, self.random_state]
        return {"penalty": self.learner.penalty, "sizes": sizes}, {
            "inverse": self.inverse,
            "weights": self.weights,
        }

    @classmethod
    def from_state(cls, learner, description, arrays):
        bank = cls(learner, *description["sizes"])
        bank.inverse, bank.weights = arrays["inverse"].copy(), arrays["weights"].copy()
        return bank


@dataclass(frozen=True)
class PlainTree(StreamLearner):
    """Trees refitted to all rows so far whenever these have grown by a fifth: follow the leader, regularised by depth."""

    depth: int = 2
    kind = "plain tree"

    def bank_type(self) -> Any:
        return TreeBank


class TreeBank(Bank):
    def __init__(self, learner: PlainTree, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        self.rows, self.targets = [], []
        self.trees: list[DecisionTreeRegressor] = []
        self.refit_at = 2.0

    def predict(self, X):
        if not self.trees:
            return np.zeros((self.n_estimators, len(X), self.n_outputs))
        return np.stack([tree.predict(X).reshape(len(X), -1) for tree in self.trees])

    def update(self, X, targets, weight=None):
        self.rows.append(X.copy())
        self.targets.append(targets.copy())
        n = sum(map(len, self.rows))
        if n < self.refit_at:
            return
        self.refit_at = 1.2 * n
        X, Q = np.concatenate(self.rows), np.concatenate(self.targets, axis=1)
        self.trees = [
            DecisionTreeRegressor(max_depth=self.learner.depth, random_state=i).fit(X, q)
            for i, q in enumerate(Q)
        ]

    def append(self, n):
        raise NotImplementedError

    def restart(self, learners):
        raise NotImplementedError

    def block(self):
        raise NotImplementedError

    def state(self):
        raise NotImplementedError

    @classmethod
    def from_state(cls, learner, description, arrays):
        raise NotImplementedError


def _with_one(X):
    return np.column_stack([np.ones(len(X)), X])
