"""Data with prices: bundled sets, seeded generators, images with measured extractors, and tests with real prices.

``load`` is the way to every table of examples; ``names`` and ``describe`` say what there is.

>>> X, y, costs = load("breast_cancer")
>>> costs
FeatureCosts(11 groups, 30 columns, total 100 units)
"""

from anytime.datasets.dataset import About, Dataset
from anytime.datasets.generators import (
    PricedDataset,
    make_priced_classification,
    make_priced_regression,
)
from anytime.datasets.images import DigitImages, extract, image_extractors, load_digit_images
from anytime.datasets.registry import describe, load, names

__all__ = [
    "About",
    "Dataset",
    "DigitImages",
    "PricedDataset",
    "describe",
    "extract",
    "image_extractors",
    "load",
    "load_digit_images",
    "make_priced_classification",
    "make_priced_regression",
    "names",
]
