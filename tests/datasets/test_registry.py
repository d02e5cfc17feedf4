from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from anytime.costs import FeatureCosts
from anytime.datasets import Dataset, describe, load, names
from anytime.datasets.bundled import BUNDLED

SMALL = [entry.about.name for entry in BUNDLED if entry.about.name != "digit_images"]


@pytest.mark.parametrize("name", SMALL)
def test_bundled_set_is_what_describe_says(name):
    about, data = describe(name), load(name)
    X, y, costs = data
    assert X.shape == (about.rows, about.columns) == (len(y), len(data.feature_names))
    assert len(costs.names) == about.groups
    assert costs.unit == about.unit
    assert data.name == name
    assert about.prices == "made up"
    assert data.target_names is None or set(np.unique(y)) == set(range(len(data.target_names)))


@pytest.mark.parametrize("name", SMALL)
def test_costs_bind_to_the_matrix_and_to_the_frame(name):
    data, frame = load(name), load(name, as_frame=True)
    by_position = data.costs.bind(data.X.shape[1])
    by_name = frame.costs.bind(frame.X.shape[1], list(frame.X.columns))
    assert (by_position.column_group == by_name.column_group).all()
    assert isinstance(frame.X, pd.DataFrame)
    assert (frame.X.to_numpy() == data.X).all()


def test_loading_twice_gives_equal_and_separate_data():
    first, second = load("wine"), load("wine")
    first.X[:] = 0
    assert (second.X == load("wine").X).all()


def test_breast_cancer_groups_are_the_ten_measurements_with_their_three_statistics():
    data = load("breast_cancer")
    for group, columns in data.costs.groups.items():
        measured = {data.feature_names[j] for j in columns}
        assert group == "outline" or measured == {f"mean {group}", f"{group} error", f"worst {group}"}
    assert data.costs.total == 100
    assert data.costs.price(["compactness"]) == 20 + 3 + 3 + 1  # outline, perimeter, area, and its own


def test_digit_zones_are_squares_of_the_image():
    data = load("digits")
    rows, columns = np.divmod(np.array(data.costs.groups["patch 1,2"]), 8)
    assert sorted(set(rows)) == [2, 3]
    assert sorted(set(columns)) == [4, 5]


@pytest.mark.parametrize("name", ["BREAST-CANCER", "Breast_Cancer", "breast_cancer"])
def test_case_and_dashes_do_not_matter(name):
    assert load(name).name == "breast_cancer"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brest_cancer", "did you mean 'breast_cancer'"),
        ("zzz", r"names\(\) lists them all"),
    ],
)
def test_unknown_name_says_what_to_do(name, message):
    with pytest.raises(ValueError, match=message):
        load(name)


def test_unknown_option_is_refused():
    with pytest.raises(TypeError, match="'wine' has no option 'fold'; it has no options"):
        load("wine", fold=1)
    with pytest.raises(TypeError, match="'heart' has no option 'fold'; its options are grades"):
        load("heart", fold=1)


def test_describe_lists_everything_once():
    table = describe()
    assert table.index.is_unique
    assert table.index.tolist() == names()
    assert (table[["summary", "task", "licence", "source", "prices"]] != "").all().all()
    assert table.loc["heart", "prices"].startswith("real")


def test_description_names_options():
    assert "grades=False" in str(describe("heart"))


class TestDataset:
    data = Dataset(np.eye(2), np.array([0, 1]), FeatureCosts([1.0, 2.0]), name="tiny", train=np.array([1, 2]))

    def test_unpacks_to_exactly_three(self):
        X, y, costs = self.data
        assert len(self.data) == 3
        assert X is self.data.X
        assert y is self.data.y
        assert costs is self.data.costs

    @pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
    def test_copies_keep_the_attributes(self, again):
        other = again(self.data)
        assert other.name == "tiny"
        assert (other.train == [1, 2]).all()
        assert other.costs == self.data.costs

    def test_attributes_that_do_not_exist_are_refused(self):
        with pytest.raises(TypeError, match="no attribute 'weights'"):
            Dataset(np.eye(2), np.zeros(2), FeatureCosts([1.0, 2.0]), weights=1)
        with pytest.raises(TypeError, match="no attribute 'with_attributes'"):
            Dataset(np.eye(2), np.zeros(2), FeatureCosts([1.0, 2.0]), with_attributes=1)

    def test_comparison_does_not_compare_arrays(self):
        assert self.data == self.data
        assert self.data != copy.copy(self.data)


def test_importing_loads_no_pandas_and_no_scipy():
    code = "import sys, anytime.datasets; print(*{'pandas', 'scipy', 'sklearn', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
