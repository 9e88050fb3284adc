"""A2 and its audit: classification, the truth table of R-164, one re-run."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a2_audit import Audit, dominant_topic
from ragstream_core.agents.a2_prompt_shaper import PromptShaper
from ragstream_core.prompts.classification import (
    DOMAINS,
    UNDETERMINED,
    classify,
    material_change,
    path_tokens,
    propose_headers,
    role_is_sure,
)
from ragstream_core.prompts.trail import notes_of, pass_number, put_decisions, put_notes
from ragstream_core.records import Chunk, Decision, Extras, SuperPrompt, to_json
from ragstream_core.records.json_form import json_of
from ragstream_core.records.stage_results import Edit, Pool, Shape
from tests.unit.agents.labelled_prompts import PROMPTS


@pytest.mark.parametrize(
    ("task", "intent", "deliverable"),
    [
        ("How does retrieval work?", "explain", "answer"),
        ("How does this function work?", "explain", "answer"),
        ("Fix the crash in loader.py", "fix", "code"),
        ("Write unit tests for the gate", "test", "tests"),
        ("Compare FAISS and Chroma", "compare", "answer"),
        ("Make a plan to migrate to Postgres", "plan", "plan"),
        ("Review this function", "review", "review"),
        ("Where is the lock taken?", "locate", "answer"),
        ("Implement a FAISS store", "implement", "code"),
        ("How do I configure the port?", "configure", "answer"),
        ("Write a specification for the gate", "specify", "spec"),
        ("Explain the exception hierarchy of this code base", "explain", "answer"),
        ("What does the `retry()` function do when an error occurs?", "explain", "answer"),
        ("Which exception does `open()` raise?", "explain", "answer"),
        ("Was bedeutet die Fehlermeldung von `load`?", "explain", "answer"),
        ("Where is the error raised?", "locate", "answer"),
        ("What is the migration plan?", "explain", "answer"),
        ("Could you describe the bug tracker?", "explain", "answer"),
        ("`load()` does not work", "fix", "answer"),
        ("`load()` crashes. What do I do?", "fix", "answer"),
        ("How do I fix the crash in loader.py?", "fix", "code"),
        ("Why does `load` fail with a KeyError?", "fix", "answer"),
    ],
)
def test_intent_and_deliverable(task, intent, deliverable):
    shape = classify(task)
    assert (shape.intent, shape.deliverable) == (intent, deliverable)


@pytest.mark.parametrize(
    "task", ["What airflow does the pump need?", "How are the bolts embedded in concrete?"]
)
def test_no_domain_of_software_for_a_word_that_means_something_else(task):
    assert classify(task).domain not in DOMAINS
    assert not role_is_sure(task)


def test_domain_comes_from_the_task_then_from_project_memory():
    assert classify("how are embeddings ranked").domain == "retrieval"
    assert classify("why is it so?").domain == "undetermined"
    assert (
        classify("why is it so?", "Dagster assets and sensors run the jobs").domain
        == "orchestration"
    )


@pytest.mark.parametrize(("task", "intents", "software"), PROMPTS)
def test_no_role_unless_it_is_surely_right(task, intents, software):
    shape = classify(task)
    role = shaped({"task": task}).body.get("role", "")
    fitting = {propose_headers(Shape(i, "", "answer"), "")["role"] for i in intents if i}
    assert role in fitting | ({""} if "" in intents else set())
    assert bool(role) is role_is_sure(task)
    assert software or shape.domain not in DOMAINS
    assert software or shape.deliverable in ("answer", "text", "plan", "review")


@pytest.mark.parametrize(
    ("task", "anchors", "domain"),
    [
        ("Write a mail about the late pump delivery.", (), "late pump delivery"),
        ("Schreibe etwas über die Kühlpumpen.", (), "die kühlpumpen"),
        ("请写一份关于水泵的报告。", (), "水泵"),
        ("The seal leaks. Which seal fits?", (), "seal"),
        ("How often must the seal be changed?", ("All seals and seal rings of the pump",), "seal"),
        ("Which train model has the lowest weight?", (), "undetermined"),
        ("Which model of `train.py` has the lowest weight?", (), "machine learning"),
        ("why is it so?", ("", "", "Pumps are old. The pumps of hall 3"), "pumps"),
        ("why is it so?", ("", "about valves", "Pumps are old. The pumps of hall 3"), "valves"),
    ],
)
def test_a_domain_is_free_text(task, anchors, domain):
    assert classify(task, *anchors).domain == domain


SUBJECTS = {"retrieval": "bm25", "orchestration": "dagster", "database": "sql", "frontend": "css"}


@given(st.lists(st.sampled_from(sorted(SUBJECTS)), max_size=20), st.sampled_from(sorted(SUBJECTS)))
def test_what_project_memory_settles_no_conversation_changes(said, settled):
    memory = f"All of this is {SUBJECTS[settled]} and {SUBJECTS[settled]}."
    recent = {"body": " ".join(SUBJECTS[name] for name in said)}
    assert (
        shaped({"task": "why is it so?"}, project_memory=memory, recent=recent).extras.shape.domain
        == settled
    )


def test_only_the_own_conversation_may_settle_the_domain():
    task, said = {"task": "why is it so?"}, "All of this is sql and sql."

    def domain(**recent):
        return shaped(task, recent={"body": "", **recent}).extras.shape.domain

    settled = domain(body=said)
    assert settled != UNDETERMINED
    assert domain(body=f"{said}\n\nAll is well", own_start=len(said) + 2) == UNDETERMINED
    assert domain(body=f"All is well\n\n{said}", own_start=13) == settled
    assert domain(digest=said) == UNDETERMINED


def test_path_tokens():
    text = "see `src/app.py`, (config.yml) and *.json; e.g. version 1.5.9? what/if? why?"
    assert {"src/app.py", "config.yml", "*.json", "what/if"} <= set(path_tokens(text))
    assert "why" not in path_tokens(text)


BASE = Shape("explain", "retrieval", "answer", ("a.py",))


@pytest.mark.parametrize(
    ("after", "material"),
    [
        (BASE, False),
        (Shape("fix", "retrieval", "answer", ("a.py",)), True),
        (Shape("explain", "security", "answer", ("a.py",)), True),
        (Shape("explain", "retrieval", "spec", ("a.py",)), True),
        (Shape("explain", "retrieval", "answer", ("a.py", "b.py")), True),
        (Shape("explain", "retrieval", "answer", ()), True),
    ],
)
def test_material_change_truth_table(after, material):
    assert material_change(BASE, after) is material


def shaped(body, extras=None, recent=None, **kwargs):
    prompt = SuperPrompt(body=body)
    prompt.recentConversation = recent or prompt.recentConversation
    prompt.extras = Extras.from_json(extras or {})
    return PromptShaper(**kwargs)(prompt)


def test_tone_audience_and_format_are_not_in_a_shape():
    plain = shaped({"task": "How?"}).extras.shape
    dressed = shaped({"task": "How?", "tone": "dry", "audience": "kids", "format": "table"})
    keys = ("intent", "domain", "deliverable", "artefacts")
    assert [getattr(plain, k) for k in keys] == [getattr(dressed.extras.shape, k) for k in keys]


def test_what_the_person_wrote_is_never_overridden():
    body = {"task": "Fix it briefly", "role": "poet", "depth": "abyssal", "format": "haiku"}
    prompt = shaped(body, {"explicit": ["depth", "format", "role", "task"]})
    assert {k: prompt.body[k] for k in body} == body
    assert prompt.extras.shape.headers == {}


def test_free_fields_are_filled_and_twice_is_once():
    once = shaped({"task": "Fix `load` briefly"})
    assert "debugging" in once.body["role"]
    assert once.body["depth"] == "low"
    assert once.body.get("format", "") == ""
    assert to_json(PromptShaper()(once)) == to_json(once)


def test_who_says_the_system_has_said_the_role():
    body = {"task": "Fix `load`", "system": "a poet"}
    assert shaped(body, {"explicit": ["system", "task"]}).body.get("role", "") == ""
    assert shaped(body, {"explicit": ["task"]}).body["role"]


@pytest.mark.parametrize("key", ["task", "text", "purpose"])
def test_all_that_is_asked_says_what_is_meant(key):
    body = {"task": "See below.", key: "Review src/gate.py, it is about bm25"}
    shape = shaped(body).extras.shape
    assert (shape.intent, shape.domain) == ("review", "retrieval")
    assert shape.artefacts == ("src/gate.py",)


@pytest.mark.parametrize(
    ("task", "memory", "said", "domain", "warned"),
    [
        ("why is it so?", "dagster and dagster", "frontend", "orchestration", True),
        ("why is it so?", "dagster and dagster", "orchestration", "orchestration", False),
        ("why is it so?", "dagster and dagster", "undetermined", "orchestration", False),
        ("why is it so?", "", "frontend", "frontend", False),
        ("why the bm25?", "dagster and dagster", "frontend", "frontend", False),
        ("why do old pumps leak?", "", "old pumps", "old pumps", False),
        ("why do old pumps leak?", "dagster and dagster", "pumps", "orchestration", True),
    ],
)
def test_a_model_settles_what_project_memory_leaves_open(task, memory, said, domain, warned):
    def ask(messages, schema, check):
        answer = schema(intent="explain", domain=said, deliverable="answer")
        return answer, check(answer)

    prompt = shaped({"task": task}, project_memory=memory, ask=ask)
    assert prompt.extras.shape.domain == domain
    told = [w.message for w in prompt.extras.warnings]
    assert (
        told == [f"the language model says {said}; Project Memory settles it: {domain}"]
    ) is warned
    assert warned or not told


@pytest.mark.parametrize("domain", ["old valves", "x y z a b", "the", " "])
def test_a_model_s_domain_stands_in_the_texts_or_its_answer_is_dropped(domain):
    def ask(messages, schema, check):
        answer = schema(intent="explain", domain=domain, deliverable="answer")
        return (None, said) if (said := check(answer)) else (answer, "")

    prompt = shaped({"task": "why do old pumps leak?"}, ask=ask)
    assert prompt.extras.shape.domain == "undetermined"
    assert "did not classify (it names a domain that no text holds)" in (
        prompt.extras.warnings[0].message
    )


def test_older_turns_are_an_anchor_for_rules_and_model():
    seen = []

    def ask(messages, schema, check):
        seen.append(messages[1].text)
        return None, "not now"

    prompt = shaped({"task": "why?"}, older=lambda task: "The pumps. These pumps.", ask=ask)
    assert prompt.extras.shape.domain == "pumps"
    assert "The pumps. These pumps." in seen[0]


@pytest.mark.parametrize("name", ["hard_rules", "project_memory"])
@pytest.mark.parametrize("text", ["Role: a plumber", "You are a plumber of this town."])
def test_hard_rules_and_project_memory_settle_headers(name, text):
    prompt = shaped({"task": "Fix `load`"}, **{name: text})
    assert prompt.body.get("role", "") == "" and "role" not in prompt.extras.shape.headers
    assert any("says the role" in e.message for e in prompt.extras.events)


def test_switched_off_passes_through_with_an_event():
    prompt = shaped({"task": "Fix it"}, enabled=False)
    assert prompt.body.get("role", "") == ""
    assert prompt.stage == "a2"
    assert "switched off" in prompt.extras.events[0].message


def audited(
    shape, *, issues=True, facts=(), headings=("Gate rules",) * 3, pool=None, eligible=(), names=()
):
    prompt = SuperPrompt(body={"task": "why is it so strict"})
    sources = names or [f"c{i}.md" for i in range(len(headings))]
    prompt.base_context_chunks = [
        Chunk(f"{name}::x::{i}", name, "x", (0, 1), {"heading": h})
        for i, (name, h) in enumerate(zip(sources, headings, strict=True))
    ]
    prompt.final_selection_ids = [c.id for c in prompt.base_context_chunks]
    issue = {"kind": "unsupported", "text": "?", "piece_id": "q1", "citations": []}
    prompt.extras = Extras.from_json(
        {
        "shape": {**json_of(shape), "headers": {}},
        "query_pieces": [
            {"id": "q1", "text": "why is it so strict", "segment_id": "s1", "span": [0, 9]}
        ],
        "s_ctx": {"facts": [{"text": f, "citations": []} for f in facts], "constraints": [],
                  "open_issues": [issue] if issues else []},
        "pool": pool or {},
        }
    )  # fmt: skip
    return prompt, Audit(eligible)(prompt)


VAGUE = Shape("explain", "undetermined", "answer")


def needs_rerun(before, after):
    return pass_number(after) > pass_number(before)


def test_a_dominant_topic_settles_the_domain_and_asks_again_once():
    before, after = audited(VAGUE)
    assert needs_rerun(before, after)
    assert after.extras.audit.outcome == "rescoped"
    assert after.extras.shape.domain == "gate"
    (piece,) = after.extras.query_pieces
    assert (piece.text, piece.asked) == ("gate: why is it so strict", "why is it so strict")
    again = Audit()(after)
    assert not needs_rerun(after, again)
    assert to_json(again) == to_json(after)


@pytest.mark.parametrize("names", [["gate.md"] * 3, ["gate.md", "gate.md", "lock.md"]])
def test_what_one_file_is_called_is_no_domain(names):
    before, after = audited(VAGUE, names=names, headings=("Gate rules", "Gate keys", "Hinges"))
    assert not needs_rerun(before, after) and after.extras.shape.domain == VAGUE.domain


def test_passages_that_are_only_the_nearest_settle_no_domain():
    before, _ = audited(VAGUE)
    row = Decision("a4", "", 1, 0.5, kept=True, rule="nearest", reason="probably not answered")
    put_decisions(before, "a4", [row._replace(chunk_id=i) for i in before.final_selection_ids])
    after = Audit()(before)
    assert not needs_rerun(before, after) and after.extras.shape.domain == VAGUE.domain


@pytest.mark.parametrize(
    "kwargs",
    [
        {"issues": False},
        {"headings": ("Alpha", "Beta", "Gamma")},
        {"headings": ()},
        {"pool": {"lock": True}},
    ],
)
def test_otherwise_the_scope_is_settled(kwargs):
    before, after = audited(VAGUE, **kwargs)
    assert not needs_rerun(before, after)
    assert after.extras.audit.outcome == "settled"
    assert to_json(Audit()(after)) == to_json(after)


def test_a_determined_domain_stands_and_the_attempt_is_reported():
    before, after = audited(Shape("explain", "retrieval", "answer"))
    assert not needs_rerun(before, after)
    assert any("stays retrieval" in e.message for e in after.extras.events)


def test_an_eligible_file_that_a_fact_names_comes_into_scope():
    shape = Shape("implement", "retrieval", "code")
    fact = "The gate is configured in gate.yml before use."
    before, after = audited(shape, facts=[fact], eligible=["conf/gate.yml", "x.py"], issues=False)
    assert needs_rerun(before, after)
    assert after.extras.shape.artefacts == ("conf/gate.yml",)
    assert after.extras.query_pieces[-1].text.startswith("conf/gate.yml ")
    off = {"off": ["conf/gate.yml"]}
    before, after = audited(shape, facts=[fact], eligible=["conf/gate.yml"], issues=False, pool=off)
    assert not needs_rerun(before, after)
    assert any("switched OFF" in e.message for e in after.extras.warnings)


@pytest.mark.parametrize(
    ("session", "domain"), [("chat", "pumps"), ("other", "undetermined"), ("", "undetermined")]
)
def test_older_turns_of_the_conversation_settle_a_domain_that_no_title_does(session, domain):
    before, _ = audited(VAGUE, headings=("Alpha", "Beta", "Gamma"))
    past = [
        Chunk(f"history::{n}", f"chat/{n}", "These are pumps.", (0, 9), {"turn_id_end": n})
        for n in range(2)
    ]
    before.base_context_chunks += past
    before.final_selection_ids += [c.id for c in past]
    after = Audit(session=session)(before)
    assert after.extras.shape.domain == domain


def test_a_guessed_domain_gives_way_to_the_evidence_and_a_person_s_does_not():
    guessed = Shape("explain", "old words", "answer")
    before, after = audited(guessed)
    assert after.extras.shape.domain == "gate"
    before.extras.edits = (Edit("", "domain", "", ""),)
    stays = Audit()(before)
    assert stays.extras.shape.domain == "old words"
    assert any("stays old words" in e.message for e in stays.extras.events)
    by_memory = Audit(texts={"Project Memory": "About old words"})(audited(guessed)[0])
    assert by_memory.extras.shape.domain == "old words"


def coded(task="Fix it", **body):
    """A prompt whose evidence is code, after A4."""
    prompt, _ = audited(Shape("fix", "retrieval", "answer"), issues=False)
    prompt.body |= {"task": task, **body}
    prompt.base_context_chunks = [
        Chunk(f"c{i}.py::x::0", f"c{i}.py", "x", (0, 1), {}) for i in range(3)
    ]
    prompt.final_selection_ids = [c.id for c in prompt.base_context_chunks]
    prompt.extras.explicit = tuple(sorted(body))
    return prompt


def test_the_audit_refines_a_role_that_was_left_open_and_that_is_no_re_run():
    before = coded()
    after = Audit()(before)
    assert "debugging" in after.body["role"] and not needs_rerun(before, after)
    form = "code in one block, then a short explanation"
    assert after.extras.shape.headers == {"role": after.body["role"], "format": form}
    told = [e.message for e in after.extras.events]
    for row, header in zip(after.extras.decisions, ("role", "format"), strict=True):
        assert (row.stage, row.chunk_id, row.kept) == ("headers", header, True)
        assert row.rule == "evidence_is_code" and row.reason in told
        assert f"source code, settles the {header}: " in row.reason
    assert to_json(Audit()(after)) == to_json(after)
    assert before.body.get("role", "") == ""


@pytest.mark.parametrize(
    ("prompt", "texts", "who"),
    [
        (coded(role="a poet"), {}, "you settled"),
        (coded(system="a poet"), {}, "you settled"),
        (coded(), {"Hard Rules": "You are a plumber."}, "Hard Rules settled"),
        (coded(), {"Project Memory": "Role: a plumber"}, "Project Memory settled"),
    ],
)
def test_what_is_settled_stays_and_the_attempt_is_reported(prompt, texts, who):
    after = Audit(texts=texts)(prompt)
    assert after.body == prompt.body
    assert any(who in e.message and "ignored" in e.message for e in after.extras.events)
    assert to_json(Audit(texts=texts)(after)) == to_json(after)


def test_a_mail_gets_no_role_and_a_lock_keeps_everything():
    mail = coded("Write an email about the fix in loader.py")
    locked = coded()
    locked.extras.pool = Pool(lock=True)
    for prompt in (mail, locked):
        assert Audit()(prompt).body == prompt.body


WRITTEN = {"role": "a poet", "format": "a haiku", "depth": "low"}
SETTLING = {"role": "Role: a plumber", "format": "Format: a table", "depth": "Depth: low"}
EDITED = {"intent": "role", "deliverable": "format"}


@given(
    st.sets(st.sampled_from(sorted(WRITTEN))),
    st.sets(st.sampled_from(sorted(SETTLING))),
    st.sets(st.sampled_from(sorted(EDITED))),
    st.sampled_from(["fix", "review", "explain", "plan"]),
    st.sampled_from(["py", "md"]),
    st.none() | st.tuples(st.sampled_from(["", "test"]), st.sampled_from(["", "plan"])),
)
def test_the_audit_refines_what_nobody_settled_and_each_change_has_its_row(
    written, settling, edited, intent, suffix, said
):
    def ask(messages, schema, check):
        answer = schema(topic="", files=[], role=said[0], form=said[1])
        return answer, check(answer)

    before, _ = audited(Shape(intent, "retrieval", "answer"), issues=False)
    before.body |= {"task": "Look at the loader", **{k: WRITTEN[k] for k in written}}
    before.base_context_chunks = [
        Chunk(f"c{i}.{suffix}::x::0", f"c{i}.{suffix}", "x", (0, 1), {}) for i in range(3)
    ]
    before.final_selection_ids = [c.id for c in before.base_context_chunks]
    proposed = {} if "format" in written else {"format": "as A2 proposed"}
    before.extras.shape = replace(before.extras.shape, headers=proposed)
    before.extras.explicit = tuple(sorted({"task", *written}))
    before.extras.edits = tuple(Edit("", target, "", "") for target in sorted(edited))
    texts = {"Hard Rules": "\n".join(SETTLING[k] for k in sorted(settling))}
    audit = Audit(texts=texts, ask=ask if said else None)
    after = audit(before)

    def headers(prompt):
        shown = prompt.extras.shape.headers
        return {k: prompt.body.get(k, "") or shown.get(k, "") for k in WRITTEN}

    was, now = headers(before), headers(after)
    rows = {row.chunk_id: row for row in after.extras.decisions}
    assert {k for k in was if was[k] != now[k]} == {k for k, row in rows.items() if row.kept}
    assert all(now[k] in row.reason for k, row in rows.items() if row.kept)
    settled = written | settling | {EDITED[target] for target in edited}
    assert not any(row.kept for k, row in rows.items() if k in settled)
    assert all("settled it: ignored" in row.reason for k, row in rows.items() if k in settled)
    behind = said if said else ("fix", "review") if suffix == "py" else ()
    assert rows == {} or any(behind)
    assert not needs_rerun(before, after)
    assert to_json(audit(after)) == to_json(after)


def test_a_domain_is_a_header_of_the_ledger_and_a_firm_one_too():
    (settled,) = audited(VAGUE)[1].extras.decisions
    assert (settled.chunk_id, settled.kept, settled.rule) == (
        "domain", True, "evidence_topic")  # fmt: skip
    assert settled.reason == "the evidence settles the domain: gate"
    (stays,) = audited(Shape("explain", "retrieval", "answer"))[1].extras.decisions
    assert (stays.chunk_id, stays.kept, stays.rule) == ("domain", False, "settled")


@pytest.mark.parametrize(("form", "refined"), [("plan", "numbered steps"), ("", ""), ("poem", "")])
def test_a_model_names_a_form_from_the_list(form, refined):
    def ask(messages, schema, check):
        answer = schema(topic="", files=[], form=form)
        return (None, said) if (said := check(answer)) else (answer, "")

    before, _ = audited(VAGUE, issues=False)
    after = Audit(ask=ask)(before)
    assert refined in after.extras.shape.headers.get("format", "")
    assert bool(after.extras.shape.headers) is bool(refined)
    assert (form == "poem") is bool(after.extras.warnings)


@pytest.mark.parametrize(("role", "refined"), [("review", "reviewer"), ("", ""), ("poet", "")])
def test_a_model_names_a_role_from_the_list(role, refined):
    def ask(messages, schema, check):
        answer = schema(topic="", files=[], role=role)
        return (None, said) if (said := check(answer)) else (answer, "")

    before, _ = audited(VAGUE, issues=False)
    after = Audit(ask=ask)(before)
    assert refined in after.body.get("role", "") and bool(after.body.get("role")) is bool(refined)
    assert (role == "poet") is bool(after.extras.warnings)


@pytest.mark.parametrize(("topic", "settled"), [("strict", True), ("gate", False), ("", True)])
def test_a_model_names_a_topic_that_the_question_does_not_have(topic, settled):
    def ask(messages, schema, check):
        answer = schema(topic=topic, files=[])
        return answer, check(answer)

    before, _ = audited(VAGUE, headings=("Gate strict",) * 3)
    after = Audit(ask=ask)(before)
    assert needs_rerun(before, after) is not settled
    assert after.extras.shape.domain == ("undetermined" if settled else topic)


@given(
    st.lists(st.tuples(st.sampled_from(["retrieval", "a3_nli_gate"]), st.booleans()), max_size=5)
)
def test_notes_are_those_of_the_last_time_in_each_pass(calls):
    prompt = SuperPrompt(body={"task": "why"})
    prompt.extras.trail = (("retrieval", ""), ("a3_nli_gate", ""))
    last = {}
    for number, (op, again) in enumerate(sorted(calls, key=lambda call: call[1])):
        prompt.extras.pass_no = 2 if again else 1
        put_notes(prompt, op, events=[f"e{number}"], warnings=[f"w{number}"])
        last[again, op] = number
    found = [(r["kind"], r["pass_no"], r["stage"], r["message"]) for r in notes_of(prompt)]
    rows = sorted(last.items(), key=lambda item: (item[0][0], item[0][1] != "retrieval"))
    assert found == [
        (kind, 2 if again else 1, op, f"{kind[0]}{number}")
        for (again, op), number in rows
        for kind in ("event", "warning")
    ]


FILES = [f"conf/f{i}.yml" for i in range(14)]
SOME = st.sets(st.sampled_from([*FILES, "c0.md", "c1.md", "gone/nowhere.yml"]))


@given(SOME, SOME, st.sampled_from(["code", "config", "tests", "answer", "spec", "plan"]))
def test_the_audit_adds_only_files_that_are_there_on_and_new(named, off, deliverable):
    shape = Shape("implement", "retrieval", deliverable, ("conf/f0.yml",))
    facts = [f"It is set in {name} before use." for name in sorted(named)]
    eligible = [*FILES, "c0.md", "c1.md", "c2.md"]
    before, after = audited(
        shape, facts=facts, eligible=eligible, issues=False, pool={"off": [*off]}
    )
    wanted = (named & set(FILES)) - off - {"conf/f0.yml"}
    wanted = wanted if deliverable in ("code", "config", "tests") else set()
    artefacts = set(after.extras.shape.artefacts)
    assert artefacts == wanted | {"conf/f0.yml"}
    assert needs_rerun(before, after) is bool(wanted)
    assert len(after.extras.query_pieces) == min(10, 1 + len(wanted))
    assert to_json(Audit(eligible)(after)) == to_json(after)
    warned = " ".join(w.message for w in after.extras.warnings)
    assert all(
        (f"{name}, which is switched OFF" in warned) <= (name in named & off) for name in FILES
    )


def test_dominant_topic_ignores_words_of_the_question():
    def terms(text):
        return text.lower().split()

    assert dominant_topic(["Gate rules", "Gate keys"], frozenset(), terms) == "gate"
    assert dominant_topic(["Gate rules", "Gate keys"], frozenset({"gate"}), terms) == ""
    assert dominant_topic(["Gate rules"], frozenset(), terms) == ""
