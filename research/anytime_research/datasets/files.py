"""Public files that are no table of examples: a text, a table of architectures, a list of prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime_research.datasets.formats import text
from anytime_research.datasets.sources import Source, reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NASBENCH201_OPERATIONS", "Text", "load_nasbench201", "load_ptb", "load_yahoo_costs"]

NASBENCH201_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")


class Text(NamedTuple):
    """A text as word numbers: ``vocabulary[train]`` are the words."""

    train: NDArray[np.int32]
    valid: NDArray[np.int32]
    test: NDArray[np.int32]
    vocabulary: NDArray[np.str_]


def load_ptb(*, folder: str | Path | None = None) -> Text:
    """The Penn Treebank as Mikolov prepared it: 10,000 words, the end of a line being one of them (``<eos>``).

    Words are numbered in alphabetical order.
    """
    source = Source("ptb", "Mikolov's preprocessed Penn Treebank", folder)
    words = [_words(text(source, f"ptb/ptb.{part}.txt")) for part in ("train", "valid", "test")]
    vocabulary, numbers = np.unique(np.concatenate(words), return_inverse=True)
    ends = np.cumsum([part.size for part in words])[:-1]
    train, valid, test = np.split(numbers.astype(np.int32), ends)
    return Text(train, valid, test, vocabulary)


def _words(line: str) -> NDArray[np.str_]:
    return np.array(line.replace("\n", " <eos> ").split())


def load_nasbench201(images: str = "cifar10", *, folder: str | Path | None = None) -> pd.DataFrame:
    """All 15,625 architectures of NAS-Bench-201 with accuracy, time and size.

    Parameters
    ----------
    images : {"cifar10", "cifar100"}, default="cifar10"
    folder : str or Path, default=None

    Returns
    -------
    DataFrame
        Indexed by six digits, one per edge of the cell, each a position in ``NASBENCH201_OPERATIONS``. The columns
        are ``val_acc_0`` and so on (per cent, one column per training seed), their mean ``val_acc``, ``train_time_s``,
        ``latency_s`` and ``params_M_0`` and so on (millions; they differ between seeds for 204 architectures).
    """
    if images not in ("cifar10", "cifar100"):
        raise ValueError(f"images must be 'cifar10' or 'cifar100', not {images!r}")
    source = Source("nasbench201", "NATS-Bench", folder)
    file = f"nasbench201/nb201_{images}.csv"
    table = source.table(file, header=0, dtype={"arch": str})
    with reading(source.path(file)):
        table = table.set_index("arch")
        table.insert(0, "val_acc", table.filter(regex=r"^val_acc_\d$").mean(axis=1))
        return table


def load_yahoo_costs(*, folder: str | Path | None = None) -> FeatureCosts:
    """The prices of the 519 features of Yahoo's ranking set: 1, 5, 20, 50, 100, 150 or 200 units.

    The ranking data itself is licensed and not to be had here; the prices fit any look-alike of 519 columns.
    """
    source = Source("yahoo-costs", "github.com/fnan/FeatureBudgetedRandomForest", folder)
    file = "yahoo-costs/costs.txt"
    with reading(source.path(file)):
        prices = np.array([float(word) for word in text(source, file).split()])
        if prices.size != 519:
            raise ValueError(f"it has {prices.size} prices instead of 519")
    names = [f"x{j + 1}" for j in range(519)]
    return FeatureCosts(
        dict(zip(names, prices.tolist(), strict=True)),
        groups={name: [j] for j, name in enumerate(names)},
        unit="units",
    )
