"""The page of a run and that of a paper: whole, closed to the outside, with the figures there."""

import base64
import dataclasses
import hashlib
import html
import html.parser
import json
import math
import re
import shutil
import subprocess
import warnings
from xml.etree.ElementTree import tostring

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import image

from experiments.__main__ import main as experiments
from jaxmkl.cli import main
from jaxmkl.cli.report import page, plot
from jaxmkl.cli.report.windows import merged
from jaxmkl.cli.results import Curves, Line, Results

SMALL_PROGRAMS = True
HOSTILE = "<script>alert('&amp;')</script>\" onload=x ]]>"
VOID = {"meta", "br", "hr", "img", "input", "link"}
REFERENCES = {"href", "src", "srcset", "action", "data", "poster", "xlink:href", "background"}
METRICS = {"mse": (12.5, 0.25), "mae": (2.0, 0.0), "skill": (0.75, 0.0), "skill_last": (-1 / 3, 0)}
BASE = {"mse": (50.0, 0.0), "mae": (5.0, 0.0), "skill": (0.0, 0.0), "skill_last": (math.nan, 0.0)}


class Parsed(html.parser.HTMLParser):
    """A page, every tag of which is closed in its turn, as (path of tags, attributes, text)."""

    def __init__(self, text):
        super().__init__()
        self.path, self.elements = [], []
        self.feed(text)
        self.close()
        assert self.path == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.elements.append([(*self.path, tag), dict(attrs), ""])
        if tag not in VOID:
            self.path.append(tag)

    def handle_endtag(self, tag):
        assert self.path.pop() == tag

    def handle_data(self, data):
        if self.path:
            own = next(e for e in reversed(self.elements) if e[0] == tuple(self.path))
            own[2] += data

    def all(self, tag, class_=None):
        """Attributes and text of each element of a tag."""
        found = [(of, text) for path, of, text in self.elements if path[-1] == tag]
        return [
            one for one in found if class_ is None or class_ in one[0].get("class", "").split()
        ]


def closed(text):
    """Parse a page, which must load nothing and run nothing but the script it vouches for."""
    found = Parsed(text)
    names = {name for _, of, _ in found.elements for name in of}
    assert not names & REFERENCES
    assert not any(name.startswith("on") or name == "style" for name in names)
    policy = next(of["content"] for of, _ in found.all("meta") if "http-equiv" in of)
    for tag in ("script", "style"):
        ((_, content),) = found.all(tag)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert not re.search(r"url\(|@import|//[a-z]|fetch|</", content)
    assert "default-src 'none'" in policy
    return found


def results(**others):
    """Those of a small run, some of them changed."""
    kernels = {"Gaussian(bandwidth=0.1)": 0.25, "Gaussian(bandwidth=10)": 0.75}
    labels, all_labels = {"label_rate": (0.5, 0.1)}, {"label_rate": (1.0, 0.0)}
    table = (
        Line("raker", False, METRICS | labels, {"step_size": 0.5}, 3, 12.5, 4000, kernels),
        Line("spa", False, {k: (4 * m, s) for k, (m, s) in METRICS.items()} | all_labels),
        Line("mean so far", True, BASE),
        Line("last label", True, BASE),
    )
    error = {
        "raker": (100.0, 25.0, math.nan, 16.0),
        "spa": (math.inf, 36.0, math.nan, 49.0),
        "mean so far": (64.0, 64.0, 49.0, 81.0),
        "last label": (64.0, 0.0, math.nan, 64.0),
    }
    asked = {"raker": (1.0, 0.5, 0.25, 0.0), "spa": (1.0, 1.0, 1.0, 1.0)}
    made = Results(
        command="jaxmkl run t.csv",
        source="some/t.csv",
        target="flow",
        task="regression",
        classes=(),
        num_rows=230,
        num_unlabelled=64,
        judged_from=22,
        num_inputs=7,
        table=table,
        curves=Curves(64, (64, 128, 192, 230), error, asked),
        columns=("column 'a': numbers",),
        notes=("a note",),
        settings={"seeds": 3, "target": None, "set": [("step_size", 0.5)]},
        seconds=2.5,
        peak_bytes=2**30,
    )
    return dataclasses.replace(made, **others)


