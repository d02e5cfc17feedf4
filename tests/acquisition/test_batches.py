"""Batches of purchases row by row: the clock is looked at inside, memory is bounded, rules of a plan hold under a mean."""

import copy
import pickle
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.acquisition import AcquisitionClassifier, neighbour_block
from anytime.acquisition.estimators import _visited
from anytime.acquisition.neighbour_block import NeighbourBlock
from anytime.rules import MarginRule
from tests.acquisition.test_acquisition_models import COSTS, SMALL, table


@pytest.fixture(scope="module")
def model():
    return AcquisitionClassifier(costs=COSTS, **SMALL).fit(*table())


class Patience:
    """A stop flag, and a clock, that let somebody ask a few times."""

    def __init__(self, asks: int, seconds: float = 1.0) -> None:
        self.asks, self.seconds = asks, seconds

    def is_set(self) -> bool:
        self.asks -= 1
        return self.asks < 0

    @property
    def over(self) -> bool:
        return self.is_set()


@pytest.fixture
def decided(monkeypatch):
    """How many rows each call has decided for."""
    sizes: list[int] = []
    decide = NeighbourBlock._decide

    def counted(self, X, *rest):
        sizes.append(len(X))
        decide(self, X, *rest)

    monkeypatch.setattr(NeighbourBlock, "_decide", counted)
    return sizes


@pytest.mark.parametrize("bounds", [{"budget": 4.0}, {"mean_budget": 4.0}])
def test_a_batch_looks_at_the_stop_flag_between_a_few_decisions(model, decided, bounds):
    X, _ = table(3000, 1)
    answer = model.answer(X, stop=Patience(4), **bounds)
    assert sum(decided) < 20
    assert answer.reason == "stop"
    assert answer.partial.all()
    assert answer.cost.mean() < 0.1


def test_a_mean_budget_whose_time_is_up_at_once_buys_nothing(model, decided):
    answer = model.answer(table(3000, 1)[0], mean_budget=4.0, deadline=0.0)
    assert decided == []
    assert answer.reason == "deadline"
    assert (answer.cost == 0).all()


def test_a_clock_that_is_never_over_changes_no_purchase(model):
    X, _ = table(60, 1)
    for bounds in ({"budget": 4.0}, {"mean_budget": 4.0}):
        plain, hurried = model.answer(X, **bounds), model.answer(X, **bounds, deadline=1e6)
        assert_array_equal(hurried.scores, plain.scores)
        assert_array_equal(hurried.cost, plain.cost)


def test_training_looks_at_the_clock_between_a_few_decisions(model, decided):
    block, X = model.plan_.blocks[0], table()[0]
    _visited(block, X, np.random.RandomState(0), Patience(4))
    assert sum(decided) < 20
    decided.clear()
    _visited(block, X, np.random.RandomState(0), Patience(10**9, np.inf))
    assert decided[0] == len(X)


def test_memory_does_not_grow_with_the_inputs_of_a_batch(model, monkeypatch):
    """Beyond a few bytes for each row: all inputs of these rows would be 60 MB, with what makes them."""
    monkeypatch.setattr(neighbour_block, "_AT_ONCE", 2**16)
    block, X = model.plan_.blocks[0], table(100_000, 1)[0]
    memory = block.remember(len(X))
    tracemalloc.start()
    try:
        block.choose(X, memory)
        block.score(X, memory["owned"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10e6
    few = block.remember(50)
    block.choose(X[:50], few)
    for name in ("next", "gain", "price"):
        assert_array_equal(memory[name][:50], few[name])


@pytest.mark.parametrize("mean", [1.5, 2.5, 4.0, 100.0])
@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("kind", ["passes", "stops"])
def test_a_mean_budget_is_kept_and_used_under_rules(model, kind, below, mean):
    """Rows that a rule has released leave their money to the others."""
    X, _ = table(60, 1)
    ruled = copy.copy(model)
    ruled.plan_ = replace(model.plan_, **{kind: {0: MarginRule(1.0, below), 2: MarginRule(1.0, below)}})
    cost, everything = ruled.cost(X, mean_budget=mean), ruled.cost(X)
    assert cost.mean() <= mean + 1e-9
    left = (mean - cost.mean()) * len(X)
    assert left < COSTS.prices["b"] or (cost == everything).all()


def test_the_first_decision_after_a_fit_or_from_a_file_takes_no_longer_than_others(tmp_path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(2000, 40)), random.integers(3, size=2000)
    model = AcquisitionClassifier(time_budget=0.2, random_state=0).fit(X, y)
    model.save(tmp_path / "m.anytime")
    for other in (model, at.load(tmp_path / "m.anytime"), pickle.loads(pickle.dumps(model))):
        took = []
        for row in X[:20]:
            began = time.process_time()
            other.predict_one(row, budget=1)
            took.append(time.process_time() - began)
        assert took[0] < 5 * sum(took[1:])  # it took a hundred times as long as one
