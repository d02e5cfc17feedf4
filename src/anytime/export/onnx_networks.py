"""Networks in ONNX: torch writes the graph of the exits, and answers are computed from their outputs."""

from importlib import import_module
from typing import Any

from anytime.export.graph import Graph, onnx
from anytime.export.selection import Exported, ExportError
from anytime.plan import Plan


def is_network(plan: Plan) -> bool:
    """Whether a plan is one network, from whose exits all rows are answered alike."""
    return len(plan.blocks) == 1 and plan.blocks[0].kind == "network" and not plan.passes and not plan.stops


def scores_of_network(graph: Graph, what: Exported, dtype: str) -> tuple[Any, dict[int, str]]:
    """The network's own graph, and the names of scores, (n, K) doubles, after each number of stages that a budget reaches."""
    stages = sorted({stage - 1 for stage in what.stages})
    own = _written("exits_graph", what.plan.blocks[0], stages, dtype)
    return own, {stage + 1: _scores(graph, what.plan.blocks[0], f"said_{stage}", stage) for stage in stages}


def piece_of_network(graph: Graph, what: Exported, stage: int, dtype: str) -> tuple[Any, str]:
    """The graph of one block, and the name of the scores, (n, K) doubles, after it."""
    own = _written("block_graph", what.plan.blocks[0], stage, dtype)
    return own, _scores(graph, what.plan.blocks[0], "said", stage)


def _written(kind: str, block: Any, what: Any, dtype: str) -> Any:
    try:
        text = getattr(import_module("anytime.networks.graphs"), kind)(block, what, dtype)
    except ImportError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(f"torch cannot write this network as ONNX: {first}") from error
    return onnx.load_model_from_string(text)


def _scores(graph: Graph, block: Any, output: str, stage: int) -> str:
    """(n, K) doubles: the outputs of an exit, divided by its temperature, in the unit of the targets."""
    single = graph.add("Cast", output, to=onnx.TensorProto.FLOAT)
    scores = graph.add("Cast", single, to=onnx.TensorProto.DOUBLE)
    scores = graph.add("Div", scores, graph.constant(float(block.temperatures[stage])))
    if block.unit is not None:
        scores = graph.add(
            "Add", graph.add("Mul", scores, graph.constant(block.unit)), graph.constant(block.offset)
        )
    return scores
