"""Check that every link within the built documentation leads somewhere; ``make docs`` runs it.

    python .ci/links.py docs/_build

A link to a page needs the file, a link to a place on a page needs the element with that id, and a picture or a script
needs its file. Addresses on other machines are counted, not opened: the check needs no network.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page and the ids that links may lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect ``href``, ``src`` and ``id``."""
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


@cache
def read(path: Path) -> Page:
    """A page; many links lead to the same one."""
    return Page(path)


def broken(path: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    return [link for link in dict.fromkeys(read(path).links) if not resolves(link, path)]


def resolves(link: str, page: Path) -> bool:
    """Whether there is what a link names; links to other machines count as good."""
    address = urlsplit(link)
    if address.scheme or address.netloc:
        return True
    target = page.parent / unquote(address.path) if address.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return False
    return (
        not address.fragment
        or target.suffix != ".html"
        or unquote(address.fragment) in read(target.resolve()).ids
    )


def main() -> int:
    """Print links that lead nowhere; 1 if there are any."""
    pages = [path.resolve() for path in sorted(Path(sys.argv[1]).rglob("*.html"))]
    if not pages:
        sys.exit(f"{sys.argv[1]} has no pages")
    faults = [f"{page}: {link}" for page in pages for link in broken(page)]
    links = [link for page in pages for link in read(page).links]
    elsewhere = sum(bool(urlsplit(link).netloc) for link in links)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(
        f"{len(links)} links of {len(pages)} pages, {elsewhere} of them to other sites and not opened, {len(faults)} broken"
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
