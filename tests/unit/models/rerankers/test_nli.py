"""The gate's NLI model: label order from the model, windows, the chain; tiny and random."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.cli.doctor import _gate
from ragstream_app.output.tables import print_gate
from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.errors import UsageError, WeightsMissing
from ragstream_core.evaluation.sweep import (
    GateFigures,
    GateMeasurement,
    read_measurement,
    write_measurement,
)
from ragstream_core.models.rerankers import NliModel, entailment_index, weights_digest
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.stage_results import QueryPiece
from ragstream_core.services.eval_gold import measure_gate
from ragstream_core.services.replay import replay_prompt
from ragstream_core.settings.prompts import NLI
from ragstream_core.wiring import models
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.quality_gate import gold_path
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.models.rerankers.test_cross_encoder import build

LABELS = ("contradiction", "entailment", "neutral")
PASSAGES = ["a b c", "wing flow", "d", "j j i"]


def build_nli(folder, labels=LABELS):
    build(folder, labels=len(labels))
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    path.write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(root):
    return NliModel(build_nli(root / "tiny"), model="tiny", device="cpu")


@pytest.mark.parametrize(
    ("labels", "index"),
    [
        (LABELS, 1),
        (("ENTAILMENT", "neutral", "contradiction"), 0),
        (("not_entailment", "entailment"), 1),
        (("LABEL_0", "LABEL_1", "LABEL_2"), None),
        (("entailment",), None),
        (("entailment", "Entail"), None),
    ],
)
def test_the_label_order_is_the_models_own(labels, index):
    assert entailment_index(dict(enumerate(labels))) == index


def test_probabilities_are_the_softmax_of_passage_then_piece(model):
    import torch

    inner = model._load()[0]
    logits = inner.predict(
        [(p, "wing") for p in PASSAGES], activation_fn=torch.nn.Identity(), batch_size=1
    )
    shares = np.exp(logits.astype(np.float64))
    expected = shares[:, 1] / shares.sum(axis=1)
    assert model.entailment(["wing"], PASSAGES) == pytest.approx(expected.tolist(), abs=1e-5)
    assert len(set(model.entailment(["wing"], PASSAGES))) == len(PASSAGES)


def test_moved_labels_move_the_probability_with_them(model, root):
    moved = NliModel(build_nli(root / "moved", LABELS[::-1][1:] + LABELS[:1]), device="cpu")
    rest = NliModel(build_nli(root / "rest", ("neutral", "contradiction", "entailment")))
    total = np.array([m.entailment(["wing"], PASSAGES) for m in (moved, model, rest)]).sum(axis=0)
    assert total == pytest.approx([1.0] * len(PASSAGES), abs=1e-5)


def test_the_best_piece_and_window_count_and_neighbours_do_not(model):
    one, two = (model.entailment([piece], PASSAGES) for piece in ("wing", "c d"))
    assert model.entailment(["wing", "c d"], PASSAGES) == [
        max(a, b) for a, b in zip(one, two, strict=True)
    ]
    assert model.entailment(["wing"], PASSAGES[::-1]) == one[::-1]
    assert model.entailment([], PASSAGES) == [0.0] * len(PASSAGES)
    long = "a b " * 40 + "wing flow " * 20
    assert 0 <= model.entailment(["wing"], [long])[0] <= 1
    assert (model.name, model.entailment(["wing"], [])) == ("nli:tiny", [])


def test_a_model_that_names_no_entailment_is_refused(root):
    nameless = NliModel(build_nli(root / "nameless", ("LABEL_0", "LABEL_1")), device="cpu")
    with pytest.raises(UsageError, match="names no entailment"):
        nameless.entailment(["wing"], ["a"])


IDS = [f"c{i}" for i in range(6)]


def gate(probabilities, theta, keep_top):
    chunks = [Chunk(i, "a.md", f"text of {i}", (0, 9), {}) for i in IDS]
    prompt = SuperPrompt(body={"task": "why"})
    prompt.base_context_chunks = chunks
    prompt.stage = "reranked"
    prompt.views_by_stage["reranked"] = IDS
    prompt.extras.query_pieces = (QueryPiece("q1", "why"),)
    found = dict(zip((c.snippet for c in chunks), probabilities, strict=True))
    return NliGate(
        0.25, keep_top, 0.6, entailment=lambda pieces, texts: [found[t] for t in texts],
        nli_theta=theta,
    )(prompt)  # fmt: skip


@given(
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.integers(0, 6),
)
def test_raising_theta_never_keeps_more(probabilities, thetas, keep_top):
    low, high = (gate(probabilities, theta, keep_top) for theta in sorted(thetas))
    kept, fewer = (p.views_by_stage["a3"] for p in (low, high))
    assert set(fewer) <= set(kept)
    assert set(kept) == {
        i for n, i in enumerate(IDS) if n < keep_top or probabilities[n] >= min(thetas)
    }
    rows = [r for r in low.extras.decisions if r.stage == "a3"]
    assert [r.chunk_id for r in rows] == IDS
    assert {r.rule for r in rows} <= {"nli_gate", "keep_top"}
    assert [r.scores["entailment"] for r in rows] == probabilities


def ask(space, **settings):
    request = PromptRequest("Who may write to the catalog?", ("demo",), settings=settings)
    return run_prompt(space, pin_inputs(space, request))


def rules(prompt):
    return {r.rule for r in prompt.extras.decisions if r.stage == "a3"}


def test_without_weights_the_similarity_gate_stands_in_and_is_named(space):
    inputs = pin_inputs(space, PromptRequest("Who may write?", ("demo",)))
    assert (inputs.models["gate"], inputs.models["gate_weights"]) == ("similarity", "")
    assert "nli_gate" not in rules(ask(space))
    with pytest.raises(WeightsMissing, match=NLI) as caught:
        ask(space, **{"gate.backend": "nli"})
    assert "gate.backend=similarity" in caught.value.hint
    (check,) = _gate(space.config)
    assert check.level == "ok" and f"{NLI} is not on this machine" in check.detail


def test_weights_that_nothing_here_can_run_are_not_called_absent(space, monkeypatch):
    build_nli(space.layout.models / NLI)
    monkeypatch.setattr(models.extras, "is_here", lambda extra: extra != "torch")
    (check,) = _gate(space.config)
    assert check.level == "ok" and f"{NLI} is here, but the extra 'torch' is not" in check.detail


def row(kept, candidates, found=4.0):
    return GateFigures(kept, candidates, found, 2.0)


BETTER, WORSE = row(0.9, 10.0), row(0.8, 12.0)


def measured(space, folder, nli=BETTER, similarity=WORSE, theta=0.5):
    found = GateMeasurement(NLI, weights_digest(folder), theta, "demo", nli, similarity)
    return write_measurement(space.layout.models, found)


@pytest.mark.parametrize(
    ("nli", "similarity", "better"),
    [
        (BETTER, WORSE, True),
        (row(0.8, 10.0), WORSE, True),
        (row(0.9, 12.0), WORSE, True),
        (WORSE, WORSE, False),
        (row(0.9, 12.1), WORSE, False),
        (row(0.79, 1.0), WORSE, False),
        (row(0.0, 0.0, 0.0), row(0.0, 9.0, 0.0), False),
    ],
)
def test_a_model_is_better_where_it_keeps_no_less_and_passes_no_more(nli, similarity, better):
    assert GateMeasurement(NLI, "a", 0.5, "demo", nli, similarity).is_better is better


def test_auto_takes_no_model_without_a_measurement_of_its_weights_and_says_so(space):
    folder = build_nli(space.layout.models / NLI)
    prompt = ask(space)
    assert "nli_gate" not in rules(prompt)
    told = [e.message for e in prompt.extras.events if e.stage == "a3_nli_gate"]
    assert any(NLI in said and "ragstream eval gate PROJECT" in said for said in told)
    (check,) = _gate(space.config)
    assert check.level == "ok" and "ragstream eval gate PROJECT" in check.detail
    record = save_prompt(space, prompt)
    for wrong in ({"nli": WORSE}, {"theta": 0.4}):
        path = measured(space, folder, **wrong)
        assert "nli_gate" not in rules(ask(space))
    path.write_text("{", encoding="utf-8")
    assert "nli_gate" not in rules(ask(space))
    measured(space, folder)
    assert "nli_gate" in rules(ask(space))
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    build_nli(folder, LABELS[::-1])  # other weights: nobody has measured those
    assert "nli_gate" not in rules(ask(space))


def test_the_command_measures_both_gates_on_the_gold_questions(space, capsys):
    gold = [{"question": "Who may write to the catalog?", "files": ["catalog.md"]}]
    path = gold_path(space, "demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in gold), encoding="utf-8")
    with pytest.raises(WeightsMissing, match=NLI):
        measure_gate(space, "demo")
    folder = build_nli(space.layout.models / NLI)
    steps = []
    found = measure_gate(space, "demo", progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert read_measurement(space.layout.models, weights_digest(folder)) == found
    assert found.nli.questions == found.similarity.questions == 1
    assert found.similarity.candidates > 0
    print_gate(found)
    assert "gate.backend=auto takes" in capsys.readouterr().out
    with pytest.raises(UsageError, match="gold"):
        path.unlink()
        measure_gate(space, "demo")


def test_with_weights_the_model_decides_pinned_and_replayed(space):
    before = save_prompt(space, ask(space))
    folder = build_nli(space.layout.models / NLI)
    measured(space, folder, theta=0)
    prompt = ask(space, **{"gate.keep_top": 0, "gate.nli_theta": 0})
    assert rules(prompt) <= {"nli_gate", "duplicate_text"} and "nli_gate" in rules(prompt)
    assert any(NLI in row.message for row in prompt.extras.events)
    record = save_prompt(space, prompt)
    assert record.inputs["models"]["gate"] == NLI
    assert record.inputs["models"]["gate_weights"] == weights_digest(folder)
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    assert replay_prompt(space, before.prompt_key).verdict == "identical"
    assert "nli_gate" not in rules(ask(space, **{"gate.backend": "similarity"}))
    assert "nli_gate" not in rules(ask(space, **{"agents.a3": False}))
    chosen = open_workspace(space.data_dir, explicit={"gate.backend": "nli"}).config
    (check,) = _gate(chosen)
    assert check.level == "ok" and weights_digest(folder)[:12] in check.detail
    build_nli(folder, LABELS[::-1])
    verdict = replay_prompt(space, record.prompt_key)
    assert verdict.verdict == "environment differs" and "have changed" in verdict.reason
    shutil.rmtree(folder)
    assert replay_prompt(space, record.prompt_key).verdict == "environment differs"


def test_the_doctor_says_what_a_chosen_gate_lacks(tmp_path):
    space = open_workspace(tmp_path, explicit={"gate.backend": "nli"})
    (check,) = _gate(space.config)
    assert check.level == "fail" and "gate.backend" in check.next_step
