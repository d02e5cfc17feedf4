"""Parameters that are objects of this room, as plain values for a file, and back."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from anytime.streaming.algorithm import StreamAlgorithm
from anytime.streaming.banks import NAMED_LEARNERS
from anytime.streaming.drift import Drift
from anytime.streaming.losses import STREAM_LOSSES
from anytime.streaming.projections import Ball, Box

_OTHERS: tuple[type[Any], ...] = (Ball, Box, Drift, StreamAlgorithm)
_KINDS = {kind.__name__: kind for kind in (*NAMED_LEARNERS.values(), *STREAM_LOSSES.values(), *_OTHERS)}


def write_setting(value: Any) -> dict[str, Any] | None:
    """The settings of an object of this room; None for anything else, which a file keeps as it keeps all parameters."""
    name = type(value).__name__
    if _KINDS.get(name) is not type(value):
        return None
    settings = {field.name: getattr(value, field.name) for field in fields(value)}
    return {"kind": name} | {key: write_setting(inner) or inner for key, inner in settings.items()}


def read_setting(written: Mapping[str, Any]) -> Any:
    """The object whose settings these are; it checks them itself."""
    settings = {
        key: read_setting(inner) if isinstance(inner, dict) else inner for key, inner in written.items()
    }
    kind = settings.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(_KINDS)}")
    return _KINDS[kind](**settings)
