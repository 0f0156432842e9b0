"""The estimators: scikit-learn's own checks, and the same predictions as by hand."""

import importlib.util
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import jaxmkl
from jaxmkl import design
from jaxmkl.sklearn import MKLClassifier, MKLRegressor, PoolSelector
from jaxmkl.sklearn._estimators import _sorted_by_class
from jaxmkl.streaming._engine import run_rows
from jaxmkl.wrappers import AllBut, RunningMoments, layers, probabilities, scaled, scaled_targets
from tests.common.marks import long
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([1.0, 4.0])
SMALL = {"kernels": KERNELS, "num_features": 8}


def multiset_permutations(labels):
    """All different orders of labels."""
    if len(labels) == 0:
        yield []
    for label in np.unique(labels):
        place = np.flatnonzero(labels == label)[0]
        for rest in multiset_permutations(np.delete(labels, place)):
            yield [label, *rest]


def regressor(**parameters):
    return MKLRegressor("raker", **SMALL, random_state=0, **parameters)


def least_squares():
    kernels, features = jaxmkl.Gaussian([1.0, 3.0]), jaxmkl.features.FourierFeatures(4)
    return jaxmkl.MKL(jaxmkl.models.FeatureModels(kernels, jaxmkl.updates.RLS(), features))


def classifier(**parameters):
    return MKLClassifier("raker", **SMALL, random_state=0, **parameters)


@pytest.fixture(scope="module")
def numbers():
    X, y = load_diabetes(return_X_y=True)
    return X.astype(np.float32), y.astype(np.float32)


@pytest.fixture(scope="module")
def classes():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order].astype(np.float32), y[order]


# --- scikit-learn's checks -----------------------------------------------------------------------


def passes(estimator, **options):
    """It passes scikit-learn's checks, all of them that run here without exception.

    One does not run: arrays of other libraries are only tried where a variable of the environment
    told SciPy to take such.
    """
    results = check_estimator(estimator, on_fail=None, on_skip=None, **options)
    others = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] != "passed"}
    unset = "SCIPY_ARRAY_API is not set"
    assert unset in others.pop("check_array_api_input", unset)
    assert len(results) >= 15
    assert not others


@pytest.mark.filterwarnings("default")
@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", [classifier(scale=False), PoolSelector(method="random", random_state=0)], ids=repr
)
def test_keeps_the_conventions_of_estimators(estimator):
    passes(estimator, legacy=False)


# conventions do not depend on the learner inside: small ones, of each estimator
CHECKED = [
    *(classifier(), regressor()),
    *map(MKLRegressor, ("expert_mkl", "omkl", "amkl_aks")),
    *map(MKLClassifier, ("spa", "expert_mkl", "bpas", "multitask")),
    *(PoolSelector(method=method) for method in ("ted", "gmkal", "cted", "rrss", "lmkal")),
    PoolSelector(),
]


@pytest.mark.endless
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("estimator", CHECKED, ids=repr)
def test_passes_the_checks_of_estimators(estimator):
    passes(estimator)


# --- the same as by hand -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_regressor_predicts_as_run_and_predict_many(numbers):
    X, y = numbers
    found = regressor().fit(X, y)
    learner = scaled_targets(scaled(jaxmkl.raker(**SMALL), RunningMoments()))
    state = learner.init(jax.random.key(0), num_inputs=10)
    state, _ = jaxmkl.run(learner, state, X, y)
    assert_equal(found.state_, state)
    by_hand = learner.predict_many(state, X).value
    np.testing.assert_allclose(found.predict(X), by_hand, rtol=1e-5)
    wanted = r"MKLRegressor: learner must be one that knows its variance, .* got 'raker'"
    with pytest.raises(ValueError, match=wanted):
        found.predict(X, return_std=True)


