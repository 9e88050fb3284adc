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
    """A quotation that a test case stands on, and the citation that leads back to it.

    Attributes:
        marker: ``[source: FILE, chunk: SHORT ID]``, as `ragstream trace` takes it.
        chunk_id: ``path::sha256::index``.
        prompt_key: The prompt that found it; empty if nothing may be kept.
        path: Relative to the project.
        lines: First and last line in the file, 1-based; (0, 0) if they are not known.
        page: Of a PDF, 1-based; 0 if there are none.
        quote: Its words, verbatim.
    """

    __pydantic_config__ = _STRICT

    marker: Words
    chunk_id: Words
    prompt_key: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{64})?$")]
    path: Words
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
    """One test case.

    Attributes:
        id: As ``documentation.id_format`` has it; empty while it is a draft.
        title: One line.
        precondition: What must hold before, or ``none stated``.
        actions: The steps.
        expected: What must be seen after each of them; as many.
        postcondition: What must hold afterwards, or ``none stated``.
        requirements: Ids that exist in the sources.
        sources: What it stands on, each verbatim.
        quote: The main one of their quotations.
        form: Who wrote it: rules, or a language model.
        model: Which one; empty for rules.
        notes: What a reader should know, e.g. that a model's answer was not taken.
    """

    __test__ = False  # no test of pytest's
    __pydantic_config__ = _STRICT

    id: Annotated[str, Field(max_length=100)]
    title: Words
    precondition: Words
    actions: Texts
    expected: Texts
    postcondition: Words
    requirements: Texts
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=50)]
    quote: Words
    form: Literal["deterministic", "llm"] = "deterministic"
    model: str = ""
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
    """Read a test case from its JSON form.

    Raises:
        IntegrityError: It does not fit the schema.
    """
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
    """One row of the table requirement → test cases.

    Attributes:
        requirement: Its id.
        defined: ``path:line`` of the definition that was read; empty if there is none.
        cases: Ids of its test cases.
        state: ``covered``, or why there is no case.
        words: What the source says instead, shortened; empty if it is covered.
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

    def to_json(self) -> dict[str, Json]:
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
