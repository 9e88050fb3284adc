"""The Super-Prompt rendered: blocks, evidence, budget; a source opens its passage beside it."""

import pytest

from ragstream_app.output.markup import passage_html
from ragstream_app.page.panels import preview
from ragstream_core.library import RAGstream
from ragstream_core.prompts.outline import outline, titled
from ragstream_core.prompts.prompt_html import budget_html
from ragstream_core.services.history_update import catch_up
from ragstream_core.services.passages import Line
from ragstream_core.text.markup import visible
from tests.app.hostile_answers import HOST, PAYLOADS, Drawn, read
from tests.app.model_answers import QUESTION
from tests.app.page_driver import area, ask, click, control, desk, open_page, passage, run, said
from tests.workspaces import write_docs


@pytest.fixture
def shown(page):
    """The page with a finished prompt, rendered."""
    return choose(click(ask(page), "Build prompt"), preview.RENDERED)


def choose(page, view):
    """Choose how the Super-Prompt is shown."""
    control(page, "button_group", "View of the Super-Prompt").set_value(view)
    return run(page)


def prompt_of(page):
    return desk(page).last.super_prompt


def sources(page):
    """Return the buttons that open a passage, in order."""
    return [b for b in page.button if str(b.key).startswith("rendered ")]


def html(page):
    """Return what the HTML of the page says; it is checked on the way."""
    bodies = [element.proto.body for element in page.get("html")]
    return "\n".join(read(body, Drawn) for body in bodies if not body.startswith("<style"))


def test_a_built_prompt_is_shown_rendered_until_raw_is_chosen(page):
    assert control(page, "button_group", "View of").disabled
    click(ask(page), "PreProcessing")
    assert not sources(page)
    click(ask(page), "Build prompt")
    assert not control(page, "button_group", "View of").disabled
    assert sources(page)
    choose(page, preview.RAW)
    assert not sources(page)
    click(page, "Build prompt")
    assert not sources(page)
    assert area(page, "Super-Prompt").value == prompt_of(page).extras.super_prompt


def test_every_block_folds_and_the_bar_adds_up(shown):
    blocks, text = outline(prompt_of(shown)), html(shown)
    labels = [e.label for e in shown.expander if e.label.startswith("**")]
    assert len(labels) == len(blocks) and any("**Evidence**" in label for label in labels)
    assert all(f"{b.tokens:,} tokens" in one for b, one in zip(blocks, labels, strict=True))
    total = prompt_of(shown).extras.token_tree.total
    assert f"{total:,} of " in text and f"{6000 - total:,} left" in text


def test_statements_and_evidence_stand_with_their_sources(shown):
    text, facts = html(shown), said(shown)
    for block in outline(prompt_of(shown)):
        for item in block.statements:
            assert item.number in text and item.text in text
        for quoted in block.quotations:
            assert quoted.text in text and f"{quoted.tokens:,} tokens" in facts
    assert "lines 1–7 · score " in facts


def test_a_source_opens_its_passage_with_the_statement_marked_and_closes_it(shown):
    block = next(b for b in outline(prompt_of(shown)) if b.statements)
    item = next(s for s in block.statements if s.cited)
    button = next(b for b in sources(shown) if b.label.strip("`") == item.cited[0][1])
    button.click()
    run(shown)
    marked = "".join(line for line in passage(shown) if "«" in line)
    assert item.text.split()[0] in marked and "»" in marked
    assert "manual/guide/" in said(shown) and "index version 1" in said(shown)
    next(b for b in sources(shown) if b.key == button.key).click()
    assert not passage(run(shown))
    next(b for b in sources(shown) if b.key == button.key).click()
    assert passage(run(shown))
    click(shown, "Close")
    assert not passage(shown)


def test_a_passage_is_closed_by_another_prompt_and_by_the_raw_view(shown):
    for leave in (
        lambda: choose(shown, preview.RAW),
        lambda: click(ask(shown, "What is a commit of the catalog?"), "Build prompt"),
    ):
        choose(shown, preview.RENDERED)
        sources(shown)[0].click()
        assert passage(run(shown))
        leave()
        assert not passage(shown)


