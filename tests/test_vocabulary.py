"""One word for each meaning: names of classes, and constructor parameters of all public classes of every room."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections import defaultdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import anytime as at
from anytime.estimator import AnytimeModel
from anytime.parameters import PARAMETERS
from tests.optional import installed_names

PACKAGE = Path(at.__file__).parent
RESEARCH = Path(__file__).parents[1] / "research" / "anytime_research"

ESTIMATORS = {
    name: value
    for name in installed_names()
    if inspect.isclass(value := getattr(at, name)) and issubclass(value, BaseEstimator)
}


def rooms() -> list[str]:
    """All modules and packages of ``anytime`` that can be imported here."""
    names = [module.name for module in pkgutil.iter_modules(at.__path__) if module.name != "_native"]
    return [name for name in names if name not in ("growth", "networks") or find_spec("torch")]


def offered(room: str) -> dict[str, object]:
    """What a room offers that can be called; protocols have no constructor."""
    module = import_module(f"anytime.{room}")
    values = {f"{room}.{name}": getattr(module, name) for name in getattr(module, "__all__", ())}
    return {
        name: value
        for name, value in values.items()
        if inspect.isfunction(value) or (inspect.isclass(value) and not getattr(value, "_is_protocol", False))
    }


OFFERED = {name: value for room in rooms() for name, value in offered(room).items()}
CLASSES = {name: value for name, value in OFFERED.items() if inspect.isclass(value)}

RETIRED = {
    *("n_stages", "n_rounds", "n_trees", "n_learners", "n_exits", "n_layers"),
    *("max_leaves", "min_rows", "l1", "l2", "ridge", "patience"),
    *("tree_cost", "computation", "learner_cost", "costly_cost"),
    *("penalty", "gamma", "lam", "trade_off"),
    *("cross_fit", "n_folds", "n_passes", "step", "rate"),
    *("max_iterations", "n_neighbours"),
}

OTHER_MEANINGS = {  # words that are retired for one meaning and say another here
    ("networks.AdaLoss", "gamma"),  # share of equal weights that is mixed in, as in the paper
    ("networks.FirstOrder", "gamma"),
    ("networks.Once", "gamma"),
    ("networks.Minimax", "rate"),  # of the opponent, not of the network
    ("losses.Loss", "step"),  # a function: how far to go along a direction
    ("greedy.spectral_gamma", "penalty"),  # which norm of the weights is penalised
    ("greedy.rival_ceiling", "gamma"),  # how far a set function is submodular, as in the papers
    ("greedy.rival_ceiling", "rate"),  # gain per unit of cost
    ("structured.Update", "step"),  # what was taken, not what is asked for
    ("progress.FitProgress", "step"),  # how many reports there have been, as trackers of experiments count
}

NARROWER = {
    ("LadderClassifier", "max_stages"),  # a ladder has an exit and an end at least
    # without any, columns that repeat others have more than one solution
    ("CostSensitiveTreeClassifier", "l2_regularization"),
    ("SubmodularTreeClassifier", "l2_regularization"),
}
OTHER_NONE = {
    ("SceneParser", "costs"),  # prices of pictures are measured
    # what networks compute is their cost
    ("GrowingNetworkClassifier", "costs"),
    ("GrowingNetworkRegressor", "costs"),
}


def parameters_of(estimator: type) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(estimator.__init__)
    return {name: parameter for name, parameter in signature.parameters.items() if name != "self"}


def documented(estimator: type) -> dict[str, str]:
    """The text of each entry of the Parameters section, by name; several names may share one entry."""
    section = re.split(
        r"\n\s*(?:Attributes|Returns|Raises|See Also|Notes|References|Examples)\n\s*-{3,}",
        estimator.__doc__ or "",
    )[0]
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in inspect.cleandoc(section).splitlines():
        if match := re.fullmatch(r"([\w, ]+) : .*", line):
            current = []
            entries |= dict.fromkeys(match[1].split(", "), current)
        elif line.startswith("    "):
            current.append(line.strip())
    told = {name: " ".join(lines) for name, lines in entries.items()}
    if other := re.search(
        r"[Aa]s in :class:`(\w+)`", section
    ):  # what a sister class says of the same parameters
        told = documented(ESTIMATORS[other[1]]) | {
            name: text for name, text in told.items() if "s in :class:" not in text[:4]
        }
    return told


def test_no_two_classes_of_product_and_research_share_a_name():
    places = defaultdict(list)
    for path in [*sorted(PACKAGE.rglob("*.py")), *sorted(RESEARCH.rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def parameter_names(value: object) -> set[str]:
    try:
        return set(inspect.signature(value).parameters)
    except ValueError:  # of the native module: what it takes stands in its stubs
        return set()


def test_retired_words_are_not_parameters():
    found = {(name, word) for name, value in OFFERED.items() for word in parameter_names(value) & RETIRED}
    assert found == {(name, word) for name, word in OTHER_MEANINGS if name in OFFERED}


def test_a_batch_takes_bounds_by_the_words_of_a_session():
    batch, session = (parameter_names(method) for method in (at.BatchSession.advance, at.Session.resume))
    assert batch - session == {"budget_total"}


def test_a_number_that_ends_a_search_when_little_changes_has_one_name():
    """Scikit-learn's, ``tol``; a ``tolerance`` is what a user puts up with in answers."""
    searching = [at.BudgetPruner, at.boosting.BoostingRules, at.GroupPursuitRegressor]
    assert all("tol" in parameter_names(value) for value in searching)


