"""GraphLabeler: nodes that are told what their neighbours are taken for."""

import numpy as np
import pytest

import anytime as at
from anytime.structured import Graphs, grid_edges, nearest_edges
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
        ((np.zeros((2, 1)), [[0, -1]]), "an edge names a node that is not among its 2"),
        ((np.zeros((2, 1)), [[0, np.nan]]), "edges are pairs of numbers of nodes"),
        ((np.zeros((2, 1)), [[0, 1], [0]]), "edges are pairs of numbers of nodes"),
        ((None, []), "nodes are a list of their features, not NoneType"),
        ((np.full((2, 1), np.inf), []), "graph 1 holds an infinite number"),
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


@pytest.mark.parametrize("learner", ["linear", "trees"])
def test_missing_features_and_labels(learner):
    X, y = grids(20)
    random = np.random.default_rng(0)
    holes = [(np.where(random.random(nodes.shape) < 0.3, np.nan, nodes), edges) for nodes, edges in X]
    some = [[label if random.random() < 0.5 else None for label in labels.tolist()] for labels in y]
    model = at.GraphLabeler(folds=2, learner=learner, max_stages=3, random_state=0).fit(holes, some)
    assert model.score(holes, some) > 0.5
    assert all(np.isfinite(p).all() for p in model.predict_proba([(np.full((4, 2), np.nan), None)]))
    with pytest.raises(ValueError, match="no element has a label"):
        at.GraphLabeler(folds=2).fit(X, [[None] * len(labels) for labels in y])


def cloud(seed, n=120):
    """Points of three blobs that lie side by side, a noisy feature each, and the blob they belong to."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    points = np.column_stack([2.5 * labels, random.normal(size=n)]) + random.normal(scale=0.4, size=(n, 2))
    points = (
        points @ np.linalg.qr(random.normal(size=(2, 2)))[0]
    )  # which way they lie differs from cloud to cloud
    return labels[:, None] + random.normal(scale=1.5, size=(n, 2)), points, labels


def test_points_of_a_cloud_tell_of_their_neighbours():
    """Where a point lies is no feature: only its neighbours tell. Without edges, the negative control."""
    clouds = [cloud(seed) for seed in range(60)]
    y = [labels for _, _, labels in clouds]
    error = {}
    for k in (0, 6):
        X = [(f, nearest_edges(points, k) if k else None) for f, points, _ in clouds]
        model = at.GraphLabeler(folds=3, max_stages=8, random_state=0).fit(X[:40], y[:40])
        error[k] = 1 - model.score(X[40:], y[40:])
    assert error[6] < 0.5 * error[0]


def test_nearest_edges_are_those_of_all_distances():
    random = np.random.default_rng(0)
    points = random.normal(size=(30, 3))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    near = {tuple(sorted((i, int(j)))) for i in range(30) for j in np.argsort(distance[i])[:4]}
    assert [tuple(pair) for pair in nearest_edges(points, 4).tolist()] == sorted(near)


def test_nearest_edges_of_few_or_equal_points():
    assert nearest_edges(np.empty((0, 3)), 2).shape == (0, 2)
    assert nearest_edges([[1.0, 2.0]], 2).shape == (0, 2)
    assert nearest_edges([[0.0], [5.0], [9.0]], 8).tolist() == [[0, 1], [0, 2], [1, 2]]
    same = nearest_edges(np.zeros((5, 2)), 2)
    assert (same[:, 0] < same[:, 1]).all()
    assert set(same.ravel().tolist()) == set(range(5))
    with pytest.raises(ValueError, match="a table of finite coordinates"):
        nearest_edges([[np.nan, 0.0]], 1)
    with pytest.raises(ValueError, match="k is 0"):
        nearest_edges([[0.0]], 0)


def test_a_feature_that_a_graph_lacks_is_not_paid_for():
    """As for sentences: the rule of ``anytime.rows``."""
    random = np.random.default_rng(0)
    ring = [(i, (i + 1) % 10) for i in range(10)]
    y = [np.repeat(random.integers(0, 2, 2), 5) for _ in range(30)]
    X = [([{"near": v + random.normal(), "far": v + random.normal()} for v in labels], ring) for labels in y]
    model = at.GraphLabeler(costs={"near": 1, "far": 5}, folds=2, random_state=0).fit(X, y)
    assert set(model.order_) == {"near", "far"}
    less = [({"near": node["near"]} for node in nodes) for nodes, _ in X[:2]]
    with pytest.warns(UserWarning, match="column 'far' is missing"):
        answer = model.answer([(list(nodes), ring) for nodes in less])
    assert answer.reason == "groups"
    assert answer.cost.max() <= 1
    with pytest.raises(ValueError, match="no feature of graph 0 is known"):
        model.predict([([{"nera": 1.0}], None)])
