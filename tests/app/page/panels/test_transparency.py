"""A press runs in the background; what the panels below say of it; where its runs are."""

import threading
from dataclasses import replace

import pytest

from ragstream_app.page.jobs import presses
from ragstream_app.page.jobs.ingests import IngestJobs
from ragstream_app.page.panels import first_steps, preview, prompt, transparency
from ragstream_app.page.prompt_session import BUILD, LABELS, PromptSession
from ragstream_core.prompts.chain import BUTTONS, OPS
from ragstream_core.prompts.exchanges import usage_of
from ragstream_core.wiring import stages
from tests.app.page_driver import (
    QUESTION,
    area,
    ask,
    choose_row,
    click,
    control,
    desk,
    open_page,
    run,
    said,
)


@pytest.fixture
def slow(monkeypatch):
    """Stages that wait to be let go, and a page that does not wait for them."""
    go, entered = threading.Event(), []
    real = stages.make_stage

    def stage(self, op, prompt, **more):
        entered.append(op)
        assert go.wait(240)
        return real(self, op, prompt, **more)

    monkeypatch.setattr(stages, "make_stage", stage)
    monkeypatch.setattr(presses, "PATIENCE_S", 0.0)
    yield go, entered
    go.set()


def pressed(page):
    return [b for b in page.button if b.label in (*LABELS.values(), BUILD)]


def test_a_slow_press_shows_progress_and_a_rerun_attaches_to_it(page, slow):
    go, entered = slow
    click(ask(page), "Build prompt")
    job = desk(page).job
    assert all(b.disabled for b in pressed(page))
    assert any(LABELS[BUTTONS[0]] in p.text for p in page.get("progress"))
    for _ in range(3):
        run(page)
        assert presses.start(desk(page), "Build prompt", None, None) is job
    assert desk(page).job is job and entered.count(OPS[0]) <= 1
    assert area(page, "Prompt").value == QUESTION
    go.set()
    assert job.wait(240)
    run(page)
    assert not any(b.disabled for b in pressed(page)) and not page.get("progress")[1:]
    assert QUESTION in area(page, "Super-Prompt").value
    assert entered.count(OPS[0]) == 1


def test_what_a_slow_press_raises_becomes_a_message(page, monkeypatch):
    def explode(self, op, prompt, **more):
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(stages, "make_stage", explode)
    monkeypatch.setattr(presses, "PATIENCE_S", 0.0)
    click(ask(page), "PreProcessing")
    desk(page).job.wait(240)
    run(page)
    assert "ZeroDivisionError: canary" in page.error[0].value
    run(page)
    assert len(page.error) == 1


def test_a_setting_changed_on_the_way_applies_at_the_next_button(page):
    for button in BUTTONS[:2]:
        click(ask(page), button)
    control(page, "number_input", "Top-K").set_value(2)
    for button in BUTTONS[2:4]:
        click(run(page), button)
    views = desk(page).last.super_prompt.views_by_stage
    assert len(views["retrieval"]) > len(views["reranked"]) == 2
    assert list(desk(page).steps) == list(BUTTONS[:4])


def test_transparency_is_ephemeral(page, indexed):
    click(ask(page), "Build prompt")
    first = desk(page).last.super_prompt
    rows = transparency.last_decisions(first)
    reasons = {row["reason"] for row in rows}
    text = first.extras.super_prompt
    assert reasons and not any(reason in text for reason in reasons)
    click(page, "Build prompt")
    assert desk(page).last.super_prompt.extras.super_prompt == text
    history = [p for p in (indexed / "history").rglob("*") if p.is_file()]
    kept = b"".join(p.read_bytes() for p in history)
    assert not any(reason.encode() in kept for reason in reasons)


def test_the_decisions_are_filtered(page):
    click(ask(page), "Build prompt")
    rows = transparency.last_decisions(desk(page).last.super_prompt)
    kept = [row["chunk_id"] for row in rows if row["kept"] == "in"]
    dropped = [row["chunk_id"] for row in rows if row["kept"] == "out"]
    for choice, wanted in (("kept", kept), ("dropped", dropped), ("all", [*kept, *dropped])):
        control(page, "button_group", "Which candidates").set_value(choice)
        shown = run(page).dataframe[0].value
        assert sorted(shown["chunk_id"]) == sorted(wanted)


