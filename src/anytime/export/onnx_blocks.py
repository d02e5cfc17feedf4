"""Stages other than trees, and the step from scores to answers, in ONNX."""

import numpy as np

from anytime.blocks import Block, LinearBlock
from anytime.export.graph import Graph, onnx
from anytime.linear.classifier_tree import LinearTreeBlock
from anytime.losses import Link
from anytime.rules import EntropyRule, MarginRule, OutsideRule, Rule
from anytime.streaming.banks.nets import NetBlock

# ---------------------------------------------------------------------- blocks


def block_outputs(graph: Graph, X: str, block: Block, stage: int) -> str | None:
    """(n, width) what a stage gives; None where the block is of no kind that is known here."""
    if isinstance(block, LinearBlock):
        return _linear(graph, X, block, stage)
    if isinstance(block, NetBlock):
        return _net(graph, X, block, stage)
    if isinstance(block, LinearTreeBlock):
        return _linear_tree(graph, X, block, stage)
    return None


def zero_per_row(graph: Graph, X: str) -> str:
    """(n, 1) zeros, whatever stands in the rows."""
    return graph.or_zero(graph.add("Mul", graph.columns(X, np.zeros(1)), graph.constant(0.0)))


def _linear(graph: Graph, X: str, block: LinearBlock, stage: int) -> str:
    table = block.coefficients[stage]
    columns = block._columns[: len(table)]
    intercept = graph.constant(block.intercepts[stage : stage + 1])
    if not columns.size:  # a constant, with as many rows as X
        return graph.add("Add", zero_per_row(graph, X), intercept)
    values = graph.columns(X, columns)
    if block.centres is not None:
        away = graph.add("Sub", values, graph.constant(block.centres[: len(table)]))
        values = graph.add("Where", graph.add("IsNaN", values), graph.constant(0.0), away)
    return graph.add("Add", graph.add("MatMul", values, graph.constant(table)), intercept)


def _net(graph: Graph, X: str, block: NetBlock, stage: int) -> str:
    hidden, readout = block.hidden[stage], block.readout[stage]
    seen = graph.or_zero(X)
    sums = graph.add("MatMul", seen, graph.constant(hidden[:, :-1].T))
    sums = graph.add("Add", sums, graph.constant(hidden[:, -1]))
    if block.activation == "sigmoid":
        units = _logistic(graph, sums)
    elif block.activation == "cosine":
        units = graph.add("Cos", sums)
    else:
        positive = graph.add("Greater", sums, graph.constant(0.0))
        units = graph.add("Where", positive, sums, graph.add("Mul", sums, graph.constant(0.01)))
    read = graph.add("MatMul", units, graph.constant(readout[:, :-1].T))
    return graph.add("Add", read, graph.constant(readout[:, -1]))


def _linear_tree(graph: Graph, X: str, block: LinearTreeBlock, stage: int) -> str:
    """Every node of the path and of the level computes its scores; each row takes those of its own node."""
    tree = block.tree
    away = graph.or_zero(graph.add("Sub", X, graph.constant(tree.centres)))
    inner, first = 2**stage - 1, 2**stage - 1
    node = graph.add("Cast", zero_per_row(graph, away), to=onnx.TensorProto.INT64)
    if inner:
        routes = graph.add("MatMul", away, graph.constant(tree.routes[:inner].T))
        beyond = graph.add("Greater", routes, graph.constant(tree.thresholds[:inner]))
        right = graph.add("Cast", beyond, to=onnx.TensorProto.INT64)
        for _ in range(stage):
            step = graph.add("Add", graph.add("GatherElements", right, node, axis=1), graph.whole(1))
            node = graph.add("Add", graph.add("Add", node, node), step)
    here = slice(first, 2 * first + 1)
    n, d, width = tree.weights[here].shape
    table = tree.weights[here].transpose(1, 2, 0).reshape(d, width * n)  # classes, then nodes of the level
    answers = graph.add("MatMul", away, graph.constant(table))
    answers = graph.add("Add", answers, graph.constant(tree.intercepts[here].T.ravel()))
    answers = graph.add("Reshape", answers, graph.whole(0, width, n))
    which = graph.add("Unsqueeze", graph.add("Sub", node, graph.whole(first)), graph.whole(2))
    which = graph.add("Expand", which, graph.whole(1, width, 1))
    return graph.add("Reshape", graph.add("GatherElements", answers, which, axis=2), graph.whole(0, width))


