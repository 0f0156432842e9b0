"""Edits of the texts of numbers and times, after which Python reads them.

An edit is a pattern and what replaces it, as ``re.sub`` takes them. The edits of numbers lead to
``float``, those of durations to several numbers between colons, those of times to
``datetime.fromisoformat``. They are worked out when a predictor is
written, so that the module that reads it knows neither signs nor forms.
"""

import re

from jaxmkl.tables._cells import (
    BEHIND,
    BLANKS,
    CLOCKS,
    DURATIONS,
    ISO,
    MINUS,
    PARENTHESES,
    POINTS,
    SEPARATORS,
    Notation,
)

Edits = list[tuple[str, str]]

NO_NUMBER = r"[^0-9.eE+-]", "?"  # float reads more than tables do: 1_000 and other digits
MOST_GROUPS = 7  # groups of three digits behind the first separator
NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
SHORT = "|".join(name[:3] for name in NAMES)
LONG = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in NAMES)
# a + behind a quantifier: no digit is given back to the next part, as in %Y%m%d
DIGITS = "[0-9]{1,2}+"
ZONE = r"\s*(?P<hours>[+\-][0-9]{2})[:\s]*(?P<minutes>[0-5][0-9])"
# the parts of a form; blanks before numbers are ignored
PARTS = {
    "%Y": r"\s*(?P<Y>[1-9][0-9]{2,3}+|0[1-9][0-9]{2})",  # from 100
    "%y": rf"\s*(?P<Y>{DIGITS})",
    "%m": rf"\s*(?P<m>{DIGITS})",
    "%b": f"(?P<m>(?i:{SHORT}))",
    "%B": f"(?P<m>(?i:{LONG}))",
    "%d": rf"\s*(?P<d>{DIGITS})",
    "%H": rf"\s*(?P<H>{DIGITS})",
    "%I": r"\s*(?P<H>0?[1-9]|1[0-2])",
    "%M": rf"\s*(?P<M>{DIGITS})",
    "%S": rf"\s*(?P<S>{DIGITS})",
    "%.f": r"(?P<f>(?:\.[0-9]+)?)",
    "%p": r"\s*(?P<p>(?i:[ap]m))",
    "%z": ZONE,
    "%+": rf"(?:{ZONE}|\s*(?i:z|utc))",
    "%t": r"(?:[Tt]|\s)\s*",
}
ISO_FORM = "%Y-%m-%d%t%H:%M:%S%.f%+"
CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
# dates and times as str writes those of Python and NumPy
DATE = r"(?!00)[0-9]{4}-[0-9]{2}-[0-9]{2}"
WRITTEN = rf"{DATE}(?:[T ](?:[0-9]{{2}}(?::[0-9]{{2}})?|{CLOCK})(?:[+-][0-9]{{2}}:[0-9]{{2}})?)?"
# (the parts that are given, how they stand in ISO text, and the text without them)
TEMPLATE = (
    ("Y", r"\g<Y>", "1970"),
    ("m", r"-\g<m>", "-01"),
    ("d", r"-\g<d>", "-01"),
    ("H", r"T\g<H>:\g<M>", ""),
    ("S", r":\g<S>", ""),
    ("f", r"\g<f>", ""),
    ("p", r" \g<p>", ""),
    ("hours", r"\g<hours>:\g<minutes>", ""),
)


