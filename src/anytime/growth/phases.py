"""How a search trains, as data: one recipe for the seed, one for candidates, one for children, and what happens in between."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anytime.growth.architecture import MERGES
from anytime.growth.triggers import GrowthTrigger
from anytime.networks.recipe import CosineSchedule, StepSchedule, TrainingRecipe

__all__ = ["FINAL_RECIPE", "PRESETS", "TRANSFER_RECIPE", "GrowthSettings", "Phases", "for_tables"]

MODES = ("isolated", "joint", "gated")
CRITERIA = ("weight", "gradient", "cosine", "magnitude", "random")
PROJECTIONS = ("zero", "alpha", "random")
L1_STEPS = ("subgradient", "proximal")


@dataclass(frozen=True)
class GrowthSettings:
    """What a growth is.

    Parameters
    ----------
    n_shortcuts : int
        I_max: shortcuts that each site keeps.
    mode : {"isolated", "joint", "gated"}
        "isolated": candidates are trained beside a network that does not notice. The others are for comparison.
    l1_regularization : float
        The sum of the absolute weights of candidates is added to the loss, times this / (I J).
    l1_step : {"subgradient", "proximal"}
        "proximal": weights are set to zero where the loss does not hold them.
    largest_weight : float or None
        Weights of candidates are not let beyond it.
    merge : {"cat_proj", "sum"}
        How a site's shortcuts become one layer.
    projection : {"zero", "alpha", "random"}
        What the merge begins with; "zero": the child begins as its parent.
    criterion : {"weight", "gradient", "cosine", "magnitude", "random"}
        By what shortcuts are chosen.
    decorrelate : bool
        Whether a candidate counts by what those chosen before it do not already say.
    turns : int
        Ops of candidates take so many turns, batch by batch: each is trained on every so many-th batch.
    share : float
        Share of the rows of each batch that candidates are trained on.
    from_scratch : bool
        Whether children begin with new parameters.
    """

    n_shortcuts: int = 3
    mode: str = "isolated"
    l1_regularization: float = 0.01
    l1_step: str = "subgradient"
    largest_weight: float | None = None
    merge: str = "cat_proj"
    projection: str = "zero"
    criterion: str = "weight"
    decorrelate: bool = False
    turns: int = 1
    share: float = 1.0
    from_scratch: bool = False

    def __post_init__(self) -> None:
        words = {
            "mode": MODES,
            "l1_step": L1_STEPS,
            "merge": MERGES,
            "projection": PROJECTIONS,
            "criterion": CRITERIA,
        }
        for name, allowed in words.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        if self.n_shortcuts < 1 or self.turns < 1 or not 0 < self.share <= 1 or self.l1_regularization < 0:
            raise ValueError(
                "n_shortcuts and turns are at least 1, share is above 0 and at most 1, l1_regularization is not negative"
            )
        if self.mode != "isolated" and (self.turns > 1 or self.share < 1):
            raise ValueError(
                f"in mode {self.mode!r} candidates affect each other: turns and share need mode='isolated'"
            )


@dataclass(frozen=True)
class Phases:
    """Recipes of the three trainings of a search.

    Parameters
    ----------
    seed, candidates, child : TrainingRecipe
    drop_path : float
        Probability with which a path is dropped at the end of a training of the seed or a child; it rises from 0.
    trigger : GrowthTrigger, default=None
        Asked after every epoch whether a training is over before the epochs of its recipe are. None: it never is.
    """

    seed: TrainingRecipe
    candidates: TrainingRecipe
    child: TrainingRecipe
    drop_path: float = 0.0
    trigger: GrowthTrigger | None = None


def _images(epochs: int, **changes: object) -> TrainingRecipe:
    """SGD with momentum and a cosine to zero, crops, mirror images and cutout (docs/theory, growth_and_streaming B.6)."""
    recipe = TrainingRecipe(
        epochs=epochs,
        batch_size=128,
        learning_rate=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        schedule=CosineSchedule(warmup=0.0),
        augment="crop_flip",
        cutout=16,
    )
    return replace(recipe, **changes)  # type: ignore[arg-type]


def _preset(seed: int, phase: int, drop_path: float, **changes: object) -> Phases:
    first, later = _images(seed, **changes), _images(phase, **changes)
    return Phases(first, later, later, drop_path)


PAPER = {"batch_size": 32, "learning_rate": 0.025}

PRESETS = {
    "smoke": _preset(5, 2, 0.0, cutout=0),
    "short": _preset(30, 15, 0.0),
    "paper": _preset(200, 80, 0.4, **PAPER),
}

FINAL_RECIPE = _images(600, **PAPER)  # of the last model, from scratch, at n = 6 and F = 32

# of what was found, for images of 224 x 224: the rate falls by 3 % after each epoch
TRANSFER_RECIPE = TrainingRecipe(
    epochs=250,
    batch_size=128,
    learning_rate=0.1,
    weight_decay=3e-5,
    schedule=StepSchedule(at=tuple(epoch / 250 for epoch in range(1, 251)), factor=1 / 0.97),
    label_smoothing=0.1,
)


def for_tables(
    epochs: int = 30, batch_size: int = 64, learning_rate: float | None = None, n_rows: int | None = None
) -> Phases:
    """Recipes for tables: AdamW, a running mean of the parameters, a third of the epochs for candidates.

    Parameters
    ----------
    epochs : int
    batch_size : int
    learning_rate : float, default=None
        None: 0.005 for batches of 64, and by the square root of their size for others.
    n_rows : int, default=None
        Training rows. Where they are told, batches are as large as leave 8 of them in an epoch, from 32 to 256 rows.
    """
    if n_rows is not None:
        batch_size = 2 ** int(np.clip(np.log2(max(n_rows, 1) / 8), 5, 8))
    seed = TrainingRecipe(
        epochs=epochs,
        batch_size=batch_size,
        optimizer="adamw",
        learning_rate=5e-3 * (batch_size / 64) ** 0.5 if learning_rate is None else learning_rate,
        weight_decay=1e-2,
        schedule=CosineSchedule(warmup=0.02),
        average=0.99,
    )
    return Phases(seed, replace(seed, epochs=max(epochs // 3, 1)), seed)