@pytest.mark.endless
def test_deviations_are_those_of_predict_many(numbers):
    X, y = numbers
    found = MKLRegressor(least_squares, random_state=0).fit(X, y)
    said = jax.jit(found.learner_.predict_many)(found.state_, X)
    values, deviations = found.predict(X, return_std=True)
    np.testing.assert_allclose(values, said.value, rtol=1e-5)
    np.testing.assert_allclose(deviations, np.sqrt(said.variance), rtol=1e-4)
    np.testing.assert_array_equal(values, found.predict(X))
    assert deviations.shape == y.shape


@pytest.mark.slow
@pytest.mark.parametrize("num_classes", long([3], [2, 3]))
def test_a_classifier_predicts_as_run_and_predict_many(classes, num_classes):
    X, y = classes
    y = np.minimum(y, num_classes - 1)
    names = np.array(["setosa", "versicolor", "virginica"])
    found = classifier().fit(X, names[y])
    several = {} if num_classes == 2 else {"num_classes": 3}
    raker = jaxmkl.raker(**SMALL, loss="logistic", **several)
    learner = probabilities(scaled(raker, RunningMoments()))
    state = learner.init(jax.random.key(0), num_inputs=4)
    state, _ = jaxmkl.run(learner, state, X, y)
    z = np.asarray(learner.predict_many(state, X).value)
    np.testing.assert_allclose(found.decision_function(X), z, rtol=1e-4, atol=1e-5)
    both = z if num_classes == 3 else np.stack([-z / 2, z / 2], axis=1)
    wanted = np.asarray(jax.nn.softmax(both))
    np.testing.assert_allclose(found.predict_proba(X), wanted, atol=1e-5)
    np.testing.assert_allclose(found.predict_log_proba(X), np.log(wanted), atol=1e-4)
    assert found.classes_.tolist() == names[:num_classes].tolist()
    np.testing.assert_array_equal(found.predict(X), names[wanted.argmax(axis=1)])
    assert found.score(X, names[y]) > 0.75


@pytest.mark.slow
def test_learning_in_parts_is_learning_at_once(classes, numbers):
    X, y = numbers
    at_once, in_parts = regressor().fit(X, y), regressor()
    for start, stop in ((0, 70), (70, 442)):  # in one program; rows one by one are tested below
        in_parts.partial_fit(X[start:stop], y[start:stop])
    np.testing.assert_array_equal(at_once.predict(X), in_parts.predict(X))
    assert int(in_parts.fit(X, y).state_.round) == len(X)  # afresh
    X, y = classes
    at_once, in_parts = classifier().fit(X, y), classifier()
    in_parts.partial_fit(X[:70], y[:70], classes=[2, 1, 0]).partial_fit(X[70:], y[70:])
    np.testing.assert_array_equal(at_once.predict_proba(X), in_parts.predict_proba(X))


@pytest.mark.slow
def test_changes_far_from_zero_are_learned(numbers):
    """Seconds since 1970, which single precision rounds to 128, and a target beside 2^31."""
    X, y = (one.astype(float) for one in numbers)
    X = np.round(1000 * X)
    near = regressor().fit(X, y).predict(X)
    far = regressor().fit(X + 1.7e9, y + 2**31)
    np.testing.assert_allclose(far.predict(X + 1.7e9) - 2**31, near, rtol=1e-4)
    assert far.X_offset_.tolist() == (X[0] + 1.7e9).tolist()
    assert far.y_offset_ == y[0] + 2**31
    assert far.fit(X, y > y[0]).y_offset_ == 0
    parts = regressor().partial_fit(X[:1] + 1.7e9, y[:1]).partial_fit(X[1:] + 1.7e9, y[1:])
    np.testing.assert_allclose(parts.predict(X + 1.7e9), near, rtol=1e-4)


@pytest.mark.slow
def test_sparse_rows_are_the_dense_ones(numbers):
    X, y = numbers
    X = np.where(X > 0.02, X, 0)
    dense, sparse = regressor().fit(X, y), regressor().fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(
        dense.predict(X), sparse.predict(scipy.sparse.csc_array(X)), rtol=1e-4
    )


@pytest.mark.endless
def test_double_precision_where_jax_has_it(numbers, x64):
    X, y = numbers
    for dtype in (np.float32, np.float64):
        found = regressor(scale=False).fit(X[:60].astype(dtype), y[:60])
        assert found.learner_.dtype(found.state_) == dtype
        assert found.predict(X[:60]).dtype == np.float64


