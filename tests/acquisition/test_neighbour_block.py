"""Purchases row by row (known_budgets_and_rows 3): golden numbers, and the properties R1 to R6 of decisions."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime._native import Neighbours
from anytime.acquisition import masked_networks
from anytime.acquisition.masked_networks import MaskedNetworks
from anytime.engine import Run
from tests.reference import neighbours as plain
from tests.strategies import feature_costs

MUCH = np.int64(2**61)


def exact(weights, last, rows, *, labels=None, values=None, prices=None, k=8, look_ahead=12):
    """Neighbours whose one network is known: hidden units ``relu(weights' x)``, answers ``last' units``; floor 0."""
    m, h = weights.shape
    n_groups = m
    first = np.concatenate([weights, np.zeros((n_groups, h))])[None].astype(np.float32)
    middle = np.eye(h, dtype=np.float32)[None]
    costs = at.FeatureCosts(np.ones(m) if prices is None else prices).bind(m)
    native = Neighbours(
        costs.table,
        np.ascontiguousarray(rows, dtype=np.float32),
        np.arange(m, dtype=np.int32),
        m,
        np.zeros(len(rows), dtype=np.int32),
        None if labels is None else labels.astype(np.int32),
        None if values is None else values.astype(np.float32),
        *(first, np.full((1, h), 0.0, np.float32), middle, np.zeros((1, h), np.float32)),
        *(last[None].astype(np.float32), np.zeros((1, last.shape[1]), np.float32)),
        n_neighbours=k,
        floor=0.0,
        price_power=1.0,
        look_ahead=look_ahead,
    )
    return native, costs


def xor(look_ahead=12):
    """Labels x1 xor x2, and a third column that is right with probability 0.6: twenty rows that are exactly so."""
    units = [[1, 1, 0], [-1, -1, 0], [1, -1, 0], [-1, 1, 0], [0, 0, 1], [0, 0, -1]]
    bias = np.array([-1, -1, -1, -1, 0, 0], dtype=np.float32)
    rows, labels = [], []
    for one in (-1, 1):
        for other in (-1, 1):
            y = int(one != other)
            for right in (1, 1, 1, -1, -1):
                rows.append([one, other, right * (2 * y - 1)])
                labels.append(y)
    odds = np.log(1.5)
    last = np.array([[0, -40], [0, -40], [0, 40], [0, 40], [0, odds], [0, -odds]])
    weights = np.concatenate([np.array(units).T, np.zeros((3, 6))])[None].astype(np.float32)
    costs = at.FeatureCosts(np.ones(3)).bind(3)
    one = np.zeros((1, 6), np.float32)
    native = Neighbours(
        *(costs.table, np.array(rows, np.float32), np.arange(3, dtype=np.int32), 3),
        *(np.zeros(20, np.int32), np.array(labels, np.int32), None),
        *(weights, bias[None], np.eye(6, dtype=np.float32)[None], one),
        *(last[None].astype(np.float32), np.zeros((1, 2), np.float32)),
        n_neighbours=5,
        floor=0.0,
        price_power=1.0,
        look_ahead=look_ahead,
    )
    return native


def decided(native, inputs, owned, left=MUCH, barred=None):
    owned = np.atleast_2d(np.asarray(owned, dtype=bool))
    n = len(owned)
    inputs = np.broadcast_to(np.asarray(inputs, dtype=np.float32), (n, np.shape(inputs)[-1])).copy()
    barred = np.zeros_like(owned) if barred is None else np.atleast_2d(np.asarray(barred, dtype=bool))
    return native.choose(inputs, owned, barred, np.full(n, left, dtype=np.int64), all_gains=True)


def test_xor_gains_nothing_by_single_columns_and_everything_by_the_pair():
    """known_budgets_and_rows 3.1, golden: gains 0, 0 and 0.0201; the pair's gain per price is 0.3466 (R6)."""
    group, price, gain, gains = decided(xor(), np.zeros(3), [0, 0, 0])
    assert_allclose(gains[0], [0.0, 0.0, 0.0201], atol=5e-5)
    assert group[0] == 0
    assert price[0] == 2 * at.FeatureCosts(np.ones(3)).ticks(1.0)
    assert_allclose(gain[0] / 2, 0.3466, atol=5e-5)
    then = decided(xor(), [1, 0, 0], [1, 0, 0])
    assert then[0][0] == 1
    assert_allclose(then[2][0], np.log(2), rtol=1e-5)


def test_greedy_buys_the_poor_guess_first():
    """The negative control of R6."""
    group, _, gain, _ = decided(xor(look_ahead=0), np.zeros(3), [0, 0, 0])
    assert group[0] == 2
    assert_allclose(gain[0], 0.0201, atol=5e-5)


def factorial(weights, cycles=8):
    """Every combination of signs, over and over, with values that add up: rows, values, and a network that knows it."""
    m = len(weights)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * m)).reshape(m, -1).T
    rows = np.tile(signs, (cycles, 1))
    units = np.concatenate([np.eye(m), -np.eye(m)], axis=1)
    last = np.concatenate([np.diag(weights), -np.diag(weights)]).sum(axis=1, keepdims=True)
    return units, last, rows, rows @ np.array(weights)[:, None]


