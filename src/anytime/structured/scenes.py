"""Pictures as structures: atoms get labels, regions of seven levels are looked at, and nothing is computed before it is needed.

Columns are shape and place of a region, mean and spread of its colour, and means of soft codes over its pixels. A code of a
region is the mean of its atoms' codes, weighted by their pixels: what is computed for atoms serves all levels. Prices have two
steps, as in Grubb, *Anytime Prediction*, 2014, section 7.2.3: a descriptor is paid for once, then each of its codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import block_diag, csr_array

from anytime import _native
from anytime.costs import FeatureCosts
from anytime.ragged import Ragged
from anytime.structured.descriptors import DESCRIPTORS, AtomGrid, DescriptorPlanes, SoftCodes
from anytime.structured.segmentation import SCALES, SHAPE_NAMES, Allowance, Hierarchy, finished
from anytime.structured.structures import Array, Regions, Structures

__all__ = ["AtomValues", "Scene", "SceneFeatures", "Scenes"]

Floats = NDArray[np.float32]
_COLOURS = ("L", "a", "b", "L_spread", "a_spread", "b_spread")
# the grid on which predictions around regions are summed, and how many of its cells windows are deep
_ROWS, _COLUMNS, _DEPTH = 24, 32, 4


class SceneFeatures:
    """The columns of pictures.

    Parameters
    ----------
    codes : mapping from descriptor to SoftCodes
        Empty: shape and colour only.

    Attributes
    ----------
    names : tuple of str
        Of the columns.
    """

    def __init__(self, codes: Mapping[str, SoftCodes]) -> None:
        self.codes = dict(codes)
        names = [f"shape {name}" for name in SHAPE_NAMES] + [f"colour {name}" for name in _COLOURS]
        self.first_code = len(names)
        self.first: dict[str, int] = {}  # of a descriptor's codes, among all codes
        n_codes = 0
        for name, dictionary in self.codes.items():
            self.first[name] = n_codes
            n_codes += len(dictionary)
            names += [f"{name} {i}" for i in range(len(dictionary))]
        self.names, self.n_codes = tuple(names), n_codes

    @property
    def n_columns(self) -> int:
        """Shape, colour and codes."""
        return len(self.names)

    def costs(self, prices: Mapping[str, float], unit: str | None = "ms") -> FeatureCosts:
        """The price list, from prices of "segments", "shape", each descriptor ("texture") and one code of it ("texture code").

        Everything requires "segments"; a code requires its descriptor.
        """
        groups: dict[str, list[str | int]] = {
            "segments": [],
            "shape": list(range(len(SHAPE_NAMES))),
            "colour": list(range(len(SHAPE_NAMES), self.first_code)),
        }
        requires = {"shape": ["segments"], "colour": ["segments"]}
        for name in self.codes:
            if name != "colour":
                groups[name], requires[name] = [], ["segments"]
        needed = [*groups, *(f"{name} code" for name in self.codes)]
        if absent := [name for name in needed if name not in prices]:
            raise ValueError(f"prices lack {absent[0]!r}; they are of {', '.join(needed)}")
        amounts = {name: float(prices[name]) for name in groups}
        for name, dictionary in self.codes.items():
            for i in range(len(dictionary)):
                column = self.first_code + self.first[name] + i
                groups[self.names[column]], requires[self.names[column]] = [column], [name]
                amounts[self.names[column]] = float(prices[f"{name} code"])
        return FeatureCosts(amounts, groups=groups, requires=requires, unit=unit)


class Scene:
    """One picture, and all that has been computed of it.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
    features : SceneFeatures
    threads : int, default=1
    """

    def __init__(self, rgb: NDArray[np.uint8], features: SceneFeatures, threads: int = 1) -> None:
        self.rgb, self.features = rgb, features
        self._allowance = Allowance(threads)
        self._planes: dict[str, DescriptorPlanes] = {}
        self._shapes: dict[int, Array] = {}
        self._colour_tables: dict[int, Array] = {}

    def interrupt_at(self, deadline: float, stop: Any) -> None:
        """When work is to end from now on: ``PictureInterrupted`` is then raised.

        Regions, descriptors and codes that are complete by then are kept; one that is not is begun anew.
        """
        self._allowance = Allowance(self._allowance.threads, deadline, stop)

    def look(self) -> None:
        """Raise ``PictureInterrupted`` where work is to end."""
        self._allowance.look()

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """Its regions."""
        return Hierarchy(self.rgb, self._allowance)

    @cached_property
    def _lab(self) -> Floats:
        return finished(_native.lab_planes(self.rgb, **self._allowance.until))

    @cached_property
    def _grid(self) -> AtomGrid:
        return AtomGrid.of(self.hierarchy.atom, self.hierarchy.n_atoms, self._allowance)

    @cached_property
    def _means(self) -> Floats:
        """(n_codes, A) means of codes over atoms, where they are computed."""
        return np.zeros((self.features.n_codes, self.hierarchy.n_atoms), dtype=np.float32)

    @cached_property
    def computed(self) -> NDArray[np.bool_]:
        """(n_codes, A) which of them are."""
        return np.zeros((self.features.n_codes, self.hierarchy.n_atoms), dtype=bool)

    @cached_property
    def _colours(self) -> Array:
        """(A, 6) means over atoms of colours and their squares."""
        planes, grid = self.planes("colour").planes, self._grid
        return finished(_native.point_means(planes, grid.start, grid.points, **self._allowance.until))

    def planes(self, name: str) -> DescriptorPlanes:
        """A descriptor, computed when it is first asked for."""
        if name not in self._planes:
            self._planes[name] = DESCRIPTORS[name](self._lab, self._allowance)
        return self._planes[name]

    def forget_planes(self, name: str | None = None) -> None:
        """Give back the memory of a descriptor, or of all and the colours; codes that are computed stay."""
        if name is not None:
            self._planes.pop(name, None)
            return
        self._planes.clear()
        self._colour_tables.clear()
        for cached in ("_lab", "_colours"):
            self.__dict__.pop(cached, None)

    def forget(self) -> None:
        """Give back the memory of all features: they are computed anew when they are asked for."""
        self.forget_planes()
        self.forget_shapes()
        for cached in ("_means", "computed", "_grid"):
            self.__dict__.pop(cached, None)

    def forget_shapes(self) -> None:
        """Let shapes be computed anew."""
        self._shapes.clear()

    def read(self, level: int, columns: NDArray[np.int32], which: NDArray[np.intp] | None) -> Array:
        """(m, len(columns)) features of regions ``which`` of a level; None: all."""
        rows = slice(None) if which is None else which
        out = np.empty((int(self.hierarchy.count[level]) if which is None else which.size, len(columns)))
        is_shape, is_code = columns < len(SHAPE_NAMES), columns >= self.features.first_code
        is_colour = ~is_shape & ~is_code
        if is_shape.any():
            out[:, is_shape] = self._shape_table(level)[rows][:, columns[is_shape]]
        if is_colour.any():
            out[:, is_colour] = self._colour_table(level)[rows][:, columns[is_colour] - len(SHAPE_NAMES)]
        if is_code.any():
            out[:, is_code] = self._code_table(level, columns[is_code] - self.features.first_code, which)[
                rows
            ]
        return out

    def _shape_table(self, level: int) -> Array:
        if level not in self._shapes:
            self._shapes[level] = self.hierarchy.shapes(level)
        return self._shapes[level]

    def _colour_table(self, level: int) -> Array:
        """(R, 6) means and spreads of colours."""
        if level not in self._colour_tables:
            means = self.hierarchy.regions(level).mean(self._colours)
            spread = np.sqrt(np.maximum(means[:, 3:] - means[:, :3] ** 2, 0.0))
            self._colour_tables[level] = np.hstack([means[:, :3], spread])
        return self._colour_tables[level]

    def _code_table(self, level: int, codes: NDArray[np.int32], which: NDArray[np.intp] | None) -> Array:
        """(R, len(codes)) means of codes; those of regions that are not among ``which`` are worth nothing."""
        regions, chosen = self.hierarchy.regions(level), None
        if which is not None:
            chosen = np.zeros(regions.n_regions, dtype=bool)
            chosen[which] = True
        self._compute(codes, None if chosen is None else chosen[regions.label])
        means = np.ascontiguousarray(self._means[codes].T, dtype=np.float64)
        if regions.are_elements or chosen is None:
            return regions.mean(means)
        return regions.mean(means, chosen, np.zeros((regions.n_regions, len(codes))))

    def _compute(self, codes: NDArray[np.int32], wanted: NDArray[np.bool_] | None) -> None:
        """Compute what is not there yet of some codes, for all atoms or those that are wanted, and nothing else."""
        lacking: NDArray[np.bool_] = ~self.computed[codes]
        if wanted is not None:
            lacking &= wanted
        missing = lacking.any(axis=1)
        if not missing.any():
            return
        for name, dictionary in self.features.codes.items():
            first = self.features.first[name]
            own = np.flatnonzero(missing & (codes >= first) & (codes < first + len(dictionary)))
            for atoms, members in _alike(lacking[own]):
                self._compute_code(name, codes[own[members]], atoms)
            if own.size and self.computed[first : first + len(dictionary)].all():
                self.forget_planes(name)  # nothing is left to be computed from them

    def _compute_code(self, name: str, codes: NDArray[np.int32], atoms: NDArray[np.bool_]) -> None:
        """Compute codes of one descriptor for some atoms."""
        everywhere = bool(atoms.all())
        means = self.planes(name).code_means(
            self.features.codes[name],
            codes - self.features.first[name],
            self._grid,
            None if everywhere else atoms,
            self._allowance,
        )
        cells = np.ix_(codes, np.flatnonzero(atoms))
        self._means[cells], self.computed[cells] = means[:, atoms], True


def _alike(lacking: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Sets of atoms that codes lack, each with the codes that lack it."""
    members: dict[bytes, list[int]] = {}
    for i, row in enumerate(np.packbits(lacking, axis=1)):
        members.setdefault(row.tobytes(), []).append(i)
    return [(lacking[codes[0]], np.array(codes)) for codes in members.values()]


