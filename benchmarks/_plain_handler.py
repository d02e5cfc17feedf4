"""The rival of the serving bars: a LightGBM model behind FastAPI as most people would write it.

    python benchmarks/_plain_handler.py model.txt 8001

The handler is a coroutine, so that no thread is involved, and LightGBM predicts on one thread: both are the quicker way here.
"""

from __future__ import annotations

import sys

import lightgbm as lgb
import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Body(BaseModel):
    """Rows of numbers."""

    rows: list[list[float]]


def main() -> None:
    booster = lgb.Booster(model_file=sys.argv[1])

    @app.post("/predict")
    async def predict(body: Body) -> dict[str, list[int]]:
        chances = booster.predict(np.array(body.rows), num_threads=1)
        decided = chances.argmax(axis=1) if chances.ndim == 2 else (chances > 0.5).astype(int)
        return {"predictions": decided.tolist()}

    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
