"""Projections: both kinds, learners of scikit-learn's, edges, and what they have to do with beating chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from anytime_research.boosting.projection import (
    Dictionary,
    advantage,
    classification,
    coded,
    edge_floor,
    inner,
    length,
    measure,
    project,
    regression,
)

SEEDS = st.integers(0, 10**6)


def words(seed: int, n: int = 7, k: int = 2, j: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A dictionary, a target and weights that sum to 1."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.1, 1.0, n)
    return rng.normal(size=(j, n, k)), rng.normal(size=(n, k)), weight / weight.sum()


# ---------------------------------------------------------------------- dictionaries


@given(seed=SEEDS)
def test_angle_picks_the_word_whose_shadow_is_longest(seed: int):
    outputs, g, p = words(seed)
    found = project(g, Dictionary(outputs), p)
    shadows = [abs(inner(h, g, p)) / length(h, p) for h in outputs]
    assert np.array_equal(found.outputs, outputs[np.argmax(shadows)])
    assert found.edge == pytest.approx(max(shadows) / length(g, p))
    assert found.predictor(outputs) is not None
    assert np.array_equal(found.predictor(outputs), found.outputs)


@given(seed=SEEDS)
def test_distance_picks_the_nearest_word(seed: int):
    outputs, g, p = words(seed)
    found = project(g, Dictionary(outputs, by="distance"), p)
    assert length(g - found.outputs, p) == pytest.approx(min(length(g - h, p) for h in outputs))


@given(seed=SEEDS)
def test_p21_both_projections_agree_where_all_multiples_are_there(seed: int):
    """functional_gradient_and_greedy 2.1: the same ray, and ``h_norm = c h_ip``, over lines through the words."""
    outputs, g, p = words(seed)
    by_angle = project(g, Dictionary(outputs), p)
    lines = np.stack([inner(h, g, p) / inner(h, h, p) * h for h in outputs])
    by_distance = project(g, Dictionary(lines, by="distance"), p)
    assert by_distance.coefficient == pytest.approx(1.0)
    assert np.allclose(by_distance.outputs, by_angle.coefficient * by_angle.outputs)
    assert by_distance.edge == pytest.approx(by_angle.edge)


@given(seed=SEEDS)
def test_p23_residual_is_orthogonal_to_the_direction(seed: int):
    """functional_gradient_and_greedy 2.1, and (2.10): the squared length that is left is ``|g|² (1 - edge²)``."""
    outputs, g, p = words(seed)
    found = project(g, Dictionary(outputs), p)
    rest = g - found.coefficient * found.outputs
    assert abs(inner(found.outputs, rest, p)) < 1e-12
    assert inner(rest, rest, p) == pytest.approx(inner(g, g, p) * (1 - found.edge**2))


@given(seed=SEEDS)
def test_norm_condition_implies_the_inner_product_condition(seed: int):
    """functional_gradient_and_greedy 2.2: ``|g - h|² <= (1 - gamma²) |g|²`` implies an edge of gamma, whatever h."""
    outputs, g, p = words(seed)
    for h in np.concatenate([outputs, g + 0.3 * outputs]):
        missed = length(g - h, p) ** 2 / length(g, p) ** 2
        if missed < 1:
            assert project(g, Dictionary(h[None]), p).edge >= np.sqrt(1 - missed) - 1e-12


def test_equally_good_words_go_to_the_first():
    found = project(np.array([[2.0], [1.0]]), Dictionary([[[1.0], [0.0]], [[-1.0], [0.0]]]))
    assert found.outputs.ravel().tolist() == [1.0, 0.0]
    assert found.edge == pytest.approx(2 / np.sqrt(5))  # G7: the edge of the failure example, 0.894427
    assert round(found.edge, 6) == 0.894427


def test_words_of_nothing_have_no_edge():
    found = project(np.ones((2, 1)), Dictionary(np.zeros((3, 2, 1))))
    assert (found.coefficient, found.edge) == (0.0, 0.0)
    assert project(np.zeros((2, 1)), Dictionary(np.ones((1, 2)))).edge == 0.0


def test_bad_measures_and_dictionaries_are_refused():
    with pytest.raises(ValueError, match="weight must be 3 finite numbers"):
        measure(3, [1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="functions by rows"):
        Dictionary(np.zeros(4))
    with pytest.raises(ValueError, match="by is 'length'"):
        Dictionary(np.zeros((1, 4)), by="length")


# ---------------------------------------------------------------------- learners of scikit-learn's kind


@given(seed=SEEDS)
def test_least_squares_is_the_projection_onto_the_span(seed: int):
    rng = np.random.default_rng(seed)
    X, g = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    p = rng.uniform(0.5, 2.0, 20)
    p /= p.sum()
    found = project(g, regression(LinearRegression(fit_intercept=False), X), p)
    assert found.coefficient == pytest.approx(1.0)
    root = np.sqrt(p)[:, None]
    span = X @ np.linalg.lstsq(root * X, root * g, rcond=None)[0]
    assert np.allclose(found.outputs, span)
    assert np.allclose(found.predictor(X[:5]), span[:5])


def stumps(X: np.ndarray) -> list[np.ndarray]:
    """Labels 0 and 1 of all ways to cut one column, both ways round."""
    cuts = [X[:, [c]].ravel() > t for c in range(X.shape[1]) for t in X[:, c]]
    return [c.astype(int) for c in cuts] + [1 - c.astype(int) for c in cuts]


@given(seed=SEEDS)
def test_p22_weighted_accuracy_is_the_inner_product(seed: int):
    """functional_gradient_and_greedy 2.1: ``N <g, h> = 2 correct - total``, so both have the same best classifier."""
    rng = np.random.default_rng(seed)
    X, g = rng.normal(size=(12, 2)), rng.normal(size=(12, 1))
    truth, w = (g[:, 0] >= 0).astype(int), np.abs(g[:, 0])
    correct = np.array([w[labels == truth].sum() for labels in stumps(X)])
    product = np.array([inner(g, coded(labels, 1), np.full(12, 1 / 12)) for labels in stumps(X)])
    assert np.allclose(12 * product, 2 * correct - w.sum())


@given(seed=SEEDS)
def test_binary_classifier_learns_signs_by_size(seed: int):
    rng = np.random.default_rng(seed)
    X, g = rng.normal(size=(15, 1)), rng.normal(size=(15, 1))
    found = project(g, classification(DecisionTreeClassifier(random_state=0), X))
    assert np.array_equal(found.outputs, np.where(g >= 0, 1.0, -1.0))
    assert found.coefficient == pytest.approx(np.abs(g).mean())


@given(seed=SEEDS)
def test_multiclass_classifier_earns_the_target(seed: int):
    """functional_gradient_and_greedy 2.1: cost-sensitive classification; a tree that can tell all rows apart earns the most."""
    rng = np.random.default_rng(seed)
    X, g = np.arange(10.0)[:, None], rng.normal(size=(10, 3))
    found = project(g, classification(DecisionTreeClassifier(random_state=0), X))
    assert np.array_equal(found.outputs, coded(g.argmax(axis=1), 3))
    shifted = project(g + rng.normal(size=(10, 1)), classification(DecisionTreeClassifier(random_state=0), X))
    assert np.array_equal(found.outputs, shifted.outputs)


def test_a_target_of_one_sign_needs_no_classifier():
    learner = classification(DecisionTreeRegressor(), np.zeros((4, 1)))  # would fail if it were fitted
    assert project(np.ones((4, 1)), learner).edge == 1.0


def test_coded_answers_have_the_printed_length():
    """G7: ``|h'|`` for K = 3 is 1.224745."""
    h = coded(np.array([0, 2, 1, 1]), 3)
    assert h[0].tolist() == [1.0, -0.5, -0.5]
    assert round(length(h, measure(4)), 6) == 1.224745


