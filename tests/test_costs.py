"""FeatureCosts and the ledger: prices, requirements, exact sums, precise errors."""

import itertools
import math
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anytime.blocks import LinearBlock
from anytime.costs import UNLIMITED, FeatureCosts
from anytime.plan import Plan
from anytime.runtime import Session
from tests.runtime.bench import model_of
from tests.strategies import feature_costs

BLOOD = {
    "groups": {"draw": [], "chol": ["chol"], "fbs": ["fbs"], "ecg": ["st", "slope"]},
    "prices": {"draw": 2.10, "chol": 5.17, "fbs": 3.10, "ecg": 15.50},
    "requires": {"chol": ["draw"], "fbs": ["draw"]},
    "unit": "CAD",
}
COLUMNS = ["chol", "fbs", "st", "slope"]


def blood() -> FeatureCosts:
    return FeatureCosts(**BLOOD)


def test_first_test_of_a_group_pays_the_shared_step_and_later_ones_do_not():
    costs = blood()
    assert costs.price(["chol"]) == 7.27
    assert costs.price(["fbs"], bought=["chol"]) == 3.10
    assert costs.price(["chol", "fbs"]) == 10.37
    assert costs.total == 25.87


def test_decimal_prices_add_up_exactly_in_any_order():
    costs = FeatureCosts([0.1, 0.2, 0.3])
    assert costs.price(["x0", "x1"]) == 0.3
    assert costs.budget_ticks(0.3) >= costs.ticks(0.1) + costs.ticks(0.2)
    assert costs.budget_ticks(0.3 * (1 - 1e-12)) < costs.ticks(0.1) + costs.ticks(0.2)


@given(st.lists(st.floats(1e-3, 1e4).map(lambda price: round(price, 4)), min_size=1, max_size=60))
def test_the_sum_of_all_prices_buys_everything(prices):
    """Sums of floats come out a little too small, as 0.1 + ... + 0.1 (ten times) does."""
    costs = FeatureCosts(prices)
    for budget in (sum(prices), sum(reversed(prices)), float(np.cumsum(prices)[-1])):
        everything = costs.ticks(costs.total)
        assert costs.budget_ticks(budget) >= everything
        assert costs.budgets_ticks(np.array([budget]))[0] >= everything
        assert costs.budget_ticks(budget * (1 - 1e-12)) < everything


def test_a_sum_that_comes_out_too_small_buys_all_stages():
    prices = [0.1] * 10
    total = float(np.cumsum(prices)[-1])  # Python's sum makes up for what is lost, from 3.12 on
    assert total < 1.0
    blocks = [LinearBlock([j], [[1.0]]) for j in range(10)]
    plan = Plan(blocks=blocks, costs=FeatureCosts(prices).bind(10), base=[0.0], link="identity")
    x = np.ones(10)
    for meter in ("model", "realised"):
        model = model_of(plan, meter=meter)
        assert model.predict(x[None], budget=total) == model.predict_one(x, budget=total) == 10.0
        assert model.predict(x[None], budget=[total]) == model.predict(x[None], mean_budget=total) == 10.0
        assert Session(model).predict(x, budget=total).complete


@pytest.mark.parametrize("scale", [1e-15, 1e-9, 1e-3, 1, 1e3, 1e9, 1e14, 1e18])
def test_decimal_literals_are_exact_at_every_scale(scale):
    one, two, both = (float(f"{x}e{round(math.log10(scale))}") for x in ("1.1", "2.2", "3.3"))
    costs = FeatureCosts([one, two])
    assert (costs.price(["x0"]), costs.price(["x1"])) == (one, two)
    assert costs.total == both
    assert costs.budget_ticks(both) == costs.ticks(one) + costs.ticks(two)


@given(st.floats(1e-10, 1e37))
def test_a_budget_equal_to_a_price_buys_it(price):
    costs = FeatureCosts([price])
    assert costs.budget_ticks(price) >= costs.ticks(price) > 0
    assert price * (1 - 1e-8) <= costs.total <= price


