"""Regions, descriptors and soft codes of pictures against loops over pixels (speedboost_and_structured 4.8, 4.9, P22)."""

import threading
import time

import numpy as np
import pytest

from anytime import _native
from anytime.structured.descriptors import _doubled, evened
from anytime.structured.segmentation import Allowance, Hierarchy, PictureInterrupted
from tests.reference import scenes as reference

SCALES = 100.0 * np.array([1, 2, 5, 10, 50, 200, 500])
LEAST = np.array([30, 50, 50, 100, 100, 200, 300])


def picture(height, width, seed=0):
    """Flat patches with noise."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, 256, (-(-height // 5), -(-width // 6), 3))
    flat = np.repeat(np.repeat(patches, 5, axis=0), 6, axis=1)[:height, :width]
    return np.clip(flat + rng.integers(-8, 9, flat.shape), 0, 255).astype(np.uint8)


def grid(planes):
    return planes.shape[1], planes.shape[2], np.arange(len(planes), dtype=np.int64) * planes[0].size


def points_by_atom(n_points, n_atoms, seed=0):
    atom = np.random.default_rng(seed).integers(0, n_atoms, n_points)
    points = np.argsort(atom, kind="stable").astype(np.int32)
    start = np.concatenate([[0], np.cumsum(np.bincount(atom, minlength=n_atoms))]).astype(np.int64)
    return atom, start, points


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (11, 1), (12, 13), (17, 20)])
def test_levels_are_those_of_the_plain_method(shape):
    scales, least = np.array([40.0, 150.0, 2000.0]), np.array([3, 6, 20])
    for seed in range(3):
        rgb = picture(*shape, seed)
        atom, region, count = _native.segment(rgb, 0.0, scales, least)
        expected_atom, expected_region = reference.hierarchy(rgb, scales, least)
        np.testing.assert_array_equal(atom, expected_atom)
        np.testing.assert_array_equal(region, expected_region)
        np.testing.assert_array_equal(count, region.max(axis=1) + 1)


def test_levels_are_nested_and_regions_large_enough():
    atom, region, count = _native.segment(picture(91, 120), 0.25, SCALES, LEAST)
    pixels = np.bincount(atom.ravel())
    assert count[0] == pixels.size > count[-1]
    for level, least in enumerate(LEAST):
        assert np.bincount(region[level], weights=pixels).min() >= least
        if level:  # regions of the level before are within one each
            assert len(set(zip(region[level - 1], region[level], strict=True))) == count[level - 1]


def test_moments_and_borders_of_atoms():
    atom = np.array([[0, 0, 1], [0, 2, 2]], dtype=np.int32)
    moments = _native.atom_moments(atom, 3)
    np.testing.assert_array_equal(moments[0], [3, 1, 1, 1, 1, 0, 0, 1, 0, 1])
    np.testing.assert_array_equal(moments[2], [2, 3, 2, 5, 2, 3, 1, 2, 1, 1])
    first, second, length = _native.atom_borders(atom, 3)
    assert list(zip(first, second, length, strict=True)) == [(0, 1, 1), (0, 2, 2), (1, 2, 1)]


def test_cells_of_a_grid_count_every_second_pixel_of_every_second_row():
    rgb = picture(37, 50)
    hierarchy = Hierarchy(rgb)
    found = hierarchy.cells(5, 7).toarray()
    expected = np.zeros((35, hierarchy.n_atoms))
    for y in range(0, 37, 2):
        for x in range(0, 50, 2):
            expected[y * 5 // 37 * 7 + x * 7 // 50, hierarchy.atom[y, x]] += 1
    np.testing.assert_array_equal(found, expected)


def test_pieces_of_work_that_are_not_native_look_at_the_clock():
    """Between the planes of a descriptor: those of a large picture take milliseconds each."""
    lab = _native.lab_planes(picture(20, 24))
    over = Allowance(deadline=time.monotonic() - 1.0)
    stopped = threading.Event()
    stopped.set()
    for ended in (over, Allowance(stop=stopped)):
        with pytest.raises(PictureInterrupted):
            evened(lab, ended)
        with pytest.raises(PictureInterrupted):
            _doubled(lab, 4, ended)
    in_time = Allowance(deadline=time.monotonic() + 60.0)
    assert evened(lab, in_time).shape == lab.shape
    p = np.pad(lab, ((0, 0), (4, 6), (4, 6)), mode="edge")
    together = p[:, :-2, :-2] + p[:, 2:, :-2] + p[:, :-2, 2:] + p[:, 2:, 2:]
    np.testing.assert_array_equal(_doubled(lab, 4, in_time), together)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (13, 18), (24, 31)])
def test_descriptors_are_those_of_the_plain_method(shape):
    lab = _native.lab_planes(picture(*shape))
    np.testing.assert_allclose(_native.texture_planes(lab), reference.textures(lab), atol=1e-4)
    lightness = np.ascontiguousarray(lab[0])
    np.testing.assert_allclose(_native.pattern_planes(lightness), reference.patterns(lightness), atol=1e-6)
    cells = np.concatenate([reference.edges(plane) for plane in lab])
    np.testing.assert_allclose(_native.edge_planes(lab), cells, atol=2e-5)


def test_grey_has_no_colour_and_white_is_light():
    lab = _native.lab_planes(np.array([[[0, 0, 0], [128, 128, 128], [255, 255, 255]]], dtype=np.uint8))
    np.testing.assert_allclose(lab[0, 0], [0.0, 0.53585, 1.0], atol=1e-3)
    np.testing.assert_allclose(lab[1:], 0.0, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (9, 33), (20, 77)])
def test_means_of_soft_codes(shape):
    """P22: codes of squared distances are one inner product each."""
    rng = np.random.default_rng(1)
    planes = rng.standard_normal((6, *shape)).astype(np.float32)
    centres = rng.standard_normal((7, 6))
    height, width, shifts = grid(planes)
    atom, start, points = points_by_atom(height * width, 4)
    weights = np.ascontiguousarray(2 * (centres - centres.mean(axis=0)), dtype=np.float32)
    bias = ((centres**2).sum(axis=1).mean() - (centres**2).sum(axis=1)).astype(np.float32)
    means = np.empty((7, 4), dtype=np.float32)
    assert _native.code_means(planes, shifts, None, height, width, weights, bias, start, points, None, means)
    codes = reference.soft_codes(planes.reshape(6, -1).T.astype(float), centres)
    expected = [
        [codes[atom == a, c].mean() if (atom == a).any() else 0.0 for a in range(4)] for c in range(7)
    ]
    np.testing.assert_allclose(means, expected, atol=1e-4)


def test_a_code_alone_has_the_same_bits_as_among_others():
    """P22, with one thread or two, narrow vectors or wide, all atoms or some."""
    rng = np.random.default_rng(2)
    planes = rng.standard_normal((2, 98, 108)).astype(np.float32)  # a margin of four around the grid
    height, width = 90, 100
    shifts = np.array(
        [p * 98 * 108 + y * 108 + x for p in range(2) for y in (0, 4) for x in (0, 3, 8)], dtype=np.int64
    )
    scale = _native.inverse_lengths(planes, shifts, height, width, 0.5)
    weights, bias = rng.standard_normal((8, 12)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    _, start, points = points_by_atom(height * width, 50)
    wanted = rng.random(50) < 0.3

    def means(rows, atoms=None, threads=1):
        out = np.empty((len(bias[rows]), 50), dtype=np.float32)
        arguments = (np.ascontiguousarray(weights[rows]), bias[rows], start, points, atoms, out)
        assert _native.code_means(planes, shifts, scale, height, width, *arguments, threads=threads)
        return out

    together = means(slice(None))
    assert (together > 0).any()
    assert (together >= 0).all()
    used = _native.vectors_in_use()
    try:
        for vectors in _native.vectors():
            _native.use_vectors(vectors)
            np.testing.assert_array_equal(means(slice(None), threads=2), together)
            np.testing.assert_array_equal(means([5]), together[[5]])
            np.testing.assert_array_equal(means([1, 4, 6, 7, 2], wanted), together[[1, 4, 6, 7, 2]] * wanted)
    finally:
        _native.use_vectors(used)
    descriptors = _native.descriptors_at(
        planes, shifts, scale, height, width, np.arange(9000, dtype=np.int32)
    )
    lengths = np.linalg.norm(descriptors, axis=1)
    assert lengths.max() < 1.0
    codes = np.maximum(0, bias + descriptors.astype(float) @ weights.T)
    np.testing.assert_allclose(together[:, 0], codes[points[: start[1]]].mean(axis=0), atol=1e-5)


def test_codes_stop_when_they_are_asked_to():
    planes = np.zeros((1, 64, 64), dtype=np.float32)
    height, width, shifts = grid(planes)
    _, start, points = points_by_atom(height * width, 3)
    stop = threading.Event()
    stop.set()
    arguments = (
        np.ones((2, 1), np.float32),
        np.zeros(2, np.float32),
        start,
        points,
        None,
        np.empty((2, 3), np.float32),
    )
    assert not _native.code_means(planes, shifts, None, height, width, *arguments, stop=stop)
    assert not _native.code_means(planes, shifts, None, height, width, *arguments, deadline=0.0)
    assert _native.code_means(planes, shifts, None, height, width, *arguments)


def test_wrong_sizes_are_refused_at_the_door():
    planes = np.zeros((2, 8, 8), dtype=np.float32)
    one = (np.ones((1, 2), np.float32), np.zeros(1, np.float32), np.array([0, 1]), np.array([0], np.int32))
    means = np.empty((1, 1), np.float32)
    with pytest.raises(ValueError, match="beyond the planes"):
        _native.code_means(planes, np.array([0, 65]), None, 8, 8, *one, None, means)
    with pytest.raises(ValueError, match="larger than its planes"):
        _native.code_means(planes, np.array([0, 64]), None, 9, 8, *one, None, means)
    with pytest.raises(ValueError, match="no such grid point"):
        _native.descriptors_at(planes, np.array([0, 64]), None, 8, 8, np.array([64], np.int32))
    with pytest.raises(ValueError, match="no such atom"):
        _native.atom_moments(np.array([[0, 3]], dtype=np.int32), 2)
    with pytest.raises(ValueError, match="at least one pixel"):
        _native.segment(np.zeros((0, 4, 3), np.uint8), 0.25, SCALES, LEAST)
