"""The plan of all figures: run once, continued, and put into RESULTS.md and README."""

import dataclasses
import functools
import json
import math
import multiprocessing
import os
import re
import shlex
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import results
from experiments.__main__ import main
from experiments.bench import serving
from experiments.commands import options_of
from experiments.options import Options
from experiments.papers.paper import Paper
from experiments.report import Report
from experiments.results import entries, plan, templates
from experiments.results.plan import IN_PARTS, PLAN, Play
from jaxmkl.evaluate import UsageError, row
from jaxmkl.evaluate.markup import element

ROOT = Path(__file__).parents[2]
SETS = ("hills", "dales", "plains")


@pytest.fixture
def made(monkeypatch):
    """A paper of two parts, made at once: what was run, and where it is interrupted."""
    record = SimpleNamespace(commands=[], interrupted=None)

    def of_set(job, factor):
        (dataset,) = job.datasets
        record.commands.append(job.report.command)
        if record.commands[-1] == record.interrupted:
            raise KeyboardInterrupt
        measured = [factor * len(dataset) + seed for seed in range(job.seeds)]
        name = "made", dataset, "walker", "mistake_rate"
        job.report.add([row(name, measured, printed=0.1234567, parameters={"share": math.pi})])

    def one(job):
        """Play the first part."""
        of_set(job, 1 / 3)

    def two(job):
        """Play the second part."""
        of_set(job, 2.0)

    paper = Paper(
        "made",
        "A paper",
        SETS,
        {"walker": "raker"},
        (one, two),
        ("one",),
        seeds=3,
        generated=SETS,
        check=lambda *_: [],
    )
    monkeypatch.setitem(IN_PARTS, "made", paper)
    return record


