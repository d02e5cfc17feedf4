"""Golden orders and numbers: linear_and_networks 11, functional_gradient_and_greedy G6.

Each is run twice: from moments alone, and from rows that have exactly these moments.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import anytime as at
from anytime.curves import AnytimeCurve
from anytime.greedy import spectral_gamma
from anytime.linear.pursuit import GroupedProblem, PursuitOracle
from anytime_research.greedy import elementwise_ratio, submodularity_ratio
from tests.reference.greedy import least_squares
from tests.reference.linear import rows_with_moments

PRINTED = 5e-7  # half of the last printed digit

E1_C = np.eye(7)
E1_C[:3, :3] = 0.9 + 0.1 * np.eye(3)
E1_V = np.array([0.5, 0.5, 0.5, 0.45, 0.45, 0.3, 0.2])
E1_COSTS = at.FeatureCosts(
    {"0": 1.0, "1": 1.0, "2": 0.5, "3": 0.1}, groups={"0": [0, 1, 2], "1": [3, 4], "2": [5], "3": [6]}
)
OMP_LIKE = (
    "1302",
    [1, 1.1, 2.1, 2.6],
    [0.405, 0.445, 0.712857, 0.802857],
    (0.462637, 0.323819),
    (0.392347, 0.231190),
)
# settings, then: order, cumulative cost, F/R(∅), 1-timeliness and 0.85-timeliness (trapezoid, step)
E1 = {
    "CS-G-OMP": ({"selection": "omp"}, *OMP_LIKE),
    "CS-G-OMP in criterion": ({"selection": "omp", "whiten": "criterion"}, *OMP_LIKE),
    "CS-G-FR": ({"selection": "forward"}, *OMP_LIKE),
    "no-whiten": (
        {"selection": "omp", "whiten": False},
        "0132",
        [1, 2, 2.1, 2.6],
        [0.267857, 0.672857, 0.712857, 0.802857],
        (0.404808, 0.265989),
        (0.320748, 0.159592),
    ),
    "Single": (
        {"selection": "single"},
        "3012",
        [0.1, 1.1, 2.1, 2.6],
        [0.04, 0.307857, 0.712857, 0.802857],
        (0.409698, 0.270879),
        (0.326803, 0.165646),
    ),
    "G-OMP": (
        {"selection": "omp", "cost_aware": False},
        "1023",
        [1, 2, 2.5, 2.6],
        [0.405, 0.672857, 0.762857, 0.802857],
        (0.453324, 0.314505),
        (0.385531, 0.224898),
    ),
}


def fitted(kind, C, v, power=1.0, **settings):
    """A regressor from moments, or from rows with these moments; and the rows."""
    X, y = rows_with_moments(C, v, power, n=40)
    model = at.GroupPursuitRegressor(**{"l2_regularization": 0.0, **settings})
    if kind == "moments":
        return model.fit_moments(C, v, target_variance=power), X, y
    return model.fit(X, y), X, y


def explained(model):
    """F / R(∅) after each stage."""
    return model.certificate_.reached(model.stage_costs_)


kinds = pytest.mark.parametrize("kind", ["moments", "rows"])


# ---------------------------------------------------------------------- E1


def e1_curve(method, kind):
    """The curve that a user would draw: R² of the model's own predictions, on the rows."""
    model, X, y = fitted(kind, E1_C, E1_V, costs=E1_COSTS, **E1[method][0])
    return at.curve(model, X, y, label=method)


@kinds
@pytest.mark.parametrize("method", E1)
def test_e1_order_cost_and_objective(method, kind):
    settings, order, costs, objective, *_ = E1[method]
    model, X, y = fitted(kind, E1_C, E1_V, costs=E1_COSTS, **settings)
    assert "".join(model.order_) == order
    assert_allclose(model.stage_costs_, costs)
    assert_allclose(explained(model), objective, atol=PRINTED, rtol=0)
    scores = [model.score(X, y, budget=b) for b in costs]
    assert_allclose(scores, explained(model), atol=1e-12)  # R² of the answers is what the objective says


@kinds
@pytest.mark.parametrize("method", E1)
def test_e1_one_timeliness(method, kind):
    trapezoid, step = E1[method][4]
    curve = e1_curve(method, kind)
    assert curve.timeliness() == pytest.approx(trapezoid, abs=PRINTED)
    assert curve.timeliness(rule="step") == pytest.approx(step, abs=PRINTED)


