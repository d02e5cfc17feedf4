"""Check pages for accessibility with axe-core in the system's Chromium: the built site, and the pages that the package makes.

    npm pack axe-core && tar xzf axe-core-*.tgz package/axe.min.js
    python .ci/axe.py package/axe.min.js docs/_build

The package makes the report of a comparison, the report of a search for networks, the card of a model in a notebook, and
the page of the server. Each page is opened twice: on a desk in light colours, and on a phone in dark ones. Faults that axe
calls serious or critical fail the check; others are printed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright
from sklearn.model_selection import train_test_split

import anytime as at

# the server's stand-in and the toy search are among the tests
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.growth.synthetic import ToyGrowth
from tests.growth.test_search import grown
from tests.serve.pretend import pretending

VIEWS = {
    "desk, light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "phone, dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}
FAILING = ("serious", "critical")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def write_reports(folder: Path) -> list[Path]:
    """Pages that the package writes to files."""
    X, y, costs = at.datasets.load("breast_cancer")
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    models = {
        "SpeedBoost": at.SpeedBoostClassifier(costs=costs, max_stages=4, n_estimators=20, random_state=0),
        "group pursuit": at.GroupPursuitClassifier(costs=costs),
    }
    for model in models.values():
        model.fit(X_train, y_train)
    card = folder / "card.html"
    title = "A model in a notebook"
    card.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><main><h1>{title}</h1>{models['SpeedBoost']._repr_html_()}</main></body></html>",
        encoding="utf-8",
    )
    comparison = at.compare(models, X_test, y_test).report(folder / "comparison.html")
    search = grown(folder, 9, problem=ToyGrowth(failing=(3,))).report(folder / "search.html")
    return [card, comparison, search]


@contextmanager
def addresses(places: list[str]) -> Iterator[list[str]]:
    """Addresses of all pages to check; those of the package exist until the check ends."""
    with TemporaryDirectory() as folder, pretending() as (_, server):
        pages = write_reports(Path(folder))
        for place in map(Path, places):
            pages += sorted(place.rglob("*.html")) if place.is_dir() else [place]
        yield [server, *(page.resolve().as_uri() for page in pages)]


def main() -> int:
    """Print faults, each kind once per view; 1 if one of them is serious."""
    if CHROMIUM is None:
        sys.exit("this check needs Chromium: apt-get install chromium")
    axe = Path(sys.argv[1]).read_text(encoding="utf-8")
    with addresses(sys.argv[2:]) as pages, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        faults: dict[tuple[str, str, str, str], list[str]] = {}
        for view, context in VIEWS.items():
            tab = browser.new_page(**context)
            for page in pages:
                tab.goto(page, wait_until="load")
                if page.startswith("http"):
                    tab.wait_for_timeout(1000)  # the server's page draws what the first messages say
                tab.evaluate(axe)
                for fault in tab.evaluate("axe.run()")["violations"]:
                    key = fault["impact"], view, fault["id"], fault["help"]
                    faults.setdefault(key, []).append(f"{page}: {fault['nodes'][0]['html'][:160]}")
            tab.close()
        browser.close()
    for key, where in sorted(faults.items()):
        print(": ".join(key), *where[:3], sep="\n  ")
        if len(where) > 3:
            print(f"  and {len(where) - 3} more pages")
    serious = sum(key[0] in FAILING for key in faults)
    print(f"{len(pages)} pages, {len(VIEWS)} views, {len(faults)} kinds of faults, {serious} of them serious")
    return bool(serious)


if __name__ == "__main__":
    sys.exit(main())