@pytest.fixture
def folder(tmp_path):
    """Templates of the paper's figures in place of those of RESULTS.md."""
    for name in templates.SECTIONS:
        (tmp_path / f"{name}.md").write_text(f"Section {name}.\n")
    (tmp_path / "amkl.md").write_text(
        "Walkers err on {{made.one; hills; walker; mistake_rate; digits = 2}}.\n"
    )
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without their drawings, which take most of the time of a play that is made at once."""
    monkeypatch.setattr("experiments.page._drawing", lambda rows: element("svg"))


PLAYS = (Play("made", "one", SETS, ("dales",)), Play("made", "two", ("hills",), ("hills",)))


def run(folder, plays=PLAYS, **options):
    out = folder / "out" / "figures.json"
    results.run(Options("results", file=out, **options), Report("test"), plays, folder)
    return out


def strict(path):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)["plays"]


def test_every_unit_is_run_once_and_its_entry_says_how_it_was_made(made, folder):
    out = run(folder)
    assert made.commands == [
        *(f"python -m experiments made --parts one --datasets {d} --data DIR" for d in SETS),
        "python -m experiments made --parts two --datasets hills --data DIR",
    ]
    found = strict(out)
    assert {name: [*of] for name, of in found.items()} == {
        "made.one": [*SETS],
        "made.two": ["hills"],
    }
    entry = found["made.one"]["hills"]
    assert entry["command"] == made.commands[0]
    assert {"jaxmkl", "jax", "numpy", "scikit-learn", "Python"} == {*entry["versions"]}
    assert all(entry[clock] >= 0 for clock in ("seconds", "processor_seconds"))
    (line,) = entry["rows"]
    assert line["mean"] == float(f"{5 / 3 + 1:.6g}")
    assert (line["std"], line["seeds"], line["printed"]) == (1.0, 3, 0.123457)
    assert entry["parameters"][line["parameters"]] == {"share": 3.14159}
    (text,) = (folder / "out").glob("RESULTS.md")
    assert "Walkers err on 2.67." in text.read_text()
    page = out.with_suffix(".html").read_text()
    assert "made.two: hills" in page
    assert made.commands[0] in page

    run(folder)  # nothing is left to play
    assert len(made.commands) == 4


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_plan_goes_on_where_it_was(made, folder, capsys):
    commands = [unit.command for play in PLAYS for unit in play.units(quick=False)]
    made.interrupted = commands[1]
    with pytest.raises(SystemExit) as stopped:
        run(folder)
    assert stopped.value.code == 130
    assert "goes on where it was" in capsys.readouterr().out
    assert [*strict(folder / "out" / "figures.json")["made.one"]] == ["hills"]
    assert not (folder / "out" / "RESULTS.md").exists()

    made.interrupted = None
    out = run(folder)
    assert made.commands == [*commands[:2], *commands[1:]]
    assert [*strict(out)["made.one"]] == [*SETS]
    assert [path.name for path in out.parent.glob("*.partial")] == []


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"seeds": 5},
        pytest.param({"settings": {"step_size": 1}}, marks=pytest.mark.endless),
    ],
)
def test_a_unit_of_another_definition_is_run_again(made, folder, capsys, change):
    run(folder)
    before = strict(folder / "out" / "figures.json")
    del made.commands[:]
    changed = dataclasses.replace(PLAYS[1], **change)
    capsys.readouterr()
    out = run(folder, (PLAYS[0], changed))
    (unit,) = changed.units(quick=False)
    assert made.commands == [unit.command]
    assert "made.two hills: its entry is of another definition" in capsys.readouterr().out
    after = strict(out)
    assert after["made.one"] == before["made.one"]
    again = after["made.two"]["hills"]
    assert (again["command"], again["version"]) == (unit.command, changed.version)
    assert again["rows"][0]["seeds"] == change.get("seeds", 3)


def test_a_quick_play_has_few_seeds_and_writes_no_results(made, folder):
    out = run(folder, quick=True)
    found = strict(out)
    assert {name: [*of] for name, of in found.items()} == {
        "made.one": ["dales"],
        "made.two": ["hills"],
    }
    assert found["made.one"]["dales"]["rows"][0]["seeds"] == plan.QUICK_SEEDS
    assert out.with_suffix(".html").exists()
    assert not (folder / "out" / "RESULTS.md").exists()


@pytest.mark.usefixtures("undrawn")
def test_some_papers_are_run_alone(made, folder):
    other = Play("amkl", "tables", ("tom",))
    run(folder, (*PLAYS, other), only=("made",))
    assert len(made.commands) == 4
    with pytest.raises(UsageError, match=r"unknown paper 'mad'; there are: made, amkl"):
        run(folder, (*PLAYS, other), only=("mad",))


@pytest.mark.usefixtures("undrawn")
def test_what_cannot_be_run_is_left_out_with_a_line(made, folder, capsys):
    lacking = Play("made", "two", ("dales",), needs=("no_such_package",), suffix=".lacking")
    run(folder, (*PLAYS, lacking))
    assert "no_such_package not installed, left out" in capsys.readouterr().out
    assert len(made.commands) == 4
    unknown = dataclasses.replace(lacking, datasets=("seas",), needs=())
    assert "made.lacking" not in strict(run(folder, (*PLAYS, unknown)))
    assert "unknown data set 'seas'" in capsys.readouterr().out


SHORT = tuple(
    Play("design", part, (dataset,), algorithms=("random",), seeds=1)
    for part, dataset in (("picture", "plane"), ("rare", "rare"))
)


@pytest.mark.endless
def test_units_run_at_a_time_are_those_in_turn(folder, capsys):
    (folder / "amkl.md").write_text("{{design.rare; rare; random; found_rate}}\n")
    unknown = dataclasses.replace(SHORT[0], datasets=("seas",), suffix=".unknown")
    plays = *SHORT, unknown
    run(folder, plays)
    in_turn = strict(folder / "out" / "figures.json")
    (folder / "out" / "figures.json").unlink()
    capsys.readouterr()
    side_by_side = strict(run(folder, plays, jobs=2))
    assert (
        "design.picture.unknown seas: left out: unknown data set 'seas'" in capsys.readouterr().out
    )
    assert {*side_by_side} == {*in_turn} == {play.name for play in SHORT}
    for name, of in in_turn.items():
        ((dataset, entry),) = of.items()
        again = side_by_side[name][dataset]
        assert again["command"] == entry["command"]
        assert again["processor_seconds"] > 0
        values = [
            [
                (line["algorithm"], line["metric"], line.get("mean"))
                for line in each["rows"]
                if "seconds" not in line["metric"]
            ]
            for each in (entry, again)
        ]
        assert values[0] == values[1]
        assert values[0]


@pytest.mark.slow
def test_units_run_at_a_time_end_with_an_interrupt(folder, capsys):
    (play,) = (play for play in PLAN if play.name == "decisions.optimisation")
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    alarm = threading.Timer(4.0, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    try:
        with pytest.raises(SystemExit) as stopped:
            run(folder, (play, *SHORT), jobs=2)
    finally:
        alarm.cancel()
        signal.signal(signal.SIGINT, former)
    assert stopped.value.code == 130
    assert "goes on where it was" in capsys.readouterr().out
    assert not multiprocessing.active_children()


def test_a_benchmark_is_run_in_a_process_of_its_own(folder, monkeypatch):
    def started(words, check):
        assert words[1:4] == ["-m", "experiments", "bench"]
        assert words[4:6] == ["--large-pools", "--json"]
        line = row(("bench", "pool", "cted", "seconds"), [2.0])
        written = Report("python -m experiments bench")
        written.add([line])
        written.write_json(Path(words[6]))
        return SimpleNamespace(returncode=0)

    (folder / "amkl.md").write_text("{{bench.large_pools; pool; cted; seconds}} s\n")
    monkeypatch.setattr(plan.subprocess, "run", started)
    out = run(folder, (Play("bench", "large_pools"),))
    assert strict(out)["bench.large_pools"]["whole"]["rows"][0]["mean"] == 2.0
    assert "\n2.0 s\n" in (folder / "out" / "RESULTS.md").read_text()


def test_a_benchmark_that_fails_is_no_entry(folder, monkeypatch, capsys):
    (folder / "amkl.md").write_text("nothing\n")
    failed = SimpleNamespace(returncode=3)
    monkeypatch.setattr(plan.subprocess, "run", lambda *_, **__: failed)
    out = run(folder, (Play("bench", "fleet"),))
    assert not out.exists()
    assert "bench --fleet --data DIR ended with status 3" in capsys.readouterr().out


def test_a_file_of_another_kind_is_refused(tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text('{"rows": []}')
    assert main(["results", "--json", str(path), "--only", "bench"]) == 2
    assert f"{path}: is not a file of results" in capsys.readouterr().err


# --- templates -------------------------------------------------------------------------------

FIGURES = {
    ("p.q", dataset, algorithm, metric): row(
        ("p", dataset, algorithm, metric),
        values,
        printed=0.5 if algorithm == "a" else None,
        seconds_per_run=7.0,
    )
    for (dataset, algorithm, metric), values in {
        ("tom", "a", "mse"): [0.002, 0.004],
        ("tom", "b (k = 1)", "mse"): [0.001, 0.001],
        ("air", "a", "mse"): [0.25, 0.25],
        ("air", "b (k = 1)", "mse"): [-1.0, 0.5],
        ("tom", "a", "mistake_rate"): [0.5, 0.75],
        ("tom", "nothing", "mse"): [math.nan, math.nan],
    }.items()
}


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        ("p.q; tom; a; mse; unit = 1e-3", "3.0"),
        ("p.q; tom; b (k = 1); mse; digits = 4", "0.0010"),
        ("dataset = tom; p.q; metric = mse; a; digits = 3; look = short", ".003"),
        ("p.q; tom; a; mse; take = error; unit = 1e-3; digits = 2", "1.00"),
        ("p.q; tom; a; mse; take = printed; unit = %; digits = 0", "50"),
        ("p.q; tom; a; mse; take = seeds; digits = 0", "2"),
        ("p.q; air; a; mse; significant = 3; look = signed short", "+.250"),
        ("p.q; tom; a; mistake_rate; unit = 1e-5; digits = 0; look = comma", "62,500"),
        ("p.q; *; a; mse; take = most; digits = 2", "0.25"),
        ("p.q; tom | a?r; b (k = 1); mse; take = better; digits = 0", "1"),
        ("p.q; *; b (k = 1); mse; take = worse; digits = 0", "0"),
        ("p.q; *; b*; mse; take = largest_error; digits = 2", "0.75"),
        ("p.q; t?m | air; a | b*; mse; take = least", "-0.2"),
        ("p.q; tom; a; mse; take = seconds; digits = 0", "7"),
        ("p.q; tom; a; mistake_rate; unit = 1e-5; significant = 2; look = comma", "62,000"),
        ("p.q; sea; a; mse; missing = -", "-"),
        ("= 100 * ([p.q; tom; a; mse] / [p.q; tom; b (k = 1); mse] - 1)", "200.0"),
        ("= max([p.q; tom; a; mse], .5) ** 2; digits = 2", "0.25"),
        ("= -[p.q; tom; a; mse] / 1000; digits = 0", "0"),
    ],
)
def test_figures_in_lines(figure, text):
    assert templates.filled(f"a {{{{{figure}}}}} b", FIGURES, "f.md") == f"a {text} b"


@pytest.mark.parametrize(
    ("figure", "why"),
    [
        ("p.q; tom; c; mse", "the play 'p.q' has no figure for data set 'tom', algorithm 'c'"),
        ("p.q; tom; b (k = 1); mse; take = printed", "nothing is printed for p.q, tom, b"),
        ("p.q; tom; nothing; mse", "the figure for p.q, tom, nothing, mse is not a number"),
        ("p.q; tom; mse", "should name: play, dataset, algorithm, metric"),
        ("p.q; tom; a; mse; take = median", "take is one of mean, std, error, printed"),
        (
            "p.q; t* | sea*; a; mse; take = most",
            "no figures of algorithm 'a', metric 'mse' on sea*",
        ),
        (
            "p.q; tom; a | c*; mse; take = most",
            "no figures of algorithm 'c*', metric 'mse' on tom",
        ),
        ("= [p.q; tom; a; mse] +", "is no formula"),
        ("= __import__('os').getcwd()", "has what no formula has"),
    ],
)
def test_an_unknown_figure_is_refused_with_its_place(figure, why):
    text = f"one\ntwo\nthree {{{{{figure}}}}}"
    with pytest.raises(UsageError, match=f"^{re.escape('f.md, line 3: ')}.*{re.escape(why)}"):
        templates.filled(text, FIGURES, "f.md")


BLOCK = """before

