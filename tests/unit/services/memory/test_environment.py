"""Each `MEMORY_*` variable of the environment has its effect (R-250), and so has each setting."""

import pytest

from ragstream_core.conversations.digest import turns_of
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UnknownSetting
from ragstream_core.prompts.inputs import DIGEST, PromptRequest
from ragstream_core.settings import SECTIONS
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.prompt_inputs import pin_inputs
from tests.unit.services.memory.conftest import QUESTION, chat, opened

GIVEN = {
    "enabled": "true", "cache": "false", "index_name": "mine", "top_k": "2", "max_tokens": "90",
    "max_chars": "800",
    "summary_tokens": "77", "summary_form": "llm", "rolling_window": "2", "cache_min_score": "0.5",
    "cache_match": "words",
}  # fmt: skip


def with_memory(monkeypatch, root, **names):
    for name, value in names.items():
        monkeypatch.setenv(f"MEMORY_{name.upper()}", value)
    return opened(root)


def test_every_setting_of_the_section_has_a_variable(monkeypatch, tmp_path):
    assert set(GIVEN) == set(SECTIONS["memory"].model_fields)
    section = with_memory(monkeypatch, tmp_path, **GIVEN).config.settings.memory
    assert {name: str(value).lower() for name, value in section.model_dump().items()} == GIVEN


def test_enabled_and_index_name_say_whether_and_where_it_is_kept(monkeypatch, space, tmp_path):
    chat(space, settings={}).ask(QUESTION)
    assert not space.layout.memory.exists()
    here = with_memory(monkeypatch, tmp_path, enabled="1", index_name="mine")
    chat(here, settings={}).ask(QUESTION)
    names = {path.name for path in here.layout.memory.glob("[!.]*")}
    assert names == {"mine.vectors", "mine_summary.json", "mine_summary.md"}


def test_cache_and_its_score_say_when_an_answer_is_given_again(monkeypatch, space, tmp_path):
    near = "Who holds the project lock of the catalog, please?"
    for given, origin in (
        ({"enabled": "1"}, "cached"),
        ({"enabled": "1", "cache": "0"}, "model"),
        ({"enabled": "1", "cache": "1", "cache_min_score": "1.0"}, "model"),
    ):
        here = with_memory(monkeypatch, tmp_path, **given)
        talk = chat(here, settings={"retrieval.top_k": len(given) + 3})
        talk.ask(QUESTION)
        assert talk.ask(near if "1.0" in given.values() else QUESTION).origin == origin


def test_match_says_how_near_the_words_must_be(monkeypatch, space, tmp_path):
    more = "Who holds the project lock of the catalog under Linux?"
    other = "Who may drop the project lock of the catalog?"
    expected = {"words": ("model", "model"), "paraphrase": ("cached", "model"),
                "score": ("cached", "cached")}  # fmt: skip
    for depth, (match, origins) in enumerate(expected.items()):
        given = {"enabled": "1", "cache_match": match, "cache_min_score": "0.3"}
        here = with_memory(monkeypatch, tmp_path, **given)
        for asked, origin in zip((more, other), origins, strict=True):
            talk = chat(here, settings={"retrieval.top_k": 10 + 2 * depth + (asked == more)})
            assert talk.ask(QUESTION).origin == "model"
            assert talk.ask(asked).origin == origin


@pytest.mark.parametrize(
    ("window", "tokens", "most"), [("2", "256", 2), ("4", "256", 4), ("9", "32", 1)]
)
def test_window_and_tokens_bound_the_digest(monkeypatch, space, tmp_path, window, tokens, most):
    for n in range(8):
        append_turn(space, Turn("", "s", "", f"Gate {n}?", f"It is number {n}."))
    here = with_memory(
        monkeypatch, tmp_path, enabled="1", rolling_window=window, summary_tokens=tokens
    )
    digest = pin_inputs(here, PromptRequest(QUESTION, ("demo",))).texts.get(DIGEST, "")
    assert len(turns_of(digest)) == most


def test_a_name_that_is_no_file_name_is_refused(monkeypatch, tmp_path):
    for name in ("../x", "a/b", "", ".hidden"):
        with pytest.raises(UnknownSetting):
            with_memory(monkeypatch, tmp_path, index_name=name)
