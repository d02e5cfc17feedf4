"""What the papers' tables read off a curve (linear_and_networks 4.2, 4.4, 9.2; speedboost_and_structured 9.3)."""

import numpy as np
import pytest

from anytime.curves import AnytimeCurve
from anytime_research.curves import (
    at_fraction,
    diminishing_returns_violations,
    error_at_fraction,
    monotonicity_violations,
    plateau_alpha,
    relative_increase,
    stalled_stages,
    value_of_computation,
)
from anytime_research.curves.measures import errors


def test_plateau_alpha():
    """4.2: 95 % is achieved and the next 1 % takes more than 20 % of the cost; without a plateau 1."""
    plateau = AnytimeCurve([0, 10, 20, 60, 100], [0, 0.95, 0.97, 0.98, 1.0])
    assert plateau_alpha(plateau) == 0.97
    assert plateau_alpha(plateau, total_cost=1000) == 1.0
    assert plateau_alpha(AnytimeCurve([0, 50, 100], [0, 0.99, 1.0])) == 0.99
    assert plateau_alpha(AnytimeCurve(np.arange(101), np.arange(101) / 100)) == 1.0


def test_error_at_fractions_of_total_cost():
    """9.2, ResANN50 + AdaLoss: errors at 1/4, 1/2, 3/4 and all of the cost, held between."""
    curve = AnytimeCurve(
        [0, 0.25, 0.5, 0.75, 1.0], [99.9, 54.98, 34.92, 26.59, 24.42], greater_is_better=False
    )
    assert [error_at_fraction(curve, f) for f in (0.25, 0.5, 0.75, 1)] == [54.98, 34.92, 26.59, 24.42]
    assert error_at_fraction(curve, 0.74) == 34.92
    assert at_fraction(curve, 0.2) == 99.9


def test_fraction_of_a_third_is_reached_in_spite_of_rounding():
    curve = AnytimeCurve([0, 0.1, 0.3], [3, 2, 1], greater_is_better=False)
    assert error_at_fraction(curve, 1 / 3) == 2


def test_relative_increase_over_opt():
    """9.1: if OPT has 10 % final error, an increase of 2.73 % is 10.273 %."""
    opt = AnytimeCurve([0, 1], [90, 10.0], greater_is_better=False)
    ada = AnytimeCurve([0, 1], [90, 10.273], greater_is_better=False)
    assert relative_increase(ada, opt) == pytest.approx([0, 2.73])
    accuracy = AnytimeCurve([0, 2], [0.1, 0.8], perfect=1.0)
    assert relative_increase(
        accuracy, AnytimeCurve([0, 1], [0.1, 0.9], perfect=1.0), [0.5, 1, 2]
    ) == pytest.approx([0, 800, 100])


def test_what_breaks_diminishing_returns_is_counted():
    curve = AnytimeCurve([0, 2, 3, 3, 5], [0, 0.4, 0.8, 0.9, 0.8], stages=[0, 1, 2, 3, 4])
    assert diminishing_returns_violations(curve) == 2


def test_stalled_stages_stand_out():
    curve = AnytimeCurve([0, 1, 2, 3], [0, 1, 1.01, 1.5])
    assert stalled_stages(curve).tolist() == [2]


def test_an_error_needs_the_perfect_value():
    with pytest.raises(ValueError, match="perfect="):
        errors(AnytimeCurve([0, 1], [0, 1]))


def test_value_of_computation_and_falls():
    curve = AnytimeCurve([0, 2, 3, 3, 5], [0, 0.4, 0.8, 0.9, 0.8], stages=[0, 1, 2, 3, 4])
    assert value_of_computation(curve) == pytest.approx([0.2, 0.4, np.inf, -0.05, 0])
    assert monotonicity_violations(curve) == 1
    assert monotonicity_violations(curve, tolerance=0.2) == 0


def test_violations_of_a_loss_are_rises():
    assert monotonicity_violations(AnytimeCurve([0, 1, 2], [1, 2, 0.5], greater_is_better=False)) == 1