@pytest.mark.slow
def test_several_targets(numbers):
    X, y = numbers
    Y = np.stack([y, -y, X[:, 2]], axis=1)
    found = regressor().fit(X, Y)
    said = found.predict(X)
    assert said.shape == (442, 3)
    np.testing.assert_allclose(said[:, 0], -said[:, 1], rtol=1e-3)
    assert found.fit(X, Y[:, :1]).predict(X).shape == (442,)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        MKLRegressor("omkl", kernels=KERNELS).fit(X[:50], Y[:50])


@pytest.mark.slow
def test_columns_of_0_and_1_are_not_scaled():
    """In 100 rows at least: fewer may happen to have no other numbers."""
    draws = np.random.default_rng(0)
    flags = draws.integers(2, size=(120, 3)) * [1, 1, 2]
    X, y = np.column_stack([flags, draws.normal(size=120)]), draws.normal(size=120)
    estimator = MKLRegressor("raker", random_state=0, kernels=KERNELS, num_features=4)
    expected, said = AllBut(RunningMoments(), ((0, 2),), 10.0), []
    for make in (np.asarray, scipy.sparse.csr_array):
        found = clone(estimator).fit(make(X), y)
        assert repr(found.learner_.learner.scaler) == repr(expected)
        said.append(found.predict(make(X)))
        few = clone(estimator).partial_fit(make(X[:99]), y[:99])
        assert isinstance(few.learner_.learner.scaler, RunningMoments)
    np.testing.assert_allclose(*said, rtol=1e-4)


def test_scaling_is_switched_off(numbers):
    X, y = numbers
    found = regressor(scale=False, shuffle=True).fit(X, y / 100)
    assert isinstance(found.learner_, jaxmkl.MKL)
    assert isinstance(classifier(scale=False)._made(None).learner, jaxmkl.MKL)


@pytest.mark.slow
def test_rows_that_are_sorted_are_shuffled():
    X, y = load_iris(return_X_y=True)
    text = "MKLClassifier: y is sorted by class.*shuffle=True"
    with pytest.warns(UserWarning, match=text) as warned:
        sorted_rows = classifier().fit(X, y)
    assert {one.filename for one in warned if one.category is UserWarning} == {__file__}
    shuffled = classifier(shuffle=True).fit(X, y)
    assert shuffled.score(X, y) > 0.8 > 0.5 > sorted_rows.score(X, y)
    again = classifier(shuffle=True).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), shuffled.predict_proba(X))


@pytest.mark.parametrize("counts", [(6, 6), (3, 9), (3, 3, 3), (2, 2, 5)])
def test_what_is_sorted_is_hardly_chance(counts):
    """Among all orders of few labels, fewer than one in a thousand is taken for sorted."""
    orders = multiset_permutations(np.repeat(np.arange(len(counts)), counts))
    assert np.mean([_sorted_by_class(np.array(order)) for order in orders]) < 1e-3
    many = np.repeat(np.arange(len(counts)), 10 * np.array(counts))
    assert _sorted_by_class(many)
    assert _sorted_by_class(np.tile(many, 2))
    assert not _sorted_by_class(np.random.default_rng(0).permutation(many))


# --- what learners are ---------------------------------------------------------------------------


@pytest.mark.endless
def test_a_learner_or_a_function_in_the_place_of_a_name(classes):
    X, y = classes
    given = jaxmkl.raker(**SMALL, loss="logistic", num_classes=3)
    wanted = classifier().fit(X, y).predict_proba(X)
    for learner, parameters in ((given, {}), (jaxmkl.raker, SMALL)):
        found = MKLClassifier(learner, random_state=0, **parameters).fit(X, y)
        np.testing.assert_array_equal(found.predict_proba(X), wanted)
    # a learner of two classes for three: one against the rest
    found = MKLClassifier(jaxmkl.perceptron(), random_state=0).fit(X, y)
    assert found.predict_proba(X).shape == (150, 3)
    assert found.score(X, y) > 0.7


