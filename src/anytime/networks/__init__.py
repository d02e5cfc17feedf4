"""Networks that answer at every depth: exits, loss weights, training that can be stopped, and ensembles of growing models.

Parts that need torch are loaded on first use, so that the rest works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anytime.networks.weights import (
    AdaLoss,
    ConstantWeights,
    FirstOrder,
    HalfEnd,
    LinearWeights,
    LossWeights,
    Minimax,
    Once,
    OneExit,
    loss_weights,
)
from anytime.stopping import exits_taken, stop_table

if TYPE_CHECKING:
    from anytime.networks.backbones import build, denseann, mlp, msdnet, resann
    from anytime.networks.block import NetworkBlock
    from anytime.networks.counting import MultAdds, mult_adds
    from anytime.networks.cutting import with_exits
    from anytime.networks.ensemble import (
        ExponentialEnsemble,
        ExponentialEnsembleClassifier,
        ExponentialEnsembleRegressor,
    )
    from anytime.networks.estimators import AnytimeNetworkClassifier, AnytimeNetworkRegressor
    from anytime.networks.exits import ExitHead, ExitNetwork, GridHead, exit_positions
    from anytime.networks.inflation import (
        CostInflation,
        Output,
        cost_inflation,
        estimate_base,
        exponential_depths,
        inflation_at,
        output_schedule,
    )
    from anytime.networks.recipe import CosineSchedule, StepSchedule, TrainingRecipe
    from anytime.networks.stepping import TrainingError, exit_losses
    from anytime.networks.training import NetworkTrainer

__all__ = [
    "AdaLoss",
    "AnytimeNetworkClassifier",
    "AnytimeNetworkRegressor",
    "ConstantWeights",
    "CosineSchedule",
    "CostInflation",
    "ExitHead",
    "ExitNetwork",
    "ExponentialEnsemble",
    "ExponentialEnsembleClassifier",
    "ExponentialEnsembleRegressor",
    "FirstOrder",
    "GridHead",
    "HalfEnd",
    "LinearWeights",
    "LossWeights",
    "Minimax",
    "MultAdds",
    "NetworkBlock",
    "NetworkTrainer",
    "Once",
    "OneExit",
    "Output",
    "StepSchedule",
    "TrainingError",
    "TrainingRecipe",
    "build",
    "cost_inflation",
    "denseann",
    "estimate_base",
    "exit_losses",
    "exit_positions",
    "exits_taken",
    "exponential_depths",
    "inflation_at",
    "loss_weights",
    "mlp",
    "msdnet",
    "mult_adds",
    "output_schedule",
    "resann",
    "stop_table",
    "with_exits",
]

_HOMES = {
    "block": ["NetworkBlock"],
    "stored": ["block_from_state"],
    "estimators": ["AnytimeNetworkClassifier", "AnytimeNetworkRegressor"],
    "backbones": ["build", "denseann", "mlp", "msdnet", "resann"],
    "counting": ["MultAdds", "mult_adds"],
    "cutting": ["with_exits"],
    "exits": ["ExitNetwork", "GridHead", "ExitHead", "exit_positions"],
    "ensemble": ["ExponentialEnsemble", "ExponentialEnsembleClassifier", "ExponentialEnsembleRegressor"],
    "inflation": [
        *("CostInflation", "Output", "cost_inflation", "estimate_base", "exponential_depths", "inflation_at"),
        "output_schedule",
    ],
    "recipe": ["CosineSchedule", "StepSchedule", "TrainingRecipe"],
    "stepping": ["TrainingError", "exit_losses"],
    "training": ["NetworkTrainer"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'anytime.networks' has no attribute {name!r}")
    import importlib

    try:
        value = getattr(importlib.import_module(f"anytime.networks.{_HOME_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise ImportError(f"anytime.networks.{name} needs PyTorch: pip install 'anytime[torch]'") from None
    globals()[name] = value
    return value
