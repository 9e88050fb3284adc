"""The value of a spreadsheet's cell as people see it in the sheet, digit by digit.

A plain number keeps all its digits. A percentage, an amount of money, a number with a unit or with
leading zeros is written as its number format shows it, where that format is a simple one.
"""

from __future__ import annotations

import datetime
import functools
import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

_WRITTEN_OUT = 20  # a number with more places than that stays in powers of ten
_MARK = re.compile(
    r"""
    "(?P<quoted>[^"]*)" | \\(?P<escaped>.) | \[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\]
    | \[[A-Za-z]+\s?\d*\] | _. | \*. | (?P<end>;) | (?P<place>[#0?.,]) | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNQUOTED_LITERALS = " $-+():€£¥%'"
_NO_UNIT = " -+():'/."
_CLOCK, _CALENDAR = re.compile(r"[hs]"), re.compile(r"[dyge]|mmm|^[^hs]*$")
_HIDDEN_IN_DATES = re.compile(r'"[^"]*"|\\.|\[(?!h|m|s)[^\]]*\]|am/pm|a/p')


def shown(value: Any, number_format: str) -> str:
    """Return what a sheet shows of a value; blanks as ""."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return formatted(value, number_format) or digits_of(value)
    if isinstance(value, datetime.timedelta):
        return _span(value)
    if isinstance(value, datetime.datetime | datetime.time):
        return _moment(value, number_format)
    return str(value)


def digits_of(number: float) -> str:
    """Return a number with the fifteen digits that spreadsheets show; a whole one with all."""
    if isinstance(number, int):
        return str(number)
    decimal = Decimal(f"{number:.15g}")
    if not decimal.is_finite():
        return str(number)
    exponent = decimal.normalize().as_tuple().exponent
    if abs(decimal.adjusted()) > _WRITTEN_OUT or int(exponent) < -2 * _WRITTEN_OUT:
        return str(decimal.normalize())
    text = f"{decimal:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def formatted(number: float, number_format: str) -> str:
    """Return a number as its format shows it; "" where its digits alone say as much, or more."""
    parts = _parts(number_format)
    if parts is None:
        return ""
    head, mask, tail = parts
    exact = Decimal(digits_of(number))
    if len(mask) > _WRITTEN_OUT or exact.adjusted() > _WRITTEN_OUT:
        return ""
    if (head + tail).strip(_NO_UNIT):
        exact *= 100 if "%" in head + tail else 1
        written = _amount(abs(exact), mask)
    elif exact != exact.to_integral_value() or exact < 0:
        return ""
    else:
        written = _code(f"{exact:.0f}", mask)
    sign = "-" if exact < 0 and re.search("[1-9]", written) else ""
    return f"{sign}{head}{written}{tail}".strip() if written else ""


@functools.lru_cache(maxsize=1024)
def _parts(number_format: str) -> tuple[str, str, str] | None:
    """Return what stands before the places of a format, these, and what stands behind them."""
    marks: list[tuple[str, bool]] = []
    for match in _MARK.finditer(number_format):
        if match["end"]:
            break
        if match["other"] and match["other"] not in _UNQUOTED_LITERALS:
            return None
        text = match["quoted"] or match["escaped"] or match["currency"] or match["other"] or ""
        marks += [(letter, False) for letter in text]
        marks += [(match["place"], True)] if match["place"] else []
    at = [n for n, (_, is_place) in enumerate(marks) if is_place]
    if not at:
        return None
    text = "".join(mark for mark, _ in marks)
    return text[: at[0]], text[at[0] : at[-1] + 1], text[at[-1] + 1 :]


def _amount(number: Decimal, mask: str) -> str:
    """Return a number with the decimals, thousands and leading zeros of ``#,##0.00``."""
    whole, _, decimals = mask.partition(".")
    if set(mask) - set("#0?,.") or whole.endswith(",") or set(decimals) & set(",."):
        return ""
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    before, _, after = f"{rounded:f}".partition(".")
    while after.endswith("0") and decimals[len(after) - 1] != "0":
        after = after[:-1]
    before = f"{int(before):,}" if "," in whole else before.zfill(whole.count("0"))
    return f"{before}.{after}" if after else before


def _code(digits: str, mask: str) -> str:
    """Return the digits of a number in the places of ``00000`` or ``000-00-0000``."""
    if mask.count("0") < 2 or set(mask) & set(".,"):
        return ""
    left, written = list(digits), ""
    for mark in reversed(mask):
        if mark in "#0?":
            written = (left.pop() if left else "0" if mark == "0" else "") + written
        else:
            written = mark + written
    return "".join(left) + written


def _moment(value: datetime.datetime | datetime.time, number_format: str) -> str:
    """Return a date as 2026-01-05, with a time where there is one; a time of day as 14:30."""
    code = _HIDDEN_IN_DATES.sub("", number_format.lower().partition(";")[0])
    clock = value if isinstance(value, datetime.time) else value.time()
    time = clock.isoformat("minutes" if not clock.second else "seconds")
    if isinstance(value, datetime.time):
        return time
    if _CLOCK.search(code) and not _CALENDAR.search(code):
        return time
    day = value.date().isoformat()
    return f"{day} {time}" if clock != datetime.time() else day


def _span(value: datetime.timedelta) -> str:
    """Return a span of time as hours and minutes, 26:30, with seconds where there are some."""
    seconds = round(abs(value).total_seconds())
    text = f"{seconds // 3600}:{seconds // 60 % 60:02}"
    text += f":{seconds % 60:02}" if seconds % 60 else ""
    return f"-{text}" if value < datetime.timedelta() else text
