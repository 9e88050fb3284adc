"""Encodings are told apart without a setting, and what is no text is not read as text."""

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


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_few_broken_bytes_do_not_change_the_encoding(cut):
    text = "Prüfung und Größe der Öffnung\n" * 20
    data = text.encode() + "🙂".encode()[:cut]
    assert decode(data) == (text + "\ufffd", "utf-8 (assumed), 1 broken character was replaced")


def test_a_named_encoding_is_not_questioned():
    data = "Die Prüfung kostet 5 €.".encode("cp1252")
    assert decode(data) == ("Die Prüfung kostet 5 €.", f"cp1252 ({ASSUMED})")
    assert decode(data, fallback="cp1251")[1].startswith("cp1251 (declared fallback)")
