"""The Open Inference Protocol v2 over HTTP, with Triton's extension for binary tensors.

A request names tensors, in JSON or as bytes behind the JSON (``Inference-Header-Content-Length`` says where these begin). The
rows are one matrix, ``X`` (n, d), or images, (n, C, H, W) or (n, H, W, C), or one tensor per column under the name of the column.
A model of structures takes pictures of one size, ``X`` (n, H, W, C), or sentences and graphs as JSON texts, ``raw`` (n,).
Parameters of the request: ``budget``, ``deadline_ms``, ``confidence``. The answer has the tensors ``prediction``,
``probabilities`` (of classifiers), ``cost``, ``stage``, ``partial`` and ``elapsed`` (seconds). Of pictures ``prediction`` is
(n, H, W); of sentences and graphs it holds the labels of all elements, and ``lengths`` says how many each has. Probabilities of
these are sent only where they are asked for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from anytime.answer import Answer
from anytime.rows import Rows, shown
from anytime.serve.errors import refuse
from anytime.serve.examples import ExampleReader
from anytime.serve.questions import Ask, Limits, amount_of, limits_of
from anytime.serve.rows import RequestReader
from anytime.serve.schemas import DTYPES, MOST_AXES

if TYPE_CHECKING:
    from anytime.estimator import AnytimeModel

_NAMES = {dtype.str.lstrip("<|"): name for name, dtype in DTYPES.items()}
_LENGTH = struct.Struct("<I")
_NUMBERS = {int, float, bool}


class Tensors:
    """What tensors of a model are called and hold."""

    def __init__(self, model: AnytimeModel, reader: RequestReader | ExampleReader) -> None:
        self.reader = reader
        classes = getattr(model, "classes_", None)
        self.classifies, self.classes = classes is not None, classes_of(model)
        width = model.plan_.n_outputs
        if classes is None:
            datatype, tail = "FP64", ([width] if width > 1 else [])
        else:
            datatype, tail = _NAMES.get(classes.dtype.str.lstrip("<|"), "BYTES"), []
        if self.has_maps:
            tail = [-1, -1]
        shapes: list[tuple[str, str, list[int]]] = [("prediction", datatype, [-1, *tail])]
        if classes is not None:
            shapes.append(("probabilities", "FP64", [-1, *tail, len(classes)]))
        if isinstance(reader, ExampleReader) and not reader.is_picture:
            shapes.append(("lengths", "INT64", [-1]))
        shapes += [
            ("cost", "FP64", [-1]),
            ("stage", "INT64", [-1]),
            ("partial", "BOOL", [-1]),
            ("elapsed", "FP64", [1]),
        ]
        self.outputs = [{"name": name, "datatype": kind, "shape": shape} for name, kind, shape in shapes]
        self.names = [name for name, _, _ in shapes]
        self.datatypes = {name: kind for name, kind, _ in shapes}
        # sent to a client that does not name what it wants
        self.usual = [
            name for name in self.names if not (name == "probabilities" and isinstance(reader, ExampleReader))
        ]

    @property
    def has_maps(self) -> bool:
        """Whether answers are label maps of pictures."""
        return isinstance(self.reader, ExampleReader) and self.reader.is_picture

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """One matrix; one tensor per column where some hold words; pictures, or texts of structures."""
        reader = self.reader
        if isinstance(reader, ExampleReader):
            if reader.is_picture:
                return [{"name": "X", "datatype": "UINT8", "shape": [-1, -1, -1, 3]}]
            return [{"name": "raw", "datatype": "BYTES", "shape": [-1]}]
        if not reader.words or reader.names is None:
            return [{"name": "X", "datatype": "FP64", "shape": [-1, *reader.shape]}]
        return [
            {"name": name, "datatype": "BYTES" if j in reader.words else "FP64", "shape": [-1]}
            for j, name in enumerate(reader.names)
        ]


def classes_of(model: AnytimeModel) -> list[Any] | None:
    """The classes in the order of probabilities, as JSON has them; None where the model predicts numbers."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    return [value.item() if isinstance(value, np.generic) else value for value in classes.tolist()]


# ---------------------------------------------------------------------- reading


def object_of(body: bytes | memoryview, what: str = "the body") -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        document = orjson.loads(body)
    except (orjson.JSONDecodeError, RecursionError) as error:
        reason = str(error).partition(":")[0]
        refuse(f"{what} is not valid JSON: {reason} (a missing value is null; NaN and Infinity are not JSON)")
    if type(document) is not dict:
        refuse(f"{what} must be a JSON object, not {shown(document)}")
    return document


