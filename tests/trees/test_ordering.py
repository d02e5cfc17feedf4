"""Stages of an imported model, ordered by what they save per unit of cost."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.engine import combined
from anytime.losses import LOSSES
from anytime.trees import held_out
from anytime.trees.ordering import order_stages
from tests.reference import stage_order

SQUARED, LOGISTIC, SOFTMAX, SHARES = (LOSSES[k] for k in ("identity", "logistic", "softmax", "probability"))


def instance(seed, S, n, K, G, combine="sum"):
    """Stages that help a little, a lot, or not at all; prices between 0 and 20."""
    r = np.random.default_rng(seed)
    y = r.integers(0, 2, n) if K == 1 else r.integers(0, K, n)
    truth = np.where(y[:, None] == np.arange(K), 1.0, -1.0) if K > 1 else (2.0 * y - 1)[:, None]
    outputs = r.normal(0, 0.3, (S, 1, 1)) * truth + r.normal(0, 0.4, (S, n, K))
    if combine == "mean":
        outputs = np.exp(outputs) / np.exp(outputs).sum(axis=2, keepdims=True)
    return {
        "outputs": outputs,
        "base": np.full(K, 1.0 / K if combine == "mean" else 0.0),
        "combine": combine,
        "y": y,
        "needs": r.random((S, G)) < r.uniform(0.2, 0.7),
        "prices": r.integers(0, 20, G),
        "evaluation": r.integers(0, 3, S) if r.random() < 0.5 else np.zeros(S, dtype=int),
    }


def loss_curve(problem, loss, order):
    """Cumulative cost and loss after each stage of an order."""
    bought = np.zeros(len(problem["prices"]), dtype=bool)
    cost, points, done = 0, [], []
    for s in order:
        done.append(int(s))
        cost += problem["prices"][problem["needs"][s] & ~bought].sum() + problem["evaluation"][s]
        bought |= problem["needs"][s]
        points.append(
            (
                int(cost),
                loss(
                    stage_order.score(problem["outputs"], problem["base"], problem["combine"], done),
                    problem["y"],
                ),
            )
        )
    return points


def loss_at(points, budget, start):
    """Loss of the last prefix within a budget."""
    return ([start] + [loss for cost, loss in points if cost <= budget])[-1]


# ------------------------------------------------------------------------------------------------ the rule


@pytest.mark.parametrize(
    ("combine", "K", "loss"), [("sum", 1, LOGISTIC), ("sum", 3, SOFTMAX), ("mean", 3, SHARES)]
)
@given(seed=st.integers(0, 10**6), S=st.integers(1, 10), G=st.integers(1, 5))
def test_order_is_the_one_the_rule_gives_when_followed_word_for_word(combine, K, loss, seed, S, G):
    problem = instance(seed, S, 25, K, G, combine)
    order, log = order_stages(**problem, loss=loss)
    expected, purchases = stage_order.order(**problem, loss=loss)
    assert order.tolist() == expected
    assert [purchase.groups for purchase in log.purchases] == purchases


@given(seed=st.integers(0, 10**6), S=st.integers(1, 60), G=st.integers(1, 8), K=st.sampled_from([1, 3]))
def test_every_stage_appears_once_and_every_group_is_bought_once(seed, S, G, K):
    problem = instance(seed, S, 30, K, G)
    order, log = order_stages(**problem, loss=LOGISTIC if K == 1 else SOFTMAX)
    assert sorted(order.tolist()) == list(range(S))
    bought = [group for purchase in log.purchases for group in purchase.groups]
    assert len(bought) == len(set(bought))
    paid = problem["prices"] > 0
    assert set(bought) == set(np.flatnonzero(problem["needs"].any(axis=0) & paid).tolist())
    assert [stage for purchase in log.purchases for stage in purchase.stages] == order.tolist()
    assert (
        sum(purchase.cost for purchase in log.purchases)
        == loss_curve(problem, LOGISTIC if K == 1 else SOFTMAX, order)[-1][0]
    )


def dear_group_for_many():
    """Group 0 costs 100 and serves a hundred small stages; groups 1 to 5 cost 10 and serve one larger stage each.

    Squared loss of y = 1. All small stages together bring the score from 0 to 1 - 0.25; each larger one brings 0.03.
    """
    n = 4
    small, large = np.full((100, n, 1), 0.0075), np.full((5, n, 1), 0.03)
    needs = np.zeros((105, 6), dtype=bool)
    needs[:100, 0] = True
    needs[np.arange(100, 105), np.arange(1, 6)] = True
    return {
        "outputs": np.concatenate([small, large]),
        "base": np.zeros(1),
        "combine": "sum",
        "y": np.ones(n),
        "needs": needs,
        "prices": np.array([100, 10, 10, 10, 10, 10]),
        "evaluation": np.zeros(105, dtype=int),
    }


def tree_by_tree(problem, loss):
    """The trap: each stage is rated alone, the first user of a group carries its whole price."""
    done, bought = [], np.zeros(len(problem["prices"]), dtype=bool)
    left = list(range(len(problem["outputs"])))
    while left:
        now = loss(
            stage_order.score(problem["outputs"], problem["base"], problem["combine"], done), problem["y"]
        )
        rates = []
        for s in left:
            then = loss(
                stage_order.score(problem["outputs"], problem["base"], problem["combine"], [*done, s]),
                problem["y"],
            )
            cost = problem["prices"][problem["needs"][s] & ~bought].sum() + problem["evaluation"][s]
            rates.append((now - then) / max(cost, 1e-9))
        s = left.pop(int(np.argmax(rates)))
        bought |= problem["needs"][s]
        done.append(s)
    return done


def test_a_dear_group_that_serves_many_trees_is_bought_first():
    problem = dear_group_for_many()
    order, log = order_stages(**problem, loss=SQUARED)
    assert log.purchases[0].groups == (0,)
    assert sorted(order[:100].tolist()) == list(range(100))
    assert log.purchases[0].gain == pytest.approx(0.5 - 0.5 * 0.25**2)


def test_rating_trees_one_by_one_buys_it_last_and_is_worse_at_its_price():
    problem = dear_group_for_many()
    trap = tree_by_tree(problem, SQUARED)
    assert trap[:5] == [100, 101, 102, 103, 104]
    by_tree = loss_at(loss_curve(problem, SQUARED, trap), 100, 0.5)
    by_purchase = loss_at(loss_curve(problem, SQUARED, order_stages(**problem, loss=SQUARED)[0]), 100, 0.5)
    assert by_tree > 0.25 > 0.05 > by_purchase


def simple(gains, needs, prices, evaluation=None):
    """Squared loss on one row whose target is far away: a stage's gain grows with its output."""
    S = len(gains)
    return {
        "outputs": np.array(gains, dtype=float).reshape(S, 1, 1),
        "base": np.zeros(1),
        "combine": "sum",
        "y": np.array([100.0]),
        "needs": np.array(needs, dtype=bool).reshape(S, -1),
        "prices": np.array(prices),
        "evaluation": np.zeros(S, dtype=int) if evaluation is None else np.array(evaluation),
        "loss": SQUARED,
    }


