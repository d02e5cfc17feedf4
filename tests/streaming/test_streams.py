"""Rows from files and pipes: a chunk at a time, whatever the format, and what was learned is never lost."""

from __future__ import annotations

import io
import os
import signal
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.streaming import StreamingBoostClassifier, StreamingBoostRegressor, learn_stream, read_stream
from anytime.streaming.interrupts import unbroken
from tests.streaming.streams import table

RIDGE = {"learner": "ridge", "n_estimators": 3, "random_state": 0}


@pytest.fixture
def rows() -> pd.DataFrame:
    X, y = table(500)
    return X.assign(y=y.round(6))


@pytest.fixture
def files(rows, tmp_path):
    """The same rows in every format."""
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_csv(tmp_path / "rows.csv.gz", index=False)
    rows.to_csv(tmp_path / "semicolons.csv", index=False, sep=";")
    rows.to_csv(tmp_path / "numbered.csv")
    rows.to_parquet(tmp_path / "rows.parquet")
    arrow = pa.Table.from_pandas(rows)
    with ipc.new_stream(tmp_path / "rows.arrows", arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=170)
    with ipc.new_file(tmp_path / "rows.arrow", arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=170)
    return tmp_path


@pytest.mark.parametrize("chunk_rows", [1000, 64])
def test_every_format_gives_the_same_rows(files, rows, chunk_rows):
    batches = pa.Table.from_pandas(rows).to_batches(max_chunksize=99)
    sources = [*files.iterdir(), batches, (files / "rows.csv").open(), [rows[:30], rows[30:]]]
    assert len(sources) == 10
    for source in sources:
        tables = list(read_stream(source, chunk_rows=chunk_rows))
        assert max(map(len, tables)) <= chunk_rows
        whole = pd.concat(tables, ignore_index=True)
        assert list(whole) == ["a", "b", "colour", "y"]
        assert_array_equal(whole["colour"], rows["colour"])
        np.testing.assert_allclose(whole[["a", "b", "y"]], rows[["a", "b", "y"]], rtol=1e-15)
        assert (whole.dtypes[["a", "b", "y"]] == np.float64).all()


def test_a_pipe_gives_rows_as_soon_as_they_are_there():
    read, write = os.pipe()
    with os.fdopen(read) as pipe, os.fdopen(write, "w") as out:
        out.write('a,b\n1,"two\nlines"\n2,x\n3,y\n')
        out.flush()
        tables = read_stream(pipe, chunk_rows=2)
        assert next(tables)["b"].tolist() == ["two\nlines", "x"]
        out.close()
        assert next(tables)["a"].tolist() == [3.0]
        assert next(tables, None) is None


def test_rows_can_be_skipped(files, rows):
    for name in ("rows.csv", "rows.parquet", "rows.arrows"):
        whole = pd.concat(read_stream(files / name, chunk_rows=64, skip=130), ignore_index=True)
        assert_array_equal(whole["y"], rows["y"][130:])
        assert not list(read_stream(files / name, skip=500))


def test_what_a_column_holds_does_not_depend_on_where_chunks_end():
    text = "code,x,y\n07,1,1\nA1,2,0\n" + "08,3,1\n" * 20
    tables = list(read_stream(io.StringIO(text), chunk_rows=2))
    assert tables[0]["code"].tolist() == ["07", "A1"]
    assert tables[5]["code"].tolist() == ["08", "08"]
    with pytest.raises(ValueError, match=r"row 3: column 'code' held numbers so far, but here holds 'A1'"):
        list(read_stream(io.StringIO("code,y\n7,1\n8,0\nA1,1\n"), chunk_rows=2))


