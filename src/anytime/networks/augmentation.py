"""Images shifted and mirrored at random, on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["augmented", "crop_and_flip"]

_AT_ONCE = 8192  # images: cropping thousands in one go costs no more than one batch


def augmented(X: Tensor, order: Tensor, generator: torch.Generator, rank: int) -> Callable[[slice], Tensor]:
    """What gives the images of a batch, by their places in ``order``.

    Parameters
    ----------
    X : (n, channels, height, width)
    order : (m,) int
        Rows of an epoch, one after the other.
    generator : torch.Generator
        Its seed decides, together with ``rank``.
    rank : int
        Number of the process: each shifts its images in its own way.
    """
    if X.ndim != 4:
        raise ValueError(f"augment is for images, (n, channels, height, width), not {tuple(X.shape)}")
    n = len(order)
    shift = torch.randint(
        0, 9, (2, n), generator=generator.manual_seed(generator.initial_seed() + 7 * rank + 1)
    )
    mirror = torch.rand(n, generator=generator) < 0.5
    shift, mirror = shift.to(X.device), mirror.to(X.device)
    chunk: dict[int, Tensor] = {}

    def rows(here: slice) -> Tensor:
        start = here.start // _AT_ONCE * _AT_ONCE
        if here.stop > min(start + _AT_ONCE, n):
            return crop_and_flip(X[order[here]], shift[:, here], mirror[here])
        if start not in chunk:
            chunk.clear()
            some = slice(start, start + _AT_ONCE)
            chunk[start] = crop_and_flip(X[order[some]], shift[:, some], mirror[some])
        return chunk[start][here.start - start : here.stop - start]

    return rows


def crop_and_flip(images: Tensor, shift: Tensor, mirror: Tensor, pad: int = 4) -> Tensor:
    """Images (n, channels, h, w), padded with zeros, cut out again at ``shift`` (2, n), mirrored where ``mirror`` (n,) is set."""
    n, channels, height, width = images.shape
    padded = functional.pad(images, (pad, pad, pad, pad))
    down = shift[0][:, None] + torch.arange(height, device=images.device)
    across = torch.arange(width, device=images.device).expand(n, width)
    across = torch.where(mirror[:, None], width - 1 - across, across) + shift[1][:, None]
    row = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[row, channel, down[:, None, :, None], across[:, None, None, :]]
