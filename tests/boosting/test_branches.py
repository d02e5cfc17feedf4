"""Sets for known budgets: which are looked at, and when one answers instead of the chain."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import anytime as at
from anytime.boosting.branches import (
    branch_sets,
    budgets,
    chosen,
    filled,
    longest_prefix,
    most_gain_first,
    most_missed_first,
    sets_within,
)
from anytime.boosting.foretelling import Foretelling
from anytime.boosting.renewal import Renewal, Renewed
from anytime.boosting.sets import GroupSets

A, B, C = 0, 1, 2


def golden():
    """known_budgets_and_rows K6: additive values 5, 6, 9 at prices 1, 4, 5; the chain buys a, c, b."""
    sets = GroupSets(at.FeatureCosts([1.0, 4.0, 5.0]).bind(3))
    return sets, np.array([5.0, 6.0, 9.0]), [A, C, B]


def ticks(sets, amount):
    return round(amount / sets.costs.costs.amount(1))


@pytest.mark.parametrize(
    ("budget", "prefix", "fill", "best", "groups"),
    [(4, 5, 5, 6, {B}), (5, 5, 11, 11, {A, B}), (6, 14, 14, 14, {A, C}), (9, 14, 14, 15, {B, C}), (10, 20, 20, 20, {A, B, C})],
)  # fmt: skip
def test_golden_values_at_known_budgets(budget, prefix, fill, best, groups):
    """known_budgets_and_rows K6."""
    sets, values, order = golden()
    within = ticks(sets, budget)

    def value(groups):
        return float(values[list(groups)].sum())

    assert value(longest_prefix(sets, within, order)) == prefix
    assert value(filled(sets, within, order)) == fill
    found = sets_within(sets, within, order, value, values)
    assert found[0] == frozenset(groups)
    assert value(found[0]) == best


def additive(values):
    """Held-out losses of 20 parts without noise: what the groups of a set are not worth."""
    return lambda groups: np.full(20, values.sum() - values[list(groups)].sum())


def test_the_branches_of_the_golden_example_beat_its_chain():
    sets, values, order = golden()
    chain = [frozenset([A]), frozenset([A, C]), frozenset([A, B, C])]
    found = branch_sets(sets, order, chain, additive(values), values, budgets(sets, order, 24))
    assert found == [frozenset([B]), frozenset([A, B]), frozenset([B, C])]


def test_branches_that_gain_most_are_made_first_where_time_is_short():
    """Of losses 15, 15 and 6 where the chain answers, {B} leaves 14, {A, B} 9 and {B, C} 5."""
    sets, values, _ = golden()
    chain = [frozenset([A]), frozenset([A, C]), frozenset([A, B, C])]
    found = [frozenset([B]), frozenset([A, B]), frozenset([B, C])]
    ranked = most_gain_first(found, chain, sets, lambda groups: additive(values)(groups).mean())
    assert ranked == [frozenset([A, B]), frozenset([B, C]), frozenset([B])]


def test_what_time_may_not_suffice_for_comes_in_the_order_in_which_it_is_missed():
    """Losses 15, 6, 14 at costs 1, 6, 4, between 20 for nothing and 0 at 10: areas 5 ln 10 > 14 ln (10 / 6) > 6 ln (10 / 4)."""
    sets, values, _ = golden()
    todo = [frozenset([B]), frozenset([A, C]), frozenset([A])]
    made = [frozenset([A, B, C])]
    ordered = most_missed_first(todo, made, sets, lambda groups: additive(values)(groups).mean())
    assert ordered == [frozenset([A]), frozenset([A, C]), frozenset([B])]
    assert most_missed_first(todo, made, sets, lambda groups: np.nan) == todo


@pytest.mark.parametrize("seed", range(20))
def test_quality_does_not_fall_with_the_budget_and_no_set_costs_more_than_its_budget(seed):
    """known_budgets_and_rows K1 and K2, with requirements; in small problems nearly the best set is found."""
    random = np.random.default_rng(seed)
    prices, values = random.integers(1, 10, 7).astype(float), random.uniform(0.1, 5, 7)
    names = [f"g{g}" for g in range(7)]
    costs = at.FeatureCosts(
        dict(zip(names, prices, strict=True)),
        groups={name: [g] for g, name in enumerate(names)},
        requires={"g3": ["g1"], "g5": ["g3"]},
    )
    sets = GroupSets(costs.bind(7))
    order = sorted(range(7), key=lambda g: -values[g] / prices[g])
    chain = [sets.closed(order[: k + 1]) for k in range(7)]
    loss = additive(values)
    found = branch_sets(sets, order, chain, loss, values, budgets(sets, order, 24))
    assert sorted(found, key=sets.price) == found
    assert (np.diff([loss(groups)[0] for groups in found]) < 0).all()
    worth = []
    for budget in budgets(sets, order, 24):
        offered = sets_within(sets, budget, order, lambda groups: values[list(groups)].sum(), values)
        assert all(sets.price(groups) <= budget and groups == sets.closed(groups) for groups in offered)
        closed = {sets.closed(some) for k in range(8) for some in itertools.combinations(range(7), k)}
        best = max(values[list(groups)].sum() for groups in closed if sets.price(groups) <= budget)
        worth.append(values[list(offered[0])].sum() / best)
    assert min(worth) > 0.7
    assert np.mean(worth) > 0.95


def test_the_best_of_many_useless_sets_is_not_taken():
    """Chosen and judged on the same rows, the best of 30 sets of noise mostly seems better by more than a standard error."""
    flattered = taken = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        chain, others = random.normal(size=20), random.normal(size=(30, 20))
        gains = chain - others[others.mean(axis=1).argmin()]
        flattered += gains.mean() > gains.std(ddof=1) / np.sqrt(20)
        taken += chosen(list(others), chain, unspent=0.0)
    assert flattered > 70
    assert taken < 35


def test_a_set_that_is_as_good_is_taken_where_the_chain_leaves_money():
    chain = np.random.default_rng(0).normal(size=20)
    slightly = chain - 0.01 * np.random.default_rng(1).normal(0.05, 1.0, size=20)
    slightly -= (slightly - chain).mean() + 1e-6
    assert not chosen([slightly], chain, unspent=0.01)
    assert chosen([slightly], chain, unspent=0.2)


def test_speedboost_answers_known_budgets_by_branches_and_interrupts_by_its_chain():
    """The dear group is worth more than the two cheap ones together, but a chain buys these first."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 4))
    y = 1.0 * X[:, 0] + 1.2 * X[:, 1] + 3.0 * X[:, 2] + 0.8 * X[:, 3]
    model = at.SpeedBoostRegressor(
        costs=[1.0, 2.0, 8.0, 4.0], n_estimators=60, max_stages=3, random_state=0
    ).fit(X, y)
    plan = model.plan_
    assert plan.branches
    assert all((model.cost(X[:5], budget=b) <= b).all() for b in np.linspace(0.5, 15, 30))
    quality = [-np.mean((model.predict(X, budget=b) - y) ** 2) for b in (1, 3, 8, 11, 15)]
    assert (np.diff(quality) > -0.05).all()
    np.testing.assert_array_equal(model.predict(X), model.predict(X, budget=15))
    chosen_branches = {int(plan.choice(int(t)).branch) for t in plan.choices[0]}
    assert set(range(len(plan.branches))) <= chosen_branches


