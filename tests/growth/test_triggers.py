"""growth_and_streaming C.2: when to grow."""

from __future__ import annotations

import pytest

from anytime.growth.triggers import FixedEpochs, GradientEvidence, Plateau


def losses(*values: float) -> list[dict[str, float]]:
    return [{"loss": value} for value in values]


def test_fixed_epochs_counts_and_nothing_else() -> None:
    assert FixedEpochs() == FixedEpochs(80)
    assert not FixedEpochs(3)(losses(1, 1))
    assert FixedEpochs(3)(losses(9, 5, 1))


def test_plateau_waits_while_the_loss_falls() -> None:
    falling = losses(*(1 / (1 + k) for k in range(50)))
    assert not any(Plateau(n_iter_no_change=3)(falling[:n]) for n in range(51))
    assert Plateau(n_iter_no_change=3)(falling + losses(0.5, 0.5, 0.5))
    assert not Plateau(n_iter_no_change=3)(falling + losses(0.5, 0.5, 0.001))


def test_a_fall_below_min_delta_does_not_count() -> None:
    slow = losses(1.0, 0.99, 0.98, 0.97)
    assert Plateau(n_iter_no_change=3, min_delta=0.05)(slow)
    assert not Plateau(n_iter_no_change=3)(slow)


def test_plateau_reads_the_value_it_is_told() -> None:
    history = [{"loss": 1 / (k + 1), "validation_error": 0.3} for k in range(6)]
    assert Plateau(n_iter_no_change=3, of="validation_error")(history)
    assert not Plateau(n_iter_no_change=3)(history)


def test_gradient_evidence_needs_several_epochs_in_a_row() -> None:
    behind = {"candidate_correlation": 0.1, "parent_correlation": 0.4}
    ahead = {"candidate_correlation": 0.3, "parent_correlation": 0.2}
    assert GradientEvidence(epochs=2)([behind, ahead, ahead])
    assert not GradientEvidence(epochs=2)([ahead, ahead, behind])
    assert not GradientEvidence(epochs=2)([ahead])
    assert not GradientEvidence(epochs=2, margin=0.2)([ahead, ahead])


@pytest.mark.parametrize(
    "make", [lambda: FixedEpochs(0), lambda: Plateau(n_iter_no_change=0), lambda: GradientEvidence(0)]
)
def test_no_phase_of_no_length(make: object) -> None:
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        make()
