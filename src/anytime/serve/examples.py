"""Examples that are whole structures: a picture, a sentence or a graph of a request, read within a server's limits.

A picture is a file (PNG, JPEG, ...) in base64, or nested lists of bytes. A sentence is a list of elements, each an object of
features or a list of numbers. A graph is an object with ``nodes``, a list of such elements, and ``edges``, pairs of nodes'
numbers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from anytime.rows import Rows, shown
from anytime.serve.errors import Refusal, refuse
from anytime.serve.questions import Limits

if TYPE_CHECKING:
    from anytime.answer import Answer
    from anytime.structured.labelers import ElementLabeler
    from anytime.structured.model import StructuredModel

_MADE_UP = 6  # elements of a made-up example
_MADE_UP_PICTURE = (240, 320)  # pixels
_CHANNELS = 3


class ExampleReader:
    """Reads the structures of requests for one model.

    Parameters
    ----------
    model : StructuredModel
    max_examples : int
        Structures in a request.
    max_values : int
        Values of all elements of a request: features of words and nodes, channels of pixels.

    Attributes
    ----------
    kind : {"picture", "sentence", "graph"}
        What one example is.
    """

    def __init__(self, model: StructuredModel, max_examples: int, max_values: int) -> None:
        self.kind = model._what
        self._structures = model._structures
        self._max_examples, self._classes = max_examples, model.classes_.tolist()
        width = _CHANNELS if self.kind == "picture" else max(model.plan_.n_features, len(model.classes_))
        self._max_elements = max(1, max_values // width)

    @property
    def is_picture(self) -> bool:
        """Whether examples are pictures."""
        return self.kind == "picture"

    @property
    def colours(self) -> list[str]:
        """A colour for each class: those of label maps."""
        from anytime.structured.picture_files import label_colours

        return label_colours(self._classes)

    def nothing(self, n: int) -> Rows:
        """Rows without columns: all there is to know is in the examples."""
        return Rows(np.empty((n, 0)))

    def check_limits(self, limits: Limits) -> None:
        """Refuse what makes no sense for many labels at once."""
        if limits["confidence"] is not None:
            refuse(
                f"confidence is for models with one answer; a {self.kind} has many labels: give a budget or a deadline"
            )

    def examples(self, raws: Any) -> Sequence[Any]:
        """What a model labels, of a list as JSON has it.

        Raises
        ------
        Refusal
            An example is not what the model labels, or there are more of them than a request may have.
        """
        self._check_count(len(raws))
        if self.is_picture:
            return self.pictures([self._picture_of(raw, i) for i, raw in enumerate(raws)])
        if self.kind == "graph":
            raws = [_graph_of(raw, i) for i, raw in enumerate(raws)]
        elements = [raw[0] if self.kind == "graph" else raw for raw in raws]
        self._check_elements(sum(len(own) for own in elements if isinstance(own, list)))
        try:
            return self._structures(raws)  # type: ignore[return-value]  # it has a length, which is all that matters
        except (TypeError, ValueError) as error:
            refuse(str(error))

    def pictures(self, arrays: Sequence[Any]) -> list[NDArray[np.uint8]]:
        """Pictures, checked; as arrays of bytes."""
        from anytime.structured.pictures import read_picture

        self._check_count(len(arrays))
        self._check_elements(sum(int(np.prod(np.shape(array)[:2])) for array in arrays))
        try:
            return [read_picture(array, i) for i, array in enumerate(arrays)]
        except ValueError as error:
            refuse(str(error))

    def _picture_of(self, raw: Any, i: int) -> NDArray[Any]:
        from anytime.structured.picture_files import opened_picture

        if type(raw) is list:
            try:
                return np.asarray(raw)
            except ValueError:
                refuse(f"picture {i} is a list whose rows are not equally long")
        if type(raw) is not str:
            refuse(f"picture {i} must be a file in base64, or lists of rows of pixels, not {shown(raw)}")
        try:
            data = base64.b64decode(raw.partition(";base64,")[2] or raw, validate=True)
        except (binascii.Error, ValueError):
            refuse(f"picture {i} is not in base64")
        try:
            return opened_picture(data, f"picture {i}", self._max_elements)
        except ValueError as error:
            refuse(str(error))

    def _check_count(self, n: int) -> None:
        if not n:
            refuse(f"at least one {self.kind} is needed")
        if n > self._max_examples:
            raise Refusal(
                413,
                f"{n} {self.kind}s, but a request may have at most {self._max_examples}; send them in parts",
            )

    def _check_elements(self, n: int) -> None:
        if n > self._max_elements:
            element = {"picture": "pixels", "sentence": "elements", "graph": "nodes"}[self.kind]
            raise Refusal(
                413,
                f"the {self.kind}s of a request may have {self._max_elements} {element} together, not {n}: send them in parts, "
                "make them smaller, or start the server with a larger --max-body-mb",
            )


def _graph_of(raw: Any, i: int) -> tuple[Any, Any]:
    if type(raw) is not dict or not raw.keys() <= {"nodes", "edges"} or type(raw.get("nodes")) is not list:
        refuse(
            f'graph {i} must be an object with "nodes", a list, and "edges", a list of pairs; not {shown(raw)}'
        )
    edges = raw.get("edges", [])
    try:
        return raw["nodes"], np.asarray(edges, dtype=np.intp) if edges else np.empty((0, 2), dtype=np.intp)
    except (TypeError, ValueError, OverflowError):
        refuse(f"graph {i}: edges must be a list of pairs of whole numbers, not {shown(edges)}")


def label_maps(answer: Answer) -> list[str]:
    """The label map of each picture, as a PNG file in base64: a pixel's value is the number of its class."""
    from anytime.structured.picture_files import label_png

    scores = answer.scores
    codes = scores.like(np.argmax(scores.values, axis=1)).parts()
    assert answer.classes is not None
    return [base64.b64encode(label_png(code, answer.classes.tolist())).decode() for code in codes]


def made_up(model: StructuredModel) -> Any:
    """An example to begin with, as JSON has it, of values that the model knows, in no order that means anything; or a picture."""
    if model._what == "picture":
        height, width = _MADE_UP_PICTURE
        shades = np.add.outer(np.arange(height), np.arange(width))[:, :, None] * np.array([3, 2, 1])
        blocks = np.kron(
            np.random.default_rng(0).integers(0, 128, (height // 20, width // 20, 3)), np.ones((20, 20, 1))
        )
        return (shades % 128 + blocks).astype(np.uint8)
    labeler = cast("ElementLabeler", model)
    elements = [_element(labeler, i) for i in range(_MADE_UP)]
    if model._what == "sentence":
        return elements
    return {"nodes": elements, "edges": [[i, (i + 1) % _MADE_UP] for i in range(_MADE_UP)]}


def _element(labeler: ElementLabeler, i: int) -> dict[str, Any] | list[float]:
    reader = labeler._reader
    values = [0.0 if not words else words[i % len(words)] for words in reader.vocabularies]
    named: Mapping[str, Any] = dict(zip(reader.names or (), values, strict=False))
    return [float(value) for value in values] if reader.names is None else dict(named)
