"""A1: the files you name, receipts, FULL and PACK, and what is never guessed."""

import hashlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents import a1_file_injector
from ragstream_core.agents.a1_file_injector import FileInjector, candidates, forced_paths
from ragstream_core.errors import UsageError
from ragstream_core.records import SuperPrompt, to_json
from ragstream_core.records.stage_results import Pool
from ragstream_core.text.token_estimates import HeuristicTokenCounter

FILES = {
    "src/app.py": b"def run():\n    return 1\n",
    "src/big.py": b"\n".join(b"value_%d = %d" % (i, i) for i in range(900)),
    "conf/a/settings.yml": b"a: 1\n",
    "conf/b/settings.yml": b"b: 1\n",
    "conf/only.json": b"{}",
    "notes.md": b"# Notes",
    "docs/more.md": b"# More",
    "raw.bin.json": b"\x00\xff",
}


class Source:
    def names(self, project):
        return sorted(FILES)

    def read(self, project, path):
        return FILES[path]


def a1(task, **kwargs):
    prompt = SuperPrompt(body={"task": task})
    prompt.stage = "a2"
    return FileInjector(Source(), ["demo"], HeuristicTokenCounter(), **kwargs)(prompt)


def paths(prompt):
    return [row.path for row in prompt.extras.files]


def warned(prompt):
    return " ".join(w.message for w in prompt.extras.warnings)


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("Explain src/app.py please", ["src/app.py"]),
        ("Explain `app.py`.", ["src/app.py"]),
        ("Explain ./src/app.py?", ["src/app.py"]),
        ("what do conf/*/settings.yml hold", ["conf/a/settings.yml", "conf/b/settings.yml"]),
        ("what is in only.json", ["conf/only.json"]),
        ("Explain app and json, e.g. 1.5", []),
        ("Explain missing.py", []),
    ],
)
def test_named_files_are_injected(task, found):
    assert paths(a1(task)) == found


def test_an_ambiguous_name_is_reported_not_guessed():
    prompt = a1("Explain settings.yml")
    assert paths(prompt) == []
    assert "conf/a/settings.yml, conf/b/settings.yml" in warned(prompt)


def test_notes_stay_with_retrieval_unless_forced():
    assert paths(a1("Explain notes.md")) == []
    assert paths(a1("Explain it", named=["notes.md"])) == ["notes.md"]


def test_off_files_are_not_injected_unless_forced():
    assert paths(a1("Explain app.py", off=["src/app.py"])) == []
    assert paths(a1("Explain", off=["src/app.py"], named=["src/app.py"])) == ["src/app.py"]


@given(st.sampled_from(sorted(FILES)), st.integers(0, 30))
def test_an_end_of_a_path_means_it_only_from_a_folder_on(path, cut):
    token = path[cut:]
    fits = candidates(token, sorted(FILES)) if token else []
    assert (path in fits) == (bool(token) and (cut == 0 or path[cut - 1] == "/"))


def test_a_forced_file_that_is_mentioned_too_is_taken_once_and_without_a_word():
    prompt = a1("see notes.md and app.py", named=["notes.md", "src/app.py"], off=["src/app.py"])
    assert paths(prompt) == ["notes.md", "src/app.py"]
    assert "OFF" not in warned(prompt)
    assert not any("stay with" in row.message for row in prompt.extras.events)


@given(st.sets(st.sampled_from(sorted(FILES))), st.integers(1, 6))
def test_a_glob_takes_what_is_neither_off_nor_a_note_and_says_what_it_leaves(off, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a1_file_injector, "MAX_GLOB", most)
        prompt = a1("Explain */* please", off=sorted(off))
    fits = [name for name in sorted(FILES) if "/" in name]
    wanted = [name for name in fits if name not in off and not name.endswith(".md")]
    assert paths(prompt) == wanted[:most]
    assert ("are in" in warned(prompt)) == (len(wanted) > most)
    assert all(name in warned(prompt) for name in sorted(off & set(fits))[:5])
    said = " ".join(row.message for row in prompt.extras.events)
    assert ("docs/more.md" in said) == ("docs/more.md" not in off)


@pytest.mark.parametrize("name", ["nope.py", "settings.yml", "*.rs"])
def test_a_forced_name_that_fits_no_single_file_is_wrong_usage(name):
    with pytest.raises(UsageError):
        a1("Explain", named=[name])


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("there", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["docs/über.md", "über.md", "*über*"])
def test_a_forced_name_is_found_however_its_accents_are_written(name, there, written):
    names = ["docs/uber.md", unicodedata.normalize(there, "docs/über.md")]
    assert forced_paths(unicodedata.normalize(written, name), names) == names[1:]


def test_the_receipt_names_bytes_mode_and_size():
    (row,) = a1("Explain app.py").extras.files
    assert row.sha256 == hashlib.sha256(FILES["src/app.py"]).hexdigest()
    assert (row.mode, row.lines, row.home) == ("FULL", 2, ("demo", "src/app.py"))
    assert row.text == "def run():\n    return 1"


def test_the_threshold_flips_full_to_pack():
    size = a1("Explain big.py", full_max_tokens=10**6).extras.files[0]
    assert size.mode == "FULL"
    exact = size.tokens
    assert a1("Explain big.py", full_max_tokens=exact).extras.files[0].mode == "FULL"
    packed = a1("Explain big.py", full_max_tokens=exact - 1).extras.files[0]
    assert packed.mode == "PACK"
    assert packed.tokens < exact
    assert "lines omitted" in packed.text


def test_a_file_changed_since_ingestion_is_flagged():
    assert "changed since ingestion" in warned(a1("see app.py", manifest={"src/app.py": "0" * 64}))
    assert warned(a1("see app.py", manifest={"src/other.py": "0" * 64})) == ""


def test_a_file_that_is_no_text_is_left_out_with_a_warning():
    prompt = a1("see raw.bin.json")
    assert paths(prompt) == []
    assert "raw.bin.json is no text" in warned(prompt)
    assert "save it as text" in warned(prompt)


def test_the_pool_is_closed_and_twice_is_once():
    stage = FileInjector(Source(), ["demo"], HeuristicTokenCounter(), off=["notes.md"], lock=True)
    prompt = SuperPrompt(body={"task": "see app.py"})
    once = stage(prompt)
    assert once.extras.pool == Pool(("notes.md",), lock=True, closed=True)
    assert to_json(stage(once)) == to_json(once)


def test_a_lock_without_a_file_warns_and_off_keeps_the_pool():
    assert "lock is on" in warned(a1("why", lock=True))
    off = a1("see app.py", enabled=False, lock=True)
    assert paths(off) == []
    assert off.extras.pool.lock is True
    assert "switched off" in warned(a1("see it", enabled=False, named=["notes.md"]))
    assert "switched off" not in warned(a1("see app.py", enabled=False))


def test_several_projects_name_files_with_their_project():
    stage = FileInjector(Source(), ["one", "two"], HeuristicTokenCounter())
    prompt = SuperPrompt(body={"task": "see one/src/app.py"})
    assert paths(stage(prompt)) == ["one/src/app.py"]