class AtomValues(Ragged):
    """Values of the atoms of pictures, which are shown as values of their pixels.

    Parameters
    ----------
    values : (E, ...) array
    offsets : (n + 1,) int
    atoms : sequence of (h, w) int
        The atom of every pixel of each picture.
    """

    def __init__(self, values: ArrayLike, offsets: ArrayLike, atoms: Sequence[NDArray[np.int32]]) -> None:
        super().__init__(values, offsets)
        self.atoms = atoms

    def parts(self) -> list[NDArray[Any]]:
        """(h, w, ...) the values of each picture's pixels."""
        return [part[atom] for part, atom in zip(super().parts(), self.atoms, strict=True)]

    def like(self, values: NDArray[Any]) -> AtomValues:
        """Other values of the same atoms."""
        return AtomValues(values, self.offsets, self.atoms)

    def __getitem__(self, rows: Any) -> AtomValues:
        some = super().__getitem__(rows)
        if some is self:
            return self
        return AtomValues(some.values, some.offsets, [self.atoms[i] for i in np.arange(len(self))[rows]])

    @staticmethod
    def joined(parts: Sequence[Ragged]) -> AtomValues:
        """Pictures of several, one after the other."""
        together = Ragged.joined(parts)
        atoms = [atom for part in parts for atom in part.atoms]  # type: ignore[attr-defined]
        return AtomValues(together.values, together.offsets, atoms)


