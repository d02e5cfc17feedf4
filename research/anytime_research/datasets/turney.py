"""Further medical tests with Turney's prices (*Cost-sensitive classification*, JAIR 2, 1995), group discounts as shared steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset, Listing
from anytime.datasets.heart import discounts_as_steps
from anytime.discounts import read_discount_table
from anytime_research.datasets.sources import Classes, Source, class_numbers, reading

__all__ = ["PRICED", "PricedTests"]


@dataclass(frozen=True, kw_only=True)
class PricedTests:
    """Files of test results, a patient in each line, together with ``costs.csv``.

    Parameters
    ----------
    files : mapping from str to str
        From the part (``"train"`` or ``"test"``, or ``""`` for a file without a role) to the file.
    costs : str
        The price list: feature, group, cost_full, cost_discount, delay.
    names : sequence of str
        The tests, in the order of the columns.
    classes : mapping from str to str or None
        From each label in the file to its name, in the order of class numbers. None: numbers.
    steps, computed : mapping
        As ``discounts_as_steps`` takes them.
    target : int, default=-1
        The column of the answer.
    drop : sequence of int, default=()
        Columns that are neither answer nor test.
    missing : str, default=None
        The mark of a missing value.
    sep : str, default=","
    """

    files: Mapping[str, str]
    costs: str
    names: Sequence[str]
    classes: Classes | None
    steps: Mapping[str, str]
    computed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    target: int = -1
    drop: Sequence[int] = ()
    missing: str | None = None
    sep: str = ","

    def __call__(self, source: Source) -> Dataset:
        """Read the files."""
        import pandas as pd

        costs, delayed = self._prices(source)
        options = {"sep": self.sep, "na_values": [self.missing] if self.missing else None}
        tables = [
            source.table(file, keep_default_na=False, skipinitialspace=True, **options)
            for file in self.files.values()
        ]
        with reading(*map(source.path, self.files.values())):
            table = pd.concat(tables, ignore_index=True)
            features = table.drop(columns=table.columns[[self.target, *self.drop]])
            if features.shape[1] != len(self.names):
                raise ValueError(f"it has {features.shape[1]} feature columns instead of {len(self.names)}")
            y, target_names = class_numbers(table.iloc[:, self.target], self.classes)
            X = features.to_numpy(dtype=np.float64)
        rows = np.split(np.arange(len(table)), np.cumsum([len(part) for part in tables])[:-1])
        return Dataset(
            X,
            y,
            costs,
            feature_names=tuple(self.names),
            target_names=target_names,
            delayed=delayed,
            **{part: numbers for part, numbers in zip(self.files, rows, strict=True) if part},
        )

    def _prices(self, source: Source) -> tuple[FeatureCosts, tuple[str, ...]]:
        """The prices, and the tests whose results arrive only the next day."""
        prices = source.table(
            self.costs, header=0, dtype={"feature": str, "group": str}, keep_default_na=False
        )
        with reading(source.path(self.costs)):
            tests = read_discount_table(prices.to_dict(orient="records"), prices.columns)
            if [test.name for test in tests] != list(self.names):
                raise ValueError(f"its features are not {', '.join(self.names)}")
            delayed = tuple(prices.loc[prices["delay"] == "delayed", "feature"])
            return discounts_as_steps(tests, self.steps, self.computed), delayed


# ---------------------------------------------------------------------- the four sets

_DRAW = {"A": "blood draw"}

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

_READ_PIMA = PricedTests(
    files={"": "pima/pima-indians-diabetes.data"},
    costs="pima/costs.csv",
    names=_PIMA_NAMES,
    classes={"0": "healthy", "1": "diabetes"},
    steps=_DRAW,
)


def read_pima(source: Source, *, zeros_as_missing: bool = True) -> Dataset:
    """Diabetes among Pima women; a zero in columns 1 to 5 cannot be a measurement and is read as missing."""
    data = _READ_PIMA(source)
    if zeros_as_missing:
        measured = data.X[:, 1:6]
        measured[measured == 0] = np.nan
    return data


_READ_BUPA = PricedTests(
    files={"": "bupa/bupa.data"},
    costs="bupa/costs.csv",
    names=_BUPA_NAMES,
    classes=None,
    steps=_DRAW,
    target=5,
    drop=(6,),
)


def read_bupa(source: Source) -> Dataset:
    """Five blood tests against drinking: three or more half-pints a day, or fewer. The selector column is the split."""
    data = _READ_BUPA(source)
    selector = source.table("bupa/bupa.data").to_numpy()[:, 6]
    return data.with_attributes(
        y=(data.y >= 3).astype(np.intp),
        target_names=("under 3 drinks", "3 drinks or more"),
        train=np.flatnonzero(selector == 1),
        test=np.flatnonzero(selector == 2),
    )


read_hepatitis = PricedTests(
    files={"": "hepatitis/hepatitis.data"},
    costs="hepatitis/costs.csv",
    names=_HEPATITIS_NAMES,
    classes={"2": "live", "1": "die"},
    steps=_DRAW,
    target=0,
    missing="?",
)

read_thyroid = PricedTests(
    files={"train": "thyroid/ann-train.data", "test": "thyroid/ann-test.data"},
    costs="thyroid/costs.csv",
    names=_THYROID_NAMES,
    classes={"1": "class 1", "2": "class 2", "3": "class 3"},
    steps=_DRAW,
    computed={"FTI": ["TT4", "T4U"]},
    sep=r"\s+",
)


_REAL = "real (Turney 1995), discounts as a shared step"
_FACTS = {
    "unit": "CAD",
    "prices": _REAL,
    "licence": "CC BY 4.0",
    "source": "UCI Machine Learning Repository",
}


def _entry(
    name: str,
    shape: tuple[int, int, int],
    task: str,
    summary: str,
    read: Callable[..., Dataset],
    **facts: Any,
) -> Listing:
    return Listing.of(name, shape, task, summary, read, **_FACTS | facts)


PRICED = [
    _entry(
        "pima", (768, 8, 9), "binary", "Diabetes among Pima women", read_pima,
        options={"zeros_as_missing": True}, licence="public copies of a withdrawn UCI set",
        notes="zeros of columns 1 to 5 are read as missing",
    ),
    _entry(
        "hepatitis", (155, 19, 20), "binary", "Death from hepatitis", read_hepatitis,
        notes="167 missing values; discounts by the rule of the other blood tests",
    ),
    _entry(
        "bupa", (345, 5, 6), "binary", "Drinking from five blood tests", read_bupa,
        prices="unverified: quoted from Turney 1995 without his file", split="train / test by the selector",
        notes="the selector is a split, not a diagnosis; 4 rows are duplicates",
    ),
    _entry(
        "thyroid", (7200, 21, 22), "3 classes", "Thyroid function", read_thyroid,
        prices=f"{_REAL}; FTI is free once TT4 and T4U are known", split="official train / test",
        notes="92.5 % of the rows are of class 3; discounts by the rule of the other blood tests",
    ),
]  # fmt: skip
