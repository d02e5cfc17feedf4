"""Golden numbers: linear_and_networks 4.2, 4.4, 9.2, 11, E1, E7, E8."""

import numpy as np
import pytest

from anytime.curves import AnytimeCurve

GAIN = {0: 0.75 / 2.8, 1: 0.405, 2: 0.09, 3: 0.04}  # whitened scores: F is modular across E1's groups
PRICE = {0: 1.0, 1: 1.0, 2: 0.5, 3: 0.1}

# method: order, F/R(∅), 1-timeliness (trapezoid, step), 0.85-timeliness at stop 2.1 (trapezoid, step)
E1 = {
    "CS-G-OMP": (
        [1, 3, 0, 2],
        [0.405, 0.445, 0.712857, 0.802857],
        (0.462637, 0.323819),
        (0.392347, 0.231190),
    ),
    "no-whiten": (
        [0, 1, 3, 2],
        [0.267857, 0.672857, 0.712857, 0.802857],
        (0.404808, 0.265989),
        (0.320748, 0.159592),
    ),
    "Single": (
        [3, 0, 1, 2],
        [0.04, 0.307857, 0.712857, 0.802857],
        (0.409698, 0.270879),
        (0.326803, 0.165646),
    ),
    "G-OMP": (
        [1, 0, 2, 3],
        [0.405, 0.672857, 0.762857, 0.802857],
        (0.453324, 0.314505),
        (0.385531, 0.224898),
    ),
}
PRINTED = 5e-7  # half of the last printed digit


def e1_curve(method):
    order, printed, *_ = E1[method]
    values = np.cumsum([0, *(GAIN[g] for g in order)])
    np.testing.assert_allclose(values[1:], printed, atol=PRINTED, rtol=0)
    return AnytimeCurve(np.cumsum([0, *(PRICE[g] for g in order)]), values, perfect=1.0, label=method)


@pytest.mark.parametrize("method", E1)
def test_e1_one_timeliness(method):
    trapezoid, step = E1[method][2]
    curve = e1_curve(method)
    assert curve.timeliness() == pytest.approx(trapezoid, abs=PRINTED)
    assert curve.timeliness(rule="step") == pytest.approx(step, abs=PRINTED)


@pytest.mark.parametrize("method", E1)
def test_e1_085_timeliness_is_cut_at_the_stopping_cost_of_cs_g_omp(method):
    trapezoid, step = E1[method][3]
    stop = e1_curve("CS-G-OMP").stopping_cost(0.85)
    assert stop == pytest.approx(2.1)
    assert e1_curve(method).timeliness(stop_cost=stop) == pytest.approx(trapezoid, abs=PRINTED)
    assert e1_curve(method).timeliness(stop_cost=stop, rule="step") == pytest.approx(step, abs=PRINTED)


def test_e1_alpha_is_short_for_the_own_stopping_cost():
    curve = e1_curve("CS-G-OMP")
    assert curve.timeliness(0.85) == curve.timeliness(stop_cost=curve.stopping_cost(0.85))
    assert curve.timeliness(0.0) == 0.0


def test_e1_order_matters_negative_control():
    """3.7: the four methods buy the same groups; only the order, and so the timeliness, differs."""
    ranking = sorted(E1, key=lambda m: -e1_curve(m).timeliness())
    assert ranking == ["CS-G-OMP", "G-OMP", "Single", "no-whiten"]


def test_e1_oracle_of_single_is_the_cs_g_omp_curve():
    oracle, target = e1_curve("Single").oracle(), e1_curve("CS-G-OMP")
    np.testing.assert_allclose(oracle.costs, target.costs, atol=1e-12)
    np.testing.assert_allclose(oracle.values, target.values, atol=1e-12)


def test_e7_oracle():
    oracle = AnytimeCurve([0, 2, 3], [0, 0.2, 0.5]).oracle()
    assert oracle.costs.tolist() == [0, 1, 3]
    assert oracle.values == pytest.approx([0, 0.3, 0.5])


def test_e8_timeliness():
    curve = AnytimeCurve([0, 1, 3], [0, 0.6, 0.8])
    assert curve.timeliness(initial_risk=1.0) == pytest.approx(1.7 / 3)
    assert curve.timeliness(initial_risk=1.0) == pytest.approx(0.566667, abs=5e-7)
    assert curve.timeliness(initial_risk=1.0, rule="step") == pytest.approx(0.4)
    assert curve.timeliness(normalise="final_objective") == pytest.approx(0.708333, abs=5e-7)
    assert curve.timeliness(normalise="none") == pytest.approx(1.7)


@pytest.mark.parametrize(("start", "sign", "perfect"), [(0.5, 1, 1.5), (1.0, -1, 0.0), (-3.0, 1, -2.0)])
def test_e8_holds_for_any_metric_as_improvement_over_the_start(start, sign, perfect):
    """A loss that falls, or an accuracy that begins above 0, by as much as E8's objective rises has E8's timeliness."""
    values = start + sign * np.array([0, 0.6, 0.8])
    curve = AnytimeCurve([0, 1, 3], values, greater_is_better=sign > 0, perfect=perfect)
    assert curve.timeliness() == pytest.approx(1.7 / 3)
    assert curve.timeliness(rule="step") == pytest.approx(0.4)
    assert curve.timeliness(normalise="final_objective") == pytest.approx(1.7 / 2.4)


def test_oracle_curves_normalised_by_the_final_objective_reach_half_of_alpha():
    """4.2, the argument for the default normaliser: a concave curve cut at α has at least α/2 by its own end."""
    for method in E1:
        oracle = e1_curve(method).oracle()
        for alpha in (0.85, 0.97, 0.99, 1.0):
            assert oracle.timeliness(alpha, normalise="final_objective") >= alpha / 2
