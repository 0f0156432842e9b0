"""Columns as inputs: each kind by hand, decided on the first rows, whatever the chunks."""

import datetime
import functools
import json
import math
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from jaxmkl import tables
from jaxmkl.tables import Columns, open_table
from jaxmkl.tables._cells import Notation
from jaxmkl.tables._decide import kind_of
from jaxmkl.tables._kinds import Text, hashed

NAN = math.nan
Y = [0.5, 1.5, 2.5, 3.25]
CLASSES = "classification"
refused = functools.partial(pytest.raises, ValueError)


def first(columns, size=1000, y=Y):
    """The first rows of columns, and y."""
    return next(open_table(columns | {"y": y[: len(next(iter(columns.values())))]}).chunks(size))


def decided(cells, **options):
    """One column of text as inputs: features by name, the note, the value."""
    chunk = first({"a": cells}, y=np.arange(len(cells)) * 0.37)
    columns = Columns.decide(chunk, "y", **options)
    X, _ = columns.encode(chunk, columns.init())
    return dict(zip(columns.features, X.T, strict=True)), columns.notes[-1], columns


def refusal(cells, **options):
    with refused(match="column 'a'") as error:
        decided(cells, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2", "-3,25", "1.234,5"], [1.5, 2, -3.25, 1234.5]),
        (["5%", "12.5 %", "100%", "0%"], [0.05, 0.125, 1, 0]),
        (["5,5%", "1%", "2%", "0%"], [0.055, 0.01, 0.02, 0]),
        (["9007199254740993", "1", "12345678901234567890"], [2.0**53, 1, 1.2345678901234567e19]),
        (["1e3", "-.5", "+2", "7"], [1000, -0.5, 2, 7]),
        (["$12.50", "-$3", "$ 1,234.50", "7"], [12.5, -3, 1234.5, 7]),
        (["12,50 €", "3 €", "-1.234,5€", "€7"], [12.5, 3, -1234.5, 7]),
        (["1,234.5", "999", "-12,345", "0.25"], [1234.5, 999, -12345, 0.25]),
        (["1,234,567", "1,234", "7", "8"], [1234567, 1234, 7, 8]),
        (["1 234,56", "12,50", "999", "1\u202f234\u202f567"], [1234.56, 12.5, 999, 1234567]),
        (["1'234.50", "12.00", "1'000'000", "7"], [1234.5, 12, 1e6, 7]),
        (["CHF 5", "CHF -7.50", "CHF1'000", "-CHF .5"], [5, -7.5, 1000, -0.5]),
        (["US$ 5", "US$7", "-US$8"], [5, 7, -8]),
        (["Rs. 1,00,000", "Rs. 12,34,567.5", "Rs.-5,000"], [1e5, 1234567.5, -5000]),
        (["($5)", "$1,200", "$(1,234.5)", "-$3", "$ (4)"], [-5, 1200, -1234.5, -3, -4]),
        (["( 1,5 kg )", "2,5 kg", "(7) kg"], [-1.5, 2.5, -7]),
        (["(4%)", "5.5%", "( 6 % )", "(7)%"], [-0.04, 0.055, -0.06, -0.07]),
        (["(1,234.50)", "(2,000.00)"], [-1234.5, -2000]),
        (["EUR 5", "6 EUR", "-EUR 7,5", "(8,25 EUR)"], [5, 6, -7.5, -8.25]),
        (["1.234,50-", "17,00", "3-", "0,10- "], [-1234.5, 17, -3, -0.1]),
        (["\u22125", "6", "\u22127.5", "$ 8"], [-5, 6, -7.5, 8]),
        (["1.234.567", "2.345", "-6.789"], [1234567, 2345, -6789]),
        ([1, None, 4, 4], None),
        ([1.5, math.nan, 4.0, 4.0], None),
    ],
)
def test_numbers(cells, values):
    X, _, _ = decided(cells)
    if values is None:
        assert_array_equal(X["a is missing"], [0, 1, 0, 0])
        assert_array_equal(X["a"], [cells[0], cells[0], 4, 4])
    else:
        assert_allclose(X["a"], values, rtol=1e-15)


AMOUNTS = st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=2, max_size=8, unique=True)
FORMS = st.sampled_from(["{}", "{}%", "${}", "$ {}", "{} €", "{}kg", "{} km/h"])


@given(AMOUNTS, st.sampled_from(["", ",", " ", "\u202f", "'"]), st.booleans(), FORMS)
def test_numbers_in_any_writing(amounts, thousands, comma, form):
    """All have two decimals, so that a comma before three digits stands between thousands."""
    comma = comma and thousands != ","
    swap = str.maketrans({",": thousands, ".": "," if comma else "."})
    cells = [form.format(f"{amount:,}".translate(swap)) for amount in amounts]
    X, _, columns = decided(cells, keep=True)
    divisor = 100 if form == "{}%" else 1
    assert_allclose(X["a"], [float(amount) / divisor for amount in amounts], rtol=1e-15)
    assert Columns.from_json(columns.to_json()) == columns


