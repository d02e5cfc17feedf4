"""``anytime next``: what to buy next for one row."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import load_model
from anytime.cli.options import CostlyFile, ModelFile, Trusted, option
from anytime.cli.structures import labels_structures
from anytime.cli.tables import number, print_table, print_text

if TYPE_CHECKING:
    from anytime.advice import NextPurchase


def next_purchase(
    model: ModelFile,
    row: Annotated[
        str,
        option(
            "JSON",
            "The known values of the row, by column or by group: '{\"age\": 63}', or a file with such JSON; - reads it from a "
            "pipe. None: nothing yet.",
        ),
    ] = "{}",
    bought: Annotated[
        str | None, option("A,B,...", "Groups already bought. None: those with values in --row.")
    ] = None,
    budget: Annotated[
        float | None,
        option("COST", "The most that the row may pay in total, including what it has bought.", min=0.0),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    costly: CostlyFile = None,
    trusted: Trusted = False,
) -> None:
    """Recommend which group to buy next for one row, and explain why.

    Example: anytime next heart.anytime --row '{"age": 63, "sex": "f"}' --budget 20
    """
    loaded = load_model(model, costly, trusted)
    if labels_structures(loaded):
        raise UsageError(f"{model} labels whole structures; `anytime next` is for models of rows")
    names = None if bought is None else [name.strip() for name in bought.split(",") if name.strip()]
    from anytime.rows import reader_of  # takes its time

    row_values = _row(row)
    if hint := reader_of(loaded).one(row_values).hint:
        raise CliError(f"--row: {hint}")
    advice = loaded.next(row_values, names, budget=budget)
    if as_json:
        print(json.dumps(advice.to_dict(), indent=1))
    else:
        _print(advice)


def _row(argument: str) -> Any:
    """The JSON object that was typed, or that a file or a pipe holds."""
    if not argument.strip():
        raise UsageError("--row is empty: give a JSON object, a file, or - for a pipe")
    where = "standard input" if argument == "-" else argument
    try:
        if argument.lstrip()[:1] in ("{", "["):
            where, text = "--row", argument
        else:
            text = sys.stdin.read() if argument == "-" else Path(argument).read_text(encoding="utf-8")
        row = json.loads(text)
    except UnicodeDecodeError:
        raise CliError(f"{where} is not JSON: it is not text in UTF-8") from None
    except RecursionError:
        raise CliError(f"{where} is nested too deeply: a row is an object or a list of values") from None
    except ValueError as error:
        raise CliError(f"{where} is not JSON: {error}") from None
    if not isinstance(row, (dict, list)):
        raise CliError(f"{where} must be an object with column names, or a list of values in column order")
    return row


def _print(advice: NextPurchase) -> None:
    print_text(str(advice))
    if not advice.offers:
        return
    change = "changes the answer" if advice.probability is not None else "mean change"
    header = ["<group", "<buys", f"price ({advice.unit})" if advice.unit else "price", "gain", change]
    rows = [
        [line["group"], line["buys"], number(line["price"], 6)]
        + ["-" if line[name] is None else number(line[name]) for name in ("gain", "change")]
        for line in advice.table()
    ]
    told_columns = [j for j in range(len(header)) if any(line[j] != "-" for line in rows)]
    print_table(
        [header[j] for j in told_columns], [[line[j] for j in told_columns] for line in rows], title="Offers"
    )
