"""Several processes that train one network, through ``torch.distributed``; alone where that was not set up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = [
    "average_gradients",
    "average_over_processes",
    "is_distributed",
    "latest",
    "rank_and_size",
    "share_first",
]


def is_distributed() -> bool:
    """Whether several processes train one network."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank_and_size() -> tuple[int, int]:
    """The number of this process, and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if is_distributed() else (0, 1)


def share_first(network: nn.Module) -> None:
    """Give all processes the network of the first one."""
    for value in network.state_dict().values():
        dist.broadcast(value, 0)


def average_gradients(parameters: Sequence[Tensor]) -> None:
    """Give all processes the mean of their gradients."""
    if not is_distributed():
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    at = 0
    for g in gradients:
        g.copy_(flat[at : at + g.numel()].view_as(g))
        at += g.numel()


def latest(passed: float, device: torch.device) -> float:
    """The share of time that is over by the fastest clock of all processes, so that all of them stop at the same batch."""
    if not is_distributed():
        return passed
    share = torch.tensor(passed, device=device)
    dist.all_reduce(share, dist.ReduceOp.MAX)
    return float(share)


def average_over_processes(values: Iterable[Tensor]) -> None:
    """Give all processes the means of what each has, in place; whole numbers stay as they are."""
    for value in values:
        if value.dtype.is_floating_point:
            dist.all_reduce(value)
            value /= dist.get_world_size()
