"""The folder of everyday files: each is read, found and cited, or its reason says what helps."""

import pytest

from ragstream_app.page.panels.passage import facts_of
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex
from ragstream_core.services.explain import explanation
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.search import search
from ragstream_core.services.trace import trace
from tests.everyday_files import REFUSED, everyday_files, write_everyday_folder
from tests.workspaces import ask, ask_and_keep, hashed_workspace

KINDS = sorted(everyday_files())


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    root = tmp_path_factory.mktemp("everyday")
    folder = root / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    said = write_everyday_folder(folder)
    space = hashed_workspace(root)
    return space, ingest_project(space, "demo"), said


def flat(text):
    return " ".join(text.split())


def test_of_all_kinds_but_few_are_read(ingested):
    _, stats, said = ingested
    reasons = dict(stats.skipped_reasons)
    assert len(said) >= 60 and stats.files["new"] == len(said)
    assert set(reasons) == set(REFUSED)


def test_what_is_refused_says_why_and_what_helps(ingested):
    reasons = dict(ingested[1].skipped_reasons)
    assert reasons["song.mp3"].endswith("a transcript is read, as .vtt, .srt or .txt")
    assert "a picture; save it as .png" in reasons["logo.gif"]
    assert reasons[".env"].endswith("give it another name if it holds none")


@pytest.mark.parametrize("name", KINDS)
def test_its_sentence_is_found_whole_and_cited(ingested, name):
    space, _, said = ingested
    sentence = said[name]
    best = search(space, sentence, ["demo"], k=1)[0]
    assert best.source.partition("/")[0] == name and sentence in flat(best.snippet)
    shown = ask(space, sentence)
    (chunk,) = (c for c in shown.base_context_chunks if c.id == best.chunk_id)
    assert sentence in flat(chunk.snippet) and chunk.id in shown.final_selection_ids
    cited = f'id="{sha256_hex(chunk.id)[:SHORT_ID_DIGITS]}"'
    quoted = shown.Attachments_MD.partition(cited)[2].partition("<<END")[0]
    assert f'source="{best.source}"' in quoted
    assert sentence in flat(quoted.replace("\n| ", "\n"))


def test_what_was_assumed_is_said_of_each_old_encoding(ingested):
    _, stats, _ = ingested
    told = {warning.partition(":")[0] for warning in stats.warnings if "(assumed)" in warning}
    assert told == {"utf16-bare.txt", "cp1252.txt", "koi8.txt", "shift-jis.txt", "gb18030.txt"}


@pytest.mark.parametrize("name", ["cp1252.txt", "koi8.txt", "notes.md"])
def test_explain_and_trace_say_what_was_assumed(ingested, name):
    space, _, said = ingested
    key = ask_and_keep(space, said[name])
    encoding = {"cp1252.txt": "cp1252 (assumed)", "koi8.txt": "koi8_r (assumed)"}.get(name, "")
    assert explanation(space, key).remarks.get(name, "") == encoding
    chunk = search(space, said[name], ["demo"], k=1)[0].chunk_id
    found = trace(space, chunk, key)
    assert found.remark == encoding
    assert any(encoding in line for line in facts_of(found)) or not encoding
    assert not any("assumed" in line for line in facts_of(found)) or encoding
