"""The page of a run has room for all names, and says which columns matter and how."""

import dataclasses
import itertools
import math
import re

import numpy as np

from jaxmkl.cli.page_learners import _ends
from jaxmkl.cli.report import page
from jaxmkl.cli.results import Learned
from jaxmkl.evaluate import Effect
from tests.common.pages import cells, closed, results

SMALL_PROGRAMS = True
KINDS = ("kind=a", "kind=b", "other")
EFFECTS = {
    "size": Effect((1.0, 2.0), (), (0.25, 0.75), (0.25, 0.5), (0.25, 0.875)),
    "kind": Effect((0.0, 1.0, 2.0), KINDS, (0.5,) * 3, (0.5,) * 3, (0.5,) * 3),
}


def axis(found, label):
    """The texts in the drawing that has this description."""
    paths = iter([(path, of, text) for path, of, text in found.elements if "svg" in path])
    for path, of, _ in paths:
        if path[-1] == "svg" and of["aria-label"] == label:
            break
    else:
        raise AssertionError(label)
    own = itertools.takewhile(lambda one: one[0][-1] != "svg", paths)
    return [text for path, _, text in own if path[-1] == "text"]


def test_columns_that_matter_and_their_effects_are_drawn():
    """Effects of one learner share their axis, and categories stand below theirs by name."""
    of = Learned(growth={"size": 350_000.0, "kind": -0.0012}, effects=EFFECTS)
    found = closed(page(results(learners={"raker": of, "spa": Learned()})))
    assert "size: 3.5e+05" in axis(found, "columns that matter to raker")
    assert cells(found, "kind")[0][0] == "-0.0012"
    size, kind = (axis(found, f"raker, by {name}: prediction, in units of the target")
                  for name in ("size", "kind"))  # fmt: skip
    numbers = [[one for one in texts if re.fullmatch(r"0\.\d", one)] for texts in (size, kind)]
    assert numbers[0] == numbers[1] != []
    assert {"a", "b", "other", "kind"} <= {*kind}
    assert cells(found, "b")[0][:3] == ["0.5000"] * 3
    named = dataclasses.replace(results(), learners={"raker": of._replace(told_class="yes")})
    assert "raker, by size: prediction of 'yes'" in page(named)


def test_an_effect_that_is_slight_looks_slight():
    """The axis has at least a fiftieth of the range of the labels, and bears extreme effects."""
    slight = EFFECTS["kind"]._replace(mean=(0.5, 0.5001, 0.5))
    said = {"label": (0.0, 10.0), "prediction": (1.0, 9.0)}
    low, high = _ends(Learned(effects={"kind": slight}, said=said))
    assert high - low >= 0.2
    assert low < 0.5 < high
    extreme = EFFECTS["kind"]._replace(mean=(math.nan,) * 3, low=(math.inf,) * 3, high=(1.0,) * 3)
    low, high = _ends(Learned(effects={"kind": extreme}))
    assert low < 1 < high
    none = extreme._replace(high=(math.nan,) * 3)
    assert _ends(Learned(effects={"kind": none})) is None


def test_long_names_have_room():
    classes = tuple(f"the department of {name}" for name in "abcdefghijklmnop")
    of = Learned(confusion=tuple(np.eye(16).tolist()))
    errors = [row._replace(metric=row.metric.replace("mse", "mistake_rate"))
              for row in results().rows]  # fmt: skip
    made = results(classes=classes, learners={"raker": of}, rows=tuple(errors))
    found = closed(page(made))
    (last,) = [text for _, text in found.all("dd") if text.startswith(classes[0])]
    assert last.endswith("and 4 more")
    wide = [path for path, of, _ in found.elements if of.get("class") == "long"]
    assert wide
    heads = {text for _, text in found.all("th")}
    assert {*classes[:12], f"as {classes[0]}"} <= heads  # none is cut
    assert all(of["scope"] in ("row", "col") for of, _ in found.all("th"))
    assert all(of.get("tabindex") == "0" for of, _ in found.all("div", "wide"))
