"""Linear stages of a plan: paths of refitted prefixes, what the engine computes of them, and files that hold them."""

from __future__ import annotations

import io
import random
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.blocks import LinearBlock
from anytime.engine import Run
from anytime.files import BadFileError, describe, load
from anytime.plan import Plan

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import _fuzz_cases as cases


@st.composite
def paths(draw: st.DrawFn) -> LinearBlock:
    """A block of several stages over columns in any order, each with a table of its own."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ends = sorted(draw(st.lists(st.integers(0, 6), min_size=1, max_size=5)))
    width = draw(st.integers(1, 3))
    return LinearBlock(
        rng.permutation(8)[: ends[-1]],
        [rng.normal(size=(end, width)) for end in ends],
        intercepts=rng.normal(size=(len(ends), width)) if draw(st.booleans()) else None,
        centres=rng.normal(size=ends[-1]) if draw(st.booleans()) else None,
    )


def expected(block: LinearBlock, stage: int, X: Any) -> Any:
    """What the docstring says."""
    table = block.coefficients[stage]
    own = block._columns[: len(table)]
    away = X[:, own] - (0.0 if block.centres is None else block.centres[: len(own)])
    if block.centres is not None:
        away = np.where(np.isnan(X[:, own]), 0.0, away)
    return block.intercepts[stage] + away @ table


def rows(seed: int, n: int = 7, gaps: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return np.where(rng.random(X.shape) < 0.3, np.nan, X) if gaps else X


# ---------------------------------------------------------------------- what a stage gives


@given(paths(), st.integers(0, 99), st.booleans())
def test_a_stage_gives_its_own_intercept_and_weights(block: LinearBlock, seed: int, gaps: bool) -> None:
    X = rows(seed, gaps=gaps)
    for stage in range(block.n_stages):
        out = block.outputs(stage, X)
        assert out.shape == (7, block.width)
        assert_allclose(out, expected(block, stage, X), rtol=1e-12, atol=1e-12)
        assert_array_equal(block.columns(stage), np.sort(block._columns[: len(block.coefficients[stage])]))


@given(paths(), st.integers(0, 99))
def test_a_row_has_the_same_bits_in_any_company(block: LinearBlock, seed: int) -> None:
    X = rows(seed, 20, gaps=True)
    for stage in range(block.n_stages):
        together = block.outputs(stage, X)
        for i in range(0, 20, 3):
            assert block.outputs(stage, np.ascontiguousarray(X[i : i + 1])).tobytes() == together[i].tobytes()


def test_without_centres_a_missing_value_spoils_the_sum_and_with_them_it_adds_nothing() -> None:
    X = np.array([[np.nan, 2.0]])
    assert np.isnan(LinearBlock([0, 1], [[1.0], [10.0]]).outputs(0, X)).all()
    assert LinearBlock([0, 1], [[1.0], [10.0]], centres=[5.0, 1.0]).outputs(0, X).item() == 10.0


@given(paths())
def test_the_head_of_a_block_is_its_first_stages(block: LinearBlock) -> None:
    X = rows(0)
    for n_stages in range(1, block.n_stages + 1):
        head = block.head(n_stages)
        assert head.n_stages == n_stages
        for stage in range(n_stages):
            assert head.outputs(stage, X).tobytes() == block.outputs(stage, X).tobytes()
            assert_array_equal(head.columns(stage), block.columns(stage))
        assert head._columns.size == len(head.coefficients[-1])  # what no stage reads is not kept
    assert block.head(block.n_stages) is block


@given(paths())
def test_the_state_of_a_block_makes_it_again(block: LinearBlock) -> None:
    description, arrays = block.state()
    again = LinearBlock.from_state(description, arrays)
    assert again.n_stages == block.n_stages
    assert again.width == block.width
    for stage in range(block.n_stages):
        assert again.outputs(stage, rows(1)).tobytes() == block.outputs(stage, rows(1)).tobytes()


def test_one_table_is_one_stage() -> None:
    for coefficients in ([[1.0], [2.0]], np.ones((2, 1)), np.ones((2, 3)), [np.ones((2, 3))]):
        assert LinearBlock([3, 1], coefficients).n_stages == 1
    assert LinearBlock([], np.empty((0, 2))).outputs(0, rows(0)).shape == (7, 2)
    assert LinearBlock([0], np.ones((3, 1, 2))).n_stages == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": [0, 1], "coefficients": [[1.0]]}, "2 columns but 1 rows of coefficients"),
        ({"columns": [0], "coefficients": [np.ones((1, 1)), np.ones((0, 1))]}, "1 columns but 1, 0 rows"),
        ({"columns": [0], "coefficients": [np.ones((0, 1)), np.ones((1, 2))]}, "the same width"),
        ({"columns": [-1], "coefficients": [[1.0]]}, "position is not negative"),
        ({"columns": [0], "coefficients": [[np.nan]]}, "coefficients must be finite"),
        (
            {"columns": [0], "coefficients": [[1.0]], "intercepts": [1.0]},
            r"intercepts must have shape \(1, 1\)",
        ),
        (
            {"columns": [0], "coefficients": [[1.0]], "intercepts": [[np.inf]]},
            "intercepts and centres must be",
        ),
        ({"columns": [0], "coefficients": [[1.0]], "centres": [1.0, 2.0]}, "1 columns but 2 centres"),
        (
            {"columns": [0], "coefficients": [[1.0]], "centres": [np.nan]},
            "intercepts and centres must be finite",
        ),
    ],
)
def test_a_block_that_could_not_be_run_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearBlock(**arguments)


@pytest.mark.parametrize("ends", [[], [-1, 3], [1, 2], [5]])
def test_a_state_whose_stages_do_not_fit_its_table_is_refused(ends: list[int]) -> None:
    arrays = {
        "columns": np.array([0], dtype=np.int32),
        "coefficients": np.ones((2, 1)),
        "ends": np.array(ends, dtype=np.int64),
    }
    with pytest.raises(ValueError, match=r"does not fit its stages|rows of coefficients"):
        LinearBlock.from_state({}, arrays)


# ---------------------------------------------------------------------- in a plan


class Counting(LinearBlock):
    """Remembers which stages were computed, and for how many rows."""

    def outputs(self, stage: int, X: Any) -> Any:
        self.done.append((stage, len(X)))
        return super().outputs(stage, X)


def counting_plan(n_stages: int = 4) -> tuple[Plan, list[tuple[int, int]]]:
    rng = np.random.default_rng(0)
    block = Counting(
        np.arange(n_stages),
        [rng.normal(size=(t + 1, 1)) for t in range(n_stages)],
        intercepts=rng.normal(size=(n_stages, 1)),
    )
    block.done = []
    costs = at.FeatureCosts(np.arange(1.0, n_stages + 1)).bind(n_stages)
    return Plan(
        blocks=[block], costs=costs, base=[9.0], link="identity", replaces=np.ones(n_stages, dtype=bool)
    ), block.done


def test_only_the_last_stage_asked_for_is_computed() -> None:
    plan, done = counting_plan()
    X = np.random.default_rng(1).normal(size=(5, 4))
    run = Run(plan, X)
    run.advance(3)
    assert done == [(2, 5)]
    assert_array_equal(run.scores(), plan.blocks[0].outputs(2, X))
    del done[:]
    run.advance(np.array([3, 3, 4, 4, 3]))
    assert done == [(3, 2)]


def test_a_watched_or_metered_run_computes_every_stage_so_that_it_can_be_read_at_any_moment() -> None:
    plan, done = counting_plan()
    X = np.random.default_rng(1).normal(size=(5, 4))
    Run(plan, X, metered=True).advance(3)
    assert done == [(0, 5), (1, 5), (2, 5)]
    del done[:]
    Run(plan, X).advance(2, stop=at.StopFlag())
    assert {stage for stage, _ in done} == {0, 1}


def test_a_plan_of_refits_costs_its_columns_and_ends_where_money_does() -> None:
    plan, _ = counting_plan()
    assert plan.stage_costs.tolist() == [1.0, 3.0, 6.0, 10.0]
    run = Run(plan, np.ones((2, 4)), metered=True)
    run.advance(budget=np.array([plan.costs.costs.budget_ticks(b) for b in (0.5, 6.0)]))
    assert run.done.tolist() == [0, 3]
    assert run.scores()[0] == 9.0
    assert_array_equal(run.scores()[1], plan.blocks[0].outputs(2, np.ones((1, 4)))[0])


# ---------------------------------------------------------------------- in a file


def fitted_models() -> dict[str, Any]:
    X, y, _ = at.datasets.load("diabetes")
    costs = at.FeatureCosts(
        {"draw": 2.0, "a": 1.0, "b": 0.5, "free": 0.0},
        groups={"draw": [], "a": [0, 5, 1], "b": [2], "free": [3, 4, 6, 7, 8, 9]},
        requires={"a": ["draw"], "b": ["draw"]},
    )
    return {
        "regressor": at.GroupPursuitRegressor(costs=costs, random_state=0).fit(X, y),
        "targets": at.GroupPursuitRegressor(costs=costs, l2_regularization=0.1, schedule="doubling").fit(
            X, np.column_stack([y, -y, y**2])
        ),
        "classifier": at.GroupPursuitClassifier(costs=costs, l2_regularization=0.1).fit(
            X, np.digitize(y, [100, 200])
        ),
    }


MODELS = fitted_models()
RAW = {name: cases.packed(model) for name, model in MODELS.items()}
PATH = "plan.blocks.0."


def use(model: Any) -> None:
    """Answers in every way there is."""
    X = np.random.default_rng(0).normal(size=(5, model.n_features_in_)) * 3
    X[1, ::2] = np.nan
    for budget in (None, 0.0, 2.0, 1e9):
        model.predict(X, budget=budget)
        model.predict_one(X[2], budget=budget)
    model.answer(X)
    model.cost(X, budget=3.0)
    list(model.stages(X))
    model.truncate(1.0).predict(X)
    if getattr(model, "certificate_", None) is not None:
        model.certificate_.summary()
        str(model.certificate_)


@pytest.mark.parametrize("name", RAW)
def test_a_saved_path_is_the_same_bytes_again(name: str) -> None:
    again = load(io.BytesIO(RAW[name]))
    assert cases.packed(again) == RAW[name]
    use(again)
    block, copy = MODELS[name].plan_.blocks[0], again.plan_.blocks[0]
    for a, b in zip(block.coefficients, copy.coefficients, strict=True):
        assert a.tobytes() == b.tobytes()
    assert block.intercepts.tobytes() == copy.intercepts.tobytes()
    assert block.centres.tobytes() == copy.centres.tobytes()
    assert describe(io.BytesIO(RAW[name]))["blocks"] == [{"kind": "linear", "n_stages": 3}]


def spoiled(name: str, change: Any) -> bytes:
    parts = cases.Parts(RAW[name])
    change(parts)
    return parts.assembled()


def swap(name: str, array: Any) -> Any:
    def change(parts: cases.Parts) -> None:
        parts.arrays[name] = array(parts.arrays[name]) if callable(array) else array

    return change


def poked(at: Any, value: Any) -> Any:
    def poke(array: Any) -> Any:
        array = array.copy()
        array[at] = value
        return array

    return poke


def state(name: str, value: Any) -> Any:
    """A change to one entry of the certificate."""

    def change(parts: cases.Parts) -> None:
        pairs = parts.manifest["state"]["certificate"]["of"]
        next(pair for pair in pairs if pair[0] == name)[1] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swap(PATH + "columns", poked(0, 10)), "names a column that is not among the 10"),
        (swap(PATH + "columns", poked(0, -1)), "position is not negative"),
        (swap(PATH + "columns", lambda a: a[:-1]), "columns but"),
        (swap(PATH + "columns", lambda a: a.astype(np.int64)), "columns"),
        (swap(PATH + "coefficients", poked((0, 0), np.nan)), "coefficients must be finite"),
        (swap(PATH + "coefficients", lambda a: a[:-1]), "does not fit its stages"),
        (swap(PATH + "coefficients", lambda a: a[:, 0]), "coefficients"),
        (swap(PATH + "coefficients", lambda a: np.tile(a, 2)), "intercepts must have shape"),
        (swap(PATH + "ends", lambda a: a[::-1].copy()), "rows of coefficients"),
        (swap(PATH + "ends", poked(0, -5)), "does not fit its stages"),
        (swap(PATH + "ends", poked(0, 2**62)), "does not fit its stages"),
        (swap(PATH + "ends", lambda a: a[:0]), "does not fit its stages"),
        (
            swap(PATH + "ends", lambda a: np.concatenate([np.zeros(200_000, dtype=np.int64), a])),
            "200003 stages, but at most 100000 are possible",
        ),
        (swap(PATH + "intercepts", lambda a: a[:-1]), "intercepts must have shape"),
        (swap(PATH + "intercepts", poked((1, 0), np.inf)), "must be finite"),
        (swap(PATH + "centres", lambda a: a[:-1]), "centres"),
        (swap(PATH + "centres", poked(0, np.nan)), "must be finite"),
        (swap("plan.replaces", lambda a: a[:-1]), "plan.replaces"),
        (lambda parts: parts.arrays.pop(PATH + "ends"), "rows of coefficients|does not fit|intercepts must"),
        (lambda parts: parts.arrays.pop(PATH + "coefficients"), "coefficients"),
        (lambda parts: parts.manifest["plan"]["blocks"][0].update(kind="trees"), "blocks"),
        (lambda parts: parts.manifest["plan"]["blocks"][0].update(extra=1), "extra"),
        (lambda parts: parts.manifest["state"].pop("certificate"), "certificate"),
        (lambda parts: parts.manifest["state"].pop("l2_regularization"), "l2_regularization"),
        (
            lambda parts: parts.manifest["state"].update(l2_regularization=[0.1]),
            "must hold one finite number per stage",
        ),
        (state("gamma", 2.0), "out of range"),
        (state("gamma", "much"), "much"),
        (state("risk", {"is": "number", "of": "nan"}), "out of range"),
        (state("schedule", "random"), "out of range"),
        (state("prices", [1.0]), "same length"),
        (state("frontier", [[1.0], [2.0]]), "costs that do not decrease"),
        (state("order", {"is": "array", "of": "plan.base"}), "manifest.state|belongs to nothing|plan.base"),
    ],
)
def test_a_file_whose_path_makes_no_sense_is_refused(change: Any, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        load(io.BytesIO(spoiled("regressor", change)))


@pytest.mark.parametrize("name", RAW)
def test_no_change_to_what_a_file_says_does_harm(name: str) -> None:
    """Changed anywhere, in the manifest or an array: refused, or a model that answers."""
    outcomes = {"refused": 0, "loaded": 0}
    with np.errstate(all="ignore"):
        for seed in range(150):
            rnd = random.Random(seed)
            parts = cases.Parts(RAW[name])
            (cases.change_json if rnd.random() < 0.5 else cases.change_array)(rnd, parts)
            try:
                raw = parts.assembled()
            except (TypeError, ValueError, KeyError, AttributeError):
                continue  # the change itself made no file
            try:
                model = load(io.BytesIO(raw))
            except BadFileError:
                outcomes["refused"] += 1
                continue
            use(model)
            outcomes["loaded"] += 1
    assert outcomes["refused"] > 50
    assert outcomes["loaded"] > 5


@pytest.mark.realtime
def test_many_stages_in_a_small_file_are_refused_quickly_and_in_little_memory() -> None:
    def change(parts: cases.Parts) -> None:
        ends = parts.arrays[PATH + "ends"]
        count = 90_000
        parts.arrays[PATH + "ends"] = np.concatenate([np.zeros(count, dtype=np.int64), ends])
        parts.arrays[PATH + "intercepts"] = np.zeros((count + ends.size, 1))
        parts.arrays["plan.replaces"] = np.ones(count + ends.size, dtype=bool)
        parts.arrays["plan.quality"] = np.zeros(count + ends.size + 1)

    raw = spoiled("regressor", change)
    assert len(raw) < 200_000
    began = time.perf_counter()
    tracemalloc.start()
    with pytest.raises(BadFileError, match="are possible in this file"):
        load(io.BytesIO(raw))
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()
    assert time.perf_counter() - began < 10
