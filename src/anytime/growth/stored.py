"""Grown networks in files: a file holds the architecture and the weights, and everything else in it is checked against these.

Met by ``anytime.networks.stored``, which knows files of networks, when it finds a network that has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from anytime.growth.architecture import Architecture
from anytime.growth.cells import GrownNetwork, build

__all__ = ["on_meta"]

_LEAST_WEIGHTS = 4  # of a cell


def on_meta(arguments: Mapping[str, Any], n_weights: int) -> GrownNetwork:
    """The network of an architecture in a file, without memory for its weights.

    The file has ``n_weights`` arrays: no more layers are built than there can be weights of. ``ValueError`` where it holds no
    architecture, or a larger one.
    """
    if set(arguments) != {"network"} or not isinstance(arguments["network"], Mapping):
        raise ValueError("a grown network is described by its architecture alone")
    architecture = Architecture.from_json(arguments["network"])
    if architecture.space == "module":
        raise ValueError("a file does not hold the module that this network has grown on")
    layers = sum(1 for _ in architecture.shortcuts())
    if _LEAST_WEIGHTS * len(architecture.cells) + layers > n_weights:
        raise ValueError(f"the architecture asks for more than the {n_weights} weights in the file")
    try:
        with torch.device("meta"):
            return build(architecture)
    except (ArithmeticError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"no network can be built of the architecture in the file: {error!s:.200}") from None