# ---------------------------------------------------------------------- rules


def margin(graph: Graph, scores: str, n_outputs: int) -> str:
    """(n, 1) how far the leading class is ahead."""
    if n_outputs == 1:
        return graph.add("Abs", scores)
    top, _ = graph.add_pair("TopK", scores, graph.whole(2), axis=1)
    return graph.add("Sub", graph.columns(top, np.array([0])), graph.columns(top, np.array([1])))


def rule_holds(graph: Graph, rule: Rule, scores: str, link: Link, n_outputs: int) -> str | None:
    """(n, 1) the answer of a rule that looks at scores alone; None where it is of no kind that is known here."""
    if isinstance(rule, OutsideRule):
        above = graph.add("Greater", scores, graph.constant(rule.low))
        return graph.add("Not", graph.add("And", above, graph.add("Less", scores, graph.constant(rule.high))))
    if isinstance(rule, MarginRule):
        measure = margin(graph, scores, n_outputs)
    elif isinstance(rule, EntropyRule):
        measure = _entropy(graph, transformed(graph, scores, link, n_outputs), link.n_classes(n_outputs))
    else:
        return None
    below = graph.add("Less", measure, graph.constant(rule.threshold))
    return below if rule.below else graph.add("Not", below)


def _entropy(graph: Graph, probabilities: str, n_classes: int) -> str:
    shares = _summing_to_one(graph, graph.add("Relu", probabilities), n_classes)
    some = graph.add("Greater", shares, graph.constant(0.0))
    logs = graph.add("Log", graph.add("Where", some, shares, graph.constant(1.0)))
    return graph.add(
        "Neg", graph.add("ReduceSum", graph.add("Mul", shares, logs), graph.whole(1), keepdims=1)
    )


# ---------------------------------------------------------------------- links


def transformed(graph: Graph, scores: str, link: Link, n_outputs: int) -> str:
    """(n, C) what the link makes of scores: probabilities of classes, or values."""
    name = link.name
    if name.startswith("half_"):
        scores, name = graph.add("Mul", scores, graph.constant(2.0)), name.removeprefix("half_")
    if name in ("identity", "probability"):
        return scores
    if name == "exp":
        return graph.add("Exp", scores)
    if name == "signed_square":
        return graph.add("Mul", graph.add("Abs", scores), scores)
    if name == "softplus":  # of large scores no exponential is taken
        small = graph.add("Exp", graph.add("Neg", graph.add("Abs", scores)))
        soft = graph.add("Log", graph.add("Add", small, graph.constant(1.0)))
        return graph.add("Add", graph.add("Relu", scores), soft)
    if name in ("regression_logistic", "ova"):
        return _logistic(graph, scores)
    if name == "logistic":
        positive = _logistic(graph, scores)
        return graph.add("Concat", graph.add("Sub", graph.constant(1.0), positive), positive, axis=1)
    if name == "softmax":
        return graph.add("Softmax", scores, axis=1)
    n_classes = link.n_classes(n_outputs)
    if name == "one_vs_all":
        return _summing_to_one(graph, _logistic(graph, scores), n_classes)
    if name == "counts":
        return _summing_to_one(graph, scores, n_classes)
    if name == "least_squares":
        within = graph.add("Clip", scores, graph.constant(0.0), graph.constant(1.0))
        return _summing_to_one(graph, within, n_classes)
    raise NotImplementedError(f"the link {name!r} cannot be exported to ONNX")


def _logistic(graph: Graph, scores: str) -> str:
    """Not the operator Sigmoid, which in ONNX Runtime is 0 where probabilities are very small."""
    one = graph.constant(1.0)
    return graph.add("Div", one, graph.add("Add", one, graph.add("Exp", graph.add("Neg", scores))))


def _summing_to_one(graph: Graph, probabilities: str, n_classes: int) -> str:
    total = graph.add("ReduceSum", probabilities, graph.whole(1), keepdims=1)
    some = graph.add("Greater", total, graph.constant(0.0))
    share = graph.add("Div", probabilities, graph.add("Where", some, total, graph.constant(1.0)))
    return graph.add("Where", some, share, graph.constant(1.0 / n_classes))
