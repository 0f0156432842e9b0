"""Published settings: what is asked of them, and that each constant has its source."""

import inspect

import pytest

import jaxmkl
from jaxmkl.recipes import published
from jaxmkl.recipes.settings import SETTINGS
from jaxmkl.testing import check_learner

EACH = pytest.mark.parametrize("name", SETTINGS)
# which are a recipe with an argument of its own
VARIANTS = {"omkc_ds": "omkc_sd", "omkc_ss": "omkc_sd"}


def recipe_of(name):
    return jaxmkl.recipes.LEARNERS[VARIANTS.get(name, name)]


@EACH
def test_each_is_a_recipes_learner(name):
    """A learner has the recipe's class and structure unless something static differs."""
    learner = published(name, num_examples=1000, num_inputs=4)
    assert type(learner) is type(recipe_of(name)())
    assert repr(learner) == repr(published(name, num_examples=1000, num_inputs=4))


@EACH
def test_constants_have_sources(name):
    setting = SETTINGS[name]
    assert setting.paper
    names = [constant.name for constant in setting.constants]
    assert len(names) == len(set(names)) > 3
    assert all(part.strip() for constant in setting.constants for part in constant)


@EACH
def test_what_the_paper_tunes_is_an_argument_and_nothing_else(name):
    T, D = 500, 3
    usual = published(name, num_examples=T, num_inputs=D)
    parameters = inspect.signature(recipe_of(name)).parameters
    for argument, values in SETTINGS[name].tuned.items():
        assert argument in parameters
        made = [published(name, num_examples=T, num_inputs=D, **{argument: v}) for v in values]
        assert len({repr(learner) for learner in made}) == len(values)
        # without the argument it is one of them
        assert repr(usual) in {repr(learner) for learner in made}
    with pytest.raises(ValueError, match=f"published: colour must be left out: of {name} its "):
        published(name, num_examples=T, num_inputs=D, colour=1.0)


@pytest.mark.parametrize("name", ["expert_mkl", "", None, "Raker"])
def test_what_no_paper_publishes_is_refused(name):
    with pytest.raises(ValueError, match=r"published: name must be one of raker, .*; got "):
        published(name, num_examples=10, num_inputs=2)


@pytest.mark.parametrize("number", [0, -1, 2.5, "many"])
@pytest.mark.parametrize("argument", ["num_examples", "num_inputs"])
def test_sizes_are_whole_numbers(argument, number):
    sizes = {"num_examples": 10, "num_inputs": 2, argument: number}
    with pytest.raises(ValueError, match=rf"published: {argument} must be an integer .*; got "):
        published("raker", **sizes)


@pytest.mark.endless
@EACH
def test_each_keeps_the_contract(name):
    check_learner(published(name, num_examples=100, num_inputs=3))
