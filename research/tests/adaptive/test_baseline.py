"""The L1 baseline (adaptive_approximation 9, 13.2)."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

import anytime as at
from anytime.adaptive.choosing import HeldOutRows
from anytime.adaptive.stages import Chain
from anytime.blocks import LinearBlock
from anytime_research.adaptive.baseline import l1_exits, l1_supports
from tests.adaptive.problems import synthetic_2


def test_synthetic_2_l1_gives_120_70():
    """Feature 1 enters first; everybody pays for it, and those sent on for both."""
    X, y, cluster = synthetic_2()
    supports = l1_supports(X, y, standardise=False)
    assert supports[0] == (0,)
    costs = at.FeatureCosts([1, 1]).bind(2)
    knows_all = LinearBlock([0, 1], np.zeros((2, 1)))  # what it says is known: it is always right
    bench = HeldOutRows(X, y, None, np.where(y == 1, 5.0, -5.0)[:, None], costs, np.zeros(1), "logistic")
    perfect = []
    for found in l1_exits(X, y, [(0,)], standardise=False):
        (point,) = bench.at(Chain([found.exit], knows_all), [(0.0, 0.0)])
        if point.accuracy == 1:
            perfect.append(point.cost)
            assert (found.exit.score(X, "logistic") <= 0)[cluster == 0].all()  # only cluster 1 stays
    assert min(perfect) == pytest.approx(120 / 70)
    cheap = next(iter(l1_exits(X, y, [(0,)], standardise=False))).exit.cheap
    assert np.mean((cheap.outputs(0, X)[:, 0] > 0) == y) == pytest.approx(55 / 70)


def test_synthetic_2_coefficients():
    """Section 9: 0.75 and 0 at C = 0.1; an empty support below about 0.05."""
    X, y, _ = synthetic_2()
    assert l1_supports(X, y, strengths=[0.01], standardise=False) == []
    assert l1_supports(X, y, strengths=[0.1], standardise=False) == [(0,)]
    assert l1_supports(X, y, strengths=[10.0], standardise=False) == [(0,), (0, 1)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_supports_are_different_and_gates_send_ever_more(n_classes):
    X, y = make_classification(
        400,
        6,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=0.2,
        random_state=0,
    )
    supports = l1_supports(X, y, strengths=[0.01, 0.1, 1.0])
    assert len(supports) == len(set(supports)) > 3
    exits = list(l1_exits(X, y, supports[:2], shares=[0.1, 0.3, 0.5, 0.7, 0.9]))
    assert len(exits) == 10
    sent = [(found.exit.score(X, "logistic") > 0).mean() for found in exits[:5]]
    assert sent == sorted(sent)
    assert sent[0] < sent[-1]
    for found in exits:
        assert set(found.exit.cheap.columns(0)) | set(found.exit.gate.columns(0)) == set(found.support)


def test_a_cheap_model_that_is_never_wrong_keeps_everybody():
    X = np.linspace(-1, 1, 50)[:, None]
    y = (X[:, 0] > 0).astype(int)
    (found,) = l1_exits(X, y, [(0,)], shares=[0.99])
    assert (found.exit.score(X, "logistic") <= 0).all()
