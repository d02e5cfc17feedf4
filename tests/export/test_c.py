"""The C header: compiled without a warning, stopped anywhere, features bought on demand, clean under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import anytime as at
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.trees.block import TreeBlock
from tests.export.helpers import (
    STRICT,
    Compiled,
    Families,
    PlannedClassifier,
    PlannedRegressor,
    gated,
    linked,
    needs_compiler,
    values_of,
    written,
)
from tests.strategies import plans

pytestmark = needs_compiler


def follows(header: Compiled, model: Any, X: np.ndarray) -> None:
    """A header gives the answers of a model after every stage, at every budget and with features bought on demand."""
    for answer in model.stages(X):
        out, _ = header.interrupted(X, answer.stage)
        np.testing.assert_allclose(out, values_of(model, answer), rtol=1e-12, atol=1e-12)
    for budget in np.unique([0.0, *model.stage_costs_]):
        answer = model.answer(X, budget=budget)
        out, done = header.bought(X, budget)
        np.testing.assert_allclose(out, values_of(model, answer), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(done, answer.stage)
        fetched, n_done, calls = header.fetched(X[0], model.plan_, budget)
        np.testing.assert_array_equal(fetched, out[0])
        assert n_done == done[0]
        assert calls.max() <= 1


# ---------------------------------------------------------------------- answers


@settings(max_examples=8)
@given(plans(), st.integers(0, 2**32 - 1))
def test_any_plan_of_trees_and_linear_steps(plan: Plan, seed: int) -> None:
    assume(not any(isinstance(block, FunctionBlock) for block in plan.blocks))
    X = np.random.default_rng(seed).normal(size=(20, plan.n_features)).round(1)
    model = PlannedClassifier(plan).fit()
    with tempfile.TemporaryDirectory() as folder:
        follows(written(model, Path(folder), "-O0"), model, X)


@pytest.mark.parametrize("name", ["boosting_regression", "sklearn_extra", "renewing", "pursuit_regression"])
def test_sums_have_the_same_bits(family: Families, tmp_path: Path, name: str) -> None:
    model, X = family(name)
    header = written(model, tmp_path, "-O2")
    for answer in model.stages(X):
        np.testing.assert_array_equal(header.interrupted(X, answer.stage)[0][:, 0], answer.prediction)


@pytest.mark.parametrize("doubt", [0.0, 0.7])
def test_learned_gates(tmp_path: Path, doubt: float) -> None:
    model, X = gated(doubt, below=False)
    follows(written(model, tmp_path, "-O0"), model, X)


def test_refitted_table_of_whole_rows(family: Families, tmp_path: Path) -> None:
    forest = next(b for b in family("boosting_regression")[0].plan_.blocks if isinstance(b, TreeBlock)).head(
        2
    )
    random = np.random.default_rng(0)
    plan = Plan(
        blocks=[LinearBlock([0, 2], random.normal(size=(2, 2))), forest],
        costs=at.FeatureCosts([1.0] * 10).bind(10),
        base=np.zeros(2),
        link="identity",
        weights=[random.normal(size=(m, 2)) for m in (2, 3, 4)],
        intercepts=random.normal(size=(3, 2)),
    )
    model = PlannedRegressor(plan).fit()
    follows(written(model, tmp_path, "-O0"), model, random.normal(size=(20, 10)))


@pytest.mark.parametrize("link", [link for link in LINKS if link != "least_cost"])
def test_every_link(tmp_path: Path, link: str) -> None:
    model, X = linked(link)
    out, _ = written(model, tmp_path, "-O0").bought(X, np.inf)
    np.testing.assert_allclose(out, values_of(model, model.answer(X)), rtol=1e-12, atol=1e-15)


def test_expected_costs_are_refused(tmp_path: Path) -> None:
    """Their decision needs the whole table of purchases, which no block of a header or a graph holds."""
    model, _ = linked("least_cost")
    with pytest.raises(NotImplementedError, match="least_cost"):
        written(model, tmp_path, "-O0")


# ---------------------------------------------------------------------- buying features


def priced() -> tuple[Any, np.ndarray]:
    """Three steps, of which the second needs a shared purchase."""
    costs = at.FeatureCosts(
        {"draw": 2.0, "age": 1.0, "blood": 5.0, "scan": 9.0},
        groups={"draw": [], "age": [0], "blood": [1], "scan": [2]},
        requires={"blood": ["draw"], "scan": ["draw"]},
    )
    plan = Plan(
        blocks=[LinearBlock([column], np.ones((1, 1))) for column in range(3)],
        costs=costs.bind(3),
        base=np.zeros(1),
        link="identity",
    )
    return PlannedRegressor(plan).fit(), np.array([[1.0, 10.0, 100.0]])


def test_groups_are_fetched_when_a_stage_needs_them_and_requirements_first(tmp_path: Path) -> None:
    model, X = priced()
    header = written(model, tmp_path)
    names = model.costs_.names
    for budget, value, bought in (
        (0.5, 0, ()),
        (1, 1, ("age",)),
        (8, 11, ("draw", "age", "blood")),
        (99, 111, names),
    ):
        out, _, calls = header.fetched(X[0], model.plan_, budget)
        assert out[0] == value
        assert {name for name, n in zip(names, calls, strict=True) if n == 1} == set(bought)


def test_group_that_cannot_be_had_ends_the_run_with_the_answer_so_far(tmp_path: Path) -> None:
    model, X = priced()
    header = written(model, tmp_path)
    for failing, value, done in (("age", 0, 0), ("draw", 1, 1), ("scan", 11, 2)):
        out, n_done, _ = header.fetched(X[0], model.plan_, failing=model.costs_.names.index(failing))
        assert (out[0], n_done) == (value, done)


def test_costs_and_names_are_there(family: Families, tmp_path: Path) -> None:
    model, _ = priced()
    library = written(model, tmp_path).library
    assert [library.stage_cost(stage) for stage in range(4)] == [0.0, *model.stage_costs_]
    assert library.group_name(1) == model.costs_.names[1].encode()


# ---------------------------------------------------------------------- the file


def test_names_that_c_does_not_take(tmp_path: Path) -> None:
    import pandas as pd

    names = ["*/ int x;", 'a "quoted" \\ name', "größe??/", "line\nbreak /* open"]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=names)
    model = at.GradientBoostingClassifier(n_estimators=3).fit(X, np.where(X.iloc[:, 0] > 0, 'j"a', "nein\\"))
    header = written(model, tmp_path)
    assert [header.library.column_name(j).decode() for j in range(4)] == names
    np.testing.assert_allclose(header.bought(X.to_numpy(), np.inf)[0], model.predict_proba(X), rtol=1e-12)


_ODD = st.text(
    st.sampled_from('*/\\?@"é\u2028\r\n KNAME') | st.characters(exclude_characters="\0"), max_size=12
)


@settings(max_examples=6)
@given(st.lists(_ODD, min_size=30, max_size=40, unique=True), st.text(max_size=5))
@example(
    [
        "*é injected",
        "\ud800",
        "*\\",
        "??/",
        "@K@",
        "@NAME@",
        "@GROUP_NAMES@",
        "/\\*",
        "**//",
        "/**/",
        "line\n#error",
    ],
    "*é",
)
def test_any_names(names: list[str], unit: str) -> None:
    """Many at once, since compiling takes its time."""
    d = len(names)
    costs = at.FeatureCosts(
        dict.fromkeys(names, 1.0), groups={name: [j] for j, name in enumerate(names)}, unit=unit
    )
    plan = Plan(
        blocks=[LinearBlock([j], np.ones((1, 1))) for j in range(d)],
        costs=costs.bind(d),
        base=np.zeros(1),
        link="identity",
    )
    model = PlannedRegressor(plan).fit()
    model.feature_names_in_ = np.array(names, dtype=object)
    comment, _, code = model.to_c(name="model").partition("\n*/\n")
    assert code.startswith("#ifndef MODEL_H\n")
    assert comment.startswith("/*")
    assert "/*" not in comment[2:]
    assert "*/" not in comment
    with tempfile.TemporaryDirectory() as folder:
        header = written(model, Path(folder), "-O0")
        for j, name in enumerate(names):
            said = name.encode(errors="surrogatepass")
            assert header.library.column_name(j) == header.library.group_name(j) == said


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("my-model 2.h", None, "my_model_2"),
        ("3.h", None, "m_3"),
        ("x.h", "größe", "gr_e"),
        ("x.h", "__", "model"),
    ],
)
def test_names_in_the_header(tmp_path: Path, path: str, name: str | None, expected: str) -> None:
    model, _ = priced()
    text = model.to_c(tmp_path / path, name=name)
    assert (tmp_path / path).read_text() == text
    assert f"static inline int {expected}_predict(" in text
    assert f"#ifndef {expected.upper()}_H" in text


def test_comment_says_what_things_are_and_cost() -> None:
    model, _ = priced()
    comment = model.to_c().split("*/")[0]
    for line in (
        "PlannedRegressor, 3 stages",
        "   0  x0  [age]",
        "blood  5  requires draw",
        "   2  8  blood",
    ):
        assert line in comment


def test_truncated_model_is_a_smaller_header(family: Families, tmp_path: Path) -> None:
    model, X = family("last_weight")
    small = model.truncate(float(model.stage_costs_[3]))
    header = written(small, tmp_path, "-O0")
    assert header.n_stages == small.n_stages_ < model.n_stages_
    np.testing.assert_allclose(header.bought(X, np.inf)[0], small.predict_proba(X), rtol=1e-12)


def test_default_budget_is_what_the_header_may_spend(tmp_path: Path) -> None:
    model, X = priced()
    model.budget = 8.0
    header = written(model, tmp_path)
    assert header.n_stages == 2
    assert header.bought(X, np.inf)[0] == 11


_MAIN = r"""
#include <stdio.h>
#include "model.h"

