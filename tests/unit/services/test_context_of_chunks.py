"""What a chunk stands in comes along: in search, in facts and in prompts that stay verifiable."""

import re
import unicodedata

import pytest

from ragstream_core import RAGstream
from ragstream_core.prompts.line_owners import owners
from ragstream_core.prompts.outline import outline
from ragstream_core.records.super_prompt import from_json, to_json

SETTINGS = {"embeddings.backend": "hashed", "rerank.backend": "none"}
HEAD = "| Tag | Opening pressure (bar) | Closing pressure (bar) |"
ROWS = "".join(f"| VK-{n} | {n % 90 + 10} | {n % 80 + 12} |\n" for n in range(101, 401))
CONFIG = "databases:\n" + "".join(
    f"  {name}:\n    pool:\n"
    + "".join(f"      option_{n}: value_{n}_{name[:2]}\n" for n in range(60))
    + f"    listen:\n      port: {port}\n"
    for name, port in (("orders", 5431), ("billing", 5432), ("stock", 5433))
)
CLASS = "class {0}:\n" + "".join(
    f"    def {name}(self, doc):\n"
    + "".join(f"        step_{n} = self.part(doc, {n})\n" for n in range(25))
    + "        return doc\n\n"
    for name in ("open", "store", "send")
)
CANCEL = '    def cancel(self, doc):\n        doc.state = "{1}"\n        return doc\n'
LEAD = "The following must never be stored on a laptop:"
ITEMS = "".join(
    f"- the {n}th of the papers that the board signs in its meeting\n" for n in range(60)
)
DOCS = {
    "hall.md": f"# Hall 3\n\n{HEAD}\n|---|---|---|\n{ROWS}",
    "conf.yaml": CONFIG,
    "orders.py": (CLASS + CANCEL).format("OrderService", "STOPPED"),
    "offers.py": (CLASS + CANCEL).format("OfferService", "WITHDRAWN"),
    "rules.md": f"# Rules\n\n{LEAD}\n\n{ITEMS}",
    "fans.txt": "1. PUMPS\n\n" + "The pumps run all day long. " * 60
    + "\n\n2. FAN WARRANTY\n\n" + "The crew wrote down what it saw. " * 60 + "It is nine years.\n",
    **{f"copy{n}/policy.md": "# Remote work\n\nRemote work is allowed on three days.\n"
       for n in range(8)},
    "abroad.md": "# Remote work abroad\n\nRemote work abroad is allowed for 20 days.\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def rag(tmp_path_factory):
    root = tmp_path_factory.mktemp("contexts")
    for name, text in DOCS.items():
        path = root / "doc_raw" / "plant" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = RAGstream(data_dir=root, settings=SETTINGS)
    made.ingest("plant")
    return made


def test_a_row_is_a_fact_with_the_names_of_its_columns_and_no_other_row_is(rag):
    prompt = rag.prompt("What is the closing pressure of VK-247?", "plant")
    facts = prompt.super_prompt.extras.s_ctx.facts
    wanted = f"Tag: VK-247 · Opening pressure (bar): {247 % 90 + 10} · "
    rows = [fact.text for fact in facts if "Tag: " in fact.text]
    assert len(rows) == 1 and rows[0].startswith(wanted)
    row = next(fact for fact in facts if fact.text == rows[0])
    assert row.quoted in DOCS["hall.md"] and row.quoted in str(prompt)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Which port does the billing database listen on?", "port: 5432"),
        ("What state does OrderService.cancel set?", "STOPPED"),
        ("Which papers must never be stored on a laptop? The 59th?", "the 59th of the papers"),
        ("How many years is the fan warranty?", "nine years"),
    ],
)
def test_what_says_nothing_alone_is_found_by_what_it_stands_in(rag, question, wanted):
    assert wanted in str(rag.prompt(question, "plant"))


def test_a_prompt_shows_the_context_beside_the_excerpt_and_can_be_verified(rag):
    prompt = rag.prompt("What is the closing pressure of VK-247?", "plant")
    text, nonce = str(prompt), prompt.super_prompt.extras.fence.nonce
    line = "| The next excerpt stands under: Tag | Opening pressure (bar) | Closing pressure (bar)"
    assert line in text.split("\n")
    known = owners(text, nonce)
    assert known[text.split("\n").index(line)] == "ATTACHMENTS|"
    for block in outline(prompt.super_prompt):
        for part in block.quotations:
            if part.chunk is not None and not part.mode:
                path, (start, end) = part.chunk.source.rpartition("/")[2], part.chunk.span
                whole = next(t for name, t in DOCS.items() if name.endswith(path))
                assert part.chunk.snippet == whole[start:end]
    assert rag.replay(prompt.key).verdict == "identical"
    assert to_json(from_json(to_json(prompt.super_prompt))) == to_json(prompt.super_prompt)


