"""Notes of Obsidian and Notion as their programs show them; every line keeps its number."""

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.loader import DocumentLoader
from ragstream_core.ingestion.notes import as_shown
from ragstream_core.ingestion.scan import scan
from ragstream_core.services.ingest import ingest_project
from tests.workspaces import ask, hashed_workspace

NOTE = """---
aliases: [Big Bertha, "the grey one"]
tags: [gear]
---
%% ask Tom about the flamingo %%
It holds ==40 litres== of oil. ^cap-1

%%
A long comment
about the pelican.
%%

## Service
The seal is changed every nine months. %%walrus%% It costs 120 euros.
![[Drawing K-20.png]]
```python
100 %% 7 ^x %% 5 == 3
```
`%%kept%%`
"""
ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def vault(tmp_path):
    folder = tmp_path / "doc_raw" / "demo"
    for name, content in (
        (".obsidian/app.json", "{}"), (".trash/old.md", "# Old\n\nThe old one."),
        ("Gear/Pump K-20.md", NOTE), ("plain.txt", "%%kept%% ==here=="),
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def read(folder, path):
    return DocumentLoader(folder.parent, folder.name).read(path)


def test_comments_and_marks_of_a_vault_are_left_out_and_lines_stay(vault):
    text = read(vault, "Gear/Pump K-20.md").text
    for hidden in ("flamingo", "pelican", "walrus", "^cap", "==40"):
        assert hidden not in text
    for shown in (
        "It holds 40 litres of oil.\n",
        "nine months.  It costs",
        "Drawing K-20.png",
    ):
        assert shown in text
    assert "100 %% 7 ^x %% 5 == 3\n```\n`%%kept%%`\n" in text
    lines = NOTE.split("\n")
    assert text.count("\n") == NOTE.count("\n")
    assert text.split("\n")[lines.index("## Service")] == "## Service"


def test_what_is_no_note_and_notes_of_no_vault_stay_as_they_are(vault, tmp_path):
    assert read(vault, "plain.txt").text == "%%kept%% ==here=="
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.md").write_text(NOTE)
    assert read(tmp_path / "other", "a.md").text == NOTE


def test_trash_and_settings_of_a_vault_are_left_out(vault):
    found = scan(vault)
    assert sorted(found.files) == ["Gear/Pump K-20.md", "plain.txt"]
    assert dict(found.refused) == {
        ".obsidian/": "junk: of an editor or a system", ".trash/": "junk: of an editor or a system"
    }  # fmt: skip


def test_a_vault_in_a_zip_is_a_vault(tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        package.writestr("Vault/.obsidian/app.json", "{}")
        package.writestr("Vault/Gear/a.md", "Shown. %%hidden%%")
        package.writestr("Other/b.md", "Shown. %%shown%%")
    (folder / "v.zip").write_bytes(out.getvalue())
    assert read(folder, "v.zip/Vault/Gear/a.md").text == "Shown. "
    assert read(folder, "v.zip/Other/b.md").text == "Shown. %%shown%%"


def test_a_note_is_found_by_its_name_and_by_its_aliases(vault, tmp_path):
    for n in range(8):
        (vault / f"Engine {n}.md").write_text(f"It holds {n + 50} litres of oil.\n")
    space = hashed_workspace(tmp_path)
    ingest_project(space, "demo")
    prompt = ask(space, "How many litres of oil does Big Bertha hold?").extras.super_prompt
    facts = prompt.partition("### Facts")[2].partition("### Constraints")[0]
    assert "(Pump K-20 > Big Bertha, the grey one) It holds 40 litres of oil." in facts
    prompt = ask(space, "How many litres of oil does Engine 7 hold?").extras.super_prompt
    assert "| F1. (Engine 7) It holds 57 litres of oil." in prompt


def test_links_of_notion_name_the_page_without_its_id():
    text = f"[Pump](Wiki%20{ID}/Pump%20K-20%20{ID}.md) and [Tasks](Tasks%20{ID}_all.csv) %20{ID}"
    assert as_shown(text, in_vault=False) == (
        f"[Pump](Wiki/Pump%20K-20.md) and [Tasks](Tasks_all.csv) %20{ID}"
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see [[Pump]].", "see Pump."),
        ("see [[Pump|the pump]] now", "see the pump now"),
        ("| [[Pump\\|the pump]] | 9 |", "| the pump | 9 |"),
        ("[[Pump#Oil|oil]] and [[Pump#Oil#Kind]]", "oil and Pump > Oil > Kind"),
        ("[[Pump#^a1b2]] and [[#Oil]]", "Pump and Oil"),
        ("![[Pump#Oil]] ![[plan.png|200]]", "Pump > Oil plan.png"),
        ("`[[code]]` and a[[1]] and [[]]", "`[[code]]` and a1 and [[]]"),
    ],
)
def test_links_in_a_vault_are_their_words(written, shown):
    assert as_shown(written, in_vault=True) == shown
    assert as_shown(written, in_vault=False) == written


@given(st.text(alphabet="a %`~=^-\n>[]|#!\\", max_size=120))
def test_every_line_keeps_its_number(text):
    assert as_shown(text, in_vault=True).count("\n") == text.count("\n")


def test_comments_that_never_end_take_no_time_and_nothing_away():
    text = "%% a\n" + "== b ^c\n" * 100_000 + "``` x\n" * 1001
    assert as_shown(text, in_vault=True).count("b") == 100_000
