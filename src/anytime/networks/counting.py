"""What the exits of a network cost: multiplications with additions, counted while one input goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from anytime.networks.exits import ExitNetwork

__all__ = ["MultAdds", "mult_adds"]


@dataclass(frozen=True)
class MultAdds:
    """Multiplications with additions of one input.

    Attributes
    ----------
    blocks, heads : tuple of int
        Of each block, and of each head.
    """

    blocks: tuple[int, ...]
    heads: tuple[int, ...]

    def stages(self) -> list[int]:
        """(L,) of each stage: a block and its head."""
        return [b + h for b, h in zip(self.blocks, self.heads, strict=True)]

    def exits(self) -> list[int]:
        """(L,) up to each exit, all heads on the way included."""
        totals, total = [], 0
        for stage in self.stages():
            total += stage
            totals.append(total)
        return totals


def mult_adds(network: ExitNetwork, input_shape: Sequence[int]) -> MultAdds:
    """Count convolutions, linear layers and matrix products; normalisation, activation and pooling count nothing.

    Parameters
    ----------
    network : ExitNetwork
    input_shape : sequence of int
        Of one input.
    """
    counted = 0

    def count(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal counted
        if isinstance(module, nn.modules.conv._ConvNd):
            per_output = module.in_channels // module.groups * int(torch.tensor(module.kernel_size).prod())
            counted += output[0].numel() * per_output
        elif isinstance(module, nn.Linear):
            counted += output[0].numel() * module.in_features

    kinds = (nn.modules.conv._ConvNd, nn.Linear)
    hooks = [m.register_forward_hook(count) for m in network.modules() if isinstance(m, kinds)]
    example = next(network.parameters())
    state: Any = torch.zeros(1, *input_shape, device=example.device, dtype=example.dtype)
    was_training = network.training
    network.eval()
    blocks, heads = [], []
    try:
        with torch.no_grad():
            for block, head in zip(network.blocks, network.heads, strict=True):
                counted = 0
                state = block(state)
                blocks.append(counted)
                counted = 0
                head(state)
                heads.append(counted)
    finally:
        for hook in hooks:
            hook.remove()
        network.train(was_training)
    return MultAdds(tuple(blocks), tuple(heads))
