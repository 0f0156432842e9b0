"""Texts become words: as scikit-learn weighs them, and mistakes beside its bag of words."""

import ast
import sysconfig
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import SGDClassifier

import jaxmkl
from jaxmkl.evaluate import candidates
from jaxmkl.tables import Columns, open_table
from jaxmkl.wrappers import AllBut, layers

PATTERN = r"(?u)\w+"


def texts_of(seed, num_words, num_classes, rows, length, spread):
    """Texts of random words, each class with frequencies of its own, and their classes."""
    draws = np.random.default_rng(seed)
    base = 1.0 / np.arange(1, num_words + 1) if num_words > 100 else np.ones(num_words)
    shares = base * np.exp(draws.normal(0, spread, (num_classes, num_words)))
    shares /= shares.sum(axis=1, keepdims=True)
    words = np.array([f"word{i}" for i in range(num_words)])
    y = draws.integers(num_classes, size=rows)
    lengths = 4 + draws.poisson(length, size=rows)
    texts = [
        " ".join(draws.choice(words, n, p=shares[k])) for n, k in zip(lengths, y, strict=True)
    ]
    return texts, y


def docstrings():
    """Docstrings of Python's own packages, and the package of each."""
    names = "asyncio", "email", "logging", "multiprocessing", "unittest", "xml"
    root, texts, y = Path(sysconfig.get_paths()["stdlib"]), [], []
    for k, name in enumerate(names):
        for path in sorted((root / name).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                kinds = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
                text = ast.get_docstring(node) if isinstance(node, kinds) else None
                if text and "test" not in path.parts:
                    texts.append(text)
                    y.append(k)
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order], np.array(y)[order]


def first_rows(cells, y=None):
    frame = {"message": cells, "y": np.arange(len(cells)) * 0.5 if y is None else y}
    return next(open_table(frame).chunks(len(cells)))


@pytest.mark.parametrize("most", [60, 512])
def test_words_are_weighed_as_scikit_learn_does(most):
    texts, _ = texts_of(0, 200, 3, 300, 9, 1.0)
    chunk = first_rows(texts)
    columns = Columns.decide(chunk, "y", as_={"message": f"text:{most}"})
    X, _ = columns.encode(chunk, columns.init())
    words = [name.removeprefix("message: ") for name in columns.features]
    assert len(words) <= most
    counted = CountVectorizer(token_pattern=PATTERN).fit(texts)
    often = np.asarray((counted.transform(texts) > 0).sum(axis=0)).ravel()
    by_word = dict(zip(counted.get_feature_names_out(), often, strict=True))
    if most == 60:
        left = [by_word[word] for word in by_word if word not in words]
        assert max(left) <= min(by_word[word] for word in words)
    oracle = TfidfVectorizer(token_pattern=PATTERN, sublinear_tf=True, vocabulary=words)
    assert_allclose(X, oracle.fit_transform(texts).toarray() * np.sqrt(len(words)), rtol=1e-12)
    assert columns.of_words == ((0, len(words)),)
    assert f"300 values in the first rows: {len(words)} words become inputs" in columns.notes[-1]
    assert Columns.from_json(columns.to_json()) == columns


def test_texts_that_the_first_rows_had_not():
    texts, _ = texts_of(1, 29, 3, 120, 6, 1.0)
    columns = Columns.decide(first_rows(texts), "y")
    assert len(columns.features) == 29
    later = first_rows(["word3 unknown", "unknown", None, "WORD3!", "?", "word3 word3"])
    X, _ = columns.encode(later, columns.init())
    assert_array_equal(X[[0, 3, 5]], np.eye(29)[[words.index("message: word3") for words in
                       [columns.features] * 3]] * np.sqrt(29))  # fmt: skip
    assert not X[[1, 2, 4]].any()
    unseen = columns.unseen(later, X)
    assert unseen.tolist() == [1]
    assert "1 cells hold no word that the first rows had often enough" in columns.losses(unseen)[0]


