"""Stages of structures as JSON and arrays, and back."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from anytime.blocks import Block
from anytime.files.reading import ArrayShelf, Fields, bad
from anytime.files.values import write_number

_LINEAR = {
    **dict.fromkeys(("columns", "context", "categories"), ("<i4", 1)),
    "weights": ("<f4", 2),
    "bias": ("<f4", 1),
}
_PLACES = dict.fromkeys(("columns", "context"), ("<i4", 1))
_DEEPEST_LEVEL = 1000


def written_structured(description: dict[str, Any]) -> dict[str, Any]:
    """What a ``StructuredBlock`` says of itself, with numbers as JSON has them."""
    for stage in description["stages"]:
        stage["threshold"] = write_number(stage["threshold"])
    return description


def read_structured(
    fields: Fields,
    prefix: str,
    arrays: ArrayShelf,
    n_features: int,
    most: tuple[int, int],
    tree_arrays: Mapping[str, tuple[str, int]],
) -> Block:
    """The block again; ``most``: classes and stages that the plan may have."""
    from anytime.structured.block import StructuredBlock

    n_classes, most_stages = most
    description: dict[str, Any] = {
        "n_columns": fields.integer("n_columns", n_features, n_features),
        "width": fields.integer("width", 1, max(n_classes, 1)),
        "stages": [],
    }
    own: dict[str, NDArray[Any]] = {}
    for s, stage in enumerate(fields.each("stages", most_stages)):
        kind = stage.text("predictor", ("linear", "tree"))
        state: dict[str, Any] = {
            "predictor": kind,
            "level": stage.integer("level", 0, _DEEPEST_LEVEL),
            "threshold": stage.number("threshold"),
            "measured_at": stage.integer("measured_at", -1, _DEEPEST_LEVEL)
            if stage.has("measured_at")
            else None,
            "step": stage.number("step"),
            "replaces": stage.flag("replaces"),
        }
        expected = _LINEAR
        if kind == "tree":
            expected = _PLACES | {f"tree.{name}": form for name, form in tree_arrays.items()}
            state |= {
                "n_outputs": stage.integer("n_outputs", description["width"], description["width"]),
                "n_features": stage.integer("n_features", 1, 2**31 - 1),
                "float32_input": stage.flag("float32_input"),
                "shift": stage.integer("shift", -1000, 1000),
            }
        stored = {
            f"{s}.{name}": arrays.take(f"{prefix}.{s}.{name}", *form) for name, form in expected.items()
        }
        for name in ("columns", "context"):
            places = stored[f"{s}.{name}"]
            if places.size and not (places[0] >= 0 and (places[1:] > places[:-1]).all()):
                bad(f"array '{prefix}.{s}.{name}'", "must be increasing places, not negative")
        own |= stored
        description["stages"].append(state)
        stage.done()
    if f"{prefix}.offsets" in arrays:
        own["offsets"] = arrays.take(f"{prefix}.offsets", "<f8", 2)
    return StructuredBlock.from_state(description, own)
