"""The file that MLflow runs to load the model: code instead of a pickled object."""

from mlflow.models import set_model

from accelperf.serving import LatencyModel

set_model(LatencyModel())
