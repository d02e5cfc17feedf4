"""An ONNX graph under construction. Everything is computed in double: thresholds and sums keep their bits."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Graph", "onnx"]

try:
    import onnx
except ImportError as error:  # pragma: no cover - the extra is not installed
    raise ImportError("export to ONNX needs onnx: pip install 'anytime[onnx]'", name="onnx") from error


class Graph:
    """Nodes in the order of computation, and constants, each kept once."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._number = 0

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}_{self._number}"

    def add(self, op: str, *inputs: str, domain: str = "", name: str | None = None, **attributes: Any) -> str:
        """Append a node; its output's name."""
        output = self._name(op.lower()) if name is None else name
        self.nodes.append(onnx.helper.make_node(op, list(inputs), [output], domain=domain, **attributes))
        return output

    def add_pair(self, op: str, *inputs: str, **attributes: Any) -> tuple[str, str]:
        """Append a node of two outputs."""
        outputs = (self._name(op.lower()), self._name(op.lower()))
        self.nodes.append(onnx.helper.make_node(op, list(inputs), list(outputs), **attributes))
        return outputs

    def constant(self, values: ArrayLike | NDArray[Any], dtype: Any = np.float64) -> str:
        """The name of a constant."""
        array = np.asarray(values, dtype=dtype)
        words = array.dtype == object
        key = (str(array.dtype), array.shape, repr(array.tolist()).encode() if words else array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._name("constant")
            self.initialisers.append(
                onnx.numpy_helper.from_array(array.copy(order="C"), self._constants[key])
            )
        return self._constants[key]

    def whole(self, *values: int) -> str:
        """A vector of whole numbers: axes, shapes, positions."""
        return self.constant(values, np.int64)

    def sum(self, names: list[str]) -> str:
        """One after the other, from the first to the last."""
        total = names[0]
        for name in names[1:]:
            total = self.add("Add", total, name)
        return total

    def columns(self, X: str, columns: NDArray[Any]) -> str:
        """Some columns of a matrix."""
        return self.add("Gather", X, self.constant(columns, np.int64), axis=1)

    def or_zero(self, X: str) -> str:
        """The same with 0 where a value is missing."""
        return self.add("Where", self.add("IsNaN", X), self.constant(0.0), X)
