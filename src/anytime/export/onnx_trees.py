"""Trees in ONNX: an ensemble says which leaf each tree reaches, and a table what that leaf adds.

``TreeEnsembleRegressor`` gives its sums in float32. Numbers of leaves are exact in it; the leaves' values are then added as whole
numbers, as the native evaluator does, so that the scores are the same to the last bit. Runtimes add up whole numbers as doubles,
in which half of their digits at a time are exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.export.graph import Graph, onnx
from anytime.export.nodes import PlainTrees
from anytime.export.selection import ExportError

_EXACT = 1 << 24  # whole numbers up to this are exact in float32
_HALF = 31  # binary digits of the lower half of a leaf
_STUB = -1  # instead of a tree: adds nothing
_QUESTION = -1  # instead of a leaf's row


def summed_units(graph: Graph, X: str, trees: PlainTrees, first: int, last: int, n_outputs: int) -> str:
    """(n, K) what stages from ``first`` to before ``last`` add up to, in units."""
    members = np.arange(trees.stage_start[first], trees.stage_start[last])
    return _added(graph, X, trees, [members], n_outputs, keep_stages=False)


def stage_units(graph: Graph, X: str, trees: PlainTrees, first: int, last: int, n_outputs: int) -> str:
    """(n, S, K) what each of these stages adds, in units."""
    stages = [np.arange(trees.stage_start[s], trees.stage_start[s + 1]) for s in range(first, last)]
    return _added(graph, X, trees, stages, n_outputs, keep_stages=True)


def _added(
    graph: Graph,
    X: str,
    trees: PlainTrees,
    stages: list[NDArray[np.int64]],
    n_outputs: int,
    keep_stages: bool,
) -> str:
    width = trees.leaves.shape[1]
    by_output = 1 if width == n_outputs else n_outputs
    slots = _slots(trees, stages, by_output)
    leaf, table = _leaves(graph, X, trees, slots.ravel())
    upper = table >> _HALF
    halves = np.stack([upper, table - (upper << _HALF)])
    sums = []
    for half in halves:
        # (n, stages, outputs or 1, slots of each, values of each)
        added = graph.add("Gather", graph.constant(half), leaf, axis=0)
        added = graph.add("Reshape", added, graph.whole(0, *slots.shape, width))
        added = graph.add("ReduceSum", added, graph.whole(*((3,) if keep_stages else (1, 3))), keepdims=0)
        shape = (len(stages), n_outputs) if keep_stages else (n_outputs,)
        added = graph.add("Reshape", added, graph.whole(0, *shape))
        sums.append(graph.add("Cast", added, to=onnx.TensorProto.INT64))
    return graph.add("Add", graph.add("Mul", sums[0], graph.whole(1 << _HALF)), sums[1])


def _slots(trees: PlainTrees, stages: list[NDArray[np.int64]], by_output: int) -> NDArray[np.int64]:
    """(stages, outputs or 1, most trees of one) trees, stubs where there are fewer."""
    kinds = [
        [t[trees.tree_output[t] == k] for k in range(by_output)] if by_output > 1 else [t] for t in stages
    ]
    most = max(1, *(kind.size for stage in kinds for kind in stage))
    slots = np.full((len(stages), by_output, most), _STUB, dtype=np.int64)
    for s, stage in enumerate(kinds):
        for k, kind in enumerate(stage):
            slots[s, k, : kind.size] = kind
    return slots


def _leaves(
    graph: Graph, X: str, trees: PlainTrees, slots: NDArray[np.int64]
) -> tuple[str, NDArray[np.int64]]:
    """(n, slots) numbers of the leaves reached, and the table (leaves, W) that they point into."""
    nodes: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("tree", "node", "feature", "threshold", "true", "false", "missing", "row")
    }
    table = [np.zeros((1, trees.leaves.shape[1]), dtype=np.int64)]  # row 0 is what stubs add
    n_rows = 1
    for slot, tree in enumerate(slots.tolist()):
        if tree == _STUB:
            inner, start, rows = slice(0, 0), 0, np.zeros(1, dtype=np.int64)
        else:
            inner = slice(*trees.node_start[tree : tree + 2])
            start, end = trees.leaf_start[tree : tree + 2]
            rows = n_rows + np.arange(end - start)
            table.append(trees.leaves[start:end])
            n_rows += rows.size
        n_inner = inner.stop - inner.start
        true, false = (
            np.where(to[inner] >= 0, to[inner] - inner.start, n_inner + ~to[inner] - start)
            for to in (trees.left, trees.right)
        )
        blank = np.zeros(rows.size, dtype=np.int64)  # leaves stand behind the questions
        for name, values in {
            "tree": np.full(n_inner + rows.size, slot),
            "node": np.arange(n_inner + rows.size),
            "feature": np.concatenate([trees.feature[inner], blank]),
            "threshold": np.concatenate([trees.threshold[inner], blank]),
            "true": np.concatenate([true, blank]),
            "false": np.concatenate([false, blank]),
            "missing": np.concatenate([trees.missing_left[inner], blank]),
            "row": np.concatenate([np.full(n_inner, _QUESTION), rows]),
        }.items():
            nodes[name].append(values)
    if n_rows > _EXACT:
        raise ExportError(
            f"{n_rows} leaves between two budgets are more than the {_EXACT} that ONNX can number"
        )
    leaf = _ensemble(graph, X, {name: np.concatenate(arrays) for name, arrays in nodes.items()}, slots.size)
    return graph.add("Cast", leaf, to=onnx.TensorProto.INT64), np.concatenate(table)


def _ensemble(graph: Graph, X: str, nodes: dict[str, NDArray[Any]], n_targets: int) -> str:
    """Each tree speaks to a target of its own, and says the row of the table."""
    leaves = nodes["row"] != _QUESTION
    return graph.add(
        "TreeEnsembleRegressor",
        X,
        domain="ai.onnx.ml",
        nodes_treeids=nodes["tree"].tolist(),
        nodes_nodeids=nodes["node"].tolist(),
        nodes_featureids=nodes["feature"].tolist(),
        nodes_values_as_tensor=onnx.numpy_helper.from_array(nodes["threshold"]),
        nodes_modes=np.where(leaves, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_truenodeids=nodes["true"].tolist(),
        nodes_falsenodeids=nodes["false"].tolist(),
        nodes_missing_value_tracks_true=nodes["missing"].tolist(),
        target_treeids=nodes["tree"][leaves].tolist(),
        target_nodeids=nodes["node"][leaves].tolist(),
        target_ids=nodes["tree"][leaves].tolist(),
        target_weights_as_tensor=onnx.numpy_helper.from_array(nodes["row"][leaves].astype(np.float64)),
        n_targets=n_targets,
    )
