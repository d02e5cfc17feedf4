"""Constants of set functions: by enumeration against plain loops, by spectrum against their formulas, along a run."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag, eigh, sqrtm

from anytime.greedy import FlatPrices, SetFunction, doubling, greedy, spectral_gamma
from anytime_research.greedy import (
    curvature_constants,
    curved_gamma,
    elementwise_ratio,
    greediness,
    greediness_slack,
    measure,
    regularised_gamma,
    submodularity_ratio,
    submodularity_slack,
    value_table,
)
from tests.reference.greedy import (
    TableOracle,
    least_squares,
    modular,
    penalty_of,
    random_costs,
    random_coverage,
    random_moments,
)

seeds = st.integers(0, 2**32 - 1)


@st.composite
def monotone(draw, most=4):
    """Tables of monotone functions of any kind."""
    n = draw(st.integers(1, most))
    random = np.random.default_rng(draw(seeds))
    table = random.random(1 << n) * random.integers(0, 2, 1 << n)
    table[0] = 0.0
    for x in range(n):
        halves = table.reshape(-1, 2, 1 << x)
        halves[:, 1] = np.maximum(halves[:, 1], halves[:, 0])
    return table


def subsets(elements):
    return [frozenset(s) for k in range(len(elements) + 1) for s in combinations(sorted(elements), k)]


def as_function(table):
    return lambda elements: float(table[sum(1 << x for x in elements)])


def pairs(table):
    """(joint gain, sum of single gains) of every S on top of every A."""
    F, n = as_function(table), table.size.bit_length() - 1
    for A in subsets(range(n)):
        for S in subsets(set(range(n)) - A):
            yield F(A | S) - F(A), sum(F(A | {x}) - F(A) for x in S)


# ---------------------------------------------------------------------- by enumeration


@given(monotone(), st.floats(0, 0.5))
def test_submodularity_ratio_is_that_of_plain_loops(table, delta):
    expected = min([1.0, *((single + delta) / joint for joint, single in pairs(table) if joint > 1e-12)])
    assert submodularity_ratio(table, delta=delta) == pytest.approx(expected)


@given(monotone(), st.floats(0, 1))
def test_submodularity_slack_is_that_of_plain_loops(table, gamma):
    expected = max(gamma * joint - single for joint, single in pairs(table))
    assert submodularity_slack(table, gamma=gamma) == pytest.approx(max(expected, 0.0), abs=1e-12)


@given(monotone(), st.floats(0.05, 1))
def test_ratio_and_slack_undo_each_other(table, gamma):
    slack = submodularity_slack(table, gamma=gamma)
    assert submodularity_ratio(table, delta=slack) >= gamma - 1e-9
    assert submodularity_slack(table, gamma=submodularity_ratio(table)) == pytest.approx(0.0, abs=1e-12)


@given(monotone())
def test_elementwise_ratio_is_that_of_plain_loops(table):
    F, n = as_function(table), table.size.bit_length() - 1
    ratios = [1.0]
    for x in range(n):
        for A in subsets(set(range(n)) - {x}):
            late = F(A | {x}) - F(A)
            ratios += [(F(B | {x}) - F(B)) / late for B in subsets(A) if late > 1e-12]
    assert elementwise_ratio(table) == pytest.approx(min(ratios))


@given(monotone())
def test_the_elementwise_ratio_is_never_more_than_the_set_ratio(table):
    assert elementwise_ratio(table) <= submodularity_ratio(table) + 1e-12


@given(seeds)
def test_submodular_functions_have_ratio_1_and_no_slack(seed):
    random = np.random.default_rng(seed)
    for table in (random_coverage(random, 6), modular(random.integers(0, 9, 6))):
        assert submodularity_ratio(table) == elementwise_ratio(table) == 1.0
        assert submodularity_slack(table) == 0.0


@given(monotone(), st.integers(1, 200), seeds)
def test_a_sample_errs_on_one_side_only(table, n_samples, seed):
    F, n = as_function(table), table.size.bit_length() - 1
    sample = {"method": "sampled", "n_samples": n_samples, "random_state": seed}
    assert submodularity_ratio(F, n, **sample) >= submodularity_ratio(table) - 1e-12
    assert elementwise_ratio(F, n, **sample) >= elementwise_ratio(table) - 1e-12
    assert submodularity_slack(F, n, **sample) <= submodularity_slack(table) + 1e-12
    along = TableOracle(table)  # led along random orders
    assert submodularity_ratio(along, **sample) >= submodularity_ratio(table) - 1e-12
    assert elementwise_ratio(along, **sample) >= elementwise_ratio(table) - 1e-12
    assert submodularity_slack(along, **sample) <= submodularity_slack(table) + 1e-12


def test_a_large_sample_of_a_small_function_finds_the_worst():
    table = np.array([0.0, 0.1, 0.3, 0.9, 0.2, 0.4, 0.5, 1.5])
    sample = {"method": "sampled", "n_samples": 2000, "random_state": 0}
    for ratio in (submodularity_ratio, elementwise_ratio, submodularity_slack):
        assert ratio(as_function(table), 3, **sample) == pytest.approx(ratio(table))
        assert ratio(TableOracle(table), **sample) == pytest.approx(ratio(table))
        assert ratio(SetFunction(as_function(table), 3), 3) == ratio(table)
        assert 0.0 < ratio(table) < 1.0


def test_a_sample_of_many_elements_is_repeated_by_its_seed():
    weights = np.random.default_rng(0).random(40)

    def function(elements):
        return weights[sorted(elements)].sum() ** 1.5

    for ratio in (submodularity_ratio, elementwise_ratio, submodularity_slack):
        one, same, other = (
            ratio(function, 40, method="sampled", n_samples=50, random_state=seed) for seed in (0, 0, 1)
        )
        assert one == same != other


def test_a_value_table_lists_sets_by_their_bits():
    table = value_table(lambda elements: sum(10**x for x in elements), 3)
    assert table.tolist() == [0, 1, 10, 11, 100, 101, 110, 111]
    assert submodularity_ratio(lambda s: len(s) ** 2, 3) == submodularity_ratio([0, 1, 1, 4, 1, 4, 4, 9])


def test_a_function_without_elements_or_without_gains_has_ratio_1():
    for table in ([0.0], [0.0, 0.0], [3.0, 3.0, 3.0, 3.0]):
        assert submodularity_ratio(table) == elementwise_ratio(table) == 1.0
    assert submodularity_ratio(lambda s: 0.0, 0, method="sampled") == 1.0
    assert elementwise_ratio(lambda s: 0.0, 0, method="sampled") == 1.0


# ---------------------------------------------------------------------- along a run


@given(monotone(), st.floats(0, 0.5), seeds)
def test_greediness_is_that_of_plain_loops(table, beta, seed):
    random = np.random.default_rng(seed)
    F, n = as_function(table), table.size.bit_length() - 1
    costs, order = random_costs(random, n), random.permutation(n)
    alphas, betas, rate_slacks = [], [], []
    for j, g in enumerate(order):
        A = frozenset(order[:j].tolist())
        gain = {x: F(A | {x}) - F(A) for x in range(n) if x not in A}
        rate = gain[g] / costs[g]
        alphas.append(min([1.0, *((rate * costs[x] + beta) / gain[x] for x in gain if gain[x] > 0)]))
        betas.append(max(0.8 * gain[x] - rate * costs[x] for x in gain))
        rate_slacks.append(max(0.8 * gain[x] / costs[x] - rate for x in gain))
    np.testing.assert_allclose(greediness(TableOracle(table), order, costs, beta=beta), alphas)
    slack = greediness_slack(F, order, costs, alpha=0.8)
    np.testing.assert_allclose(slack, np.maximum(betas, 0.0), atol=1e-12)
    slack = greediness_slack(F, order, costs, alpha=0.8, per="cost")
    np.testing.assert_allclose(slack, np.maximum(rate_slacks, 0.0), atol=1e-12)


@given(monotone(), seeds)
def test_greedy_runs_are_greedy(table, seed):
    costs = random_costs(np.random.default_rng(seed), table.size.bit_length() - 1)
    order = greedy(TableOracle(table), costs).order
    np.testing.assert_allclose(greediness(TableOracle(table), order, costs), 1.0)
    for per in ("element", "cost"):
        np.testing.assert_allclose(
            greediness_slack(TableOracle(table), order, costs, per=per), 0.0, atol=1e-12
        )


def test_doubling_gives_greediness_away():
    table, costs = modular([1.0, 2.0, 30.0]), [1.0, 1.5, 3.0]
    run = doubling(TableOracle(table), costs, c_min=1.5)
    assert run.order.tolist() == [1, 0, 2]
    np.testing.assert_allclose(greediness(TableOracle(table), run.order, costs), [2 / 15, 0.1, 1.0])
    measured = measure(TableOracle(table), run, FlatPrices(costs), table=table)
    assert (measured.alpha, measured.beta) == pytest.approx((0.1, 27.0))
    assert (measured.doubling_alpha, measured.doubling_beta) == (1.0, 0.0)  # of what it was allowed to take


def test_free_elements_are_beyond_all_price_in_greediness_too():
    table, costs = modular([5.0, 0.5]), [0.0, 1.0]
    assert greediness(TableOracle(table), [0, 1], costs).tolist() == [1.0, 1.0]
    assert greediness_slack(TableOracle(table), [0, 1], costs).tolist() == [0.0, 0.0]
    assert greediness(TableOracle(table), [1, 0], costs).tolist() == [0.0, 1.0]  # passed over what is free
    assert greediness_slack(TableOracle(table), [1, 0], costs).tolist() == [5.0, 0.0]
    assert greediness_slack(TableOracle(table), [1, 0], costs, per="cost").tolist() == [np.inf, 0.0]


# ---------------------------------------------------------------------- by spectrum

START = [0, 3, 5, 6]


@given(seeds, st.sampled_from([1e-3, 0.1, 1.0]))
def test_spectral_constants_are_those_of_the_table(seed, l2_regularization):
    """linear_and_networks 3.2: all rows, for standardised columns that are not whitened."""
    S, _ = random_moments(np.random.default_rng(seed), 6)
    blocks = [S[:3, :3], S[3:5, 3:5], S[5:, 5:]]
    C, Bd0 = S + l2_regularization * np.eye(6), block_diag(*blocks)
    Bd = Bd0 + l2_regularization * np.eye(6)
    sigma = min(np.linalg.eigvalsh(block)[0] for block in blocks)
    largest = max(np.linalg.eigvalsh(block)[-1] for block in blocks) + l2_regularization
    least = np.linalg.eigvalsh(C)[0]
    expected = {
        "forward": eigh(C, Bd, eigvals_only=True)[0],
        "omp": eigh(C, Bd, eigvals_only=True)[0],
        "literal": eigh(C, Bd0, eigvals_only=True)[0] / (1 + l2_regularization / sigma),
        "unwhitened": least / largest,
        "single": least / (3 * (1 + l2_regularization)),
    }
    for criterion, gamma in expected.items():
        assert spectral_gamma(S, l2_regularization, START, criterion=criterion) == pytest.approx(
            gamma, rel=1e-6
        )
    assert expected["unwhitened"] >= least / (3 + l2_regularization) - 1e-12


@given(seeds, st.sampled_from([0.0, 1e-3, 0.1, 1.0]))
def test_on_whitened_data_gamma_is_the_least_eigenvalue_and_the_ridge_over_1_and_the_ridge(
    seed, l2_regularization
):
    S, _ = random_moments(np.random.default_rng(seed), 6)
    whiten = np.linalg.inv(np.real(sqrtm(penalty_of(S, START, "groups"))))
    white = whiten @ S @ whiten
    least = np.linalg.eigvalsh(white)[0]
    for gamma in (
        spectral_gamma(S, l2_regularization, START, penalty="groups"),
        spectral_gamma((white + white.T) / 2, l2_regularization, START),
        regularised_gamma(least, l2_regularization),
    ):
        assert gamma == pytest.approx((least + l2_regularization) / (1 + l2_regularization))


def test_groups_of_one_column_need_no_start():
    S, _ = random_moments(np.random.default_rng(0), 5)
    for l2_regularization in (0.0, 0.3):
        expected = regularised_gamma(np.linalg.eigvalsh(S)[0], l2_regularization)  # Theorem 5.2.5
        assert spectral_gamma(S, l2_regularization) == pytest.approx(expected)
        assert spectral_gamma(S, l2_regularization, range(6), criterion="unwhitened") == pytest.approx(
            expected
        )


def test_orthonormal_columns_have_gamma_1_and_repeated_groups_none():
    assert spectral_gamma(np.eye(4), 0.0, [0, 2, 4]) == pytest.approx(1.0)
    assert spectral_gamma(np.ones((2, 2)), 0.0) == pytest.approx(0.0, abs=1e-12)
    assert spectral_gamma(np.ones((2, 2)), 0.5) == pytest.approx(
        0.5 / 1.5
    )  # ERR-22: never below ridge / (1 + ridge)


@given(seeds, st.sampled_from(["identity", "groups"]), st.sampled_from([0.0, 0.2]))
def test_repeated_and_constant_columns_within_a_group_do_not_spoil_gamma(seed, penalty, l2_regularization):
    """A group of rank 2 in five columns is one of two: only the directions that are there count."""
    S, _ = random_moments(np.random.default_rng(seed), 4)
    wide = np.zeros((5, 4))
    wide[[0, 3], 0] = 1.0  # the first column twice, each at 1/sqrt 2, and a constant one
    wide[1, 1] = 1.0
    wide /= np.maximum(np.linalg.norm(wide, axis=0), 1e-300)
    full = np.zeros((7, 4))
    full[:5, :2], full[5:, 2:] = wide[:, :2], np.eye(2)
    for criterion in ("forward", "omp", "literal", "unwhitened"):
        expected = spectral_gamma(S, l2_regularization, [0, 2, 4], penalty=penalty, criterion=criterion)
        found = spectral_gamma(
            full @ S @ full.T, l2_regularization, [0, 5, 7], penalty=penalty, criterion=criterion
        )
        assert found == pytest.approx(expected)


@given(seeds)
def test_without_ridge_gamma_does_not_depend_on_the_axes_of_a_group(seed):
    """As the orders of OMP and forward regression do not (L6)."""
    random = np.random.default_rng(seed)
    S, _ = random_moments(random, 5)
    A = block_diag(random.normal(size=(2, 2)) + 2 * np.eye(2), random.normal(size=(3, 3)) + 2 * np.eye(3))
    assert spectral_gamma(A @ S @ A.T, 0.0, [0, 2, 5]) == pytest.approx(
        spectral_gamma(S, 0.0, [0, 2, 5]), rel=1e-6
    )


@given(seeds, st.sampled_from(["identity", "groups"]), st.sampled_from([0.0, 1e-3, 0.3]))
def test_spectral_gamma_is_a_lower_bound_on_the_submodularity_of_least_squares(
    seed, penalty, l2_regularization
):
    """Theorem 5.2.5, for groups: over every A and S."""
    S, v = random_moments(np.random.default_rng(seed), 8)
    start = [0, 2, 3, 5, 6, 8]
    table = least_squares(S, v, l2_regularization, start, penalty)
    gamma = spectral_gamma(S, l2_regularization, start, penalty=penalty)
    assert 0.0 < gamma <= submodularity_ratio(table) + 1e-9
    rho = spectral_gamma(S, l2_regularization, start, penalty=penalty, criterion="unwhitened")  # section 8.9
    assert rho <= gamma + 1e-12


def test_curvature_constants_are_those_of_section_3_5():
    """For the logistic: m at the largest eigenvalue, M at the smallest."""
    assert curvature_constants(0.2, 3.0, 0.1, 0.0, 0.25) == pytest.approx((0.1 / 3.1, (0.05 + 0.1) / 0.3))
    assert curvature_constants(0.2, 3.0, 0.1, 1.0, 1.0) == (1.0, 1.0)
    assert curvature_constants(0.0, 3.0, 0.0, 0.1, 0.25) == (0.1, 0.25)
    assert curvature_constants(0.2, 3.0, 0.1, 0.5, 2.0) == pytest.approx((1.6 / 3.1, 6.1 / 3.1))
    S, _ = random_moments(np.random.default_rng(0), 4)
    spectrum = np.linalg.eigvalsh(S)
    m, M = curvature_constants(spectrum[0], spectrum[-1], 0.1, 0.0, 0.25)
    gamma = curved_gamma(S, 0.1, (0.0, 0.25))
    assert gamma == pytest.approx(m / M * spectral_gamma(S, 0.1))
    assert curved_gamma(S, 0.0, (0.0, 0.25)) == 0.0  # without ridge a loss that is only convex has none


def test_a_matrix_without_varying_columns_has_gamma_1():
    assert spectral_gamma(np.zeros((3, 3)), 0.5) == 1.0
    assert spectral_gamma(np.zeros((0, 0))) == 1.0


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: value_table(len, 17), "too many subsets"),
        (lambda: submodularity_ratio(len), "give n_elements"),
        (lambda: submodularity_ratio(len, method="sampled"), "give n_elements"),
        (lambda: submodularity_ratio([0.0, 1.0, 2.0]), "2\\*\\*n entries"),
        (lambda: elementwise_ratio([0.0, 1.0], 2), "2\\*\\*n entries"),
        (lambda: elementwise_ratio(len, 3, method="random"), "method is 'random'"),
        (lambda: elementwise_ratio([0.0, 1.0], method="sampled"), "use method='exact'"),
        (lambda: elementwise_ratio(TableOracle(np.zeros(4))), "an oracle is led along orders only"),
        (lambda: greediness(len, [0, 0], [1.0, 1.0]), "names 0"),
        (lambda: greediness(len, [2], [1.0, 1.0]), "names 2"),
        (lambda: greediness_slack(len, [0], [1.0], per="step"), "per is 'step'"),
        (lambda: spectral_gamma([[1.0, 0.5]]), "symmetric"),
        (lambda: spectral_gamma([[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (lambda: spectral_gamma(np.eye(2), -1.0), "l2_regularization is -1"),
        (lambda: spectral_gamma(np.eye(2), start=[0, 1]), "rise from 0"),
        (lambda: spectral_gamma(np.eye(2), penalty="l1"), "penalty is 'l1'"),
        (lambda: spectral_gamma(np.eye(2), criterion="best"), "criterion is 'best'"),
        (lambda: curved_gamma(np.eye(2), 0.0, (1.0, 0.5)), "curvature lies between"),
    ],
)
def test_an_error_says_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
