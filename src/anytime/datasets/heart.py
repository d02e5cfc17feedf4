"""Heart disease in Cleveland: medical tests with Turney's prices (*Cost-sensitive classification*, JAIR 2, 1995)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset, Listing
from anytime.discounts import DiscountedPrice, prices_with_steps, read_discount_table

_FOLDER = Path(__file__).parent / "heart_files"
_STEPS = {"A": "blood draw", "B": "procedure B", "C": "procedure C"}
_GRADES = ("healthy", "grade 1", "grade 2", "grade 3", "grade 4")


def discounts_as_steps(
    tests: Sequence[DiscountedPrice],  # in the order of the columns
    steps: Mapping[str, str],  # from each discount group to the name of its shared step
    # results that are computed from other tests, and from which
    computed: Mapping[str, Sequence[str]] | None = None,
) -> FeatureCosts:
    """Prices of ``tests``, column by column, with one column-less step for each discount group."""
    prices, requires = prices_with_steps(tests, steps)
    groups: dict[str, list[int]] = {name: [] for name in prices}
    groups |= {test.name: [j] for j, test in enumerate(tests)}
    for name, needed in (computed or {}).items():
        requires[name] = [*needed, *requires.get(name, [])]
    return FeatureCosts(prices, groups=groups, requires=requires, unit="CAD")


def _read_heart(*, grades: bool = False) -> Dataset:
    """Ill or not, or with ``grades`` the five grades of the file."""
    import pandas as pd

    table = pd.read_csv(_FOLDER / "processed.cleveland.data.gz", header=None, na_values="?").to_numpy(
        np.float64
    )
    prices = pd.read_csv(_FOLDER / "costs.csv", dtype={"group": str}, keep_default_na=False)
    tests = read_discount_table(prices.to_dict(orient="records"), prices.columns)
    grade = table[:, -1].astype(np.intp)
    return Dataset(
        table[:, :-1].copy(),
        grade if grades else np.minimum(grade, 1),
        discounts_as_steps(tests, _STEPS),
        feature_names=tuple(test.name for test in tests),
        target_names=_GRADES if grades else ("healthy", "ill"),
        delayed=tuple(prices.loc[prices["delay"] == "delayed", "feature"]),
    )


HEART = Listing.of(
    "heart", (303, 13, 16), "binary", "Heart disease in Cleveland from 13 medical tests", _read_heart,
    unit="CAD", prices="real (Turney 1995), discounts as a shared step", licence="CC BY 4.0",
    source="UCI Machine Learning Repository", options={"grades": False},
    notes="6 missing values; grades=True gives five classes",
)  # fmt: skip
