"""Disagreement: pairs out of order, ties, margins, draws of whole queries. Prefix precision: ranks before the first miss."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

import anytime as at
from anytime.curves import disagreement


@given(seed=st.integers(0, 10**6), margin=st.sampled_from([0.0, 1.0]))
def test_disagreement_counts_pairs_of_one_query_that_are_not_ahead(seed: int, margin: float):
    """functional_gradient_and_greedy 3.5: pairs only within a query with different relevance, ties count as violated."""
    rng = np.random.default_rng(seed)
    y, qid = rng.integers(0, 3, 20), rng.integers(0, 3, 20)
    y[:2], qid[:2] = (0, 1), 0
    scores = rng.integers(0, 4, 20) / 2
    pairs = [(i, j) for i, j in itertools.product(range(20), repeat=2) if qid[i] == qid[j] and y[i] > y[j]]
    wrong = sum(scores[i] - scores[j] <= margin for i, j in pairs)
    assert disagreement(y, scores, qid, margin=margin) == pytest.approx(wrong / len(pairs))


def test_disagreement_needs_a_pair():
    with pytest.raises(ValueError, match="no query has rows of different relevance"):
        disagreement([1, 2], [0.0, 1.0], [0, 1])


def test_curve_judges_by_disagreement():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y, qid = np.digitize(X[:, 0] + 0.3 * rng.normal(size=200), [-0.5, 0.5]), np.arange(200) // 10
    model = LinearRegression().fit(X, y)
    points = at.curve(
        model, X, y, metric="disagreement", qid=qid, full_cost=1.0, bootstrap=50, random_state=0
    )
    assert points.values[-1] == pytest.approx(disagreement(y, model.predict(X), qid))
    low, high = points.band
    assert low[-1] < points.values[-1] < high[-1]
    flat = at.curve(DummyRegressor().fit(X, y), X, y, metric="disagreement", qid=qid, full_cost=1.0)
    assert flat.values[-1] == 1.0
    with pytest.raises(ValueError, match="metric 'disagreement' needs qid"):
        at.curve(model, X, y, metric="disagreement", full_cost=1.0)


# ---------------------------------------------------------------------- prefix precision
