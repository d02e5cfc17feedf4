"""``anytime next``: what to buy next for one row, in words, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anytime as at
from tests.cli.running import fails, run

ROW = {"age": 63, "sex": "f", "city": "oslo"}


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that chooses row by row, without names of columns."""
    X, y, costs = at.datasets.load("wine")
    path = tmp_path_factory.mktemp("next") / "wine.anytime"
    at.AcquisitionClassifier(costs=costs, hidden_layer_sizes=(16, 8), folds=2, random_state=0).fit(X, y).save(
        path
    )
    return path


def test_words_and_a_table(folder: Path) -> None:
    model = at.load(folder / "sick.anytime")
    said = run("next", folder / "sick.anytime", "--row", json.dumps(ROW)).stdout
    advice = model.next(ROW)
    assert str(advice) in " ".join(said.split())
    assert "price (CAD)" in said
    for offer in advice.offers:
        assert offer.group in said
    assert "changes the answer" not in said  # a chain does not know


def test_json_is_all_that_the_model_says(wine: Path) -> None:
    model = at.load(wine)
    for arguments, advice in (
        ((), model.next({})),
        (("--budget", 10), model.next({}, budget=10)),
        (("--row", '{"alcohol": 13.0}'), model.next({"alcohol": 13.0})),
    ):
        shown = json.loads(run("next", wine, "--json", *arguments).stdout)
        assert shown == json.loads(json.dumps(advice.to_dict()))
        assert [offer["group"] for offer in shown["offers"]] == [offer.group for offer in advice.offers]
        assert shown["advice"] == str(advice)


def test_the_row_of_a_file_and_of_a_pipe(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text(json.dumps(ROW))
    typed = run("next", folder / "sick.anytime", "--row", json.dumps(ROW)).stdout
    assert run("next", folder / "sick.anytime", "--row", file).stdout == typed
    assert run("next", folder / "sick.anytime", "--row", "-", given=json.dumps(ROW)).stdout == typed


def test_groups_that_were_bought_are_named_for_a_list_of_values(wine: Path) -> None:
    row = at.datasets.load("wine")[0][0].tolist()
    shown = json.loads(
        run("next", wine, "--row", json.dumps(row), "--bought", "colour, malic acid", "--json").stdout
    )
    expected = at.load(wine).next(row, ["colour", "malic acid"])
    assert shown["group"] == expected.group
    assert not {"colour", "malic acid"} & {offer["group"] for offer in shown["offers"]}


def test_a_budget_that_buys_nothing_more_is_said(folder: Path) -> None:
    said = run("next", folder / "sick.anytime", "--row", json.dumps(ROW), "--budget", 1).stdout
    assert "Nothing is left to buy that could change it within 1 CAD." in " ".join(said.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--row", "{age: 63}"), "--row is not JSON"),
        (("--row", "nowhere.json"), "nowhere.json"),
        (("--row", '{"height": 180}'), "no column 'height'"),
        (("--bought", "scan"), "bought contains 'scan'"),
        (("--bought", "ecg"), "'ecg' is listed as bought, but the row has no value for it"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in fails("next", folder / "sick.anytime", *arguments)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (f'{{"age": {"9" * 400}}}', "'age'"),
        (f'{{"age": {"9" * 5000}}}', "--row is not JSON: Exceeds the limit"),
        ("[" * 100_000, "--row is nested too deeply"),
        ("{FOLDER}/binary.json", "binary.json is not JSON: it is not text in UTF-8"),
        ('{"age": 63, "cty": "oslo"}', "--row: did you mean 'city' instead of 'cty'?"),
    ],
    ids=["400 nines", "5000 nines", "deep", "binary", "mistyped"],
)
def test_a_row_that_cannot_be_read_is_refused_in_one_clear_line(
    folder: Path, tmp_path: Path, row: str, said: str
) -> None:
    (tmp_path / "binary.json").write_bytes(b"\x8f\xff\x00{")
    sentence = fails("next", folder / "sick.anytime", "--row", row.replace("{FOLDER}", str(tmp_path)))
    assert said in sentence
    assert "should not happen" not in sentence
    assert len(sentence) < 400


def test_an_empty_row_is_an_error_of_the_command_line(folder: Path) -> None:
    assert fails("next", folder / "sick.anytime", "--row", "", code=2).startswith("--row is empty")
