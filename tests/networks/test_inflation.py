"""Cost inflation of ensembles: linear_and_networks 6 (golden example E6) and 8.2."""

from __future__ import annotations

from math import e, inf, log, nan, sqrt

import numpy as np
import pytest

from anytime.networks import (
    cost_inflation,
    estimate_base,
    exponential_depths,
    inflation_at,
    output_schedule,
)

SILVER = 1 + sqrt(2)
TABLE = {  # b: EANN sup, EANN mean bound, ordinary sup, ordinary mean
    1.5: (4.0000, 3.4776, 4.5000, 3.7500),
    2: (3.0000, 2.4431, 4.0000, 3.0000),
    SILVER: (2.7071, 2.1232, 4.1213, 2.9142),
    3: (2.5000, 1.8826, 4.5000, 3.0000),
    4: (2.3333, 1.6704, 5.3333, 3.3333),
    8: (2.1429, 1.3774, 9.1429, 5.1429),
}
DEPTHS = {2: 12, 3: 8, 4: 6}  # powers up to which section 8.2 simulates


def growing(b: int, power: int) -> list[np.ndarray]:
    """An exit at every unit of depth, in members of depths 1, b, b^2, ..."""
    return [np.arange(1, b**n + 1) for n in range(power + 1)]


def at_ends(b: float, power: int) -> list[list[float]]:
    return [[b**n] for n in range(power + 1)]


@pytest.mark.parametrize("b", TABLE)
def test_table_of_section_6(b):
    eann, ordinary = cost_inflation(b), cost_inflation(b, "ordinary")
    found = (eann.sup, eann.mean, ordinary.sup, ordinary.mean)
    np.testing.assert_allclose(found, TABLE[b], atol=5e-5)


def test_limits_and_crossings_of_section_6():
    """B -> inf: sup -> 2, mean -> 1; the factor 4 is beaten iff b > 1.5, the best ordinary mean iff b > 1.690."""
    far = cost_inflation(1e9)
    assert far.sup == pytest.approx(2)
    assert far.mean == pytest.approx(1, abs=1e-6)
    best_ordinary_mean = cost_inflation(SILVER, "ordinary").mean
    assert best_ordinary_mean == pytest.approx(1.5 + sqrt(2))
    assert cost_inflation(1.501).sup < 4 < cost_inflation(1.499).sup
    assert cost_inflation(1.691).mean < best_ordinary_mean < cost_inflation(1.689).mean
    grid = np.linspace(1.05, 6, 100)
    assert min(cost_inflation(b, "ordinary").sup for b in grid) >= 4 == cost_inflation(2, "ordinary").sup
    assert min(cost_inflation(b, "ordinary").mean for b in grid) >= best_ordinary_mean


