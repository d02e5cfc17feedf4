"""Rounds in native code are the rounds of NumPy."""

from itertools import pairwise

import numpy as np
import pytest

from anytime.streaming.banks import HoeffdingTree, OnlineLinear, OnlineRidge, SmallNet
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.drift import Drift
from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared
from anytime.streaming.projections import Ball, Box

LEARNERS = [OnlineRidge(), OnlineLinear(), SmallNet(hidden=3), HoeffdingTree(max_depth=2, grace=20)]
SETTINGS = [
    (Squared(), 1, {"step": 0.4, "gate": "skip", "warm_up": 5}),
    (Squared(), 2, {"step": 0.4, "start": [0.3, -0.2], "averaging": "post"}),
    (Logistic(), 1, {"gate": "shrink"}),
    (Softmax(), 3, {"averaging": "all"}),
    (Hinge(0.1), 1, {"algorithm": "residual", "projection": Box(-3.0, 3.0)}),
    (
        Absolute(0.1),
        2,
        {"algorithm": "residual", "projection": Ball(1.5), "averaging": "theory", "gate": "skip"},
    ),
    (Absolute(0.5), 1, {"algorithm": "residual", "max_step": 0.5, "averaging": "last"}),
]


def _rows(loss, m, n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = np.stack([np.tanh(X[:, k]) - 0.5 * X[:, k - 1] for k in range(m)], axis=1)
    score += 0.1 * rng.normal(size=score.shape)
    if loss.classifies:
        return X, score.argmax(axis=1) if m > 1 else (score[:, 0] > 0).astype(int)
    return X, score if m > 1 else score[:, 0]


def _pair(learner, loss, m, settings, n_estimators=5):
    native, plain = (BoostedBank(learner.make(n_estimators, 4, m, 3), loss, **settings) for _ in range(2))
    plain.on_round = lambda *_: None  # Python has to be called, so that NumPy does the rounds
    assert native._native_bank is not None
    assert plain._native_bank is None
    return native, plain


def _assert_same(native, plain, X):
    np.testing.assert_allclose(native.bank.predict(X), plain.bank.predict(X), atol=1e-9)
    np.testing.assert_allclose(native.predict_rounds(X), plain.predict_rounds(X), atol=1e-9)
    for kind in ("running", "discounted", "windowed"):
        np.testing.assert_allclose(native.monitor.read(kind), plain.monitor.read(kind), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(native.monitor.rows, plain.monitor.rows)
    np.testing.assert_allclose(native.prefix_losses.means(), plain.prefix_losses.means(), rtol=1e-9)
    assert native.n_rows == plain.n_rows


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
@pytest.mark.parametrize(("loss", "m", "settings"), SETTINGS, ids=lambda part: getattr(part, "name", ""))
def test_native_rounds_are_those_of_numpy(learner, loss, m, settings):
    native, plain = _pair(learner, loss, m, settings)
    X, y = _rows(loss, m, 1000 if isinstance(learner, HoeffdingTree) else 300)
    np.testing.assert_allclose(native.learn(X, y), plain.learn(X, y), atol=1e-9)
    _assert_same(native, plain, X)
    assert (native.bank.predict(X)[0].std(axis=0) > 0).all()  # something was learned


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
@pytest.mark.parametrize("batch", [3, 32])
def test_so_are_rounds_of_several_weighted_rows(learner, batch):
    native, plain = _pair(learner, Logistic(), 1, {"gate": "skip"})
    X, y = _rows(Logistic(), 1, 310)
    weight = np.random.default_rng(1).random(310)
    answers = [model.learn(X, y, weight, batch_size=batch) for model in (native, plain)]
    np.testing.assert_allclose(*answers, atol=1e-9)
    _assert_same(native, plain, X)


@pytest.mark.parametrize(
    ("learner", "action"),
    [(SmallNet(hidden=3, learning_rate=0.02), "fade"), (HoeffdingTree(max_depth=2, grace=20), "restart")],
    ids=["fade", "restart"],
)
@pytest.mark.parametrize("detector", ["adwin", "windows"])
def test_changes_are_met_alike(detector, learner, action):
    drift = Drift(detector=detector, action=action, size=50, delta=0.05)
    native, plain = _pair(learner, Squared(), 1, {"drift": drift, "step": 0.5})
    X, y = _rows(Squared(), 1, 1400)
    y[800:] *= -3
    np.testing.assert_allclose(native.learn(X, y), plain.learn(X, y), atol=1e-9)
    assert native.n_alarms == plain.n_alarms > 0
    _assert_same(native, plain, X)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_native_rounds_do_not_depend_on_chunks(learner):
    """Single rows, bit for bit, edges and losses of prefixes included."""
    drift = Drift(delta=0.1)
    whole, parts = (
        BoostedBank(learner.make(4, 4, 1, 0), Squared(), gate="skip", drift=drift) for _ in range(2)
    )
    X, y = _rows(Squared(), 1, 400)
    together = whole.learn(X, y)
    cuts = [0, 1, 2, 40, 41, 73, 200, 399, 400]
    apart = np.concatenate([parts.learn(X[a:b], y[a:b]) for a, b in pairwise(cuts)])
    np.testing.assert_array_equal(together, apart)
    np.testing.assert_array_equal(whole.monitor.recent, parts.monitor.recent)
    np.testing.assert_array_equal(whole.monitor.read("windowed"), parts.monitor.read("windowed"))
    np.testing.assert_array_equal(whole.prefix_losses.means(), parts.prefix_losses.means())


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_native_prefixes_are_the_short_runs(learner):
    """growth_and_streaming A-P8 of native rounds; and appending leaves those before as they are."""
    long, short, grown = (BoostedBank(learner.make(n, 4, 1, 7), Squared(), gate="skip") for n in (6, 2, 2))
    X, y = _rows(Squared(), 1, 400)
    for at in range(0, 400, 50):
        for model in (long, short, grown):
            model.learn(X[at : at + 50], y[at : at + 50])
        if at == 100:
            grown.append(4)
    np.testing.assert_array_equal(long.predict_rounds(X)[:3], short.predict_rounds(X))
    np.testing.assert_array_equal(grown.predict_rounds(X)[:3], short.predict_rounds(X))
    assert grown.n_estimators == 6
