"""An answer where no language model can be reached: what the documents say, cited, word for word.

It is made from the facts of S_ctx and from nothing else, so the same prompt gives the same extract.
It takes the place of a model's answer in the one path that answers go: shown, checked and kept.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragstream_core.answering.grounding import REFUSAL
from ragstream_core.errors import ChatFailed, ChatRefused, ChatUnreachable
from ragstream_core.prompting.citations import answer_marker
from ragstream_core.prompting.compose import file_texts, selected_texts
from ragstream_core.records.chat import ChatDelta, ChatReply, ChatUsage
from ragstream_core.terms import terms

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.answering.issued import Issued
    from ragstream_core.ports import ChatModel
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.chat import ChatMessage

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


class OrExtract:
    """A language model, or the extract where it cannot be reached at all.

    Any other failure is that of the model: what was asked wrongly, or too often, is no reason to
    pretend that nobody was there.

    Args:
        model: Who is asked.
        extract: Makes the extract, told why; "" where there is none, then the failure stays.
        begun: Called once before the first words, told whether they are the extract.

    Attributes:
        seconds: How long the stream took, from its call to its end.
    """

    def __init__(
        self,
        model: ChatModel,
        extract: Callable[[str], str],
        begun: Callable[[bool], object] = lambda _: None,
    ) -> None:
        self._model = model
        self._extract = extract
        self._begun = begun
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """The model's name; `EXTRACT` where nobody can be asked for it."""
        try:
            return self._model.name
        except ChatFailed as error:
            if not self._nobody(error):
                raise
            return EXTRACT

    @property
    def host(self) -> str:
        """As the model's."""
        return self._model.host

    @property
    def is_local(self) -> bool:
        """As the model's."""
        return self._model.is_local

    def list_models(self) -> list[str]:
        """As the model's.

        Raises:
            ChatFailed: It cannot be asked.
        """
        return self._model.list_models()

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """As the model's; 0 where there is none."""
        return 0.0 if self.name == EXTRACT else self._model.price(input_tokens, output_tokens)

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """As the model's; a value of a schema is never extracted.

        Raises:
            ChatFailed: It gives none.
        """
        return self._model.complete(messages, schema=schema)

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the model's answer, or the extract.

        Raises:
            ChatFailed: There is neither.
        """
        began, begun = time.perf_counter(), False
        try:
            for delta in self._model.stream(messages):
                if not begun:
                    self._begun(False)
                begun = True
                yield delta
        except ChatFailed as error:
            text = "" if begun or not self._nobody(error) else self._extract(error.message)
            if not text:
                raise
            self._begun(True)
            yield ChatDelta(text)
            yield ChatDelta("", ChatReply(text, "complete", EXTRACT, ChatUsage(0, 0, cost_usd=0.0)))
        finally:
            self.seconds = time.perf_counter() - began

    def _nobody(self, error: ChatFailed) -> bool:
        """Whether there is no model: nobody answers at the address, or no model is there."""
        if isinstance(error, ChatUnreachable):
            return True
        try:
            return isinstance(error, ChatRefused) and not self._model.list_models()
        except ChatFailed:
            return False
