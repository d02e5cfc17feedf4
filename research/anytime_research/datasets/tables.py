"""Readers: each says how the files of one kind of data set are laid out, and makes a ``Dataset`` of them.

A reader is a small description (which files, which column is the answer, how columns group) that can be called with
the folder to read from. The registry in ``public.py`` is a list of such descriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.datasets.bundled import patches
from anytime.datasets.image_files import idx
from anytime_research.datasets.dataset import PublicDataset as Dataset
from anytime_research.datasets.formats import arff, sparse
from anytime_research.datasets.sources import Classes, Source, class_numbers, reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ArffTable", "DelimitedTable", "ImageFiles", "SparseTable", "uniform_costs"]

Groups = Mapping[str, Sequence[int]]


def uniform_costs(
    names: Sequence[str], groups: Groups | None = None, requires: Mapping[str, Sequence[str]] | None = None
) -> FeatureCosts:
    """Price 1 for each group; without groups, each column is one."""
    unit = "columns" if groups is None else "groups"
    groups = {name: [j] for j, name in enumerate(names)} if groups is None else groups
    return FeatureCosts(dict.fromkeys(groups, 1.0), groups=groups, requires=requires, unit=unit)


@dataclass(frozen=True, kw_only=True)
class DelimitedTable:
    """Delimited text with one example per line.

    Parameters
    ----------
    files : mapping from str to str
        From the part (``"train"``, ``"valid"``, ``"test"``, or ``""`` for a file without a role) to the file.
    names : sequence of str, default=()
        Feature names, after ``drop``. Taken from the header line when empty and there is one.
    header : bool, default=False
        Whether the file begins with column names.
    sep : str, default=","
    target : int, default=-1
        The column of the answer.
    drop : sequence of int, default=()
        Columns that are neither answer nor feature.
    missing : str, default=None
        The mark of a missing value.
    classes : mapping from str to str, default=None
        From each label in the file to its name, in the order of class numbers. None for regression.
    words : sequence of int, default=()
        Features (after ``drop``) whose values are words; they become codes in alphabetical order.
    cuts : sequence of int, default=()
        Row numbers at which a single file is cut into train and test, or train, valid and test.
    groups, requires : mapping, default=None
        Groups of columns by position, and what they require; every group costs 1.
    read_as : str, default=None
        The type of every number in the file, where that makes reading fast; ``X`` is then float32.
    """

    files: Mapping[str, str]
    names: Sequence[str] = ()
    header: bool = False
    sep: str = ","
    target: int = -1
    drop: Sequence[int] = ()
    missing: str | None = None
    classes: Classes | None = None
    words: Sequence[int] = ()
    cuts: Sequence[int] = ()
    groups: Groups | None = None
    requires: Mapping[str, Sequence[str]] | None = None
    read_as: str | None = None

    def __call__(self, source: Source) -> Dataset:
        """Read the files."""
        import pandas as pd

        tables = {part: self._read(source, file) for part, file in self.files.items()}
        parts = official_parts({part: len(table) for part, table in tables.items()}, self.cuts)
        with reading(*map(source.path, self.files.values())):
            table = pd.concat(list(tables.values()), ignore_index=True)
            target = table.shape[1] + self.target if self.target < 0 else self.target
            features = table.drop(columns=table.columns[[target, *self.drop]])
            names = tuple(self.names) or tuple(
                map(str, features.columns if self.header else range(features.shape[1]))
            )
            if len(names) != features.shape[1]:
                raise ValueError(f"it has {features.shape[1]} feature columns instead of {len(names)}")
            features.columns = pd.Index(names)
            features, categories = code_words(features, [names[j] for j in self.words])
            answers, target_names = class_numbers(table.iloc[:, target], self.classes)
            X = features.to_numpy(dtype="float32" if self.read_as else "float64")
        return Dataset(
            X,
            answers,
            uniform_costs(names, self.groups, self.requires),
            feature_names=names,
            target_names=target_names,
            categories=categories or None,
            **parts,
        )

    def _read(self, source: Source, file: str) -> pd.DataFrame:
        return source.table(
            file,
            header=0 if self.header else None,
            sep=self.sep,
            na_values=[self.missing] if self.missing else None,
            keep_default_na=False,
            skipinitialspace=True,
            dtype=self.read_as,
        )


@dataclass(frozen=True, kw_only=True)
class ArffTable:
    """Weka files whose last column is the class; nominal values become codes in the order in which they are declared."""

    files: Mapping[str, str]
    groups: Groups | None = None

    def __call__(self, source: Source) -> Dataset:
        """Read the files."""
        import pandas as pd

        read = {part: arff(source, file) for part, file in self.files.items()}
        values = next(iter(read.values()))[1]
        parts = official_parts({part: len(table) for part, (table, _) in read.items()})
        with reading(*map(source.path, self.files.values())):
            table = pd.concat([table for table, _ in read.values()], ignore_index=True)
            *names, label = map(str, table.columns)
            nominal = {name: values[name] for name in names if name in values}
            features, _ = code_words(table[names], list(nominal), nominal)
            answers, target_names = class_numbers(table[label], {value: value for value in values[label]})
            X = features.to_numpy(dtype="float64")
        return Dataset(
            X,
            answers,
            uniform_costs(names, self.groups),
            feature_names=tuple(names),
            target_names=target_names,
            categories=nominal or None,
            **parts,
        )


@dataclass(frozen=True, kw_only=True)
class SparseTable:
    """Files of ``label index:value`` lines; what is not written is 0."""

    files: Mapping[str, str]
    columns: int
    names: Sequence[str] = ()
    classes: Classes | None = None
    groups: Groups | None = None

    def __call__(self, source: Source) -> Dataset:
        """Read the files."""
        read = {part: sparse(source, file, self.columns) for part, file in self.files.items()}
        X, y, qid = (np.concatenate(arrays) for arrays in zip(*read.values(), strict=True))
        names = tuple(self.names) or tuple(f"x{j + 1}" for j in range(self.columns))
        target_names: tuple[str, ...] | None = None
        if self.classes is not None:
            with reading(*map(source.path, self.files.values())):
                y, target_names = class_numbers(y, self.classes)
        return Dataset(
            X,
            y,
            uniform_costs(names, self.groups),
            feature_names=names,
            target_names=target_names,
            qid=qid if qid.size else None,
            **official_parts({part: len(labels) for part, (_, labels, _) in read.items()}),
        )


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """MNIST's four files: images of 28 x 28 bytes and their labels; groups are the 49 patches of 4 x 4 pixels."""

    folder: str
    target_names: Sequence[str]

    def __call__(self, source: Source) -> Dataset:
        """Read the files."""
        read = {}
        for part, prefix in (("train", "train"), ("test", "t10k")):
            labels = f"{self.folder}/{prefix}-labels-idx1-ubyte"
            images = idx(source, f"{self.folder}/{prefix}-images-idx3-ubyte")
            read[part] = (images, idx(source, labels))
            with reading(source.path(labels)):
                if len(images) != len(read[part][1]):
                    raise ValueError(f"it has {len(read[part][1])} labels for {len(images)} images")
        pixels = np.concatenate([images.reshape(len(images), -1) for images, _ in read.values()])
        names = tuple(f"pixel {r},{c}" for r in range(28) for c in range(28))
        return Dataset(
            pixels.astype(np.float32),
            np.concatenate([labels for _, labels in read.values()]).astype(np.intp),
            uniform_costs(names, patches(28, 4)),
            feature_names=names,
            target_names=tuple(self.target_names),
            **official_parts({part: len(labels) for part, (_, labels) in read.items()}),
        )


