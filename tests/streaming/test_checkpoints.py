"""Checkpoints: what was saved and loaded goes on as if it had never been away, and a stranger's file is refused."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.files import BadFileError, describe
from anytime.streaming import (
    Ball,
    Box,
    Drift,
    HoeffdingTree,
    SmallNet,
    StreamAlgorithm,
    StreamingBoostClassifier,
    StreamingBoostRegressor,
)
from tests.streaming.streams import LEARNERS, labels, numbers, table


def test_ten_thousand_rows_at_once_are_six_a_checkpoint_and_four(tmp_path):
    """Resume from a checkpoint gives bit-identical results."""
    X, y = numbers(10_000, d=8)
    X[::11, 2] = np.nan
    whole, parted = (StreamingBoostRegressor(n_estimators=20, random_state=0) for _ in range(2))
    said = whole.predict_then_fit(X, y)
    before = parted.predict_then_fit(X[:6000], y[:6000])
    parted.save(tmp_path / "checkpoint.anytime")
    resumed = at.load(tmp_path / "checkpoint.anytime")
    after = resumed.predict_then_fit(X[6000:], y[6000:])
    assert_array_equal(np.concatenate([before, after]), said)
    assert_array_equal(resumed.predict(X), whole.predict(X))
    for name in ("edges_", "prefix_losses_", "progressive_error_", "rows_seen_"):
        assert_array_equal(getattr(resumed, name), getattr(whole, name))
    for path, model in ((tmp_path / "a.anytime", whole), (tmp_path / "b.anytime", resumed)):
        model.save(path)
    assert (tmp_path / "a.anytime").read_bytes() == (tmp_path / "b.anytime").read_bytes()


SETTINGS = [
    {"loss": "hinge", "algorithm": StreamAlgorithm(projection=Ball(3.0))},
    {"algorithm": StreamAlgorithm(averaging="all", projection=Box(-2.0, 2.0)), "learning_rate": 0.2},
    {"drift": Drift("windows", size=50), "batch_size": 7, "class_weight": "balanced"},
    {
        "learner": HoeffdingTree(grace=20, max_features=2, memory=100),
        "algorithm": StreamAlgorithm(warm_up=3),
        "class_weight": {"low": 2.0},
    },
    {"learner": SmallNet(hidden=3, activation="leaky_relu")},
    {"learner": "ridge", "algorithm": StreamAlgorithm(hypotheses="params")},
    {"learner": "ridge", "drift": Drift("windows", action="restart", size=30, delta=0.5)},
]


@pytest.mark.parametrize("settings", SETTINGS + [{"learner": learner} for learner in LEARNERS])
def test_every_kind_of_model_goes_on_bit_for_bit(settings, tmp_path):
    X, y = labels(420)
    model = StreamingBoostClassifier(n_estimators=4, random_state=0, **settings)
    model.partial_fit(X[:210], y[:210], classes=["low", "middle"])
    model.append(2)
    model.partial_fit(X[210:280], y[210:280])
    model.save(tmp_path / "m.anytime")
    loaded = at.load(tmp_path / "m.anytime")
    assert loaded.get_params() == {**model.get_params(), "costs": loaded.costs}
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for each in (model, loaded):
        each.partial_fit(X[280:], y[280:])
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.edges_, model.edges_)


def test_words_dictionaries_and_open_labels_are_kept(tmp_path):
    X, y = table(120)
    model = StreamingBoostClassifier(n_estimators=4, random_state=0)
    rows = X.to_dict("records")
    for row, target in zip(rows[:80], y, strict=False):
        model.learn_one({**row, "b": None if np.isnan(row["b"]) else row["b"]}, bool(target > 1))
    model.save(tmp_path / "m.anytime")
    loaded = at.load(tmp_path / "m.anytime")
    for each in (model, loaded):
        for row, target in zip(rows[80:], y[80:], strict=True):
            each.learn_one(row, bool(target > 1))
        each.learn_one({**rows[0], "new": 2.0}, "third")  # begins anew, from the rows that were kept
    assert [loaded.predict_proba_one(row) for row in rows] == [model.predict_proba_one(row) for row in rows]
    assert loaded.n_features_in_ == 4


def test_a_plan_alone_answers_and_does_not_learn(tmp_path):
    X, y = table(600)
    model = StreamingBoostRegressor(random_state=0, n_estimators=30).fit(X, y)
    model.save(tmp_path / "all.anytime")
    model.save(tmp_path / "plan.anytime", learning=False)
    assert (tmp_path / "plan.anytime").stat().st_size < 0.5 * (tmp_path / "all.anytime").stat().st_size
    loaded = at.load(tmp_path / "plan.anytime")
    assert_array_equal(loaded.predict(X, budget=2.0), model.predict(X, budget=2.0))
    assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="learning=False"):
        loaded.partial_fit(X, y)
    loaded.fit(X, y)  # from the beginning, it may
    assert_array_equal(loaded.predict(X), model.predict(X))
    small = model.truncate(budget=1.0)
    small.save(tmp_path / "small.anytime")
    assert_array_equal(at.load(tmp_path / "small.anytime").predict(X), small.predict(X))


def test_a_file_says_what_it_holds(tmp_path):
    X, y = numbers(60)
    for learner, kind in (("ridge", "stream"), ("hoeffding_tree", "trees")):
        StreamingBoostRegressor(n_estimators=4, learner=learner).fit(X, y).save(tmp_path / "m.anytime")
        described = describe(tmp_path / "m.anytime")
        assert described["n_stages"] == 4
        assert described["blocks"] == [{"kind": kind, "n_stages": 4}]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["plan"]["blocks"][0].update(averaging="none"),
        lambda m: m["plan"]["blocks"][0].update(factor="inf"),
        lambda m: m["plan"]["blocks"][0].update(radius=-1.0),
        lambda m: m["plan"]["blocks"][0]["learners"].update(kind="stream"),
        lambda m: m["state"].update(learning=None),
        lambda m: m["state"].update(places=None),
        lambda m: m["state"].pop("position"),
    ],
)
def test_a_changed_manifest_is_refused(change, tmp_path):
    X, y = numbers(60)
    StreamingBoostRegressor(n_estimators=3, learner="ridge", random_state=0).fit(X, y).save(
        tmp_path / "m.anytime"
    )
    from anytime.files import _sealed, pack_arrays, write_archive

    with zipfile.ZipFile(tmp_path / "m.anytime") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        arrays = {
            name.removeprefix("arrays/").removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)))
            for name in archive.namelist()
            if name.startswith("arrays/")
        }
    manifest.pop("sha256")
    packed = pack_arrays(arrays)

    def written():
        out = io.BytesIO()
        write_archive(out, _sealed(manifest), packed)
        out.seek(0)
        return out

    at.load(written())  # unchanged
    change(manifest)
    with pytest.raises(BadFileError):
        at.load(written())
