"""The street of the front page, labelled stage by stage: the pictures, and the numbers beside the slider.

    python docs/front_page.py

Runs docs/gallery/street.py and writes docs/_static/street.png (the picture), docs/_static/street_labels.png (its labels before
the first stage and after each, one below the other) and the numbers in docs/front_page.html.
"""

import json
import re
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from PIL import Image, ImageColor

HERE = Path(__file__).parent

with TemporaryDirectory() as folder, patch("sys.argv", ["street.py", folder]):
    street = run_path(str(HERE / "gallery/street.py"))

names, truth = np.array(street["CLASSES"]), street["truth"]
strip = np.concatenate([np.searchsorted(np.sort(names), labels) for labels, _ in street["moments"]])
labels = Image.fromarray(np.argsort(names)[strip].astype(np.uint8), mode="P")
labels.putpalette([part for name in names for part in ImageColor.getrgb(street["COLOURS"][name])])
labels.save(HERE / "_static/street_labels.png", optimize=True)
Image.fromarray(street["picture"]).save(HERE / "_static/street.png", optimize=True)

numbers = {
    "ms": [round(ms, 1) for _, ms in street["moments"]],
    "right": [round(float(np.mean(labels == truth)), 3) for labels, _ in street["moments"]],
    "looked": [0.0, *(round(float(pixels.mean()), 3) for pixels in street["selected"])],
}
page = HERE / "front_page.html"
text, written = re.subn(
    r'(<script type="application/json" id="street-numbers">).*?(</script>)',
    lambda found: found[1] + json.dumps(numbers) + found[2],
    page.read_text(encoding="utf-8"),
)
assert written == 1, f"{page} has no place for the numbers"
page.write_text(text, encoding="utf-8")
