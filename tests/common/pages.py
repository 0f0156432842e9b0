"""Pages of runs: a small run's results, and a parser that checks that a page is closed."""

import base64
import dataclasses
import hashlib
import html.parser
import math
import re

from jaxmkl.cli.results import Curves, Learned, Results
from jaxmkl.evaluate import Row

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
    """Parse a page, which must load nothing and run nothing."""
    found = Parsed(text)
    for _, of, _ in found.elements:
        assert of.pop("href", "#").startswith("#")  # of a drawing, within it
        assert not of.keys() & REFERENCES
        assert not any(name.startswith("on") or name == "style" for name in of)
    policy = next(of["content"] for of, _ in found.all("meta") if "http-equiv" in of)
    ((_, content),) = found.all("style")
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"
    assert not re.search(r"url\(|@import|//[a-z]|</", content)
    assert not found.all("script")
    return found


def rows(name, metrics, **others):
    return [
        Row("own", "t.csv", name, metric, *value, **({"seeds": 3} | others))
        for metric, value in metrics.items()
    ]


def results(**others):
    """The rows of a small run, some of them changed."""
    kernels = {"Gaussian(bandwidth=0.1)": 0.25, "Gaussian(bandwidth=10)": 0.75}
    labels, all_labels = {"label_rate": (0.5, 0.1)}, {"label_rate": (1.0, 0.0)}
    worse = {metric: (4 * mean, std) for metric, (mean, std) in METRICS.items()}
    of_raker = rows("raker", METRICS | labels, parameters={"step_size": 0.5})
    of_baselines = [*rows("mean so far", BASE), *rows("last label", BASE)]
    error = {
        "raker": (100.0, 25.0, math.nan, 16.0),
        "spa": (math.inf, 36.0, math.nan, 49.0),
        "mean so far": (64.0, 64.0, 49.0, 81.0),
        "last label": (64.0, 0.0, math.nan, 64.0),
    }
    asked = {"raker": (1.0, 0.5, 0.25, 0.0), "spa": (1.0, 1.0, 1.0, 1.0)}
    made = Results(
        command="jaxmkl run t.csv",
        rows=(*of_raker, *rows("spa", worse | all_labels), *of_baselines),
        source="some/t.csv",
        target="flow",
        task="regression",
        classes=(),
        num_rows=230,
        num_unlabelled=64,
        judged_from=22,
        num_inputs=7,
        learners={"raker": Learned(12.5, 4000, kernels), "spa": Learned()},
        curves=Curves(64, (64, 128, 192, 230), error, asked),
        columns=("column 'a': numbers",),
        notes=("a note",),
        settings={"seeds": 3, "target": None, "set": [("step_size", 0.5)]},
        seconds=2.5,
        peak_bytes=2**30,
    )
    return dataclasses.replace(made, **others)


def cells(found, first):
    """The texts of the cells in each line of a table that begins with a heading of this text."""
    texts = [(path[-1], text) for path, _, text in found.elements if path[-1] in ("th", "td")]
    starts = [i for i, one in enumerate(texts) if one == ("th", first)]
    return [[text for tag, text in texts[i + 1 : i + 10] if tag == "td"] for i in starts]
