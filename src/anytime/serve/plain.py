"""The plain JSON of ``/predict``, ``/stream`` and ``/next``: rows in, answers out, for a person with curl."""

from typing import Any, NamedTuple

import numpy as np

from anytime.advice import NextPurchase
from anytime.answer import Answer
from anytime.estimator import AnytimeModel
from anytime.rows import Rows, shown
from anytime.serve.errors import refuse
from anytime.serve.examples import ExampleReader, label_maps
from anytime.serve.questions import Ask, amount_of, limits_of
from anytime.serve.rows import RequestReader
from anytime.serve.schemas import SCHEMAS


def model_of(document: dict[str, Any], schema: str = "PredictRequest") -> tuple[str | None, str | None]:
    """The model that a request names, and its version."""
    fields = SCHEMAS[schema]["properties"].keys()
    if not document.keys() <= fields:
        unknown = next(name for name in document if name not in fields)
        refuse(f"unknown field {shown(unknown)}; a request has {', '.join(sorted(fields))}")
    for field in ("model", "version"):
        value = document.get(field)
        if value is not None and type(value) is not str:
            refuse(f"{field} must be a string, not {shown(value)}")
    return document.get("model"), document.get("version")


def read_plain(document: dict[str, Any], reader: RequestReader | ExampleReader, classifies: bool) -> Ask:
    """Read a request whose fields ``model_of`` has looked at."""
    wanted = document.get("probabilities", False)
    if type(wanted) is not bool:
        refuse(f"probabilities must be true or false, not {shown(wanted)}")
    if isinstance(reader, ExampleReader):
        return _read_examples(document, reader, wanted)
    if wanted and not classifies:
        refuse("probabilities are for classifiers; this model predicts numbers")
    raws = _raws(document)
    rows = _rows(document, reader, None if raws is None else len(raws))
    if raws is not None and len(raws) != len(rows.X):
        refuse(f"{len(raws)} raw examples, but {len(rows.X)} rows")
    return Ask(rows, raws, limits_of(document, classifies), wanted)


def _read_examples(document: dict[str, Any], reader: ExampleReader, wanted: bool) -> Ask:
    """The same of a model that labels whole structures; ``wanted``: whether probabilities are."""
    kind = reader.kind
    if wanted and reader.is_picture:
        refuse(
            "probabilities of all pixels are too many for JSON: the tensor 'probabilities' of infer has them"
        )
    if present := [field for field in ("rows", "row", "groups") if field in document]:
        refuse(f"this model labels {kind}s: give raw, one {kind}, or raws, a list of them, not {present[0]}")
    raws = _raws(document)
    if raws is None:
        refuse(f"a request needs raw, one {kind}, or raws, a list of them")
    limits = limits_of(document, classifies=True)
    reader.check_limits(limits)
    return Ask(reader.nothing(len(raws)), reader.examples(raws), limits, wanted)


def _raws(document: dict[str, Any]) -> list[Any] | None:
    if "raw" in document and "raws" in document:
        refuse("give raw, one example, or raws, a list of them, not both")
    if "raw" in document:
        return [document["raw"]]
    raws = document.get("raws")
    if raws is not None and type(raws) is not list:
        refuse(f"raws must be a list of examples, not {shown(raws)}")
    return raws


def _rows(document: dict[str, Any], reader: RequestReader, raw_count: int | None) -> Rows:
    fields = [field for field in ("rows", "row", "groups") if field in document]
    if len(fields) > 1:
        refuse(f"give one of rows, row and groups, not {' and '.join(fields)}")
    if not fields:
        if raw_count is None:
            refuse("a request needs rows, row, groups, raw or raws")
        return reader.nothing(raw_count)
    if fields == ["rows"]:
        return reader.rows(document["rows"])
    if fields == ["groups"]:
        return reader.by_group(document["groups"])
    row = document["row"]
    if type(row) not in (list, dict):
        refuse(f"row must be a list of values or an object by column, not {shown(row)}")
    return reader.rows([row])


class NextAsk(NamedTuple):
    """A request of ``/next``, read."""

    row: list[Any] | dict[str, Any]
    bought: list[str] | None
    budget: float | None

    def answered_by(self, model: AnytimeModel) -> NextPurchase:
        """What the model advises."""
        try:
            return model.next(self.row, self.bought, budget=self.budget)
        except ValueError as error:
            refuse(str(error))


def read_next(document: dict[str, Any], reader: RequestReader | ExampleReader) -> NextAsk:
    """Read a request whose fields ``model_of`` has looked at."""
    if isinstance(reader, ExampleReader):
        refuse(f"this model labels {reader.kind}s; what to buy next is asked for rows")
    row, bought = document.get("row"), document.get("bought")
    if bought is not None and (type(bought) is not list or any(type(name) is not str for name in bought)):
        refuse(f"bought must be a list of names of groups, not {shown(bought)}")
    row = {} if row is None else row
    if type(row) not in (list, dict):
        refuse(f"row must be a list of values or an object by column, not {shown(row)}")
    reader.rows([row])  # refuses what it cannot read
    return NextAsk(row, bought, amount_of(document, "budget"))


def write_plain(
    answer: Answer, model: str, version: str, *, classes: list[Any] | None = None, maps: bool = False
) -> dict[str, Any]:
    """An answer as JSON: with probabilities where their ``classes`` are given; ``maps``: with label maps as PNG files."""
    written: dict[str, Any] = {
        "model": model,
        "version": version,
        "predictions": label_maps(answer) if maps else _plain(answer.prediction),
        "cost": answer.cost.tolist(),
        "stage": answer.stage.tolist(),
        "partial": answer.partial.tolist(),
        "elapsed_ms": round(answer.elapsed * 1e3, 4),
        "reason": answer.reason,
    }
    if answer.plan.branches:  # stages are then counted along the branch, or along the chain: -1
        written["branch"] = np.broadcast_to(answer.branch, np.shape(answer.stage)).tolist()
    if answer.failures:
        # the kind of failure without its message, which may hold private data
        written["failures"] = {group: reason.partition(":")[0] for group, reason in answer.failures.items()}
    if maps:
        written["classes"] = classes  # whose numbers are the values of pixels
    elif classes is not None and answer.probabilities is not None:
        written["classes"], written["probabilities"] = classes, _plain(answer.probabilities)
    return written


def _plain(values: Any) -> list[Any]:
    """Values of rows, or of the elements of each structure."""
    return [part.tolist() for part in values] if isinstance(values, list) else np.asarray(values).tolist()
