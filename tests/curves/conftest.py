"""A small model with the public face that curves use, and nothing else of the library."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest


class FakeModel:
    """Answers that are given: one row of predictions per stage, stage 0 first, with the costs of the stages."""

    def __init__(
        self, answers, costs, *, classes=None, probabilities=None, paid=None, order=(), prices=None, unit=None
    ):
        self.answers = [np.asarray(a) for a in answers]
        self.stage_costs_ = np.asarray(costs, dtype=float)[1:]
        self._costs = np.asarray(costs, dtype=float)
        self.probabilities, self.paid = probabilities, paid
        self.order_ = list(order)
        self.costs_ = SimpleNamespace(unit=unit, prices=dict(prices or {}))
        self.stages_run = 0
        if classes is not None:
            self.classes_ = np.asarray(classes)

    def stages(self, X):
        for s, cost in enumerate(self._costs):
            self.stages_run += 1
            yield self._answer(s, cost, len(X))

    def _answer(self, s, cost, n):
        proba = None if self.probabilities is None else self.probabilities[s]
        scores = self.answers[s][:, None] if proba is None else np.log(proba + 1e-9)
        paid = np.full(n, cost) if self.paid is None else self.paid[s]
        return SimpleNamespace(
            stage=s,
            prediction=self.answers[s],
            scores=scores,
            probabilities=proba,
            cost=paid,
            model_cost=float(cost),
            elapsed=0.0,
        )

    def _within(self, budget):
        return int(np.searchsorted(self._costs, np.inf if budget is None else budget, side="right")) - 1

    def predict(self, X, budget=None):
        return self.answers[self._within(budget)]

    def predict_proba(self, X, budget=None):
        return self.probabilities[self._within(budget)]


@pytest.fixture
def fake():
    return FakeModel


@pytest.fixture
def classifier():
    """Make (model, X, y): a binary classifier that is right more and more often."""

    def make(n=60, n_stages=6, seed=0, **kwargs):
        rng = np.random.default_rng(seed)
        y = np.arange(n) % 2
        noise = rng.random(n)
        shares = np.linspace(0.5, 0.95, n_stages)
        proba = []
        for share in shares:
            p = np.clip(np.where(noise < share, y, 1 - y) * 0.6 + 0.2 + 0.1 * rng.random(n), 0, 1)
            proba.append(np.column_stack([1 - p, p]))
        proba[0] = np.full((n, 2), 0.5)
        labels = np.array(["no", "yes"])
        answers = [labels[(p[:, 1] > 0.5).astype(int)] for p in proba]
        costs = np.concatenate([[0.0], np.cumsum(rng.integers(1, 5, n_stages - 1))])
        model = FakeModel(answers, costs, classes=labels, probabilities=proba, **kwargs)
        return model, np.zeros((n, 3)), labels[y]

    return make


@pytest.fixture
def regressor():
    """Make (model, X, y): a regressor whose predictions approach y."""

    def make(n=50, n_stages=5, seed=0, **kwargs):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=n)
        answers = [y * s / (n_stages - 1) + 0.1 * (s > 0) * rng.normal(size=n) for s in range(n_stages)]
        return FakeModel(answers, np.arange(n_stages) * 1.5, **kwargs), np.zeros((n, 2)), y

    return make
