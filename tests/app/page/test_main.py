"""The page, driven without a browser: one button and eight stages, nothing without a click."""

import re
import tomllib

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates

from ragstream_app.output import markup
from ragstream_app.page.panels import transparency
from ragstream_app.page.prompt_session import LABELS, PromptSession, press
from ragstream_core.prompts.chain import BUTTONS, ops_of
from tests.app.page_driver import QUESTION, ROOT, area, ask, click, desk

SEED_ORDER = [
    "PreProcessing", "A2 PromptShaper", "Retrieval", "ReRanker",
    "A3 NLI Gate", "A4 Condenser", "A5 Format Enforcer", "Prompt Builder",
]  # fmt: skip


def test_title_and_two_areas(page):
    assert page.title[0].value == "RAGstream"
    assert [a.label for a in page.text_area][:2] == ["Prompt", "Super-Prompt"]


def test_one_button_stands_out_and_builds_the_prompt(page):
    (first,) = stands_out(page)
    assert first.label == "Build prompt" and first.proto.shortcut == "ctrl+enter"


def test_eight_stages_in_seed_order_by_plain_names(page):
    assert list(BUTTONS) == list(LABELS) == SEED_ORDER
    (steps,) = [e for e in page.expander if e.label == "Step by step"]
    assert [b.label for b in steps.button] == list(LABELS.values())
    assert [b.help.partition(":")[0] for b in steps.button] == SEED_ORDER
    assert not steps.proto.expanded and not any(b.proto.type == "primary" for b in steps.button)
    click(ask(page), SEED_ORDER[0])
    assert [b.label for b in stands_out(page)] == ["Build prompt", LABELS[SEED_ORDER[1]]]


def stands_out(page):
    """Return the primary buttons of the view Prompt."""
    return [b for b in page.button if b.proto.type == "primary" and b.label not in ("Draw", "Ask")]


def test_nothing_runs_without_a_click(page, indexed):
    ask(page).run()
    assert desk(page).steps == {} and area(page, "Super-Prompt").value in ("", None)
    assert not (indexed / "prompts").exists()


def test_each_button_advances_its_own_stage(page):
    ask(page)
    for number, button in enumerate(BUTTONS, start=1):
        click(page, button)
        found = desk(page)
        assert list(found.steps) == list(BUTTONS[:number])
        ran = {op for op, _ in found.last.super_prompt.extras.trail}
        assert ran == {op for b in BUTTONS[:number] for op in ops_of(b)}
        assert area(page, "Super-Prompt").value
    assert desk(page).last.key
    assert area(page, "Super-Prompt").value == desk(page).last.super_prompt.extras.super_prompt


def test_run_all_equals_the_eight_clicks(page):
    ask(page)
    for button in BUTTONS:
        click(page, button)
    one_by_one = area(page, "Super-Prompt").value
    click(page, "Build prompt")
    assert area(page, "Super-Prompt").value == one_by_one
    assert QUESTION in one_by_one


def test_the_page_and_the_command_line_agree(page, run):
    import json

    click(ask(page), "Build prompt")
    made = json.loads(run("prompt", QUESTION, "-p", "manual", "--json")[1])
    assert area(page, "Super-Prompt").value == made["super_prompt"]


@pytest.mark.parametrize("button", BUTTONS[1:])
def test_a_button_out_of_order_names_the_missing_one(page, button):
    click(ask(page), button)
    assert desk(page).steps == {}
    assert len(page.error) == 1
    assert "needs Read first" in page.error[0].value


def test_pressing_again_replaces_the_step_and_drops_later_ones(page):
    ask(page)
    for button in BUTTONS[:5]:
        click(page, button)
    before = desk(page).steps["Retrieval"].super_prompt.extras.trail
    click(page, "Retrieval")
    assert list(desk(page).steps) == list(BUTTONS[:3])
    assert desk(page).last.super_prompt.extras.trail == before


def test_an_unexpected_error_is_a_message_without_traceback(page, monkeypatch):
    from ragstream_core.wiring import prompt_inputs

    def explode(self, request, now=None):
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(prompt_inputs, "pin_inputs", explode)
    click(ask(page), "PreProcessing")
    assert "ZeroDivisionError: canary" in page.error[0].value
    assert "Traceback" not in page.error[0].value and desk(page).steps == {}


def test_lock_and_injected_file_reach_the_run(page):
    inject = next(m for m in page.multiselect if m.label.startswith("Inject"))
    assert "manual/settings.yaml" in inject.options
    inject.set_value(["manual/settings.yaml"])
    next(t for t in page.toggle if t.label == "Exact File Lock").set_value(True)
    click(ask(page), "Build prompt")
    prompt = desk(page).last.super_prompt
    assert [f.path for f in prompt.extras.files] == ["settings.yaml"]
    assert prompt.final_selection_ids == [] and not prompt.views_by_stage.get("retrieval")


def test_a_file_switched_off_is_not_retrieved(page):
    box = next(c for c in page.checkbox if "guide/locks.md" in c.label)
    box.uncheck().run()
    click(ask(page), "Build prompt")
    ids = desk(page).last.super_prompt.views_by_stage["retrieval"]
    assert ids and not any(i.startswith("guide/locks.md::") for i in ids)
    next(b for b in page.button if b.label == "All ON").click()
    click(page.run(), "Build prompt")
    ids = desk(page).last.super_prompt.views_by_stage["retrieval"]
    assert any(i.startswith("guide/locks.md::") for i in ids)


def test_a_changed_prompt_is_said_to_be_not_taken_in_yet(page):
    click(ask(page), "Build prompt")
    assert not any(
        "Changed since: the prompt. Build prompt takes it in." in t.value for t in page.text
    )
    ask(page, "Something else entirely").run()
    assert any("Changed since: the prompt. Build prompt takes it in." in t.value for t in page.text)