def test_many_categories_are_words_of_their_own():
    draws = np.random.default_rng(0)
    cities = [f"{a} {b}" for a in ("New", "Old", "Port") for b in "ABCDEFGHIJKLMNOPQRST"]
    cells = draws.choice(cities, 400)
    columns = Columns.decide(first_rows(cells), "y")
    X, _ = columns.encode(first_rows(cells), columns.init())
    place = {name: at for at, name in enumerate(columns.features)}
    for row, cell in enumerate(cells[:50]):
        present = {columns.features[at] for at in np.flatnonzero(X[row])}
        wanted = {cell.lower(), *cell.lower().split()}
        assert present == {f"message: {word}" for word in wanted}
        assert X[row, place[f"message: {cell.lower()}"]] == X[row].max()  # the rarest


def test_numbers_of_words_that_are_refused():
    chunk = first_rows(["a b", "c d"])
    for wrong in ("text:0", "text:1000000"):
        with pytest.raises(ValueError, match="column 'message': the kind must be a number of"):
            Columns.decide(chunk, "y", as_={"message": wrong})
    with pytest.raises(ValueError, match=r"must be one of number, .* text:NUMBER of words"):
        Columns.decide(chunk, "y", as_={"message": "text:many"})


@pytest.mark.parametrize(
    ("words", "settings", "banks"),
    [
        ((), {}, 2),
        (((0, 40),), {}, 2),
        (((0, 60),), {}, 2),
        (((3, 30), (40, 90)), {"num_features": 9}, 2),
        (((0, 100),), {}, 1),
        (((0, 60),), {"banks": "fixed"}, 1),
    ],
)
def test_models_are_linear_where_most_inputs_are_words(words, settings, banks):
    asked = {"num_inputs": 100, "words": words}
    (made, other), notes = candidates(["expert_mkl", "raker"], "regression", 0, settings, **asked)
    inside = list(layers(made.learner))
    assert len(inside[-1].models) == banks
    num_words = sum(end - first for first, end in words)
    is_linear = num_words > 50 and "banks" not in settings
    last = inside[-1].models[-1]
    assert isinstance(getattr(last, "kernels", None), jaxmkl.Linear) == is_linear
    text = f"models are linear, as {num_words} of 100 inputs are words"
    assert any(text in note for note in notes) == is_linear
    scalers = [layer.scaler for layer in inside if hasattr(layer, "scaler")]
    assert [isinstance(scaler, AllBut) for scaler in scalers] == [bool(words)]
    if is_linear and banks == 2:  # kernels are of what is no word
        others = {*range(100)} - {at for first, end in words for at in range(first, end)}
        assert {*inside[-1].models[0].kernels.columns} == others
        assert any("and kernels are of the others" in note for note in notes)
    assert other.parameters["kernels"] is None


@pytest.mark.slow
def test_words_that_tell_nothing_do_not_hide_the_numbers():
    """Scaled to variance 1, the inputs of 20 words would count as much as 19 numbers."""
    draws = np.random.default_rng(0)
    x, kinds = draws.normal(size=(2000, 4)), draws.integers(20, size=2000)
    y = np.sin(x[:, 0]) + x[:, 1] ** 2 / 2
    chunk = first_rows([f"v{kind}" for kind in kinds], y)
    numbers = [pl.Series(f"x{i}", x[:, i]) for i in range(4)]
    truth = pl.Series("truth", ["no", "yes"] * 1000)
    chunk = chunk._replace(frame=chunk.frame.with_columns(truth, *numbers))
    columns = Columns.decide(chunk, "y")
    X, _ = columns.inputs(chunk, columns.init())
    asked = {"num_inputs": X.shape[1], "flags": columns.flags}
    assert columns.flags == ((0, 21),)
    (made,), _ = candidates(["raker"], "regression", 0, {"num_features": 20}, **asked)
    state = made.learner.init(jax.random.key(0), X.shape[1])
    _, outputs = jaxmkl.run(made.learner, state, X, y)
    assert outputs.loss[1000:].mean() < 0.5 * y.var()