def test_what_is_copied_and_edited_stays_the_raw_text(shown):
    raw = prompt_of(shown).extras.super_prompt
    assert area(shown, "Super-Prompt").value == raw
    area(shown, "Super-Prompt").set_value("Before.\n" + raw)
    run(shown)
    assert prompt_of(shown).extras.super_prompt == "Before.\n" + raw
    assert any("before the first section" in e.label for e in shown.expander)
    assert "Before." in html(shown)


def test_hostile_documents_stay_text(indexed, run):
    says = "The exact file lock does restrict a prompt."
    docs = {
        f"![x](y) <b>{n}.md": f"# {says}\n\n{says} {payload}\n"
        for n, payload in enumerate(one for one in PAYLOADS if "\0" not in one)
    }
    write_docs(indexed, "manual", docs)
    assert run("ingest", "manual")[0] == 0
    page = choose(click(ask(open_page()), "Build prompt"), preview.RENDERED)
    evidence = [q for block in outline(prompt_of(page)) for q in block.quotations]
    assert len(evidence) >= 3 and HOST in html(page)
    for key in [b.key for b in sources(page)]:
        next(b for b in sources(page) if b.key == key).click()
        page.run()
        assert passage(page) and html(page)


def test_marked_words_are_cut_at_the_ends_of_lines():
    lines = [Line(1, "before", False), Line(2, "one two", True), Line(3, "three <b>", True)]
    assert passage_html(lines, [(4, 13)]) == (
        "<table><tr><th>1</th><td>before</td></tr>"
        '<tr class="cited"><th>2</th><td>one <mark>two</mark></td></tr>'
        '<tr class="cited"><th>3</th><td><mark>three</mark> &lt;b&gt;</td></tr></table>'
    )


def test_a_prompt_over_its_budget_is_said():
    shown = read(budget_html([("A <b>", 900), ("B", 200)], 1000), Drawn)
    assert "1,100 of 1,000 tokens · 100 too many" in shown and "A <b> 900" in shown
    assert read(budget_html([], 0), Drawn).startswith("0 of 0 tokens · 0 left")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_is_shown_as_it_is(payload):
    assert read(f"<div>{visible(payload)}</div>", Drawn).count(HOST) == payload.count(HOST)


def test_a_prompt_that_holds_a_conversation_is_rendered_to_its_end(page, environment):
    """Its place in a file was looked up as if the conversation were a project."""
    space = RAGstream(environment, settings={"embeddings.backend": "hashed"})
    space.history.append(QUESTION, "The pump weighs 40 kg, said Ada.", projects="manual")
    catch_up(space.history.workspace)
    choose(click(ask(page, QUESTION), "Build prompt"), preview.RENDERED)
    blocks = outline(prompt_of(page))
    (quoted,) = [
        q for b in blocks if b.name.startswith("RECENT") for q in b.quotations
    ]  # fmt: skip
    assert not page.exception and "cannot be a project name" not in said(page)
    assert any("**Task**" in e.label for e in page.expander)
    assert "said in a conversation" in said(page) and "said Ada" in html(page)
    (source,) = [b for b in sources(page) if quoted.source in b.label.replace("\\", "")]
    source.click()
    run(page)
    assert not page.exception and "said Ada" in html(page) + said(page)


def test_an_empty_block_stands_below_its_own_title(shown):
    text = html(shown)
    assert "###" not in text and "(none)" in text
    for title in ("Facts", "Constraints", "Open Issues"):
        assert title in text


def test_words_of_our_own_are_read_by_their_titles():
    part = "⚠ Nothing.\n\n### Facts\n(none)\n### Constraints\n(none)\n### Open Issues"
    assert titled(part) == [
        ("", "⚠ Nothing."), ("Facts", "(none)"), ("Constraints", "(none)"), ("Open Issues", ""),
    ]  # fmt: skip
