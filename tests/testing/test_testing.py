"""The checks for authors: what each of them catches, and with which sentence."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import pytree
from jaxmkl.testing import check_kernel, check_learner
from jaxmkl.testing._trees import Check

SMALL_PROGRAMS = True


@pytree.dataclass
class MeanState(jaxmkl.State):
    total: jax.Array
    count: jax.Array


class Mean(jaxmkl.Algorithm):
    """Predicts the mean of the labels, each halved in weight by the next."""

    query = jaxmkl.query.All()
    loss = "squared"

    def init_own(self, frame, key, num_inputs, dtype):
        return MeanState(**frame, total=jnp.zeros((), dtype), count=jnp.zeros((), dtype))

    def encode_own(self, state, X, keys):
        return X

    def predict_own(self, state, code):
        value = state.total / (1.0 + state.count)
        return jaxmkl.query.Forecast.of_one(value), ()

    def update_own(self, state, code, aux, feedback):
        learns = feedback.updates.astype(state.total.dtype)
        return state.replace(total=state.total + learns * feedback.y, count=state.count + learns)


@pytree.dataclass
class Good(Mean):
    pass


@pytest.mark.slow
def test_a_driver_that_knows_the_label(monkeypatch):
    """Also by less than rounding makes of a run in blocks."""

    def peeking(learner, state, X, y, **options):
        state, outputs = jaxmkl.run(learner, state, X, y, **options)
        return state, outputs._replace(prediction=outputs.prediction + 1e-10 * y)

    monkeypatch.setattr("jaxmkl.testing.learners.run", peeking)
    refused(Good(), "a prediction must not depend on labels of its round and later")


@pytest.mark.endless  # so does the next one, with diagnostics besides
def test_a_good_one_passes():
    check_learner(Good())


@pytree.dataclass
class Judging(Mean):
    """Its diagnostics have the label, as a score of the prediction has."""

    def advance(self, state, code, y, present=True):
        after, output = super().advance(state, code, y, present)
        return after, output._replace(info=jnp.abs(self._label(state, y) - output.prediction))


@pytest.mark.slow
def test_diagnostics_may_tell_of_the_label():
    check_learner(Judging())


@pytest.mark.slow
def test_diagnostics_must_not_tell_of_later_labels(monkeypatch):
    def peeking(learner, state, X, y, **options):
        state, outputs = jaxmkl.run(learner, state, X, y, **options)
        later = np.append(y[1:], 0.0)
        return state, outputs._replace(info=outputs.info + 1e-10 * later)

    monkeypatch.setattr("jaxmkl.testing.learners.run", peeking)
    refused(Judging(), "a prediction must not depend on labels of its round and later")


@pytest.mark.endless
def test_a_density_that_scores_labels_passes():
    check_learner(jaxmkl.wrappers.predictive(Good()))


def refused(learner, sentence, check=check_learner):
    with pytest.raises(AssertionError, match=sentence) as error:
        check(learner)
    assert "\n" not in str(error.value)


class NoTree(Mean):
    pass


@jax.tree_util.register_pytree_node_class
class NotFrozen(Mean):
    def tree_flatten(self):
        return (), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls()

    def __repr__(self):
        return "NotFrozen()"


@pytree.dataclass
class NoForecast(jaxmkl.Algorithm):
    query, loss = Mean.query, Mean.loss
    init_own, encode_own, update_own = Mean.init_own, Mean.encode_own, Mean.update_own


@pytree.dataclass
class NoPrediction(jaxmkl.Learner):
    task = "regression"
    init = Good.init
    query, loss, has_variance = Mean.query, Mean.loss, False

    def encode(self, state, X, given=None):
        return X


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (NoForecast, "predict_own"),
        (NoPrediction, "close.*loss_value.*predict_code.*update_code"),
        (lambda: NoCodes(), "codes"),
        (lambda: NoNumber(), "codes.*num_kernels"),
        (type("NoAsk", (jaxmkl.query.Query,), {"score": jaxmkl.query.All.score}), "ask"),
        (
            type("NoUpdate", (jaxmkl.aggregate.Aggregate,), {}),
            "init.*log_weights.*predict.*update",
        ),
        (type("NoModels", (jaxmkl.models.Bank,), {}), "all_rules.*encode.*init.*num_models"),
        (type("NoChoice", (jaxmkl.models.supports.Eviction,), {}), "step"),
        (type("NoValues", (jaxmkl.kernels.KernelSpace,), {}), "clip.*init.*parameters.*values"),
        (type("NoChange", (jaxmkl.wrappers.Scaler,), {}), "init.*predict.*update"),
        (type("NoStore", (jaxmkl.models.supports.Store,), {}), "close.*encode.*init"),
        (type("NoValue", (jaxmkl.losses.Loss,), {"task": "regression"}), "value"),
        (type("NoMove", (jaxmkl.optimizers.Optimizer,), {}), "update"),
        (type("NoMap", (jaxmkl.features.FeatureMap,), {}), "encode.*init.*num_coordinates"),
        (type("NoRule", (jaxmkl.updates.Rule,), {}), "init.*predict.*update"),
    ],
)
def test_what_lacks_a_method_cannot_be_made(make, method):
    """And the message names it."""
    with pytest.raises(TypeError, match=f"abstract class No[A-Z][a-z]+ .*{method}"):
        make()


def test_text_that_would_be_traced():
    @pytree.dataclass
    class Texts(Mean):
        title: str = "mean"

    with pytest.raises(
        ValueError, match=r"Texts: title must be declared as static\(\).*got 'mean'"
    ):
        Texts()


@pytree.dataclass
class Signature(Mean):
    def predict(self, x, state):
        return super().predict(state, x)


@pytree.dataclass
class Poisoned(Mean):
    """It counts and looks at inputs that are refused."""

    def usable(self, X):
        return jnp.ones(len(X), bool)

    def update_own(self, state, code, aux, feedback):
        state = super().update_own(state, code, aux, feedback)
        return state.replace(total=state.total + jnp.where(feedback.present, jnp.sum(code), 0.0))


@pytree.dataclass
class PoisonedByLabels(Good):
    def update_code(self, state, code, aux, y, asked, present):
        after, learned = super().update_code(state, code, aux, y, asked, present)
        total = jnp.where(asked & present, after.total + 0 * y, after.total)
        return after.replace(total=total), learned


@pytree.dataclass
class Uncounted(Good):
    def update_code(self, state, code, aux, y, asked, present):
        after, learned = super().update_code(state, code, aux, y, asked, present)
        rounds = (asked & present & (y > 0)).astype(jnp.int32)
        return after.replace(round=state.round + rounds), learned


@pytree.dataclass
class SaysThatItAlwaysLearned(Good):
    def update_code(self, state, code, aux, y, asked, present):
        return super().update_code(state, code, aux, y, asked, present)[0], present


@pytree.dataclass
class NoCountOfRefusals(Good):
    def update_code(self, state, code, aux, y, asked, present):
        after, learned = super().update_code(state, code, aux, y, asked, present)
        return after.replace(invalid=state.invalid), learned


@pytree.dataclass
class Padded(Good):
    def update_code(self, state, code, aux, y, asked, present):
        after, learned = super().update_code(state, code, aux, y, asked, present)
        return after.replace(total=after.total * 0.9), learned


@pytree.dataclass
class LooksAhead(Good):
    def advance(self, state, code, y, present=True):
        state, output = super().advance(state, code, y, present)
        return state, output._replace(prediction=output.prediction + 1e-9 * y)


@pytree.dataclass
class Retyped(Good):
    def update_own(self, state, code, aux, feedback):
        state = super().update_own(state, code, aux, feedback)
        return state.replace(count=state.count.astype(jnp.float32))


@pytree.dataclass
class Single(Good):
    def init_own(self, frame, key, num_inputs, dtype):
        return super().init_own(frame, key, num_inputs, jnp.float32)


@pytree.dataclass
class ByBlocks(Good):
    """At the end of a block it has learned the block twice."""

    def close_own(self, state, codes):
        return state.replace(count=state.count + 0.01)


@pytree.dataclass
class Signs(Good):
    loss = "hinge"

    def _read(self, y):
        return y


NO_LEARNER = r"learner must be a learner, as jaxmkl\.raker\(\)"
POISONED = "an example of NaN or infinity must not poison later predictions"
LEARNERS = {
    "a class": (Mean, NO_LEARNER),
    "a name": ("raker", NO_LEARNER),
    "a factory": (jaxmkl.raker, NO_LEARNER),
    "no tree": (NoTree(), r"must be a pytree: decorate its class with jaxmkl\.pytree\.dataclass"),
    "not frozen": (NotFrozen(), "NotFrozen: a learner must be frozen"),
    "signature": (Signature(), r"predict must take \('state', 'x'\) first.*got \('x', 'state'\)"),
    "inputs": (Poisoned(), POISONED),
    "labels": (PoisonedByLabels(), POISONED),
    "rounds": (Uncounted(), "Uncounted: round must count the examples, 1; got 0"),
    "learned": (SaysThatItAlwaysLearned(), "whether it learned a label not asked for, as its sec"),
    "refusals": (NoCountOfRefusals(), "invalid must count the examples refused, 6; got 0"),
    "padding": (Padded(), r"padding must leave the state as it was; \.total"),
    "looks ahead": (LooksAhead(), "a prediction must not depend on the label"),
    "another type": (
        Retyped(),
        r"the state's \.count must keep its type .*float64.*got .*float32",
    ),
    "single": (Single(), r"the state's \.total must (keep|be of).*float64"),
    "blocks": (ByBlocks(), "a run in blocks of 16 must be the scan of step"),
    "signs": (Signs(), "labels 0 and 1 must mean -1 and [+]1"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_that_are_caught(name):
    refused(*LEARNERS[name])


# --- kernels -------------------------------------------------------------------------------------


@pytree.dataclass
class TwoParameters(jaxmkl.kernels.Kernel):
    """Its second parameter goes along the points, where there are as many."""

    bandwidth: Any = pytree.positive(ndim=1)
    power: Any = pytree.positive(default=1.0, ndim=1)

    @property
    def num_kernels(self):
        return max(jnp.size(self.bandwidth), jnp.size(self.power))

    def codes(self, products):
        bandwidth = jnp.atleast_1d(jnp.asarray(self.bandwidth))[:, None, None]
        return (1 + products.squared_distance[None] / bandwidth**2) ** -jnp.asarray(self.power)


@pytree.dataclass
class Rooted(jaxmkl.kernels.Kernel):
    """A root of a distance of 0 has no derivative."""

    bandwidth: Any = pytree.positive()
    num_kernels = 1

    def codes(self, products):
        return jnp.exp(-jnp.sqrt(products.squared_distance) / self.bandwidth)[None]


@pytree.dataclass
class Sigmoid(jaxmkl.kernels.Kernel):
    num_kernels = 1

    def codes(self, products):
        return jnp.tanh(products.inner - 1.0)[None]


@pytree.dataclass
class Skewed(jaxmkl.kernels.Kernel):
    num_kernels = 1

    def codes(self, products):
        inner = products.inner
        return (inner + 0.1 * jnp.arange(inner.shape[1], dtype=inner.dtype)[None, :])[None]


@pytree.dataclass
class OtherSpectrum(jaxmkl.kernels.Stationary):
    def profile(self, u):
        return jnp.exp(-0.5 * u)

    def spectral_scale(self, key, num_features, dtype):
        return jnp.full((self.num_kernels, num_features), 2.0, dtype)


@dataclasses.dataclass(frozen=True)
class NoTreeKernel(jaxmkl.kernels.Kernel):
    num_kernels = 1

    def codes(self, products):
        return products.inner[None]


@pytree.dataclass
class NoCodes(jaxmkl.kernels.Kernel):
    num_kernels = 1


@pytree.dataclass
class NoNumber(jaxmkl.kernels.Kernel):
    pass


@pytree.dataclass
class Flat(jaxmkl.kernels.Kernel):
    num_kernels = 1

    def codes(self, products):
        return products.inner


@pytree.dataclass
class Squares(jaxmkl.kernels.Kernel):
    """Gram matrices alone."""

    num_kernels = 1

    def codes(self, products):
        return (products.inner + products.inner.T)[None] / 2


@pytree.dataclass
class OtherColumns(jaxmkl.Gaussian):
    def column_codes(self, products, index):
        return 2.0 * super().column_codes(products, index)


KERNELS = {
    "second parameter": (TwoParameters(1.0), "several values of power must be that many kernels"),
    "root": (Rooted(1.0), "the derivative by .* must be finite where points coincide"),
    "indefinite": (Sigmoid(), "a Gram matrix must be positive semidefinite"),
    "not symmetric": (Skewed(), "a Gram matrix must be symmetric|gram\\(X, Y\\) must be columns"),
    "spectrum": (OtherSpectrum(1.0), "Fourier features must approximate the kernel"),
    "no tree": (NoTreeKernel(), "a kernel must be a pytree"),
    "flat": (Flat(), r"Flat: codes of 7 and 4 points must be float64 of shape \(1, 7, 4\); got"),
    "squares": (Squares(), "Squares: codes must be traced by JAX, .*; it raises "),
    "columns": (OtherColumns(1.0), "column_codes must be those columns of codes, alone too"),
    "class": (jaxmkl.Gaussian, "a kernel must be an instance of jaxmkl.kernels.Kernel"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_are_caught(name):
    refused(*KERNELS[name], check=check_kernel)


# --- what a sentence shows -----------------------------------------------------------------------


def test_the_difference_of_large_arrays_is_shown():
    same, other = np.zeros((3, 4)), np.zeros((3, 4))
    other[1, 2], other[2, 3] = 1e-3, -0.25
    Check(Good(), 1e-8).equal(same, same.copy(), "these must be equal")
    wanted = r"Good: these must be equal; got 0\.0 and -0\.25 at \[2, 3\], where they differ "
    wanted += "most; they differ in 2 of 12 numbers"
    with pytest.raises(AssertionError, match=wanted):
        Check(Good(), 1e-8).equal(same, other, "these must be equal")
    same[0, 1] = other[0, 1] = np.nan
    other[0, 0] = np.inf
    with pytest.raises(AssertionError, match=r"0\.0 and inf at \[0, 0\].* in 3 of 12 numbers"):
        Check(Good(), 1e-8).equal(same, other, "these must be equal")


@pytree.dataclass
class ForecastOfNumbers(Mean):
    def predict_own(self, state, code):
        return state.total


@pytest.mark.slow
def test_a_forecast_that_is_an_array_is_named():
    learner = ForecastOfNumbers()
    state = learner.init(jax.random.key(0), num_inputs=2)
    wanted = (
        r"ForecastOfNumbers: the result of predict_own must be two: a jaxmkl\.query\.Forecast, as"
    )
    with pytest.raises(ValueError, match=wanted):
        learner.predict(state, jnp.ones(2))
