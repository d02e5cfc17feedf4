"""Networks that grow as scikit-learn estimators: what a search finds is the plan, from the cheapest network to the best."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.faces import ClassifierFace, RegressorFace
from anytime.growth.growing_model import GrowingModel
from anytime.networks.estimators import ClassTargets, NumberTargets
from anytime.parameters import without
from anytime.plan import Array

__all__ = ["GrowingNetworkClassifier", "GrowingNetworkRegressor"]


class GrowingNetworkClassifier(ClassTargets, ClassifierFace, GrowingModel):
    """Neural networks from cheap to good, grown one out of the other, each a stage that replaces the answer before.

    Petridish (Hu 2019, chapter 6). A small network is trained; then again and again one network of the lower hull of error
    against cost is grown: all shortcuts that could be added are trained beside it while it does not notice, the strongest
    stay, and the child is trained. Training can be stopped at any time and go on at any time. A known budget is answered by
    the best network that it pays for, alone; a deadline runs one network after the other.

    Parameters
    ----------
    network : ExitNetwork, default=None
        A network of your own to begin with, as ``anytime.networks.with_exits`` gives it: its blocks are where something can grow.
        None: residual units, of separable convolutions for images and of fully connected layers for tables.
    n_cells : int, default=None
        Residual units of the seed, for images in each of its resolutions. None: 1 for tables, 3 for images.
    width : int, default=None
        Units of its layers, channels of the first resolution. None: 32 for tables, 16 for images.
    resolutions : int, default=None
        Of images, each half as large as the one before. None: as many as halve them to 8 x 8, at most 3.
    tying : {"cell", "macro"}, default="cell"
        Whether units of one kind grow alike, or each by itself.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: columns are free, and networks cost their mult-adds. Else a network costs the prices of the
        groups that it reads: the seed reads the first, and growth buys others.
    max_stages : int, default=16
        Maximum number of stages.
    budget : float, default=None
        Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    phases : Phases, default=None
        How the seed, candidates and children are trained, see ``anytime.growth.Phases``. None: one for tables, one for images.
    settings : GrowthSettings, default=None
        What a growth is, see ``anytime.growth.GrowthSettings``. None: three shortcuts at each site, chosen as in the paper.
    sampling : {"hull", "uniform_hull", "greedy_best", "latest"}, default="hull"
        Which network is grown next.
    cost_limit : float, default=None
        Networks that cost more are not grown. None: no limit.
    n_growths : int, default=None
        Networks that a fit adds to the seed. None: as many as ``time_budget`` allows, or 8 without one.
    workers : int or "ray", default=1
        Processes that train, each with one GPU where there are some. "ray": on a Ray cluster.
    folder : path, default=None
        Where the search keeps its journal and its networks, and goes on from what is there. None: in memory.
    validation_fraction : float or None, default=0.2
        Share of the training rows held out for decisions. None: no rows. The hull is that of errors on these rows.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit.
    warm_start : bool, default=False
        Whether ``fit`` continues from the fitted model.
    device : str, default=None
        "cpu", "cuda" and so on. None: a GPU where there is one.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to their frequency. None: 1 each.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it. torch has its own setting.
    verbose : int, default=0
        Whether progress is printed. 1: a line per network.

    Attributes
    ----------
    plan_, stage_costs_, order_, classes_, n_features_in_, feature_names_in_
        As in :class:`AnytimeClassifier`.
    architectures_ : list of Architecture
        Of the network of each stage.
    models_ : list of dict
        All networks of the search: number, parent, cost, error, parameters.
    input_shape_ : tuple
        Of one row or image, channels first.

    See Also
    --------
    AnytimeNetworkClassifier : One network with exits.
    ExponentialEnsemble : Models of growing cost as one.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.growth import for_tables
    >>> X, y, _ = at.datasets.load("breast_cancer")
    >>> model = at.GrowingNetworkClassifier(n_growths=2, width=8, phases=for_tables(epochs=5), random_state=0).fit(X, y)
    >>> model.stage_costs_[0], bool(model.score(X, y) > 0.9)
    (np.float64(384.0), True)
    """

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        codes, weight = super()._encode(y, weight)
        named = self.__dict__.get("_named_classes")  # in the first call of partial_fit
        if named is None:
            return codes, weight
        labels, unexpected = self.classes_[codes], np.setdiff1d(self.classes_, named)
        if unexpected.size:
            raise ValueError(
                f"y holds the label {unexpected.tolist()[0]!r}, which is not among {named.tolist()}"
            )
        self.classes_ = named
        return np.searchsorted(named, labels).astype(np.int64), weight


@without("class_weight")
class GrowingNetworkRegressor(NumberTargets, RegressorFace, GrowingModel):
    """Neural networks that predict numbers, from cheap to good, grown one out of the other.

    Parameters
    ----------
    network, n_cells, width, resolutions, tying, costs, max_stages, budget, meter, phases
        As in :class:`GrowingNetworkClassifier`.
    settings, sampling, cost_limit, n_growths, workers, folder, validation_fraction, time_budget
        As in :class:`GrowingNetworkClassifier`.
    warm_start, device, random_state, n_jobs, verbose
        As in :class:`GrowingNetworkClassifier`.

    Attributes
    ----------
    plan_, stage_costs_, order_, n_features_in_, feature_names_in_
        As in :class:`AnytimeRegressor`.
    architectures_, models_, input_shape_
        As in :class:`GrowingNetworkClassifier`.

    See Also
    --------
    AnytimeNetworkRegressor : One network with exits.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.growth import for_tables
    >>> X, y, _ = at.datasets.load("diabetes")
    >>> model = at.GrowingNetworkRegressor(n_growths=1, width=8, phases=for_tables(epochs=10), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True
    """