def test_thousands_that_could_be_decimals_are_refused_and_others_tell_which():
    assert "numbers with commas, e.g. '1,234'" in refusal(["1,234", "2,345", "7,100"])
    assert "numbers with commas, e.g. '2,345'" in refusal(["999", "2,345", "7", "-8"])
    assert "row 2, column 'a': numbers with commas, e.g. '$2,3" in refusal(["$9", "$2,345", "$7"])
    for cells, numbers in (
        (["1,234", "2,345"], [1.234, 2.345]),
        (["1 234", "2 345"], [1234, 2345]),
        (["1.234", "999"], [1234, 999]),
        (["1.234.567", "2.345"], [1234567, 2345]),
        (["1.234", "0.5"], [1.234, 0.5]),
    ):
        chunk = first({"a": cells, "b": ["0,5", "1,25"]})
        columns = Columns.decide(chunk, "y")
        assert_allclose(columns.encode(chunk, columns.init())[0].T, [numbers, [0.5, 1.25]])


def test_points_that_other_columns_put_between_thousands_are_told():
    """Of a target, the other reading would be a factor of 1,000."""
    cells = ["1.288", "12.345", "999", "-2.500"]
    said = "numbers, with decimal commas, as other columns have them: 1.288 is 1288"
    chunk = first({"a": cells, "b": ["0,5", "1", "2", "3"]}, y=cells)
    assert {f"column 'a': {said}", f"the target: {said}"} <= {*Columns.decide(chunk, "y").notes}
    plain = first({"a": cells, "b": ["1", "2", "3", "5"]}, y=cells)
    assert "1.288" not in "".join(Columns.decide(plain, "y").notes)  # as any program reads it
    for sure in "0.345", "1.2", "1288.345", "1.234.567":
        chunk = first({"a": ["1.288", sure], "b": ["0,5", "2"]}, y=["2", "5"])
        assert "1.288 is" not in "".join(Columns.decide(chunk, "y").notes)


def test_a_word_behind_all_numbers_is_their_unit():
    X, note, columns = decided(["5 kg", "1,234.5kg", "-3 kg"])
    assert note == "column 'a': numbers, with commas between thousands, in kg"
    assert_array_equal(X["a"], [5, 1234.5, -3])
    with refused(match=r"row 1, column 'a': '5 lb' is not a number, unlike the others"):
        columns.encode(first({"a": ["5 lb", "7 kg"]}), columns.init())
    for cells in ["5 kg", "6 lb", "7 kg"], ["5 kg", "6", "7 kg"], ["A1", "A2", "A1"]:
        assert "holds words" in decided(cells)[1]


def test_signs_are_told_and_other_currencies_are_words():
    _, note, columns = decided(["$12.50", "$1,234.50", "$3.00"])
    assert note == "column 'a': numbers, with commas between thousands, in $"
    assert Columns.from_json(columns.to_json()) == columns
    with refused(match=r"row 2, column 'a': '€3' is not a number, unlike the others"):
        chunk = first({"a": ["$1", "€3"]})
        columns.encode(chunk, columns.init())
    for mixed in ["$12.50", "€3.00", "$4"], [f"{i}{'$€'[i % 2]}" for i in range(60)]:
        text = "; its amounts are in '$', '€': in one of them they are numbers"
        chunk = first({"a": mixed, "b": range(1, 2 * len(mixed), 2)}, y=np.ones(len(mixed)))
        said = Columns.decide(chunk, "y", supervised=False, drop=["y"]).notes
        assert any(note.startswith("column 'a' holds") and note.endswith(text) for note in said)
    for words in (["CHF 5", "EUR 6"], ["CHF 5", "6"], ["BUS 5", "BUS 6"], ["2-", "2", "2+"]):
        assert "holds words" in decided(words)[1]
    assert "holds words" in decided(["555 123 456", "555 987 654", "555 123 456"])[1]
    target = Columns.decide(first({"a": Y}, y=["$1,000.50", "$2", "$3", "$4.5"]), "y").target
    assert (target.task, target.unit, target.thousands) == ("regression", "$", ",")


