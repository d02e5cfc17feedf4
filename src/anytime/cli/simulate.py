"""``anytime simulate``: what a server would have answered, and when, under each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import features_for, load_model, read_table, target_for, word_columns
from anytime.cli.options import CostlyFile, NaValues, Trusted, option
from anytime.cli.structures import refuse_structures
from anytime.cli.tables import console, counted, counting, note, number, print_table, share, step

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_TIMES = ("arrival", "time", "timestamp")  # columns that are taken for arrival times


def simulate(
    model: Annotated[Path, option("FILE", "An .anytime file.", "--model", "-m")],
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG]",
            help="CSV or Parquet file of requests: arrival times, with rows and true labels if available.",
            show_default=False,
        ),
    ] = None,
    slo_ms: Annotated[float, option("MS", "Latency target.", min=0.01)] = 10.0,
    rate: Annotated[
        float | None,
        option("PER_SECOND", "Poisson arrivals at this rate instead of the times in LOG.", min=0.001),
    ] = None,
    seconds: Annotated[float, option("S", "With --rate: duration.", min=0.1)] = 10.0,
    burst: Annotated[
        float,
        option(
            "FACTOR",
            "With --rate: one second in ten is this many times as busy, at the same mean rate.",
            min=1.0,
        ),
    ] = 1.0,
    speed: Annotated[
        float, option("FACTOR", "Replay the times in LOG this many times as fast.", min=0.001)
    ] = 1.0,
    time: Annotated[
        str | None,
        option("COLUMN", "Column with the arrival times.", show_default="arrival, time or timestamp"),
    ] = None,
    target: Annotated[str | None, option("COLUMN", "Column with the true labels.", "--target", "-t")] = None,
    workers: Annotated[int, option("N", "Worker processes.", min=1)] = 1,
    stage: Annotated[int | None, option("K", "Also compare with a fixed number of stages.", min=1)] = None,
    overhead_us: Annotated[float, option("US", "Time to read and answer one request.", min=0.0)] = 200.0,
    stage_us: Annotated[
        float | None,
        option("US", "Time of one stage for one row.", min=0.0, show_default="measured on this machine"),
    ] = None,
    seed: Annotated[int, option("N", "The same seed gives the same arrivals.")] = 0,
    costly: CostlyFile = None,
    trusted: Trusted = False,
    na_values: NaValues = None,
) -> None:
    """Replay requests on a virtual clock, to choose a policy.

    Compares the whole model, a smaller one that keeps up, and budgets that follow the load.

    Example: anytime simulate log.csv --model cells.anytime --slo-ms 10 --workers 2
    """
    if log is None and rate is None:
        raise UsageError("give a LOG of requests, or a --rate")
    if log is None and target is not None:
        raise UsageError("--target needs a LOG with that column")
    if log is not None and str(log) != "-":
        log.open("rb").close()  # raises what is wrong with it, before anything takes long
    fitted = load_model(model, costly, trusted)
    refuse_structures(fitted, model)
    from anytime.serve.simulate import Judge, bursts, largest_fixed

    table = None if log is None else read_table(log, word_columns(fitted), na_values)
    if rate is not None:
        arrivals = bursts(rate, seconds, factor=burst, random_state=seed)
    else:
        assert table is not None
        table, arrivals = _logged(table, log, time, speed)
    X, y = _rows(fitted, table, log, target, time)
    with step("measuring the time of stages"):
        pace = _pace(fitted, stage_us, X, overhead_us / 1e6)
    slo = slo_ms / 1e3
    whole, mean_rate = fitted.n_stages_, float((arrivals.size - 1) / (arrivals[-1] - arrivals[0]))
    if stage is not None and stage > whole:
        raise UsageError(f"--stage {stage}: the model has {whole} stages")
    with step("searching for the largest model that keeps up"):
        small = largest_fixed(pace, mean_rate, slo, workers=workers)
    judge = Judge(fitted, [*pace.checkpoints.tolist(), *([stage] if stage else [])], X, y)
    _describe(arrivals, mean_rate, workers, pace, whole)
    fixed = {stage: ""} if stage else {}
    fixed |= {1: " (none keeps up)"} if small is None else {small: " (keep up)"}
    fixed |= {whole: " (all)"}
    _compare(arrivals, pace, judge, fixed, slo, workers, seed)


# ---------------------------------------------------------------------- what is replayed


def _logged(
    table: pd.DataFrame, log: Path | None, time: str | None, speed: float
) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """The requests of a log in the order in which they came, and when that was."""
    import numpy as np

    name = _time_column(table, time)
    if name is None:
        raise UsageError(
            f"{log} has no column {' or '.join(map(repr, [time] if time else _TIMES))}; "
            "name the one with the times by --time, or give a --rate"
        )
    times = _seconds(table[name], name, log)
    order = np.argsort(times, kind="stable")
    times = times[order]
    if times.size < 2 or times[-1] <= times[0]:
        raise CliError(f"{log}: there have to be two requests at different times")
    return table.iloc[order], np.asarray((times - times[0]) / speed)


def _time_column(table: pd.DataFrame, time: str | None) -> str | None:
    return next((name for name in ([time] if time else _TIMES) if name in table.columns), None)


def _seconds(column: Any, name: str, log: Path | None) -> NDArray[np.float64]:
    """Times in seconds; numbers are seconds already."""
    import numpy as np
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        times = column.to_numpy(dtype=np.float64)
    else:
        try:
            moments = pd.to_datetime(column, utc=True)
        except (ValueError, TypeError):
            raise CliError(f"{log}: column {name!r} contains neither seconds nor dates") from None
        times = (moments - moments.min()).dt.total_seconds().to_numpy(dtype=np.float64)
    if not np.isfinite(times).all():
        raise CliError(f"{log}: column {name!r} lacks a time in row {int(np.argmin(np.isfinite(times))) + 1}")
    return np.asarray(times)


def _rows(
    model: Any, table: pd.DataFrame | None, log: Path | None, target: str | None, time: str | None
) -> tuple[Any, Any]:
    """Rows of the requests and the truth, as far as the log has them."""
    if table is None or log is None:
        return None, None
    y = None if target is None else target_for(model, table, target, log)
    name = _time_column(table, time)
    rest = table.drop(columns=[c for c in (name, target) if c is not None])
    if target is None and not rest.shape[1]:
        return None, None
    return features_for(model, rest, log), y


def _pace(model: Any, stage_us: float | None, X: Any, per_question: float) -> Any:
    """What stages take: as given, or measured here."""
    from anytime.serve.pace import StagePace, checkpoints_of

    if stage_us is None:
        measured = StagePace.measure(model, rows=None if X is None else model._checked(X)).to_dict()
        return StagePace(measured["checkpoints"], measured["per_row"], measured["call"], per_question)
    stops = checkpoints_of(model.n_stages_)
    return StagePace(stops, stage_us / 1e6 * stops, per_question=per_question)


# ---------------------------------------------------------------------- output


def _describe(arrivals: NDArray[np.float64], rate: float, workers: int, pace: Any, whole: int) -> None:
    row = pace.per_question + pace.seconds(0, whole, 1)
    console().print(
        f"{counted(arrivals.size, 'request')} in {number(float(arrivals[-1]))} s, {number(rate)} a second; "
        f"{counted(workers, 'worker')}, {number(1e3 * row)} ms a request for all {counted(whole, 'stage')}: "
        f"{number(rate * row / workers, 3)} x the capacity of the whole model"
    )


def _compare(
    arrivals: NDArray[np.float64],
    pace: Any,
    judge: Any,
    fixed: dict[int, str],
    slo: float,
    workers: int,
    seed: int,
) -> None:
    from anytime.serve.policy import Adaptive
    from anytime.serve.simulate import replay

    policies: dict[str, Any] = {
        f"{counted(stage, 'stage')}{why}": stage for stage, why in sorted(fixed.items(), reverse=True)
    }
    policies["adaptive"] = Adaptive.for_slo(slo)
    lines = []
    for name, policy in policies.items():
        with counting(name, arrivals.size) as done:
            outcome = replay(
                arrivals, policy, pace, slo=slo, workers=workers, random_state=seed, progress=done
            )
        lines.append(
            [
                name,
                f"{100 * outcome.within(slo):.2f} %",
                number(1e3 * outcome.quantile(0.5)),
                number(1e3 * outcome.quantile(0.99)),
                number(float(outcome.stage.mean())),
                number(judge.cost(outcome)),
                share(judge.quality(outcome)),
            ]
        )
    columns = ["<policy", "within SLO", "p50 ms", "p99 ms", "stages", judge.plan.costs.costs.unit or "cost"]
    print_table([*columns, judge.quality_name], lines)
    if judge.plan.quality is None and judge.truth is None:
        note("the model file has no held-out quality: give a LOG with rows and --target to see the accuracy")
