"""``model.next``: what to buy next for one row, on every kind of plan (known_budgets_and_rows 3.4, R8)."""

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from anytime.blocks import LinearBlock
from anytime.plan import Plan
from anytime.rules import MarginRule
from tests.runtime.bench import model_of

COSTS = at.FeatureCosts(
    {"a": 1.0, "b": 3.0, "c": 2.0, "step": 0.5},
    groups={"a": [0], "b": [1], "c": [2, 3], "step": []},
    requires={"c": ["step"]},
)
X, Y = load_iris(return_X_y=True)
SMALL = {"hidden_layer_sizes": (16, 8), "folds": 2, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return at.AcquisitionClassifier(costs=COSTS, **SMALL).fit(X, Y)


def test_next_names_what_predict_buys(model):
    """R8: after every purchase, for rows whose purchases differ."""
    for i in (0, 60, 149):
        bought: list[str] = []
        trace = list(model.stages(X[i : i + 1]))
        for before, after in pairwise(trace):
            advice = model.next(X[i], bought)
            new = [name for name in after.groups if name not in before.groups]
            assert sorted(advice.offers[0].buys if advice.offers else ()) == sorted(new)
            assert advice.prediction == before.prediction[0]
            assert advice.price == pytest.approx(after.cost[0] - before.cost[0])
            bought += new
        assert model.next(X[i], bought).group is None


def test_next_keeps_to_the_bound_of_the_model(model):
    small = model.truncate(budget=2.5)
    bought: list[str] = []
    while (advice := small.next(X[60], bought)).group is not None:
        bought += advice.offers[0].buys
    assert sorted(bought) == sorted(small.answer(X[60:61]).groups)
    assert sum(COSTS.prices[name] for name in bought) <= 2.5


KINDS = {
    "row by row": at.AcquisitionClassifier(costs=COSTS, **SMALL),
    "chain and branches": at.SpeedBoostClassifier(costs=COSTS, random_state=0),
    "chain by realised cost": at.SpeedBoostClassifier(costs=COSTS, random_state=0, meter="realised"),
    "forest": at.BudgetForestClassifier(costs=COSTS, n_estimators=5, random_state=0),
}


@pytest.fixture(scope="module", params=KINDS)
def any_model(request):
    return KINDS[request.param].fit(X, Y)


def advised(model, row, **bounds):
    """What a row has bought that follows every advice; nothing that is offered ever exceeds the bound."""
    bought: list[str] = []
    while (advice := model.next(row, bought, **bounds)).group is not None:
        for offer in advice.offers:
            assert COSTS.price({*bought, *offer.buys}) <= (advice.budget or np.inf)
        bought += advice.offers[0].buys
    return advice, sorted(bought)


@pytest.mark.parametrize("budget", [0.0, 1.0, 2.5, 3.0, 3.9, 5.5, 6.5])
def test_next_names_what_predict_buys_within_a_budget(any_model, budget):
    """Named in the call, in the constructor, or kept by a smaller model."""
    own = copy.copy(any_model).set_params(budget=budget)
    for row in X[::40]:
        answer = any_model.answer(row[None], budget=budget)
        for model, bounds in ((any_model, {"budget": budget}), (own, {})):
            advice, bought = advised(model, row, **bounds)
            assert bought == sorted(answer.groups)
            assert advice.prediction == answer.prediction[0]
            assert advice.budget == budget
        small = any_model.truncate(budget=budget)
        assert advised(small, row)[1] == sorted(small.answer(row[None]).groups)


def test_a_bound_counts_what_the_row_has_already(any_model):
    advice = any_model.next(X[0], ["b"], budget=3.5)
    assert advice.group is None
    assert str(advice).endswith("Nothing is left to buy that could change it within 3.5.")
    assert {offer.group for offer in any_model.next(X[0], ["b"], budget=4.0).offers} <= {"a"}
    with pytest.raises(ValueError, match="budget must be one number"):
        any_model.next(X[0], budget=[1.0, 2.0])


@pytest.mark.parametrize("rules", ["passes", "stops"])
def test_next_keeps_to_the_rules_of_the_plan(any_model, rules):
    """A row that a filter keeps out of a stage, or that may stop, is not told to buy for it."""
    model = copy.copy(any_model)
    stages = range(1, model.n_stages_)
    model.plan_ = replace(
        model.plan_, **{rules: dict.fromkeys(stages, MarginRule(1.0, below=rules == "passes"))}, branches=()
    )
    for row in X[::20]:
        assert advised(model, row)[1] == sorted(model.answer(row[None]).groups)


def test_a_complete_mapping_has_everything(any_model):
    names = {"a": 0, "b": 1}
    complete = {**{name: X[0, j] for name, j in names.items()}, "c": X[0, 2:].tolist()}
    assert any_model.next(complete).group is None
    assert any_model.next(complete, []).group == any_model.next(X[0]).group is not None


def test_only_bought_values_are_read(model):
    row = X[60].copy()
    hidden = np.where([False, True, False, False], row, np.nan)
    wrong = np.where([False, True, False, False], row, 1e3)
    for other in (hidden, wrong, {"b": row[1]}):
        bought = None if isinstance(other, dict) else ["b"]
        assert model.next(other, bought) == model.next(row, ["b"])


def test_a_mapping_may_have_a_group_without_what_that_requires():
    needy = at.FeatureCosts(
        {"a": 1.0, "b": 3.0, "c": 2.0}, groups={"a": [0], "b": [1], "c": [2, 3]}, requires={"c": ["a"]}
    )
    table = pd.DataFrame(X, columns=["w", "x", "y", "z"])
    model = at.SpeedBoostClassifier(costs=needy, n_estimators=5, random_state=0).fit(table, Y)
    assert model.next({"y": 1.4, "z": 0.2}).group in ("a", "b")
    with pytest.raises(ValueError, match="'a' is listed as bought, but the row has no value for it"):
        model.next({"y": 1.4, "z": 0.2}, ["c"])


def test_the_probability_of_another_answer_comes_true_on_new_rows():
    """R8: within 3 points over held-out rows, after some purchases."""
    digits, y = load_digits(return_X_y=True)
    digits = (
        digits.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    )  # zones of four pixels: fewer groups to buy
    train = np.arange(len(y)) % 3 > 0
    settings = {"hidden_layer_sizes": (32, 16), "folds": 2, "random_state": 0}
    model = at.AcquisitionClassifier(**settings).fit(digits[train], y[train])
    test = digits[~train][:400]
    block = model.plan_.blocks[0]
    expected, seen = [], []
    for purchases in (3, 5):
        memory = block.remember(len(test))
        before = block.proceed(0, purchases - 1, test, memory)
        owned = memory["owned"].copy()
        after = block.proceed(purchases, purchases, test, memory)
        seen += (before.argmax(axis=1) != after.argmax(axis=1)).tolist()
        for row, own in zip(test, owned, strict=True):
            group, _, changes = block.expectations(row[None], own)
            expected.append(changes[group])
    assert abs(np.mean(expected) - np.mean(seen)) < 0.03
    assert 0.02 < np.mean(seen) < 0.6


def test_on_a_chain_it_is_what_the_next_stage_lacks():
    model = at.SpeedBoostClassifier(costs=COSTS, random_state=0).fit(X, Y)
    bought: list[str] = []
    asked = []
    while (advice := model.next(X[0], bought)).group is not None:
        asked.append(advice.group)
        bought += advice.offers[0].buys
        assert advice.price == pytest.approx(
            COSTS.price(bought) - COSTS.price(set(bought) - set(advice.offers[0].buys))
        )
    assert asked == [name for name in model.order_ if name != "step"]
    assert advice.prediction == model.predict(X[:1])[0]


def test_on_a_forest_it_is_what_the_rows_own_path_asks_for():
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y)
    model = at.make_anytime(forest, costs=COSTS)
    for row in X[::30]:
        bought: list[str] = []
        while (advice := model.next(row, bought)).group is not None:
            bought += advice.offers[0].buys
        paid = model.cost(row[None])[0]
        assert COSTS.price(bought) == pytest.approx(paid)
        assert advice.prediction == model.predict(row[None])[0]


