"""Algorithm 8: answers averaged over the rounds of a run (growth_and_streaming A.5)."""

import numpy as np
import pytest

from anytime.streaming.banks import HoeffdingTree, OnlineRidge, SmallNet
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Absolute, Squared
from anytime.streaming.partial_sums import averaged
from anytime.streaming.projections import Ball
from anytime_research.streaming.refitted_trees import FtrlTree
from anytime_research.streaming.snapshots import AveragedRounds
from tests.reference.plain_banks import PlainRidge


def _rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.tanh(X[:, 0]) - 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def _run(kind, n, **settings):
    bank = PlainRidge().make(n, 3, 1, 0)
    return kind(
        bank, Absolute(0.1), algorithm="residual", projection=Ball(2.0), averaging="theory", **settings
    )


def test_algorithm_8_averages_over_snapshots():
    """A.5: for every stored round the projected recursion, averaged over learners and then over rounds."""
    model, bare = _run(AveragedRounds, 4, kept=3), _run(BoostedBank, 4)
    X, y = _rows()
    seen = {}
    for at in range(len(X)):
        model.round(X[at : at + 1], y[at : at + 1])
        bare.round(X[at : at + 1], y[at : at + 1])
        seen[at + 1] = averaged(bare.predict_rounds(X), "theory")
    kept = [at for at, _ in model.copies]
    assert 3 <= len(kept) <= 6
    np.testing.assert_allclose(
        model.answers(X), np.mean([seen[at] for at in [*kept, len(X)]], axis=0), atol=1e-12
    )
    np.testing.assert_array_equal(bare.answers(X), seen[len(X)])  # one snapshot: the last


def test_algorithm_8_after_appending_averages_over_those_that_have_the_learners():
    model = _run(AveragedRounds, 2, kept=2)
    X, y = _rows()
    model.learn(X[:20], y[:20])
    model.append(2)
    model.learn(X[20:24], y[20:24])
    banks = [copy for _, copy in model.copies]
    assert {bank.n_stages for bank in banks} == {2, 4}
    for k in (2, 4):
        having = [bank for bank in banks if bank.n_stages >= k]
        outputs = [np.stack([bank.outputs(i, X) for i in range(k)]) for bank in having]
        sums = [model._sums(part) for part in [*outputs, model.bank.predict(X)[:k]]]
        expected = np.mean([averaged(part, "theory")[-1] for part in sums], axis=0)
        np.testing.assert_allclose(model.answers(X)[k], expected, atol=1e-12)


@pytest.mark.parametrize(
    "learner", [HoeffdingTree(grace=10), OnlineRidge(), SmallNet(hidden=3), FtrlTree()], ids=str
)
def test_copies_of_all_kinds_of_learners_are_frozen(learner):
    model = AveragedRounds(learner.make(2, 3, 1, 5), Squared(), kept=3, step=0.5)
    X, y = _rows(100)
    said = {}
    for at in range(100):
        model.round(X[at : at + 1], y[at : at + 1])
        said[at + 1] = model.bank.predict(X)
    assert model.stride == 16
    for at, copy in model.copies:
        np.testing.assert_allclose([copy.outputs(i, X) for i in range(2)], said[at], rtol=0, atol=1e-12)
