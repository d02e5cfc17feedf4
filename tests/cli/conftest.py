"""Small tables on disk, and a model fitted on one of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.running import run

PRICES = """
unit: CAD
groups:
  base: {price: 1, columns: [age, sex, city]}
  draw: {price: 2.1, columns: []}
  blood: {price: 5, columns: [chol], requires: [draw]}
  ecg: {price: 15, columns: [ecg]}
"""


@pytest.fixture(scope="session")
def patients() -> pd.DataFrame:
    """Words, numbers and missing values, and an answer that takes all groups to know."""
    rng = np.random.default_rng(0)
    n = 240
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "sex": rng.choice(["f", "m"], n),
            "city": rng.choice(["oslo", "bern", "rome"], n),
            "chol": rng.normal(200, 30, n).round(1),
            "ecg": rng.normal(size=n).round(3),
        }
    )
    risk = 0.08 * (table["age"] - 50) + 0.05 * (table["chol"] - 200) + 2 * table["ecg"]
    table["sick"] = np.where(risk + rng.normal(0, 0.5, n) > 0, "yes", "no")
    table.loc[::17, "chol"] = np.nan
    return table


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, patients: pd.DataFrame) -> Path:
    """``patients.csv`` and ``prices.yaml``, and ``sick.anytime`` made of them; ``numbers.csv``, without words or gaps."""
    path = tmp_path_factory.mktemp("cli")
    patients.to_csv(path / "patients.csv", index=False)
    patients.drop(columns=["sex", "city", "sick"]).fillna(200.0).to_csv(path / "numbers.csv", index=False)
    (path / "prices.yaml").write_text(PRICES)
    options = [
        "--costs",
        path / "prices.yaml",
        "--model",
        "hist",
        "--n-estimators",
        30,
        "-o",
        path / "sick.anytime",
    ]
    run("fit", path / "patients.csv", "--target", "sick", *options)
    return path