@pytest.mark.parametrize("prices", [[1, 1, 1, 1], [1, 2, 4, 1], [9, 1, 1, 1]])
def test_independent_columns_that_add_up_are_bought_in_the_static_order(prices):
    """R4: every row buys in the order of squared weight per price, whatever its values are."""
    weights = np.array([1.0, 2.0, 3.0, 0.5])
    units, last, rows, values = factorial(weights)
    native, costs = exact(
        units, last, rows, values=values, prices=np.array(prices, dtype=float), look_ahead=0
    )
    expected = np.argsort(-(weights**2) / prices, kind="stable")
    owned = np.zeros((16, 4), dtype=bool)
    for g in expected:
        group, _, gain, _ = decided(native, rows[:16], owned)
        assert_array_equal(group, np.full(16, g))
        assert_allclose(gain, weights[g] ** 2, rtol=1e-4)
        owned[:, g] = True
    assert (decided(native, rows[:16], owned)[0] == -1).all()
    assert costs.n_groups == 4


def test_permuting_groups_permutes_decisions():
    """R3, and a control: other weights give other decisions."""
    weights, order = np.array([1.0, 2.0, 3.0, 0.5]), np.array([2, 0, 3, 1])
    units, last, rows, values = factorial(weights)
    native, _ = exact(units, last, rows, values=values)
    permuted, _ = exact(units[order], last, rows[:, order], values=values)
    for owned in ([0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0]):
        one = decided(native, rows[5], owned)[0][0]
        other = decided(permuted, rows[5, order], np.array(owned)[order])[0][0]
        assert order[other] == one
    flat, _ = exact(units, last * 0 + 1, rows, values=values)
    assert decided(flat, rows[5], [0, 0, 1, 0])[0][0] != 1


def test_a_free_useless_group_is_bought_first_and_changes_nothing_else():
    """R3."""
    weights = np.array([1.0, 2.0, 3.0])
    units, last, rows, values = factorial(weights)
    useless = np.concatenate([units, np.zeros((1, units.shape[1]))])
    noise = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)
    native, _ = exact(units, last, rows, values=values)
    more, _ = exact(useless, last, noise, values=values, prices=np.array([1.0, 1.0, 1.0, 0.0]))
    assert decided(more, noise[3], [0, 0, 0, 0])[0][0] == 3
    for owned in ([0, 0, 0], [0, 0, 1], [0, 1, 1]):
        before = decided(native, rows[3], owned)
        after = decided(more, noise[3], [*owned, 1])
        assert before[0][0] == after[0][0]
        assert_allclose(before[2], after[2], rtol=1e-6)


