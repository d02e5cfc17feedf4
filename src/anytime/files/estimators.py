"""A fitted model as a manifest and arrays, and back: class, parameters, plan, labels, columns and what the class adds."""

import platform
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from anytime.bounded_runs import METERS
from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace
from anytime.files.container import allowance
from anytime.files.plans import count_stages, read_plan, write_plan
from anytime.files.reading import ArrayShelf, BadFileError, Fields, bad, shown
from anytime.files.values import Decoder, Encoder
from anytime.losses import LINKS
from anytime.plan import Plan

# The only classes a file can name, and where this library keeps them; besides those that the user has registered.
ESTIMATORS = {
    "AdaptiveClassifier": "anytime.adaptive.adaptive_classifier:AdaptiveClassifier",
    "AdditiveSpeedBoostClassifier": "anytime.boosting.additive:AdditiveSpeedBoostClassifier",
    "AdditiveSpeedBoostRanker": "anytime.boosting.additive:AdditiveSpeedBoostRanker",
    "AcquisitionClassifier": "anytime.acquisition.estimators:AcquisitionClassifier",
    "AcquisitionRegressor": "anytime.acquisition.estimators:AcquisitionRegressor",
    "AdditiveSpeedBoostRegressor": "anytime.boosting.additive:AdditiveSpeedBoostRegressor",
    "AlgorithmSelector": "anytime.acquisition.expected_cost:AlgorithmSelector",
    "AnytimeClassifier": "anytime.trees.imported_models:AnytimeClassifier",
    "AnytimeNetworkClassifier": "anytime.networks:AnytimeNetworkClassifier",
    "AnytimeNetworkRegressor": "anytime.networks:AnytimeNetworkRegressor",
    "AnytimeRegressor": "anytime.trees.imported_models:AnytimeRegressor",
    "AutoClassifier": "anytime.auto.estimators:AutoClassifier",
    "AutoRegressor": "anytime.auto.estimators:AutoRegressor",
    "BudgetForestClassifier": "anytime.forests.budget:BudgetForestClassifier",
    "BudgetForestRegressor": "anytime.forests.budget:BudgetForestRegressor",
    "BudgetTreeClassifier": "anytime.forests.budget:BudgetTreeClassifier",
    "BudgetTreeRegressor": "anytime.forests.budget:BudgetTreeRegressor",
    "CascadeClassifier": "anytime.boosting.cascade:CascadeClassifier",
    "CostSensitiveTreeClassifier": "anytime.linear.cost_sensitive_tree:CostSensitiveTreeClassifier",
    "ExpectedCostClassifier": "anytime.acquisition.expected_cost:ExpectedCostClassifier",
    "ExponentialEnsembleClassifier": "anytime.networks.ensemble:ExponentialEnsembleClassifier",
    "ExponentialEnsembleRegressor": "anytime.networks.ensemble:ExponentialEnsembleRegressor",
    "GradientBoostingClassifier": "anytime.boosting.gradient_boosting:GradientBoostingClassifier",
    "GradientBoostingRegressor": "anytime.boosting.gradient_boosting:GradientBoostingRegressor",
    "GraphLabeler": "anytime.structured.graph_labeler:GraphLabeler",
    "GroupPursuitClassifier": "anytime.linear.pursuit_estimators:GroupPursuitClassifier",
    "GroupPursuitRegressor": "anytime.linear.pursuit_estimators:GroupPursuitRegressor",
    "GrowingNetworkClassifier": "anytime.growth:GrowingNetworkClassifier",
    "GrowingNetworkRegressor": "anytime.growth:GrowingNetworkRegressor",
    "LadderClassifier": "anytime.adaptive.ladder:LadderClassifier",
    "MarginAcquisitionClassifier": "anytime.acquisition.margin_classifier:MarginAcquisitionClassifier",
    "PrunedForestClassifier": "anytime.forests.pruning.pruned_forests:PrunedForestClassifier",
    "PrunedForestRegressor": "anytime.forests.pruning.pruned_forests:PrunedForestRegressor",
    "SceneParser": "anytime.structured.scene_parser:SceneParser",
    "SensorNetworkClassifier": "anytime.sensing.sensor_networks:SensorNetworkClassifier",
    "SensorNetworkRegressor": "anytime.sensing.sensor_networks:SensorNetworkRegressor",
    "SequenceLabeler": "anytime.structured.sequences:SequenceLabeler",
    "SpeedBoostClassifier": "anytime.boosting.speedboost:SpeedBoostClassifier",
    "SpeedBoostRanker": "anytime.boosting.speedboost:SpeedBoostRanker",
    "SpeedBoostRegressor": "anytime.boosting.speedboost:SpeedBoostRegressor",
    "SubmodularTreeClassifier": "anytime.linear.classifier_tree:SubmodularTreeClassifier",
    "StreamingBoostClassifier": "anytime.streaming.streaming_boost:StreamingBoostClassifier",
    "StreamingBoostRegressor": "anytime.streaming.streaming_boost:StreamingBoostRegressor",
}