def read_infer(body: bytes, json_length: int | None, tensors: Tensors) -> Ask:
    """Read the body of an ``infer``; ``json_length``: where bytes of tensors begin, None without any, 0 for a mere matrix."""
    reader = tensors.reader
    if json_length is None:
        document, rest = object_of(body), memoryview(b"")
    elif not 0 <= json_length <= len(body):
        refuse(f"Inference-Header-Content-Length is {json_length}, but the body has {len(body)} bytes")
    elif json_length == 0:
        if isinstance(reader, ExampleReader):
            refuse("a body without JSON does not say how large its pictures are: describe the tensor in JSON")
        outputs = [(name, True) for name in tensors.names]
        return Ask(_raw_matrix(body, reader), None, limits_of({}, tensors.classifies), outputs=outputs)
    else:
        view = memoryview(body)
        document, rest = object_of(view[:json_length], "the JSON part of the body"), view[json_length:]
    parameters = _parameters(document)
    rows, raws = _read_inputs(document.get("inputs"), rest, reader)
    asked_id = document.get("id")
    if asked_id is not None and not isinstance(asked_id, str):
        refuse(f"id must be a string, not {shown(asked_id)}")
    outputs = _wanted(document.get("outputs"), parameters.get("binary_data_output") is True, tensors)
    limits = _limits(parameters, tensors.classifies)
    if isinstance(reader, ExampleReader):
        reader.check_limits(limits)
    return Ask(rows, raws, limits, id=asked_id, outputs=outputs)


def _limits(parameters: dict[str, Any], classifies: bool) -> Limits:
    limits = limits_of(parameters, classifies)
    if timeout := amount_of(parameters, "timeout"):  # Triton's, in microseconds; 0: none
        deadline = limits["deadline"]
        limits["deadline"] = timeout / 1e6 if deadline is None else min(deadline, timeout / 1e6)
    return limits


def _parameters(holder: dict[str, Any]) -> dict[str, Any]:
    parameters = holder.get("parameters")
    if parameters is None:
        return {}
    if type(parameters) is not dict:
        refuse(f"parameters must be an object, not {shown(parameters)}")
    return parameters


def _raw_matrix(body: bytes, reader: RequestReader) -> Rows:
    size = 8 * reader.n_columns
    if reader.words or not body or len(body) % size:
        refuse(f"a body without JSON must hold rows of {reader.n_columns} numbers of FP64, {size} bytes each")
    return reader.tensor(np.frombuffer(body, dtype="<f8").reshape(-1, reader.n_columns))


def _read_inputs(
    inputs: Any, rest: memoryview, reader: RequestReader | ExampleReader
) -> tuple[Rows, Sequence[Any] | None]:
    if type(inputs) is not list or not inputs:
        refuse("inputs must be a list of at least one tensor")
    most = 1 if isinstance(reader, ExampleReader) else reader.n_columns + 1
    if len(inputs) > most:
        refuse(f"{len(inputs)} inputs, but the model has {max(most - 1, 1)} columns")
    tensors: dict[str, NDArray[Any]] = {}
    for entry in inputs:
        name, array, rest = _read_tensor(entry, rest)
        if name in tensors:
            refuse(f"input {shown(name)} appears twice")
        tensors[name] = array
    if len(rest):
        refuse(f"{len(rest)} bytes follow the last binary tensor")
    if isinstance(reader, ExampleReader):
        return _structures_of(tensors, reader)
    raws = _raws(tensors.pop("raw")) if "raw" in tensors and "raw" not in reader.position else None
    if not tensors:
        assert raws is not None
        return reader.nothing(len(raws)), raws
    rows = _rows_of(tensors, reader)
    if raws is not None and len(raws) != len(rows.X):
        refuse(f"input 'raw' has {len(raws)} examples, but there are {len(rows.X)} rows")
    return rows, raws


def _structures_of(tensors: dict[str, NDArray[Any]], reader: ExampleReader) -> tuple[Rows, Sequence[Any]]:
    (name, array), *_ = tensors.items()
    wanted = "X" if reader.is_picture else "raw"
    if name != wanted:
        refuse(f"the input of this model, {reader.kind}s, is called {wanted!r}, not {shown(name)}")
    if not reader.is_picture:
        return reader.nothing(array.size), reader.examples(_raws(array))
    if array.ndim != 4:
        refuse(f"pictures have shape [n, height, width, channels], not {list(array.shape)}")
    return reader.nothing(len(array)), reader.pictures(array)  # type: ignore[arg-type]


