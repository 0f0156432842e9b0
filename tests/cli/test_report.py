"""The page of a run and that of a paper: whole, closed to the outside, with the figures there."""

import dataclasses
import html
import html.parser
import io
import json
import math
import re
import shutil
import subprocess
import warnings

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import image

from experiments.__main__ import main as experiments
from jaxmkl.cli import main, show
from jaxmkl.cli.page import axis_of, by_part, coarser, parts_of
from jaxmkl.cli.report import page
from jaxmkl.cli.results import Curves, Learned
from jaxmkl.evaluate.drawings import Panel, as_svg, drawing
from tests.common.pages import METRICS, cells, closed, results, rows

SMALL_PROGRAMS = True
HOSTILE = "<script>alert('&amp;')</script>\" onload=x ]]>"


def test_the_figures_are_those_of_the_results():
    of = results()
    found = closed(page(of))
    shown = [attributes["title"] for attributes, _ in found.all("td") if "title" in attributes]
    for row in of.rows:
        assert (f"{row.mean!r} ± {row.std!r}" if row.std > 0 else repr(row.mean)) in shown
    assert [text for attributes, text in found.all("td", "best")][:2] == ["12.500 ± 0.2", "2.000"]
    errors, labels = cells(found, "1 to 64")  # labels are of the learner that left some
    assert (errors[:4], labels[:1]) == (["10.000", "inf", "8.000", "8.000"], ["100.0%"])
    errors, labels = cells(found, "193 to 230")
    assert (errors[:2], labels[:1]) == (["4.000", "7.000"], ["0.0%"])
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
    assert "What next" not in text
    # the drawings name all that is drawn
    drawn = [text for path, _, text in found.elements if path[-1] == "text"]
    assert {"raker", "spa", "mean so far", "last label", "rows", "0.1: 0.250"} <= set(drawn)
    assert page(of) == page(of)


def test_kernels_are_named_by_their_bandwidths():
    assert "Gaussian, bandwidth: weight" in page(results())
    mixed = {"Linear()": -0.5, "A(b=1)": 0.25, "A(b=2)": math.nan}
    found = closed(
        page(results(learners={"raker": Learned(kernel_weights=mixed), "spa": Learned()}))
    )
    drawn = {text for path, _, text in found.elements if path[-1] == "text"}
    assert {"kernel: weight", "Linear(): -0.500", "A(b=1): 0.250", "A(b=2): nan"} <= drawn
    assert cells(found, "Linear()")[0][0] == "-0.5"
    assert ">Kernels<" not in page(results(learners={"raker": Learned(), "spa": Learned()}))


def test_columns_that_only_add_noise_do_not_matter():
    """Permuted, they change errors by chance, and may lessen them."""
    learners = {"raker": Learned(growth={"a": 168.2, "b": 0.5, "c": -0.01, "d": -0.2})}
    learners["spa"] = Learned(growth={"a": -0.01})
    show.table(results(learners=learners), file := io.StringIO())
    said = [line for line in file.getvalue().splitlines() if line.startswith("columns that")]
    assert said == ["columns that matter most to raker: a 170, b 0.5"]


def test_how_sure_learners_are_is_drawn():
    """Bins without rows are neither drawn nor listed; learners without probabilities neither."""
    count, confidence = (0.0, 4.0, 1200.0), (math.nan, 0.55, 0.875)
    sure = {"counts": count, "confidence": confidence, "accuracy": (math.nan, 0.25, 0.925)}
    learners = {"raker": Learned(calibration=sure), "spa": Learned()}
    of_rows = rows("raker", {"mistake_rate": (0.1, 0.0), "label_rate": (1.0, 0.0)})
    others = rows("spa", {"mistake_rate": (0.2, 0.0), "label_rate": (1.0, 0.0)})
    of_classes = {"classes": ("a", "b"), "rows": (*of_rows, *others)}
    text = page(results(learners=learners, **of_classes))
    found = closed(text)
    assert "How sure it is" in text
    assert cells(found, "33.3 to 66.7 %")[0][:3] == ["4", "55.0%", "25.0%"]
    assert cells(found, "66.7 to 100 %")[0][:3] == ["1,200", "87.5%", "92.5%"]
    assert not cells(found, "0 to 33.3 %")
    drawn = [text for path, _, text in found.elements if path[-1] == "text"]
    assert {"raker", "as sure as right", "right, in %"} <= set(drawn)
    nothing = {"counts": (0.0,), "confidence": (math.nan,), "accuracy": (math.nan,)}
    learners["raker"] = Learned(calibration=nothing)
    assert "How sure it is" not in page(results(learners=learners, **of_classes))


