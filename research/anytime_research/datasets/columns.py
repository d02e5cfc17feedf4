"""Column names and natural groups of the public sets whose files do not carry them."""

from __future__ import annotations

from anytime.datasets.bundled import runs

# fmt: off
HOUSING = (
    "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT",
)
WINE_QUALITY = (
    "fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "free sulfur dioxide",
    "total sulfur dioxide", "density", "pH", "sulphates", "alcohol",
)
ABALONE = (
    "male", "female", "infant", "length", "diameter", "height", "whole weight", "shucked weight", "viscera weight",
    "shell weight",
)
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)
ADULT_WORDS = (1, 3, 5, 6, 7, 8, 9, 13)
LETTER = (
    "x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar", "y2bar", "xybar", "x2ybr", "xy2br", "x-ege",
    "xegvy", "y-ege", "yegvx",
)
MAGIC = (
    "fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist",
)
MUSHROOM = (
    "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing", "gill-size",
    "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring",
    "stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type",
    "spore-print-color", "population", "habitat",
)
MAMMOGRAPHIC = ("BI-RADS", "age", "shape", "margin", "density")
CYTOLOGY = (
    "clump thickness", "cell size", "cell shape", "adhesion", "epithelial size", "bare nuclei", "chromatin", "nucleoli",
    "mitoses",
)
_WORDS = (
    "make", "address", "all", "3d", "our", "over", "remove", "internet", "order", "mail", "receive", "will", "people",
    "report", "addresses", "free", "business", "email", "you", "credit", "your", "font", "000", "money", "hp", "hpl",
    "george", "650", "lab", "labs", "telnet", "857", "data", "415", "85", "technology", "1999", "parts", "pm", "direct",
    "cs", "meeting", "original", "project", "re", "edu", "table", "conference",
)
COVTYPE_NUMBERS = (
    "elevation", "aspect", "slope", "horizontal distance to water", "vertical distance to water",
    "distance to roads", "hillshade 9am", "hillshade noon", "hillshade 3pm", "distance to fire points",
)
COVTYPE_CLASSES = {
    "1": "spruce/fir", "2": "lodgepole pine", "3": "ponderosa pine", "4": "cottonwood/willow", "5": "aspen",
    "6": "Douglas fir", "7": "krummholz",
}
SATIMAGE_CLASSES = {
    "1": "red soil", "2": "cotton crop", "3": "grey soil", "4": "damp grey soil", "5": "vegetation stubble",
    "7": "very damp grey soil",
}
POKER_CLASSES = {
    "0": "nothing", "1": "one pair", "2": "two pairs", "3": "three of a kind", "4": "straight", "5": "flush",
    "6": "full house", "7": "four of a kind", "8": "straight flush", "9": "royal flush",
}
CLOTHES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)
# fmt: on

DIGITS = {digit: digit for digit in "0123456789"}

SPAMBASE = (
    *(f"word {word}" for word in _WORDS),
    *(f"char {char}" for char in ";([!$#"),
    *(f"capital run {what}" for what in ("average", "longest", "total")),
)

COVTYPE_GROUPS = runs({**dict.fromkeys(COVTYPE_NUMBERS, 1), "wilderness area": 4, "soil type": 40})
COVTYPE = (
    *COVTYPE_NUMBERS,
    *(f"wilderness area {k + 1}" for k in range(4)),
    *(f"soil type {k + 1}" for k in range(40)),
)

# 36 columns: four spectral bands of nine pixels, band by band within a pixel.
SATIMAGE = tuple(f"pixel {j // 4 + 1} band {j % 4 + 1}" for j in range(36))
SATIMAGE_BANDS = {f"band {band + 1}": range(band, 36, 4) for band in range(4)}

SEGMENT_GROUPS = runs({"position": 2, "size": 1, "line density": 2, "edges": 4, "colour": 10})

CONNECT4_COLUMNS = runs({f"column {letter}": 6 for letter in "abcdefg"})

POKER = tuple(f"{what} {card}" for card in range(1, 6) for what in ("suit", "rank"))
POKER_CARDS = runs({f"card {card}": 2 for card in range(1, 6)})

# Particles are measured; the seven masses are computed from them.
_JETS = {f"jet {k}": 4 for k in range(1, 5)}
HIGGS_GROUPS = runs({"lepton": 3, "missing energy": 2, **_JETS, "masses": 7})
HIGGS_REQUIRES = {"masses": ["lepton", "missing energy", *_JETS]}
HIGGS = (
    *("lepton pT", "lepton eta", "lepton phi", "missing energy", "missing energy phi"),
    *(f"{jet} {what}" for jet in _JETS for what in ("pT", "eta", "phi", "b-tag")),
    *("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb"),
)

# 60 positions around a splice junction, each coded in three 0/1 columns.
DNA_POSITIONS = runs({f"position {k + 1}": 3 for k in range(60)})

# The streams of a document that a ranking feature needs: the whole text, its parts, or the link graph.
_STREAMS = ("body", "anchor", "title", "url", "whole")
_SCORES = ("tf", "idf", "tf*idf", "doclen", "bm25", "lmir.abs", "lmir.dir", "lmir.jm")
MQ2008 = (
    *(f"{score} {stream}" for score in _SCORES for stream in _STREAMS),
    *("pagerank", "inlinks", "outlinks", "url slashes", "url length", "child pages"),
)
MQ2008_STREAMS = {
    **{
        stream: [*range(k, 40, 5), *((43, 44) if stream == "url" else ())]
        for k, stream in enumerate(_STREAMS)
    },
    "link": [40, 41, 42, 45],
}

# One 0/1 column per value; the numbers of values of the 14 attributes of adult and the 22 of mushroom.
A9A_GROUPS = runs(dict(zip(ADULT, (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41), strict=True)))
MUSHROOM_GROUPS = runs(
    dict(zip(MUSHROOM, (6, 4, 10, 2, 9, 4, 3, 2, 12, 2, 7, 4, 4, 9, 9, 2, 4, 3, 8, 9, 6, 7), strict=True))
)
A9A = tuple(f"{name} {k + 1}" for name, columns in A9A_GROUPS.items() for k in range(len(columns)))
MUSHROOM_ONEHOT = tuple(
    f"{name} {k + 1}" for name, columns in MUSHROOM_GROUPS.items() for k in range(len(columns))
)