def test_on_a_ladder_a_sure_row_needs_nothing_more():
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 4))
    y = (rows[:, 0] > 0).astype(int)
    model = at.LadderClassifier(
        RandomForestClassifier(10, random_state=0), costs=COSTS, mean_budget=3, random_state=0
    )
    model.fit(rows, y)
    advice = model.next(rows[0], COSTS.names)
    assert advice.group is None
    assert advice.prediction in (0, 1)


def test_words_and_table(model):
    advice = model.next(X[0])
    assert str(advice).startswith(f"Now {advice.prediction} with probability ")
    assert f"Buy {advice.group!r} next" in str(advice)
    frame = pd.DataFrame(advice.table())
    assert list(frame.columns) == ["group", "buys", "price", "gain", "change"]
    assert len(frame) == 3  # a step without columns is bought only with what requires it
    assert frame.set_index("group").loc["c", "buys"] == "step, c"
    assert frame.set_index("group").loc["c", "price"] == 2.5
    assert [offer.group for offer in advice.alternatives] == frame["group"].tolist()[1:]
    assert "Nothing is left" in str(model.next(X[0], ["a", "b", "c"]))


def test_numbers_change_by_some_amount():
    model = at.AcquisitionRegressor(costs=COSTS, **SMALL).fit(X, X[:, 2] * 3 + 1)
    advice = model.next(X[0])
    assert {offer.group for offer in advice.offers} == {"a", "b", "c"}
    assert advice.probability is None
    assert advice.change > 1
    assert "by" in str(advice)


