from __future__ import annotations

import gzip

import pytest

from anytime_research.datasets import DataFormatError, DataNotFoundError, load
from anytime_research.datasets.sources import Source

PIMA = "6,148,72,35,0,33.6,0.627,50,1\n"
PRICES = """feature,group,cost_full,cost_discount,delay
times_pregnant,,1.00,1.00,immediate
glucose_tol,A,17.61,15.51,delayed
diastolic_bp,,1.00,1.00,immediate
triceps,,1.00,1.00,immediate
insulin,A,22.78,20.68,delayed
mass_index,,1.00,1.00,immediate
pedigree,,1.00,1.00,immediate
age,,1.00,1.00,immediate
"""


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

    def test_a_folder_that_is_not_there(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ANYTIME_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(DataNotFoundError, match=r"ANYTIME_DATA names '.*nowhere', which is not a folder"):
            load("pima")

    def test_a_folder_argument_that_is_not_there(self, tmp_path):
        with pytest.raises(DataNotFoundError, match=r"folder= names '.*nowhere', which is not a folder"):
            load("pima", folder=tmp_path / "nowhere")

    @pytest.mark.usefixtures("prices")
    def test_a_file_that_is_not_there(self):
        with pytest.raises(
            DataNotFoundError,
            match=r"'pima' needs pima/pima-indians-diabetes.data.gz or pima/pima-indians-diabetes.data in",
        ):
            load("pima")

    def test_bundled_sets_need_no_folder(self, monkeypatch):
        monkeypatch.setenv("ANYTIME_DATA", "/nowhere")
        assert load("iris").X.shape == (150, 4)


@pytest.fixture
def prices(put):
    put("pima/costs.csv", PRICES, plain=True)


@pytest.mark.usefixtures("prices")
class TestDamaged:
    def test_compressed_data_that_ends_early(self, put):
        path = put("pima/pima-indians-diabetes.data", PIMA * 768)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(
            DataFormatError,
            match=r"pima-indians-diabetes.data.gz is damaged: it cannot be decompressed .* fetch it again",
        ):
            load("pima")

    def test_data_that_is_not_compressed_at_all(self, put):
        put("pima/pima-indians-diabetes.data", PIMA).write_text(PIMA * 768)
        with pytest.raises(DataFormatError, match="is damaged"):
            load("pima")

    def test_a_changed_byte(self, put):
        path = put("pima/pima-indians-diabetes.data", PIMA * 768)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data))
        with pytest.raises(DataFormatError, match=r"pima-indians-diabetes.data.gz"):
            load("pima")

    def test_rows_that_are_missing(self, put):
        put("pima/pima-indians-diabetes.data", PIMA * 767)
        with pytest.raises(DataFormatError, match="'pima' give 767 rows and 8 columns instead of 768 and 8"):
            load("pima")

    def test_columns_that_are_missing(self, put):
        put("pima/pima-indians-diabetes.data", "1,2,3\n" * 768)
        with pytest.raises(
            DataFormatError,
            match=r"pima-indians-diabetes.data.gz does not have the expected contents: it has 2 feature columns",
        ):
            load("pima")

    def test_a_word_among_numbers(self, put):
        put("pima/pima-indians-diabetes.data", PIMA * 767 + PIMA.replace("0.627", "abc"))
        with pytest.raises(
            DataFormatError, match=r"pima-indians-diabetes.data.gz does not have the expected contents: .*abc"
        ):
            load("pima")

    def test_an_empty_file(self, put):
        put("pima/pima-indians-diabetes.data", "")
        with pytest.raises(
            DataFormatError, match=r"pima-indians-diabetes.data.gz does not have the expected contents"
        ):
            load("pima")

    def test_an_unknown_class(self, put):
        put("pima/pima-indians-diabetes.data", PIMA * 767 + PIMA.replace(",1\n", ",2\n"))
        with pytest.raises(DataFormatError, match="'2' is not one of its class labels 0, 1"):
            load("pima")


@pytest.mark.usefixtures("prices")
def test_a_plain_file_serves_as_well(put):
    put("pima/pima-indians-diabetes.data", PIMA * 768, plain=True)
    data = load("pima")
    assert data.X.shape == (768, 8)
    assert data.feature_names[5] == "mass_index"
    assert data.X[0, 5] == 33.6
    assert (data.y == 1).all()


@pytest.mark.usefixtures("prices")
def test_folder_argument_comes_before_the_variable(put, folder, tmp_path_factory, monkeypatch):
    put("pima/pima-indians-diabetes.data", PIMA * 768)
    monkeypatch.setenv("ANYTIME_DATA", str(tmp_path_factory.mktemp("empty")))
    assert load("pima", folder=str(folder)).X.shape == (768, 8)


def test_gzip_in_several_members_is_read_whole(put):
    path = put("a/b", "")
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert Source("a", "somewhere", path.parent.parent).read("a/b") == b"one two"