def test_what_a_file_names_stays_text():
    own = results()
    named = [{f"{HOSTILE}{name}": values for name, values in of.items()}
             for of in (own.curves.error, own.curves.labels)]  # fmt: skip
    of_rows = [row._replace(algorithm=f"{HOSTILE}{row.algorithm}", metric=metric, mean=0.5)
               for row in own.rows for metric in ("mistake_rate", "label_rate")]  # fmt: skip
    sure = {"counts": (9.0,), "confidence": (0.5,), "accuracy": (0.5,)}
    learner = Learned(kernel_weights={HOSTILE: 1.0}, calibration=sure)
    found = closed(page(results(
        command=HOSTILE, source=HOSTILE, target=HOSTILE, classes=(HOSTILE, "\ud800\x00b"),
        rows=tuple(of_rows), learners=dict.fromkeys(named[1], learner),
        curves=Curves(64, own.curves.rows, *named), columns=(HOSTILE,), notes=(HOSTILE,),
        settings={HOSTILE: HOSTILE}, versions={HOSTILE: HOSTILE},
    )))  # fmt: skip
    for tag in ("b", "li", "dd", "dt", "th", "title", "text"):
        assert any(HOSTILE in text for _, text in found.all(tag)), tag
    assert HOSTILE in " ".join(text for _, text in found.all("span"))


def test_how_sure_learners_of_numbers_are_is_drawn():
    """Learners without densities have neither lines nor columns, and scores are by parts."""
    scores = {"log_score": (-1.0, -2.0, math.nan, 0.5), "crps": (0.25, 0.5, math.nan, 1.0)}
    scores |= {"coverage": (1.0, 0.75, math.nan, 0.5), "width": (3.0, 4.0, math.nan, 6.0)}
    latest = {"row": (229.0, 230.0), "label": (1.5, 7.25), "prediction": (1.0, 2.0)}
    latest |= {"low": (0.5, 1.0), "high": (1.5, 3.0)}
    pit = (*(10.0,) * 8, 0.0, 20.0)
    sure = {"pit": pit, "curves": scores, "latest": latest}
    none = {"pit": (0.0,) * 10, "curves": scores, "latest": dict.fromkeys(latest, ())}
    learners = {"raker": Learned(density=sure), "spa": Learned(density=none)}
    found = closed(page(results(learners=learners)))
    texts = [text for _, _, text in found.elements]
    assert "How sure it is" in texts
    assert "the last 2 labels and their intervals: raker, of the first seed" in texts
    assert not any("intervals: spa" in text for text in texts)
    drawn = [text for path, _, text in found.elements if path[-1] == "text"]
    assert drawn.count("as it should be") == 2
    assert {"raker", "label", "90 % interval", "prediction", "labels inside, in %"} <= set(drawn)
    assert cells(found, "80 to 90 %") == [["0.0%", "20.0%"]]
    assert cells(found, "65 to 128")[-1][:4] == ["-2.000", "0.5000", "0.7500", "4.000"]
    assert cells(found, "230")[0][:4] == ["7.250", "2.000", "1.000", "3.000"]
    assert "How sure it is" not in page(results(learners={"spa": Learned(density=none)}))


def test_coverage_is_told_by_tenths():
    assert parts_of(25) == [0, 2, 5, 7, 10, 12, 15, 17, 20, 22]
    counts, values = np.full(25, 64), np.arange(25.0)
    counts[-1], values[3] = 7, np.nan
    curves = Curves(64, tuple(np.cumsum(counts).tolist()), {}, {})
    found = by_part(curves, parts_of(25), tuple(values.tolist()))
    assert found[:2].tolist() == [0.5, 3.0]
    assert found[-1] == pytest.approx((64 * (22 + 23) + 7 * 24) / 135)