def test_what_cannot_be_asked_is_said(model):
    with pytest.raises(
        ValueError,
        match="bought contains 'blood', which is not a group; the groups are 'a', 'b', 'c', 'step'",
    ):
        model.next(X[0], ["blood"])
    with pytest.raises(ValueError, match="'b' is listed as bought, but the row has no value for it"):
        model.next({"a": 1.0}, ["b"])
    with pytest.raises(ValueError, match="expected one row"):
        model.next(X[:2])


def test_a_chain_knows_the_gain_of_its_next_stage_alone():
    """Later stages were judged with all that is bought before them: that is no gain of one group."""
    model = at.SpeedBoostClassifier(costs=COSTS, random_state=0).fit(X, Y)
    advice = model.next(X[0])
    first, quality = model.plan_.stage_groups[0], model.plan_.quality
    names = {model.costs_.names[g] for g in first.tolist()}
    assert len(names) == 1
    assert len(advice.offers) > 1
    for offer in advice.offers:
        assert offer.gain == (quality[1] - quality[0] if offer.group in names else None)


def test_groups_that_a_stage_needs_together_divide_its_gain():
    """Nothing is known of one of them alone, and each by itself would not have all of it."""
    costs = at.FeatureCosts([1.0, 2.0, 3.0]).bind(3)
    both = LinearBlock([0, 1], [[1.0], [1.0]])
    plan = Plan(
        blocks=[both], costs=costs, base=[0.0], link="identity", replaces=[True], quality=[-8.0, -2.0]
    )
    model, row = model_of(plan), np.ones(3)
    assert [(offer.group, offer.gain) for offer in model.next(row).offers] == [("x0", 3.0), ("x1", 3.0)]
    assert [(offer.group, offer.gain) for offer in model.next(row, ["x0"]).offers] == [("x1", 6.0)]


# ---------------------------------------------------------------------- a path


@pytest.mark.parametrize(
    "learner", [at.SpeedBoostClassifier, at.AcquisitionClassifier, at.GroupPursuitRegressor]
)
def test_a_path_follows_the_advice_within_the_budget_to_the_answer_of_the_model(learner):
    X, y, costs = at.datasets.load("wine")
    model = learner(costs=costs, random_state=0).fit(X, y)
    path = model.path(X[0], budget=25)
    assert path.costs == sorted(path.costs)
    assert path.costs[-1] <= 25
    assert len(set(path.groups)) == len(path.groups) > 0
    assert not path.steps[-1].offers
    for k, step in enumerate(path.steps[:-1]):
        bought = [group for earlier in path.steps[:k] for group in earlier.offers[0].buys]
        assert step.group == model.next(X[0], bought, budget=25).group
    assert path.steps[-1].prediction == pytest.approx(model.predict_one(X[0], budget=25))
    assert len(path.table()) == len(str(path).splitlines()) == len(path.steps)


def test_a_path_names_what_a_group_requires_as_the_advice_does(model):
    path = model.path(X[60])
    assert "step" in path.groups
    bought = [step.offers[0] for step in path.steps[:-1]]
    for offer, step, line in zip(bought, path.steps[:-1], str(path).splitlines()[1:], strict=True):
        named = f"{offer.group!r} (with 'step')" if "step" in offer.buys else repr(offer.group)
        assert line.startswith(f"{named}, ")
        assert (" (with 'step')" in str(step)) == ("step" in offer.buys)


def test_a_path_is_drawn_with_what_was_bought():
    pytest.importorskip("matplotlib").use("agg")
    X, y, costs = at.datasets.load("wine")
    path = at.AcquisitionClassifier(costs=costs, random_state=0).fit(X, y).path(X[0], budget=25)
    axes = path.plot()
    said = " ".join(text.get_text() for text in axes.texts)
    assert all(step.group in said for step in path.steps[:-1])
    assert axes.get_xlabel() == "paid (USD)"
    assert path.plot(axes) is axes
