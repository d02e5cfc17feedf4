"""Lemmas and theorems through the engine, against all subsets (linear_and_networks 3, functional_gradient_and_greedy 8).

linear_and_networks 3.7: a passing bound alone proves little, so wrong orders stand beside each and must fail.
"""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anytime.greedy import Selection, greedy, rival_ceiling, spectral_gamma
from anytime.linear.pursuit import GroupedProblem, PursuitOracle
from anytime_research.greedy import greediness, greedy_bound, regularised_gamma, submodularity_ratio
from tests.reference.greedy import (
    least_squares,
    members,
    penalty_of,
    random_costs,
    random_moments,
    set_costs,
)

SLACK = 1e-9
START = np.array([0, 2, 3, 5, 6, 8])  # five groups of eight columns


def holds(value, bound):
    return bool((value >= bound - SLACK * np.maximum(1.0, np.abs(bound))).all())


def engine_run(S, v, start, l2_regularization, criterion, costs, *, whitened=True, **options):
    problem = GroupedProblem.from_moments(
        S, np.reshape(v, (len(S), -1)), start, l2_regularization, whitened=whitened
    )
    return greedy(PursuitOracle(problem, criterion), costs, **options)


def instances(seed, how_many, n_columns=8, strengths=(0.1, 0.5, 1.0)):
    for k in range(how_many):
        random = np.random.default_rng([seed, k])
        S, v = random_moments(random, n_columns, random.choice(strengths))
        yield random, S, v, float(random.choice([0.0, 1e-3, 0.1, 1.0]))


# ---------------------------------------------------------------------- section 3.1


def lemma_3_3_1(run, table, costs, gamma):
    """``F(S) - F(G) <= (c(S) / gamma)`` times the rate that the next step makes: at every step, against all sets."""
    before = np.concatenate([[0.0], run.values[:-1]])
    rates = (run.values - before) / run.prices
    return holds(rival_ceiling(before[:, None], rates[:, None], set_costs(costs), gamma=gamma), table)


def theorem_3_3_2(run, table, costs, gamma):
    """``F(G_L) >= (1 - exp(-gamma B / K)) F(S)``: for every prefix, against all sets."""
    bound = greedy_bound(table[1:], run.costs[:, None], set_costs(costs)[1:], gamma=gamma)
    return holds(run.values[:, None], bound)


@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("criterion", ["omp", "forward", "norm", "single", "forward_single"])
def test_lemma_3_3_1_and_theorem_3_3_2_for_the_engine(criterion, whitened):
    """60 instances of five groups each, four ridges, all 32 sets; with the constant of each criterion (section 3.2)."""
    spectra = {"norm": "unwhitened", "forward_single": "single"}
    for random, S, v, l2_regularization in instances(1, 60):
        costs = random_costs(random, 5)
        penalty = "groups" if whitened else "identity"
        gamma = spectral_gamma(
            S, l2_regularization, START, penalty=penalty, criterion=spectra.get(criterion, criterion)
        )
        run = engine_run(S, v, START, l2_regularization, criterion, costs, whitened=whitened)
        table = least_squares(S, v, l2_regularization, START, penalty)
        assert_allclose(run.values, table[np.cumsum(1 << run.order)])
        assert lemma_3_3_1(run, table, costs, gamma)
        assert theorem_3_3_2(run, table, costs, gamma)


def test_lemma_3_3_1_and_theorem_3_3_2_fail_for_wrong_orders():
    """3.7: 120 instances of six columns, ridge 1e-3, costs over a factor of 32. The counts of the text, roughly."""
    passed = {name: [0, 0] for name in ("forward", "omp", "costs ignored", "random", "worst first")}
    start = np.arange(7)
    for random, S, v, _ in instances(37, 120, 6, strengths=(0.3,)):
        costs = random_costs(random, 6)
        gamma, table = spectral_gamma(S, 1e-3), least_squares(S, v, 1e-3)
        forward = engine_run(S, v, start, 1e-3, "forward", costs)
        orders = {
            "forward": forward.order,
            "omp": engine_run(S, v, start, 1e-3, "omp", costs).order,
            "costs ignored": engine_run(S, v, start, 1e-3, "forward", costs, cost_aware=False).order,
            "random": random.permutation(6),
            "worst first": forward.order[::-1],
        }
        for name, order in orders.items():
            run = replayed(S, v, start, 1e-3, order, costs)
            passed[name][0] += theorem_3_3_2(run, table, costs, gamma)
            passed[name][1] += lemma_3_3_1(run, table, costs, gamma)
    assert passed["forward"] == passed["omp"] == [120, 120]
    assert passed["costs ignored"][1] < 120
    assert passed["random"][1] < 100
    assert passed["worst first"][1] < 60
    assert all(lemma <= theorem for theorem, lemma in passed.values())  # the lemma is the sharper check


