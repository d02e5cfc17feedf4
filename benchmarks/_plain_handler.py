"""The rival of the serving bars: a LightGBM model behind FastAPI as most people would write it.

    PLAIN_MODEL=model.txt uvicorn --factory --app-dir benchmarks _plain_handler:app --port 8001 --no-access-log

The handler is a coroutine, so that no thread is involved, and LightGBM predicts on one thread: both are the quicker way here.
"""

from __future__ import annotations

import os

import lightgbm as lgb
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel


class Body(BaseModel):
    """Rows of numbers."""

    rows: list[list[float]]


def app() -> FastAPI:
    booster = lgb.Booster(model_file=os.environ["PLAIN_MODEL"])
    api = FastAPI()

    @api.post("/predict")
    async def predict(body: Body) -> dict[str, list[int]]:
        chances = booster.predict(np.array(body.rows), num_threads=1)
        decided = chances.argmax(axis=1) if chances.ndim == 2 else (chances > 0.5).astype(int)
        return {"predictions": decided.tolist()}

    return api
