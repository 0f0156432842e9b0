"""Files damaged at random, by seed: bytes changed, pieces moved, cells replaced."""

import random

# what stands for itself in some format, and what looks like a number and is none in a file
TOKENS = [
    *(b"", b" ", b"\t", b",", b";", b"|", b'"', b'""', b"'", b":", b"#", b"\n", b"\r", b"\r\n"),
    *(b"\x00", b"\x0b", b"\x0c", b"\x1a", b"\x1c", b"\x7f", b"\x80", b"\xff", b"\xef\xbb\xbf"),
    *("\u00a0", "\u2028", "\u0085", "\u3000", "\u200b", "١٢", "１２", "Ⅻ", "½", "−1", "1٫5"),
    *(b"1_000", b"0x10", b"1e999", b"-1e999", b"1e-999", b"1e", b"e1", b".", b"+", b"--1", b"+1"),
    *(b"inf", b"-Infinity", b"nan", b"NaN", b"NA", b"null", b"true", b"1.", b".5", b"1,5", b"5%"),
    *(b"1.7976931348623159e308", b"9" * 400, b"0" * 50 + b"1", b"1" * 5000, b"1 2", b"1\x00"),
    *(b"0:1", b"-1:2", b"1:1", b"3:", b":3", b"qid:1", b"3:1_0", b"99999999:1", b"1:1:1"),
    *(b"{", b"}", b"[", b"]", b"{}", b"[1]", b"[" * 3000, b'{"a":' * 3000, b'"\\ud800"', b"\\"),
    *(b"2020-01-01", b"9999999999999999999", b"-0", b"PK\x03\x04", b"PAR1", b"ARROW1"),
]
TOKENS = [token.encode() if isinstance(token, str) else token for token in TOKENS]
SEPARATORS = b' ,;\t|:\n\r{}[]"'


def _place(draws: random.Random, content: bytearray) -> int:
    """Anywhere, but oftener near the ends, where formats say what they hold."""
    n = len(content)
    if draws.random() < 0.3:
        return min(n, draws.choice([draws.randrange(64), max(0, n - 1 - draws.randrange(256))]))
    return draws.randrange(n + 1)


def _flip(draws: random.Random, content: bytearray) -> None:
    for _ in range(draws.choice([1, 1, 2, 8])):
        place = min(_place(draws, content), len(content) - 1)
        content[place] ^= 1 << draws.randrange(8)


def _overwrite(draws: random.Random, content: bytearray) -> None:
    place, size = _place(draws, content), draws.choice([1, 2, 4, 8])
    new = draws.choice([bytes(size), b"\xff" * size, b"\x7f" * size, draws.randbytes(size)])
    content[place : place + size] = new


def _insert(draws: random.Random, content: bytearray) -> None:
    place = _place(draws, content)
    content[place:place] = draws.choice(TOKENS)


def _cell(draws: random.Random, content: bytearray) -> None:
    """Another cell between two separators."""
    start = _place(draws, content)
    while start > 0 and content[start - 1] not in SEPARATORS:
        start -= 1
    end = start
    while end < len(content) and content[end] not in SEPARATORS:
        end += 1
    content[start:end] = draws.choice(TOKENS)


def _cut(draws: random.Random, content: bytearray) -> None:
    place = _place(draws, content)
    del content[place : place + draws.choice([1, 1, 4, 64, len(content)])]


def _copy(draws: random.Random, content: bytearray) -> None:
    """A piece stands twice, or somewhere else."""
    start, size = _place(draws, content), draws.choice([1, 8, 64, 512])
    piece = content[start : start + size]
    if draws.random() < 0.5:
        del content[start : start + size]
    place = _place(draws, content)
    content[place:place] = piece


def _line(draws: random.Random, content: bytearray) -> None:
    """A line stands twice, or elsewhere, or not at all."""
    lines = content.split(b"\n")
    line = lines.pop(draws.randrange(len(lines)))
    for _ in range(draws.randrange(3)):
        lines.insert(draws.randrange(len(lines) + 1), line)
    content[:] = b"\n".join(lines)


WAYS = (_flip, _overwrite, _insert, _cell, _cell, _cut, _copy, _line)


def mutated(content: bytes, seed: object) -> bytes:
    """The content, damaged in one to three ways; the seed decides."""
    draws, found = random.Random(repr(seed)), bytearray(content)
    for _ in range(draws.choice([1, 1, 2, 3])):
        draws.choice(WAYS)(draws, found)
        found = found or bytearray(b"\n")
    return bytes(found)
