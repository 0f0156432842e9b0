"""Drawings hold all that is written in them, and nothing lies over a line."""

import itertools

import numpy as np
import pytest

from jaxmkl.evaluate.drawings import Panel, as_svg, dots, drawing

LONG = "number of working days between the date of a letter and the date of its registration"


def panel(names=(), **others):
    at, lines = np.arange(max(2, len(names)), dtype=float), {}
    for i in range(9):
        lines[f"learner {i}"] = at, at + i
    lines["band"] = at, np.array([at, at + 2])
    return Panel("a title", LONG, "y", lines, bands=["band"], names=names, **others)


@pytest.mark.parametrize(
    "made",
    [
        lambda: drawing([panel()], 4.2),
        lambda: drawing([panel(), panel()], 5.2),
        lambda: drawing([panel([f"{LONG} {i}" for i in range(8)], limits=(0, 12))], 4.2),
        lambda: dots("weight", {f"{LONG} {i}: 0.1": (0.1 * i, 0.0) for i in range(5)}, width=4.8),
    ],
)
def test_all_that_is_written_is_inside(made):
    figure = made()
    figure.draw_without_rendering()
    box, size = figure.get_tightbbox().get_points(), figure.get_size_inches()
    assert (box >= -0.02).all()
    assert (box <= size + 0.02).all()


def test_no_number_of_a_kernel_is_cut():
    name = "Gaussian(bandwidth=0.015625): 0.250"
    (axes,) = dots("weight", {name: (0.25, 0.0)}, width=4.8).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == [name]


def test_the_legend_lies_above_the_lines():
    figure = drawing([panel()], 4.2)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend, inside = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert legend.y0 >= inside.y1
    assert axes.title.get_window_extent().y0 >= legend.y1 - 2


@pytest.mark.parametrize("width", [4.2, 5.2])
@pytest.mark.parametrize("end", [0.113, 4000.0, 123_456.0])
def test_numbers_below_an_axis_are_apart(width, end):
    line = {"a": (np.array([-end, end]), np.zeros(2))}
    figure = drawing([Panel("", "x", "", line)], width)
    figure.draw_without_rendering()
    places = [text.get_window_extent() for text in figure.axes[0].get_xticklabels()]
    inside = figure.axes[0].get_window_extent()
    shown = [at for at in places if inside.x0 <= (at.x0 + at.x1) / 2 <= inside.x1]
    assert len(shown) > 2
    for one, other in itertools.pairwise(shown):
        assert one.x1 + 2 < other.x0


def test_categories_have_names_and_no_line_between():
    names = ["North", "South", "West"]
    at, mean = np.arange(3.0), np.array([1.0, 3.0, 2.0])
    lines = {"band": (at, np.array([mean - 1, mean + 1])), "mean": (at, mean)}
    looks = {"bands": ["band"], "dots": ["mean"], "names": names}
    figure = drawing([Panel("", "region", "", lines, **looks)])
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == names
    assert [bar.get_y() for bar in axes.patches] == [0, 2, 1]
    assert [bar.get_height() for bar in axes.patches] == [2, 2, 2]
    (drawn,) = axes.lines
    assert drawn.get_linestyle() == "None"
    assert {*names} < {text.text for text in as_svg(figure, "categories").iter("text")}


def test_an_axis_begins_where_it_is_told():
    lines = {"a": (np.arange(2.0), np.array([5.0, 6.0]))}
    (axes,) = drawing([Panel("", "", "", lines, limits=(4.0, 8.0))]).axes
    assert axes.get_ylim() == (4.0, 8.0)


@pytest.mark.parametrize(("median", "wanted"), [(False, (4, 1, 9)), (True, (2, 1.5, 5.5))])
def test_several_seeds_are_a_line_and_a_band(median, wanted):
    """The mean and the range, or the median and the middle half."""
    seeds = np.repeat([[1.0], [2.0], [9.0]], 2, axis=1)
    (axes,) = drawing([Panel("", "", "", {"a": (np.arange(2), seeds)}, median=median)]).axes
    (line,), (band,) = axes.lines, axes.collections
    ends = band.get_paths()[0].vertices[:, 1]
    assert (*{*line.get_ydata()}, ends.min(), ends.max()) == wanted
