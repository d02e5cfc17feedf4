"""Golden values: functional_gradient_and_greedy G3 to G7, linear_and_networks E3, E4, and where a factor of 4 is needed."""

import numpy as np
import pytest
from scipy.special import logsumexp

from anytime.greedy import doubling, greedy, spectral_gamma
from anytime_research.greedy import (
    GUARANTEES,
    cost_factors_needed,
    doubling_bound_elementwise,
    elementwise_ratio,
    greediness,
    greediness_slack,
    greedy_bound,
    submodularity_ratio,
)
from tests.reference.greedy import (
    TableOracle,
    constrained_least_squares,
    least_squares,
    members,
    modular,
    penalty_of,
    set_costs,
)

PRINTED = 5e-7  # half of the last of six digits


def exponential(elements):
    """(3.16) and (4.5): element number x - 1 costs x and is worth e**x."""
    return sum(np.exp(x + 1) for x in sorted(elements))


def exponential_run(n_elements, c_min, **limits):
    return doubling(exponential, range(1, n_elements + 1), c_min=c_min, **limits)


# ---------------------------------------------------------------------- the impossible instance


@pytest.mark.parametrize(
    ("c_min", "expected"),
    [
        (2, [2, 1, 3, 6, 12, 24, 48, 96]),  # also E3
        (3, [3, 2, 5, 10, 20, 40]),
        (4, [4, 3, 7, 14, 28, 56]),
    ],
)
def test_g3_and_e3_doubling_doubles(c_min, expected):
    run = exponential_run(100, c_min, max_elements=len(expected))
    assert (run.order + 1).tolist() == expected
    assert run.doubling_capable


def test_g3_with_c_min_1_doubling_is_stuck_after_the_first():
    run = exponential_run(60, 1)
    assert run.order[0] == 0
    assert run.stuck_at == 2
    assert run.doubling_capable is False


def test_g3_auto_c_min_is_2():
    assert doubling(exponential, range(1, 61)).c_min == 2


def test_g3_the_needed_cost_factor_of_60_elements_is_3_67():
    run = exponential_run(60, 2)
    needed = []
    for budget in np.arange(2.0, 60.0, 0.25):
        enough = run.value_at(budget) > (1 - 1 / np.e) * np.exp(np.arange(1, 61))
        needed.append(budget / (np.argmin(enough) + 1))  # one more than the last element that is matched
    assert round(max(needed), 2) == 3.67


def test_3_4_1_the_owned_part_of_the_exponential_instance_is_worth_less_than_its_best():
    """Why an element of at least B' must be there already: all smaller ones together are 0.582 of it."""
    below = exponential(range(29)) / np.exp(30)
    assert below == pytest.approx(1 / (np.e - 1), abs=PRINTED)
    assert 1 / (np.e - 1) < 1 - 1 / np.e


def test_3_4_1_doubling_needs_a_factor_of_exactly_4_from_the_element_6_on():
    prices = exponential_run(100, 2, max_elements=8).prices
    np.testing.assert_array_equal(cost_factors_needed(prices)[3:], 4.0)


@pytest.mark.parametrize(("alpha", "limit"), [(0.5, 4.5), (1.0, 4.0), (2.0, 4.5)])
def test_3_4_1_sequences_that_grow_at_any_other_pace_need_more(alpha, limit):
    """(3.17): 2 + alpha + 1 / alpha, where each purchase is alpha times all before it."""
    prices = [1.0]
    for _ in range(40):
        prices.append(alpha * sum(prices))
    assert cost_factors_needed(prices)[-1] == pytest.approx(limit)


def test_3_4_1_no_random_sequence_stays_below_4():
    random = np.random.default_rng(0)
    for _ in range(50):
        prices = np.cumprod(1.0 + random.uniform(0.01, 3.0, 400))
        assert cost_factors_needed(prices)[-200:].max() > 4 - 1e-9


