"""What a server says no with: a status and one sentence."""

from collections.abc import Mapping
from typing import NoReturn


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """A request that is not answered: a status of HTTP, and a sentence that says what was wrong, where, and what to do."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def refuse(sentence: str, status: int = 400) -> NoReturn:
    """Say that a request is wrong."""
    raise Refusal(status, sentence)