def _rows_of(tensors: dict[str, NDArray[Any]], reader: RequestReader) -> Rows:
    if len(tensors) == 1:
        (name, array), *_ = tensors.items()
        if name == "X" or name not in reader.position:  # one matrix, whatever it is called
            return reader.tensor(array)
    columns: dict[str, list[Any]] = {}
    for name, array in tensors.items():
        if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1) or array.ndim == 0:
            refuse(
                f"input {shown(name)} is one column: expected shape [n] or [n, 1], found {list(array.shape)}"
            )
        columns[name] = array.reshape(-1).tolist()
    return reader.named(columns)


def _read_tensor(entry: Any, rest: memoryview) -> tuple[str, NDArray[Any], memoryview]:
    """The name and values of one input, and the bytes that belong to the inputs after it."""
    if type(entry) is not dict:
        refuse(f"an input must be an object with name, shape, datatype and data, not {shown(entry)}")
    name, shape, datatype = entry.get("name"), entry.get("shape"), entry.get("datatype")
    if type(name) is not str:
        refuse(f"the name of an input must be a string, not {shown(name)}")
    if type(shape) is not list or not 1 <= len(shape) <= MOST_AXES:
        refuse(f"input {shown(name)}: shape must be a list of 1 to {MOST_AXES} sizes, not {shown(shape)}")
    for size in shape:
        if type(size) is not int or not 0 <= size < 1 << 40:
            refuse(f"input {shown(name)}: a size of its shape is {shown(size)}")
    if type(datatype) is not str or (datatype not in DTYPES and datatype != "BYTES"):
        refuse(f"input {shown(name)}: datatype {shown(datatype)} is not one of {', '.join(DTYPES)}, BYTES")
    count = math.prod(shape)
    size = _parameters(entry).get("binary_data_size")
    if size is None:
        return name, _from_json(name, entry.get("data"), datatype, shape, count), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        refuse(f"input {shown(name)}: binary_data_size is {shown(size)}, but {len(rest)} bytes are left")
    raw, rest = rest[:size], rest[size:]
    return name, _from_bytes(name, raw, datatype, shape, count), rest


def _from_json(name: str, data: Any, datatype: str, shape: list[int], count: int) -> NDArray[Any]:
    if type(data) is not list:
        refuse(f"input {shown(name)}: data must be a list, not {shown(data)}")
    flat, kinds = data, set(map(type, data))
    if list in kinds or dict in kinds:
        flat = []
        _flatten(name, data, flat, 0)
        kinds = set(map(type, flat))
    if len(flat) != count:
        refuse(f"input {shown(name)}: {len(flat)} values do not fill shape {shape}")
    if kinds <= _NUMBERS and datatype != "BYTES":
        array = np.array(flat)  # of numbers alone: one long word among them would make all values as long
    else:  # words, nulls or nonsense; the rows' reader says which
        array = np.empty(count, dtype=object)
        array[:] = flat
    if array.dtype.kind == "O" and datatype != "BYTES":
        array = _with_missing(name, array)
    return array.reshape(shape)


def _flatten(name: str, data: list[Any], into: list[Any], depth: int) -> None:
    if depth > 8:
        refuse(f"input {shown(name)}: data is nested too deeply")
    for value in data:
        if type(value) is list:
            _flatten(name, value, into, depth + 1)
        elif type(value) is dict:
            refuse(f"input {shown(name)}: expected values, found {shown(value)}")
        else:
            into.append(value)