@pytest.mark.slow
def test_numbers_that_are_0_or_1_stay_so_and_what_is_far_later_is_clipped():
    frame = {
        "flag": [1, 0] * 100,
        "gaps": [1, 0, None, 0] * 50,
        "number": [0.5, None] * 100,
        "text": ["1.0", "0"] * 100,
        "counts": [0, 1, 2, 0] * 50,
        "y": np.arange(200.0),
    }
    chunk = next(open_table(pl.DataFrame(frame, strict=False)).chunks(200))
    columns = Columns.decide(chunk, "y", as_={"text": "number"})
    names = np.array(columns.features)
    flags = np.concatenate([np.arange(*span) for span in columns.flags])
    assert [*names[flags]] == ["flag", "gaps", "gaps is missing", "number is missing", "text"]
    assert Columns.from_json(columns.to_json()) == columns
    asked = {"num_inputs": len(names), "words": (), "flags": columns.flags}
    (made,), _ = candidates(["raker"], "regression", 0, {"num_features": 4}, **asked)
    (scaler,) = (layer.scaler for layer in layers(made.learner) if hasattr(layer, "scaler"))
    X, _ = columns.inputs(chunk, columns.init())
    state = scaler.init(jax.random.key(0), len(names), np.float32)
    scaled, _ = scaler.predict(state, jax.numpy.asarray(X[1], np.float32) - 300)
    assert_array_equal(scaled[flags], -10.0)
    assert_array_equal(scaler.predict(state, X[0])[0][flags], X[0, flags])


@pytest.mark.endless
def test_categories_beside_a_number():
    """Many categories do not lose what was learned about a number."""
    draws = np.random.default_rng(0)
    effects, kinds = draws.normal(size=200), draws.integers(200, size=3000)
    x = draws.normal(size=3000)
    y = effects[kinds] + np.sin(2 * x) + 0.5 * draws.normal(size=3000)
    chunk = first_rows([f"v{kind}" for kind in kinds], y)
    chunk = chunk._replace(frame=chunk.frame.with_columns(x=pl.Series(x)))
    columns = Columns.decide(chunk, "y")
    X, _ = columns.inputs(chunk, columns.init())
    errors = []
    for settings in ({}, {"banks": "linear"}):
        asked = {"num_inputs": X.shape[1], "words": columns.of_words, "flags": columns.flags}
        (made,), _ = candidates(["expert_mkl"], "regression", 0, settings, **asked)
        state = made.learner.init(jax.random.key(0), X.shape[1])
        _, outputs = jaxmkl.run(made.learner, state, X, y)
        errors.append(float(outputs.loss[1:].mean()))
    assert errors[0] < 0.7 * errors[1]


def mistakes(texts, y):
    """Mistakes of one pass: ours, as the command has it, and of a bag of words."""
    names = np.array([f"class {k}" for k in y])
    frame = pl.DataFrame({"message": texts, "kind": names})
    first = next(open_table(frame[:1000]).chunks(1000))
    columns = Columns.decide(first, "kind")
    chunk = next(open_table(frame).chunks(len(y)))
    X, _ = columns.inputs(chunk, columns.init())
    K, D = len(columns.classes), X.shape[1]
    asked = {"num_inputs": D, "words": columns.of_words}
    (made,), _ = candidates(["expert_mkl"], "classification", K, {}, **asked)
    state = made.learner.init(jax.random.key(0), D)
    _, outputs = jaxmkl.run(made.learner, state, X, columns.targets(chunk))
    said = np.asarray(outputs.prediction)
    ours = said.argmax(axis=1) if K > 2 else said > 0
    bag, known = CountVectorizer(token_pattern=PATTERN).fit_transform(texts), np.unique(y)
    theirs, model = [known[0]], SGDClassifier(loss="log_loss", random_state=0)
    for t in range(len(y)):
        if t:
            theirs.append(model.predict(bag[t : t + 1])[0])
        model.partial_fit(bag[t : t + 1], y[t : t + 1], known)
    return (ours != y)[1:].mean(), (theirs != y)[1:].mean()


TEXTS = {
    "29 words": lambda: texts_of(2, 29, 5, 2500, 5, 1.2),
    "1,000 words": lambda: texts_of(3, 1000, 2, 2500, 12, 1.2),
    "5,000 words": lambda: texts_of(4, 5000, 4, 2500, 12, 1.3),
    "docstrings": docstrings,
}


@pytest.mark.endless
@pytest.mark.parametrize("name", TEXTS)
def test_mistakes_beside_a_bag_of_words(name):
    ours, theirs = mistakes(*TEXTS[name]())
    print(f"{name}: {ours:.4f} beside {theirs:.4f}")
    assert ours < 1.3 * theirs
