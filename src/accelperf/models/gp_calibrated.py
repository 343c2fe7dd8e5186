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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.linalg import cho_solve
from threadpoolctl import threadpool_limits

from accelperf.errors import print_warning
from accelperf.features import FeatureMatrix
from accelperf.models.base import NORMAL_95, Estimator, FitError, Fold, Prediction, Progress
from accelperf.models.calibrated_predictor import (
    CalibratedPredictor,
    Inflation,
    Layers,
    Noise,
    datasheets,
    process_inputs,
    process_rows,
)
from accelperf.models.gp_calibrated_settings import GpCalibratedSettings
from accelperf.models.parallel import map_folds
from accelperf.models.predictors import Standardiser
from accelperf.models.residual_process import (
    ProcessRows,
    ResidualCovariance,
    expected_tails,
    fit_hyperparameters,
    prior_medians,
    tail_factors,
)
from accelperf.models.roofline import (
    Floats,
    LogRoofline,
    log_roofline,
    roofline_terms,
)
from accelperf.models.roofline_fit import RooflineCalibration, RooflineFit
from accelperf.yaml_input import StrictModel

NOISE_PRIOR = 0.003
"""Relative standard deviation of a measurement, where the log has no repeats to tell it."""
NOISE_PRIOR_WEIGHT = 2.0
"""Number of repeats that the prior of the noise is worth."""
MOST_GROUPS = 60
"""Shapes left out one at a time for the intervals; of more, several are left out together."""
GROUPED_INTO = 20
LEAST_SHAPES = 2
"""Distinct shapes that a fit needs: of one, nothing tells what layers have in common."""
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
LEAST_ACCELERATOR_FACTOR = 0.5
"""Those of new accelerators may be: they include the broad prior of every rate that no layer was bound
by, which is more than most layers need."""


@dataclass(frozen=True)
class _Rows:
    """Measured rows, named once for all folds.

    Attributes
    ----------
    layers : Layers
        What was measured.
    log_ms : array of shape [rows]
        Log latencies.
    networks : array of str, shape [rows]
        Whose layer it was.
    """

    layers: Layers
    log_ms: Floats
    networks: NDArray[np.str_]

    @classmethod
    def of(cls, features: FeatureMatrix) -> _Rows:
        networks = features.table["network"].to_numpy(dtype=str)
        return cls(Layers.of(features), np.log(features.latency_ms), networks)


@dataclass(frozen=True)
class _Measured:
    """Distinct layers with their mean log latency.

    Attributes
    ----------
    layers : Layers
        The layers, sorted by name, so that the order of the rows cannot matter.
    log_ms : array of shape [layers]
        Mean of the log latencies of a layer's repeats.
    squares : array of shape [layers]
        Sum of the squared deviations of the repeats from it.
    occurrences : array of shape [layers, networks]
        Number of repeats in each network.
    tails : array of shape [layers]
        See `accelperf.models.residual_process.ProcessRows`.
    """

    layers: Layers
    log_ms: Floats
    squares: Floats
    occurrences: Floats
    tails: Floats

    def __len__(self) -> int:
        return len(self.log_ms)

    @property
    def counts(self) -> Floats:
        """Number of repeats, shape [layers]."""
        return np.asarray(self.occurrences.sum(axis=1))

    @classmethod
    def of(cls, rows: _Rows, chosen: NDArray[np.int64]) -> _Measured:
        keys, first, index = np.unique(rows.layers.keys[chosen], return_index=True, return_inverse=True)
        networks, network = np.unique(rows.networks[chosen], return_inverse=True)
        log_ms = rows.log_ms[chosen]
        occurrences = np.zeros((len(keys), len(networks)))
        np.add.at(occurrences, (index, network), 1.0)
        mean = np.bincount(index, log_ms) / occurrences.sum(axis=1)
        squares = np.bincount(index, (log_ms - mean[index]) ** 2).astype(np.float64)
        return cls(rows.layers.take(chosen[first]), mean, squares, occurrences, np.ones(len(keys)))

    def take(self, rows: NDArray[Any]) -> _Measured:
        return _Measured(
            self.layers.take(rows),
            self.log_ms[rows],
            self.squares[rows],
            self.occurrences[rows],
            self.tails[rows],
        )

    def calibrated(self, roofline: RooflineFit) -> LogRoofline:
        """Return the roofline of each layer."""
        terms = roofline_terms(self.layers.inputs, roofline.structure)
        return log_roofline(terms, roofline.parameters, roofline.sharpness)

    def process_rows(self, calibrated: LogRoofline, standardiser: Standardiser) -> ProcessRows:
        """Return the layers as the residual process sees them."""
        return replace(process_rows(self.layers, calibrated, standardiser), tails=self.tails)


