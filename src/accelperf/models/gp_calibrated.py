"""Gaussian process around a calibrated roofline: ``gp_calibrated``.

Three steps, each on distinct layers (repeats of a layer are averaged, and tell the noise):

1. the roofline's rates, overheads and structure (`accelperf.models.roofline_fit`);
2. the residual process (`accelperf.models.residual_process`) on log(latency / roofline);
3. the intervals: shapes, then accelerators, are left out in turn, the roofline is refitted, and the
   factor is found by which 95 % of the left-out layers fall inside (grouped split conformal
   prediction; Vovk et al., *Algorithmic Learning in a Random World*, 2005).

All of it is NumPy and SciPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from threadpoolctl import threadpool_limits

from accelperf.errors import print_warning
from accelperf.features import FeatureMatrix
from accelperf.models.base import NORMAL_95, Estimator, FitError, Fold, Prediction, Progress
from accelperf.models.calibrated_layers import NOISE_PRIOR, MeasuredLayers, MeasuredRows
from accelperf.models.calibrated_predictor import (
    CalibratedPredictor,
    Inflation,
    Noise,
    datasheets,
    process_inputs,
)
from accelperf.models.gp_calibrated_settings import GpCalibratedSettings
from accelperf.models.parallel import Workers, map_folds
from accelperf.models.predictors import Standardiser
from accelperf.models.residual_process import (
    ProcessRows,
    ResidualCovariance,
    expected_tails,
    fit_hyperparameters,
    inverse_of,
    prior_medians,
    tail_factors,
)
from accelperf.models.roofline import OVERHEADS, TERMS, Floats
from accelperf.models.roofline_fit import RooflineCalibration, RooflineFit
from accelperf.models.roofline_mean import LEAST_SHAPES, calibrate, calibration
from accelperf.yaml_input import StrictModel

ESTIMATOR = "gp_calibrated"
"""Who asks, in messages."""
NOISE_PRIOR_WEIGHT = 2.0
"""Number of repeats that the prior of the noise is worth."""
MOST_GROUPS = 60
"""Shapes left out one at a time for the intervals; of more, several are left out together."""
GROUPED_INTO = 20
PROCESS_ROWS = 20_000
"""Number of rows, of all folds together, from which on processes are worth their start."""
THREADED_LAYERS = 1000
"""Number of layers from which on linear algebra uses all cores."""
TAIL_ROUNDS = 3
"""Rounds of hyperparameters and tails; the third changes little."""
UNKNOWN_FACTOR = 3.0
"""Factor of the intervals where nothing can be left out to find it."""
SCORE = 0.95
"""Coverage for which the intervals are calibrated."""
ENOUGH_SCORES = 20
"""Scores of which the largest but none is the 95 % quantile; of fewer, even the largest is too small."""
LEAST_FACTOR = 1.0
"""Intervals of new shapes are never narrowed: the layers left out may have been lucky ones."""
OTHER_COMPUTE, OTHER_MEMORY = 0.03, 0.5
"""Standard deviations of the log rates of another accelerator around those of the only one measured:
logic runs at its clock, while memories reach anything from a fifth of their peak to nearly all of it.
Where two or more were measured, leaving them out in turn tells."""
LEAST_ACCELERATOR_FACTOR = 0.5
"""Those of new accelerators may be: they include the broad prior of every rate that no layer was bound
by, which is more than most layers need."""


@dataclass(frozen=True)
class _Optimum:
    """What a fit starts from: that of all rows.

    Attributes
    ----------
    roofline : RooflineFit
        The roofline.
    hyperparameters : array
        Of the residual process.
    without : dict of str to array
        Parameters of the roofline without each group that the intervals left out, by its name.
    """

    roofline: RooflineFit
    hyperparameters: Floats
    without: Mapping[str, Floats]


@dataclass(frozen=True)
class _FullFit:
    """The fit to all rows, kept so that folds need not repeat it."""

    features: FeatureMatrix
    rows: MeasuredRows
    optimum: _Optimum
    predictor: CalibratedPredictor


class GpCalibrated(Estimator):
    """A Gaussian process on log(latency / calibrated roofline).

    Parameters
    ----------
    settings : GpCalibratedSettings
        Hyperparameters.
    """

    Settings: ClassVar[type[StrictModel]] = GpCalibratedSettings
    settings: GpCalibratedSettings

    def __init__(self, settings: GpCalibratedSettings) -> None:
        super().__init__(settings)
        self._calibration = calibration(settings)
        self._full: _FullFit | None = None

    def fit(self, features: FeatureMatrix) -> CalibratedPredictor:
        """Fit roofline, residual process and intervals to all rows.

        Raises
        ------
        FitError
            If there are fewer than two distinct shapes: nothing could tell what layers have in common.
        """
        return self._fit_full(features).predictor

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions, everything refitted from the optimum of all rows.

        The left-out rows lend that starting point and nothing else: structure, rates,
        hyperparameters and intervals of a fold know its training rows alone.
        """
        full = self._fit_full(features)
        # A fresh estimator, without the full fit: it may go to another process.
        predict = partial(GpCalibrated(self.settings)._predict_fold, full.rows, full.optimum)
        workers: Workers = "processes" if len(folds) * len(features) >= PROCESS_ROWS else "threads"
        predictions = []
        # The matrices are small: threads of their own would wait for each other, not help.
        with threadpool_limits(1):
            for done, prediction in enumerate(map_folds(predict, folds, workers), start=1):
                predictions.append(prediction)
                if progress is not None:
                    progress(done, len(folds))
        return predictions

    def _predict_fold(self, rows: MeasuredRows, optimum: _Optimum, fold: Fold) -> Prediction:
        _, predictor = self._fit(MeasuredLayers.of(rows, fold.train), optimum)
        return predictor.predict_layers(rows.layers.take(fold.test))

    def _fit_full(self, features: FeatureMatrix) -> _FullFit:
        if self._full is None or self._full.features is not features:
            rows = MeasuredRows.of(features)
            measured = MeasuredLayers.of(rows, np.arange(len(features)))
            if len(measured) > self.settings.max_exact_layers:
                print_warning(
                    f"{len(measured)} distinct layers are above max_exact_layers "
                    f"({self.settings.max_exact_layers}): sparse process with "
                    f"{self.settings.inducing_layers} of them"
                )
            with threadpool_limits(1 if len(measured) < THREADED_LAYERS else None):
                optimum, predictor = self._fit(measured, None)
            predictor = replace(predictor, datasheets=datasheets(features))
            self._full = _FullFit(features, rows, optimum, predictor)
        return self._full

    def _fit(self, measured: MeasuredLayers, start: _Optimum | None) -> tuple[_Optimum, CalibratedPredictor]:
        settings = self.settings
        roofline = calibrate(
            self._calibration, measured, ESTIMATOR, start=None if start is None else start.roofline
        )
        sample = measured
        if len(measured) > settings.fit_layers:
            generator = np.random.default_rng(settings.seed)
            chosen = generator.choice(len(measured), settings.fit_layers, replace=False)
            sample = measured.take(np.sort(chosen))
        calibrated = sample.calibrated(roofline)
        standardiser = Standardiser.fit(process_inputs(sample.layers.inputs, calibrated))
        noise = repeat_noise(sample.squares, sample.counts, calibrated.memory_share, settings.noise_floor)
        values, sample = self._fit_process(sample, roofline, standardiser, noise, start)
        conditioner = _Conditioner(
            settings=settings,
            calibration=self._calibration,
            standardiser=standardiser,
            covariance=ResidualCovariance.from_values(values, roofline.covariance),
            noise=noise,
        )
        if len(measured) > settings.max_exact_layers:
            predictor = conditioner.sparse_predictor(measured, roofline)
        elif len(measured) > len(sample):
            predictor = conditioner.predictor(conditioner.with_tails(measured, roofline), roofline)
        else:
            predictor = conditioner.predictor(sample, roofline)
        without: dict[str, Floats] = {} if start is None else dict(start.without)
        if settings.intervals:
            predictor = replace(predictor, inflation=conditioner.inflation(sample, roofline, without))
        if len(predictor.accelerators) == 1:
            sigma = [OTHER_COMPUTE, *[OTHER_MEMORY] * (len(TERMS) - 1), *[OTHER_MEMORY] * len(OVERHEADS)]
            predictor = replace(predictor, accelerator_sigma=np.array(sigma))
        return _Optimum(roofline, values, without), predictor

    def _fit_process(
        self,
        measured: MeasuredLayers,
        roofline: RooflineFit,
        standardiser: Standardiser,
        noise: Noise,
        start: _Optimum | None,
    ) -> tuple[Floats, MeasuredLayers]:
        """Return the hyperparameters, and the layers with their tails."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, standardiser)
        residuals = measured.log_ms - calibrated.log_ms
        variance = measured.noise_variance(noise, rows.memory_share)
        values = prior_medians() if start is None else start.hyperparameters
        steps = self.settings.steps if start is None else self.settings.fold_steps
        ordinary = ResidualCovariance.from_values(prior_medians(), roofline.covariance).own(rows)
        tails = expected_tails((residuals / ordinary) ** 2)
        for _ in range(TAIL_ROUNDS):
            rows = replace(rows, tails=tails)
            values = fit_hyperparameters(
                rows, residuals, variance, roofline.covariance, start=values, steps=steps
            )
            covariance = ResidualCovariance.from_values(values, roofline.covariance)
            weights, precision = exact_posterior(covariance, rows, residuals, variance)
            tails = tail_factors(covariance, rows, weights, precision)
        return values, replace(measured, tails=tails)


@dataclass(frozen=True)
class _Group:
    """Layers that are left out together.

    Attributes
    ----------
    name : str
        What they are.
    left_out : array of bool, shape [layers]
        Which ones.
    counts : array of shape [layers]
        How often each is tested; 0 for one that only goes with the others.
    """

    name: str
    left_out: NDArray[np.bool_]
    counts: Floats


@dataclass(frozen=True)
class _Conditioner:
    """Conditions a residual process of given hyperparameters on layers."""

    settings: GpCalibratedSettings
    calibration: RooflineCalibration
    standardiser: Standardiser
    covariance: ResidualCovariance
    noise: Noise

    def predictor(self, measured: MeasuredLayers, roofline: RooflineFit) -> CalibratedPredictor:
        """Return the predictor that knows these layers."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, self.standardiser)
        covariance = replace(self.covariance, rate_covariance=roofline.covariance)
        noise = measured.noise_variance(self.noise, rows.memory_share)
        posterior = exact_posterior(covariance, rows, measured.log_ms - calibrated.log_ms, noise)
        return self._predictor(measured, roofline, covariance, rows, posterior)

    def with_tails(self, measured: MeasuredLayers, roofline: RooflineFit) -> MeasuredLayers:
        """Return layers with the tails that these hyperparameters suggest."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, self.standardiser)
        residuals = measured.log_ms - calibrated.log_ms
        noise = measured.noise_variance(self.noise, rows.memory_share)
        tails = expected_tails(residuals**2 / self.covariance.own(rows) ** 2)
        for _ in range(TAIL_ROUNDS):
            rows = replace(rows, tails=tails)
            posterior = exact_posterior(self.covariance, rows, residuals, noise)
            tails = tail_factors(self.covariance, rows, *posterior)
        return replace(measured, tails=tails)

    def sparse_predictor(self, measured: MeasuredLayers, roofline: RooflineFit) -> CalibratedPredictor:
        """Return the predictor that knows these layers through a few inducing ones."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, self.standardiser)
        residuals = measured.log_ms - calibrated.log_ms
        noise = measured.noise_variance(self.noise, rows.memory_share)
        support = inducing_rows(rows, self.settings.inducing_layers, self.settings.seed)
        ordinary = self.covariance.own(rows) ** 2
        tails = expected_tails(residuals**2 / ordinary)
        for _ in range(TAIL_ROUNDS):
            posterior = sparse_posterior(self.covariance, rows, support, residuals, noise + ordinary * tails)
            left = residuals - self.covariance(rows, support) @ posterior[0]
            tails = expected_tails(left**2 / ordinary)
        return self._predictor(measured, roofline, self.covariance, support, posterior)

    def _predictor(
        self,
        measured: MeasuredLayers,
        roofline: RooflineFit,
        covariance: ResidualCovariance,
        support: ProcessRows,
        posterior: tuple[Floats, Floats],
    ) -> CalibratedPredictor:
        weights, precision = posterior
        if not self.settings.residual_process:
            # What does not correct the roofline must not make it surer of itself either.
            weights, precision = np.zeros_like(weights), np.zeros_like(precision)
        return CalibratedPredictor(
            structure=roofline.structure,
            parameters=roofline.parameters,
            sharpness=roofline.sharpness,
            pull=roofline.pull,
            standardiser=self.standardiser,
            covariance=covariance,
            noise=self.noise,
            least_deviation=self.settings.least_deviation,
            support=support,
            weights=weights,
            precision=precision,
            shapes=np.unique(measured.layers.shapes),
            accelerators=np.unique(measured.layers.accelerators),
            inflation=Inflation(),
            accelerator_sigma=np.zeros(len(roofline.parameters)),
        )

    def inflation(
        self, measured: MeasuredLayers, roofline: RooflineFit, without: dict[str, Floats]
    ) -> Inflation:
        """Return the factors found by leaving out shapes, networks and accelerators.

        Parameters
        ----------
        measured : MeasuredLayers
            All layers.
        roofline : RooflineFit
            Their roofline.
        without : dict of str to array
            Parameters to start from without each group, by its name. Those found take their place.
        """
        layers, counts = measured.layers, measured.counts
        names, index = np.unique(layers.shapes, return_inverse=True)
        groups = [_Group(str(name), index == place, counts) for place, name in enumerate(names)]
        if len(names) > MOST_GROUPS:
            generator = np.random.default_rng(self.settings.seed)
            index = generator.permutation(len(names))[index] % GROUPED_INTO
            groups = [_Group(f"shapes {group}", index == group, counts) for group in range(GROUPED_INTO)]
        shape = self._factor(measured, roofline, groups, without)
        # Whole networks, with every layer that shares a shape with them: several unlike at once.
        groups = [
            _Group(f"network {place}", np.isin(layers.shapes, layers.shapes[count > 0]), count)
            for place, count in enumerate(measured.occurrences.T)
        ]
        network = self._factor(measured, roofline, groups, without)
        groups = [
            _Group(str(name), layers.accelerators == name, counts) for name in np.unique(layers.accelerators)
        ]
        accelerator = self._factor(measured, roofline, groups, without, LEAST_ACCELERATOR_FACTOR)
        known = [factor for factor in (shape, network) if factor is not None]
        new_shape = max(known, default=UNKNOWN_FACTOR)
        return Inflation(new_shape, new_shape if accelerator is None else accelerator)

    def _factor(
        self,
        measured: MeasuredLayers,
        roofline: RooflineFit,
        groups: Iterable[_Group],
        without: dict[str, Floats],
        least: float = LEAST_FACTOR,
    ) -> float | None:
        """Return the factor for which 95 % of left-out layers are covered; None if none can be."""
        scores, counts = [], []
        for group in groups:
            rest = measured.take(~group.left_out)
            if len(np.unique(rest.layers.shapes)) < LEAST_SHAPES:
                continue
            tested = group.left_out & (group.counts > 0)
            left = replace(measured.take(tested), tails=np.ones(int(tested.sum())))
            start = replace(roofline, parameters=without.get(group.name, roofline.parameters))
            refitted = calibrate(self.calibration, rest, ESTIMATOR, start=start, search=False)
            without[group.name] = refitted.parameters
            predictor = self.predictor(rest, refitted)
            calibrated = left.calibrated(refitted)
            mean, variance = predictor.residual(left.process_rows(calibrated, self.standardiser))
            scores.append(np.abs(left.log_ms - calibrated.log_ms - mean) / np.sqrt(variance))
            counts.append(group.counts[tested])
        if not scores:
            return None
        return conformal_factor(np.concatenate(scores), np.concatenate(counts), least)


