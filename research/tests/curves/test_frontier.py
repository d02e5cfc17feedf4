import numpy as np
import pytest

from anytime.curves import AnytimeCurve
from anytime_research.curves import select_on_validation, upper_envelope, worst_ratio


def test_choice_is_made_on_validation_alone():
    """Two models that are equal but for noise: the test value of the chosen one is not the best test value."""
    val = {"a": AnytimeCurve([0, 1], [0.5, 0.8]), "b": AnytimeCurve([0, 1], [0.5, 0.7])}
    test = {"a": AnytimeCurve([0, 1], [0.5, 0.6]), "b": AnytimeCurve([0, 1], [0.5, 0.9])}
    chosen = select_on_validation(val, test)
    assert chosen.models == ("a", "a")
    assert chosen.test.values.tolist() == [0.5, 0.6]
    assert chosen.validation.values.tolist() == [0.5, 0.8]
    assert list(chosen.to_frame().columns) == ["model", "stage", "cost", "validation", "test", "test_cost"]


def test_choosing_on_test_overstates_negative_control():
    """Why: with pure noise, the frontier chosen on test rises above chance; the one chosen on validation does not."""
    rng = np.random.default_rng(0)
    own, honest = [], []
    for _ in range(50):
        val, test = (
            {k: AnytimeCurve([0, 1], [0.5, v]) for k, v in enumerate(rng.normal(0.5, 0.05, 40))}
            for _ in range(2)
        )
        own.append(select_on_validation(test, test).test.final)
        honest.append(select_on_validation(val, test).test.final)
    assert np.mean(own) > 0.58
    assert np.mean(honest) == pytest.approx(0.5, abs=0.02)


def test_test_values_stand_at_validation_costs():
    val = {"a": AnytimeCurve([0, 2], [0.5, 0.8], meter="realised")}
    test = {"a": AnytimeCurve([0, 3], [0.5, 0.7], meter="realised")}
    chosen = select_on_validation(val, test)
    assert chosen.test.costs.tolist() == [0, 2]
    assert chosen.test_costs.tolist() == [0, 3]


def test_envelope_and_worst_ratio():
    a, b = AnytimeCurve([0, 2], [0.5, 0.8]), AnytimeCurve([0, 1], [0.4, 0.7])
    envelope = upper_envelope([a, b])
    assert envelope.values.tolist() == [0.5, 0.7, 0.8]
    assert worst_ratio(a, envelope) == pytest.approx(0.5 / 0.7)
    assert worst_ratio(envelope, envelope) == 1.0
    loss = AnytimeCurve([0, 1], [4.0, 2.0], greater_is_better=False)
    better = AnytimeCurve([0, 1], [4.0, 1.0], greater_is_better=False)
    assert worst_ratio(loss, upper_envelope([loss, better])) == 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: select_on_validation({"a": AnytimeCurve([0], [1])}, {"b": AnytimeCurve([0], [1])}),
            "'a', 'b' stands on one",
        ),
        (
            lambda: select_on_validation({"a": AnytimeCurve([0], [1])}, {"a": AnytimeCurve([0, 1], [1, 2])}),
            "different stages",
        ),
        (lambda: select_on_validation({}, {}), "no curves"),
        (
            lambda: upper_envelope([AnytimeCurve([0], [1]), AnytimeCurve([0], [1], metric="r2")]),
            "differ in metric",
        ),
        (lambda: worst_ratio(AnytimeCurve([0], [1]), AnytimeCurve([0], [0])), "above zero"),
    ],
)
def test_malformed_input_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
