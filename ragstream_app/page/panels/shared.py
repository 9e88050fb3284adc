"""What the panels share: the workspace, the desk of the tab, its request, and its messages."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.prompt_session import PromptSession
from ragstream_app.server.processes import HOST
from ragstream_app.session import describe
from ragstream_core.config import quiet_environment
from ragstream_core.settings.layers import CHAT_TASK

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.workspace import Workspace


WORDS = (
    (r"^ragstream prompt \S+ -p PROJECT$", "write into Prompt what you want to know"),
    (r"^-p PROJECT; .*", "choose one under Projects in the sidebar"),
    (r"\bragstream ingest ([\w.-]+)$", r"press Ingest Folder of \1 in the sidebar"),
    (r"--set ([\w.]+)=(\S+)", r"write \1 = \2 under Other settings in the sidebar"),
    (r"leave (?:the|that) file out with --off(?: PATH)?", "switch the file OFF under Files"),
    (r"leave files out with --off", "switch files OFF under Files"),
    (r"send it with --allow-secrets", "tick the box that allows it"),
    (r"name what to inject with --file", "choose what to inject under Inject"),
    (r"\(--file forces them\)", "(Inject forces them)"),
    (r"^--file instead$", "choose it under Inject instead"),
    (r"^--as-of names .*", "As of generation is of one project; choose one"),
    (r"--off (?=\S+: )", "Files OFF: "),
    (r"run the command again", "try it again"),
)  # fmt: skip
"""What a message holds, as a pattern, and what stands there on the page."""
_TERMINAL = re.compile(r"^(?=ragstream [a-z])")


def on_the_page(text: str) -> str:
    """Return a message or a hint in the words of the page; a command is said to be one.

    Args:
        text: As core says it.
    """
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return _TERMINAL.sub("in a terminal: ", text)


AS_OF_KEY = "as_of"
DIFFS_KEY = "diffs"
INJECT_KEY = "inject"
LOCK_KEY = "lock"
MODEL_KEY = "answer_model"
OFF_KEY = "files_off"
OTHERS_KEY = "other_settings"
PERSIST_KEY = "persist"
PROJECTS_KEY = "projects"
PROMPT_KEY = "prompt_text"
SESSION_KEY = "session"
SETTING = "set "
"""What the keys of the controls begin with that change a setting; its dotted name follows."""
SHOWN_KEY = "super_prompt_shown"
TASK_KEY = "task"


@st.cache_resource  # type: ignore[untyped-decorator]
def workspace() -> Workspace:
    """Return the process's workspace; models are loaded once, at the first stage that needs one."""
    from ragstream_core.wiring.workspace import open_workspace

    os.umask(0o077)
    quiet_environment()
    found = open_workspace()
    if found.config.settings.dagster.record == "dagster":
        threading.Thread(target=_close_stale_runs, args=(found,), daemon=True).start()
    return found


def _close_stale_runs(found: Workspace) -> None:
    """Mark the runs of a page that died as failed; the import alone would delay the page."""
    from ragstream_assets.recorder.recorder import close_stale_runs

    close_stale_runs(found)


def desk() -> PromptSession:
    """Return the prompt of this tab on its way."""
    found: PromptSession = st.session_state.setdefault("desk", PromptSession())
    return found


def super_prompt_key() -> str:
    """Return the key of the Super-Prompt's text area, another one for each text that we put there.

    Under one key, what a browser sends before it has drawn the new text would be taken for an edit.
    """
    return f"super_prompt {st.session_state.get(SHOWN_KEY, 0)}"


def configured() -> AppConfig:
    """Return the settings under the chosen task profile: what the controls start from."""
    config: AppConfig = workspace().config
    task = task_now()
    return config.with_task(task) if task else config


def task_now() -> str:
    """Return the chosen task profile, empty for none; the page begins with that of chats."""
    chosen: str = st.session_state.setdefault(TASK_KEY, CHAT_TASK)
    return chosen


