"""Data with prices: bundled sets, seeded generators, images with measured extractors, and tests with real prices.

``load`` loads any table; ``names`` and ``describe`` list what exists. ``load_images`` reads MNIST, Fashion-MNIST and CIFAR-10
from a folder of yours.

>>> X, y, costs = load("breast_cancer")
>>> costs
FeatureCosts(11 groups, 30 columns, total 100 units)
"""

from anytime.datasets.dataset import About, Dataset
from anytime.datasets.generators import PricedDataset, make_priced_classification, make_priced_regression
from anytime.datasets.image_files import load_images
from anytime.datasets.images import DigitImages, extract, image_extractors, load_digit_images
from anytime.datasets.registry import describe, load, names
from anytime.datasets.sources import DataFormatError, DataNotFoundError

__all__ = [
    "About",
    "DataFormatError",
    "DataNotFoundError",
    "Dataset",
    "DigitImages",
    "PricedDataset",
    "describe",
    "extract",
    "image_extractors",
    "load",
    "load_digit_images",
    "load_images",
    "make_priced_classification",
    "make_priced_regression",
    "names",
]