@pytest.mark.parametrize("b", [2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_proof_of_proposition_4_4_1(b, n):
    """8.2: the formula of each case exactly, rising in the first, falling in the second; probabilities 1/b and 1 - 1/b."""
    spent = (b**n - 1) // (b - 1)  # by the members before the one of depth b^n
    z = np.arange(1, b**n + 1)
    found = inflation_at(spent + z, growing(b, n), b=b)
    held, own = z <= b ** (n - 1), z > b ** (n - 1)
    rival = b ** (n - 1)
    np.testing.assert_allclose(found[held], z[held] / rival + 1 + 1 / (b - 1) - 1 / (rival * (b - 1)))
    np.testing.assert_allclose(found[own], 1 + (b**n - 1) / (z[own] * (b - 1)))
    assert (np.diff(found[held]) > 0).all()
    assert (np.diff(found[own]) < 0).all()
    assert held.mean() == 1 / b


@pytest.mark.parametrize("b", [2, 3, 4])
def test_means_of_the_two_cases(b):
    """8.2: at most 1.5 + 1/(b-1) while the old answer is held, below 1 + b ln b / (b-1)^2 after, on a fine grid of depths."""
    n, fineness = 5, 2000
    rival = b ** (n - 1)
    z = (np.arange(fineness) + 0.5) / fineness
    held = z * rival
    own = rival + z * (b**n - rival)
    while_held = (held / rival + 1 + 1 / (b - 1) - 1 / (rival * (b - 1))).mean()
    while_own = (1 + (b**n - 1) / (own * (b - 1))).mean()
    assert while_held <= 1.5 + 1 / (b - 1)
    assert while_own == pytest.approx(1 + (b - b ** (1 - n)) * log(b) / (b - 1) ** 2, abs=1e-6)
    assert while_own < 1 + b * log(b) / (b - 1) ** 2
    assert while_held / b + while_own * (1 - 1 / b) <= cost_inflation(b).mean
    # the bound is the limit, not just something larger
    bound = (1.5 + 1 / (b - 1)) / b + (1 + b * log(b) / (b - 1) ** 2) * (1 - 1 / b)
    assert bound == pytest.approx(cost_inflation(b).mean)


@pytest.mark.parametrize(
    ("b", "sup", "mean"), [(2, 2.99951, 2.4406), (3, 2.49977, 1.8817), (4, 2.33301, 1.6695)]
)
def test_simulation_of_all_whole_budgets(b, sup, mean):
    members = growing(b, DEPTHS[b])
    budgets = np.arange(1, sum(map(len, members)) + 1)
    found, bound = inflation_at(budgets, members, b=b), cost_inflation(b)
    assert found.max() == pytest.approx(sup, abs=5e-6)
    assert found.mean() == pytest.approx(mean, abs=5e-5)
    assert found.max() < bound.sup < found.max() + 1e-3
    assert found.mean() <= bound.mean


def test_a_member_that_is_weak_for_longer_exceeds_the_bound():
    """Negative control: exits compete beyond 1/1.5 of the cost only, but members grow by 2."""
    members = growing(2, 12)
    budgets = np.arange(100, sum(map(len, members)) + 1)
    assert inflation_at(budgets, members, b=1.5).max() > cost_inflation(2).sup + 0.3


@pytest.mark.parametrize("b", [1.5, 2, SILVER, 3, 4])
def test_simulation_of_ordinary_networks(b):
    """Section 6: just before the next member ends, b^2/(b-1) times the cost of the last one is spent."""
    power = 40 if b < 2 else 20
    members = at_ends(b, power)
    ends = np.array([output.time for output in output_schedule(members)])
    just_before = inflation_at(ends[1:] * (1 - 1e-12), members, b=b)
    exact = cost_inflation(b, "ordinary")
    assert just_before[-1] == pytest.approx(exact.sup, abs=1e-4)
    assert (just_before <= exact.sup + 1e-9).all()
    last = np.linspace(ends[-2], ends[-1], 100_001)[:-1]
    assert inflation_at(last, members, b=b).mean() == pytest.approx(exact.mean, abs=1e-3)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_no_sequence_of_ordinary_predictors_stays_below_4(alpha):
    """3.3: sequences in which each element costs alpha of all before: 2 + alpha + 1/alpha is 4.5, 4, 4.5."""
    prices = [1.0]
    for _ in range(40):
        prices.append(alpha * sum(prices))
    ends = np.cumsum(prices)
    found = inflation_at(ends[1:] * (1 - 1e-12), [[price] for price in prices], b=2)
    assert found[-1] == pytest.approx(2 + alpha + 1 / alpha, abs=1e-6)


@pytest.mark.parametrize(
    ("workers", "exact", "stated"), [(1, 3.0, 3.0), (2, 1.6667, 2.3333), (3, 1.2857, 2.1429)]
)
def test_workers_of_section_8_2(workers, exact, stated):
    found = cost_inflation(2, workers=workers)
    assert found.sup == pytest.approx(exact, abs=5e-5)
    assert found.sup_bound == pytest.approx(stated, abs=5e-5)


@pytest.mark.parametrize("kind", ["eann", "ordinary"])
@pytest.mark.parametrize("b", [1.3, 2, 3.5])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_what_the_paper_states_of_workers_is_never_less(kind, b, workers):
    found = cost_inflation(b, kind, workers)
    assert found.sup <= found.sup_bound + 1e-12
    assert found.mean <= found.mean_bound + 1e-12
    if workers == 1:
        assert found[:2] == found[2:]


@pytest.mark.parametrize("kind", ["eann", "ordinary"])
@pytest.mark.parametrize(("b", "workers"), [(2, 2), (2, 3), (3, 2)])
def test_simulation_of_workers(kind, b, workers):
    """The first-in-first-out schedule reaches the exact supremum and mean over the last whole period."""
    power = {2: 13, 3: 8}[b]
    members = growing(b, power) if kind == "eann" else at_ends(b, power)
    ends = [
        max(o.time for o in output_schedule(members, workers=workers) if o.member == k)
        for k in range(power + 1)
    ]
    budgets = np.linspace(ends[-2], ends[-1], 400_000, endpoint=False)
    found, exact = inflation_at(budgets, members, b=b, workers=workers), cost_inflation(b, kind, workers)
    assert found.max() == pytest.approx(exact.sup, abs=2e-3)
    assert found.mean() == pytest.approx(exact.mean, abs=2e-3)
    assert found.max() < cost_inflation(b, kind, workers - 1).sup - 0.1  # one worker less is worse


def test_a_worker_takes_the_next_member_when_it_is_free():
    """Member k starts when member k - M ends, and restarts from the input."""
    outputs = output_schedule([[1], [1, 2], [2, 4], [8]], workers=2)
    assert [(o.time, o.member, o.exit, o.cost) for o in outputs] == [
        (1, 0, 0, 1),
        (1, 1, 0, 1),
        (2, 1, 1, 2),
        (3, 2, 0, 2),
        (5, 2, 1, 4),
        (10, 3, 0, 8),
    ]


def test_nothing_competes_before_the_first_output():
    assert inflation_at([0.5, 1.0], [[1.0], [2.0]], b=2).tolist() == [inf, 1.0]


@pytest.mark.parametrize(
    ("b", "smallest", "largest", "depths"),
    [
        (2, 7, 25, [7, 13, 25]),  # the EANN of section 9.4
        (2, 1, 64, [1, 2, 4, 8, 16, 32, 64]),
        (3, 1, 27, [1, 3, 9, 27]),
        (10, 4, 5, [4, 5]),
        (1.01, 1, 3, [1, 2, 3]),
        (2, 6, 6, [6]),
    ],
)
def test_depths(b, smallest, largest, depths):
    assert exponential_depths(b, smallest, largest) == depths


@pytest.mark.parametrize(
    ("errors", "optimal", "base"),
    [
        ([0.5, 0.2, 0.1, 0.08], [0.2, 0.15, 0.1, 0.08], 2.0),  # exits beyond half of the cost are good
        ([0.2, 0.2, 0.1, 0.08], [0.2, 0.15, 0.1, 0.08], 2.0),  # a good one before a bad one does not help
        ([0.21, 0.15, 0.1, 0.08], [0.2, 0.15, 0.1, 0.08], inf),
        ([0.2, 0.15, 0.1, 0.09], [0.2, 0.15, 0.1, 0.08], 1.0),
        ([0.9, 0.9, 0.1, 0.08], [nan, nan, 0.1, 0.08], inf),  # nothing is asked where nothing was measured
    ],
)
def test_estimate_of_the_base(errors, optimal, base):
    assert estimate_base([1, 2, 3, 4], errors, optimal, tolerance=0.05) == base


def test_exits_beyond_the_estimated_base_are_within_the_tolerance_and_no_larger_base_is():
    random = np.random.default_rng(0)
    costs = np.cumsum(random.uniform(0.5, 2, size=20))
    for _ in range(50):
        optimal = np.sort(random.uniform(0.05, 0.5, size=20))[::-1]
        errors = optimal * (1 + random.exponential(0.03, size=20))
        within = errors <= 1.1 * optimal
        b = estimate_base(costs, errors, optimal, tolerance=0.1)
        assert within[costs > costs[-1] / b].all()
        if b < inf:
            assert not within[costs > costs[-1] / (b * 1.000001)].all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost_inflation(1), "more than 1"),
        (lambda: cost_inflation(inf), "finite"),
        (lambda: cost_inflation(nan), "more than 1"),
        (lambda: cost_inflation(e, "EANN"), "'eann' or 'ordinary'"),
        (lambda: cost_inflation(e, workers=0), "workers"),
        (lambda: exponential_depths(2, 9, 7), "smallest to largest"),
        (lambda: exponential_depths(2, 0, 7), "from 1 on"),
        (lambda: output_schedule([[1.0], [2.0, 2.0]]), r"exit_costs\[1\].*grow"),
        (lambda: output_schedule([[]]), "one per exit"),
        (lambda: output_schedule([[0.0, 1.0]]), "positive"),
        (lambda: estimate_base([1, 2], [0.1], [0.1, 0.1]), "one of each per exit"),
        (lambda: estimate_base([1, 2], [0.1, 0.1], [nan, nan]), "no optimal error"),
        (lambda: estimate_base([1, 2], [nan, 0.1], [0.1, 0.1]), "NaN"),
        (lambda: estimate_base([1, 2], [0.1, 0.1], [0.1, 0.1], tolerance=-1), "tolerance"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
