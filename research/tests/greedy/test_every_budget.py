"""Doubling near the best at every budget, on runs that never got stuck, with the controls that must fail."""

import numpy as np
import pytest

from anytime.greedy import doubling, greedy
from anytime_research.greedy import (
    doubling_bound,
    doubling_bound_elementwise,
    elementwise_ratio,
    regularised_gamma,
    submodularity_ratio,
)
from tests.reference.greedy import (
    TableOracle,
    best_within,
    holds,
    instances,
    least_squares,
    modular,
    pursuit_scores,
    random_costs,
    random_moments,
    set_costs,
)


def doubling_runs(kind, how_many, n=6, seed=0):
    """So many runs that never got stuck: (table, costs, run, budgets), the budgets a fine grid and all critical ones."""
    for k, (table, costs) in enumerate(instances(kind, n=n, seed=seed)):
        costs[np.argsort(costs)[1]] = costs.min()  # where no two are the cheapest, few runs can begin
        costs = costs ** (0.6 if k % 2 else 1.0)  # over a factor of 8 or of 32
        # Now and then a first element that may cost more than it must.
        c_min = "auto" if k % 3 else float(np.quantile(costs, 0.4, method="higher"))
        run = doubling(TableOracle(table), costs, c_min=c_min)
        if run.doubling_capable:
            critical = np.concatenate([run.costs, *(f * set_costs(costs) for f in (1, 4, 6))])
            grid = np.linspace(run.c_min, 6.5 * costs.sum(), 200)
            budgets = np.concatenate([critical, critical * (1 - 1e-6), grid])
            yield table, costs, run, budgets[budgets > run.c_min]
            how_many -= 1
        if not how_many:
            return


def test_lemma_4_4_3_and_the_structure_of_doubling():
    """Some prefix costs between half of any budget and all of it; no step more than doubles the cost."""
    for kind in ("modular", "coverage", "least squares"):
        for _, costs, run, budgets in doubling_runs(kind, 40):
            assert run.prices[0] <= run.c_min
            assert (run.prices[1:] <= run.costs[:-1] * (1 + 1e-12)).all()
            assert (run.costs[1:] <= 2 * run.costs[:-1] * (1 + 1e-12)).all()
            inside = budgets[budgets <= costs.sum()]
            reached = run.costs[run.n_affordable(inside) - 1]
            assert ((inside / 2 <= reached * (1 + 1e-12)) & (reached <= inside * (1 + 1e-12))).all()
            assert sorted(run.order) == list(range(6))


@pytest.mark.parametrize("kind", ["modular", "coverage", "least squares"])
def test_theorems_4_4_4_and_3_4_3_hold_at_every_budget(kind):
    """510 runs that are doubling capable, at all budgets, against the best sets of a sixth and of a quarter."""
    for table, costs, run, budgets in doubling_runs(kind, 170):
        value = run.value_at(budgets)
        gamma, ratio = submodularity_ratio(table), elementwise_ratio(table)
        assert kind == "least squares" or gamma == pytest.approx(1.0) == ratio
        assert holds(value, doubling_bound(best_within(table, costs, budgets / 6), gamma=gamma))
        quarter = best_within(table, costs, budgets / 4)
        assert holds(value, doubling_bound_elementwise(quarter, ratio))
        small = budgets <= 4 * run.prices[0]
        assert holds(value[small], doubling_bound_elementwise(quarter[small], ratio, small_budget=True))
        delta = 0.05 * table[-1]
        gamma = submodularity_ratio(table, delta=delta)
        for form in ("tight", "loose", "printed"):
            sixth = best_within(table, costs, budgets / 6)
            assert holds(value, doubling_bound(sixth, gamma=gamma, delta=delta, form=form))


def test_theorem_3_4_3_on_seven_columns():
    for table, costs, run, budgets in doubling_runs("least squares", 60, n=7, seed=3):
        quarter = best_within(table, costs, budgets / 4)
        assert holds(run.value_at(budgets), doubling_bound_elementwise(quarter, elementwise_ratio(table)))


def test_doubling_without_a_factor_in_cost_fails():
    """Negative control: at the full budget, and at half of it, the share of Theorem 4.4.4 is not reached."""
    failed = {1: 0, 2: 0}
    for table, costs, run, budgets in doubling_runs("modular", 100):
        for factor in failed:
            rival = best_within(table, costs, budgets / factor)
            failed[factor] += not holds(run.value_at(budgets), doubling_bound(rival))
    assert failed[1] > failed[2] > 0


def test_greedy_fails_where_doubling_holds():
    """Negative control: a dear element of the best rate comes first, and every smaller budget buys nothing."""
    table, costs = modular([1.0, 1.0, 1.0, 1.0, 900.0]), np.array([1.0, 1.0, 1.0, 1.0, 100.0])
    run = greedy(TableOracle(table), costs)
    assert run.value_at(99.0) == 0.0
    assert not holds(run.value_at(99.0), doubling_bound(best_within(table, costs, 99.0 / 6)))
    table, costs = modular([1.0, 1.0, 2.0, 30.0]), np.array([1.0, 1.0, 2.0, 4.0])
    run = doubling(TableOracle(table), costs)
    assert run.order.tolist() == [0, 1, 2, 3]
    budgets = np.linspace(1.001, 50.0, 500)
    assert holds(run.value_at(budgets), doubling_bound(best_within(table, costs, budgets / 6)))


def test_approximately_greedy_doubling():
    """functional_gradient_and_greedy 6.5: doubling by OMP scores, alpha measured over what it was allowed to buy."""
    seen, start = 0, np.arange(6)
    for k in range(80):
        random = np.random.default_rng([31, k])
        S, v = random_moments(random, 5, strength=0.5)
        costs = random_costs(random, 5, spread=8.0)
        costs[0] = costs[1] = costs.min()
        table = least_squares(S, v, 0.1)
        scores = pursuit_scores(S, v, start, 0.1, "identity", "omp")
        run = doubling(TableOracle(table, scores), costs)
        if not run.doubling_capable:
            continue
        seen += 1
        gamma = regularised_gamma(
            np.linalg.eigvalsh(S)[0], 0.1
        )  # also the alpha of OMP, whatever it may choose from
        budgets = np.linspace(run.c_min * (1 + 1e-9), 6 * costs.sum(), 300)
        sixth = best_within(table, costs, budgets / 6)
        assert holds(run.value_at(budgets), doubling_bound(sixth, gamma=gamma, alpha=gamma))
    assert seen > 30
