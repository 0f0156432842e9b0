"""Benchmarks: time and memory; the options of ``bench`` say what each is about."""

from collections.abc import Callable, Mapping

from jaxmkl.evaluate import UsageError

from ..options import Options
from ..report import Report
from . import (
    certainty,
    compiling,
    device,
    endless,
    features,
    fleet,
    peers,
    pools,
    serving,
    supports,
    tables,
)


def short(options: Options, report: Report) -> None:
    """Run the benchmarks that no option names."""
    for one in (features.short, supports.support_vectors, supports.tenths, supports.many_tasks):
        one(options, report)


JOBS: Mapping[str, Callable[[Options, Report], None]] = {
    "short": short,
    "long": lambda _, report: features.long_stream(report),
    "device": lambda _, report: device.run(report),
    "fleet": lambda _, report: fleet.run(report),
    "memory": supports.memory,
    "peers": peers.run,
    "endless": endless.run,
    "certainty": certainty.run,
    "compile": compiling.run,
    "tables": tables.run,
    "pools": pools.run,
    "large_pools": pools.run,
    "serve": serving.run,
}
# options, and the benchmarks that take them
TAKEN = {
    **dict.fromkeys(("datasets", "parts", "plots", "seeds", "settings"), ("peers",)),
    "rounds": ("endless", "peers", "serve"),
    "algorithms": ("endless", "compile", "peers"),
    "beside": ("tables",),
}


def run(options: Options, report: Report) -> None:
    """Run the benchmark, or another one that an option names."""
    name = options.benchmark
    for option, takers in TAKEN.items():
        if getattr(options, option) and name not in takers:
            flag = {"settings": "set"}.get(option, option)
            raise UsageError(f"bench: --{flag} is of {', '.join(f'--{one}' for one in takers)}")
    JOBS[name](options, report)
