"""What a network remembers of a row that is left out: folds started from all rows, or afresh.

Run ``python benchmarks/network_mean.py``; it takes about a minute. Rows are SIMULATED. The figures say
why every fold of ``gp_ann_mean`` trains its network from the common start.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from loo import ROWS, simulated_rows
from threadpoolctl import threadpool_limits

from accelperf.evaluation.splits import make_folds
from accelperf.models.gp_ann_mean import GpAnnMean
from accelperf.models.gp_ann_mean_settings import GpAnnMeanSettings
from accelperf.models.optimisers import adam

RATES = (1e-5, 1e-3, 1e-2)
EVERY = 4
"""One fold in so many is computed."""


def main() -> None:
    """Print the error of left-out rows by learning rate and starting point."""
    features = simulated_rows(ROWS)
    parameters, latency = features.parameters, features.latency_ms
    folds = make_folds(features, "loo")[::EVERY]
    print(f"{ROWS} SIMULATED rows, {len(folds)} of {ROWS} folds: MAE of the rows left out [ms]")
    print(
        f"{'learning rate':>14s}{'from all rows, 20 steps':>26s}{'from all rows, none':>22s}{'afresh':>10s}"
    )
    for rate in RATES:
        estimator = GpAnnMean(GpAnnMeanSettings(learning_rate=rate))
        settings, objective = estimator.settings, estimator._objective
        with threadpool_limits(1):
            rows = estimator.scale(parameters, latency)
            start = objective.start(settings.seed)
            loss = partial(objective, inputs=rows.inputs, targets=rows.targets)
            whole, _ = adam(loss, start, settings.steps, rate)
            errors = []
            for fold in folds:
                rows = estimator.scale(parameters[fold.train], latency[fold.train])
                loss = partial(objective, inputs=rows.inputs, targets=rows.targets)
                found = (
                    adam(loss, whole, 20, rate)[0],
                    whole,
                    adam(loss, start, settings.steps, rate)[0],
                )
                predictions = [
                    estimator.predictor(values, rows).predict_parameters(parameters[fold.test]).median_ms
                    for values in found
                ]
                errors.append([np.abs(one - latency[fold.test])[0] for one in predictions])
        mean = np.mean(errors, axis=0)
        print(f"{rate:14g}{mean[0]:26.4f}{mean[1]:22.4f}{mean[2]:10.4f}", flush=True)


if __name__ == "__main__":
    main()
