"""Banks on features side by side, as one bank."""

from typing import Any

from jaxmkl import _pytree as pytree
from jaxmkl.models.bank import Bank
from jaxmkl.models.metric import MetricBank
from jaxmkl.models.on_features import FeatureModels
from jaxmkl.models.under_metrics import UnderMetrics, on_features


@pytree.dataclass
class SideBySide(UnderMetrics):
    """Banks on features, side by side, whose least squares are updated as one array.

    Models are numbered bank by bank, except that all least squares stand together, in the place of
    the first of them. A round and its compilation cost less: for three banks of the default
    :func:`jaxmkl.expert_mkl` there is one update of 14 covariances instead of three updates.

    Args:
      banks: banks on features or under metrics, all with the same number of features; those that
        learn metrics do so from the same ``sample`` and begin in the same round.

    Raises:
      ValueError: if a bank is of another kind, or the banks differ in what must be the same.

    >>> import jaxmkl
    >>> from jaxmkl.updates import RLS
    >>> of = lambda widths: FeatureModels(jaxmkl.Gaussian(widths), RLS(0.1))
    >>> bank = SideBySide((of([0.5, 1.0]), jaxmkl.models.MetricModels(of([1.0, 2.0]))))
    >>> bank.num_models
    4
    """

    banks: Any = pytree.parts(Bank, "banks on features, as jaxmkl.models.FeatureModels(kernels)")

    def __post_init__(self) -> None:
        for bank in self.banks:
            good = isinstance(bank, FeatureModels | MetricBank)
            good = good and not on_features(bank).features.sequential
            pytree.require(good, self, "banks", bank, "banks on features that do not grow")
        for name in ("first", "sample"):
            found = {getattr(bank, name) for bank in self._learning}
            pytree.require(len(found) < 2, self, "banks", found, f"banks of one {name}")

    @property
    def _learning(self) -> list[Any]:
        """The banks that learn metrics."""
        return [bank for bank in self.banks if bank.first is not None]

    @property
    def first(self) -> int | None:  # type: ignore[override]
        """The first renewal of the banks that learn metrics; None if none does."""
        return next((bank.first for bank in self._learning), None)

    @property
    def sample(self) -> int:  # type: ignore[override]
        """The sample of the banks that learn metrics."""
        return next((bank.sample for bank in self._learning), Bank.sample)