def _with_missing(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers with nulls among them."""
    for value in values:
        if value is not None and not isinstance(value, (int, float)):
            refuse(
                f"input {shown(name)}: expected a number, found {shown(value)}; words need the datatype BYTES"
            )
    try:
        return values.astype(np.float64)
    except OverflowError:
        refuse(f"input {shown(name)}: a number is too large")


def _from_bytes(name: str, raw: memoryview, datatype: str, shape: list[int], count: int) -> NDArray[Any]:
    if datatype == "BYTES":
        texts = _texts(name, raw)
        if len(texts) != count:
            refuse(f"input {shown(name)}: {len(texts)} values do not fill shape {shape}")
        array = np.empty(count, dtype=object)
        array[:] = texts
        return array.reshape(shape)
    dtype = DTYPES[datatype]
    if len(raw) != count * dtype.itemsize:
        refuse(f"input {shown(name)}: {len(raw)} bytes do not fill shape {shape} of {datatype}")
    if datatype == "BOOL":
        return np.asarray(np.frombuffer(raw, dtype=np.uint8) != 0).reshape(shape)
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


def _texts(name: str, raw: memoryview) -> list[str]:
    """Each text stands behind its length, four bytes."""
    texts, at = [], 0
    while at < len(raw):
        end = at + 4 + (_LENGTH.unpack_from(raw, at)[0] if at + 4 <= len(raw) else len(raw))
        if end > len(raw):
            refuse(f"input {shown(name)}: the bytes end in the middle of a text")
        try:
            texts.append(str(raw[at + 4 : end], "utf-8"))
        except UnicodeDecodeError:
            refuse(f"input {shown(name)}: a text is not UTF-8")
        at = end
    return texts


def _raws(array: NDArray[Any]) -> list[Any]:
    """Raw examples: texts, parsed where they are JSON."""
    out: list[Any] = []
    for item in array.reshape(-1).tolist():
        try:
            out.append(orjson.loads(item) if isinstance(item, str) else item)
        except (orjson.JSONDecodeError, RecursionError):
            out.append(item)
    return out


def _wanted(outputs: Any, binary: bool, tensors: Tensors) -> list[tuple[str, bool]]:
    if outputs is None:
        return [(name, binary) for name in tensors.usual]
    if type(outputs) is not list:
        refuse(f"outputs must be a list, not {shown(outputs)}")
    wanted: dict[str, bool] = {}
    for entry in outputs:
        name = entry.get("name") if type(entry) is dict else None
        if name not in tensors.names:
            refuse(f"the model has no output {shown(name)}; it has {', '.join(tensors.names)}")
        parameters = _parameters(entry)
        if parameters.get("classification"):
            refuse("the classification extension is not offered; ask for 'prediction' and 'probabilities'")
        wanted[name] = parameters.get("binary_data", binary) is True
    return list(wanted.items()) or [(name, binary) for name in tensors.usual]


# ---------------------------------------------------------------------- writing


def write_infer(
    ask: Ask, answer: Answer, model: str, version: str, tensors: Tensors
) -> tuple[bytes, int | None]:
    """The body of an answer, and where its binary part begins, if it has one."""
    outputs: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    for name, binary in ask.outputs:
        datatype, array = _output(name, answer, tensors)
        entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if binary:
            raw = (
                _text_bytes(array)
                if datatype == "BYTES"
                else np.ascontiguousarray(array, DTYPES[datatype]).tobytes()
            )
            entry["parameters"] = {"binary_data_size": len(raw)}
            chunks.append(raw)
        else:
            entry["data"] = array.tolist() if array.ndim == 1 else array.ravel().tolist()
        outputs.append(entry)
    written: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": outputs}
    if ask.id is not None:
        written["id"] = ask.id
    head = orjson.dumps(written, default=str)
    return (b"".join([head, *chunks]), len(head)) if chunks else (head, None)


def _output(name: str, answer: Answer, tensors: Tensors) -> tuple[str, NDArray[Any]]:
    if name == "elapsed":
        return "FP64", np.array([answer.elapsed])
    if name == "lengths":
        return "INT64", answer.scores.lengths
    values = getattr(answer, name)
    if type(values) is list:  # of each structure: pictures of one size, or elements one after the other
        assert isinstance(tensors.reader, ExampleReader)
        values = np.stack(values) if tensors.reader.is_picture else np.concatenate(values)
    return tensors.datatypes[name], values


def _text_bytes(array: NDArray[Any]) -> bytes:
    texts = [str(item).encode() for item in array.ravel().tolist()]
    return b"".join(_LENGTH.pack(len(text)) + text for text in texts)


# ---------------------------------------------------------------------- about a model


def metadata(name: str, versions: Sequence[str], tensors: Tensors) -> dict[str, Any]:
    """What the protocol says about a model."""
    return {
        "name": name,
        "versions": list(versions),
        "platform": "anytime",
        "inputs": tensors.inputs,
        "outputs": tensors.outputs,
    }


def configuration(name: str, tensors: Tensors) -> dict[str, Any]:
    """What Triton's extension calls a model's configuration."""

    def listed(described: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kinds = [entry["datatype"].replace("BYTES", "STRING") for entry in described]
        return [
            {"name": entry["name"], "data_type": f"TYPE_{kind}", "dims": entry["shape"]}
            for entry, kind in zip(described, kinds, strict=True)
        ]

    return {
        "name": name,
        "platform": "anytime",
        "backend": "anytime",
        "max_batch_size": 0,  # shapes say all: rows of any number
        "input": listed(tensors.inputs),
        "output": listed(tensors.outputs),
    }


def statistics(name: str, version: str, answers: int, rows: int, seconds: float) -> dict[str, Any]:
    """What Triton's extension says of the answers of a model; of time, what passed from arrival to answer."""
    spent, nothing = {"count": answers, "ns": round(seconds * 1e9)}, {"count": 0, "ns": 0}
    parts = dict.fromkeys(("fail", "queue", "compute_input", "compute_infer", "compute_output"), nothing)
    return {
        "name": name,
        "version": version,
        "inference_count": rows,
        "execution_count": answers,
        "inference_stats": {"success": spent, **parts},
        "batch_stats": [],
    }
