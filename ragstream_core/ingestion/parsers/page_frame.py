"""What stands around the text of a web page and is none of it: menus, notices, footers.

The text is what lies in the page's one ``main`` or ``article``; else it is all of the page less
lists of short links, notices of cookies and footers. Where little would remain, all of it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from bs4 import BeautifulSoup
from bs4.element import Tag

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
    r"|related|skip|^header$",
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
    """How many characters of text a part holds, how many of them in how many links."""

    text: int
    linked: int
    number: int


def leave_out_frame(soup: BeautifulSoup) -> int:
    """Take out of a page what it hides and what stands around its text.

    What something shown opens is not hidden: a part that folds out, the panel of a tab.

    Args:
        soup: The page, without scripts and styles; changed.

    Returns:
        How many characters of text were left out, 0 or more.
    """
    whole = _size(soup)
    hidden = _hidden(soup)
    if sum(map(_size, hidden)) * 2 < whole:
        for tag in hidden:
            tag.decompose()
    seen = _size(soup)
    frame = _outermost(tag for tag in soup.find_all(_may_frame) if _is_frame(tag, seen))
    frame += _first_menus(soup, frame)
    text = _text_of(soup)
    inner = sum(_size(tag) for tag in frame if any(each is text for each in tag.parents))
    left = seen - sum(map(_size, frame))
    kept = 0 if text is None else _size(text) - inner
    if text is not None and kept >= _FEWEST and kept * _SHARE >= left:
        _keep_only(soup, text)
    elif left < _LITTLE and left * 4 < seen:
        return whole - seen
    for tag in frame:
        if not tag.decomposed:
            tag.decompose()
    return whole - _size(soup)


def _size(part: Tag) -> int:
    return sum(len(text) for text in part.stripped_strings)


def _outermost(tags: Iterable[Tag]) -> list[Tag]:
    """Return those that lie in no other one, in the order of the page."""
    found = list[Tag]()
    seen = set[int]()
    for tag in tags:
        if not any(id(parent) in seen for parent in tag.parents):
            found.append(tag)
            seen.add(id(tag))
    return found


def _may_hide(tag: Tag) -> bool:
    return (
        tag.name in ("noscript", "dialog")
        or "hidden" in tag.attrs
        or _HIDING.search(str(tag.attrs.get("style", ""))) is not None
    )


def _hidden(soup: BeautifulSoup) -> list[Tag]:
    """Return the parts that a browser shows in no way."""
    found = _outermost(soup.find_all(_may_hide))
    if not found:
        return []
    opened = {
        str(tag.attrs[by]).lstrip("#")
        for tag in soup.find_all(True)
        for by in _OPENED_BY
        if by in tag.attrs
    }
    return [tag for tag in found if not _can_be_seen(tag, opened)]


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
    return (
        tag.name in ("nav", "footer", "search", "aside", "header")
        or tag.get("role") in _ROLES
        or any(map(_HINTS.search, _names(tag)))
    )


def _is_frame(tag: Tag, seen: int) -> bool:
    """Return whether a part is a menu, a notice of cookies or a footer.

    Within the text only what says that it is a menu can be one.
    """
    if tag.find(_is_text) is not None:
        return False
    links, names = _links(tag), _names(tag)
    if tag.name in ("nav", "search") or tag.get("role") in _MENU_ROLES:
        return links.linked * 2 >= links.text or "search" in (tag.name, tag.get("role"))
    if links.text * 2 > seen or tag.find_parent(_is_text) is not None:
        return False
    is_footer = tag.name == "footer" or tag.get("role") == "contentinfo"
    if is_footer or any(map(_FOOTER.fullmatch, names)):
        return tag.find_parent(["li", "td", "blockquote", "section"]) is None
    if any(map(_CONSENT.search, names)) and _ASKS.search(tag.get_text(" ")):
        return True
    may_be_menu = tag.name in ("aside", "header") or any(map(_MENU.search, names))
    return may_be_menu and _is_menu(tag, links, _SHORT)


def _is_text(tag: Tag) -> bool:
    return tag.name in _TEXTS or tag.get("role") == "main"


def _is_menu(tag: Tag, links: _Links, longest: int) -> bool:
    """Return whether a part is a list of short links and next to nothing else."""
    loose = links.text - links.linked
    return (
        links.number > 1
        and links.linked <= longest * links.number
        and (loose <= _LOOSE or loose * 3 <= links.linked * 2)
        and tag.find("h1") is None
    )


def _links(tag: Tag) -> _Links:
    found = [_size(link) for link in tag.find_all(["a", "button"])]
    return _Links(_size(tag), sum(found), sum(size > 0 for size in found))


def _first_menus(soup: BeautifulSoup, frame: list[Tag]) -> list[Tag]:
    """Return the lists of nothing but short links above the first heading or line of text."""
    taken, found = {id(tag) for tag in frame}, list[Tag]()
    for tag in soup.find_all(True):
        if tag.name in _TEXTS or tag.name in _HEADINGS or _says_something(tag):
            return found
        if tag.name not in _LISTS or any(id(parent) in taken for parent in (tag, *tag.parents)):
            continue
        links = _links(tag)
        is_menu = links.number > 2 and _is_menu(tag, links, _SHORTEST)
        is_menu = is_menu and links.text - links.linked <= links.number * 3
        if is_menu and not all(map(_leads_within, tag.find_all("a"))):  # those of contents do
            taken.add(id(tag))
            found.append(tag)
    return []  # there is no text for which these could be a frame


def _leads_within(link: Tag) -> bool:
    return str(link.get("href") or "#").startswith("#")


def _says_something(tag: Tag) -> bool:
    own = tag.find_all(string=True, recursive=False)
    return tag.name != "a" and any(len(text.strip()) >= _LEAD for text in own)


def _text_of(soup: BeautifulSoup) -> Tag | None:
    """Return the page's one main part, or else its one article."""
    parts = soup.find_all(_is_text)
    found = _outermost(part for part in parts if part.name != "article") or _outermost(parts)
    return found[0] if len(found) == 1 else None


def _keep_only(soup: BeautifulSoup, text: Tag) -> None:
    """Leave of a page its text, and its heading if the text has none."""
    title = None if text.find("h1") else soup.find("h1")
    body: Any = soup.body or soup
    text.extract()
    if title is not None:
        title.extract()
    body.clear()
    body.extend([text] if title is None else [title, text])
