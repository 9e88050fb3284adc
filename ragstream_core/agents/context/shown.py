"""The form in which words of a passage are shown and compared, and what may stand as a fact."""

from __future__ import annotations

import re

from ragstream_core.agents.pieces import word_count
from ragstream_core.text.headings import SEPARATOR
from ragstream_core.text.marked_blocks import QUOTED
from ragstream_core.text.memo import remembered
from ragstream_core.text.sentences import LINK

# A shorter sentence says something only if it names or counts: “The limit is 5.”
MIN_WORDS, MIN_TELLING_WORDS = 5, 3
# At 60, answers in long sentences were missing from the facts: of SQuAD's 0.913, now 0.947.
MAX_WORDS = 100
MAX_HEADING = 60
_DEEPEST = 6
_CODE = re.compile(r"[{}<>;=]|\w\(|\)\.|->|::|\\\w|^\s*(?:from|import|def|class|return|\$|>>>) ")
_DRAWN = re.compile("[\u2500-\u257f]")
_KEYS = re.compile(r"(?:^|\s)[\w.-]{1,60}: ")
_MAX_KEYS = 3

# Also as manuals in plain text write it: the "__init__()" method; but no statement, "a = 1;".
_INLINE_CODE = re.compile(
    r"`[^`\n]{1,200}`|(?<![\w\"])\"[^\";\n]{1,60}\"(?![\w\"])|“[^“”;\n]{1,60}”"
)
_TAG = re.compile(
    r"</?(?:code|b|i|em|strong|kbd|p|span|br ?/?)>|</?t(?:r|d|h)(?:\s[^<>]{0,200})?>", re.IGNORECASE
)
_NEXT_CELL = re.compile(r"</t[dh]>\s*<t[dh](?:\s[^<>]{0,200})?>", re.IGNORECASE)
_HTML_NAMES, _HTML_CELLS = (re.compile(rf"<{tag}[\s>]", re.IGNORECASE) for tag in ("th", "td"))
_BOILERPLATE = re.compile(
    r"^(?:see (?:also|the|our|this|an?|\[)|read more|click here|next steps?|learn more|check out"
    r"|for more|for (?:further |more )?details|refer to|table of contents|on this page|was this"
    r"|copyright|all rights|edit this|last updated|in this (?:section|guide|page|tutorial|chapter)"
    r"|here(?:'s| is| are) (?:an?|the|some) (?:\w{1,30} ){0,2}examples?)",
    re.IGNORECASE,
)
_BAR = re.compile(r"(?<!\\)\|")

# Between the cells of a row that is shown with the names of its columns.
SEPARATED = " · "
_RECORD = re.compile(r"[^:·|\n]{1,80}: [^·\n]*· [^:·|\n]{1,80}: ")
_TELLING = re.compile(
    r"(?!(?:see|siehe|vgl|voir|véase|cf)\b)[\s\S]*(?:\d|\S\s[*_`\"“(]*(?-i:[A-Z])|`|\w_\w)",
    re.IGNORECASE,
)


@remembered
def readable(text: str) -> str:
    """Collapse white space, show links by their text, drop tags and marks of quotations.

    It is the form that is compared.
    """
    linked = LINK.sub(lambda m: m.group(1) or m.group(), QUOTED.sub("", text))
    return " ".join(_TAG.sub("", _NEXT_CELL.sub(" | ", linked)).split())