```figures
play: p.q
corner: x
columns: tom | the air = air
metric: mse
digits: 3
A, b | {t*; a; mse; take = most; digits = 4} :: {a} ({a; take = printed; digits = 1})
`B` :: {b (k = 1)} :: {b (k = 1); digits = 1}
```

after"""


def test_tables_have_a_line_for_each_line_of_the_block():
    assert templates.filled(BLOCK, FIGURES, "f.md").split("\n") == [
        "before",
        "",
        "| x | tom | the air |",
        "|---|---|---|",
        "| A, b | 0.0030 | 0.003 (0.5) | 0.250 (0.5) |",
        "| `B` | 0.001 | -0.2 |",
        "",
        "after",
    ]


def test_a_data_set_that_is_left_out_stands_beside_what_is_printed_for_it():
    block = """```figures
play: bomkl.table2
metric: mistake_rate
unit: %
columns: ijcnn1, ten columns are empty = ijcnn1
missing: –
`spa` :: {spa} ± {spa; take = error} / {spa; take = printed}
printed :: {spa; take = printed; digits = 2}
```"""
    *_, spa, printed = templates.filled(block, {}, "f.md").split("\n")
    assert (spa, printed) == ("| `spa` | – / 7.8 |", "| printed | 7.75 |")
    # nothing is made up that is not printed
    unknown = block.replace("bomkl", "made").replace("missing: –\n", "")
    assert templates.NO_TABLE in templates.filled(unknown, {}, "f.md")


def test_tables_can_be_turned():
    text = BLOCK.replace("columns:", "rows:")
    text = re.sub(r"A, b .*? ::", "A ::", text)
    assert templates.filled(text, FIGURES, "f.md").split("\n")[2:6] == [
        "| x | A | `B` |",
        "|---|---|---|",
        "| tom | 0.003 (0.5) | 0.001 |",
        "| the air | 0.250 (0.5) | -0.2 |",
    ]


def test_what_has_not_been_played_says_so():
    fewer = {name: of for name, of in FIGURES.items() if "air" not in name}
    assert templates.filled(BLOCK, fewer, "f.md") == f"before\n\n{templates.NO_TABLE}\n\nafter"
    shown = templates.filled("{{p.q; moon; a; mse}} and {{p.q; sea; a; mse; missing = 7}}", {}, "")
    assert shown == "(not played yet) and 7"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("colums: a", "'colums: a' is neither a field nor a line of the table"),
        ("C :: 1 :: 2 :: 3", "the line 'C' has 3 cells for 2 keys"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(line, why):
    with pytest.raises(UsageError, match=re.escape(f"f.md, line 3: {why}")):
        templates.filled(BLOCK.replace("`B`", f"{line}\n`B`"), FIGURES, "f.md")


# --- the plan and what is committed ----------------------------------------------------------


def units(quick=False):
    return [unit for play in PLAN for unit in play.units(quick)]


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_every_unit_is_what_its_command_plays(quick):
    names = [unit.name for unit in units(quick)]
    assert len(set(names)) == len(names)
    for unit in units(quick):
        python, options = unit.command.removesuffix(" --data DIR"), unit.options()
        parsed = options_of(shlex.split(python.removeprefix("python -m experiments ")))
        assert parsed == options
        if options.command != "bench":
            paper = IN_PARTS[options.command]
            assert {*options.parts} <= {*paper.by_name}
            assert {*(options.datasets or ())} <= {*paper.datasets}
            assert {*(options.algorithms or ())} <= {*paper.known}
    for play in PLAN:
        assert {*play.quick} <= {*play.datasets}


def test_every_part_of_the_papers_is_in_the_plan():
    parts = {(name, part) for name, paper in IN_PARTS.items() for part in paper.by_name}
    drawn = {("amkl", "curves")}  # has no figures of its own
    assert parts - {(play.paper, play.part) for play in PLAN} == drawn


@functools.cache
def committed():
    return entries.read(results.FILE)


def test_results_are_rendered_from_the_file_of_figures():
    text = (ROOT / "experiments" / "RESULTS.md").read_text("utf-8")
    assert text == templates.rendered(results.HERE, committed())


def test_the_file_of_figures_is_small_and_of_the_plan():
    planned = {(unit.play.name, unit.dataset): unit for unit in units()}
    found = committed()
    assert len(json.dumps(found)) < 2.3e6  # of the whole plan, 70 units of which are of peers
    for play, of_play in found.items():
        for dataset in of_play:
            assert entries.is_current(found, planned[play, dataset]), f"{play} {dataset}"


@pytest.mark.parametrize("packages", [("sklearn",), ("sklearn", "river")])
def test_servers_have_a_table_once_they_are_played(packages, tmp_path):
    """Every server and every number of clients has a line, whose figures are those of a play."""
    others = {name: of for name, of in committed().items() if name != "bench.serve"}
    before = templates.rendered(results.HERE, others).partition("bench --serve\n```")[2]
    assert templates.NO_TABLE in before
    names = *serving.OURS, *packages
    cases = [(name, *clients) for name in names for clients in serving.CLIENTS]
    rows = []
    for number, case in enumerate(cases, 1):
        waited = [number * ms / 1e3 for ms in np.linspace(0.0, 10.0, 1001)]
        rows += serving.rows_of(*case, 1000.0 * number, waited)
    (unit,) = (unit for unit in units() if unit.play.name == "bench.serve")
    entries.add(tmp_path / "figures.json", unit, rows, 1.0, 1.0)
    entry = entries.read(tmp_path / "figures.json")
    text = templates.rendered(results.HERE, {**others, **entry})
    lines = text.partition("bench --serve\n```")[2].strip().split("\n")
    table = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line[:1] == "|"]
    head, _, *shown = table
    assert head[1:] == ["clients", "rows in a line", "rows a second", "median", "99 %", "99.9 %"]
    want = []
    for number, (_, clients, size) in enumerate(cases, 1):
        ms = [templates.formatted(number * each, {"significant": "2"}) for each in (5, 9.9, 9.99)]
        want.append([f"{clients}", f"{size}", f"{number},000", *ms])
    absent = len({*serving.PEERS} - {*packages}) * len(serving.CLIENTS)
    want += [[f"{clients}", f"{size}", *"––––"] for clients, size in serving.CLIENTS[:absent]]
    assert [line[1:] for line in shown] == want
    assert "not played" not in "\n".join(lines)


@pytest.fixture
def directives(monkeypatch):
    """The fields of every figure that a text names, figures of several data sets as patterns."""
    named = []
    monkeypatch.setattr(templates, "number", lambda fields, figures: named.append(fields) or 1.0)

    def of(text, name):
        del named[:]
        templates.filled(text, {}, name)
        return list(named)

    return of


@pytest.mark.parametrize("section", templates.SECTIONS)
def test_directives_can_be_read_and_name_what_the_plan_plays(directives, section):
    text = (results.HERE / f"{section}.md").read_text("utf-8")
    known = {play.name for play in PLAN}
    assert {fields["play"] for fields in directives(text, section)} <= known


#: Lines of a table that go on with the learner of a line above, or have no learner of ours.
GO_ON = ("printed", "support", "DOEBE", "the best of river's own models, printed")
#: Tables of benchmarks, whose lines are of several benchmarks, not learners by name.
NAMED = tuple(section for section in templates.SECTIONS if section != "bench")


@pytest.mark.parametrize("section", NAMED)
def test_a_line_of_a_table_has_the_name_of_its_learner_in_the_command(section):
    text = (results.HERE / f"{section}.md").read_text("utf-8")
    for block in re.findall(r"```figures\n(.*?)```", text, re.DOTALL):
        fields, keys = {"dataset": "any", "metric": "any"}, []
        for line in filter(str.strip, block.split("\n")):
            title, *cells = map(str.strip, line.split("::"))
            word, _, value = map(str.strip, line.partition(":"))
            if not cells and word in templates.FIELDS:
                fields[word] = value
            if not cells and word in ("columns", "rows"):
                keys += [key.strip() for key in value.split(" | ")]
            figures = [figure for cell in cells for figure in templates.CELL.findall(cell)]
            directives = [
                directive
                for figure in figures
                for directive in (re.findall(r"\[(.*?)\]", figure) if "[" in figure else [figure])
            ]
            found = {templates.fields_of(one, fields)["algorithm"] for one in directives}
            if "algorithm" in fields or len(found) > 1:
                continue  # it stands above the table, or a line has several
            for name in found:
                if name == "@":
                    for key in keys:
                        shown, _, of = key.rpartition(" = ")
                        assert not shown or of in shown.replace("`", ""), key
                elif "@" not in name and not title.startswith(GO_ON):
                    assert name in title.replace("`", ""), line


#: What ``missing`` is where there may be no such figure, though all is run.
NO_FIGURE = ("", "none", "–")


@pytest.mark.parametrize("section", templates.SECTIONS)
def test_directives_name_figures_of_the_plays_that_are_whole(monkeypatch, section):
    """A figure that is shown as it was typed is not there, or its play has no such figure."""
    found = committed()
    whole = {play.name for play in PLAN if {*play.datasets} <= {*found.get(play.name, {})}}
    figures, number, missed = templates.figures_of(found), templates.number, []

    def checked(fields, figures):
        try:
            return number(fields, figures)
        except templates.Missing as error:
            if fields["play"] in whole and fields.get("missing") not in NO_FIGURE:
                missed.append(str(error))
            raise

    monkeypatch.setattr(templates, "number", checked)
    templates.filled((results.HERE / f"{section}.md").read_text("utf-8"), figures, section)
    assert missed == []


#: Sentences of README and the guides with their figures.
ELSEWHERE = re.split(r"(?m)^## (.+)$", (results.HERE / "elsewhere.md").read_text("utf-8"))[1:]
TYPED = [
    (file, sentence)
    for file, text in zip(ELSEWHERE[::2], ELSEWHERE[1::2], strict=True)
    for sentence in text.strip().split("\n")
]


@pytest.mark.parametrize(("file", "sentence"), TYPED, ids=[line[:20] for _, line in TYPED])
def test_figures_that_are_typed_are_those_of_the_file(file, sentence):
    words, figures = templates.FIGURE.split(sentence)[::2], templates.FIGURE.findall(sentence)
    between = [r"\s+".join(map(re.escape, re.split(r"\s+", word))) for word in words]
    (found,) = re.finditer("(.+?)".join(between), (ROOT / file).read_text("utf-8"))
    rows = templates.figures_of(committed())
    for typed, figure in zip(found.groups(), figures, strict=True):
        # until it is run, a figure is shown as it was typed
        assert typed == templates.shown(f"{figure}; missing = {typed}", {}, rows)
