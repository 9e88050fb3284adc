"""Laws of edits by hand: order, repetition, what they leave alone, and what a key covers."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.a1_file_injector import FileInjector
from ragstream_core.agents.a2_prompt_shaper import PromptShaper
from ragstream_core.agents.headers import default_alias_text, parse_aliases
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.errors import IntegrityError, UsageError
from ragstream_core.prompts.chain import OPS, step
from ragstream_core.prompts.classification import free_keys, propose_headers
from ragstream_core.prompts.edited_prompt import (
    SUPER_PROMPT,
    broken_lines,
    sections_of,
    split_system,
    text_tokens,
)
from ragstream_core.prompts.edits import (
    HEADERS,
    PLACES,
    SHAPE,
    apply_edits,
    edited,
    edits_from,
    edits_key,
    value_of,
)
from ragstream_core.records import SuperPrompt, evolve, from_json, to_json
from ragstream_core.text.token_estimates import ScriptTokenCounter

COUNTER = ScriptTokenCounter()
ASKS = [
    "How does the gate rank candidates?",
    "# Task\nFix the cache in app.py\n# Format\na table\n# Audience\noperators",
    "task: write tests\nrole: a poet\ntone: dry",
]


class Files:
    def names(self, project):
        return ["app.py"]

    def read(self, project, path):
        return b"x = 1\n"


STAGES = {
    "a0_preprocessing": Preprocessing(
        parse_aliases(default_alias_text()), COUNTER.count, window_tokens=256
    ),
    "a2_prompt_shaper": PromptShaper(),
    "a1_file_injector": FileInjector(Files(), ["demo"], COUNTER),
    "prompt_builder": PromptBuilder(COUNTER),
}


def through(text, *ops):
    prompt = SuperPrompt(body={"text": text})
    for op in ops:
        prompt = step(lambda name, _: STAGES[name], op, prompt)
    return prompt


SHAPED = [through(text, *OPS[:3]) for text in ASKS]
BUILT = [through(text, *STAGES) for text in ASKS]
WORDS = st.text(st.characters(codec="utf-8"), max_size=40)
CHANGES = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from(words) for name, words in SHAPE.items()}
    | dict.fromkeys(HEADERS, WORDS),
)
QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(st.sampled_from(SHAPED), CHANGES, st.randoms())
def test_the_order_of_the_values_does_not_matter(prompt, values, rng):
    shuffled = dict(rng.sample(list(values.items()), len(values)))
    assert to_json(edited(prompt, values)) == to_json(edited(prompt, shuffled))


@QUICK
@given(st.sampled_from(SHAPED), CHANGES)
def test_made_again_from_the_record_they_give_the_same_prompt(prompt, values):
    made = edited(prompt, values, when="2026-01-02T03:04:05+00:00")
    kept = edits_from(to_json(made)["extras"].get("edits", []))
    assert to_json(apply_edits(prompt, kept)) == to_json(made)
    assert from_json(to_json(made)).extras.edits == kept == made.extras.edits


@QUICK
@given(st.sampled_from(SHAPED), CHANGES)
def test_the_edited_prompt_has_the_values_and_everything_else_is_as_it_was(prompt, values):
    before = to_json(prompt)
    made = edited(prompt, values)
    assert to_json(prompt) == before
    for name, value in values.items():
        plain = value.replace("\r\n", "\n").replace("\r", "\n").strip()
        assert value_of(made, name) == (value if value == value_of(prompt, name) else plain)
    after = to_json(made)
    changed = {k for k in before["extras"] | after["extras"]
               if before["extras"].get(k) != after["extras"].get(k)}  # fmt: skip
    assert changed <= {"shape", "explicit", "edits", "trail"}
    assert {k for k in before["body"] if before["body"][k] != after["body"][k]} <= set(HEADERS)
    alike = set(before) - {"extras", "body"}
    assert {k: before[k] for k in alike} == {k: after[k] for k in alike}
    targets = {edit.target for edit in made.extras.edits}
    explicit = {*prompt.extras.explicit, *targets & set(HEADERS)}
    assert made.extras.explicit == tuple(sorted(explicit))
    trails = made.extras.trail, prompt.extras.trail
    assert (trails[0] != trails[1]) == bool(targets) and trails[0][:-1] == trails[1][:-1]


@QUICK
@given(st.sampled_from(SHAPED), CHANGES, CHANGES)
def test_a_key_changes_if_and_only_if_an_edit_changes_a_value(prompt, some, others):
    one, other = edited(prompt, some, when="then"), edited(prompt, others, when="now")
    same = all(value_of(one, name) == value_of(other, name) for name in PLACES)
    keys = [edits_key(made.extras.edits) for made in (one, other)]
    assert keys[0] != keys[1] or same
    if one.extras.edits == () == other.extras.edits:
        assert same


@given(st.sampled_from(SHAPED))
def test_what_is_there_already_is_no_edit(prompt):
    values = {name: value_of(prompt, name) for name in (*SHAPE, *HEADERS)}
    assert edited(prompt, values) is prompt
    assert edited(prompt, {}) is prompt


@QUICK
@given(st.sampled_from(SHAPED), st.sampled_from(SHAPE["intent"]), WORDS)
def test_what_a2_proposes_follows_the_shape_and_a_person_s_word_stays(prompt, intent, role):
    made = edited(prompt, {"intent": intent})
    own, role_is_free = prompt.extras.shape.headers, "role" in free_keys(prompt)
    wanted = propose_headers(made.extras.shape, "")
    for name in ("role", "format"):
        follows = name in own or (name == "role" and role_is_free and made is not prompt)
        expected = wanted[name] if follows else value_of(prompt, name)
        assert value_of(made, name) == expected
    assume(role.strip() and "\r" not in role and role != wanted["role"])
    assert value_of(edited(prompt, {"intent": intent, "role": role}), "role") in (
        role,
        role.strip(),
    )


def adds_up(prompt):
    tree = prompt.extras.token_tree
    assert tree.total == COUNTER.count(prompt.extras.super_prompt)
    assert sum(block.tokens for block in tree.blocks) == tree.total
    for block in tree.blocks:
        assert sum(part.tokens for part in block.parts or ()) <= block.tokens


@QUICK
@given(st.sampled_from(BUILT), st.text(st.characters(codec="utf-8"), max_size=200), st.data())
def test_an_edited_text_is_kept_and_replayed_byte_for_byte(prompt, words, data):
    text = prompt.extras.super_prompt
    at = data.draw(st.integers(0, len(text)))
    wanted = (text[:at] + words + text[at + data.draw(st.integers(0, 80)) :]).replace("\r", "\n")
    assume(wanted.strip())
    made = edited(prompt, {SUPER_PROMPT: wanted})
    assert made.extras.super_prompt == wanted
    assert (made is prompt) == (wanted == text)
    assert to_json(apply_edits(prompt, made.extras.edits)) == to_json(made)
    nonce = prompt.extras.fence.nonce
    system, user = split_system(wanted, nonce)
    assert system + user == wanted and user.strip()
    assert "".join(section.text for section in sections_of(wanted, nonce)) == wanted
    adds_up(made)


@given(st.sampled_from(BUILT))
def test_the_token_tree_of_an_untouched_text_is_the_builder_s(prompt):
    found = text_tokens(prompt.extras.super_prompt, prompt.extras.fence.nonce, COUNTER)
    assert found == prompt.extras.token_tree


@pytest.mark.parametrize(
    "values",
    [{"task": "x"}, {"hard_rules": "x"}, {"lock": "x"}, {SUPER_PROMPT: "x"}, {"intent": "juggle"}],
)
def test_what_is_no_target_there_is_refused(values):
    with pytest.raises(UsageError):
        edited(SHAPED[0], values)


@given(st.text(min_size=1, max_size=60))
def test_a_domain_is_any_short_text_on_one_line(domain):
    plain = domain.strip()
    if 0 < len(plain) <= 40 and not set(plain) & {"\n", "\r"}:
        assert value_of(edited(SHAPED[0], {"domain": domain}), "domain") == plain
    else:
        with pytest.raises(UsageError, match="a domain has 1 to 40 characters"):
            edited(SHAPED[0], {"domain": domain})


def test_an_edit_that_does_not_fit_its_place_or_value_is_not_made():
    made = edited(SHAPED[0], {"domain": "security"})
    assert apply_edits(BUILT[0], made.extras.edits) is BUILT[0]
    other = edited(SHAPED[0], {"domain": "storage"})
    assert apply_edits(other, made.extras.edits) is other


@pytest.mark.parametrize(
    "rows",
    [
        [{"target": "role"}],
        [{"after": OPS[2], "target": "role", "before": "0", "value": 7}],
        [{"after": OPS[2], "target": "task", "before": "0", "value": "x"}],
        [{"after": OPS[-1], "target": "role", "before": "0", "value": "x"}],
        [{"after": OPS[2], "target": "role", "before": "0", "value": "x"}] * 2,
        [{"after": OPS[2], "target": n, "before": "0", "value": "x"} for n in ("role", "intent")],
        7,
    ],
)
def test_foreign_rows_are_refused(rows):
    with pytest.raises(IntegrityError):
        edits_from(rows)


def test_what_utf_8_cannot_hold_is_replaced():
    assert value_of(edited(SHAPED[0], {"tone": "dry\ud800 and short"}), "tone") == "dry? and short"


def test_where_a2_is_off_there_is_nothing_of_it_to_change():
    shapeless = evolve(SHAPED[0])
    shapeless.extras.drop("shape")
    with pytest.raises(UsageError, match="A2 is switched off"):
        edited(shapeless, {"intent": SHAPE["intent"][0]})


@pytest.mark.parametrize("prompt", BUILT)
def test_a_text_of_our_own_sections_alone_is_sent_as_the_user_s(prompt):
    nonce = prompt.extras.fence.nonce
    system, _ = split_system(prompt.extras.super_prompt, nonce)
    assert system
    for text in (system, system + "\n \n"):
        assert split_system(text, nonce) == ("", text)


def test_a_kind_of_break_is_named_at_its_first_line():
    prompt = BUILT[0]
    nonce = prompt.extras.fence.nonce
    text = f"one\ntwo\n{prompt.extras.super_prompt}"
    assert broken_lines(text, nonce) == ["line 1: text before the first section"]
