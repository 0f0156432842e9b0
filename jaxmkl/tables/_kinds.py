"""Kinds of columns, as values that JSON can hold.

A kind names its inputs and encodes cells (n,) as an array (n, inputs). NaN marks the places
where the mean of the cells before is filled in later.
"""

import dataclasses
import functools
import hashlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import polars as pl

from jaxmkl._pytree import require
from jaxmkl.tables._cells import (
    CLOCKS,
    DURATIONS,
    ISO,
    OF_DAYS,
    Cells,
    Notation,
    forms_of,
    instants,
    parsed,
)
from jaxmkl.tables._edits import Edits, of_number, of_time
from jaxmkl.tables._words import number_in

TURNS = {"day": 86400.0, "week": 7 * 86400.0, "year": 365.25 * 86400.0}  # seconds
UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
FALSE_TRUE = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("off", "on"))
MOST_PLACES = 2**16  # the most places to which words are hashed
MISSING_CATEGORY = "?"
WORDS = 512  # the most words of a column that have an input, by default
SHORT = 3  # a text of at most so many words counts as one more word


@dataclasses.dataclass(frozen=True)
class Kind:
    """A column that becomes inputs."""

    name: str
    """The name of the column."""
    kind: ClassVar[str]
    filled: ClassVar[bool] = False  # whether its first input may have gaps to be filled
    lost: ClassVar[str] = ""  # the end of a sentence on unseen cells, with the fields in braces

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return (self.name,)

    @property
    def starts(self) -> tuple[float, ...]:
        """A number near those of each input."""
        return (0.0,) * len(self.features)

    @property
    def flags(self) -> int:
        """How many of its inputs, the last ones, are 0 or 1, or were so in the first rows."""
        return 0

    def encode(self, cells: Cells) -> np.ndarray:
        """Encode cells as inputs (n, len(features))."""
        raise NotImplementedError

    def unseen(self, cells: Cells, inputs: np.ndarray) -> int:
        """Count the cells that inputs cannot tell apart, as the first rows had no such cells."""
        return 0


@dataclasses.dataclass(frozen=True)
class Number(Notation, Kind):
    """Numbers; where the first rows had missing cells, an input tells which they are."""

    start: float = 0.0
    """The first number, which is used until a mean is known."""
    missing: bool = False
    flag: bool = False
    """Whether all numbers of the first rows, of 100 at least, were 0 or 1."""
    kind = "number"
    filled = True
    lost = (
        "are missing, and none of the first rows was: the mean so far; look at more rows before "
        "(--first), so that an input tells which"
    )

    @property
    def is_plain(self) -> bool:
        """True if none is missing, and all have a decimal point and no other signs."""
        return not self.missing and self.is_usual

    @property
    def edits(self) -> Edits:
        """The edits after which Python reads the numbers."""
        return of_number(self)

    @property
    def features(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} is missing")[: 1 + self.missing]

    @property
    def starts(self) -> tuple[float, ...]:
        return (self.start, 0.0)[: 1 + self.missing]

    @property
    def flags(self) -> int:
        return self.flag + self.missing

    def encode(self, cells: Cells) -> np.ndarray:
        found = cells.numbers(self)
        return np.stack([found, np.isnan(found)][: 1 + self.missing], axis=1)


@dataclasses.dataclass(frozen=True)
class Boolean(Kind):
    """Two words, of which one is 0 and one is 1; anything else is 1/2."""

    false: str = "false"
    true: str = "true"
    kind = "boolean"
    lost = "hold neither {false} nor {true}: 1/2"
    flags = 1  # type: ignore[assignment]

    def encode(self, cells: Cells) -> np.ndarray:
        numbers, found = {self.false: 0.0, self.true: 1.0}, cells.words.str.to_lowercase()
        found = found.replace_strict(numbers, default=0.5, return_dtype=pl.Float64)
        return found.to_numpy()[:, None]

    def unseen(self, cells: Cells, inputs: np.ndarray) -> int:
        return int((inputs == 0.5).sum())


def truth_in(words: Iterable[str]) -> tuple[str, str] | None:
    """Find the words for false and true that these are, without regard to case; else None."""
    found = {word.lower() for word in words}
    return next((pair for pair in FALSE_TRUE if {*pair} == found), None)


