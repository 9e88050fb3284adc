"""What chunks stand in: their lines, their size, and that prose needs none."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.text.chunk_profiles import ChunkProfile
from ragstream_core.text.chunker import Chunker
from ragstream_core.text.contexts import MAX_LINES, Contexts, shown
from ragstream_core.text.tokenizer import word_offsets

SMALL = ChunkProfile("small", 80, 0)


def contexts_by_line(text, file_type):
    """Return each line's context as people see it."""
    found = Contexts(text, file_type=file_type)
    at, rows = 0, {}
    for line in text.split("\n"):
        if line.strip():
            start = at + len(line) - len(line.lstrip())
            rows[line.strip()] = shown(found.at(start, measure=len, most=1_000))
        at += len(line) + 1
    return rows


TABLE = (
    "Intro.\n\n**Table 3: valves**\n\n| Tag | Opens (bar) |\n|---|---|\n"
    "| V1 | 3 |\n| V2 | 4 |\n\nEnd.\n"
)
YAML = """# all
databases:
  orders:
    listen:
      port: 5431
  billing:
    # the slow one
    listen:
      port: 5432
services:
- name: web
  ports:
    - http: 80
- name: mail
  host: m1
"""
PYTHON = '''class Orders:
    """Handles.

text at the margin of a docstring
    """

    def cancel(
        self,
        doc,
    ):
        if doc:
# a comment at the margin
            doc.state = "STOPPED"
        return self.store(doc)

def alone():
    return 1
'''
JAVA = """public class Orders extends Base {
    private int n = 0;
    @Override
    public State cancel(Doc doc) throws IOException {
        if (doc == null) {
            return NONE;
        }
        return STOPPED;
    }
}
class Other
{
    void go()
    {
        run();
    }
}
"""
TYPESCRIPT = """export class Orders {
  async cancel(doc: Doc): Promise<State> {
    return "STOPPED";
  }
}
const later = async (doc: Doc) => {
  await send(doc);
};
"""
RUST = """impl<K: Key> Orders<K> {
    pub fn cancel(&mut self, doc: Doc) -> State {
        State::Stopped
    }
}
"""
GO = """func (o *Orders) Cancel(doc Doc) error {
\treturn o.store(doc)
}
"""
LIST = """Some words. The following must never be stored
on a laptop:

- passwords
- keys
  - of doors
    more of it
- names

After the list.

- a list without a lead
"""


@pytest.mark.parametrize(
    ("text", "file_type", "line", "wanted"),
    [
        (TABLE, "md", "| V2 | 4 |", "**Table 3: valves** > Tag | Opens (bar)"),
        (TABLE, "md", "| Tag | Opens (bar) |", ""),
        (TABLE, "md", "End.", ""),
        ("a | b\n--- | ---\nc | d\n", "txt", "c | d", "a | b"),
        ("```\n| a | b |\n|---|---|\n| c | d |\n```\n", "md", "| c | d |", ""),
        (YAML, "yml", "port: 5432", "databases > billing > listen"),
        (YAML, "yaml", "host: m1", "services > - name: mail"),
        (YAML, "yaml", "- http: 80", "services > - name: web > ports"),
        (YAML, "yaml", "services:", ""),
        (PYTHON, "py", 'doc.state = "STOPPED"', "class Orders > def cancel"),
        (PYTHON, "py", "return self.store(doc)", "class Orders > def cancel"),
        (PYTHON, "py", "return 1", "def alone()"),
        (PYTHON, "py", "def alone():", ""),
        (JAVA, "java", "return STOPPED;",
         "public class Orders extends Base > public State cancel(Doc doc) throws IOException"),
        (JAVA, "java", "@Override", "public class Orders extends Base"),
        (JAVA, "java", "run();", "class Other > void go()"),
        (TYPESCRIPT, "ts", 'return "STOPPED";',
         "export class Orders > async cancel(doc: Doc): Promise<State>"),
        (TYPESCRIPT, "ts", "await send(doc);", "const later = async (doc: Doc) =>"),
        (RUST, "rs", "State::Stopped",
         "impl<K: Key> Orders<K> > pub fn cancel(&mut self, doc: Doc) -> State"),
        (GO, "go", "return o.store(doc)", "func (o *Orders) Cancel(doc Doc) error"),
        ("[server]\nport = 1\n[server.db]\nurl = 2\n", "toml", "url = 2", "[server.db]"),
        (LIST, "md", "- names", "The following must never be stored on a laptop"),
        (LIST, "md", "- of doors", "The following must never be stored on a laptop > - keys"),
        (LIST, "md", "- a list without a lead", ""),
        (LIST, "md", "After the list.", ""),
    ],
)  # fmt: skip
def test_a_line_stands_in_what_is_above_it(text, file_type, line, wanted):
    assert contexts_by_line(text, file_type)[line] == wanted


