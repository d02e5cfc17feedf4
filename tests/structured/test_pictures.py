"""Pictures and label maps as users have them: a result or one clear sentence."""

import numpy as np
import pytest

from anytime.structured import SceneSession
from anytime.structured.pictures import MOST_PIXELS, read_label_maps, read_picture, read_pictures
from tests.structured.streets import parser, streets


@pytest.fixture(scope="module")
def model():
    return parser(max_stages=4).fit(*streets(6))


RGB = np.random.default_rng(0).integers(0, 256, (12, 17, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    "picture",
    [
        RGB.astype(np.int64),
        RGB / 255.0,
        (RGB / 255.0).astype(np.float32),
        np.dstack([RGB, np.full((12, 17), 7, np.uint8)]),
        RGB.tolist(),
        np.asfortranarray(RGB),
        np.repeat(RGB, 2, axis=1)[:, ::2],
    ],
)
def test_all_modes_of_a_picture_are_the_same_bytes(picture):
    read = read_picture(picture)
    np.testing.assert_array_equal(read, RGB)
    assert read.flags.c_contiguous
    assert read.dtype == np.uint8


def test_grey_black_and_white_are_three_equal_channels():
    grey = RGB[:, :, 0]
    for picture in (grey, grey[:, :, None]):
        np.testing.assert_array_equal(read_picture(picture), np.dstack([grey] * 3))
    np.testing.assert_array_equal(read_picture(grey > 99), np.dstack([np.where(grey > 99, 255, 0)] * 3))


def test_a_picture_that_is_overwritten_meanwhile_is_not_ours():
    """A camera's buffer: the picture of a session stays as it was when it was given."""
    buffer = RGB.copy()
    read = read_picture(buffer)
    buffer[:] = 0
    np.testing.assert_array_equal(read, RGB)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (RGB, "give a list of pictures"),
        (RGB[:, :, 0], "give a list of pictures"),
        (object(), "X is of type object: give a list of pictures"),
        ([RGB, RGB[:, :, :2]], "picture 1 has shape .*12, 17, 2.* 1, 3 or 4 channels"),
        ([RGB, RGB[:0]], "picture 1 has no pixels"),
        ([RGB.astype(np.uint16) * 257], "picture 0 holds uint16 numbers that are not bytes"),
        ([RGB.astype(np.int16) - 1], "picture 0 holds int16 numbers that are not bytes"),
        ([RGB * 1.0], "floats that are not between 0 and 1"),
        ([RGB * 1j], "holds complex128 numbers"),
        (["street.jpg"], "picture 0 has shape"),
        (
            [np.broadcast_to(np.uint8(0), (10_000, 10_000))],
            f"10000 x 10000 pixels; the most are {MOST_PIXELS}",
        ),
    ],
)
def test_what_is_no_list_of_pictures_is_refused_in_one_sentence(model, pictures, message):
    with pytest.raises(ValueError, match=message):
        read_pictures(pictures)
    for bounds in ({}, {"deadline": 1.0}, {"budget": 5.0}):
        with pytest.raises(ValueError, match=message):
            model.predict(pictures, **bounds)


def test_pictures_of_any_size_get_labels_under_any_bound(model):
    for shape in ((1, 1), (1, 40), (33, 1), (2, 2)):
        picture = np.full((*shape, 3), 90, dtype=np.uint8)
        for bounds in ({}, {"deadline": 5.0}, {"deadline": 0.0}, {"budget": 0.0}):
            assert model.predict([picture], **bounds)[0].shape == shape
        assert SceneSession(model).predict(picture).prediction[0].shape == shape
    for bounds in ({}, {"deadline": 1.0}, {"budget": 1.0}):
        assert model.predict([], **bounds) == []


def test_a_bad_picture_leaves_a_session_with_the_one_before(model):
    session = SceneSession(model)
    answer = session.predict(RGB)
    with pytest.raises(ValueError, match="has shape"):
        session.start(RGB[:, :, :2])
    assert session.read() is answer


def test_label_maps_of_a_score_fit_the_pictures_and_the_classes(model):
    pictures, labels = streets(2, first=30)
    for maps, message in (
        (labels[:1], "X has 2 pictures but y has 1 label maps"),
        ([labels[0], labels[1].T], "picture 1 has 42 x 53 pixels, but its label map has shape .53, 42."),
        ([labels[0], labels[1] + 4], "none of the 3 classes; ignore_label says"),
        ([labels[0], labels[1] * 1.0], "whole numbers or strings"),
        ([np.full((42, 53), 9)] * 2, "no pixel has a label: there is nothing to score"),
    ):
        with pytest.raises(ValueError, match=message):
            model.score(pictures, maps)
    none = [labels[0], np.full((42, 53), 9)]
    assert model.score(pictures, none) == pytest.approx(model.score(pictures[:1], labels[:1]))


def test_training_needs_pictures_labels_and_one_kind_of_them():
    _, labels = streets(2)
    with pytest.raises(ValueError, match="no pixel has a label"):
        parser().fit([], [])
    with pytest.raises(ValueError, match="some label maps hold numbers and some strings"):
        read_label_maps([labels[0], labels[1].astype(str)], [(42, 53)] * 2, None)
    named = read_label_maps([np.array([["sky", "road", "?"]])], [(1, 3)], "?")
    assert (named.classes.tolist(), named.codes[0].tolist()) == (["road", "sky"], [[1, 0, -1]])


def test_a_picture_whose_pixels_have_no_label_does_no_harm():
    pictures, labels = streets(6)
    labels[2] = np.full_like(labels[2], 9)
    model = parser(max_stages=4).fit(pictures, labels)
    assert model.predict(pictures[2:3])[0].shape == (42, 53)
    assert model.score(pictures[:2], labels[:2]) > 0.6
