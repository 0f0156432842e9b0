"""Parameters of tests, few of which are run with the quick tests."""

import pytest


def quick(chosen, parameters):
    """The parameters, of which those that are not ``chosen`` are for ``pytest -m slow``."""
    return _but(chosen, parameters, pytest.mark.slow)


def long(chosen, parameters):
    """The parameters, of which those that are not ``chosen`` are for ``pytest -m endless``."""
    return _but(chosen, parameters, pytest.mark.endless)


def _but(chosen, parameters, marks):
    return [
        p if p in chosen else pytest.param(*(p if isinstance(p, tuple) else (p,)), marks=marks)
        for p in parameters
    ]
