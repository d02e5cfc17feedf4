"""Medical tests with Turney's prices (*Cost-sensitive classification*, JAIR 2, 1995), group discounts as shared steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset
from anytime.datasets.files import Source, reading
from anytime.datasets.tables import DelimitedTable
from anytime.discounts import DiscountedPrice, prices_with_steps, read_discount_table

__all__ = ["PricedTests", "discounts_as_steps"]


def discounts_as_steps(
    tests: Sequence[DiscountedPrice],
    steps: Mapping[str, str],
    computed: Mapping[str, Sequence[str]] | None = None,
) -> FeatureCosts:
    """Prices of ``tests``, column by column, with one column-less step for each discount group.

    Parameters
    ----------
    tests : sequence of DiscountedPrice
        In the order of the columns.
    steps : mapping from str to str
        From each discount group to the name of its shared step.
    computed : mapping from str to list of str, default=None
        Results that are computed from other tests, and from which.
    """
    prices, requires = prices_with_steps(tests, steps)
    groups: dict[str, list[int]] = {name: [] for name in prices}
    groups |= {test.name: [j] for j, test in enumerate(tests)}
    for name, needed in (computed or {}).items():
        requires[name] = [*needed, *requires.get(name, [])]
    return FeatureCosts(prices, groups=groups, requires=requires, unit="CAD")


@dataclass(frozen=True, kw_only=True)
class PricedTests:
    """A table of test results together with ``costs.csv``: feature, group, cost_full, cost_discount, delay."""

    table: DelimitedTable
    costs: str
    steps: Mapping[str, str]
    computed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __call__(self, source: Source) -> Dataset:
        """Read the files."""
        prices = source.table(
            self.costs, header=0, dtype={"feature": str, "group": str}, keep_default_na=False
        )
        with reading(source.path(self.costs)):
            tests = read_discount_table(prices.to_dict(orient="records"), prices.columns)
            if [test.name for test in tests] != list(self.table.names):
                raise ValueError(f"its features are not {', '.join(self.table.names)}")
            costs = discounts_as_steps(tests, self.steps, self.computed)
            delayed = tuple(prices.loc[prices["delay"] == "delayed", "feature"])
        return self.table(source).with_attributes(costs=costs, delayed=delayed)


# ---------------------------------------------------------------------- the five sets

_DRAW = {"A": "blood draw"}

_HEART_NAMES = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
)  # fmt: skip
_PIMA_NAMES = (
    "times_pregnant", "glucose_tol", "diastolic_bp", "triceps", "insulin", "mass_index", "pedigree", "age",
)  # fmt: skip
_HEPATITIS_NAMES = (
    "age", "sex", "steroid", "antviral", "fatigue", "malaise", "anorexia", "liver_big", "liver_firm",
    "spleen_palpable", "spiders", "ascites", "varices", "bilirubin", "alk_phosphate", "sgot", "albumin", "protime",
    "histology",
)  # fmt: skip
_BUPA_NAMES = ("mcv", "alkphos", "sgpt", "sgot", "gammagt")
_THYROID_NAMES = (
    "age", "sex", "on_thyroxine", "query_on_thyroxine", "on_antithyroid_medication", "sick", "pregnant",
    "thyroid_surgery", "I131_treatment", "query_hypothyroid", "query_hyperthyroid", "lithium", "goitre", "tumor",
    "hypopituitary", "psych", "TSH", "T3", "TT4", "T4U", "FTI",
)  # fmt: skip

_HEART_CLASSES = {"0": "healthy", "1": "grade 1", "2": "grade 2", "3": "grade 3", "4": "grade 4"}


def read_heart(source: Source, *, grades: bool = False) -> Dataset:
    """Cleveland heart disease: ill or not, or with ``grades`` the five grades of the file."""
    classes = (
        _HEART_CLASSES
        if grades
        else {label: "ill" if label != "0" else "healthy" for label in _HEART_CLASSES}
    )
    table = DelimitedTable(
        files={"": "heart/processed.cleveland.data"}, names=_HEART_NAMES, missing="?", classes=classes
    )
    steps = {"A": "blood draw", "B": "procedure B", "C": "procedure C"}
    return PricedTests(table=table, costs="heart/costs.csv", steps=steps)(source)


def read_pima(source: Source, *, zeros_as_missing: bool = True) -> Dataset:
    """Diabetes among Pima women; a zero in columns 1 to 5 cannot be a measurement and is read as missing."""
    table = DelimitedTable(
        files={"": "pima/pima-indians-diabetes.data"},
        names=_PIMA_NAMES,
        classes={"0": "healthy", "1": "diabetes"},
    )
    data = PricedTests(table=table, costs="pima/costs.csv", steps=_DRAW)(source)
    if zeros_as_missing:
        measured = data.X[:, 1:6]
        measured[measured == 0] = np.nan
    return data


def read_bupa(source: Source) -> Dataset:
    """Five blood tests against drinking: three or more half-pints a day, or fewer. The selector column is the split."""
    table = DelimitedTable(files={"": "bupa/bupa.data"}, names=_BUPA_NAMES, target=5, drop=(6,))
    data = PricedTests(table=table, costs="bupa/costs.csv", steps=_DRAW)(source)
    selector = source.table("bupa/bupa.data").to_numpy()[:, 6]
    return data.with_attributes(
        y=(data.y >= 3).astype(np.intp),
        target_names=("under 3 drinks", "3 drinks or more"),
        train=np.flatnonzero(selector == 1),
        test=np.flatnonzero(selector == 2),
    )


read_hepatitis = PricedTests(
    table=DelimitedTable(
        files={"": "hepatitis/hepatitis.data"},
        names=_HEPATITIS_NAMES,
        target=0,
        missing="?",
        classes={"2": "live", "1": "die"},
    ),
    costs="hepatitis/costs.csv",
    steps=_DRAW,
)

read_thyroid = PricedTests(
    table=DelimitedTable(
        files={"train": "thyroid/ann-train.data", "test": "thyroid/ann-test.data"},
        names=_THYROID_NAMES,
        sep=r"\s+",
        classes={"1": "class 1", "2": "class 2", "3": "class 3"},
    ),
    costs="thyroid/costs.csv",
    steps=_DRAW,
    computed={"FTI": ["TT4", "T4U"]},
)
