"""Data with prices: bundled sets, seeded generators, images with measured extractors, and public sets from a folder.

``load`` is the way to every table of examples; ``names`` and ``describe`` say what there is.

>>> X, y, costs = load("breast_cancer")
>>> costs
FeatureCosts(11 groups, 30 columns, total 100 units)
"""

from anytime.datasets.dataset import About, Dataset
from anytime.datasets.discrete import make_four_quarters, merge_duplicates, quantise
from anytime.datasets.enlarged import enlarge, make_miniboone, weight_prices
from anytime.datasets.files import DataFormatError, DataNotFoundError
from anytime.datasets.generators import (
    Optimum,
    PricedDataset,
    make_priced_classification,
    make_priced_regression,
)
from anytime.datasets.images import DigitImages, extract, image_extractors, load_digit_images
from anytime.datasets.lookalikes import (
    RankingChunk,
    make_agricultural,
    make_grouped_synthetic,
    make_ranking,
    random_groups,
    ranking_chunks,
    write_ranking,
)
from anytime.datasets.other import (
    NASBENCH201_OPERATIONS,
    Text,
    load_nasbench201,
    load_ptb,
    load_yahoo_costs,
)
from anytime.datasets.patches import Haar, haar_features, make_patches, random_haar
from anytime.datasets.registry import describe, load, names
from anytime.datasets.routing import make_ambiguous_centre, make_misleading_feature

__all__ = [
    "NASBENCH201_OPERATIONS",
    "About",
    "DataFormatError",
    "DataNotFoundError",
    "Dataset",
    "DigitImages",
    "Haar",
    "Optimum",
    "PricedDataset",
    "RankingChunk",
    "Text",
    "describe",
    "enlarge",
    "extract",
    "haar_features",
    "image_extractors",
    "load",
    "load_digit_images",
    "load_nasbench201",
    "load_ptb",
    "load_yahoo_costs",
    "make_agricultural",
    "make_ambiguous_centre",
    "make_four_quarters",
    "make_grouped_synthetic",
    "make_miniboone",
    "make_misleading_feature",
    "make_patches",
    "make_priced_classification",
    "make_priced_regression",
    "make_ranking",
    "merge_duplicates",
    "names",
    "quantise",
    "random_groups",
    "random_haar",
    "ranking_chunks",
    "weight_prices",
    "write_ranking",
]
