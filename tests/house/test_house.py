"""Rooms of the house: imports point down, and what is private to a package stays inside it."""

import ast
import functools
import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in ("jaxmkl", "experiments")
    for path in (ROOT / folder).rglob("*.py")
}
#: What each room must not import.
ABOVE = {
    "jaxmkl.evaluate": ("jaxmkl.cli", "jaxmkl.sklearn", "jaxmkl.tables", "experiments"),
    "jaxmkl.tables": ("jaxmkl.cli", "jaxmkl.sklearn", "experiments"),
    "jaxmkl.sklearn": ("jaxmkl.cli", "experiments"),
    "jaxmkl.cli": ("jaxmkl.sklearn", "experiments"),
    "experiments": ("jaxmkl.cli",),
}


def within(name, package):
    return name == package or name.startswith(f"{package}.")


@functools.cache
def imported(module):
    """Full names of all that a module imports."""
    path, found = FILES[module], set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            source = (
                ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            )
            found |= {f"{source}.{alias.name}" for alias in node.names}
    return found


def file_of(name):
    """The module of ours that has a name, or None."""
    return next((name for name in (name, name.rpartition(".")[0]) if name in FILES), None)


@pytest.mark.parametrize("room", ABOVE)
def test_imports_point_down(room):
    upward = {
        (module, name)
        for module in FILES
        if within(module, room)
        for name in imported(module)
        if any(within(name, above) for above in ABOVE[room])
    }
    assert not upward


def test_the_picture_of_the_house_is_true():
    """It shows every room, and imports point down its lines."""
    page = (ROOT / "jaxmkl/guide/architecture.py").read_text("utf-8")
    picture = page[page.index("    jaxmkl\n") :].partition("\n\n")[0].splitlines()[1:]
    line = {
        f"jaxmkl.{name}": number
        for number, text in enumerate(picture)
        for name in re.findall(r"(?<![\w/])(\w+)(?:/|\.py)", text)
    }
    rooms = {".".join(module.split(".")[:2]) for module in FILES if within(module, "jaxmkl")}
    assert {room for room in rooms - {"jaxmkl"} if "._" not in room} <= line.keys() <= rooms
    upward = {
        f"{module} imports {name}"
        for module in FILES
        for name in imported(module)
        if (below := line.get(".".join(name.split(".")[:2]))) is not None
        and below < line.get(".".join(module.split(".")[:2]), 0)
    }
    assert not upward


def test_no_files_import_each_other_in_a_circle():
    """Nor for a type alone, or inside a function."""
    needed = {module: {file_of(name) for name in imported(module)} - {None} for module in FILES}
    graphlib.TopologicalSorter(needed).prepare()  # CycleError names the circle


def test_what_is_private_is_imported_by_its_own_package_alone():
    entered = set()
    for module in FILES:
        for name in imported(module):
            parts = name.split(".")
            hidden = (i for i, part in enumerate(parts) if re.match("_(?!_)", part))
            owner = ".".join(parts[: next(hidden, 0)])
            if parts[0] in ("jaxmkl", "experiments") and owner and not within(module, owner):
                entered.add(f"{module} imports {name}")
    assert not entered


def test_tests_lie_in_folders_that_name_the_rooms():
    """``core`` is for the modules at the root of ``jaxmkl``, ``estimators`` for its sklearn."""
    rooms = {path.parent.name for path in (ROOT / "jaxmkl").glob("*/__init__.py")}
    others = {"core", "estimators", "experiments", "contract", "house", "oracles", "common"}
    files = {path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")}
    assert {path.name for path in files if len(path.parts) == 1} == {"conftest.py"}
    assert {path.parts[0] for path in files if len(path.parts) > 1} <= rooms | others
    assert not [path for path in files if path.match("common/test_*.py")]


def test_the_first_ten_minutes_are_short_and_linked():
    pages = sorted((ROOT / "jaxmkl/guide").glob("first_*.py"))
    assert len(pages) == 4
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) <= 150
    for page in pages:
        assert f"({page.relative_to(ROOT).as_posix()})" in readme
        assert len(page.read_text("utf-8").splitlines()) <= 40


CONTRIBUTING = (ROOT / "jaxmkl/guide/contributing.py").read_text("utf-8")
ADDITIONS = re.findall(r"^### ([^\n]+): (\d) files$(.*?)(?=^##)", CONTRIBUTING, re.M | re.S)
#: The most files that some additions may touch.
MOST = {
    "A kernel": 2,
    "An update rule, with a covariance or without": 3,
    "A learner of a paper": 4,
}


def test_contributing_names_files_that_there_are():
    """A file that is to be added stands for its folder."""
    named = re.findall(r"``([\w.]+/[\w./]+)``", CONTRIBUTING)
    assert len({*named}) > 30
    paths = (ROOT / (name.rpartition("/")[0] if "NAME" in name else name) for name in named)
    assert not [path for path in paths if not path.exists()]
    assert "(jaxmkl/guide/contributing.py)" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("title", "number", "text"), ADDITIONS, ids=[a[0] for a in ADDITIONS])
def test_an_addition_touches_as_many_files_as_its_title_says(title, number, text):
    assert len(re.findall("^- ``", text, re.M)) == int(number)


def test_additions_stay_small():
    numbers = {title: int(number) for title, number, _ in ADDITIONS}
    assert len(numbers) >= 9
    assert all(numbers[title] <= most for title, most in MOST.items())


def test_each_commit_is_checked_as_the_gate_checks():
    """By tools that are installed; nothing is fetched when somebody commits."""
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall("entry: (.*)", text) == ["ruff check --fix", "ruff format", "mypy"]
    assert set(re.findall("language: (.*)", text)) == {"system"}
    assert {*re.findall("repo: (.*)", text)} == {"local"}
