"""Values as pytrees: what is traced, what is checked and when."""

import copy
import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import _pytree as pytree


@pytree.dataclass
class Line:
    """A value whose numbers must be positive when a person passes them."""

    slope: float
    offsets: np.ndarray
    inner: tuple = ()
    name: str = pytree.static(default="line")
    order: int = pytree.static(default=1)

    def __post_init__(self):
        checked = pytree.as_leaf(self, "slope", self.slope, minimum=0.0, wanted="at least 0")
        object.__setattr__(self, "slope", checked)

    def __call__(self, x):
        return self.slope * x**self.order + jnp.sum(jnp.asarray(self.offsets))


def line(**changes):
    return dataclasses.replace(Line(2.0, np.array([0.5, 1.5])), **changes)


# --- the tree ------------------------------------------------------------------------------------


def test_fields_are_leaves_and_static_fields_are_structure():
    value = line(inner=(3.0, {"a": 4.0}), name="steep", order=2)
    assert jax.tree.leaves(value)[0] == 2.0
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(value)]
    assert paths == [".slope", ".offsets", ".inner[0]", ".inner[1]['a']"]
    leaves, structure = jax.tree.flatten(value)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is Line
    assert (again.slope, again.inner, again.name, again.order) == (2.0, value.inner, "steep", 2)
    assert again.offsets is value.offsets
    inner = (1.0, {"a": 2.0})
    assert structure == jax.tree.structure(line(slope=9.0, inner=inner, name="steep", order=2))
    assert structure != jax.tree.structure(line(inner=inner, order=2))
    assert structure != jax.tree.structure(line(inner=inner, name="steep"))


def test_a_rebuilt_value_is_not_checked():
    """Else the transformations below would meet refusals of what no person passed."""
    negative = jax.tree.map(lambda leaf: -leaf, line())
    assert negative.slope == -2.0
    with pytest.raises(ValueError, match=r"Line: slope must be at least 0; got -2\.0"):
        Line(negative.slope, negative.offsets)
    gradient = jax.grad(lambda value: -value(3.0))(line())
    assert gradient.slope == -3.0
    np.testing.assert_array_equal(gradient.offsets, [-1, -1])
    placeholder = jax.tree.map(lambda leaf: object(), line())
    assert type(placeholder.slope) is object
    shapes = jax.eval_shape(lambda value: value, line())
    assert shapes.offsets.shape == (2,)


def test_vmap_over_a_stack():
    structure = jax.tree.structure(line())
    stack = jax.tree.unflatten(structure, [jnp.array([1.0, 2.0, 3.0]), line().offsets])
    axes = jax.tree.unflatten(structure, [0, None])
    result = jax.vmap(lambda value: value(2.0), in_axes=(axes,))(stack)
    np.testing.assert_allclose(result, [4.0, 6.0, 8.0])


def test_leaves_do_not_retrace_and_static_fields_do():
    traces = []

    @jax.jit
    def call(value, x):
        traces.append(value.name)
        return value(x)

    assert call(line(), 3.0) == 8.0
    assert call(line(slope=5.0), 3.0) == 17.0
    assert call(line(offsets=np.array([1.0, 1.0])), 2.0) == 6.0
    assert traces == ["line"]
    assert call(line(order=2), 3.0) == 20.0
    assert call(line(name="other"), 3.0) == 8.0
    assert traces == ["line", "line", "other"]
    assert call(line(order=2, slope=1.0), 3.0) == 11.0
    assert len(traces) == 3


def test_values_are_frozen_and_compared_by_identity():
    value = line()
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.slope = 3.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.name
    assert value == value
    assert value != line()
    assert len({value, value, line()}) == 2
    assert copy.deepcopy(value).slope == 2.0


def test_replace_checks():
    assert line(slope=3).slope == 3.0
    with pytest.raises(ValueError, match="Line: slope must be at least 0; got -3"):
        line(slope=-3)
    with pytest.raises(TypeError, match="unknown"):
        line(unknown=1)
    with pytest.raises(ValueError, match="Disagreement: tolerance must be"):
        dataclasses.replace(jaxmkl.query.Disagreement(), tolerance=-1)


def test_repr_says_all_there_is():
    assert repr(line(inner=({},))) == (
        "Line(slope=2.0, offsets=array([0.5, 1.5]), inner=({},), name='line', order=1)"
    )


def test_classes_are_registered_by_name():
    name = pytree.qualified_name(Line)
    assert name == f"{__name__}.Line"
    assert pytree.registered(name) is Line
    assert pytree.registered("jaxmkl.aggregate.hedge.Hedge") is jaxmkl.aggregate.Hedge


# --- numbers that a person passes ----------------------------------------------------------------


def leaf(value, **limits):
    return pytree.as_leaf("Owner", "rate", value, **limits)


@pytest.mark.parametrize("value", [3, np.int32(3), np.float32(3), True + 2, np.array(3)])
def test_numbers_become_floats(value):
    result = leaf(value)
    assert type(result) is float
    assert result == 3.0


def test_sequences_become_double_precision_arrays():
    for value in ([0.1, 2], (0.1, 2), np.array([0.1, 2.0])):
        result = leaf(value, max_ndim=1)
        assert type(result) is np.ndarray
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, [0.1, 2.0])


def test_arrays_of_jax_and_tracers_stay():
    array = jnp.array([1.0, 2.0])
    assert leaf(array, max_ndim=1) is array
    seen = []

    @jax.jit
    def trace(value):
        seen.append(leaf(value, minimum=10.0) is value)
        return value

    trace(1.0)
    assert seen == [True]


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        (np.nan, {}),
        (np.inf, {}),
        (-np.inf, {}),
        (np.nan, {"finite": False}),
        (-0.1, {"minimum": 0.0}),
        (0.0, {"minimum": 0.0, "exclusive": True}),
        (1.5, {"maximum": 1.0}),
        ([1.0, 2.0], {}),
        ([[1.0]], {"max_ndim": 1}),
        ([], {"max_ndim": 1}),
        ([1.0, np.nan], {"max_ndim": 1}),
        ([1.0, -1.0], {"max_ndim": 1, "minimum": 0.0}),
        ([1.0, [2.0]], {"max_ndim": 2}),
        (["a"], {"max_ndim": 1}),
        (jnp.array(-1.0), {"minimum": 0.0}),
    ],
)
def test_what_is_out_of_range_is_refused(value, limits):
    wanted = f"Owner: rate must be what was asked for; got {value!r}"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        leaf(value, wanted="what was asked for", **limits)


@pytest.mark.parametrize("value", ["fast", None, 1j, {"rate": 1.0}], ids=repr)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="Owner: rate must be"):
        leaf(value)


def test_limits_themselves():
    assert leaf(0.0, minimum=0.0) == 0.0
    assert leaf(1.0, maximum=1.0) == 1.0
    assert leaf(np.inf, finite=False) == np.inf


def test_require_names_owner_argument_given_and_wanted():
    with pytest.raises(ValueError, match=r"^Line: size must be odd; got 'x'$"):
        pytree.require(False, line(), "size", "x", "odd")
    pytree.require(True, line(), "size", "x", "odd")