@dataclasses.dataclass(frozen=True)
class Categories(Kind):
    """A few words, each with a 0/1 input; for any other word all inputs are zero.

    Missing cells are the category ``?`` if the first rows had some; else they are another word.
    """

    values: tuple[str, ...] = ()
    kind = "categories"
    lost = (
        "hold no word that the first rows had: all zeros; look at more rows before "
        "(--first), or take its words as text (--as {name}=text)"
    )

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={value}" for value in self.values)

    @property
    def flags(self) -> int:
        return len(self.values)

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """The place of each spelling of a word: 1 and 1.0 are one number, in text or not, and
        true and True, beside missing cells, one truth value."""
        places = {value: place for place, value in enumerate(self.values)}
        if truth_in({*self.values} - {MISSING_CATEGORY}):
            cases = str.lower, str.upper, str.capitalize
            places = {
                case(value): place for value, place in places.items() for case in cases
            } | places
        for value, number in [*places.items()]:
            if re.fullmatch(r"-?(0|[1-9]\d*)(\.0)?", value):
                whole = value.removesuffix(".0")
                places = {whole: number, f"{whole}.0": number} | places
        return places

    def encode(self, cells: Cells) -> np.ndarray:
        found = cells.words.fill_null(MISSING_CATEGORY)
        place = found.replace_strict(self.places, default=-1, return_dtype=pl.Int32).to_numpy()
        return (place[:, None] == np.arange(len(self.values))).astype(np.float64)

    def unseen(self, cells: Cells, inputs: np.ndarray) -> int:
        return int((~inputs.any(axis=1)).sum())


@dataclasses.dataclass(frozen=True)
class Text(Kind):
    """Text of many values, encoded by TF-IDF over the words of the first rows.

    If the word w occurs n_w times in a cell, the input of w is

        (1 + log n_w) idf_w c,      c such that the inputs of the cell have the norm sqrt(F)

    so that the mean of the F squares is 1, as it is for standardised columns. Words are in small
    letters. A cell of one to three words also counts as one word, which makes it a category. Words
    that the first rows lacked are ignored; a cell without others is all zeros, as if missing.

    The weights idf pay, and need no renewal: 22.2 % mistakes on 1,470 docstrings of six packages,
    22.8 without them, 22.3 with those of the rows so far; 2.28, 2.76 and 2.32 % on texts of 5,000
    generated words in four classes.

    Columns of more than 50 categories are encoded in this way, too. The table has squared errors
    of expert_mkl in units of those of the mean: with words as the command uses them (linear models
    of words, kernels of the other inputs); with words hashed to 256 places; and with the mean of
    the target over the earlier rows of the category (10 times the overall mean added) in place of
    the words. The last two have the fixed bank.

        ============================================  ======  =======  =====
        categories                                    words   hashed   means
        ============================================  ======  =======  =====
        200, generated, beside a number               .264    .681     .283
        2,000 by Zipf's law, generated, the same      .464    .765     .461
        142 countries and their life expectancy       .130    .288     .158
        503 files of Python, lengths of functions     .842    .875     .851
        ============================================  ======  =======  =====

    So words are the better choice; means would also need labels, which may be late or unasked.

    Without ``words`` (in files of older versions) each word adds ±1/sqrt(words) at one of
    ``width`` places, by its hash: BLAKE2, the same on every machine.
    """

    width: int = 32
    words: tuple[str, ...] = ()
    """The F words, each with an input."""
    idf: tuple[float, ...] = ()
    """Their weights, 1 + log of (1 + rows) / (1 + rows that have the word)."""
    kind = "text"
    lost = (
        "hold no word that the first rows had often enough: all zeros; look at more rows before "
        "(--first), or keep more words (--as {name}=text:1024)"
    )

    def __post_init__(self) -> None:
        good = 1 <= self.width <= MOST_PLACES
        require(good, self, "width", self.width, f"from 1 to {MOST_PLACES}")
        good = len(self.idf) == len(self.words)
        require(good, self, "idf", f"{len(self.idf)} weights", "as many as words")

    @property
    def features(self) -> tuple[str, ...]:
        if self.words:
            return tuple(f"{self.name}: {word}" for word in self.words)
        return tuple(f"{self.name} #{place}" for place in range(self.width))

    def encode(self, cells: Cells) -> np.ndarray:
        texts = cells.words.drop_nulls().unique(maintain_order=True)
        # the first row is for missing cells
        rows = np.zeros((1 + len(texts), len(self.features)))
        for row, text in zip(rows[1:], texts, strict=True):
            if self.words:
                for word, number in words_of(text).items():
                    if (place := self._places.get(word)) is not None:
                        row[place] = (1.0 + math.log(number)) * self.idf[place]
            else:
                words = re.findall(r"\w+", text.lower()) or [text]
                for place, sign in (hashed(word, self.width) for word in words):
                    row[place] += sign / math.sqrt(len(words))
        if self.words:
            norms = np.sqrt(np.square(rows).sum(axis=1, keepdims=True) / rows.shape[1])
            np.divide(rows, norms, out=rows, where=norms > 0)
        index = dict(zip(texts, range(1, len(rows)), strict=True))
        return rows[cells.words.replace_strict(index, default=0, return_dtype=pl.Int64).to_numpy()]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def unseen(self, cells: Cells, inputs: np.ndarray) -> int:
        given = cells.values.is_not_null().to_numpy()
        return int((given & ~inputs.any(axis=1)).sum()) if self.words else 0


