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
    # every part that runs a table, a figure or a theorem of a paper is on the map
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


def section_of(title):
    (section,) = (part for part in papers.__doc__.split("\n## ") if title in part.split("\n")[0])
    return section


@pytest.mark.parametrize(
    ("title", "last"),
    [("Hong and Chae", 76), ("Lu, Hoi", 6), ("Zhang", 4), ("Wang, Du", 33), ("supplement", 12)],
)
def test_every_numbered_equation_is_on_the_map(title, last):
    numbers = set()
    for first, end in re.findall(r"\((\d+)\)(?:\s+to\s+\((\d+)\))?", section_of(title)):
        numbers |= {*range(int(first), int(end or first) + 1)}
    assert {*range(1, last + 1)} == numbers


@pytest.mark.parametrize(
    ("title", "theirs"),
    [
        ("Hong and Chae", "Algorithm 1-2, Theorem 1-3, Lemma 1-6, Table I-III, Figure 1-3"),
        ("Lu, Hoi", "Algorithm 1-1, Theorem 1-2, Lemma 1-1, Table 1-3, Figure 1-1"),
        ("Zhang", "Algorithm 1-1, Theorem 1-1, Table 1-2, Figure 1-1"),
        ("Wang, Du", "Algorithm 1-5, Theorem 1-2, Lemma 1-1, Table I-III, Figure 1-2"),
        ("supplement", "Theorem 1-2, Lemma 1-1, Lemma 3-3"),
    ],
)
def test_all_that_a_paper_numbers_is_on_the_map(title, theirs):
    """Its algorithms, theorems, tables and figures; "Lemmas 1 to 6" names six."""
    roman = {"I": "1", "II": "2", "III": "3"}
    text = re.sub(r"\b(I{1,3})\b", lambda found: roman[found[0]], section_of(title))
    named = set()
    for kind, first, joined, end in re.findall(
        r"\b(Algorithm|Theorem|Lemma|Table|Figure)s?\s+(\d+)(?:\s(to|and)\s(\d+))?", text
    ):
        between = range(int(first), int(end or first) + 1) if joined == "to" else (first, end)
        named |= {(kind, str(number)) for number in between if number}
    for each in theirs.split(", "):
        kind, numbers = each.split(" ")
        first, end = (int(roman.get(number, number)) for number in numbers.split("-"))
        assert {(kind, str(number)) for number in range(first, end + 1)} <= named, each


def test_published_settings_are_on_the_map():
    for name in SETTINGS:
        words = name if name in jaxmkl.LEARNERS else f"({name.removeprefix('omkc_').upper()})"
        assert words in papers.__doc__
