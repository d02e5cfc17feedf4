"""scikit-learn's bundled sets with groups and prices, for examples and tests that need no file.

The groups follow how the columns come about. **The prices are made up**: plausible relative to each other, and nothing
more. For real prices see ``heart``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset, Listing


def runs(sizes: Mapping[str, int]) -> dict[str, range]:
    """Groups of neighbouring columns, by their sizes.

    Examples
    --------
    >>> runs({"position": 2, "colour": 3})
    {'position': range(0, 2), 'colour': range(2, 5)}
    """
    ends = np.cumsum(list(sizes.values())).tolist()
    return {name: range(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}


def patches(side: int, patch: int) -> dict[str, list[int]]:
    """The columns of each square patch of a square image whose pixels are columns row by row.

    Examples
    --------
    >>> patches(4, 2)["patch 0,1"]
    [2, 3, 6, 7]
    """
    grid = np.arange(side * side).reshape(side // patch, patch, side // patch, patch).swapaxes(1, 2)
    return {
        f"patch {r},{c}": grid[r, c].ravel().tolist()
        for r in range(side // patch)
        for c in range(side // patch)
    }


@dataclass(frozen=True, kw_only=True)
class _Bundled:
    """One of scikit-learn's ``load_*`` functions, with the groups and prices that go with it."""

    loader: str
    groups: Mapping[str, Sequence[int]]
    prices: Mapping[str, float]
    unit: str
    requires: Mapping[str, Sequence[str]] | None = None

    def __call__(self) -> Dataset:
        """Load the data."""
        from sklearn import datasets

        bunch = getattr(datasets, self.loader)()
        classes = getattr(bunch, "target_names", None)
        return Dataset(
            np.asarray(bunch.data, dtype=np.float64),
            np.asarray(bunch.target),
            FeatureCosts(self.prices, groups=self.groups, requires=self.requires, unit=self.unit),
            feature_names=tuple(map(str, bunch.feature_names)),
            target_names=None if classes is None else tuple(map(str, classes)),
        )


# Ten measurements of cell nuclei, each as mean, standard error and worst value over the nuclei of one image. Nine of
# them need the outlines of the nuclei; compactness is computed from perimeter and area. The prices sum to 100.
_OUTLINED = {
    "radius": 3, "perimeter": 3, "area": 3, "smoothness": 6, "compactness": 1, "concavity": 12, "concave points": 8,
    "symmetry": 10, "fractal dimension": 28,
}  # fmt: skip
_MEASURED = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points", "symmetry",
    "fractal dimension",
)  # fmt: skip
_BREAST_CANCER = _Bundled(
    loader="load_breast_cancer",
    groups={"outline": [], **{name: [k, k + 10, k + 20] for k, name in enumerate(_MEASURED)}},
    prices={"outline": 20, "texture": 6, **_OUTLINED},
    requires={**{name: ["outline"] for name in _OUTLINED}, "compactness": ["perimeter", "area"]},
    unit="units",
)

_WINE = _Bundled(
    loader="load_wine",
    groups={
        "alcohol": [0],
        "malic acid": [1],
        "ash": [2, 3, 4],  # ash, its alkalinity, and the magnesium in it
        "phenols": [5, 6, 7, 8],
        "colour": [9, 10, 11],  # one spectrophotometer reading
        "proline": [12],
    },
    prices={"alcohol": 5, "malic acid": 12, "ash": 15, "phenols": 30, "colour": 8, "proline": 25},
    unit="USD",
)

# Four blood fats and sugar need one blood draw; the fats are one assay.
_DIABETES = _Bundled(
    loader="load_diabetes",
    groups={
        **runs({"age": 1, "sex": 1, "bmi": 1, "blood pressure": 1}),
        "blood draw": [],
        "cholesterol": [4, 5, 6, 7],
        "triglycerides": [8],
        "glucose": [9],
    },
    prices={
        "age": 1, "sex": 1, "bmi": 1, "blood pressure": 2, "blood draw": 3, "cholesterol": 12, "triglycerides": 6,
        "glucose": 4,
    },
    requires={test: ["blood draw"] for test in ("cholesterol", "triglycerides", "glucose")},
    unit="USD",
)  # fmt: skip

_IRIS = _Bundled(
    loader="load_iris", groups=runs({"sepal": 2, "petal": 2}), prices={"sepal": 1, "petal": 2}, unit="minutes"
)

_ZONES = patches(8, 2)
_DIGITS = _Bundled(loader="load_digits", groups=_ZONES, prices=dict.fromkeys(_ZONES, 4), unit="pixels")


def _read_digit_images() -> Dataset:
    from anytime.datasets.images import digit_image_features

    return digit_image_features()


_MADE_UP = {"prices": "made up", "licence": "BSD-3-Clause", "source": "scikit-learn"}

BUNDLED = [
    Listing.of(
        "breast_cancer", (569, 30, 11), "binary", "Malignant or benign, from measurements of nuclei", _BREAST_CANCER,
        unit="units", **_MADE_UP,
    ),
    Listing.of(
        "wine", (178, 13, 6), "3 classes", "The grower of a wine, from its chemistry", _WINE, unit="USD", **_MADE_UP
    ),
    Listing.of(
        "digits", (1797, 64, 16), "10 classes", "Handwritten digits of 8 x 8 pixels in 16 zones", _DIGITS,
        unit="pixels", **_MADE_UP,
    ),
    Listing.of(
        "diabetes", (442, 10, 8), "regression", "Progress of diabetes within a year", _DIABETES, unit="USD", **_MADE_UP
    ),
    Listing.of("iris", (150, 4, 2), "3 classes", "Three kinds of iris", _IRIS, unit="minutes", **_MADE_UP),
    Listing.of(
        "digit_images", (1797, 819, 8), "10 classes", "Eight descriptors of jittered 32 x 32 digit images",
        _read_digit_images, unit="ms", licence="BSD-3-Clause", source="scikit-learn",
        prices="measured once on one machine and stored; image_extractors() lets you measure yours",
        split="train / valid / test", notes="computed when first loaded, which takes some seconds",
    ),
]  # fmt: skip
