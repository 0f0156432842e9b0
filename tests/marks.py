"""Parameters of tests, few of which are played with the quick tests."""

import pytest


def quick(chosen, parameters):
    """The parameters, of which those that are not ``chosen`` are for ``pytest -m slow``."""
    slow = pytest.mark.slow
    return [p if p in chosen else pytest.param(*as_tuple(p), marks=slow) for p in parameters]


def as_tuple(parameter):
    return parameter if isinstance(parameter, tuple) else (parameter,)
