"""A real browser for tests of the page, and what every visit has to keep to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

PATIENCE = 60_000  # milliseconds for what a page does at once where the machine is idle
playwright.expect.set_options(timeout=PATIENCE)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browsing() -> Iterator[playwright.Browser]:
    """Headless Chromium; skips the test where there is none."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def wait_until(tab: playwright.Page, holds: Callable[[], bool]) -> None:
    """Wait for something that no element of the page shows."""
    for _ in range(PATIENCE // 20):
        if holds():
            return
        tab.wait_for_timeout(20)
    raise AssertionError("waited in vain")


@contextmanager
def visiting(
    browser: playwright.Browser, address: str, expected: tuple[str, ...] = (), **context: object
) -> Iterator:
    """The page in a tab. Afterwards: it asked this host alone, and complained about nothing but what is ``expected``."""
    tab = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **context})
    hosts, complaints = set(), []
    tab.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    tab.on("console", lambda line: line.type in ("error", "warning") and complaints.append(line.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.set_default_timeout(PATIENCE)
    tab.goto(address)
    try:
        yield tab
    finally:
        tab.close()
    assert hosts == {urlsplit(address).netloc}
    assert [text for text in complaints if not any(part in text for part in expected)] == []
