"""``anytime export``: a model for ONNX Runtime, or as a C header."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import check_writable, load_model
from anytime.cli.options import CostlyFile, ModelFile, Trusted, option
from anytime.cli.tables import amount, console, note, step


class Format(StrEnum):
    """Output formats."""

    onnx = "onnx"
    c = "c"


def export(
    model: ModelFile,
    output: Annotated[Path, option("FILE", "The file to write: .onnx or .h.", "--output", "-o")],
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Output format. None: from the file name.", show_default=False),
    ] = None,
    budget: Annotated[
        float | None, option("COST", "The most that any row may pay. None: all.", min=0.0)
    ] = None,
    mean_budget: Annotated[
        float | None, option("COST", "The most that rows may pay on average. None: all.", min=0.0)
    ] = None,
    budgets: Annotated[
        str | None, option("A,B,all", "ONNX: one answer for each of these budgets, in one model.")
    ] = None,
    float32: Annotated[
        bool, typer.Option("--float32", help="ONNX: the input is float32 instead of float64.")
    ] = False,
    name: Annotated[str | None, option("NAME", "C: prefix of all names. None: the file name.")] = None,
    costly: CostlyFile = None,
    trusted: Trusted = False,
) -> None:
    """Export a model to ONNX or to a C header.

    With --budgets, the ONNX model has an output per budget and computes shared work once. The C header can be stopped after any
    stage and answers at every budget.

    Example: anytime export heart.anytime --budgets 5,20,all -o heart.onnx
    """
    form = _format(output) if form is None else form
    if (budget is not None or mean_budget is not None) and budgets is not None:
        raise UsageError("--budgets cannot be combined with --budget or --mean-budget")
    if form is Format.c and (budgets is not None or float32):
        raise UsageError(
            "--budgets and --float32 are for ONNX: a C header reads doubles and answers at every budget"
        )
    if form is Format.onnx and name is not None:
        raise UsageError("--name applies to C headers only")
    amounts = None if budgets is None else _amounts(budgets)
    check_writable(output)
    loaded = load_model(model, costly, trusted)
    counted_by_stages = loaded.meter == "realised" and (budget is not None or budgets is not None)
    loaded.set_params(meter="model")
    if budget is not None or mean_budget is not None:
        plan, unit = loaded.plan_, loaded.costs_.unit
        loaded = loaded.truncate(budget, mean_budget=mean_budget)
        if loaded.n_stages_ == 0:
            ticks = plan.stage_ticks if mean_budget is None else plan.mean_ticks
            first = amount(plan.costs.costs.amount(int(ticks[0])), unit)
            bound = f"--budget {budget:g}" if mean_budget is None else f"--mean-budget {mean_budget:g}"
            raise CliError(f"{bound} buys no stage: the first costs {first}")
    with step(f"writing {output}"):
        if form is Format.onnx:
            loaded.to_onnx(output, budgets=amounts, dtype="float32" if float32 else "float64")
        else:
            loaded.to_c(output, name=name)
    if counted_by_stages:
        note("the exported model does not track what rows pay: budgets count the maximum cost of stages")
    console().print(f"wrote {output}: {output.stat().st_size / 1e3:,.0f} kB", soft_wrap=True)


def _format(output: Path) -> Format:
    format_of_ending = {".onnx": Format.onnx, ".h": Format.c, ".c": Format.c}
    if output.suffix.lower() not in format_of_ending:
        raise UsageError(f"{output} does not end in .onnx or .h: rename it, or give --format")
    return format_of_ending[output.suffix.lower()]


def _amounts(text: str) -> list[float | None]:
    """Budgets as they stand in ``--budgets``."""
    out: list[float | None] = []
    for part in text.split(","):
        try:
            out.append(None if part.strip() == "all" else float(part))
        except ValueError:
            raise UsageError(
                f"--budgets holds {part.strip()!r}; it is a list of costs, such as 5,20,all"
            ) from None
    return out