def replayed(S, v, start, l2_regularization, order, costs):
    """The books of any order."""
    oracle = PursuitOracle(
        GroupedProblem.from_moments(S, v[:, None], start, l2_regularization, whitened=True), "forward"
    )
    values = []
    for g in order:
        oracle.add(int(g))
        values.append(oracle.value)
    prices = costs[order]
    return Selection(
        order=order,
        prices=prices,
        costs=np.cumsum(prices),
        values=np.array(values),
        best_rates=np.full(len(order), np.nan),
        n_elements=len(order),
    )


def pairs_of_sets(S, v, l2_regularization, penalty):
    """(G, S, b over G + S at the weights of G, C over G + S, F(G), F(S)) for all pairs of sets of groups."""
    C = S + l2_regularization * penalty_of(S, START, penalty)
    table = least_squares(S, v, l2_regularization, START, penalty)
    on = np.repeat(members(5), np.diff(START), axis=1)
    for g in range(32):
        weights = np.zeros(8)
        weights[on[g]] = np.linalg.solve(C[np.ix_(on[g], on[g])], v[on[g]])
        b = v - C @ weights
        for s in range(32):
            both = on[g] | on[s]
            yield g, s, b[both], C[np.ix_(both, both)], table[g], table[s]


@pytest.mark.parametrize("penalty", ["groups", "identity"])
def test_lemmas_3_3_3_and_3_3_4_and_the_spectral_step(penalty):
    """All pairs of sets of five groups: what a rival can have on top, what a step gains at least, and (3.9-3.10)."""
    for _, S, v, l2_regularization in instances(2, 4):
        table = least_squares(S, v, l2_regularization, START, penalty)
        oracle_scores = {}
        for g, s, b, C, of_g, of_s in pairs_of_sets(S, v, l2_regularization, penalty):
            most = 0.5 * b @ np.linalg.solve(C, b) if b.size else 0.0
            assert of_s - of_g <= most + 1e-12
            if s & g == g:
                assert of_s - of_g == pytest.approx(most, abs=1e-12)  # equality for S that holds G
            assert most <= b @ b / (2 * max(np.linalg.eigvalsh(C)[0], 1e-300)) + 1e-12 if b.size else True
            oracle_scores.setdefault(g, scores_after(S, v, l2_regularization, penalty, g))
        for g, scores in oracle_scores.items():  # Lemma 3.3.4: the gain is at least the OMP score
            left = [x for x in range(5) if not g >> x & 1]
            gains = table[[g | 1 << x for x in left]] - table[g]
            assert holds(gains, scores[left])


def scores_after(S, v, l2_regularization, penalty, chosen):
    problem = GroupedProblem.from_moments(
        S, v[:, None], START, l2_regularization, whitened=penalty == "groups"
    )
    oracle = PursuitOracle(problem, "omp")
    for g in range(5):
        if chosen >> g & 1:
            oracle.add(g)
    return oracle.gains(np.arange(5))


# ---------------------------------------------------------------------- Grubb, section 5.2 and 5.6


def left_of(problem, chosen):
    """What is left of the covariance after groups are bought, by the engine's own factor."""
    oracle = PursuitOracle(problem, "forward")
    for g in chosen:
        oracle.add(g)
    L = oracle._L[: oracle._filled]
    return problem.covariance - L.T @ L


