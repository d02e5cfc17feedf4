"""What a picture looks like around every second pixel of every second row, and soft codes of that, centre by centre.

A *descriptor* is a vector per grid point: colour, responses of a filter bank, frequencies of binary patterns, or directions of
edges in sixteen cells around the point (as in SIFT), of lightness, in a window of 16 or of 32 pixels, or of the two colour
channels. It is computed for a whole picture. The filter bank is applied to an evened picture, whose lightness has the same mean
and spread as that of others, and whose mean colour is grey: a street at dusk then looks more like one at noon. Its *codes* are
soft memberships in the cells of a dictionary: with squared distances ``d_i`` to the centres the code of centre ``i`` is
``max(0, mean_j d_j - d_i)`` (Grubb, *Anytime Prediction*, 2014, 7.14). The square of the descriptor cancels, so that it is one
inner product, whatever other codes are computed: a code is bought by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from anytime import _native
from anytime.structured.segmentation import Allowance, finished

__all__ = ["DESCRIPTORS", "GRID_STEP", "LENGTHS", "AtomGrid", "DescriptorPlanes", "SoftCodes", "evened"]

Floats = NDArray[np.float32]

GRID_STEP = 2
_FREELY = Allowance()
_MARGIN = 4  # grid points around the planes of edges
_SPREAD, _LEAST_SPREAD = (
    0.25,
    0.03,
)  # of the lightness of an evened picture, and what is added to that of the picture
_FLOOR = 0.5  # added to the length of a descriptor of edges, so that noise stays short


@dataclass(frozen=True, eq=False)
class AtomGrid:
    """Which grid points lie in which atom.

    Attributes
    ----------
    start : (A + 1,) int64
    points : (m,) int32
        ``points[start[a]:start[a + 1]]`` are those of atom ``a``; one at least.
    """

    start: NDArray[np.int64]
    points: NDArray[np.int32]

    @classmethod
    def of(cls, atom: NDArray[np.int32], n_atoms: int, allowance: Allowance = _FREELY) -> AtomGrid:
        """Read a map of atoms; an atom between the grid points has the point before its first pixel."""
        return cls(*finished(_native.atom_points(atom, n_atoms, **allowance.until)))


@dataclass(frozen=True, eq=False)
class DescriptorPlanes:
    """One descriptor of one picture.

    Attributes
    ----------
    planes : (p, H, W) float32
    shifts : (d,) int64
        Number ``k`` of grid point (y, x) is ``planes.ravel()[y * W + x + shifts[k]]``: neighbours share what they have in common.
    scale : (h, w) float32 or None
        By which the numbers of each point are multiplied.
    shape : (h, w)
        Of the grid.
    """

    planes: Floats
    shifts: NDArray[np.int64]
    scale: Floats | None
    shape: tuple[int, int]

    def at(self, points: NDArray[np.int32]) -> Floats:
        """(m, d) the descriptors of some points."""
        return _native.descriptors_at(self.planes, self.shifts, self.scale, *self.shape, points)

    def code_means(
        self,
        codes: SoftCodes,
        which: NDArray[np.integer[Any]],
        atoms: AtomGrid,
        wanted: NDArray[np.bool_] | None = None,
        allowance: Allowance = _FREELY,
    ) -> Floats:
        """(len(which), A) means over atoms of some codes, 0 where an atom is not ``wanted``."""
        means = np.empty((len(which), atoms.start.size - 1), dtype=np.float32)
        done = _native.code_means(
            self.planes,
            self.shifts,
            self.scale,
            *self.shape,
            np.ascontiguousarray(codes.weights[which]),
            np.ascontiguousarray(codes.bias[which]),
            atoms.start,
            atoms.points,
            wanted,
            means,
            **allowance.until,
            threads=allowance.threads,
        )
        return finished(means if done else None)


@dataclass(frozen=True, eq=False)
class SoftCodes:
    """A dictionary of centres: code ``i`` of descriptor ``v`` is ``max(0, bias_i + <weights_i, v>)``.

    Attributes
    ----------
    weights : (C, d) float32
    bias : (C,) float32
    """

    weights: Floats
    bias: Floats

    @classmethod
    def of(cls, centres: NDArray[np.float64], spread: NDArray[np.float64]) -> SoftCodes:
        """Codes of ``v / spread`` with these centres: what is the same for all descriptors is worked out once."""
        square = (centres**2).sum(axis=1)
        weights = 2.0 * (centres - centres.mean(axis=0)) / spread
        return cls(weights.astype(np.float32), (square.mean() - square).astype(np.float32))

    @classmethod
    def fit(cls, sample: Floats, n_centres: int, seed: int) -> SoftCodes:
        """Centres of a sample, (m, d), by k-means on numbers of equal spread."""
        spread = sample.std(axis=0, dtype=np.float64)
        spread = np.where(spread > 1e-6, spread, 1.0)
        scaled = sample / spread
        distinct = np.unique(scaled[: 20 * n_centres], axis=0)
        if len(distinct) <= n_centres:
            return cls.of(distinct.astype(np.float64), spread)
        means = MiniBatchKMeans(n_centres, batch_size=4096, n_init=1, max_iter=20, random_state=seed).fit(
            scaled
        )
        return cls.of(means.cluster_centers_.astype(np.float64), spread)

    def __len__(self) -> int:
        return self.bias.size


def _plain(planes: Floats) -> DescriptorPlanes:
    shifts = np.arange(len(planes), dtype=np.int64) * planes[0].size
    return DescriptorPlanes(planes, shifts, None, planes.shape[1:])


def evened(lab: Floats, allowance: Allowance = _FREELY) -> Floats:
    """(3, h, w) CIELAB with the same mean and spread of lightness for all pictures, and grey as the mean colour."""
    spread, out = lab[0].std() + _LEAST_SPREAD, np.empty_like(lab, order="C")
    for channel, plane in enumerate(lab):
        allowance.look()
        np.subtract(plane, plane.mean(), out=out[channel])
        allowance.look()
        out[channel] *= np.float32(_SPREAD / spread)
    out[0] += np.float32(0.5)
    return out


def _texture(lab: Floats, allowance: Allowance) -> DescriptorPlanes:
    even = evened(lab, allowance)
    return _plain(finished(_native.texture_planes(even, threads=allowance.threads, **allowance.until)))


def _doubled(planes: Floats, margin: int, allowance: Allowance) -> Floats:
    """Cells of twice the length: sums of four, with ``margin`` more points around."""
    n, height, width = planes.shape
    out = np.empty((n, height + 2 * margin, width + 2 * margin), dtype=planes.dtype)
    for plane, to in zip(planes, out, strict=True):
        allowance.look()
        p = np.pad(plane, (margin, margin + 2), mode="edge")
        np.add(p[:-2, :-2], p[2:, :-2], out=to)
        to += p[:-2, 2:]
        to += p[2:, 2:]
    return out


def _cells(lab: Floats, channels: slice, allowance: Allowance, *, wide: bool = False) -> DescriptorPlanes:
    chosen, until = np.ascontiguousarray(lab[channels]), allowance.until
    planes = finished(_native.edge_planes(chosen, threads=allowance.threads, **until))
    margin, floor = _MARGIN, _FLOOR
    if wide:
        planes = _doubled(planes, margin, allowance)
        margin, floor = 2 * _MARGIN, 2 * _FLOOR
    n, height, width = planes.shape
    places = margin // 2 * np.arange(4)
    shifts = (
        np.add.outer(np.arange(n) * height * width, np.add.outer(places * width, places))
        .ravel()
        .astype(np.int64)
    )
    shape = height - 2 * margin, width - 2 * margin
    scale = finished(_native.inverse_lengths(planes, shifts, *shape, floor, **until))
    return DescriptorPlanes(planes, shifts, scale, shape)


# numbers of each descriptor
LENGTHS = {"colour": 3, "texture": 17, "patterns": 20, "edges": 128, "wide_edges": 128, "colour_edges": 256}
# from (3, h, w) CIELAB
DESCRIPTORS: dict[str, Callable[[Floats, Allowance], DescriptorPlanes]] = {
    "colour": lambda lab, allowance: _plain(finished(_native.thin_planes(lab, **allowance.until))),
    "texture": _texture,
    "patterns": lambda lab, allowance: _plain(
        finished(_native.pattern_planes(np.ascontiguousarray(lab[0]), **allowance.until))
    ),
    "edges": lambda lab, allowance: _cells(lab, slice(0, 1), allowance),
    "wide_edges": lambda lab, allowance: _cells(lab, slice(0, 1), allowance, wide=True),
    "colour_edges": lambda lab, allowance: _cells(lab, slice(1, 3), allowance),
}
