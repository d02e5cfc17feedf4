"""Distributed sensing (adaptive_approximation, section 17)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, linprog
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier

from anytime.adaptive.sensing import (
    PANELS,
    Direct,
    Gate,
    Problem,
    Projected,
    Relaxed,
    SensorNetworkClassifier,
    SensorNetworkRegressor,
    SensorVote,
    Weights,
    cosine_distances,
    frank_wolfe,
    hessian,
    least_curvature,
    make_adaptive_sparse_regression,
    make_body_sensors,
    participation_oracle,
    project_scores,
    recover,
    recover_gates,
    sampling_gaps,
    within_participation,
)


def _problem(loss, kind="sigmoid", slope=1.0, n=20, seed=0):
    rng = np.random.default_rng(seed)
    targets = np.eye(4)[rng.integers(4, size=n)] if loss == "cross_entropy" else rng.normal(size=(n, 1))
    inputs = rng.normal(size=(3, n, 2))
    problem = Problem(inputs, targets, rng.normal(size=targets.shape[1]), loss, Gate(kind, slope))
    weights = Weights.drawn(3, 2, targets.shape[1], rng)
    if loss == "cross_entropy":
        weights = replace(weights, a=rng.normal(size=weights.a.shape))
    return problem, weights, rng.uniform(0.05, 0.95, size=(3, n))


def _flat(weights):
    return np.concatenate([array.ravel() for array in weights.arrays])


def _shaped(flat, like):
    parts = np.split(flat, np.cumsum([array.size for array in like.arrays])[:-1])
    return Weights(*(part.reshape(array.shape) for part, array in zip(parts, like.arrays, strict=True)))


def _by_differences(function, at):
    step = 1e-5
    unit = np.eye(at.size)
    return np.array([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in unit])


# ---------------------------------------------------------------------- objectives


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize(("kind", "slope"), [("sigmoid", 1.0), ("sigmoid", 10.0), ("relu", 1.0)])
def test_direct_gradients_are_those_of_finite_differences(loss, kind, slope):
    problem, weights, _ = _problem(loss, kind, slope)
    expected = _by_differences(lambda flat: problem.direct(_shaped(flat, weights), 0.7), _flat(weights))
    found = _flat(problem.direct_gradient(weights, 0.7))
    if loss == "squared":  # no offsets: h = v'x
        expected[weights.v.size : weights.v.size + weights.a.size] = 0
    np.testing.assert_allclose(found, expected, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize("slope", [1.0, 3.0])
def test_relaxed_gradients_are_those_of_finite_differences(loss, slope):
    problem, weights, q = _problem(loss, slope=slope)
    expected = _by_differences(lambda flat: problem.relaxed(_shaped(flat, weights), q, 0.3), _flat(weights))
    if loss == "squared":
        expected[weights.v.size : weights.v.size + weights.a.size] = 0
    np.testing.assert_allclose(
        _flat(problem.relaxed_gradient(weights, q, 0.3)), expected, atol=1e-8, rtol=1e-6
    )
    by_q = _by_differences(lambda flat: problem.relaxed(weights, flat.reshape(q.shape), 0.3), q.ravel())
    np.testing.assert_allclose(
        problem.participation_gradient(weights, q, 0.3).ravel(), by_q, atol=1e-8, rtol=1e-6
    )


def test_the_loss_is_a_negative_log_likelihood():
    """The source prints it with the other sign."""
    problem, weights, q = _problem("cross_entropy")
    answers = problem.answers(weights, q)
    probabilities = np.exp(answers) / np.exp(answers).sum(axis=1, keepdims=True)
    assert problem.mean_loss(answers) == pytest.approx(
        log_loss(problem.targets.argmax(axis=1), probabilities, labels=range(4))
    )
    assert problem.direct(weights, 2.0) - problem.direct(weights, 0.0) == pytest.approx(
        2.0 * problem.gate.value(weights.scores(problem.inputs)).mean()
    )


def test_participation_equal_to_the_gates_diverges_by_nothing():
    problem, weights, q = _problem("squared")
    gates = problem.gate.value(weights.scores(problem.inputs))
    assert problem.relaxed(weights, gates, 5.0) == pytest.approx(problem.direct(weights, 0.0))
    assert problem.relaxed(weights, q, 5.0) > problem.relaxed(weights, q, 0.0)
    with pytest.raises(ValueError, match="has to be 'sigmoid'"):
        replace(problem, gate=Gate("relu")).relaxed(weights, q, 1.0)


@pytest.mark.parametrize("gate", [Gate("sigmoid"), Gate("sigmoid", 10.0), Gate("relu")])
def test_derivatives_of_gates(gate):
    z = np.array([-2.1, -0.3, 0.2, 1.7])
    np.testing.assert_allclose(gate.derivative(z), np.diag(approx_fprime(z, gate.value, 1e-7)), atol=1e-5)
    np.testing.assert_allclose(gate.curvature(z), np.diag(approx_fprime(z, gate.derivative, 1e-7)), atol=1e-4)
    assert (gate.value(z) > (0.5 if gate.kind == "sigmoid" else 0)).tolist() == (z > 0).tolist()


# ---------------------------------------------------------------------- Frank-Wolfe


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
    problem, weights, _ = _problem(loss)
    start = np.full((3, 20), 0.26)

    def slopes(q):
        assert q.mean() <= 0.26 + 1e-12
        assert q.min() >= 0
        assert q.max() <= 1
        return problem.participation_gradient(weights, q, 0.1)

    q, gaps = frank_wolfe(slopes, start, 0.26, n_steps=400)
    values = [problem.relaxed(weights, np.clip(each, 1e-6, 1 - 1e-6), 0.1) for each in (start, q)]
    assert values[1] < values[0]
    assert gaps[-20:].max() < 0.1 * gaps[0]
    # the gap bounds what is left to gain: no other feasible point is lower by more
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = rng.dirichlet(np.ones(60)).reshape(3, 20) * 60 * 0.26
        if other.max() < 1:
            assert problem.relaxed(weights, other, 0.1) >= values[1] - gaps[-1] - 1e-3


def test_the_sources_step_size_is_the_weight_of_the_corner():
    q, _ = frank_wolfe(lambda q: -np.ones_like(q), np.zeros((1, 4)), 0.5, n_steps=1, step=0.01)
    np.testing.assert_allclose(q, [[0.01, 0.01, 0, 0]])
    with pytest.raises(ValueError, match=r"the start has mean 0\.5"):
        frank_wolfe(lambda q: q, np.full((1, 4), 0.5), 0.26, n_steps=1)


# ---------------------------------------------------------------------- projection


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
    weights, inputs = Weights.drawn(3, 4, 1, rng), rng.normal(size=(3, 50, 4))
    w, b = recover_gates(inputs, weights.scores(inputs))
    np.testing.assert_allclose(w, weights.w, atol=1e-10)
    np.testing.assert_allclose(b, weights.b, atol=1e-10)


@given(st.integers(0, 10**6), st.floats(0, 1), st.booleans(), st.booleans())
@settings(deadline=None)
def test_offsets_are_lowered_as_little_as_needed(seed, share, exactly, ties):
    rng = np.random.default_rng(seed)
    weights, inputs = Weights.drawn(2, 3, 1, rng), rng.normal(size=(2, 15, 3))
    if ties:
        inputs = np.repeat(inputs[:, :5], 3, axis=1)
    moved = within_participation(weights, inputs, share, exactly=exactly)
    before, after = int((weights.scores(inputs) > 0).sum()), int((moved.scores(inputs) > 0).sum())
    allowed = int(np.floor(30 * share + 1e-9))
    assert after <= allowed
    assert len(set(np.round(moved.b - weights.b, 12))) == 1
    if not ties:
        assert after == (allowed if exactly else min(before, allowed))


def test_projected_descent_keeps_to_the_budget_and_descends():
    data = make_adaptive_sparse_regression(400, 3, 2, slope=5.0, random_state=0)
    problem, rng = data.problem, np.random.default_rng(1)
    start = Weights.drawn(3, 2, 1, rng)
    found = Projected(300).solve(problem, start, 0.3, rng)
    assert (found.scores(problem.inputs) > 0).mean() <= 0.3
    assert problem.direct(found, 0.0) < problem.direct(within_participation(start, problem.inputs, 0.3), 0.0)


# ---------------------------------------------------------------------- recovery


@pytest.mark.parametrize("gate", ["sigmoid", "relu"])
def test_the_hessian_is_that_of_finite_differences(gate):
    data = make_adaptive_sparse_regression(60, 2, 2, gate=gate, noise=1.0, random_state=0)
    problem = data.problem
    weights = Weights.drawn(2, 2, 1, np.random.default_rng(2))
    keep = np.r_[0:4, 6:12]  # all but the offsets of messages

    def slopes(flat):
        return _flat(problem.direct_gradient(_shaped(flat, weights), 0.0))

    expected = _by_differences(slopes, _flat(weights))[np.ix_(keep, keep)]
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
    elsewhere = Weights.drawn(2, 2, 1, np.random.default_rng(0), 3.0)
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
    truth = Weights.drawn(3, 2, 1, np.random.default_rng(0))
    scale = np.array([0.5, 2.0, 9.0])
    scaled = replace(truth, v=truth.v / scale[:, None, None], w=truth.w * scale[:, None], b=truth.b * scale)
    np.testing.assert_allclose(cosine_distances(scaled, truth), 0, atol=1e-12)
    np.testing.assert_allclose(cosine_distances(replace(truth, v=-truth.v), truth), [2, 0], atol=1e-12)


def test_sampling_gaps_vanish_for_the_whole_sample():
    gaps = sampling_gaps([20, 300], 0.4, reference=300, solver=Projected(50), random_state=0)
    assert gaps[0] > gaps[1]
    assert gaps[1] == pytest.approx(0, abs=1e-9)  # the same rows in another order


# ---------------------------------------------------------------------- estimators


@pytest.fixture(scope="module")
def bodies():
    data = make_body_sensors(1500, random_state=0)
    train = data.groups < 14
    return data, train


@pytest.mark.parametrize("gate", ["sigmoid", "relu"])
@pytest.mark.parametrize("participation", [0.0, 0.26, 0.6, 1.0])
def test_training_keeps_to_the_participation(bodies, gate, participation):
    data, train = bodies
    network = SensorNetworkClassifier(
        data.devices, participation=participation, gate=gate, solver=Direct(epochs=20), random_state=0
    ).fit(data.X[train], data.y[train])
    report = network.report(data.X[train], data.y[train])
    assert report.participation <= participation
    assert report.active_devices == pytest.approx(5 * report.participation)
    assert abs(network.report(data.X[~train], data.y[~train]).participation - report.participation) < 0.1


@pytest.mark.parametrize("solver", [Direct(), Relaxed(alternations=20, epochs=5, learning_rate=1e-2)])
def test_forms_that_keep_to_a_participation_tell_most_activities(bodies, solver):
    """Of 13 activities, where one of five sensors alone, always on, tells less than 40 %."""
    data, train = bodies
    network = SensorNetworkClassifier(data.devices, participation=0.4, solver=solver, random_state=0)
    network.fit(data.X[train], data.y[train])
    report = network.report(data.X[~train], data.y[~train])
    assert report.participation < 0.45
    assert report.score > 0.6


def test_more_participation_is_worth_more(bodies):
    data, train = bodies
    scores = []
    for share in (0.1, 0.3, 1.0):
        network = SensorNetworkClassifier(data.devices, participation=share, random_state=0)
        scores.append(network.fit(data.X[train], data.y[train]).score(data.X[~train], data.y[~train]))
    assert scores[0] + 0.1 < scores[1] < scores[2] - 0.1


def test_a_penalty_on_relu_gates_closes_them(bodies):
    data, train = bodies
    shares = [
        SensorNetworkClassifier(data.devices, solver=Direct(penalty), gate="relu", random_state=0)
        .fit(data.X[train], data.y[train])
        .active(data.X[~train])
        .mean()
        for penalty in (0.1, 2.0, 10.0)
    ]
    assert shares[0] > shares[1] > shares[2]


def test_a_closed_gate_says_nothing_and_looks_at_its_own_columns_only(bodies):
    data, train = bodies
    network = SensorNetworkClassifier(
        data.devices, participation=0.4, solver=Direct(epochs=20), random_state=0
    )
    network.fit(data.X[train], data.y[train])
    X = data.X[~train]
    active = network.active(X)
    changed = X.copy()
    for k, columns in enumerate(data.devices):
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


def test_open_gates_may_count_in_full():
    data = make_adaptive_sparse_regression(300, random_state=0)
    network = SensorNetworkRegressor(data.devices, solver=Direct(epochs=5), random_state=0).fit(
        data.X, data.y
    )
    active, inputs = network.active(data.X), network._inputs(data.X)
    said = network.weights_.messages(inputs)[:, :, 0].T
    gates = network.weights_.scores(inputs).T
    scaled = network.base_ + (active * said / (1 + np.exp(-gates))).sum(axis=1)
    np.testing.assert_allclose(network.predict(data.X), scaled)
    network.set_params(open_gates="whole")
    np.testing.assert_allclose(network.predict(data.X), network.base_ + (active * said).sum(axis=1))


@pytest.mark.parametrize(
    "solver", ["direct", "projected", Relaxed(alternations=10, epochs=5, learning_rate=1e-2)]
)
def test_regression_within_a_number_of_devices(solver):
    data = make_adaptive_sparse_regression(900, 4, 2, slope=5.0, random_state=0)
    network = SensorNetworkRegressor(
        data.devices, max_active_devices=2, solver=solver, slope=5.0, random_state=0
    )
    network.fit(data.X[:600], data.y[:600])
    assert network.report(data.X[:600], data.y[:600]).active_devices <= 2
    assert network.report(data.X[600:], data.y[600:]).score > 0.5
    assert network.score(data.X[600:], data.y[600:]) == pytest.approx(
        network.report(data.X[600:], data.y[600:]).score
    )


def test_one_device_that_always_speaks_is_a_linear_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.logistic(size=800) > 0, "up", "down")
    network = SensorNetworkClassifier(random_state=0).fit(X[:500], y[:500])
    linear = LogisticRegression().fit(X[:500], y[:500])
    assert network.score(X[500:], y[500:]) > linear.score(X[500:], y[500:]) - 0.02
    assert network.decision_function(X).shape == (800,)


def test_devices_of_different_widths_and_a_string_of_classes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] > 0, "a", np.where(X[:, 3] > 0, "b", "c"))
    network = SensorNetworkClassifier([[0], [1, 2, 3]], random_state=0).fit(X, y)
    assert network.weights_.w.shape == (2, 3)
    assert network.score(X, y) > 0.8
    assert network.decision_function(X).shape == (300, 3)


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


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"devices": 3}, "cannot be shared evenly by 3"),
        ({"devices": [[0], [7]]}, "device 1 has the columns"),
        ({"devices": []}, "no device"),
        ({"participation": 1.5}, "lie in"),
        ({"participation": 0.5, "max_active_devices": 1}, "give one"),
        ({"max_active_devices": 3, "devices": 2}, "1.5 of the gates"),
        ({"solver": "magic"}, "solver is 'magic'"),
        ({"solver": "relaxed"}, "needs a participation"),
        ({"solver": "relaxed", "participation": 0.5, "gate": "relu"}, "has to be 'sigmoid'"),
        ({"gate": "step"}, "the gate is 'step'"),
        ({"slope": 0.0}, "slope"),
        ({"open_gates": "half"}, "open_gates"),
    ],
)
def test_wrong_settings_say_what_to_do(setting, match):
    X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(ValueError, match=match):
        SensorNetworkClassifier(**setting).fit(X, y)
