"""Which step the trainer takes and when it ends: ties, costs, sizes of steps, doubling, held-out gains, going on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.losses import huber, training_loss
from tests.boosting.problems import VARIANTS, Dictionary, order, problem, trained
from tests.reference.greedy import greedy
from tests.reference.speedboost import best_step, refitted, set_values

# ---------------------------------------------------------------------- ties, costs, ends


def test_of_equals_the_cheaper_wins_then_the_earlier():
    y = np.array([1.0, -1.0, 1.0, -1.0])
    h = np.array([1.0, -1.0, 0.0, 0.0])
    other = np.array([0.0, 0.0, 1.0, -1.0])
    both = h + other  # twice the gain
    loss = training_loss("squared")
    for variant in ("SpeedBoost", "FR", "MP", "OMP"):
        cheaper = trained([both, h, other], [2.0, 1.0, 1.0], y, loss, 1, **VARIANTS[variant])
        assert order(cheaper) == [1], variant
        earlier = trained([both, h, h, other], [4.0, 1.0, 1.0, 1.0], y, loss, 2, **VARIANTS[variant])
        assert order(earlier) == [1, 3], variant


def test_cost_blind_twins_choose_as_if_all_costs_were_equal_and_charge_the_true_ones():
    for variant in ("SpeedBoost", "MP", "FR", "OMP"):
        dictionary, costs, y, loss = problem(13, "logistic", noise=1.0)
        blind = trained(dictionary, costs, y, loss, 5, cost_aware=False, **VARIANTS[variant])
        equal = trained(dictionary, np.ones_like(costs), y, loss, 5, **VARIANTS[variant])
        aware = trained(dictionary, costs, y, loss, 5, **VARIANTS[variant])
        assert order(blind) == order(equal)
        assert order(blind) != order(aware)
        assert blind.spent == pytest.approx(costs[order(blind)].sum())


def test_an_end_is_told_when_nothing_gains():
    dictionary, costs, y, loss = problem(14, "squared", n=20, m=4)
    trainer = trained(dictionary, costs, y, loss, 10, reweight="all")
    assert len(trainer.steps) == 4
    assert trainer.stopped == "no gain"
    assert trainer.step() is None
    perfect = trained([y], [1.0], y, loss, 10, largest=1e6)
    assert len(perfect.steps) == 1
    assert perfect.stopped == "no gain"
    nothing = trained([np.zeros(20)], [1.0], y, loss, 10)
    assert not nothing.steps
    assert nothing.stopped == "no gain"


def test_an_element_that_others_make_up_gains_nothing_with_refitted_weights():
    dictionary, costs, y, _ = problem(15, "squared", n=200)
    dictionary[3] = dictionary[0] - 2 * dictionary[1]
    for name in ("squared", "logistic"):
        target = y if name == "squared" else (y > 0).astype(int)
        trainer = trained(dictionary, costs, target, training_loss(name), 8, reweight="all", tol=1e-9)
        assert len({0, 1, 3} & set(order(trainer))) == 2
        assert len(trainer.steps) == 7


# ---------------------------------------------------------------------- step sizes


def test_a_learning_rate_shortens_steps_after_the_choice():
    dictionary, costs, y, loss = problem(16, "logistic")
    whole = trained(dictionary, costs, y, loss, 1)
    part = trained(dictionary, costs, y, loss, 1, learning_rate=0.1)
    assert order(whole) == order(part)
    assert part.steps[0].weights[0] == pytest.approx(0.1 * whole.steps[0].weights[0])
    assert part.steps[0].score == whole.steps[0].score
    assert part.steps[0].gain < whole.steps[0].gain


def test_no_step_is_longer_than_the_largest_and_gains_are_those_of_the_clipped_step():
    random = np.random.default_rng(17)
    y = random.integers(0, 2, 30)
    perfect, noisy = 2.0 * y - 1, np.where(random.random(30) < 0.1, 1 - 2.0 * y, 2.0 * y - 1)
    for name in ("exponential", "logistic"):
        loss = training_loss(name)
        trainer = trained([noisy, perfect], [1.0, 1.0], y, loss, 1, largest=3.0)
        assert order(trainer) == [1]
        assert trainer.steps[0].weights[0] == 3.0
        zero = np.zeros((30, 1))
        assert trainer.steps[0].gain == pytest.approx(loss(zero, y) - loss(3 * perfect[:, None], y))


def test_classes_told_apart_perfectly_do_not_break_a_refit():
    for name in ("logistic", "exponential", "multinomial", "multiclass_exponential"):
        dictionary, costs, y, loss = problem(18, name, m=5)
        truth = np.eye(3)[y] if dictionary.shape[2] == 3 else (2.0 * y - 1)[:, None]
        dictionary[2] = truth
        trainer = trained(dictionary, costs, y, loss, 3, reweight="all")
        assert 2 in order(trainer)
        assert np.isfinite(trainer.scores).all()
        assert np.abs(trainer.steps[-1].weights).max() <= 10.0
        assert trainer.value < 1e-3


# ---------------------------------------------------------------------- doubling


def test_doubling_never_takes_what_costs_more_than_everything_so_far():
    capable = stuck = 0
    for seed in range(60):
        dictionary, costs, y, loss = problem([19, seed], "squared", n=20, m=7)
        table = set_values(dictionary, y, loss, 0.0)
        c_min = np.median(costs)
        expected, stuck_at = greedy(table, costs, c_min=c_min)
        trainer = trained(dictionary, costs, y, loss, 7, reweight="all", schedule="doubling", c_min=c_min)
        if stuck_at is None:
            capable += 1
            assert order(trainer) == expected
            assert trainer.stopped == ""
        else:
            stuck += 1
            assert order(trainer) == expected[: stuck_at - 1]
            assert trainer.stopped == "stuck"
        spent = np.concatenate([[c_min], np.cumsum(costs[order(trainer)])])
        assert all(cost <= before for cost, before in zip(costs[order(trainer)], spent, strict=False))
    assert min(capable, stuck) > 5


def test_doubling_may_start_with_more_and_sees_when_only_dear_things_would_gain():
    y = np.array([1.0, -1.0, 2.0, -2.0])
    useless, useful = np.array([1.0, 1.0, 1.0, 1.0]), y
    loss = training_loss("squared")
    stuck = trained([useless, useful], [1.0, 2.0], y, loss, 5, schedule="doubling")
    assert (stuck.stopped, order(stuck)) == ("stuck", [])
    started = trained([useless, useful], [1.0, 2.0], y, loss, 5, schedule="doubling", c_min=2.0)
    assert (started.stopped, order(started)) == ("no gain", [1])
    assert trained([useful], [2.0], y, loss, 5, schedule="doubling", c_min=1.0).stopped == "stuck"


# ---------------------------------------------------------------------- held-out gain


def test_held_out_gain_is_measured_where_the_step_was_not_fitted_and_the_winner_is_fitted_to_all_rows():
    dictionary, costs, y, loss = problem(20, "logistic", n=60, noise=0.5)
    trainer = Trainer(
        MeanLoss(loss, y),
        Dictionary(dictionary, costs),
        BoostingRules(holdout=0.1),
        random=np.random.RandomState(5),
    )
    scores = np.zeros((60, 1))
    draws = set()
    for _ in range(4):
        fit, judge = trainer.objective.split(0.1, trainer._random(len(trainer.steps), trainer._idle))
        assert judge.size == 6
        assert sorted([*fit, *judge]) == list(range(60))
        draws.add(tuple(judge))
        step = trainer.step()
        assert step is not None
        rates = []
        for h, cost in zip(dictionary, costs, strict=True):
            alpha, _ = best_step(loss, scores[fit], h[fit], y[fit])
            gain = loss(scores[judge], y[judge]) - loss(scores[judge] + alpha * h[judge], y[judge])
            rates.append(gain / cost)
        assert step.candidate.number == np.argmax(rates)
        assert step.score == pytest.approx(max(rates), abs=1e-7)
        h = dictionary[step.candidate.number]
        alpha, gain = best_step(loss, scores, h, y)
        assert step.weights[0] == pytest.approx(alpha, abs=1e-6)
        assert step.gain == pytest.approx(gain, abs=1e-9)
        scores = scores + step.weights[0] * h
    assert len(draws) == 4


@pytest.mark.parametrize("variant", ["FR", "FR with a ridge", "OMP"])
def test_held_out_gain_with_refitted_weights(variant):
    rules = VARIANTS[variant]
    weight_regularization = rules.get("weight_regularization", 0.0)
    for name in ("squared", "logistic"):
        dictionary, costs, y, loss = problem(21, name, n=60, noise=0.5)
        trainer = trained(dictionary, costs, y, loss, 0, holdout=0.25, **rules)
        chosen, weights = [], np.zeros(0)
        for _ in range(3):
            fit, judge = trainer.objective.split(0.25, trainer._random(len(trainer.steps), trainer._idle))
            before = trainer.scores
            step = trainer.step()
            rates = {}
            for j, cost in enumerate(costs):
                if j in chosen:
                    continue
                h = dictionary[j]
                if variant == "OMP":
                    pull = -loss.gradient(before, y)
                    inner, other = ((pull * h)[rows].mean() for rows in (judge, fit))
                    rates[j] = (inner**2 / (h[judge] ** 2).mean() if inner * other > 0 else 0.0) / cost
                    continue
                w, _ = refitted(dictionary[[*chosen, j]][:, fit], y[fit], loss, weight_regularization)
                after = loss(np.tensordot(w, dictionary[[*chosen, j]][:, judge], 1), y[judge])
                gain = (
                    loss(before[judge], y[judge])
                    - after
                    + 0.5 * weight_regularization * (weights @ weights - w @ w)
                )
                rates[j] = gain / cost
            assert step.candidate.number == max(rates, key=rates.get)
            assert step.score == pytest.approx(max(rates.values()), abs=1e-6)
            chosen.append(step.candidate.number)
            weights = step.weights
            assert_allclose(
                weights, refitted(dictionary[chosen], y, loss, weight_regularization)[0], atol=1e-5
            )


def test_training_ends_when_held_out_rows_gain_nothing_in_a_row_of_draws():
    random = np.random.default_rng(22)
    y = random.normal(size=60)
    memory = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)[None] * random.normal(size=(3, 60))
    objective, dictionary = MeanLoss(training_loss("squared"), y), Dictionary(memory, np.ones(3))
    trainer = Trainer(objective, dictionary, BoostingRules(holdout=0.5, n_iter_no_change=3))
    trainer.run(200)
    assert trainer.stopped == "no gain"
    assert trainer._idle == 3


def test_rows_of_a_query_stay_together():
    random = np.random.default_rng(23)
    query = random.integers(0, 20, 100) * 7 + 3
    y = np.column_stack([random.integers(0, 3, 100), query])
    objective = MeanLoss(training_loss("pairwise_logistic"), y)
    for seed in range(10):
        fit, judge = objective.split(0.2, np.random.RandomState(seed))
        assert not set(query[fit]) & set(query[judge])
        assert len(set(query[judge])) == round(0.2 * len(set(query)))
    h = random.normal(size=(5, 100)) + 0.5 * y[:, 0]
    trainer = Trainer(objective, Dictionary(h, np.ones(5)), BoostingRules(holdout=0.2))
    assert len(trainer.run(3)) == 3
    assert trainer.value < objective.value(np.zeros((100, 1)))


def test_steps_keep_nothing_as_long_as_the_rows():
    dictionary, costs, y, loss = problem(25, "logistic")
    trainer = trained(dictionary, costs, y, loss, 3)
    assert all(step.candidate.outputs.size == 0 for step in trainer.steps)


# ---------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"selection": "best"}, "selection must be one of"),
        ({"reweight": "none"}, "reweight must be one of"),
        ({"schedule": "fast"}, "schedule must be one of"),
        ({"holdout": 0.0}, "between 0 and 1"),
        ({"holdout": 1.0}, "between 0 and 1"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": 0.5, "reweight": "all"}, "1 if all weights are refitted"),
        ({"weight_regularization": -1.0}, "must not be negative"),
        ({"n_iter_no_change": 0}, "must be positive"),
    ],
)
def test_rules_that_contradict_themselves_are_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        BoostingRules(**rules)


def test_weights_that_are_none_are_refused():
    for weight in ([0.0, 0.0], [1.0, -1.0], [1.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must be 2 finite numbers"):
            MeanLoss(huber(), np.zeros(2), weight)