@kinds
@pytest.mark.parametrize("method", E1)
def test_e1_085_timeliness_is_cut_at_the_stopping_cost_of_cs_g_omp(method, kind):
    trapezoid, step = E1[method][5]
    stop = e1_curve("CS-G-OMP", kind).stopping_cost(0.85)
    assert stop == pytest.approx(2.1)
    curve = e1_curve(method, kind)
    assert curve.timeliness(stop_cost=stop) == pytest.approx(trapezoid, abs=PRINTED)
    assert curve.timeliness(stop_cost=stop, rule="step") == pytest.approx(step, abs=PRINTED)


@kinds
def test_e1_oracle_of_the_single_curve_is_the_cs_g_omp_curve(kind):
    oracle, target = e1_curve("Single", kind).oracle(), e1_curve("CS-G-OMP", kind)
    assert_allclose(oracle.costs, target.costs, atol=1e-12)
    assert_allclose(oracle.values, target.values, atol=1e-12)


def test_e1_scores_and_least_eigenvalue():
    """The three rows of numbers above the table, as the engine has them, doubled: it scores in units of F."""
    start = np.array([0, 3, 5, 6, 7])
    problem = GroupedProblem(E1_C, E1_V[:, None], start)
    for criterion, expected in {
        "omp": [0.267857, 0.405, 0.09, 0.04],
        "forward": [0.267857, 0.405, 0.09, 0.04],
        "norm": [0.75, 0.405, 0.09, 0.04],
        "single": [0.25, 0.2025, 0.09, 0.04],
        "forward_single": [0.25, 0.2025, 0.09, 0.04],
    }.items():
        found = 2 * PursuitOracle(problem, criterion).gains(np.arange(4))
        assert_allclose(found, expected, atol=PRINTED)
    assert np.linalg.eigvalsh(E1_C)[0] == pytest.approx(0.1)


@kinds
def test_e1_doubling_is_capable_from_a_first_price_of_1_and_stuck_at_once_from_less(kind):
    """Below 1 it begins with group 3, whose price of 0.1 buys nothing else."""
    settings = {"costs": E1_COSTS, "selection": "forward", "schedule": "doubling"}
    auto, *_ = fitted(kind, E1_C, E1_V, **settings)
    assert (auto.certificate_.selection.c_min, auto.certificate_.selection.stuck_at) == (1.0, None)
    assert "".join(auto.order_) == "1302"
    early, *_ = fitted(kind, E1_C, E1_V, c_min=0.5, **settings)
    assert (early.certificate_.selection.c_min, early.certificate_.selection.stuck_at) == (0.5, 2)
    assert "".join(early.order_) == "3210"


# ---------------------------------------------------------------------- E2, E4, E7, E8


@kinds
@pytest.mark.parametrize("whiten", ["data", "criterion"])
def test_e2_omp_and_forward_regression_differ(kind, whiten):
    C, v = [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], [0.6, 0.5, 0.08]
    omp, *_ = fitted(kind, C, v, selection="omp", whiten=whiten)
    forward, *_ = fitted(kind, C, v, selection="forward", whiten=whiten)
    assert omp.order_ == ["x0", "x2", "x1"]
    assert forward.order_ == ["x0", "x1", "x2"]
    assert_allclose(omp.certificate_.selection.values, [0.18, 0.1832, 0.1874105], atol=5e-8)
    assert_allclose(forward.certificate_.selection.values, [0.18, 0.1842105, 0.1874105], atol=5e-8)


@kinds
def test_e4_a_suppressor_is_bought_last_and_gains_0_18_there(kind):
    C, v = np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([0.0, 0.8])
    for selection in ("omp", "forward"):
        model, *_ = fitted(kind, C, v, selection=selection)
        assert model.order_ == ["x1", "x0"]
        assert_allclose(model.certificate_.selection.values, [0.32, 0.5], atol=1e-12)
        assert model.certificate_.gamma == pytest.approx(0.4)  # spectral, whatever the elementwise ratio
    table = least_squares(C, v)
    assert_allclose(table, [0.0, 0.0, 0.32, 0.5], atol=1e-15)
    assert elementwise_ratio(table) == 0.0
    assert spectral_gamma(C) == pytest.approx(0.4)
    assert submodularity_ratio(table) >= 0.4


