"""Prefix precision, the ranking measure of the thesis on budgeted trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import anytime as at
from anytime_research.curves import PrefixPrecision, prefix_precision


@pytest.mark.parametrize(
    ("relevance", "value"),
    [
        ([1, 1, 0, 1, 1], 0.4),
        ([0, 1, 1, 1, 1], 0.0),
        ([1, 1, 1, 1, 0], 0.8),
        ([1] * 5, 1.0),
        ([1] * 5 + [0], 1.0),
    ],
)
def test_prefix_precision_examples_of_budgeted_trees_6(relevance: list[int], value: float):
    scores = -np.arange(len(relevance))
    assert prefix_precision(relevance, scores, np.zeros(len(relevance)), relevant=1) == value


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), short=st.sampled_from(["absent", "renormalise"]))
def test_prefix_precision_is_what_going_down_the_ranking_counts(seed: int, k: int, short):
    rng = np.random.default_rng(seed)
    y, qid, scores = rng.integers(0, 5, 30), rng.integers(3, 9, 30), rng.integers(0, 6, 30).astype(float)
    values = []
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        ranked = sorted(rows, key=lambda i: (-scores[i], i))[:k]
        relevant = [y[i] >= 3 for i in ranked]
        reached = relevant.index(False) if False in relevant else len(relevant)
        values.append(reached / (min(len(rows), k) if short == "renormalise" else k))
    assert prefix_precision(y, scores, qid, k, relevant=3, short=short) == pytest.approx(np.mean(values))


def test_curve_judges_by_prefix_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y, qid = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(float), np.arange(300) // 10
    model = LinearRegression().fit(X, y)
    points = at.curve(
        model, X, y, metric=PrefixPrecision(1, k=3), qid=qid, full_cost=1.0, bootstrap=50, random_state=0
    )
    assert points.metric == "prefix precision@3"
    assert points.values[-1] == pytest.approx(prefix_precision(y, model.predict(X), qid, 3, relevant=1))
    low, high = points.band
    assert low[-1] < points.values[-1] < high[-1]


def test_prefix_precision_says_what_is_wrong():
    with pytest.raises(ValueError, match="needs k ≥ 1, not 0"):
        PrefixPrecision(1, k=0)
    with pytest.raises(ValueError, match="short must be 'absent' or 'renormalise', not 'drop'"):
        PrefixPrecision(1, short="drop")
