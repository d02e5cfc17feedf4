"""What bodies look like, for ``/openapi.json``: the busy routes read them without a framework, so they are described by hand."""

from __future__ import annotations

from typing import Any

__all__ = ["ANYTHING", "INFER", "PREDICT", "SCHEMAS", "answers", "body"]

Schema = dict[str, Any]


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NUMBER: Schema = {"type": "number"}
_AMOUNT: Schema = {"type": "number", "minimum": 0}
_CHANCE: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
_TEXT: Schema = {"type": "string"}
_VALUE: Schema = {"type": ["number", "string", "boolean", "null"]}
_ROW: Schema = {"oneOf": [_list(_VALUE), {"type": "object", "additionalProperties": _VALUE}]}
_PARAMETERS: Schema = {
    "type": "object",
    "additionalProperties": True,
    "properties": {
        "budget": {**_AMOUNT, "description": "The most that any row may pay."},
        "mean_budget": {**_AMOUNT, "description": "What rows may pay on average."},
        "deadline_ms": {**_AMOUNT, "description": "Milliseconds from the arrival of the request."},
        "confidence": {**_CHANCE, "description": "Chance of a class that is enough."},
        "binary_data_output": {"type": "boolean"},
    },
}
_DATATYPES = [
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
]
_TENSOR: Schema = {
    "name": _TEXT,
    "shape": _list({"type": "integer", "minimum": 0}, minItems=1, maxItems=2),
    "datatype": {"type": "string", "enum": _DATATYPES},
    "parameters": {"type": "object"},
}
_TENSOR_META = _object(
    ("name", "datatype", "shape"),
    name=_TEXT,
    datatype=_TENSOR["datatype"],
    shape=_list({"type": "integer", "minimum": -1}),
)

SCHEMAS: dict[str, Schema] = {
    "Error": _object(("error",), error=_TEXT),
    "Nothing": {"type": "object"},
    "InferRequest": _object(
        ("inputs",),
        id=_TEXT,
        parameters=_PARAMETERS,
        inputs=_list(_object(("name", "shape", "datatype"), **_TENSOR, data=_list({})), minItems=1),
        outputs=_list(_object(("name",), name=_TEXT, parameters={"type": "object"})),
    ),
    "InferResponse": _object(
        ("model_name", "outputs"),
        model_name=_TEXT,
        model_version=_TEXT,
        id=_TEXT,
        parameters={"type": "object"},
        outputs=_list(_object(("name", "shape", "datatype"), **_TENSOR, data=_list({}))),
    ),
    "ServerMetadata": _object(
        ("name", "version", "extensions"), name=_TEXT, version=_TEXT, extensions=_list(_TEXT)
    ),
    "ModelMetadata": _object(
        ("name", "platform", "inputs", "outputs"),
        name=_TEXT,
        versions=_list(_TEXT),
        platform=_TEXT,
        inputs=_list(_TENSOR_META),
        outputs=_list(_TENSOR_META),
    ),
    "ModelConfiguration": _object(
        ("name", "platform", "max_batch_size", "input", "output"),
        name=_TEXT,
        platform=_TEXT,
        backend=_TEXT,
        max_batch_size={"type": "integer"},
        input=_list({"type": "object"}),
        output=_list({"type": "object"}),
    ),
    "ModelStatistics": _object(("model_stats",), model_stats=_list({"type": "object"})),
    "Live": _object(("live",), live={"type": "boolean"}),
    "Ready": _object(("ready",), ready={"type": "boolean"}),
    "ModelReady": _object(("name", "ready"), name=_TEXT, ready={"type": "boolean"}),
    "RepositoryIndex": _list(
        _object(
            ("name", "state"),
            name=_TEXT,
            version=_TEXT,
            state={"enum": ["READY", "UNAVAILABLE"]},
            reason=_TEXT,
        )
    ),
    "PredictRequest": {
        **_object(
            model={**_TEXT, "description": "May be left out where the server has one model."},
            version=_TEXT,
            rows=_list(_ROW, minItems=1),
            row=_ROW,
            groups={
                "type": "object",
                "description": "Values by group of columns; a group that is not there is not used.",
            },
            raw={"description": "One raw example, for a server with extractors."},
            raws=_list({}),
            budget=_AMOUNT,
            mean_budget=_AMOUNT,
            deadline_ms=_AMOUNT,
            confidence=_CHANCE,
            probabilities={"type": "boolean"},
        ),
        "additionalProperties": False,
    },
    "PredictResponse": _object(
        ("model", "version", "predictions", "cost", "stage", "partial", "elapsed_ms", "reason"),
        model=_TEXT,
        version=_TEXT,
        predictions=_list({}),
        classes={**_list({}), "description": "Of the probabilities, in their order; only with them."},
        probabilities=_list(_list(_NUMBER)),
        cost=_list(_AMOUNT),
        stage=_list({"type": "integer", "minimum": 0}),
        partial=_list({"type": "boolean"}),
        elapsed_ms=_AMOUNT,
        reason={"enum": ["complete", "budget", "confidence", "groups", "deadline", "failed", ""]},
        failures={"type": "object", "additionalProperties": _TEXT},
    ),
    "Stats": _object(
        ("uptime", "slo_ms", "workers", "totals", "window", "stages", "models"),
        uptime=_NUMBER,
        slo_ms={"type": ["number", "null"]},
        workers=_list({"type": "object"}),
        totals={"type": "object"},
        window={"type": "object"},
        stages={"type": "object"},
        models=_list({"type": "object"}),
    ),
}

ANYTHING: Schema = {
    "requestBody": {"required": False, "content": {"application/json": {"schema": {"type": "object"}}}}
}
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
