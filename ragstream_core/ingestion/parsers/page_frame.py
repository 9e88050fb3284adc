"""What stands around the text of a web page and is none of it: menus, notices, footers.

The text is what lies in the page's one ``main`` or ``article``; else it is all of the page less
lists of short links, notices of cookies and footers. Where little would remain, all of it stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile
from typing import Any, NamedTuple

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag

_LITTLE = 150  # characters; less than this and than a quarter of the page is no text of a page
_FEWEST = 20  # characters of a main part: "Loading …" is none
_SHARE = 3  # what is marked as the text holds a third of all that is no frame
_LOOSE = 100  # characters beside the links of a menu: its heading, "Prev | Up | Next"
_SHORT, _SHORTEST = 60, 25  # mean characters of a link of a menu, and of one that is not named so
_LEAD = 40  # so many characters in one string are a line of text
_TEXTS = ("main", "article")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_MENU_ROLES = frozenset(["navigation", "menu", "menubar", "search"])
_ROLES = _MENU_ROLES | {"contentinfo"}
_MENU = re.compile(
    r"nav|menu|sidebar|breadcrumb|crumbs|pagination|pager\b|share|sharing|social|toolbar|topbar"
    r"|related|skip|\bheader\b",
    re.IGNORECASE,
)
_FOOTER = re.compile(
    r"(?:(?:site|page|global|main|bottom|the)[-_]?)?footer"
    r"(?:[-_]?(?:wrapper|container|inner|content|area|section|widgets?|links?|bottom))?|colophon",
    re.IGNORECASE,
)
_CONSENT = re.compile(r"cookie|consent|gdpr|onetrust|usercentrics|didomi|borlabs", re.IGNORECASE)
_ASKS = re.compile(
    r"accept|agree|consent|allow|reject|decline|got it|preferences|akzept|zustimm|ablehn|erlaub"
    r"|einverstanden|refuser|autoriser|aceptar|rechazar|accett|rifiut|aceitar|accepteren"
    r"|godkänn|同意|允许",
    re.IGNORECASE,
)
_HINTS = re.compile("|".join(each.pattern for each in (_MENU, _FOOTER, _CONSENT)), re.IGNORECASE)
_HIDING = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_OPENERS = (*_HEADINGS, "dt", "button", "summary", "label")
_OPENED_BY = ("aria-controls", "data-target", "data-bs-target", "href", "for")
_LISTS = ("ul", "ol", "dl", "div", "p", "td", "table", "center", "form", "header", "aside")


class _Links(NamedTuple):
    """How many characters of text a part holds, and how many of them in how many links."""

    text: int = 0
    linked: int = 0
    number: int = 0


def leave_out_frame(soup: BeautifulSoup) -> int:
    """Take out of a page what it hides and what stands around its text.

    What something shown opens is not hidden: a part that folds out, the panel of a tab.
    """
    page = _Page(soup)
    whole = page.all.text
    hidden = page.hidden()
    if hidden and sum(page.links(tag).text for tag in hidden) * 2 < whole:
        for tag in hidden:
            tag.decompose()
        page = _Page(soup)
    frame, text = page.frame(), page.text()
    inner = sum(page.links(tag).text for tag in frame if any(each is text for each in tag.parents))
    left = page.all.text - sum(page.links(tag).text for tag in frame)
    kept = 0 if text is None else page.links(text).text - inner
    if text is not None and kept >= _FEWEST and kept * _SHARE >= left:
        _keep_only(soup, text)
        left = kept
    elif left < _LITTLE and left * 4 < page.all.text:
        return whole - page.all.text
    for tag in frame:
        if not tag.decomposed:
            tag.decompose()
    return whole - left


class _Page:
    """The parts of a page, in order, with what each holds.

    Attributes:
        all: What the whole page holds.
    """

    def __init__(self, soup: BeautifulSoup) -> None:
        nodes = list(soup.descendants)
        held, inside = dict[int, list[int]](), dict[int, int]()
        for node in reversed(nodes):  # so the parts of a part come before it
            above = id(node.parent)
            if isinstance(node, Tag):
                inside[above] = inside.get(above, 0) + inside.get(id(node), 0) + 1
                own = held.get(id(node))
                if own is None:
                    continue
                if node.name in ("a", "button"):
                    own[1:] = own[0], 1
            elif type(node) is NavigableString and (size := len(node.strip())):
                own = [size, 0, 0]
            else:
                continue
            sums = held.setdefault(above, [0, 0, 0])
            sums[0] += own[0]
            sums[1] += own[1]
            sums[2] += own[2]
        self._held, self._inside = held, inside
        self._tags = [node for node in nodes if isinstance(node, Tag)]
        self._around, self._within = set[int](), set[int]()  # of the parts that are the text
        end = 0
        for at, tag in enumerate(self._tags):
            if at < end:
                self._within.add(id(tag))
            if _is_text(tag):
                end = max(end, self._end(at))
                new = takewhile(lambda each: id(each) not in self._around, tag.parents)
                self._around.update(map(id, new))
        self.all = self.links(soup)

    def _end(self, at: int) -> int:
        """Return the number of the first part behind all that lie in one."""
        return at + 1 + self._inside.get(id(self._tags[at]), 0)

    def _outermost(self, wanted: Callable[[Tag], bool]) -> list[Tag]:
        """Return the parts that are wanted and lie in no other one."""
        found, end = list[Tag](), 0
        for at, tag in enumerate(self._tags):
            if at >= end and wanted(tag):
                found.append(tag)
                end = self._end(at)
        return found

    def links(self, tag: Tag) -> _Links:
        """Return what a part holds."""
        return _Links(*self._held.get(id(tag), ()))

    def hidden(self) -> list[Tag]:
        """Return the parts that a browser shows in no way."""
        found = self._outermost(_may_hide)
        if not found:
            return []
        named = [tag.attrs[by] for tag in self._tags for by in _OPENED_BY if by in tag.attrs]
        opened = {str(name).lstrip("#") for name in named}
        return [tag for tag in found if not _can_be_seen(tag, opened)]

    def text(self) -> Tag | None:
        """Return the page's one main part, or else its one article."""
        found = self._outermost(lambda tag: _is_text(tag) and tag.name != "article")
        found = found or self._outermost(_is_text)
        return found[0] if len(found) == 1 else None

    def frame(self) -> list[Tag]:
        """Return the menus, notices and footers."""
        found = self._outermost(lambda tag: _may_frame(tag) and self._is_frame(tag))
        return found + self._first_menus({id(tag) for tag in found})

    def _is_frame(self, tag: Tag) -> bool:
        """Return whether a part is a menu, a notice of cookies or a footer.

        Within the text only what says that it is a menu can be one.
        """
        if id(tag) in self._around:
            return False
        links, names = self.links(tag), _names(tag)
        if tag.name in ("nav", "search") or tag.get("role") in _MENU_ROLES:
            return links.linked * 2 >= links.text or "search" in (tag.name, tag.get("role"))
        if links.text * 2 > self.all.text or id(tag) in self._within:
            return False
        is_footer = tag.name == "footer" or tag.get("role") == "contentinfo"
        if is_footer or any(map(_FOOTER.fullmatch, names)):
            return tag.find_parent(["li", "td", "blockquote", "section"]) is None
        if any(map(_CONSENT.search, names)) and _ASKS.search(tag.get_text(" ")):
            return True
        may_be_menu = tag.name in ("aside", "header") or any(map(_MENU.search, names))
        return may_be_menu and _is_menu(tag, links, _SHORT)

    def _first_menus(self, taken: set[int]) -> list[Tag]:
        """Return the lists of nothing but short links above the first heading or line of text."""
        found = list[Tag]()
        for tag in self._tags:
            if tag.name in _TEXTS or tag.name in _HEADINGS or _says_something(tag):
                return found
            if id(tag.parent) in taken:
                taken.add(id(tag))
            elif tag.name in _LISTS and id(tag) not in taken and self._is_first_menu(tag):
                taken.add(id(tag))
                found.append(tag)
        return []  # there is no text for which these could be a frame

    def _is_first_menu(self, tag: Tag) -> bool:
        links = self.links(tag)
        is_menu = links.number > 2 and _is_menu(tag, links, _SHORTEST)
        is_menu = is_menu and links.text - links.linked <= links.number * 3
        targets = [str(link.get("href") or "#") for link in tag.find_all("a")]
        return is_menu and not all(target.startswith("#") for target in targets)  # of contents


