"""The obvious evaluation of `TreeArrays`: one row, one tree, one node at a time, as its docstring says."""

from __future__ import annotations

import math

import numpy as np

from anytime.trees.arrays import LEAF, MISSING_NAN, MISSING_NAN_OR_ZERO, MISSING_NEVER, NUMERIC

ZERO = float(np.float32(1e-35))


def goes_left(trees, node, x):
    """Whether value ``x`` goes left at a node (numbered over all trees)."""
    if trees.category_set[node] != NUMERIC:
        if math.isnan(x):
            return bool(trees.default_left[node])
        c = trees.category_set[node]
        members = trees.categories[trees.category_start[c] : trees.category_start[c + 1]]
        is_member = math.isfinite(x) and int(x) >= 0 and int(x) in members.tolist()
        return is_member == bool(trees.members_left[node])
    rule = trees.missing[node]
    if math.isnan(x) and rule == MISSING_NEVER:
        x = 0.0
    if math.isnan(x) and rule in (MISSING_NAN, MISSING_NAN_OR_ZERO):
        return bool(trees.default_left[node])
    if rule == MISSING_NAN_OR_ZERO and abs(x) <= ZERO:
        return bool(trees.default_left[node])
    return x <= trees.threshold[node]


def leaf_of(trees, tree, row):
    """Node (numbered over all trees) of the leaf that a row reaches in a tree."""
    start = int(trees.tree_start[tree])
    node = start
    while trees.left[node] != LEAF:
        child = trees.left if goes_left(trees, node, row[trees.feature[node]]) else trees.right
        node = start + int(child[node])
    return node


def stage_outputs(trees, X):
    """What each stage adds, (S, n, K)."""
    X = np.asarray(X, dtype=np.float64)
    if trees.float32_input:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32).astype(np.float64)
    outputs = np.zeros((trees.n_stages, len(X), trees.n_outputs))
    for stage in range(trees.n_stages):
        for tree in range(trees.stage_start[stage], trees.stage_start[stage + 1]):
            for i, row in enumerate(X.tolist()):
                value = trees.value[leaf_of(trees, tree, row)]
                if value.size == trees.n_outputs:
                    outputs[stage, i] += value
                else:
                    outputs[stage, i, trees.tree_output[tree]] += value[0]
    return outputs


def prefix_scores(outputs, base, combine):
    """Score after each number of stages from 0 to S, (S + 1, n, K)."""
    S, n, K = outputs.shape
    scores = np.empty((S + 1, n, K))
    scores[0] = base
    total = np.zeros((n, K))
    for s in range(S):
        total = total + outputs[s]
        scores[s + 1] = total / (s + 1) if combine == "mean" else base + total
    return scores
