"""Losses by name, and by the link whose scores they evaluate."""

from scipy.special import expit

from anytime.losses.classification import (
    EXPONENTIAL,
    HINGE,
    LEAST_SQUARES,
    LOGISTIC,
    MULTICLASS_EXPONENTIAL,
    MULTICLASS_HINGE,
    MULTINOMIAL,
    ONE_VS_ALL,
    SQUARED_HINGE,
    brier,
)
from anytime.losses.links import LINKS
from anytime.losses.loss import Loss
from anytime.losses.ranking import PAIRWISE_HINGE, PAIRWISE_LOGISTIC, lambdarank
from anytime.losses.regression import ABSOLUTE, POISSON, SQUARED, huber, squared_after

TRAINING_LOSSES = {
    loss.name: loss
    for loss in (
        SQUARED,
        huber(),
        ABSOLUTE,
        POISSON,
        LOGISTIC,
        EXPONENTIAL,
        HINGE,
        SQUARED_HINGE,
        MULTINOMIAL,
        ONE_VS_ALL,
        LEAST_SQUARES,
        MULTICLASS_EXPONENTIAL,
        MULTICLASS_HINGE,
        PAIRWISE_HINGE,
        PAIRWISE_LOGISTIC,
        lambdarank(),
    )
}


def training_loss(loss: str | Loss) -> Loss:
    """A training loss: an own ``Loss``, or a name in ``TRAINING_LOSSES``."""
    if isinstance(loss, Loss):
        loss.required_gradient()
        return loss
    if loss not in TRAINING_LOSSES:
        raise ValueError(
            f"no loss {loss!r}; the losses are {', '.join(TRAINING_LOSSES)}, or a Loss of your own"
        )
    return TRAINING_LOSSES[loss]


LOSSES = {
    "identity": SQUARED,
    "exp": POISSON,
    "signed_square": squared_after(LINKS["signed_square"]),
    "regression_logistic": squared_after(LINKS["regression_logistic"]),
    "softplus": squared_after(LINKS["softplus"]),
    "logistic": LOGISTIC,
    "half_logistic": EXPONENTIAL,
    "softmax": MULTINOMIAL,
    "half_softmax": MULTICLASS_EXPONENTIAL,
    "ova": brier("ova", expit),
    "probability": brier("probability"),
    "counts": brier("counts", LINKS["counts"].transform),
    "one_vs_all": ONE_VS_ALL,
    "least_squares": LEAST_SQUARES,
}


def loss_for(link: str) -> Loss:
    """The loss that evaluates scores under ``link``."""
    return LOSSES[link]
