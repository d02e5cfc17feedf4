"""An architecture as a graph of shortcuts: JSON in and out, shapes, parameters and mult-adds, without torch.

Petridish (Hu 2019, chapter 6): a network is a stem, a row of cells and a head. A cell begins as a residual unit and
grows: each growth is a weak learner that reads layers of the same cell or the outputs of the two cells before, and is added to
the cell's output. A growth is a few shortcuts ``(input, op)`` and the way they merge. Growths belong to a *pattern*. Cells that
share a pattern grow alike (cell-search); a cell with a pattern of its own grows alone (macro-search).

Layers of a cell, in topological order: ``"before"`` and ``"previous"``, the outputs of the two cells before; ``"a"`` and
``"b"`` behind the two layers of the residual unit; ``"g1"``, ``"g2"`` and so on, one per growth. A table's stem reads
parts of the columns: the first one in the seed, ``"part 1"`` and so on where the pattern ``"stem"`` has grown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

__all__ = [
    "IMAGE_OPS",
    "STEM",
    "TABLE_OPS",
    "Architecture",
    "CellPlan",
    "Counts",
    "GrownLayer",
    "Shortcut",
    "op_counts",
]

IMAGE_OPS = ("sep3", "sep5", "dil3", "dil5", "max3", "avg3", "identity")
TABLE_OPS = ("relu", "tanh", "gate", "identity")
PART_OP = "linear"  # by which a part of a table's columns enters
STEM = "stem"
MERGES = ("cat_proj", "sum")
SPACES = ("images", "table", "module")
_OUTER = ("before", "previous")
_UNIT = ("a", "b")
_LARGEST = 1 << 16  # of any size in a file


class Counts(NamedTuple):
    """Size of something."""

    parameters: int
    mult_adds: int

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.parameters + other.parameters, self.mult_adds + other.mult_adds)


@dataclass(frozen=True)
class Shortcut:
    """An op applied to a layer."""

    input: str
    op: str


@dataclass(frozen=True)
class GrownLayer:
    """A weak learner: its shortcuts, and how they become one layer.

    Parameters
    ----------
    shortcuts : tuple of Shortcut
    merge : {"cat_proj", "sum"}
        "cat_proj": concatenated, then ReLU, a 1x1 projection and normalisation. "sum": added with learned weights.
    linear : bool
        Whether the projection goes without ReLU and normalisation.
    """

    shortcuts: tuple[Shortcut, ...]
    merge: str = "cat_proj"
    linear: bool = False


@dataclass(frozen=True)
class CellPlan:
    """A cell of a network.

    Parameters
    ----------
    kind : {"normal", "transition"}
        A transition halves the image and doubles the channels.
    pattern : str
        Which growths it has.
    """

    kind: str
    pattern: str


@dataclass(frozen=True)
class Architecture:
    """A whole network.

    Parameters
    ----------
    space : {"images", "table", "module"}
        "module": the stem, the units of cells and the head are those of a module of the user's own.
    input_shape : (channels, height, width) or (columns,)
    n_outputs : int
    width : int
        Channels of the first cell's input, or units of every layer of a table's network.
    cells : tuple of CellPlan
    patterns : dict from name to tuple of GrownLayer
    parts : tuple of tuples of int
        Of a table: columns that enter together. The first part is always read.
    stem_stride : int
        By which the stem makes images smaller.
    shapes : tuple of tuples of int
        Of a module: what the stem and each cell give for one input.
    own : (int, int)
        Of a module: its parameters and mult-adds.
    """

    space: str
    input_shape: tuple[int, ...]
    n_outputs: int
    width: int
    cells: tuple[CellPlan, ...]
    patterns: Mapping[str, tuple[GrownLayer, ...]]
    parts: tuple[tuple[int, ...], ...] = ()
    stem_stride: int = 1
    shapes: tuple[tuple[int, ...], ...] = ()
    own: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        _check(self)

    # ------------------------------------------------------------------ JSON

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and texts."""
        return {
            "space": self.space,
            "input_shape": list(self.input_shape),
            "n_outputs": self.n_outputs,
            "width": self.width,
            "cells": [[cell.kind, cell.pattern] for cell in self.cells],
            "patterns": {
                name: [
                    {
                        "shortcuts": [[s.input, s.op] for s in growth.shortcuts],
                        "merge": growth.merge,
                        "linear": growth.linear,
                    }
                    for growth in growths
                ]
                for name, growths in self.patterns.items()
            },
            "parts": [list(part) for part in self.parts],
            "stem_stride": self.stem_stride,
            "shapes": [list(shape) for shape in self.shapes],
            "own": list(self.own),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Architecture:
        """Read what ``to_json`` gave; ``ValueError`` for anything that is no network."""
        try:
            patterns = {
                str(name): tuple(
                    GrownLayer(
                        tuple(Shortcut(str(i), str(op)) for i, op in growth["shortcuts"]),
                        str(growth["merge"]),
                        bool(growth["linear"]),
                    )
                    for growth in growths
                )
                for name, growths in written["patterns"].items()
            }
            return cls(
                space=str(written["space"]),
                input_shape=_sizes(written["input_shape"]),
                n_outputs=_size(written["n_outputs"]),
                width=_size(written["width"]),
                cells=tuple(CellPlan(str(kind), str(pattern)) for kind, pattern in written["cells"]),
                patterns=patterns,
                parts=tuple(_sizes(part, least=0) for part in written["parts"]),
                stem_stride=_size(written["stem_stride"]),
                shapes=tuple(_sizes(shape) for shape in written["shapes"]),
                own=(int(written["own"][0]), int(written["own"][1])),
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"this is no architecture of a grown network: {error!s:.100}") from None

    # ------------------------------------------------------------------ graph

    @property
    def ops(self) -> tuple[str, ...]:
        """What a shortcut into a cell's output may be."""
        flat = self.space == "table" or (self.space == "module" and len(self.shapes[0]) == 1)
        return TABLE_OPS if flat else IMAGE_OPS

    def inputs(self, pattern: str) -> tuple[str, ...]:
        """In(x_k): layers that the next growth of a pattern may read."""
        if pattern == STEM:
            read = {s.input for growth in self.patterns.get(STEM, ()) for s in growth.shortcuts}
            names = (f"part {k}" for k in range(1, len(self.parts)))
            return tuple(name for name in names if name not in read)
        unit = () if self.space == "module" else _UNIT
        grown = tuple(f"g{k + 1}" for k in range(len(self.patterns[pattern])))
        return (*_OUTER, *unit, *grown)

    def sites(self) -> list[str]:
        """Patterns that can grow."""
        return [name for name in self.patterns if self.inputs(name)]

    def shortcuts(self) -> Iterator[tuple[str, str, str]]:
        """All (input, output, op) of the grown part, by names of layers of the whole network."""
        outputs = ["stem", "stem", *(f"cell {k}" for k in range(len(self.cells)))]
        for k, growth in enumerate(self.patterns.get(STEM, ())):
            for s in growth.shortcuts:
                yield s.input, f"stem.g{k + 1}", s.op
        for c, cell in enumerate(self.cells):
            outer = dict(zip(_OUTER, outputs[c : c + 2], strict=True))
            for k, growth in enumerate(self.patterns[cell.pattern]):
                for s in growth.shortcuts:
                    yield outer.get(s.input, f"cell {c}.{s.input}"), f"cell {c}.g{k + 1}", s.op

    def grown(self, growths: Mapping[str, GrownLayer]) -> Architecture:
        """The architecture with one more growth at some patterns."""
        added = {
            name: (*old, growths[name]) if name in growths else old for name, old in self.patterns.items()
        }
        return replace(self, patterns=added)

    def merged(self, merge: str) -> Architecture:
        """The same shortcuts with another merge: "CP-end" searches with "sum" and trains its last model with "cat_proj"."""
        changed = {
            name: growths if name == STEM else tuple(replace(growth, merge=merge) for growth in growths)
            for name, growths in self.patterns.items()
        }
        return replace(self, patterns=changed)

    def columns(self) -> tuple[int, ...]:
        """Of a table: columns that are read, increasing."""
        if self.space != "table":
            return tuple(range(self.input_shape[0] if len(self.input_shape) == 1 else 0))
        read = [0, *(int(s.input.split()[1]) for g in self.patterns.get(STEM, ()) for s in g.shortcuts)]
        return tuple(sorted({column for k in read for column in self.parts[k]}))

    # ------------------------------------------------------------------ shapes and counts

    def layer_shapes(self) -> list[tuple[int, ...]]:
        """What the stem and each cell give for one input."""
        if self.space == "module":
            return list(self.shapes)
        if self.space == "table":
            return [(self.width,)] * (len(self.cells) + 1)
        size = [-(-side // self.stem_stride) for side in self.input_shape[1:]]
        shapes: list[tuple[int, ...]] = [(self.width, size[0], size[1])]
        for cell in self.cells:
            channels, height, width = shapes[-1]
            if cell.kind == "transition":
                channels, height, width = 2 * channels, -(-height // 2), -(-width // 2)
            shapes.append((channels, height, width))
        return shapes

    def input_shapes(self, c: int) -> dict[str, tuple[int, ...]]:
        """Shapes of all layers that growths of cell ``c`` may read."""
        shapes = self.layer_shapes()
        of_earlier_cells = {"before": shapes[max(c - 1, 0)], "previous": shapes[c]}
        return {
            name: of_earlier_cells.get(name, shapes[c + 1])
            for name in (
                *_OUTER,
                *_UNIT,
                *(f"g{k + 1}" for k in range(len(self.patterns[self.cells[c].pattern]))),
            )
            if name in of_earlier_cells or self.space != "module" or name not in _UNIT
        }

    def counts(self) -> Counts:
        """Parameters and mult-adds of one input, by the closed forms."""
        shapes = self.layer_shapes()
        total = self._ends(shapes)
        for c, cell in enumerate(self.cells):
            if self.space != "module":
                total = total.plus(_unit_counts(shapes[c], shapes[c + 1]))
            input_shapes = self.input_shapes(c)
            for growth in self.patterns[cell.pattern]:
                total = total.plus(_growth_counts(growth, input_shapes, shapes[c + 1]))
        return total

    def _ends(self, shapes: Sequence[tuple[int, ...]]) -> Counts:
        """Stem and head."""
        if self.space == "module":
            return Counts(*self.own)
        channels, last = self.input_shape[0], shapes[-1][0]
        head = Counts(2 * last + (last + 1) * self.n_outputs, last * self.n_outputs)
        if self.space == "table":
            stem = _linear_counts(len(self.parts[0]), self.width, affine=True)
            for growth in self.patterns.get(STEM, ()):
                for s in growth.shortcuts:
                    n = len(self.parts[int(s.input.split()[1])])
                    stem = stem.plus(_linear_counts(n, self.width)).plus(Counts(2, 0))
            return stem.plus(head)
        weights = 9 * channels * self.width
        area = shapes[0][1] * shapes[0][2]
        return Counts(weights + 2 * self.width, area * weights).plus(head)


# ---------------------------------------------------------------------- counts


def op_counts(op: str, source: Sequence[int], target: Sequence[int]) -> Counts:
    """Parameters and mult-adds of an op from a layer of one shape to one of another (docs/theory, growth_and_streaming B.6).

    A separable op is applied twice; pooling, normalisation and activation count nothing, and nor does an identity, unless
    channels or size differ: then it has a 1x1 convolution.
    """
    c_in, c_out = source[0], target[0]
    if len(target) == 1:
        if op == "identity":
            return Counts(0, 0) if c_in == c_out else _linear_counts(c_in, c_out)
        return _linear_counts(c_in, c_out)
    area = target[1] * target[2]
    if op in ("max3", "avg3"):
        weights = 0 if c_in == c_out else c_in * c_out
    elif op == "identity":
        weights = 0 if tuple(source) == tuple(target) else c_in * c_out
    else:
        square = int(op[3:]) ** 2
        weights = square * c_in + c_in * c_out
        if op.startswith("sep"):
            weights += square * c_out + c_out * c_out
    return Counts(weights, area * weights)


def _linear_counts(c_in: int, c_out: int, affine: bool = False) -> Counts:
    return Counts(c_in * c_out + (2 * c_out if affine else 0), c_in * c_out)


def _unit_counts(source: Sequence[int], target: Sequence[int]) -> Counts:
    """Of the residual unit: two layers, each separable once, and their normalisation."""
    c_in, c_out = source[0], target[0]
    if len(target) == 1:
        return _linear_counts(c_in, c_out, affine=True).plus(_linear_counts(c_out, c_out, affine=True))
    weights = 9 * c_in + c_in * c_out + 9 * c_out + c_out * c_out
    return Counts(weights + 4 * c_out, target[1] * target[2] * weights)


def _growth_counts(
    growth: GrownLayer, input_shapes: Mapping[str, Sequence[int]], target: Sequence[int]
) -> Counts:
    total = Counts(0, 0)
    for s in growth.shortcuts:
        total = total.plus(op_counts(s.op, input_shapes[s.input], target))
    n, channels = len(growth.shortcuts), target[0]
    if growth.merge == "sum":
        return total.plus(Counts(n + 1, 0))
    weights = n * channels * channels
    area = 1 if len(target) == 1 else target[1] * target[2]
    return total.plus(Counts(weights + (0 if growth.linear else 2 * channels), area * weights))


# ---------------------------------------------------------------------- checks


def _check(a: Architecture) -> None:
    """Refuse what is no network: unknown words, shapes that do not fit, shortcuts that do not lead forward."""
    if a.space not in SPACES:
        raise ValueError(f"space must be one of {', '.join(SPACES)}, not {a.space!r}")
    if a.space == "images" and len(a.input_shape) != 3:
        raise ValueError(f"an image has channels, height and width, not the shape {a.input_shape}")
    if a.space == "table" and (len(a.input_shape) != 1 or not a.parts):
        raise ValueError("a table's network reads columns, and at least one part of them")
    if a.space == "module" and len(a.shapes) != len(a.cells) + 1:
        raise ValueError(f"{len(a.cells)} cells need {len(a.cells) + 1} shapes, not {len(a.shapes)}")
    columns = [column for part in a.parts for column in part]
    if len(set(columns)) < len(columns) or any(column >= a.input_shape[0] for column in columns):
        raise ValueError(f"parts name a column twice, or one that is not among the {a.input_shape[0]}")
    for cell in a.cells:
        if (
            cell.kind not in ("normal", "transition")
            or cell.pattern not in a.patterns
            or cell.pattern == STEM
        ):
            raise ValueError(f"a cell of kind {cell.kind!r} cannot have the pattern {cell.pattern!r}")
        if cell.kind == "transition" and a.space == "table":
            raise ValueError("a table has no transition cells")
    for name, growths in a.patterns.items():
        _check_growths(a, name, growths)


def _check_growths(a: Architecture, name: str, growths: Sequence[GrownLayer]) -> None:
    stem = name == STEM
    readable = {f"part {k}" for k in range(1, len(a.parts))} if stem else {*_OUTER}
    if not stem and a.space != "module":
        readable |= {*_UNIT}
    ops = (PART_OP,) if stem else a.ops
    for k, growth in enumerate(growths):
        if growth.merge not in MERGES or not growth.shortcuts or (stem and growth.merge != "sum"):
            raise ValueError(f"growth {k + 1} of {name!r} has no shortcut, or the merge {growth.merge!r}")
        for s in growth.shortcuts:
            if s.op not in ops:
                raise ValueError(f"{name!r} knows no op {s.op!r}; it has {', '.join(ops)}")
            if s.input not in readable:
                raise ValueError(
                    f"growth {k + 1} of {name!r} reads {s.input!r}, which is not before it: the graph would have a cycle"
                    if s.input.startswith("g")
                    else f"growth {k + 1} of {name!r} reads {s.input!r}; there are {', '.join(sorted(readable))}"
                )
        if len(set(growth.shortcuts)) < len(growth.shortcuts):
            raise ValueError(f"growth {k + 1} of {name!r} has a shortcut twice")
        if stem:
            readable -= {s.input for s in growth.shortcuts}
        else:
            readable.add(f"g{k + 1}")


def _size(value: Any, least: int = 1) -> int:
    if type(value) is not int or not least <= value <= _LARGEST:
        raise ValueError(f"a size is a whole number from {least} to {_LARGEST}, not {value!r:.60}")
    return value


def _sizes(values: Any, least: int = 1) -> tuple[int, ...]:
    return tuple(_size(value, least) for value in values)