@dataclass(frozen=True)
class _Optimum:
    """What a fit starts from: that of all rows."""

    roofline: RooflineFit
    hyperparameters: Floats


@dataclass(frozen=True)
class _FullFit:
    """The fit to all rows, kept so that folds need not repeat it."""

    features: FeatureMatrix
    rows: _Rows
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
        self._calibration = RooflineCalibration(
            sharpness=settings.sharpness,
            robust_scale=settings.robust_scale,
            rate_sigma=settings.rate_sigma,
            restarts=settings.restarts,
            seed=settings.seed,
        )
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

        def predict(fold: Fold) -> Prediction:
            _, predictor = self._fit(_Measured.of(full.rows, fold.train), full.optimum)
            return predictor.predict_layers(full.rows.layers.take(fold.test))

        predictions = []
        # The matrices are small: threads of their own would wait for each other, not help.
        with threadpool_limits(1):
            for done, prediction in enumerate(map_folds(predict, folds, "threads"), start=1):
                predictions.append(prediction)
                if progress is not None:
                    progress(done, len(folds))
        return predictions

    def _fit_full(self, features: FeatureMatrix) -> _FullFit:
        if self._full is None or self._full.features is not features:
            rows = _Rows.of(features)
            measured = _Measured.of(rows, np.arange(len(features)))
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

    def _fit(self, measured: _Measured, start: _Optimum | None) -> tuple[_Optimum, CalibratedPredictor]:
        settings, shapes = self.settings, measured.layers.shapes
        if len(np.unique(shapes)) < LEAST_SHAPES:
            raise FitError(
                f"gp_calibrated needs layers of at least {LEAST_SHAPES} distinct shapes, got "
                f"{int(measured.counts.sum())} rows of {len(np.unique(shapes))}"
            )
        roofline = self._calibration.fit(
            measured.layers.inputs, measured.log_ms, shapes, start=None if start is None else start.roofline
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
        if settings.intervals:
            predictor = replace(predictor, inflation=conditioner.inflation(sample, roofline))
        return _Optimum(roofline, values), predictor

    def _fit_process(
        self,
        measured: _Measured,
        roofline: RooflineFit,
        standardiser: Standardiser,
        noise: Noise,
        start: _Optimum | None,
    ) -> tuple[Floats, _Measured]:
        """Return the hyperparameters, and the layers with their tails."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, standardiser)
        residuals = measured.log_ms - calibrated.log_ms
        variance = noise.variance(rows.memory_share) / measured.counts
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
class _Conditioner:
    """Conditions a residual process of given hyperparameters on layers."""

    settings: GpCalibratedSettings
    calibration: RooflineCalibration
    standardiser: Standardiser
    covariance: ResidualCovariance
    noise: Noise

    def predictor(self, measured: _Measured, roofline: RooflineFit) -> CalibratedPredictor:
        """Return the predictor that knows these layers."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, self.standardiser)
        covariance = replace(self.covariance, rate_covariance=roofline.covariance)
        noise = self.noise.variance(rows.memory_share) / measured.counts
        posterior = exact_posterior(covariance, rows, measured.log_ms - calibrated.log_ms, noise)
        return self._predictor(measured, roofline, covariance, rows, posterior)

    def with_tails(self, measured: _Measured, roofline: RooflineFit) -> _Measured:
        """Return layers with the tails that these hyperparameters suggest."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, self.standardiser)
        residuals = measured.log_ms - calibrated.log_ms
        noise = self.noise.variance(rows.memory_share) / measured.counts
        tails = expected_tails(residuals**2 / self.covariance.own(rows) ** 2)
        for _ in range(TAIL_ROUNDS):
            rows = replace(rows, tails=tails)
            posterior = exact_posterior(self.covariance, rows, residuals, noise)
            tails = tail_factors(self.covariance, rows, *posterior)
        return replace(measured, tails=tails)

    def sparse_predictor(self, measured: _Measured, roofline: RooflineFit) -> CalibratedPredictor:
        """Return the predictor that knows these layers through a few inducing ones."""
        calibrated = measured.calibrated(roofline)
        rows = measured.process_rows(calibrated, self.standardiser)
        residuals = measured.log_ms - calibrated.log_ms
        noise = self.noise.variance(rows.memory_share) / measured.counts
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
        measured: _Measured,
        roofline: RooflineFit,
        covariance: ResidualCovariance,
        support: ProcessRows,
        posterior: tuple[Floats, Floats],
    ) -> CalibratedPredictor:
        weights, precision = posterior
        if not self.settings.residual_process:
            weights = np.zeros_like(weights)
        return CalibratedPredictor(
            structure=roofline.structure,
            parameters=roofline.parameters,
            sharpness=roofline.sharpness,
            parameter_sigma=self.calibration.prior_sigma,
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
        )

    def inflation(self, measured: _Measured, roofline: RooflineFit) -> Inflation:
        """Return the factors found by leaving out shapes, networks and accelerators."""
        names, index = np.unique(measured.layers.shapes, return_inverse=True)
        if len(names) > MOST_GROUPS:
            generator = np.random.default_rng(self.settings.seed)
            index = generator.permutation(len(names))[index] % GROUPED_INTO
        groups = [(index == group, measured.counts) for group in np.unique(index)]
        shape = self._factor(measured, roofline, groups)
        # Whole networks, with every layer that shares a shape with them: several unlike at once.
        groups = [
            (np.isin(measured.layers.shapes, measured.layers.shapes[count > 0]), count)
            for count in measured.occurrences.T
        ]
        network = self._factor(measured, roofline, groups)
        accelerators = measured.layers.accelerators
        groups = [(accelerators == name, measured.counts) for name in np.unique(accelerators)]
        accelerator = self._factor(measured, roofline, groups, LEAST_ACCELERATOR_FACTOR)
        known = [factor for factor in (shape, network) if factor is not None]
        new_shape = max(known, default=UNKNOWN_FACTOR)
        return Inflation(new_shape, new_shape if accelerator is None else accelerator)

    def _factor(
        self,
        measured: _Measured,
        roofline: RooflineFit,
        groups: Iterable[tuple[NDArray[np.bool_], Floats]],
        least: float = LEAST_FACTOR,
    ) -> float | None:
        """Return the factor for which 95 % of left-out layers are covered; None if none can be."""
        scores, counts = [], []
        for out, count in groups:
            rest = measured.take(~out)
            if len(np.unique(rest.layers.shapes)) < LEAST_SHAPES:
                continue
            tested = out & (count > 0)
            left = replace(measured.take(tested), tails=np.ones(int(tested.sum())))
            refitted = self.calibration.fit(
                rest.layers.inputs, rest.log_ms, rest.layers.shapes, start=roofline, search=False
            )
            predictor = self.predictor(rest, refitted)
            calibrated = left.calibrated(refitted)
            mean, variance = predictor.residual(left.process_rows(calibrated, self.standardiser))
            scores.append(np.abs(left.log_ms - calibrated.log_ms - mean) / np.sqrt(variance))
            counts.append(count[tested])
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
    precision = cho_solve((cholesky, True), np.eye(len(rows)))
    return np.asarray(precision @ residuals), np.asarray((precision + precision.T) / 2)


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