def _may_hide(tag: Tag) -> bool:
    return (
        tag.name in ("noscript", "dialog")
        or "hidden" in tag.attrs
        or "mw-editsection" in tag.attrs.get("class", ())  # "[edit]" in headings of a wiki
        or _HIDING.search(str(tag.attrs.get("style", ""))) is not None
    )


def _can_be_seen(tag: Tag, opened: set[str]) -> bool:
    if tag.name == "dialog" and tag.has_attr("open"):
        return True
    if tag.get("hidden") == "until-found" or tag.get("role") == "tabpanel":
        return True
    before: Any = tag.find_previous_sibling()
    if before is not None and (before.name in _OPENERS or before.get("role") == "button"):
        return True
    return bool(tag.get("id")) and str(tag["id"]) in opened


def _names(tag: Tag) -> list[str]:
    """Return the words of a part's classes, and its other names."""
    classes: Any = tag.get("class") or []
    return [*classes, *(str(tag.get(name) or "") for name in ("id", "role", "aria-label"))]


def _may_frame(tag: Tag) -> bool:
    if tag.name in ("html", "body", *_TEXTS, *_HEADINGS):
        return False
    return tag.name in ("nav", "footer", "search", "aside", "header") or (
        bool(tag.attrs)
        and (tag.get("role") in _ROLES or _HINTS.search(" ".join(_names(tag))) is not None)
    )


def _is_text(tag: Tag) -> bool:
    return tag.name in _TEXTS or tag.attrs.get("role") == "main"


def _is_menu(tag: Tag, links: _Links, longest: int) -> bool:
    """Return whether a part is a list of short links and next to nothing else."""
    loose = links.text - links.linked
    return (
        links.number > 1
        and links.linked <= longest * links.number
        and (loose <= _LOOSE or loose * 3 <= links.linked * 2)
        and tag.find("h1") is None
    )


def _says_something(tag: Tag) -> bool:
    own = (child for child in tag.children if type(child) is NavigableString)
    return tag.name != "a" and any(len(text.strip()) >= _LEAD for text in own)


def _keep_only(soup: BeautifulSoup, text: Tag) -> None:
    """Leave of a page its text, and its heading if the text has none."""
    title = None if text.find("h1") else soup.find("h1")
    body: Any = soup.body or soup
    text.extract()
    if title is not None:
        title.extract()
    body.clear()
    body.extend([text] if title is None else [title, text])
