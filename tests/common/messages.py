"""Warnings of a call, which have to name a line of the test."""

import warnings


def messages(file, call, *arguments):
    """The messages of all warnings of a call, each of which names a line of this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*arguments)
    assert all(one.filename == file for one in found)
    return [str(one.message) for one in found]