class Scenes(Structures):
    """A batch of pictures.

    Parameters
    ----------
    scenes : sequence of Scene
        With the same features.
    features : SceneFeatures
    """

    n_levels = len(SCALES)

    def __init__(self, scenes: Sequence[Scene], features: SceneFeatures) -> None:
        self.scenes, self.features = list(scenes), features
        self.n_columns = features.n_columns
        self.categories = np.zeros(self.n_columns, dtype=np.int32)
        counts = np.array([scene.hierarchy.count for scene in self.scenes], dtype=np.int64).reshape(
            -1, self.n_levels
        )
        self._starts = np.concatenate(
            [np.zeros((1, self.n_levels), dtype=np.int64), np.cumsum(counts, axis=0)]
        )
        self.offsets = np.ascontiguousarray(self._starts[:, 0])
        self._regions: dict[int, Regions] = {}
        self._beside: dict[int, csr_array] = {}
        self._parents: dict[int, NDArray[np.intp]] = {}
        self._windows: dict[int, tuple[NDArray[np.intp], Array]] = {}

    def ragged(self, values: NDArray[Any]) -> AtomValues:
        """Values of all atoms, which know their pixels."""
        return AtomValues(values, self.offsets, [scene.hierarchy.atom for scene in self.scenes])

    @cached_property
    def sizes(self) -> Array:
        """(E,) pixels of each atom."""
        return np.concatenate([np.empty(0), *(scene.hierarchy.pixels for scene in self.scenes)])

    def regions(self, level: int) -> Regions:
        """The regions of a level."""
        if level not in self._regions:
            if len(self.scenes) == 1 and level in range(self.n_levels):
                self._regions[level] = self.scenes[0].hierarchy.regions(level)
            elif level in range(self.n_levels):
                labels = [
                    s.hierarchy.region[level] + at
                    for s, at in zip(self.scenes, self._starts[:, level], strict=False)
                ]
                label = np.concatenate([np.empty(0, dtype=np.intp), *labels]).astype(np.intp)
                self._regions[level] = Regions(label, self.sizes, int(self._starts[-1, level]))
            else:
                self._regions[level] = super().regions(level)
        return self._regions[level]

    def take(self, rows: NDArray[np.intp]) -> Scenes:
        """Pictures ``rows``, in that order; they share what has been computed."""
        if np.array_equal(rows, np.arange(len(self))):
            return self
        return Scenes([self.scenes[i] for i in rows], self.features)

    def read(self, level: int, columns: NDArray[np.int32], which: NDArray[np.intp] | None = None) -> Array:
        """(m, len(columns)) features of regions ``which`` of a level, increasing; None: all."""
        starts = self._starts[:, level]
        if which is None:
            parts = [scene.read(level, columns, None) for scene in self.scenes]
        else:
            ends = np.searchsorted(which, starts)
            parts = [
                scene.read(level, columns, which[a:b] - start)
                for scene, start, a, b in zip(self.scenes, starts, ends, ends[1:], strict=False)
                if b > a
            ]
        return np.concatenate([np.empty((0, len(columns))), *parts])

    def forget(self) -> None:
        """Give back the memory of features."""
        for scene in self.scenes:
            scene.forget()

    def context_categories(self, n_classes: int) -> NDArray[np.int32]:
        """(q,) zeros: all columns of the context hold numbers."""
        return np.zeros(7 * n_classes, dtype=np.int32)

    def context(self, level: int, probabilities: Array) -> Array:
        """(R, 7 K) mean current predictions of the region, around it, in its parent, and in windows on its four sides.

        Around: of the regions that it touches, by shared border. Windows: above, below, left and right of the box around the
        region, an eighth of the picture's width or a sixth of its height deep; where the picture ends, the region itself.
        """
        own = self.regions(level).mean(probabilities)
        last = level + 1 == self.n_levels
        above = self.regions(-1 if last else level + 1).mean(probabilities)
        self._look()
        around = self._around(level) @ own
        self._look()
        sides = self._sides(level, probabilities, own)
        self._look()
        return np.hstack([own, around, above[self._parent(level)], *sides])

    def _look(self) -> None:
        """Raise ``PictureInterrupted`` where work is to end: on large pictures each part of the context takes milliseconds."""
        for scene in self.scenes:
            scene.look()

    @cached_property
    def _cells(self) -> csr_array:
        """(n * rows * columns, E) sparse: pixels of atoms in the cells of a grid over each picture."""
        blocks = [scene.hierarchy.cells(_ROWS, _COLUMNS, scene._allowance) for scene in self.scenes]
        return csr_array(block_diag(blocks, format="csr")) if blocks else csr_array((0, 0))

    def _sums(self, values: Array) -> Array:
        """(n * (rows + 1) * (columns + 1), K) sums of (E, K) values over cells above and left of each corner of the grid."""
        out = np.zeros((len(self), _ROWS + 1, _COLUMNS + 1, values.shape[1]))
        inner = out[:, 1:, 1:]
        inner[:] = (self._cells @ values).reshape(-1, _ROWS, _COLUMNS, values.shape[1])
        np.cumsum(inner, axis=1, out=inner)
        np.cumsum(inner, axis=2, out=inner)
        return out.reshape(-1, values.shape[1])

    def _sides(self, level: int, probabilities: Array, own: Array) -> list[Array]:
        """(R, K) means over the windows on the four sides of each region."""
        if level not in self._windows:
            corners = self._corners(level)
            pixels = _in_windows(self._sums(np.ones((self.n_elements, 1))), corners)
            self._windows[level] = corners, pixels
        corners, pixels = self._windows[level]
        sums = _in_windows(self._sums(probabilities), corners)
        return list(np.where(pixels > 0, sums / np.maximum(pixels, 1.0), own))

    def _corners(self, level: int) -> NDArray[np.intp]:
        """(4, 4, R) corners of the grid: bottom right, top right, bottom left and top left of each window."""
        parts = [np.empty((4, 4, 0), dtype=np.intp)]
        for i, scene in enumerate(self.scenes):
            height, width = scene.hierarchy.atom.shape
            low, high = scene.hierarchy.boxes(level)
            left, right = low[0] * _COLUMNS // width, -(-(high[0] + 1) * _COLUMNS // width)
            top, bottom = low[1] * _ROWS // height, -(-(high[1] + 1) * _ROWS // height)
            windows = (
                (left, right, np.maximum(top - _DEPTH, 0), top),
                (left, right, bottom, np.minimum(bottom + _DEPTH, _ROWS)),
                (np.maximum(left - _DEPTH, 0), left, top, bottom),
                (right, np.minimum(right + _DEPTH, _COLUMNS), top, bottom),
            )
            first = i * (_ROWS + 1) * (_COLUMNS + 1)
            places = [
                [first + y * (_COLUMNS + 1) + x for x, y in ((x1, y1), (x1, y0), (x0, y1), (x0, y0))]
                for x0, x1, y0, y1 in windows
            ]
            parts.append(np.array(places).astype(np.intp))
        return np.concatenate(parts, axis=2)

    def _around(self, level: int) -> csr_array:
        if level not in self._beside:
            blocks = [scene.hierarchy.beside(level) for scene in self.scenes] or [csr_array((0, 0))]
            beside = blocks[0] if len(blocks) == 1 else csr_array(block_diag(blocks, format="csr"))
            total = np.asarray(beside.sum(axis=1)).reshape(-1)
            share = np.repeat(np.where(total > 0, total, 1.0), np.diff(beside.indptr))
            self._beside[level] = csr_array(
                (beside.data / share, beside.indices, beside.indptr), shape=beside.shape
            )
        return self._beside[level]

    def _parent(self, level: int) -> NDArray[np.intp]:
        if level not in self._parents:
            last = level + 1 == self.n_levels
            starts = np.arange(len(self)) if last else self._starts[:, level + 1]
            parts = [s.hierarchy.parent(level) + at for s, at in zip(self.scenes, starts, strict=False)]
            self._parents[level] = np.concatenate([np.empty(0, dtype=np.intp), *parts]).astype(np.intp)
        return self._parents[level]


def _in_windows(sums: Array, corners: NDArray[np.intp]) -> Array:
    """(4, R, K) sums over windows, given those up to each corner of the grid."""
    bottom_right, top_right, bottom_left, top_left = (sums[corners[:, k]] for k in range(4))
    return (bottom_right - top_right) - (bottom_left - top_left)