@pytest.mark.parametrize("name", jaxmkl.LEARNERS)
def test_every_recipe_is_made_for_its_task(name):
    made = [MKLClassifier(name)._made(None), MKLClassifier(name)._made(4)]
    assert [learner.num_outputs for learner in made] == [None, 4]
    if "loss" in jaxmkl.sklearn.MKLRegressor(name)._names() or name == "expert_mkl":
        return
    with pytest.raises(
        ValueError, match=f"learner must be one of regression; got '{name}, one of cl"
    ):
        MKLRegressor(name)._made(None)


REFUSED = [
    ({"learner": "rakr"}, "learner must be a learner, a function that makes one, or one of raker"),
    ({"learner": lambda: 3}, "MKLRegressor: learner must be a learner, as jaxmkl.raker"),
    ({"learner": jaxmkl.spa()}, "learner must be one of regression; got 'MKL, one of cl"),
    ({"learner": jaxmkl.raker(num_outputs=3)}, "y must be of 3 column.*got '1 column"),
    ({"scale": "standard"}, "scale must be True or False; got 'standard'"),
    ({"learner": "raker", "shuffle": 3}, "shuffle must be True or False; got 3"),
    ({"num_feature": 3}, "MKLRegressor: invalid parameter 'num_feature': it has learner, .*num_f"),
    ({"num_outputs": 3}, "invalid parameter 'num_outputs'"),
    ({"learner": jaxmkl.raker(), "step_size": 1}, "invalid parameter 'step_size'.*function none"),
    ({"forgetting": 3.0}, "RLS: forgetting must be"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
def test_what_fit_refuses(numbers, parameters, message):
    X, y = numbers
    with pytest.raises(ValueError, match=f"(?s){message}"):
        MKLRegressor(**parameters).fit(X[:20], y[:20])


@pytest.mark.parametrize("dtype", ["U", "datetime64[D]", "timedelta64[s]"])
def test_targets_that_are_no_numbers_are_refused(numbers, dtype):
    y = np.arange(20).astype(dtype)
    with pytest.raises(ValueError, match=r"MKLRegressor: y must be real numbers; got dtype\("):
        regressor().fit(numbers[0][:20], y)


@pytest.mark.slow
def test_targets_of_another_number_are_refused(numbers):
    X, y = numbers[0][:20], numbers[1][:20]
    both = np.stack([y, -y], axis=1)
    for first, then, number in ((both, y, 2), (y, both, 1)):
        found = regressor().partial_fit(X, first)
        with pytest.raises(ValueError, match=rf"y must be of {number} column\(s\); got"):
            found.partial_fit(X, then)


@pytest.mark.slow
def test_no_weights_are_none(classes):
    X, y = classes
    plain, given = regressor().fit(X, y), regressor().fit(X, y, sample_weight=None)
    np.testing.assert_array_equal(given.predict(X), plain.predict(X))
    given.partial_fit(X, y, sample_weight=None)
    assert int(given.state_.round) == 2 * len(X)
    assert classifier().fit(X, y, sample_weight=None).score(X, y) > 0.5


@pytest.mark.slow
def test_labels_and_weights_that_are_refused(classes):
    X, y = classes
    found = classifier()
    with pytest.raises(TypeError, match="MKLClassifier: sample_weight is not supported: a le"):
        found.fit(X, y, sample_weight=y)
    with pytest.raises(TypeError, match="sample_weight is not supported"):
        regressor().partial_fit(X, y, sample_weight=y)
    with pytest.raises(TypeError, match="weights is not supported"):
        regressor().fit(X, y, weights=None)
    with pytest.raises(ValueError, match="y must be of two classes or more; got 1 class"):
        found.fit(X, np.ones(150))
    with pytest.raises(NotFittedError):
        found.predict(X)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        found.partial_fit(X, y)
    found.partial_fit(X, y > 1, classes=[False, True])
    with pytest.raises(ValueError, match=r"y must be of the classes \[False  True\]; got \[2\]"):
        found.partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        found.partial_fit(X, y > 1, classes=[0, 2])
    with pytest.raises(ValueError, match="X must be of magnitude at most"):
        found.predict(1e30 * X)


@pytest.mark.slow
def test_labels_that_are_refused_change_nothing(classes):
    X, y = classes
    words = np.array(["elm", "oak", "yew"])[y]
    found = classifier()
    with pytest.raises(ValueError, match="y must be of the classes"):
        found.partial_fit(X, words, classes=["elm", "ash", "yew"])
    with pytest.raises(NotFittedError):
        found.predict(X)
    found.partial_fit(X, words, classes=["elm", "oak", "yew"])
    said = found.predict(X)
    with pytest.raises(ValueError, match="y must be of two classes or more; got 1 class"):
        found.fit(X, np.full(len(X), "ash"))
    np.testing.assert_array_equal(found.predict(X), said)


@pytest.mark.slow
@pytest.mark.parametrize("named", [[9, 10], ["10", "9"]])
def test_words_are_not_numbers(named, classes):
    """Sorted as words, "10" comes before "9"."""
    X, y = classes
    y = np.take(np.unique(named), (y > 1).astype(int))
    found = classifier().partial_fit(X, y, classes=named)
    other = y.astype(str) if y.dtype.kind == "i" else y.astype(int)
    with pytest.raises(ValueError, match="y must be of the classes"):
        found.partial_fit(X, other)
    with pytest.raises(ValueError, match="y must be of the classes"):
        found.partial_fit(X, other.astype(object))


@pytest.mark.slow
def test_rows_that_are_refused_change_nothing(classes, numbers):
    for found, (X, y) in ((classifier(), classes), (regressor(), numbers)):
        with pytest.raises(ValueError, match="X must be finite and of magnitude at most"):
            found.fit(1e30 * X, y)
        assert not hasattr(found, "state_")
        assert not hasattr(found, "n_features_in_")
        said = found.fit(X, y).predict(X)
        for fit in (found.fit, found.partial_fit):
            with pytest.raises(ValueError, match="X must be finite and of magnitude at most"):
                fit(1e30 * X, y)
            np.testing.assert_array_equal(found.predict(X), said)
        with pytest.raises(ValueError, match="X must be finite and of magnitude at most"):
            found.fit(1e30 * X[:, :2], y)  # columns are counted before
        np.testing.assert_array_equal(found.predict(X), said)


def test_kernels_are_fixed_where_inputs_are_many():
    for made in (MKLRegressor, MKLClassifier):
        kept = [made()._made(None, number) for number in (5000, 5001)]
        found = [next(layer for layer in layers(one) if hasattr(layer, "models")) for one in kept]
        assert len(found[0].models) > len(found[1].models) == 1
        named = made(banks="diagonal")._made(None, 5001)
        assert jax.tree.structure(named) == jax.tree.structure(made(banks="diagonal")._made(None))


# --- among scikit-learn's things -----------------------------------------------------------------


def test_parameters_of_the_recipe_are_parameters():
    made = MKLClassifier("expert_mkl", num_features=40)
    assert made.get_params()["num_features"] == 40
    assert "num_features=40" in repr(made)
    assert "num_features" in made._repr_html_()
    copy = clone(made).set_params(forgetting=(1.0, 0.99), scale=False)
    assert (copy.get_params()["forgetting"], copy.scale) == ((1.0, 0.99), False)
    assert "forgetting" not in made.get_params()
    assert clone(copy).get_params() == copy.get_params()
    with pytest.raises(ValueError, match="invalid parameter 'beta'"):
        made.set_params(beta=2.0)
    assert made.set_params(learner="spa", beta=2.0).learner == "spa"  # num_features: fit says so
    rule = classifier(step_size=0.05)._made(None).learner.learner.models[0].rules[0]
    assert rule.step_sizes == 0.05


@pytest.mark.slow
def test_a_grid_search_compiles_once_for_numbers(classes):
    X, y = classes
    grid = {"step_size": [0.001, 0.01, 0.1], "hedge_rate": [0.1, 1.0], "regularization": [0, 1]}
    classifier().fit(X[:100], y[:100]).predict(X)
    before = run_rows.num_programs()
    search = GridSearchCV(classifier(), grid, refit=False, cv=3).fit(X, y)
    assert run_rows.num_programs() == before > 0
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 12
    assert scores.max() > 0.8
    assert len({*scores}) > 3


@pytest.mark.slow
def test_in_a_pipeline_and_a_pickle(classes, numbers):
    for (X, y), estimator in ((classes, classifier()), (numbers, regressor())):
        third = len(X) // 3  # parts of one length, as those of three folds
        model = make_pipeline(StandardScaler(), estimator).fit(X[: 2 * third], y[: 2 * third])
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        again[-1].partial_fit(X[third:], y[third:])
        model[-1].partial_fit(X[third:], y[third:])
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert cross_val_score(model, X, y, cv=3).min() > 0.1


FRAMES = [name for name in ("polars", "pandas") if importlib.util.find_spec(name)]


@pytest.mark.slow
@pytest.mark.parametrize("package", FRAMES)
def test_columns_of_frames_have_names(numbers, package):
    X, y = numbers
    frame = importlib.import_module(package).DataFrame({f"c{i}": X[:, i] for i in range(10)})
    found = regressor().fit(frame, y)
    assert found.feature_names_in_.tolist() == [f"c{i}" for i in range(10)]
    np.testing.assert_array_equal(found.predict(frame), regressor().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame[[f"c{i}" for i in range(9, -1, -1)]])


@pytest.mark.parametrize("dtype", ["boolean", "Int64", "category", "object", "StringDType"])
def test_labels_come_back_as_they_were(classes, dtype):
    """scikit-learn reads booleans and whole numbers of pandas as floats, and refuses objects."""
    X, y = classes[0], classes[1] > 1
    if dtype == "StringDType":
        given, kind = np.where(y, "tree", "bush").astype(np.dtypes.StringDType()), "U"
    else:
        series = pytest.importorskip("pandas").Series
        given, kind = series(y).astype(dtype), "i" if dtype == "Int64" else "b"
    plain = np.array(given.tolist())
    found = classifier().fit(X, given)
    parts = classifier().partial_fit(X, given, classes=given.unique() if kind != "U" else given)
    for one in found, parts:
        assert one.classes_.dtype.kind == one.predict(X).dtype.kind == kind
        np.testing.assert_array_equal(one.predict(X), classifier().fit(X, plain).predict(X))
    assert found.score(X, given) == np.mean(found.predict(X) == plain) > 0.5


def run_by_river(river, examples, y):
    """Labels predicted one by one, each before it is learned."""
    predictions = []
    for x, label in zip(examples, y, strict=True):
        predictions.append(river.predict_one(x))
        river.learn_one(x, label)
    return predictions


class AsRiver:
    """The same as river's wrapper of a classifier, one example at a time."""

    def __init__(self, estimator, classes):
        self.estimator, self.classes = estimator, classes

    def predict_one(self, x):
        try:
            return self.estimator.predict([[*x.values()]])[0]
        except NotFittedError:
            return self.classes[0]

    def learn_one(self, x, y):
        self.estimator.partial_fit([[*x.values()]], [y], classes=self.classes)


@pytest.mark.slow
def test_one_by_one_as_in_a_stream(classes):
    X, y = classes
    X, y = X[:40], y[:40]
    examples = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    rivers = [AsRiver(classifier(), [0, 1, 2])]
    if importlib.util.find_spec("river"):
        compat = importlib.import_module("river.compat")
        rivers.append(compat.convert_sklearn_to_river(classifier(), classes=[0, 1, 2]))
    found = classifier().fit(X, y)
    state = found.learner_.init(jax.random.key(0), num_inputs=4)
    _, outputs = jaxmkl.run(found.learner_, state, X, y)
    wanted = np.asarray(outputs.prediction).argmax(axis=1)
    for river in rivers:
        predictions = run_by_river(river, examples, y.tolist())
        np.testing.assert_array_equal(predictions[1:], wanted[1:])


# --- pools ---------------------------------------------------------------------------------------


@pytest.mark.endless
def test_a_pool_is_ranked_as_by_design(classes):
    X, _ = classes
    X = X[:40]
    found = PoolSelector(5, method="ted", kernels=jaxmkl.Gaussian(1.0), regularization=0.2).fit(X)
    gram = jaxmkl.Gaussian(1.0).gram(X)[0]
    wanted = design.ted(gram, 0.2, num_points=5)
    np.testing.assert_array_equal(found.indices_, wanted.ranking)
    np.testing.assert_array_equal(found.scores_, wanted.scores)
    chosen = PoolSelector(5, method="ted").fit_predict(X)
    assert (chosen.shape, chosen.sum()) == ((40,), 5)
    found = PoolSelector(method="gmkal", regularization=0.3).fit(X)
    wanted = design.gmkal(design.dictionary(X), 0.3)
    np.testing.assert_array_equal(found.ranking_, wanted.ranking)
    assert 0 < len(found.indices_) == int(wanted.num_active) < 40
    assert found.kernel_weights_.shape == (9,)


def test_a_pool_at_random(classes):
    X, _ = classes
    one, other, third = (PoolSelector(7, method="random", random_state=s) for s in (0, 0, 1))
    assert one.fit(X).indices_.tolist() == other.fit(X).indices_.tolist()
    assert one.indices_.tolist() != third.fit(X).indices_.tolist()
    wanted = design.random(jax.random.key(0), 150, num_points=7).ranking
    np.testing.assert_array_equal(one.indices_, wanted)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "best"}, "method must be one of random, ted"),
        ({"method": "ted", "kernels": KERNELS}, "kernels must be a kernel of jaxmkl, one for ted"),
        (
            {"method": "gmkal", "kernels": "gaussian"},
            "a kernel of jaxmkl, or a KernelDictionary; got",
        ),
        ({"method": "ted", "tolerance": 1.0}, "PoolSelector: invalid parameter 'tolerance'"),
        ({"features": 1}, "invalid parameter 'features'"),
        (
            {"num_points": 0},
            "PoolSelector: num_points must be an integer from 1 to 20, the number",
        ),
    ],
)
def test_what_a_selector_refuses(classes, parameters, message):
    with pytest.raises(ValueError, match=message):
        PoolSelector(**parameters).fit(classes[0][:20])


