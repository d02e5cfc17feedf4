"""The printed loop over learners is the vectorised round (growth_and_streaming A-P9)."""

import numpy as np
import pytest

from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared
from anytime.streaming.partial_sums import averaged
from anytime.streaming.projections import Ball, Box
from anytime_research.streaming.descent import descend_one_by_one, gd, nesterov
from tests.reference.plain_banks import PlainRidge

KINDS = {
    "smooth": (Squared(), {"step": 0.4}),
    "logistic": (Logistic(), {"gate": "skip", "warm_up": 3}),
    "shrunk": (Softmax(), {"gate": "shrink"}),
    "residual": (Hinge(0.1), {"algorithm": "residual", "projection": Box(-3.0, 3.0)}),
    "ball": (Absolute(0.1), {"algorithm": "residual", "projection": Ball(2.0), "averaging": "theory"}),
    "free": (Absolute(0.5), {"algorithm": "residual", "max_step": 0.5, "averaging": "all"}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 4])
def test_one_by_one_is_all_at_once_a_p9(kind, batch):
    """A-P9: the printed loop over learners and the vectorised round give the same learners and answers."""
    loss, settings = KINDS[kind]
    m = 3 if isinstance(loss, Softmax) else 1
    model, other = (BoostedBank(PlainRidge().make(5, 3, m), loss, **settings) for _ in range(2))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.tanh(X[:, 0]) - 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=40)
    if loss.classifies:
        y = np.digitize(y, [-0.7, 0.0]) if m == 3 else (y > 0).astype(int)
    for at in range(0, len(X), batch):
        rows, truth = X[at : at + batch], y[at : at + batch]
        outputs = other.bank.predict(rows) * other.gates[:, None, None]
        went = descend_one_by_one(
            lambda i, target, outputs=outputs: outputs[i],
            5,
            truth,
            other.loss,
            other.steps,
            np.zeros((len(rows), m)),
            algorithm=other.algorithm,
            projection=other.projection,
        )
        other.monitor.add(went.targets, other.bank.predict(rows))
        other.bank.update(rows, went.targets)
        answer = averaged(went.sums, other.averaging)[-1]
        np.testing.assert_allclose(model.round(rows, truth), answer, atol=1e-12)
    np.testing.assert_allclose(model.bank.weights, other.bank.weights, atol=1e-10)


def test_accelerated_steps_start_ahead_of_the_last_sum():
    """Hu 2019, section 5.7: step i starts from ``y^(i-1) + (i - 1) / (i + 2) (y^(i-1) - y^(i-2))``."""
    sums = [np.array([0.0]), np.array([2.0]), np.array([3.0])]
    assert gd(sums) == 3.0
    assert nesterov(sums[:1]) == 0.0
    assert nesterov(sums) == 3.0 + 2 / 5 * 1.0
    went = descend_one_by_one(
        lambda i, target: target,
        3,
        np.array([[1.0]]),
        Squared(),
        np.full(3, 0.5),
        np.zeros((1, 1)),
        combiner=nesterov,
    )
    ahead = 0.5 + 1 / 4 * 0.5
    np.testing.assert_allclose(went.sums[:3, 0, 0], [0.0, 0.5, ahead + 0.5 * (1.0 - ahead)])