def test_times_are_time_passed_and_turns():
    X, note, _ = decided(["2024-01-01", "2024-01-08", None, "2024-07-02"])
    assert_array_equal(X["a: days since the first"], [0, 7, 3.5, 183])
    turns = [f"a: {f} of {turn}" for turn in ("week", "year") for f in ("sin", "cos")]
    assert list(X) == ["a: days since the first", *turns]
    assert_allclose([X[turn][:2] for turn in turns[:2]], [[0, 0], [1, 1]], atol=1e-9)  # Mondays
    assert X["a: sin of week"][2] == X["a: cos of week"][2] == 0
    assert "week and year as sin and cos" in note
    clock, _, _ = decided(["2024-01-01 06:00", "2024-01-01 12:00", "2024-01-03 00:00"])
    assert_array_equal(clock["a: hours since the first"], [0, 6, 42])
    assert_allclose(clock["a: sin of day"], [1, 0, 0], atol=1e-9)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_midnight_is_midnight_in_any_unit(unit):
    """So dates as pandas keeps them have no turns of the day."""
    days = np.arange("2030-08-01", "2030-09-30", dtype="datetime64[D]")
    X, note, _ = decided(days.astype(f"datetime64[{unit}]"), keep=True)
    assert_array_equal(X["a: days since the first"], np.arange(60))
    assert "turns of week and year" in note


SAME = datetime.datetime(2024, 3, 25, 14, 30)


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",
     "%d %b %Y %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+00:00", "%d %B %Y %H:%M",
     "%m/%d/%y %H:%M", "%d.%m.%y %H:%M:%S", "%d-%b-%y %H:%M", "%m/%d/%Y %I:%M %p",
     "%Y-%m-%d %I:%M:%S %p"],
)  # fmt: skip
def test_times_in_many_forms(form):
    times = [SAME + datetime.timedelta(hours=15 * i) for i in range(5)]
    from_text = decided([time.strftime(form) for time in times])[0]
    of_type = decided(times)[0]
    assert list(from_text) == list(of_type)
    for name, values in of_type.items():
        assert_allclose(from_text[name], values, atol=1e-9)


def test_years_of_two_digits_are_of_this_century_and_the_last():
    X, _, _ = decided(["31.12.99", "01.01.00", "05.02.24"])
    assert_array_equal(X["a: days since the first"], [0, 1, 8802])


def test_months_begin_with_their_first_day():
    for cells in ["2023-12", "2024-01", "2024-02"], ["Dec 2023", "January 2024", "Feb 2024"]:
        assert_array_equal(decided(cells)[0]["a: days since the first"], [0, 31, 62])


def test_clocks_are_times_of_a_day():
    for cells in ["06:00", "12:30", "00:00"], ["6:00 AM", "12:30 PM", "12:00 AM"]:
        X, note, columns = decided(cells)
        turns = [f"a: {f} of day" for f in ("sin", "cos")]
        assert list(X) == ["a: hours since the first", *turns]
        assert_array_equal(X["a: hours since the first"], [0, 6.5, -6])
        assert_allclose(X["a: sin of day"], [1, -math.sin(math.pi / 24), 0], atol=1e-9)
        assert note.endswith("hours since the first, and turns of day as sin and cos")
        assert Columns.from_json(columns.to_json()) == columns


@pytest.mark.parametrize(
    "cells",
    [
        ["26:30:00", "0:30:00", "-1:15:00"],
        ["1 days 02:30:00", "0 days 00:30:00", "-1 days +22:45:00"],  # of pandas
        ["1 day, 2:30:00", "0:30:00", "-1 day, 22:45:00"],  # of Python
    ],
)
def test_clocks_beyond_a_day_are_durations(cells):
    X, note, columns = decided(cells)
    assert list(X) == ["a: hours since the first"]
    assert_array_equal(X["a: hours since the first"], [0, -26, -27.75])
    assert note == "column 'a' holds times of the form H:MM:SS: hours since the first"
    typed = first({"a": [datetime.timedelta(hours=30), datetime.timedelta(hours=26.5)]})
    assert_array_equal(columns.encode(typed, columns.init())[0], [[3.5], [0]])
    with refused(match="row 1, column 'a': '1:60:00' is not a time of the form H:MM:SS"):
        columns.encode(first({"a": ["1:60:00"]}), columns.init())


def test_hours_and_minutes_beyond_a_day_are_durations():
    for cells in (["26:30", "0:30", "-1:15"], ["26:30", "30:00", "-1 days 22:45"]):
        X, note, columns = decided(cells)
        wanted = [0, -26, -27.75] if "0:30" in cells else [0, 3.5, -27.75]
        assert_array_equal(X["a: hours since the first"], wanted)
        assert note == "column 'a' holds times of the form H:MM: hours since the first"
        assert Columns.from_json(columns.to_json()) == columns
    X, _, _ = decided(["6:00", "18:30", "0:45"], as_={"a": "duration"})
    assert_array_equal(X["a: hours since the first"], [0, 12.5, -5.25])
    assert "holds words" in decided(["26:30", "1:26:30", "0:30"])[1]  # hours or minutes first?