def official_parts(sizes: Mapping[str, int], cuts: Iterable[int] = ()) -> dict[str, NDArray[np.intp]]:
    """Row numbers of the parts, from the number of rows of each file or from cuts in the only one.

    Files that are called 1, 2, … are folds.
    """
    rows = np.arange(sum(sizes.values()))
    cuts = list(cuts)
    if all(part.isdigit() for part in sizes):
        return {"folds": np.repeat([int(part) for part in sizes], list(sizes.values()))}
    if cuts:
        names = ("train", "test") if len(cuts) == 1 else ("train", "valid", "test")
        return dict(zip(names, np.split(rows, cuts), strict=True))
    ends = np.cumsum(list(sizes.values()))
    pieces = np.split(rows, ends[:-1])
    return {
        part: piece for part, piece in zip(sizes, pieces, strict=True) if part in ("train", "valid", "test")
    }


def code_words(
    table: pd.DataFrame, columns: Sequence[str], values: Mapping[str, Sequence[str]] | None = None
) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """Replace words by their position in ``values``, or in the sorted list of the words that occur; NaN stays."""
    import pandas as pd

    out, categories = table.copy(), {}
    for column in columns:
        found = sorted(map(str, table[column].dropna().unique()))
        known = list(values[column]) if values is not None else found
        if strange := [word for word in found if word not in known]:
            raise ValueError(f"column {column!r} holds {strange[0]!r}, which is not one of its values")
        codes = pd.Categorical(table[column], categories=known).codes.astype("float64")
        out[column] = np.where(codes < 0, np.nan, codes)
        categories[column] = tuple(known)
    return out, categories
