"""``anytime curve``: the quality that each budget buys."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.io import check_writable, features_for, load_model, read_table, target_for, word_columns
from anytime.cli.options import CostlyFile, ModelFile, NaValues, Trusted, Truth, option
from anytime.cli.structures import refuse_structures
from anytime.cli.tables import amount, console, note, number, print_table, print_title, share, step, thinned

if TYPE_CHECKING:
    from anytime.curves import AnytimeCurve

_SHARES = (0.90, 0.95, 0.99)


class Meter(StrEnum):
    """What ``--meter`` may be."""

    budget = "budget"
    model = "model"
    realised = "realised"
    time = "time"


def curve(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file with true labels.")],
    target: Truth,
    metric: Annotated[
        str | None,
        option(
            "NAME", "Name of a scikit-learn scorer. None: accuracy for classification, R² for regression."
        ),
    ] = None,
    meter: Annotated[
        Meter | None,
        typer.Option(
            help="How cost is counted: the most that any row may pay, the maximum cost of each stage, what rows actually pay on "
            "average, or seconds for the batch.",
            show_default="as the model counts its budgets",
        ),
    ] = None,
    plot: Annotated[Path | None, option("FILE", "Plot the curve to a PNG, SVG or PDF file.")] = None,
    as_json: Annotated[
        Path | None, option("FILE", "Write all points to a JSON file; - writes to standard output.", "--json")
    ] = None,
    costly: CostlyFile = None,
    trusted: Trusted = False,
    na_values: NaValues = None,
) -> None:
    """Show the quality at each budget.

    Example: anytime curve heart.anytime test.csv --target disease --plot curve.png
    """
    to_stdout = as_json is not None and str(as_json) == "-"
    check_writable(plot, None if to_stdout else as_json)
    loaded = load_model(model, costly, trusted)
    refuse_structures(loaded, model)
    table = read_table(data, word_columns(loaded), na_values)
    y = target_for(loaded, table, target, data)
    X = features_for(loaded, table, data, without=target)
    judged = judge(loaded, X, y, metric, meter, model.stem)
    if to_stdout:
        print(json.dumps(contents(judged), indent=1))
        return
    _print_curve(judged, len(table))
    if as_json is not None:
        as_json.write_text(json.dumps(contents(judged), indent=1) + "\n", encoding="utf-8")
        note(f"wrote {as_json}")
    if plot is not None:
        save_figure(judged.plot().figure_, plot)


def judge(model: Any, X: Any, y: Any, metric: str | None, meter: str | None, label: str) -> AnytimeCurve:
    """``anytime.curve`` with a spinner."""
    from anytime.curves import curve as evaluate

    with step(f"evaluating {model.n_stages_} stages on {len(y)} rows"):
        return evaluate(model, X, y, metric=metric, meter=meter and str(meter), label=label)  # type: ignore[arg-type]


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, and say so."""
    figure.savefig(path, dpi=150)
    note(f"wrote {path}")


def contents(judged: AnytimeCurve) -> dict[str, Any]:
    """The curve as plain lists and numbers."""
    table = judged.to_frame()
    return {
        "metric": judged.metric,
        "greater_is_better": judged.greater_is_better,
        "meter": judged.meter,
        "unit": judged.unit,
        "timeliness": _timeliness(judged),
        "cost_to_reach": {f"{part:.0%}": judged.stopping_cost(part) for part in _SHARES},
        "purchases": [asdict(purchase) for purchase in judged.purchases],
        "points": {str(name): table[name].tolist() for name in table.columns},
    }


def _timeliness(judged: AnytimeCurve) -> float | None:
    from math import isfinite

    normalise: Any = "initial_risk" if judged.perfect is not None else "final_objective"
    value = judged.timeliness(normalise=normalise, rule="step")  # as in a comparison
    return value if isfinite(value) else None


def meaning_of_timeliness(horizon: float, unit: str | None) -> str:
    """What the figure says."""
    return f"mean share of the possible gain up to {amount(horizon, unit)}"


def _print_curve(judged: AnytimeCurve, n_rows: int) -> None:
    from anytime.cli.plot import print_curves

    points = "budgets" if judged.meter == "budget" else "stages"
    print_title(f"{judged.metric} against cost, {n_rows} rows, {len(judged) - 1} {points}")
    print_curves({judged.label or "model": judged})
    print_table(_header(judged), [_line(judged, j) for j in _worth_showing(judged)])
    timeliness = _timeliness(judged)
    out = console()
    if timeliness is not None:
        out.print(f"timeliness  {timeliness:.4f}  ({meaning_of_timeliness(judged.total_cost, judged.unit)})")
    for part in _SHARES:
        out.print(f"{part:.0%} of the gain costs  {amount(judged.stopping_cost(part), judged.unit)}")


def _header(judged: AnytimeCurve) -> list[str]:
    branch = ["branch"] if judged.has_branches else []
    return ["stage", *branch, f"cost ({judged.unit})" if judged.unit else "cost", judged.metric, "groups"]


def _line(judged: AnytimeCurve, j: int) -> list[str]:
    assert judged.stages is not None
    assert judged.branches is not None
    number_of = int(judged.branches[j])
    branch = ["chain" if number_of < 0 else str(number_of)] if judged.has_branches else []
    return [
        str(int(judged.stages[j])),
        *branch,
        number(float(judged.costs[j]), 6),
        share(float(judged.values[j])),
        str(judged.groups_bought()[j]),
    ]


def _worth_showing(judged: AnytimeCurve, most: int = 12) -> list[int]:
    """The last point of each cost, as that is what a budget buys; thinned."""
    import numpy as np

    last = np.flatnonzero(np.append(np.diff(judged.costs) > 0, True))
    return [int(last[k]) for k in thinned(len(last), most)]