def of_number(written: Notation) -> Edits:
    """The edits of numbers in a notation; they leave a ``?`` in a text of another one.

    A percent sign is removed, too, and the reader divides by 100.

    >>> text = "-€ 1.234,50"
    >>> for pattern, other in of_number(Notation(decimal=",", unit="€")):
    ...     text = re.sub(pattern, other, text)
    >>> text
    '-1234.50'
    """
    edits: Edits = [(MINUS, "-")]
    if written.parentheses:
        edits.append((rf"\A{PARENTHESES[1:-1]}\Z", r"-\1\2\3"))
        edits.append((rf"\A{BEHIND[1:-1]}\Z", r"-\1\2"))
    if written.percent:
        edits.append((rf"[{BLANKS}]*%\Z", ""))
    if written.unit:
        sign = re.escape(written.unit)
        edits.append((rf"\A([-+]?)[{BLANKS}]*{sign}[{BLANKS}]*", r"\1"))
        edits.append((rf"[{BLANKS}]*{sign}\Z", ""))
    for sign in written.separators:
        group, end = rf"{SEPARATORS[sign]}([0-9]{{3}})", rf"(?=({POINTS[sign]}[0-9]+)?\Z)"
        pattern = rf"\A([-+]?[1-9][0-9]{{0,2}}){group}" + f"(?:{group})?" * (MOST_GROUPS - 1)
        kept = "".join(rf"\{place}" for place in range(1, MOST_GROUPS + 2))
        edits.append((f"{pattern}{end}", kept))
        if sign == ",":  # as in India
            pairs = ",([0-9]{2})" + "(?:,([0-9]{2}))?" * (MOST_GROUPS - 2)
            edits.append((rf"\A([-+]?[1-9][0-9]?){pairs}{group}{end}", kept))
    if written.decimal == ",":
        edits += [(r"\.", "?"), (",", ".")]  # a point that is left would be a decimal one
    return [*edits, NO_NUMBER]


def of_time(form: str | None) -> Edits | None:
    """The edits of times of a form of ``strftime``, or durations; None if it has rare parts.

    They make ISO text with a zone of them, and of dates and times that ``str`` wrote. Any other
    text becomes nothing that can be read.

    >>> text = "5 Jan 24 1:30 pm"
    >>> for pattern, other in of_time("%d %B %y %I:%M %p"):
    ...     text = re.sub(pattern, other, text)
    >>> text
    '2024-01-05T13:30+00:00'
    """
    if form in DURATIONS:  # seconds, minutes, hours and days, with a sign before each
        lasting = rf"\A{DURATIONS[form][1:-1]}\Z", r"\g<2>0\5:\2\4:\2\3:\g<1>"
        return [lasting, (r":\Z", ":0"), (r"[^0-9.:+-]", "?")]
    parts = re.findall(r"%\.?.|\s+|.", ISO_FORM if form in (None, ISO) else form, re.DOTALL)
    named = [part for part in parts if part[0] == "%"]
    if not named or not {*named} <= {*PARTS} or len({*named}) < len(named):
        return None
    pattern = "".join(
        PARTS[part] if part[0] == "%" else r"\s*" if part.isspace() else re.escape(part)
        for part in parts
    )
    try:
        given = re.compile(pattern).groupindex
    except re.error:  # a part of the date stands twice, as in %m and %B
        return None
    if ("H" in given) != ("M" in given):
        return None
    text = "".join(of_it if name in given else other for name, of_it, other in TEMPLATE)
    kept = rf"{WRITTEN}|{CLOCK}" if form in CLOCKS else WRITTEN
    # any other text has none of the groups
    edits = [(rf"(?s)\A(?:{pattern}\Z|(?!(?:{kept})\Z).*)", text)]
    if {"%b", "%B"} & {*named}:
        edits += [(f"(?i:-{name[:3]}[a-z]*-)", f"-{at:02}-") for at, name in enumerate(NAMES, 1)]
    edits.append((r"(?<![0-9.])([0-9])(?![0-9])", r"0\1"))
    if "%y" in named:
        edits += [(r"\A([0-6][0-9])-", r"20\1-"), (r"\A([7-9][0-9])-", r"19\1-")]
    if "%p" in named:
        edits += [(r"T12(.*) (?i:am)\Z", r"T00\1"), (r" (?i:am)\Z", "")]
        edits += [(rf"T{h:02}(.*) (?i:pm)\Z", rf"T{h + 12}\1") for h in range(1, 12)]
        edits.append((r" (?i:pm)\Z", ""))
    if form in (None, ISO):
        edits.append((r":\Z", "+00:00"))  # of Z and UTC
    if form in CLOCKS:
        edits.append((rf"\A(?={CLOCK}\Z)", "1970-01-01T"))
    # years have four digits, and all times a clock and a zone
    edits += [(r"\A(?=[0-9]{3}-)", "0"), (r"\A([0-9-]*)\Z", r"\1T00:00")]
    return [*edits, (r"(?<![+-][0-9]{2}:[0-9]{2})\Z", "+00:00")]
