"""Tables from the user's data folder, and their class labels."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anytime.datasets.sources import DataFolder, DataFormatError, DataNotFoundError, reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Classes", "DataFormatError", "DataNotFoundError", "Source", "class_numbers", "reading"]

Classes = Mapping[str, str]  # from each label in a file to its name


class Source(DataFolder):
    """The folder from which one data set is read, as tables too."""

    def table(self, file: str, **options: Any) -> pd.DataFrame:
        """Delimited text, without a header line unless ``header=0`` is passed."""
        import pandas as pd

        contents = io.BytesIO(self.read(file))
        with reading(self.path(file)):
            table: pd.DataFrame = pd.read_csv(contents, **{"header": None, **options})
        return table


def class_numbers(
    labels: pd.Series[Any] | NDArray[Any], classes: Classes | None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Class numbers and class names; numbers as they are where ``classes`` is None."""
    import pandas as pd

    if classes is None:
        return np.asarray(labels, dtype=np.float64), None
    codes, found = pd.factorize(np.asarray(labels))
    number = {label: k for k, label in enumerate(dict.fromkeys(classes.values()))}
    position = []
    for label in map(_label, found):
        if label not in classes:
            raise ValueError(f"{label!r} is not one of its class labels {', '.join(classes)}")
        position.append(number[classes[label]])
    if (codes < 0).any():
        raise ValueError("a class label is missing")
    return np.asarray(position, dtype=np.intp)[codes], tuple(number)


def _label(value: Any) -> str:
    return str(value).strip() if isinstance(value, str) else f"{value:g}"
