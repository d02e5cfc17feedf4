"""Margins that are enough: which rows leave a network early, for what rows may cost on average."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from anytime.stopping import exits_taken, stop_table

ROWS = np.arange(400)


@pytest.fixture(scope="module")
def network():
    """Confidence that grows from exit to exit, in easy rows at once and in hard rows late."""
    generator = np.random.default_rng(0)
    hardness = generator.uniform(0, 6, 400)
    depth = np.arange(1, 7)[:, None]
    confidence = 1 / (1 + np.exp(hardness - 1.5 * depth + generator.normal(0, 0.7, (6, 400))))
    return 0.1 + 0.9 * confidence, np.array([1.0, 2.0, 4.0, 5.0, 7.0, 10.0])


@pytest.fixture(scope="module")
def table(network):
    confidence, costs = network
    return stop_table(confidence, confidence, costs)


def within(table, costs, mean_cost):
    """The dearest policy within a mean cost."""
    spent = table.leaving @ costs
    return table.margins[np.flatnonzero(spent <= mean_cost)[-1]]


def test_policies_cost_what_they_say_from_all_at_the_first_exit_to_all_at_the_last(network, table):
    confidence, costs = network
    spent = np.array([costs[exits_taken(confidence, margins)].mean() for margins in table.margins])
    np.testing.assert_allclose(spent, table.leaving @ costs)
    assert (np.diff(spent) > 0).all()
    assert (spent[0], spent[-1]) == (1.0, 10.0)
    assert np.diff(spent).max() < 0.2  # there is one for any mean


def test_more_money_buys_more(network, table):
    confidence, costs = network
    taken = [exits_taken(confidence, within(table, costs, mean)) for mean in (1.0, 1.5, 2.5, 4.0, 6.0)]
    assert (np.diff([confidence[exits, ROWS].mean() for exits in taken]) > 0).all()


@pytest.mark.parametrize("mean_cost", [1.5, 2.5, 4.0])
def test_margins_of_their_own_beat_one_for_all_exits(network, table, mean_cost):
    confidence, costs = network
    chosen = within(table, costs, mean_cost)
    spent = costs[exits_taken(confidence, chosen)].mean()

    def worth(margins):
        taken = exits_taken(confidence, margins)
        return confidence[taken, ROWS].mean() if costs[taken].mean() <= spent else 0.0

    own = worth(chosen)
    shared = max(worth(np.full(6, t)) for t in np.linspace(0, 1, 400))
    same_exit = max(confidence[i].mean() for i in range(6) if costs[i] <= spent)
    assert own > shared > same_exit


def test_margins_are_the_best_there_are_of_few_rows():
    """Against all thresholds: none within the same cost makes answers surer."""
    generator = np.random.default_rng(1)
    costs = np.array([1.0, 2.0, 3.0])
    for _ in range(20):
        confidence = np.sort(generator.uniform(0.3, 1.0, (3, 8)), axis=0)
        taken = exits_taken(confidence, within(stop_table(confidence, confidence, costs), costs, 2.0))
        spent = costs[taken].mean()
        choices = [np.append(np.unique(exit), np.inf) for exit in confidence[:2]]
        best = 0.0
        for thresholds in itertools.product(*choices):
            other = exits_taken(confidence, [*thresholds, -np.inf])
            if costs[other].mean() <= spent:
                best = max(best, confidence[other, np.arange(8)].mean())
        # margins are chosen for all rows, also for those that have left before: a little may be lost
        assert confidence[taken, np.arange(8)].mean() >= best - 0.05


def test_rows_that_are_equally_sure_leave_together():
    confidence = np.array([[0.5, 0.5, 0.9, 0.9], [0.6, 0.9, 0.9, 0.9]])
    costs = np.array([1.0, 2.0])
    taken = exits_taken(confidence, within(stop_table(confidence, confidence, costs), costs, 1.75))
    assert taken.tolist() == [1, 1, 0, 0]


def test_an_exit_that_costs_nothing_more_is_no_reason_to_leave_before_it(network):
    confidence, _ = network
    costs = np.array([1.0, 1.0, 4.0, 5.0, 7.0, 10.0])
    surer = np.sort(confidence, axis=0)
    table = stop_table(surer, surer, costs)
    middle = (table.leaving @ costs > 1.5) & (table.leaving @ costs < 5.0)
    assert table.leaving[middle, 0].max() < 0.01
    assert table.leaving[middle, 1].min() > 0.1


@pytest.mark.parametrize(
    ("confidence", "costs", "message"),
    [
        (np.zeros((2, 0)), [1.0, 2.0], "shapes"),
        (np.zeros(3), [1.0], "shapes"),
        (np.zeros((2, 3)), [2.0, 1.0], "not decreasing"),
        (np.zeros((2, 3)), [1.0, 2.0, 3.0], "one number per exit"),
    ],
)
def test_wrong_shapes_and_prices_are_refused(confidence, costs, message):
    with pytest.raises(ValueError, match=message):
        stop_table(confidence, confidence, costs)
