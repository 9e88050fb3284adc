"""What was asked and answered in a chat: for scripts, for people, and as a file to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.output.words import printable

if TYPE_CHECKING:
    from ragstream_core.answers.citations import Citation
    from ragstream_core.records.identity import Json
    from ragstream_core.services.chat import ChatTurn

ORIGINS = {
    "cached": "cached from turn {source_turn}",
    "extract": "extract, no language model answered",
    "refused": "refusal, no language model was asked",
}


@dataclass(frozen=True, slots=True)
class ChatEntry:
    """One question with its answer.

    Attributes:
        question: As it was typed.
        turn: What came of it.
    """

    question: str
    turn: ChatTurn

    def to_json(self, *, markers: bool = False) -> dict[str, Json]:
        """Return the documented JSON form.

        Args:
            markers: Leave the citation markers in the answer.
        """
        turn = self.turn
        return {
            "question": self.question,
            **turn.answer.to_json(),
            "answer": self.text(markers=markers),
            "warnings": list(self.warnings),
            "origin": turn.origin,
            "source_turn": turn.answer.source_turn,
            "trace": list(turn.trace),
            "timings_ms": {name: round(ms, 3) for name, ms in turn.timings_ms.items()},
            "run_id": turn.run_id,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the prompt, then those of the answer."""
        return (*self.turn.warnings, *self.turn.answer.warnings)

    def text(self, *, markers: bool = False) -> str:
        """Return the answer, clean or with its citation markers (C-26)."""
        return self.turn.answer.raw if markers else self.turn.answer.text


def origin_line(turn: ChatTurn) -> str:
    """Return where an answer comes from, "" where a model gave it."""
    said = ORIGINS.get(turn.origin, "").format(source_turn=turn.answer.source_turn)
    return f"Origin: {said}" if said else ""


def cited_line(citation: Citation) -> str:
    """Return one citation as a line for people."""
    where = printable(f"{citation.where(', page ')} [{citation.id}]")
    return where if citation.verified else f"unverified: {where}: {printable(citation.reason)}"


def transcript(said: Sequence[ChatEntry]) -> str:
    """Return a chat as Markdown: questions, clean answers, what each cites and where it comes from.

    Args:
        said: In order; at least one.
    """
    parts = ["# Chat"]
    for one in said:
        answer = one.turn.answer
        quoted = "\n".join(f"> {line}" for line in printable(one.question).splitlines())
        parts += [f"## Question\n\n{quoted}", f"## Answer\n\n{printable(answer.text).strip()}"]
        key = f"Prompt: {answer.prompt_key[:12]}" if answer.prompt_key else ""
        notes = [origin_line(one.turn), key, *(f"Warning: {printable(w)}" for w in one.warnings)]
        listed = [line for line in notes if line] + [cited_line(c) for c in answer.citations]
        parts += ["\n".join(f"- {line}" for line in listed)] if listed else []
    return "\n\n".join(parts) + "\n"