# ---------------------------------------------------------------------- beating chance


@given(seed=SEEDS, sparse=st.booleans())
def test_theorem_222_edge_and_advantage(seed: int, sparse: bool):
    """An advantage d gives an edge of d / sqrt(N), and an edge an advantage of at least itself."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    g, labels = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    if sparse:
        g[1:] = 0.0
    d = advantage(g, labels)
    if d > 0:
        edge = project(g, Dictionary(coded(labels, 1)[None])).edge
        assert edge >= edge_floor(d, n) - 1e-12
        assert d >= edge - 1e-12


@given(seed=SEEDS, k=st.integers(3, 6), sparse=st.booleans())
def test_theorem_223_corrected_edge_and_advantage(seed: int, k: int, sparse: bool):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    g, labels = rng.normal(size=(n, k)), rng.integers(0, k, n)
    if sparse:
        g[1:] = 0.0
    g -= g.mean(axis=1, keepdims=True)
    d = advantage(g, labels)
    if d > 0:
        edge = project(g, Dictionary(coded(labels, k)[None])).edge
        assert edge >= edge_floor(d, n, k) - 1e-12
        assert d >= edge - 1e-12


@pytest.mark.parametrize("k", [2, 3, 5])
def test_theorem_223_is_attained_and_false_as_printed(k: int):
    """functional_gradient_and_greedy ERR-4: one row in which all classes but one are equally good."""
    g = np.zeros((9, k))
    g[0] = 1.0
    g[0, -1] = -(k - 1.0)
    labels = np.zeros(9, dtype=int)
    assert advantage(g, labels) == pytest.approx(1.0)
    edge = project(g, Dictionary(coded(labels, k)[None])).edge
    assert edge == pytest.approx(edge_floor(1.0, 9, k))
    if k > 2:
        assert edge < 0.6 * edge_floor(1.0, 9, k, form="printed")
