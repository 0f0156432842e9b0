"""Metrics of a run: errors, probabilities, densities and labels over time, and regret.

The metrics take lists, and arrays of NumPy or JAX. If any argument is a JAX array, or a list of
such, they return JAX arrays, else those of NumPy in float64. The last axis is time; axes before it
(seeds, say) are kept. A refused example, whose loss or prediction is NaN, is left out
(``state.invalid`` counts it). A running metric has a value for each example, NaN before the first
that counts. Equations are those of Hong and Chae, Active learning with multiple kernels.

Scores of densities have a value for each example, too, as ``outputs.info.log_score`` does: a
curve shows their :func:`running_mean`, whose last value is the mean of all.
"""

from jaxmkl.metrics.densities import (
    coverage,
    crps_normal,
    crps_quantiles,
    crps_student,
    pit_histogram,
    width,
)
from jaxmkl.metrics.errors import (
    confusion,
    kappa,
    label_rate,
    recall,
    regret,
    running_label_rate,
    running_mean,
    running_mistake_rate,
    running_mse,
)
from jaxmkl.metrics.probabilities import (
    Reliability,
    brier,
    expected_calibration_error,
    log_loss,
    reliability,
    running_brier,
    running_log_loss,
)

__all__ = [
    "Reliability",
    "brier",
    "confusion",
    "coverage",
    "crps_normal",
    "crps_quantiles",
    "crps_student",
    "expected_calibration_error",
    "kappa",
    "label_rate",
    "log_loss",
    "pit_histogram",
    "recall",
    "regret",
    "reliability",
    "running_brier",
    "running_label_rate",
    "running_log_loss",
    "running_mean",
    "running_mistake_rate",
    "running_mse",
    "width",
]
