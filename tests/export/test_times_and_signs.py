"""Times, and numbers with signs, are read as the pipeline reads them, and by NumPy alone."""

import datetime
import math
import re
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmkl.export import export_predictor, predictor
from jaxmkl.tables._cells import BLANKS, FORMATS, ISO, Notation, instants, parsed
from jaxmkl.tables._edits import WRITTEN, of_number, of_time
from tests.export.drawn import drawn, inputs

SMALL_PROGRAMS = True
UTC, DELHI = datetime.UTC, datetime.timezone(datetime.timedelta(hours=5.5))
FORMS = {
    "day": "%d.%m.%Y",
    "moment": "%Y-%m-%d %H:%M:%S.%f",
    "zoned": "%Y-%m-%dT%H:%M:%S+02:00",
    "short": "%d-%b-%y",
    "half": "%m/%d/%Y %I:%M %p",
    "month": "%B %Y",
    "clock": "%H:%M:%S",
    "packed": "%Y%m%d",
}
TIMES = [datetime.datetime(2024, 1, 1, 6) + datetime.timedelta(hours=31 * i) for i in range(40)]
AMOUNTS = [-1234.5, 12.0, 0.25, 7654321.0] * 10
SIGNS = {
    "euros": lambda x: f"{x:,.2f} €".translate({44: ".", 46: ","}),
    "dollars": lambda x: f"${x:,.2f}".replace("$-", "-$"),
    "share": lambda x: f"{x:.1f} %",
    "weight": lambda x: f"{x:,.1f}kg".replace(",", "'"),
    "francs": lambda x: f"{x:,.1f}".replace(",", "\u202f"),
}
ORDERS = {name: [time.strftime(form) for time in TIMES] for name, form in FORMS.items()}
ORDERS |= {name: [*map(write, AMOUNTS)] for name, write in SIGNS.items()}
ORDERS |= {"typed": TIMES, "lasting": [time - TIMES[3] for time in TIMES]}
ORDERS |= {"days": [str(time - TIMES[3]) for time in TIMES]}  # as Python writes them
ORDERS |= {"hours": [f"{31 * i - 40}:{i:02}" for i in range(40)]}
ORDERS |= {"y": [0.5, 1.25, 3.0, 4.0] * 10}
ORDERS["dollars"][3] = ORDERS["day"][3] = ORDERS["zoned"][5] = None
AS = {"packed": "%Y%m%d", "half": "%m/%d/%Y %I:%M %p"}


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """A pipeline of times in many forms and numbers with many signs, and its predictor."""
    pipeline, path = drawn(ORDERS, AS), tmp_path_factory.mktemp("orders") / "model.npz"
    assert {kind.kind for kind in pipeline.columns.kinds} == {"number", "time"}
    export_predictor(path, pipeline)
    return pipeline, predictor.load(path)


def spelled(text, is_bare):
    """The text of a time, perhaps without the zeros before its numbers."""
    return re.sub(r"(?<![\d.])0(?=\d)", "", text) if is_bare else text


DAYS = datetime.timedelta(10**5)
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
GAPS = st.sampled_from([None, "", " NA ", "?"])
CELLS = {
    name: GAPS
    | st.builds(spelled, st.builds(datetime.datetime.strftime, moments, st.just(form)), bare)
    for name, form in FORMS.items()
    for bare in [st.just(False) if name in ("packed", "zoned") else st.booleans()]
    for moments in [MOMENTS.filter(lambda t: 1970 <= t.year < 2069) if "%y" in form else MOMENTS]
} | {name: GAPS | st.floats(-1e9, 1e9).map(write) for name, write in SIGNS.items()}

TYPED = {"typed": st.none() | MOMENTS, "lasting": st.none() | st.timedeltas(-DAYS, DAYS)}
TYPED |= {"days": GAPS | st.timedeltas(-DAYS, DAYS).map(str)}
TYPED |= {
    "hours": GAPS | st.builds("{:+}:{:02}".format, st.integers(-999, 999), st.integers(0, 59))
}


@pytest.mark.slow
@given(st.lists(st.fixed_dictionaries(CELLS | TYPED), min_size=1, max_size=4))
def test_cells_are_read_as_by_the_pipeline(orders, rows):
    pipeline, exported = orders
    np.testing.assert_array_equal(exported.encode(rows), inputs(pipeline, rows))


@pytest.mark.parametrize("name", ["typed", "day", "zoned", "half", "clock"])
@pytest.mark.parametrize(
    "given",
    [
        TIMES,
        [None, *TIMES[1:]],
        [time.date() for time in TIMES],
        [time.replace(tzinfo=UTC) for time in TIMES],
        [time.replace(tzinfo=DELHI) for time in TIMES],
        np.array(TIMES, "datetime64[us]"),
        np.array(TIMES, "datetime64[ns]"),
        np.array([None, *TIMES[1:]], "datetime64[ms]"),
        np.array(TIMES, "datetime64[D]"),
        pl.Series(TIMES),
    ],
    ids=str,
)
def test_times_may_be_those_of_python_numpy_and_polars(orders, name, given):
    """In any column of times, whatever the form of its texts."""
    pipeline, exported = orders
    with pytest.warns(UserWarning, match="count as missing"):
        found = exported.encode({name: given})
    np.testing.assert_array_equal(found, inputs(pipeline, pl.DataFrame({name: given})))


