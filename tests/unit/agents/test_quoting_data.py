"""Rows, pairs and signatures as facts: whole, verbatim, cited, under the keys they belong to."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import FormatEnforcer
from ragstream_core.agents.context.data_lines import kind_of_passage
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.context.shown import readable
from ragstream_core.records import Chunk, Extras, SuperPrompt
from ragstream_core.text.token_estimates import HeuristicTokenCounter

COUNTER = HeuristicTokenCounter()
KEYS = st.text("bcdfghjk", min_size=2, max_size=5)
SCALARS = st.integers(-999, 9999) | st.booleans() | st.text("abcxyz:,{}[]", max_size=12)
TREES = st.recursive(
    st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=3), min_size=1, max_size=4),
    lambda inner: st.dictionaries(KEYS, SCALARS | inner, min_size=1, max_size=3),
    max_leaves=8,
)


def chunk(name, text):
    return Chunk(f"{name}::x::0", name, text, (0, len(text)), {"sha256": "a" * 64})


def quoted(name, text):
    return [(q.text, q.heading) for q in quotes_of(chunk(name, text), 0, stemmed_terms)]


def pairs_of(tree, path=()):
    """Every (path, key, value) of a tree that is no object itself."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from pairs_of(value, (*path, key))
        else:
            yield " ".join(path), key, value


@settings(max_examples=150, deadline=None)
@given(TREES, st.sampled_from([None, 2]))
def test_a_json_pair_is_a_pair_of_the_document_and_none_is_lost(tree, indent):
    text = json.dumps(tree, indent=indent)
    found = [(path, json.loads("{" + said + "}")) for said, path in quoted("a.json", text)]
    assert found == [(path, {key: value}) for path, key, value in pairs_of(tree) if value != []]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(0, 99), min_size=1, max_size=3)
                       | st.integers(0, 99) | st.lists(st.integers(0, 9), min_size=1, max_size=3),
                       min_size=1, max_size=4), st.booleans())  # fmt: skip
def test_a_yaml_pair_is_a_pair_of_the_document_and_none_is_lost(tree, fenced):
    text = yaml.safe_dump(tree, sort_keys=False)
    if fenced:
        found = quoted("a.md", f"Before it stands nothing of use at all.\n\n```yaml\n{text}```\n")[
            1:
        ]
    else:
        found = quoted("a.yml", text)
    wanted = []
    for path, key, value in pairs_of(tree):
        items = " ".join(f"- {item}" for item in value) if isinstance(value, list) else value
        wanted.append((f"{key}: {items}", path))
    assert found == wanted


CELLS = st.text("abcxyz019", min_size=1, max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2, max_size=6), st.booleans())
def test_rows_of_a_table_are_quoted_whole(rows, tabs):
    head = ("name", "low", "high")
    rows = [(f"{a}1", b, c) for a, b, c in rows]
    if tabs:
        text = "\n".join("\t".join(row) for row in [head, *rows])
        wanted = [" ".join(row) for row in rows]
    else:
        lines = [f"| {' | '.join(row)} |" for row in [head, ("---",) * 3, *rows]]
        text, wanted = "\n".join(lines), [" | ".join(row) for row in rows]
    found = quotes_of(chunk("a.md", text), 0, stemmed_terms)
    assert [q.verbatim for q in found] == wanted
    names = [f"name: {a} · low: {b} · high: {c}" for a, b, c in rows]
    assert [q.text for q in found] == names
    assert all({"name", "low", "high"} <= q.context for q in found)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.py", "class Gate:\n    def run(\n        self, a: int\n    ) -> str:\n        0\n",
         [("class Gate:", ""), ("def run( self, a: int ) -> str:", "Gate")]),
        ("a.py", "import os\nMAX = 3\n@cache\nasync def f(x): ...\n",
         [("MAX = 3", ""), ("async def f(x): ...", "")]),
        ("a.go", "func Run(a int) (string, error) {\n\treturn a\n}\n",
         [("func Run(a int) (string, error)", "")]),
        ("a.md", "```rust\npub fn run(a: i32) -> i32 {\n    a\n}\n```\n",
         [("pub fn run(a: i32) -> i32", "")]),
        ("a.py", "def cut(a,\n        b,\n", []),
        ("a.md", "```\nport: 8080\n```\n", []),
        ("a.md", "Note: the port is 80.\nSee: this.\n", [("Note: the port is 80.", "")]),
        ("a.json", '"whole": 3, "cut": "of', [('"whole": 3', "")]),
        ("a.rs", "impl<K: Key> Gate<K> {\n    pub fn sign(&self) -> Result {\n    }\n}\n",
         [("pub fn sign(&self) -> Result", "Gate")]),
        ("a.json", '{"last": 3', []),
        ("a.json", '3}, "whole": 4, "next": 5}', [('"whole": 4', ""), ('"next": 5', "")]),
        ("a.yml", "text: |\n  key of prose\nlast: &x 3\n# note: it\nend: 1\n", [("end: 1", "")]),
        ("a.md", "one\ttwo\n\nA line that has no tab in it.\n",
         [("A line that has no tab in it.", "")]),
    ],
)  # fmt: skip
def test_what_is_quoted_of_data_and_code(name, text, wanted):
    found = quoted(name, text)
    assert [row for row in found if row[0] != "one two"] == wanted or found == wanted
    assert all(said in readable(text) for said, _ in found)


