import time

import pytest

from ragstream_core.text import code
from ragstream_core.text.chunk_profiles import PROFILES, ChunkProfile
from ragstream_core.text.chunker import split
from ragstream_core.text.code import BY_LINES, GRAMMARS
from ragstream_core.text.tokenizer import word_offsets

FUNCTION = '''@decorated(by="something")
def function_{n}(first, second):
    """Say what number {n} does, in a sentence that has some length."""
    total = first + second * {n}

    for step in range(total):
        if step % 2:
            print(step, total)
    return total
'''
MODULE = "import os\nimport sys\n\n\n" + "\n\n".join(FUNCTION.format(n=n) for n in range(12))
SMALL = ChunkProfile("small", 120, 0)


@pytest.fixture(params=["grammar", "lines"])
def with_and_without_grammar(request, monkeypatch):
    if request.param == "lines":
        monkeypatch.setattr(code, "_language", lambda *_: None)
    else:
        pytest.importorskip("tree_sitter_python")


def test_chunks_begin_at_definitions_with_their_decorators(with_and_without_grammar):
    starts = [MODULE[s.start :].splitlines()[0] for s in split(
        MODULE, profile=SMALL, file_type="py")]  # fmt: skip
    assert starts[0] == "import os"
    assert set(starts[1:]) == {'@decorated(by="something")'}


@pytest.mark.parametrize("name", PROFILES)
def test_no_line_is_torn_and_nothing_is_lost(name, with_and_without_grammar):
    profile = PROFILES[name]
    spans = split(MODULE * 3, profile=profile, file_type="py")
    text, reached = MODULE * 3, 0
    for start, end in spans:
        assert not text[reached:start].strip()
        reached = max(reached, end)
        assert len(word_offsets(text[start:end])) <= profile.max_tokens
        if profile.overlap != "word":
            assert not text[text.rfind("\n", 0, start) + 1 : start].strip()
        assert text[end : end + 1] in ("", "\n")
    assert not text[reached:].strip()


@pytest.mark.parametrize("kind", sorted([*GRAMMARS, *BY_LINES]))
def test_any_text_can_be_any_language(kind):
    for text in ("", " \n", "x", "}" * 500, "def f(:\n" * 50, "🙂 = 'é'\n" * 100, "a" * 5000):
        spans = split(text, profile=SMALL, file_type=kind)
        assert spans == split(text, profile=SMALL, file_type=kind)
        assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())


def test_grammars_that_are_installed_load():
    wanted = {"py": "def f():\n    pass\n", "go": "package a\nfunc f() {}\n", "rs": "fn f() {}\n",
              "js": "function f() {}\n", "ts": "let a: number = 1\n", "java": "class A {}\n",
              "c": "int f() { return 1; }\n", "cpp": "class A {};\n", "sh": "f() { ls; }\n",
              "tsx": "let a = <b>1</b>\n", "cs": "class A { }\n", "kt": "class A { }\n",
              "swift": "class A { }\n", "rb": "def f\n  1\nend\n", "php": "<?php f();\n",
              "scala": "object A\n", "lua": "function f() end\n", "tf": "a = 1\n",
              "sql": "SELECT a FROM b\n"}  # fmt: skip
    for kind, text in wanted.items():
        pytest.importorskip(GRAMMARS[kind][0])
        assert code.joints_of(text, file_type=kind) == [0], kind


def test_a_very_long_program_is_cut_by_its_lines():
    assert code.joints_of("x = 1\n" * 100_000, file_type="py") == []


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "f(" * 20_000 + "1" + ")" * 20_000 + "\n",
        "x = {\n" + "a: [\n" * 30_000 + "]\n" * 30_000 + "}\n",
        "void f() {" + "if (a) { b(); } else " * 10_000 + "{ c(); } }\n",
    ],
    ids=["calls", "lists", "else if"],
)
def test_what_nests_as_no_person_writes_does_not_hold_an_ingest_up(text):
    began = time.process_time()
    spans = split(text, profile=SMALL, file_type="js")
    assert spans and time.process_time() - began < 20  # days, if the grammar were asked
    assert code.joints_of(text, file_type="js") == []


def test_what_people_write_is_cut_by_its_grammar():
    pytest.importorskip("tree_sitter_javascript")
    table = "const t = [" + ", ".join(f"[{n}, ({n}), {{}}]" for n in range(2_000)) + "];\n"
    chain = "function f() { " + "if (a) { b(); } else " * 100 + "{ c(); } }\n"
    assert code.joints_of(table, file_type="js") and code.joints_of(chain, file_type="js")
