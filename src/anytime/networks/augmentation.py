"""Images shifted, mirrored and partly blanked at random, on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["augmented", "crop_and_flip", "cut_out"]

_AT_ONCE = 8192  # images: cropping thousands in one go costs no more than one batch


def augmented(
    X: Tensor, order: Tensor, generator: torch.Generator, rank: int, cutout: int = 0
) -> Callable[[slice], Tensor]:
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
    cutout : int, default=0
        Side of the square that is blanked in each image.
    """
    if X.ndim != 4:
        raise ValueError(f"augment is for images, (n, channels, height, width), not {tuple(X.shape)}")
    n = len(order)
    shift = torch.randint(
        0, 9, (2, n), generator=generator.manual_seed(generator.initial_seed() + 7 * rank + 1)
    )
    mirror = torch.rand(n, generator=generator) < 0.5
    shift, mirror = shift.to(X.device), mirror.to(X.device)
    centres, blank = _squares(X, n, generator, cutout)
    chunk: dict[int, Tensor] = {}

    def changed(here: slice) -> Tensor:
        images = crop_and_flip(X[order[here]], shift[:, here], mirror[here])
        return cut_out(images, centres[:, here], cutout, blank) if cutout else images

    def rows(here: slice) -> Tensor:
        start = here.start // _AT_ONCE * _AT_ONCE
        if here.stop > min(start + _AT_ONCE, n):
            return changed(here)
        if start not in chunk:
            chunk.clear()
            chunk[start] = changed(slice(start, start + _AT_ONCE))
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


def _squares(X: Tensor, n: int, generator: torch.Generator, side: int) -> tuple[Tensor, Tensor]:
    """Centres of squares, (2, n), and what fills them: the mean of some images, by channel."""
    if not side:
        return X.new_zeros(2, 0), X.new_zeros(0)
    centres = torch.stack([torch.randint(0, size, (n,), generator=generator) for size in X.shape[2:]])
    mean = X[:1000].float().mean(dim=(0, 2, 3)).to(X.dtype)
    return centres.to(X.device), mean[:, None, None]


def cut_out(images: Tensor, centres: Tensor, side: int, blank: Tensor) -> Tensor:
    """Images (n, channels, h, w) with a square around ``centres`` (2, n) replaced by ``blank`` (channels, 1, 1).

    What stands out of the image is cut off (DeVries and Taylor 2017).
    """
    within = []
    for centre, size in zip(centres, images.shape[2:], strict=True):
        at = torch.arange(size, device=images.device) - centre[:, None] + side // 2
        within.append((at >= 0) & (at < side))
    square = within[0][:, None, :, None] & within[1][:, None, None, :]
    return torch.where(square, blank, images)
