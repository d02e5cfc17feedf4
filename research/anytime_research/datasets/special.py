"""Readers for sets whose layout is theirs alone: official folds, descriptor families, query sizes, molecules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anytime.datasets.bundled import runs
from anytime_research.datasets.aslib import in_fold
from anytime_research.datasets.columns import ABALONE, MQ2008, MQ2008_STREAMS
from anytime_research.datasets.dataset import PublicDataset as Dataset
from anytime_research.datasets.formats import text
from anytime_research.datasets.sources import Source, reading
from anytime_research.datasets.tables import DelimitedTable, SparseTable, uniform_costs

__all__ = ["Folded", "Musk", "read_abalone", "read_lgb_rank", "read_mfeat", "read_mq2008"]


def read_mq2008(source: Source, *, fold: int = 1) -> Dataset:
    """LETOR's MQ2008: files S1 to S5; fold ``i`` trains on three in a circle, validates on the next, tests on the last."""
    if fold not in range(1, 6):
        raise ValueError(f"fold must be from 1 to 5, not {fold!r}")
    files = {f"{k}": f"mq2008/S{k}.txt" for k in range(1, 6)}
    data = SparseTable(files=files, columns=46, names=MQ2008, groups=MQ2008_STREAMS)(source)
    valid, test = (fold + 2) % 5 + 1, (fold + 3) % 5 + 1
    return data.with_attributes(
        train=np.flatnonzero((data.folds != valid) & (data.folds != test)),
        valid=np.flatnonzero(data.folds == valid),
        test=np.flatnonzero(data.folds == test),
    )


def read_lgb_rank(source: Source) -> Dataset:
    """LightGBM's ranking example: the queries stand in files of their own, as numbers of documents."""
    files = {part: f"lgb-rank/rank.{part}" for part in ("train", "test")}
    data = SparseTable(files=files, columns=300)(source)
    queries = [f"{file}.query" for file in files.values()]
    with reading(*map(source.path, queries)):
        sizes = np.array([int(word) for file in queries for word in text(source, file).split()])
        if sizes.sum() != len(data.y):
            raise ValueError(f"the queries have {sizes.sum()} documents, but there are {len(data.y)}")
    return data.with_attributes(qid=np.repeat(np.arange(sizes.size), sizes))


def read_mfeat(source: Source) -> Dataset:
    """Six families of descriptors of the same 2,000 handwritten digits, each a file of its own."""
    families = {
        "fourier": 76,
        "factors": 216,
        "karhunen": 64,
        "pixel": 240,
        "zernike": 47,
        "morphological": 6,
    }
    blocks: list[NDArray[np.float64]] = []
    digits = np.repeat(np.arange(10), 200)
    for family, columns in families.items():
        file = f"mfeat/mfeat-{family}.tsv"
        table = source.table(file, sep="\t", header=0)
        with reading(source.path(file)):
            if table.shape[1] != columns + 1:
                raise ValueError(f"it has {table.shape[1] - 1} feature columns instead of {columns}")
            blocks.append(table.iloc[:, :-1].to_numpy(dtype=np.float64))
            label = table.iloc[:, -1].to_numpy()  # some files count the digits from 1, the others from 0
            if not np.array_equal(label - label[0], digits):
                raise ValueError("its rows are not the digits 0 to 9, 200 of each")
    names = tuple(f"{family} {k + 1}" for family, columns in families.items() for k in range(columns))
    return Dataset(
        np.hstack(blocks),
        digits,
        uniform_costs(names, runs(families)),
        feature_names=names,
        target_names=tuple("0123456789"),
    )


def read_abalone(source: Source) -> Dataset:
    """Rings of a shell from its sex and seven measurements; sex is a group of three 0/1 columns."""
    table = source.table("abalone/abalone.data")
    with reading(source.path("abalone/abalone.data")):
        if strange := sorted(set(table[0]) - {"M", "F", "I"}):
            raise ValueError(f"{strange[0]!r} is not a sex (M, F or I)")
        sex = np.stack([table[0] == letter for letter in "MFI"], axis=1)
        X = np.hstack([sex, table.iloc[:, 1:8]]).astype(np.float64)
        y = table[8].to_numpy(dtype=np.float64)
    groups = runs({"sex": 3, **dict.fromkeys(ABALONE[3:], 1)})
    return Dataset(
        X,
        y,
        uniform_costs(ABALONE, groups),
        feature_names=ABALONE,
        train=np.arange(3133),
        test=np.arange(3133, len(y)),
    )


@dataclass(frozen=True)
class Musk:
    """Shapes of molecules, several per molecule; ``blocks`` holds the molecule."""

    file: str

    def __call__(self, source: Source) -> Dataset:
        """Read the file."""
        classes = {"0": "no musk", "1": "musk"}
        data = DelimitedTable(files={"": self.file}, header=True, sep="\t", drop=(0, 1), classes=classes)(
            source
        )
        molecules = source.table(self.file, sep="\t", header=0, usecols=[0])
        return data.with_attributes(blocks=molecules.iloc[:, 0].to_numpy())


@dataclass(frozen=True)
class Folded:
    """A regression table with ten fixed splits: column ``k`` of the mask marks the test rows of fold ``k + 1``."""

    name: str
    columns: int

    def __call__(self, source: Source, *, fold: int = 1) -> Dataset:
        """Read the table and the mask."""
        names = tuple(f"x{j + 1}" for j in range(self.columns))
        data = DelimitedTable(files={"": f"regression/{self.name}.data.csv"}, names=names)(source)
        file = f"regression/{self.name}.test_mask.csv"
        mask = source.table(file).to_numpy()
        with reading(source.path(file)):
            if len(mask) != len(data.y) or not (mask.sum(axis=1) == 1).all():
                raise ValueError("it does not put every row into exactly one fold")
        return in_fold(data.with_attributes(folds=mask.argmax(axis=1) + 1), fold)
