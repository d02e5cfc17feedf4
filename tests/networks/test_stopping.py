"""Thresholds on confidence: which rows leave a network early, for what rows may cost on average."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from anytime.networks.stopping import exits_taken, stopping_thresholds


@pytest.fixture(scope="module")
def network():
    """Confidence that grows from exit to exit, in easy rows at once and in hard rows late."""
    generator = np.random.default_rng(0)
    hardness = generator.uniform(0, 6, 400)
    depth = np.arange(1, 7)[:, None]
    confidence = 1 / (1 + np.exp(hardness - 1.5 * depth + generator.normal(0, 0.7, (6, 400))))
    return 0.1 + 0.9 * confidence, np.array([1.0, 2.0, 4.0, 5.0, 7.0, 10.0])


@pytest.mark.parametrize("mean_cost", [1.0, 1.5, 2.5, 4.0, 6.0, 10.0])
def test_rows_cost_no_more_on_average(network, mean_cost):
    confidence, costs = network
    taken = exits_taken(confidence, stopping_thresholds(confidence, costs, mean_cost))
    assert costs[taken].mean() <= mean_cost


def test_more_money_buys_more(network):
    confidence, costs = network
    worth = []
    for mean_cost in (1.0, 1.5, 2.5, 4.0, 6.0):
        taken = exits_taken(confidence, stopping_thresholds(confidence, costs, mean_cost))
        worth.append(confidence[taken, np.arange(400)].mean())
    assert (np.diff(worth) > 0).all()


@pytest.mark.parametrize("mean_cost", [1.5, 2.5, 4.0])
def test_thresholds_of_their_own_beat_one_for_all_exits(network, mean_cost):
    confidence, costs = network
    rows = np.arange(400)

    def worth(thresholds):
        taken = exits_taken(confidence, thresholds)
        return confidence[taken, rows].mean() if costs[taken].mean() <= mean_cost else 0.0

    own = worth(stopping_thresholds(confidence, costs, mean_cost))
    shared = max(worth(np.full(6, t)) for t in np.linspace(0, 1, 400))
    same_exit = max(confidence[i].mean() for i in range(6) if costs[i] <= mean_cost)
    assert own > shared > same_exit


def test_thresholds_are_the_best_there_are_of_few_rows():
    """Against all thresholds: none within the same cost makes answers surer."""
    generator = np.random.default_rng(1)
    costs = np.array([1.0, 2.0, 3.0])
    for _ in range(20):
        confidence = np.sort(generator.uniform(0.3, 1.0, (3, 8)), axis=0)
        taken = exits_taken(confidence, stopping_thresholds(confidence, costs, 2.0))
        spent = costs[taken].mean()
        choices = [np.append(np.unique(exit), np.inf) for exit in confidence[:2]]
        best = 0.0
        for thresholds in itertools.product(*choices):
            other = exits_taken(confidence, [*thresholds, -np.inf])
            if costs[other].mean() <= spent:
                best = max(best, confidence[other, np.arange(8)].mean())
        # thresholds are chosen for all rows, also for those that have left before: a little may be lost
        assert confidence[taken, np.arange(8)].mean() >= best - 0.03


def test_rows_that_are_equally_sure_leave_together():
    confidence = np.array([[0.5, 0.5, 0.9, 0.9], [0.6, 0.9, 0.9, 0.9]])
    taken = exits_taken(confidence, stopping_thresholds(confidence, [1.0, 2.0], 1.75))
    assert taken.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("confidence", "costs", "message"),
    [
        (np.zeros((2, 0)), [1.0, 2.0], "shapes"),
        (np.zeros(3), [1.0], "shapes"),
        (np.zeros((2, 3)), [2.0, 1.0], "must increase"),
    ],
)
def test_wrong_shapes_and_prices_are_refused(confidence, costs, message):
    with pytest.raises(ValueError, match=message):
        stopping_thresholds(confidence, costs, 1.0)
