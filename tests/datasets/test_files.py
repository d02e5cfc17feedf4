from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

from anytime.datasets import DataFormatError, DataNotFoundError, load
from anytime.datasets.files import Source

HOUSING = " 0.00632  18.00   2.310  0  0.5380  6.5750  65.20  4.0900   1  296.0  15.30 396.90   4.98  24.00\n"


class TestAbsent:
    def test_without_the_variable_the_error_names_it(self, monkeypatch):
        monkeypatch.delenv("ANYTIME_DATA", raising=False)
        with pytest.raises(
            DataNotFoundError,
            match=r"'pima' .* set the environment variable ANYTIME_DATA .* or pass folder=",
        ):
            load("pima")

    def test_an_empty_variable_counts_as_unset(self, monkeypatch):
        monkeypatch.setenv("ANYTIME_DATA", "")
        with pytest.raises(DataNotFoundError, match="set the environment variable"):
            load("pima")

    def test_heart_comes_with_the_package(self, monkeypatch):
        monkeypatch.delenv("ANYTIME_DATA", raising=False)
        data = load("heart")
        assert data.X.shape == (303, 13)
        assert data.costs.total == 323.97

    def test_a_folder_that_is_not_there(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ANYTIME_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(DataNotFoundError, match=r"ANYTIME_DATA names '.*nowhere', which is not a folder"):
            load("heart")

    def test_a_folder_argument_that_is_not_there(self, tmp_path):
        with pytest.raises(DataNotFoundError, match=r"folder= names '.*nowhere', which is not a folder"):
            load("heart", folder=tmp_path / "nowhere")

    def test_a_file_that_is_not_there(self, folder):
        with pytest.raises(
            DataNotFoundError, match=r"'housing' needs housing/housing.data.gz or housing/housing.data in"
        ):
            load("housing")

    def test_bundled_sets_need_no_folder(self, monkeypatch):
        monkeypatch.setenv("ANYTIME_DATA", "/nowhere")
        assert load("iris").X.shape == (150, 4)


class TestDamaged:
    def test_compressed_data_that_ends_early(self, put):
        path = put("housing/housing.data", HOUSING * 506)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(
            DataFormatError, match=r"housing.data.gz is damaged: it cannot be decompressed .* fetch it again"
        ):
            load("housing")

    def test_data_that_is_not_compressed_at_all(self, put):
        put("housing/housing.data", HOUSING).write_text(HOUSING * 506)
        with pytest.raises(DataFormatError, match="is damaged"):
            load("housing")

    def test_a_changed_byte(self, put):
        path = put("housing/housing.data", HOUSING * 506)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data))
        with pytest.raises(DataFormatError, match=r"housing.data.gz"):
            load("housing")

    def test_rows_that_are_missing(self, put):
        put("housing/housing.data", HOUSING * 505)
        with pytest.raises(
            DataFormatError, match="'housing' give 505 rows and 13 columns instead of 506 and 13"
        ):
            load("housing")

    def test_columns_that_are_missing(self, put):
        put("housing/housing.data", "1 2 3\n" * 506)
        with pytest.raises(
            DataFormatError, match=r"housing.data.gz is not what it should be: it has 2 feature columns"
        ):
            load("housing")

    def test_a_word_among_numbers(self, put):
        put("housing/housing.data", HOUSING * 505 + HOUSING.replace("0.5380", "abc"))
        with pytest.raises(DataFormatError, match=r"housing.data.gz is not what it should be: .*abc"):
            load("housing")

    def test_an_empty_file(self, put):
        put("housing/housing.data", "")
        with pytest.raises(DataFormatError, match=r"housing.data.gz is not what it should be"):
            load("housing")

    def test_an_unknown_class(self, put):
        put("magic/magic04.data", "1,2,3,4,5,6,7,8,9,10,q\n")
        with pytest.raises(DataFormatError, match="'q' is not one of its class labels h, g"):
            load("magic")


def test_a_plain_file_serves_as_well(put):
    put("housing/housing.data", HOUSING * 506, plain=True)
    data = load("housing")
    assert data.X.shape == (506, 13)
    assert data.feature_names[5] == "RM"
    assert data.X[0, 5] == 6.575
    assert (data.y == 24).all()


def test_folder_argument_comes_before_the_variable(put, folder, tmp_path_factory, monkeypatch):
    put("housing/housing.data", HOUSING * 506)
    monkeypatch.setenv("ANYTIME_DATA", str(tmp_path_factory.mktemp("empty")))
    assert load("housing", folder=str(folder)).X.shape == (506, 13)


class TestArff:
    def read(self, put, text):
        path = put("a/b.arff", text)
        return Source("a", "somewhere", path.parent.parent).arff("a/b.arff")

    def test_quotes_spaces_comments_and_missing_values(self, put):
        table, values = self.read(
            put,
            "% a comment with a stray byte \n@RELATION x\n\n@Attribute 'first one' {'n', 'y'}\n@attribute two NUMERIC\n"
            "@attribute class {a b,c}\n@DATA\n'n', 1.5, c\n% another\n?,?,a b\n",
        )
        assert list(table.columns) == ["first one", "two", "class"]
        assert values == {"first one": ("n", "y"), "class": ("a b", "c")}
        assert table["class"].tolist() == ["c", "a b"]
        assert table.isna().to_numpy().tolist() == [[False] * 3, [True, True, False]]

    def test_words_that_pandas_takes_for_missing_stay_words(self, put):
        table, _ = self.read(put, "@attribute a {none,NA}\n@attribute b {null}\n@data\nNA,null\nnone,null\n")
        assert table.to_numpy().tolist() == [["NA", "null"], ["none", "null"]]

    def test_no_attributes(self, put):
        with pytest.raises(DataFormatError, match="@attribute lines"):
            self.read(put, "1,2,3\n")


class TestIdx:
    def read(self, put, data):
        path = put("a/b", data)
        return Source("a", "somewhere", path.parent.parent).idx("a/b")

    def test_shape_and_bytes(self, put):
        head = b"\0\0\x08\x02" + np.array([2, 3], dtype=">i4").tobytes()
        assert self.read(put, head + bytes(range(6))).tolist() == [[0, 1, 2], [3, 4, 5]]

    @pytest.mark.parametrize("data", [b"", b"\0\0", b"P5 28 28", b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01"])
    def test_other_contents(self, put, data):
        with pytest.raises(DataFormatError, match=re.escape("a/b.gz")):
            self.read(put, data)


def test_sparse_lines_with_queries_and_comments(put):
    path = put("a/b", "2 qid:7 1:0.5 3:1 # docid\n0 qid:8 2:4\n")
    X, y, qid = Source("a", "somewhere", path.parent.parent).sparse("a/b", 3)
    assert X.tolist() == [[0.5, 0, 1], [0, 4, 0]]
    assert y.tolist() == [2, 0]
    assert qid.tolist() == [7, 8]


def test_sparse_lines_with_an_index_too_high(put):
    path = put("a/b", "1 4:1\n")
    with pytest.raises(DataFormatError, match=r"b.gz is not what it should be"):
        Source("a", "somewhere", path.parent.parent).sparse("a/b", 3)


def test_gzip_in_several_members_is_read_whole(put):
    path = put("a/b", "")
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert Source("a", "somewhere", path.parent.parent).text("a/b") == "one two"
