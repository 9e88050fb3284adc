import io
import tempfile
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import UnknownProject
from ragstream_core.ingestion import document_tree
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.forecast import (
    BYTES_PER_CHUNK,
    DEFAULT_CHUNKS_PER_S,
    FILES,
    Known,
    forecast,
    inspect,
    known,
    peeked,
    tokens_per_byte,
)
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.parsers.peek import html_text, pdf_tokens
from ragstream_core.ingestion.scan import scan
from ragstream_core.text.chunk_profiles import adjusted, chunk_profile
from ragstream_core.text.chunker import Chunker
from tests.unit.ingestion.test_documents import pdf_of

ROOT = Path(__file__).parents[3]
HANDBOOK = ROOT / "data" / "doc_raw" / "handbook"


def looked(bench):
    config = IngestionConfig()
    found = inspect(bench.index, DocumentTree.of(bench.docs), scan_fp=config.scan_fp)
    return known(bench.index, found.newest), found.found


def test_before_the_first_ingest_it_is_an_estimate_and_says_so(bench):
    bench.write("a.docx", "x" * BYTES_PER_CHUNK["office"] * 10)
    past, found = looked(bench)
    assert peeked(DocumentTree.of(bench.docs), ["a.docx"], found, past) == past, (
        "no look into what is packed"
    )
    made = forecast(["a.docx"], found, past)
    assert (made.files, made.chunks, made.measured) == (1, 10, False)
    assert made.seconds == pytest.approx(10 / DEFAULT_CHUNKS_PER_S)


def test_afterwards_it_is_what_was_measured_here(bench):
    for n in range(40):
        bench.write(f"{n}.md", f"text number {n} " * 200)
    stats = bench.run()
    past, _ = looked(bench)
    assert past.chunks_per_s > 0
    size = sum(p.stat().st_size for p in bench.docs.iterdir())
    assert past.read == {"md": (size, stats.chunks["live"])}
    bench.write("new.md", "another text " * 2000)
    past, found = looked(bench)
    made = forecast(["new.md"], found, past)
    assert made.measured
    assert made.seconds == pytest.approx(made.chunks / past.chunks_per_s)
    bench.run()
    grown = bench.view()
    real = sum(path == "new.md" for path in grown.paths)
    assert 0.5 * real <= made.chunks <= 2 * real


def test_an_ingest_of_a_few_texts_says_nothing_about_the_speed(bench):
    bench.write("a.md", "a")
    bench.run()
    assert looked(bench)[0].chunks_per_s == 0


def test_nothing_to_do_is_nothing(bench):
    bench.write("a.md", "a")
    past, found = looked(bench)
    assert forecast([], found, past)[:3] == (0, 0, 0)
    assert forecast(["a.md"], found, past).chunks == 1
    bench.write("empty.md", "")
    assert forecast(["empty.md"], scan(bench.docs), past).chunks == 0


def test_what_was_skipped_is_known_with_its_reason(bench):
    bench.write("a.md", b"\0\xff")
    bench.write("b.md", "b")
    bench.run()
    assert looked(bench)[0].skipped == (("a.md", "binary: holds NUL"),)


def test_a_damaged_catalog_is_no_obstacle(bench):
    bench.write("a.md", "a")
    bench.run()
    past, found = looked(bench)
    newest = bench.view().pinned
    (bench.index / "catalog.sqlite").write_bytes(b"garbage" * 1000)
    assert known(bench.index, newest).chunks_per_s == 0


def as_html(page):
    """Return a page of Markdown as a page of a manual: head, navigation, paragraphs."""
    import markdownify  # noqa: F401  # of the extra that reads HTML
    from markdown_it import MarkdownIt

    links = "".join(f"<li><a href='page-{n}.html'>Chapter {n}</a></li>" for n in range(25))
    head = "<html><head><title>Manual</title><style>body { margin: 0 }</style></head>"
    text = MarkdownIt("commonmark").enable("table").render(page)
    return f"{head}<body><nav><ul>{links}</ul></nav><main>{text}</main></body></html>".encode()


def as_pdf(page):
    parts = [page[at : at + 2500].replace("<", "&lt;") for at in range(0, len(page), 2500)]
    return pdf_of(*parts)


def as_links(page):
    """Return a page of HTML most of which is no text: a script, styles, a table of links."""
    words = page.split()
    rows = "".join(
        f'<tr class="row odd"><td style="color: #333333"><a href="#n{at}">{word}</a></td></tr>'
        for at, word in enumerate(words[:150])
    )
    script = f"<script>{'var unused = [1, 2, 3];' * 400}</script>"
    return f"<html><head>{script}</head><body><table>{rows}</table></body></html>".encode()


