"""Edges of a class of hypotheses on fixed targets (growth_and_streaming A.2)."""

import numpy as np
import pytest

from anytime_research.streaming.edges import estimate_edge


def test_estimated_edges():
    """A.2.1: eps^2 of the best single hypothesis; R^2 about zero for a class closed under addition."""
    rng = np.random.default_rng(0)
    H = np.linalg.qr(rng.normal(size=(100, 5)))[0].T
    a = np.array([3.0, -1.0, 0.5, 0.0, 0.0])
    noise = rng.normal(size=100)
    noise -= H.T @ (H @ noise)
    g = a @ H + noise
    found = estimate_edge(H, g)
    assert found.single == pytest.approx(a[0] ** 2 / (g @ g))
    assert found.span == pytest.approx((a @ a) / (g @ g))
    assert found.best == 0
    # the constructive hypothesis eps |f| h reaches exactly this edge
    eps = np.sqrt(found.single)
    h = eps * np.linalg.norm(g) * H[0]
    assert ((g - h) ** 2).sum() == pytest.approx((1 - eps**2) * (g @ g))


def test_no_edge_where_the_class_is_orthogonal_and_a_whole_one_where_nothing_is_asked():
    assert estimate_edge([[1.0, 0.0]], [0.0, 2.0])[:2] == (0.0, 0.0)
    assert estimate_edge([[1.0, 0.0]], [0.0, 0.0])[:2] == (1.0, 1.0)
