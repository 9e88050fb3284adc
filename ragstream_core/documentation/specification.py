"""A whole specification: its cases, and which requirement has which of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ragstream_core.documentation.cases import TestCase

COVERED = "covered"
NOT_TESTABLE = "not testable as written"
MENTIONED = "mentioned only"
NOT_FOUND = "not found by retrieval"
GONE = "no longer found in the sources"
LEFT_OUT = "not asked for"
DUE = "to be written"


@dataclass(frozen=True, slots=True)
class Coverage:
    """One row of the table requirement → test cases.

    Attributes:
        requirement: Its id.
        defined: ``path:line`` of the definition that was read; empty where there is none.
        cases: Ids of its test cases.
        state: ``covered``, or why there is no case.
        words: What the source says instead, shortened; empty where it is covered.
    """

    requirement: str
    defined: str
    cases: tuple[str, ...]
    state: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Specification:
    """What `ragstream spec` makes.

    Attributes:
        project: The project.
        generation: Its generation that was read.
        digest: Of that generation.
        pattern: What fits a requirement id.
        cases: Written now, in order of their ids.
        coverage: A row a requirement, in natural order.
        kept: Ids of cases that the file had before and that stay as they are.
    """

    project: str
    generation: int
    digest: str
    pattern: str
    cases: tuple[TestCase, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many requirements there are in each state."""
        states = [row.state for row in self.coverage]
        return {state: states.count(state) for state in dict.fromkeys(states)}

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {**asdict(self), "counts": self.counts}


def covered(rows: Iterable[Coverage], cases: Mapping[str, Iterable[str]]) -> tuple[Coverage, ...]:
    """Return coverage rows that name the cases of each requirement.

    Args:
        rows: A row a requirement of the sources.
        cases: Id of a case → its requirements; those that the sources do not have get a row.
    """
    of: dict[str, list[str]] = {}
    for case, requirements in cases.items():
        for requirement in requirements:
            of.setdefault(requirement, []).append(case)
    told = [
        replace(row, cases=tuple(of[row.requirement]), state=COVERED, words="")
        if row.requirement in of
        else row
        for row in rows
    ]
    known = {row.requirement for row in told}
    gone = [Coverage(r, "", tuple(c), GONE) for r, c in of.items() if r not in known]
    return (*told, *gone)
