"""``anytime convert``: a model file of another library becomes an ``.anytime`` file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import (
    UnknownLabel,
    check_writable,
    features_for,
    listing,
    read_costs,
    read_table,
    target_for,
    word_columns,
)
from anytime.cli.tables import console, note, print_title, step

if TYPE_CHECKING:
    from anytime.costs import FeatureCosts
    from anytime.trees.importers import Imported

__all__ = ["convert"]

_PICKLES = (".pkl", ".pickle", ".joblib")


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_FILE",
            help="LightGBM's text, XGBoost's .json or .ubj, or with --trusted a scikit-learn model (.pkl, .joblib).",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The .anytime file to write.")
    ],
    costs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Price list in YAML or CSV. None: 1 per column.")
    ] = None,
    holdout: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Rows that the model was not trained on: they order its trees by gain per cost.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", metavar="COLUMN", help="The column of --holdout with the truth."),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Labels in the order of training; LightGBM and XGBoost files do not keep them.",
        ),
    ] = None,
    trusted: Annotated[
        bool,
        typer.Option(
            "--trusted", help="Open a pickle. That runs code of whoever wrote it: do so only for your own."
        ),
    ] = False,
) -> None:
    """Make a model that you already have interruptible.

    Its full prediction stays the same. LightGBM and XGBoost files are read without those libraries. Without --holdout
    the trees keep their order; with it, every budget buys as much as it can.

    Example: anytime convert model.txt --costs prices.yaml --holdout valid.csv --target y -o model.anytime
    """
    if (holdout is None) != (target is None):
        raise UsageError("--holdout and --target go together: rows, and the column with the truth")
    check_writable(output)
    imported = _import(source, trusted)
    model = _unordered(imported, classes)
    held = None
    if holdout is not None and target is not None:
        held = _held_out(model, holdout, target, labelled=classes is not None)
    model.costs = read_costs(costs) or _unit_costs(model)
    with step(f"ordering {imported.trees.n_stages} stages"):
        _adopt(model, imported, held)
    model.save(output)
    print_title(f"{imported.source}: {imported.trees.n_trees} trees in {imported.trees.n_stages} stages")
    _say_what_it_buys(model, held, holdout)
    console().print(f"wrote {output}", soft_wrap=True)


def _import(path: Path, trusted: bool) -> Imported:
    from anytime.trees.importers import import_file

    with path.open("rb") as file:
        pickled = path.suffix.lower() in _PICKLES or file.read(1) == b"\x80"
    if not pickled:
        return import_file(path)
    if not trusted:
        raise UsageError(
            f"{path} is a pickle, and opening one runs code of whoever wrote it; if you trust the file, add --trusted"
        )
    try:
        return import_file(path, trusted=True)
    except (ImportError, TypeError, ValueError):
        raise
    except Exception as error:  # a broken pickle can raise anything at all
        raise CliError(f"{path} cannot be unpickled: {type(error).__name__}: {error}") from error


def _unordered(imported: Imported, classes: str | None) -> Any:
    """A model that knows its labels and columns, and no plan yet."""
    import numpy as np

    from anytime.losses import LINKS
    from anytime.trees.models import AnytimeClassifier, AnytimeRegressor

    model = (AnytimeClassifier if LINKS[imported.link].classifies else AnytimeRegressor)(
        validation_fraction=None
    )
    model.n_features_in_ = imported.trees.n_features
    if imported.feature_names is not None:
        model.feature_names_in_ = np.array(imported.feature_names, dtype=object)
    model.categories_ = imported.categories
    if imported.classes is None:
        if classes is not None:
            raise UsageError("--classes is for classifiers, but this model predicts numbers")
        return model
    model.classes_ = imported.classes
    if classes is not None:
        labels = [label.strip() for label in classes.split(",")]
        if len(labels) != len(imported.classes) or len(set(labels)) < len(labels):
            raise UsageError(
                f"--classes names {listing(labels)}, but the model has {len(imported.classes)} classes"
            )
        model.classes_ = np.array(labels)
    return model


def _unit_costs(model: Any) -> FeatureCosts | None:
    """1 per column, called by its name where it has one."""
    from anytime.costs import FeatureCosts

    names = getattr(model, "feature_names_in_", None)
    return None if names is None else FeatureCosts(dict.fromkeys(map(str, names), 1.0), unit="columns")


def _held_out(model: Any, path: Path, target: str, labelled: bool) -> tuple[Any, Any]:
    """Held-out rows by the model's own columns; a file without names takes those of the table."""
    import numpy as np

    table = read_table(path, words=word_columns(model))
    try:
        y = target_for(model, table, target, path)
    except UnknownLabel as error:
        hint = "" if labelled else "; give the labels in the order of training with --classes"
        raise CliError(f"{error}{hint}") from None
    if not hasattr(model, "feature_names_in_"):
        names = [name for name in table.columns if name != target]
        if len(names) == model.n_features_in_:
            model.feature_names_in_ = np.array(names, dtype=object)
    return features_for(model, table, path, without=target), y


def _adopt(model: Any, imported: Imported, held: tuple[Any, Any] | None) -> None:
    labels = getattr(model, "classes_", None)
    if labels is not None and held is not None:
        X, y = held
        number = {label: c for c, label in enumerate(labels.tolist())}
        held = X, imported.classes[[number[label] for label in y.tolist()]]  # type: ignore[index]
    model._adopt(imported, None if held is None else (*held, None))
    if labels is not None:
        model.classes_ = labels


def _say_what_it_buys(model: Any, held: tuple[Any, Any] | None, path: Path | None) -> None:
    from anytime.cli.purchases import print_purchases
    from anytime.curves import curve

    if held is None:
        print_purchases(model)
        note(
            "the trees keep their trained order; with --holdout and --target they are sorted by gain per cost"
        )
        return
    print_purchases(
        model, curve(model, *held), f"the {len(held[1])} rows of {path}, which also ordered the stages"
    )
