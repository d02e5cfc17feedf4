"""What is tested where torch is not installed: everything but networks."""

from __future__ import annotations

import re

import pytest

import anytime as at

REASON = "needs anytime[torch]; `make test-all` installs it"


def installed_names() -> list[str]:
    """Public names, without those that need torch where there is none."""
    return [name for name in at.__all__ if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        getattr(at, name)
    except ImportError as error:
        if "needs PyTorch" not in str(error):
            raise
        return False
    return True


def skip_without_torch(code: str) -> None:
    """Skip a test of a program that trains networks where there is no torch."""
    if re.search(r"\btorch\b|AnytimeNetwork|GrowingNetwork|(at|anytime)\.(networks|growth)", code):
        pytest.importorskip("torch", reason=REASON)
    if re.search(r"(at|anytime)\.distributed", code):
        pytest.importorskip("ray", reason='needs Ray: pip install "anytime[ray]"')