def chinese(page):
    """Return a page in Chinese as long as another one."""
    signs = "本系统将文档切分为片段并建立索引以便按语义检索每个片段都保留来源页码和标题路径"
    return "".join(
        signs[ord(letter) % len(signs)] + ("。\n\n" if at % 60 == 59 else "")
        for at, letter in enumerate(page[:4000])
    )


def as_chinese_pdf(page):
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.platypus import Paragraph, SimpleDocTemplate

    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    style = ParagraphStyle("chinese", fontName="STSong-Light", wordWrap="CJK")
    out = io.BytesIO()
    SimpleDocTemplate(out).build([Paragraph(p, style) for p in chinese(page).split("\n\n")])
    return out.getvalue()


def corpus(kind):
    """Return real documents of a type: this handbook, or this program."""
    pages = [p.read_text(encoding="utf-8") for p in sorted(HANDBOOK.glob("*.md"))[:14]]
    if kind == "py":
        return [
            p.read_bytes() for p in sorted((ROOT / "ragstream_core" / "agents").glob("*.py"))[:14]
        ]
    make = {
        "md": str.encode, "html": as_html, "pdf": as_pdf, "links.html": as_links,
        "chinese.pdf": as_chinese_pdf, "chinese.md": lambda page: chinese(page).encode(),
    }[kind]  # fmt: skip
    return [make(page) for page in pages]


@pytest.mark.parametrize(
    "kind", ["md", "html", "pdf", "py", "links.html", "chinese.pdf", "chinese.md"]
)
def test_it_is_within_half_of_what_an_ingest_finds(bench, onnx_embedder, kind):
    chunker = Chunker(chunk_profile("default"), token_offsets=onnx_embedder.token_offsets)

    def run():
        return bench.manager(chunkers=lambda _: chunker).run(bench.project, IngestionConfig())

    documents = corpus(kind)
    for n, data in enumerate(documents[:7]):
        bench.write(f"{n}.{kind}", data)
    past, found = looked(bench)
    first = forecast(
        found.files, found, peeked(DocumentTree.of(bench.docs), found.files, found, past)
    )
    live = run().chunks["live"]
    assert live / 1.5 <= first.chunks <= 1.5 * live, "from a look into the files"
    for n, data in enumerate(documents[7:], start=7):
        bench.write(f"{n}.{kind}", data)
    past, found = looked(bench)
    new = [f"{n}.{kind}" for n in range(7, len(documents))]
    second = forecast(new, found, peeked(DocumentTree.of(bench.docs), new, found, past))
    grown = run().chunks["live"] - live
    assert grown / 1.5 <= second.chunks <= 1.5 * grown, "from what was read before"


def test_many_small_files_have_a_chunk_each_and_sizes_that_are_set_count(bench):
    for n in range(30):
        bench.write(f"{n}.md", f"note {n}")
    bench.write("long.md", "words " * 7000)
    past, found = looked(bench)
    assert forecast([f"{n}.md" for n in range(30)], found, past).chunks == 30
    usual = forecast(["long.md"], found, past).chunks
    half = adjusted(chunk_profile("default"), size=125)
    assert forecast(["long.md"], found, past, profile=half).chunks == 2 * usual


@pytest.mark.parametrize(
    "data",
    [b"", b"junk", b"stream\n" * 5000, b"stream\nBT(" + b"(" * 99_999,
     b"stream\r\n" + zlib.compress(b"BT <zz> ET" + b" " * 50_000_000)],
    ids=["empty", "junk", "many", "open", "bomb"],
)  # fmt: skip
def test_a_look_into_a_broken_pdf_costs_little_and_says_nothing(bench, data):
    bench.write("a.pdf", data)
    past, found = looked(bench)
    assert peeked(DocumentTree.of(bench.docs), found.files, found, past) == past
    assert pdf_tokens(data) == 0


@pytest.mark.parametrize(
    "part", ["<", "<a ", "<!", "<!--", '<a b="', "<a href=", "<script>", "&", "<a" + " =" * 20]
)
def test_a_look_into_broken_html_takes_linear_time(part):
    started = time.process_time()
    html_text((part * 30_000).encode())
    assert time.process_time() - started < 30, "quadratic time would be minutes"


