"""Elements of a page, and the page around them. Text is escaped when it is written, and control
characters, which no page can hold, are shown as escapes."""

import base64
import hashlib
import importlib.resources
from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element, tostring

from jaxmkl.evaluate.rows import Row, mean_and_std, printable

LONG = 40  # characters of a text that has a line of its own, at least


def element(name: str, /, *inside: Element | str, **attributes: object) -> Element:
    """Return an element with text and elements inside it.

    An attribute whose name is reserved in Python ends in an underscore; other underscores become
    hyphens.

    >>> tostring(element("p", "a < b, ", element("b", "c"), class_="x"), "unicode", method="html")
    '<p class="x">a &lt; b, <b>c</b></p>'
    """
    names = {key.rstrip("_").replace("_", "-"): _shown(v) for key, v in attributes.items()}
    made = Element(name, names)
    for part in inside:
        if isinstance(part, Element):
            made.append(part)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + _shown(part)
        else:
            made.text = (made.text or "") + _shown(part)
    return made


def _shown(text: object) -> str:
    return printable(text, keep="\n\t")


def section(title: str, *inside: Element | str) -> Element:
    """Return a section of the page with a heading."""
    return element("section", element("h2", title), *inside)


def items(sentences: Iterable[str]) -> Element:
    """Return a list with an item for each sentence."""
    return element("ul", *(element("li", sentence) for sentence in sentences))


def pairs(of: Iterable[tuple[str, str]]) -> Element:
    """Return a list of names with their meanings; a long meaning has the whole width."""
    made = element("dl")
    for name, what in of:
        pair = element("div", element("dt", name), element("dd", what))
        if len(what) >= LONG:
            pair.set("class", "long")
        made.append(pair)
    return made


def command(line: str) -> Element:
    """Return a line of a shell, which is broken between its words only."""
    words = (element("span", word) for word in line.split(" "))
    return element("pre", *[part for word in words for part in (word, " ")][:-1])


def folded(title: str, inside: Element) -> Element:
    """Return content that opens when its title is clicked."""
    return element("details", element("summary", title), inside)


def table(head: Iterable[str], rows: Iterable[Element]) -> Element:
    """Return a table that scrolls sideways if it is wider than the page."""
    titles = (element("th", title, scope="col") for title in head)
    top = element("thead", element("tr", *titles))
    body = element("tbody", *rows)
    return element("div", element("table", top, body), class_="wide", tabindex=0)


def columns(first: str, titles: Iterable[str], of: Mapping[str, Iterable[str]]) -> Element:
    """Return a table of columns of text by their heads; the first column has the lines' titles."""
    rows = (element("tr", element("th", title, scope="row"), *(element("td", c) for c in cells))
            for title, *cells in zip(titles, *of.values(), strict=True))  # fmt: skip
    return table([first, *of], rows)


def cell(row: Row | None, class_: str = "") -> Element:
    """Return the cell of a figure; its title has all digits of the mean and the deviation."""
    if row is None:
        return element("td")
    exact = f"{row.mean!r} ± {row.std!r}" if row.std > 0 else repr(row.mean)
    return element("td", mean_and_std(row), title=exact, class_=class_)


def document(title: str, *inside: Element) -> str:
    """Return a whole page, which loads nothing and runs no script."""
    style = (importlib.resources.files(__package__) / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    page = element("html", head, element("body", element("main", *inside)), lang="en")
    return "<!DOCTYPE html>\n" + tostring(page, "unicode", method="html") + "\n"
