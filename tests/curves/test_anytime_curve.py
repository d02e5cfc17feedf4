import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anytime.curves import AnytimeCurve
from anytime.curves.areas import area_between

FAST = settings(max_examples=60, deadline=None)


@st.composite
def curves(draw, min_size=1, first_cost=None):
    """Curves with free stages, falls and either direction; quarters, so that sums are exact."""
    m = draw(st.integers(min_size, 12))
    quarters = st.integers(0, 12).map(lambda k: k / 4)
    steps = draw(st.lists(quarters, min_size=m, max_size=m))
    if first_cost is not None:
        steps[0] = first_cost
    values = draw(st.lists(st.integers(-20, 20).map(lambda k: k / 4), min_size=m, max_size=m))
    return AnytimeCurve(np.cumsum(steps), values, greater_is_better=draw(st.booleans()))


@FAST
@given(curves(), st.floats(0, 60))
def test_at_is_the_last_value_with_cost_within_budget(curve, budget):
    within = [v for c, v in zip(curve.costs, curve.values, strict=True) if c <= budget]
    np.testing.assert_equal(curve.at(budget), within[-1] if within else np.nan)


@FAST
@given(curves())
def test_at_counts_a_stage_from_exactly_its_cost(curve):
    for c in np.unique(curve.costs):
        last = np.flatnonzero(curve.costs == c)[-1]
        assert curve.at(float(c)) == curve.values[last]
    assert np.asarray(curve.at([0.0, np.inf])).shape == (2,)
    assert curve.at(np.inf) == curve.final


@FAST
@given(curves(), st.integers(-24, 24))
def test_cost_to_reach_is_the_least_cost_that_reaches(curve, quarters):
    target = quarters / 4
    cost = curve.cost_to_reach(target)
    good = [c for c in curve.costs if curve.sign * curve.at(c) >= curve.sign * target]
    assert cost == min(good, default=np.inf)


def test_a_free_stage_that_no_budget_ends_at_reaches_nothing():
    curve = AnytimeCurve([0, 1, 1, 2], [0, 0.9, 0.5, 0.8])
    assert curve.cost_to_reach(0.85) == np.inf
    assert curve.cost_to_reach(0.7) == 2
    assert curve.stopping_cost(1.0) == 2
    assert curve.held.tolist() == [True, False, True, True]


@FAST
@given(curves(first_cost=0.0))
def test_oracle_is_concave_ends_alike_and_is_never_below(curve):
    oracle = curve.oracle()
    assert oracle.total_cost == curve.total_cost
    assert oracle.final == pytest.approx(curve.final)
    paid = np.diff(oracle.costs) > 0
    slopes = np.diff(oracle.improvement())[paid] / np.diff(oracle.costs)[paid]
    assert (np.diff(slopes) <= 1e-9).all()
    for c in np.unique(np.concatenate([curve.costs, oracle.costs, np.linspace(0, curve.total_cost, 7)])):
        assert _linear(oracle, c) >= _linear(curve, c) - 1e-9


def _linear(curve, cost):
    """Improvement on the straight lines between the last points of each cost."""
    last = np.append(np.diff(curve.costs) > 0, True)
    return np.interp(cost, curve.costs[last], curve.improvement()[last])


@FAST
@given(curves(first_cost=0.0))
def test_timeliness_of_the_oracle_is_at_least_that_of_the_source(curve):
    kwargs = {"normalise": "none", "rule": "trapezoid"}
    merged = np.append(np.diff(curve.costs) > 0, True)  # free stages belong to the purchase before them
    source = AnytimeCurve(
        np.insert(curve.costs[merged], 0, 0.0),
        np.insert(curve.values[merged], 0, curve.values[0]),
        greater_is_better=curve.greater_is_better,
    )
    assert curve.oracle().timeliness(**kwargs) >= source.timeliness(**kwargs) - 1e-9


def test_oracle_keeps_free_stages_with_the_purchase_before_them():
    curve = AnytimeCurve([0, 0, 2, 2, 3], [0, 0.1, 0.2, 0.5, 0.6])
    oracle = curve.oracle()
    assert oracle.costs.tolist() == [0, 0, 2, 3]
    assert oracle.values == pytest.approx([0, 0.1, 0.5, 0.6])


@FAST
@given(curves(first_cost=0.0), st.floats(0, 1), st.sampled_from(["step", "trapezoid"]))
def test_area_is_additive(curve, share, rule):
    middle = share * curve.total_cost
    parts = curve.area(0, middle, rule=rule) + curve.area(middle, curve.total_cost, rule=rule)
    assert parts == pytest.approx(curve.area(rule=rule), abs=1e-9)


