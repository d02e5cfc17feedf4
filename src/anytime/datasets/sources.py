"""Files in the user's data folder, with one plain error for each way in which reading them can go wrong.

The folder is named by the environment variable ``ANYTIME_DATA`` or by ``folder=``. A file may lie there compressed
(``name.gz``) or plain (``name``).
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "ANYTIME_DATA"


class DataNotFoundError(FileNotFoundError):
    """The data folder, or a file that should be in it, is absent."""


class DataFormatError(ValueError):
    """A data file is there, but damaged or not what it should be."""


@dataclass(frozen=True)
class DataFolder:
    """The folder from which one data set is read."""

    name: str  # the data set, for messages
    origin: str  # where its files can be had, for messages
    folder: str | Path | None = None  # overrides ``ANYTIME_DATA``

    def path(self, file: str) -> Path:
        """Where ``file`` lies, compressed or not."""
        root = self._root()
        for path in (root / f"{file}.gz", root / file):
            if path.is_file():
                return path
        raise DataNotFoundError(
            f"data set {self.name!r} needs {file}.gz or {file} in {root}, and neither is there; "
            f"put the file there ({self.origin})"
        )

    def _root(self) -> Path:
        folder = self.folder if self.folder is not None else os.environ.get(VARIABLE)
        if not folder:
            raise DataNotFoundError(
                f"data set {self.name!r} is read from files that do not come with anytime; set the environment variable "
                f"{VARIABLE} to the folder that holds them, or pass folder="
            )
        root = Path(folder).expanduser()
        if not root.is_dir():
            named = "folder=" if self.folder is not None else VARIABLE
            raise DataNotFoundError(
                f"{named} names {str(root)!r}, which is not a folder; create it or name another"
            )
        return root

    def read(self, file: str) -> bytes:
        """The contents of ``file``, decompressed."""
        path = self.path(file)
        with reading(path):
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data


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
            f"{named} does not have the expected contents: {str(error).strip() or type(error).__name__}; "
            "fetch it again and compare its checksum"
        ) from error
