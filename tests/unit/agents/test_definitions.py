"""Constants that a passage uses and another one defines."""

import pytest

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.definitions import constants_of, is_defined, with_definitions
from ragstream_core.agents.retrieval import RetrievalStage
from ragstream_core.records import Chunk, Hit, SuperPrompt
from ragstream_core.records.stage_results import QueryPiece
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from tests.unit.agents.test_condense import kept

QUESTION = "How many redirects are followed by default?"
USES = "def send(\n    url: str,\n    max_redirects: int = DEFAULT_MAX_REDIRECTS,\n) -> None:"
SETS = "DEFAULT_LIMITS = Limits(100)\nDEFAULT_MAX_REDIRECTS = 20\n"


def chunk(path, text):
    return Chunk(f"{path}::x::0", path, text, (0, len(text)), {})


@pytest.mark.parametrize(
    "line",
    ["MAX_SIZE = 16", "MAX_SIZE: int = 16", "MAX_SIZE: Final[int] = 16", "    MAX_SIZE = 16",
     "const MAX_SIZE = 16;", "pub const MAX_SIZE: usize = 16;", "#define MAX_SIZE 16",
     "public static final int MAX_SIZE = 16;", "export const MAX_SIZE: number = 16",
     "MAX_SIZE := 16"],
)  # fmt: skip
def test_lines_that_set_a_constant(line):
    assert is_defined("MAX_SIZE", f"# sizes\n{line}\n")


@pytest.mark.parametrize(
    "line",
    ["size: int = MAX_SIZE,", "if MAX_SIZE == 16:", "    MAX_SIZE,", "MAX_SIZES = 16",
     "f(MAX_SIZE=16)", "We set MAX_SIZE to 16.", "MAX_SIZE ="],
)  # fmt: skip
def test_lines_that_only_use_it(line):
    assert not is_defined("MAX_SIZE", line)


def test_names_share_two_words_with_the_question():
    texts = [chunk("a.py", USES), chunk("b.py", "DEFAULT_LIMITS, MAX_KEEPALIVE_CONNECTIONS")]
    assert constants_of(QUESTION, texts) == {"DEFAULT_MAX_REDIRECTS": "a.py::x::0"}
    assert constants_of("What is this?", texts) == {}


def test_what_defines_stands_behind_what_uses():
    uses, other, sets = chunk("a.py", USES), chunk("o.py", "pass"), chunk("c.py", SETS)
    shown, beside = with_definitions(QUESTION, [uses, other], [uses, other, sets])
    assert shown == [uses, sets, other]
    assert beside == {sets.id: "DEFAULT_MAX_REDIRECTS"}
    assert with_definitions(QUESTION, [uses, other], [uses, other]) == ([uses, other], {})
    assert with_definitions(QUESTION, [sets, uses], [sets, uses])[0] == [sets, uses]


def test_a_definition_that_the_question_does_not_find_is_found_by_its_name():
    texts = {c.id: c for c in (chunk("a.py", USES), chunk("c.py", SETS))}
    searched = []

    def search(whole, pieces, off):
        searched.append(whole)
        ids = ["a.py::x::0"] if whole == QUESTION else ["c.py::x::0"]
        return [Hit(i, 1.0, 0.5, 0.5, 1.0, {}, (0.5,)) for i in ids]

    prompt = SuperPrompt()
    prompt.extras.query_pieces = (QueryPiece("q1", QUESTION),)
    done = RetrievalStage(search, lambda ids: [texts[i] for i in ids])(prompt)
    assert searched == [QUESTION, "DEFAULT_MAX_REDIRECTS"]
    assert [c.source for c in done.base_context_chunks] == ["a.py", "c.py"]
    assert done.views_by_stage["retrieval"] == ["a.py::x::0"]

    shown = kept(USES, SETS, question=QUESTION)
    shown.base_context_chunks = list(texts.values())
    shown.views_by_stage = {"a3": ["a.py::x::0"]}
    result = Condenser(HeuristicTokenCounter())(shown)
    assert result.final_selection_ids == ["a.py::x::0", "c.py::x::0"]
    (row,) = [r for r in result.extras.decisions if r.chunk_id == "c.py::x::0"]
    assert row.reason.endswith("defines DEFAULT_MAX_REDIRECTS")
