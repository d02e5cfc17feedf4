"""Greedy and doubling against the obvious implementation, their limits, prices that share requirements, and certificates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.costs import FeatureCosts
from anytime.greedy import (
    FlatPrices,
    GroupPrices,
    SetFunction,
    doubling,
    greedy,
    rates_of,
)
from anytime_research.greedy.known_budget import best_of_greedy_or_single
from tests.reference import greedy as reference
from tests.reference.greedy import TableOracle, best_within, coverage, modular, set_costs


@st.composite
def functions(draw, submodular=False):
    """Tables of monotone functions with small whole values, full of ties."""
    n = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if submodular or draw(st.booleans()):
        return coverage(random.random((n, 8)) < 0.3, random.integers(1, 4, 8).astype(float))
    table = random.integers(0, 3, 1 << n).astype(float)
    table[0] = 0.0
    for x in range(n):  # each set is worth at least its subsets
        halves = table.reshape(-1, 2, 1 << x)
        halves[:, 1] = np.maximum(halves[:, 1], halves[:, 0])
    return table


def prices_for(table, least=1, most=6):
    n = table.size.bit_length() - 1
    return st.lists(st.integers(least, most), min_size=n, max_size=n)


@st.composite
def problems(draw, submodular=False, least=1, most=6):
    table = draw(functions(submodular=submodular))
    return table, draw(prices_for(table, least, most))


@st.composite
def limits(draw):
    limit = {}
    if draw(st.booleans()):
        limit["budget"] = float(draw(st.integers(0, 15)))
    if draw(st.booleans()):
        limit["max_elements"] = draw(st.integers(0, 6))
    if draw(st.booleans()):
        limit["min_gain"] = float(draw(st.integers(0, 4)))
    return limit


def assert_consistent(selection, table, costs):
    """What a selection says of its order is what the order does."""
    sets = np.cumsum(1 << selection.order) if selection.order.size else np.empty(0, dtype=int)
    np.testing.assert_array_equal(selection.values, table[sets])
    np.testing.assert_array_equal(selection.prices, np.asarray(costs, dtype=float)[selection.order])
    np.testing.assert_array_equal(selection.costs, np.cumsum(selection.prices))
    for j, before in enumerate(np.concatenate([[0], sets[:-1]])[: len(sets)]):
        left = np.array([x for x in range(len(costs)) if not before >> x & 1])
        rates = rates_of(table[before | 1 << left] - table[before], np.asarray(costs, dtype=float)[left])
        assert selection.best_rates[j] == rates.max()


# ---------------------------------------------------------------------- the obvious implementation


@given(problems(least=0), limits(), st.booleans())
def test_greedy_is_the_obvious_one_step_by_step(problem, limit, cost_aware):
    table, costs = problem
    selection = greedy(TableOracle(table), costs, cost_aware=cost_aware, **limit)
    order, _ = reference.greedy(table, costs, cost_aware=cost_aware, **limit)
    assert selection.order.tolist() == order
    assert selection.schedule == "greedy"
    assert selection.doubling_capable is None
    assert_consistent(selection, table, costs)


@given(problems(least=0), limits(), st.integers(1, 6), st.booleans())
def test_doubling_is_the_obvious_one_step_by_step(problem, limit, c_min, cost_aware):
    table, costs = problem
    c_min = max(c_min, min(costs))
    selection = doubling(TableOracle(table), costs, c_min=c_min, cost_aware=cost_aware, **limit)
    order, stuck = reference.greedy(table, costs, c_min=c_min, cost_aware=cost_aware, **limit)
    assert selection.order.tolist() == order
    assert selection.stuck_at == stuck
    assert selection.doubling_capable is (stuck is None)
    assert (selection.schedule, selection.c_min) == ("doubling", c_min)
    assert_consistent(selection, table, costs)


@given(problems(most=40), limits(), st.booleans())
def test_auto_c_min_is_the_one_that_trying_all_prices_finds(problem, limit, cost_aware):
    table, costs = problem
    found = doubling(TableOracle(table), costs, cost_aware=cost_aware, **limit).c_min
    limit.pop("min_gain", None)  # a run that may stop early for want of gain must still be able to go on
    expected = reference.smallest_start(table, costs, cost_aware=cost_aware, **limit)
    assert found == (min(costs) if expected is None else expected)


@given(problems(least=0, most=40), limits(), st.booleans())
def test_auto_c_min_with_free_elements_is_the_one_that_trying_all_prices_finds(problem, limit, cost_aware):
    table, costs = problem
    costs[0] = 0
    found = doubling(TableOracle(table), costs, cost_aware=cost_aware, **limit).c_min
    limit.pop("min_gain", None)
    expected = reference.smallest_start(table, costs, cost_aware=cost_aware, **limit)
    assert found == (min(costs) if expected is None else expected)


@given(problems(submodular=True), limits(), st.booleans())
def test_lazy_equals_plain_on_submodular_functions(problem, limit, cost_aware):
    table, costs = problem
    plain = greedy(TableOracle(table), costs, cost_aware=cost_aware, **limit)
    lazy = greedy(TableOracle(table), costs, cost_aware=cost_aware, lazy=True, **limit)
    assert lazy.order.tolist() == plain.order.tolist()
    np.testing.assert_array_equal(lazy.values, plain.values)
    assert (lazy.best_rates >= plain.best_rates).all()  # old rates are too high, so the certificate stays one
    if cost_aware and "budget" not in limit:
        np.testing.assert_array_equal(lazy.best_rates, plain.best_rates)


def test_lazy_looks_at_fewer_candidates():
    random = np.random.default_rng(0)
    table = reference.random_coverage(random, 12, n_points=40)
    plain, lazy = TableOracle(table), TableOracle(table)
    costs = reference.random_costs(random, 12)
    assert greedy(plain, costs).order.tolist() == greedy(lazy, costs, lazy=True).order.tolist()
    assert lazy.looks < plain.looks / 2


@given(problems())
def test_all_costs_times_a_number_and_all_values_times_another_change_nothing(problem):
    """linear_and_networks L7: powers of two, which rounding does not touch."""
    table, costs = problem
    for run in (greedy, doubling):
        before = run(TableOracle(table), costs)
        after = run(TableOracle(0.25 * table), 8.0 * np.array(costs))
        assert after.order.tolist() == before.order.tolist()


@given(functions())
def test_equal_costs_make_doubling_greedy(table):
    """linear_and_networks 3.4."""
    costs = np.full(table.size.bit_length() - 1, 3.0)
    run = doubling(TableOracle(table), costs)
    assert run.order.tolist() == greedy(TableOracle(table), costs).order.tolist()
    assert run.doubling_capable


@given(problems())
def test_a_function_of_sets_and_an_oracle_are_the_same(problem):
    table, costs = problem

    def function(elements):
        assert isinstance(elements, frozenset)
        return table[sum(1 << x for x in elements)] + 7.0  # what the empty set is worth does not count

    by_function = greedy(function, costs)
    by_oracle = greedy(SetFunction(function, len(costs)), FlatPrices(costs))
    assert (
        by_function.order.tolist()
        == by_oracle.order.tolist()
        == greedy(TableOracle(table), costs).order.tolist()
    )
    np.testing.assert_allclose(by_function.values, table[np.cumsum(1 << by_function.order)], atol=1e-12)


# ---------------------------------------------------------------------- ties, free elements, limits


def test_ties_go_to_the_lower_cost_then_to_the_lower_index():
    assert greedy(TableOracle(modular([4.0, 2.0, 2.0, 4.0])), [2.0, 1.0, 1.0, 2.0]).order.tolist() == [
        1,
        2,
        0,
        3,
    ]
    assert greedy(TableOracle(modular([0.0, 0.0, 0.0])), [3.0, 1.0, 1.0]).order.tolist() == [1, 2, 0]


def test_a_free_element_that_gains_comes_first_and_one_that_does_not_waits_its_turn():
    table = modular([5.0, 0.1, 0.0])
    selection = greedy(TableOracle(table), [1.0, 0.0, 0.0])
    assert selection.order.tolist() == [1, 0, 2]
    assert selection.best_rates.tolist() == [np.inf, 5.0, 0.0]
    assert selection.costs.tolist() == [0.0, 1.0, 1.0]


def test_what_is_free_is_not_the_first_element_of_doubling():
    run = doubling(TableOracle(modular([1.0, 1.0, 1.0])), [0.0, 2.0, 2.0], c_min=2.0)
    assert run.order.tolist() == [0, 1, 2]
    assert run.doubling_capable


def test_elements_that_do_not_fit_are_passed_over():
    selection = greedy(TableOracle(modular([10.0, 8.0, 1.0])), [5.0, 5.0, 1.0], budget=6.0)
    assert selection.order.tolist() == [0, 2]
    assert selection.costs[-1] == 6.0


def test_a_budget_equal_to_a_sum_of_prices_buys_it():
    assert greedy(TableOracle(modular([1.0, 2.0])), [0.1, 0.2], budget=0.3).order.size == 2
    selection = greedy(TableOracle(modular([1.0, 2.0])), [0.1, 0.2])
    assert selection.n_affordable(0.3) == 2


def test_min_gain_is_asked_of_what_still_fits():
    """The dear element gains most but does not fit: it does not keep the run going."""
    selection = greedy(TableOracle(modular([3.0, 0.5, 9.0])), [1.0, 1.0, 50.0], budget=10.0, min_gain=1.0)
    assert selection.order.tolist() == [0]


def test_min_gain_does_not_stop_at_a_small_gain_of_a_high_rate():
    table, costs = modular([0.5, 9.0]), [0.01, 1.0]
    for lazy in (False, True):
        assert greedy(TableOracle(table), costs, min_gain=1.0, lazy=lazy).order.tolist() == [0, 1]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_run_ends_when_on_step_says_so(lazy):
    costs = [1.0, 1.0, 1.0]
    run = greedy(
        TableOracle(modular([1.0, 3.0, 2.0])), costs, lazy=lazy, on_step=lambda step, _: step == 2 or None
    )
    assert run.order.tolist() == [1, 2]
    assert run.n_elements == 3


def test_on_step_is_told_every_step():
    told = []
    greedy(TableOracle(modular([1.0, 3.0, 2.0])), [1.0, 1.0, 1.0], on_step=lambda *step: told.append(step))
    assert told == [(1, 1), (2, 2), (3, 0)]
    told.clear()
    doubling(TableOracle(modular([1.0, 3.0, 2.0])), [1.0, 1.0, 1.0], on_step=lambda *step: told.append(step))
    assert told == [(1, 1), (2, 2), (3, 0)]


def test_no_elements_make_an_empty_run():
    for run in (greedy, doubling):
        selection = run(lambda s: 0.0, [])
        assert selection.order.size == selection.costs.size == 0
        assert selection.value_at(5.0) == 0.0
        assert selection.upper_bound(5.0) == 0.0


# ---------------------------------------------------------------------- doubling


def test_doubling_that_gets_stuck_takes_the_cheapest_and_says_so():
    """linear_and_networks 2.7: of equally cheap ones the best rate."""
    run = doubling(TableOracle(modular([1.0, 9.0, 2.0, 3.0])), [1.0, 9.0, 4.0, 4.0], c_min=1.0)
    assert run.order.tolist() == [0, 3, 2, 1]
    assert run.stuck_at == 2
    assert run.doubling_capable is False


def test_auto_c_min_passes_the_smallest_price_where_it_would_get_stuck():
    costs = [1.0, 2.0, 3.0, 5.0]
    assert doubling(TableOracle(modular([1.0, 3.0, 4.0, 5.0])), costs, c_min=1.0).stuck_at == 2
    run = doubling(TableOracle(modular([1.0, 3.0, 4.0, 5.0])), costs)
    assert (run.c_min, run.doubling_capable) == (2.0, True)


def test_auto_c_min_with_something_free_asks_what_is_paid_for_first():
    run = doubling(TableOracle(modular([7.0, 1.0, 3.0, 4.0, 5.0])), [0.0, 1.0, 2.0, 3.0, 5.0])
    assert run.order[0] == 0
    assert (run.c_min, run.doubling_capable) == (2.0, True)


def test_auto_c_min_without_a_way_across_the_last_gap_gets_as_far_as_possible():
    """The dear element has the worst rate: no c_min lets a run begin with it."""
    run = doubling(TableOracle(modular([1.0, 3.0, 0.1])), [1.0, 1.5, 100.0])
    assert (run.c_min, run.stuck_at) == (1.5, 3)


# ---------------------------------------------------------------------- shared requirements


@st.composite
def price_lists(draw):
    """Costs of up to six groups, each requiring some before it; some are no elements."""
    n = draw(st.integers(1, 6))
    names = [f"g{g}" for g in range(n)]
    requires = {
        names[g]: draw(st.lists(st.sampled_from(names[:g]), unique=True, max_size=2)) for g in range(1, n)
    }
    prices = dict(zip(names, draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), strict=True))
    costs = FeatureCosts(prices, groups={name: [g] for g, name in enumerate(names)}, requires=requires)
    elements = draw(st.lists(st.sampled_from(range(n)), min_size=1, unique=True))
    return costs, elements


@given(price_lists(), st.randoms(use_true_random=False))
def test_group_prices_equal_a_price_list_read_anew_before_each_purchase(price_list, random):
    costs, elements = price_list
    names = [costs.names[g] for g in elements]
    purse = GroupPrices(costs.bind(len(costs.names)), elements)
    bought, left = [], list(range(len(elements)))
    while left:
        expected = [costs.ticks(costs.price([names[x]], bought)) for x in left]
        assert purse.prices(np.array(left)).tolist() == expected
        shares = purse.shares(np.array(left))
        unpaid = [set(costs.closure([names[x]])) - set(costs.closure(bought)) for x in left]
        np.testing.assert_allclose(
            shares,
            [
                sum(costs.ticks(costs.prices[r]) / sum(r in other for other in unpaid) for r in needs)
                for needs in unpaid
            ],
        )
        for some in reference.members(len(left)):
            together = [names[x] for x, is_in in zip(left, some, strict=True) if is_in]
            assert shares[some].sum() <= costs.ticks(costs.price(together, bought)) * (1 + 1e-9)
        assert purse.shared is any(
            costs.prices[r] > 0 and sum(r in needs for needs in unpaid) > 1 for r in costs.names
        )
        if not purse.shared:
            np.testing.assert_allclose(shares, expected)
        x = random.choice(left)
        assert purse.buy(x) == costs.ticks(costs.price([names[x]], bought))
        left.remove(x)
        bought.append(names[x])
        assert purse.spent == costs.ticks(costs.price(bought))
    assert purse.restart().spent == 0.0


BLOOD = FeatureCosts(
    {"draw": 10.0, "a": 1.0, "b": 1.0, "c": 1.0, "scan": 6.0},
    groups={"draw": [], "a": [0], "b": [1], "c": [2], "scan": [3]},
    requires={name: ["draw"] for name in "abc"},
)


def blood_prices():
    return GroupPrices(BLOOD.bind(4), [1, 2, 3, 4])


def test_a_shared_requirement_is_paid_once():
    purse = blood_prices()
    tick = BLOOD.ticks(1.0)
    selection = greedy(TableOracle(modular([4.0, 3.0, 2.0, 1.0])), purse)
    assert selection.order.tolist() == [0, 1, 2, 3]
    assert (selection.prices / tick).tolist() == [11.0, 1.0, 1.0, 6.0]
    assert purse.spent == 19.0 * tick
    assert not purse.shared


def test_a_certificate_holds_although_elements_share_requirements():
    """All three tests cost 13 and are worth 9; by single prices nothing would seem worth more than 4/11 a unit."""
    tick = BLOOD.ticks(1.0)
    selection = greedy(TableOracle(modular([4.0, 3.0, 2.0, 1.0])), blood_prices(), max_elements=1)
    assert 13.0 * 4.0 / 11.0 < 9.0
    by_rate = replace(selection, rooms=None)
    assert by_rate.upper_bound(13.0 * tick) == pytest.approx(13.0 * 4.0 / (1.0 + 10.0 / 3.0))
    assert 9.0 <= selection.upper_bound(13.0 * tick) <= 9.0 + 1.0 / 6.0 * (19.0 - 13.0)


def test_gains_that_add_up_bound_more_sharply_than_the_best_rate():
    """One small bargain: by its rate ten units could be worth 100; but there is only one of it."""
    selection = greedy(TableOracle(modular([10.0, 2.0, 2.0])), FlatPrices([1.0, 5.0, 5.0]), max_elements=1)
    assert replace(selection, rooms=None).upper_bound(10.0) == pytest.approx(100.0)
    assert 13.6 <= selection.upper_bound(10.0) <= 14.0


@given(price_lists(), st.data())
def test_a_certificate_holds_for_every_set_of_a_price_list(price_list, data):
    costs, elements = price_list
    n = len(elements)
    table = modular(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    bound = costs.bind(len(costs.names))
    selection = greedy(
        TableOracle(table), GroupPrices(bound, elements), max_elements=data.draw(st.integers(0, n))
    )
    for some, value in zip(reference.members(n), table, strict=True):
        price = bound.table.price(np.array(elements, dtype=np.int32)[some])
        assert value <= selection.upper_bound(price) + 1e-9


def test_lazy_selection_refuses_prices_that_fall():
    with pytest.raises(ValueError, match="share requirements"):
        greedy(TableOracle(modular([1.0] * 4)), blood_prices(), lazy=True)
    alone = GroupPrices(BLOOD.bind(4), [1, 4])  # one user of the requirement: its price stays
    assert greedy(TableOracle(modular([1.0, 1.0])), alone, lazy=True).order.tolist() == [1, 0]


def test_auto_c_min_with_shared_requirements_never_gets_stuck_where_there_is_a_way():
    """A run that begins with the scan cannot afford the first blood test; one that begins with a test can go on."""
    run = doubling(TableOracle(modular([9.0, 3.0, 2.0, 1.0])), blood_prices())
    assert run.c_min == 11.0 * BLOOD.ticks(1.0)
    assert run.doubling_capable
    assert doubling(TableOracle(modular([9.0, 3.0, 2.0, 1.0])), blood_prices(), c_min=6e99).doubling_capable


def test_auto_c_min_knows_that_shared_prices_fall():
    """Two tests at 11 each cost 12 together, too little for a scan at 15, which 22 would pay: it has to come first."""
    costs = FeatureCosts(
        {"draw": 10.0, "a": 1.0, "b": 1.0, "scan": 15.0},
        groups={"draw": [], "a": [0], "b": [1], "scan": [2]},
        requires={"a": ["draw"], "b": ["draw"]},
    )
    run = doubling(TableOracle(modular([9.0, 8.0, 20.0])), GroupPrices(costs.bind(3), [1, 2, 3]))
    assert run.c_min == 15.0 * costs.ticks(1.0)
    assert run.order.tolist() == [2, 0, 1]
    assert run.doubling_capable


# ---------------------------------------------------------------------- certificates


@given(problems(submodular=True, least=0), limits(), st.booleans())
def test_no_set_exceeds_the_upper_bound_of_its_cost(problem, limit, lazy):
    """Lemma 4.2.3 as a certificate, whatever ended the run."""
    table, costs = problem
    selection = greedy(TableOracle(table), costs, lazy=lazy, **limit)
    assert (table <= selection.upper_bound(set_costs(costs)) + 1e-9).all()


@given(problems(submodular=True))
def test_the_upper_bound_of_a_doubling_run_holds_too(problem):
    table, costs = problem
    assert (table <= doubling(TableOracle(table), costs).upper_bound(set_costs(costs)) + 1e-9).all()


def test_upper_bound_at_the_edges():
    selection = greedy(TableOracle(modular([5.0, 2.0, 1.0])), [0.0, 1.0, 4.0], max_elements=2)
    assert selection.upper_bound(0.0) == 5.0  # not 0: what is free fits into no money
    assert selection.upper_bound(1.0) == 7.0
    assert selection.upper_bound([0.0, 1.0]).tolist() == [5.0, 7.0]
    assert selection.upper_bound(1.0, gamma=0.5, delta=0.25) == 5.0 + (2.0 + 0.25) / 0.5
    assert selection.upper_bound(0.0, delta=0.25) == 5.25
    assert selection.upper_bound(1.0, gamma=0.0) == np.inf
    assert greedy(TableOracle(modular([1.0])), [2.0], budget=1.0).upper_bound(9.0) == np.inf
    complete = greedy(TableOracle(modular([5.0, 2.0, 1.0])), [0.0, 1.0, 4.0])
    assert complete.upper_bound(np.inf) == 8.0
    assert complete.upper_bound(3.0, gamma=0.0) == 8.0


@given(problems(submodular=True))
def test_value_at_a_budget_is_that_of_the_longest_prefix_it_pays(problem):
    table, costs = problem
    selection = greedy(TableOracle(table), costs)
    budgets = np.arange(sum(costs) + 3) / 2
    expected = []
    for budget in budgets:
        chosen, spent = 0, 0
        for x in selection.order:
            if spent + costs[x] > budget:
                break
            chosen, spent = chosen | 1 << int(x), spent + costs[x]
        expected.append(table[chosen])
    np.testing.assert_array_equal(selection.value_at(budgets), expected)
    with pytest.raises(ValueError, match="must not be negative"):
        selection.value_at(-0.5)


# ---------------------------------------------------------------------- one known budget


@given(problems(submodular=True), st.integers(0, 20))
def test_greedy_or_single_is_worth_a_third_of_the_best(problem, budget):
    """functional_gradient_and_greedy 6.2: (1 - 1/e) / 2."""
    table, costs = problem
    elements, value = best_of_greedy_or_single(TableOracle(table), costs, budget)
    assert sum(costs[x] for x in elements) <= budget
    assert value == table[sum(1 << int(x) for x in elements)]
    assert value >= (1 - np.exp(-1)) / 2 * best_within(table, costs, budget) - 1e-9


def test_greedy_or_single_takes_the_single_element_that_greedy_misses():
    table, costs = modular([1.1, 100.0]), [1.0, 100.0]
    elements, value = best_of_greedy_or_single(TableOracle(table), costs, 100.0)
    assert (elements.tolist(), value) == ([1], 100.0)
    assert best_of_greedy_or_single(TableOracle(table), costs, 0.5)[0].size == 0


def test_greedy_or_single_is_not_nested():
    table, costs = modular([1.1, 100.0]), [1.0, 100.0]
    small, large = (set(best_of_greedy_or_single(TableOracle(table), costs, b)[0]) for b in (50.0, 100.0))
    assert not small <= large


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: greedy(lambda s: -len(s), [1.0, 1.0]), "adding element 0 loses 1"),
        (lambda: greedy(lambda s: np.nan if s else 0.0, [1.0]), "adding element 0 gains nan"),
        (lambda: greedy(lambda s: np.inf if 1 in s else 0.0, [1.0, 1.0]), "adding element 1 gains inf"),
        (lambda: greedy(len, [1.0, -1.0]), "element 1 costs -1"),
        (lambda: greedy(len, [1.0, np.nan]), "element 1 costs nan"),
        (lambda: greedy(len, [[1.0]]), "one number per element"),
        (lambda: greedy(len, 3.0), "one number per element"),
        (lambda: greedy(SetFunction(len, 3), [1.0]), "3 elements, but there are 1 costs"),
        (lambda: greedy(len, [1.0], budget=np.nan), "budget is NaN"),
        (lambda: greedy(len, [1.0], max_elements=-1), "max_elements is -1"),
        (lambda: greedy(len, [1.0]).value_at(np.nan), "budget is NaN"),
        (lambda: greedy(len, [1.0]).upper_bound(1.0, gamma=-1.0), "gamma is -1"),
        (
            lambda: doubling(len, [2.0, 3.0], c_min=1.0),
            "no element costs c_min = 1 or less; the cheapest costs 2",
        ),
        (lambda: doubling(len, [2.0, 3.0], c_min=np.nan), "no element costs"),
    ],
)
def test_an_error_says_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_loss_within_rounding_is_no_loss():
    table = np.array([0.0, 1.0, 1.0, 1.0 - 1e-12])
    assert greedy(TableOracle(table), [1.0, 1.0]).order.tolist() == [0, 1]
