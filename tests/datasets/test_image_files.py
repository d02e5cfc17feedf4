"""MNIST, Fashion-MNIST and CIFAR-10 from a folder: official parts, and a plain error for each way in which files can be wrong."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import sys

import numpy as np
import pytest

from anytime.datasets import DataFormatError, DataNotFoundError, load_images
from anytime.datasets.image_files import _SETS


def idx(array: np.ndarray) -> bytes:
    shape = struct.pack(f">{array.ndim}i", *array.shape)
    return b"\0\0\x08" + bytes([array.ndim]) + shape + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three images in place of tens of thousands; a sheet of CIFAR-10 cannot be smaller than it is."""
    for name in ("mnist", "fashion-mnist"):
        monkeypatch.setitem(_SETS[name].rows, "train", 3)
    monkeypatch.setenv("ANYTIME_DATA", str(tmp_path))
    for name in ("mnist", "fashion-mnist", "cifar10"):
        (tmp_path / name).mkdir()
    return tmp_path


def write(path, contents):
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(contents))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "Fashion_MNIST"])
def test_bytes_of_mnist_become_images_with_one_channel(folder, name):
    pixels = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 251
    at = folder / name.lower().replace("_", "-")
    write(at / "train-images-idx3-ubyte", idx(pixels))
    write(at / "train-labels-idx1-ubyte", idx(np.array([7, 0, 9])))
    images, labels = load_images(name)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    assert images.flags.writeable
    np.testing.assert_array_equal(images[:, 0], pixels)
    np.testing.assert_array_equal(labels, [7, 0, 9])


def test_a_sheet_of_images_is_cut_row_by_row_with_channels_first(folder):
    image = pytest.importorskip("PIL.Image", reason="Pillow reads WebP")
    sheet = np.random.default_rng(0).integers(0, 256, (3200, 3200, 3), dtype=np.uint8)
    image.fromarray(sheet).save(folder / "cifar10/test_batch.webp", lossless=True, quality=0, method=0)
    (folder / "cifar10/test_batch.labels.u8").write_bytes(bytes(i % 10 for i in range(10_000)))
    images, labels = load_images("cifar10", "test")
    assert images.shape == (10_000, 3, 32, 32)
    np.testing.assert_array_equal(images[0].transpose(1, 2, 0), sheet[:32, :32])
    np.testing.assert_array_equal(images[1].transpose(1, 2, 0), sheet[:32, 32:64])  # across first, then down
    np.testing.assert_array_equal(images[100].transpose(1, 2, 0), sheet[32:64, :32])
    assert labels[13] == 3


def test_a_sheet_without_pillow_names_it(folder, monkeypatch):
    (folder / "cifar10/test_batch.webp").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        ImportError, match=r"test_batch.webp is a WebP image, which needs Pillow: pip install pillow"
    ):
        load_images("cifar10", "test")


def test_a_damaged_sheet_is_named(folder):
    pytest.importorskip("PIL.Image", reason="Pillow reads WebP")
    (folder / "cifar10/test_batch.webp").write_bytes(b"anything")
    with pytest.raises(DataFormatError, match=r"test_batch.webp does not have the expected contents"):
        load_images("cifar10", "test")


def test_wrong_names_and_absent_files_are_named(folder, monkeypatch):
    with pytest.raises(ValueError, match="no image set is called 'cifar100'; use one of 'mnist'"):
        load_images("cifar100")
    with pytest.raises(ValueError, match="part must be 'train' or 'test', not 'valid'"):
        load_images("mnist", "valid")
    with pytest.raises(DataNotFoundError, match=r"'mnist' needs mnist/train-images-idx3-ubyte\.gz or"):
        load_images("mnist")
    with pytest.raises(DataNotFoundError, match="folder= names"):
        load_images("mnist", folder=folder / "nowhere")
    monkeypatch.delenv("ANYTIME_DATA")
    with pytest.raises(DataNotFoundError, match="set the environment variable ANYTIME_DATA"):
        load_images("mnist")


def test_counts_and_labels_that_cannot_be_are_refused(folder):
    write(folder / "mnist/train-images-idx3-ubyte", idx(np.zeros((3, 28, 28))))
    write(folder / "mnist/train-labels-idx1-ubyte", idx(np.zeros(2)))
    with pytest.raises(DataFormatError, match=r"\(3, 1, 28, 28\) with 2 labels, instead of 3 of each"):
        load_images("mnist")
    write(folder / "mnist/train-labels-idx1-ubyte", idx(np.array([1, 2, 10])))
    with pytest.raises(DataFormatError, match="the label 10, instead of 0 to 9"):
        load_images("mnist")


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("ANYTIME_DATA"), reason="ANYTIME_DATA names no folder")
def test_the_real_files_hold_the_official_pixels():
    """The sum of all bytes of the official test batch in rows, columns, channels, as the folder's own list has it."""
    pytest.importorskip("PIL.Image", reason="Pillow reads WebP")
    images, labels = load_images("cifar10", "test")
    official = hashlib.sha256(np.ascontiguousarray(images.transpose(0, 2, 3, 1)).tobytes()).hexdigest()
    with open(os.path.join(os.environ["ANYTIME_DATA"], "cifar10/RAW_SHA256"), encoding="utf-8") as file:
        assert official in file.read()
    assert np.bincount(labels).tolist() == [1000] * 10
    for name in ("mnist", "fashion-mnist"):
        assert [len(load_images(name, part)[0]) for part in ("train", "test")] == [60_000, 10_000]