def test_text_is_what_a_page_shows_and_the_targets_of_its_links():
    page = (
        "<p class='x'>one&amp;<!-- no --><script>no < 1</script><a href='u.html'>two</a><style>no"
    )
    assert html_text(page.encode()) == "one&[](u.html)two"
    named = "<meta charset='gb18030'>中文".encode("gb18030")
    assert html_text(named) == "中文"
    assert html_text(b"<meta charset='no-such'>a") == "a"


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5000), min_size=1))
def test_where_all_files_of_a_type_hold_as_much_the_look_says_so_exactly(files):
    """However many there are, and however long: the mean is weighted by bytes."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {f"{name}.txt": 4 * count for name, count in files.items()}
        for name, size in sizes.items():
            (Path(folder) / name).write_text("one\n" * (size // 4))
        assert tokens_per_byte(DocumentTree.of(Path(folder)), sizes) == {"txt": pytest.approx(0.25)}


def test_a_look_reads_a_few_files_and_leaves_out_what_is_gone(bench, monkeypatch):
    for n in range(200):
        bench.write(f"{n}.txt", "word " * n)
    opened = []
    real = document_tree.open_beneath
    monkeypatch.setattr(
        document_tree, "open_beneath", lambda *where: (opened.append(where), real(*where))[1]
    )
    found = scan(bench.docs)
    (bench.docs / "199.txt").unlink()
    past = peeked(DocumentTree.of(bench.docs), found.files, found, Known())
    assert len(opened) <= FILES
    assert past.looked == {"txt": pytest.approx(0.2, rel=0.05)}


@pytest.fixture
def quiet(bench):
    """A bench whose files are long past the racy window."""
    bench.write("a.md", "text")
    bench.write("b.md", b"\0\xff")
    bench.run()
    later = bench.manager(clock=lambda: __import__("time").time_ns() + 10**10)
    later.run(bench.project, IngestionConfig())
    assert bench.pending() is None
    return bench


def test_nothing_changed_is_a_no_op_that_writes_nothing(quiet):
    before = {p.name: p.stat() for p in quiet.index.rglob("*")}
    assert quiet.pending() is None
    assert {p.name: p.stat() for p in quiet.index.rglob("*")} == before


def test_idle_stats_tell_what_is_live(quiet):
    found = inspect(quiet.index, DocumentTree.of(quiet.docs), scan_fp=IngestionConfig().scan_fp)
    stats = found.idle_stats("demo", seconds=0.1).to_json()
    assert (stats["generation"], stats["committed"]) == (1, False)
    assert stats["files"]["unchanged"] == stats["documents"] == stats["files"]["skipped"] == 1
    assert stats["chunks"] == {"embedded": 0, "reused": 0, "live": 1}
    assert stats["digest"] == quiet.view().digest


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.write("a.md", "text", mtime=5),
        lambda b: b.write("new.md", "x"),
        lambda b: (b.docs / "a.md").unlink(),
        lambda b: (b.docs / "a.md").rename(b.docs / "c.md"),
        lambda b: (b.docs / "a.md").chmod(0o600),
        lambda b: (b.index / "file_manifest.json").unlink(),
        lambda b: (b.index / "lexical-latest" / "arrays.bin").write_bytes(b"{}\n"),
        lambda b: (b.index / "catalog.sqlite").unlink(),
        lambda b: (b.index / "catalog.sqlite").write_bytes(b"garbage" * 999),
    ],
)
def test_every_difference_is_pending(quiet, change):
    change(quiet)
    assert quiet.pending() is not None


def test_other_settings_are_pending(quiet):
    for other in ({"profile": "sentence_400"}, {"max_text_bytes": 5}, {"embedding": "x"}):
        assert quiet.pending(**other).reason == "settings changed"


def test_what_is_no_document_is_no_reason(quiet):
    quiet.write("c.gif", "x")
    (quiet.docs / "link.md").symlink_to(quiet.docs / "a.md")
    assert quiet.pending() is None


def test_never_ingested(bench):
    assert bench.pending().reason == "never ingested"
    with pytest.raises(UnknownProject):
        inspect(bench.index, DocumentTree.of(bench.root / "none"), scan_fp="")
    assert not bench.index.exists()


def test_derived_files_that_are_behind_are_healed_by_the_next_run(quiet):
    (quiet.index / "file_manifest.json").unlink()
    (quiet.index / "lexical-latest" / "arrays.bin").unlink()
    stats = quiet.run()
    assert not stats.committed
    assert (quiet.index / "file_manifest.json").exists()
    assert (quiet.index / "lexical-latest" / "arrays.bin").exists()


def test_a_string_of_a_pdf_without_an_end_is_looked_through_once():
    page = b"BT (Valves) Tj (" + b"\\(" * 30_000
    began = time.process_time()
    tokens = pdf_tokens(b"stream\n" + zlib.compress(page) + b"endstream")
    assert 1 <= tokens <= 3
    assert time.process_time() - began < 10  # a hundredth of a second; minutes, if it is not once
