"""Data for proofs and benchmarks: public sets from a folder, look-alikes of private ones, and tables made for a purpose."""

from anytime_research.datasets.discrete import make_four_quarters, merge_duplicates, quantise
from anytime_research.datasets.enlarged import enlarge, make_miniboone, weight_prices
from anytime_research.datasets.files import (
    NASBENCH201_OPERATIONS,
    Text,
    load_nasbench201,
    load_ptb,
    load_yahoo_costs,
)
from anytime_research.datasets.lookalikes import (
    RankingChunk,
    make_agricultural,
    make_grouped_synthetic,
    make_ranking,
    random_groups,
    ranking_chunks,
    write_ranking,
)
from anytime_research.datasets.patches import Haar, haar_features, make_patches, random_haar
from anytime_research.datasets.planes import make_ambiguous_centre, make_misleading_feature
from anytime_research.datasets.registry import describe, load, names
from anytime_research.datasets.sources import DataFormatError, DataNotFoundError

__all__ = [
    "NASBENCH201_OPERATIONS",
    "DataFormatError",
    "DataNotFoundError",
    "Haar",
    "RankingChunk",
    "Text",
    "describe",
    "enlarge",
    "haar_features",
    "load",
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
