"""``anytime compare``: several models on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.curve import Meter, judge, meaning_of_timeliness, save_figure
from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import check_writable, features_for, load_model, read_table, target_for, word_columns
from anytime.cli.options import NaValues, Truth, option
from anytime.cli.structures import refuse_structures
from anytime.cli.tables import console, counted, note, number, print_table, print_title, share

if TYPE_CHECKING:
    from anytime.curves import AnytimeCurve, Comparison


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL... DATA", help="The .anytime files, then the CSV or Parquet file."),
    ],
    target: Truth,
    metric: Annotated[
        str | None, option("NAME", "Name of a scikit-learn scorer. None: accuracy or R².")
    ] = None,
    meter: Annotated[
        Meter | None, typer.Option(help="How cost is counted; see anytime curve --help.")
    ] = None,
    report: Annotated[
        Path | None, option("FILE", "Write an HTML page with curves and a budget slider.")
    ] = None,
    plot: Annotated[Path | None, option("FILE", "Plot the curves to a PNG, SVG or PDF file.")] = None,
    na_values: NaValues = None,
) -> None:
    """Compare models at every budget, on the same rows.

    Example: anytime compare small.anytime large.anytime test.csv --target disease --report report.html
    """
    from anytime.curves import Comparison
    from anytime.curves.evaluate import usual_meter

    *paths, data = files
    _check_arguments(paths, data)
    check_writable(report, plot)
    models = {name: load_model(path) for name, path in zip(_names(paths), paths, strict=True)}
    for fitted, path in zip(models.values(), paths, strict=True):
        refuse_structures(fitted, path)
    _check_questions(models)
    table = read_table(data, [word for model in models.values() for word in word_columns(model)], na_values)
    curves = {}
    axis = meter or usual_meter(models.values())
    for name, model in models.items():  # each by its own columns: they need not be the same
        y = target_for(model, table, target, data)
        X = features_for(model, table, data, without=target)
        curves[name] = judge(model, X, y, metric, axis, name)
    _check_units(curves)
    result = Comparison(curves, n_rows=len(table))
    print_title(f"{result.first.metric} of {counted(len(models), 'model')} on {counted(len(table), 'row')}")
    print_comparison(result)
    if report is not None:
        result.report(report, title=f"Models on {data.name}")
        note(f"wrote {report}")
    if plot is not None:
        save_figure(result.plot().figure, plot)


def print_comparison(result: Comparison, *, log: bool = False) -> None:
    """The curves, and one line per model: where it ends, how soon it is good."""
    from anytime.cli.plot import print_curves

    print_curves(result.curves, log=log)
    unit = f" ({result.first.unit})" if result.first.unit else ""
    columns = ["<model", "final", "timeliness", f"cost{unit}", "to 90%", "to 95%", "to 99%"]
    rows = []
    for name, line in result.summary().iterrows():
        quality = [share(line["final"]), share(line["timeliness"])]
        costs = [line["total cost"], line["cost to 90%"], line["cost to 95%"], line["cost to 99%"]]
        rows.append([str(name), *quality, *[number(cost) for cost in costs]])
    print_table(columns, rows)
    console().print(
        "to 90%: the cost of 90% of a model's gain over answering without any column",
        soft_wrap=True,
    )
    console().print(f"timeliness: {meaning_of_timeliness(result.horizon, result.unit())}", soft_wrap=True)


def _check_arguments(paths: Sequence[Path], data: Path) -> None:
    if not paths:
        raise UsageError("compare needs at least one .anytime file, and a table as the last argument")
    if data.suffix == ".anytime":
        raise UsageError(f"the last argument is the table, but {data} looks like a model")
    if len(set(paths)) < len(paths):
        raise UsageError("the same model is named twice")


def _names(paths: Sequence[Path]) -> list[str]:
    """File names without their endings, or whole paths where those are not distinct."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _check_questions(models: Mapping[str, Any]) -> None:
    kinds = {name: "classes" if hasattr(model, "classes_") else "numbers" for name, model in models.items()}
    if len(set(kinds.values())) > 1:
        answers = ", ".join(f"{name} with {kind}" for name, kind in kinds.items())
        raise UsageError(f"these models answer different questions: {answers}")


def _check_units(curves: Mapping[str, AnytimeCurve]) -> None:
    units = {curve.unit for curve in curves.values()}
    if len(units) > 1:
        counted = ", ".join(f"{name} in {curve.unit or 'no unit'}" for name, curve in curves.items())
        raise CliError(f"costs are counted in different units: {counted}")