@given(st.lists(st.just(0.0) | st.floats(10, 1e4), min_size=1, max_size=5))
def test_a_budget_equal_to_a_price_buys_it_among_others(prices):
    costs = FeatureCosts(prices)
    for name, price in costs.prices.items():
        assert costs.budget_ticks(price) >= costs.ticks(price)
        assert price * (1 - 1e-8) <= costs.price([name]) <= price


def test_prices_far_apart_are_exact():
    costs = FeatureCosts([1e12, 7.27])
    assert (costs.price(["x0"]), costs.price(["x1"]), costs.total) == (1e12, 7.27, 1000000000007.27)


@st.composite
def price_tags(draw):
    """A price as a person writes it: up to 12 digits, at any scale."""
    return float(f"{draw(st.integers(0, 10 ** draw(st.integers(0, 12)) - 1))}e{draw(st.integers(-20, 20))}")


@given(st.lists(price_tags(), min_size=1, max_size=6))
def test_a_price_list_is_exact_to_its_shortest_decimal_form_or_refused(prices):
    exact = [Decimal(repr(price)) for price in prices]
    ticks = [Decimal(1).scaleb(price.normalize().as_tuple().exponent) for price in exact if price]
    fits = not ticks or (
        sum(exact) / min(ticks) <= 2**53 and min(ticks) >= Decimal("1e-22") and sum(exact) < 1e37
    )
    if not fits:
        with pytest.raises(ValueError, match=r"too far apart|unit"):
            FeatureCosts(prices)
        return
    costs = FeatureCosts(prices)
    assert [costs.price([name]) for name in costs.names] == prices
    assert costs.total == float(sum(exact))
    assert costs.amounts(costs.bind(len(prices)).prices).tolist() == prices


def test_prices_too_far_apart_are_refused_by_name():
    with pytest.raises(ValueError, match=r"1e-09 of 'x0' and 1000000000000.0 of 'x1' are too far apart"):
        FeatureCosts([1e-9, 1e12])
    with pytest.raises(ValueError, match=r"1e-30 of 'x0' is too small .* smaller unit"):
        FeatureCosts([1e-30])


@given(feature_costs(5), st.data())
def test_a_budget_equal_to_the_price_of_groups_buys_them(costs, data):
    groups = data.draw(st.lists(st.sampled_from(costs.names), unique=True))
    ticks = sum(costs.ticks(costs.prices[name]) for name in costs.closure(groups))
    assert costs.budget_ticks(costs.price(groups)) == ticks


def test_prices_of_every_size_are_told_apart():
    assert FeatureCosts([2 / 3]).budget_ticks(2 / 3) == FeatureCosts([2 / 3]).ticks(2 / 3)
    assert FeatureCosts([1e-20]).total == 1e-20
    assert FeatureCosts([1e37]).total == 1e37
    free = FeatureCosts([0.0, 0.0])
    assert free.amount(free.ticks(2e-8)) == 2e-8  # what evaluating a stage may take, in seconds
    assert free.budget_ticks(np.float64(1e300)) == UNLIMITED
    assert FeatureCosts([1e-6]).budget_ticks(1000) < UNLIMITED  # room for stages far dearer than the columns


@given(st.floats(0, 1e6), st.floats(1e-3, 1e5))
def test_budget_in_ticks_never_exceeds_the_budget(budget, price):
    costs = FeatureCosts([price])
    ticks = costs.budget_ticks(budget)
    assert costs.amount(ticks) <= budget * (1 + 2e-14) or (ticks == UNLIMITED and budget > 1000 * costs.total)


def test_one_price_per_column_and_prices_by_name():
    assert FeatureCosts([1, 2.5]).prices == {"x0": 1.0, "x1": 2.5}
    by_name = FeatureCosts({"age": 1, "scan": 50})
    assert by_name.bind(2, ["scan", "age"]).column_group.tolist() == [1, 0]