def test_what_is_to_be_said_of_a_run_that_did_not_go_well():
    poor = METRICS | {"mse": (60.0, 0.0), "label_rate": (1.0, 0.0)}
    baselines = results().rows[-8:]
    text = page(results(rows=(*rows("raker", poor), *rows("spa", poor), *baselines),
                        is_interrupted=True))  # fmt: skip
    assert "No learner errs less than the baseline 'mean so far'" in text
    assert "Interrupted: what follows covers the first 230 rows." in text
    blank = tuple(row._replace(mean=math.nan, std=0.0) for row in results().rows)
    assert "No row with a target was judged." in page(results(rows=blank))


# --- drawings ------------------------------------------------------------------------------------

LABELS = "_$a$", "b\x00\ud800<b>", *(f"line {i}" for i in range(22))


def test_lines_differ_without_colour_and_names_are_as_they_are():
    panel = Panel("", "x", "y", {name: (np.arange(3), np.ones(3)) for name in LABELS},
                  grey=LABELS[-1:])  # fmt: skip
    figure = drawing([panel])
    (axes,) = figure.axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 3]
    dashes = [str(line._dash_pattern) for line in drawn]
    assert len(set(dashes[:7])) == 7
    assert len({(one, line.get_color()) for one, line in zip(dashes, drawn, strict=True)}) == 24
    assert drawn[-1].get_color() == "#808080"
    svg = as_svg(figure, "what it shows")
    assert svg.get("aria-label") == "what it shows"
    texts = [part.text for part in svg.iter("text")]
    assert {" _$a$", "b\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}<b>"} < set(texts)
    assert not [part for part in svg.iter() if part.get("style") or part.tag == "style"]
    colours = {part.get(name) for part in svg.iter() for name in ("fill", "stroke")}
    assert "currentColor" in colours
    assert not colours & {"#000000", "#ffffff", "black", "white"}


values = st.floats(0, 1e154) | st.sampled_from([math.nan, math.inf, 5e-324])


@pytest.mark.parametrize("is_classes", [False, True])
@pytest.mark.parametrize("values", [values, st.floats(1, 8)])  # of any size, or alike
@given(st.data())
def test_any_curve_has_an_axis(values, is_classes, data):
    errors = data.draw(st.lists(values, min_size=1, max_size=6))
    known = np.array([error for error in errors if math.isfinite(error)])
    is_log, high = axis_of(np.array(errors), 100.0 if is_classes else math.inf)
    assert 0 < high < math.inf
    if is_classes:
        assert not is_log
        assert high <= 100
    if is_log:
        assert known.max() > 8 * known[known > 0].min()
    elif (known > 0).any() and not is_classes:
        assert (known <= high).all()  # so few that none is left above


def test_axes_follow_the_spread():
    assert axis_of(np.geomspace(1, 100, 50), math.inf)[0]
    assert not axis_of(np.geomspace(1, 100, 50), 100)[0]
    steady = np.append(np.ones(99), 1000.0)  # one value above is no reason
    assert axis_of(steady, math.inf) == (False, 1.08)


@pytest.mark.parametrize(
    "errors",
    [(math.nan,) * 3, (0.0,) * 3, (math.inf, 1.0, math.nan), (5e-324, 1e308, 1.0), (1e-200, 1, 0)],
)
def test_extreme_curves_are_drawn(errors):
    curves = Curves(5, (5, 10, 12), {"raker": errors, "spa": errors}, {"raker": (1.0, 0.5, 0.0)})
    found = closed(page(results(curves=curves, learners={"raker": Learned(), "spa": Learned()})))
    assert len(found.all("svg")) == 2


def test_curves_lie_where_their_values_are():
    """Each is level over the rows of a window, at the root of its squared error."""
    curves = Curves(5, (5, 10, 12), {"raker": (4.0, 1.0, 0.25)}, {"raker": (1.0,) * 3})
    text = page(results(curves=curves, learners={"raker": Learned()}))
    paths = [tag for tag in re.findall("<path[^>]*>", text) if "#0067a5" in tag]
    drawn = [re.findall(r"[ML] ([-.\d]+) ([-.\d]+)", tag) for tag in paths]
    x, y = np.array(max(drawn, key=len), float).T
    for places, wanted in ((x, [0, 5, 5, 10, 10, 12]), (-y, [2, 2, 1, 1, 0.5, 0.5])):
        unit = np.ptp(places) / np.ptp(wanted)
        assert unit > 0
        ahead = np.subtract(wanted, wanted[0])
        np.testing.assert_allclose((places - places[0]) / unit, ahead, atol=1e-3)


