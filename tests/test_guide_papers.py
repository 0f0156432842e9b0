"""The map of the papers: each name imports, each argument exists, each command is understood."""

import importlib
import inspect
import re
import shlex

import pytest

import jaxmkl
from experiments.commands import IN_PARTS, options_of
from experiments.names import refusal
from jaxmkl.guide import papers
from jaxmkl.recipes.settings import SETTINGS

#: What stands in single backticks, on one line or two.
QUOTED = [" ".join(text.split()) for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", papers.__doc__)]
COMMANDS = [text for text in QUOTED if text == "bench" or " --" in text]
NAMES = [text for text in QUOTED if text not in COMMANDS]
#: Rows of tables that are no recipes.
ROWS = {name for paper in IN_PARTS.values() for name in paper.known}


def found(name):
    """The object of a dotted name, or the recipe of a plain one."""
    if "." not in name:
        return jaxmkl.LEARNERS[name]
    module, rest = jaxmkl, name.split(".")[1:]
    for part in rest:
        if inspect.ismodule(module) and not hasattr(module, part):
            module = importlib.import_module(f"{module.__name__}.{part}")
        else:
            module = getattr(module, part)
    return module


def test_the_map_has_all_there_is_to_check():
    assert len({*NAMES}) > 60
    assert len({*COMMANDS}) > 20
    assert {text.split("(")[0] for text in NAMES} >= {*jaxmkl.LEARNERS} - {"expert_mkl"}
    # every part that plays a table, a figure or a theorem of a paper is on the map
    ours = {"classification", "mixture", "labels", "drift", "learned", "densities"}
    ours |= {"probabilities", "river", "precision", "picture", "selectors", "rare", "rounds"}
    parts = {(name, part) for name in IN_PARTS for part in IN_PARTS[name].by_name}
    named = {
        (command.split()[0], part)
        for command in COMMANDS
        for part in (options_of(shlex.split(command)).parts or ())
    }
    assert {pair for pair in parts if pair[1] not in ours and pair[0] != "decisions"} <= named


@pytest.mark.parametrize("text", sorted({*NAMES}))
def test_a_name_of_the_map_imports_and_has_the_arguments(text):
    if text in ROWS and text not in jaxmkl.LEARNERS:
        return
    name, _, arguments = text.partition("(")
    thing = found(name)
    if arguments:
        known = inspect.signature(thing).parameters
        for argument in arguments.removesuffix(")").split(", "):
            assert argument in known, text


@pytest.mark.parametrize("command", sorted({*COMMANDS}))
def test_a_command_of_the_map_is_understood(command):
    words = shlex.split(command)
    assert refusal(words) is None
    options = options_of(words)
    assert options.command == words[0]
    if words[0] in IN_PARTS:
        paper = IN_PARTS[words[0]]
        assert {*(options.parts or ())} <= {*paper.by_name}
        assert {*(options.datasets or ())} <= {*paper.datasets}


@pytest.mark.parametrize(
    ("title", "last"), [("Hong and Chae", 59), ("Wang, Du", 30), ("supplement", 12)]
)
def test_every_numbered_equation_is_on_the_map(title, last):
    (section,) = (part for part in papers.__doc__.split("\n## ") if title in part.split("\n")[0])
    numbers = set()
    for first, end in re.findall(r"\((\d+)\)(?:\s+to\s+\((\d+)\))?", section):
        numbers |= {*range(int(first), int(end or first) + 1)}
    assert {*range(1, last + 1)} <= numbers


def test_published_settings_are_on_the_map():
    for name in SETTINGS:
        words = name if name in jaxmkl.LEARNERS else f"({name.removeprefix('omkc_').upper()})"
        assert words in papers.__doc__
