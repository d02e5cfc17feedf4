"""Formats that only public sets come in: Weka's files and sparse lines."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime_research.datasets.sources import Source, reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["arff", "sparse", "text"]


def text(source: Source, file: str) -> str:
    """The contents of ``file`` as text; a byte that is no UTF-8 is replaced (old comments hold some)."""
    return source.read(file).decode("utf-8", errors="replace")


def arff(source: Source, file: str) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """A Weka file: the table, with NaN for ``?``, and the declared values of each nominal column."""
    import pandas as pd

    head, data = _split_arff(text(source, file))
    with reading(source.path(file)):
        declared = [_ATTRIBUTE.match(line) for line in head if line.lower().startswith("@attribute")]
        if not declared or None in declared:
            raise ValueError("its @attribute lines cannot be understood")
        names = [_bare(match["name"]) for match in declared if match]
        values = {
            _bare(match["name"]): tuple(_bare(v) for v in match["kind"].strip("{} \t").split(","))
            for match in declared
            if match and match["kind"].startswith("{")
        }
        table = pd.read_csv(
            io.StringIO("\n".join(data)),
            names=names,
            dtype=dict.fromkeys(values, str),
            na_values="?",
            keep_default_na=False,
            quotechar="'",
            skipinitialspace=True,
            index_col=False,
        )
    return table, values


def sparse(
    source: Source, file: str, columns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Lines ``label [qid:q] index:value …`` counted from 1: a dense matrix, the labels and the queries (or empty)."""
    from sklearn.datasets import load_svmlight_file

    contents = io.BytesIO(source.read(file))
    with reading(source.path(file)):
        X, y, qid = load_svmlight_file(contents, n_features=columns, zero_based=False, query_id=True)
    return X.toarray(), y, np.asarray(qid, dtype=np.int64)


_ATTRIBUTE = re.compile(r"""@attribute\s+(?P<name>'[^']+'|"[^"]+"|\S+)\s+(?P<kind>.+)""", re.IGNORECASE)


def _split_arff(text: str) -> tuple[list[str], list[str]]:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("%")]
    marks = [i for i, line in enumerate(lines) if line.lower().startswith("@data")]
    cut = marks[0] if marks else len(lines)
    return lines[:cut], lines[cut + 1 :]


def _bare(word: str) -> str:
    return word.strip().strip("'\"")
