"""The ``.anytime`` file: saved equals loaded bit for bit, and no file, however made, does harm."""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError

import anytime as at
from anytime.blocks import FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel
from anytime.faces import RegressorFace
from anytime.files import BadFileError, container, describe, estimators, load, save
from anytime.plan import Plan
from anytime.trees.block import TreeBlock
from anytime.trees.imported_models import AnytimeClassifier, AnytimeRegressor
from anytime.validation import validated
from tests.serve.serving import application, post

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import _fuzz_cases as cases

MODELS = cases.sample_models()
RAW = {name: cases.packed(model) for name, model in MODELS.items()}


def loaded(raw: bytes, **options: Any) -> Any:
    return whole(load(io.BytesIO(raw), **options))


def whole(model: Any) -> Any:
    """With the model that no file holds."""
    return model.attach(cases.Elsewhere()) if getattr(model, "detached_", None) else model


def refused(raw: bytes, message: str, **options: Any) -> None:
    with pytest.raises(BadFileError, match=message):
        loaded(raw, **options)


def rows(model: Any) -> Any:
    X = np.random.default_rng(0).normal(size=(40, model.n_features_in_))
    if model.__sklearn_tags__().input_tags.allow_nan:
        X[::7, 1] = np.nan
    names = getattr(model, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


def assert_same(left: Any, right: Any) -> None:
    """Equal in every bit that a user can see."""
    X = rows(left)
    assert type(left) is type(right)
    for a, b in zip(left.stages(X), right.stages(X), strict=True):
        assert a.scores.tobytes() == b.scores.tobytes()
        assert np.array_equal(a.cost, b.cost)
        assert np.array_equal(a.prediction, b.prediction, equal_nan=a.prediction.dtype.kind == "f")
    for budget in (0, 3.0, 8.0, 100.0):
        assert np.array_equal(left.cost(X, budget=budget), right.cost(X, budget=budget))
        assert (
            left.answer(X, budget=budget).scores.tobytes() == right.answer(X, budget=budget).scores.tobytes()
        )
    assert np.array_equal(left.stage_costs_, right.stage_costs_)
    assert left.order_ == right.order_
    assert left.costs_ == right.costs_
    assert left.costs_.names == right.costs_.names
    if hasattr(left, "classes_"):
        assert left.classes_.dtype == right.classes_.dtype
        assert left.classes_.tolist() == right.classes_.tolist()
        assert [type(c) for c in left.classes_.tolist()] == [type(c) for c in right.classes_.tolist()]


# ---------------------------------------------------------------------- saved equals loaded


@pytest.mark.parametrize("name", MODELS)
def test_saved_equals_loaded_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    save(model, tmp_path / "model.anytime")
    again = whole(load(tmp_path / "model.anytime"))
    assert_same(model, again)
    plan, copy = model.plan_, again.plan_
    for field in ("base", "evaluation_costs", "expected_costs", "replaces", "quality", "intercepts"):
        a, b = getattr(plan, field), getattr(copy, field)
        assert (a is None) == (b is None)
        assert a is None or (a.dtype == b.dtype and a.tobytes() == b.tobytes())
    assert (plan.link, plan.combine, plan.limit) == (copy.link, copy.combine, copy.limit)
    for rules, read in ((plan.passes, copy.passes), (plan.stops, copy.stops)):
        assert {s: r.kind for s, r in rules.items()} == {s: r.kind for s, r in read.items()}
        assert {s: r for s, r in rules.items() if r.kind != "score"}.items() <= read.items()
    given = model.get_params(deep=False)
    expected = {key: None if key in ("costly", "estimator") else value for key, value in given.items()}
    assert again.get_params(deep=False) == expected
    assert [type(v) for v in again.get_params(deep=False).values()] == [type(v) for v in expected.values()]
    if hasattr(model, "feature_names_in_"):
        assert again.feature_names_in_.dtype == object
        assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    for attribute in ("columns_", "source_"):  # of models made of trees
        assert str(getattr(again, attribute, None)) == str(getattr(model, attribute, None))


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for path in ("a", "b"):
        save(MODELS[name], tmp_path / path)
        time.sleep(0.01)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == RAW[name]
    again = load(tmp_path / "a")
    if name not in ("adaptive", "ladder"):  # whose estimator is not in the file any more
        assert cases.packed(again) == RAW[name]


@pytest.mark.parametrize("budget", [0, 3.0, 8.0])
@pytest.mark.parametrize("name", MODELS)
def test_a_truncated_model_is_saved_as_it_is(name: str, budget: float) -> None:
    small = MODELS[name].truncate(budget)
    assert_same(small, loaded(cases.packed(small)))


def test_a_fitted_forest_survives(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    model = AnytimeClassifier(
        RandomForestClassifier(10, random_state=0), random_state=0, costs=[1, 2.5, 0.1, 7]
    )
    model.fit(X, labels)
    model.save(tmp_path / "iris.anytime")
    again = load(tmp_path / "iris.anytime")
    assert_same(model, again)
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert again.costs == FeatureCosts([1, 2.5, 0.1, 7])
    assert again.estimator is None
    assert not hasattr(again, "estimator_")
    regressor = AnytimeRegressor(
        RandomForestRegressor(5, random_state=0), meter="realised", budget=3.5, random_state=0
    )
    regressor.fit(X, X.sum(axis=1))
    again = loaded(cases.packed(regressor))
    assert np.array_equal(regressor.predict(X), again.predict(X))
    assert np.array_equal(regressor.cost(X), again.cost(X))


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 7], dtype=np.int8),
        np.array([3, 2**63], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1]),
        np.array([0.1, np.inf]),
        np.array([0.5, 1.5], dtype=np.float32),
        np.array([False, True]),
        np.array(["a", "b" * 30]),
        np.array(["a", "b"], dtype="<U20"),
        np.array(["", "\u00e9\U0001f600\n"]),
        np.array(["a", "b\0"], dtype=object),
        np.array(["a", 1], dtype=object),
        np.array([True, 2.5], dtype=object),
    ],
    ids=lambda classes: f"{classes.dtype}-{classes[-1]!r}",
)
def test_classes_keep_type_and_value(classes: Any) -> None:
    model = cases.fitted(AnytimeClassifier, MODELS["boosted"].plan_, classes)
    again = loaded(cases.packed(model)).classes_
    assert again.dtype == classes.dtype
    assert again.tolist() == classes.tolist()
    assert [type(c) for c in again.tolist()] == [type(c) for c in classes.tolist()]