def test_what_is_barred_or_too_dear_is_named_only_where_there_is_nothing_else():
    weights = np.array([1.0, 2.0, 3.0])
    units, last, rows, values = factorial(weights)
    native, costs = exact(units, last, rows, values=values, prices=np.array([1.0, 2.0, 4.0]), look_ahead=0)
    tick = costs.costs.ticks(1.0)
    nothing = [0, 0, 0]
    assert decided(native, rows[0], nothing)[0][0] == 2
    assert decided(native, rows[0], nothing, left=3 * tick)[0][0] == 1
    assert decided(native, rows[0], nothing, left=3 * tick, barred=[0, 1, 0])[0][0] == 0
    assert decided(native, rows[0], nothing, left=0)[0][0] == 2  # what it would like: the engine says no
    assert decided(native, rows[0], nothing, barred=[1, 1, 1])[0][0] == 2
    assert decided(native, rows[0], [1, 1, 1])[0][0] == -1


# ---------------------------------------------------------------------- fitted models against the definition

X = np.random.default_rng(0).normal(size=(90, 5))
X[::7, 1] = np.nan
Y = (np.nan_to_num(X[:, 1]) + X[:, 2] * X[:, 3] > 0).astype(int) + (X[:, 4] > 1)
COSTS = at.FeatureCosts(
    {"a": 1.0, "b": 3.0, "c": 2.0, "step": 0.5},
    groups={"a": [0, 1], "b": [2], "c": [3, 4], "step": []},
    requires={"c": ["step"]},
)
SMALL = {"hidden_layer_sizes": (12, 6), "folds": 3, "n_neighbors": 7, "random_state": 0}


@pytest.fixture(scope="module")
def block():
    return at.AcquisitionClassifier(costs=COSTS, look_ahead=0, **SMALL).fit(X, Y).plan_.blocks[0]


@pytest.fixture(scope="module")
def numbers():
    model = at.AcquisitionRegressor(look_ahead=0, **SMALL).fit(
        X, np.stack([X[:, 2], X[:, 3] * 5 + 2], axis=1)
    )
    return model.plan_.blocks[0]


@pytest.mark.parametrize("kind", ["block", "numbers"])
def test_gains_are_those_of_the_definition(kind, request):
    """Two implementations: distances, neighbours, losses and gains of random states."""
    block, random = request.getfixturevalue(kind), np.random.default_rng(1)
    rows = block.matrix(np.nan_to_num(random.normal(size=(12, 5))))
    owned = random.uniform(size=(12, block.costs.n_groups)) < 0.5
    owned = np.array([plain.closed(block, np.flatnonzero(row)) for row in owned])
    owned[0] = False
    group, price, gain, gains = decided(block.native, rows, owned)
    assert_array_equal(
        block.native.nearest(rows[1:], owned[1:]),
        [plain.neighbours(block, row, own) for row, own in zip(rows[1:], owned[1:], strict=True)],
    )
    for i, (row, own) in enumerate(zip(rows, owned, strict=True)):
        expected = plain.gains(block, row, own)
        assert_allclose(gains[i], expected, rtol=1e-3, atol=1e-5)
        if group[i] < 0:
            assert np.isnan(expected).all()
            continue
        prices = [(plain.closed(block, [g]) & ~own) @ block.costs.prices for g in range(block.costs.n_groups)]
        assert price[i] == prices[group[i]]
        weighed = np.maximum(prices, 1.0) ** block.price_power
        rates = np.where(own, np.nan, np.where(expected > 0, expected / weighed, expected * weighed))
        rate = gain[i] / weighed[group[i]] if gain[i] > 0 else gain[i] * weighed[group[i]]
        assert rate >= np.nanmax(rates) - 1e-2 * abs(np.nanmax(rates))


def test_scores_are_the_mean_of_the_networks(block):
    rows, owned = block.matrix(np.nan_to_num(X[:9])), np.array([True, False, True, True])
    expected = np.mean([plain.answers(block, rows, owned, f) for f in range(3)], axis=0)
    assert_allclose(block.native.scores(rows, np.tile(owned, (9, 1))), expected, rtol=1e-4, atol=1e-5)


