"""Constraints for pip: the oldest version of everything that pyproject.toml asks for by ``>=``.

The last part is left open (``numpy==1.26.*``), because the first release of a series may lack a wheel for this Python.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"] + project["optional-dependencies"]["serve"]:
    name, version = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}=={version}.*")