def test_estimators_and_building_blocks_have_their_own_words_for_threads_and_seeds():
    """Estimators take scikit-learn's ``n_jobs`` and ``random_state``; what they are built of takes what those come to."""
    of_estimators, of_blocks = {"n_jobs", "random_state"}, {"n_threads", "seed"}
    assert all(of_blocks.isdisjoint(parameters_of(estimator)) for estimator in ESTIMATORS.values())
    mixed = [
        name
        for name, value in CLASSES.items()
        if of_estimators & parameter_names(value) and of_blocks & parameter_names(value)
    ]
    assert mixed == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_shared_parameters_are_declared_once(name):
    estimator = ESTIMATORS[name]
    docs = documented(estimator)
    constraints = getattr(
        estimator, "_parameter_constraints", None
    )  # of anytime models; others check at first use
    for parameter in parameters_of(estimator).keys() & PARAMETERS.keys():
        declared = PARAMETERS[parameter]
        if constraints is not None and (name, parameter) not in NARROWER:
            # a family may take None or "auto" as well
            assert set(map(id, declared.constraint)) <= set(map(id, constraints[parameter])), parameter
        doc = declared.doc if (name, parameter) not in OTHER_NONE else declared.doc.partition(" None: ")[0]
        assert docs.get(parameter, "").startswith(doc), f"{parameter}: {docs.get(parameter)!r}"
        assert docs[parameter].count(doc) == 1, parameter


def test_a_family_whose_none_means_something_else_says_what():
    """Beginning with the shared sentence about None, and then taking it back, is no way to say so."""
    there = [(name, parameter) for name, parameter in OTHER_NONE if name in ESTIMATORS]  # some need torch
    assert there
    for name, parameter in there:
        meaning, _, none = PARAMETERS[parameter].doc.partition(" None: ")
        said = documented(ESTIMATORS[name])[parameter]
        assert said.startswith(f"{meaning} None: "), said
        assert none not in said


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if issubclass(ESTIMATORS[name], AnytimeModel)])
def test_a_parameter_that_is_not_there_is_named(name):
    with pytest.raises(TypeError, match=f"{name} has no parameter 'bananas'; it has .*costs"):
        ESTIMATORS[name](bananas=3)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if issubclass(ESTIMATORS[name], AnytimeModel)])
def test_a_misspelled_keyword_of_a_method_is_answered_with_the_one_that_is_meant(name):
    """The message names the class that the user sees, and not the one that the method comes from."""
    model = object.__new__(ESTIMATORS[name])  # names are looked at before anything else
    if hasattr(model, "predict"):
        with pytest.raises(
            TypeError, match=f"^{name}.predict has no parameter 'bugdet'; did you mean 'budget'"
        ):
            model.predict([[0.0]], bugdet=3)
    for called, method in inspect.getmembers_static(ESTIMATORS[name], inspect.isfunction):
        if called.startswith("_") or not method.__module__.startswith("anytime."):
            continue
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        in_place = [None for p in needed[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
        with pytest.raises(TypeError, match=rf"^({name}\.)?{called}\b.* 'bananas'"):
            getattr(model, called)(*in_place, bananas=3)


def test_the_word_of_another_library_is_answered_with_ours():
    with pytest.raises(TypeError, match=r"^curve has no parameter 'scoring'; did you mean 'metric'"):
        at.curve(None, [[0.0]], [0], scoring="f1")
    with pytest.raises(
        TypeError, match=r"^permutation_importances has no parameter 'metric'; did you mean 'scoring'"
    ):
        at.permutation_importances(None, [[0.0]], [0], budgets=[1], metric="f1")
    with pytest.raises(TypeError, match="no parameter 'n_trees'; did you mean 'n_estimators'"):
        at.SpeedBoostClassifier(n_trees=3)
    with pytest.raises(TypeError, match="no parameter 'lam'; did you mean 'cost_penalty'"):
        at.GradientBoostingRegressor(lam=3)
    with pytest.raises(TypeError, match="no parameter 'learning_rates'; did you mean 'learning_rate'"):
        at.StreamingBoostRegressor(learning_rates=3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_are_keywords(name):
    """All but the estimator that is wrapped: ``costs`` too."""
    by_place = [p.name for p in parameters_of(ESTIMATORS[name]).values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_place in ([], ["estimator"], ["costly"], ["classifier"], ["experts"], ["members"])


# a call of ``ExponentialEnsemble`` gives one of two classes, which have no public names of their own
FACES = {face.__name__: face for face in at.ExponentialEnsemble.__subclasses__()}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, estimator in (ESTIMATORS | FACES).items()
        # an algorithm selector is told what every option costs every row
        if hasattr(estimator, "predict_proba") and name != "AlgorithmSelector"
    ],
)
def test_classifiers_weigh_classes(name):
    assert "class_weight" in parameters_of((ESTIMATORS | FACES)[name])


@pytest.mark.parametrize(
    "name", [name for name, estimator in ESTIMATORS.items() if hasattr(estimator, "partial_fit")]
)
def test_streams_are_learned_by_the_same_call(name):
    parameters = inspect.signature(ESTIMATORS[name].partial_fit).parameters
    assert list(parameters) == ["self", "X", "y", "classes", "sample_weight"]
    assert parameters["classes"].default is parameters["sample_weight"].default is None
