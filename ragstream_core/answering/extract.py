"""An answer where no language model can be reached: what the documents say, cited, word for word.

It is made from the prompt alone, so the same prompt gives the same extract. It takes the place of a
model's answer in the one path that answers go: shown, checked and kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragstream_core.answering.grounding import REFUSAL
from ragstream_core.prompting.citations import answer_marker
from ragstream_core.prompting.compose import file_texts, selected_texts
from ragstream_core.terms import terms

if TYPE_CHECKING:
    from ragstream_core.answering.issued import Issued
    from ragstream_core.records import SuperPrompt

EXTRACT = "extract"
"""What stands for the model's name where nobody answered."""
HINT = "ragstream models list"
MOST_LINES = 6
"""So many of the best facts; the prompt has the others."""
_FILE_LINES = 3
_PASSAGE_CHARS = 300
_PARAGRAPHS = re.compile(r"\n\s*\n")


def extract_of(prompt: SuperPrompt, issued: Mapping[str, Issued], why: str) -> str:
    """Return the cited extract of a prompt, "" where it holds nothing to cite.

    The paragraphs of injected files that have the question's words, then the best facts, at most
    `MOST_LINES`; where nothing was condensed, the first passage; where files alone are shown and
    none of them has these words, the refusal.

    Args:
        prompt: After the prompt builder.
        issued: Citation id → what the prompt shows under it; nothing else is cited.
        why: Why no model answered, one sentence.
    """
    s_ctx = prompt.extras.get("s_ctx", {})
    files = [issued[source.id] for source, _ in file_texts(prompt) if source.id in issued]
    facts = [
        line
        for part in ("facts", "constraints")
        for item in s_ctx.get(part, [])
        if (line := _fact(item, issued))
    ]
    question = " ".join(prompt.body.get(key, "") for key in ("task", "text"))
    lines = [*_of_files(question, files), *facts][:MOST_LINES]
    lines = lines or [_passage(issued[i]) for i in _first_passage(prompt, issued)]
    said = why.rstrip(".")
    if not lines:
        return f"No language model answered ({said}).\n\n{REFUSAL}" if files else ""
    return (
        f"No language model answered ({said}). This is what the documents say, word for word; "
        f"`{HINT}` says which models are there.\n\n" + "\n".join(lines)
    )


def _fact(item: Mapping[str, Any], issued: Mapping[str, Issued]) -> str:
    """Return one fact as a line with its markers; "" where the prompt issued none of them."""
    cited = [c for c in item.get("citations", []) if c["short_id"] in issued]
    marks = [answer_marker(c["source"], c["short_id"]) for c in cited]
    return f"- {' '.join(str(item['text']).split())} {' '.join(marks)}" if marks else ""


def _of_files(question: str, files: Sequence[Issued]) -> list[str]:
    """Return the best paragraphs of injected files; a word counts by how few of them have it."""
    asked = set(terms(question))
    found = [
        (replace(file, text=text), asked & set(terms(text)))
        for file in files
        for text in _PARAGRAPHS.split(file.text)
        if not text.lstrip().startswith("#")
    ]
    common = Counter(term for _, held in found for term in held)
    ranked = sorted((-sum(1 / common[t] for t in held), n) for n, (_, held) in enumerate(found))
    return [_passage(found[n][0]) for score, n in ranked[:_FILE_LINES] if score]


def _first_passage(prompt: SuperPrompt, issued: Mapping[str, Issued]) -> list[str]:
    found = [source.id for source, _ in selected_texts(prompt, history=False)]
    return [i for i in found if i in issued][:1]


def _passage(shown: Issued) -> str:
    text = " ".join(shown.text.split())
    cut = text if len(text) <= _PASSAGE_CHARS else f"{text[:_PASSAGE_CHARS].rsplit(' ', 1)[0]} …"
    return f"- {cut} {answer_marker(shown.source, shown.id)}"
