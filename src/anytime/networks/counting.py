"""The cost of the exits of a network: multiply-additions, counted while one input passes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from anytime.networks.exits import ExitNetwork

__all__ = ["MultAdds", "mult_adds"]


@dataclass(frozen=True)
class MultAdds:
    """Multiply-additions for one input.

    Attributes
    ----------
    blocks, heads : tuple of int
        Counts of each block, and of each head.
    """

    blocks: tuple[int, ...]
    heads: tuple[int, ...]

    def stages(self) -> list[int]:
        """(L,) counts of each stage: a block and its head."""
        return [b + h for b, h in zip(self.blocks, self.heads, strict=True)]

    def exits(self) -> list[int]:
        """(L,) counts up to each exit, including all heads on the way."""
        totals, total = [], 0
        for stage in self.stages():
            total += stage
            totals.append(total)
        return totals


def mult_adds(network: ExitNetwork, input_shape: Sequence[int]) -> MultAdds:
    """Count convolutions, linear layers, matrix products and attention; normalisation, activation and pooling are free.

    Parameters
    ----------
    network : ExitNetwork
    input_shape : sequence of int
        Shape of one input.
    """
    example = next(network.parameters(), torch.zeros(()))
    state: Any = torch.zeros(1, *input_shape, device=example.device, dtype=example.dtype)
    was_training = network.training
    had_fast_path = torch.backends.mha.get_fastpath_enabled()
    network.eval()
    torch.backends.mha.set_fastpath_enabled(
        False
    )  # one kernel for all of a transformer's layer, whose operations cannot be counted
    counted: list[int] = []
    try:
        with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=_MORE) as counter:
            for block, head in zip(network.blocks, network.heads, strict=True):
                state = block(state)
                counted.append(counter.get_total_flops())
                head(state)
                counted.append(counter.get_total_flops())
    finally:
        torch.backends.mha.set_fastpath_enabled(had_fast_path)
        network.train(was_training)
    steps = np.diff(counted, prepend=0) // 2  # one multiplication with its addition is two operations
    return MultAdds(tuple(steps[::2].tolist()), tuple(steps[1::2].tolist()))


def _attention_operations(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Operations of (..., queries, width) x (..., width, keys) x (..., keys, outputs)."""
    *others, n_queries, width = query
    return 2 * int(np.prod(others)) * n_queries * key[-2] * (width + value[-1])


# what torch counts on a GPU only
_MORE = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_operations}
