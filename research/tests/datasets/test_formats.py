"""Weka's files, sparse lines and MNIST's bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from anytime.datasets.image_files import idx
from anytime_research.datasets import DataFormatError
from anytime_research.datasets.formats import arff, sparse
from anytime_research.datasets.sources import Source


class TestArff:
    def read(self, put, text):
        path = put("a/b.arff", text)
        return arff(Source("a", "somewhere", path.parent.parent), "a/b.arff")

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
        return idx(Source("a", "somewhere", path.parent.parent), "a/b")

    def test_shape_and_bytes(self, put):
        head = b"\0\0\x08\x02" + np.array([2, 3], dtype=">i4").tobytes()
        assert self.read(put, head + bytes(range(6))).tolist() == [[0, 1, 2], [3, 4, 5]]

    @pytest.mark.parametrize("data", [b"", b"\0\0", b"P5 28 28", b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01"])
    def test_other_contents(self, put, data):
        with pytest.raises(DataFormatError, match=re.escape("a/b.gz")):
            self.read(put, data)


def test_sparse_lines_with_queries_and_comments(put):
    path = put("a/b", "2 qid:7 1:0.5 3:1 # docid\n0 qid:8 2:4\n")
    X, y, qid = sparse(Source("a", "somewhere", path.parent.parent), "a/b", 3)
    assert X.tolist() == [[0.5, 0, 1], [0, 4, 0]]
    assert y.tolist() == [2, 0]
    assert qid.tolist() == [7, 8]


def test_sparse_lines_with_an_index_too_high(put):
    path = put("a/b", "1 4:1\n")
    with pytest.raises(DataFormatError, match=r"b.gz does not have the expected contents"):
        sparse(Source("a", "somewhere", path.parent.parent), "a/b", 3)
