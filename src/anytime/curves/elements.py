"""Answers for structures, judged by their elements: a row of what a metric sees is a word, a region, a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Elements(NamedTuple):
    """Labelled elements of structures.

    Attributes
    ----------
    y : (m,) array
        Their labels.
    owner : (m,) int
        The structure of each.
    kept : (E,) bool
        Which of all elements have a label.
    n_structures : int
    depth : int
        Axes of the labels of a structure: 1 for sequences, 2 for maps of pixels.
    """

    y: NDArray[Any]
    owner: NDArray[np.intp]
    kept: NDArray[np.bool_]
    n_structures: int
    depth: int

    @classmethod
    def of(cls, y: Any, ignored: Any = None) -> Elements:
        """Read a list with one sequence or map of labels per structure; None, and the label ``ignored``, stand for no label."""
        labels = [part if _has_labels_only(part) else np.asarray(part, dtype=object) for part in y]
        lengths = [part.size for part in labels]
        flat = np.concatenate([part.ravel() for part in labels] or [np.empty(0, dtype=object)])
        kept = np.array(
            [label is not None for label in flat] if flat.dtype == object else np.ones(flat.size), dtype=bool
        )
        if ignored is not None:
            kept &= flat != ignored
        if not kept.any():
            raise ValueError("no element has a label; a curve needs at least one")
        owner = np.repeat(np.arange(len(labels)), lengths)
        values = np.array(flat[kept].tolist()) if flat.dtype == object else flat[kept]
        return cls(values, owner[kept], kept, len(labels), max((part.ndim for part in labels), default=1))

    def flat(self, parts: Any) -> NDArray[Any]:
        """Values of the labelled elements, from a list with one array per structure."""
        arrays = [np.asarray(part) for part in parts]
        joined = np.concatenate([a.reshape(-1, *a.shape[self.depth :]) if a.size else a for a in arrays])
        if len(joined) != self.kept.size:
            raise ValueError(
                f"there are answers for {len(joined)} elements, but y has labels for {self.kept.size}"
            )
        return np.asarray(joined[self.kept])


def _has_labels_only(part: Any) -> bool:
    """Whether labels are an array that cannot hold None."""
    return isinstance(part, np.ndarray) and part.dtype.kind in "biuU"


def chunk_f1(y: Any, prediction: Any) -> float:
    """F1 of chunks in labels of the forms ``B-NP``, ``I-NP``, ``O``: a chunk counts when its kind and both ends are right.

    Parameters
    ----------
    y, prediction : list of sequences of str
        One sequence of labels per structure.

    Raises
    ------
    ValueError
        If the two differ in length, or a label has another form.

    Examples
    --------
    >>> chunk_f1([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "O", "O"]])
    0.6666666666666666
    """
    lengths = [len(part) for part in y]
    if lengths != [len(part) for part in prediction]:
        raise ValueError("y and prediction need the same number of labels for each structure")
    truth, predicted = (
        np.array([label for part in labels for label in part], dtype=str) for labels in (y, prediction)
    )
    return chunk_score(truth, predicted, np.repeat(np.arange(len(lengths)), lengths))


def chunk_score(y: NDArray[Any], prediction: NDArray[Any], owner: NDArray[np.intp]) -> float:
    """``chunk_f1`` of the labels of all elements, given the structure of each."""
    first, second = _chunks(y, owner), _chunks(prediction, owner)
    right = first.starts & second.starts & (first.end == second.end) & (first.kind == second.kind)
    total = int(first.starts.sum() + second.starts.sum())
    return 2.0 * int(right.sum()) / total if total else 1.0


class _Chunks(NamedTuple):
    starts: NDArray[np.bool_]  # whether a chunk starts at each element
    end: NDArray[np.intp]  # where it ends
    kind: NDArray[Any]


def _chunks(labels: NDArray[Any], owner: NDArray[np.intp]) -> _Chunks:
    """Chunks as the evaluation of CoNLL-2000 reads them: an I of another kind, or after an O, starts one."""
    names, code = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
    parts = [name.partition("-") for name in names.tolist()]
    other = [
        name
        for name, (prefix, _, _) in zip(names.tolist(), parts, strict=True)
        if prefix not in ("B", "I", "O")
    ]
    if other:
        raise ValueError(
            f"chunks are read from labels of the forms B-x, I-x and O; {other[0]!r} has none of these forms"
        )
    inside = np.array([prefix in ("B", "I") for prefix, _, _ in parts])[code]
    begins = np.array([prefix == "B" for prefix, _, _ in parts])[code]
    kind = np.array([rest for _, _, rest in parts])[code]
    n = code.size
    follows = np.zeros(n, dtype=bool)
    follows[1:] = inside[:-1] & (owner[1:] == owner[:-1]) & (kind[1:] == kind[:-1])
    starts = inside & (begins | ~follows)
    breaks = np.flatnonzero(starts | ~inside | np.append(True, owner[1:] != owner[:-1])[:n])
    after = np.searchsorted(breaks, np.arange(n), side="right")
    end = np.append(breaks, n)[after]
    return _Chunks(starts, end, kind)