def test_a_later_clock_beyond_a_day_is_refused_with_the_way_out():
    _, _, columns = decided(["6:00", "18:30", "0:45"])
    with refused(match=r"'26:30' is not a time .*begin anew with durations \(--as a=duration\)"):
        columns.encode(first({"a": ["26:30"]}), columns.init())


@pytest.mark.parametrize("place", [0, 1, 70])
def test_cells_that_keep_others_from_being_times_are_named(place):
    cells = [f"{1 + i % 28}.{1 + i // 28}.2024" for i in range(12 * 28)]
    cells[place] = "30.2.2024"
    decision = kind_of(first({"a": cells}, y=cells).column("a"))
    said = "all but 1 of its cells are times of the form %d.%m.%Y: mend or empty those such as '30"
    assert said in decision.note


def test_clocks_are_durations_where_these_are_wanted():
    X, _, _ = decided(["6:00:00", "18:00:00", "0:00:30"], as_={"a": "duration"})
    assert_array_equal(X["a: hours since the first"], [0, 12, 1 / 120 - 6])


def test_times_that_can_be_read_in_two_ways_want_a_form():
    assert "%y-%m-%d and %d-%m-%y: choose one" in refusal(["24-01-02", "23-05-06"])
    cells = ["01/02/2024", "03/04/2024"]
    assert "%d/%m/%Y and %m/%d/%Y: choose one (--as a=%d/%m/%Y)" in refusal(cells)
    with refused(match=r"choose one \(--as 'day of sale=%d/%m/%Y'\)"):  # as a shell reads it
        Columns.decide(first({"day of sale": cells}, y=[0, 1]), "y")
    X, _, _ = decided(cells, as_={"a": "%m/%d/%Y"})
    assert_array_equal(X["a: days since the first"], [0, 62])
    with refused(match=r"row 2, column 'a': '13.1.2024' is not a time of the form"):
        decided(["1/2/2024", "13.1.2024"], as_={"a": "%m/%d/%Y"})


def test_words_and_truth_values():
    X, note, columns = decided(["red", "blue", None, "red"])
    assert list(X) == ["a=blue", "a=red", "a=?"]
    assert_array_equal(np.stack([*X.values()]), [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]])
    later, _ = columns.encode(first({"a": ["green", "red"]}), columns.init())
    assert_array_equal(later, [[0, 0, 0], [0, 1, 0]])
    for cells in (["No", "yes", "YES", "no"], [False, True, True, False], ["f", "T", "T", "f"]):
        X, note, columns = decided(cells)
        assert_array_equal(X["a"], [0, 1, 1, 0])
        assert "is 0 and" in note
    later, _ = columns.encode(first({"a": ["t", None, "?!"]}), columns.init())
    assert_array_equal(later[:, 0], [1, 0.5, 0.5])


def test_text_of_older_files_is_hashed_alike_everywhere():
    assert [hashed(word, 32) for word in ("tree", "bush", "été")] == [(31, 1), (19, -1), (30, -1)]
    cells = [f"the {w}" for w in map(str, range(60))] * 2
    columns = Columns((Text("a"),))
    X, _ = columns.encode(first({"a": cells}, y=np.zeros(120)), columns.init())
    expected = np.zeros((len(cells), 32))
    for row, cell in enumerate(cells):
        for word in cell.split():
            place, sign = hashed(word, 32)
            expected[row, place] += sign / math.sqrt(2)
    assert_allclose(X, expected)
    later, _ = columns.encode(first({"a": [None, "THE 5", "--"]}), columns.init())
    assert_array_equal(later[:2], [np.zeros(32), expected[5]])
    assert np.abs(later[2]).sum() == 1


def test_what_names_or_counts_rows_and_what_is_constant_is_left_out():
    n = 60
    draws = np.random.default_rng(0).permutation(10**6)[:n]
    table = {"count": range(n), "userId": draws, "amount": draws}
    table["large_id"] = [str(2**60 + 7919 * i % 4001) for i in range(n)]  # floats are 256 apart
    table["code"] = [f"{zlib.crc32(str(i).encode()):x}" for i in range(n)]
    table["note"] = [f"this is the note {i}" for i in range(n)]
    table |= {"same": ["x"] * n, "empty": [None] * n, "list": [[1]] * n}
    chunk = first(table, y=np.arange(n) * 0.5)
    columns = Columns.decide(chunk, "y")
    assert columns.names == ("amount", "note")
    said = "\n".join(columns.notes)
    for text in (
        "'count' counts the rows: left out",
        "'userId' holds another whole number in each row, which names it: left out",
        "'large_id' holds another whole number in each row, which names it: left out",
        "'code' holds another word in each row, which names it: left out",
        "'same' is 'x' in all of the first rows: left out",
        "'empty' has no value in the first rows: left out",
        "'list' holds List(Int64), neither numbers nor text: left out",
        "numbers as they stand: 'amount'",
    ):
        assert text in said
    as_ = {"count": "number", "code": "text", "same": "categories"}
    kept = Columns.decide(chunk, "y", as_=as_, drop=["amount"])
    assert kept.names == ("count", "code", "note", "same")
    assert "column 'amount' left out, as asked" in kept.notes
    for options in ({"drop": ["z"]}, {"as_": {"z": "number"}}):
        with refused(match="has no column 'z'; its columns are 'count', 'userId'"):
            Columns.decide(chunk, "y", **options)
    with refused(match=r"the kind must be one of number, boolean, .* got 'words'"):
        Columns.decide(chunk, "y", as_={"note": "words"})


