"""``anytime predict``: answers for the rows of a table, under a budget or a deadline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import UsageError
from anytime.cli.io import (
    check_table_name,
    check_writable,
    features_for,
    load_model,
    read_table,
    word_columns,
    write_table,
)
from anytime.cli.options import CostlyFile, ModelFile, NaValues, Trusted, option
from anytime.cli.structures import LINES, labels_structures, predict_structures
from anytime.cli.tables import amount, note, step

if TYPE_CHECKING:
    import pandas as pd

    from anytime.answer import Answer


def predict(
    model: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="CSV or Parquet file, pictures, or JSON lines; - reads CSV from a pipe.",
        ),
    ],
    budget: Annotated[float | None, option("COST", "The most that any row may pay.", min=0.0)] = None,
    mean_budget: Annotated[
        float | None, option("COST", "The most that rows may pay on average.", min=0.0)
    ] = None,
    confidence: Annotated[
        float | None,
        option(
            "SHARE",
            "Stop each row once its answer has this confidence; reliable only if the model is calibrated.",
            min=0.0,
            max=1.0,
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        option("SECONDS", "Time limit for all rows together, not counting loading and reading.", min=0.0),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    with_cost: Annotated[
        bool,
        typer.Option(
            "--with-cost",
            help="Add the cost and the stage of each answer (and its branch; -1: the chain).",
        ),
    ] = False,
    output: Annotated[
        Path | None, option("FILE", "CSV or Parquet file. None: standard output.", "--output", "-o")
    ] = None,
    costly: CostlyFile = None,
    trusted: Trusted = False,
    na_values: NaValues = None,
) -> None:
    """Predict each row of a table, within a budget or deadline.

    Columns are matched by name; extra columns are ignored. A model that labels pictures takes a picture or a folder of pictures
    and writes label maps to the folder --output. A model of sentences or graphs reads and writes JSON lines.

    Example: anytime predict heart.anytime patients.csv --budget 20 --with-cost
    """
    if output is not None and output.suffix.lower() != LINES:
        check_table_name(output)
    loaded = load_model(model, costly, trusted)
    if labels_structures(loaded):
        predict_structures(
            loaded,
            data,
            output,
            deadline,
            proba=proba,
            with_cost=with_cost,
            budget=budget,
            mean_budget=mean_budget,
        )
        return
    check_table_name(output)
    check_writable(output)
    if proba and not hasattr(loaded, "classes_"):
        raise UsageError(f"{model} is a regression model: it has no probabilities")
    if confidence is not None and (not hasattr(loaded, "classes_") or mean_budget is not None):
        raise UsageError("--confidence needs a classifier and cannot be combined with --mean-budget")
    table = read_table(data, word_columns(loaded), na_values)
    X = features_for(loaded, table, data)
    with step(f"predicting {len(table)} rows"):
        if confidence is not None:
            answer, idle = _answered_when_sure(loaded, X, confidence, deadline, budget), 0
        else:
            answer, idle = _answered(loaded, X, deadline, budget=budget, mean_budget=mean_budget)
    write_table(_answers(loaded, answer, proba, with_cost), output)
    if output is not None:
        note(
            f"wrote {output}: {len(table)} rows, mean cost {amount(float(answer.cost.mean()), loaded.costs_.unit)}"
        )
    if idle:
        note(
            f"for {idle} of {len(table)} rows the deadline allowed no stage: they have the model's constant answer; "
            "give more time"
        )


def _answered(model: Any, X: Any, deadline: float | None, **budgets: float | None) -> tuple[Answer, int]:
    """The answers, and for how many rows the deadline allowed no stage.

    What is done once in a process, such as importing, is no part of the deadline: one row is answered before the clock starts.
    Where that one gets no stage either, it is the budget that allows none.
    """
    if deadline is None:
        return model.answer(X, **budgets), 0
    affordable = model.answer(X[:1], **budgets).stage.any()
    answer = model.answer(X, deadline=deadline, **budgets)
    return answer, int((answer.stage == 0).sum()) if affordable else 0


def _answered_when_sure(
    model: Any, X: Any, confidence: float, deadline: float | None, budget: float | None
) -> Answer:
    from anytime.runtime import BatchSession

    return BatchSession(model, X, budget=budget, confidence=confidence).advance(deadline=deadline)


def _answers(model: Any, answer: Answer, proba: bool, with_cost: bool) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    predictions = np.asarray(answer.prediction)
    if predictions.ndim == 1:
        out = pd.DataFrame({"prediction": predictions})
    else:
        out = pd.DataFrame(predictions, columns=[f"prediction_{k}" for k in range(predictions.shape[1])])
    if proba:
        for c, label in enumerate(model.classes_):
            out[f"p_{label}"] = answer.probabilities[:, c]
    if with_cost:
        out["cost"], out["stage"] = answer.cost, answer.stage
        if answer.plan.branches:
            out["branch"] = answer.branch
    return out
