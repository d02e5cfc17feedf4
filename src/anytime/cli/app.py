"""The list of commands. What each takes and does stands in its own file."""

from typing import Annotated

import typer

from anytime.cli import (
    advise,
    compare,
    convert,
    curve,
    demo,
    doctor,
    export,
    fit,
    grow,
    inspection,
    predict,
    profiling,
    serve,
    simulate,
    stream,
)
from anytime.cli.errors import Commands

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,  # plain help is quicker and reads better in 80 columns
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import anytime

        print(f"anytime {anytime.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")] = False,
) -> None:
    """Predictions under a budget: train models that can be interrupted, predict with them, and see what each unit of cost buys.

    New here? Start with: anytime demo
    """


app.command()(demo.demo)
app.command()(fit.fit)
app.command()(stream.stream)
app.command()(grow.grow)
app.command()(predict.predict)
app.command("next")(advise.next_purchase)
app.command()(curve.curve)
app.command()(compare.compare)
app.command()(inspection.inspect)
app.command()(profiling.profile)
app.command()(convert.convert)
app.command()(export.export)
app.command()(serve.serve)
app.command()(simulate.simulate)
app.command()(doctor.doctor)