def test_numbers_that_are_missing_later_are_counted():
    """Those that the first rows lacked, too, have an input that tells."""
    chunk = first({"a": [1.5, 2.5], "b": [None, 2.5], "t": ["2024-01-01", "2024-01-02"]})
    columns, later = Columns.decide(chunk, "y"), first({"a": [None, None], "t": [None] * 2})
    _, before = columns.encode(chunk, columns.init())
    assert columns.losses(columns.late_gaps(2, columns.init(), before)) == []
    X, after = columns.encode(later, before)
    assert_array_equal(X[:, 0], [2, 2])
    (text,) = columns.losses(columns.late_gaps(2, before, after))
    assert text.startswith("column 'a': 2 cells are missing, and none of the first rows was: the")


def test_cells_that_are_not_what_the_first_rows_were():
    chunk = first({"a": ["1", "2"], "t": ["2024-01-01", "2024-01-02"]})
    columns = Columns.decide(chunk, "y")
    encode = lambda **cells: columns.encode(first(cells), columns.init())  # noqa: E731
    with refused(match=r"row 2, column 'a': 'x' is not a number, .* mend the cell"):
        encode(a=["1", "x"], t=["2024-01-01"] * 2)
    with refused(match=r"row 1, column 'a': 'inf' is not finite"):
        encode(a=["inf"], t=["2024-01-01"])
    with refused(match=r"row 1, column 't': 'May' is not a time of the form %Y"):
        encode(a=["1"], t=["May"])
    with refused(match=r"row 1, column 'a': .* is a time, where a number"):
        encode(a=[SAME], t=["2024-01-01"])
    with refused(match=r"row 1, column 'a': the number is too large for a learner"):
        columns.inputs(first({"a": ["1e30"], "t": ["2024-01-01"]}), columns.init())
    numbers = Columns.decide(chunk, "y", "regression")
    with refused(match=r"row 2, column 'y': the number is too large .* \(above 2\.3e\+18\)"):
        numbers.labels(first({"a": ["1", "2"]}, y=["1", "-3e18"]))


@pytest.mark.parametrize(
    ("y", "task", "classes", "codes"),
    [
        (["b", "c", "a", "b"], "classification", ("a", "b", "c"), [1, 2, 0, 1]),
        (["no", "yes", None, "no"], "classification", ("no", "yes"), [-1, 1, math.nan, -1]),
        ([True, False, True, None], "classification", ("false", "true"), [1, -1, 1, math.nan]),
        ([1, 0, 1, 0], "classification", ("0", "1"), [1, -1, 1, -1]),
        ([1.0, 2.0, None, 2.0], "classification", ("1", "2"), [-1, 1, math.nan, 1]),
        (["007", None, "7", "007"], "classification", ("007", "7"), [-1, math.nan, 1, -1]),
        (["1,5", "2,5", None, "7"], "regression", (), [1.5, 2.5, math.nan, 7]),
        (["Yes", "no", None, "Yes"], "classification", ("no", "Yes"), [1, -1, math.nan, 1]),
        (["#DIV/0!", "8.5", "7", "#N/A"], "classification", ("7", "8.5"), [NAN, 1, -1, NAN]),
    ],
)
def test_targets(y, task, classes, codes):
    chunk = first({"a": [1, 2, 3, 5]}, y=y)
    columns = Columns.decide(chunk)
    assert (columns.task, columns.classes) == (task, classes)
    assert_array_equal(columns.targets(chunk), codes)


def test_notes_tell_how_a_target_is_read():
    columns = Columns.decide(first({"a": [1, 2, 3, 5]}, y=["12,5%", "9%", "7,5 %", "9,0%"]))
    assert (
        columns.notes[1]
        == "the target: numbers, with decimal commas, with percent signs, in hundredths"
    )
    columns = Columns.decide(first({"a": [1, 2, 3, 5]}, y=["$5", "$7", "$5.00", "$9"]))
    assert columns.notes[1].startswith("the target has 3 distinct whole numbers")
    assert columns.notes[2] == "the target: numbers, in $"


