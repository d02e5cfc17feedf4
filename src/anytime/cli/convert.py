"""``anytime convert``: a model file of another library becomes an ``.anytime`` file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
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
    refuse_pickle,
    target_for,
    word_columns,
)
from anytime.cli.options import NaValues, OutputFile, PriceList, Trusted, option
from anytime.cli.tables import console, note, print_title, step

if TYPE_CHECKING:
    from anytime.costs import FeatureCosts
    from anytime.trees.importers import Imported


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_FILE",
            help="LightGBM text file, XGBoost .json or .ubj, or, with --trusted, a scikit-learn model (.pkl, .joblib).",
        ),
    ],
    output: OutputFile,
    costs: PriceList = None,
    validation: Annotated[
        Path | None,
        option("DATA", "Validation rows, not used in training, that order the trees by gain per cost."),
    ] = None,
    target: Annotated[
        str | None, option("COLUMN", "The column of --validation with the true labels.", "--target", "-t")
    ] = None,
    classes: Annotated[
        str | None,
        option("A,B,…", "Class labels in training order; LightGBM and XGBoost files do not store them."),
    ] = None,
    mean_budget: Annotated[
        float | None,
        option(
            "COST",
            "Prune a forest to this average cost on the --validation rows; smaller mean budgets remain possible.",
            min=0.0,
        ),
    ] = None,
    train: Annotated[
        Path | None,
        option(
            "DATA",
            "With --mean-budget: the training rows of the forest, to refit the leaves that pruning keeps.",
        ),
    ] = None,
    trusted: Trusted = False,
    na_values: NaValues = None,
) -> None:
    """Make an existing model interruptible.

    Its full prediction stays the same, unless --mean-budget prunes a forest. LightGBM and XGBoost files are read without
    those libraries. With --validation, trees are reordered so that each budget buys as much as possible; without it, they
    keep their order.

    Example: anytime convert model.txt --costs prices.yaml --validation valid.csv --target y -o model.anytime
    """
    if (validation is None) != (target is None):
        raise UsageError("--validation and --target go together: the rows, and their column of true labels")
    if mean_budget is not None and validation is None:
        raise UsageError("--mean-budget needs validation rows: give --validation and --target")
    if train is not None and mean_budget is None:
        raise UsageError("--train is used only with --mean-budget: without pruning, no leaf is refitted")
    check_writable(output)
    prices = read_costs(costs)
    imported = _labelled(_import(source, trusted), classes)

    def rows_of(path: Path) -> tuple[Any, Any]:
        assert target is not None
        return _rows_of(imported, path, target, na_values, named=classes is not None)

    held = None if validation is None else rows_of(validation)
    if mean_budget is not None and held is not None:
        training_rows = None if train is None else rows_of(train)
        forest: Any = imported
        if training_rows is not None and classes is None and refuse_pickle(source, trusted):
            import joblib

            forest = joblib.load(source)  # it remembers which rows each tree has drawn
        model = _pruned(forest, imported.trees.n_trees, held, training_rows, prices, mean_budget)
    else:
        model = _ordered(imported if held is not None else _named_as_priced(imported, prices), held, prices)
    model.save(output)
    print_title(f"{imported.source}: {imported.trees.n_trees} trees in {model.n_stages_} stages")
    _say_what_it_buys(model, held, validation)
    console().print(f"wrote {output}", soft_wrap=True)


def _ordered(imported: Imported, held: tuple[Any, Any] | None, costs: Any) -> Any:
    from anytime.trees import make_anytime

    with step(f"ordering {imported.trees.n_trees} trees"):
        X, y = (None, None) if held is None else held
        return make_anytime(imported, costs=costs, X_val=X, y_val=y)


def _pruned(
    forest: Any,
    n_trees: int,
    held: tuple[Any, Any],
    train: tuple[Any, Any] | None,
    costs: Any,
    mean_budget: float,
) -> Any:
    from anytime.forests import prune_forest

    X_train, y_train = (None, None) if train is None else train
    with step(f"pruning {n_trees} trees"):
        return prune_forest(
            forest, *held, costs=costs, mean_budget=mean_budget, X_train=X_train, y_train=y_train
        )


def _import(path: Path, trusted: bool) -> Imported:
    from anytime.trees.importers import import_file

    if path.suffix.lower() == ".anytime":
        raise UsageError(
            f"{path} is already an .anytime model: use it directly with predict, curve, serve and the other commands"
        )
    if not refuse_pickle(path, trusted):
        return import_file(path)
    try:
        return import_file(path, trusted=True)
    except (ImportError, TypeError, ValueError):
        raise
    except Exception as error:  # a broken pickle can raise anything at all
        raise CliError(f"{path} cannot be unpickled: {type(error).__name__}: {error}") from error


def _labelled(imported: Imported, classes: str | None) -> Imported:
    """The model with the labels that the user gives."""
    import numpy as np

    if classes is None:
        return imported
    if imported.classes is None:
        raise UsageError("--classes is for classifiers, but this model predicts numbers")
    labels = [label.strip() for label in classes.split(",")]
    if len(labels) != len(imported.classes) or len(set(labels)) < len(labels):
        raise UsageError(
            f"--classes names {listing(labels)}, but the model has {len(imported.classes)} classes"
        )
    return replace(imported, classes=np.array(labels))


def _named_as_priced(imported: Imported, costs: FeatureCosts | None) -> Imported:
    """The model with its columns called as the price list calls them: LightGBM writes ``_`` for a blank."""
    if costs is None or imported.feature_names is None:
        return imported
    from anytime.rows import spellings

    priced = [str(column) for columns in costs.groups.values() for column in columns]
    here = spellings(imported.feature_names, priced)
    return replace(imported, feature_names=[here.get(name, name) for name in imported.feature_names])


def _rows_of(
    imported: Imported, path: Path, target: str, na_values: list[str] | None, named: bool
) -> tuple[Any, Any]:
    """Rows by the model's own columns; a model without names takes those of the table."""
    columns_of_model = SimpleNamespace(
        n_features_in_=imported.trees.n_features, categories_=imported.columns.categories
    )
    if imported.classes is not None:
        columns_of_model.classes_ = imported.classes
    if imported.feature_names is not None:
        columns_of_model.feature_names_in_ = imported.feature_names
    table = read_table(path, word_columns(columns_of_model), na_values)
    try:
        y = target_for(columns_of_model, table, target, path, all_known=True)
    except UnknownLabel as error:
        hint = "" if named else "; give the labels in the order of training with --classes"
        raise CliError(f"{error}{hint}") from None
    others = [name for name in table.columns if name != target]
    if imported.feature_names is not None:
        from anytime.rows import spellings

        here = spellings(imported.feature_names, others)  # the model takes over the names that its user has
        columns_of_model.feature_names_in_ = [here.get(name, name) for name in imported.feature_names]
    elif len(others) == columns_of_model.n_features_in_:
        columns_of_model.feature_names_in_ = others
    X = features_for(columns_of_model, table, path, without=target)
    if not hasattr(X, "columns"):
        return X, y
    if missing := [name for name in columns_of_model.feature_names_in_ if name not in X.columns]:
        raise CliError(f"{path} lacks the columns {listing(missing)} that the model was trained on")
    return X[list(columns_of_model.feature_names_in_)], y


def _say_what_it_buys(model: Any, held: tuple[Any, Any] | None, path: Path | None) -> None:
    from anytime.cli.purchases import print_purchases
    from anytime.curves import curve

    if held is None:
        print_purchases(model)
        note(
            "the trees keep their trained order; with --validation and --target they are sorted by gain per cost"
        )
        return
    print_purchases(
        model,
        curve(model, *held, meter=model.meter),
        f"the {len(held[1])} rows of {path}, which also chose the stages",
    )
