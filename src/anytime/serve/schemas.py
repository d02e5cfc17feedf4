"""What bodies look like, for ``/openapi.json``: the busy routes read them without a framework, so they are described by hand."""

from typing import Any

import numpy as np

Schema = dict[str, Any]

MOST_AXES = 4  # of a tensor: images have rows, channels, height and width

DTYPES: dict[str, np.dtype[Any]] = {  # of tensors, besides BYTES
    "BOOL": np.dtype("?"),
    **{
        f"{sign}INT{8 * size}": np.dtype(f"<{sign.lower() or 'i'}{size}")
        for sign in ("", "U")
        for size in (1, 2, 4, 8)
    },
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}


_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def _schema(kind: Any) -> Schema:
    """The schema of a Python type or of a list of one; a schema as it is."""
    if isinstance(kind, list):
        return {"type": "array", "items": _schema(kind[0])}
    return kind if isinstance(kind, dict) else {"type": _KINDS[kind]}


def _object(*optional: str, **properties: Any) -> Schema:
    """An object that has all properties but the ``optional`` ones for sure."""
    required = [name for name in properties if name not in optional]
    schemas = {name: _schema(kind) for name, kind in properties.items()}
    return {"type": "object", "properties": schemas, "required": required}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_AMOUNT: Schema = {"type": "number", "minimum": 0}
_CHANCE: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
_VALUE: Schema = {"type": ["number", "string", "boolean", "null"]}
_IMAGE: Schema = {
    **_schema([[[float]]]),
    "description": "Of a network: nested lists, channels first or last.",
}
_ROW: Schema = {"anyOf": [_schema([_VALUE]), {"type": "object", "additionalProperties": _VALUE}, _IMAGE]}
_LIMITS: dict[str, Schema] = {
    "budget": {**_AMOUNT, "description": "The most that any row may pay."},
    "mean_budget": {**_AMOUNT, "description": "What rows may pay on average."},
    "deadline_ms": {**_AMOUNT, "description": "Milliseconds from the arrival of the request."},
    "confidence": {**_CHANCE, "description": "Probability of the leading class that is enough."},
}
_PARAMETERS = {
    **_object(*_LIMITS, "binary_data_output", **_LIMITS, binary_data_output=bool),
    "additionalProperties": True,
}
_DATATYPE: Schema = {"type": "string", "enum": [*DTYPES, "BYTES"]}
_SHAPE: Schema = {**_schema([{"type": "integer", "minimum": 0}]), "minItems": 1, "maxItems": MOST_AXES}
_TENSOR = _object(
    "parameters", "data", name=str, shape=_SHAPE, datatype=_DATATYPE, parameters=dict, data=[{}]
)
_TENSOR_META = _object(name=str, datatype=_DATATYPE, shape=[{"type": "integer", "minimum": -1}])
_PREDICT_FIELDS: dict[str, Any] = {
    "model": {"type": "string", "description": "May be left out where the server has one model."},
    "version": str,
    "rows": {**_schema([_ROW]), "minItems": 1},
    "row": _ROW,
    "groups": {
        "type": "object",
        "description": "Values by group of columns; one that is not there is not used.",
    },
    "raw": {
        "description": "One raw example, for a server with extractors; or what a model labels: a picture in base64, a sentence "
        "as a list of elements, a graph as an object with nodes and edges."
    },
    "raws": [{}],
    **_LIMITS,
    "probabilities": bool,
}

_NEXT_FIELDS: dict[str, Any] = {
    "model": _PREDICT_FIELDS["model"],
    "version": str,
    "row": {
        "anyOf": [*_ROW["anyOf"], {"type": "null"}],
        "description": "What is known of the row; left out: nothing.",
    },
    "bought": {
        "type": ["array", "null"],
        "items": {"type": "string"},
        "description": "Groups that the row has; left out: those that an object has values of.",
    },
    "budget": {**_AMOUNT, "description": "The most that the row may pay in all, with what it has."},
}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_OFFER = _object(group=str, buys=[str], price=_AMOUNT, gain=_NUMBER_OR_NULL, change=_NUMBER_OR_NULL)

