"""Features of inputs under a metric, x -> L'x."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import take
from jaxmkl._feedback import Feedback
from jaxmkl._metric import SHAPES, applied, isotropic
from jaxmkl._types import PyTree
from jaxmkl.features.fourier import FourierFeatures
from jaxmkl.features.map import FeatureMap
from jaxmkl.kernels import Kernel


class MetricFeaturesState(NamedTuple):
    """State of :class:`MetricFeatures`."""

    metrics: tuple[jax.Array, ...]
    """L of each shape: (D,) if it is diagonal, or (D, D)."""
    inside: tuple
    """The state of the map inside, for each metric."""


@pytree.dataclass
class MetricFeatures(FeatureMap):
    """The features of another map at L'x, for one metric L or for several side by side.

        z_{s,p}(x) = z_p(L_s'x),     with L_s = I/sqrt(D) at first

    So widths of kernels are in units of sqrt(D) for inputs of variance 1, however many there are.
    There are P vectors for each metric, metric by metric, each with a state of the map inside that
    was drawn for it. The metrics change only where another part changes them, as
    :class:`jaxmkl.models.MetricModels` does.

    Args:
      shapes: of each metric: "diagonal", a weight for each input, or "full", which is diagonal,
        too, where there are more than 500 inputs.
      features: the map inside, one that is not sequential.

    Raises:
      ValueError: if the map inside is sequential, or a shape has another name.

    >>> import jaxmkl
    >>> kernels = jaxmkl.Gaussian([0.5, 1.0, 2.0])
    >>> features = MetricFeatures(("diagonal", "full"), FourierFeatures(4))
    >>> state = features.init(jax.random.key(0), kernels, 5, "float32")
    >>> [metric.shape for metric in state.metrics]
    [(5,), (5, 5)]
    >>> features.num_vectors(kernels)
    6
    """

    shapes: tuple[str, ...] = pytree.choices(*SHAPES, default=("diagonal",))
    features: FeatureMap = pytree.part(
        FeatureMap,
        "a feature map, as jaxmkl.features.FourierFeatures()",
        default=FourierFeatures(),
    )

    def __post_init__(self) -> None:
        good, wanted = not self.features.sequential, "one whose features do not grow"
        pytree.require(good, self, "features", self.features, wanted)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """That of the map inside."""
        return self.features.period

    @property
    def squared_norm(self) -> float | None:  # type: ignore[override]
        """That of the map inside."""
        return self.features.squared_norm

    def num_coordinates(self, num_inputs: int) -> int:
        return self.features.num_coordinates(num_inputs)

    def num_vectors(self, kernels: Kernel) -> int:
        return len(self.shapes) * self.features.num_vectors(kernels)

    def check(self, kernels: Kernel) -> None:
        self.features.check(kernels)

    def init(
        self, key: jax.Array, kernels: Kernel, num_inputs: int, dtype: DTypeLike | None = None
    ) -> MetricFeaturesState:
        dtype = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
        metrics = tuple(isotropic(shape, num_inputs, dtype) for shape in self.shapes)

        def begun(key: jax.Array) -> PyTree:
            return self.features.init(key, kernels, num_inputs, dtype)

        if len(metrics) == 1:
            return MetricFeaturesState(metrics, (begun(key),))
        states = jax.vmap(begun)(jax.random.split(key, len(metrics)))
        return MetricFeaturesState(metrics, tuple(take(states, s) for s in range(len(metrics))))

    def encode(
        self,
        state: MetricFeaturesState,
        kernels: Kernel,
        X: jax.Array,
        round: jax.Array,
        keys: jax.Array,
    ) -> tuple:
        """The codes of the map inside, for each metric."""
        return tuple(
            self.features.encode(own, kernels, applied(metric, X), round, keys)
            for metric, own in zip(*state, strict=True)
        )

    def frequencies(self, state: MetricFeaturesState, kernels: Kernel) -> jax.Array | None:
        """Those of the map inside times L', for each metric: v·(L'x) is (L v)·x."""
        each = [self.features.frequencies(own, kernels) for own in state.inside]
        pairs = zip(state.metrics, each, strict=True)
        found = [applied(metric.T, of) for metric, of in pairs if of is not None]
        return jnp.concatenate(found) if len(found) == len(each) else None

    def codes_of(self, Z: jax.Array) -> tuple:
        each = jnp.split(Z, len(self.shapes), axis=1)
        return tuple(self.features.codes_of(own) for own in each)

    def predict(self, state: MetricFeaturesState, code: tuple) -> tuple[jax.Array, tuple]:
        each = tuple(map(self.features.predict, state.inside, code))
        return jnp.concatenate([z for z, _ in each]), each

    def update(
        self, state: MetricFeaturesState, code: tuple, aux: tuple, feedback: Feedback
    ) -> MetricFeaturesState:
        """Each state of the map inside, by the feedback of the models on its vectors."""
        S = len(self.shapes)

        def updated(s: int, own: PyTree, code: PyTree, aux: tuple[jax.Array, PyTree]) -> PyTree:
            z, aux = aux
            mine = feedback.of_models(lambda a: a.reshape(-1, S, len(z))[:, s].reshape(-1))
            return self.features.update(own, code, aux, mine)

        return state._replace(inside=tuple(map(updated, range(S), state.inside, code, aux)))

    def close(
        self, state: MetricFeaturesState, codes: tuple, round: jax.Array
    ) -> MetricFeaturesState:
        each = zip(state.inside, codes, strict=True)
        return state._replace(inside=tuple(self.features.close(*own, round) for own in each))

    def squared_norms(self, z: jax.Array) -> jax.Array:
        return self.features.squared_norms(z)
