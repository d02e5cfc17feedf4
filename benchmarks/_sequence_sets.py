"""Sequences that the benchmarks label: chunks of CoNLL-2000, tags of UD English EWT, handwritten letters."""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Sentences = list[list[Any]]


class Part(NamedTuple):
    """Training and test sequences with their labels, and how they are judged."""

    X: Sentences
    y: Sentences
    X_test: Sentences
    y_test: Sentences
    metric: str  # of curves: "chunk_f1" or "accuracy"

    @property
    def has_pixels(self) -> bool:
        """Whether elements are rows of numbers; else they are dicts of strings."""
        return isinstance(self.X[0], np.ndarray)

    def development(self, thin: int = 1) -> Part:
        """Every fifth training sequence to judge by, the others to learn from, or every ``thin``-th of them."""
        learn, judge = (
            [i for i in range(len(self.X)) if (i % 5 == 0) == held_out] for held_out in (False, True)
        )
        learn = learn[::thin]
        picked = [[values[i] for i in chosen] for chosen in (learn, judge) for values in (self.X, self.y)]
        return Part(*picked, self.metric)

    def table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(E, d) features of all training and of all test elements, one by one; of strings the 254 most frequent have codes."""
        if self.has_pixels:
            return np.concatenate(self.X), np.concatenate(self.X_test)
        elements = [element for sentence in self.X for element in sentence]
        names = sorted(elements[0])
        codes = {
            name: {
                value: code
                for code, (value, _) in enumerate(Counter(e[name] for e in elements).most_common(254))
            }
            for name in names
        }

        def coded(sentences: Sentences) -> NDArray[np.float64]:
            rows = [[codes[n].get(e[n], 254) for n in names] for sentence in sentences for e in sentence]
            return np.array(rows, dtype=np.float64)

        return coded(self.X), coded(self.X_test)


def _words(path: Path, keep: Callable[[str], bool] = bool) -> list[list[list[str]]]:
    separator = "\t" if ".tsv" in path.name else None
    with lzma.open(path, "rt", encoding="utf-8") as file:
        sentences = [sentence.split("\n") for sentence in file.read().strip().split("\n\n")]
    return [[line.split(separator) for line in lines if keep(line)] for lines in sentences]


def _padded(values: list[str]) -> list[str]:
    return ["(2)", "(1)", *values, "(-1)", "(-2)"]


def chunk_features(sentence: list[list[str]]) -> list[dict[str, str]]:
    """Words and tags up to two places away, pairs of words, pairs and triples of tags: the usual template, 19 features."""
    word, tag = _padded([t[0] for t in sentence]), _padded([t[1] for t in sentence])
    out = []
    for i in range(2, len(sentence) + 2):
        element = {f"word[{k}]": word[i + k] for k in range(-2, 3)}
        element |= {f"tag[{k}]": tag[i + k] for k in range(-2, 3)}
        element |= {f"word[{k},{k + 1}]": f"{word[i + k]}|{word[i + k + 1]}" for k in (-1, 0)}
        element |= {f"tag[{k},{k + 1}]": f"{tag[i + k]}|{tag[i + k + 1]}" for k in range(-2, 2)}
        element |= {
            f"tag[{k},{k + 1},{k + 2}]": f"{tag[i + k]}|{tag[i + k + 1]}|{tag[i + k + 2]}"
            for k in range(-2, 1)
        }
        out.append(element)
    return out


def tag_features(sentence: list[list[str]]) -> list[dict[str, str]]:
    """The word, its beginning, end and shape, and the words around it: 17 features."""
    word = _padded([t[1] for t in sentence])
    out = []
    for i in range(2, len(sentence) + 2):
        here = word[i]
        element = {f"word[{k}]": word[i + k].lower() for k in range(-2, 3)}
        element |= {f"end{n}": here[-n:] for n in range(1, 5)}
        element |= {f"start{n}": here[:n] for n in range(1, 4)}
        element |= {f"end3[{k}]": word[i + k][-3:] for k in (-1, 1)}
        shape = "".join(
            "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in here
        )
        element |= {"shape": shape[:6], "first": str(i == 2), "case": f"{here[:1].isupper()}{here.isupper()}"}
        out.append(element)
    return out


def parts(data: Path) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Name of each part of the benchmark, and what loads it."""
    yield "conll2000", lambda: _conll(data / "conll2000")
    yield "ud-ewt", lambda: _ewt(data / "ud-ewt")
    for fold in range(10):
        for setting in ("small", "large"):
            yield f"letters {setting} {fold}", lambda s=setting, f=fold: _letters(data / "ocr-letters", s, f)


def development_parts(data: Path) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Name of each kind of sequences, and what loads those on which settings are chosen: none is of a test."""
    yield "letters", lambda: _letters(data / "ocr-letters", "small", 0).development()
    yield "ud-ewt", lambda: _ewt(data / "ud-ewt", "dev")
    yield "conll2000", lambda: _conll(data / "conll2000").development(thin=2)


def _conll(folder: Path) -> Part:
    train, test = (_words(folder / f"{name}.txt.xz") for name in ("train", "test"))
    X, X_test = ([chunk_features(s) for s in sentences] for sentences in (train, test))
    y, y_test = ([[t[2] for t in s] for s in sentences] for sentences in (train, test))
    return Part(X, y, X_test, y_test, "chunk_f1")


def _ewt(folder: Path, judged_on: str = "test") -> Part:
    train, test = (
        _words(folder / f"{name}.tsv.xz", lambda line: line[:1].isdigit()) for name in ("train", judged_on)
    )
    X, X_test = ([tag_features(s) for s in sentences] for sentences in (train, test))
    y, y_test = ([[t[3] for t in s] for s in sentences] for sentences in (train, test))
    return Part(X, y, X_test, y_test, "accuracy")


def _letters(folder: Path, setting: str, fold: int) -> Part:
    """One fold to learn from and nine to judge by ("small"), or the reverse."""
    stored = np.load(folder / "letters.npz")
    pixels = np.unpackbits(stored["pixels_packed"], axis=1).astype(np.float64)
    places = np.split(np.arange(len(pixels)), np.cumsum(stored["word_len"])[:-1])
    inside = stored["folds"] == np.unique(stored["folds"])[fold]
    train = inside if setting == "small" else ~inside
    X, y = ([values[place] for place in places] for values in (pixels, stored["labels"]))
    chosen = [
        [[v for v, t in zip(values, train, strict=True) if t == side] for values in (X, y)]
        for side in (True, False)
    ]
    return Part(*chosen[0], *chosen[1], "accuracy")
