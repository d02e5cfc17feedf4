"""Recovery, projection and conjectures of distributed sensing (adaptive_approximation 17)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from anytime.sensing.problem import SensorWeights
from anytime.sensing.solvers import within_participation
from anytime_research.sensing import (
    PANELS,
    ProjectedGates,
    SensorVote,
    cosine_distances,
    hessian,
    least_curvature,
    make_adaptive_sparse_regression,
    make_body_sensors,
    project_scores,
    recover,
    recover_gates,
    sampling_gaps,
)
from tests.sensing.problems import by_differences, flattened, shaped


@given(st.integers(0, 10**6), st.floats(0, 2))
@settings(max_examples=40, deadline=None)
def test_projected_scores_are_the_nearest_within_the_budget(seed, budget):
    z = np.random.default_rng(seed).normal(0.5, 1.0, size=(2, 4))
    projected = project_scores(z, budget)
    allowed = int(np.floor(4 * budget + 1e-9))
    assert (projected > 0).sum() <= allowed
    np.testing.assert_array_equal(project_scores(projected, budget), projected)
    # every set of entries that stays positive: the others go to 0 where they were positive
    distance = ((projected - z) ** 2).sum()
    flat = z.ravel()
    for chosen in range(2**8):
        keep = np.array([chosen >> i & 1 for i in range(8)], dtype=bool)
        if keep.sum() <= allowed:
            assert distance <= (np.maximum(flat, 0)[~keep] ** 2).sum() + 1e-12


def test_gates_are_recovered_from_their_scores():
    rng = np.random.default_rng(0)
    weights, inputs = SensorWeights.drawn(3, 4, 1, rng), rng.normal(size=(3, 50, 4))
    w, b = recover_gates(inputs, weights.scores(inputs))
    np.testing.assert_allclose(w, weights.w, atol=1e-10)
    np.testing.assert_allclose(b, weights.b, atol=1e-10)


def test_projected_descent_keeps_to_the_budget_and_descends():
    data = make_adaptive_sparse_regression(400, 3, 2, slope=5.0, random_state=0)
    problem, rng = data.problem, np.random.default_rng(1)
    start = SensorWeights.drawn(3, 2, 1, rng)
    found = ProjectedGates(300).solve(problem, start, 0.3, rng)
    assert (found.scores(problem.inputs) > 0).mean() <= 0.3
    assert problem.direct(found, 0.0) < problem.direct(within_participation(start, problem.inputs, 0.3), 0.0)


@pytest.mark.parametrize("gate", ["sigmoid", "relu"])
def test_the_hessian_is_that_of_finite_differences(gate):
    data = make_adaptive_sparse_regression(60, 2, 2, gate=gate, noise=1.0, random_state=0)
    problem = data.problem
    weights = SensorWeights.drawn(2, 2, 1, np.random.default_rng(2))
    keep = np.r_[0:4, 6:12]  # all but the offsets of messages

    def slopes(flat):
        return flattened(problem.direct_gradient(shaped(flat, weights), 0.0))

    expected = by_differences(slopes, flattened(weights))[np.ix_(keep, keep)]
    np.testing.assert_allclose(hessian(problem, weights), expected, atol=1e-7)


def test_the_hessian_at_the_truth_is_twice_the_mean_outer_product():
    """Section 17.2, one number per device and the offset absorbed, as printed."""
    data = make_adaptive_sparse_regression(500, 3, 1, random_state=3)
    truth = replace(data.truth, b=np.zeros(3))
    x = data.X
    w, v = truth.w[:, 0], truth.v[:, 0, 0]
    phi = 1 / (1 + np.exp(-x * w))
    y = (v * x * phi).sum(axis=1)
    problem = replace(data.problem, targets=y[:, None])
    psi = np.column_stack([x * phi, v * x**2 * phi * (1 - phi)])
    found = hessian(problem, truth)
    np.testing.assert_allclose(found[:6, :6], 2 / 500 * psi.T @ psi, atol=1e-12)
    assert least_curvature(problem, truth) >= -1e-10


def test_local_convexity_is_a_matter_of_the_truth():
    """A negative control: elsewhere the error bends down too, which is why nothing more is promised."""
    data = make_adaptive_sparse_regression(500, 2, 2, random_state=4)
    assert least_curvature(data.problem, data.truth) >= -1e-10
    elsewhere = SensorWeights.drawn(2, 2, 1, np.random.default_rng(0), 3.0)
    assert least_curvature(data.problem, elsewhere) < -1e-3


def test_panels_of_figure_7_2():
    assert sorted(PANELS) == list("abcdefghijklm")
    assert (PANELS["d"].slope, PANELS["k"].step, PANELS["m"].n_dims) == (10.0, 5e-3, 100)
    assert [PANELS[name].noise for name in "ghi"] == [1.0, 0.1, 0.01]


def _recovered(name, seed):
    panel = PANELS[name]
    data = make_adaptive_sparse_regression(300, gate=panel.gate, slope=panel.slope, random_state=seed)
    run = recover(data, panel.noise, step=panel.step, turns=40, random_state=10 + seed)
    assert run.losses[-1] < run.losses[0]
    return run.losses[-1], run.distances[-1].max()


def test_recovery_by_sigmoids_is_closer_from_nearby():
    """Section 17.7, panels a to c: less noise shifts the loss down."""
    losses = [_recovered(name, 0)[0] for name in "abc"]
    assert losses[2] < 0.1 * losses[1] < 0.01 * losses[0]


def test_recovery_by_relus_is_closer_in_cosine_than_by_sigmoids():
    """Section 17.7: from the same noise, the median of three worlds."""
    (sigmoid_loss, sigmoid), (relu_loss, relu) = (
        np.median([_recovered(name, seed) for seed in range(3)], axis=0) for name in "ag"
    )
    assert relu_loss < sigmoid_loss
    assert relu < 0.5 * sigmoid


def test_cosine_distances_do_not_see_the_scale_of_a_device():
    truth = SensorWeights.drawn(3, 2, 1, np.random.default_rng(0))
    scale = np.array([0.5, 2.0, 9.0])
    scaled = replace(truth, v=truth.v / scale[:, None, None], w=truth.w * scale[:, None], b=truth.b * scale)
    np.testing.assert_allclose(cosine_distances(scaled, truth), 0, atol=1e-12)
    np.testing.assert_allclose(cosine_distances(replace(truth, v=-truth.v), truth), [2, 0], atol=1e-12)


def test_sampling_gaps_vanish_for_the_whole_sample():
    gaps = sampling_gaps([20, 300], 0.4, reference=300, solver=ProjectedGates(50), random_state=0)
    assert gaps[0] > gaps[1]
    assert gaps[1] == pytest.approx(0, abs=1e-9)  # the same rows in another order


@pytest.fixture(scope="module")
def bodies():
    data = make_body_sensors(1500, random_state=0)
    train = data.groups < 14
    return data, train


def test_votes_are_those_of_nearest_neighbours(bodies):
    data, train = bodies
    vote = SensorVote(data.devices).fit(data.X[train], data.y[train])
    alone = vote.device_predictions(data.X[~train])
    for k in (0, 4):
        single = KNeighborsClassifier(1).fit(data.X[train][:, data.devices[k]], data.y[train])
        np.testing.assert_array_equal(alone[:, k], single.predict(data.X[~train][:, data.devices[k]]))
    most = [np.bincount(row).argmax() for row in alone]
    np.testing.assert_array_equal(vote.predict(data.X[~train]), most)
    assert vote.score(data.X[~train], data.y[~train]) > (alone == data.y[~train][:, None]).mean(axis=0).max()


def test_body_sensors_have_the_shape_of_the_wearable_data():
    data = make_body_sensors(50, random_state=0)
    assert data.X.shape == (50, 5 * 8 * 5)
    assert [part.size for part in data.devices] == [40] * 5
    assert set(make_body_sensors(2000, random_state=1).y) == set(range(13))
    np.testing.assert_array_equal(make_body_sensors(50, random_state=0).X, data.X)
