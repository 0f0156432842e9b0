"""Run the papers' tables beside ours, a tour and benchmarks; RESULTS.md has their figures.

``python -m experiments COMMAND --help`` has the options of a command. The algorithms of a paper's
tables are its own, those as published, as "raker (as published)", and all of jaxmkl.LEARNERS.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxmkl.command_line import Named, Parser, count, is_standard, names, refuse_clashes, setting
from jaxmkl.evaluate import UsageError

from . import bench, page, results, tour
from .bench.features import LONG
from .bench.peers import PARTS
from .evaluate import FAMILY
from .options import Options
from .papers.paper import run_paper
from .report import Report
from .results.plan import IN_PARTS


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    common = Parser(add_help=False)
    add = common.add_argument
    add("--seeds", type=count, metavar="N", help="runs of each learner")
    add("--json", type=Path, metavar="FILE", help="write the figures to it; - is standard output")
    add("--plots", type=Path, metavar="DIR", help="write plots into this folder")
    add("--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a learner's parameter; may be given several times")  # fmt: skip
    add("--datasets", type=names, metavar="A,B", help="data sets, by name")
    add("--algorithms", type=names, metavar="X,Y", help="learners, by name")
    data = Parser(add_help=False)
    data.add_argument("--data", type=Path, metavar="DIR", help="the papers' data (JAXMKL_DATA)")

    as_written = argparse.RawDescriptionHelpFormatter
    result = Parser(prog="python -m experiments", description=__doc__, formatter_class=as_written)
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    about = "the main job, also without any command"
    choices = _choices(tour.STREAMS, FAMILY, f"{tour.SEEDS}")
    commands.add_parser("tour", parents=[common], help=about, epilog=choices, allow_abbrev=False)
    for paper in IN_PARTS.values():
        seeds = f"{paper.seeds}, but where a part has its own number"
        choices = _choices(paper.datasets, paper.algorithms, seeds)
        of_paper = commands.add_parser(
            paper.name, parents=[common, data], help=paper.title, epilog=choices
        )
        parts = f"{', '.join(paper.by_name)} or all; default: {','.join(paper.default_parts)}"
        of_paper.add_argument("--parts", type=names, metavar="P,Q", help=parts)
    of_bench = commands.add_parser("bench", parents=[data], help="speed")
    add = of_bench.add_argument
    add("--json", type=Path, metavar="FILE", help="write the figures to it; - is standard output")
    add("--plots", type=Path, metavar="DIR", help="of --peers: pictures")
    add("--datasets", type=names, metavar="A,B", help="--peers: some of its data")
    several = "--endless, --compile, --peers (standings): models"
    add("--algorithms", type=names, metavar="X,Y", help=several)
    add("--seeds", type=count, metavar="N", help="--peers (standings): runs of each model")
    add("--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="--peers (standings): a parameter of ours")  # fmt: skip
    several = "--endless, --peers (standings), --serve: examples"
    add("--rounds", type=count, metavar="N", help=several)
    add("--beside", type=Path, metavar="DIR", help="--tables: a checkout of another version")
    add("--parts", type=names, metavar="P,Q", help=f"--peers: some of {', '.join(PARTS)}")
    instead = of_bench.add_mutually_exclusive_group()
    for name, what in (
        ("long", f"the stream of {LONG:,} examples"),
        ("memory", "the memory of many support vectors"),
        ("peers", "models of other packages, in turn with ours: some minutes"),
        ("device", "1, 32 and 1,024 seeds at once, on the accelerator that JAX finds"),
        ("certainty", "variances, densities and probabilities, beside values alone"),
        ("compile", "what it takes to compile every recipe: kernels, seconds by stage"),
        ("fleet", "10,000 small learners, each on a stream of its own"),
        ("endless", "learners of constant cost over a stream of --rounds, in two precisions"),
        ("pools", "choosing points of pools"),
        ("tables", "reading tables of 1,000 to 100,000 columns"),
        ("serve", "clients of a server, beside models of other packages"),
        ("large_pools", "choosing points of pools of 100,000 and 1,000,000: some minutes"),
    ):
        flag, about = f"--{name.replace('_', '-')}", f"{what}, instead"
        instead.add_argument(flag, dest="benchmark", action="store_const", const=name, help=about)
    of_bench.set_defaults(benchmark="short")
    about = "run all that RESULTS.md is written from, and write it"
    add = commands.add_parser("results", parents=[data], help=about).add_argument
    add("--json", dest="file", type=Path, metavar="FILE", help="the file of all figures")
    add("--plots", type=Path, metavar="DIR", help="write plots into this folder")
    add("--quick", action="store_true", help="few seeds, small data sets")
    add("--jobs", type=count, default=1, metavar="N", help="parts that are run at a time")
    add("--only", type=names, metavar="PAPER", help="papers, by name, or bench")
    of_page = commands.add_parser("report", help="write the figures of a JSON file as a page")
    of_page.add_argument("file", type=Path, metavar="FILE.json", help="a file that --json wrote")
    of_page.add_argument("--out", type=Path, metavar="OUT.html", help="default: FILE.html")
    return result


def _choices(datasets: Iterable[str], algorithms: Iterable[str], seeds: str) -> str:
    own = f"Data sets: {', '.join(datasets)}. Its own algorithms: {', '.join(algorithms)}."
    return f"{own} Seeds by default: {seeds}."


def options_of(arguments: Sequence[str]) -> Options:
    """Parse a command line; the default command is the tour."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["tour", *arguments]
    values = vars(parser().parse_args(arguments))
    values["settings"] = dict(values.pop("settings", []))
    if values["command"] == "tour" and values["plots"] is None:
        values["plots"] = Path("plots")
    return Options(**values)


