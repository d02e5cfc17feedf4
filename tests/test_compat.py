"""Private names of scikit-learn and uvicorn are used in one place, and mean there what the package takes them to mean."""

from __future__ import annotations

import ast
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.metrics import accuracy_score, make_scorer

import anytime
from anytime import _compat

SOURCES = Path(anytime.__file__).parent
SHIM = Path(_compat.__file__)
LIBRARIES = ("sklearn", "uvicorn")
WORTH_PARSING = re.compile(
    r"(?:sklearn|uvicorn)\b[^\n]*(?:\b_|protocols|import \()"
)  # to parse all files takes seconds
PRIVATE_ATTRIBUTES = set(
    re.findall(r'model\.(_\w+)|forest\.(_\w+)|, "(_\w+)"', SHIM.read_text(encoding="utf-8"))
)


def private_imports(source: str) -> list[str]:
    """What a file imports from inside the libraries: a private module, a private name, a protocol of uvicorn."""
    if not WORTH_PARSING.search(source):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [
        name
        for name in found
        if name.split(".")[0] in LIBRARIES
        and (any(part.startswith("_") for part in name.split(".")) or name.startswith("uvicorn.protocols"))
    ]


def test_no_other_file_imports_a_private_name() -> None:
    offenders = {
        str(path.relative_to(SOURCES)): private_imports(path.read_text(encoding="utf-8"))
        for path in SOURCES.rglob("*.py")
        if path != SHIM
    }
    assert {path: names for path, names in offenders.items() if names} == {}


def test_the_search_for_private_names_sees_them() -> None:
    """Negative control: the shim itself, and ways to write an import."""
    assert "sklearn.utils._param_validation.Interval" in private_imports(SHIM.read_text(encoding="utf-8"))
    assert private_imports("import sklearn.tree._tree")
    assert private_imports("def f():\n    from uvicorn.protocols.http.h11_impl import H11Protocol")
    assert not private_imports("from sklearn.utils import check_random_state\nimport _thread\nimport uvicorn")


def test_no_other_file_reads_a_private_attribute_of_a_scikit_learn_model() -> None:
    names = {name for groups in PRIVATE_ATTRIBUTES for name in groups if name}
    assert {"_predictors", "_baseline_prediction", "_raw_predict_init", "_n_samples", "_score_func"} <= names
    pattern = re.compile(rf"(?<!self)\.({'|'.join(names)})\b|getattr\(\w+, \"({'|'.join(names)})\"")
    readers = [
        path.name
        for path in SOURCES.rglob("*.py")
        if path != SHIM and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert readers == []


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_scores_before_the_first_round_and_the_rounds_add_up_to_the_prediction(table) -> None:
    X, y = table
    model = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5).fit(X, y)
    assert [len(trees) for trees in _compat.hist_rounds(model)] == [1, 1]
    assert _compat.hist_rounds(HistGradientBoostingClassifier()) is None
    assert _compat.hist_preprocessor(model) is None
    log_odds = np.log(y.mean() / (1.0 - y.mean()))
    assert np.asarray(_compat.hist_baseline(model)).ravel() == pytest.approx([log_odds])
    classic = GradientBoostingClassifier(n_estimators=1).fit(X, y)
    assert np.ravel(_compat.initial_scores(classic, X[:2].astype(np.float32))) == pytest.approx(
        [log_odds] * 2
    )


@pytest.mark.parametrize("kind", [RandomForestClassifier, BaggingClassifier])
def test_a_forest_knows_how_many_rows_it_was_fitted_on(table, kind) -> None:
    assert _compat.n_training_rows(kind(n_estimators=2, random_state=0).fit(*table)) == 60


def test_only_a_scorer_has_a_scored_function() -> None:
    assert _compat.scored_function(make_scorer(accuracy_score)) is accuracy_score
    assert _compat.scored_function(accuracy_score) is None


def test_a_uvicorn_that_moved_its_protocol_is_named_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn")
    moved = "uvicorn.protocols.http.httptools_impl"
    monkeypatch.setitem(sys.modules, moved, types.ModuleType(moved))
    with pytest.raises(ImportError, match=r"no HttpToolsProtocol.*pip install 'uvicorn<="):
        _compat.HttpToolsProtocol  # noqa: B018


def test_the_shim_offers_what_it_lists() -> None:
    pytest.importorskip("httptools")
    for name in _compat.__all__:
        assert getattr(_compat, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Interva'"):
        _compat.Interva  # noqa: B018