@FAST
@given(curves(first_cost=0.0), st.floats(0, 30), st.floats(0, 30))
def test_step_area_is_the_integral_of_at(curve, a, b):
    low, high = sorted((a, b))
    knots = np.unique(np.concatenate([[low, high], curve.costs[(curve.costs > low) & (curve.costs < high)]]))
    expected = sum(w * curve.at(c) for c, w in zip(knots[:-1], np.diff(knots), strict=True))
    assert curve.area(low, high) == pytest.approx(expected, abs=1e-9)


def test_last_value_is_held_beyond_the_end():
    curve = AnytimeCurve([0, 1], [0, 1.0], perfect=1.0)
    assert curve.area(0, 3) == 2.0
    assert curve.area(0, 3, rule="trapezoid") == 2.5
    assert curve.timeliness(stop_cost=4, rule="step") == 0.75


def test_a_first_answer_that_is_not_free_needs_a_start():
    curve = AnytimeCurve([5], [0.9], perfect=1.0)
    assert np.isnan(curve.at(4.9))
    with pytest.raises(ValueError, match="no answer at cost 0"):
        curve.area(0, 10)
    assert curve.area(0, 10, start=0.5) == pytest.approx(5 * 0.5 + 5 * 0.9)
    assert curve.timeliness(stop_cost=10, rule="step", start=0.5) == pytest.approx(0.4)


def test_timeliness_of_the_whole_curve_includes_its_plateau():
    flat = AnytimeCurve([0, 1, 9], [0, 0.5, 0.5], perfect=1.0)
    assert flat.stopping_cost(1.0) == 1.0
    assert flat.timeliness() == flat.timeliness(stop_cost=9.0) != flat.timeliness(stop_cost=1.0)


def test_timeliness_is_nan_when_there_was_nothing_to_improve():
    assert np.isnan(AnytimeCurve([0, 1], [1.0, 1.0], perfect=1.0).timeliness())
    assert np.isnan(AnytimeCurve([0, 1], [1.0, 0.5]).timeliness(normalise="final_objective"))


def test_curve_is_frozen_and_copies():
    costs = np.array([0.0, 1.0])
    curve = AnytimeCurve(costs, [0, 1])
    costs[1] = 7
    assert curve.costs[1] == 1
    with pytest.raises(ValueError, match="read-only"):
        curve.values[0] = 3
    with pytest.raises(AttributeError):
        curve.metric = "x"


def test_to_frame():
    frame = AnytimeCurve(
        [0, 1], [0.5, 0.9], metric="accuracy", times=[0, 1e-3], band=([0.4, 0.8], [0.6, 1])
    ).to_frame()
    assert list(frame.columns) == ["stage", "cost", "accuracy", "low", "high", "time"]
    assert frame["accuracy"].tolist() == [0.5, 0.9]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AnytimeCurve([], []), "at least one point"),
        (lambda: AnytimeCurve([0, 2, 1], [1, 2, 3]), r"costs\[2\] = 1 follows costs\[1\] = 2; sort"),
        (lambda: AnytimeCurve([-1, 2], [1, 2]), "not be negative"),
        (lambda: AnytimeCurve([0, 1], [1, np.nan]), r"values\[1\] is not"),
        (lambda: AnytimeCurve([0, np.inf], [1, 2]), "costs must be finite"),
        (lambda: AnytimeCurve([0, 1], [1]), "values has 1 entries, but the curve has 2"),
        (lambda: AnytimeCurve([0, 1], [1, 2], times=[1]), "times has 1 entries"),
        (lambda: AnytimeCurve([[0, 1]], [1, 2]), "must be a vector"),
        (lambda: AnytimeCurve([0], [1]).at(np.nan), "budget is NaN"),
        (lambda: AnytimeCurve([0, 1], [0, 1]).timeliness(), "initial_risk="),
        (lambda: AnytimeCurve([0, 1], [0, 1]).timeliness(normalise="risk"), "normalise must be"),
        (lambda: AnytimeCurve([0, 1], [0, 1]).timeliness(normalise="none", rule="simpson"), "rule must be"),
        (lambda: AnytimeCurve([0, 1], [0, 1]).stopping_cost(1.5), "alpha must lie between 0 and 1"),
        (lambda: AnytimeCurve([0, 1], [0, 1]).area(1, 0), "low ≤ high"),
    ],
)
def test_malformed_input_says_what_is_wrong(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@FAST
@given(curves(first_cost=0.0))
def test_trapezoid_equals_numpy(curve):
    expected = np.trapezoid(curve.values, curve.costs)
    assert area_between(curve.costs, curve.values, 0, curve.total_cost, "trapezoid") == pytest.approx(
        expected, abs=1e-9
    )