def test_the_port_of_a_key_is_named_by_all_keys_above_it(rag):
    facts = rag.prompt("Which port does the billing database listen on?", "plant")
    found = {(f.heading, f.text) for f in facts.super_prompt.extras.s_ctx.facts}
    assert ("databases billing listen", "port: 5432") in found


def test_equal_passages_come_once_and_name_the_other_files(rag):
    hits = rag.search("remote work rules", "plant", k=5)
    texts = [hit.snippet for hit in hits]
    assert len(set(texts)) == len(texts) == 5
    policy = next(hit for hit in hits if "three days" in hit.snippet)
    assert len(policy.also) == 7 and policy.source not in policy.also
    assert any("20 days" in text for text in texts)


def test_each_file_of_an_equal_passage_has_a_row_of_its_own_where_rows_are_left(rag):
    hits = rag.search("remote work rules", "plant", k=100)
    rows = hits.to_json()
    policy = next(hit for hit in hits if "three days" in hit.snippet)
    copies = [row for row in rows if row["snippet"] == policy.snippet]
    files = {f"plant/{row['source']}" for row in copies}
    assert files == {f"plant/{policy.source}", *policy.also}
    assert [row["chunk_id"] for row in rows][: len(hits)] == [hit.chunk_id for hit in hits]
    assert len(rows) == len({row["chunk_id"] for row in rows}) <= 100
    assert len(rag.search("remote work rules", "plant", k=len(hits) + 2).to_json()) == len(hits) + 2


def test_a_hit_names_its_lines_and_what_it_stands_in(rag):
    hit = next(h for h in rag.search("VK-247", "plant", k=3) if "VK-247" in h.snippet)
    first, last = hit.lines
    lines = DOCS["hall.md"].split("\n")[first - 1 : last]
    assert "\n".join(lines) == hit.snippet
    row = hit.to_json()
    assert row["lines"] == [first, last] and row["span"] == list(hit.span)
    assert row["context"].startswith("Tag | Opening pressure")


def test_a_file_that_has_changed_since_has_no_lines(rag):
    path = rag.data_dir / "doc_raw" / "plant" / "abroad.md"
    path.write_text(DOCS["abroad.md"] + "\nMore.\n")
    try:
        hit = next(h for h in rag.search("abroad 20 days", "plant") if "20 days" in h.snippet)
        assert hit.lines is None and "lines" not in hit.to_json()
    finally:
        path.write_text(DOCS["abroad.md"])


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_a_file_is_found_however_its_name_is_written(tmp_path, written, asked):
    folder = tmp_path / "doc_raw" / "plant"
    folder.mkdir(parents=True)
    name = unicodedata.normalize(written, "Prüfung.py")
    (folder / name).write_text("delta = 'seven'\n")
    (folder / "other.md").write_text("# Other\n\nThe delta is eight.\n")
    rag = RAGstream(data_dir=tmp_path, settings=SETTINGS)
    rag.ingest("plant")
    said = unicodedata.normalize(asked, "Prüfung.py")
    assert "delta = 'seven'" in str(rag.prompt("What is delta?", "plant", files=[said]))
    for question in (f"What does {said} say of delta?", f"file:{said} What is delta?"):
        assert "delta = 'seven'" in str(rag.prompt(question, "plant")), question
    globbed = said.replace("fung", "*")
    assert "delta = 'seven'" in str(rag.prompt("What is delta?", "plant", files=[globbed]))


def test_old_line_ends_and_the_bytes_of_pictures(tmp_path):
    folder = tmp_path / "doc_raw" / "plant"
    folder.mkdir(parents=True)
    (folder / "cr.md").write_text("# Fans\r\r## Warranty\r\rIt is nine years.\r", newline="")
    picture = "![logo](data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUg" * 400 + ")"
    (folder / "logo.md").write_text(f"# Logo\n\n{picture}\n\nThe logo is blue.\n")
    wrapped = "\n".join(["A" * 76] * 200)
    (folder / "ref.md").write_text(
        f"# Ref\n\nRed.\n\n[i]: <data:image/png;base64,{wrapped}>\n\nEnd.\n"
    )
    rag = RAGstream(data_dir=tmp_path, settings=SETTINGS)
    assert rag.ingest("plant").chunks["live"] == 3
    assert [hit.heading for hit in rag.search("nine years", "plant", k=1)] == ["Fans"]
    (hit,) = rag.search("logo blue", "plant", k=1)
    assert "The logo is blue." in hit.snippet and len(hit.snippet) < 100
    (hit,) = rag.search("Red End", "plant", k=1)
    assert hit.lines == (1, 206) and not re.search("A{9}", hit.snippet)