@kinds
def test_e7_the_oracle_of_a_model_that_buys_the_wrong_column_first(kind):
    """Increments (.2, cost 2) and (.3, cost 1) in this order: the oracle of that curve is (0,0), (1,.3), (3,.5)."""
    C, v = np.eye(2), np.sqrt([0.3, 0.2])
    costs = at.FeatureCosts([2.0, 1.0])
    right, X, y = fitted(kind, C, np.sqrt([0.2, 0.3]), costs=costs, selection="forward")
    assert right.order_ == ["x1", "x0"]
    curve = at.curve(right, X, y)
    assert_allclose([curve.costs, curve.values], [[0, 1, 3], [0, 0.3, 0.5]], atol=1e-12)
    source = AnytimeCurve([0, 2, 3], [0, 0.2, 0.5])
    assert_allclose(source.oracle().values, curve.values, atol=1e-12)
    assert_allclose(source.oracle().costs, curve.costs, atol=1e-12)
    blind, X, y = fitted(kind, C, v, costs=costs, selection="forward", cost_aware=False)
    assert blind.order_ == ["x0", "x1"]


@kinds
def test_e8_timeliness_of_a_model_with_the_curve_of_the_example(kind):
    """(0,0), (1,.6), (3,.8): trapezoid 1.7/3, step 1.2/3, by the final objective 1.7/2.4."""
    model, X, y = fitted(kind, np.eye(2), np.sqrt([0.6, 0.2]), costs=[1.0, 2.0])
    curve = at.curve(model, X, y)
    assert_allclose([curve.costs, curve.values], [[0, 1, 3], [0, 0.6, 0.8]], atol=1e-12)
    assert curve.timeliness() == pytest.approx(0.566667, abs=PRINTED)
    assert curve.timeliness(rule="step") == pytest.approx(0.4)
    assert curve.timeliness(normalise="final_objective") == pytest.approx(0.708333, abs=PRINTED)


# ---------------------------------------------------------------------- G6


G6_LARGEST = np.eye(5), np.array([0.7, 0.49, 0.49, 0.49, 0.49]), {"A": [0], "B": [1, 2, 3, 4]}
G6_SUM = np.eye(12), np.full(12, 0.5), {"A": list(range(9)), "B": [9, 10, 11]}
G6_SUM[0][:9, :9] = 1.0


def scores_of(C, v, groups, l2_regularization, whitened, criterion):
    start = np.cumsum([0, *(len(columns) for columns in groups.values())])
    problem = GroupedProblem.from_moments(C, v[:, None], start, l2_regularization, whitened=whitened)
    return PursuitOracle(problem, criterion).gains(np.arange(len(groups)))


@kinds
def test_g6_the_largest_single_correlation_picks_the_wrong_group(kind):
    """The target needs a variance of 2 for such correlations to be possible."""
    C, v, groups = G6_LARGEST
    costs = at.FeatureCosts({"A": 1.0, "B": 1.0}, groups=groups)
    assert_allclose(2 * scores_of(C, v, groups, 0.0, True, "single"), [0.49, 0.2401])
    assert_allclose(scores_of(C, v, groups, 0.0, True, "forward"), [0.245, 0.4802])
    for selection, first in {"single": "A", "forward_single": "A", "omp": "B", "forward": "B"}.items():
        model, *_ = fitted(kind, C, v, 2.0, costs=costs, selection=selection)
        assert model.order_[0] == first
        # in units of a target of variance 1
        assert model.certificate_.selection.values[0] == pytest.approx({"A": 0.245, "B": 0.4802}[first] / 2)


@kinds
def test_g6_the_sum_of_squared_correlations_picks_the_wrong_group(kind):
    C, v, groups = G6_SUM
    costs = at.FeatureCosts({"A": 1.0, "B": 1.0}, groups=groups)
    assert_allclose(2 * scores_of(C, v, groups, 1e-3, False, "norm"), [2.25, 0.75])
    assert_allclose(2 * scores_of(C, v, groups, 1e-3, False, "omp"), [0.24997, 0.74925], atol=5e-6)
    assert_allclose(scores_of(C, v, groups, 1e-3, False, "forward"), [0.12499, 0.37463], atol=5e-6)
    wrong, *_ = fitted(kind, C, v, costs=costs, l2_regularization=1e-3, whiten=False)
    right, *_ = fitted(kind, C, v, costs=costs, l2_regularization=1e-3, whiten="criterion")
    assert wrong.order_ == ["A", "B"]
    assert right.order_ == ["B", "A"]
    assert_allclose(wrong.certificate_.selection.values[0], 0.12499, atol=5e-6)
    assert_allclose(right.certificate_.selection.values[0], 0.37463, atol=5e-6)
    white, *_ = fitted(
        kind, C, v, costs=costs, l2_regularization=1e-3
    )  # ridge on whitened weights: one direction of nine
    assert white.order_ == ["B", "A"]
    assert_allclose(white.certificate_.selection.values, [0.75 / 2.002, 1.0 / 2.002])
