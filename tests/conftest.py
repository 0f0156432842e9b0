"""Settings shared by all tests: strict shapes, reproducible examples, the papers' data."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

# One thread: those of OpenBLAS and of XLA would wait for each other, longer than the work takes,
# and so would those of scikit-learn's boosting where several processes run tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import jax
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
FOLDERS: list[str] = []  # that of the module before

jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile(
    "jaxmkl", deadline=None, derandomize=True, max_examples=25, database=None
)
hypothesis.settings.load_profile("jaxmkl")


def folder_of_data() -> Path:
    """The folder that JAXMKL_DATA names; a test that needs it is skipped where it is unset.

    With JAXMKL_REQUIRE_DATA set, it fails instead: so a run can show that nothing was left out.
    """
    name = os.environ.get("JAXMKL_DATA")
    if not name:
        reason = "JAXMKL_DATA is unset: it should name the folder of the papers' npz files"
        if os.environ.get("JAXMKL_REQUIRE_DATA"):
            pytest.fail(f"{reason} (JAXMKL_REQUIRE_DATA is set)", pytrace=False)
        pytest.skip(reason)
    folder = Path(name)
    if not folder.is_dir():
        pytest.fail(f"JAXMKL_DATA names {name!r}, which is no folder", pytrace=False)
    return folder


def _is_of_reference(path: Path) -> bool:
    return (ROOT / "jaxmkl") in path.parents


class SmallExamples:
    """Examples of the reference are small programs, as those of tests that say so."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if not _is_of_reference(item.path):
            return (yield)
        jax.config.update("jax_disable_most_optimizations", True)
        try:
            return (yield)
        finally:
            jax.config.update("jax_disable_most_optimizations", False)


def pytest_configure(config: pytest.Config) -> None:
    # the fixtures below are for tests/ alone
    config.pluginmanager.register(SmallExamples())


@pytest.hookimpl(tryfirst=True)  # before those that are slow are taken out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples of the reference compile whole learners, and the papers' data are large."""
    for item in items:
        if _is_of_reference(item.path) or item.get_closest_marker("data") is not None:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("data") is not None:
        folder_of_data()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the papers' data sets; for tests marked ``data``."""
    return folder_of_data()


@pytest.fixture(scope="module", autouse=True)
def compiled_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile as the module wants it, and let go of what was compiled.

    Where tests are of many small programs (``SMALL_PROGRAMS = True`` in the module), most of the
    time goes into machine code; there it is made without the compiler's last optimisations, what
    XLA does to the programs before is done. Each program maps memory of its own, of which a
    process may have so many pieces only. Modules of the command run the same few programs, and
    leave them to the next of these modules.
    """
    small = getattr(request.module, "SMALL_PROGRAMS", False)
    before, FOLDERS[:] = FOLDERS[:], [request.path.parent.name]
    if before == ["cli"] != FOLDERS:
        jax.clear_caches()
    jax.config.update("jax_disable_most_optimizations", small)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    if FOLDERS != ["cli"]:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def programs_of_users(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests on the papers' data have machine code as users have it, whatever the module wants.

    Where they take few rows of them, the module says ``FEW_ROWS = True`` and has its small
    programs there too.
    """
    before = jax.config.read("jax_disable_most_optimizations")
    few = getattr(request.module, "FEW_ROWS", False)
    if request.node.get_closest_marker("data") is not None and not few:
        jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def compiled(caplog: pytest.LogCaptureFixture) -> Iterator[Callable]:
    """A function that calls another one, and tells which programs that compiles, in any thread."""

    def of(call: Callable, *arguments: object) -> list[str]:
        caplog.clear()
        jax.block_until_ready(call(*arguments))
        told = [record.getMessage() for record in caplog.records]
        return [text for text in told if "Finished XLA compilation" in text]

    jax.config.update("jax_log_compiles", True)
    with caplog.at_level(logging.WARNING):
        yield of
    jax.config.update("jax_log_compiles", False)


@pytest.fixture
def x64() -> Iterator[None]:
    """The test runs in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reads chunks of 64 rows."""
    monkeypatch.setattr("jaxmkl.tables.source.ROWS", 64)


@pytest.fixture
def flowers(tmp_path: Path, short_chunks: None) -> Path:
    """Iris, four times in an order of its own, with gaps; run in chunks of 64 rows."""
    import polars as pl
    import sklearn.datasets

    X, y = sklearn.datasets.load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(600)
    frame = pl.DataFrame(X, ["a", "b", "c", "d"]).with_columns(kind=np.array(["x", "y", "z"])[y])
    frame = frame[order % 150].with_columns(pl.when(pl.Series(order % 7 > 0)).then("a"))
    frame.write_csv(tmp_path / "flowers.csv")
    return tmp_path / "flowers.csv"
