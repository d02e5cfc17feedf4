"""Predictions under a budget: models you can interrupt.

>>> import anytime as at
>>> costs = at.FeatureCosts({"age": 1.0, "scan": 25.0})
>>> costs.price(["age", "scan"])
26.0

Importing this package loads nothing else: each name below is fetched from its room at first use, so that a program
that only answers does not wait for what it takes to train.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anytime import (
        acquisition,
        adaptive,
        auto,
        boosting,
        curves,
        datasets,
        distributed,
        forests,
        greedy,
        growth,
        linear,
        losses,
        networks,
        online,
        runtime,
        sensing,
        streaming,
        structured,
        testing,
        trees,
    )
    from anytime._native import StopFlag
    from anytime.acquisition import (
        AcquisitionClassifier,
        AcquisitionRegressor,
        AlgorithmSelector,
        ExpectedCostClassifier,
        MarginAcquisitionClassifier,
    )
    from anytime.adaptive import AdaptiveClassifier, LadderClassifier
    from anytime.answer import Answer
    from anytime.auto import AutoClassifier, AutoRegressor
    from anytime.boosting import (
        AdditiveSpeedBoostClassifier,
        AdditiveSpeedBoostRanker,
        AdditiveSpeedBoostRegressor,
        CascadeClassifier,
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        SpeedBoostClassifier,
        SpeedBoostRanker,
        SpeedBoostRegressor,
    )
    from anytime.costs import FeatureCosts
    from anytime.curves import AnytimeCurve, AnytimeCurveDisplay, Comparison, compare, curve, pareto_frontier
    from anytime.explanations import (
        Explanation,
        ExplanationStep,
        Importances,
        explain,
        permutation_importances,
    )
    from anytime.export import ExportError
    from anytime.features import ExtractionError, Extractor, Features
    from anytime.files import BadFileError, load, save
    from anytime.forests import (
        BudgetForestClassifier,
        BudgetForestRegressor,
        BudgetPruner,
        BudgetTreeClassifier,
        BudgetTreeRegressor,
        PrunedForestClassifier,
        PrunedForestRegressor,
        prune_forest,
    )
    from anytime.growth import GrowingNetworkClassifier, GrowingNetworkRegressor
    from anytime.linear import (
        CostSensitiveTreeClassifier,
        GroupPursuitClassifier,
        GroupPursuitRegressor,
        SubmodularTreeClassifier,
    )
    from anytime.networks import AnytimeNetworkClassifier, AnytimeNetworkRegressor, ExponentialEnsemble
    from anytime.online import OnlineSelector
    from anytime.plan import Plan, Stage
    from anytime.progress import FitProgress, callbacks
    from anytime.runtime import BatchSession, Session, Trace, replay
    from anytime.scoring import budget_scorer
    from anytime.sensing import SensorNetworkClassifier, SensorNetworkRegressor
    from anytime.services import ServiceCascade, cascade
    from anytime.streaming import StreamingBoostClassifier, StreamingBoostRegressor
    from anytime.structured import GraphLabeler, SceneParser, SequenceLabeler
    from anytime.trees import AnytimeClassifier, AnytimeRegressor, make_anytime

__all__ = [
    "AcquisitionClassifier",
    "AcquisitionRegressor",
    "AdaptiveClassifier",
    "AdditiveSpeedBoostClassifier",
    "AdditiveSpeedBoostRanker",
    "AdditiveSpeedBoostRegressor",
    "AlgorithmSelector",
    "Answer",
    "AnytimeClassifier",
    "AnytimeCurve",
    "AnytimeCurveDisplay",
    "AnytimeNetworkClassifier",
    "AnytimeNetworkRegressor",
    "AnytimeRegressor",
    "AutoClassifier",
    "AutoRegressor",
    "BadFileError",
    "BatchSession",
    "BudgetForestClassifier",
    "BudgetForestRegressor",
    "BudgetPruner",
    "BudgetTreeClassifier",
    "BudgetTreeRegressor",
    "CascadeClassifier",
    "Comparison",
    "CostSensitiveTreeClassifier",
    "ExpectedCostClassifier",
    "Explanation",
    "ExplanationStep",
    "ExponentialEnsemble",
    "ExportError",
    "ExtractionError",
    "Extractor",
    "FeatureCosts",
    "Features",
    "FitProgress",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "GraphLabeler",
    "GroupPursuitClassifier",
    "GroupPursuitRegressor",
    "GrowingNetworkClassifier",
    "GrowingNetworkRegressor",
    "Importances",
    "LadderClassifier",
    "MarginAcquisitionClassifier",
    "OnlineSelector",
    "Plan",
    "PrunedForestClassifier",
    "PrunedForestRegressor",
    "SceneParser",
    "SensorNetworkClassifier",
    "SensorNetworkRegressor",
    "SequenceLabeler",
    "ServiceCascade",
    "Session",
    "SpeedBoostClassifier",
    "SpeedBoostRanker",
    "SpeedBoostRegressor",
    "Stage",
    "StopFlag",
    "StreamingBoostClassifier",
    "StreamingBoostRegressor",
    "SubmodularTreeClassifier",
    "Trace",
    "acquisition",
    "adaptive",
    "auto",
    "boosting",
    "budget_scorer",
    "callbacks",
    "cascade",
    "compare",
    "curve",
    "curves",
    "datasets",
    "distributed",
    "explain",
    "forests",
    "greedy",
    "growth",
    "linear",
    "load",
    "losses",
    "make_anytime",
    "networks",
    "online",
    "pareto_frontier",
    "permutation_importances",
    "prune_forest",
    "replay",
    "runtime",
    "save",
    "sensing",
    "streaming",
    "structured",
    "testing",
    "trees",
]

_HOMES = {
    "_native": ["StopFlag"],
    "acquisition": [
        "AcquisitionClassifier",
        "AcquisitionRegressor",
        "AlgorithmSelector",
        "ExpectedCostClassifier",
        "MarginAcquisitionClassifier",
    ],
    "adaptive": ["AdaptiveClassifier", "LadderClassifier"],
    "answer": ["Answer"],
    "auto": ["AutoClassifier", "AutoRegressor"],
    "boosting": [
        "AdditiveSpeedBoostClassifier",
        "AdditiveSpeedBoostRanker",
        "AdditiveSpeedBoostRegressor",
        "CascadeClassifier",
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
        "SpeedBoostClassifier",
        "SpeedBoostRanker",
        "SpeedBoostRegressor",
    ],
    "costs": ["FeatureCosts"],
    "curves": ["AnytimeCurve", "AnytimeCurveDisplay", "Comparison", "compare", "curve", "pareto_frontier"],
    "explanations": ["Explanation", "ExplanationStep", "Importances", "explain", "permutation_importances"],
    "export": ["ExportError"],
    "features": ["ExtractionError", "Extractor", "Features"],
    "files": ["BadFileError", "load", "save"],
    "forests": [
        "BudgetForestClassifier",
        "BudgetForestRegressor",
        "BudgetPruner",
        "BudgetTreeClassifier",
        "BudgetTreeRegressor",
        "PrunedForestClassifier",
        "PrunedForestRegressor",
        "prune_forest",
    ],
    "growth": ["GrowingNetworkClassifier", "GrowingNetworkRegressor"],
    "linear": [
        "CostSensitiveTreeClassifier",
        "GroupPursuitClassifier",
        "GroupPursuitRegressor",
        "SubmodularTreeClassifier",
    ],
    "networks": ["AnytimeNetworkClassifier", "AnytimeNetworkRegressor", "ExponentialEnsemble"],
    "online": ["OnlineSelector"],
    "plan": ["Plan", "Stage"],
    "progress": ["FitProgress", "callbacks"],
    "runtime": ["BatchSession", "Session", "Trace", "replay"],
    "scoring": ["budget_scorer"],
    "sensing": ["SensorNetworkClassifier", "SensorNetworkRegressor"],
    "services": ["ServiceCascade", "cascade"],
    "streaming": ["StreamingBoostClassifier", "StreamingBoostRegressor"],
    "structured": ["GraphLabeler", "SceneParser", "SequenceLabeler"],
    "trees": ["AnytimeClassifier", "AnytimeRegressor", "make_anytime"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = [name for name in __all__ if name not in _HOME_OF]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"anytime.{_HOME_OF[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"anytime.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("anytime")
    else:
        import difflib

        private = name.startswith("_")  # tools ask every module for names like __wrapped__
        near = [] if private else difflib.get_close_matches(name, __all__, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'anytime' has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