SCHEMAS: dict[str, Schema] = {
    "Error": _object(error=str),
    "Nothing": {"type": "object"},
    "InferRequest": _object(
        *("id", "parameters", "outputs"),
        id=str,
        parameters=_PARAMETERS,
        inputs={**_schema([_TENSOR]), "minItems": 1},
        outputs=[_object("parameters", name=str, parameters=dict)],
    ),
    "InferResponse": _object(
        "id", "parameters", model_name=str, model_version=str, id=str, parameters=dict, outputs=[_TENSOR]
    ),
    "ServerMetadata": _object(name=str, version=str, extensions=[str]),
    "ModelMetadata": _object(
        name=str, versions=[str], platform=str, inputs=[_TENSOR_META], outputs=[_TENSOR_META]
    ),
    "ModelConfiguration": _object(
        name=str, platform=str, backend=str, max_batch_size=int, input=[dict], output=[dict]
    ),
    "ModelStatistics": _object(model_stats=[dict]),
    "Live": _object(live=bool),
    "Ready": _object(ready=bool),
    "ModelReady": _object(name=str, ready=bool),
    "RepositoryIndex": _schema(
        [_object(name=str, version=str, state={"enum": ["READY", "UNAVAILABLE"]}, reason=str)]
    ),
    "PredictRequest": {**_object(*_PREDICT_FIELDS, **_PREDICT_FIELDS), "additionalProperties": False},
    "PredictResponse": _object(
        *("classes", "probabilities", "branch", "failures"),
        model=str,
        version=str,
        predictions={
            **_schema([{}]),
            "description": "Of each row; or of each structure the labels of its elements, of a picture a PNG file in base64 "
            "whose pixels are numbers of classes.",
        },
        classes={
            **_schema([{}]),
            "description": "Of the probabilities or of the pixels, in their order; only with them.",
        },
        probabilities={
            **_schema([[{}]]),
            "description": "Of each row, or of the elements of each structure.",
        },
        cost=[_AMOUNT],
        stage=[{"type": "integer", "minimum": 0}],
        branch={
            **_schema([{"type": "integer", "minimum": -1}]),
            "description": "The branch whose stages these are; -1: the chain. Only where the model has branches.",
        },
        partial=[bool],
        elapsed_ms=_AMOUNT,
        reason={"enum": ["complete", "budget", "confidence", "groups", "deadline", "failed", ""]},
        failures={"type": "object", "additionalProperties": {"type": "string"}},
    ),
    "NextRequest": {**_object(*_NEXT_FIELDS, **_NEXT_FIELDS), "additionalProperties": False},
    "NextResponse": _object(
        model=str,
        version=str,
        prediction={"description": "By what was bought."},
        probability=_NUMBER_OR_NULL,
        group={"type": ["string", "null"], "description": "To buy next; null: nothing."},
        unit={"type": ["string", "null"]},
        budget=_NUMBER_OR_NULL,
        advice={"type": "string", "description": "All of it in words."},
        offers={**_schema([_OFFER]), "description": "What could be bought, best first."},
    ),
    "Stats": _object(
        uptime=float,
        slo_ms={"type": ["number", "null"]},
        workers=[dict],
        totals=dict,
        window=dict,
        stages=dict,
        models=[dict],
    ),
}

ANYTHING: Schema = {
    "requestBody": {"required": False, "content": {"application/json": {"schema": {"type": "object"}}}}
}
NEXT = {"row": [0.5, 1.0], "bought": [], "budget": 10}
PREDICT = {"row": [0.5, 1.0], "budget": 10}
INFER = {
    "inputs": [{"name": "X", "datatype": "FP64", "shape": [1, 2], "data": [0.5, 1.0]}],
    "parameters": {"deadline_ms": 5},
}
_SAYS = {
    400: "The request is wrong; the sentence says where.",
    401: "A token is needed.",
    403: "A page of another site.",
    408: "The body did not come in time.",
    421: "A name that is not this machine's own.",
    404: "There is no such model or version.",
    413: "More bytes or rows than this server takes.",
    415: "An unknown Content-Encoding.",
    503: "More requests than this server holds at once, or a model that is not there.",
}


def body(schema: str, example: Any, *, binary: bool = False) -> Schema:
    """An ``openapi_extra`` with the body of a request."""
    content: Schema = {"application/json": {"schema": _ref(schema), "example": example}}
    if binary:
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}


def answers(schema: str | None, *refusals: int, media: str = "application/json") -> dict[int | str, Schema]:
    """The ``responses`` of a route."""
    shown: Schema = _ref(schema) if schema is not None else {"type": "string"}
    out: dict[int | str, Schema] = {
        200: {"description": "The answer.", "content": {media: {"schema": shown}}}
    }
    for status in sorted({*refusals, 401, 403, 421, 503}):
        out[status] = {
            "description": _SAYS[status],
            "content": {"application/json": {"schema": _ref("Error")}},
        }
    return out
