"""Everything that can go wrong is one line that says what, where, and what to do; and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.cli.app import app
from tests.cli.running import fails, run


def write(path: Path, contents: str | bytes) -> Path:
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("", "is empty"),
        ("a,y\n", "has no rows"),
        ("a,y\n1,2\n1,2,3,4\n", "is not a table: expected 2 fields in line 3, saw 4"),
        (b"a,y\n\xff\xfe,3\n", "is not a CSV file in UTF-8"),
        (b"PK\x00\x01\x02,\x00", "is not a CSV file: it holds binary data"),
        ("y\n1\n2\n", "has no column besides the target"),
        ("a,y\n1,\n2,1\n,\n", "the target 'y' is missing in 2 of 3 rows, first in row 1"),
        ("a,y\n1,5\n2,5\n", "the target 'y' has only one value, 5; there is nothing to learn"),
        ("a,y\n1,p\n2,q\n3,r\n", "the target 'y' has 3 classes in 3 rows; is it the right column?"),
        ("a,b,y\n1,,5\n", "the target 'y' has only one value, 5"),
        ("a,y\n1,1\ninf,0\n3,0\n", "column 'a' is infinite in row 2; leave the cell empty"),
        ("a,y\n1,1.5\n2,inf\n3,0.5\n", "column 'y' is infinite in row 2"),
    ],
)
def test_table_that_cannot_be_trained_on(tmp_path: Path, contents: str | bytes, said: str) -> None:
    data = write(tmp_path / "d.csv", contents)
    message = fails("fit", data, "-t", "y", "-o", tmp_path / "m.anytime")
    assert message.startswith(str(data))
    assert said in message
    assert not (tmp_path / "m.anytime").exists()


def test_dates_are_neither_numbers_nor_words(tmp_path: Path) -> None:
    table = pd.DataFrame({"when": pd.date_range("2020", periods=20), "x": np.arange(20), "y": [0, 1] * 10})
    table.to_parquet(tmp_path / "d.parquet")
    assert "column 'when' is of type datetime64" in fails(
        "fit", tmp_path / "d.parquet", "-t", "y", "-o", tmp_path / "m"
    )


def test_paths_that_are_not_there_or_not_files(folder: Path, tmp_path: Path) -> None:
    for name in ("no.csv", "no.parquet"):
        assert (
            fails("fit", tmp_path / name, "-t", "y", "-o", tmp_path / "m")
            == f"{tmp_path / name}: no such file"
        )
    assert "is a directory" in fails("fit", tmp_path, "-t", "y", "-o", tmp_path / "m")
    assert "no such file" in fails("predict", tmp_path / "no.anytime", folder / "patients.csv")
    assert "is a directory" in fails("inspect", tmp_path)
    assert "no such file" in fails(
        "fit", folder / "patients.csv", "-t", "sick", "--costs", tmp_path / "p.yaml", "-o", tmp_path / "m"
    )


def test_place_to_write_is_checked_first(folder: Path, tmp_path: Path) -> None:
    arguments = [
        "fit",
        folder / "absent.csv",
        "-t",
        "y",
        "-o",
    ]  # so an error about the output came before reading
    assert f"there is no directory {tmp_path / 'no'}" in fails(
        *arguments, tmp_path / "no" / "m.anytime", code=2
    )
    assert "is a directory; name a file to write" in fails(*arguments, tmp_path, code=2)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything"
)
def test_permission_is_denied(folder: Path, tmp_path: Path) -> None:
    locked = write(tmp_path / "locked.csv", "a,y\n1,2\n")
    locked.chmod(0)
    assert "permission denied" in fails("fit", locked, "-t", "y", "-o", tmp_path / "m")
    tmp_path.chmod(0o500)
    try:
        assert "permission denied" in fails(
            "fit", folder / "patients.csv", "-t", "sick", "-o", tmp_path / "m"
        )
    finally:
        tmp_path.chmod(0o700)


def test_permission_error_of_the_system_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "sick.anytime")

    monkeypatch.setattr("anytime.files.load_detached", denied)
    assert (
        fails("predict", folder / "sick.anytime", folder / "patients.csv")
        == "sick.anytime: permission denied"
    )


def test_unknown_target_suggests_the_nearest(folder: Path, tmp_path: Path) -> None:
    said = fails("fit", folder / "patients.csv", "-t", "sik", "-o", tmp_path / "m", code=2)
    assert said.endswith("has no column 'sik'; did you mean 'sick'?")
    data = write(tmp_path / "d.csv", "a,y\n1,2\n")
    said = fails("fit", data, "-t", "Y", "-o", tmp_path / "m", code=2)
    assert said.endswith("has no column 'Y'; did you mean 'y'?")
    said = fails("curve", folder / "sick.anytime", folder / "patients.csv", "-t", "zzz", code=2)
    assert said.endswith("has no column 'zzz'; it has age, sex, city, chol, ecg, sick")


def test_table_without_a_header(tmp_path: Path) -> None:
    data = write(tmp_path / "d.csv", "7.4,0.7,0\n1,2,3\n")
    assert "does its first line hold the names?" in fails(
        "fit", data, "-t", "y", "-o", tmp_path / "m", code=2
    )


def test_file_that_is_damaged_or_no_model(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "sick.anytime").read_bytes()
    damaged = write(tmp_path / "damaged.anytime", whole[: len(whole) // 2])
    for command in (["inspect", damaged], ["predict", damaged, folder / "patients.csv"]):
        assert fails(*command).startswith(str(damaged))
    assert fails("inspect", folder / "patients.csv").startswith(str(folder / "patients.csv"))


def test_columns_that_are_missing_or_not_numbers(
    folder: Path, patients: pd.DataFrame, tmp_path: Path
) -> None:
    patients[["sick"]].to_csv(tmp_path / "none.csv", index=False)
    patients.assign(age="old").to_csv(tmp_path / "words.csv", index=False)
    model = folder / "sick.anytime"
    assert "has none of the model's columns" in fails("predict", model, tmp_path / "none.csv")
    assert "column 'age' must hold numbers, but holds 'old'" in fails(
        "predict", model, tmp_path / "words.csv"
    )


def test_price_list_that_does_not_fit(folder: Path, tmp_path: Path) -> None:
    def said(contents: str, name: str = "p.yaml") -> str:
        prices = write(tmp_path / name, contents)
        return fails("fit", folder / "patients.csv", "-t", "sick", "--costs", prices, "-o", tmp_path / "m")

    assert "names column 'weight', which X does not have" in said("{weight: 1}")
    assert "columns 'sex', 'city', 'chol', 'ecg' have no price" in said("{age: 1}")
    assert said("{age: -1}").startswith(f"{tmp_path / 'p.yaml'}: the price of 'age' is -1")
    assert "is not valid YAML" in said("{a: [")
    assert "needs a column 'group'" in said("a,b\n1,2\n", "p.csv")
    assert "ends in .csv, .yaml" in said("", "p.txt")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fot"], "no such command 'fot'"),
        (["--nonsense"], "no such option: --nonsense"),
        (["fit"], "missing argument 'DATA'"),
        (["fit", "d.csv"], "missing option"),
        (["fit", "d.csv", "-t", "y", "-o", "m", "--model", "svm"], "'svm' is not one of 'speedboost'"),
        (["fit", "d.csv", "-t", "y", "-o", "m", "--holdout", "2"], "'--holdout'"),
        (["fit", "d.csv", "-t", "y", "-o", "m", "--n-estimators", "many"], "'--n-estimators'"),
        (["predict", "m", "d.csv", "--budget", "-1"], "'--budget'"),
    ],
)
def test_bad_command_line(arguments: list[str], said: str) -> None:
    message = fails(*arguments, code=2)
    assert said in message
    assert message.endswith("--help)")


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_package_that_is_not_installed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = fails("fit", folder / "patients.csv", "-t", "sick", "--model", package, "-o", tmp_path / "m")
    assert said == f"this needs {package}, which is not installed: pip install 'anytime[{package}]'"


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    data = write(tmp_path / "d.parquet", b"PAR1")
    assert "pip install 'anytime[parquet]'" in fails("fit", data, "-t", "y", "-o", tmp_path / "m")


def test_plot_without_its_package(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, package, None)
    command = ["curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick"]
    assert "anytime[plot]" in fails(*command, "--plot", tmp_path / "c.png")


def test_file_that_is_not_compressed_as_it_says(tmp_path: Path) -> None:
    data = write(tmp_path / "d.csv.gz", "a,y\n1,2\n")
    assert "d.csv.gz cannot be unpacked" in fails("fit", data, "-t", "y", "-o", tmp_path / "m")


def test_file_that_is_no_parquet(tmp_path: Path) -> None:
    data = write(tmp_path / "d.parquet", "a,y\n1,2\n")
    assert "is not a Parquet file" in fails("fit", data, "-t", "y", "-o", tmp_path / "m")


def test_error_nobody_expected_is_still_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at.AnytimeClassifier, "answer", lambda *_, **__: {}["deep inside"])
    said = fails("predict", folder / "sick.anytime", folder / "patients.csv")
    assert said == "KeyError: 'deep inside' (this should not happen; --debug shows where)"


@pytest.mark.parametrize("place", [0, 3])
def test_debug_shows_the_traceback_wherever_it_stands(folder: Path, place: int) -> None:
    arguments = ["predict", str(folder / "no.anytime"), str(folder / "patients.csv")]
    arguments.insert(place, "--debug")
    with pytest.raises(FileNotFoundError):
        app(arguments)


def test_warnings_are_one_line_each(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.warn("first line\nsecond line", UserWarning, stacklevel=1)
        warnings.warn("of no interest", FutureWarning, stacklevel=1)

    before = warnings.showwarning
    monkeypatch.setattr("anytime.cli.predict.write_table", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = run("predict", folder / "sick.anytime", folder / "patients.csv")
    assert result.stderr == "anytime: warning: first line second line\n"
    assert warnings.showwarning is before
