"""Pictures as nested regions: what lies in what, what touches what, and the shape of each region.

Seven levels of graph-based segmentation (Felzenszwalb and Huttenlocher 2004), each on the regions of the one before, with the
scales and least sizes of Grubb, *Anytime Prediction*, 2014, section 7.3. The regions of the first level are the *atoms*: all that
a model says is the same within an atom, so that predictions, losses and gradients are kept per atom without loss.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anytime import _native
from anytime.structured.structures import Regions

__all__ = [
    "LEAST_PIXELS", "SCALES", "SHAPE_NAMES", "SIGMA", "Allowance", "Hierarchy", "PictureInterrupted", "finished",
]  # fmt: skip

Array = NDArray[np.float64]

SIGMA = 0.25
SCALES = 100.0 * np.array([1.0, 2.0, 5.0, 10.0, 50.0, 200.0, 500.0])
LEAST_PIXELS = np.array([30, 50, 50, 100, 100, 200, 300], dtype=np.int64)
SHAPE_NAMES = (
    "log_share", "x", "y", "x_spread", "y_spread", "slant", "left", "right", "top", "bottom", "width", "height", "fill",
    "elongation", "off_centre", "border", "at_left", "at_right", "at_top", "at_bottom",
)  # fmt: skip


class PictureInterrupted(Exception):  # noqa: N818 - no error
    """Work on a picture was ended by a deadline or a stop flag; what is computed is kept."""


class Allowance(NamedTuple):
    """What work on a picture may take.

    Attributes
    ----------
    threads : int, default=1
    deadline : float, default=inf
        When it ends, on the clock of ``time.monotonic()``.
    stop : anything with ``is_set``, default=None
        Ends it from another thread.
    """

    threads: int = 1
    deadline: float = np.inf
    stop: Any = None

    @property
    def until(self) -> dict[str, Any]:
        """When it ends, as native functions take it."""
        return {"deadline": self.deadline, "stop": self.stop}

    def look(self) -> None:
        """Raise ``PictureInterrupted`` where the end has come: between pieces of work that are not native."""
        if time.monotonic() >= self.deadline or (self.stop is not None and self.stop.is_set()):
            raise PictureInterrupted


_Result = TypeVar("_Result")


def finished(result: _Result | None) -> _Result:
    """What a native function gave; raises ``PictureInterrupted`` where it was stopped before its end."""
    if result is None:
        raise PictureInterrupted
    return result


_FREELY = Allowance()


class Hierarchy:
    """The regions of one picture at all levels.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
    allowance : Allowance, default=Allowance()

    Raises
    ------
    PictureInterrupted
        If its end came before ours.

    Attributes
    ----------
    atom : (h, w) int32
        The atom of every pixel.
    region : (L, A) int32
        The region of every atom at each level.
    count : (L,) int32
        How many regions each level has.
    """

    def __init__(self, rgb: NDArray[np.uint8], allowance: Allowance = _FREELY) -> None:
        until = allowance.until
        self.atom, self.region, self.count = finished(
            _native.segment(rgb, SIGMA, SCALES, LEAST_PIXELS, **until)
        )
        self._moments = finished(_native.atom_moments(self.atom, self.n_atoms, **until))
        self._borders = finished(_native.atom_borders(self.atom, self.n_atoms, **until))
        self._regions: dict[int, Regions] = {}

    @property
    def n_atoms(self) -> int:
        """Regions of the first level."""
        return int(self.count[0])

    @property
    def n_levels(self) -> int:
        """Levels, the atoms included."""
        return len(self.count)

    @property
    def pixels(self) -> Array:
        """(A,) of each atom."""
        return self._moments[:, 0]

    def parent(self, level: int) -> NDArray[np.int32]:
        """(R,) the region of the next level in which each region of a level lies; at the last level one for all."""
        parent = np.zeros(self.count[level], dtype=np.int32)
        if level + 1 < self.n_levels:
            parent[self.region[level]] = self.region[level + 1]
        return parent

    def regions(self, level: int) -> Regions:
        """The regions of a level, as sets of atoms that count by their pixels."""
        if level not in self._regions:
            label = self.region[level].astype(np.intp)
            self._regions[level] = Regions(label, self.pixels, int(self.count[level]))
        return self._regions[level]

    def beside(self, level: int) -> csr_array:
        """(R, R) sparse: how long the border is that two regions of a level share, in pixels."""
        first, second, length = self._borders
        a, b = self.region[level][first], self.region[level][second]
        apart = a != b
        a, b, length = a[apart], b[apart], length[apart].astype(np.float64)
        n = int(self.count[level])
        cells = (np.concatenate([length, length]), (np.concatenate([a, b]), np.concatenate([b, a])))
        return csr_array(cells, shape=(n, n))

    def boxes(self, level: int) -> tuple[Array, Array]:
        """The least and the greatest x and y of the pixels of each region, (2, R) each."""
        label, n = self.region[level], int(self.count[level])
        low, high = np.full((2, n), np.inf), np.full((2, n), -np.inf)
        for k, (least, most) in enumerate(((6, 7), (8, 9))):
            np.minimum.at(low[k], label, self._moments[:, least])
            np.maximum.at(high[k], label, self._moments[:, most])
        return low, high

    def cells(self, rows: int, columns: int, allowance: Allowance = _FREELY) -> csr_array:
        """(rows * columns, A) sparse: pixels of each atom in each cell of a grid over the picture.

        Every second pixel of every second row is counted.
        """
        until = allowance.until
        cell, atom, count = finished(_native.atom_cells(self.atom, self.n_atoms, rows, columns, **until))
        starts = np.searchsorted(cell, np.arange(rows * columns + 1))
        return csr_array((count.astype(np.float64), atom, starts), shape=(rows * columns, self.n_atoms))

    def shapes(self, level: int) -> Array:
        """(R, S) size, place and form of the regions of a level, as shares of the picture's; see ``SHAPE_NAMES``."""
        label, n = self.region[level], int(self.count[level])
        sums = np.array([np.bincount(label, weights=m, minlength=n) for m in self._moments[:, :6].T])
        low, high = self.boxes(level)
        height, width = self.atom.shape
        pixels = sums[0]
        x, y = sums[1] / pixels, sums[2] / pixels
        xx = np.maximum(sums[3] / pixels - x**2, 0.0) + 1 / 12
        yy = np.maximum(sums[4] / pixels - y**2, 0.0) + 1 / 12
        xy = sums[5] / pixels - x * y
        wide, tall = high[0] - low[0] + 1, high[1] - low[1] + 1
        half, spread = 0.5 * (xx + yy), np.sqrt(0.25 * (xx - yy) ** 2 + xy**2)
        border = np.asarray(self.beside(level).sum(axis=1)).reshape(-1)
        return np.stack(
            [
                np.log(pixels / (height * width)),
                (x + 0.5) / width,
                (y + 0.5) / height,
                np.sqrt(xx) / width,
                np.sqrt(yy) / height,
                xy / np.sqrt(xx * yy),
                low[0] / width,
                (high[0] + 1) / width,
                low[1] / height,
                (high[1] + 1) / height,
                wide / width,
                tall / height,
                pixels / (wide * tall),
                np.sqrt((half + spread) / np.maximum(half - spread, 1 / 12)),
                np.abs((x + 0.5) / width - 0.5),
                border / np.sqrt(pixels),
                low[0] == 0,
                high[0] == width - 1,
                low[1] == 0,
                high[1] == height - 1,
            ],
            axis=1,
        ).astype(np.float64)
