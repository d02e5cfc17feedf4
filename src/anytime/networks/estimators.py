"""Networks with exits as scikit-learn estimators: every exit is a stage of the one plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace, RegressorFace
from anytime.linear import GroupPursuitClassifier, GroupPursuitRegressor
from anytime.networks.exits import ExitNetwork
from anytime.networks.network_model import NetworkModel
from anytime.parameters import without
from anytime.plan import Array
from anytime.validation import class_labels, numbered_classes, target_numbers, weighed_by_class

__all__ = ["AnytimeNetworkClassifier", "AnytimeNetworkRegressor", "ClassTargets", "NumberTargets"]


class ClassTargets:
    """Class targets: the common part of network classifiers."""

    _link = "softmax"
    classes_: NDArray[Any]
    class_weight: Any

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _pursuit(self) -> type[AnytimeModel]:
        return GroupPursuitClassifier

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        labels = class_labels(y)
        self.classes_, codes = numbered_classes(labels)
        self._check_heads()
        return codes.astype(np.int64), weighed_by_class(weight, self.class_weight, labels)

    def _check_heads(self) -> None:
        """Refuse a network of the user's own that has too few outputs."""

    def _encode_more(self, y: Any) -> NDArray[Any]:
        y = np.asarray(y).ravel()
        order = np.argsort(self.classes_)  # a module's outputs need not be in the order of the labels
        codes = order[np.searchsorted(self.classes_, y, sorter=order).clip(0, len(order) - 1)]
        wrong = self.classes_[codes] != y
        if wrong.any():
            raise ValueError(
                f"y_val holds the label {y[wrong].tolist()[0]!r}, which is not a class of the model"
            )
        return codes.astype(np.int64)

    def _base(self, targets: NDArray[Any], weight: Array | None, offset: Array | None) -> Array:
        counts = np.bincount(targets, weights=weight, minlength=len(self.classes_))
        return np.log(np.maximum(counts, 1e-12) / counts.sum())


class NumberTargets:
    """Numeric targets, one or several: the common part of network regressors."""

    _link = "identity"
    _n_targets: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = True
        return tags

    @property
    def _n_outputs(self) -> int:
        return self._n_targets

    def _pursuit(self) -> type[AnytimeModel]:
        return GroupPursuitRegressor

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        targets = self._encode_more(y)
        self._n_targets = targets.shape[1]
        return targets, weight

    def _encode_more(self, y: Any) -> NDArray[Any]:
        numbers = target_numbers(y)
        if numbers.ndim == 2 and numbers.shape[1] == 1:
            numbers = column_or_1d(numbers, warn=True)
        return numbers[:, None] if numbers.ndim == 1 else numbers

    def _units(self, targets: NDArray[Any]) -> tuple[Array | None, Array | None]:
        spread = targets.std(axis=0)
        return targets.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def _scaled_targets(
        self, targets: NDArray[Any], offset: Array | None, unit: Array | None
    ) -> NDArray[Any]:
        assert offset is not None
        assert unit is not None
        return ((targets - offset) / unit).astype(np.float32)

    def _base(self, targets: NDArray[Any], weight: Array | None, offset: Array | None) -> Array:
        return np.asarray(np.average(targets, axis=0, weights=weight))


