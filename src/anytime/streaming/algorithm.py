"""Details of the boosting algorithm on a stream, in one object; few users change any of them."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from anytime.streaming.banks import Hypotheses
from anytime.streaming.losses import StreamLoss
from anytime.streaming.monitors import Gate
from anytime.streaming.partial_sums import Averaging
from anytime.streaming.projections import Ball, Box, Projection

# Where partial sums are kept by default: log-odds, and standard deviations of the target.
_WIDEST_MARGIN, _WIDEST_TARGET = 10.0, 5.0
# Steps as a share of the inverse smoothness: of 0.1, 0.2 and 0.5, the best or near it on most streams that were tried. For
# several classes the bound on the smoothness is far from tight, and longer steps do better.
_SHARE, _SHARE_OF_SEVERAL = 0.2, 0.5
_LONGEST_STEP = 1.0  # of the residual algorithm, whose theorem begins with 1 / lambda


@dataclass(frozen=True)
class StreamAlgorithm:
    """How streaming boosting turns the outputs of learners into answers and into the targets of the next learners.

    Streaming gradient boosting (Hu 2019, chapter 5), Algorithms 6 to 8.

    Parameters
    ----------
    name : {"auto", "smooth", "residual"}, default="auto"
        Learners are fitted to gradients ("smooth", Algorithm 6), or to gradients and the residuals of earlier learners
        ("residual", Algorithm 7, for losses with kinks). "auto": depends on the loss.
    rho : float, default=0.001
        Weight of a penalty on squared scores, which makes a loss given by name strongly convex. Squared loss needs none.
    max_step : float, "auto" or None, default="auto"
        Maximum step. "auto": no limit for "smooth", and 1 for "residual", whose theorem holds only for None.
    projection : Box, Ball, "auto" or None, default="auto"
        Set that partial sums are projected to. "auto": none for "smooth"; for "residual", log-odds up to 10, or 5 standard
        deviations of a target.
    averaging : {"auto", "last", "theory", "post", "all"}, default="auto"
        Partial sums whose mean is the answer. "auto": "last" for "smooth", "post" (all but the first) for "residual".
    hypotheses : {"last", "params"}, default="last"
        Parameters with which a learner answers: the current ones, or their mean over the stream ("linear", "ridge", nets).
    gate : {"skip", "shrink"} or None, default="shrink"
        "shrink": scale learners by the factor that would have fitted their recent targets best. "skip": leave out those that
        increase the loss. The theorems assume None, but then early learners may distort the sum before they have learned.
    warm_up : int, default=0
        Learner ``i`` counts only after ``warm_up * i`` rows.
    scale_rows : int, default=100
        Number of first rows whose mean and standard deviation standardise the target of a regressor.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.streaming import Ball, StreamAlgorithm
    >>> model = at.StreamingBoostClassifier(loss="hinge", algorithm=StreamAlgorithm(projection=Ball(3.0)))
    """

    name: Literal["auto", "smooth", "residual"] = "auto"
    rho: float = 1e-3
    max_step: float | Literal["auto"] | None = "auto"
    projection: Projection | Literal["auto"] | None = "auto"
    averaging: Averaging | Literal["auto"] = "auto"
    hypotheses: Hypotheses = "last"
    gate: Gate | None = "shrink"
    warm_up: int = 0
    scale_rows: int = 100

    def __post_init__(self) -> None:
        for setting, choices in (
            ("name", ("auto", "smooth", "residual")),
            ("averaging", ("auto", *get_args(Averaging))),
            ("hypotheses", get_args(Hypotheses)),
            ("gate", (None, *get_args(Gate))),
        ):
            if getattr(self, setting) not in choices:
                raise ValueError(f"{setting} is {getattr(self, setting)!r}; it must be one of {choices}")
        if not (self.projection in ("auto", None) or isinstance(self.projection, (Box, Ball))):
            raise ValueError(f"projection is {self.projection!r}; it must be a Box, a Ball, 'auto' or None")
        if isinstance(self.max_step, str) and self.max_step != "auto":
            raise ValueError(f"max_step is {self.max_step!r}; it must be a positive number, 'auto' or None")
        if isinstance(self.max_step, (int, float)) and not self.max_step > 0:
            raise ValueError(f"max_step is {self.max_step}; it must be positive")
        if self.warm_up < 0 or self.scale_rows < 1:
            raise ValueError(
                f"warm_up must not be negative and scale_rows be at least 1, not {self.warm_up} and {self.scale_rows}"
            )

    def for_loss(self, loss: StreamLoss, n_outputs: int, learning_rate: float | None) -> dict[str, Any]:
        """Arguments of ``BoostedBank`` for this loss, nothing left to "auto"."""
        beta = loss.smoothness()
        smooth = self.name == "smooth" or (self.name == "auto" and beta is not None)
        step = learning_rate
        if smooth and step is None and beta is not None:
            step = (_SHARE if n_outputs == 1 else _SHARE_OF_SEVERAL) / beta
        widest = _WIDEST_MARGIN if loss.classifies else _WIDEST_TARGET
        defaults: dict[str, Any] = {
            "max_step": None if smooth else _LONGEST_STEP,
            "projection": None if smooth else Box(-widest, widest),
            "averaging": "last" if smooth else "post",
        }
        chosen = {name: getattr(self, name) for name in defaults}
        return {
            "algorithm": "smooth" if smooth else "residual",
            "step": step,
            "gate": self.gate,
            "warm_up": int(self.warm_up),
            **{name: defaults[name] if value == "auto" else value for name, value in chosen.items()},
        }