# parameters that are a model of another library, or its predictions for training rows
_OUTSIDE = ("costly", "estimator", "members")
_LONGEST_REPR = 2000
_MOST_FEATURES = 2**31 - 2
_MOST_THREADS = 1024


_REGISTERED: dict[str, type[AnytimeModel]] = {}

Model = TypeVar("Model", bound=AnytimeModel)


def register(estimator: type[Model]) -> type[Model]:
    """Let models of a class of your own be saved, loaded and served.

    A file holds the name of the class and no code: register the class before loading, too. A file stores what every model has:
    constructor parameters, the plan, classes and column names. A class with more has a method ``_file_state``, which returns a
    dict of plain values and arrays, and ``_restore_file_state``, which takes it.

    Parameters
    ----------
    estimator : subclass of AnytimeModel
        Its plan is made of this library's blocks.

    Returns
    -------
    class
        The same class, so that this can be used as a decorator.

    Raises
    ------
    TypeError
        If it is not a class of anytime models.
    ValueError
        If another class has this name.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.estimator import AnytimeModel
    >>> from anytime.faces import RegressorFace
    >>> @at.files.register
    ... class Constant(RegressorFace, AnytimeModel):
    ...     "Predicts zero."
    """
    if not (isinstance(estimator, type) and issubclass(estimator, AnytimeModel)):
        raise TypeError(f"register takes a class of anytime models, not {estimator!r}")
    name, registered = estimator.__name__, _REGISTERED.get(estimator.__name__)
    # a class that is defined anew, in a notebook say, takes the place of its former self
    if name in ESTIMATORS or (registered is not None and registered.__module__ != estimator.__module__):
        raise ValueError(f"another class is already registered as {name}; rename yours")
    _REGISTERED[name] = estimator
    return estimator


def _estimator(name: str) -> type[AnytimeModel]:
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in ESTIMATORS:
        bad(
            "manifest.estimator",
            f"{shown(name)} is no class of this library; register yours with anytime.files.register first",
        )
    module, _, attribute = ESTIMATORS[name].partition(":")
    estimator: type[AnytimeModel] = getattr(import_module(module), attribute)
    return estimator


# ---------------------------------------------------------------------- writing


