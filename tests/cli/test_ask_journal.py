"""The journal of ask: what is not its own, was changed, or cannot have happened is refused."""

import json

import pytest

from jaxmkl.cli.sessions.journal import Journal


def test_the_journal_refuses_what_is_not_its_own(tmp_path):
    path, about = tmp_path / "it", {"table": "a"}
    with (
        Journal(path, about),
        pytest.raises(ValueError, match="another process writes this journal"),
    ):
        Journal(path, about)
    with Journal(path, {"table": "b"}) as journal:  # begun anew, where nothing was answered
        journal.append({"ask": 1})
    with Journal(path, about) as journal:
        assert journal.events == []
        journal.append({"ask": 1})
        journal.append({"skip": 1})
    with pytest.raises(ValueError, match=r"another table \('a', now 'b'\)"):
        Journal(path, {"table": "b"})
    path.write_bytes(path.read_bytes() + b'nonsense\n{"ask": 1}\n')
    with pytest.raises(ValueError, match=r"it, line 4: is not a line of a journal"):
        Journal(path, about)
    for content in ("x,y\n1,2", "x,y\n1,2\n", '{"journal": 9}\n'):
        path.write_text(content)
        with pytest.raises(ValueError, match="journal"):
            Journal(path, about)
        assert path.read_text() == content
    path.write_text('{"jour')  # killed in the first moment
    with Journal(path, about) as journal:
        assert journal.events == []


def damaged(lines):
    """Lines of a journal after something happened to them, and the first that is then wrong."""
    tree, bush = (lines[at].replace(*change) for at, change in ((3, SWAP), (4, SWAP[::-1])))
    yield 4, [*lines[:3], tree, *lines[4:]]
    yield 4, [*lines[:3], tree, bush, *lines[5:]]  # the labels of two items
    yield 4, [*lines[:3], lines[4], lines[3], *lines[5:]]
    yield 5, [*lines[:4], lines[3], *lines[4:]]
    yield 3, [*lines[:2], *lines[3:]]
    yield 1, [lines[0].replace(b'"a"', b'"b"'), *lines[1:]]
    yield 6, [*lines, b'{"undo": 8}']


SWAP = (b"tree", b"bush")


@pytest.mark.parametrize("form", [1, 2])
def test_a_journal_that_was_changed_is_refused_by_line(form, tmp_path):
    path, about = tmp_path / "it", {"table": "a"}
    labels = {7: "tree", 8: "bush"}
    events = [*({"ask": i} for i in labels), *({"answer": i, "label": labels[i]} for i in labels)]
    if form == 1:  # of jaxmkl 0.2.0: without checksums, of which only the lines added get some
        old = [{"journal": 1, **about}, *events[:1]]
        path.write_text("".join(json.dumps(line) + "\n" for line in old))
    with Journal(path, about) as journal:
        for event in events[len(journal.events) :]:
            journal.append(event)
    with Journal(path, about) as journal:
        assert journal.events == events
    lines = path.read_bytes().splitlines()
    assert [b'"crc"' in line for line in lines] == [form == 2] * 2 + [True] * 3
    for number, changed in damaged(lines):
        path.write_bytes(b"".join(line + b"\n" for line in changed))
        first = max(number, 3) if form == 1 else number  # that has a checksum
        with pytest.raises(
            ValueError, match=f"it, line {first}: (does not match its|has no) checksum"
        ):
            Journal(path, about)
        path.write_bytes(b"".join(line + b"\n" for line in changed[: number - 1]))
        with Journal(path, about) as journal:  # the lines before it are whole
            assert journal.events == (events[: number - 2] if number > 1 else [])


def test_a_journal_from_before_classes_kept_their_zeros_says_what_to_do(tmp_path):
    path = tmp_path / "it"
    with Journal(path, {"table": "a", "target": "kind: 8, 17"}) as journal:
        journal.append({"ask": 1}, {"answer": 1, "label": "17"})
    told = r"another target \('kind: 8, 17', now 'kind: 017, 8'\), as classes now keep their lead"
    for table in "ab":  # their order changed, and so the numbers of labels in the table
        with pytest.raises(ValueError, match=f"{told}.* write its answers into the table"):
            Journal(path, {"table": table, "target": "kind: 017, 8"})
    with pytest.raises(ValueError, match=r"'kind: 18, 8'\); move it away"):
        Journal(path, {"table": "a", "target": "kind: 18, 8"})