def test_what_cannot_be_read_is_told(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "binary.csv").write_bytes(b"PK\0\0")
    (tmp_path / "torn.csv").write_text("a,b\n1,2\n1,2,3\n")
    (tmp_path / "no.parquet").write_bytes(b"nothing")
    (tmp_path / "no.arrow").write_bytes(b"nothing at all")
    for name, complaint in [
        ("empty.csv", "is empty"),
        ("binary.csv", "binary data"),
        ("torn.csv", "is not a table"),
        ("no.parquet", "not a Parquet file"),
        ("no.arrow", "not an Arrow file"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            list(read_stream(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        list(read_stream(tmp_path / "absent.csv"))
    with pytest.raises(TypeError, match="is not a stream of rows"):
        list(read_stream(7))
    with pytest.raises(ValueError, match="columns are no longer"):
        list(read_stream([pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})]))


SPOILED = "a,b,y\n1,red,2\n2,blue,3\nten,red,4\n4,blue\n5,red,6,7\n-inf,blue,8\n7,red,inf\n,blue,10\n"


@pytest.mark.parametrize(
    ("line", "chunk_rows", "complaint"),
    [
        ("ten,red,4", 2, r"row 3: column 'a' held numbers so far, but here holds 'ten'"),
        ("-inf,blue,8", 9, r"row 3: column 'a' is infinite"),
        ("5,red,6,7", 9, "expected 3 fields in line 4, saw 4"),
        ("5,red,6,7", 2, "a line has more cells than the header"),
    ],
)
def test_a_cell_that_cannot_be_read_is_told_with_its_row(line, chunk_rows, complaint):
    with pytest.raises(ValueError, match=complaint):
        list(read_stream(io.StringIO(f"a,b,y\n1,red,2\n2,blue,3\n{line}\n"), chunk_rows=chunk_rows))


@pytest.mark.parametrize("chunk_rows", [3, 100])
def test_a_lenient_stream_goes_on(chunk_rows, tmp_path):
    """Cells are missing, lines that are too long and rows without a target are left out, and places in the stream stay."""
    with pytest.warns(Warning, match="expected 3 fields"):
        tables = list(read_stream(io.StringIO(SPOILED), chunk_rows=chunk_rows, strict=False))
    table = pd.concat(tables, ignore_index=True)
    nan = np.nan
    np.testing.assert_array_equal(table["a"], [1, 2, nan, 4, nan, 7, nan])
    np.testing.assert_array_equal(table["y"], [2, 3, 4, nan, 8, nan, 10])
    model = StreamingBoostRegressor(n_estimators=2)
    *_, last = learn_stream(model, tables, "y", strict=False, save=tmp_path / "m.anytime")
    assert (last.rows, last.left_out, model.rows_seen_) == (7, 2, 5)
    assert at.load(tmp_path / "m.anytime").position_ == 7


def test_a_stream_without_any_target_has_nothing_to_save(tmp_path):
    tables = [pd.DataFrame({"a": [1.0, 2.0], "y": [np.nan, np.nan]})]
    model = StreamingBoostRegressor(n_estimators=2)
    *_, last = learn_stream(model, tables, "y", strict=False, save=tmp_path / "m.anytime")
    assert (last.rows, last.left_out, last.saved) == (2, 2, False)
    assert not (tmp_path / "m.anytime").exists()


def test_memory_does_not_grow_with_the_stream():
    def tables(n):
        rng = np.random.default_rng(0)
        for _ in range(n):
            yield pd.DataFrame(rng.normal(size=(500, 20)), columns=[*map(str, range(19)), "y"])

    def peak(n):
        model = StreamingBoostRegressor(**RIDGE)
        list(learn_stream(model, tables(1), "y"))
        tracemalloc.start()
        list(learn_stream(model, tables(n), "y"))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(12) < 1.2 * peak(3)


# ---------------------------------------------------------------------- learning


def test_a_stream_is_learned_as_its_rows_are(files, rows):
    model = StreamingBoostRegressor(**RIDGE)
    *_, last = learn_stream(model, read_stream(files / "rows.csv", chunk_rows=70), "y")
    expected = StreamingBoostRegressor(**RIDGE).fit(rows.drop(columns="y"), rows["y"])
    assert_array_equal(model.predict(rows.drop(columns="y")), expected.predict(rows.drop(columns="y")))
    assert last.rows == 500
    assert last.error == expected.progressive_error_
    assert last.rows_per_second > 0


def test_labels_are_words_whole_numbers_or_as_told():
    words = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": ["no", "yes", "no"]})
    for y, classes, expected in [
        (words["y"], None, ["no", "yes"]),
        (pd.Series([1.0, 2.0, 1.0]), None, [1, 2]),
        (words["y"], ["no", "yes", "maybe"], ["maybe", "no", "yes"]),
    ]:
        model = StreamingBoostClassifier(**RIDGE)
        list(learn_stream(model, [words.assign(y=y)], "y", classes=classes))
        assert model.classes_.tolist() == expected


def test_checkpoints_are_written_on_the_way_and_a_stream_goes_on(files, rows, tmp_path):
    path = tmp_path / "m.anytime"
    whole = StreamingBoostRegressor(**RIDGE)
    list(learn_stream(whole, read_stream(files / "rows.csv"), "y"))
    model = StreamingBoostRegressor(**RIDGE)
    tables = read_stream(files / "rows.csv", chunk_rows=50)
    progress = next(p for p in learn_stream(model, tables, "y", save=path, every=150) if p.saved)
    assert progress.rows == 150
    resumed = at.load(path)
    assert resumed.position_ == 150
    rest = read_stream(files / "rows.csv", chunk_rows=50, skip=resumed.position_)
    *_, last = learn_stream(resumed, rest, "y", save=path)
    assert last.rows == 500
    X = rows.drop(columns="y")
    assert_array_equal(at.load(path).predict(X), whole.predict(X))


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError])
def test_whatever_ends_a_stream_what_was_learned_is_saved(rows, tmp_path, end):
    def tables():
        yield rows[:100]
        yield rows[100:150]
        raise end("over")

    with pytest.raises(end, match="over"):
        list(learn_stream(StreamingBoostRegressor(**RIDGE), tables(), "y", save=tmp_path / "m.anytime"))
    assert at.load(tmp_path / "m.anytime").rows_seen_ == 150


def test_ctrl_c_waits_for_the_end_of_a_chunk():
    steps = []

    def work():
        with unbroken():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("the rest of it")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert steps == ["the rest of it"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_missing_target_is_told_with_its_row(rows):
    broken = rows.copy()
    broken.loc[120, "y"] = np.nan
    model = StreamingBoostRegressor(**RIDGE)
    with pytest.raises(ValueError, match="row 121: the target 'y' is missing"):
        list(learn_stream(model, read_stream([broken], chunk_rows=100), "y"))
    assert model.rows_seen_ == 100
    with pytest.raises(ValueError, match="no column 'z'"):
        list(learn_stream(model, [rows], "z"))
    with pytest.raises(ValueError, match="no rows"):
        list(learn_stream(StreamingBoostRegressor(**RIDGE), [], "y"))
