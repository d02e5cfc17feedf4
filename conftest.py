"""What pytest leaves alone where an optional library is not installed."""

import re
from importlib.util import find_spec
from pathlib import Path

NETWORKS = Path(__file__).parent / "src/anytime/networks"


def files_that_need_torch() -> set[Path]:
    """Files of the networks that import torch at their top, or import one that does."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in NETWORKS.glob("*.py")}
    patterns, needing = [r"torch\b"], set()
    while patterns:
        importing = re.compile(rf"^(?:from|import) (?:{'|'.join(patterns)})", re.MULTILINE)
        found = {stem for stem, text in sources.items() if stem not in needing and importing.search(text)}
        needing |= found
        patterns = [rf"anytime\.networks\.{stem}\b" for stem in found]
    return {NETWORKS / f"{stem}.py" for stem in needing}


# docstrings are read by importing their files
collect_ignore = [] if find_spec("torch") else sorted(map(str, files_that_need_torch()))
