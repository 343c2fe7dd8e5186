"""Designs that were not built: which are worth building, how sure that is, and what to measure next.

``accelperf explore`` varies a platform over ranges (`accelperf.explore.axes`, `accelperf.explore.designs`),
predicts networks on every design (`accelperf.explore.workload`,
`accelperf.models.joint`), counts what a design needs of the FPGA (`accelperf.explore.resources`) and
keeps the Pareto fronts of latency against that (`accelperf.explore.fronts`). Where the estimator knows
how sure it is, it also says which layer on which design would teach it most
(`accelperf.explore.measurements`). `accelperf.explore.exploration` puts the steps together.
"""

from accelperf.explore.exploration import Constraints, Exploration, explore
from accelperf.explore.request import Request, run

__all__ = ["Constraints", "Exploration", "Request", "explore", "run"]
