"""Settings of a server. It measures everything else."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LEVELS = ("debug", "info", "warning", "error")
MAX_MODELS = 64  # the board of counters has room for so many


@dataclass(frozen=True)
class Settings:
    """Settings of a server; checked when made."""

    models: Mapping[str, Path]  # the ``.anytime`` file of each model, by the name that clients use
    # where to listen. The default is reached from this machine alone. Port 0: any that is free
    host: str = "127.0.0.1"
    port: int = 8000
    slo: float | None = 0.010  # seconds within which a request is to be answered; None: as long as it takes
    workers: int = 1  # processes that answer
    # what clients have to send as ``Authorization: Bearer TOKEN``; None: nothing
    token: str | None = field(default=None, repr=False)
    features: Path | None = (
        None  # a Python file of extractors, which compute features that clients do not send
    )
    # for each adaptive model whose file lacks its costly model, by the adaptive one's name, the costly model
    costly: Mapping[str, Any] = field(default_factory=dict)
    max_body: int = 8 << 20  # bytes that a request may have, unpacked
    # size of the matrix that one request may ask about
    max_rows: int = 10_000
    max_columns: int = 100_000
    # requests that a worker holds at once; further ones get a 503 with Retry-After
    max_concurrency: int = 10_000
    # seconds between two looks at the models' files; one that was replaced is loaded. None: never
    watch: float | None = 1.0
    drain: float = 10.0  # seconds that a server which shuts down has for what it holds
    log_level: str = "info"  # or "debug", "warning", "error"
    log_requests: bool = False  # a line in the log for each request, not only for those that fail

    def __post_init__(self) -> None:
        if not 1 <= len(self.models) <= MAX_MODELS:
            raise ValueError(f"a server has between 1 and {MAX_MODELS} models, not {len(self.models)}")
        for name in self.models:
            if not name or not name.isprintable() or any(c in "/?#%\\ " for c in name):
                raise ValueError(f"{name!r} cannot be a model's name: it is part of an address")
        for name in self.costly:
            if name not in self.models:
                raise ValueError(f"there is a costly model for {name!r}, but no model of that name")
        for what in ("workers", "max_body", "max_rows", "max_columns", "max_concurrency"):
            if getattr(self, what) < 1:
                raise ValueError(f"{what} must be at least 1, not {getattr(self, what)}")
        if "stats" in self.models:
            raise ValueError("'stats' cannot be a model's name: /v2/models/stats is an address of its own")
        if not 0 <= self.drain < math.inf:
            raise ValueError(f"drain must be a non-negative number of seconds, not {self.drain}")
        for what in ("slo", "watch"):
            seconds = getattr(self, what)
            if seconds is not None and not 0 < seconds < math.inf:
                raise ValueError(f"{what} must be a positive number of seconds, not {seconds}")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be between 0 and 65535, not {self.port}")
        if self.log_level not in _LEVELS:
            raise ValueError(f"log_level must be one of {', '.join(_LEVELS)}, not {self.log_level!r}")
        if self.token is not None and (
            not self.token.isascii() or not self.token.isprintable() or " " in self.token
        ):
            raise ValueError(
                "token must be of printable ASCII characters without blanks: it travels in a header"
            )
        if self.token == "":
            raise ValueError("token must not be empty")