def test_a_series_goes_by_its_index_and_not_by_position():
    series = pd.Series({"b": 1.0, "a": 9.0})
    for costs in (FeatureCosts(series), FeatureCosts.coerce(series, 2, ["a", "b"])):
        assert costs.prices == {"b": 1, "a": 9}
        assert costs.bind(2, ["a", "b"]).column_group.tolist() == [1, 0]
    assert FeatureCosts.coerce(pd.Series({"columns": 1.0, "to_dict": 2.0}), 2).names == ("columns", "to_dict")
    assert FeatureCosts(series, groups={"a": [0], "b": [1]}, tails=series).tails == {"a": 9, "b": 1}
    with pytest.raises(ValueError, match="price given twice for 'a'"):
        FeatureCosts(pd.Series([1.0, 2.0], index=["a", "a"]))


def test_integer_keys_are_positions():
    by_position = FeatureCosts({1: 2.0, 0: 1.0})
    assert by_position.groups == {"x1": (1,), "x0": (0,)}
    assert by_position.bind(2).prices.tolist() == by_position.bind(2, ["u", "v"]).prices.tolist()
    assert FeatureCosts({0: 1.0, 1: 2.0}) == FeatureCosts([1, 2]) == FeatureCosts(pd.Series([1.0, 2.0]))
    assert FeatureCosts.coerce({0: 1.0, np.int64(1): 2.0}, 2) == FeatureCosts([1, 2])
    assert FeatureCosts({"0": 1.0}).groups == {"0": ("0",)}
    with pytest.raises(ValueError, match="price given twice for 'x0'"):
        FeatureCosts({0: 1.0, "x0": 2.0})


def test_a_long_chain_of_requirements_is_no_trouble():
    names = [f"g{i}" for i in range(3000)]
    requires = {name: [before] for before, name in itertools.pairwise(names)}
    costs = FeatureCosts(dict.fromkeys(names, 1), groups={n: [n] for n in names}, requires=requires)
    assert costs.closure([names[-1]]) == names
    assert costs.price([names[-1]], bought=[names[-2]]) == 1
    assert repr(costs) == "FeatureCosts(3000 groups, 3000 columns, total 3000)"


def test_ledger_charges_a_group_once_and_requirements_before():
    ledger = blood().bind(4, COLUMNS).ledger(2)
    chol, fbs = np.array([1], dtype=np.int32), np.array([2], dtype=np.int32)
    costs = blood()
    ledger.buy(chol, np.array([0]))
    assert costs.amounts(ledger.paid).tolist() == [7.27, 0.0]
    ledger.buy(chol, None)
    assert costs.amounts(ledger.paid).tolist() == [7.27, 7.27]
    assert costs.amounts(ledger.quote(fbs)).tolist() == [3.10, 3.10]
    assert ledger.bought[0].tolist() == [True, True, False, False]


def test_zero_prices_are_allowed_and_cost_nothing():
    costs = FeatureCosts({"free": 0, "dear": 3})
    assert costs.price(["free"]) == 0
    assert FeatureCosts([0.0, 0.0]).total == 0


@given(feature_costs(5), st.data())
def test_price_of_a_set_does_not_depend_on_the_order_of_purchase(costs, data):
    groups = data.draw(st.lists(st.sampled_from(costs.names), unique=True, max_size=5))
    wanted = costs.price(groups)
    for order in itertools.islice(itertools.permutations(groups), 12):
        bought: list[str] = []
        ticks = 0
        for group in order:
            ticks += costs.budget_ticks(costs.price([group], bought))
            bought.append(group)
        assert ticks == costs.budget_ticks(wanted)


@given(feature_costs(5))
def test_conditional_price_never_rises_as_the_ledger_grows(costs):
    """speedboost_and_structured P17."""
    names = list(costs.names)
    for group in names:
        prices = [costs.price([group], names[:i]) for i in range(len(names) + 1)]
        assert all(a >= b for a, b in itertools.pairwise(prices))


@given(feature_costs(4))
def test_every_form_reads_back_what_it_wrote(costs):
    assert FeatureCosts.from_dict(costs.to_dict()) == costs
    assert FeatureCosts.from_frame(costs.to_frame()) == costs