@pytest.mark.parametrize(
    ("factor", "first", "expected"),
    [(4.0, 6, [1, 1, 1, 1, 1, 1]), (3.9, 192, [-2, -4, -9, -19]), (3.0, 12, [-1, -3, -7, -15])],
)
def test_3_4_1_with_less_than_a_factor_of_4_the_share_of_the_best_vanishes(factor, first, expected):
    """Log of the share at the last whole budget before each new element, from the one called ``first`` on."""
    sequence = [2, 1, 3]
    while len(sequence) < 13:
        sequence.append(sum(sequence))
    np.testing.assert_array_equal(exponential_run(700, 2, max_elements=10).order + 1, sequence[:10])
    begin = sequence.index(first)
    budgets = [sum(sequence[: j + 1]) - 1 for j in range(begin, begin + len(expected))]
    shares = [logsumexp(sequence[:j]) - budget // factor for j, budget in enumerate(budgets, start=begin)]
    assert [round(share) for share in shares] == expected
    assert shares[-1] == pytest.approx(expected[-1], abs=1e-9)


def test_4_2_4_fails_between_prefixes():
    """functional_gradient_and_greedy 6.2: 100 buys 1.1 where 100 is to be had; at its own cost of 101 the bound holds."""
    table, costs = modular([1.1, 100.0]), [1.0, 100.0]
    run = greedy(TableOracle(table), costs)
    assert run.value_at(100.0) == 1.1
    assert run.value_at(100.0) < greedy_bound(100.0, 100.0, 100.0)
    assert run.value_at(101.0) >= greedy_bound(101.1, 101.0, 101.0)


# ---------------------------------------------------------------------- additive slack


def test_g4_the_printed_theorem_4_3_3_is_wrong_and_the_corrected_one_holds():
    worth = np.array([1.0] * 10 + [0.1] * 10)

    def function(elements):
        return worth[list(elements)].sum()

    order, costs = range(10, 20), np.ones(20)
    np.testing.assert_allclose(greediness_slack(function, order, costs), 0.9)
    np.testing.assert_allclose(greediness(function, order, costs, beta=0.9), 1.0)
    np.testing.assert_allclose(greediness(function, order, costs), 0.1)
    value = function(order)
    assert value == pytest.approx(1.0)
    settings = {"rival": 10.0, "spent": 10.0, "budget": 10.0, "beta": 0.9, "n_rival": 10}
    assert greedy_bound(**settings, form="printed") == pytest.approx(5.421, abs=5e-4)
    assert greedy_bound(**settings) == pytest.approx(0.632, abs=5e-4)
    assert greedy_bound(**settings, form="loose") <= greedy_bound(**settings) <= value
    assert greedy_bound(**settings, form="per_cost") <= value
    assert value < greedy_bound(**settings, form="printed")


# ---------------------------------------------------------------------- weights within a ball


def constrained(b, C, radius):
    b, C = np.array(b), np.array(C)
    values = [
        constrained_least_squares(b[s], C[np.ix_(s, s)], radius)[0] if s.any() else 0.0
        for s in members(len(b))
    ]
    return np.array(values)


def test_g5_theorem_5_3_4_is_refuted_with_equal_costs():
    b = np.array([1.0, 2.9, 1.11])
    C = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, -0.8], [-0.9, -0.8, 1.0]])
    table = constrained(b, C, 1.0)
    _, w = constrained_least_squares(b[:1], C[:1, :1], 1.0)
    np.testing.assert_allclose(b - C[:, 0] * w[0], [0.0, 2.0, 2.01])  # by which OMP picks feature 2
    gains = table[[0b011, 0b101]] - table[0b001]
    np.testing.assert_allclose(gains, [1.9017, 0.9429], atol=5e-5)
    slack = greediness_slack(TableOracle(table), [0, 2], [1.0, 1.0, 1.0])[1]
    assert slack > 0.5  # alpha = 1 allows radius**2 / 2
    assert gains[0] - 0.5 == pytest.approx(1.4017, abs=5e-5)


def test_g5_theorem_5_3_4_is_refuted_with_unequal_costs():
    table, costs = constrained([1.0, 0.5], np.eye(2), 0.05), np.array([1.0, 0.26])
    np.testing.assert_allclose(np.array([1.0, 0.25]) / costs, [1.0, 0.9615], atol=5e-5)  # OMP picks feature 0
    allowed = 0.05**2 / 2
    assert table[1] / costs[0] == pytest.approx(0.04875, abs=5e-6)
    assert (table[2] - allowed) / costs[1] == pytest.approx(0.08654, abs=5e-6)
    assert greediness_slack(TableOracle(table), [0], costs)[0] > allowed


# ---------------------------------------------------------------------- groups


def group_problem(blocks, correlations, l2_regularization):
    """Groups uncorrelated with each other: ``S``, ``v``, ``start`` and the objective over groups."""
    start = np.cumsum([0, *(len(block) for block in blocks)])
    S = np.zeros((start[-1], start[-1]))
    for block, i, j in zip(blocks, start[:-1], start[1:], strict=True):
        S[i:j, i:j] = block
    v = np.concatenate([np.full(len(b), c) for b, c in zip(blocks, correlations, strict=True)])
    return S, v, start, least_squares(S, v, l2_regularization, start)