def test_the_decision_table_has_a_row_and_a_reason_a_candidate(page):
    click(ask(page), "Build prompt")
    prompt = desk(page).last.super_prompt
    rows = transparency.last_decisions(prompt)
    assert {row["chunk_id"] for row in rows} == set(prompt.views_by_stage["retrieval"])
    assert all(row["rule"] and row["reason"] for row in rows)
    kept = {row["chunk_id"] for row in rows if row["kept"] == "in"}
    assert set(prompt.final_selection_ids) <= kept
    assert list(page.dataframe[0].value["chunk_id"]) == [row["chunk_id"] for row in rows]


def test_the_citation_table_leads_from_short_id_to_chunk(page):
    click(ask(page), "Build prompt")
    prompt = desk(page).last.super_prompt
    rows = transparency.citation_rows(prompt.extras.citations)
    assert {row["chunk"] for row in rows} == set(prompt.final_selection_ids)
    assert all(row["short id"] in prompt.extras.super_prompt for row in rows)
    assert list(page.dataframe[1].value["short id"]) == [row["short id"] for row in rows]


@pytest.mark.parametrize(
    "name", ["a.md", "`x`.md", "``", "![i](http://evil/x.png).md", "<img src=x>.md", "a\nb.md"]
)
def test_file_names_are_shown_and_not_rendered(name):
    from markdown_it import MarkdownIt

    tokens = MarkdownIt().parseInline(markup.literal(name))[0].children
    assert [t.type for t in tokens] == ["code_inline"]
    assert tokens[0].content == name.replace("\n", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    "name",
    ["guide/locks.md", "a_b.md", "_a_.md", "*a*.md", "1. a.md", "- a.md", "www.evil.invalid",
     "a--b.md", "`x`.md", "[x](y).md", ":red[x].md", "a  b.md ", "~~a~~", "$x$", "<b>.md",
     "é/ü 1.md"],
)  # fmt: skip
def test_a_name_is_shown_plainly_only_where_nothing_of_it_means_anything(name):
    from markdown_it import MarkdownIt

    shown = MarkdownIt("gfm-like", {"linkify": False}).parseInline(markup.named(name))[0].children
    assert len(shown) == 1 and shown[0].type in ("text", "code_inline")
    assert shown[0].content == name
    plain = re.fullmatch(r"(\w+/)*\w[\w ]*(\.md)?", name) and "www" not in name
    assert (markup.named(name) == name) is bool(plain and not name.startswith(("_", "1.")))


def test_documents_are_never_rendered():
    app = ROOT / "ragstream_app"
    sources = [path.read_text() for path in (app / "page").rglob("*.py")]
    assert len(sources) > 5
    for source in sources:
        for call in ("st.markdown", "st.write", "unsafe_allow_html", "st.caption", "st.latex"):
            assert call not in source


def test_press_leaves_the_desk_alone_on_an_error(indexed):
    from ragstream_core.errors import UsageError
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.workspace import open_workspace

    mine, request = PromptSession(), PromptRequest(QUESTION, ("manual",))
    with pytest.raises(UsageError, match="Search needs Read first"):
        press(mine, "Retrieval", request, open_workspace())
    assert mine == PromptSession()


def test_the_page_s_settings_are_the_same_from_us_and_from_the_file(data):
    from ragstream_app.server.access import page_access
    from ragstream_app.server.page import options
    from ragstream_core.config import AppConfig

    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    colours = settings.pop("theme")
    settings |= {f"theme.{mode}": values for mode, values in colours.items()}
    in_file = {
        f"{s}.{key}": value for s, values in settings.items() for key, value in values.items()
    }
    assert set(colours) == {"light", "dark"}
    assert options(page_access(AppConfig.load())) == in_file
    assert in_file["server.address"] == "127.0.0.1" and not in_file["browser.gatherUsageStats"]


def test_a_control_that_is_late_in_a_browser_begins_with_its_value(page):
    """A quick click draws the page again before a browser has drawn all of it the first time."""
    first = begun(page)
    page._run(WidgetStates())  # as a browser asks for it that has no control's value yet
    assert begun(page) == first
    assert {"persist", "projects", "set rerank.keep", "set agents.a3", "task"} <= set(first)
    assert first["persist"] is True and first["set agents.a3"] is True


def begun(page):
    """Return what a browser shows in each control that it has not drawn before, by its key."""
    found = {}
    for element in page._tree:
        proto = getattr(element, "proto", None)
        if not getattr(element, "key", None) or not hasattr(proto, "set_value"):
            continue
        options = [getattr(given, "content", given) for given in getattr(proto, "options", ())]
        names = [name for name in ("raw_values", "raw_value", "value") if hasattr(proto, name)]
        shown = getattr(proto, names[0] if proto.set_value else "default")
        if options and not proto.set_value:
            shown = [options[n] for n in shown] if hasattr(shown, "__len__") else options[shown]
        found[element.key] = list(shown) if hasattr(shown, "append") else shown
    return found


@pytest.mark.parametrize("address", [None, "0.0.0.0", "192.168.1.5"])
def test_a_page_open_to_the_network_is_refused(page, address):
    from streamlit import config

    config.set_option("server.address", address)
    page.run()
    assert "open to the network" in page.error[0].value and not page.text_area


def test_css_hides_the_chrome_and_is_tight():
    css = (ROOT / "ragstream_app" / "page" / "page.css").read_text()
    assert "stHeader" in css and "display: none" in css and "stToolbar" in css
    assert "block-container" in css and "gap" in css
