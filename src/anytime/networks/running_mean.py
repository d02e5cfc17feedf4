"""The running mean of a network's parameters, which is often better than the last of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["RunningMean", "copy_of"]


class RunningMean:
    """Exponential running mean of the parameters, and of the statistics of batch normalisation.

    Parameters
    ----------
    network : Module
    momentum : float
        Rises to this in the first steps, so that these do not count for long.
    """

    def __init__(self, network: nn.Module, momentum: float) -> None:
        self.momentum = momentum
        self.values = copy_of(network)
        self.updates = 0

    def update(self, network: nn.Module) -> None:
        """Take in the parameters of a step."""
        self.updates += 1
        share = 1 - min(self.momentum, (1 + self.updates) / (10 + self.updates))
        state = network.state_dict()
        names = [name for name, value in state.items() if value.dtype.is_floating_point]
        torch._foreach_lerp_([self.values[n] for n in names], [state[n].detach() for n in names], share)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"values": self.values, "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what ``state_dict`` gave."""
        self.values, self.updates = dict(state["values"]), state["updates"]

    @contextmanager
    def swapped(self, network: nn.Module) -> Iterator[None]:
        """The network with the mean in place of its parameters."""
        own = copy_of(network)
        network.load_state_dict(self.values)
        try:
            yield
        finally:
            network.load_state_dict(own)


def copy_of(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers as they are now."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