def test_g6_the_largest_single_correlation_picks_the_wrong_group():
    S, v, start, table = group_problem([np.eye(1), np.eye(4)], [0.7, 0.49], 0.0)
    np.testing.assert_allclose([(v[:1] ** 2).max(), (v[1:] ** 2).max()], [0.49, 0.2401])
    np.testing.assert_allclose(table[[1, 2]], [0.245, 0.4802])
    assert greedy(TableOracle(table), [1.0, 1.0]).order[0] == 1
    measured = greediness(TableOracle(table), [0, 1], [1.0, 1.0])[0]
    assert measured == pytest.approx(0.245 / 0.4802)
    assert spectral_gamma(S, 0.0, start, criterion="single") == pytest.approx(0.25)  # allows it
    assert spectral_gamma(S, 0.0, start, criterion="omp") > measured  # forbids it


def test_g6_the_sum_of_squared_correlations_picks_the_wrong_group():
    S, v, start, table = group_problem([np.ones((9, 9)), np.eye(3)], [0.5, 0.5], 1e-3)
    np.testing.assert_allclose([(v[:9] ** 2).sum(), (v[9:] ** 2).sum()], [2.25, 0.75])
    np.testing.assert_allclose(table[[1, 2]], [0.12499, 0.37463], atol=5e-6)
    C = S + 1e-3 * penalty_of(S, start, "identity")
    whitened = [v[s] @ np.linalg.solve(C[s, s], v[s]) for s in (slice(0, 9), slice(9, 12))]
    np.testing.assert_allclose(whitened, [0.24997, 0.74925], atol=5e-6)
    assert greedy(TableOracle(table), [1.0, 1.0]).order[0] == 1
    measured = greediness(TableOracle(table), [0, 1], [1.0, 1.0])[0]
    assert spectral_gamma(S, 1e-3, start, criterion="unwhitened") <= measured
    assert spectral_gamma(S, 1e-3, start, criterion="omp") > measured


def test_e4_a_suppressor_has_an_elementwise_ratio_of_0_whatever_the_spectrum():
    S, v = np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([0.0, 0.8])
    table = least_squares(S, v)
    np.testing.assert_allclose(table, [0.0, 0.0, 0.32, 0.5])
    assert elementwise_ratio(table) == 0.0
    assert spectral_gamma(S) == pytest.approx(0.4)
    assert submodularity_ratio(table) == pytest.approx(0.64)  # 0.32 / 0.5, above the spectral constant
    assert doubling_bound_elementwise(1.0, elementwise_ratio(table)) == 0.0


# ---------------------------------------------------------------------- constants


def test_g7_constants():
    shares = {guarantee.name: guarantee.share(1.0) for guarantee in GUARANTEES}
    assert shares["greedy"] == pytest.approx(0.632121, abs=PRINTED)
    assert shares["greedy or best single element"] == pytest.approx(0.316060, abs=PRINTED)
    assert 1 / (np.e - 1) == pytest.approx(0.581977, abs=PRINTED)


def test_3_4_3_values():
    """linear_and_networks 3.4: 0.3935 at ratio 1 and 0.1535 at a half; small budgets 1 - e**-2."""
    assert doubling_bound_elementwise(1.0, 1.0) == pytest.approx(0.3935, abs=5e-5)
    assert doubling_bound_elementwise(1.0, 0.5) == pytest.approx(0.1535, abs=5e-5)
    assert doubling_bound_elementwise(1.0, 1.0, small_budget=True) == pytest.approx(1 - np.exp(-2))


FIGURE_5_1B = {  # correlation: FR spectral, FR regularised, OMP spectral, OMP regularised
    0.0: (0.6321, 0.6321, 0.6321, 0.6321),
    0.5: (0.3935, 0.4866, 0.2212, 0.3588),
    0.9: (0.0952, 0.3297, 0.0100, 0.1479),
    0.99: (0.0100, 0.2882, 0.0001, 0.1092),
    1.0: (0.0, 0.2835, 0.0, 0.1052),
}


@pytest.mark.parametrize("rho", FIGURE_5_1B)
def test_figure_5_1b_the_bound_against_the_correlation_of_two_features(rho):
    S = np.array([[1.0, rho], [rho, 1.0]])
    found = []
    for alpha_is_gamma in (False, True):
        for l2_regularization in (0.0, 0.5):
            gamma = spectral_gamma(S, l2_regularization)
            found.append(
                float(greedy_bound(1.0, 1.0, 1.0, gamma=gamma, alpha=gamma if alpha_is_gamma else 1.0))
            )
    np.testing.assert_allclose(found, FIGURE_5_1B[rho], atol=5e-5)


def test_3_4_3_optimum_of_the_exponential_instance_is_its_dearest_affordable_element():
    costs = np.arange(1, 9)
    table = modular(np.exp(costs))
    for budget in costs:
        within = set_costs(costs) <= budget
        assert table[within].max() == pytest.approx(np.exp(budget))
