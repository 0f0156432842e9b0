"""The reference: every public name is explained, and pdoc makes pages of all of them."""

import contextlib
import importlib
import inspect
import itertools
import pathlib
import pkgutil
import re
import subprocess
import sys
import types

import pytest

import jaxmkl
from jaxmkl.guide import changelog, symbols


def modules():
    """All public modules of the package."""
    found = pkgutil.walk_packages(jaxmkl.__path__, "jaxmkl.")
    names = [module.name for module in found if "._" not in module.name]
    return [jaxmkl, *map(importlib.import_module, names)]


def public(module):
    """The names of a module: those it lists, or else those it defines."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    own = {name: value for name, value in vars(module).items() if name[0] != "_"}
    return {n: v for n, v in own.items() if getattr(v, "__module__", None) == module.__name__}


def explained(name, value):
    """Names, of a class its methods' too, that have no words of their own or of their base."""
    if isinstance(value, types.ModuleType) or not callable(value):
        return []
    # a dataclass without words gets its signature, a NamedTuple too
    words = inspect.getdoc(value) or ""
    missing = [] if words and not words.startswith(f"{value.__name__}(") else [name]
    if not inspect.isclass(value):
        return missing
    fields = {*getattr(value, "_fields", ()), *getattr(value, "__dataclass_fields__", ())}
    for member in vars(value).keys() - fields:
        found = inspect.getattr_static(value, member)
        kind = callable(found) or isinstance(found, property | classmethod | staticmethod)
        if member[0] != "_" and kind and not inspect.getdoc(getattr(value, member)):
            missing.append(f"{name}.{member}")
    return missing


MODULES = {module.__name__: module for module in modules()}


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_explained(name):
    module = MODULES[name]
    assert module.__doc__
    missing = [explained(f"{name}.{key}", value) for key, value in public(module).items()]
    assert list(itertools.chain(*missing)) == []


def test_what_packages_import_for_others_is_public():
    """A package lists all that it imports from its own modules, and no name twice."""
    for module in MODULES.values():
        if hasattr(module, "__path__") and hasattr(module, "__all__"):
            imported = {
                name
                for name, value in vars(module).items()
                if getattr(value, "__module__", "").startswith(module.__name__ + ".")
                if name[0] != "_"
            }
            assert imported <= set(module.__all__), module.__name__
            assert len(set(module.__all__)) == len(module.__all__)


def resolved(name):
    """The object of a full name; an error if there is none."""
    with contextlib.suppress(ImportError):
        return importlib.import_module(name)
    owner, _, last = name.rpartition(".")
    return getattr(resolved(owner), last)


def test_references_name_what_there_is():
    found = {}
    for path in pathlib.Path(jaxmkl.__file__).parent.rglob("*.py"):
        for name in re.findall(r":[a-z]+:`(jaxmkl[\w.]*)`", path.read_text()):
            found.setdefault(name, path.name)
    assert len(found) > 50
    for name, file in found.items():
        assert "._" not in name or file.startswith("_"), f"{file} refers to the private {name}"
        assert resolved(name) is not None, f"{file} refers to {name}"


def test_the_changelog_is_short_and_what_replaces_a_name_is_there():
    """Two minutes are some 700 words; names are looked up in their table."""
    latest = changelog.__doc__.split("\n## ")[1]
    news, _, table = latest.partition("**Moved, renamed or gone**")
    assert len(news.split()) < 750
    rows = [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 20
    names = {name for _, now in rows for name in re.findall(r"`([a-z]+\.[\w.]+)`", now)}
    names -= {"info.num_active"}
    assert len(names) > 8
    for name in names:
        of_ours = name.startswith(("jaxmkl.", "experiments."))
        assert resolved(name if of_ours else f"jaxmkl.{name}") is not None


def test_the_glossary_is_one_page_in_the_order_of_the_alphabet():
    glossary = symbols.__doc__.split("\n## ")[1]
    assert glossary.startswith("Glossary")
    assert len(glossary.splitlines()) <= 60
    words = re.findall(r"^\| ([a-z][\w ,]*) \|", glossary, re.MULTILINE)
    assert len(words) > 40
    assert words == sorted(set(words))
    rooms = {"ability", "aggregate", "design", "learner", "metric", "model", "recipe", "wrapper"}
    assert rooms | {"code", "aux", "feedback", "state"} <= {*words}  # of the protocol


@pytest.mark.slow
def test_pages_are_made_without_a_warning(tmp_path):
    command = [sys.executable, "-W", "always", "-m", "pdoc", "-d", "google", "--no-show-source"]
    command += ["--no-search"]
    (named,) = re.findall("    pdoc -d google (.*)", jaxmkl.guide.__doc__)
    made = subprocess.run(
        [*command, *named.split(), "-o", str(tmp_path)], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert "warn" not in made.stderr.lower(), made.stderr
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    rooms = {module.__name__.split(".")[1] for module in modules()[1:]}
    wanted = {f"jaxmkl/{room}.html" for room in rooms - {"command_line"}}
    assert {"jaxmkl.html", "jaxmkl/guide/labels.html", *wanted} <= pages
    for page in pages:
        text = (tmp_path / page).read_text()
        words = re.sub(r"<(pre|code|script|details).*?</\1>", "", text, flags=re.S)
        assert ">>>" not in words, page
        assert not re.search(r":(class|func|meth|mod|data|attr):", words), page
