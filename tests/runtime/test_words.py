"""Examples whose columns hold words: a session says of a row what the model says of the table."""

import numpy as np
import pandas as pd
import pytest

import anytime as at

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def towns():
    n = 300
    table = pd.DataFrame({"town": RNG.choice(["Bonn", "Ulm", "Trier"], n), "size": RNG.normal(size=n)})
    y = np.where((table["town"] == "Bonn") ^ (RNG.random(n) < 0.1), "a", "b")
    costs = at.FeatureCosts({"town": 1, "size": 5})
    return at.GradientBoostingClassifier(costs=costs, n_estimators=10).fit(table, y), table


def test_extractors_may_return_words(towns):
    model, table = towns
    session = at.Session(
        model, at.Features({"town": lambda raw: raw["town"], "size": lambda raw: [raw["size"]]})
    )
    for raw, label in zip(table.to_dict("records")[:40], model.predict(table[:40]), strict=True):
        answer = session.predict(raw)
        assert answer.prediction == label
        assert not answer.failures


def test_a_word_that_training_did_not_have_is_missing(towns):
    model, table = towns
    odd = table[:5].assign(town="Köln")
    session = at.Session(
        model, at.Features({"town": lambda raw: raw["town"], "size": lambda raw: raw["size"]})
    )
    assert [session.predict(raw).prediction for raw in odd.to_dict("records")] == list(model.predict(odd))


@pytest.mark.parametrize("form", [lambda row: row, lambda row: row.to_dict(), lambda row: row.tolist()])
def test_whole_rows_may_hold_words(towns, form):
    model, table = towns
    session = at.Session(model)
    found = [session.predict(form(table.iloc[i])).prediction for i in range(40)]
    assert found == list(model.predict(table[:40]))


def test_codes_are_taken_as_before(towns):
    model, table = towns
    town, size = table.iloc[0]
    row = np.array([model.categories_[0].index(town), size])
    assert at.Session(model).predict(row).prediction == model.predict(table[:1])[0]


def test_what_is_lacking_in_a_named_row_is_told(towns):
    model, _ = towns
    answer = at.Session(model).predict({"town": "Bonn"})
    assert answer.failures == {"size": "not available"}
    nameless = at.GradientBoostingClassifier(n_estimators=2).fit(RNG.normal(size=(20, 2)), [0, 1] * 10)
    with pytest.raises(ValueError, match="knows no names"):
        at.Session(nameless).predict({"a": 1, "b": 2})
