"""What a Word file shows besides its running text, written into its paragraphs as text.

Comments, text boxes and shapes, tracked changes, fields, and elements that mammoth passes over with
all they hold. What cannot be text is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markitdown.converter_utils.docx.math.omml import oMath2Latex

from ragstream_core.ingestion.parsers.word_numbers import MARK, W, is_in, run_of

_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/"
_DIAGRAM = f"{_DRAWING}diagram}}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_BOX = f"{W}txbxContent"
_MOVED = {f"{W}moveFrom": f"{W}del", f"{W}moveTo": f"{W}ins"}
_WRAPPERS = [W + name for name in ("fldSimple", "customXml", "dir", "bdo", "ruby", "rubyBase")]
_WRAPPERS.append(f"{_MATH}oMathPara")
_ABOUT = [W + name for name in ("commentRangeStart", "commentRangeEnd", "t", "p", "tab", "br")]
_LONGEST_QUOTE = 80  # characters of what a comment is about
_UNREAD = {
    "picture": (f"{_DRAWING}main}}blip", "{urn:schemas-microsoft-com:vml}imagedata"),
    "chart": ("{*}chart",),
    "embedded object": ("{urn:schemas-microsoft-com:office:office}OLEObject", f"{W}altChunk"),
}


def settle_changes(root: Any) -> int:
    """Take tracked changes as accepted: what was inserted stays, what was deleted goes."""
    changes = 0
    for change in list(root.iter(f"{W}ins", f"{W}del", *_MOVED)):
        is_mark = change.getparent().tag in (f"{W}rPr", f"{W}trPr", f"{W}tcPr")
        changes += not is_mark and change.tag != f"{W}moveFrom"
        change.tag = _MOVED.get(change.tag, change.tag)
        if change.tag == f"{W}del" and not is_mark:
            change.getparent().remove(change)
    return changes


def unwrap_text(root: Any) -> int:
    """Take text out of what mammoth passes over, and out what no reader sees."""
    count = 0
    for formula in list(root.iter(f"{_MATH}oMath")):
        formula.getparent().replace(formula, run_of(formula, _tex(formula)))
    for guide in list(root.iter(f"{W}rt")):  # says how the word below it is pronounced
        guide.getparent().remove(guide)
    for wrapper in list(root.iter(*_WRAPPERS)):
        above = wrapper.getparent()
        at = above.index(wrapper)
        above[at : at + 1] = list(wrapper)
    for line_end in root.iter(f"{W}cr"):
        line_end.tag = f"{W}br"
    for hidden in list(root.iter(f"{W}vanish")):
        run = hidden.getparent().getparent()
        if run.tag == f"{W}r" and hidden.get(f"{W}val") not in ("0", "false"):
            run.getparent().remove(run)
            count += 1
    for chosen in list(root.iter(f"{W}ddList")):
        _write_choice(chosen)
    return count


def _tex(formula: Any) -> str:
    """Return an equation as TeX, or its parts with blanks between where that loses one."""
    said = " ".join(text.text or "" for text in formula.iter(f"{_MATH}t"))
    for name in ("f", "d"):  # these must say how they look
        for part in formula.iter(_MATH + name):
            if part.find(f"{_MATH}{name}Pr") is None:
                part.insert(0, part.makeelement(f"{_MATH}{name}Pr", {}))
    try:
        tex = " ".join(oMath2Latex(formula).latex.split())
    except Exception:  # it knows few functions and signs, and raises anything for others
        return said
    return f"${tex}$" if set(filter(str.isalnum, said)) <= set(tex) else said


def _write_choice(chosen: Any) -> None:
    """Write what is chosen in an old field of a form; it is nowhere else."""
    entries = [entry.get(f"{W}val", "") for entry in chosen.findall(f"{W}listEntry")]
    named = [*chosen.findall(f"{W}result"), *chosen.findall(f"{W}default")]
    named = [element.get(f"{W}val", "") for element in named]
    number = int(named[0]) if named and named[0].isdigit() else 0
    run = next(chosen.iterancestors(f"{W}r"), None)
    if run is not None and number < len(entries):
        run.addprevious(run_of(run, entries[number]))


def hoist_boxes(document: Any, diagrams: Mapping[str, Any]) -> None:
    """Move what stands in text boxes and shapes behind the paragraph that holds them."""
    for old in document.iter(f"{_MC}Fallback"):  # the same for older programs
        if _shows_boxes(old.getparent()):
            del old[:]
    ends = dict[Any, Any]()
    for box in list(document.iter(_BOX, f"{_DIAGRAM}relIds")):
        host = next((p for p in box.iterancestors(f"{W}p") if not is_in(p, _BOX)), None)
        if host is None or is_in(box, _BOX):
            continue
        new = list(box)
        if box.tag != _BOX:
            root = diagrams.get(box.get(f"{_R}dm", ""))
            lines = [] if root is None else [_words(p) for p in root.iter(f"{_DRAWING}main}}p")]
            new = [new_paragraph(document, line) for line in lines if line]
        ends[host] = _put_behind(ends.get(host, host), new)


def _shows_boxes(alternatives: Any) -> bool:
    choices = alternatives.findall(f"{_MC}Choice")
    kinds = (_BOX, f"{_DIAGRAM}relIds")
    return any(True for choice in choices for _ in choice.iter(*kinds))


def _put_behind(place: Any, elements: list[Any]) -> Any:
    """Put elements one behind the other, and return the last."""
    for element in elements:
        place.addnext(element)
        place = element
    return place


def write_comments(document: Any, comments: Any) -> None:
    """Write each comment behind the paragraph that it is about, with its author.

    In a cell or an item of a list it stands at the end in brackets; those about nothing come last.
    """
    about, places = dict(_quotes(document)), dict[str, Any]()
    for mark in document.iter(f"{W}commentReference", f"{W}commentRangeEnd"):
        host = next(mark.iterancestors(f"{W}p"), None)
        if host is not None:
            places.setdefault(mark.get(f"{W}id", ""), host)
    ends = dict[Any, Any]()
    for comment in comments.iter(f"{W}comment"):
        number = comment.get(f"{W}id", "")
        said = " ".join(filter(None, map(_words, comment.iter(f"{W}p"))))
        if not said:
            continue
        quote = f" on “{about[number]}”" if about.get(number) else ""
        date = comment.get(f"{W}date", "")[:10]
        author = f" by {comment.get(f'{W}author')}" if comment.get(f"{W}author") else ""
        text = f"Comment{author}{f' ({date})' if date else ''}{quote}: {said}"
        host = places.get(number)
        if host is None:
            document.find(f"{W}body").append(new_paragraph(document, text))
        elif _is_in_line(host):
            host.append(run_of(host, f" [{text}]"))
        else:
            ends[host] = _put_behind(ends.get(host, host), [new_paragraph(document, text)])


def _quotes(document: Any) -> Iterator[tuple[str, str]]:
    """Yield the number of each comment, and the words that it is about."""
    marked, full = dict[str, str](), dict[str, str]()
    for element in document.iter(*_ABOUT):
        number = element.get(f"{W}id", "")
        if element.tag == f"{W}commentRangeStart":
            marked[number] = ""
        elif element.tag == f"{W}commentRangeEnd":
            quote = " ".join((full.pop(number, "") or marked.pop(number, "")).split())
            long = len(quote) > _LONGEST_QUOTE
            yield number, f"{quote[: _LONGEST_QUOTE - 1].rstrip()}…" if long else quote
        elif marked:
            said = element.text or "" if element.tag == f"{W}t" else " "
            for name in [] if said.startswith(MARK) else list(marked):
                marked[name] += said
                if len(marked[name]) > _LONGEST_QUOTE * 2:
                    full[name] = marked.pop(name)


def _is_in_line(paragraph: Any) -> bool:
    first = next(paragraph.iter(f"{W}t"), None)
    numbered = first is not None and (first.text or "").startswith(MARK)
    return numbered or is_in(paragraph, f"{W}tc")


def _words(paragraph: Any) -> str:
    """Return the text of a paragraph of a comment or a diagram."""
    parts = (
        str(e.text or "") if str(e.tag).endswith("}t") else " "
        for e in paragraph.iter("{*}t", f"{W}tab", f"{W}br")
    )
    return " ".join("".join(parts).split())


def unread_phrase(document: Any) -> str:
    """Return what of a document is no text: "2 pictures and 1 chart are not read"; or ""."""
    found, total = list[str](), 0
    for name, tags in _UNREAD.items():
        count = sum(not _is_repeated(element) for element in document.iter(*tags))
        total += count
        found += [f"{count} {name}{'s' * (count > 1)}"] if count else []
    *first, last = found or [""]
    named = f"{', '.join(first)} and {last}" if first else last
    return f"{named} {'is' if total == 1 else 'are'} not read" if total else ""


def _is_repeated(element: Any) -> bool:
    """Return whether it stands for what is counted elsewhere: for older programs, as a preview."""
    if str(element.tag).endswith("}imagedata") and is_in(element, f"{W}object"):
        return True
    fallback = next(element.iterancestors(f"{_MC}Fallback"), None)
    return fallback is not None and fallback.getparent().find(f"{_MC}Choice") is not None


def new_paragraph(near: Any, line: str) -> Any:
    """Return a paragraph of one line for the document of an element."""
    made = near.makeelement(f"{W}p", {})
    made.append(run_of(near, line))
    return made
