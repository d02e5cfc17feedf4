"""A chunker's curve: noun, verb and prepositional phrases, more accurate with every feature it buys.

Sentences come from a small grammar in which many words can be nouns or verbs, and some words are new in every text. Six
features of a word have prices, from its last letters to the output of a part-of-speech tagger that is right nine times in ten.
Run it: python docs/gallery/chunkers_curve.py [folder for the picture]
"""

import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import matplotlib.pyplot as plt
import numpy as np

import anytime as at

PRICES = {"ending": 1, "word": 1, "shape": 1, "word before": 2, "word after": 2, "tag": 6}
BOTH = ["plans", "saws", "ships", "ducks", "watches", "runs", "stores", "cooks"]  # nouns or verbs
WORDS = {
    "D": ["the", "a", "every", "her", "that"],
    "A": ["old", "green", "quiet", "running", "painted"],
    "N": ["dog", "river", "teacher", "window", *BOTH],
    "V": ["sees", "likes", "opens", *BOTH],
    "X": ["will", "can", "might"],
    "R": ["Anna", "Peter", "she", "that", "London"],
    "P": ["in", "near", "with", "after"],
    "B": ["often", "slowly", "never"],
    "C": ["and", ",", "but"],
}
SYLLABLES = ["ba", "dor", "kel", "mi", "nu", "ras", "tol", "vin"]


def phrase(kind, random):
    """Kinds of the words of one phrase."""
    if kind == "NP":
        if random.random() < 0.3:
            return ["R"]
        return [
            *["D"] * (random.random() < 0.7),
            *["A"] * random.choice([0, 0, 1, 2]),
            *["N"] * random.choice([1, 1, 2]),
        ]
    if kind == "VP":
        return [*["X"] * (random.random() < 0.3), *["B"] * (random.random() < 0.2), "V"]
    return ["P"]


def sentence(random):
    """Words, their kinds, and labels of chunks."""
    order = ["NP", "VP", *random.choice([[], ["NP"]])]
    for _ in range(random.choice([0, 1, 2])):
        order += ["PP", "NP"] if random.random() < 0.7 else ["O", "NP", "VP"]
    words, kinds, labels = [], [], []
    for chunk in order:
        new = ["C"] if chunk == "O" else phrase(chunk, random)
        kinds += new
        labels += ["O"] if chunk == "O" else [f"{'I' if i else 'B'}-{chunk}" for i in range(len(new))]
        for kind in new:
            if kind in "NVA" and random.random() < 0.25:  # a made-up word
                stem = "".join(random.choices(SYLLABLES, k=2))
                words.append(
                    stem + {"N": random.choice(["", "s"]), "V": "s", "A": random.choice(["y", "ing"])}[kind]
                )
            else:
                words.append(random.choice(WORDS[kind]))
    return words, kinds, labels


def text(n, seed):
    """Features of the words of ``n`` sentences, labels of their chunks, and the words themselves."""
    random = Random(seed)
    X, y, sentences = [], [], []
    for _ in range(n):
        words, kinds, labels = sentence(random)
        around = ["(start)", *words, "(end)"]
        tags = [kind if random.random() < 0.9 else random.choice("DANVXRPBC") for kind in kinds]
        X.append(
            [
                {
                    "ending": word[-2:],
                    "word": word,
                    "shape": "Xx" if word[0].isupper() else "x" if word.isalpha() else ".",
                    "word before": around[i],
                    "word after": around[i + 2],
                    "tag": tags[i],
                }
                for i, word in enumerate(words)
            ]
        )
        y.append(labels)
        sentences.append(words)
    return X, y, sentences


X, y, _ = text(600, seed=0)
X_new, y_new, sentences = text(600, seed=1)
model = at.SequenceLabeler(costs=PRICES, context=2, random_state=0).fit(X, y)
alone = at.SequenceLabeler(costs=PRICES, context=0, random_state=0).fit(X, y)
curves = {
    "told of its neighbours": at.curve(model, X_new, y_new, metric="chunk_f1"),
    "each word for itself": at.curve(alone, X_new, y_new, metric="chunk_f1"),
}
for name, curve in curves.items():
    print(f"{name:23s}", "  ".join(f"F1 {curve.at(b):.3f} for {b}" for b in (1, 3, 6, 9, 13)))
print("bought:", ", ".join(model.order_))

# One sentence at each stage: a short one whose labels change often and end correct.
answers = [answer for answer in model.stages(X_new) if answer.stage > 0]
said = [answer.prediction for answer in answers]
changes = [sum((a[i] != b[i]).sum() for a, b in pairwise(said)) for i in range(len(y_new))]
good = [np.array_equal(said[-1][i], y_new[i]) and "B-PP" in y_new[i] for i in range(len(y_new))]
short = [len(labels) <= 10 for labels in y_new]
shown = int(np.argmax(np.where(np.logical_and(good, short), changes, -1)))

COLOURS = {"NP": "C0", "VP": "C1", "PP": "C2"}
figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 6), height_ratios=[3, 2], layout="constrained")
for name, curve in curves.items():
    upper.step(curve.costs, curve.values, where="post", label=name)
upper.set(
    xlabel="paid per word", ylabel="F1 of chunks", title="A chunker's curve", xlim=(0, 13.5), ylim=(0.5, 1)
)
upper.legend()
rows = [*[labels[shown] for labels in said], y_new[shown]]
for row, labels in enumerate(rows):
    for i, label in enumerate(labels):
        begins = label.startswith("B") or label == "O"
        lower.barh(
            row, 1 - 0.06 * begins, left=i + 0.06 * begins, color=COLOURS.get(label[2:], "0.85"), height=0.8
        )
costs = [f"{answer.cost[shown]:.0f} paid" for answer in answers]
lower.set(yticks=range(len(rows)), yticklabels=[*costs, "truth"], xlim=(0, len(rows[0])))
lower.set_xticks(np.arange(len(rows[0])) + 0.5, sentences[shown])
lower.tick_params(length=0)
lower.invert_yaxis()
for kind, colour in COLOURS.items():
    lower.bar(0, 0, color=colour, label=kind)
lower.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "chunkers_curve.png", dpi=120)
