"""Models for other runtimes: ONNX with an answer per budget, and a C header that can be stopped after any stage."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anytime.export.c_model import to_c
from anytime.export.selection import ExportError

__all__ = ["ExportError", "to_c", "to_onnx", "to_onnx_blocks"]


def to_onnx(
    model: Any,
    path: str | Path | None = None,
    *,
    budgets: Sequence[float | None] | None = None,
    dtype: str = "float64",
) -> Any:
    """A fitted model as an ONNX model; see ``AnytimeModel.to_onnx``."""
    from anytime.export import onnx_model  # needs the onnx package

    return onnx_model.to_onnx(model, path, budgets=budgets, dtype=dtype)


def to_onnx_blocks(model: Any, folder: str | Path, *, dtype: str = "float32") -> list[Path]:
    """A network as one ONNX model per block; see ``AnytimeNetworkClassifier.to_onnx_blocks``."""
    from anytime.export import onnx_model  # needs the onnx package

    return onnx_model.to_onnx_blocks(model, folder, dtype=dtype)
