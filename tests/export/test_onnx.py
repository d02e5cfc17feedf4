"""ONNX Runtime answers as the library does: every family, every budget, at thresholds and where values are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import anytime as at
from anytime.adaptive.blocks import CostlyBlock
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import FunctionRule, ScoreRule
from anytime.trees.block import TreeBlock
from tests.export.families import budgets_of
from tests.export.helpers import (
    Families,
    PlannedClassifier,
    PlannedRegressor,
    agrees,
    answers,
    gated,
    linked,
    suffix,
)
from tests.strategies import plans, tree_arrays

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("name", ["boosting", "refit", "pursuit_classes", "forest", "cascade"])
def test_truncated_model_has_the_plain_names(family: Families, name: str) -> None:
    model, X = family(name)
    small = model.truncate(budgets_of(model)[0])
    found = answers(small.to_onnx(), X)
    assert sorted(found) == ["prediction", "probability"]
    agrees(small, X, found, None, "")


# ---------------------------------------------------------------------- exactness


def test_sums_of_leaves_have_the_same_bits(family: Families) -> None:
    model, X = family("boosting_regression")
    np.testing.assert_array_equal(answers(model.to_onnx(), X)["prediction"], model.predict(X))


def at_thresholds(model: Any, dtype: type) -> np.ndarray:
    """Rows at the thresholds of a forest, and next to them on both sides."""
    arrays = model.plan_.blocks[0].forest.arrays()
    inner = arrays["feature"] >= 0
    thresholds = arrays["threshold"][inner].astype(dtype)
    around = [thresholds, np.nextafter(thresholds, dtype(np.inf)), np.nextafter(thresholds, dtype(-np.inf))]
    X = np.zeros((3 * thresholds.size, model.n_features_in_), dtype=dtype)
    X[np.arange(len(X)), np.tile(arrays["feature"][inner], 3)] = np.concatenate(around)
    return X


@pytest.mark.parametrize("name", ["boosting_regression", "sklearn_extra"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_at_thresholds_take_the_same_branch(family: Families, name: str, dtype: type) -> None:
    model, _ = family(name)
    X = at_thresholds(model, dtype)
    found = answers(model.to_onnx(dtype=np.dtype(dtype).name), X)["prediction"]
    np.testing.assert_allclose(found, model.predict(X.astype(np.float64)), rtol=1e-14)


def test_thresholds_rounded_to_float32_would_take_another_branch(family: Families) -> None:
    """What the test above looks at is there to be seen."""
    model, _ = family("boosting_regression")
    X = at_thresholds(model, np.float64)
    assert (model.predict(X) != model.predict(X.astype(np.float32).astype(np.float64))).any()


def test_many_rows_one_row_and_none(family: Families) -> None:
    model, X = family("boosting_classes")
    proto = model.to_onnx()
    whole = answers(proto, X)["probability"]
    np.testing.assert_array_equal(answers(proto, X[:1])["probability"], whole[:1])
    assert answers(proto, X[:0])["probability"].shape == (0, 3)


@settings(max_examples=30)
@given(plans(), st.integers(0, 2**32 - 1))
def test_any_plan_of_trees_and_linear_steps(plan: Plan, seed: int) -> None:
    assume(not any(isinstance(block, FunctionBlock) for block in plan.blocks))
    model = PlannedClassifier(plan).fit()
    X = np.random.default_rng(seed).normal(size=(40, plan.n_features)).round(1)
    budgets = np.unique(plan.stage_costs).tolist()
    found = answers(model.to_onnx(budgets=budgets), X)
    for budget in budgets:
        agrees(model, X, found, budget, suffix(budget))


@settings(max_examples=15)
@given(tree_arrays(3, 3), st.integers(0, 2**32 - 1))
def test_refitted_table_of_whole_rows(trees: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    blocks = [LinearBlock([0, 2], random.normal(size=(2, 2))), TreeBlock(trees)]
    n_stages = 1 + blocks[1].n_stages
    widths = np.cumsum([2] + [3] * (n_stages - 1))
    plan = Plan(
        blocks=blocks,
        costs=at.FeatureCosts([1.0, 2.0, 3.0]).bind(3),
        base=np.zeros(2),
        link="identity",
        weights=[random.normal(size=(m, 2)) for m in widths],
        intercepts=random.normal(size=(n_stages, 2)),
        evaluation_costs=np.ones(n_stages),
    )
    model = PlannedRegressor(plan).fit()
    X = random.normal(size=(20, 3))
    budgets = plan.stage_costs.tolist()
    found = answers(model.to_onnx(budgets=budgets), X)
    for budget in budgets:
        agrees(model, X, found, budget, suffix(budget))


@pytest.mark.parametrize("doubt", [0.0, 0.7])
@pytest.mark.parametrize("below", [False, True])
def test_learned_gates(doubt: float, below: bool) -> None:
    model, X = gated(doubt, below)
    stages = model.answer(X).stage
    assert 0 < (stages == 1).sum() < len(X)  # some are done early
    budgets = [float(model.stage_costs_[0]), None]
    found = answers(model.to_onnx(budgets=budgets), X)
    for budget in budgets:
        agrees(model, X, found, budget, suffix(budget))


# ---------------------------------------------------------------------- shared work, names, types


def n_trees(proto: Any) -> int:
    """Trees in all ensembles of a graph."""
    ensembles = [node for node in proto.graph.node if node.op_type == "TreeEnsembleRegressor"]
    values = [
        attribute.i for node in ensembles for attribute in node.attribute if attribute.name == "n_targets"
    ]
    return sum(values)


def test_trees_that_budgets_share_are_there_once(family: Families) -> None:
    model, _ = family("last_weight")
    budgets = [*np.unique(model.stage_costs_).tolist()[:4], None]
    proto = model.to_onnx(budgets=budgets)
    trees = sum(len(block.forest.arrays()["tree_start"]) - 1 for block in model.plan_.blocks)
    assert n_trees(proto) == trees
    assert sum(node.op_type == "TreeEnsembleRegressor" for node in proto.graph.node) > 1


def test_small_budget_alone_is_computed_alone(family: Families) -> None:
    """An output does not depend on ensembles beyond its budget."""
    model, _ = family("last_weight")
    small = float(model.stage_costs_[0])
    proto = model.to_onnx(budgets=[small, None])
    made_by = {output: node for node in proto.graph.node for output in node.output}
    needed, open_ = set(), [f"prediction{suffix(small)}"]
    while open_:
        node = made_by.get(open_.pop())
        if node is not None and id(node) not in needed:
            needed.add(id(node))
            open_ += node.input
    trees = [node for node in proto.graph.node if node.op_type == "TreeEnsembleRegressor"]
    assert 0 < sum(id(node) in needed for node in trees) < len(trees)


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], [False, True], [1.0, 2.0]])
def test_labels_keep_their_type(labels: list[Any]) -> None:
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.array(labels)[(X[:, 0] > 0).astype(int)]
    model = at.GradientBoostingClassifier(n_estimators=3).fit(X, y)
    found = answers(model.to_onnx(), X)["prediction"]
    np.testing.assert_array_equal(found, model.predict(X))
    assert type(found.tolist()[0]) is type(labels[0])


@pytest.mark.parametrize("link", [link for link in LINKS if link != "least_cost"])
def test_every_link(link: str) -> None:
    model, X = linked(link)
    agrees(model, X, answers(model.to_onnx(), X), None, "")


def test_expected_costs_are_refused() -> None:
    """Their decision needs the whole table of purchases, which no block of a header or a graph holds."""
    model, _ = linked("least_cost")
    with pytest.raises(NotImplementedError, match="least_cost"):
        model.to_onnx()


def test_file_says_what_columns_and_codes_mean(tmp_path: Path) -> None:
    import pandas as pd

    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": random.normal(size=200), "city": random.choice(["bern", "oslo", "rome"], 200)}
    )
    y = (table["city"] == "rome") ^ (table["age"] > 1)
    costs = at.FeatureCosts({"age": 1.0, "city": 2.5}, unit="CHF")
    model = at.GradientBoostingClassifier(costs=costs, n_estimators=5).fit(table, y)
    returned = model.to_onnx(tmp_path / "model.onnx")
    read = onnx.load(tmp_path / "model.onnx")
    assert read == returned
    props = {prop.key: prop.value for prop in read.metadata_props}
    assert json.loads(props["columns"]) == ["age", "city"]
    assert json.loads(props["categories"]) == {"city": ["bern", "oslo", "rome"]}
    assert json.loads(props["prices"]) == {"age": 1.0, "city": 2.5}
    assert props["unit"] == "CHF"
    codes = table.assign(city=table["city"].map({"bern": 0, "oslo": 1, "rome": 2})).to_numpy(float)
    np.testing.assert_array_equal(answers(read, codes)["prediction"], model.predict(table))


# ---------------------------------------------------------------------- what cannot be said


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        at.GradientBoostingClassifier().to_onnx()


def test_budget_that_buys_nothing_is_refused(family: Families) -> None:
    model, _ = family("pursuit")
    with pytest.raises(at.ExportError, match=r"a budget of 2 .*buys no stage.*the first stage costs 23"):
        model.to_onnx(budgets=[2, None])
    with pytest.raises(at.ExportError, match="has no stage"):
        model.truncate(2).to_onnx()


def test_wrong_arguments(family: Families) -> None:
    model, _ = family("pursuit")
    with pytest.raises(ValueError, match="budgets is empty"):
        model.to_onnx(budgets=[])
    with pytest.raises(ValueError, match="same budget twice: 40, 40"):
        model.to_onnx(budgets=[40, 40.0])
    with pytest.raises(ValueError, match="'float16'"):
        model.to_onnx(dtype="float16")
    with pytest.raises(ValueError, match="negative"):
        model.to_onnx(budgets=[-1])


def test_realised_meter_needs_the_ledger() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = at.GradientBoostingClassifier(n_estimators=3, meter="realised", budget=1).fit(X, y)
    with pytest.raises(at.ExportError, match=r"realised.*set_params\(meter=.model.\)"):
        model.to_onnx()
    assert model.set_params(meter="model", budget=None).to_onnx() is not None


def three_steps(last: Any, **rules: Any) -> Any:
    steps = [LinearBlock([0], np.ones((1, 1))), LinearBlock([1], np.ones((1, 1))), last]
    costs = at.FeatureCosts([1.0, 2.0, 4.0]).bind(3)
    return PlannedClassifier(
        Plan(blocks=steps, costs=costs, base=np.zeros(1), link="logistic", **rules)
    ).fit()


@pytest.mark.parametrize("form", ["ONNX", "C"])
def test_stage_that_is_code_is_named_with_the_budget_that_does_without(form: str) -> None:
    function = FunctionBlock([2], lambda X: X)
    costly = CostlyBlock("SVC", [2], None, 2)
    odd = FunctionRule(function=lambda scores: scores[:, 0])
    cases = {
        "stage 3 is a Python function": three_steps(function),
        "stage 3 asks 'SVC', a model of another library": three_steps(costly),
        "stage 3 has a FunctionRule": three_steps(LinearBlock([2], np.ones((1, 1))), passes={2: odd}),
        "stage 3 has a gate that is a Python function": three_steps(
            LinearBlock([2], np.ones((1, 1))), passes={2: ScoreRule(function)}
        ),
    }
    for why, model in cases.items():
        write = model.to_onnx if form == "ONNX" else model.to_c
        with pytest.raises(at.ExportError, match=rf"{why}, which {form} cannot say; .*truncate\(budget=3\)"):
            write()
        small = model.truncate(3)
        assert (small.to_onnx if form == "ONNX" else small.to_c)() is not None
    alone = Plan(
        blocks=[function], costs=at.FeatureCosts([1.0] * 3).bind(3), base=np.zeros(1), link="logistic"
    )
    with pytest.raises(at.ExportError, match=r"stage 1 is a Python function.*library itself"):
        PlannedClassifier(alone).fit().to_onnx()