def test_many_windows_become_fewer():
    draws = np.random.default_rng(0)
    values = draws.exponential(size=190)
    values[draws.random(len(values)) < 0.1] = np.nan
    values[60:90] = np.nan
    rows = np.append(np.arange(10, 1900, 10), 1895)  # the last window is of 5 rows
    each = tuple(values.tolist())
    made = coarser(Curves(10, tuple(rows.tolist()), {"a": each}, {"b": each}))
    assert made.window == 30
    assert made.rows == (*range(30, 1891, 30), 1895)
    by_row = np.repeat(each, np.diff(rows, prepend=0))
    with warnings.catch_warnings(action="ignore"):
        means = [np.nanmean(by_row[i : i + 30]) for i in range(0, 1895, 30)]
    assert np.isnan(means[20])
    np.testing.assert_allclose(made.error["a"], means)
    np.testing.assert_allclose(made.labels["b"], means)
    np.testing.assert_equal(coarser(made), made)


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
            assert [repr(weight)] == cells(found, name)[0][:1]
    of, first = content["curves"]["error"], cells(found, "1 to 64")[0]
    assert first[: len(of)] == [f"{100 * values[0]:.1f}%" for values in of.values()]
    assert "numbers as they stand: 'a', 'b', '<b>c</b>', 'd'" in html.unescape(text)
    assert "How sure it is" in text
    means = {row["metric"]: row["mean"] for row in content["rows"] if row["algorithm"] == "amkl"}
    assert means["log_loss"] < np.log(3)
    assert means["brier"] < 2 / 3
    assert 0 < means["calibration_error"] < 0.5


def test_classes_are_counted():
    of = Learned(confusion=((30.0, 10.0), (0.0, 0.0)))
    made = dataclasses.replace(results(classes=("a", "b")), learners={"raker": of})
    errors = [row._replace(metric=row.metric.replace("mse", "mistake_rate")) for row in made.rows]
    found = closed(page(dataclasses.replace(made, rows=tuple(errors))))
    assert cells(found, "a")[0][:4] == ["40", "75.0%", "30", "10"]
    assert cells(found, "b")[0][:4] == ["0", "", "0", "0"]


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
    drawn = {text for path, _, text in found.elements if path[-1] == "text"}
    assert {HOSTILE, "b", "mse", "label rate"} <= drawn
    assert len(found.all("svg")) == 2
    assert [text for _, text in found.all("td", "best")] == ["0.5000 ± 0.1"]
    titles = [of["title"] for of, _ in found.all("td") if "title" in of]
    assert titles == ["0.5 ± 0.1", "2.0", "1.0", "nan ± 0.1", "0.5 ± 0.1"]
    assert "step_size = 0.25" in [text for _, text in found.all("dd")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not a JSON file that --json wrote"),
        ("[]", "is not a JSON file that --json wrote"),
        ('{"command": "", "rows": [{"mean": 1}]}', "is not a JSON file that --json wrote"),
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
    const inside = frame.contentDocument, drawing = inside.querySelector(".drawing");
    const place = (of) => of.getBoundingClientRect();
    const cut = (text) => place(text).left < place(text.ownerSVGElement).left - 1
      || place(text).right > place(text.ownerSVGElement).right + 1;
    return {{
      width: inside.documentElement.scrollWidth,
      seen: inside.documentElement.clientWidth,
      paper: getComputedStyle(inside.body).backgroundColor,
      letters: getComputedStyle(drawing.querySelector("text")).fill,
      drawn: place(drawing).width,
      cut: [...inside.querySelectorAll(".drawing text")].filter(cut).length,
    }};
  }});
  document.title = JSON.stringify(told);
}};</script>"""


ALONE = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"]
ALONE += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


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
            assert told["drawn"] > 0.8 * min(width, 700)
            assert told["cut"] == 0
            assert told["letters"] == ("rgb(155, 165, 174)" if dark else "rgb(93, 102, 111)")
            assert told["paper"] == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
        picture = tmp_path / "seen.png"
        browse(path, dark, tmp_path / "user", f"--screenshot={picture}", "--window-size=400,900")
        pixels = image.imread(picture)[..., :3]
        assert pixels.shape == (900, 400, 3)
        assert pixels[0, 0].mean() == pytest.approx(23 / 255 if dark else 1.0, abs=0.01)
        assert pixels.std() > 0.05
