"""R17: no PDF harms the ingest or its neighbours; each gives text or one reason."""

import functools
import importlib.util
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragstream_core.ingestion import loader
from ragstream_core.ingestion.parsers import isolated
from ragstream_core.ingestion.parsers.engines import Limits

pytest.importorskip("pypdfium2")
pytest.importorskip("reportlab")

LIMITS = Limits(memory_bytes=1_000_000_000, cpu_s=4, wall_s=20, text_bytes=2_000_000)


def _module():
    spec = importlib.util.spec_from_file_location(
        "hostile_pdfs", Path(__file__).with_name("hostile_pdfs.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def verdicts():
    corpus = _module().corpus()
    with ThreadPoolExecutor(2) as pool:
        parse = functools.partial(isolated.parse, file_type="pdf", limits=LIMITS)
        parsed = list(pool.map(parse, (data for data, _ in corpus.values())))
    return {name: (p, corpus[name][1]) for name, p in zip(corpus, parsed, strict=True)}


def test_the_corpus_has_twenty_six_files(verdicts):
    assert len(verdicts) == 26


def test_each_gives_text_or_one_reason(verdicts):
    for name, (parsed, wanted) in verdicts.items():
        assert parsed.note, name
        assert "\n" not in parsed.note, name
        if wanted.startswith("text:"):
            assert wanted[5:] in parsed.pages[0][1], name
        elif wanted:
            assert parsed.pages is None, name
            assert wanted in parsed.note, name


def test_what_comes_out_is_clean_text_within_the_limits(verdicts):
    for name, (parsed, _) in verdicts.items():
        for number, text in parsed.pages or ():
            assert 1 <= number <= LIMITS.pages, name
            text.encode("utf-8")  # no lone surrogate
            assert not any(ord(c) < 32 and c not in "\t\n" for c in text), name
            assert len(text.encode()) <= LIMITS.text_bytes, name


def test_nothing_embedded_becomes_text(verdicts):
    parsed, _ = verdicts["javascript-and-file"]
    whole = json.dumps(parsed.pages)
    assert "alert" not in whole
    assert "MZ" not in whole


def test_neighbours_of_a_broken_pdf_are_ingested(bench, monkeypatch):
    made = _module()
    bench.write("a.md", "before")
    bench.write("bomb.pdf", made.slow(50))
    bench.write("broken.pdf", b"%PDF-1.7 no")
    bench.write("good.pdf", made.written("page one words", "page two words"))
    bench.write("z.md", "after")
    quick = Limits(cpu_s=1, wall_s=20)
    monkeypatch.setattr(
        loader, "parse",
        lambda data, *, file_type, limits: isolated.parse(data, file_type=file_type, limits=quick),
    )  # fmt: skip
    stats = bench.run()
    assert stats.files["skipped"] == 2
    reasons = dict(stats.skipped_reasons)
    assert "CPU" in reasons["bomb.pdf"]
    assert "not a readable PDF" in reasons["broken.pdf"]
    view = bench.view()
    pages = {(c.source, c.meta["page_number"]) for c in view.chunks(view.chunk_ids)}
    assert pages == {("a.md", 0), ("good.pdf", 1), ("good.pdf", 2), ("z.md", 0)}
    assert bench.health() == []


def test_a_child_that_hangs_is_killed(monkeypatch):
    monkeypatch.setattr(isolated, "CHILD", "http.server")  # serves for ever
    parsed = isolated.parse(b"x", file_type="pdf", limits=Limits(wall_s=1))
    assert parsed.pages is None


def test_a_child_that_waits_for_ever_is_stopped(monkeypatch, tmp_path):
    script = tmp_path / "sleeps.py"
    script.write_text("import time; time.sleep(600)")
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen",
        lambda command, **given: real([command[0], str(script)], **given),
    )  # fmt: skip
    parsed = isolated.parse(b"x", file_type="pdf", limits=Limits(wall_s=1))
    assert parsed == (None, "stopped after 1 s")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import os; os.abort()", "crashed"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('no json')", "no usable answer"),
        ('print(\'{"pages": [[1]], "note": ""}\')', "no usable answer"),
        ("while True: pass", "CPU"),
    ],
)
def test_whatever_the_child_does_there_is_one_reason(monkeypatch, tmp_path, script, reason):
    path = tmp_path / "child.py"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 2)); "
    path.write_text(limit + "\n" + script)
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen",
        lambda command, **given: real([command[0], str(path)], **given),
    )  # fmt: skip
    parsed = isolated.parse(b"x", file_type="pdf", limits=Limits(cpu_s=1))
    assert parsed.pages is None
    assert reason in parsed.note


def test_the_child_gets_no_environment_and_no_other_file(monkeypatch, tmp_path):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", "canary")
    script = tmp_path / "child.py"
    script.write_text(
        "import json, os\n"
        "fds = [f for f in os.listdir('/proc/self/fd') if int(f) > 2]\n"
        "print(json.dumps({'pages': [[0, ' '.join([*os.environ, *fds])]], 'note': 'n'}))"
    )
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen",
        lambda command, **given: real([command[0], str(script)], **given),
    )  # fmt: skip
    kept = (tmp_path / "secret").open("w")
    parsed = isolated.parse(b"x", file_type="pdf", limits=Limits())
    kept.close()
    assert "RAGSTREAM" not in parsed.pages[0][1]
    assert len([word for word in parsed.pages[0][1].split() if word.isdigit()]) <= 1