def looks_like_code(text: str) -> bool:
    """Return whether a text is code rather than prose, quoted `identifiers` not counted."""
    bare = LINK.sub(r"\1", _INLINE_CODE.sub("", text))
    if _DRAWN.search(bare) or len(_KEYS.findall(bare)) > _MAX_KEYS:
        return True  # a frame of a terminal, or a mapping that lost its fence to a chunk's border
    return len(_CODE.findall(bare)) >= max(2, len(bare.split()) // 6)


def is_quotable(text: str) -> bool:
    """Return whether a sentence can stand alone as a fact."""
    words = LINK.sub(r"\1", text).split()
    visible = [word for word in words if any(c.isalnum() for c in word)]
    least = MIN_TELLING_WORDS if _TELLING.match(text) else MIN_WORDS
    if not least <= word_count(" ".join(visible)) <= MAX_WORDS:
        return False
    links = [len(m.group(1) or "") + 1 for m in LINK.finditer(text)]
    share = sum(links) / max(1, len(" ".join(words)))
    if share > 0.6 or (len(links) > 2 and share > 0.35):
        return False
    return not (text.endswith(("?", "？")) or _BOILERPLATE.match(text) or looks_like_code(text))


def is_row(text: str) -> bool:
    """Return whether a row of a table can stand as a fact: two cells with words, not long."""
    if has_names(text):
        return False
    text = _NEXT_CELL.sub(" | ", text)
    cells = [c for c in re.split(r"[|\t·]", text) if any(x.isalnum() for x in LINK.sub(r"\1", c))]
    return len(cells) > 1 and word_count(text) <= MAX_WORDS and not _DRAWN.search(text)


def is_record(text: str) -> bool:
    """Return whether a line is a row whose values have their names: ``part: VK-1 · torque: 45``."""
    return _RECORD.match(text) is not None and "\n" not in text


def has_names(row: str) -> bool:
    """Return whether a row of an HTML table holds nothing but the names of its columns."""
    return _HTML_NAMES.search(row) is not None and _HTML_CELLS.search(row) is None


def head_of(above: str) -> str:
    """Return the head of a table at the end of a context; empty: it ends in something else."""
    last = above.rstrip().rsplit("\n", 1)[-1]
    return last if "|" in last or "\t" in last else ""


def cells_of(row: str) -> list[str]:
    """Return the cells of a row, in readable form; those of a row of bars end in bars."""
    bare = row.strip()
    if "\t" in bare and "|" not in bare:
        return [readable(cell) for cell in bare.split("\t")]
    if bare[:1] == "<":
        return [readable(cell) for cell in _NEXT_CELL.split(bare)]
    bare = bare.removeprefix("|").removesuffix("|")
    return [readable(cell) for cell in _BAR.split(bare)]


def labelled(head: str, row: str) -> str:
    """Return a row with the name of its column before each cell; empty: they do not fit together.

    Args:
        head: The row of names; a column may have none.
        row: As many cells; empty ones are left out.
    """
    names, cells = cells_of(head), cells_of(row)
    if len(names) != len(cells) or not any(names):
        return ""
    pairs = zip(names, cells, strict=True)
    return SEPARATED.join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


def heading_of(path: str) -> str:
    """Return a path of headings as it is shown: the nearest that fit in 60 characters, unmarked."""
    bare = (" ".join(title.replace("\\", "").split()) for title in path.split(SEPARATOR))
    titles = [title for title in (part.strip("*_`: ") for part in bare) if title]
    shown = titles[-1][:MAX_HEADING] if titles else ""
    for title in titles[-2::-1]:
        if len(title) + len(SEPARATOR) + len(shown) > MAX_HEADING:
            break
        shown = f"{title}{SEPARATOR}{shown}"
    return shown


class Headings:
    """The headings above a place in a passage: those that are sure to stand above it.

    Of the headings above a passage the levels are not known; that each is above the next bounds
    them.
    """

    def __init__(self, path: str, first: str, *, is_called: bool = False) -> None:
        """Begin a passage.

        Args:
            path: Of the passage.
            first: Its first heading; empty: it does not begin with one.
            is_called: The path is what front matter calls the whole text.
        """
        titles = path.split(SEPARATOR) if path else []
        level, title = _level_and_title(first)
        lowest = level if titles and title == titles[-1] else 0
        deepest = (lowest or (0 if is_called else _DEEPEST)) - len(titles)
        self._above = [(deepest + n, title) for n, title in enumerate(titles, start=1)]

    def below(self, heading: str) -> str:
        """Return the path below one more heading of the passage."""
        level, title = _level_and_title(heading)
        self._above = [row for row in self._above if row[0] < level]
        self._above.append((level or _DEEPEST, title))
        return SEPARATOR.join(title for _, title in self._above)


def _level_and_title(heading: str) -> tuple[int, str]:
    """Return the level of a heading, 0 if it is not known, and its title."""
    title, *underline = heading.split("\n")
    level = len(title) - len(title.lstrip("#"))
    if underline:
        level = {"=": 1, "-": 2}.get(underline[-1].strip()[:1], 0)
    return level, title.strip("# \t")