def test_what_needs_nothing_comes_first_by_gain():
    order, log = order_stages(**simple([9.0, 1.0, 3.0, 2.0], [[1], [0], [0], [0]], [5]))
    assert order.tolist() == [2, 3, 1, 0]
    assert log.purchases[0].groups == ()


def test_a_group_without_a_price_counts_as_nothing():
    order, _ = order_stages(**simple([9.0, 1.0, 3.0], [[1, 0], [0, 0], [0, 1]], [5, 0]))
    assert order.tolist() == [2, 1, 0]


def test_shared_groups_are_not_paid_twice():
    """After {0} the set {0, 1} costs 1 more, and then beats {2}."""
    problem = simple([5.0, 5.0, 4.9], [[1, 0, 0], [1, 1, 0], [0, 0, 1]], [10, 1, 6])
    problem["prices"] = np.array([10, 8, 12])
    order, log = order_stages(**problem)
    assert order.tolist() == [0, 1, 2]
    assert [purchase.price for purchase in log.purchases] in ([10, 8, 12], [18, 12])


def test_stages_without_gain_end_their_bundle_in_trained_order():
    order, log = order_stages(**simple([-1.0, 4.0, -3.0, 5.0, 1.0], [[1, 0]] * 4 + [[0, 1]], [1, 50]))
    assert order.tolist() == [3, 1, 0, 2, 4]
    assert log.purchases[0].n_without_gain == 2


def test_the_cheapest_purchase_is_next_when_none_has_a_gain():
    order, log = order_stages(**simple([-1.0, -2.0, -3.0], np.eye(3), [7, 3, 5]))
    assert order.tolist() == [1, 2, 0]
    assert all(purchase.gain < 0 for purchase in log.purchases)


def test_ties_go_to_the_lower_cost_then_to_the_earlier_stage():
    flat = {**simple([1.0] * 4, np.eye(4), [4, 2, 2, 4]), "y": np.array([1e9])}
    flat["loss"] = lambda scores, y, w=None: -float(np.mean(scores))  # every stage saves exactly 1
    assert order_stages(**flat)[0].tolist() == [1, 2, 0, 3]
    flat["outputs"] = np.array([2.0, 1.0, 1.0, 2.0]).reshape(4, 1, 1)  # the same rate at twice the cost
    assert order_stages(**flat)[0].tolist() == [1, 2, 0, 3]


def test_evaluation_costs_decide_inside_a_bundle():
    order, _ = order_stages(**simple([6.0, 4.0, 5.0], [[0]] * 3, [1], evaluation=[10, 1, 2]))
    assert order.tolist() == [1, 2, 0]


