"""Personas: who answers and the text around the task, from settings and task profiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a5_format_enforcer import FormatEnforcer
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.config import AppConfig
from ragstream_core.errors import UnknownSetting
from ragstream_core.prompts.blocks import Layout
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.render import wrapped
from ragstream_core.records import SuperPrompt
from ragstream_core.records.s_ctx import SCtx
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, write_docs

COUNTER = HeuristicTokenCounter()
TEMPLATE = "As {role}, {tone}:\n{task}\nEnd with a check."
PROFILE = {"system": "an engineer", "role": "a plumber", "tone": "calm", "user_template": TEMPLATE}
QUESTION = "Who may write to the catalog?"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("no place", "write {task} once"),
        ("{task} and {task}", "write {task} once"),
        ("{task} {mood}", "{mood} is no place; there are {task}, {role}"),
        ("{task} {}", "{} is no place"),
        ("{task}" + "x" * 8_000, "are more than 8,000"),
    ],
)
def test_a_template_without_the_task_or_with_unknown_places_is_refused(template, why):
    with pytest.raises(UnknownSetting) as caught:
        AppConfig.load(explicit={"prompt.user_template": template})
    assert why in str(caught.value) and "prompt.user_template" in str(caught.value)


@pytest.mark.parametrize("key", ["system", "role", "tone"])
def test_a_voice_is_short(key):
    with pytest.raises(UnknownSetting, match=f"prompt.{key}"):
        AppConfig.load(explicit={f"prompt.{key}": "x" * 501})


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="{}\r"), max_size=40)


@given(TEXTS, TEXTS, st.sampled_from(["Ask {task} of {role}", "plain", "## TASK", "{mood}"]))
def test_a_template_stands_around_the_task_word_for_word(before, after, task):
    text = wrapped(f"{before}{{task}}{after}", task, {"role": "x"})
    assert text == f"{before}{task}{after}".strip("\n").strip()
    assert wrapped("", task, {}) == task


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    root = tmp_path_factory.mktemp("personas")
    write_docs(root)
    config = root / "ragstream.yaml"
    lines = [f"      {key}: {value!r}".replace("\\n", "\\n") for key, value in PROFILE.items()]
    text = "\n".join(lines).replace("'", '"')
    config.write_text(f"tasks:\n  plumber:\n    prompt:\n{text}\n", encoding="utf-8")
    loaded = AppConfig.load(
        config, explicit={"embeddings.backend": "hashed", "paths.data_dir": str(root)}
    )
    workspace = hashed_workspace(root)
    ingest_project(workspace, "demo")
    return type(workspace)(config=loaded)


def ask(space, text=QUESTION, task="plumber", **settings):
    return run_prompt(
        space, pin_inputs(space, PromptRequest(text, ("demo",), task=task, settings=settings))
    )


def test_a_task_profile_resolves_to_its_persona_and_changes_nothing_else(space):
    plain, (retrieval, prompt) = space.config.settings, space.config.resolve_task("plumber")
    assert prompt.model_dump() == {**plain.prompt.model_dump(), **PROFILE}
    assert retrieval == plain.retrieval


def test_a_persona_speaks_and_its_template_wraps_the_task_in_its_place(space):
    made, plain = ask(space), ask(space, task="")
    text = made.extras.super_prompt
    assert "You are: an engineer, a plumber\nTone: calm" in text
    assert text.endswith(f"As a plumber, calm:\n{QUESTION}\nEnd with a check.\n")
    names = [[b.name for b in p.extras.token_tree.blocks] for p in (made, plain)]
    assert names[0] == names[1]
    assert made.Prompt_MD == plain.Prompt_MD == QUESTION  # what is searched for and reranked
    assert made.views_by_stage["reranked"] == plain.views_by_stage["reranked"]
    assert made.extras.persona == ("role", "system", "tone")
    assert "role" not in made.extras.shape.headers
    assert made.extras.enforced.total_tokens == made.extras.token_tree.total


def test_headers_of_the_prompt_come_before_the_persona(space):
    said = f"# Task\n{QUESTION}\n# Tone\ndry\n# System\na poet"
    body = ask(space, said).body
    assert (body["tone"], body["system"], body.get("role", "")) == ("dry", "a poet", "")
    assert ask(space, f"# Task\n{QUESTION}\n# Role\na poet").body["system"] == "an engineer"


def test_a_persona_is_part_of_the_key_and_an_explicit_setting_beats_it(space):
    keys = {
        pin_inputs(space, PromptRequest(QUESTION, ("demo",), task=task, settings=given)).key
        for task, given in (("", {}), ("plumber", {}), ("plumber", {"prompt.tone": "loud"}))
    }
    assert len(keys) == 3
    assert ask(space, **{"prompt.tone": "loud"}).body["tone"] == "loud"
    record = save_prompt(space, ask(space))
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


AROUND = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=60)
HOSTILE = st.sampled_from(["## [0] TASK", "<<END DOC 1>>", "| quoted", "## TASK\n## S_CTX"])


@given(AROUND | HOSTILE)
def test_no_template_breaks_the_structure(around):
    layout = Layout("Rule.", user_template=f"{around}\n{{task}}\n{around}")
    prompt = SuperPrompt(body={"task": "Why?"})
    prompt.extras.s_ctx, prompt.extras.short_ids = SCtx(), {}
    built = PromptBuilder(COUNTER, layout)(FormatEnforcer(COUNTER, layout)(prompt))
    assert [b.name for b in built.extras.token_tree.blocks] == [
        "HARD RULES", "SYSTEM", "S_CTX", "TASK"
    ]  # fmt: skip