def test_big_endian_classes_become_little_endian() -> None:
    model = cases.fitted(AnytimeClassifier, MODELS["boosted"].plan_, np.array([3, 7], dtype=">i4"))
    assert loaded(cases.packed(model)).classes_.tolist() == [3, 7]


def test_costs_come_back_as_prices_in_whatever_form_they_were_given(tmp_path: Path) -> None:
    plan = Plan(
        blocks=MODELS["refitted"].plan_.blocks,
        costs=FeatureCosts([1, 2, 3, 4]).bind(4),
        base=np.zeros(2),
        link="identity",
    )
    prices = FeatureCosts([1, 2, 3, 4])
    prices.write(tmp_path / "costs.yaml")
    for given_as in (
        prices,
        [1, 2, 3, 4],
        np.array([1.0, 2, 3, 4]),
        prices.to_frame(),
        tmp_path / "costs.yaml",
    ):
        again = loaded(cases.packed(cases.fitted(AnytimeRegressor, plan, costs=given_as)))
        assert again.costs == prices
        assert again.costs is again.costs_
    other = loaded(cases.packed(cases.fitted(AnytimeRegressor, plan, costs=[9, 9, 9, 9])))
    assert other.costs == FeatureCosts([9, 9, 9, 9])
    assert other.costs_ == prices


def test_an_output_setting_and_numpy_numbers_survive() -> None:
    model = cases.fitted(
        AnytimeRegressor, MODELS["refitted"].plan_, budget=np.float64(2.5), n_jobs=np.int64(1)
    )
    model.set_output(transform="pandas")
    again = loaded(cases.packed(model))
    assert isinstance(again.predict(np.zeros((2, 4))), pd.DataFrame)
    assert (again.budget, type(again.budget), type(again.n_jobs)) == (2.5, float, int)


