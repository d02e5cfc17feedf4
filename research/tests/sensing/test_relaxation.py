"""The relaxed form, Frank-Wolfe, and solvers beside each other (adaptive_approximation 17)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from anytime.sensing import DirectGates, SensorNetworkClassifier, SensorNetworkRegressor
from anytime.sensing.problem import SensorGate
from anytime_research.sensing import (
    ProjectedGates,
    RelaxedGates,
    make_adaptive_sparse_regression,
    make_body_sensors,
)
from anytime_research.sensing.frank_wolfe import frank_wolfe, participation_oracle
from anytime_research.sensing.relaxation import participation_gradient, relaxed, relaxed_gradient
from tests.sensing.problems import by_differences, flattened, sensing_problem, shaped


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize("slope", [1.0, 3.0])
def test_relaxed_gradients_are_those_of_finite_differences(loss, slope):
    problem, weights, q = sensing_problem(loss, slope=slope)
    expected = by_differences(
        lambda flat: relaxed(problem, shaped(flat, weights), q, 0.3), flattened(weights)
    )
    if loss == "squared":
        expected[weights.v.size : weights.v.size + weights.a.size] = 0
    np.testing.assert_allclose(
        flattened(relaxed_gradient(problem, weights, q, 0.3)), expected, atol=1e-8, rtol=1e-6
    )
    by_q = by_differences(lambda flat: relaxed(problem, weights, flat.reshape(q.shape), 0.3), q.ravel())
    np.testing.assert_allclose(
        participation_gradient(problem, weights, q, 0.3).ravel(), by_q, atol=1e-8, rtol=1e-6
    )


def test_participation_equal_to_the_gates_diverges_by_nothing():
    problem, weights, q = sensing_problem("squared")
    gates = problem.gate.value(weights.scores(problem.inputs))
    assert relaxed(problem, weights, gates, 5.0) == pytest.approx(problem.direct(weights, 0.0))
    assert relaxed(problem, weights, q, 5.0) > relaxed(problem, weights, q, 0.0)
    with pytest.raises(ValueError, match="has to be 'sigmoid'"):
        relaxed(replace(problem, gate=SensorGate("relu")), weights, q, 1.0)


def test_oracle_fixture_of_section_17_6():
    corner = participation_oracle([[-3, 1, -0.5], [-2, -0.1, 4]], 0.45)
    np.testing.assert_allclose(corner, [[1, 0, 0.7], [1, 0, 0]], atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_the_oracle_solves_the_linear_program(seed, participation):
    slopes = np.random.default_rng(seed).normal(0.3, 1.0, size=(3, 4))
    corner = participation_oracle(slopes, participation)
    best = linprog(slopes.ravel(), A_ub=np.ones((1, 12)), b_ub=[12 * participation], bounds=(0, 1))
    assert np.vdot(slopes, corner) == pytest.approx(best.fun, abs=1e-9)
    assert corner.min() >= 0
    assert corner.max() <= 1
    assert corner.mean() <= participation + 1e-12


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_frank_wolfe_stays_within_the_budget_and_closes_its_gap(loss):
    problem, weights, _ = sensing_problem(loss)
    start = np.full((3, 20), 0.26)

    def slopes(q):
        assert q.mean() <= 0.26 + 1e-12
        assert q.min() >= 0
        assert q.max() <= 1
        return participation_gradient(problem, weights, q, 0.1)

    q, gaps = frank_wolfe(slopes, start, 0.26, n_steps=400)
    values = [relaxed(problem, weights, np.clip(each, 1e-6, 1 - 1e-6), 0.1) for each in (start, q)]
    assert values[1] < values[0]
    assert gaps[-20:].max() < 0.1 * gaps[0]
    # the gap bounds what is left to gain: no other feasible point is lower by more
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = rng.dirichlet(np.ones(60)).reshape(3, 20) * 60 * 0.26
        if other.max() < 1:
            assert relaxed(problem, weights, other, 0.1) >= values[1] - gaps[-1] - 1e-3


def test_the_sources_step_size_is_the_weight_of_the_corner():
    q, _ = frank_wolfe(lambda q: -np.ones_like(q), np.zeros((1, 4)), 0.5, n_steps=1, step=0.01)
    np.testing.assert_allclose(q, [[0.01, 0.01, 0, 0]])
    with pytest.raises(ValueError, match=r"the start has mean 0\.5"):
        frank_wolfe(lambda q: q, np.full((1, 4), 0.5), 0.26, n_steps=1)


@pytest.fixture(scope="module")
def bodies():
    data = make_body_sensors(1500, random_state=0)
    train = data.groups < 14
    return data, train


def trained(data, rows, **settings):
    return SensorNetworkClassifier(costs=data.costs, random_state=0, **settings).fit(
        data.X[rows], data.y[rows]
    )


@pytest.mark.parametrize(
    "solver", [DirectGates(), RelaxedGates(alternations=20, epochs=5, learning_rate=1e-2)]
)
def test_forms_that_keep_to_a_budget_tell_most_activities(bodies, solver):
    """Of 13 activities, where one of five sensors alone, always on, tells less than 40 %."""
    data, train = bodies
    report = trained(data, train, mean_budget=2.0, solver=solver).report(data.X[~train], data.y[~train])
    assert report.participation < 0.45
    assert report.score > 0.6


@pytest.mark.parametrize(
    "solver", [DirectGates(), ProjectedGates(), RelaxedGates(alternations=10, epochs=5, learning_rate=1e-2)]
)
def test_regression_within_a_number_of_sensors(solver):
    data = make_adaptive_sparse_regression(900, 4, 2, slope=5.0, random_state=0)
    network = SensorNetworkRegressor(
        costs=data.costs, mean_budget=2, solver=solver, slope=5.0, random_state=0
    )
    network.fit(data.X[:600], data.y[:600])
    assert network.report(data.X[:600], data.y[:600]).active_sensors <= 2
    assert network.report(data.X[600:], data.y[600:]).score > 0.5
