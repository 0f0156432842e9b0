"""Type checkers see what a user's call lacks or misspells: mypy and pyright agree on each line."""

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
"""

# with the settings of the project, and so with what mypy knows of it since it was checked itself
MYPY = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
CHECKERS = {
    "mypy": ["mypy", *MYPY, "--no-error-summary"],
    "pyright": ["basedpyright", "--level=error", f"--pythonpath={sys.executable}"],
}


@pytest.mark.types
@pytest.mark.parametrize("checker", CHECKERS)
def test_calls_are_checked(checker, tmp_path):
    """An error on each wrong line, and on no other."""
    calls = tmp_path / "calls.py"
    calls.write_text(PRELUDE + RIGHT + WRONG)
    (tmp_path / "jaxmkl").symlink_to(ROOT / "jaxmkl")  # beside the calls, both checkers find it
    program, *options = CHECKERS[checker]
    command = [str(Path(sys.executable).parent / program), *options, calls.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    found = {int(line) for line in re.findall(r"calls\.py:(\d+):.*\berror\b", printed)}
    before = len((PRELUDE + RIGHT).splitlines()) + 1
    wrong = {before + number for number in range(1, len(WRONG.strip().splitlines()) + 1)}
    assert found == wrong, printed