def test_what_a_file_cannot_hold_is_kept_as_text() -> None:
    model = cases.fitted(AnytimeRegressor, MODELS["refitted"].plan_, random_state=np.random.RandomState(0))
    raw = cases.packed(model)
    assert loaded(raw).random_state is None
    assert describe(io.BytesIO(raw))["unsaved"] == {"random_state": repr(model.random_state)}
    assert describe(io.BytesIO(RAW["ladder"]))["unsaved"] == {"estimator": "DummyClassifier()"}
    model.random_state = [np.arange(3), object()]  # half of it could be kept
    assert loaded(cases.packed(model)).random_state is None


class Keeper(RegressorFace, AnytimeModel):
    """A model with fitted state of its own."""

    def __init__(self, costs=None, budget=None, meter="model", n_jobs=None, extra=None):
        self.costs, self.budget, self.meter, self.n_jobs, self.extra = costs, budget, meter, n_jobs, extra

    def fit(self, X: Any, y: Any = None) -> Keeper:
        raise NotImplementedError

    def _file_state(self) -> dict[str, Any]:
        return self.kept

    def _restore_file_state(self, state: dict[str, Any]) -> None:
        if "fail" in state:
            raise KeyError("nothing of the kind")
        self.kept = state


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(estimators.ESTIMATORS, "Keeper", "keepers:Keeper")
    monkeypatch.setitem(sys.modules, "keepers", sys.modules[Keeper.__module__])
    model = Keeper()
    model.plan_, model.n_features_in_ = MODELS["refitted"].plan_, 4
    return model


STATE = {
    "none": None,
    "numbers": [0, -1, 2**64 - 1, 0.1, -0.0, float("inf"), float("-inf"), 5e-324],
    "tuple": (1, (2.0, "x"), []),
    "mapping": {3: "three", "b": [1, {"a": (None,)}], None: True, 1.5: False, "is": 1},
    "array": np.arange(6, dtype=np.int16).reshape(2, 3),
    "zero": np.array(3.5),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "labels": np.array(["a", "bc"]),
    "objects": np.array(["a", 1.5, float("inf")], dtype=object),
    "text": "\u00e9\U0001f600\\ud800\0",
}


def test_state_of_a_class_survives_with_types_and_order(keeper: Any) -> None:
    keeper.kept = STATE
    again = loaded(cases.packed(keeper)).kept
    assert str(again) == str(dict(sorted(STATE.items())))
    for name in ("array", "zero", "empty", "labels", "objects"):
        assert again[name].dtype == STATE[name].dtype
        assert again[name].shape == STATE[name].shape
    again["array"][0] = 5  # arrays can be written to, as the original's could


def test_a_state_that_the_class_refuses_is_the_files_fault(keeper: Any) -> None:
    keeper.kept = {"fail": 1}
    refused(cases.packed(keeper), "nothing of the kind")


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"x", 1j, object(), 2**70, np.array([1j]), np.array([b"x"]), np.array([["a"]]), [[[]] * 2, {1}]],
)
def test_a_state_that_no_file_can_hold_is_refused_when_saving(keeper: Any, value: Any) -> None:
    keeper.kept = {"value": value}
    with pytest.raises(TypeError):
        cases.packed(keeper)


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "goldens" / "files").iterdir()), ids=lambda path: path.stem
)
def test_files_of_every_schema_still_load(path: Path) -> None:
    """Written once, by the version that brought the schema; never written again."""
    assert_same(MODELS[path.name.split("-")[0]], load(path))
    assert describe(path)["schema"] == int(path.stem.removeprefix(path.name.split("-")[0] + "-schema"))


