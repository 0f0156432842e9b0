"""jaxmkl.labels against labels read by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmkl.labels import class_numbers, labels, signs


@pytest.mark.parametrize(
    ("y", "signs", "classes"),
    [
        ([0, 1, 0], [-1, 1, -1], (0, 1)),
        ([-1, 1, 1], [-1, 1, 1], (-1, 1)),
        ([1.0, 0.0], [1, -1], (0.0, 1.0)),
        ([-0.0, 1.0], [-1, 1], (0.0, 1.0)),
        ([5, 0, 5], [1, -1, 1], (0, 5)),
        ([-2.5, 0.5], [-1, 1], (-2.5, 0.5)),
        ([True, False], [1, -1], (False, True)),
        ([True], [1], (False, True)),
        ([False, False], [-1, -1], (False, True)),
        ([1, 1], [1, 1], (-1, 1)),
        ([-1], [-1], (-1, 1)),
        ([0, 0, 0], [-1, -1, -1], (0, 1)),
        ([[0], [1]], [-1, 1], (0, 1)),
        (["yes", "no", "yes"], [1, -1, 1], ("no", "yes")),
        (["a", "aa"], [-1, 1], ("a", "aa")),
        ([b"x", b"w"], [1, -1], (b"w", b"x")),
        (np.array([1, 0], np.uint8), [1, -1], (0, 1)),
        (np.array(["u", "v"], dtype=object), [-1, 1], ("u", "v")),
        (np.array([True, np.False_], dtype=object), [1, -1], (False, True)),
        (np.array([0, np.int64(1), 1], dtype=object), [-1, 1, 1], (0, 1)),
        (np.array(["u", "v"], dtype=np.dtypes.StringDType()), [-1, 1], ("u", "v")),
        (jnp.array([1, -1]), [1, -1], (-1, 1)),
        (jnp.array([1, 0], jnp.bfloat16), [1, -1], (0.0, 1.0)),
        ([], [], (-1, 1)),
    ],
)
def test_labels_of_every_kind(y, signs, classes):
    result, found = labels(y)
    np.testing.assert_array_equal(result, signs)
    assert result.dtype == np.asarray(y).dtype or result.dtype == np.float32
    assert found == classes
    assert tuple(map(type, found)) == tuple(map(type, classes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_keep_a_floating_dtype(dtype):
    assert labels(np.array([1, 0], dtype))[0].dtype == dtype


@pytest.mark.parametrize(
    ("y", "given"),
    [
        ([1, 2], "values 1, 2 (numbers are read by their sign: pass y == 2)"),
        ([-1, 0, 1], "values -1, 0, 1"),
        ([-1, 0], "values -1, 0 (numbers are read by their sign: pass y == 0)"),
        ([0.5, 1.0], "values 0.5, 1.0 (numbers are read by their sign: pass y == 1.0)"),
        ([0.0, np.nan, np.nan], "values 0.0, nan"),
        ([np.nan], "value nan"),
        ([2, 2], "value 2"),
        (["a", "a"], "value 'a' (one word alone: pass y == 'a')"),
        (["a", "b", "a", "c"], "values 'a', 'b', 'c'"),
        (list(range(9)), "values 0, 1, 2, 3, 4, ..."),
        (np.array([1, "a"], dtype=object), "values 1, 'a'"),
        (np.array([True, 0], dtype=object), "values True, 0"),
        (np.array([1, None], dtype=object), "values 1, None"),
        ([1j, 1], "values 1j, (1+0j)"),
    ],
)
def test_labels_that_are_refused(y, given):
    with pytest.raises(ValueError, match=r"labels: y must be \{0, 1\}, \{-1, 1\}") as error:
        labels(y)
    assert str(error.value).endswith(f"got the {given}")


@pytest.mark.parametrize(
    "y", [[0, 1, 1], [-1.0, 1.0, 0.5], [True, False], np.uint8([0, 3]), [[0.0], [-0.0]], [np.nan]]
)
def test_signs_inside_a_trace(y):
    found = jax.jit(signs)(np.asarray(y))
    expected = np.where(np.isnan(y), np.nan, np.where(np.asarray(y) > 0, 1, -1))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32
    half = jax.jit(signs)(jnp.asarray(y, jnp.float16))
    np.testing.assert_array_equal(half, expected)
    assert half.dtype == np.float16


@pytest.mark.parametrize("shape", [(), (2, 2), (1, 2), (2, 1, 1)])
def test_labels_have_one_axis(shape):
    with pytest.raises(ValueError, match=r"shape \(T,\) or \(T, 1\); got"):
        labels(np.ones(shape))


def test_known_classes_may_be_any_values():
    for classes in ((1, 2), ("u", "v"), (True, False), (b"w", b"x"), (2.5, -1.0)):
        for y in (classes, classes[:1], classes[::-1], np.array(classes, object)):
            found, kept = labels(y, classes)
            assert found.tolist() == [2.0 * classes.index(item) - 1.0 for item in y]
            assert kept == classes
    found, kept = class_numbers(["oak", "ash"], 3, ["oak", "elm", "ash"])
    assert (found.tolist(), kept) == ([0.0, 2.0], ("oak", "elm", "ash"))


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (["u", "w"], ("u", "v"), r"y must be of the classes 'u', 'v'; got 'w'"),
        (["1"], (1, 2), r"y must be of the classes 1, 2; got '1'"),
        ([np.nan], (1.0, 2.0), r"y must be of the classes 1.0, 2.0; got nan"),
        (["u"], ("u", "u"), r"classes must be 2 different values; got \['u', 'u'\]"),
        (["u"], ("u", "v", "w"), r"classes must be 2 different values"),
        (["cat", "cat"], None, r"got the value 'cat' \(one word alone: pass y == 'cat'\)"),
    ],
)
def test_labels_of_other_classes_are_refused(y, classes, message):
    with pytest.raises(ValueError, match=message):
        labels(y, classes)


@pytest.mark.parametrize("read", [labels, lambda y: class_numbers(y, 3)], ids=["two", "several"])
def test_tracers_and_masked_labels_are_refused(read):
    name = "labels" if read is labels else "class_numbers"
    for transform in (jax.jit, jax.vmap, lambda f: jax.grad(lambda y: f(y).sum())):
        with pytest.raises(ValueError, match=f"^{name}: y must be an array outside of jit, vmap"):
            transform(lambda y: read(y)[0])(jnp.ones(3))
    with pytest.raises(ValueError, match="y must not be masked"):
        read(np.ma.array([0, 1, 1], mask=[False, True, False]))
    with pytest.raises(ValueError, match=rf"^{name}: y must have the shape \(T,\)"):
        read(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("y", "classes", "said"),
    [
        (
            [1, 2],
            [[1], [2]],
            r"labels: classes must be 2 different values that can be hashed; got",
        ),
        ([1, 2], 3, r"labels: classes must be 2 different values; got \[3\]"),
        (
            np.array(["a", ["b"]], object),
            "ab",
            r"classes must be 2 different values; got \['ab'\]",
        ),
        (
            np.array(["a", ["b"]], object),
            ["a", "b"],
            r"y must be of the classes 'a', 'b'; got \['b",
        ),
    ],
)
def test_what_cannot_be_hashed_is_no_class(y, classes, said):
    with pytest.raises(ValueError, match=said):
        labels(y, classes)
