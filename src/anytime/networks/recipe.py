"""Training settings of a network: epochs, batches, optimizer and schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from anytime.networks.weights import HalfEnd, LossWeights

__all__ = ["CosineSchedule", "StepSchedule", "TrainingRecipe", "auto_weights"]


@dataclass(frozen=True)
class CosineSchedule:
    """The learning rate falls to zero along half a cosine, after a linear rise over the share ``warmup``."""

    warmup: float = 0.05

    def __call__(self, progress: float) -> float:
        """The share of the full rate when the share ``progress`` of training is over."""
        if progress < self.warmup:
            return (progress + 1e-3) / (self.warmup + 1e-3)
        return float(0.5 * (1 + np.cos(np.pi * (progress - self.warmup) / max(1 - self.warmup, 1e-9))))


@dataclass(frozen=True)
class StepSchedule:
    """The learning rate is divided by ``factor`` at each of the shares ``at`` of training."""

    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 10.0

    def __call__(self, progress: float) -> float:
        """The share of the full rate when the share ``progress`` of training is over."""
        return float(self.factor ** -sum(progress >= point for point in self.at))


@dataclass(frozen=True)
class TrainingRecipe:
    """Training settings of a network.

    Parameters
    ----------
    epochs : int
    batch_size : int
    optimizer : {"sgd", "adamw"}
        "sgd" has Nesterov momentum.
    learning_rate, momentum, weight_decay : float
    schedule : CosineSchedule, StepSchedule or callable
        Function from the completed share of training to the share of the learning rate.
    clip : float or None
        Maximum norm of the gradient.
    average : float or None
        Momentum of a running mean of all parameters, which is kept at the end. None: the last parameters are kept.
    augment : {"crop_flip", None}
        "crop_flip": images are padded by 4, cropped at random and mirrored at random.
    cutout : int
        Side of the square that is blanked at a random place of each image, with ``augment``; 0: none is.
    label_smoothing : float
    distillation : float
        Share of the loss of every exit but the last that compares it with the output of the last exit instead of the label.
    decoupled : bool
        Heads learn at full speed; the weights of the scheme scale the gradient that each exit passes to the blocks.
    bfloat16 : bool or None
        Compute in bfloat16 where it is safe. None: on a GPU.
    channels_last : bool or None
        Store images and filters with the channels last. None: on a GPU.
    compile : bool
        Compile the network with ``torch.compile``.
    """

    epochs: int = 60
    batch_size: int = 128
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Callable[[float], float] = field(default_factory=CosineSchedule)
    clip: float | None = None
    average: float | None = None
    augment: str | None = None
    cutout: int = 0
    label_smoothing: float = 0.0
    distillation: float = 0.0
    decoupled: bool = False
    bfloat16: bool | None = None
    channels_last: bool | None = None
    compile: bool = False

    def __post_init__(self) -> None:
        wrong = {
            "epochs must be at least 1": self.epochs < 1,
            "batch_size must be at least 1": self.batch_size < 1,
            "optimizer must be 'sgd' or 'adamw'": self.optimizer not in ("sgd", "adamw"),
            "learning_rate must be above 0": not self.learning_rate > 0,
            "clip must be above 0, or None": self.clip is not None and not self.clip > 0,
            "average must be between 0 and 1, or None": self.average is not None and not 0 < self.average < 1,
            "augment must be 'crop_flip' or None": self.augment not in ("crop_flip", None),
            "cutout must not be negative, and goes with augment": self.cutout < 0
            or bool(self.cutout and self.augment is None),
            "label_smoothing must be at least 0 and below 1": not 0 <= self.label_smoothing < 1,
            "distillation must be between 0 and 1": not 0 <= self.distillation <= 1,
        }
        for rule, broken in wrong.items():
            if broken:
                raise ValueError(f"{rule}, not {getattr(self, rule.split()[0])!r}")


def auto_weights(recipe: TrainingRecipe) -> tuple[TrainingRecipe, LossWeights]:
    """The recipe and the scheme of ``loss_weights="auto"``.

    Heads learn at full speed, three quarters of what enters the blocks come from the last exit, and the others learn half from
    it and half from the labels. The shares were chosen on held-out rows of CIFAR-10.
    """
    return replace(recipe, decoupled=True, distillation=0.5), HalfEnd(0.75)
