"""Predictions of networks that need not have run: their layers and totals on a platform.

`predict_network` takes tables and an estimator; `run` takes the words of the command.
"""

from accelperf.predict.model import Model, find_model
from accelperf.predict.network import NetworkPrediction, predict_network
from accelperf.predict.request import Request, run
from accelperf.predict.rows import predict_rows

__all__ = [
    "Model",
    "NetworkPrediction",
    "Request",
    "find_model",
    "predict_network",
    "predict_rows",
    "run",
]
