"""Where growth begins: rows of residual units for images and tables, and the same made deeper or for larger images.

Images (Petridish, section 6.3): a stem, three resolutions of ``n`` normal cells with F, 2F and 4F channels, a transition
between resolutions, a mean over positions and a linear layer. The search runs at n = 3, F = 16; what it finds is trained at
n = 6, F = 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anytime.growth.architecture import STEM, Architecture, CellPlan

__all__ = ["doubled", "image_seed", "scaled", "table_seed"]

_LARGEST_SIDE = 32  # of images that the first normal cell reads


def image_seed(
    input_shape: Sequence[int] = (3, 32, 32),
    n_outputs: int = 10,
    *,
    n: int = 3,
    width: int = 16,
    resolutions: int = 3,
    tying: str = "cell",
) -> Architecture:
    """The seed for images.

    Images larger than 32 x 32 first go through transition cells, with as many fewer channels; from 65 x 65 on the stem halves
    them too.

    Parameters
    ----------
    input_shape : (channels, height, width)
    n_outputs : int
    n : int
        Normal cells per resolution.
    width : int
        Channels of the first resolution, F.
    resolutions : int
    tying : {"cell", "macro"}
        Whether all normal cells, and all transition cells, grow alike, or each by itself.

    Examples
    --------
    >>> image_seed(n=6, width=32).counts().mult_adds // 10**6
    48
    """
    side = max(input_shape[1:])
    stride = 2 if side > 2 * _LARGEST_SIDE else 1
    side, before = -(-side // stride), 0
    while side > _LARGEST_SIDE:
        side, before = -(-side // 2), before + 1
    kinds = ["transition"] * before
    for r in range(resolutions):
        kinds += ["transition"] * (r > 0) + ["normal"] * n
    thin = max(width // 2**before, 1)
    if thin * 2**before != width:
        raise ValueError(
            f"width must be a multiple of {2**before} for images of {tuple(input_shape[1:])}, not {width}"
        )
    names = [kind if tying == "cell" else f"cell {c}" for c, kind in enumerate(kinds)]
    return Architecture(
        space="images",
        input_shape=tuple(input_shape),
        n_outputs=n_outputs,
        width=thin,
        cells=tuple(CellPlan(kind, name) for kind, name in zip(kinds, names, strict=True)),
        patterns=dict.fromkeys(dict.fromkeys(names), ()),
        stem_stride=stride,
    )


def table_seed(
    n_columns: int,
    n_outputs: int,
    *,
    n: int = 2,
    width: int = 32,
    parts: Sequence[Sequence[int]] | None = None,
    tying: str = "cell",
) -> Architecture:
    """The seed for tables: ``n`` residual units of fully connected layers, which read the first part of the columns.

    Parameters
    ----------
    n_columns, n_outputs : int
    n : int
        Cells.
    width : int
        Units of every layer.
    parts : sequence of sequences of int, default=None
        Columns that are bought together, in turn. None: all are read from the beginning.
    tying : {"cell", "macro"}
    """
    chosen = [range(n_columns)] if parts is None else parts
    names = ["normal" if tying == "cell" else f"cell {c}" for c in range(n)]
    patterns = dict.fromkeys(dict.fromkeys(names), ())
    return Architecture(
        space="table",
        input_shape=(n_columns,),
        n_outputs=n_outputs,
        width=width,
        cells=tuple(CellPlan("normal", name) for name in names),
        patterns={STEM: (), **patterns} if len(chosen) > 1 else patterns,
        parts=tuple(tuple(int(column) for column in part) for part in chosen),
    )


def doubled(architecture: Architecture) -> Architecture:
    """Every normal cell twice, one after the other: from n = 3 to n = 6 for the last training."""
    cells = [cell for cell in architecture.cells for _ in range(2 if cell.kind == "normal" else 1)]
    return replace(architecture, cells=tuple(cells))


def scaled(
    architecture: Architecture,
    *,
    width: int | None = None,
    input_shape: Sequence[int] | None = None,
    n_outputs: int | None = None,
) -> Architecture:
    """The same growths with other channels, for images of another size, or for other classes.

    Larger images get the transition cells that ``image_seed`` gives them, which are plain in macro-search.
    """
    if architecture.space != "images":
        raise ValueError("only a network for images can be scaled")
    normal = next(i for i, cell in enumerate(architecture.cells) if cell.kind == "normal")
    own = architecture.cells[normal:]
    shape = tuple(input_shape or architecture.input_shape)
    outputs = n_outputs or architecture.n_outputs
    channels = width or architecture.width * 2**normal
    plain = image_seed(shape, outputs, n=1, width=channels, resolutions=1)
    ahead = sum(cell.kind == "transition" for cell in plain.cells)
    tied = "transition" in architecture.patterns
    first = CellPlan("transition", "transition" if tied else "ahead")
    patterns = dict(architecture.patterns) if tied or not ahead else {**architecture.patterns, "ahead": ()}
    return replace(plain, cells=(*[first] * ahead, *own), patterns={**patterns})
