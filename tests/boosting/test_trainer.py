"""The SpeedBoost family on finite dictionaries, by brute force (speedboost_and_structured 5, P1-P8, P20, P27)."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anytime.losses import Loss, training_loss
from tests.boosting.problems import LOSSES, VARIANTS, order, problem, trained
from tests.reference.speedboost import best_step, refitted, speedboost

# ---------------------------------------------------------------------- against the obvious implementation


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_orders_gains_weights_and_scores_are_those_of_brute_force(variant, name):
    rules = VARIANTS[variant]
    for seed in range(2 if rules.get("reweight") == "last" else 1):
        dictionary, costs, y, loss = problem([1, seed], name, n=30, m=7)
        trainer = trained(dictionary, costs, y, loss, 5, **rules)
        run = speedboost(dictionary, costs, y, loss, 5, **rules)
        assert order(trainer) == run.order
        assert_allclose([step.gain for step in trainer.steps], run.gains, rtol=1e-6, atol=1e-9)
        for step, weights in zip(trainer.steps, run.weights, strict=True):
            assert_allclose(step.weights, weights, rtol=1e-4, atol=1e-5)
        assert_allclose(trainer.scores, run.scores, atol=1e-4)
        assert trainer.spent == pytest.approx(costs[run.order].sum())


@pytest.mark.parametrize("variant", ["SpeedBoost", "FR"])
def test_squared_loss_is_exact(variant):
    """Gains, weights and tables of scores to rounding, for many dictionaries."""
    for seed in range(50):
        dictionary, costs, y, loss = problem([2, seed], "squared", n=30, m=7)
        trainer = trained(dictionary, costs, y, loss, 6, largest=1e6, **VARIANTS[variant])
        scores = np.zeros((30, 1))
        for t, step in enumerate(trainer.steps):
            number = step.candidate.number
            if variant == "FR":
                w, _ = refitted(dictionary[order(trainer)[: t + 1]], y, loss)
                moved = np.tensordot(w, dictionary[order(trainer)[: t + 1]], 1)
            else:
                h = dictionary[number]
                w = np.array([((y[:, None] - scores) * h).sum() / (h**2).sum()])
                moved = scores + w * h
            assert_allclose(step.weights, w, rtol=1e-8, atol=1e-10)
            assert_allclose(step.gain, loss(scores, y) - loss(moved, y), rtol=1e-8, atol=1e-13)
            rates = {number: score for number, score, _ in step.table}
            assert_allclose(rates[number], step.gain / costs[number], rtol=1e-8, atol=1e-13)
            assert rates[number] == max(rates.values()) == step.score
            scores = moved


def test_weights_of_rows_are_copies_of_rows():
    dictionary, costs, y, loss = problem(3, "logistic")
    copies = np.random.default_rng(0).integers(0, 4, len(y))
    some = np.repeat(np.arange(len(y)), copies)
    for variant in ("SpeedBoost", "MP", "FR"):
        weighted = trained(dictionary, costs, y, loss, 4, weight=copies, **VARIANTS[variant])
        repeated = trained(dictionary[:, some], costs, y[some], loss, 4, **VARIANTS[variant])
        assert order(weighted) == order(repeated)
        gains = [[step.gain for step in trainer.steps] for trainer in (weighted, repeated)]
        assert_allclose(*gains, rtol=1e-6)


# ---------------------------------------------------------------------- P1-P8


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_p1_the_objective_never_rises(variant, name):
    rules = VARIANTS[variant]
    changes = [{}, {"largest": 0.05}, {"holdout": 0.3}]
    if rules.get("reweight") != "all":
        changes.append({"learning_rate": 0.3})
    for seed, more in enumerate(changes):
        dictionary, costs, y, loss = problem([4, seed], name, m=6)
        trainer = trained(dictionary, costs, y, loss, 4, **rules | more)
        values, scores = [loss(np.zeros_like(trainer.scores), y)], np.zeros_like(trainer.scores)
        for t, step in enumerate(trainer.steps):
            if trainer.reweighting is None:
                scores = scores + step.weights[0] * dictionary[step.candidate.number]
                values.append(loss(scores, y))
            else:
                scores = np.tensordot(step.weights, dictionary[order(trainer)[: t + 1]], 1)
                values.append(
                    loss(scores, y)
                    + 0.5 * trainer.rules.weight_regularization * float(step.weights @ step.weights)
                )
            assert step.gain == pytest.approx(values[-2] - values[-1], abs=1e-12)
        assert trainer.steps
        assert all(after <= before + 1e-12 for before, after in pairwise(values))
        assert_allclose(trainer.scores, scores, atol=1e-12)
        assert trainer.value == pytest.approx(values[-1])


@pytest.mark.parametrize("selection", ["gain", "inner"])
@pytest.mark.parametrize("name", LOSSES)
def test_p2_no_further_step_along_the_newest_helps(name, selection):
    dictionary, costs, y, loss = problem(5, name)
    trainer = trained(dictionary, costs, y, loss, 6, selection=selection)
    scores = np.zeros_like(trainer.scores)
    for step in trainer.steps:
        h = dictionary[step.candidate.number]
        scores = scores + step.weights[0] * h
        slope = (loss.gradient(scores, y) * h).sum(axis=1).mean()
        assert abs(slope) <= 2e-8 * (1 + loss(scores, y))


@pytest.mark.parametrize("name", LOSSES)
def test_p3_no_candidate_has_a_better_ratio_at_any_step(name):
    dictionary, costs, y, loss = problem(6, name)
    trainer = trained(dictionary, costs, y, loss, 5)
    scores = np.zeros_like(trainer.scores)
    for step in trainer.steps:
        here = loss(scores, y)
        for h, cost in zip(dictionary, costs, strict=True):
            ratios = [(here - loss(scores + a * h, y)) / cost for a in np.linspace(-3, 3, 121)]
            assert max(ratios) <= step.score + 1e-9
        scores = scores + step.weights[0] * dictionary[step.candidate.number]


@pytest.mark.parametrize("name", ["squared", "logistic", "multinomial", "huber"])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if "cost" not in v])
def test_p4_sufficient_decrease_for_smooth_losses(variant, name):
    rules = VARIANTS[variant]
    for seed in range(3):
        dictionary, costs, y, loss = problem([7, seed], name, m=6)
        trainer = trained(dictionary, costs, y, loss, 5, **{"largest": 1e3} | rules)
        scores = np.zeros_like(trainer.scores)
        for t, step in enumerate(trainer.steps):
            h = dictionary[step.candidate.number]
            inner = -(loss.gradient(scores, y) * h).sum(axis=1).mean()
            bend = loss.smoothness * (h**2).sum(axis=1).mean() + rules.get("weight_regularization", 0.0)
            assert step.gain >= inner**2 / (2 * bend) * (1 - 1e-7) - 1e-12
            if trainer.reweighting is None:
                scores = scores + step.weights[0] * h
            else:
                scores = np.tensordot(step.weights, dictionary[order(trainer)[: t + 1]], 1)


@pytest.mark.parametrize("name", ["squared", "strongly convex"])
@pytest.mark.parametrize("selection", ["gain", "inner"])
def test_p5_linear_rate_under_the_edge(name, selection):
    """``R[f_T] - R* <= (1 - γ² m / M)^T (R[f_0] - R*)``, γ the smallest edge of the run, R* over all functions on the rows."""
    for seed in range(10):
        dictionary, costs, y, loss = problem([8, seed], "squared" if name == "squared" else "huber")
        if name == "strongly convex":
            loss = Loss(
                "log-cosh and a square",
                lambda s, y: np.log(np.cosh(s[:, 0] - y)) + 0.25 * (s[:, 0] - y) ** 2,
                gradient=lambda s, y: np.tanh(s - y[:, None]) + 0.5 * (s - y[:, None]),
                convexity=0.5,
                smoothness=1.5,
            )
        trainer = trained(dictionary, costs, y, loss, 10, selection=selection, largest=1e3)
        left = loss(np.zeros_like(trainer.scores), y)  # the least value is 0
        edge = min(abs(step.edge) for step in trainer.steps)
        assert 0 < edge < 1
        for t, step in enumerate(trainer.steps):
            left -= step.gain
            first = loss(np.zeros_like(trainer.scores), y)
            bound = (1 - edge**2 * loss.convexity / loss.smoothness) ** (t + 1) * first
            assert left <= bound * (1 + 1e-9)


def test_p6_squared_loss_gains_in_closed_form_and_mp_is_proj():
    for seed in range(30):
        dictionary, costs, y, loss = problem([9, seed], "squared")
        proj = trained(dictionary, costs, y, loss, 8, largest=1e6)
        mp = trained(dictionary, costs, y, loss, 8, largest=1e6, selection="inner")
        assert order(proj) == order(mp)
        residual = y[:, None].copy()
        for step in proj.steps:
            h = dictionary[step.candidate.number]
            assert_allclose(
                step.gain, (residual * h).mean() ** 2 / (2 * (h**2).mean()), rtol=1e-9, atol=1e-14
            )
            residual -= step.weights[0] * h


def test_p7_votes_under_exponential_loss_step_as_adaboost_does():
    """``1/2 ln((1 - e) / e)`` with gain ``Z (1 - 2 sqrt(e (1 - e)))``, here against a numeric search."""
    random = np.random.default_rng(10)
    loss = training_loss("exponential")
    for _ in range(20):
        y, h = random.integers(0, 2, 50), random.choice([-1.0, 1.0], (6, 50, 1))
        trainer = trained(h, np.ones(6), y, loss, 4)
        scores = np.zeros((50, 1))
        for step in trainer.steps:
            vote = h[step.candidate.number]
            weight = np.exp(-(2 * y - 1) * scores[:, 0])
            error = np.average(vote[:, 0] != 2 * y - 1, weights=weight)
            alpha, gain = best_step(loss, scores, vote, y)
            assert_allclose([step.weights[0], 0.5 * np.log((1 - error) / error)], alpha, atol=2e-8)
            closed = weight.mean() * (1 - 2 * np.sqrt(error * (1 - error)))
            assert_allclose([step.gain, closed], gain, atol=1e-8)
            scores = scores + step.weights[0] * vote


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("variant", ["FR", "OMP", "FR with a ridge", "OMP with a ridge"])
def test_p8_after_a_refit_all_weights_are_best(variant, name):
    """``<∇R[f_i], h_j> + λ α_ij = 0`` for all j up to i."""
    rules = VARIANTS[variant]
    for seed in range(3):
        dictionary, costs, y, loss = problem([11, seed], name, n=60, m=6)
        trainer = trained(dictionary, costs, y, loss, 6, largest=1e3, **rules)
        assert len(trainer.steps) == 6
        for t, step in enumerate(trainer.steps):
            chosen = dictionary[order(trainer)[: t + 1]]
            pull = loss.gradient(np.tensordot(step.weights, chosen, 1), y) / len(y)
            slope = np.tensordot(chosen, pull, 2) + rules.get("weight_regularization", 0.0) * step.weights
            assert np.abs(slope).max() < 1e-8


def test_p20_orthonormal_elements_give_diminishing_returns():
    random = np.random.default_rng(12)
    for variant in ("SpeedBoost", "FR", "OMP"):
        for _ in range(10):
            basis = np.linalg.qr(random.normal(size=(30, 10)))[0].T * np.sqrt(30)
            trainer = trained(
                basis[:, :, None],
                random.gamma(2, 2, 10),
                random.normal(size=30),
                training_loss("squared"),
                10,
                largest=1e6,
                **VARIANTS[variant],
            )
            rates = [step.gain / step.cost for step in trainer.steps]
            assert len(rates) == 10
            assert all(later <= sooner * (1 + 1e-9) for sooner, later in pairwise(rates))