def test_the_decisions_say_what_is_answered_and_what_was_left_out(page):
    click(ask(page), "Build prompt")
    prompt = desk(page).last.super_prompt
    told = transparency.told_of(prompt)
    assert [line.split(":")[0] for line in told][: len(prompt.extras.answers)] == [
        f"{answer.piece_id} {answer.word}" for answer in prompt.extras.answers
    ]
    ended = [d for d in prompt.extras.decisions if d.rule == "evidence_ends"]
    said = [line for line in told if "the evidence ends" in line]
    assert ended and len(said) == 1 and f"ends: {len(ended)} passages" in said[0]
    assert any("\n".join(told) == text.value for text in page.text)


def chosen_passage(page):
    return [code.value for code in page.code]


def test_a_chosen_candidate_stays_chosen_whatever_row_it_is_in(page):
    click(ask(page), "Build prompt")
    rows = transparency.last_decisions(desk(page).last.super_prompt)
    first = rows[0]["chunk_id"]
    choose_row(page, "decisions ", 0)
    (text,) = chosen_passage(page)
    assert text == transparency.passage(desk(page).last.super_prompt, first)
    page.session_state["prompt_text"] = "Where do deleted documents and the vector file go?"
    click(run(page), "Build prompt")
    now = [row["chunk_id"] for row in transparency.last_decisions(desk(page).last.super_prompt)]
    assert now.index(first) > 0 and chosen_passage(page) == [text]


def test_no_row_is_chosen_where_the_candidate_is_not_there_any_more(page):
    click(ask(page), "Build prompt")
    rows = transparency.last_decisions(desk(page).last.super_prompt)
    choose_row(page, "decisions ", 0)
    assert len(chosen_passage(page)) == 1
    name = f"manual/{rows[0]['chunk_id'].partition('::')[0]}"
    page.session_state["files_off"] = {name}
    click(run(page), "Build prompt")
    assert chosen_passage(page) == []


def test_the_passage_of_a_row_is_the_candidate_s_text(page):
    click(ask(page), "Build prompt")
    prompt = desk(page).last.super_prompt
    for row in transparency.last_decisions(prompt):
        chunk = next(c for c in prompt.base_context_chunks if c.id == row["chunk_id"])
        assert transparency.passage(prompt, row["chunk_id"]) == chunk.snippet != ""
    assert transparency.passage(prompt, "nothing") == ""
    tokens_of = {row["chunk_id"]: row["tokens"] for row in transparency.last_decisions(prompt)}
    assert all(tokens_of[i] for i in prompt.final_selection_ids)


def test_every_op_has_its_time(page):
    click(ask(page), "Build prompt")
    rows = transparency.time_rows(desk(page).steps)
    assert {row["op"] for row in rows} == set(OPS)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_what_the_agents_took_stands_beside_their_time(page, script, monkeypatch):
    click(ask(page), "Build prompt")
    assert not any("language model" in row for row in transparency.time_rows(desk(page).steps))
    script({"say": "no JSON"})
    monkeypatch.setenv("RAGSTREAM_AGENTS__A2_FORM", "llm")
    monkeypatch.setenv("RAGSTREAM_AGENTS__AUDIT_FORM", "llm")
    page = open_page()
    click(ask(page), "Build prompt")
    rows = {row["op"]: row["language model"] for row in transparency.time_rows(desk(page).steps)}
    assert [op for op in OPS if rows[op]] == ["a2_prompt_shaper", "a2_audit"]
    assert all("asked scripted: " in rows[op] and "not taken" in rows[op] for op in OPS if rows[op])
    usage = usage_of(desk(page).last.super_prompt)
    total = f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens · free"
    assert f"ms in all stages · {total}" in said(page)