def test_the_first_tree_of_a_mean_is_the_least_bad_one_although_the_base_was_better():
    """One deep tree is sure and wrong at some rows; the loss of the prior is lower, and yet a tree must begin."""
    y = np.array([0, 0, 1])
    sure = np.eye(2)[[0, 0, 0]]  # wrong in one row
    worse = np.eye(2)[[1, 0, 0]]
    problem = {
        "outputs": np.stack([worse, sure, np.eye(2)[[1, 0, 1]]]),
        "base": np.array([0.5, 0.5]),
        "combine": "mean",
        "y": y,
        "needs": np.zeros((3, 1), dtype=bool),
        "prices": np.array([1]),
        "evaluation": np.zeros(3, dtype=int),
    }
    order, log = order_stages(**problem, loss=SHARES)
    assert log.base_loss < SHARES(sure, y)
    assert order.tolist()[0] == 1
    assert order.tolist() == [1, 2, 0]


# ------------------------------------------------------------------------------------------------ behaviour


def test_lazy_order_saves_nearly_as_much_as_the_exhaustive_one(monkeypatch):
    problem = instance(3, 120, 150, 1, 6)
    problem["needs"] = problem["needs"] & (np.arange(6) < 4)
    lazy, _ = order_stages(**problem, loss=LOGISTIC)
    monkeypatch.setattr("anytime.trees.ordering._EXHAUSTIVE", 10**6)
    monkeypatch.setattr("anytime.trees.ordering._FEW_PURCHASES", 10**6)
    exhaustive, _ = order_stages(**problem, loss=LOGISTIC)
    area = [
        np.mean([loss for _, loss in loss_curve(problem, LOGISTIC, order)]) for order in (lazy, exhaustive)
    ]
    trained = np.mean([loss for _, loss in loss_curve(problem, LOGISTIC, range(120))])
    assert area[0] <= area[1] + 0.02 * (trained - area[1])


def test_weights_decide_whose_loss_counts():
    outputs = np.array([[[1.0], [-1.0]], [[-1.0], [1.0]]])
    problem = {
        "outputs": outputs,
        "base": np.zeros(1),
        "combine": "sum",
        "loss": SQUARED,
        "y": np.array([5.0, 5.0]),
        "needs": np.eye(2, dtype=bool),
        "prices": np.array([1, 1]),
        "evaluation": np.zeros(2, dtype=int),
    }
    assert order_stages(**problem, sample_weight=np.array([1.0, 0.1]))[0].tolist() == [0, 1]
    assert order_stages(**problem, sample_weight=np.array([0.1, 1.0]))[0].tolist() == [1, 0]


def test_the_same_question_has_the_same_answer_also_when_rows_are_sampled():
    problem = instance(5, 40, 30_000, 1, 5)
    first, log = order_stages(**problem, loss=LOGISTIC)
    assert log.n_rows == 20_000
    assert np.array_equal(first, order_stages(**problem, loss=LOGISTIC)[0])


def test_a_loss_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="loss before any stage is nan"):
        order_stages(**{**simple([1.0, 2.0], np.eye(2), [1, 1]), "y": np.array([np.nan])})


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize(("K", "loss", "seconds", "G"), [(1, LOGISTIC, 3, 30), (10, SOFTMAX, 10, 500)])
def test_five_hundred_stages_are_ordered_in_seconds(K, loss, seconds, G):
    problem = instance(0, 500, 2000, K, G)
    problem["needs"] = np.random.default_rng(0).random((500, G)) < 5 / G
    start = time.process_time()
    order_stages(**problem, loss=loss)
    assert time.process_time() - start < 2 * seconds  # both cores


@pytest.mark.parametrize("combine", ["sum", "mean"])
def test_stages_are_combined_as_the_engine_does(monkeypatch, combine):
    """Orders are judged by the engine's own arithmetic: the base alone, then the sum or the mean of the stages."""
    means = []
    monkeypatch.setattr(held_out, "combined", lambda *given: means.append(given[-1]) or combined(*given))
    outputs = np.arange(12.0).reshape(3, 4, 1)
    said = {
        "loss": lambda scores, y, weight: float(scores.sum()),
        "y": np.zeros(4),
        "sample_weight": None,
        "needs": np.zeros((3, 1), dtype=bool),
        "prices": np.zeros(1, dtype=np.int64),
        "evaluation": np.zeros(3, dtype=np.int64),
    }
    progress = held_out.Progress(
        held_out.HeldOut(outputs=outputs, base=np.array([0.5]), combine=combine, **said)
    )
    assert progress.loss == 4 * 0.5
    progress.add(np.array([0, 2]))
    added = outputs[[0, 2]].sum()
    assert progress.loss == (added / 2 if combine == "mean" else added + 4 * 0.5)
    assert means == [combine == "mean"] * 2