# Names that a table or a file could take for something else, and any other text.
WEIRD = st.one_of(
    st.sampled_from(
        ["0", "12", "007", "-1", "²", "NA", "None", "nan", "", " ", " a ", "a;b", ";", "[", "[1]"]
    ),
    st.sampled_from(
        ['["a"]', '"', "'", ",", "#", "\r", "\n", "\r\n", "true", "1e3", "9" * 5000, "\ufeff", "x0"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)


@st.composite
def weirdly_named(draw):
    names = draw(st.lists(WEIRD, unique=True, min_size=1, max_size=5))
    columns = draw(st.lists(st.one_of(WEIRD, st.integers(-2, 10**20)), unique=True, max_size=8))
    owner = [draw(st.sampled_from(names)) for _ in columns]
    groups = {name: [c for c, o in zip(columns, owner, strict=True) if o == name] for name in names}
    requires = {
        name: draw(st.lists(st.sampled_from(names[:i]), unique=True)) for i, name in enumerate(names) if i
    }
    prices = {name: draw(st.floats(0, 1e9).map(lambda price: round(price, 6))) for name in names}
    tails = draw(st.sampled_from([None, prices]))
    return FeatureCosts(prices, groups=groups, requires=requires, tails=tails)


@given(weirdly_named())
def test_weird_names_and_any_price_read_back(costs):
    assert FeatureCosts.from_dict(costs.to_dict()) == costs
    assert FeatureCosts.from_frame(costs.to_frame()) == costs


@given(weirdly_named(), st.sampled_from(["c.csv", "c.yaml"]))
@example(FeatureCosts({"\r": 1.0, "a\rb": 2 / 3, "NA": 0.1, "0": 7.27}), "c.csv")
def test_weird_names_and_any_price_read_back_from_files(tmp_path_factory, costs, name):
    path = tmp_path_factory.getbasetemp() / name
    costs.write(path)
    assert FeatureCosts.read(path) == costs


def test_cells_of_a_cost_table():
    def read(*cells):
        table = pd.DataFrame({"group": [f"g{i}" for i in range(len(cells))], "price": 1.0})
        table["columns"] = pd.Series(
            cells, dtype=None if all(isinstance(c, float) for c in cells) else object
        )
        return list(FeatureCosts.from_frame(table).groups.values())

    assert read("age; 3;²;007", '["3", "a;b", 4]', "") == [("age", 3, "²", "007"), ("3", "a;b", 4), ()]
    assert read(3.0, float("nan"), 0.0) == [(3,), (), (0,)]
    assert read(3, ["a;b", 1], ("c",), np.array([2, 5]), None, pd.NA) == [
        (3,),
        ("a;b", 1),
        ("c",),
        (2, 5),
        (),
        (),
    ]
    for cell, words in (
        (0.5, "columns of group 'g0' is 0.5, which is not a list"),
        (True, "is True, which is not a list"),
        ({"a": 1}, "which is not a list"),
        ("[a, b]", "columns of group 'g0' begins with '[' but is not a list in JSON: '[a, b]'"),
        ("[" * 100_000, "is not a list in JSON"),
        ("[0.5]", "a column is a name or a position, not 0.5"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            read(cell)


def test_a_table_without_columns_goes_by_the_names_of_its_groups(tmp_path):
    (tmp_path / "c.csv").write_text("group,price,unit\nNA,0.1,None\nNone,2,None\n3,1e-3,None\n")
    costs = FeatureCosts.read(tmp_path / "c.csv")
    assert costs.groups == {"NA": ("NA",), "None": ("None",), "3": (3,)}
    assert (costs.prices, costs.unit) == ({"NA": 0.1, "None": 2, "3": 1e-3}, "None")


@pytest.mark.parametrize("name", ["costs.yaml", "costs.csv", "costs.yml"])
def test_cost_files_read_back(tmp_path, name):
    costs = FeatureCosts(**BLOOD, tails={"draw": 3, "chol": 6, "fbs": 4, "ecg": 20})
    costs.write(tmp_path / name)
    assert FeatureCosts.read(tmp_path / name) == costs


def test_coerce_takes_every_documented_form(tmp_path):
    costs = blood()
    costs.write(tmp_path / "c.yaml")
    for form in (costs, costs.to_dict(), costs.to_frame(), tmp_path / "c.yaml", str(tmp_path / "c.yaml")):
        assert FeatureCosts.coerce(form, 4) == costs
    assert FeatureCosts.coerce(None, 3).prices == {"x0": 1, "x1": 1, "x2": 1}
    assert FeatureCosts.coerce({"a": 1.0, "b": 2.0}, 2).prices == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prices": None}, "needs prices"),
        ({"prices": [1, -2]}, "price of 'x1' is -2.0; a price must be finite and not negative"),
        ({"prices": [np.nan]}, "price of 'x0' is nan"),
        ({"prices": [np.inf]}, "price of 'x0' is inf"),
        ({"prices": {"a": "cheap"}}, "price of 'a' is 'cheap', which is not a number"),
        ({"prices": [[1, 2]]}, "shape (1, 2)"),
        ({"prices": pd.DataFrame([[1, 2]])}, "shape (1, 2)"),
        ({"prices": [1e308, 1e308]}, "add up to 2.00e+308; count them in a larger unit"),
        ({"prices": {"1": 1}, "groups": {1: [0], "1": [1]}}, "groups given twice for '1'"),
        ({"prices": {"a": 1}, "groups": {"a": [0], "b": [1]}}, "no price for 'b'"),
        ({"prices": {"a": 1, "c": 1}, "groups": {"a": [0]}}, "price given for 'c', which is not a group"),
        ({"prices": {"a": 1, "b": 1}, "groups": {"a": [0, 1], "b": [1]}}, "'a' and 'b' both name column 1"),
        ({"prices": {"a": 1}, "groups": {"a": [0.5]}}, "a column is a name or a position, not 0.5"),
        ({"prices": [1], "groups": {"a": [0]}}, "prices must be a mapping"),
        (
            {"prices": {"a": 1}, "groups": {"a": [0]}, "requires": {"a": ["z"]}},
            "requires names 'z', which is not a group",
        ),
    ],
)
def test_bad_prices_get_a_precise_error(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        FeatureCosts(**arguments)


def test_a_circle_of_requirements_is_named():
    groups = {"a": [0], "b": [1], "c": [2]}
    with pytest.raises(ValueError, match="cycle: 'a' -> 'b' -> 'c' -> 'a'"):
        FeatureCosts(dict.fromkeys("abc", 1), groups=groups, requires={"a": ["b"], "b": ["c"], "c": ["a"]})


@pytest.mark.parametrize(
    ("n", "names", "words"),
    [
        (4, ["chol", "fbs", "st", "x"], "group 'ecg' names column 'slope', which X does not have"),
        (4, None, "X has no column names"),
        (5, [*COLUMNS, "age"], "column 'age' has no price"),
    ],
)
def test_columns_that_do_not_match_get_a_precise_error(n, names, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        blood().bind(n, names)


def test_a_group_whose_columns_are_left_out_is_the_column_of_its_name(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(
        "groups:\n  a: {price: 1}\n  b: 2.5\n  step: {price: 3, columns: []}\n  c: {price: 1, columns: [x, y]}\n"
    )
    costs = FeatureCosts.read(path)
    assert costs.groups == {"a": ("a",), "b": ("b",), "step": (), "c": ("x", "y")}
    assert costs.prices == {"a": 1, "b": 2.5, "step": 3, "c": 1}


def test_a_slip_in_a_price_list_is_told_with_the_column_that_was_meant():
    with pytest.raises(
        ValueError, match="names column 'heigth', which X does not have; did you mean 'height'"
    ):
        FeatureCosts({"age": 1, "heigth": 2}).bind(2, ["age", "height"])


def test_repeated_column_names_are_refused_where_prices_go_by_name():
    with pytest.raises(ValueError, match="X has several columns called 'a'"):
        FeatureCosts.coerce(None, 3, ["a", "b", "a"])
    with pytest.raises(
        ValueError, match="group 'a' names column 'a', but X has several columns of that name"
    ):
        FeatureCosts({"a": 1, "b": 2}).bind(3, ["a", "b", "a"])
    assert FeatureCosts.coerce([1, 2, 3], 3, ["a", "b", "a"]).bind(3, ["a", "b", "a"]).n_groups == 3


def test_a_position_beyond_the_matrix_is_refused():
    with pytest.raises(ValueError, match="group 'x2' names column 2, but X has 2 columns"):
        FeatureCosts({2: 1}).bind(2)


@pytest.mark.parametrize(("prices", "words"), [([1, 1, 1], "3 prices"), ([1], "1 price")])
def test_a_list_of_prices_is_as_long_as_there_are_columns(prices, words):
    with pytest.raises(ValueError, match=f"costs has {words} for 2 columns; give each column one"):
        FeatureCosts(prices).bind(2, ["a", "b"])


def test_a_column_named_and_numbered_in_two_groups_overlaps():
    costs = FeatureCosts({"a": 1, "b": 1}, groups={"a": ["u"], "b": [0]})
    with pytest.raises(ValueError, match="overlap"):
        costs.bind(1, ["u"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1\n- 2\n", "must be a mapping"),
        ("groups: {a: {columns: [0]}}", "group 'a' has no price"),
        ("groups: {a: {price: 1, colour: red}}", "unknown keys 'colour'"),
        ("groups: {a: [3]}", "group 'a' must be a mapping"),
        ("a: [", "not valid YAML"),
        ("groups: {a: {price: 1}}\nprizes: 3", "not 'prizes'"),
    ],
)
def test_bad_cost_files_get_a_precise_error(tmp_path, text, words):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)):
        FeatureCosts.read(tmp_path / "c.yaml")


def test_a_cost_table_needs_its_columns():
    with pytest.raises(ValueError, match="needs a column 'price'"):
        FeatureCosts.from_frame(pd.DataFrame({"group": ["a"]}))
    with pytest.raises(ValueError, match="appears twice"):
        FeatureCosts.from_frame(pd.DataFrame({"group": ["a", "a"], "price": [1, 2]}))
    with pytest.raises(ValueError, match="row 1 of the cost table names no group"):
        FeatureCosts.from_frame(pd.DataFrame({"group": ["a", None], "price": [1, 2]}))


@given(feature_costs(5), st.lists(st.floats(0, 1e9) | st.just(math.inf), min_size=1, max_size=20))
def test_budgets_of_many_rows_are_counted_as_each_of_them_is(costs, budgets):
    amounts = np.array([*budgets, costs.total, *costs.prices.values(), np.nextafter(costs.total, 0)])
    assert costs.budgets_ticks(amounts).tolist() == [costs.budget_ticks(amount) for amount in amounts]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("full price", "inf", "the full price of test 'chol' is inf; a price must be finite"),
        ("discounted price", "nan", "the discounted price of test 'chol' is nan; a price must be finite"),
        (
            "full price",
            "-2",
            "the full price of test 'chol' is -2.0; a price must be finite and not negative",
        ),
        ("test", None, "row 0 of the price table names no test"),
    ],
)
def test_a_price_list_with_discounts_says_what_is_wrong_with_it(column, value, words):
    row = {"test": "chol", "group": "A", "full price": "7.27", "discounted price": "5.17", "unit": "CAD"}
    assert FeatureCosts.from_frame(pd.DataFrame([row])).unit == "CAD"
    with pytest.raises(ValueError, match=words):
        FeatureCosts.from_frame(pd.DataFrame([row | {column: value}]))


def test_a_free_list_counts_large_and_small_evaluation_costs():
    """A network costs 10^8 multiplications where its input is free; stages measured in seconds take microseconds."""
    free = FeatureCosts(groups={"image": [0]}, prices={"image": 0.0})
    for amount in (4e9, 123_456_789.0, 2.5e-6):
        assert free.amount(free.ticks(amount)) == pytest.approx(amount, rel=1e-9)
        assert free.budget_ticks(2 * amount) < UNLIMITED