def write_model(model: AnytimeModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Manifest (without checksums) and arrays of a fitted model."""
    name = type(model).__name__
    if name not in {*ESTIMATORS, *_REGISTERED} or _estimator(name) is not type(model):
        raise TypeError(f"the class {name} is not registered; call anytime.files.register first")
    check_is_fitted(model, "plan_")
    plan, arrays = write_plan(model.plan_)
    encoder = Encoder(arrays)
    parameters, unsaved = _write_parameters(model, encoder)
    names = getattr(model, "feature_names_in_", None)
    state = model._file_state() if hasattr(model, "_file_state") else {}
    manifest = {
        "estimator": name,
        "parameters": parameters,
        "unsaved": unsaved,
        "plan": plan,
        "features": {
            "count": int(model.plan_.n_features),
            "names": None if names is None else [str(name) for name in names],
        },
        "classes": encoder.encode(np.asarray(model.classes_)) if hasattr(model, "classes_") else None,
        "output": getattr(model, "_sklearn_output_config", {}).get("transform", "default"),
        "state": {str(key): encoder.encode(value) for key, value in state.items()},
        "versions": {
            "anytime": _own_version(),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "scikit-learn": sklearn.__version__,
        },
    }
    return manifest, arrays


def _write_parameters(model: AnytimeModel, encoder: Encoder) -> tuple[dict[str, Any], dict[str, str]]:
    """Constructor parameters. Values that a file cannot hold, such as another library's estimator, are kept as text."""
    parameters, unsaved = {}, {}
    for name, value in model.get_params(deep=False).items():
        if name == "costs":
            parameters[name] = _write_costs_parameter(model, value, encoder)
            continue
        if name in _OUTSIDE and value is not None:
            unsaved[name] = repr(value)[:_LONGEST_REPR]
            continue
        try:
            Encoder({}).encode(value)  # a trial run: a failure half-way must not leave arrays behind
        except TypeError:
            unsaved[name] = repr(value)[:_LONGEST_REPR]
        else:
            parameters[name] = encoder.encode(value)
    return parameters, unsaved


def _write_costs_parameter(model: AnytimeModel, costs: Any, encoder: Encoder) -> Any:
    """Prices in whatever form they came; a path is replaced by what was read from it."""
    plan = model.plan_
    if costs is None:
        return None
    if hasattr(costs, "__fspath__") or isinstance(costs, str):
        return "plan"
    names = getattr(model, "feature_names_in_", None)
    prices = FeatureCosts.coerce(costs, plan.n_features, None if names is None else list(map(str, names)))
    return "plan" if prices == plan.costs.costs else encoder.encode(prices)


def _own_version() -> str:
    try:
        return version("anytime")
    except PackageNotFoundError:  # run from a folder that was never installed
        return "unknown"


# ---------------------------------------------------------------------- reading


def read_model(
    manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], file_bytes: int
) -> AnytimeModel:
    """Build the model again.

    Raises ``BadFileError``, or ``ValueError`` and the like where a constructor refuses what it is given.
    """
    fields, shelf = Fields(dict(manifest), "manifest"), ArrayShelf(dict(arrays))
    decoder = Decoder(shelf, allowance(file_bytes))
    face = _estimator(fields.text("estimator"))
    n_features, names = _read_features(fields.inner("features"))
    plan = read_plan(fields.inner("plan"), shelf, n_features, names, file_bytes)
    for block in plan.blocks:
        if block.detached is not None and getattr(face, "_attaches", None) != block.detached.keyword:
            bad("manifest.plan", f"a {face.__name__} has no stage whose model is not in the file")
    model = face(**_read_parameters(fields, decoder, face, plan))
    model.plan_ = plan
    model.n_features_in_ = n_features
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    _read_classes(fields, decoder, model)
    if fields.text("output", ("default", "pandas")) == "pandas":
        model.set_output(transform="pandas")
    _read_state(fields.inner("state"), decoder, model)
    _check_category_lists(model)
    _read_texts(fields.inner("versions"))
    fields.done()
    shelf.done()
    return model


def _read_features(fields: Fields) -> tuple[int, list[str] | None]:
    n_features = fields.integer("count", 1, _MOST_FEATURES)
    names = fields.texts("names") if fields.has("names") else None
    if names is not None and len(names) != n_features:
        bad(fields.place("names"), f"{len(names)} names for {n_features} columns")
    if names is not None and len(set(names)) < n_features:
        bad(fields.place("names"), "a name stands twice")  # no table could be matched with them
    fields.done()
    return n_features, names


def _read_parameters(
    fields: Fields, decoder: Decoder, face: type[AnytimeModel], plan: Plan
) -> dict[str, Any]:
    unsaved = _read_texts(fields.inner("unsaved"))
    section = fields.inner("parameters")
    where, written = section.where, section.rest()
    for name in [*unsaved, *written]:
        if name not in face._get_param_names():
            bad(where, f"{face.__name__} has no parameter {shown(name)}")
    costs = written.pop("costs", None)
    parameters = {name: decoder.decode(value, f"{where}.{name}") for name, value in written.items()}
    if costs is not None:
        parameters["costs"] = plan.costs.costs if costs == "plan" else decoder.decode(costs, f"{where}.costs")
        if not isinstance(parameters["costs"], FeatureCosts):
            bad(f"{where}.costs", f"expected prices, found {shown(costs)}")
    parameters |= dict.fromkeys(unsaved)
    _check_parameters(parameters, where)
    return parameters


def _check_parameters(parameters: Mapping[str, Any], where: str) -> None:
    """The parameters that a prediction reads. What ``fit`` reads, ``fit`` checks."""
    for name in _OUTSIDE:
        if parameters.get(name) is not None:
            bad(f"{where}.{name}", "somebody else's model is never stored in a file")
    meter, n_jobs = parameters.get("meter"), parameters.get("n_jobs")
    for name in ("budget", "mean_budget"):
        amount = parameters.get(name)
        if amount is not None and (type(amount) not in (int, float) or not amount >= 0):
            bad(f"{where}.{name}", f"expected a number that is not negative, found {shown(amount)}")
    if "meter" in parameters and (type(meter) is not str or meter not in METERS):
        bad(f"{where}.meter", f"expected 'model' or 'realised', found {shown(meter)}")
    if n_jobs is not None and (type(n_jobs) is not int or not n_jobs or abs(n_jobs) > _MOST_THREADS):
        bad(f"{where}.n_jobs", f"expected a number of threads, found {shown(n_jobs)}")


