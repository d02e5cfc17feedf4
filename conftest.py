"""What pytest leaves alone where an optional library is not installed."""

import re
from importlib.util import find_spec
from pathlib import Path

ROOMS = [Path(__file__).parent / "src/anytime" / room for room in ("networks", "growth")]


def files_that_need_torch() -> set[Path]:
    """Files of networks and growth that import torch at their top, or import one that does."""
    sources = {path: path.read_text(encoding="utf-8") for room in ROOMS for path in room.glob("*.py")}
    patterns, needing = [r"torch\b"], set()
    while patterns:
        importing = re.compile(rf"^(?:from|import) (?:{'|'.join(patterns)})", re.MULTILINE)
        found = {path for path, text in sources.items() if path not in needing and importing.search(text)}
        needing |= found
        patterns = [rf"anytime\.{path.parent.name}\.{path.stem}\b" for path in found]
    return needing


# docstrings are read by importing their files
collect_ignore = [] if find_spec("torch") else sorted(map(str, files_that_need_torch()))
