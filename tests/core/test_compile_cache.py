"""Compiled programs that a later process uses again."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax
jax.jit(lambda x: x + 1)(1.0)  # JAX has looked for a folder before
import jaxmkl
assert jax.config.jax_compilation_cache_dir is None
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
jaxmkl.compile_cache(*sys.argv[1:])
learner = jaxmkl.raker(num_features=50)
X = jax.random.normal(jax.random.key(0), (500, 3))
jaxmkl.run(learner, learner.init(jax.random.key(1), num_inputs=3), X, X[:, 0])
print(hits.count("/jax/compilation_cache/cache_hits"))
"""
UNSET = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def outcome(*arguments, **more):
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    line = [sys.executable, "-c", PROGRAM, *arguments]
    said = subprocess.run(line, env=environment | more, capture_output=True, text=True, check=True)
    return int(said.stdout)


@pytest.mark.slow
def test_a_later_process_compiles_nothing_again(tmp_path):
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    assert (outcome(**home), os.listdir(tmp_path)) == (0, ["jaxmkl"])
    assert os.listdir(tmp_path / "jaxmkl")
    assert outcome(str(tmp_path / "jaxmkl")) > 0


def test_a_folder_that_jax_has_stays(tmp_path, monkeypatch):
    import jax

    import jaxmkl

    before = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert jaxmkl.compile_cache() == str(tmp_path)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
