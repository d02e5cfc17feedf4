"""Reading files from the user's data folder, with one plain error for each way this can go wrong.

The folder is named by the environment variable ``ANYTIME_DATA`` or by ``folder=``; a few small sets come with the package. A file
may lie there compressed (``name.gz``) or plain (``name``).
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["VARIABLE", "DataFormatError", "DataNotFoundError", "Source"]

VARIABLE = "ANYTIME_DATA"
SHIPPED = Path(__file__).parent / "shipped"  # small sets that come with the package


class DataNotFoundError(FileNotFoundError):
    """The data folder, or a file that should be in it, is absent."""


class DataFormatError(ValueError):
    """A data file is there, but damaged or not what it should be."""


def _found(root: Path, file: str) -> Path | None:
    return next((path for path in (root / f"{file}.gz", root / file) if path.is_file()), None)


@dataclass(frozen=True)
class Source:
    """The folder from which one data set is read.

    Parameters
    ----------
    name : str
        The data set, for messages.
    origin : str
        Where its files can be had, for messages.
    folder : str or Path, default=None
        Overrides ``ANYTIME_DATA``.
    """

    name: str
    origin: str
    folder: str | Path | None = None

    def path(self, file: str) -> Path:
        """Where ``file`` lies, compressed or not."""
        shipped = _found(SHIPPED, file) if self.folder is None else None
        if shipped is not None and not os.environ.get(VARIABLE):
            return shipped
        root = self._root()
        if found := _found(root, file) or shipped:
            return found
        raise DataNotFoundError(
            f"data set {self.name!r} needs {file}.gz or {file} in {root}, and neither is there; "
            f"put the file there ({self.origin})"
        )

    def _root(self) -> Path:
        given = self.folder if self.folder is not None else os.environ.get(VARIABLE)
        if not given:
            raise DataNotFoundError(
                f"data set {self.name!r} is read from files that do not come with anytime; set the environment variable "
                f"{VARIABLE} to the folder that holds them, or pass folder="
            )
        root = Path(given).expanduser()
        if not root.is_dir():
            named = "folder=" if self.folder is not None else VARIABLE
            raise DataNotFoundError(
                f"{named} names {str(root)!r}, which is not a folder; create it or name another"
            )
        return root

    # ------------------------------------------------------------------ formats

    def read(self, file: str) -> bytes:
        """The contents of ``file``, decompressed."""
        path = self.path(file)
        with reading(path):
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data

    def text(self, file: str) -> str:
        """The contents of ``file`` as text; a byte that is no UTF-8 is replaced (old comments hold some)."""
        return self.read(file).decode("utf-8", errors="replace")

    def table(self, file: str, **options: Any) -> pd.DataFrame:
        """Delimited text, without a header line unless ``header=0`` is passed."""
        import pandas as pd

        contents = io.BytesIO(self.read(file))
        with reading(self.path(file)):
            table: pd.DataFrame = pd.read_csv(contents, **{"header": None, **options})
        return table

    def arff(self, file: str) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
        """A Weka file: the table, with NaN for ``?``, and the declared values of each nominal column."""
        import pandas as pd

        head, data = _split_arff(self.text(file))
        with reading(self.path(file)):
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
        self, file: str, columns: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Lines ``label [qid:q] index:value …`` counted from 1: a dense matrix, the labels and the queries (or empty)."""
        from sklearn.datasets import load_svmlight_file

        contents = io.BytesIO(self.read(file))
        with reading(self.path(file)):
            X, y, qid = load_svmlight_file(contents, n_features=columns, zero_based=False, query_id=True)
        return X.toarray(), y, np.asarray(qid, dtype=np.int64)

    def idx(self, file: str) -> NDArray[np.uint8]:
        """The byte arrays of MNIST: two zeros, 8, the number of axes, the axes as big-endian integers, the bytes."""
        data = self.read(file)
        with reading(self.path(file)):
            if data[:3] != b"\0\0\x08":
                raise ValueError("it does not begin like an idx file of bytes")
            axes = data[3]
            shape = np.frombuffer(data, dtype=">i4", count=axes, offset=4)
            return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


@contextmanager
def reading(*paths: Path) -> Iterator[None]:
    """Turn whatever a parser raises about the contents of ``paths`` into one error that names them."""
    named = " or ".join(map(str, paths))
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(
            f"{named} is damaged: it cannot be decompressed ({error}); fetch it again and compare its checksum"
        ) from error
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise DataFormatError(
            f"{named} is not what it should be: {str(error).strip() or type(error).__name__}; "
            "fetch it again and compare its checksum"
        ) from error


_ATTRIBUTE = re.compile(r"""@attribute\s+(?P<name>'[^']+'|"[^"]+"|\S+)\s+(?P<kind>.+)""", re.IGNORECASE)


def _split_arff(text: str) -> tuple[list[str], list[str]]:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("%")]
    marks = [i for i, line in enumerate(lines) if line.lower().startswith("@data")]
    cut = marks[0] if marks else len(lines)
    return lines[:cut], lines[cut + 1 :]


def _bare(word: str) -> str:
    return word.strip().strip("'\"")
