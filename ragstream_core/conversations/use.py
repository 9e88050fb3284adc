"""Where turns may be used: nowhere but in their own conversation, in some projects, everywhere.

What is imported or chatted belongs to the projects that it is labelled with or adopted into, and
to no other. Turns that were kept before turns told this are used everywhere, as they were then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ragstream_core.conversations.journal.records import OWN_PROJECTS, Turn, project_tag
from ragstream_core.errors import AddOption, UsageError

NOWHERE, EVERYWHERE = "nowhere", "everywhere"

# Stands among the project labels of a searched turn that only prompts of these may find.
OWN_LABEL = "~own"


@dataclass(frozen=True, slots=True)
class Use:
    """What a person says of turns that come in."""

    projects: tuple[str, ...] = ()  # only in these; none: in no project
    everywhere: bool = False  # in all of them
    # whether anything was said; else a coding agent's folder may name the project
    is_said: bool = False

    @classmethod
    def of(cls, words: Sequence[str]) -> Use:
        """Read what a person says."""
        said = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
        if len(said) > 1 and not {NOWHERE, EVERYWHERE}.isdisjoint(said):
            raise UsageError(
                f"used in {', '.join(said)}: these exclude each other",
                hint=AddOption(f"--use-in {NOWHERE}, --use-in {EVERYWHERE}, or projects alone"),
            )
        if said in ((NOWHERE,), (EVERYWHERE,)):
            return cls((), said == (EVERYWHERE,), is_said=True)
        return cls(said, is_said=bool(said))

    def put(self, turn: Turn, folder: str = "") -> Turn:
        """Return a turn with what is said of it."""
        named = self.projects or ((folder,) if folder and not self.is_said else ())
        used_in = "" if self.everywhere else OWN_PROJECTS
        return replace(turn, projects=named or turn.projects, used_in=used_in)


UNSAID = Use()


def used_in(turn: Turn) -> tuple[str, ...]:
    """Return where a turn may be used, without what it was adopted into: names, or a word."""
    if turn.used_in != OWN_PROJECTS:
        return (EVERYWHERE,)
    return turn.projects or (NOWHERE,)


def labels_of(turn: Turn) -> tuple[str, ...]:
    """Return the project labels of a turn as they are searched: `OWN_LABEL` among them."""
    own = (OWN_LABEL,) if turn.used_in == OWN_PROJECTS else ()
    return (*turn.projects, *own)


def is_usable(turn: Turn, tags: Collection[str], projects: Collection[str]) -> bool:
    """Return whether a prompt of some projects may use a turn of another conversation."""
    if turn.used_in != OWN_PROJECTS or not projects:
        return True
    adopted = {project_tag(name) for name in projects}
    return not (adopted.isdisjoint(tags) and set(projects).isdisjoint(turn.projects))
