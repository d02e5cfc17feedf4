"""Small models of structures that tests of the server share."""

from __future__ import annotations

import base64
import io
from functools import cache

import numpy as np
from PIL import Image

import anytime as at
from tests.structured.streets import parser, streets

CLASSES = np.array(["sky", "road", "tree", "none"])
SENTENCES = [
    ("Anna sees the old dog", "N V D A N"),
    ("The dog sees Anna", "D N V N"),
    ("A bird sings", "D N V"),
    ("Old birds sing in the tree", "A N V P D N"),
    ("The tree falls on a bird", "D N V P D N"),
    ("Anna sings in the old tree", "N V P D A N"),
]


def elements(sentence):
    """Words with their endings."""
    return [{"word": word.lower(), "ending": word[-1]} for word in sentence.split()]


@cache
def tagger():
    X, y = [elements(s) for s, _ in SENTENCES], [tags.split() for _, tags in SENTENCES]
    return at.SequenceLabeler(costs={"word": 3, "ending": 1}, folds=2, random_state=0).fit(X, y)


@cache
def street_parser():
    pictures, maps = streets(6)
    return parser(ignore_label="none").fit(pictures, [CLASSES[np.minimum(labels, 3)] for labels in maps])


@cache
def graphs():
    rng = np.random.default_rng(0)
    edges = at.structured.grid_edges(3, 3)
    labels = [np.repeat(rng.integers(0, 2, 3), 3) for _ in range(20)]
    return [(y[:, None] + rng.normal(size=(9, 2)).round(3), edges) for y in labels], labels


@cache
def grid_labeler():
    return at.GraphLabeler(folds=2, max_stages=4, random_state=0).fit(*graphs())


def packed(picture, kind="PNG", **options):
    """A picture as a file in base64."""
    out = io.BytesIO()
    Image.fromarray(picture).save(out, kind, **options)
    return base64.b64encode(out.getvalue()).decode()


def unpacked(text):
    """Numbers of classes of a label map."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))
