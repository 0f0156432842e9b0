"""Type checkers see what a user's call lacks or misspells: mypy and pyright agree on each line."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PRELUDE = """
import jax
import jaxmkl
from jaxmkl import aggregate, losses, models, query, updates, wrappers

key, X = jax.random.key(0), jax.numpy.ones((10, 2))
y, kernel, learner = X[:, 0], jaxmkl.Gaussian(1.0), jaxmkl.raker()
state = learner.init(key, 2)
"""

RIGHT = """
jaxmkl.run(learner, state, X, y, block_size=8)
jaxmkl.run_many(learner, jax.random.split(key), X, y)
jaxmkl.Gaussian([0.1, 1.0])
updates.OGD([0.1, 0.2], loss="huber")
updates.OGD(0.1, loss=losses.Huber(0.5))
models.FeatureModels(kernel, (updates.OGD(0.1), updates.RLS()))
jaxmkl.MKL(models.FeatureModels(kernel), aggregate.Hedge(rate=0.5), query=query.Margin(0.1))
wrappers.scaled(learner, wrappers.RunningMoments())
jaxmkl.label_budget(learner, 100)
learner.update(state, X[0], y[0])
state.models
learner.update(state, X[0], y[0]).models
wrappers.intervals(learner).init(key, 2).inner
jaxmkl.run(learner, state, X, y)[0].models
jaxmkl.run_many(learner, jax.random.split(key), X, y)[0].models
updates.RLS().init(1, 2, "float32").covariance
"""

WRONG = """
jaxmkl.Gaussian()
jaxmkl.Gaussian(bandwith=1.0)
learner.init(key)
learner.update(state, X[0])
jaxmkl.run(learner, state, X)
jaxmkl.run(learner, state, X, y, blocksize=8)
jaxmkl.run_many(learner, X, y)
jaxmkl.raker(learning_rate=0.1)
updates.OGD(stepsize=0.1)
models.FeatureModels(updates.OGD(0.1))
jaxmkl.MKL(models.FeatureModels(kernel), aggregate=query.All())
jaxmkl.label_budget(learner)
query.Margin("0.1")
state.model
learner.update(state, X[0], y[0]).model
learner.update(learner, X[0], y[0])
wrappers.intervals(learner).init(key, 2).models
jaxmkl.run(learner, state, X, y)[0].model
jaxmkl.run_many(learner, jax.random.split(key), X, y)[0].model
updates.RLS().init(1, 2, "float32").variance
"""

# with the settings of the project, and so with what mypy knows of it since it was checked itself
MYPY = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
CHECKERS = {
    "mypy": ["mypy", *MYPY, "--no-error-summary"],
    "pyright": ["basedpyright", "--level=error", f"--pythonpath={sys.executable}"],
}
# as one writes at a prompt: a name for one thing after another, functions without types. As
# options they would make mypy check the whole library anew
AT_A_PROMPT = "assignment", "no-untyped-def"


def lines_with_errors(checker, text, folder, allowed=()):
    """The lines of a program in which a type checker sees an error, and all that it prints.

    Errors of mypy that are ``allowed``, by their codes, do not count.
    """
    calls = folder / "calls.py"
    calls.write_text(text)
    (folder / "jaxmkl").symlink_to(ROOT / "jaxmkl")  # beside the calls, both checkers find it
    program, *others = CHECKERS[checker]
    command = [str(Path(sys.executable).parent / program), *others, calls.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    found = re.findall(r"calls\.py:(\d+):.*\berror\b.*?(?:\[([\w-]+)\])?$", printed, re.MULTILINE)
    return {int(line) for line, code in found if code not in allowed}, printed


@pytest.mark.types
@pytest.mark.parametrize("checker", CHECKERS)
def test_calls_are_checked(checker, tmp_path):
    """An error on each wrong line, and on no other."""
    found, printed = lines_with_errors(checker, PRELUDE + RIGHT + WRONG, tmp_path)
    before = len((PRELUDE + RIGHT).splitlines()) + 1
    wrong = {before + number for number in range(1, len(WRONG.strip().splitlines()) + 1)}
    assert found == wrong, printed


@pytest.mark.types
@pytest.mark.parametrize("checker", CHECKERS)
def test_examples_of_readme_have_no_error_of_types(checker, tmp_path):
    """They are checked with one more line, in which a learner of theirs is misused."""
    examples = doctest.DocTestParser().get_examples((ROOT / "README.md").read_text("utf-8"))
    text = "".join(example.source for example in examples)
    assert len(examples) > 20
    wrong = "learner.update(state, X[0])\n"
    found, printed = lines_with_errors(checker, text + wrong, tmp_path, AT_A_PROMPT)
    assert found == {len(text.splitlines()) + 1}, printed