def check_files(options: Options) -> None:
    """Refuse files to write that the command also reads, or that cannot be written.

    Raises:
        UsageError: if there is such a file; nothing has been run or written then.
    """
    given, files = options.file, list[Named]()
    if options.command == "report" and given is not None:
        files += [Named("FILE", given), Named("--out", options.out or _page(given), True)]
    elif options.command == "results" and given is not None:
        files += [Named("--json", given, True), Named("its page", _page(given), True)]
        files += [Named("its tables", given.with_name("RESULTS.md"), True)]
    elif options.json is not None:
        files.append(Named("--json", options.json, True))
    for name, path in ((file.name, Path(file.path)) for file in files if file.is_written):
        if path.is_dir():
            raise UsageError(f"{name}: {path} is not a file")
        if not is_standard(path):
            _refuse_unwritable(name, path)
    folder = options.data or os.environ.get("JAXMKL_DATA")
    files += [Named("--data", path) for path in Path(folder).glob("*.npz")] if folder else []
    if options.plots is not None:
        if options.plots.exists() and not options.plots.is_dir():
            raise UsageError(f"--plots: {options.plots} is not a folder")
        _refuse_unwritable("--plots", options.plots)
        files += [Named("--plots", path, True) for path in options.plots.glob("*.png")]
    refuse_clashes(files)


def _refuse_unwritable(name: str, path: Path) -> None:
    there = next(one for one in (path, *path.parents) if os.path.exists(one))
    if not os.access(there, os.W_OK) or (there != path and not there.is_dir()):
        raise UsageError(f"{name}: {path}: {there} cannot be written to")


def _page(path: Path) -> Path:
    return path.with_suffix(".html")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0; 2 if it cannot be met, 130 if interrupted."""
    try:
        if arguments[:1] == ["run"]:
            raise UsageError(f"one's own data: {' '.join(['jaxmkl', *arguments])}")
        options = options_of(arguments)
        check_files(options)
        aside = is_standard(options.json)
        report = Report(" ".join(["python -m experiments", *arguments]), options.plots, aside)
        jobs = {"tour": tour.run, "bench": bench.run, "report": page.run, "results": results.run}
        if options.command in IN_PARTS:
            run_paper(IN_PARTS[options.command], options, report)
        else:
            jobs[options.command](options, report)
        if options.json is not None:
            report.write_json(options.json)
    except UsageError as error:
        print(f"python -m experiments: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("python -m experiments: interrupted", file=sys.stderr)
        return 130
    return 0