static int never(void *arg) {
  (void)arg;
  return 0;
}

int main(void) {
  double x[MODEL_N_COLUMNS], out[MODEL_N_VALUES];
  int j;
  for (;;) {
    for (j = 0; j < MODEL_N_COLUMNS; ++j) {
      if (scanf("%lf", &x[j]) != 1) return 0;
    }
    model_predict(x, out, never, NULL);
    for (j = 0; j < MODEL_N_VALUES; ++j) printf("%.17g ", out[j]);
    model_predict_budget(x, INFINITY, out);
    for (j = 0; j < MODEL_N_VALUES; ++j) printf("%.17g%c", out[j], j + 1 < MODEL_N_VALUES ? ' ' : '\n');
  }
}
"""


@pytest.mark.parametrize("name", ["lightgbm", "boosting_classes", "refit", "cascade"])
def test_clean_under_sanitizers(family: Families, tmp_path: Path, name: str) -> None:
    model, X = family(name)
    X = X[-60:]
    model.to_c(tmp_path / "model.h")
    (tmp_path / "main.c").write_text(_MAIN)
    sanitizers = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    command = ["cc", *STRICT, *sanitizers, tmp_path / "main.c", "-o", tmp_path / "main", "-lm"]
    built = subprocess.run(command, capture_output=True, text=True)
    if "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    rows = "\n".join(" ".join(repr(float(value)) for value in row) for row in X)
    ran = subprocess.run([tmp_path / "main"], input=rows, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    said = np.array([line.split() for line in ran.stdout.splitlines()], dtype=np.float64)
    expected = values_of(model, model.answer(X))
    np.testing.assert_allclose(said, np.hstack([expected, expected]), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_header_is_c_plus_plus_too(family: Families, tmp_path: Path) -> None:
    family("boosting_classes")[0].to_c(tmp_path / "model.h")
    (tmp_path / "main.cpp").write_text(_MAIN)
    flags = ("-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic")
    subprocess.run(["c++", *flags, tmp_path / "main.cpp", "-o", tmp_path / "main"], check=True)


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        at.GradientBoostingClassifier().to_c()


def test_budget_that_buys_nothing_is_refused() -> None:
    model, _ = priced()
    with pytest.raises(at.ExportError, match="has no stage"):
        model.truncate(0.5).to_c()
    model.budget = 0.5
    with pytest.raises(at.ExportError, match=r"a budget of 0\.5 .*buys no stage"):
        model.to_c()


def test_program_of_the_documentation(family: Families, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    program = page.split("```c\n")[1].split("```")[0]
    model, _ = family("boosting")
    model.to_c(tmp_path / "cells.h")
    (tmp_path / "main.c").write_text(program)
    subprocess.run(["cc", *STRICT, tmp_path / "main.c", "-o", tmp_path / "main", "-lm"], check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said == f"{model.predict(np.zeros((1, 30)))[0]}, after {model.n_stages_} stages\n"
