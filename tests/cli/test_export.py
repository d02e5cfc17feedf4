"""``anytime export``: ONNX files and C headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from tests.cli.running import fails, run


def test_onnx_answers_at_each_budget(folder: Path, patients: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    said = run("export", folder / "sick.anytime", "--budgets", "8.1,all", "-o", tmp_path / "sick.onnx").stdout
    assert "sick.onnx" in said
    session = runtime.InferenceSession(tmp_path / "sick.onnx", providers=["CPUExecutionProvider"])
    model = at.load(folder / "sick.anytime")
    X = patients.drop(columns="sick")
    rows = model._checked(X)  # words as codes
    for end, budget in (("8.1", 8.1), ("all", None)):
        labels, chances = session.run([f"prediction_{end}", f"probability_{end}"], {"X": rows})
        assert labels.tolist() == model.predict(X, budget=budget).tolist()
        np.testing.assert_allclose(chances, model.predict_proba(X, budget=budget), rtol=1e-12)


def test_one_budget_and_float32(folder: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    run(
        "export",
        folder / "sick.anytime",
        "--budget",
        8.1,
        "--float32",
        "--format",
        "onnx",
        "-o",
        tmp_path / "m.bin",
    )
    graph = onnx.load(tmp_path / "m.bin").graph
    assert [output.name for output in graph.output] == ["prediction", "probability"]
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_header_by_the_name_of_the_file(folder: Path, tmp_path: Path) -> None:
    run("export", folder / "sick.anytime", "--budget", 8.1, "-o", tmp_path / "sick.h")
    text = (tmp_path / "sick.h").read_text()
    assert "static inline int sick_predict(" in text
    assert text == at.load(folder / "sick.anytime").set_params(meter="model").truncate(8.1).to_c(name="sick")
    run("export", folder / "sick.anytime", "--format", "c", "--name", "ill", "-o", tmp_path / "other.txt")
    assert "static inline int ill_predict(" in (tmp_path / "other.txt").read_text()


def test_what_cannot_be_meant(folder: Path, tmp_path: Path) -> None:
    model, onnx, header = folder / "sick.anytime", tmp_path / "m.onnx", tmp_path / "m.h"
    assert "rename it, or give --format" in fails("export", model, "-o", tmp_path / "m.txt", code=2)
    assert "cannot be combined" in fails("export", model, "--budget", 1, "--budgets", "1", "-o", onnx, code=2)
    assert "are for ONNX" in fails("export", model, "--budgets", "1", "-o", header, code=2)
    assert "--name applies to C headers only" in fails("export", model, "--name", "x", "-o", onnx, code=2)
    assert "holds 'much'" in fails("export", model, "--budgets", "8.1,much", "-o", onnx, code=2)
    assert "--budget 0.5 buys no stage: the first costs" in fails(
        "export", model, "--budget", 0.5, "-o", header
    )
    assert "no such file" in fails("export", tmp_path / "none.anytime", "-o", onnx)
    assert not onnx.exists()
    assert not header.exists()


def test_budget_below_the_first_stage_among_several(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    said = fails("export", folder / "sick.anytime", "--budgets", "0.5,all", "-o", tmp_path / "m.onnx")
    assert "a budget of 0.5 CAD buys no stage" in said