def test_targets_that_the_first_rows_did_not_have():
    columns = Columns.decide(first({"a": [1, 2]}, y=["u", "v"]))
    text = r"row 2, column 'y': 'w' is not one of the classes of the first rows, 'u', 'v'; mend"
    with refused(match=text):
        columns.targets(first({"a": [1, 2]}, y=["u", "w"]))
    columns = Columns.decide(first({"a": [1, 2]}, y=[0, 1]))
    with refused(
        match=r"'2' is not one of .*; if the target is a number, begin anew with --task r"
    ):
        columns.targets(first({"a": [1, 2]}, y=[0, 2]))
    with refused(match="600 different values in 600 rows are too many classes"):
        Columns.decide(first({"a": range(600)}, y=[f"w{i}" for i in range(600)]))
    with refused(match="column 'y': holds times; name another target"):
        Columns.decide(first({"a": [1, 2]}, y=[SAME, SAME]))
    days = [f"{i % 28 + 1}.5.{i + 1900}" for i in range(300)]
    with refused(match="column 'y': holds times; name another target"):
        Columns.decide(first({"a": range(300)}, y=days))


def test_classes_are_spelled_alike_in_every_chunk():
    """Among 01 and 2A the first is a word, even in a chunk of numbers alone."""
    columns = Columns.decide(first({"a": [1, 2, 3, 4]}, y=["01", "2A", "02", "01"]), task=CLASSES)
    assert columns.classes == ("01", "02", "2A")
    assert_array_equal(columns.targets(first({"a": [1, 2]}, y=["02", "01"])), [1, 0])
    columns = Columns.decide(first({"a": [1, 2]}, y=["1", "2.0"]), task=CLASSES)
    assert_array_equal(columns.targets(first({"a": [1, 2]}, y=["+2", "1.0"])), [1, -1])
    with refused(
        match="'two' is not one of the classes of the first rows, '1', '2'; mend the cell, or b"
    ):
        columns.targets(first({"a": [1, 2]}, y=["1.0", "two"]))


def test_categories_that_are_numbers_are_those_of_any_chunk_and_file():
    columns = Columns.decide(first({"a": [0.0, 1.0, 2.0, 1.0]}), "y", as_={"a": "categories"})
    assert columns.features == ("a=0", "a=1", "a=2")
    for cells in ([2.0, 1.5, 0.0], ["2.0", "1.5", "0"], [2, None, 0]):
        found, _ = columns.encode(first({"a": cells}), columns.init())
        assert_array_equal(found, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    columns = Columns.decide(
        first({"a": ["1.0", "x", "01", "-0.0"]}), "y", as_={"a": "categories"}
    )
    found, _ = columns.encode(first({"a": ["1", "1.0", "01", "0"]}), columns.init())
    assert columns.features == ("a=-0.0", "a=01", "a=1.0", "a=x")
    assert_array_equal(found.argmax(axis=1) * found.any(axis=1), [2, 2, 1, 0])
    assert not found[3].any()
    columns = Columns.decide(first({"a": [True, None, False, True]}), "y")
    for cells in (["True", "", "FALSE", "true"], [True, None, False, True]):
        found, _ = columns.encode(first({"a": cells}), columns.init())
        assert_array_equal(found, [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])


def test_the_target_is_not_dropped_and_is_no_kind_of_input():
    table = first({"a": [1, 2, 3, 5], "b": [1, 3, 2, 5]})
    assert Columns.decide(table, drop=["y"]).target.name == "b"
    for options in ({"drop": ["y"]}, {"as_": {"y": "categories"}}):
        with refused(match="column 'y': is the target, to which --drop and --as do not apply"):
            Columns.decide(table, "y", **options)
    with refused(match="'y': is the target, to which --drop"):
        Columns.decide(table, drop=["a", "b", "y"])


def test_targets_are_durations_in_seconds():
    chunk = first({"a": [1, 2]}, y=[datetime.timedelta(minutes=1), datetime.timedelta(seconds=2)])
    assert_array_equal(Columns.decide(chunk, task="regression").targets(chunk), [60, 2])


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (["26:30:00", "0:30:00", "-1:15:00.5"], [95400, 1800, -4500.5]),
        (["26:30", "0:30", None], [95400, 1800, math.nan]),
        (["1 days 02:30:00", "0 days 00:30:00", "1:00:01"], [95400, 1800, 3601]),
    ],
)
def test_targets_may_be_durations_in_text(cells, seconds):
    chunk = first({"a": [1, 2, 3]}, y=cells)
    columns = Columns.decide(chunk, "y", "regression")
    assert_array_equal(columns.targets(chunk), seconds)
    assert "the target: numbers, in seconds" in columns.notes
    assert Columns.from_json(columns.to_json()) == columns
    with refused(match="'1:60:00' is not a duration of the form H:MM"):
        columns.targets(first({"a": [1]}, y=["1:60:00"]))


