"""Sensors that decide whether to speak (adaptive_approximation 17)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import anytime as at
from anytime.sensing import DirectGates, SensorNetworkClassifier, SensorNetworkRegressor
from anytime.sensing.problem import SensorGate, SensorWeights
from anytime.sensing.solvers import within_participation
from anytime.testing import check_anytime_estimator
from anytime_research.sensing import (
    RelaxedGates,
    make_adaptive_sparse_regression,
    make_body_sensors,
)
from anytime_research.sensing.recovery import curvature
from tests.sensing.problems import by_differences, flattened, sensing_problem, shaped


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize(("kind", "slope"), [("sigmoid", 1.0), ("sigmoid", 10.0), ("relu", 1.0)])
def test_direct_gradients_are_those_of_finite_differences(loss, kind, slope):
    problem, weights, _ = sensing_problem(loss, kind, slope)
    expected = by_differences(lambda flat: problem.direct(shaped(flat, weights), 0.7), flattened(weights))
    found = flattened(problem.direct_gradient(weights, 0.7))
    if loss == "squared":  # no offsets: h = v'x
        expected[weights.v.size : weights.v.size + weights.a.size] = 0
    np.testing.assert_allclose(found, expected, atol=1e-8, rtol=1e-6)


def test_the_loss_is_a_negative_log_likelihood():
    """The source prints it with the other sign."""
    problem, weights, q = sensing_problem("cross_entropy")
    answers = problem.answers(weights, q)
    probabilities = np.exp(answers) / np.exp(answers).sum(axis=1, keepdims=True)
    assert problem.mean_loss(answers) == pytest.approx(
        log_loss(problem.targets.argmax(axis=1), probabilities, labels=range(4))
    )
    assert problem.direct(weights, 2.0) - problem.direct(weights, 0.0) == pytest.approx(
        2.0 * problem.gate.value(weights.scores(problem.inputs)).mean()
    )


@pytest.mark.parametrize("gate", [SensorGate("sigmoid"), SensorGate("sigmoid", 10.0), SensorGate("relu")])
def test_derivatives_of_gates(gate):
    z = np.array([-2.1, -0.3, 0.2, 1.7])
    np.testing.assert_allclose(gate.derivative(z), np.diag(approx_fprime(z, gate.value, 1e-7)), atol=1e-5)
    np.testing.assert_allclose(
        curvature(gate, z), np.diag(approx_fprime(z, gate.derivative, 1e-7)), atol=1e-4
    )
    assert (gate.value(z) > (0.5 if gate.kind == "sigmoid" else 0)).tolist() == (z > 0).tolist()


@given(st.integers(0, 10**6), st.floats(0, 1), st.booleans(), st.booleans())
@settings(deadline=None)
def test_offsets_are_lowered_as_little_as_needed(seed, share, exactly, ties):
    rng = np.random.default_rng(seed)
    weights, inputs = SensorWeights.drawn(2, 3, 1, rng), rng.normal(size=(2, 15, 3))
    if ties:
        inputs = np.repeat(inputs[:, :5], 3, axis=1)
    moved = within_participation(weights, inputs, share, exactly=exactly)
    before, after = int((weights.scores(inputs) > 0).sum()), int((moved.scores(inputs) > 0).sum())
    allowed = int(np.floor(30 * share + 1e-9))
    assert after <= allowed
    assert len(set(np.round(moved.b - weights.b, 12))) == 1
    if not ties:
        assert after == (allowed if exactly else min(before, allowed))


@pytest.fixture(scope="module")
def bodies():
    data = make_body_sensors(1500, random_state=0)
    train = data.groups < 14
    return data, train


def trained(data, rows, **settings):
    return SensorNetworkClassifier(costs=data.costs, random_state=0, **settings).fit(
        data.X[rows], data.y[rows]
    )


@pytest.mark.parametrize("gate", ["sigmoid", "relu"])
@pytest.mark.parametrize("mean_budget", [0.0, 1.3, 3.0, 5.0])
def test_training_keeps_to_the_mean_budget(bodies, gate, mean_budget):
    data, train = bodies
    network = trained(data, train, mean_budget=mean_budget, gate=gate, solver=DirectGates(epochs=20))
    report = network.report(data.X[train], data.y[train])
    assert report.mean_cost <= mean_budget
    assert report.active_sensors == pytest.approx(5 * report.participation) == pytest.approx(report.mean_cost)
    assert abs(network.report(data.X[~train], data.y[~train]).participation - report.participation) < 0.1


def test_dear_sensors_speak_less(bodies):
    data, train = bodies
    dear = at.FeatureCosts(
        groups=data.costs.groups, prices={n: 1.0 + 9.0 * (n == "sensor 0") for n in data.costs.names}
    )
    network = SensorNetworkClassifier(
        costs=dear, mean_budget=2.5, solver=DirectGates(epochs=20), random_state=0
    )
    network.fit(data.X[train], data.y[train])
    assert network.cost(data.X[train]).mean() <= 2.5 + 1e-9
    speaks = dict(zip(network.sensors_, network.active(data.X[train]).mean(axis=0), strict=True))
    same = trained(data, train, mean_budget=2.5, solver=DirectGates(epochs=20))
    before = dict(zip(same.sensors_, same.active(data.X[train]).mean(axis=0), strict=True))
    assert speaks["sensor 0"] < 0.5 * before["sensor 0"]


def test_a_larger_budget_is_worth_more(bodies):
    data, train = bodies
    scores = [
        trained(data, train, mean_budget=b).score(data.X[~train], data.y[~train]) for b in (0.5, 1.5, 5.0)
    ]
    assert scores[0] + 0.1 < scores[1] < scores[2] - 0.1


def test_a_penalty_on_relu_gates_closes_them(bodies):
    data, train = bodies
    shares = [
        trained(data, train, solver=DirectGates(penalty), gate="relu").active(data.X[~train]).mean()
        for penalty in (0.1, 2.0, 10.0)
    ]
    assert shares[0] > shares[1] > shares[2]


def test_a_closed_gate_says_nothing_and_looks_at_its_own_columns_only(bodies):
    data, train = bodies
    network = trained(data, train, mean_budget=2.0, solver=DirectGates(epochs=20))
    X = data.X[~train]
    active = network.active(X)
    changed = X.copy()
    for k, name in enumerate(network.sensors_):
        columns = list(data.costs.groups[name])
        rows = np.flatnonzero(~active[:, k])
        changed[np.ix_(rows, columns)] += 1e-9  # stays closed
        others = X.copy()
        others[:, columns] = 0.0
        np.testing.assert_array_equal(
            np.delete(network.active(others), k, axis=1), np.delete(active, k, axis=1)
        )
    np.testing.assert_array_equal(network.predict_proba(changed), network.predict_proba(X))
    nobody = ~active.any(axis=1)
    assert nobody.any()
    shares = np.bincount(data.y[train]) / train.sum()
    np.testing.assert_allclose(network.predict_proba(X[nobody]), np.tile(shares, (nobody.sum(), 1)))
    assert (network.cost(X[nobody]) == 0).all()


def test_open_gates_may_count_in_full():
    data = make_adaptive_sparse_regression(300, random_state=0)
    settings = {"costs": data.costs, "solver": DirectGates(epochs=5), "random_state": 0}
    for whole in (False, True):
        network = SensorNetworkRegressor(open_gates="whole" if whole else "scaled", **settings).fit(
            data.X, data.y
        )
        expected = np.full(len(data.X), network.plan_.base[0])
        for block in network.plan_.blocks:
            z, said = block.score.outputs(0, data.X)[:, 0], block.message.outputs(0, data.X)[:, 0]
            expected += np.where(z > 0, said if whole else said / (1 + np.exp(-z)), 0.0)
        np.testing.assert_allclose(network.predict(data.X), expected)


def test_one_sensor_that_always_speaks_is_a_linear_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.logistic(size=800) > 0, "up", "down")
    one = at.FeatureCosts(groups={"all": [0, 1, 2]}, prices={"all": 1.0})
    network = SensorNetworkClassifier(costs=one, random_state=0).fit(X[:500], y[:500])
    linear = LogisticRegression().fit(X[:500], y[:500])
    assert network.score(X[500:], y[500:]) > linear.score(X[500:], y[500:]) - 0.02
    assert network.decision_function(X).shape == (800,)


def test_sensors_of_different_widths_and_a_string_of_classes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] > 0, "a", np.where(X[:, 3] > 0, "b", "c"))
    costs = at.FeatureCosts(groups={"left": [0], "right": [1, 2, 3]}, prices={"left": 1.0, "right": 2.0})
    network = SensorNetworkClassifier(costs=costs, random_state=0).fit(X, y)
    assert sorted(network.sensors_) == ["left", "right"]
    assert network.score(X, y) > 0.8
    assert network.decision_function(X).shape == (300, 3)


def test_a_budget_hears_sensors_in_the_order_of_the_plan_until_money_ends(bodies):
    data, train = bodies
    network, X = trained(data, train, solver=DirectGates(epochs=20)), data.X[~train]
    active = network.active(X)
    within = active & (np.cumsum(active, axis=1) <= 2)
    expected = network.plan_.base + sum(
        np.where(within[:, [k]], block.outputs(0, X), 0.0) for k, block in enumerate(network.plan_.blocks)
    )
    np.testing.assert_allclose(network.decision_function(X, budget=2), expected)
    np.testing.assert_array_equal(network.cost(X, budget=2), within.sum(axis=1))
    np.testing.assert_array_equal(network.cost(X), active.sum(axis=1))


def test_a_file_gives_the_same_answers(bodies, tmp_path):
    data, train = bodies
    network = trained(data, train, mean_budget=2.0, solver=DirectGates(epochs=5))
    network.save(tmp_path / "network.anytime")
    again = at.load(tmp_path / "network.anytime")
    np.testing.assert_array_equal(again.predict_proba(data.X), network.predict_proba(data.X))
    np.testing.assert_array_equal(again.cost(data.X), network.cost(data.X))


def test_class_weights_count_like_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 1).astype(int)
    settings = {"solver": DirectGates(epochs=10), "random_state": 0}
    weighted = SensorNetworkClassifier(class_weight={0: 1, 1: 4}, **settings).fit(X, y)
    counted = SensorNetworkClassifier(**settings).fit(X, y, sample_weight=np.where(y == 1, 4.0, 1.0))
    np.testing.assert_array_equal(weighted.predict_proba(X), counted.predict_proba(X))
    assert weighted.predict(X).mean() > SensorNetworkClassifier(**settings).fit(X, y).predict(X).mean()


@pytest.mark.parametrize("model", [SensorNetworkClassifier, SensorNetworkRegressor])
def test_it_is_an_anytime_estimator(model):
    check_anytime_estimator(model(solver=DirectGates(epochs=5), random_state=0))


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        (
            {"costs": at.FeatureCosts(groups={"a": [0, 1, 2, 3], "b": []}, prices={"a": 1, "b": 1})},
            "no columns",
        ),
        (
            {
                "costs": at.FeatureCosts(
                    groups={"a": [0], "b": [1, 2, 3]}, prices={"a": 1, "b": 1}, requires={"b": ["a"]}
                )
            },
            "require",
        ),
        ({"mean_budget": -1.0}, "mean_budget"),
        ({"solver": "magic"}, "solver"),
        ({"solver": RelaxedGates()}, "needs a mean_budget"),
        ({"solver": RelaxedGates(), "mean_budget": 2, "costs": [1, 2, 3, 4]}, "one price"),
        ({"solver": RelaxedGates(), "mean_budget": 2, "gate": "relu"}, "has to be 'sigmoid'"),
        ({"gate": "step"}, "gate"),
        ({"slope": 0.0}, "slope"),
        ({"open_gates": "half"}, "open_gates"),
    ],
)
def test_wrong_settings_say_what_to_do(setting, match):
    X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(ValueError, match=match):
        SensorNetworkClassifier(**setting).fit(X, y)
