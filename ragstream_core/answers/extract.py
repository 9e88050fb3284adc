"""An answer if no language model can be reached: what the documents say, cited, word for word.

It is made from the prompt alone, so the same prompt gives the same extract. `ExtractiveFallback`
puts it in the place of a model's answer in the one path that answers go: shown, checked and kept.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.answers.answer import REFUSAL, REFUSALS
from ragstream_core.errors import ChatFailed, ChatRefused, ChatUnreachable
from ragstream_core.models.chat.wrapped import WrappedChat
from ragstream_core.prompts.blocks import file_texts, selected_texts
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.doubt import doubt_of
from ragstream_core.records.chat import ChatDelta, ChatReply, ChatUsage
from ragstream_core.text.terms import terms

if TYPE_CHECKING:
    from ragstream_core.answers.citations import Issued
    from ragstream_core.ports import ChatModel
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.chat import ChatMessage
    from ragstream_core.records.s_ctx import Fact, OpenIssue

# What stands for the model's name if no model answered.
EXTRACT = "extract"
HINT = "`ragstream models list` says which models are there"

# The port at which Ollama listens if nobody says otherwise.
OLLAMA = "11434"
# The kind of the open issues that name a turn.
CONVERSATION = "conversation"
# What every extract says before its first line.
CLOSEST = "so here are the closest sentences from your"
# How lines are known that no model and no person said; the second one is of earlier versions.
_EXTRACT_MARKS = (CLOSEST, "No language model answered")
# So many of the best facts; the prompt has the others.
MOST_LINES = 6
_FILE_LINES = 3
_PASSAGES = 2
_PASSAGE_CHARS = 300
_ASKED = str.maketrans("“”", "‘’")  # what was asked is no quotation of a passage
_PARAGRAPHS = re.compile(r"\n\s*\n")


def extract_of(
    prompt: SuperPrompt, issued: Mapping[str, Issued], why: str, memory: Sequence[str] = ()
) -> str:
    """Return the cited extract of a prompt, "" if it holds nothing to say.

    First whether the documents answer. Then the paragraphs of injected files that have the
    question's words and the best facts, at most `MOST_LINES`; if nothing was condensed, the first
    passages. Of memory the lines that have the question's words, without markers. If none of the
    files, or of memory, has them, the refusal.
    """
    question = " ".join(prompt.body.get(key, "") for key in ("task", "text"))
    files = [issued[source.id] for source, _ in file_texts(prompt) if source.id in issued]
    told = any(text.strip() for text in memory)
    lines = _of_memory(question, memory) if told else _of_documents(prompt, issued, question, files)
    answering = [line for issue in said_in(prompt) if (line := _fact(issue, issued))]
    alone = answering and prompt.extras.nothing_relevant  # the nearest passages say nothing beside
    lines = answering if alone else [*answering, *lines][:MOST_LINES]
    reason, _, remedy = why.partition(". ")
    if not lines:
        return f"{reason}. {remedy}.\n\n{REFUSAL}" if files or told else ""
    whose = "memory" if told else "conversations" if answering else "documents"
    doubt = "" if told else doubt_of(prompt).translate(_ASKED)
    said = f"{reason}, {CLOSEST} {whose}. {remedy}."
    return "\n".join([*filter(None, [doubt, said]), "", *lines])


def why_none(error: ChatFailed, model: ChatModel, asked: str) -> str:
    """Return why no model answered and what to do, as two sentences without a last stop."""
    if not isinstance(error, ChatUnreachable):
        return f"There is no model at {model.host}. To get a written answer: {HINT}"
    if not model.is_local:
        return f"{error.message[:1].upper()}{error.message[1:]}. To get a written answer: {HINT}"
    starts = "`ollama serve`" if model.host.endswith(f":{OLLAMA}") else f"start it; {HINT}"
    named = "" if asked == EXTRACT else f" (asked for: {asked})"
    return f"No model is running at {model.host}{named}. To get a written answer: {starts}"


def _of_documents(
    prompt: SuperPrompt, issued: Mapping[str, Issued], question: str, files: Sequence[Issued]
) -> list[str]:
    s_ctx = prompt.extras.s_ctx
    told = (*s_ctx.facts, *s_ctx.constraints)
    facts = [line for fact in told if (line := _fact(fact, issued))]
    lines = [*_of_files(question, files), *facts][:MOST_LINES]
    return lines or [_passage(issued[i]) for i in _first_passages(prompt, issued)]


def _of_memory(question: str, memory: Sequence[str]) -> list[str]:
    """Return the best lines of memory; what was only asked, or not answered, says nothing."""
    lines = [line.strip().removeprefix("- ") for text in memory for line in text.split("\n")]
    said = [
        line
        for line in lines
        if not line.startswith("#")
        and not line.endswith(("?", *REFUSALS))
        and not any(mark in line for mark in _EXTRACT_MARKS)
    ]
    best = dict.fromkeys(f"- {_cut(said[n])}" for n in _best(question, said))
    return list(best)[:MOST_LINES]


def said_in(prompt: SuperPrompt) -> list[OpenIssue]:
    """Return what names the turns that answer in place of the documents."""
    return [issue for issue in prompt.extras.s_ctx.open_issues if issue.kind == CONVERSATION]


def _fact(fact: Fact | OpenIssue, issued: Mapping[str, Issued]) -> str:
    """Return one fact as a line with its markers; "" if the prompt issued none of them."""
    cited = [passage for passage in fact.citations if passage.short_id in issued]
    marks = [answer_marker(passage.source, passage.short_id) for passage in cited]
    return f"- {' '.join(fact.text.split())} {' '.join(marks)}" if marks else ""


def _of_files(question: str, files: Sequence[Issued]) -> list[str]:
    """Return the best paragraphs of injected files."""
    found = [
        replace(file, text=text)
        for file in files
        for text in _PARAGRAPHS.split(file.text)
        if not text.lstrip().startswith("#")
    ]
    best = _best(question, [one.text for one in found])
    return [_passage(found[n]) for n in best[:_FILE_LINES]]


def _best(question: str, texts: Sequence[str]) -> list[int]:
    """Return which texts have words of a question, best first; a rare word counts for more."""
    asked = set(terms(question))
    held = [asked & set(terms(text)) for text in texts]
    common = Counter(term for found in held for term in found)
    ranked = sorted((-sum(1 / common[t] for t in found), n) for n, found in enumerate(held))
    return [n for score, n in ranked if score]


def _first_passages(prompt: SuperPrompt, issued: Mapping[str, Issued]) -> list[str]:
    found = [source.id for source, _ in selected_texts(prompt, history=False)]
    return [i for i in found if i in issued][:_PASSAGES]


def _passage(shown: Issued) -> str:
    text = " ".join(shown.text.split())
    return f"- {_cut(text)} {answer_marker(shown.source, shown.id)}"


def _cut(text: str) -> str:
    """Return a text of at most `_PASSAGE_CHARS`; what was cut once is not cut again."""
    if len(text) <= _PASSAGE_CHARS:
        return text
    return f"{text[: _PASSAGE_CHARS - 2].rsplit(' ', 1)[0]} …"


class ExtractiveFallback(WrappedChat):
    """A language model, or the extract if it cannot be reached at all.

    Any other failure is that of the model: what was asked wrongly, or too often, is no reason to
    pretend that no model was there.

    Attributes:
        seconds: How long the stream took, from its call to its end.
    """

    def __init__(
        self,
        model: ChatModel,
        extract: Callable[[str], str],
        begun: Callable[[bool], object] = lambda _: None,
    ) -> None:
        super().__init__(model)
        self._extract = extract
        self._begun = begun
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """The model's name; `EXTRACT` if no model can be asked for it."""
        try:
            return self._model.name
        except ChatFailed as error:
            if not self._unreachable(error):
                raise
            return EXTRACT

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """As the model's; 0 if there is none."""
        return 0.0 if self.name == EXTRACT else super().price(input_tokens, output_tokens)

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the model's answer, or the extract."""
        began, begun = time.perf_counter(), False
        try:
            for delta in self._model.stream(messages):
                if not begun:
                    self._begun(False)
                begun = True
                yield delta
        except ChatFailed as error:
            told = not begun and self._unreachable(error)
            why = why_none(error, self._model, self.name) if told else ""
            text = self._extract(why) if told else ""
            if not text:
                raise
            self._begun(True)
            yield ChatDelta(text)
            yield ChatDelta("", ChatReply(text, "complete", EXTRACT, ChatUsage(0, 0, cost_usd=0.0)))
        finally:
            self.seconds = time.perf_counter() - began

    def _unreachable(self, error: ChatFailed) -> bool:
        """Whether nothing answers at the address, or no model is there."""
        if isinstance(error, ChatUnreachable):
            return True
        try:
            return isinstance(error, ChatRefused) and not self._model.list_models()
        except ChatFailed:
            return False