@pytest.mark.slow
def test_without_scikit_learn_there_is_a_sentence():
    program = "import sys; sys.modules['sklearn'] = None; import jaxmkl; print('jaxmkl is there')"
    program += "\ntry: import jaxmkl.sklearn\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    sentence = "jaxmkl.sklearn needs scikit-learn, 1.6 or newer: pip install"
    assert done.stdout.startswith(f"jaxmkl is there\n{sentence}"), done.stderr


@pytest.mark.endless
def test_a_grid_search_on_breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    grid = {"num_features": [20, 40], "regularization": [0.1, 1.0], "forgetting": [1.0, 0.99]}
    search = GridSearchCV(MKLClassifier("expert_mkl", random_state=0, shuffle=True), grid)
    assert search.fit(X, y).best_score_ > 0.95
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.endless
def test_importances_are_those_of_the_learner():
    X, y = np.random.default_rng(0).normal(size=(300, 3)), None
    y = np.sin(2 * X[:, 1])
    fitted = MKLRegressor("expert_mkl", banks="diagonal", num_features=10, kernels=None).fit(X, y)
    assert fitted.feature_importances_.argmax() == 1
    np.testing.assert_allclose(fitted.feature_importances_.sum(), 1.0, rtol=1e-5)
    fixed = MKLRegressor("raker", num_features=5).fit(X, y)
    assert not hasattr(fixed, "feature_importances_")
    wanted = "^MKLRegressor: learner must be one that learns a metric, .* got 'raker'$"
    with pytest.raises(AttributeError, match=wanted):
        _ = fixed.feature_importances_