def repeat_noise(squares: Floats, counts: Floats, memory_share: Floats, floor: float) -> Noise:
    """Return the noise that repeats of layers show.

    Parameters
    ----------
    squares : array of shape [layers]
        Sum of the squared deviations of a layer's log latencies from their mean.
    counts : array of shape [layers]
        Number of repeats.
    memory_share : array of shape [layers]
        How far each layer is bound by memory; it divides the deviations between the two kinds.
    floor : float
        Least standard deviation.
    """

    def pooled(share: Floats) -> float:
        degrees = NOISE_PRIOR_WEIGHT + np.sum(share * (counts - 1))
        variance = (NOISE_PRIOR_WEIGHT * NOISE_PRIOR**2 + np.sum(share * squares)) / degrees
        return max(float(np.sqrt(variance)), floor)

    return Noise(pooled(1 - memory_share), pooled(memory_share))


def exact_posterior(
    covariance: ResidualCovariance, rows: ProcessRows, residuals: Floats, noise_variance: Floats
) -> tuple[Floats, Floats]:
    """Return (K + N)⁻¹ r and (K + N)⁻¹ (Rasmussen & Williams, 2006, Eq. 2.25-2.26).

    Raises
    ------
    FitError
        If the covariance is not positive definite.
    """
    full = covariance(rows, rows) + np.diag(noise_variance)
    try:
        cholesky = np.linalg.cholesky(full)
    except np.linalg.LinAlgError:
        raise FitError("the covariance of the residuals is not positive definite") from None
    precision = inverse_of(cholesky)
    return np.asarray(precision @ residuals), precision


