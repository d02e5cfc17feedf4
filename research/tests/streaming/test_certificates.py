"""What holds of every run (growth_and_streaming A-P4, A-P6, A-P7, A-P12)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared
from anytime.streaming.partial_sums import RoundTrace, descend
from anytime.streaming.projections import Ball, Box
from anytime_research.streaming.certificates import (
    Record,
    descent_certificate,
    edge_certificate,
    residual_certificate,
)
from anytime_research.streaming.descent import descend_one_by_one
from anytime_research.streaming.regret import best_constant
from tests.reference.plain_banks import PlainRidge


def _any_run(seed, loss, m, *, algorithm="smooth", steps, n_rounds=12, noise=1.0, projection=None):
    """Learners that do anything: a share of their target and noise, afresh in every round."""
    rng = np.random.default_rng(seed)
    record, paid = Record(loss), 0.0
    n = len(steps)
    competitor = rng.uniform(-0.5, 0.5, size=m)
    for _ in range(n_rounds):
        y = rng.integers(0, max(m, 2), size=3) if loss.classifies else rng.uniform(-1, 1, size=(3, m))
        outputs = noise * rng.normal(size=(n, 3, m)) * rng.random((n, 1, 1))
        went = descend(outputs, y, loss, steps, np.zeros((3, m)), algorithm=algorithm, projection=projection)
        record.add(went, y)
        paid += loss.value(np.tile(competitor, (3, 1)), y).sum()
    return record, paid


@given(
    seed=st.integers(0, 10**6),
    eta=st.floats(0.01, 3.0),
    case=st.sampled_from([(Squared(), 2), (Logistic(), 1), (Softmax(), 3)]),
)
def test_descent_certificate_a_p4(seed, eta, case):
    """A-P4: for every i and any run, whatever the learners do."""
    loss, m = case
    steps = np.full(6, eta)
    record, paid = _any_run(seed, loss, m, steps=steps)
    certificate = descent_certificate(record, steps, loss.smoothness(), paid)
    assert certificate.applies.all()
    assert certificate.holds()


def test_descent_certificate_needs_the_smoothness():
    """Negative control: with half of it the statement is false, and for squared loss with all of it it is an identity."""
    steps = np.full(6, 0.5)
    record, _ = _any_run(0, Squared(), 2, steps=steps)
    exact = descent_certificate(record, steps, 1.0)
    np.testing.assert_allclose(exact.left, exact.right)
    assert not descent_certificate(record, steps, 0.5).holds()


def _boosted(loss, m, step, gate=None, n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.tanh(X[:, 0]) - 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    y = (
        score
        if not loss.classifies
        else np.digitize(score, [-0.5, 0.5])
        if m == 3
        else (score > 0).astype(int)
    )
    record = Record(loss)
    model = BoostedBank(PlainRidge().make(8, 3, m), loss, step=step, gate=gate, on_round=record.add)
    model.learn(X, y)
    constant = best_constant(loss, y, m, 5.0)
    return model, record, loss.value(np.tile(constant, (n, 1)), y).sum()


@pytest.mark.parametrize("gate", [None, "skip", "shrink"])
@pytest.mark.parametrize("eta", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("loss", "m"), [(Squared(), 1), (Logistic(0.05), 1), (Softmax(0.05), 3)], ids=str)
def test_measured_edges_bound_regret_a_p6_a_p7(loss, m, eta, gate):
    """A-P6 and A-P7 with the edges that learners turned out to have, gates included."""
    model, record, paid = _boosted(loss, m, eta / loss.smoothness(), gate)
    lam, beta = loss.strong_convexity(), loss.smoothness()
    sharp = edge_certificate(record, model.steps, lam, beta, paid)
    loose = edge_certificate(record, model.steps, lam, beta, paid, sharp=False)
    assert sharp.holds()
    assert loose.holds()
    assert sharp.applies[0]  # the first learner has an edge
    assert descent_certificate(record, model.steps, beta, paid).holds()


def test_loose_certificate_applies_to_short_steps_only():
    _, record, paid = _boosted(Squared(), 1, 0.02)
    short, long = (
        edge_certificate(record, np.full(8, eta), 1.0, 1.0, paid, sharp=False) for eta in (0.02, 1.0)
    )
    assert short.applies.any()
    assert not long.applies.any()


def test_edge_certificate_needs_the_strong_convexity():
    """Negative control: with a larger lambda than the loss has, the claimed rate is not reached."""
    model, record, _ = _boosted(Squared(), 1, 1.0)
    assert edge_certificate(record, model.steps, 1.0, 1.0, competitor_paid=0.0).holds()
    assert not edge_certificate(record, model.steps, 1.1, 1.0, competitor_paid=0.0).holds()


@given(
    seed=st.integers(0, 10**6),
    case=st.sampled_from([(Hinge(0.3), 1), (Absolute(0.3), 2), (Squared(), 2)]),
    projection=st.sampled_from([None, Ball(1.0), Box(-0.6, 0.9)]),
    noise=st.floats(0.0, 3.0),
)
def test_residual_certificate_a_p12(seed, case, projection, noise):
    """A-P12, equation 5.55: every run and every competitor in the set, with and without a projection."""
    loss, m = case
    steps = 1 / (loss.strong_convexity() * np.arange(1, 9))
    record, paid = _any_run(
        seed, loss, m, algorithm="residual", steps=steps, noise=noise, projection=projection
    )
    certificate = residual_certificate(record, steps, paid)
    assert certificate.applies.all()
    assert certificate.holds()


def test_residual_certificate_is_not_of_capped_steps():
    """Negative control: shorter steps than 1 / (lambda i) void it, as perfect learners show, and it says so."""
    loss, y, best = Hinge(0.01), np.array([1]), np.array([[1.0]])
    for cap, valid in ((np.inf, True), (0.01, False)):
        steps = np.minimum(1 / (0.02 * np.arange(1, 9)), cap)
        record = Record(loss)
        start = np.zeros((1, 1))
        record.add(descend_one_by_one(lambda i, q: q, 8, y, loss, steps, start, algorithm="residual"), y)
        certificate = residual_certificate(record, steps, float(loss.value(best, y)[0]))
        assert certificate.applies.all() == valid
        assert (certificate.left <= certificate.right).all() == valid


@pytest.mark.parametrize("projection", [None, Ball(3.0), Box(-3.0, 3.0)], ids=str)
@pytest.mark.parametrize("loss", [Hinge(0.1), Logistic(0.1)], ids=str)
def test_residual_certificate_of_a_boosted_stream_a_p12(loss, projection):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=200) > 0).astype(int)
    record = Record(loss)
    model = BoostedBank(
        PlainRidge().make(10, 3, 1), loss, algorithm="residual", projection=projection, on_round=record.add
    )
    model.learn(X, y)
    competitor = np.clip(X[:, :1], -3, 3)
    lam = 1 / model.steps[0]  # of the logistic loss it depends on the set
    certificate = residual_certificate(record, model.steps, loss.value(competitor, y).sum(), lam)
    assert certificate.applies.all()
    assert certificate.holds()
    assert certificate.left[0] > 0


def test_residual_certificate_is_of_algorithm_7():
    """Negative control: learners fitted to gradients alone, that miss one coordinate, break it as the run goes on."""
    loss, n = Absolute(0.05), 400
    steps = 1 / (0.1 * np.arange(1, n + 1))
    start, y = np.array([[0.0, 0.0]]), np.array([[0.0, 1.0]])

    def run(algorithm):
        sums, left, went = [start], np.zeros((1, 2)), []
        for i in range(n):
            g = loss.gradient(sums[-1], y)
            q = g + left if algorithm == "residual" else g
            h = q * [[1.0, 0.0]] if algorithm == "smooth" else q
            left = q - h
            went.append((g, q, h))
            sums.append(sums[-1] - steps[i] * h)
        g, q, h = (np.stack(parts) for parts in zip(*went, strict=True))
        record = Record(loss)
        record.add(RoundTrace(np.stack(sums), g, q, h), y)
        return residual_certificate(record, steps, float(loss.value(y, y).sum()))

    assert run("residual").holds()
    assert not run("smooth").holds()


def test_records_are_of_one_number_of_learners():
    record, _ = _any_run(0, Squared(), 2, steps=np.full(6, 0.5))
    went = descend(np.zeros((5, 1, 2)), np.zeros((1, 2)), Squared(), np.full(5, 0.5), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="a record of 6 learners, but the round had 5"):
        record.add(went, np.zeros((1, 2)))
