"""Bring the pages of results up to date with the files in ``benchmarks/results``: verdicts and figures.

python benchmarks/pages.py

Pages hold marks; what stands between a mark and ``<!-- end -->`` is written here, everything else by hand::

    <!-- verdicts -->          the claims of this page (on the index: of all works)
    <!-- figure hu_orders -->  the chart of that name, for light and for dark pages
"""

from __future__ import annotations

import re
from pathlib import Path

from common import RESULTS
from report import grubb, grubb_charts, hu, hu_charts, library, nan
from report.charts import Chart, draw
from report.claims import VERDICTS, Claim

DOCS = RESULTS.parents[1] / "docs"
PAGES = DOCS / "results"
IMAGES = DOCS / "images" / "results"
OWN = "The library's own bars"
FIGURES = hu_charts.FIGURES | grubb_charts.FIGURES | nan.FIGURES | library.FIGURES
CLAIMS = {
    "Hu, *Anytime Prediction and Learning* (2019)": hu.CLAIMS,
    "Grubb, *Anytime Prediction* (2014), and Grubb and Bagnell, *SpeedBoost* (2012)": grubb.CLAIMS,
    "Nan, *Learning to predict under a budget* (2018)": nan.CLAIMS,
    OWN: library.CLAIMS,
}
MARK = re.compile(r"(<!-- (verdicts|figure) ?(\w*) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def written(page: Path) -> str:
    """The text of a page with its marks filled in anew."""

    def block(mark: re.Match[str]) -> str:
        if mark[2] == "figure":
            return mark[1] + figure(mark[3])
        return mark[1] + (overview() if page.stem == "index" else verdicts(page.stem))

    return MARK.sub(block, page.read_text(encoding="utf-8"))


def figure(name: str) -> str:
    """A chart as Markdown, once for each brightness of the page."""
    alt = FIGURES[name]().alt
    return "".join(
        f"```{{image}} ../images/results/{file}.svg\n:class: only-{theme}\n:alt: {alt}\n```\n"
        for theme, file in (("light", name), ("dark", f"{name}-dark"))
    )


def table(claims: list[Claim], linked: bool, works: list[str] | None = None) -> list[str]:
    """Claims as rows of Markdown; with ``works``, each begins with the name of its own."""
    rows = []
    for i, claim in enumerate(claims):
        where = f"{works[i]}, {claim.where}" if works else claim.where
        verdict = f"[{claim.verdict}]({claim.page}.md)" if linked else claim.verdict
        number = re.sub(r"(?<=\d)%", " %", claim.number)
        rows.append(f"| {where} | {claim.text} | {verdict} | {number} |")
    return ["| | claim | verdict | measured |", "|---|---|---|---|", *rows, ""]


def verdicts(page: str) -> str:
    """The claims of one page, with the names of the works where there are several."""
    found = [(title.split(",")[0], c) for title, claims in CLAIMS.items() for c in claims if c.page == page]
    works, claims = [work for work, _ in found], [claim for _, claim in found]
    return "\n".join(table(claims, linked=False, works=works if len({*works} - {OWN}) > 1 else None))


def overview() -> str:
    """All claims, by work and chapter."""
    parts = [
        [f"## {title}", "", counted(claims), "", *table(claims, linked=True)]
        for title, claims in CLAIMS.items()
    ]
    return "\n".join(line for part in parts for line in part)


def counted(claims: list[Claim]) -> str:
    """How often each verdict stands."""
    counts = {kind: sum(claim.verdict == kind for claim in claims) for kind in VERDICTS}
    said = [f"{count} {kind.split(maxsplit=1)[1]}" for kind, count in counts.items() if count]
    return f"{len(claims)} claims: {', '.join(said)}."


def drawn(name: str, chart: Chart) -> bool:
    """Whether the figures in the documentation show the numbers of ``chart``."""
    files = [IMAGES / f"{name}{theme}.svg" for theme in ("", "-dark")]
    return all(file.exists() and chart.fingerprint in file.read_text(encoding="utf-8") for file in files)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, make in FIGURES.items():
        chart = make()
        if not drawn(name, chart):
            draw(chart, IMAGES / f"{name}.svg", "light")
            draw(chart, IMAGES / f"{name}-dark.svg", "dark")
            print(f"drawn: {name}")
    for page in sorted(PAGES.glob("*.md")):
        text = written(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"written: {page.name}")


if __name__ == "__main__":
    main()
