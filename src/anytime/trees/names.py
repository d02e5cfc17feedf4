"""Column names: which ones a table has, and whether they are those a model was trained on."""

from collections.abc import Sequence
from typing import Any

from anytime._compat import feature_names_of
from anytime.trees.importers import Imported


def column_names(X: Any) -> list[str] | None:
    """Names of a table's columns as scikit-learn counts them: only if all are strings."""
    names = feature_names_of(X)
    return None if names is None else [str(name) for name in names]


def without_blanks(name: str) -> str:
    """A name as LightGBM writes it: with ``_`` for a blank."""
    return name.replace(" ", "_")


def same_names(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether names are the same in the same order. LightGBM writes ``_`` for a blank, so the two count as equal."""
    return list(map(without_blanks, some)) == list(map(without_blanks, others))


def check_names(names: Sequence[str], imported: Imported) -> None:
    """Raise unless the columns called ``names`` are those, in that order, that a model which keeps names was trained on."""
    trained = imported.feature_names
    if trained is None or same_names(names, trained):
        return
    j = next(j for j, (name, expected) in enumerate(zip(names, trained, strict=True)) if name != expected)
    if same_names(sorted(names), sorted(trained)):
        raise ValueError(
            f"the columns are in another order than {imported.source} was trained on: column {j} is {names[j]!r}, but was "
            f"{trained[j]!r} in training. Put them in the order of training"
        )
    raise ValueError(
        f"{imported.source} was trained on other columns: column {j} is {names[j]!r}, but was {trained[j]!r} in training"
    )