def test_targets_of_a_regression_are_found_by_durations_beyond_a_day():
    beyond = [f"{hours}:30" for hours in range(20, 32)]
    assert Columns.decide(first({"a": [*range(12)]}, y=beyond), "y").task == "regression"
    within = [f"{minutes // 60}:{minutes % 60:02}" for minutes in range(120)]
    chunk = first({"a": [0.5, 2.0, 1.5] * 40}, y=within)
    with refused(match=r"holds times; name another .*or have durations \(--task regression\)"):
        Columns.decide(chunk, "y")
    columns = Columns.decide(chunk, "y", "regression")
    assert_array_equal(columns.targets(chunk), [60 * minutes for minutes in range(120)])
    old = json.loads(Columns.decide(first({"a": [1, 2]}, y=[1.5, 2.5]), "y").to_json())
    assert "form" not in old["target"]  # so that journals and checkpoints of old versions go on


def test_times_of_a_typed_column_are_read_from_text():
    days = [datetime.date(2024, 1, 30) + datetime.timedelta(i) for i in range(4)]
    columns = Columns.decide(first({"a": days}), "y")
    wanted, _ = columns.encode(first({"a": days}), columns.init())
    for form in ("%Y-%m-%d", "%d/%m/%Y"):
        text = first({"a": [f"{day:{form}}" for day in days]})
        assert_array_equal(columns.encode(text, columns.init())[0], wanted)
    for text in ("03/04/2024", "12:30"):  # of March or of April; of which day
        with refused(match=f"'{text}' is not a time"):
            columns.encode(first({"a": [text]}), columns.init())


def test_times_of_day_of_a_type_are_those_of_text():
    clocks = [datetime.time(6, 30), datetime.time(18, 0), datetime.time(0, 15), datetime.time(9)]
    texts = [f"{clock:%H:%M}" for clock in clocks]
    of_text, _, columns = decided(texts)
    for cells in (clocks, pl.Series(clocks)):
        of_type = decided(cells)[0]
        assert list(of_type) == list(of_text)
        assert_array_equal([*of_type.values()], [*of_text.values()])
        found, _ = columns.encode(first({"a": cells}), columns.init())
        assert_array_equal(found.T, [*of_text.values()])
    days = Columns.decide(first({"a": ["2024-01-05", "2024-02-05"]}), "y")
    with refused(match=r"time\(6, 30\) is not a time of the form %Y-%m-%d"):
        days.encode(first({"a": clocks}), days.init())


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_durations_are_numbers_of_seconds(unit):
    given = np.array([60, 5, 7000, 9], "m8[s]").astype(f"m8[{unit}]")
    of_pandas = pd.DataFrame({"a": given})
    for table in (of_pandas, [{"a": duration, "y": 1.5} for duration in given]):
        chunk = next(open_table(table).chunks(4))
        assert_array_equal(chunk.column("a").numbers(Notation()), [60, 5, 7000, 9])


ROW = (
    st.none() | st.integers(-5, 5),
    st.sampled_from("uv") | st.none(),
    st.none() | st.floats(0, 9),
)


@given(rows=st.lists(st.tuples(*ROW), min_size=6, max_size=30), cut=st.integers(1, 7))
def test_any_chunks_make_the_same_inputs(rows, cut):
    rows = [(None, "u", 0.5), (5, "v", 2.5), (2, None, 3.25), *rows]
    table = dict(zip("aby", map(list, zip(*rows, strict=True)), strict=True))
    whole = next(open_table(table).chunks(100))
    columns = Columns.decide(next(open_table(table).chunks(3)), "y")
    X, fills = columns.encode(whole, columns.init())
    parts, filled = [], columns.init()
    for chunk in open_table(table).chunks(cut):
        part, filled = columns.encode(chunk, filled)
        parts.append(part)
    assert_array_equal(np.concatenate(parts), X)
    assert_array_equal(filled, fills)
    # a missing number is the mean of those before, and the first one where there are none
    numbers = [a for a, _, _ in rows]
    for row, number in enumerate(numbers):
        before = [n for n in numbers[:row] if n is not None] or [5]
        expected = number if number is not None else np.mean(before)
        assert X[row, 0] == pytest.approx(expected)
    still, same = columns.encode(whole, fills, learn=False)
    assert same is fills
    gaps = np.array([n is None for n in numbers])
    assert (still[gaps, 0] == fills.sums[0] / fills.counts[0]).all()


