"""One row through an exported model: C header and ONNX Runtime beside ``predict_one`` and LightGBM, one thread.

500 trees x 31 leaves, imported from LightGBM. The C header is called for ten rows at a time, so that little of a call from Python
is in it. Sizes, compile time and the largest difference of answers stand beside.
"""

from __future__ import annotations

import copy
import ctypes
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import anytime as at
from common import in_turns, lightgbm_model, median, write

_LOOP = """
#include "model.h"

static int never(void *arg) {
  (void)arg;
  return 0;
}

void straight(const double *X, int n, double *out) {
  int i;
  for (i = 0; i < n; ++i) model_predict(X + i * MODEL_N_COLUMNS, out + i * MODEL_N_VALUES, NULL, NULL);
}

void asked(const double *X, int n, double *out) {
  int i;
  for (i = 0; i < n; ++i) model_predict(X + i * MODEL_N_COLUMNS, out + i * MODEL_N_VALUES, never, NULL);
}
"""


def compiled(model: Any, folder: Path) -> tuple[ctypes.CDLL, dict[str, float]]:
    """The header as a library, and what it took."""
    began = time.perf_counter()
    text = model.to_c(folder / "model.h")
    written = time.perf_counter() - began
    (folder / "loop.c").write_text(_LOOP)
    began = time.perf_counter()
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, folder / "loop.c", "-o", folder / "loop.so", "-lm"], check=True)
    figures = {
        "kB": round(len(text) / 1e3),
        "seconds_to_write": round(written, 2),
        "seconds_to_compile": round(time.perf_counter() - began, 2),
    }
    return ctypes.CDLL(str(folder / "loop.so")), figures


def session_of(proto: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def main() -> None:
    booster, X = lightgbm_model(n_leaves=31)
    model = at.make_anytime(booster, meter="model")
    rows = np.ascontiguousarray(X[:1000])
    expected = model.predict_proba(rows)
    with tempfile.TemporaryDirectory() as folder:
        library, header = compiled(model, Path(folder))
    out = np.empty((1000, 2))
    places = [array.ctypes.data_as(ctypes.c_void_p) for array in (rows, out)]

    began = time.perf_counter()
    proto = model.to_onnx()
    written = time.perf_counter() - began
    session = session_of(proto)
    staged, budgets = copy.copy(model), [50.0, 200.0, None]  # of these the first two buy as many trees
    staged.plan_ = replace(
        model.plan_,
        costs=at.FeatureCosts(np.zeros(model.n_features_in_)).bind(model.n_features_in_),
        expected_costs=None,
        evaluation_costs=np.ones(model.n_stages_),
    )
    several = session_of(staged.to_onnx(budgets=budgets))
    no_more = onnxruntime.RunOptions()
    no_more.add_run_config_entry("only_execute_path_to_fetches", "1")

    turn = iter(range(10**9))
    ones = [rows[i : i + 1] for i in range(1000)]
    separate = [row.copy() for row in rows]
    one = in_turns(
        {
            "lightgbm_predict": lambda: booster.predict(ones[next(turn) % 1000], num_threads=1),
            "predict_one": lambda: model.predict_one(separate[next(turn) % 1000]),
            "onnx_runtime": lambda: session.run(["probability"], {"X": ones[next(turn) % 1000]}),
            "onnx_runtime_50_200_and_500_trees": lambda: several.run(None, {"X": ones[next(turn) % 1000]}),
            "onnx_runtime_50_trees_of_these": lambda: several.run(
                ["probability_50"], {"X": ones[next(turn) % 1000]}, no_more
            ),
            "c_header": lambda: library.straight(places[0], 10, places[1]),
            "c_header_asked_to_stop_after_every_tree": lambda: library.asked(places[0], 10, places[1]),
        },
        repeats=400,
        inner=10,
    )
    for name in [name for name in one if name.startswith("c_header")]:
        one[name] = [seconds / 10 for seconds in one[name]]  # ten rows a call
    library.straight(places[0], 1000, places[1])
    (chances,) = session.run(["probability"], {"X": rows})
    write(
        "export_speed",
        {
            "one_row_microseconds": {name: round(1e6 * median(times), 1) for name, times in one.items()},
            "one_row_microseconds_best": {name: round(1e6 * min(times), 1) for name, times in one.items()},
            "c_header": header,
            "onnx": {
                "kB": round(len(proto.SerializeToString()) / 1e3),
                "seconds_to_write": round(written, 2),
                "onnxruntime": onnxruntime.__version__,
            },
            "largest_difference_of_probabilities": {
                "c_header": float(np.abs(out - expected).max()),
                "onnx_runtime": float(np.abs(chances - expected).max()),
            },
        },
    )


if __name__ == "__main__":
    main()