def test_budgets_that_are_named_are_planned_for():
    """At 8 the dear group is the best; the chain has the cheap ones, and no branch is made for other budgets."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 4))
    y = 1.0 * X[:, 0] + 1.2 * X[:, 1] + 3.0 * X[:, 2] + 0.8 * X[:, 3]
    model = at.SpeedBoostRegressor(costs=[1.0, 2.0, 8.0, 4.0], n_estimators=60, budgets=[8.0], random_state=0)
    assert model.fit(X, y).answer(X[:5], budget=8).groups == ["x2"]
    assert [branch.order for branch in model.plan_.branches] == [["x2"]]
    assert not model.set_params(budgets=[]).fit(X, y).plan_.branches


@pytest.mark.parametrize("wrong", [[-1.0], [[1.0, 2.0]], [np.nan]])
def test_budgets_that_cannot_be_are_refused(wrong):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="budgets must be a list of non-negative numbers"):
        at.SpeedBoostRegressor(budgets=wrong).fit(X, X[:, 0])


def test_budgets_of_nothing_and_more_than_everything_are_planned_without_harm():
    X, y, _ = at.datasets.load("wine")
    costs = at.FeatureCosts(np.r_[0.0, np.ones(X.shape[1] - 1)])
    for named in ([0.0], [3.0, 0.0, 3.0, 1e6]):
        model = at.SpeedBoostClassifier(
            costs=costs, budgets=named, n_estimators=10, max_stages=1, random_state=0
        ).fit(X, y)
        assert model.cost(X, budget=3.0).max() <= 3.0


def test_what_trees_cost_is_kept_back_from_a_known_budget():
    sets, values, order = golden()
    chain, budget = [frozenset([A]), frozenset([A, C]), frozenset([A, B, C])], [ticks(sets, 6)]

    def evaluation(groups):
        return ticks(sets, 1) if groups else 0

    free = branch_sets(sets, order, chain[::2], additive(values), values, budget)
    priced = branch_sets(sets, order, chain, additive(values), values, budget, evaluation)
    assert free == [frozenset([A, C])]  # 1 + 5, which evaluating it would take beyond 6
    assert priced == [frozenset([A, B])]


def test_a_branch_for_a_named_budget_costs_no_more_than_that_with_its_trees():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 6))
    y = X @ [1.0, 1.5, 2.0, 1.2, 0.8, 0.5] + 0.1 * random.normal(size=600)
    prices, budget = [1.0, 1.2, 2.1, 1.4, 1.1, 0.7], 4.5
    settings = {"costs": prices, "n_estimators": 30, "evaluation_cost": 0.03, "random_state": 0}
    model = at.SpeedBoostRegressor(budgets=[budget], **settings).fit(X, y)
    known = [branch.stage_costs[-1] for branch in model.plan_.branches]
    assert known
    assert max(known) <= budget
    assert float(model.cost(X[:1], budget=budget)[0]) > 0.8 * budget


@pytest.mark.parametrize(("gain", "gives_way"), [(0.002, True), (0.1, False)])
def test_a_branch_gives_way_to_a_dearer_stage_unless_it_is_clearly_better(gain, gives_way):
    """It was the best of many on the same rows; what is cheaper than it, it stays better than."""
    noise = 0.02 * np.random.default_rng(0).normal(size=20)
    noise -= noise.mean()
    parts = {"first": np.full(20, 0.5), "dear": np.full(20, 0.4), "branch": 0.4 - gain + noise}
    sets = {name: frozenset([number]) for number, name in enumerate(parts)}
    by_set = {sets[name]: losses for name, losses in parts.items()}
    renewal = Renewal.__new__(Renewal)
    renewal.before, renewal.known, renewal.foretelling = 1.0, [], Foretelling()
    renewal.probes = SimpleNamespace(parts=by_set.__getitem__)
    first, dear, branch = (Renewed(sets[name], None, losses.mean()) for name, losses in parts.items())
    renewal.judged = list  # their losses are known
    [told] = renewal.judged_beside({branch: 4.0}, {first: 1.0, dear: 6.0})
    assert told.loss < first.loss
    assert (told.loss >= dear.loss) == gives_way
    assert renewal.judged_beside({first: 4.0}, {dear: 1.0}) == []  # worse than what is cheaper