def given(name: str) -> Any:
    """Return what a chain setting is before the page changes it.

    Args:
        name: Its dotted name.
    """
    section, _, key = name.partition(".")
    return getattr(getattr(configured().chain(), section), key)


def changed_settings() -> dict[str, Any]:
    """Return the settings that the page's controls changed, dotted name → value.

    Raises:
        UnknownSetting: A line of the other settings is no ``name = value``.
    """
    from ragstream_core.config import parse_assignments

    state = st.session_state
    chosen = {
        str(key).removeprefix(SETTING): value
        for key, value in state.items()
        if str(key).startswith(SETTING)
    }
    changed = {name: value for name, value in sorted(chosen.items()) if value != given(name)}
    lines = [line for line in state.get(OTHERS_KEY, "").splitlines() if line.strip()]
    return {**changed, **parse_assignments(lines)}


def request_now(default: str = "") -> PromptRequest:
    """Return what the page asks for at this moment.

    Args:
        default: Text where the prompt's box is empty.

    Raises:
        EmptyPrompt: The prompt holds no word.
        UnknownSetting: A line of the other settings is no ``name = value``.
        UsageError: No project is chosen, or an older generation is asked of several.
    """
    from ragstream_core.prompts.inputs import PromptRequest

    state = st.session_state
    projects = tuple(state[PROJECTS_KEY])
    several = len(projects) > 1
    inject, diffs = (
        tuple(name if several else name.partition("/")[2] for name in state.get(key, []))
        for key in (INJECT_KEY, DIFFS_KEY)
    )
    kept = {} if state.get(PERSIST_KEY, True) else {"history.persist": False}
    return PromptRequest(
        text=state[PROMPT_KEY] or default,
        projects=projects,
        files=inject,
        diffs=diffs,
        off=tuple(sorted(n for n in state.get(OFF_KEY, set()) if n.partition("/")[0] in projects)),
        lock=bool(state.get(LOCK_KEY, False)),
        settings={**target(), **changed_settings(), **kept},
        task=task_now(),
        as_of=0 if several else int(state.get(AS_OF_KEY, 0)),
        session=state.get(SESSION_KEY, ""),
    )


def target() -> dict[str, Any]:
    """Return the model that was picked, as the one that the prompt is meant for."""
    picked = str(st.session_state.get(MODEL_KEY) or "")
    own = str(workspace().config.settings.provider.model)
    return {"prompt.model_target": picked} if picked not in ("", own) else {}


def stale() -> list[str]:
    """Return what the page asks for otherwise than PreProcessing took it in, in its own names."""
    try:
        return desk().stale(request_now())
    except Exception:  # an emptied prompt is a change as well
        return ["text"] if desk().steps else []


def run_url(run_id: str) -> str:
    """Return where Dagster's UI shows a run."""
    return f"http://{HOST}:{workspace().config.settings.dagster.port}/runs/{run_id}"


def run_link(run_id: str, *, key: str) -> None:
    """Draw a link to a run's place in Dagster's UI; nothing where it was not recorded.

    Args:
        run_id: May be empty.
        key: Of the widget.
    """
    if run_id:
        label = f"Run {run_id[:8]}"
        st.link_button(
            label, run_url(run_id), key=key, width="stretch", help="Opens the run in Dagster's UI."
        )


def report(error: BaseException | None) -> None:
    """Remember an error, shown by `show_problem`; None forgets the last one."""
    st.session_state["problem"] = describe(error) if error is not None else None


def show_problem() -> None:
    """Show the last error as a message and the next step."""
    problem = st.session_state.get("problem")
    if problem:
        show_message(problem)


def show_message(problem: dict[str, Any]) -> None:
    """Show what went wrong as plain text, and the next step.

    Args:
        problem: From `describe`: ``message`` and ``hint``.
    """
    hint = f"  \nNext: {literal(on_the_page(problem['hint']))}" if problem["hint"] else ""
    st.error(literal(on_the_page(problem["message"])) + hint)
