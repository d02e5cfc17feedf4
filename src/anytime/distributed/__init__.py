"""The same fits and predictions on a Ray cluster, with the same bits: ``pip install "anytime[ray]"``.

    import anytime as at

    with at.distributed.cluster(workers=4):
        model.fit(X, y)                          # arrays and tables in memory
        model.fit("rows/", "label")              # a folder of Parquet files, or a list of them
        model.fit(ray_dataset, "label")          # a ray.data.Dataset
        at.distributed.predict(model, "rows/", "answers/", budget=40)
        at.distributed.serve({"cells": "cells.anytime"}, workers=2, slo=0.02)

Rows are shared out among workers, which grow every tree together (`anytime.trees.growing`, ``peers``). What decides is summed in
whole numbers, so that the file of a model says nothing about how many workers made it, nor whether any of them died meanwhile.
"""

from typing import Any

from anytime.distributed.cluster import Cluster, cluster
from anytime.distributed.crew import WorkersLostError
from anytime.distributed.prediction import WrittenPredictions, predict
from anytime.distributed.streams import Streams


def __getattr__(name: str) -> Any:
    if name == "serve":  # the packages of `anytime[serve]` are for those who serve
        from anytime.distributed.serving import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Cluster", "Streams", "WorkersLostError", "WrittenPredictions", "cluster", "predict", "serve"]
