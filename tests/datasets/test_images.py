from __future__ import annotations

import time

import numpy as np
import pytest

from anytime.datasets import describe, extract, image_extractors, load, load_digit_images
from anytime.datasets.images import STORED_MS

LENGTHS = {
    "ink": 9,
    "pixels": 64,
    "edges": 128,
    "upright": 64,
    "upright edges": 128,
    "holes": 10,
    "waves": 192,
    "swept edges": 224,
}


@pytest.fixture(scope="module")
def digits():
    return load_digit_images()


def test_split_covers_every_image_once(digits):
    rows = np.concatenate([digits.train, digits.valid, digits.test])
    assert sorted(rows) == list(range(1797))
    assert [len(part) for part in (digits.train, digits.valid, digits.test)] == [1197, 200, 400]
    assert set(digits.y[digits.test]) == set(range(10))


def test_images_are_the_same_every_time_and_others_with_another_seed(digits):
    assert (load_digit_images().images == digits.images).all()
    assert not (load_digit_images(random_state=1).images == digits.images).all()


@pytest.mark.parametrize("name", LENGTHS)
def test_extractor_returns_a_finite_vector_of_fixed_length_for_any_image(name, digits):
    rng = np.random.default_rng(0)
    odd = [np.zeros((32, 32)), np.ones((32, 32)), rng.random((32, 32)), np.eye(32), np.tri(32)]
    single = np.zeros((32, 32))
    single[3, 28] = 1
    for image in [*odd, single, *digits.images[:5]]:
        before = image.copy()
        vector = image_extractors()[name](image)
        assert vector.shape == (LENGTHS[name],)
        assert vector.dtype == np.float64
        assert np.isfinite(vector).all()
        assert (image == before).all()
        assert (vector == image_extractors()[name](image)).all()


def test_extract_stacks_the_extractors_in_order(digits):
    X, groups = extract(digits.images[:3])
    assert X.shape == (3, sum(LENGTHS.values()))
    assert {name: len(columns) for name, columns in groups.items()} == LENGTHS
    for name, function in image_extractors().items():
        assert (X[1, groups[name]] == function(digits.images[1])).all()


def test_extract_takes_extractors_of_the_user(digits):
    X, groups = extract(digits.images[:2], {"mean": lambda image: np.array([image.mean()])})
    assert X.shape == (2, 1)
    assert groups == {"mean": [0]}


def test_a_ring_has_one_hole_and_a_bar_none():
    y, x = np.mgrid[:32, :32] - 15.5
    ring = ((np.hypot(y, x) > 6) & (np.hypot(y, x) < 11)).astype(float)
    bar = (np.abs(x) < 3).astype(float)
    holes = image_extractors()["holes"]
    assert holes(ring)[0] == 1
    assert holes(ring)[3:5] == pytest.approx([15.5, 15.5], abs=0.1)  # where it is
    assert holes(bar)[2] == 0


def test_upright_undoes_a_shift(digits):
    """What a shift changes a lot in the pixels, it changes little once the digit is set upright."""
    functions = image_extractors()
    image = np.pad(digits.images[0][4:28, 4:28], 4)
    moved = np.roll(image, (2, -3), axis=(0, 1))
    change = {
        name: np.linalg.norm(functions[name](moved) - functions[name](image))
        for name in ("pixels", "upright")
    }
    assert change["upright"] < change["pixels"] / 3


@pytest.mark.realtime
def test_prices_differ_by_orders_of_magnitude(digits):
    def fastest(function):
        times = []
        for image in digits.images[:30]:
            start = time.perf_counter()
            function(image)
            times.append(time.perf_counter() - start)
        return min(times)

    functions = image_extractors()
    assert fastest(functions["swept edges"]) > 30 * fastest(functions["ink"])
    assert list(STORED_MS.values()) == sorted(STORED_MS.values())
    assert STORED_MS["swept edges"] / STORED_MS["ink"] > 100


@pytest.mark.slow
def test_quality_rises_with_price():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    data = load("digit_images")
    about = describe("digit_images")
    assert data.X.shape == (about.rows, about.columns)
    assert data.costs.prices == STORED_MS

    def accuracy(*groups):
        columns = [j for group in groups for j in data.costs.groups[group]]
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.05)
        model.fit(data.X[np.ix_(data.train, columns)], data.y[data.train])
        return model.score(data.X[np.ix_(data.test, columns)], data.y[data.test])

    found = [accuracy(group) for group in ("ink", "pixels", "upright", "upright edges")]
    assert found == sorted(found)
    assert found[0] < 0.65
    assert found[1] < 0.9
    assert accuracy(*data.costs.names) > 0.97
    data.X[:] = 0  # a copy: what is kept for the next call stays
    assert load("digit_images").X.any()
