"""The view Map: nothing without a click, drawn in the background, gone when its chunks changed."""

import pytest

from ragstream_app.page.panels import map
from ragstream_app.page.panels.chat_state import VIEW_KEY
from ragstream_core.index.view import open_view
from ragstream_core.platform import extras
from ragstream_core.services import chunk_maps
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import click, open_page, run


@pytest.fixture
def page(indexed):
    found = open_page()
    found.session_state[VIEW_KEY] = map.NAME
    found.session_state[map.METHOD_KEY] = "pca"
    return run(found)


def drawn(page):
    """Press Draw and wait for the map."""
    click(page, "Draw")
    assert page.session_state[map.JOB_KEY].wait(240)
    return run(page)


def charts(page):
    return [e for e in page.get("vega_lite_chart") + page.get("arrow_vega_lite_chart")]


def test_nothing_is_drawn_without_a_click(page):
    assert map.JOB_KEY not in page.session_state and not charts(page)
    assert any("each dot is a passage" in text.value for text in page.text)


def test_a_press_draws_every_chunk(page):
    drawn(page)
    job = page.session_state[map.JOB_KEY]
    count = len(open_view(open_workspace().index_dir("manual")).chunk_ids)
    assert not job.error
    assert len(job.result.chunks.places) == count == len(job.result.snippets)
    assert any(f"manual · {count} chunks · PCA" in text.value for text in page.text)
    assert not page.error
    assert {b.proto.label for b in page.get("download_button")} >= {"PNG", "CSV"}


def test_another_view_keeps_the_map_and_spends_nothing_on_it(page):
    drawn(page)
    page.session_state[VIEW_KEY] = "Prompt"
    run(page)
    assert not [b for b in page.get("download_button") if b.proto.label == "PNG"]
    page.session_state[VIEW_KEY] = map.NAME
    run(page)
    assert [b for b in page.get("download_button") if b.proto.label == "PNG"]


def test_a_map_goes_with_its_generation(page, indexed):
    drawn(page)
    (indexed / "doc_raw" / "manual" / "new.md").write_text("# New\n\nA page that came later.\n")
    ingest_project(open_workspace(), "manual")
    run(page)
    assert page.session_state[map.JOB_KEY] is None
    assert any("Draw the map again" in info.value for info in page.info)


def test_a_failure_is_said_where_the_map_would_be(page, indexed):
    import shutil

    from ragstream_core.index.view import forget_views

    shutil.rmtree(indexed / "index" / "manual")
    forget_views()
    drawn(page)
    said = [error.value for error in page.error]
    assert any("manual has no generation yet" in text for text in said), said


def test_without_t_sne_the_first_press_draws_and_says_how_to_have_it(page, indexed, monkeypatch):
    monkeypatch.setattr(extras, "is_here", lambda extra: extra != "maps")
    page.selectbox(key=map.METHOD_KEY).set_value("tsne")
    drawn(page)
    assert not page.error
    assert page.session_state[map.JOB_KEY].result.chunks.method == "pca"
    (said,) = [info.value for info in page.info if "t-SNE" in info.value]
    assert "laid out by PCA" in said and extras.install("maps").line in said


def test_a_map_that_is_stopped_ends_and_says_so(indexed):
    request = chunk_maps.MapRequest(("manual",), method="tsne")
    job = map.start(open_workspace(), request)
    job.stop()
    assert job.wait(120) and job.result is None and "stopped" in str(job.error)


def test_the_chart_holds_text_and_nothing_that_a_browser_would_fetch(indexed):
    hostile = "<img src=x onerror=alert(1)>.md"
    (indexed / "doc_raw" / "manual" / hostile).write_text("# Odd\n\n![p](http://a.example/p.png)\n")
    space = open_workspace()
    ingest_project(space, "manual")
    found = chunk_maps.draw(space, chunk_maps.MapRequest(("manual",), method="pca"))
    texts = [text[:200] for text in chunk_maps.texts(space, found)]
    made = map.chart(found, texts, "file").to_dict()
    names = {channel["field"] for channel in made["encoding"]["tooltip"]}
    assert names == {"file", "chunk", "passage"}  # `image` and `title` would be more than text
    (rows,) = made["datasets"].values()
    assert any(row["file"] == f"manual/{hostile}" for row in rows)
    assert len(rows) == len(found.places)