def test_the_figures_are_those_of_the_results():
    of = results()
    found = closed(page(of))
    shown = [attributes["title"] for attributes, _ in found.all("td") if "title" in attributes]
    for row in of.table:
        for mean, std in row.metrics.values():
            assert (f"{mean!r} ± {std!r}" if std > 0 else repr(mean)) in shown
    assert [text for attributes, text in found.all("td", "best")][:2] == ["12.500 ± 0.2", "2.000"]
    windows = [text for _, text in found.all("title") if text.startswith("rows")]
    assert (
        windows[0] == "rows 1 to 64: raker 10.000 · spa inf · mean so far 8.000 · last label 8.000"
    )
    assert windows[3].startswith("rows 193 to 230: raker 4.000 · spa 7.000")
    assert windows[4:] == [  # labels, of the learner that left some
        f"rows {rows}: raker {rate}%"
        for rows, rate in (
            ("1 to 64", 100.0), ("65 to 128", 50.0), ("129 to 192", 25.0), ("193 to 230", 0.0),
        )
    ]  # fmt: skip
    text = " ".join(text for _, _, text in found.elements)
    for said in (
        "raker errs least: a mean squared error of 12.500, 75 % less than 'mean so far'",
        "Errors of each window of 64 rows, the last of 38, of the first seed.",
        "root of the mean squared error, in units of the target",
        "standard deviations over 3 seeds",
        "column 'a': numbers",
        "a note",
        "jaxmkl run t.csv",
        "step_size = 0.5",
        *(f"{name} {version}" for name, version in of.versions.items()),
        "64, not learned",
        "judged from row 22 on",
    ):
        assert said in text
    assert "Interrupted" not in text


def test_kernels_are_named_by_their_bandwidths():
    found = closed(page(results()))
    headings = [text for _, text in found.all("th")]
    assert "Gaussian, bandwidth" in headings
    assert {"0.1", "10"} < set(headings)
    bars = [of["width"] for of, _ in found.all("rect") if of.get("class") is None]
    assert bars == ["33.33%", "100.00%"]
    row = results().table[0]._replace(kernel_weights={"Linear()": -0.5, "A(b=1)": 0.25})
    mixed = closed(page(results(table=(row, *results().table[1:]))))
    assert {"Linear()", "A(b=1)"} < {text for _, text in mixed.all("th")}
    assert [of["width"] for of, _ in mixed.all("rect", "below")] == ["100.00%"]
    lost = row._replace(kernel_weights={"A(b=1)": math.nan, "A(b=2)": 0.5})
    bars = closed(page(results(table=(lost, *results().table[1:])))).all("rect")
    assert [of["width"] for of, _ in bars if "class" not in of] == ["0.00%", "100.00%"]
    bare = row._replace(kernel_weights={})
    assert ">Kernels<" not in page(results(table=(bare, *results().table[1:])))


def test_curves_lie_where_their_values_are():
    axis = plot.axis_of([1.0, 2.0, 4.0])
    line = plot.Line("a", [1.0, math.nan, 2.0, 4.0], plot.look(0))
    found = Parsed(str_of(plot.curves("t", [10, 20, 30, 40], [line], axis)))
    ((path, _),) = found.all("path")
    points = re.findall(r"([ML])([\d.]+) ([\d.]+)", path["d"])
    assert [(pen, float(x)) for pen, x, _ in points] == [
        ("M", 0),
        ("L", 250),
        ("M", 625),
        ("L", 875),
    ]
    heights = [1 - float(y) / plot.SIZE for _, _, y in points]
    top = axis.high
    assert heights == pytest.approx([1 / top, 1 / top, 2 / top, 4 / top], abs=1e-3)
    marks = {text: float(of["y"].rstrip("%")) for of, text in found.all("text") if "dy" in of}
    assert marks["2"] == pytest.approx(100 * (1 - 2 / top), abs=1e-2)


def str_of(element):
    return tostring(element, "unicode", method="html")


def test_what_a_file_names_stays_text():
    own = results()
    table = tuple(
        row._replace(name=f"{HOSTILE}{row.name}", kernel_weights={HOSTILE: 1.0})
        for row in own.table
    )
    named = (
        {f"{HOSTILE}{k}": v for k, v in of.items()} for of in (own.curves.error, own.curves.labels)
    )
    found = closed(page(results(
        command=HOSTILE, source=HOSTILE, target=HOSTILE, classes=(HOSTILE, "\ud800\x00b"),
        table=tuple(row._replace(metrics={"mistake_rate": (0.5, 0.0)} | {
            "label_rate": (0.5, 0.0)}) for row in table),
        curves=Curves(64, own.curves.rows, *named), columns=(HOSTILE,), notes=(HOSTILE,),
        settings={HOSTILE: HOSTILE}, versions={HOSTILE: HOSTILE},
    )))  # fmt: skip
    for tag in ("b", "li", "pre", "dd", "dt", "th", "title"):
        assert any(HOSTILE in text for _, text in found.all(tag)), tag


