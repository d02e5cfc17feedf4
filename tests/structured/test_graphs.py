"""GraphLabeler: nodes that are told what their neighbours are taken for."""

import numpy as np
import pytest

import anytime as at
from anytime.structured import Graphs, grid_edges
from anytime.testing import check_anytime_estimator


def grids(n=40, seed=0, side=6):
    """Noisy grids whose upper part is of one class and whose lower part is of another."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.repeat(random.integers(0, 3, 2), side * side // 2)
        X.append((labels[:, None] + random.normal(scale=1.2, size=(side * side, 2)), grid_edges(side, side)))
        y.append(labels)
    return X, y


def test_neighbours_tell_of_each_other():
    """Without edges there is nothing to be told: the negative control."""
    X, y = grids(60)
    X_new, y_new = grids(60, seed=1)
    told = at.GraphLabeler(folds=3, learner="linear", random_state=0).fit(X, y)
    error = 1 - told.score(X_new, y_new)
    apart = [(nodes, []) for nodes, _ in X]
    alone = at.GraphLabeler(folds=3, learner="linear", random_state=0).fit(apart, y)
    error_alone = 1 - alone.score([(nodes, []) for nodes, _ in X_new], y_new)
    assert error < 0.7 * error_alone


def test_disconnected_and_empty_graphs():
    X, y = grids(20)
    model = at.GraphLabeler(folds=2, max_stages=4, random_state=0).fit(X, y)
    nodes = X[0][0]
    graphs = [(nodes, []), (nodes[:0], []), (nodes, np.array([[0, 1], [30, 31]])), (nodes[:1], [[0, 0]])]
    said = model.predict_proba(graphs)
    assert [len(p) for p in said] == [36, 0, 36, 1]
    assert all(np.isfinite(p).all() for p in said)
    # a part without an edge to the rest does not know of it
    both = (np.vstack([nodes, nodes + 3]), X[0][1])
    np.testing.assert_array_equal(model.predict_proba([both])[0][:36], model.predict_proba([X[0]])[0])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ((np.zeros((2, 1)), [[0, 2]]), "an edge names a node that is not among its 2"),
        ((np.zeros((2, 1)), [[0.5, 1.0]]), "edges are pairs of numbers of nodes"),
        ((np.zeros((2, 1)), [[0, 1, 1]]), "edges are pairs of numbers of nodes"),
        (np.zeros((3, 1)), "must be a pair of nodes and edges"),
    ],
)
def test_bad_graphs_are_told_in_one_sentence(graph, message):
    good = (np.zeros((2, 1)), [[0, 1]])
    with pytest.raises(ValueError, match=message):
        at.GraphLabeler(folds=2).fit([good, graph], [[0, 1], [0, 1]])


def test_the_invariants_of_anytime_prediction_hold():
    X, y = grids(20)
    check_anytime_estimator(at.GraphLabeler(folds=2, max_stages=4, random_state=0), X, y)


def test_some_graphs_of_a_batch_keep_their_edges():
    X, _ = grids(3)
    edges = np.concatenate([pairs + 36 * i for i, (_, pairs) in enumerate(X)])
    graphs = Graphs(np.concatenate([nodes for nodes, _ in X]), [0, 36, 72, 108], edges=edges)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 108)
    np.testing.assert_array_equal(
        graphs[[2]].context(0, probabilities[72:]), graphs.context(0, probabilities)[72:]
    )
