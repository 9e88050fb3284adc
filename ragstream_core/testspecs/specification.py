"""A test specification: its cases, each of a strict schema, and which requirement has which."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from ragstream_core.errors import IntegrityError, RunCommand

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from ragstream_core.records.identity import Json


NONE_STATED = "none stated"
_STRICT = ConfigDict(extra="forbid", strict=True)
Words = Annotated[str, Field(min_length=1, max_length=4_000)]
Texts = Annotated[tuple[Words, ...], Field(min_length=1, max_length=50)]
Line = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Source:
    """A quotation that a test case stands on, and the citation that leads back to it."""

    __pydantic_config__ = _STRICT

    marker: Words  # ``[source: FILE, chunk: SHORT ID]``, as `ragstream trace` takes it
    chunk_id: Words  # ``path::sha256::index``
    # the prompt that found it; empty if nothing may be kept
    prompt_key: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{64})?$")]
    path: Words
    # first and last line in the file, 1-based; (0, 0) if they are not known
    lines: tuple[Line, Line]
    page: Line
    quote: Words

    @property
    def place(self) -> str:
        """The file with its lines or page, for people."""
        if self.page:
            return f"{self.path}, page {self.page}"
        first, last = self.lines
        return f"{self.path}:{first}" + (f"-{last}" if last > first else "") if first else self.path


@dataclass(frozen=True, slots=True)
class TestCase:
    """One test case."""

    __test__ = False  # no test of pytest's
    __pydantic_config__ = _STRICT

    # as ``documentation.id_format`` has it; empty while it is a draft
    id: Annotated[str, Field(max_length=100)]
    title: Words
    precondition: Words  # what must hold before, or ``none stated``
    actions: Texts
    expected: Texts  # what must be seen after each of them; as many
    postcondition: Words  # what must hold afterwards, or ``none stated``
    requirements: Texts  # ids that exist in the sources
    # what it stands on, each verbatim
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=50)]
    quote: Words  # the main one of their quotations
    # who wrote it: rules, or a language model
    form: Literal["deterministic", "llm"] = "deterministic"
    model: str = ""
    # what a reader should know, e.g. that a model's answer was not taken
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> TestCase:
        if len(self.actions) != len(self.expected):
            raise ValueError("as many expected results as actions")
        if all(self.quote not in source.quote for source in self.sources):
            raise ValueError("the quote stands in no source")
        return self


def case_json(case: TestCase) -> str:
    """Return a test case as JSON for people to read; `case_from` is the inverse."""
    return json.dumps(asdict(case), ensure_ascii=False, indent=2)


def case_from(text: str | bytes) -> TestCase:
    """Read a test case from its JSON form."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        raise IntegrityError(
            f"not a test case (errors: {error.error_count()})",
            hint=RunCommand("spec", "… --force"),
        ) from None


@functools.cache
def _adapter() -> TypeAdapter[TestCase]:
    from pydantic import TypeAdapter

    return TypeAdapter(TestCase)


COVERED = "covered"
NOT_TESTABLE = "not testable as written"
MENTIONED = "mentioned only"
NOT_FOUND = "not found by retrieval"
GONE = "no longer found in the sources"
LEFT_OUT = "not asked for"
DUE = "to be written"


@dataclass(frozen=True, slots=True)
class Coverage:
    """One row of the table requirement → test cases."""

    requirement: str
    defined: str  # ``path:line`` of the definition that was read; empty if there is none
    cases: tuple[str, ...]  # ids of its test cases
    state: str  # ``covered``, or why there is no case
    words: str = ""  # what the source says instead, shortened; empty if it is covered


@dataclass(frozen=True, slots=True)
class Specification:
    """What `ragstream spec` makes."""

    project: str
    generation: int
    digest: str
    pattern: str  # what fits a requirement id
    cases: tuple[TestCase, ...] = ()  # written now, in order of their ids
    coverage: tuple[Coverage, ...] = ()  # a row a requirement, in natural order
    kept: tuple[str, ...] = ()  # ids of cases that the file had before and that stay as they are

    @property
    def counts(self) -> dict[str, int]:
        """How many requirements there are in each state."""
        states = [row.state for row in self.coverage]
        return {state: states.count(state) for state in dict.fromkeys(states)}

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return {**asdict(self), "counts": self.counts}


def covered(rows: Iterable[Coverage], cases: Mapping[str, Iterable[str]]) -> tuple[Coverage, ...]:
    """Return coverage rows that name the cases of each requirement."""
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
