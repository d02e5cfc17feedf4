"""Where networks are computed: which device is there, and the error message where it is not."""

from __future__ import annotations

import torch

__all__ = ["chosen_device", "default_device", "is_here", "is_out_of_memory"]

# error messages of libraries under torch where the memory of a GPU is too small
_NO_MEMORY = (
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "unable to find an engine",
    "out of memory",
)


def default_device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def is_here(device: str | torch.device) -> bool:
    """Whether this machine has a device; of kinds other than "cuda" torch itself has to say."""
    wanted = torch.device(device)
    if wanted.type != "cuda":
        return True
    return torch.cuda.is_available() and (wanted.index or 0) < torch.cuda.device_count()


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device that was asked for; None: the default one.

    Raises
    ------
    ValueError
        Where no device has that name, or this machine does not have it.
    """
    if device is None:
        return default_device()
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"torch has no device {device!r}; the usual ones are 'cpu' and 'cuda'") from error
    if is_here(wanted):
        return wanted
    if not torch.cuda.is_available():
        raise ValueError(
            f"device={str(wanted)!r} was asked for, but torch sees no GPU here; use device='cpu'"
        )
    raise ValueError(
        f"device={str(wanted)!r} was asked for, but the GPUs here are numbered 0 to {torch.cuda.device_count() - 1}"
    )


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one on the way to it, says that the memory of a GPU is too small."""
    if error is None:
        return False
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    names_it = isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY)
    return names_it or is_out_of_memory(error.__context__)