def test_what_is_to_be_said_of_a_run_that_did_not_go_well():
    table = results().table
    poor = METRICS | {"mse": (60.0, 0.0), "label_rate": (1.0, 0.0)}
    learners = (row._replace(metrics=poor) for row in table[:2])
    text = page(results(table=(*learners, *table[2:]), is_interrupted=True))
    assert "No learner errs less than the baseline 'mean so far'" in text
    assert "Interrupted: what follows is of the first 230 rows." in text
    nothing = dict.fromkeys(METRICS, (math.nan, 0.0))
    blank = [row._replace(metrics=nothing | {"label_rate": (0.0, 0.0)}) for row in table]
    assert "No row with a target was judged." in page(results(table=tuple(blank)))


values = st.floats(0) | st.sampled_from([math.nan, math.inf, 5e-324, 1.7e308])


@given(st.lists(values, min_size=1, max_size=6), st.booleans())
def test_any_curve_is_drawn_within_reach(errors, is_classes):
    axis = plot.axis_of(errors, 100.0 if is_classes else math.inf)
    assert 0 <= axis.low < axis.high < math.inf
    assert 1 <= len(axis.ticks) <= 10 or axis.is_log
    assert all(-1e-9 <= axis.share(tick) <= 1 + 1e-9 for tick in axis.ticks)
    rows = range(5, 5 * len(errors) + 1, 5)
    drawn = plot.curves("t", rows, [plot.Line("a", errors, plot.look(7))], axis)
    numbers = re.findall(r"[-\d.]+|nan|inf", Parsed(str_of(drawn)).all("path")[0][0]["d"])
    assert all(-2001 < float(number) < 2001 for number in numbers)


def test_many_windows_become_fewer():
    draws = np.random.default_rng(0)
    values = draws.exponential(size=190)
    values[draws.random(len(values)) < 0.1] = np.nan
    values[60:90] = np.nan
    rows = np.append(np.arange(10, 1900, 10), 1895)  # the last window is of 5 rows
    each = tuple(values.tolist())
    made = merged(Curves(10, tuple(rows.tolist()), {"a": each}, {"b": each}))
    assert made.window == 30
    assert made.rows == (*range(30, 1891, 30), 1895)
    by_row = np.repeat(each, np.diff(rows, prepend=0))
    with warnings.catch_warnings(action="ignore"):
        means = [np.nanmean(by_row[i : i + 30]) for i in range(0, 1895, 30)]
    assert np.isnan(means[20])
    np.testing.assert_allclose(made.error["a"], means)
    np.testing.assert_allclose(made.labels["b"], means)
    np.testing.assert_equal(merged(made), made)


def test_looks_differ():
    looks = [tuple(plot.look(i).values()) for i in range(24)]
    assert len(set(looks)) == 24


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """The page and the JSON file of a run on 600 rows of three classes."""
    folder = tmp_path_factory.mktemp("iris")
    X, y = sklearn.datasets.load_iris(return_X_y=True)
    lines = [",".join(map(str, (*X[i * 7 % 150], "abc"[y[i * 7 % 150]]))) for i in range(600)]
    (folder / "i.csv").write_text("\n".join(["a,b,<b>c</b>,d,kind", *lines]))
    out = folder / "i.json", folder / "i.html"
    files = ["--json", str(out[0]), "--report", str(out[1])]
    small = ["--learner", "amkl", "--set", "num_features=4"]
    assert main(["run", str(folder / "i.csv"), *small, *files]) == 0
    return json.loads(out[0].read_text()), out[1]


@pytest.mark.slow
def test_a_run_writes_its_page(iris):
    content, path = iris
    text = path.read_text("utf-8")
    found = closed(text)
    shown = [attributes.get("title") for attributes, _ in found.all("td")]
    for row in content["rows"]:
        assert repr(row["mean"]) in shown
    for row in content["table"]:
        for name, weight in row["kernel_weights"].items():
            assert repr(weight) in shown
            assert name in [attributes.get("title") for attributes, _ in found.all("th")]
    windows = [text for _, text in found.all("title") if text.startswith("rows")]
    of = content["curves"]["error"]
    for i, said in enumerate(windows[: len(content["curves"]["rows"])]):
        assert said.endswith(" · ".join(f"{k} {100 * of[k][i]:.1f}%" for k in of))
    assert "numbers as they stand: 'a', 'b', '<b>c</b>', 'd'" in html.unescape(text)


