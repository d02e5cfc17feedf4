"""Ask each patient only for what is needed.

Heart disease with the prices of the Ontario Health Insurance Program, as in heart_tests.py, where all patients get the tests in
one order. Here a linear classifier orders, for each patient, the test that classifies most similar patients correctly, and
stops when enough of them are. Ten folds. Run it: python docs/gallery/one_patient_at_a_time.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold

import anytime as at

X, y, costs = at.datasets.load("heart")
confidences = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
right = {confidence: np.zeros(len(y), dtype=bool) for confidence in confidences}
paid = {confidence: np.zeros(len(y)) for confidence in confidences}
orders: list[list[str]] = [[] for _ in y]
for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y):
    for confidence in confidences:  # confidence at which no more tests are ordered
        model = at.MarginAcquisitionClassifier(costs=costs, confidence=confidence, random_state=0)
        model.fit(X[train], y[train])
        right[confidence][test] = model.predict(X[test]) == y[test]
        paid[confidence][test] = model.cost(X[test])
        if confidence == 0.8:
            trace = model.trace(X[test])
            for row, patient in enumerate(test):
                orders[patient] = trace.order(row)

for confidence in confidences:
    mean = paid[confidence].mean()
    print(
        f"stop at {confidence:4.0%}: {mean:6.1f} {costs.unit} a patient, {right[confidence].mean():.3f} right"
    )
spent = paid[0.8]
cheap, dear = int(spent.argmin()), int(spent.argmax())
for patient in (cheap, dear):
    print(f"patient {patient}: {spent[patient]:.2f} {costs.unit} for {', '.join(orders[patient])}")

figure, (left, lower) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot([paid[c].mean() for c in confidences], [right[c].mean() for c in confidences], "o-", color="C0")
for confidence in (0.6, 0.75, 0.8, 0.9):
    place = (paid[confidence].mean(), right[confidence].mean())
    left.annotate(f"stop at {confidence:.0%}", place, xytext=(5, -12), textcoords="offset points", size=8)
left.margins(0.1)
left.set(
    xlabel=f"mean cost per patient ({costs.unit})",
    ylabel="share of right diagnoses",
    title="More tests, more right diagnoses",
)
lower.hist([spent[right[0.8]], spent[~right[0.8]]], bins=20, stacked=True, label=["right", "wrong"])
lower.axvline(spent.mean(), color="black", lw=0.8, ls=":")
lower.set(xlabel=f"paid ({costs.unit})", ylabel="patients", title="What each patient pays, stopping at 80 %")
lower.legend()
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "one_patient_at_a_time.png", dpi=120)