def _read_classes(fields: Fields, decoder: Decoder, model: Any) -> None:
    link, n_outputs = LINKS[model.plan_.link], model.plan_.n_outputs
    if link.classifies != isinstance(model, ClassifierFace):
        bad("manifest.plan.link", f"{link.name!r} is not a link of {type(model).__name__}")
    if not fields.has("classes"):
        if link.classifies:
            bad("manifest.classes", "a classifier needs its classes")
        return
    classes = decoder.decode(fields.take("classes"), "manifest.classes")
    if not link.classifies or not isinstance(classes, np.ndarray) or classes.ndim != 1:
        bad("manifest.classes", "expected a list of labels, for a classifier only")
    if (n_outputs == 1) != link.binary or classes.size != link.n_classes(n_outputs):
        bad(
            "manifest.classes",
            f"{classes.size} classes do not go with {n_outputs} scores and link {link.name!r}",
        )
    model.classes_ = classes


def _read_state(fields: Fields, decoder: Decoder, model: Any) -> None:
    """What the class adds through ``_file_state``; its own reader may refuse it in any way."""
    state = {name: decoder.decode(value, fields.place(name)) for name, value in fields.rest().items()}
    if not hasattr(model, "_restore_file_state"):
        if state:
            bad(fields.where, f"{type(model).__name__} has no state of its own")
        return
    try:
        model._restore_file_state(state)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise BadFileError(f"{fields.where}: {error!r}") from error


def _check_category_lists(model: Any) -> None:
    """Categories are looked up in ``predict`` by column and value: the columns must exist, the values be plain."""
    for column, categories in (getattr(model, "categories_", None) or {}).items():
        plain = isinstance(categories, list) and all(
            v is None or isinstance(v, (bool, int, float, str)) for v in categories
        )
        if type(column) is not int or not 0 <= column < model.n_features_in_ or not plain:
            bad("manifest.state", f"{shown(categories)} is no list of categories of a column {shown(column)}")


def _read_texts(fields: Fields) -> dict[str, str]:
    return {name: fields.text(name) for name in fields.names()}


# ---------------------------------------------------------------------- a look without building


def describe_model(
    manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], file_bytes: int
) -> dict[str, Any]:
    """The contents of a file as plain values, without building the model or importing its class."""
    fields = Fields(dict(manifest), "manifest")
    decoder = Decoder(ArrayShelf(dict(arrays)), allowance(file_bytes))
    plan = fields.inner("plan")
    costs = plan.inner("costs")
    unit = costs.text("unit") if costs.has("unit") else None
    prices = {group.text("name"): group.number("price", 0) for group in costs.each("groups")}
    blocks = count_stages(plan, arrays)
    n_features, names = _read_features(fields.inner("features"))
    parameters, unsaved = fields.inner("parameters"), fields.inner("unsaved")
    written = parameters.rest()
    if written.get("costs") is not None:
        written["costs"] = f"{len(prices)} groups"  # they are listed below
    return {
        "estimator": fields.text("estimator", ESTIMATORS),
        "versions": _read_texts(fields.inner("versions")),
        "parameters": {
            name: decoder.decode(value, parameters.place(name)) for name, value in written.items()
        },
        "unsaved": _read_texts(unsaved),
        "n_features": n_features,
        "feature_names": names,
        "classes": _labels_of(fields, decoder),
        "n_stages": sum(count for _, count in blocks),
        "blocks": [{"kind": kind, "n_stages": count} for kind, count in blocks],
        "link": plan.text("link", LINKS),
        "combine": plan.text("combine", ("sum", "mean")),
        "limit": plan.number("limit", 0),
        "unit": unit,
        "prices": prices,
    }


def _labels_of(fields: Fields, decoder: Decoder) -> list[Any] | None:
    if not fields.has("classes"):
        return None
    classes = decoder.decode(fields.take("classes"), "manifest.classes")
    if not isinstance(classes, np.ndarray):
        bad("manifest.classes", "expected labels")
    labels: list[Any] = classes.tolist()
    return labels
