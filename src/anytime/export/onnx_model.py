"""A fitted model as an ONNX model."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from anytime.export.graph import Graph, onnx
from anytime.export.onnx_blocks import transformed
from anytime.export.onnx_networks import is_network, piece_of_network, scores_of_network
from anytime.export.onnx_plan import PlanGraph
from anytime.export.selection import Exported, ExportError, exported

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8
_DTYPES = {"float64": "DOUBLE", "float32": "FLOAT"}


def to_onnx(
    model: Any,
    path: str | Path | None = None,
    *,
    budgets: Sequence[float | None] | None = None,
    dtype: str = "float64",
) -> Any:
    """A fitted model as an ONNX model; see ``AnytimeModel.to_onnx``."""
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
    what = exported(model, budgets)
    graph = Graph()
    own: Any = None
    if is_network(what.plan):
        own, scores = scores_of_network(graph, what, dtype)
    else:
        X = "X" if dtype == "float64" else graph.add("Cast", "X", to=onnx.TensorProto.DOUBLE)
        scores = PlanGraph(graph, X, what).scores()
    outputs = []
    for number, (label, stage) in enumerate(zip(what.labels, what.stages, strict=True)):
        suffix = "" if budgets is None else f"_{label}"
        scaling = None if what.scaling is None else what.scaling[number]
        outputs += _answers(graph, what, scores[stage], suffix, scaling)
    proto = _model(model, what, graph, outputs, own, dtype)
    if path is not None:
        Path(path).write_bytes(proto.SerializeToString())
    return proto


def to_onnx_blocks(model: Any, folder: str | Path, *, dtype: str = "float32") -> list[Path]:
    """One ONNX model per block of a network; see ``AnytimeNetworkClassifier.to_onnx_blocks``."""
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
    what = exported(model)
    if not is_network(what.plan):
        raise ExportError("only a network in which all rows take the same path can be written block by block")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    n_stages, paths = what.plan.n_stages, []
    for stage in range(n_stages):
        graph = Graph()
        own, scores = piece_of_network(graph, what, stage, dtype)
        states = [output for output in own.graph.output if output.name != "said"]
        learned = what.plan.calibration
        scaling = None if learned is None else (learned.power[stage + 1], learned.floor[stage + 1])
        proto = _model(model, what, graph, [*states, *_answers(graph, what, scores, "", scaling)], own, dtype)
        paths.append(folder / f"block_{stage + 1:0{len(str(n_stages))}d}.onnx")
        paths[-1].write_bytes(proto.SerializeToString())
    return paths


def _model(model: Any, what: Exported, graph: Graph, outputs: list[Any], own: Any, dtype: str) -> Any:
    """A checked model from a graph, after the ``own`` graph of a network if there is one."""
    element = getattr(onnx.TensorProto, _DTYPES[dtype])
    inputs = [onnx.helper.make_tensor_value_info("X", element, ["rows", what.plan.n_features])]
    nodes, constants = graph.nodes, graph.initialisers
    if own is not None:
        inputs = list(own.graph.input)
        nodes, constants = [*own.graph.node, *nodes], [*own.graph.initializer, *constants]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, type(model).__name__, inputs, outputs, initializer=constants),
        producer_name="anytime",
        producer_version=version("anytime"),
        opset_imports=[onnx.helper.make_opsetid(domain, number) for domain, number in _OPSETS.items()],
        ir_version=_IR_VERSION,
    )
    onnx.helper.set_model_props(proto, _described(what))
    onnx.checker.check_model(proto)
    return proto


def _answers(
    graph: Graph, what: Exported, scores: str, suffix: str, scaling: tuple[Any, float] | None = None
) -> list[Any]:
    """Name the answers that are made of scores; ``scaling``: by which powers and floor probabilities are calibrated."""
    n_outputs = what.plan.n_outputs
    values = transformed(graph, scores, what.link, n_outputs)
    info, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    prediction = f"prediction{suffix}"
    if what.classes is None:
        one = n_outputs == 1
        shape = graph.whole(0) if one else graph.whole(0, n_outputs)
        graph.add("Reshape", values, shape, name=prediction)
        return [info(prediction, types.DOUBLE, ["rows"] if one else ["rows", n_outputs])]
    if what.link.binary:
        positive = graph.add("Greater", graph.add("Reshape", scores, graph.whole(0)), graph.constant(0.0))
        leading = graph.add("Cast", positive, to=types.INT64)
    else:
        leading = graph.add("ArgMax", scores, axis=1, keepdims=0)
    labels, element = _labels(what)
    graph.add("Gather", graph.constant(labels, labels.dtype), leading, axis=0, name=prediction)
    if scaling is not None:
        logs = graph.add("Log", graph.add("Add", values, graph.constant(scaling[1])))
        power = graph.add(
            "Gather", graph.constant(scaling[0]), graph.add("ArgMax", values, axis=1, keepdims=1), axis=0
        )
        values = graph.add("Softmax", graph.add("Mul", power, logs), axis=1)
    probability = f"probability{suffix}"
    graph.add("Identity", values, name=probability)
    n_classes = what.link.n_classes(n_outputs)
    return [info(prediction, element, ["rows"]), info(probability, types.DOUBLE, ["rows", n_classes])]


def _labels(what: Exported) -> tuple[Any, Any]:
    """Labels as ONNX holds them, and their type there."""
    classes, types = np.asarray(what.classes), onnx.TensorProto
    if classes.dtype.kind == "b":
        return classes, types.BOOL
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64), types.INT64
    if classes.dtype.kind == "f":
        return classes.astype(np.float64), types.DOUBLE
    return np.array([str(label) for label in classes], dtype=object), types.STRING


def _described(what: Exported) -> dict[str, str]:
    """What a reader of the file may want to know."""
    costs = what.plan.costs
    return {
        "columns": json.dumps(what.names),
        "categories": json.dumps(what.categories),
        "groups": json.dumps([costs.costs.names[g] for g in costs.column_group]),
        "prices": json.dumps(
            dict(zip(costs.costs.names, costs.costs.amounts(costs.prices).tolist(), strict=True))
        ),
        "unit": costs.costs.unit or "",
        "stages": json.dumps(dict(zip(what.labels, what.stages, strict=True))),
        "stage_costs": json.dumps(what.spent.tolist()),
    }