ROW = {"paper": "amkl", "dataset": "tom", "metric": "mse", "mean": 0.5, "std": 0.1, "seeds": 3}
MORE = {"printed": 2.0, "parameters": {"step_size": 0.25}, "seconds_per_run": 1.5}


def test_a_page_of_a_papers_figures(tmp_path, capsys):
    rows = [
        ROW | MORE | {"algorithm": HOSTILE},
        ROW | {"algorithm": "b", "mean": 1.0, "std": 0.0},
        ROW | {"algorithm": "b", "metric": "label_rate", "mean": None},
        ROW | {"algorithm": "c", "dataset": HOSTILE, "metric": "label_rate"},
    ]
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"command": "python -m experiments amkl", "rows": rows}))
    assert experiments(["report", str(path)]) == 0
    assert f"report: {tmp_path / 'f.html'}" in capsys.readouterr().out
    found = closed((tmp_path / "f.html").read_text("utf-8"))
    assert [text for _, text in found.all("h2")] == ["tom", HOSTILE]
    assert [of["cx"] for of, _ in found.all("circle")] == ["25.00%", "50.00%", "83.33%"]
    assert [text for _, text in found.all("td", "best")] == ["0.5000 ± 0.1"]
    titles = [of["title"] for of, _ in found.all("td") if "title" in of]
    assert titles == ["0.5 ± 0.1", "2.0", "1.0", "nan ± 0.1", "0.5 ± 0.1"]
    assert "step_size = 0.25" in [text for _, text in found.all("dd")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON file that --json wrote"),
        ("[]", "is no JSON file that --json wrote"),
        ('{"command": "", "rows": [{"mean": 1}]}', "is no JSON file that --json wrote"),
        (None, "No such file or directory"),
    ],
)
def test_files_without_figures_are_refused(content, said, tmp_path, capsys):
    path = tmp_path / "f.json"
    if content is not None:
        path.write_text(content)
    assert experiments(["report", str(path), "--out", str(tmp_path / "o.html")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "o.html").exists()


BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WATCH = """<!DOCTYPE html><meta name="color-scheme" content="light dark">
<iframe width="400" height="900" srcdoc="{page}"></iframe>
<iframe width="1400" height="900" srcdoc="{page}"></iframe>
<script>onload = () => {{
  const told = [...document.querySelectorAll("iframe")].map((frame) => {{
    const inside = frame.contentDocument, strip = inside.querySelector(".hit");
    strip.dispatchEvent(new PointerEvent("pointerover", {{bubbles: true}}));
    return {{
      width: inside.documentElement.scrollWidth,
      seen: inside.documentElement.clientWidth,
      paper: getComputedStyle(inside.body).backgroundColor,
      told: inside.querySelector("output").textContent,
      area: inside.querySelector(".area").getBoundingClientRect().width,
    }};
  }});
  document.title = JSON.stringify(told);
}};</script>"""


ALONE = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def browse(path, dark, folder, *more):
    """Open a file in the browser; what it prints."""
    own = f"--user-data-dir={folder}", f"--blink-settings=preferredColorScheme={int(not dark)}"
    command = [BROWSER, *ALONE, *own, *more, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


if BROWSER is not None:

    @pytest.mark.parametrize("dark", [False, True])
    def test_the_page_in_a_browser(dark, iris, tmp_path):
        _, path = iris
        watch = tmp_path / "watch.html"
        watch.write_text(WATCH.format(page=html.escape(path.read_text("utf-8"))), "utf-8")
        shown = browse(watch, dark, tmp_path / "user", "--dump-dom")
        title = html.unescape(re.search("<title>(.*?)</title>", shown).group(1))
        for width, told in zip((400, 1400), json.loads(title), strict=True):
            assert told["width"] <= told["seen"] <= width
            assert told["area"] > 0.6 * min(width, 1000)
            assert told["told"].startswith("rows 1 to 64: amkl ")
            assert told["paper"] == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
        picture = tmp_path / "seen.png"
        browse(path, dark, tmp_path / "user", f"--screenshot={picture}", "--window-size=400,900")
        pixels = image.imread(picture)[..., :3]
        assert pixels.shape == (900, 400, 3)
        assert pixels[0, 0].mean() == pytest.approx(23 / 255 if dark else 1.0, abs=0.01)
        assert pixels.std() > 0.05
