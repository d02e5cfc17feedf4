"""Algorithm 6 stands still on a loss with kinks, Algorithm 7 does not (growth_and_streaming A.7)."""

import numpy as np
import pytest

from anytime_research.streaming.bounds import residual_bound
from anytime_research.streaming.counterexample import Uneven, axis_run, leaders_run

NOTHING = np.zeros(1)


@pytest.mark.parametrize("n_estimators", [1, 10, 50])
def test_leaders_never_leave_the_first_axis_with_short_steps_a_p19a(n_estimators):
    """A-P19a: steps below a0 / (2 N): all picks horizontal, y = [a0 - 2 eta N, b] from round 2 on, loss >= b."""
    a0, b, step = 1.0, 1.0, 0.9 / (2 * n_estimators)
    run = leaders_run(n_estimators, step, start=(a0, b), n_rounds=50)
    assert run.second_axis == 0
    np.testing.assert_allclose(run.answers[1:], [[a0 - 2 * step * n_estimators, b]] * 49)
    assert (run.losses >= b).all()


def test_printed_claim_about_leaders_is_too_strong():
    """A.7: N = 50, eta = 0.1, a0 = b = 1, T = 400: 35 % of the picks are vertical and the average loss is 0.36 < b."""
    run = leaders_run(50, 0.1)
    assert run.second_axis == pytest.approx(0.35, abs=0.005)
    assert run.losses.mean() == pytest.approx(0.36, abs=0.005)


@pytest.mark.parametrize("n_estimators", [10, 100, 1000])
@pytest.mark.parametrize("step", [0.003, 0.1, 0.25, 1.0])
def test_algorithm_6_never_touches_the_second_axis_a_p19b(n_estimators, step):
    """A-P19b: y_2 = b for every N and eta."""
    answer, sums = axis_run(n_estimators, algorithm="smooth", lam=0.0, step=step)
    assert (sums[:, 1] == 1.0).all()
    assert Uneven().value(answer[None], NOTHING)[0] >= 1.0


def test_algorithm_6_is_not_helped_by_strong_convexity():
    """A-P19b: it stalls at y_2 = 1, loss 1.25 for lambda = 0.5."""
    answer, _ = axis_run(1000, algorithm="smooth", lam=0.5)
    assert answer[1] == 1.0
    assert Uneven(0.25).value(answer[None], NOTHING)[0] == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("n_estimators", "loss"), [(10, 0.188), (100, 0.066), (1000, 0.0142), (10000, 0.0022)]
)
def test_algorithm_7_succeeds_a_p19b(n_estimators, loss):
    """A-P19b: losses of the theory average, and below the bound for an edge of 1/2 in a ball of radius 2."""
    answer, _ = axis_run(n_estimators, algorithm="residual", lam=0.5, radius=2.0)
    paid = Uneven(0.25).value(answer[None], NOTHING)[0]
    assert paid == pytest.approx(loss, abs=0.5 * 10.0 ** -len(str(loss)[2:]))
    assert paid <= residual_bound(n_estimators, 0.5, Uneven(0.25).gradient_bound(2.0), 0.5)
