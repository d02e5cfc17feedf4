"""The page at ``/``: what the server does now, where on the model's curve that is, and a row to try.

Plain HTML, CSS and JavaScript modules in this folder, served as they are: no build step, nothing fetched from elsewhere. The
headers forbid what the page does not need, scripts and styles inside the document among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

__all__ = ["HEADERS", "Asset", "assets", "routes"]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for again after an upgrade; the tag below makes that cheap
}

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file of the page, as it is sent; its ``ETag`` changes when the body does."""

    body: bytes
    media_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """The files of the page by their path below ``/``; the document itself is ``""``.

    Examples
    --------
    >>> sorted(path for path in assets() if path.endswith(".css"))
    ['page.css']
    """
    files = {}
    for file in resources.files("anytime.serve.page").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            body = file.read_bytes()
            path = "" if file.name == "index.html" else file.name
            files[path] = Asset(body, kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return files


def routes() -> list[Route]:
    """A route for each file of the page, to be added to an application."""
    from starlette.routing import Route

    return [Route(f"/{path}", _answers(asset), methods=["GET"]) for path, asset in assets().items()]


def _answers(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    from starlette.responses import Response

    async def endpoint(request: Request) -> Response:
        headers = {**HEADERS, "ETag": asset.tag}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.media_type, headers=headers)

    return endpoint
