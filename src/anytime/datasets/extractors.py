"""Eight descriptors of one 32 x 32 image, from a few microseconds to more than a millisecond.

Each is a real computation with its own time, so prices can be measured instead of invented. The cheap ones look at the
image as it is; the better ones first set the digit upright, which is what costs. One, ``holes``, is expensive for what it
tells: a learner that minds prices should leave it for last.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage

Image = NDArray[np.float64]
Vector = NDArray[np.float64]

SIDE = 32
_MIDDLE = np.full(2, (SIDE - 1) / 2)
_ROW, _COLUMN = np.divmod(np.arange(SIDE * SIDE), SIDE)
_Y, _X = np.meshgrid(np.arange(SIDE) - _MIDDLE[0], np.arange(SIDE) - _MIDDLE[1], indexing="ij")


# ---------------------------------------------------------------------- as it is


def _mean_of_thirds() -> Vector:
    third = np.minimum(_ROW * 3 // SIDE, 2) * 3 + np.minimum(_COLUMN * 3 // SIDE, 2)
    member = third[:, None] == np.arange(9)
    return np.asarray(member / member.sum(axis=0))


_THIRDS = _mean_of_thirds()


def ink(image: Image) -> Vector:
    """(9,) mean brightness in a grid of 3 x 3."""
    return image.ravel() @ _THIRDS


def pixels(image: Image) -> Vector:
    """(64,) the image at a quarter of its resolution."""
    return np.asarray(image.reshape(8, 4, 8, 4).mean(axis=(1, 3)).ravel())


def edges(image: Image) -> Vector:
    """(128,) histograms of eight edge directions in 4 x 4 cells."""
    return _normalised(_edge_histograms(image, cells=4)).ravel()


def holes(image: Image) -> Vector:
    """(10,) topology and thickness: strokes, holes with their sizes and places, distances to the background."""
    filled = np.pad(ndimage.gaussian_filter(image, 1.0) > 0.35, 1)
    background, regions = ndimage.label(~filled)
    sizes = np.bincount(background.ravel(), minlength=4).astype(np.float64)
    sizes[:2] = 0  # 0 is ink, and 1, which holds the corner, the outside
    out = [regions - 1.0, float(ndimage.label(filled)[1])]
    for hole in np.argsort(-sizes, kind="stable")[:2]:
        place = np.argwhere(background == hole).mean(axis=0) - 1 if sizes[hole] else np.zeros(2)
        out += [sizes[hole], *place]
    depth = ndimage.distance_transform_edt(filled)
    return np.array([*out, depth.max(), depth.sum() / max(filled.sum(), 1)])


# ---------------------------------------------------------------------- set upright


def upright(image: Image) -> Vector:
    """(64,) pixels after moving, scaling and shearing the digit to the middle."""
    return pixels(_upright(image))


def upright_edges(image: Image) -> Vector:
    """(128,) edge directions of the upright digit."""
    return edges(_upright(image))


def waves(image: Image) -> Vector:
    """(192,) strength of waves of two lengths and six directions (Gabor filters) in 4 x 4 cells of the upright digit."""
    filtered = fft.irfft2(fft.rfft2(_upright(image)) * _GABOR, s=(SIDE, SIDE))
    strength = np.hypot(filtered[0::2], filtered[1::2])
    return np.asarray(strength.reshape(12, 4, 8, 4, 8).mean(axis=(2, 4)).ravel())


def swept_edges(image: Image) -> Vector:
    """(224,) edge directions averaged over ten slight turns and scalings of the upright digit, in overlapping cells."""
    straight = _upright(image)
    total = np.zeros((7, 7, 8))
    for matrix in _SWEEP:
        h = _edge_histograms(_warp(straight, matrix, _MIDDLE), cells=8)
        joined = h[:-1, :-1] + h[1:, :-1] + h[:-1, 1:] + h[1:, 1:]
        total += _normalised(joined)
    return total[:, ::2].ravel() / len(_SWEEP)


# From cheap to expensive.
ORDER = (ink, pixels, edges, upright, upright_edges, holes, waves, swept_edges)


# ---------------------------------------------------------------------- parts


def _upright(image: Image) -> Image:
    """The digit moved to its centre of mass, scaled to a common spread, and sheared until it stands."""
    smooth = ndimage.gaussian_filter(image, 1.0)
    mass = np.maximum(smooth - 0.2, 0.0)
    total = mass.sum()
    if total < 1e-6:
        return smooth
    centre = np.array([(_Y * mass).sum(), (_X * mass).sum()]) / total
    dy, dx = _Y - centre[0], _X - centre[1]
    vyy, vxy, vxx = ((mass * a * b).sum() / total for a, b in ((dy, dy), (dy, dx), (dx, dx)))
    shear = vxy / max(vyy, 1e-6)
    tall = np.sqrt(max(vyy, 1.0)) / 6.5  # 6.5 and 4.65 pixels: the spread of a digit that fills the image
    wide = max(np.sqrt(max(vxx - shear * vxy, 0.0)) / 4.65, tall / 2)
    return _warp(smooth, np.array([[tall, 0.0], [shear * tall, wide]]), _MIDDLE + centre)


def _warp(image: Image, matrix: NDArray[np.float64], centre: NDArray[np.float64]) -> Image:
    """The image seen from ``centre`` through ``matrix``."""
    offset = centre - matrix @ _MIDDLE
    return np.asarray(ndimage.affine_transform(image, matrix, offset, order=1))


def _edge_histograms(image: Image, cells: int, directions: int = 8) -> NDArray[np.float64]:
    """(cells, cells, directions) gradient strength by direction, each shared between the two nearest directions."""
    gy, gx = np.gradient(image)
    strength = np.hypot(gx, gy).ravel()
    angle = (np.arctan2(gy, gx).ravel() + np.pi) * (directions / (2 * np.pi))
    lower = np.floor(angle).astype(np.intp)
    share = angle - lower
    size = SIDE // cells
    bin_of_cell = (_ROW // size * cells + _COLUMN // size) * directions
    bins = cells * cells * directions
    below = np.bincount(bin_of_cell + lower % directions, strength * (1 - share), bins)
    above = np.bincount(bin_of_cell + (lower + 1) % directions, strength * share, bins)
    return np.asarray(below + above, dtype=np.float64).reshape(cells, cells, directions)


def _normalised(histograms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(histograms / (np.linalg.norm(histograms, axis=-1, keepdims=True) + 0.3))


def _gabor_bank() -> NDArray[np.complex128]:
    """(24, 32, 17) transforms of cosine and sine waves under a Gaussian, each of mean 0."""
    y, x = np.meshgrid(fft.fftfreq(SIDE) * SIDE, fft.fftfreq(SIDE) * SIDE, indexing="ij")
    bank = []
    for length in (6.0, 10.0):
        window = np.exp(-(x**2 + y**2) / (2 * (0.4 * length) ** 2))
        for turn in np.arange(6) * (np.pi / 6):
            phase = 2 * np.pi * (x * np.cos(turn) + y * np.sin(turn)) / length
            for wave in (np.cos(phase), np.sin(phase)):
                kernel = window * (wave - (window * wave).sum() / window.sum())
                bank.append(fft.rfft2(kernel / np.abs(kernel).sum()))
    return np.stack(bank)


def _small_turns() -> list[NDArray[np.float64]]:
    turns = np.deg2rad([-12.0, -6.0, 0.0, 6.0, 12.0])
    rotations = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in turns]
    return [scale * rotation for rotation in rotations for scale in (0.92, 1.08)]


_GABOR = _gabor_bank()
_SWEEP = _small_turns()