def test_the_tokens_are_told_by_block_and_by_file(page):
    assert "Build the prompt first, then its tokens are counted here." in said(page)
    click(ask(page), "Build prompt")
    prompt = desk(page).last.super_prompt
    tree = prompt.extras.token_tree
    assert any(f"{tree.total:,} of 6,000 tokens" in p.text for p in page.get("progress"))
    files = dict(preview.by_file(prompt))
    chunks = [c for c in prompt.base_context_chunks if c.id in prompt.final_selection_ids]
    assert set(files) == {f"manual/{c.source}" for c in chunks}
    assert list(files.values()) == sorted(files.values(), reverse=True)
    (attached,) = [block for block in tree.blocks if block.name == "ATTACHMENTS"]
    assert sum(files.values()) == sum(part.tokens for part in attached.parts)
    assert sum(block.tokens for block in tree.blocks) == tree.total


def test_the_first_paint_loads_nothing_heavy(indexed, spawn):
    code = (
        "import sys\n"
        "from tests.app.page_driver import open_page, said\n"
        "print(said(open_page()))\n"
        "heavy = 'numpy pandas pyarrow altair dagster onnxruntime torch chromadb openai'.split()\n"
        "print('loaded', [name for name in heavy if name in sys.modules])\n"
    )
    done = spawn(code=code)
    assert "loaded []" in done.stdout, done.stderr
    assert "not built yet" in done.stdout


def test_a_text_that_was_not_drawn_yet_is_no_edit(page):
    click(ask(page), "PreProcessing")
    late = area(page, "Super-Prompt").id
    click(page, "Build prompt")
    text = area(page, "Super-Prompt").value
    assert area(page, "Super-Prompt").id != late  # what a browser sends for the old one is lost
    assert run(page) and area(page, "Super-Prompt").value == text
    assert desk(page).last.unedited is None


def test_a_press_that_ends_while_the_page_is_drawn_is_shown(page, slow, monkeypatch):
    go, _ = slow
    click(ask(page), BUTTONS[0])
    job = desk(page).job

    def ends_here():
        go.set()
        assert job.wait(240)

    monkeypatch.setattr(first_steps, "show", ends_here)
    run(page)
    assert QUESTION in area(page, "Super-Prompt").value
    assert not any(b.disabled for b in pressed(page))


def test_texts_that_were_never_drawn_do_not_pile_up(page, monkeypatch):
    def another_text():
        import streamlit as st

        for _ in range(3):
            st.session_state["shown"] = object()
            prompt.take_in_press()

    monkeypatch.setattr(first_steps, "show", another_text)
    click(ask(page), BUTTONS[0])
    run(page)
    names = [name for name in page.session_state if name.startswith("super_prompt ")]
    assert len(names) == 1


def test_the_budget_is_that_of_the_button_that_built(page):
    click(ask(page), "Build prompt")
    control(page, "number_input", "Token budget").set_value(8000)
    click(page, BUTTONS[-1])
    assert any("of 8,000 tokens" in bar.text for bar in page.get("progress"))


def test_a_thread_that_cannot_start_leaves_no_press_behind(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    mine, ingests = PromptSession(), IngestJobs()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError):
            presses.start(mine, BUTTONS[0], None, None)
        with pytest.raises(RuntimeError):
            ingests.start(None, "manual")
    assert mine.job is None and ingests.of("manual") is None


def test_the_text_is_not_edited_under_a_press_at_work(page, slow):
    go, _ = slow
    go.set()
    click(ask(page), "Build prompt")
    assert desk(page).job.wait(240) and not area(run(page), "Super-Prompt").disabled
    go.clear()
    click(page, BUTTONS[-1])
    assert area(page, "Super-Prompt").disabled
    go.set()
    assert desk(page).job.wait(240) and not area(run(page), "Super-Prompt").disabled


def test_what_is_wrong_with_the_record_of_an_earlier_button_is_said(page):
    click(ask(page), BUTTONS[0])
    steps = desk(page).steps
    steps[BUTTONS[0]] = replace(steps[BUTTONS[0]], notes=("the record could not answer",))
    click(page, BUTTONS[1])
    assert said(page).count("the record could not answer") == 1
