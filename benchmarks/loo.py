"""Leave-one-out at the speed it could have: plain loops against the engines, in one run.

Run ``python benchmarks/loo.py``; it takes some ten minutes, nearly all of them in the plain loops.
All rows are SIMULATED. Ratios within one run say more than seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix, network_features
from accelperf.models.ann import Ann
from accelperf.models.ann_settings import AnnSettings
from accelperf.models.base import Fold, Prediction
from accelperf.models.gp import GaussianProcess, _build_part
from accelperf.models.gp_folds import FoldRefits, Rows, TrainingRows
from accelperf.models.gp_settings import GaussianProcessSettings
from accelperf.models.perceptron import parse_layers
from accelperf.models.predictors import Standardiser
from accelperf.networks import read_network
from accelperf.platforms import read_platform
from accelperf.simulate.profile import simulate_profile

DATA = Path(__file__).parents[1] / "data"
ROWS = 156
"""Rows of the paper's private data set."""
GROWTH = (156, 400, 1000)
TARGET = 20.0
"""How many times faster than the plain loop the engines are meant to be."""

SAME_OPTIMUM = 0.1
"""Difference of two losses that are of one optimum [nats]."""

Floats = NDArray[np.float64]
Timed = tuple[list[Prediction], float]


def simulated_rows(rows: int, seed: int = 0) -> FeatureMatrix:
    """Return a seeded sample of SIMULATED layers of three networks on as many platforms as it takes."""
    base = read_platform(DATA / "platforms/sim-table4.yaml")
    tables: list[pd.DataFrame] = []
    number = 0
    while sum(len(table) for table in tables) < rows:
        changes = {
            "name": f"sim-{number}",
            "filter_parallelism": 64 >> (number // 3 % 3),
            "channel_parallelism": 64 >> (number % 3),
            "logic_clock_mhz": 200.0 + 25.0 * (number % 4),
        }
        platform = base.model_copy(update=changes)
        for path in sorted((DATA / "networks").glob("*.csv")):
            network = read_network(path)
            profile = simulate_profile(network, platform, 0.7, seed=seed)
            table = network_features(path.stem, network, platform).table
            tables.append(table.assign(latency_ms=profile["latency_ms"].to_numpy(), origin="simulated"))
        number += 1
    everything = pd.concat(tables, ignore_index=True)
    chosen = np.sort(np.random.default_rng(seed).choice(len(everything), rows, replace=False))
    return FeatureMatrix(everything).take(chosen)


def plain_process(
    settings: GaussianProcessSettings, rows: Rows, folds: Sequence[Fold]
) -> tuple[list[Prediction], float, Floats]:
    """Return predictions, seconds, and each fold's loss [nats] of a new GPflow model for each fold.

    Its objective is the engine's, priors and noise floor included; it starts where GPflow does.
    """
    import gpflow

    predictions, losses = [], []
    begin = time.perf_counter()
    for fold in folds:
        training = TrainingRows.of(rows, fold.train)
        kernel = _build_part(settings.kernel, rows.parameters.shape[1], settings.ard)
        kernel.lengthscales.assign(np.ones_like(kernel.lengthscales.numpy()))
        likelihood = gpflow.likelihoods.Gaussian(variance=1.0, variance_lower_bound=settings.noise_floor**2)
        data = (training.inputs, training.residuals[:, None])
        model = gpflow.models.GPR(data, kernel, likelihood=likelihood)
        result = gpflow.optimizers.Scipy().minimize(
            model.training_loss, model.trainable_variables, options={"maxiter": settings.steps}
        )
        losses.append(float(result.fun))
        mean, variance = model.predict_y(training.standardiser(rows.parameters[fold.test]))
        predictions.append(
            Prediction.normal(
                rows.mean_ms[fold.test] + training.residual_scale * mean.numpy()[:, 0],
                training.residual_scale * np.sqrt(variance.numpy()[:, 0]),
            )
        )
    return predictions, time.perf_counter() - begin, np.array(losses)


def plain_networks(settings: AnnSettings, features: FeatureMatrix, folds: Sequence[Fold]) -> Timed:
    """Return predictions and seconds of a new Keras model for each fold."""
    import tf_keras

    parameters, latency = features.parameters, features.latency_ms
    predictions = []
    begin = time.perf_counter()
    for fold in folds:
        standardiser = Standardiser.fit(parameters[fold.train])
        centre, scale = latency[fold.train].mean(), latency[fold.train].std()
        *hidden, last = parse_layers(settings.layers)
        penalty = tf_keras.regularizers.L2(settings.l2)
        model = tf_keras.Sequential(
            [
                *(
                    tf_keras.layers.Dense(width, settings.activation, kernel_regularizer=penalty)
                    for width in hidden
                ),
                tf_keras.layers.Dense(last, kernel_regularizer=penalty),
            ]
        )
        model.compile(tf_keras.optimizers.Adam(learning_rate=settings.learning_rate), "mse")
        model.fit(
            standardiser(parameters[fold.train]),
            (latency[fold.train] - centre) / scale,
            batch_size=settings.batch_size,
            epochs=settings.epochs,
            verbose=0,
        )
        output = model(standardiser(parameters[fold.test])).numpy()[:, 0].astype(np.float64)
        predictions.append(Prediction(centre + scale * output))
    return predictions, time.perf_counter() - begin


def mean_error(features: FeatureMatrix, folds: Sequence[Fold], predictions: Sequence[Prediction]) -> float:
    """Return the mean absolute error of the left-out rows [ms]."""
    latency = features.latency_ms
    errors = [
        np.abs(one.median_ms - latency[fold.test]) for fold, one in zip(folds, predictions, strict=True)
    ]
    return float(np.mean(np.concatenate(errors)))


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and the seconds that it took."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def compare_processes(features: FeatureMatrix, plain_folds: int) -> None:
    """Print the Gaussian process engine against a loop over GPflow models."""
    settings = GaussianProcessSettings(mean="paper")
    folds = make_folds(features, "loo")
    estimator = GaussianProcess(settings)
    ours, seconds = timed(lambda: estimator.predict_folds(features, folds))
    _, warm = timed(lambda: estimator.predict_folds(features, folds))
    rows, chosen = estimator._rows(features), folds[:plain_folds]
    plain, plain_seconds, plain_losses = plain_process(settings, rows, chosen)
    whole = plain_seconds * len(folds) / len(chosen)

    refits = FoldRefits.prepare(estimator._closed_form, rows, estimator._fit_full(features).values)
    losses = np.array([refits.closed_form.loss(*refits.fit(fold)) for fold in chosen])
    ours = ours[: len(chosen)]
    note = "" if len(chosen) == len(folds) else f", extrapolated from {len(chosen)} folds"
    print(f"\nGaussian process ({settings.kernel}, one lengthscale a column, mean {settings.mean})")
    print(f"{'':34s}{'seconds':>10s}{'sum of NLL':>14s}{'LOO MAE ms':>14s}")
    for name, value, loss, predictions in (
        (f"plain loop over GPflow models{note}", whole, plain_losses, plain),
        ("engine, fit to all rows included", seconds, losses, ours),
        ("engine, folds alone", warm, losses, ours),
    ):
        error = mean_error(features, chosen, predictions)
        print(f"{name:34s}{value:10.1f}{loss.sum():14.2f}{error:14.5f}")
    for name, behind in (("plain loop", plain_losses - losses), ("engine", losses - plain_losses)):
        print(f"{np.sum(behind > SAME_OPTIMUM)} folds in which the {name} ended in a worse optimum")
    same = np.flatnonzero(np.abs(plain_losses - losses) <= SAME_OPTIMUM)
    if len(same):
        both = [
            mean_error(features, [chosen[fold] for fold in same], [parts[fold] for fold in same])
            for parts in (plain, ours)
        ]
        print(f"LOO MAE over the {len(same)} others: {both[0]:.5f} and {both[1]:.5f} ms")
    verdict(whole / seconds)


def compare_networks(features: FeatureMatrix, plain_folds: int, epochs: int) -> None:
    """Print networks in lockstep against a loop over Keras models."""
    settings = AnnSettings(epochs=epochs)
    folds = make_folds(features, "loo")
    ours, seconds = timed(lambda: Ann(settings).predict_folds(features, folds))
    chosen = folds[:plain_folds]
    plain, plain_seconds = plain_networks(settings, features, chosen)
    whole = plain_seconds * len(folds) / len(chosen)
    note = "" if len(chosen) == len(folds) else f", extrapolated from {len(chosen)} folds"
    print(f"\nneural network ({settings.layers}, {settings.activation}, {epochs} epochs)")
    print(f"{'':34s}{'seconds':>10s}{'':14s}{'LOO MAE ms':>14s}")
    for name, value, error, remark in (
        ("a Keras model and fit a fold", whole, mean_error(features, chosen, plain), note),
        ("all folds in lockstep", seconds, mean_error(features, folds, ours), ", compilation included"),
    ):
        print(f"{name:34s}{value:10.1f}{'':14s}{error:14.5f}{remark}")
    verdict(whole / seconds)


def verdict(ratio: float) -> None:
    """Print a ratio and whether it reaches the target."""
    print(f"{ratio:.0f} times faster (target {TARGET:.0f}: {'met' if ratio >= TARGET else 'MISSED'})")


def show_growth(epochs: int) -> None:
    """Print how the time of a whole leave-one-out grows with the number of rows."""
    print(f"\nseconds of leave-one-out by number of rows (network: {epochs} epochs)")
    print(f"{'rows':>6s}{'GP, all rows':>14s}{'GP, folds':>12s}{'network':>10s}")
    for rows in GROWTH:
        features = simulated_rows(rows)
        folds = make_folds(features, "loo")
        process = GaussianProcess(GaussianProcessSettings(mean="paper"))
        network = Ann(AnnSettings(epochs=epochs))
        seconds = [
            timed(partial(process.fit, features))[1],
            timed(partial(process.predict_folds, features, folds))[1],
            timed(partial(network.predict_folds, features, folds))[1],
        ]
        print(f"{rows:6d}{seconds[0]:14.1f}{seconds[1]:12.1f}{seconds[2]:10.1f}", flush=True)


def main() -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plain-folds", type=int, default=ROWS, help="folds of the plain loops (all)")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of the networks (20)")
    parser.add_argument("--no-growth", action="store_true", help="leave out 400 and 1000 rows")
    options = parser.parse_args()
    features = simulated_rows(ROWS)
    print(f"{len(features)} SIMULATED rows, {features.parameters.shape[1]} parameters, {ROWS} folds")
    compare_processes(features, options.plain_folds)
    compare_networks(features, options.plain_folds, options.epochs)
    if not options.no_growth:
        show_growth(options.epochs)


if __name__ == "__main__":
    main()
