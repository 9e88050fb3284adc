"""The answer of a model: who is asked and what is sent, the words as they come, what they cite.

What is sent is the Super-Prompt that the page shows, and only by *Send*. The answer comes in a
background job: a rerun of the page looks at it again and starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.output.stages import usage_text
from ragstream_app.page.jobs.answers import AnswerJob
from ragstream_app.page.panels import citations, copying, model_choice
from ragstream_app.page.panels.history import choice
from ragstream_app.page.panels.shared import (
    desk,
    report,
    show_error,
    shown_errors,
    super_prompt_key,
)
from ragstream_core.answers.citations import numbered
from ragstream_core.errors import ChatFailed, UsageError
from ragstream_core.text.markup import answer_html

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Answer, Prepared
    from ragstream_core.ports import ChatModel
    from ragstream_core.prompts.made_prompt import MadePrompt


# Characters of an answer that are drawn; *Save* has all of it.
MAX_SHOWN = 60_000


def show_result(found: AnswerJob) -> None:
    """Show the answer with its citations, or why there is none.

    Args:
        found: A job that has ended.
    """
    if found.result is None:
        _failed(found)
        return
    left, right = st.columns([5, 4], gap="medium")
    with left:
        doubt(found.result)
        words(numbered(found.result.raw, found.prepared.issued, found.result.citations))
        for warning in found.result.warnings:
            st.text(f"warning: {warning}")
        _foot(found.result)
    with right:
        citations.show(found.result, found.prepared.issued)


def _failed(found: AnswerJob) -> None:
    if found.stopped:
        st.info("Stopped before the first word.")
    elif found.error is not None:
        show_error(found.error)
    if isinstance(found.error, ChatFailed) and found.prepared.session:
        st.text(f"The question is kept without an answer in session {found.prepared.session}.")


def _foot(answer: Answer) -> None:
    """Show who answered, at what cost, where it is kept, and the text to take along."""
    line, plain, save = st.columns([5, 1, 1], gap="small", vertical_alignment="center")
    line.text(" · ".join(facts(answer)))
    with plain:
        copying.offer(answer.text, key="copy answer")
    name = f"answer-{answer.prompt_key[:12] or 'not-kept'}.md"
    save.download_button("Save", answer.text, name, width="stretch", on_click="ignore")


def facts(answer: Answer) -> list[str]:
    """Return what is known about an answer, as short texts."""
    parts = [f"{answer.status}, {answer.model}" if answer.model else "no model was asked"]
    parts += [usage_text(answer.usage)] if answer.usage and answer.model else []
    parts += [f"agents before: {usage_text(answer.agents)}"] if answer.agents else []
    parts += [f"prompt {answer.prompt_key[:12]}"] if answer.prompt_key else []
    return [*parts, f"kept in session {answer.session}" if answer.session else "not kept"]


def doubt(answer: Answer) -> None:
    """Say before an answer that the documents may not answer; an extract says so itself."""
    if answer.doubt and answer.origin not in ("extract", "refused"):
        st.warning(literal(answer.doubt))


def words(text: str) -> None:
    """Draw an answer, or what has come of it so far.

    Args:
        text: Its Markdown.
    """
    st.html(answer_html(text[:MAX_SHOWN]))
    if len(text) > MAX_SHOWN:
        st.text(f"… {len(text) - MAX_SHOWN:,} more characters: Save has them all")


JOB_KEY = "answer_job"
REFRESH_S = 0.3


def show() -> None:
    """Draw the panel."""
    step = desk().last
    if step is not None and step.text:
        with shown_errors():  # wrong settings of the provider
            _sending(step)
    elif job() is None:
        st.text("Build the prompt first, then send it here.")
    found = job()
    if found is None:
        return
    if found.running:
        st.fragment(watch, run_every=REFRESH_S)()
    else:
        show_result(found)


def job() -> AnswerJob | None:
    """Return the newest answer of this tab, on its way or here."""
    found: AnswerJob | None = st.session_state.get(JOB_KEY)
    return found


def watch() -> None:
    """Show what has come so far; at the end draw the page again, once."""
    found = job()
    if found is None or not found.running:
        st.rerun()
        return
    line, stop = st.columns([5, 1], gap="small", vertical_alignment="center")
    line.text("Stopping …" if found.stopped else f"{_asked(found)} is answering …")
    stop.button("Stop", on_click=found.stop, disabled=found.stopped, width="stretch")
    words(found.text)


def _sending(step: MadePrompt) -> None:
    """Draw who is asked, what it costs and *Send*; or the one thing that stands in its way."""
    asked = model_choice.model()
    hindrance = model_choice.hindrance(asked)
    prepared = None if hindrance else _prepared(step, asked)
    send, told = st.columns([1, 9], gap="small", vertical_alignment="bottom")
    with told:
        if prepared is not None:
            model_choice.tell(prepared)
        elif hindrance:
            st.info(hindrance)
        allowed = prepared is not None and model_choice.secrets_allowed(prepared)
    send.button(
        "Send",
        help="Sends the Super-Prompt and keeps question and answer in the conversation.",
        type="primary",
        width="stretch",
        disabled=prepared is None or not (allowed and _is_shown(prepared)) or _is_busy(),
        on_click=on_send,
        args=(prepared, allowed),
    )


def on_send(prepared: Prepared, allow_secrets: bool) -> None:
    """Ask the model; a second press while an answer is on its way does nothing.

    Args:
        prepared: What is sent.
        allow_secrets: Send it even though it seems to contain secrets.
    """
    if _is_busy():
        return
    report(None)
    if not _is_shown(prepared):  # an edit and the press came together
        again = "look at it once more, then press Send"
        report(UsageError("the Super-Prompt changed just now; nothing was sent", hint=again))
        return
    st.session_state[citations.OPEN_KEY] = None
    choice.join(prepared.session)
    st.session_state[JOB_KEY] = AnswerJob(
        choice.home(), prepared, allow_secrets=allow_secrets
    ).start()


def _is_shown(prepared: Prepared) -> bool:
    """Whether what would be sent is what the page shows at this moment."""
    step, text = desk().last, prepared.prompt.extras.super_prompt
    if step is None or step.super_prompt is not prepared.prompt:
        return False
    return bool(st.session_state.get(super_prompt_key(), text) == text)


def _prepared(step: MadePrompt, asked: ChatModel) -> Prepared | None:
    """Return what would be sent, made again only when something of it changed."""
    from ragstream_core.prompts.inputs import inputs_of
    from ragstream_core.wiring import answering

    known = st.session_state.get("answer_prepared")
    session = inputs_of(step.super_prompt).history.session or choice.chosen()
    of = (model_choice.chosen(), session, choice.persisting())
    if known and known[0] is step.super_prompt and known[1] == of:
        found: Prepared = known[2]
        return found
    made = None
    with shown_errors():
        made = answering.prepare(
            choice.home(),
            step.super_prompt,
            prompt_key=step.key,
            session=session,
            model=asked,
        )
        st.session_state["answer_prepared"] = (step.super_prompt, of, made)
    return made


def _asked(found: AnswerJob) -> str:
    return found.prepared.model.name if found.prepared.model else "No model"


def _is_busy() -> bool:
    found = job()
    return found is not None and found.running
