"""Regret against competitors (growth_and_streaming A.1, A-P10, A-P11, E-A1)."""

import numpy as np
import pytest
from scipy.optimize import minimize

from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared, loss_named
from anytime_research.streaming.regret import StreamRegret, best_constant, deep_tree, risk
from tests.reference.plain_banks import PlainTree


def _stream(seed, n=600):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 4))
    return X, np.tanh(X @ rng.normal(size=(4, 5))) @ rng.normal(size=5) + 0.1 * rng.normal(size=n)


def _regret_run(depth, name, seed, n_estimators=8):
    X, y = _stream(seed)
    loss = loss_named(name)
    y = (y > 0).astype(int) if loss.classifies else y
    tracker = StreamRegret(loss, deep_tree(X, y, loss))
    model = BoostedBank(
        PlainTree(depth).make(n_estimators, 4, 1), loss, step=0.2 if name == "squared" else 0.5
    )
    model.on_round = lambda went, truth, _: tracker.add(went.sums, X[model.n_rows : model.n_rows + 20], truth)
    model.learn(X, y, batch_size=20)
    return tracker


@pytest.fixture(scope="module", params=["squared", "logistic"])
def regrets(request):
    """Mean over seeds, for trees of depth 1, 2 and 4: (3, N + 1) at the end, and (3,) of all learners after a fifth of it."""
    runs = [[_regret_run(depth, request.param, seed) for seed in range(3)] for depth in (1, 2, 4)]
    end = np.array([np.mean([run.average() for run in of_depth], axis=0) for of_depth in runs])
    early = np.array(
        [np.mean([next(r[-1] for n, r in run.history if n >= 120) for run in of_depth]) for of_depth in runs]
    )
    return end, early


def test_log_regret_falls_linearly_at_first_a_p10(regrets):
    """A-P10, figure 5.1b: slope below 0, R^2 of the linear fit over the first half of learners at least 0.9."""
    end, _ = regrets
    for average in end:
        n, logs = np.arange(5), np.log(average[:5])
        assert np.polyfit(n, logs, 1)[0] < 0
        assert np.corrcoef(n, logs)[0, 1] ** 2 >= 0.9


def test_deeper_trees_have_less_regret_and_lose_it_faster_a_p11(regrets):
    """A-P11, figure 5.1: monotone in the mean over seeds."""
    end, early = regrets
    assert (np.diff(end[:, -1]) < 0).all()
    assert (np.diff(end[:, -1] / early) < 0).all()


def test_regret_is_the_difference_of_what_was_paid():
    rng = np.random.default_rng(0)
    loss, answers, y = Squared(), rng.normal(size=(3, 20, 1)), rng.normal(size=20)
    X = rng.normal(size=(20, 2))
    tracker = StreamRegret(loss, lambda rows: rows[:, :1], growth=2.0)
    for at in range(0, 20, 4):
        tracker.add(answers[:, at : at + 4], X[at : at + 4], y[at : at + 4])
    expected = [(loss.value(a, y) - loss.value(X[:, :1], y)).sum() for a in answers]
    np.testing.assert_allclose(tracker.regret(), expected)
    np.testing.assert_allclose(tracker.average(), np.array(expected) / 20)
    assert [n for n, _ in tracker.history] == [4, 8, 16]
    np.testing.assert_allclose(risk(loss, answers, y), [loss.value(a, y).mean() for a in answers])


CONSTANTS = [
    (Squared(), 2),
    (Squared(0.1), 1),
    (Logistic(0.01), 1),
    (Logistic(0.5), 1),
    (Hinge(0.1), 1),
    (Hinge(0.6), 1),
    (Absolute(0.0), 1),
    (Absolute(0.3), 2),
    (Softmax(0.02), 3),
]


@pytest.mark.parametrize(("loss", "m"), CONSTANTS, ids=str)
@pytest.mark.parametrize("n", [1, 4, 31])
def test_best_constants_are_the_best(loss, m, n):
    """E-A1: leaves of the competitor, the regularised-logistic one by Newton's method."""
    rng = np.random.default_rng(n)
    y = rng.integers(0, max(m, 2), size=n) if loss.classifies else rng.normal(size=(n, m)) + 0.5

    def paid(score):
        return float(loss.value(np.tile(score, (n, 1)), y).mean())

    best = paid(best_constant(loss, y, m, 5.0))
    found = min(
        minimize(
            paid, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
        ).fun
        for start in (np.zeros(m), best_constant(loss, y, m, 5.0))
    )
    assert best <= found + 1e-7


def test_scores_of_pure_leaves_keep_to_the_radius():
    assert best_constant(Logistic(0.0), np.ones(5), 1, 3.0) == pytest.approx([3.0])
    assert best_constant(Logistic(0.0), np.zeros(5), 1, 3.0) == pytest.approx([-3.0])
    assert np.abs(best_constant(Softmax(0.0), np.zeros(5, dtype=int), 3, 3.0)).max() <= 3.0


def test_deep_tree_in_hindsight_is_hard_to_beat():
    X, score = _stream(0)
    for loss, y in (
        (Squared(), score),
        (Logistic(), (score > 0).astype(int)),
        (Hinge(), (score > 0).astype(int)),
        (Absolute(), score),
        (Softmax(), np.digitize(score, [-1, 1])),
    ):
        m = 3 if isinstance(loss, Softmax) else 1
        deep, shallow = (loss.value(deep_tree(X, y, loss, depth=d)(X), y).mean() for d in (15, 2))
        constant = loss.value(np.tile(best_constant(loss, y, m, 10.0), (len(X), 1)), y).mean()
        assert deep < 0.25 * constant
        assert deep < shallow < constant
