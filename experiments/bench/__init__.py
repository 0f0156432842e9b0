"""Speed: the time of an example, beside that of scikit-learn, and a very long stream.

There are also learners with support vectors (seconds per pass over data sets of the papers, and
memory; whether the last tenth of a stream takes as long as the first if the support is bounded),
passes over many tasks and the memory of their models, choosing points of pools, models of other
packages on the same streams, many small learners, each on a stream of its own, many seeds at once
on an accelerator, what variances, densities and probabilities cost, what compiling does, and how
wide tables are read.
"""

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
    supports,
    tables,
)


def run(options: Options, report: Report) -> None:
    """Run the benchmark, or another one that an option names.

    Raises:
        UsageError: if an option was given that only ``--peers``, ``--endless``, ``--compile`` or
            ``--tables`` takes.
    """
    name = options.benchmark
    if name != "peers" and (options.datasets or options.plots or options.parts):
        raise UsageError("bench: --datasets, --parts and --plots are those of --peers")
    if name != "endless" and options.rounds:
        raise UsageError("bench: --rounds is one of --endless")
    if name not in ("endless", "compile") and options.algorithms:
        raise UsageError("bench: --algorithms are those of --endless and --compile")
    if name != "tables" and options.beside:
        raise UsageError("bench: --beside is one of --tables")
    if name == "long":
        features.long_stream(report)
    elif name == "memory":
        supports.memory(options, report)
    elif name == "peers":
        peers.run(options, report)
    elif name == "endless":
        endless.run(options, report)
    elif name == "device":
        device.run(report)
    elif name == "certainty":
        certainty.run(options, report)
    elif name == "compile":
        compiling.run(options, report)
    elif name == "tables":
        tables.run(options, report)
    elif name == "fleet":
        fleet.run(report)
    elif name in ("pools", "large_pools"):
        pools.run(options, report)
    else:
        features.short(options, report)
        supports.support_vectors(options, report)
        supports.tenths(options, report)
        supports.many_tasks(options, report)