def inducing_rows(rows: ProcessRows, count: int, seed: int) -> ProcessRows:
    """Return the rows nearest to k-means centres of the inputs; their keys are empty."""
    places = rows.inputs
    centres, _ = kmeans2(places, min(count, len(rows)), minit="++", seed=seed, missing="warn", iter=20)
    nearest = {int(np.argmin(np.sum((places - centre) ** 2, axis=1))) for centre in centres}
    chosen = rows.take(np.array(sorted(nearest)))
    return replace(chosen, keys=np.full(len(chosen), "", dtype=np.str_), tails=np.ones(len(chosen)))


def sparse_posterior(
    covariance: ResidualCovariance,
    rows: ProcessRows,
    support: ProcessRows,
    residuals: Floats,
    noise_variance: Floats,
) -> tuple[Floats, Floats]:
    r"""Return weights and precision of a process that sees its rows through a few inducing ones.

    With :math:`S = K_{uu} + K_{uf} N^{-1} K_{fu}` the weights are :math:`S^{-1} K_{uf} N^{-1} r` and
    the precision :math:`K_{uu}^{-1} - S^{-1}` (Titsias, *Variational learning of inducing variables
    in sparse Gaussian processes*, AISTATS 2009, Eq. 6, with noise that differs between rows).
    """
    inner = covariance(support, support)
    # A millionth of the variance keeps the factorisation from failing where inducing rows nearly agree.
    inner += np.diag(1e-6 * np.diag(inner))
    cross = covariance(support, rows)
    cholesky = np.linalg.cholesky(inner)
    half = np.linalg.solve(cholesky, cross) / np.sqrt(noise_variance)
    whitened = np.eye(len(support)) + half @ half.T
    inverse_cholesky = np.linalg.solve(cholesky, np.eye(len(support)))
    projected = np.linalg.solve(whitened, half @ (residuals / np.sqrt(noise_variance)))
    precision = inverse_cholesky.T @ (np.eye(len(support)) - np.linalg.inv(whitened)) @ inverse_cholesky
    return np.asarray(inverse_cholesky.T @ projected), np.asarray((precision + precision.T) / 2)


def conformal_factor(scores: Floats, counts: Floats, least: float = LEAST_FACTOR) -> float:
    """Return the factor on the standard deviation that covers 95 % of left-out layers.

    Parameters
    ----------
    scores : array of shape [layers]
        |error| / standard deviation of each layer, left out.
    counts : array of shape [layers]
        How often each occurs.
    least : float
        Least factor.

    Returns
    -------
    float
        Weighted quantile of the scores, with the finite-sample correction of conformal
        prediction, over the normal one, and at least `least`; with fewer than
        `ENOUGH_SCORES` the larger, the fewer they are.
    """
    order = np.argsort(scores, kind="stable")
    cumulated = np.cumsum(counts[order])
    level = min(SCORE * (1 + 1 / len(scores)), 1.0) * cumulated[-1]
    position = min(int(np.searchsorted(cumulated, level * (1 - 1e-12))), len(scores) - 1)
    factor = float(scores[order][position]) / NORMAL_95
    return max(factor, least) * max(1.0, ENOUGH_SCORES / len(scores))