def words_of(text: str) -> dict[str, int]:
    """Count the words of a text, in small letters; a short text counts as a word, too.

    >>> words_of("To be, or not to be"), words_of("New York")
    ({'to': 2, 'be': 2, 'or': 1, 'not': 1}, {'new': 1, 'york': 1, 'new york': 1})
    """
    found = re.findall(r"\w+", text.lower()) or [text]
    counts = dict(Counter(found))
    if 1 < len(found) <= SHORT:
        counts[" ".join(found)] = 1
    return counts


def vocabulary(texts: Iterable[str], most: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Choose the words that get an input, and their weights.

    They are the ``most`` words that occur in the most texts, in alphabetical order. Words that
    only one text has may fill half of the ``most`` places.

    >>> vocabulary(["a tree", "a bush", "the tree"], 2)[0]
    ('a', 'tree')
    """
    found, rows = Counter[str](), 0
    for text in texts:
        found.update(words_of(text).keys())
        rows += 1
    ranked = sorted(found, key=lambda word: (-found[word], word))[:most]
    kept = sorted(word for at, word in enumerate(ranked) if found[word] > 1 or at < most // 2)
    return tuple(kept), tuple(1.0 + math.log((1 + rows) / (1 + found[word])) for word in kept)


@functools.lru_cache(maxsize=2**16)
def hashed(word: str, width: int) -> tuple[int, int]:
    """Hash a word to a place below ``width`` and a sign.

    >>> hashed("tree", 32)
    (31, 1)
    """
    number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % width, 1 if number & 1 else -1


@dataclasses.dataclass(frozen=True)
class Time(Kind):
    """Times: the time since the first, and the phases of day, week and year as sin and cos.

    ``form`` is their format in text, as in ``strftime``; time zones are converted to UTC.
    """

    start: float = 0.0
    """The first time, in seconds since 1970."""
    unit: str = "days"
    """The unit of the time since then."""
    turns: tuple[str, ...] = ("week", "year")
    form: str | None = None
    kind = "time"
    filled = True

    def __post_init__(self) -> None:
        require(self.unit in UNITS, self, "unit", self.unit, f"one of {', '.join(UNITS)}")
        good = set(self.turns) <= set(TURNS)
        require(good, self, "turns", self.turns, f"some of {', '.join(TURNS)}")

    @property
    def features(self) -> tuple[str, ...]:
        turns = (f"{self.name}: {f} of {turn}" for turn in self.turns for f in ("sin", "cos"))
        return (f"{self.name}: {self.unit} since the first", *turns)

    @property
    def is_lasting(self) -> bool:
        """True of durations, which are no points in time."""
        return self.form in DURATIONS

    @property
    def seconds(self) -> float:
        """The seconds of the unit."""
        return UNITS[self.unit]

    @property
    def phases(self) -> list[tuple[float, float]]:
        """The seconds of each turn before 1970, and in all."""
        # 1970 began on a Thursday
        return [(3 * 86400.0 * (turn == "week"), TURNS[turn]) for turn in self.turns]

    @property
    def edits(self) -> Edits | None:
        """The edits after which Python reads the times; None for forms with rare parts."""
        return of_time(self.form)

    @property
    def of_form(self) -> str:
        """The form of the times for messages, unless it is the usual one."""
        return "" if self.form in (None, ISO) else f" of the form {self.form}"

    def encode(self, cells: Cells) -> np.ndarray:
        form = self.form
        if form is None and cells.flat.dtype == pl.String:  # the first rows had a dtype of times
            forms = [form for form in forms_of(cells.known) if form not in OF_DAYS]
            form = forms[0] if len(forms) == 1 else None
        found = instants(cells.flat, form)
        advice = "mend the cell or leave it empty"
        if form in CLOCKS:
            advice += f", or begin anew with durations (--as {shlex.quote(self.name)}=duration)"
        cells.refuse_unread(found, f"{{}} is not a time{self.of_form}; {advice}")
        seconds = found.fill_null(float("nan")).to_numpy()
        parts = [(seconds - self.start) / self.seconds]
        for before, turn in self.phases:
            angle = 2 * np.pi * ((seconds + before) / turn % 1.0)
            parts += [np.nan_to_num(np.sin(angle)), np.nan_to_num(np.cos(angle))]  # 0 if missing
        return np.stack(parts, axis=1)


@dataclasses.dataclass(frozen=True)
class LeftOut(Kind):
    """A column that is ignored."""

    constant: str | None = None
    """The value in all of the first rows, "" if they had none; None if left out otherwise."""
    kind = "left out"
    lost = "differ from the first rows, by which it was left out; look at more (--first)"

    @property
    def features(self) -> tuple[str, ...]:
        return ()

    def unseen(self, cells: Cells, inputs: np.ndarray) -> int:
        if self.constant is None:
            return 0
        known, number = cells.flat.drop_nulls(), number_in(self.constant)
        same = known.cast(pl.String) == self.constant
        if number is not None:
            same |= (parsed(known) == number).fill_null(False)
        return len(known) - int(same.sum())


_KINDS: tuple[type[Kind], ...] = (Number, Boolean, Categories, Text, Time, LeftOut)
KINDS = {cls.kind: cls for cls in _KINDS}