ASKED = (
    ("settings.yml", "server:\n  port: 8080\n  name: pump\n", "Which port has the server?",
     "port: 8080"),
    ("limits.json", '{"pump": {"pressure_bar": 3, "speed": 9}}', "What is the pump's pressure?",
     '"pressure_bar": 3'),
    ("pumps.md", "| pump | pressure |\n|---|---|\n| P1 | 3 bar |\n| P2 | 4 bar |\n",
     "What pressure has pump P2?", "pump: P2 · pressure: 4 bar"),
    ("pumps.txt", "pump\tpressure\nP1\t3 bar\nP2\t4 bar\n", "What pressure has pump P2?",
     "pump: P2 · pressure: 4 bar"),
    ("gate.py", "class Gate:\n    def keep(self, theta: float) -> bool:\n        return True\n",
     "Which type has theta in `keep`?", "def keep(self, theta: float) -> bool:"),
    ("zh.md", "水泵的最大压力为3巴。操作人员每天检查密封。", "水泵的最大压力是多少？",
     "水泵的最大压力为3巴。"),
    ("ja.md", "ポンプの最大圧力は3バールです。蓋は青い色をしています。",
     "ポンプの最大圧力はいくらですか？", "ポンプの最大圧力は3バールです。"),
    ("de.md", "Der Druck der Pumpe beträgt drei Bar. Das Gehäuse der Anlage ist blau lackiert.",
     "Wie hoch ist der Druck der Pumpe?", "Der Druck der Pumpe beträgt drei Bar."),
)  # fmt: skip


@pytest.mark.parametrize(("name", "text", "question", "fact"), ASKED)
def test_the_fact_is_there_cited_and_correct(name, text, question, fact):
    prompt = SuperPrompt(body={"task": question})
    prompt.base_context_chunks = [chunk(name, text)]
    (identifier,) = prompt.views_by_stage["a3"] = [prompt.base_context_chunks[0].id]
    prompt.extras = Extras.from_json(
        {
            "query_pieces": [{"id": "q1", "text": question}],
            "scores": {identifier: {"score": 0.5, "best_cosine": 0.45}},
        }
    )
    done = FormatEnforcer(COUNTER)(Condenser(COUNTER)(prompt))
    facts = done.extras.s_ctx.facts
    assert fact in [row.text for row in facts]
    assert {cited.chunk_id for row in facts for cited in row.citations} == {identifier}
    assert done.extras.enforced.repairs == ()
    assert done.extras.s_ctx.constraints == ()


def test_two_services_with_two_ports_do_not_disagree():
    texts = {"a.yml": "service:\n  port: 80\n", "b.yml": "service:\n  port: 90\n"}
    prompt = SuperPrompt(body={"task": "Which port has the service?"})
    prompt.base_context_chunks = [chunk(*row) for row in texts.items()]
    ids = prompt.views_by_stage["a3"] = [c.id for c in prompt.base_context_chunks]
    prompt.extras = Extras.from_json(
        {
            "query_pieces": [{"id": "q1", "text": "Which port has the service?"}],
            "scores": {i: {"score": 0.5, "best_cosine": 0.6} for i in ids},
        }
    )
    s_ctx = Condenser(COUNTER)(prompt).extras.s_ctx
    assert [f.text for f in s_ctx.facts] == ["port: 80", "port: 90"]
    assert s_ctx.open_issues == ()


def test_a_day_of_a_channel_is_quoted_as_what_people_said_and_other_days_as_data():
    said = "## Anna (12:00): Which gasket?\n\n- Tom (12:01): The otter gasket costs 45 euros.\n"
    day = "slack.zip/pumps/2024-05-01.json"
    assert kind_of_passage(day, said) == ""
    for text in ('{"a": 1}', '  "b": [', "7, 8]", "null,", "-7.5e3 ]", "]"):
        assert kind_of_passage(day, text) == "json"
    assert kind_of_passage("limits.json", said) == "json"