@given(data=st.data())
def test_rows_keep_to_their_caps_close_requirements_and_use_up_what_they_have(data):
    """R1 on random prices and requirements; what is left buys nothing that the row lacks."""
    costs = data.draw(feature_costs(4))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    X, y = random.normal(size=(12, 4)), np.arange(12) % 2
    settings = {"hidden_layer_sizes": (3, 2), "folds": 2, "n_neighbors": 4, "random_state": 0}
    with patch.object(masked_networks, "_EPOCHS", (1, 10)):  # it holds whatever the networks have learned
        plan = at.AcquisitionClassifier(costs=costs, **settings).fit(X, y).plan_
    cap = data.draw(st.integers(0, int(plan.costs.prices.sum()) + 1))
    run = Run(plan, X, metered=True)
    run.advance(budget=cap)
    bought, prices = run.ledger.bought, plan.costs.prices
    assert (run.paid <= cap).all()
    assert_array_equal(run.paid, bought @ prices)
    for row, paid in zip(bought, run.paid, strict=True):
        for g in range(plan.costs.n_groups):
            closure = np.array(plan.costs.table.closure(g))
            assert not row[g] or row[closure].all()
            reads = (plan.costs.column_group == g).any()
            if reads and not row[g]:
                assert paid + prices[closure[~row[closure]]].sum() > cap


def test_decisions_do_not_depend_on_the_company_or_on_threads(block):
    """R2: in a batch of many, one by one, and on any number of threads."""
    random = np.random.default_rng(3)
    rows = block.matrix(np.nan_to_num(random.normal(size=(300, 5))))
    owned = random.uniform(size=(300, 4)) < 0.4
    owned = np.array([plain.closed(block, np.flatnonzero(row)) for row in owned])
    together = decided(block.native, rows, owned)
    for i in range(0, 300, 17):
        alone = decided(block.native, rows[i], owned[i])
        for one, all_ in zip(alone, together, strict=True):
            assert_array_equal(one[0], all_[i])
    nothing, left = np.zeros_like(owned), np.full(300, MUCH)
    for threads in (2, 3):
        again = block.native.choose(rows, owned, nothing, left, all_gains=True, threads=threads)
        for one, other in zip(together, again, strict=True):
            assert_array_equal(one, other)


def test_a_row_is_not_its_own_neighbour(block):
    rows, owned = (
        block.steps.expanded(block.reference.rows[:20]),
        np.tile([True, True, False, False], (20, 1)),
    )
    nothing, left = np.zeros_like(owned), np.full(20, MUCH)
    with_itself = block.native.choose(rows, owned, nothing, left, all_gains=True)[3]
    without = block.native.choose(rows, owned, nothing, left, np.arange(20), all_gains=True)[3]
    assert (with_itself != without)[:, 2:].any()
    near = block.native.nearest(rows, owned)
    assert all(i in near[i] for i in range(20))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": np.full((90, 6), np.inf, np.float32)}, "inputs must be finite"),
        ({"fold": np.full(90, 9, np.int32)}, "no such fold"),
        ({"labels": np.full(90, 9, np.int32)}, "no such label"),
        ({"labels": np.zeros(3, np.int32)}, "labels has 3 entries"),
        ({"labels": None}, "give labels or values"),
    ],
)
def test_reference_rows_that_do_not_fit_are_refused(block, changes, said):
    state = {**block.reference._asdict(), **changes}
    if "rows" in changes:
        state["rows"] = np.full_like(block.reference.rows, np.inf)
    with pytest.raises(ValueError, match=said):
        type(block)(block.inputs, block.steps, block.networks, type(block.reference)(**state), block.costs)


def test_networks_that_do_not_fit_are_refused(block):
    for name in MaskedNetworks._fields:
        for wrong in (getattr(block.networks, name)[..., :-1], getattr(block.networks, name) * np.inf):
            networks = block.networks._replace(**{name: np.ascontiguousarray(wrong)})
            with pytest.raises(ValueError, match=r"layer|entries|finite"):
                type(block)(block.inputs, block.steps, networks, block.reference, block.costs)
