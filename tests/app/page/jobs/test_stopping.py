"""A press and an ingest are ended from the page: between two steps, and nothing is half done."""

import threading

import pytest

from ragstream_app.page.jobs import presses
from ragstream_app.page.jobs.ingests import IngestJobs
from ragstream_app.page.panels import projects
from ragstream_app.page.prompt_session import PromptSession, press, press_all
from ragstream_core.errors import Stopped
from ragstream_core.ingestion.staging import BATCH_TEXTS
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.prompts.chain import BUTTONS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring import ingestion, stages
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import ask, click, desk, open_page, run, said

REQUEST = PromptRequest("How does the exact file lock restrict a prompt?", ("manual",))
WAIT_S = 60.0


class Gate:
    """Something that waits to be let go.

    Attributes:
        reached: Set once somebody waits.
        go: Set to let everybody go.
    """

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()

    def wait(self):
        self.reached.set()
        assert self.go.wait(WAIT_S)


@pytest.fixture
def held(monkeypatch):
    """Holds the retrieval until it is let go; the page does not wait for it."""
    real, gate = stages.make_stage, Gate()

    def stage(self, op, prompt, **more):
        if op == "retrieval":
            gate.wait()
        return real(self, op, prompt, **more)

    monkeypatch.setattr(stages, "make_stage", stage)
    monkeypatch.setattr(presses, "PATIENCE_S", 0.0)
    yield gate
    gate.go.set()


@pytest.fixture
def embedding(monkeypatch):
    """Holds the second batch of an ingest until it is let go."""
    real, gate, calls = HashedEmbedder.embed_documents, Gate(), []

    def embed(self, texts, **more):
        calls.append(len(texts))
        if len(calls) == 2:
            gate.wait()
        return real(self, texts, **more)

    monkeypatch.setattr(HashedEmbedder, "embed_documents", embed)
    gate.calls = calls
    yield gate
    gate.go.set()


@pytest.fixture
def many(data):
    """The project with more texts than one batch takes."""
    folder = data / "doc_raw" / "manual"
    for number in range(2 * BATCH_TEXTS):
        (folder / f"note-{number}.md").write_text(f"# Note {number}\n\nIt is about {number} kites.")
    return data


def test_a_stopped_run_all_keeps_what_was_through(indexed, held):
    page = open_page()
    click(ask(page), "Build prompt")
    job = desk(page).job
    assert held.reached.wait(WAIT_S)
    click(page, "Stop")
    assert job.stopped and any("stops after Search" in p.text for p in page.get("progress"))
    assert next(b for b in page.button if b.label == "Stop").disabled
    held.go.set()
    assert job.wait(WAIT_S) and isinstance(job.error, Stopped)
    assert "you stopped Build prompt" in said(run(page))
    assert list(desk(page).steps) == list(BUTTONS[:3])
    assert not any(b.label == "Stop" for b in page.button)
    for button in BUTTONS[3:]:
        click(page, button)
        assert desk(page).job.wait(WAIT_S)
        run(page)
    whole = PromptSession()
    press_all(whole, desk(page).request, open_workspace())
    built, same = (one.last.super_prompt.extras.super_prompt for one in (desk(page), whole))
    assert built == same


def test_a_stopped_button_leaves_the_desk_as_it_was(indexed, monkeypatch):
    space, mine = open_workspace(), PromptSession()
    for button in BUTTONS[:5]:
        press(mine, button, REQUEST, space)
    before, real, gate = dict(mine.steps), stages.make_stage, Gate()

    def stage(self, op, prompt, **more):
        if op == "a4_condenser":
            gate.wait()
        return real(self, op, prompt, **more)

    monkeypatch.setattr(stages, "make_stage", stage)
    job = presses.start(mine, "A4 Condenser", REQUEST, space)
    assert gate.reached.wait(WAIT_S)
    job.stop()
    gate.go.set()
    with pytest.raises(Stopped):
        job.get(WAIT_S)
    assert mine.steps == before


def test_what_is_through_when_the_stop_comes_is_kept(indexed, held):
    space, mine = open_workspace(), PromptSession()
    for button in BUTTONS[:2]:
        press(mine, button, REQUEST, space)
    job = presses.start(mine, "Retrieval", REQUEST, space)  # of one op: there is nothing after it
    assert held.reached.wait(WAIT_S)
    job.stop()
    held.go.set()
    job.get(WAIT_S)
    assert list(mine.steps) == list(BUTTONS[:3])


def test_a_stopped_ingest_commits_nothing_and_goes_on_next_time(many, embedding):
    space, ingests = open_workspace(), IngestJobs()
    job = ingests.start(space, "manual")
    assert embedding.reached.wait(WAIT_S)
    ingests.start(space, "manual")  # asked for once more meanwhile: the stop is meant for it too
    job.stop()
    embedding.go.set()
    assert job.wait(WAIT_S) and "you stopped the ingest" in str(job.error)
    assert ingestion.status(space, "manual").generation == 0 and job.result is None
    assert len(embedding.calls) == 2
    again = ingests.start(space, "manual")
    assert again.wait(WAIT_S) and not again.error, again.error
    assert again.result.committed and again.result.chunks["reused"] >= BATCH_TEXTS
    assert again.result.warnings == ()


def test_an_ingest_is_stopped_by_its_button(many, embedding):
    page = open_page()
    click(page, "Ingest Folder")
    assert embedding.reached.wait(WAIT_S)
    job = projects.ingests().of("manual")
    click(run(page), "Stop the ingest")
    assert job.stopped
    embedding.go.set()
    assert job.wait(WAIT_S)
    assert "you stopped the ingest" in said(run(page))
    assert any(b.label == "Ingest Folder" for b in page.button)


def test_what_is_committed_is_not_stopped(data, monkeypatch):
    """A stop that comes after the commit does not hide what the ingest did."""
    from ragstream_app.page.jobs.ingests import IngestJob

    real, seen = IngestJob.report, []

    def report(self, phase, done, total):
        if phase == "publish":
            self.stop()
        seen.append(phase)
        real(self, phase, done, total)

    monkeypatch.setattr(IngestJob, "report", report)
    job = IngestJobs().start(open_workspace(), "manual")
    assert job.wait(WAIT_S) and job.error is None and job.result.committed
    assert "publish" in seen
