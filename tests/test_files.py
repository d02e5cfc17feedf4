"""The ``.anytime`` file: saved equals loaded bit for bit, and no file, however made, does harm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import sys
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import anytime.files as files
from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel, RegressorFace
from anytime.files import BadFileError, container, describe, estimators, load, save
from anytime.plan import FunctionBlock, LinearBlock, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.models import AnytimeClassifier, AnytimeRegressor

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import _fuzz_cases as cases
import fuzz_files as fuzz

MODELS = cases.sample_models()
RAW = {name: cases.packed(model) for name, model in MODELS.items()}


def loaded(raw: bytes, **options: Any) -> Any:
    return load(io.BytesIO(raw), **options)


def refused(raw: bytes, message: str, **options: Any) -> None:
    with pytest.raises(BadFileError, match=message):
        loaded(raw, **options)


def rows(model: Any) -> Any:
    X = np.random.default_rng(0).normal(size=(40, model.n_features_in_))
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
        assert np.array_equal(left.answer(X, budget=budget).scores, right.answer(X, budget=budget).scores)
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
    again = load(tmp_path / "model.anytime")
    assert_same(model, again)
    plan, copy = model.plan_, again.plan_
    for field in ("base", "evaluation_costs", "replaces", "quality", "intercepts"):
        a, b = getattr(plan, field), getattr(copy, field)
        assert (a is None) == (b is None)
        assert a is None or (a.dtype == b.dtype and a.tobytes() == b.tobytes())
    assert (plan.link, plan.combine, plan.limit) == (copy.link, copy.combine, copy.limit)
    assert {s: r.kind for s, r in plan.passes.items()} == {s: r.kind for s, r in copy.passes.items()}
    assert {s: r.kind for s, r in plan.stops.items()} == {s: r.kind for s, r in copy.stops.items()}
    expected = model.get_params(deep=False) | {"estimator": None}
    assert again.get_params(deep=False) == expected
    assert [type(v) for v in again.get_params(deep=False).values()] == [type(v) for v in expected.values()]
    if hasattr(model, "feature_names_in_"):
        assert again.feature_names_in_.dtype == object
        assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert str(again.categories_) == str(model.categories_)
    assert again.source_ == model.source_


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for path in ("a", "b"):
        save(MODELS[name], tmp_path / path)
        time.sleep(0.01)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == RAW[name]
    again = load(tmp_path / "a")
    if name != "ladder":  # whose estimator is not in the file any more
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


class Keeper(RegressorFace, AnytimeModel):
    """A model with fitted state of its own."""

    def __init__(self, costs=None, budget=None, meter="model", n_jobs=None, extra=None):
        self.costs, self.budget, self.meter, self.n_jobs, self.extra = costs, budget, meter, n_jobs, extra

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


# ---------------------------------------------------------------------- saving


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.anytime"
    save(MODELS["boosted"], path)
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError("no space left on device")

    for module, name in ((container.os if hasattr(container, "os") else os, "fsync"), (os, "replace")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, fails)
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
    with pytest.raises(TypeError, match="a AnytimeRegressor cannot be saved to a file; these can"):
        save(model, tmp_path / "x")


def test_what_load_would_refuse_is_not_saved(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    table = [np.full((2, 2), np.nan)]
    plan = Plan(
        blocks=[LinearBlock([0], [[1.0, 2.0]])],
        costs=FeatureCosts([1.0]).bind(1),
        base=np.zeros(2),
        link="identity",
        weights=table,
    )
    with pytest.raises(
        ValueError,
        match=r"this model cannot be saved: array 'plan.weights': holds a number that is not finite",
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


def test_errors_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.anytime")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(TypeError, match="binary mode"):
        load(io.StringIO("x"))
    with pytest.raises(TypeError, match=r"io\.BytesIO"):
        load(RAW["forest"])  # type: ignore[arg-type]


def test_messages_name_the_file_and_the_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.anytime"
    path.write_bytes(spoiled("boosted", lambda p: p.manifest["plan"]["blocks"][0].update(shift=2000)))
    with pytest.raises(BadFileError) as error:
        load(path)
    expected = f"{path}: manifest.plan.blocks[0].shift: expected a whole number in [-1000, 1000], found 2000"
    assert str(error.value) == expected
    assert isinstance(error.value, ValueError)


# ---------------------------------------------------------------------- damage


@pytest.mark.parametrize("name", ["boosted", "refitted"])
def test_a_flip_of_any_byte_is_found(name: str) -> None:
    rng = np.random.default_rng(0)
    for at in range(len(RAW[name])):
        damaged = bytearray(RAW[name])
        damaged[at] ^= 1 << rng.integers(8)
        with pytest.raises(BadFileError):
            loaded(bytes(damaged))


def test_a_file_cut_anywhere_is_refused() -> None:
    raw = RAW["scaled"]
    for size in [*range(300), *range(300, len(raw), 13), len(raw) - 1]:
        with pytest.raises(BadFileError):
            loaded(raw[:size])


def test_bytes_before_behind_and_between_are_refused() -> None:
    raw = RAW["boosted"]
    for spoilt in (
        b"\0" + raw,
        raw + b"\0",
        raw[:-2] + b"\1\0x",
        raw + raw,
        b"",
        b"PK\5\6" + bytes(18),
        os.urandom(4000),
    ):
        with pytest.raises(BadFileError):
            loaded(spoilt)


@given(st.integers(0, 2**40))
def test_no_damaged_or_malicious_file_does_harm(number: int) -> None:
    kind, raw = MANY.make(number)
    with np.errstate(all="ignore"):
        fuzz.judge(kind, raw, MANY.raw)


MANY = cases.Cases(seed=77)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_thousand_spoiled_files_neither_crash_nor_hang(tmp_path: Path) -> None:
    """The bar: no crash, hang, memory over 256 MB or wrong exception; benchmarks/fuzz_files.py runs 200,000."""
    options = fuzz.parsed(["--cases", "2000", "--seed", "5", "--keep", str(tmp_path), "--time-limit", "20"])
    figures = fuzz.run(options)
    assert figures["failures"] == 0
    assert figures["peak_memory_growth_mb"] < 256
    for kind in cases.KINDS:
        assert figures["outcomes"][kind]["refused"] > 100
    assert figures["outcomes"]["json"]["loaded"] + figures["outcomes"]["arrays"]["loaded"] > 50


# ---------------------------------------------------------------------- malice: the container


def members_of(name: str) -> tuple[dict[str, Any], list[container.Packed]]:
    parts = cases.Parts(RAW[name])
    return parts.manifest, container.pack_arrays(parts.arrays)


def with_member(change: Any, name: str = "boosted", at: int = 0) -> bytes:
    manifest, members = members_of(name)
    members[at] = change(members[at])
    return cases.assembled(manifest, members)


def with_npy(raw: bytes) -> bytes:
    return with_member(lambda member: container._pack(member.name, raw, squeeze=True))


def test_ten_gigabytes_claimed_by_a_small_file_are_refused_before_any_memory_is_taken() -> None:
    claims = [
        with_npy(container._npy_header("<f8", (10 * 2**27,)) + bytes(64)),
        with_member(lambda m: container.Packed(m.name, 8, m.crc, 2**32 - 2**20, m.data)),
        with_member(lambda m: container.Packed(m.name, 0, m.crc, 2**32 - 2**20, m.data)),
        with_npy(container._npy_header("<f8", (2**40, 2**40)) + bytes(64)),
    ]
    for raw in claims:
        assert len(raw) < 10_000
        tracemalloc.start()
        with pytest.raises(BadFileError):
            loaded(raw)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    count = 1 << 28
    header = container._npy_header("|u1", (count,))
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    crc, data = zlib.crc32(header), deflater.compress(header)
    for _ in range(count >> 20):
        crc, data = zlib.crc32(bytes(1 << 20), crc), data + deflater.compress(bytes(1 << 20))
    data += deflater.flush()
    raw = with_member(lambda m: container.Packed(m.name, 8, crc, len(header) + count, data))
    tracemalloc.start()
    refused(raw, "no model is that regular")
    assert tracemalloc.get_traced_memory()[1] < 2_000_000 + len(raw)
    tracemalloc.stop()
    # the same bomb that says it is small: nothing is unpacked beyond what was said
    tracemalloc.start()
    raw = with_member(lambda m: container.Packed(m.name, 8, crc, 1000, data))
    tracemalloc.reset_peak()
    refused(raw, "does not make 1000 bytes")
    assert tracemalloc.get_traced_memory()[1] < 6_000_000
    tracemalloc.stop()


def test_max_bytes_bounds_the_file_and_its_contents() -> None:
    raw = RAW["boosted"]
    unpacked = describe(io.BytesIO(raw))["unpacked_bytes"]
    refused(raw, r"has \d+ bytes, more than max_bytes=100", max_bytes=100)
    refused(
        raw + bytes(0),
        f"unpacks to {unpacked} bytes, more than max_bytes",
        max_bytes=max(len(raw), unpacked - 1),
    ) if (unpacked - 1 >= len(raw)) else None
    loaded(raw, max_bytes=max(len(raw), unpacked))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: container.Packed("/etc/passwd", m.method, m.crc, m.size, m.data), "no name of a member"),
        (
            lambda m: container.Packed("arrays/../x.npy", m.method, m.crc, m.size, m.data),
            "no name of a member",
        ),
        (lambda m: container.Packed("arrays/x.pkl", m.method, m.crc, m.size, m.data), "no name of a member"),
        (lambda m: container.Packed("manifest.json", 0, m.crc, len(m.data), m.data), "stands twice"),
        (lambda m: container.Packed(m.name, 12, m.crc, m.size, m.data), "compression method 12"),
        (lambda m: container.Packed(m.name, m.method, m.crc ^ 1, m.size, m.data), "checksum is wrong"),
        (lambda m: container.Packed(m.name, 8, m.crc, m.size, m.data[:-3]), "is damaged"),
        (lambda m: container.Packed(m.name, 8, m.crc, m.size, b"\xff" * 50), "is damaged: Error"),
        (lambda m: container.Packed(m.name, 8, m.crc, m.size - 1, zlib_of(m)), "does not make"),
        (
            lambda m: container.Packed(m.name, 8, m.crc, m.size, zlib_of(m) + b"x"),
            "something follows its end",
        ),
        (lambda m: container.Packed(m.name, 8, 0, 0, b"\3\0"), "is empty"),
        (
            lambda m: container.Packed(m.name, 8, m.crc, 2000 * len(m.data), m.data),
            "packed bytes cannot hold",
        ),
    ],
)
def test_a_member_that_is_not_what_it_says_is_refused(change: Any, message: str) -> None:
    refused(with_member(change), message)


def zlib_of(member: container.Packed) -> bytes:
    deflater = zlib.compressobj(1, zlib.DEFLATED, -15)
    data = member.data if not member.method else zlib.decompress(member.data, -15)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (6, 1, "not one that this library writes"),  # encrypted
        (6, 8, "not one that this library writes"),  # sizes follow the data
        (4, 45, "not one that this library writes"),  # zip64
        (10, 7, "not one that this library writes"),  # time
        (28, 4, "not one that this library writes"),  # extra field
        (18, 0xFFFF, "overlaps another member or leaves a gap"),
        (26, 5, "no name of a member"),
    ],
)
def test_a_header_that_this_library_does_not_write_is_refused(place: int, value: int, message: str) -> None:
    data = bytearray(RAW["boosted"])
    central = struct.unpack("<I", data[-6:-2])[0]
    data[central + place + 2 : central + place + 4] = struct.pack("<H", value)
    refused(bytes(data), message)


def test_local_header_must_agree_with_the_directory() -> None:
    data = bytearray(RAW["boosted"])
    data[8] = 8
    refused(bytes(data), "its header differs from the directory")


def test_members_that_overlap_stand_twice_or_are_too_many_are_refused() -> None:
    manifest, members = members_of("boosted")
    refused(cases.assembled(manifest, [members[0], *members]), "stands twice")
    extra = container._pack("arrays/extra.npy", container._npy_bytes(np.zeros(3)), squeeze=True)
    refused(cases.assembled(manifest, [*members, extra]), "array 'extra': belongs to nothing")
    refused(cases.assembled(manifest, members[1:]), "is missing")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # a zip of another program
        archive.writestr("manifest.json", "{}")
    refused(out.getvalue(), "not one that this library writes")
    data = bytearray(RAW["boosted"])
    central = struct.unpack("<I", data[-6:-2])[0]
    second = central + 46 + len("manifest.json")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    refused(bytes(data), "overlaps another member")
    data = bytearray(RAW["boosted"])
    data[-14:-10] = struct.pack("<HH", 0xFFFF, 0xFFFF)
    refused(bytes(data), "cannot list 65535 members")


def test_a_pickled_object_is_refused_and_never_opened() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (sys.exit, ("a pickle was opened",))

    payload = pickle.dumps(np.array([Trap()], dtype=object))
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([None], dtype=object), allow_pickle=True)
    for raw in (container._npy_header("|O", (1,)) + payload, out.getvalue(), payload):
        refused(with_npy(raw), "does not begin as an array does|are not used in .anytime files")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (container._npy_header(">f8", (2,)), "does not begin as an array does"),
        (container._npy_header("<c8", (2,)), "arrays of type '<c8' are not used"),
        (container._npy_header("<U4", (1,)), "does not begin as an array does"),
        (container._npy_header("<f8", (2,)).replace(b"False", b"True "), "does not begin as an array does"),
        (container._npy_header("<f8", (2,)).replace(b"(2,)", b"(2, "), "does not begin as an array does"),
        (
            container._npy_header("<f8", (2,)).replace(b"(2,)", b"( 2)"),
            "header is not one that this library writes",
        ),
        (container._npy_header("<f8", (2,)).replace(b"(2,)", b"()  "), "does not begin as an array does"),
        (container._npy_header("<f8", (1,) * 9), "its shape is not one"),
        (container._npy_header("<f8", (10**20,)), "its shape is not one"),
        (container._npy_header("<f8", (3,)), "does not make"),
        (container._npy_header("<f8", (2,))[:-1] + b" ", "does not begin as an array does"),
        (b"\x93NUMPY\x02" + container._npy_header("<f8", (2,))[7:], "does not begin as an array does"),
        (b"", "does not begin as an array does"),
    ],
)
def test_an_array_header_out_of_the_ordinary_is_refused(header: bytes, message: str) -> None:
    refused(with_npy(header + bytes(16)), message)


def test_truth_values_are_zero_or_one() -> None:
    raw = container._npy_header("|b1", (3,)) + b"\0\1\2"
    refused(with_npy(raw), "neither 0 nor 1")


# ---------------------------------------------------------------------- malice: JSON


def with_manifest(text: str | bytes) -> bytes:
    body = text.encode() if isinstance(text, str) else text
    body = body.rstrip()[:-1]
    sealed = body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()
    out = io.BytesIO()
    container.write_archive(out, sealed, members_of("boosted")[1])
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": NaN}', "NaN is not a number"),
        ('{"format": -Infinity}', "-Infinity is not a number"),
        ('{"format": 1e999}', "out of range"),
        ('{"format": 1.' + "0" * 100 + "}", "out of range or too long"),
        ('{"format": ' + "9" * 5000 + "}", "a whole number of 5000 characters"),
        ('{"format": 1, "format": 2}', "a key stands twice"),
        ('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"x":' + '{"x":' * 100_000 + "1" + "}" * 100_001, "nested too deeply"),
        ('{"format": "\\ud800"}', "not valid JSON"),
        (b'{"format": "\xff"}', "not valid JSON"),
        ('{"format": ', "not valid JSON"),
        ("[1, 2]", "not valid JSON"),  # with the checksum's brace at its end
        ("{}", "not valid JSON|is not that of an 'anytime model'"),
        ('{"format": "pickle"}', "is not that of an 'anytime model'"),
        ('{"format": "anytime model", "schema": true}', "expected a version, found True"),
        ('{"format": "anytime model", "schema": -1}', "expected a version, found -1"),
        ('{"format": "anytime model", "schema": 1}', "manifest.arrays: expected an object, found None"),
    ],
)
def test_json_out_of_the_ordinary_is_refused(text: str | bytes, message: str) -> None:
    refused(with_manifest(text), message)


def test_a_manifest_must_carry_its_own_checksum() -> None:
    out = io.BytesIO()
    container.write_archive(out, b'{"format":"anytime model","schema":1}', [])
    refused(out.getvalue(), "manifest: is damaged: its checksum is wrong")


def test_a_compressed_or_huge_manifest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = RAW["boosted"]
    monkeypatch.setattr(container, "MOST_MANIFEST", 100)
    refused(raw, "must not be compressed, nor have more than 100 bytes")
    with pytest.raises(ValueError, match="a file has room for 100"):
        cases.packed(MODELS["boosted"])


# ---------------------------------------------------------------------- malice: what a file says


def spoiled(name: str, change: Any) -> bytes:
    parts = cases.Parts(RAW[name])
    change(parts)
    return parts.assembled()


def put(path: str, value: Any) -> Any:
    """A change that sets one value of the manifest, found by keys and positions."""

    def change(parts: cases.Parts) -> None:
        at, *rest = [int(key) if key.isdigit() else key for key in path.split(".")][::-1]
        holder = parts.manifest
        for key in rest[::-1]:
            holder = holder[key]
        holder[at] = value

    return change


def fill(name: str, at: Any, value: Any) -> Any:
    """A change that sets entries of one array."""

    def change(parts: cases.Parts) -> None:
        array = parts.arrays[name].copy()
        array[at] = value
        parts.arrays[name] = array

    return change


def swap(name: str, array: Any) -> Any:
    """A change that replaces (or with None removes) one array."""

    def change(parts: cases.Parts) -> None:
        if array is None:
            del parts.arrays[name]
        else:
            parts.arrays[name] = array

    return change


TREES = "plan.blocks.0."


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        # the class
        ("boosted", put("estimator", "os:system"), "expected one of AnytimeClassifier"),
        ("boosted", put("estimator", "anytime.trees.models:AnytimeClassifier"), "expected one of"),
        ("boosted", put("estimator", ["AnytimeClassifier"]), "expected a string"),
        ("boosted", put("estimator", "AnytimeRegressor"), "'logistic' is not a link of AnytimeRegressor"),
        ("refitted", put("estimator", "AnytimeClassifier"), "'identity' is not a link of AnytimeClassifier"),
        # parameters
        ("boosted", put("parameters.evil", 1), "has no parameter 'evil'"),
        ("boosted", put("parameters.budget", -1), "expected a number that is not negative"),
        ("boosted", put("parameters.budget", {"is": "number", "of": "nan"}), "expected a number that is not negative"),
        ("boosted", put("parameters.budget", "3"), "expected a number that is not negative"),
        ("boosted", put("parameters.meter", "free"), "expected 'model' or 'realised'"),
        ("boosted", put("parameters.meter", ["model"]), "expected 'model' or 'realised'"),
        ("boosted", put("parameters.n_jobs", 10**9), "expected a number of threads"),
        ("boosted", put("parameters.n_jobs", 0), "expected a number of threads"),
        ("boosted", put("parameters.costs", "/etc/passwd"), "expected prices"),
        ("boosted", put("parameters.costs", {"is": "costs", "unit": None, "groups": 3}), "expected a list"),
        ("boosted", put("parameters.estimator", "x"), "never stored"),
        ("boosted", put("unsaved", {"estimator": 3}), "expected a string"),
        ("boosted", put("parameters.random_state", {"is": "pickle", "of": "gASV"}), "expected one of array, costs"),
        ("boosted", put("parameters.random_state", {"of": 3}), "'is' is missing"),
        ("boosted", put("parameters.random_state", {"is": "tuple", "of": [], "x": 1}), "unknown field 'x'"),
        ("boosted", put("parameters.random_state", {"is": "array", "of": "plan.base"}), "is missing"),
        ("boosted", put("parameters.random_state", {"is": "mapping", "of": [[[], 1]]}), "cannot be a key"),
        ("boosted", put("parameters.random_state", {"is": "mapping", "of": [[1, 1], [1, 2]]}), "stands twice"),
        ("boosted", put("parameters.random_state", {"is": "mapping", "of": [1]}), "expected a key and a value"),
        ("boosted", put("parameters.random_state", eval("[" * 20 + "]" * 20)), "nested deeper than 16 levels"),
        # labels and columns
        ("boosted", put("classes", None), "a classifier needs its classes"),
        ("boosted", put("classes", ["no", "yes"]), "expected a list of labels"),
        ("boosted", put("classes.of", ["no", "yes", "so"]), "3 classes do not go with 1 scores"),
        ("boosted", put("classes.of", ["no"]), "1 classes do not go with 1 scores"),
        ("boosted", put("classes.width", 2), "does not fit into 2 characters"),
        ("boosted", put("classes.width", 2**24), "take too much memory"),
        ("boosted", put("classes.width", 2**25), "expected a whole number in"),
        ("boosted", put("classes.of", ["a", 3]), "expected a string, found 3"),
        ("forest", put("classes.of", ["a", "b", []]), "neither a string nor a number"),
        ("refitted", put("classes", {"is": "labels", "width": 1, "of": ["a", "b"]}), "for a classifier only"),
        ("boosted", put("features.count", 2**31 - 2), "names for 2147483646 columns"),
        ("capped", put("features.count", 2**31 - 2), r"expected shape \(2147483646,\)"),
        ("capped", put("features.count", 2**31), "expected a whole number in"),
        ("capped", put("features.count", 4.0), "expected a whole number in"),
        ("boosted", put("features.names", ["a"]), "1 names for 4 columns"),
        ("boosted", put("features.names", "abcd"), "expected a list"),
        ("boosted", put("output", "html"), "expected one of default, pandas"),
        ("boosted", put("versions.numpy", 2), "expected a string"),
        ("boosted", put("state.categories", 3), "manifest.state"),
        ("boosted", put("state.categories", {"is": "mapping", "of": [["9", ["a"]]]}), "no list of categories"),
        ("boosted", put("state.categories", {"is": "mapping", "of": [["0", [["a"]]]]}), "no list of categories"),
        ("boosted", put("surprise", 1), "unknown field 'surprise'"),
        # costs
        ("boosted", put("plan.costs.groups.0.price", -1), "expected a number in"),
        ("boosted", put("plan.costs.groups.0.price", "free"), "expected a number in"),
        ("boosted", put("plan.costs.groups.1.requires", ["nothing"]), "which is no group"),
        ("boosted", put("plan.costs.groups.0.requires", ["c"]), "require each other in a circle"),
        ("boosted", put("plan.costs.groups.0.requires", ["draw"]), "require each other in a circle"),
        ("boosted", put("plan.costs.groups.1.name", "a"), "stands twice"),
        ("boosted", put("plan.costs.groups.1.columns", [1, 1]), "both name column 1|lists 2 columns"),
        ("boosted", put("plan.costs.groups.1.columns", [0]), "both name column 0"),
        ("boosted", put("plan.costs.groups.1.columns", [True]), "a name or a position"),
        ("boosted", put("plan.costs.groups.1.columns", [7]), "does not belong to it"),
        ("boosted", put("plan.costs.groups.1.columns", ["eins"]), "does not belong to it"),
        ("boosted", put("plan.costs.groups.1.columns", []), "lists 0 columns, but 1 belong to it"),
        ("boosted", put("plan.costs.groups.1.tail", None), "no tail price"),
        ("boosted", put("plan.costs.unit", 3), "expected a string"),
        ("boosted", fill("plan.column_group", 0, 9), "names a group that is not among the 4"),
        ("boosted", fill("plan.column_group", 0, -1), "names a group that is not among the 4"),
        ("boosted", swap("plan.column_group", np.zeros(4)), "expected type <i4, found <f8"),
        # the plan
        ("boosted", put("plan.link", "evil"), "expected one of exp"),
        ("boosted", put("plan.combine", "product"), "expected one of mean, sum"),
        ("boosted", put("plan.limit", -1), "expected a number in"),
        ("boosted", put("plan.limit", None), "expected a number in"),
        ("boosted", swap("plan.base", np.zeros(0)), "is empty"),
        ("boosted", swap("plan.base", np.array([np.nan])), "finite scores"),
        ("boosted", swap("plan.base", np.zeros(2)), "gives 1 numbers per row, but the plan has 2 outputs"),
        ("boosted", swap("plan.base", np.zeros((1, 1))), "expected 1 dimensions"),
        ("boosted", swap("plan.base", None), "array 'plan.base': is missing"),
        ("boosted", fill("plan.evaluation_costs", 0, 1e300), "costs more than can be counted"),
        ("boosted", fill("plan.evaluation_costs", 0, np.nan), "finite and not negative"),
        ("boosted", fill("plan.evaluation_costs", 0, -1), "finite and not negative"),
        ("boosted", swap("plan.evaluation_costs", np.zeros(4)), r"expected shape \(5,\)"),
        ("boosted", swap("plan.quality", np.zeros(5)), r"expected shape \(6,\)"),
        ("boosted", swap("plan.replaces", np.zeros(5, dtype=np.uint8)), r"expected type \|b1"),
        ("boosted", swap("plan.intercepts", np.zeros((5, 1))), "belongs to nothing"),
        ("boosted", put("plan.blocks", []), "belongs to nothing|expected shape"),
        ("boosted", put("plan.blocks.0.kind", "function"), "expected one of linear, trees"),
        # trees
        ("boosted", put("plan.blocks.0.n_outputs", 2**31 - 1), "expected a whole number in"),
        ("boosted", put("plan.blocks.0.n_features", 2**30), "expected a whole number in"),
        ("boosted", put("plan.blocks.0.shift", 900), "too large for these values"),
        ("boosted", put("plan.blocks.0.float32_input", 1), "expected true or false"),
        ("boosted", fill(TREES + "left", 0, 0), "has child 0"),
        ("boosted", fill(TREES + "left", 0, 10**6), "has child 1000000"),
        ("boosted", fill(TREES + "right", 0, 1), "does not have exactly one parent"),
        ("boosted", fill(TREES + "feature", 0, 4), "tests column 4"),
        ("boosted", fill(TREES + "feature", 0, -2), "tests column -2"),
        ("boosted", fill(TREES + "feature", 0, -1), "is a leaf but has children"),
        ("boosted", fill(TREES + "threshold", 0, np.nan), "a threshold that is NaN"),
        ("boosted", fill(TREES + "value", 0, np.inf), "not finite"),
        ("boosted", fill(TREES + "tree_start", 1, 10**9), "tree_start"),
        ("boosted", fill(TREES + "tree_start", 0, 1), r"tree_start\[0\] is 1"),
        ("boosted", fill(TREES + "stage_start", -1, 10**9), "stage_start ends at"),
        ("boosted", fill(TREES + "tree_output", 0, 1), "adds to output 1"),
        ("boosted", fill(TREES + "default_left", 0, 2), "default_left 2"),
        ("boosted", fill(TREES + "missing", 0, 3), "missing 3"),
        ("forest", fill(TREES + "category_set", 0, 9), "names category set 9"),
        ("forest", fill(TREES + "category_start", 1, 99), "category_start"),
        ("forest", fill(TREES + "categories", 0, -5), "category set 0"),
        ("forest", fill(TREES + "categories", 0, 2**24 + 1), "category set 0"),
        ("boosted", swap(TREES + "value", np.zeros((3, 1))), "value has 3 rows"),
        ("boosted", swap(TREES + "value", np.zeros(9)), "expected 2 dimensions"),
        ("boosted", swap(TREES + "left", np.zeros(9)), "expected type <i4"),
        ("boosted", swap(TREES + "left", None), "is missing"),
        # linear steps, tables and rules
        ("refitted", fill("plan.blocks.0.columns", 0, 4), "names a column that is not among the 4"),
        ("refitted", fill("plan.blocks.0.columns", 0, -1), "position is not negative"),
        ("refitted", fill("plan.blocks.0.coefficients", 0, np.nan), "coefficients must be finite"),
        ("refitted", swap("plan.blocks.0.coefficients", np.zeros((2, 2))), "1 columns but 2 rows"),
        ("refitted", put("plan.blocks.0.shift", 3), "unknown field 'shift'"),
        ("refitted", swap("plan.weights", np.zeros(23)), "do not make a table for 3 stages"),
        ("refitted", swap("plan.weights", np.zeros(25)), "do not make a table for 3 stages"),
        ("refitted", swap("plan.weights", np.full(24, np.nan)), "not finite"),
        ("refitted", swap("plan.weights_scaling", None), "is missing"),
        ("refitted", fill("plan.weights_scaling", 0, True), "do not make a table for 3 stages"),
        ("refitted", fill("plan.intercepts", 0, np.inf), "not finite"),
        ("refitted", swap("plan.replaces", np.ones(3, dtype=bool)), "a refitted table needs"),
        ("gated", put("plan.passes.0.stage", 4), "expected a whole number in"),
        ("gated", put("plan.passes.1.stage", 1), "has two rules|is missing"),
        ("gated", put("plan.passes.0.kind", "lambda"), "expected one of margin, score"),
        ("gated", put("plan.passes.0.threshold", "nan"), "expected a number in"),
        ("gated", put("plan.passes.0.below", 1), "expected true or false"),
        ("gated", put("plan.passes.1.block.kind", "score"), "expected one of linear, trees"),
        ("gated", swap("plan.passes.3.coefficients", np.ones((1, 2))), "a gate has one stage and one output"),
        ("gated", fill("plan.passes.3.columns", 0, 9), "not among the 4"),
    ],
)  # fmt: skip
def test_a_file_that_says_something_impossible_is_refused(name: str, change: Any, message: str) -> None:
    refused(spoiled(name, change), message)


# ---------------------------------------------------------------------- malice: small files that ask for much work


def quickly_refused_or_loaded(raw: bytes, message: str | None) -> None:
    began = time.perf_counter()
    if message is None:
        loaded(raw)
    else:
        refused(raw, message)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(("count", "message"), [(1000, None), (100_000, "are possible in this file")])
def test_stages_that_do_nothing_are_bounded(count: int, message: str | None) -> None:
    def change(parts: cases.Parts) -> None:
        start = parts.arrays[TREES + "stage_start"]
        parts.arrays[TREES + "stage_start"] = np.concatenate([start, np.full(count, start[-1])])
        del parts.arrays["plan.evaluation_costs"], parts.arrays["plan.quality"]

    quickly_refused_or_loaded(spoiled("boosted", change), message)


@pytest.mark.parametrize(
    ("count", "links", "message"),
    [
        (400, 1, None),
        (501, 1, "a chain of more than 500"),
        (30_000, 1, "a chain"),
        (400, 400, "require too much of each other"),
    ],
)
def test_requirements_that_explode_are_bounded(count: int, links: int, message: str | None) -> None:
    """A chain of 30,000 groups would close to 450 million entries."""

    def change(parts: cases.Parts) -> None:
        for i in range(count):
            needed = [f"n{j}" for j in range(max(0, i - links), i)]
            group = {"name": f"n{i}", "price": 1.0, "columns": [], "tail": 1.0, "requires": needed}
            parts.manifest["plan"]["costs"]["groups"].append(group)

    quickly_refused_or_loaded(spoiled("capped", change), message)


@pytest.mark.parametrize(("members", "message"), [(1000, None), (65_536, "used with too many columns")])
def test_a_set_of_categories_that_many_columns_use_is_bounded(members: int, message: str | None) -> None:
    """65,536 members in 1,000 columns would be ranked as 65 million."""
    raw = chain_of_columns(1000, 1, np.arange(members, dtype=np.int32))
    assert len(raw) < 150_000
    quickly_refused_or_loaded(raw, message)


@pytest.mark.parametrize(("stages", "message"), [(10, None), (100, "require too much of")])
def test_closing_the_groups_of_every_stage_is_bounded(stages: int, message: str | None) -> None:
    steps = [
        {"name": f"s{i}", "price": 1.0, "columns": [], "requires": [f"s{i - 1}"] if i else []}
        for i in range(200)
    ]
    groups = [{"name": f"g{i}", "price": 1.0, "columns": [i], "requires": ["s199"]} for i in range(1000)]
    raw = chain_of_columns(1000, stages, None, [*steps, *groups], 200 + np.arange(1000, dtype=np.int32))
    quickly_refused_or_loaded(raw, message)


def chain_of_columns(
    d: int, stages: int, members: Any, groups: Any = None, column_group: Any = None
) -> bytes:
    """One tree per stage, a chain of ``d`` nodes that test one column each, against a set of categories if given."""
    size = 2 * d + 1
    feature, left, right, sets = (np.full(size, -1, dtype=np.int32) for _ in range(4))
    feature[:-1:2], left[:-1:2], right[:-1:2] = np.arange(d), np.arange(1, size, 2), np.arange(2, size, 2)
    if members is not None:
        sets[:-1:2] = 0
    flags = np.zeros(size * stages, dtype=np.uint8)
    own = {
        "tree_start": np.arange(stages + 1) * size,
        "stage_start": np.arange(stages + 1),
        **{
            name: np.tile(a, stages)
            for name, a in (("feature", feature), ("left", left), ("right", right), ("category_set", sets))
        },
        **dict.fromkeys(["default_left", "missing", "members_left"], flags),
        "threshold": np.zeros(size * stages),
        "category_start": np.array([0] if members is None else [0, len(members)]),
        "categories": np.zeros(0, dtype=np.int32) if members is None else members,
        "value": np.zeros((size * stages, 1)),
        "tree_output": np.zeros(stages, dtype=np.int32),
    }

    def change(parts: cases.Parts) -> None:
        parts.arrays.update({TREES + name: array for name, array in own.items()})
        parts.arrays["plan.column_group"] = (
            np.zeros(d, dtype=np.int32) if column_group is None else column_group
        )
        parts.manifest["plan"]["blocks"][0]["n_features"] = parts.manifest["features"]["count"] = d
        listed = [{"name": "g", "price": 1.0, "columns": list(range(d))}] if groups is None else groups
        parts.manifest["plan"]["costs"] = {"unit": None, "groups": listed}
        parts.manifest["parameters"]["costs"] = None

    return spoiled("capped", change)


# ---------------------------------------------------------------------- versions


def test_a_newer_file_says_to_upgrade() -> None:
    refused(spoiled("boosted", put("schema", 2)), "2 is newer than 1; upgrade anytime to load this file")


def test_an_older_file_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema 0, made up for this test, said "model" for "estimator" and kept the base as a list."""

    def to_schema_0(parts: cases.Parts) -> None:
        parts.manifest["schema"] = 0
        parts.manifest["model"] = parts.manifest.pop("estimator")
        parts.manifest["plan"]["base"] = parts.arrays.pop("plan.base").tolist()

    def upgrade(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        manifest["estimator"] = manifest.pop("model")
        arrays["plan.base"] = np.array(manifest["plan"].pop("base"), dtype=np.float64)

    old = spoiled("boosted", to_schema_0)
    refused(old, "version 0 is older than any that this library can read")
    monkeypatch.setitem(files.UPGRADES, 0, upgrade)
    assert_same(loaded(old), MODELS["boosted"])
    assert describe(io.BytesIO(old))["schema"] == 0
    refused(spoiled("boosted", put("schema", 0)), "not a valid file of schema 0: KeyError")


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
    with pytest.raises(BadFileError, match="expected a number"):
        describe(io.BytesIO(spoiled("gated", put("plan.costs.groups.0.price", "x"))))
