"""Ranking losses: pairs, gradients on the scale of function space, weights by what a swap would change in NDCG."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.curves.metrics import ndcg
from anytime.losses import TRAINING_LOSSES, lambdarank
from anytime.losses import ranking as room
from anytime.losses.ranking import Pairs

SEEDS = st.integers(0, 10**6)
PAIRWISE = ["pairwise_hinge", "pairwise_logistic"]


def queries(seed: int, n: int = 25, n_queries: int = 4, n_grades: int = 4) -> np.ndarray:
    """Grades and queries, in no order."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, n_grades, n), rng.integers(0, n_queries, n) * 7 - 3]).astype(
        float
    )


def all_pairs(y: np.ndarray) -> list[tuple[int, int]]:
    """The plain way."""
    return [
        (i, j)
        for i, j in itertools.product(range(len(y)), repeat=2)
        if y[i, 1] == y[j, 1] and y[i, 0] > y[j, 0]
    ]


@given(seed=SEEDS, n=st.integers(0, 30), block=st.sampled_from([1, 3, 1 << 18]))
def test_pairs_are_those_of_one_query_with_different_grades(seed: int, n: int, block: int):
    y = queries(seed, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "_BLOCK", block)
        met = [
            pair for better, worse in Pairs(y) for pair in zip(better.tolist(), worse.tolist(), strict=True)
        ]
    assert sorted(met) == all_pairs(y)
    assert Pairs(y).n_pairs == len(met)
    assert Pairs(y).n_queries == len(np.unique(y[:, 1]))


def test_targets_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"y of shape \(n, 2\), grade and query; got \(5,\)"):
        TRAINING_LOSSES["pairwise_hinge"].gradient(np.zeros((5, 1)), np.zeros(5))


@given(seed=SEEDS)
def test_mean_over_rows_is_the_mean_over_pairs(seed: int):
    """functional_gradient_and_greedy 1.3: ``R = 1 / n_pairs sum max(0, 1 - (f_i - f_j))``."""
    y, rng = queries(seed), np.random.default_rng(seed)
    scores = rng.normal(size=(len(y), 1)) * 2
    margins = np.array([scores[i, 0] - scores[j, 0] for i, j in all_pairs(y)])
    hinge, logistic = (TRAINING_LOSSES[name] for name in PAIRWISE)
    assert hinge(scores, y) == pytest.approx(np.maximum(0, 1 - margins).mean())
    assert logistic(scores, y) == pytest.approx(np.log1p(np.exp(-margins)).mean())


@pytest.mark.parametrize("name", [*PAIRWISE, "lambdarank"])
@given(seed=SEEDS)
def test_gradient_is_n_times_the_derivative_of_the_objective(name: str, seed: int):
    """functional_gradient_and_greedy 1.2: ``grad(x_n) = N dR/df(x_n)``. LambdaMART's weights are constant while ranks are."""
    y, rng = queries(seed), np.random.default_rng(seed)
    scores, loss, step = rng.normal(size=(len(y), 1)), TRAINING_LOSSES[name], 1e-6
    for i in range(len(y)):
        away = np.zeros_like(scores)
        away[i] = step
        slope = (loss(scores + away, y) - loss(scores - away, y)) / (2 * step)
        assert loss.gradient(scores, y)[i, 0] == pytest.approx(len(y) * slope, rel=1e-5, abs=1e-6)
        if loss.hessian is not None:
            rise = (loss.gradient(scores + away, y) - loss.gradient(scores - away, y))[i, 0] / (2 * step)
            assert loss.hessian(scores, y)[i, 0] == pytest.approx(rise, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", PAIRWISE)
@given(seed=SEEDS)
def test_gradient_is_right_for_weighted_queries(name: str, seed: int):
    y, rng = queries(seed), np.random.default_rng(seed)
    scores, loss = rng.normal(size=(len(y), 1)), TRAINING_LOSSES[name]
    weight = np.exp(y[:, 1] / 10)
    weight /= weight.sum()
    away = rng.normal(size=scores.shape) * 1e-6
    fall = (loss(scores + away, y, weight) - loss(scores - away, y, weight)) / 2
    assert weight @ (loss.gradient(scores, y) * away)[:, 0] == pytest.approx(fall, rel=1e-4, abs=1e-11)


@pytest.mark.parametrize("name", PAIRWISE)
@given(seed=SEEDS, reach=st.sampled_from([0.1, 1.0, 5.0]))
def test_pairwise_losses_are_convex(name: str, seed: int, reach: float):
    """functional_gradient_and_greedy 1.2, inequality (2.5), for the functional as a whole."""
    y, rng = queries(seed), np.random.default_rng(seed)
    f, g = rng.normal(size=(2, len(y), 1)) * reach
    loss = TRAINING_LOSSES[name]
    assert loss(g, y) >= loss(f, y) + (loss.gradient(f, y) * (g - f)).mean() - 1e-12


@pytest.mark.parametrize("k", [None, 3])
@given(seed=SEEDS)
def test_lambdarank_weighs_a_pair_by_the_change_of_ndcg_when_it_swaps(k: int | None, seed: int):
    y, rng = queries(seed, n=8, n_queries=2), np.random.default_rng(seed)
    scores = rng.permutation(8).astype(float)[:, None]
    total = np.zeros(8)
    for i, j in all_pairs(y):
        swapped = scores.copy()
        swapped[[i, j]] = scores[[j, i]]
        change = abs(ndcg(y[:, 0], swapped[:, 0], y[:, 1], k) - ndcg(y[:, 0], scores[:, 0], y[:, 1], k))
        pull = change / (1 + np.exp(scores[i, 0] - scores[j, 0]))
        total[i] -= pull
        total[j] += pull
    assert np.allclose(lambdarank(k).gradient(scores, y)[:, 0], 8 * total)


def test_a_query_without_pairs_pulls_at_nothing():
    y = np.array([[1.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    for name in (*PAIRWISE, "lambdarank"):
        assert not TRAINING_LOSSES[name].gradient(np.zeros((3, 1)), y).any()
        assert TRAINING_LOSSES[name](np.zeros((3, 1)), y) == 0.0


def test_memory_stays_bounded_where_pairs_are_many():
    """One query of 4,000 rows has 6 million pairs, 50 MB for each number that is kept of them."""
    y = np.column_stack([np.arange(4000) % 5, np.zeros(4000)])
    tracemalloc.start()
    TRAINING_LOSSES["pairwise_logistic"].gradient(np.zeros((4000, 1)), y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert Pairs(y).n_pairs == 6_400_000
    assert peak < 30e6
