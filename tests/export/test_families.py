"""Every family of models answers the same in ONNX Runtime, in C and in the library, at every budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anytime as at
from tests.export.families import FAMILIES, IN_C, NOT_IN_C, budgets_of
from tests.export.helpers import Families, agrees, answers, needs_compiler, suffix, values_of, written


@pytest.mark.parametrize("name", FAMILIES)
def test_onnx_has_an_output_per_budget(family: Families, name: str) -> None:
    pytest.importorskip("onnx")
    model, X = family(name)
    budgets = budgets_of(model)
    found = answers(model.to_onnx(budgets=budgets), X)
    assert len(found) == len(budgets) * (2 if hasattr(model, "classes_") else 1)
    for budget in budgets:
        agrees(model, X, found, budget, suffix(budget))


@needs_compiler
@pytest.mark.parametrize("name", IN_C)
def test_c_can_be_stopped_after_every_stage(family: Families, tmp_path: Path, name: str) -> None:
    model, X = family(name)
    X = X[-150:]
    header = written(model, tmp_path, "-O0")
    assert header.n_stages == model.n_stages_
    for answer in model.stages(X):
        out, done = header.interrupted(X, answer.stage)
        np.testing.assert_allclose(out, values_of(model, answer), rtol=1e-12, atol=1e-12)
        assert (done <= answer.stage).all()
    for budget in budgets_of(model):
        out, done = header.bought(X, np.inf if budget is None else budget)
        answer = model.answer(X, budget=budget)
        np.testing.assert_allclose(out, values_of(model, answer), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(done, answer.stage)


@pytest.mark.parametrize("name", NOT_IN_C)
def test_what_c_cannot_say(family: Families, name: str) -> None:
    model, _ = family(name)
    with pytest.raises(
        at.ExportError,
        match=r"stage 1 is a \w+Block, which C cannot say: run this model with the library itself",
    ):
        model.to_c()