# ---------------------------------------------------------------------- saving


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.anytime"
    save(MODELS["boosted"], path)
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError("no space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fails)
            with pytest.raises(OSError, match="no space"):
                save(MODELS["forest"], path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["model.anytime"]


def test_a_function_cannot_be_saved(tmp_path: Path) -> None:
    plan = Plan(
        blocks=[FunctionBlock([0], np.sin)], costs=FeatureCosts([1.0]).bind(1), base=[0.0], link="identity"
    )
    with pytest.raises(TypeError, match="holds a Python function and cannot be saved"):
        save(cases.fitted(AnytimeRegressor, plan), tmp_path / "model.anytime")
    assert not os.listdir(tmp_path)


def test_a_class_of_somebody_else_cannot_be_saved(tmp_path: Path) -> None:
    class AnytimeRegressor(RegressorFace, AnytimeModel):  # the name alone does not make it ours
        pass

    model = AnytimeRegressor()
    model.plan_ = MODELS["refitted"].plan_
    with pytest.raises(TypeError, match="the class AnytimeRegressor is not registered"):
        save(model, tmp_path / "x")


def test_a_model_that_is_not_fitted_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save(AnytimeRegressor(), tmp_path / "x")


def test_what_load_would_refuse_is_not_saved(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    steps = [f"step{i}" for i in range(502)]
    chain = FeatureCosts(
        dict.fromkeys(steps, 1.0),
        groups={step: [0] if step == "step501" else [] for step in steps},
        requires={step: [before] for before, step in itertools.pairwise(steps)},
    )
    plan = Plan(blocks=[LinearBlock([0], [[1.0]])], costs=chain.bind(1), base=[0.0], link="identity")
    with pytest.raises(
        ValueError,
        match=r"this model cannot be saved: manifest.plan.costs: group 'step500' stands on a chain",
    ):
        save(cases.fitted(AnytimeRegressor, plan), tmp_path / "x")
    wide = cases.fitted(AnytimeClassifier, MODELS["boosted"].plan_, np.array(["a", "b"], dtype="<U9000000"))
    with pytest.raises(ValueError, match="take too much memory for a file of this size"):
        save(wide, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_new_file_has_ordinary_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    save(MODELS["boosted"], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert_same(load(tmp_path / "link"), load(str(tmp_path / "target")))


def test_any_zip_tool_and_numpy_can_read_a_file() -> None:
    with zipfile.ZipFile(io.BytesIO(RAW["forest"])) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "manifest.json"
        manifest = json.loads(archive.read("manifest.json"))
        assert (manifest["format"], manifest["schema"], manifest["estimator"]) == (
            "anytime model",
            1,
            "AnytimeClassifier",
        )
        for name in archive.namelist()[1:]:
            array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            key = name.removeprefix("arrays/").removesuffix(".npy")
            assert np.array_equal(array, cases.Parts(RAW["forest"]).arrays[key])


def test_a_very_regular_model_is_stored_so_that_it_can_be_loaded() -> None:
    packed = container.pack_arrays({"zeros": np.zeros(4_000_000)})
    assert [member.method for member in packed] == [0]
    assert [member.method for member in container.pack_arrays({"zeros": np.zeros(1_000_000)})] == [8]


# ---------------------------------------------------------------------- sources


class Dribble(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, raw: bytes, *, seekable: bool, step: int = 7) -> None:
        self._file, self._seekable, self._step = io.BytesIO(raw), seekable, step

    def read(self, size: int = -1) -> bytes:
        return self._file.read(min(size, self._step) if size >= 0 else self._step)

    def seekable(self) -> bool:
        return self._seekable

    def seek(self, *where: int) -> int:
        if not self._seekable:
            raise io.UnsupportedOperation("seek")
        return self._file.seek(*where)


@pytest.mark.parametrize("seekable", [True, False])
def test_a_model_comes_from_any_binary_file(seekable: bool) -> None:
    assert_same(load(Dribble(RAW["forest"], seekable=seekable)), MODELS["forest"])
    if not seekable:
        with pytest.raises(BadFileError, match="has more than max_bytes=1000 bytes"):
            load(Dribble(RAW["forest"], seekable=False), max_bytes=1000)


@pytest.mark.parametrize("contents", [b"", b"a,b\n", b"a,b\n" * 100, RAW["forest"][:-5]])
def test_what_is_no_model_is_told_in_one_sentence(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(contents)
    with pytest.raises(BadFileError) as caught:
        load(path)
    assert str(caught.value) == f"{path} is not an .anytime model, or is truncated"


def test_errors_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.anytime")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=f"the folder to save in does not exist: '{tmp_path / 'nowhere'}'"
    ):
        save(MODELS["forest"], tmp_path / "nowhere" / "model.anytime")
    with pytest.raises(IsADirectoryError, match=f"is a folder; name a file in it: '{tmp_path}'"):
        save(MODELS["forest"], tmp_path)
    with pytest.raises(TypeError, match="binary mode"):
        load(io.StringIO("x"))
    with pytest.raises(TypeError, match=r"io\.BytesIO"):
        load(RAW["forest"])  # type: ignore[arg-type]


# ---------------------------------------------------------------------- describe


def test_describe_tells_what_is_inside_without_building_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(TreeBlock, "from_state", None)
    monkeypatch.setattr(estimators, "_estimator", None)
    (tmp_path / "x.anytime").write_bytes(RAW["gated"])
    told = describe(tmp_path / "x.anytime")
    json.dumps(told)  # plain values only
    assert (told["format"], told["schema"], told["estimator"]) == ("anytime model", 1, "AnytimeClassifier")
    assert told["classes"] == [-1, 1]
    assert told["n_stages"] == 4
    assert told["blocks"] == [
        {"kind": k, "n_stages": n} for k, n in (("linear", 1), ("trees", 2), ("linear", 1))
    ]
    assert told["prices"] == {"draw": 2.1, "b": 5.17, "a": 0.0, "c": 15.5}
    assert (told["unit"], told["link"], told["n_features"], told["feature_names"]) == (
        "CAD",
        "logistic",
        4,
        None,
    )
    assert told["parameters"]["meter"] == "realised"
    assert set(told["versions"]) == {"anytime", "numpy", "python", "scikit-learn"}
    assert told["arrays"]["plan.base"] == {"dtype": "<f8", "shape": [1]}
    assert told["file_bytes"] == len(RAW["gated"])
    with pytest.raises(BadFileError):
        describe(io.BytesIO(RAW["gated"][:-1]))


# ---------------------------------------------------------------------- classes of the user


class TwoLines(RegressorFace, AnytimeModel):
    """A user's own: two linear stages."""

    def __init__(self, slope=1.0, costs=None, budget=None, meter="model", n_jobs=None):
        self.slope, self.costs, self.budget, self.meter, self.n_jobs = slope, costs, budget, meter, n_jobs

    def fit(self, X, y):
        X = validated(self, X, dtype=np.float64)
        self.plan_ = Plan(
            blocks=[LinearBlock(np.array([j]), np.array([[self.slope]])) for j in range(X.shape[1])],
            costs=FeatureCosts.coerce(self.costs, X.shape[1]).bind(X.shape[1]),
            base=[float(np.mean(y))],
            link="identity",
        )
        return self


def test_a_class_of_the_user_is_saved_loaded_and_served_once_it_is_registered(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(estimators, "_REGISTERED", {})
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = TwoLines(slope=2.0, budget=1.0).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="the class TwoLines is not registered"):
        model.save(tmp_path / "m.anytime")
    assert at.files.register(TwoLines) is TwoLines
    model.save(tmp_path / "m.anytime")
    again = at.load(tmp_path / "m.anytime")
    assert type(again) is TwoLines
    assert again.get_params() == model.get_params()
    assert_array_equal(again.predict(X), model.predict(X))

    answer = post(application(tmp_path, {"lines": model}), "/predict", {"rows": X[:3].tolist()})
    assert answer.json()["predictions"] == model.predict(X[:3]).tolist()
    monkeypatch.setattr(estimators, "_REGISTERED", {})
    with pytest.raises(BadFileError, match="'TwoLines' is no class of this library; register yours"):
        at.load(tmp_path / "m.anytime")


def test_what_cannot_be_registered_is_said(monkeypatch) -> None:
    monkeypatch.setattr(estimators, "_REGISTERED", {})
    with pytest.raises(TypeError, match="a class of anytime models"):
        at.files.register(dict)
    with pytest.raises(ValueError, match="another class is already registered as AnytimeRegressor"):
        at.files.register(type("AnytimeRegressor", (TwoLines,), {}))