def test_columns_come_back_from_json():
    chunk = first(
        {
            "number": ["1,5", None, "7,25", "2"],
            "word": ["u", "v", "u", None],
            "truth": [True, False, True, True],
            "time": ["2024-01-01", "2024-01-02", None, "2024-02-02"],
            "text": [f"the word {i}" for i in range(4)],
            "same": [1, 1, 1, 1],
        },
        y=["a", "b", "c", "a"],
    )
    columns = Columns.decide(chunk, as_={"text": "text"})
    again = Columns.from_json(columns.to_json())
    assert again == columns
    same = (one.encode(chunk, one.init())[0] for one in (again, columns))
    assert_array_equal(*same)
    for text in ("{}", "[]", '{"kinds": [{"kind": "z"}], "target": null, "notes": []}'):
        with refused(match="no columns of this version"):
            Columns.from_json(text)


def test_large_numbers_keep_their_differences():
    times = 1.7e12 + np.arange(4) ** 2
    chunk = first({"a": times})
    columns = Columns.decide(chunk, "y")
    X, _ = columns.inputs(chunk, columns.init())
    assert X.dtype == np.float32
    assert_array_equal(X[:, 0], np.arange(4) ** 2)


def test_columns_by_their_names():
    chunk = first({"a": [1.0, 2.0], "b": ["u", "v"]})
    columns = Columns.decide(chunk, "y")
    X, fills = columns.encode(chunk, columns.init())
    other = chunk._replace(frame=chunk.frame.select("b", pl.lit(7).alias("new"), "a"))
    assert_array_equal(columns.encode(other, columns.init())[0], X)
    without = chunk._replace(frame=chunk.frame.select("b"))
    assert_array_equal(columns.encode(without, fills, learn=False)[0][:, 0], [1.5, 1.5])
    with refused(match="has no column 'y'; its columns are '"):
        columns.targets(without)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["43 kg", "40 lb"], "line 2, column 'a': '43 kg' is not a number, as which the column"),
        (["1", *map(str, range(20)), "43 kg"], "line 23, .* '43 kg' is not a number, unlike the"),
    ],
)
def test_a_cell_that_is_no_number_is_refused_for_its_reason(cells, reason, tmp_path):
    (path := tmp_path / "t.csv").write_text(
        "a,y\n" + "".join(f"{cell},{i % 2}\n" for i, cell in enumerate(cells))
    )
    with refused(match=reason):
        tables.read(path, as_={"a": "number"})


def test_a_point_that_cannot_stand_between_thousands_is_refused_beside_decimal_commas():
    columns = Columns.decide(
        first({"a": ["1,25", "3.100,5", None, "4"]}, y=["1,5", "2", "3", "7"])
    )
    chunk = first({"a": ["1.288", "1.234,5"]})
    assert_array_equal(columns.inputs(chunk, columns.init())[0][:, 0] + 1.25, [1288, 1234.5])
    for cell in ("1.28", "0.806", "12345.678", "1.5e3"):
        with refused(match=f"'{cell}' is not a number with decimal commas, unlike the others"):
            columns.inputs(first({"a": ["2", cell]}), columns.init())
        with refused(match=f"'{cell}' is not a number with decimal commas, unlike the others"):
            columns.targets(first({"a": ["2"]}, y=[cell]))
    assert "numbers with commas, e.g. '1,25'" in refusal(["1,25", "2.5", "3,1", "4"])
    assert "numbers with commas, e.g. '0,5'" in refusal(["0,5", "0.125", "1.2345", "1.234"])


@pytest.mark.parametrize("y", [["1,234", "2,345", "7,100"], ["1,25", "2.5", "7,1"]])
def test_a_target_whose_commas_may_be_either_sign_is_no_set_of_classes(y):
    for task in (None, "regression"):
        with refused(match=f"column 'y': numbers with commas, e.g. '{y[0]}'; write them"):
            Columns.decide(first({"a": [1, 2, 3]}, y=y), task=task)
    chunk = first({"a": [1, 2, 3]}, y=y)
    assert Columns.decide(chunk, task="classification").classes == tuple(sorted(y))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1.5", "None", "2.5", "-3"], "; without 'None' it is numbers or times (--missing=None)"),
        (
            ["-", "1,5", "n. a.", "2", "3,5"],
            "without '-', 'n. a.' it is numbers or times (--missin",
        ),
        (
            ["2024-03-01", "NaT", "2024-03-02"],
            "; without 'NaT' it is numbers or times (--missing=",
        ),
    ],
)
def test_words_among_numbers_that_may_stand_for_missing_cells_are_told(cells, said):
    assert said in decided(cells)[1]


@pytest.mark.parametrize("cells", [["1", "a", "b", "c"], ["a1", "b", "c2"], ["1", "a", "a", "a"]])
def test_of_other_words_nothing_is_told(cells):
    assert "--missing" not in decided(cells)[1]
