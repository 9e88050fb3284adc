"""Encodings are told apart without a setting, and what is no text is not read as text."""

import codecs
import random
import struct
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragstream_core.text.decoding import ASSUMED, decode

SENTENCES = {
    "western": [
        "Die Prüfung der Pumpe kostet 5 € und dauert länger als früher.",
        "Größe und Maß müssen geprüft werden, bevor das Ventil öffnet.",
        "Le relevé a été effectué à l'été; le contrôle « final » coûte 12 €.",
        "¿Dónde está la válvula? El año próximo se cambiará la señal.",
        "Räksmörgås på båten är godare än fläsk, säger han.",
        "“Smart” quotes – and it’s 20 °C ± 2 % at £5.",
    ],
    "japanese": [
        "東京の冷却ポンプは毎年点検します。", "バルブは九気圧で開きます。",
        "この手順書は安全担当者が確認しました。",
    ],
    "chinese": [
        "北京的冷却泵每年检查一次。", "阀门在九个大气压时打开，请不要提前打开。",
        "本手册由安全负责人审核。",
    ],
    "korean": ["서울의 냉각 펌프는 매년 점검합니다.", "밸브는 구 기압에서 열립니다."],
    "russian": [
        "Клапан открывается при давлении 9 бар.", "Проверка насоса проводится раз в год.",
        "Инструкцию проверил ответственный за безопасность.",
    ],
}  # fmt: skip
PAIRS = [
    ("western", "cp1252"), ("japanese", "shift_jis"), ("japanese", "euc_jp"),
    ("chinese", "gb18030"), ("korean", "euc_kr"), ("russian", "koi8-r"), ("russian", "cp1251"),
    *((language, f"utf-16-{order}") for language in SENTENCES for order in ("le", "be")),
]  # fmt: skip


@pytest.mark.parametrize(("language", "encoding"), PAIRS)
@given(data=st.data(), plain=st.sampled_from(["", "Pump 7 runs; see sheet 12.\n" * 40]))
def test_a_text_comes_back_the_same_whatever_it_was_written_in(language, encoding, data, plain):
    lines = data.draw(st.lists(st.sampled_from(SENTENCES[language]), min_size=2, max_size=12))
    text = plain + "\n".join(lines) + "\n"
    assert decode(text.encode(encoding))[0] == text
    assert ASSUMED in decode(text.encode(encoding))[1]


@given(data=st.data())
def test_latin_1_comes_back_the_same(data):
    western = [line for line in SENTENCES["western"] if all(ord(c) < 256 for c in line)]
    text = "\n".join(data.draw(st.lists(st.sampled_from(western), min_size=1)))
    assert decode(text.encode("latin-1"))[0] == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_utf_8_is_never_assumed(text):
    assert decode(text.encode()) == (text, "utf-8")


BINARIES = {
    "random": lambda r: r.randbytes(600),
    "without NUL": lambda r: bytes(r.randrange(1, 256) for _ in range(600)),
    "high bytes": lambda r: bytes(r.randrange(128, 256) for _ in range(600)),
    "packed": lambda r: zlib.compress(r.randbytes(600)),
    "floats": lambda r: struct.pack("<150f", *(r.gauss(0, 1) for _ in range(150))),
    "integers": lambda r: struct.pack("<150i", *(r.randrange(-1000, 100_000) for _ in range(150))),
    "words": lambda r: struct.pack("<300H", *(r.randrange(1, 65_536) for _ in range(300))),
    "sound": lambda r: struct.pack("<300h", *(r.randrange(-900, 900) for _ in range(300))),
}  # fmt: skip


@pytest.mark.parametrize("kind", BINARIES)
@given(seed=st.integers(0, 1 << 32))
def test_binary_is_never_read_as_text(kind, seed):
    data = BINARIES[kind](random.Random(seed))
    assume(not data.startswith((b"\xff\xfe", b"\xfe\xff")))  # a mark says what it is
    assert decode(data)[0] is None


@given(st.integers(0, 1 << 32))
def test_nor_is_binary_behind_what_looks_like_a_mark(seed):
    data = random.Random(seed).randbytes(4_000)
    assert decode(codecs.BOM_UTF16_LE + data)[0] is None


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_few_broken_bytes_do_not_change_the_encoding(cut):
    text = "Prüfung und Größe der Öffnung\n" * 20
    data = text.encode() + "🙂".encode()[:cut]
    assert decode(data) == (text + "\ufffd", "utf-8 (assumed), 1 broken character was replaced")


def test_a_named_encoding_is_not_questioned():
    data = "Die Prüfung kostet 5 €.".encode("cp1252")
    assert decode(data) == ("Die Prüfung kostet 5 €.", f"cp1252 ({ASSUMED})")
    assert decode(data, fallback="cp1251")[1].startswith("cp1251 (declared fallback)")


SAID = "The zebra valve opens at nine bar.\n"


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "🙂"])
@given(count=st.integers(4, 40), cut=st.integers(1, 3))
def test_utf_16_that_is_cut_is_read_to_the_cut(order, mark, last, count, cut):
    text = SAID * count + last
    data = f"{mark}{text}".encode(f"utf-16-{order}")[:-cut]
    assume(mark or cut % 2 or not last)  # half a pair of a text without a mark may be a sign
    found, note = decode(data)
    assert found is not None and found.startswith(SAID * (count - 1))
    assert cut == 2 and not last or "(assumed)" in note


@given(st.lists(st.booleans(), min_size=3, max_size=30).filter(lambda new: len(set(new)) > 1))
def test_each_line_of_a_log_of_two_encodings_is_read(new):
    lines = [f"{n}: Größe der Prüfung für Öfen" for n in range(len(new))]
    data = b"\n".join(
        line.encode("utf-8" if is_new else "cp1252")
        for line, is_new in zip(lines, new, strict=True)
    )
    assert decode(data) == ("\n".join(lines), f"utf-8, some lines cp1252 ({ASSUMED})")


@pytest.mark.parametrize("first", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("mark", [True, False])
def test_a_log_that_another_program_goes_on_with_in_utf_16(first, mark):
    other = "utf-16-le" if first == "utf-8" else "utf-8"
    data = (SAID * 5).encode(first) + ("Prüfung. " + SAID * 5).encode(other)
    data = codecs.BOM_UTF16_LE * (mark and first == "utf-16-le") + data
    text, note = decode(data)
    assert text == SAID * 5 + "Prüfung. " + SAID * 5 and note.startswith("utf-8 and utf-16-le")


@given(st.integers(6, 40), st.integers(1, 9_000), st.integers(6, 40))
def test_a_gap_of_nul_costs_only_itself(before, gap, after):
    text, note = decode((SAID * before).encode() + b"\0" * gap + (SAID * after).encode())
    assert text == f"{SAID * before}\ufffd{SAID * after}"
    assert note == "utf-8 (assumed), 1 broken character was replaced"


def test_a_pdf_without_its_ending_is_no_text():
    assert decode(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n") == (None, "binary: a PDF")


@given(st.text("联通移动电信公司的账单在这里", min_size=3, max_size=60))
def test_short_chinese_lines_that_look_like_utf_8_do_not_part_the_text(text):
    lines = ["联通", text, "中国的账单和合同"]
    assert decode("\n".join(lines).encode("gb18030"))[0] in ("\n".join(lines), None)