def test_numbers_and_times_of_day_may_be_those_of_python(orders):
    pipeline, exported = orders
    rows = [dict.fromkeys(SIGNS, 1.25) | {"clock": datetime.time(6, 30, 15)}]
    with pytest.warns(UserWarning, match="count as missing"):
        np.testing.assert_array_equal(exported.encode(rows), inputs(pipeline, rows))


@pytest.mark.parametrize("unit", ["s", "us", "ns", ""])
def test_durations_are_read_in_seconds(orders, unit):
    pipeline, exported = orders
    given = np.array([-90, 86400, 5], "m8[s]").astype(f"m8[{unit}]" if unit else object)
    rows = [dict(zip(ORDERS, cells, strict=True)) for cells in zip(*ORDERS.values(), strict=True)]
    rows = [row | {"lasting": cell} for row, cell in zip(rows, given, strict=False)]
    np.testing.assert_array_equal(exported.encode(rows), inputs(pipeline, rows))


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no such setting")
def test_times_without_a_zone_are_of_utc_wherever_they_are_read(orders, monkeypatch):
    rows = [{name: ORDERS[name][1] for name in ORDERS}]
    wanted = orders[1].encode(rows)
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        found = orders[1].encode(rows)
    time.tzset()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "cell", "says"),
    [
        ("day", "30.02.2024", "time"),
        ("day", "1/2/2024", "time"),
        ("day", 20240105, "time"),
        ("day", 5.5, "time"),
        ("zoned", "2024-01-05T25:00:00Z", "time"),
        ("half", "1/2/2024 13:30 PM", "time"),
        ("half", "1/2/2024 1:30", "time"),
        ("month", "Janu 2024", "time"),
        ("short", "05-Sept-24", "time"),
        ("typed", "05.01.2024", "time"),
        ("euros", "5 kg", "number"),
        ("euros", "5 €%", "number"),
        ("euros", TIMES[0], "number"),
        ("dollars", "1,23", "number"),
        ("share", "٥ %", "number"),
        ("weight", "1_000 kg", "number"),
    ],
)
@pytest.mark.filterwarnings("ignore:columns that count as missing")
def test_other_cells_are_refused(orders, name, cell, says):
    with pytest.raises(ValueError, match=f"{name!r}: .* is no {says}, or too large"):
        orders[1].encode([{name: cell}])


HEAD = {"words": [], "numbers": [], "blanks": BLANKS}
RENDERED = {"%.f": ".%f", ISO: "%Y-%m-%d %H:%M:%SZ", "%d-%B-": "%d-%b-"}


def rendered(moment, form):
    for part, other in RENDERED.items():
        form = form.replace(part, other)
    return moment.strftime(form)


@given(st.sampled_from(FORMATS), st.data())
def test_texts_of_each_form_are_read_and_others_are_not(form, data):
    """Bit for bit; a text that has been changed is read alike or refused, unless it is ISO.

    Microseconds before 1684 take more digits than a number has.
    """
    moments = MOMENTS.filter(lambda t: 1970 <= t.year < 2069) if "%y" in form else MOMENTS
    text = spelled(rendered(data.draw(moments), form), data.draw(st.booleans()))
    assert read(text, form) == seconds(text, form) < math.inf
    place, sign = data.draw(st.integers(0, len(text))), data.draw(st.sampled_from(" 01/.-:T+"))
    for other in (text[:place] + sign + text[place:], text[:place] + text[place + 1 :]):
        if not re.fullmatch(WRITTEN, other):
            found = read(other, form)
            assert found == math.inf or found == pytest.approx(seconds(other, form), rel=1e-15)


def read(text, form):
    return predictor._read(text, HEAD, "time", of_time(form))


def seconds(text, form):
    (found,) = instants(pl.Series([text.strip(BLANKS)]), form)
    return math.inf if found is None else found


@pytest.mark.parametrize("between", ["", ",", " ", "'"])
@pytest.mark.parametrize("unit", ["", "€", "$", "km/h", "m²", "Rs."])
@settings(max_examples=8)
@given(st.sampled_from([".", ","]), st.booleans(), st.booleans(), st.data())
def test_numbers_of_each_notation_are_read_and_others_are_not(
    between, unit, point, percent, inside, data
):
    written = Notation(
        decimal=point, thousands=between, unit=unit, percent=percent, parentheses=inside
    )
    signs = [*"-+.,' %5()", "\u202f", "\u2212", "€", "$", "km/h", "m²", "Rs.", "123", "e3"]
    signs += ["1,234", "1.234", "1 234", "1,23,456", "(1", "2)", "3-"]
    text = "".join(data.draw(st.lists(st.sampled_from(signs), min_size=1, max_size=7)))
    text = text.strip(BLANKS) or "0"
    (wanted,) = parsed(pl.Series([text]), written)
    found = predictor._read(text, HEAD, "number", of_number(written))
    assert found == wanted or (wanted is None and math.isinf(found))
