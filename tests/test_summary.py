"""What a fitted model shows in a notebook, beside scikit-learn's own diagram."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
import sklearn

import anytime as at
from anytime.summary import card, purchases


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, (X[:, 0] + X[:, 2] > 0).astype(int)


@pytest.fixture(scope="module")
def model(table) -> at.SpeedBoostClassifier:
    costs = at.FeatureCosts(
        {"<b>cheap": 1.0, "dear": 5.0}, groups={"<b>cheap": [0, 1], "dear": [2, 3]}, unit="ms"
    )
    return at.SpeedBoostClassifier(costs=costs, n_estimators=20, random_state=0).fit(*table)


def test_notebook_shows_the_diagram_of_scikit_learn_and_the_card(model) -> None:
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in shown
        assert shown.endswith(card(model))
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


def test_model_that_is_not_fitted_shows_the_diagram_alone() -> None:
    shown = at.SpeedBoostClassifier()._repr_html_()
    assert "sk-top-container" in shown
    assert "Purchases in order" not in shown


def test_text_stays_text_where_scikit_learn_is_told_so(model) -> None:
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_card_is_well_formed_small_and_asks_for_nothing(model) -> None:
    html = card(model)
    ElementTree.fromstring(html)
    assert len(html) < 10_000
    for forbidden in ("<script", "http://", "https://", "url("):
        assert forbidden not in html
    assert "&lt;b&gt;cheap" in html
    assert "<b>cheap" not in html


def test_card_lists_purchases_in_their_order(model) -> None:
    cells = [cell.text for cell in ElementTree.fromstring(card(model)).iter("td")]
    bought = [step for step in purchases(model.plan_) if step.groups]
    assert cells[::4] == [", ".join(step.groups) for step in bought]
    assert sum(step.price for step in bought) == pytest.approx(model.stage_costs_[-1])


def test_curve_ends_at_the_last_stage_and_says_its_values(model) -> None:
    drawing = ElementTree.fromstring(card(model)).find("svg")
    assert drawing is not None
    quality = model.plan_.quality
    expected = "validation loss" if quality is not None else "stages"
    assert drawing.attrib["aria-label"].startswith(expected)
    assert drawing.attrib["aria-label"].endswith(f"at {model.stage_costs_[-1]:.4g} ms")


@pytest.mark.parametrize(
    "other",
    [
        at.AnytimeRegressor(validation_fraction=None),
        at.GroupPursuitRegressor(),
        at.BudgetForestClassifier(n_estimators=3, random_state=0),
        at.GradientBoostingClassifier(n_estimators=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_family_has_a_card(other, table) -> None:
    X, y = table
    fitted = sklearn.clone(other).fit(X, y)
    ElementTree.fromstring(card(fitted))
    assert f"{fitted.n_stages_} stage" in card(fitted)