def test_lemmas_5_2_1_and_5_2_2_what_is_left_of_the_covariance_is_no_flatter():
    """For all sets A of five columns: with ridge it dominates that without, whose least eigenvalue is at least that of C."""
    start = np.arange(6)
    for _, S, v, l2_regularization in instances(3, 25, 5):
        least = np.linalg.eigvalsh(S)[0]
        with_ridge, without = (
            GroupedProblem.from_moments(S, v[:, None], start, r, whitened=False)
            for r in (l2_regularization, 0.0)
        )
        for chosen in members(5)[:-1]:
            rest = np.ix_(~chosen, ~chosen)
            A = np.flatnonzero(chosen)
            residual = left_of(without, A)[rest]  # C^A
            regularised = left_of(with_ridge, A)[rest] - l2_regularization * np.eye((~chosen).sum())  # C'
            assert np.linalg.eigvalsh(residual)[0] >= least - 1e-12
            assert np.linalg.eigvalsh(regularised)[0] >= np.linalg.eigvalsh(residual)[0] - 1e-12
            assert np.linalg.eigvalsh(regularised - residual)[0] >= -1e-12


def engine_table(problem):
    """F of all sets of groups, by the engine."""
    values = np.zeros(1 << problem.n_groups)
    for s, inside in enumerate(members(problem.n_groups)):
        oracle = PursuitOracle(problem, "norm")
        for g in np.flatnonzero(inside):
            oracle.add(int(g))
        values[s] = oracle.value
    return values


def test_theorems_5_2_5_and_5_2_6_and_corollary_5_2_7():
    """60 problems of five columns: submodularity of F, greediness of OMP, and both exponents, all by the engine."""
    start = np.arange(6)
    for random, S, v, _ in instances(4, 60, 5):
        l2_regularization, costs = float(random.choice([0.0, 0.1, 0.25, 0.5])), random_costs(random, 5)
        gamma = regularised_gamma(np.linalg.eigvalsh(S)[0], l2_regularization)
        problem = GroupedProblem.from_moments(S, v[:, None], start, l2_regularization, whitened=False)
        table = engine_table(problem)
        assert_allclose(table, least_squares(S, v, l2_regularization), atol=1e-14)
        assert l2_regularization / (1 + l2_regularization) <= gamma <= submodularity_ratio(table) + SLACK
        forward, omp = (
            engine_run(S, v, start, l2_regularization, c, costs, whitened=False) for c in ("forward", "omp")
        )
        true_gains = PursuitOracle(problem, "forward")
        assert holds(greediness(true_gains, omp.order, costs), gamma)
        assert_allclose(greediness(true_gains, forward.order, costs), 1.0)
        for run, alpha in ((forward, 1.0), (omp, gamma)):
            bound = greedy_bound(
                table[1:], run.costs[:, None], set_costs(costs)[1:], gamma=gamma, alpha=alpha
            )
            assert holds(run.values[:, None], bound)


def test_grouped_rho_bounds():
    """Section 8.9: F over groups is (rho, 0)-approximately submodular, grouped OMP (rho, 0)-approximately greedy."""
    for random, S, v, _ in instances(5, 60):
        l2_regularization, costs = float(random.choice([1e-3, 0.1, 0.5])), random_costs(random, 5)
        problem = GroupedProblem.from_moments(S, v[:, None], START, l2_regularization, whitened=False)
        largest = max(np.linalg.eigvalsh(S[i:j, i:j])[-1] for i, j in pairwise(START))
        rho = (np.linalg.eigvalsh(S)[0] + l2_regularization) / (largest + l2_regularization)
        assert rho == pytest.approx(spectral_gamma(S, l2_regularization, START, criterion="unwhitened"))
        assert submodularity_ratio(engine_table(problem)) >= rho - SLACK
        omp = engine_run(S, v, START, l2_regularization, "omp", costs, whitened=False)
        assert holds(greediness(PursuitOracle(problem, "forward"), omp.order, costs), rho)


def test_theorem_5_5_2_simultaneous_pursuit_is_as_greedy_as_pursuit_of_one():
    """Three targets that share what is bought: alpha = (least eigenvalue + ridge) / (1 + ridge)."""
    start = np.arange(6)
    for random, S, v, _ in instances(6, 40, 5):
        l2_regularization, costs = float(random.choice([0.05, 0.3])), random_costs(random, 5)
        V = np.column_stack([v, random.permutation(v), 0.2 * random.normal(size=5)])
        problem = GroupedProblem.from_moments(S, V, start, l2_regularization, whitened=False)
        order = greedy(PursuitOracle(problem, "omp"), costs).order
        alpha = regularised_gamma(np.linalg.eigvalsh(S)[0], l2_regularization)
        assert holds(greediness(PursuitOracle(problem, "forward"), order, costs), alpha)