def test_a_part_of_json_is_read_behind_its_keys_however_it_is_laid_out():
    data = {"databases": {name: {"listen": {f"p{n}": n for n in range(30)}, "tls": True}
                          for name in ("orders", "billing")},
            "users": [{"name": "Anna", "rights": {f"r{n}": n for n in range(30)}}]}  # fmt: skip
    for text in (json.dumps(data), json.dumps(data, indent=2)):
        pieces = Chunker(SMALL).chunk(text, file_type="json")
        places = {shown(piece.context) for piece in pieces}
        assert {"databases > billing > listen", "users > name: Anna > rights"} <= places


def test_of_a_wide_head_what_fits_is_taken_and_outer_keys_go_first():
    found = Contexts("a:\n  b:\n    c:\n      d: 1\n", file_type="yaml")
    assert shown(found.at(19, measure=len, most=18)) == "b > c"
    wide = "| " + " | ".join(f"column {n}" for n in range(40)) + " |"
    text = f"{wide}\n{'|---' * 40}|\n| {' | '.join('1' * 40)} |\n"
    assert shown(Contexts(text, file_type="md").at(text.rfind("| 1 | 1"), measure=len, most=60))


PARTS = st.sampled_from(
    ["| a | b |\n|---|---|\n", "| one | two |\n" * 3, "keys:\n  sub:\n    x: 1\n    y: 2\n",
     "As follows:\n", "- item of a list\n", "  - item below\n", "\n",
     "class A:\n    def f(self):\n        return 1\n",
     '{"a": {"b": [1, 2, {"c": "d"}]}}\n', "[section]\nkey = value\n", "Prose stands here. ", '"""',
     "TITLE\n=====\n", "1. TITLE\n\n", "}\n", "\t", "x" * 50, "a: |\n  text\n"]
)  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(PARTS, max_size=30).map("".join) | st.text(max_size=120),
    st.integers(4, 60),
    st.sampled_from(["md", "txt", "yaml", "json", "py", "java", "toml"]),
)
def test_a_chunk_fits_with_its_context_in_front_and_keeps_its_place(text, limit, file_type):
    profile = ChunkProfile("p", limit, limit // 5)
    for piece in Chunker(profile).chunk(text, file_type=file_type):
        assert piece.chunk_text == text[piece.start : piece.end]
        assert len(word_offsets(piece.context + piece.chunk_text)) <= limit
        assert not piece.context or piece.context.rstrip(" \t").endswith("\n")


def test_prose_needs_none():
    text = "# Title\n\n" + "\n\n".join("A sentence stands here. " * 12 for _ in range(9))
    assert Contexts(text, file_type="md").is_empty


@pytest.mark.parametrize("kind", ["json", "yaml", "md"])
def test_what_is_nested_deeply_has_its_inner_lines_only(kind):
    """Brackets thousands deep: every place would repeat them all."""
    texts = {
        "json": '{"a":' * 30_000 + "1" + "}" * 30_000,
        "yaml": "".join(f"{' ' * depth}k{depth}:\n" for depth in range(600)),
        "md": "Parts:\n" + "".join(f"{' ' * 2 * depth}- item {depth}\n" for depth in range(300)),
    }
    text = texts[kind]
    marks = Contexts(text, file_type=kind)
    deepest = max(len(marks.lines_at(at)) for at in range(0, len(text), 97))
    assert 0 < deepest <= MAX_LINES + 1
