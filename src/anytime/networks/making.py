"""``make_anytime`` for torch: a module that is trained already, with exits or without, as a fitted model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length
from torch import nn

from anytime.networks.block import NetworkBlock
from anytime.networks.devices import chosen_device
from anytime.networks.estimators import AnytimeNetworkClassifier, AnytimeNetworkRegressor
from anytime.networks.exits import ExitNetwork
from anytime.networks.network_model import calibrated
from anytime.plan import Plan
from anytime.trees.rows import checked_weights

__all__ = ["make_network"]


def make_network(
    module: nn.Module,
    *,
    X_val: Any = None,
    y_val: Any = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    input_shape: Sequence[int] | None = None,
    device: str | None = None,
    **parameters: Any,
) -> AnytimeNetworkClassifier | AnytimeNetworkRegressor:
    """A copy of a trained module as a fitted model; see ``anytime.make_anytime``, which hands modules on to this."""
    if X_val is None and input_shape is None:
        raise ValueError(
            "give X_val and y_val, or the input_shape of one row: a module does not say what it reads"
        )
    if (X_val is None) != (y_val is None):
        raise ValueError("give X_val and y_val together: validation rows and their labels")
    if X_val is None and sample_weight is not None:
        raise ValueError("sample_weight is for validation rows: give X_val and y_val with it")
    network = copy.deepcopy(module)
    if not isinstance(network, ExitNetwork):
        network = ExitNetwork([network], [nn.Identity()])
    example = next(network.parameters(), torch.zeros(()))
    where = example.device if device is None else chosen_device(device)
    model = _face(y_val, classes)(backbone=network, device=device, **parameters)
    model._validate_params()
    rows = _read(model, X_val, input_shape)
    block = _block(network, model.input_shape_, where, example.dtype)
    targets = _take_targets(model, block.width, y_val, classes)
    if rows is not None and targets is not None:
        check_consistent_length(rows, targets)
        weight = None if sample_weight is None else checked_weights(sample_weight, rows)
        base = model._base(targets, weight, None)
    else:
        base = np.zeros(block.width)
    model.history_, model.n_epochs_ = [], 0
    model.plan_ = Plan(
        blocks=[block],
        costs=model._prices(),
        base=base,
        link=model._link,
        replaces=np.ones(block.n_stages, dtype=bool),
        evaluation_costs=model._evaluation_costs(block),
    )
    if rows is not None and targets is not None and isinstance(model, AnytimeNetworkClassifier):
        model.plan_ = calibrated(model.plan_, rows, targets, weight)
    return model


def _face(
    y: Any, classes: ArrayLike | None
) -> type[AnytimeNetworkClassifier] | type[AnytimeNetworkRegressor]:
    """A classifier, unless the truth is made of numbers that are not whole, or of several per row."""
    if classes is None and y is not None and type_of_target(y).startswith("continuous"):
        return AnytimeNetworkRegressor
    return AnytimeNetworkClassifier


def _read(model: Any, X: Any, input_shape: Sequence[int] | None) -> NDArray[Any] | None:
    """Validation rows as the plan reads them; sets the shape of an input."""
    if X is not None:
        rows, _ = model._read_training(X, np.zeros(len(X)))
        if input_shape is not None and tuple(input_shape) != model.input_shape_:
            raise ValueError(
                f"input_shape is {tuple(input_shape)}, but rows of X_val have shape {model.input_shape_}"
            )
        return np.asarray(rows)
    assert input_shape is not None
    if len(input_shape) not in (1, 3):
        raise ValueError(
            f"input_shape is (columns,) or (channels, height, width), not {tuple(input_shape)}: wrap a module that reads "
            "anything else in one that reshapes rows"
        )
    model.input_shape_ = tuple(int(size) for size in input_shape)
    model.n_features_in_ = int(np.prod(model.input_shape_))
    model._largest_seen = np.inf  # nothing is known about the scale of inputs
    return None


def _block(
    network: ExitNetwork, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype
) -> NetworkBlock:
    reads = [np.arange(int(np.prod(shape)))] * network.n_exits
    try:
        return NetworkBlock(network, reads, shape, device=device, dtype=dtype)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"the module does not read rows of shape {shape}: {error}") from error


def _take_targets(model: Any, n_outputs: int, y: Any, classes: ArrayLike | None) -> NDArray[Any] | None:
    """The truth as the model counts it; sets the classes."""
    if isinstance(model, AnytimeNetworkRegressor):
        model._n_targets = n_outputs
        targets = None if y is None else model._encode_more(y)
        if targets is not None and targets.shape[1] != n_outputs:
            raise ValueError(
                f"the network gives {n_outputs} numbers per row, but y_val has {targets.shape[1]}"
            )
        return targets
    if n_outputs < 2:
        raise ValueError(
            "the network has one output. For regression, y_val must hold numbers that are not all whole; for two classes, "
            "the network needs a second output, which may be constant 0"
        )
    model.classes_ = _classes(n_outputs, y, classes)
    return None if y is None else model._encode_more(y)


def _classes(n_outputs: int, y: Any, classes: ArrayLike | None) -> NDArray[Any]:
    class_labels = np.arange(n_outputs) if classes is None else np.asarray(classes)
    if classes is None and y is not None:
        labels = np.unique(np.asarray(y).ravel())
        if len(labels) == n_outputs or not np.isin(labels, class_labels).all():
            class_labels = labels
    if class_labels.shape != (n_outputs,):
        named = "classes" if classes is not None else "y_val"
        raise ValueError(
            f"the network has {n_outputs} outputs, but {named} has {len(class_labels)} classes; give the classes in the order "
            "of the outputs: classes=[...]"
        )
    if len(np.unique(class_labels)) < n_outputs:
        raise ValueError("classes names a class twice")
    return class_labels