class AnytimeNetworkClassifier(ClassTargets, ClassifierFace, NetworkModel):
    """A neural network with an exit after each block; every exit is a stage that replaces the answer before.

    Anytime neural networks of Hu (2019, chapter 4): residual, dense and multi-scale networks for images, and fully connected ones
    for tables, whose blocks read groups of columns one after the other, so that the network buys features like any other learner.

    Parameters
    ----------
    backbone : {"mlp", "resann", "denseann", "msdnet"} or ExitNetwork, default="mlp"
        "mlp" is for tables, the others for images. Or any module with exits, see ``anytime.networks.with_exits``.
    backbone_arguments : dict, default=None
        Arguments of the backbone, such as ``{"n": 9, "c": 16}``; see ``anytime.networks.resann``.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column. For images, None is 0, and only the evaluation of stages costs.
    order : "pursuit", sequence of group names, or fitted model, default="pursuit"
        Order in which groups enter the network: that of group pursuit (with ``time_budget`` by squared loss, which is
        faster), a list, or the order of a fitted model.
    max_stages : int, default=16
        Maximum number of stages. For tables: of blocks in which groups enter.
    budget : float, default=None
        Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    evaluation_cost : float, "mult_adds", "ms" or None, default=None
        Price of evaluating one stage, without its features, in the unit of ``costs``. "mult_adds": counted
        multiply-additions. "ms": milliseconds measured here for one row. None: "mult_adds" for images without ``costs``, else 0.
    loss_weights : {"auto", "constant", "linear", "half_end", "one_exit", "adaloss", "once", "first_order"} or \
LossWeights, default="auto"
        Weight of each exit in training. "auto": heads learn at full speed, most of the gradient of the blocks comes from the
        last exit, early exits learn from it, and heads of residual networks read more than one mean per channel.
    recipe : TrainingRecipe, default=None
        Epochs, batches, optimizer and so on; see ``anytime.networks.TrainingRecipe``. None: one for tables, one for images.
    validation_fraction : float or None, default=0.1
        Share of the training rows held out for decisions. None: no rows. They calibrate the confidence, by a
        temperature per exit, and choose which rows leave early under a mean budget.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. The learning rate follows the clock, so that its schedule is completed.
    checkpoint : path, default=None
        File to save training to after each epoch; if it exists, training resumes from it.
    warm_start : bool, default=False
        Whether ``fit`` continues from the fitted model.
    device : str, default=None
        "cpu", "cuda" and so on. None: a GPU if there is one.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to their frequency. None: 1 each.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it. torch has its own setting.
    verbose : int, default=0
        Whether progress is printed. 1: a line per epoch, with the validation error of five exits.

    Attributes
    ----------
    plan_, stage_costs_, order_, classes_, n_features_in_, feature_names_in_
        As in :class:`AnytimeClassifier`.
    input_shape_ : tuple
        Shape of one row or image, channels first.
    history_ : list of dict
        Losses, weights and seconds of every epoch.
    n_epochs_ : int

    See Also
    --------
    AnytimeNetworkRegressor : The same for regression.
    ExponentialEnsemble : Several networks as one model.
    GrowingNetworkClassifier : Searches for a family of networks.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.networks import TrainingRecipe
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> recipe = TrainingRecipe(epochs=10, batch_size=64, optimizer="adamw", learning_rate=5e-3)
    >>> model = at.AnytimeNetworkClassifier(costs=costs, max_stages=4, recipe=recipe, random_state=0).fit(X, y)
    >>> model.n_stages_, bool(model.score(X, y) > 0.9)
    (4, True)
    """

    def _check_heads(self) -> None:
        if isinstance(self.backbone, ExitNetwork):
            last = [m for m in self.backbone.modules() if isinstance(m, torch.nn.Linear)]
            if last and last[-1].out_features < len(self.classes_):
                raise ValueError(
                    f"y has {len(self.classes_)} classes, but the network's last layer has {last[-1].out_features} outputs"
                )


@without("class_weight")
class AnytimeNetworkRegressor(NumberTargets, RegressorFace, NetworkModel):
    """A neural network for regression with an exit after each block; see :class:`AnytimeNetworkClassifier`.

    Parameters
    ----------
    backbone : {"mlp", "resann", "denseann", "msdnet"} or ExitNetwork, default="mlp"
        "mlp" is for tables, the others for images. Or any module with exits, see ``anytime.networks.with_exits``.
    backbone_arguments : dict, default=None
        Arguments of the backbone; see ``anytime.networks.resann``.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column. For images, None is 0, and only the evaluation of stages costs.
    order : "pursuit", sequence of group names, or fitted model, default="pursuit"
        Order in which groups enter the network: that of group pursuit (with ``time_budget`` by squared loss, which is
        faster), a list, or the order of a fitted model.
    max_stages : int, default=16
        Maximum number of stages. For tables: of blocks in which groups enter.
    budget : float, default=None
        Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    evaluation_cost : float, "mult_adds", "ms" or None, default=None
        Price of evaluating one stage, without its features, in the unit of ``costs``. "mult_adds": counted
        multiply-additions. "ms": milliseconds measured here for one row. None: "mult_adds" for images without ``costs``, else 0.
    loss_weights : {"auto", "constant", "linear", "half_end", "one_exit", "adaloss", "once", "first_order"} or \
LossWeights, default="auto"
        Weight of each exit in training.
    recipe : TrainingRecipe, default=None
        Epochs, batches, optimizer and so on; see ``anytime.networks.TrainingRecipe``. None: one for tables, one for images.
    validation_fraction : float or None, default=0.1
        Share of the training rows held out for decisions. None: no rows.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. The learning rate follows the clock, so that its schedule is completed.
    checkpoint : path, default=None
        File to save training to after each epoch; if it exists, training resumes from it.
    warm_start : bool, default=False
        Whether ``fit`` continues from the fitted model.
    device : str, default=None
        "cpu", "cuda" and so on. None: a GPU if there is one.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it. torch has its own setting.
    verbose : int, default=0
        Whether progress is printed.

    Attributes
    ----------
    plan_, stage_costs_, order_, n_features_in_, feature_names_in_
        As in :class:`AnytimeRegressor`.
    input_shape_, history_, n_epochs_
        As in :class:`AnytimeNetworkClassifier`.

    See Also
    --------
    AnytimeNetworkClassifier : The same for classification.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.networks import TrainingRecipe
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> recipe = TrainingRecipe(epochs=30, batch_size=64, optimizer="adamw", learning_rate=5e-3)
    >>> model = at.AnytimeNetworkRegressor(costs=costs, recipe=recipe, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True
    """
