"""Rounds of streaming boosting (growth_and_streaming A.4, A.5, A.11)."""

import json

import numpy as np
import pytest

from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.drift import Drift
from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared
from anytime.streaming.partial_sums import averaged, descend
from anytime.streaming.projections import Ball, Box
from tests.reference.plain_banks import PlainRidge

KINDS = {
    "smooth": {"loss": Squared(), "algorithm": "smooth", "step": 0.4},
    "logistic": {"loss": Logistic(), "algorithm": "smooth", "gate": "skip", "warm_up": 3},
    "shrunk": {"loss": Softmax(), "algorithm": "smooth", "gate": "shrink"},
    "residual": {"loss": Hinge(0.1), "algorithm": "residual", "projection": Box(-3.0, 3.0)},
    "ball": {"loss": Absolute(0.1), "algorithm": "residual", "projection": Ball(2.0), "averaging": "theory"},
    "free": {"loss": Absolute(0.5), "algorithm": "residual", "max_step": 0.5, "averaging": "all"},
    "drifting": {"loss": Squared(), "drift": Drift(detector="windows", size=20, grace=10, delta=0.3)},
}


def _rows(loss, n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = np.tanh(X[:, 0]) - 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    if isinstance(loss, Softmax):
        return X, np.digitize(score, [-0.7, 0.0])
    return X, (score > 0).astype(int) if loss.classifies else score


def _boosting(n_estimators, kind, seed=0, **changes):
    settings = {**KINDS[kind], **changes}
    loss = settings.pop("loss")
    m = 3 if isinstance(loss, Softmax) else 1
    return BoostedBank(PlainRidge().make(n_estimators, 3, m, seed), loss, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_prefixes_of_a_long_run_are_the_short_runs_a_p8_a_p18(kind):
    """A-P8, A-P18: learners, partial sums and edges 1..k of N are those of a run with k, bit for bit."""
    long, short = _boosting(7, kind), _boosting(3, kind)
    if kind == "drifting":  # the alarm is raised by the loss of all learners, which are others
        long.drift = short.drift = long._watch = short._watch = None
    X, y = _rows(long.loss)
    long.learn(X, y)
    short.learn(X, y)
    np.testing.assert_array_equal(long.bank.weights[:3], short.bank.weights)
    np.testing.assert_array_equal(long.monitor.sums[:, :3], short.monitor.sums)
    np.testing.assert_array_equal(long.predict_rounds(X)[:4], short.predict_rounds(X))
    np.testing.assert_array_equal(long.answers(X)[:4], short.answers(X))


@pytest.mark.parametrize("kind", KINDS)
def test_single_rows_do_not_depend_on_chunks(kind):
    whole, parts = _boosting(4, kind), _boosting(4, kind)
    X, y = _rows(whole.loss)
    together = whole.learn(X, y)
    apart = np.concatenate([parts.learn(X[a : a + 7], y[a : a + 7]) for a in range(0, len(X), 7)])
    np.testing.assert_array_equal(together, apart)
    np.testing.assert_array_equal(whole.predict_rounds(X), parts.predict_rounds(X))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_given_before_learning(kind):
    model = _boosting(4, kind)
    X, y = _rows(model.loss, n=30)
    for at in range(len(X)):
        before = model.predict(X[at : at + 1])
        np.testing.assert_array_equal(model.round(X[at : at + 1], y[at : at + 1]), before)


@pytest.mark.parametrize("kind", KINDS)
def test_appending_changes_nothing_before_it(kind):
    """C.1: learners can be appended during the stream without changing earlier ones."""
    grown, fixed = _boosting(3, kind, drift=None), _boosting(3, kind, drift=None)
    X, y = _rows(grown.loss)
    for model in (grown, fixed):
        model.learn(X[:20], y[:20])
    grown.append(2)
    for model in (grown, fixed):
        model.learn(X[20:], y[20:])
    np.testing.assert_array_equal(grown.bank.weights[:3], fixed.bank.weights)
    np.testing.assert_array_equal(grown.answers(X)[:4], fixed.answers(X))


@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_on_bit_for_bit(kind):
    model = _boosting(4, kind, start=0.1)
    X, y = _rows(model.loss)
    model.learn(X[:33], y[:33])
    description, arrays = model.state()
    bank = type(model.bank).from_state(model.bank.learner, *model.bank.state())
    copy = BoostedBank.from_state(bank, json.loads(json.dumps(description)), arrays)
    np.testing.assert_array_equal(model.learn(X[33:], y[33:]), copy.learn(X[33:], y[33:]))
    np.testing.assert_array_equal(model.predict_rounds(X), copy.predict_rounds(X))
    assert (copy.n_rows, copy.n_alarms) == (model.n_rows, model.n_alarms)
    assert copy.prefix_losses.best() == model.prefix_losses.best()


def test_targets_of_algorithm_7_carry_what_was_left():
    rng = np.random.default_rng(0)
    H, z = rng.normal(size=(6, 4, 2)), rng.normal(size=(4, 2))
    went = descend(H, z, Absolute(0.1), np.full(6, 0.1), np.zeros((4, 2)), algorithm="residual")
    left = np.zeros((4, 2))
    for g, q, h in zip(went.gradients, went.targets, H, strict=True):
        np.testing.assert_allclose(q, left + g)
        left = q - h


def test_partial_sums_stay_in_their_set_and_the_start_must():
    model = _boosting(5, "ball")
    X, y = _rows(model.loss)
    model.learn(X, 10 * y)
    assert Ball(2.0).contains(model.predict_rounds(X)).all()
    assert not Ball(2.0).contains(_boosting(5, "free", max_step=None, averaging="last").start + 3.0)
    with pytest.raises(ValueError, match="lies outside"):
        _boosting(5, "ball", start=3.0)


def test_averaging_rules():
    """A.5: which partial sums are averaged."""
    sums = np.random.default_rng(0).normal(size=(5, 2, 1))
    for k in range(1, 5):
        np.testing.assert_allclose(averaged(sums, "theory")[k], sums[:k].mean(axis=0))
        np.testing.assert_allclose(averaged(sums, "post")[k], sums[1 : k + 1].mean(axis=0))
        np.testing.assert_allclose(averaged(sums, "all")[k], sums[: k + 1].mean(axis=0))
        np.testing.assert_allclose(averaged(sums, "last")[k], sums[k])
    for rule in ("theory", "post", "all", "last"):
        np.testing.assert_array_equal(averaged(sums, rule)[0], sums[0])
    sums[0] = 0.0  # then the printed formula, N + 1 terms over N, is "post"
    np.testing.assert_allclose(averaged(sums, "post")[-1], sums.sum(axis=0) / 4)


def test_no_rows_change_nothing():
    model = _boosting(3, "smooth")
    assert model.learn(np.empty((0, 3)), np.empty(0)).shape == (0, 1)
    assert model.n_rows == 0


def test_steps():
    """A.4, A.5: half of 1 / beta; 1 / (lambda i), lambda with the penalty, and capped on request."""
    np.testing.assert_allclose(_boosting(3, "smooth", step=None).steps, [0.5] * 3)
    np.testing.assert_allclose(_boosting(3, "logistic").steps, [0.5 / (0.25 + 2e-3)] * 3)
    np.testing.assert_allclose(_boosting(3, "residual").steps, 1 / (0.2 * np.array([1, 2, 3])))
    np.testing.assert_allclose(_boosting(3, "free").steps, [0.5, 0.5, 1 / 3])
    np.testing.assert_allclose(_boosting(3, "smooth", step=lambda i: 1 / i**2).steps, [1, 1 / 4, 1 / 9])
    assert BoostedBank(PlainRidge().make(1, 3, 1), Hinge(1e-3), algorithm="residual").steps[
        0
    ] == pytest.approx(500)
    with pytest.raises(ValueError, match="give rho above 0, or step"):
        BoostedBank(PlainRidge().make(1, 3, 1), Hinge(0.0), algorithm="residual")


def test_a_step_that_is_a_function_cannot_be_saved():
    with pytest.raises(TypeError, match="cannot be saved"):
        _boosting(3, "smooth", step=lambda i: 1 / i).state()


def test_weights_of_rows():
    weighted, plain = _boosting(3, "smooth"), _boosting(3, "smooth")
    X, y = _rows(Squared(), n=20)
    weight = np.tile([1.0, 0.0], 10)
    weighted.learn(X, y, weight)
    plain.learn(X[::2], y[::2])
    np.testing.assert_allclose(weighted.bank.weights, plain.bank.weights, atol=1e-12)
    np.testing.assert_allclose(weighted.monitor.sums, plain.monitor.sums)


def test_gating_and_best_prefix_mend_whole_steps_on_short_streams():
    """A.4 finding 2: at eta = 1/beta early noise is amplified (N = 20, T = 500); gates and best prefixes repair it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 8))
    y = np.tanh(X @ rng.normal(size=8)) + 0.5 * rng.normal(size=500)
    loss = Squared()

    def run(**settings):
        model = BoostedBank(PlainRidge(0.01).make(20, 8, 1), loss, step=1.0, **settings)
        return model, loss.value(model.learn(X, y), y).mean()

    plain, paid = run()
    _, gated = run(gate="skip")
    _, shrunk = run(gate="shrink")
    _, warm = run(warm_up=10)
    assert gated < paid
    assert shrunk < paid
    assert warm < paid
    assert plain.monitor.edge()[5:].min() < 0  # late learners do harm
    assert plain.prefix_losses.best() < 20
    means = plain.prefix_losses.means()
    assert means[plain.prefix_losses.best()] == means.min() < means[20]


def test_refuses_what_does_not_exist():
    with pytest.raises(ValueError, match="'smooth' or 'residual'"):
        _boosting(3, "smooth", algorithm="seven")
    with pytest.raises(ValueError, match="'last', 'theory', 'post' or 'all'"):
        _boosting(3, "smooth", averaging="first")
