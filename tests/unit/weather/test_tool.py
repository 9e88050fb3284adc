"""`WeatherTool` against a server of Open-Meteo's shape: figures where there are, else a reason."""

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from ragstream_core.errors import UnknownSetting
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.weather.open_meteo import HOSTS, OpenMeteo
from ragstream_core.weather.records import WeatherAnalysis
from ragstream_core.weather.tool import TIMEOUT_S, WeatherTool
from tests.model_server import Server, raw, status
from tests.processes import PATIENCE_S
from tests.weather_api import BERLIN, NEW_HAMPSHIRE, NORTHERN, body, forecast, places, tool

OPENSSL = shutil.which("openssl")
EVIL = "\x1b[31mBerlin\u202e\r\n<script>alert(1)</script> ![x](http://t.invalid/x.png)"


@contextlib.contextmanager
def plain_listener():
    """A server that speaks HTTP where TLS is expected; yields its port and what it heard."""
    heard = []
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", 0))
        plain.listen()

        def answer():
            got, _ = plain.accept()
            with got:
                heard.append(got.recv(4096))
                got.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield plain.getsockname()[1], heard
        thread.join(PATIENCE_S)


def asked(server):
    """Path and parameters of each request."""
    split = [urlsplit(path) for path, _, _ in server.seen]
    return [(each.path, {k: v[0] for k, v in parse_qs(each.query).items()}) for each in split]


def failed(found, *words):
    """It is the safe fallback and says why."""
    assert (found.daily, found.overall) == ((), None)
    assert WeatherAnalysis.model_validate_json(found.model_dump_json()).problem == found.problem
    assert found.problem in found.explanation
    for word in words:
        assert word in found.problem, found.problem
    return found


def test_a_city_becomes_days_figures_and_words(open_meteo):
    found = tool(open_meteo.url).run("Berlin", 7)
    assert WeatherAnalysis.model_validate_json(found.model_dump_json()).place == found.place
    assert found.problem == "" and found.warnings == ()
    assert found.place.label == "Berlin (State of Berlin, Germany)"
    assert [str(day.date) for day in found.daily] == [f"2026-11-{20 + n}" for n in range(7)]
    first = found.daily[0]
    assert (first.min_c, first.max_c) == (1.0, 7.0)
    assert first.avg_c == pytest.approx(4.0, abs=0.05)
    assert [day.rolling_avg_c is None for day in found.daily] == [True, True, *[False] * 5]
    assert found.daily[1].precipitation_mm == pytest.approx(6 * 0.4)
    assert found.overall.precipitation_mm == pytest.approx(2 * 6 * 0.4)
    assert found.overall.avg_wind_kmh == pytest.approx(8 + 3 + 1.15)
    assert len(found.explanation.split("\n\n")) == 4 and found.explained_by == "text"


def test_exactly_two_questions_are_asked_and_nothing_else_is_sent(open_meteo, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")
    monkeypatch.setenv("OPENMETEO_API_KEY", "canary")
    open_meteo.answers = [raw(places(BERLIN)), raw(forecast(3))]
    tool(open_meteo.url).run("Köln/../&count=1#x", 3)
    (search, first), (path, second) = asked(open_meteo)
    assert (search, path) == ("/v1/search", "/v1/forecast")
    assert first == {"name": "Köln/../&count=1#x", "count": "10", "language": "en",
                     "format": "json"}  # fmt: skip
    assert second == {
        "latitude": "52.5244", "longitude": "13.4105", "forecast_days": "3", "timezone": "auto",
        "hourly": "temperature_2m,precipitation,wind_speed_10m",
    }  # fmt: skip
    for _, headers, sent in open_meteo.seen:
        assert set(headers) <= {"host", "accept", "connection", "accept-encoding", "user-agent"}
        assert headers["user-agent"] == "ragstream" and sent is None
        assert headers["accept-encoding"] == "identity"


def test_without_a_test_only_the_two_hosts_are_asked(monkeypatch):
    """Whatever environment and city say, the name of no other host is looked up."""
    looked_up = []

    def lookup(host, *_, **__):
        looked_up.append(host if isinstance(host, str) else host.decode())
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    for name in ("HTTPS_PROXY", "ALL_PROXY", "RAGSTREAM_PROVIDER__BASE_URL"):
        monkeypatch.setenv(name, "http://evil.invalid:80")
    for city in ("Berlin", "http://evil.invalid/", "@evil.invalid", "//evil.invalid", "..\\evil"):
        failed(WeatherTool().run(city, 2), "geocoding-api.open-meteo.com", "DNS")
    assert set(looked_up) == {"geocoding-api.open-meteo.com"}
    assert {OpenMeteo().geocoding.host, OpenMeteo().forecast.host} == HOSTS


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.invalid/v1", "http://api.open-meteo.com/v1",
        "https://api.open-meteo.com:8443/v1", "https://api.open-meteo.com.evil.invalid/v1",
        "https://api.open-meteo.com@evil.invalid/v1", "https://evil.invalid@api.open-meteo.com/v1",
        "https://api.open-meteo.com#@evil.invalid/", "https://api.open-meteo.com?@evil.invalid/",
        "https://api.open-meteo.com\\@evil.invalid/v1", "https://api.open-meteo.com\t.evil.invalid/",
        "https://api.open-meteo.com%2eevil.invalid/", "https://xn--pen-meteo.com/v1",
        "https://api.open‐meteo.com/v1", "https://192.0.2.1/v1", "https://3221225985/v1",
        "https://0xc0000201/v1", "https://0300.0.2.1/v1", "https://[::2]/v1",
        "https://[::ffff:192.0.2.1]/v1", "https://169.254.169.254/latest", "http://0.0.0.0/v1",
        "http://localhost.evil.invalid/", "ftp://127.0.0.1/", "file:///etc/passwd",
        "gopher://127.0.0.1/", "//evil.invalid/v1", "",
    ],
)  # fmt: skip
def test_no_other_host_can_be_given(url):
    with pytest.raises(UnknownSetting):
        OpenMeteo(forecast_url=url)
    with pytest.raises(UnknownSetting):
        OpenMeteo(geocoding_url=url)


def test_a_name_that_leads_elsewhere_meets_tls(monkeypatch):
    """DNS that points to this machine: nothing is said before a certificate was seen."""
    with plain_listener() as (port, heard):
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address])
        failed(WeatherTool().run("Berlin"), "geocoding-api.open-meteo.com", "TLS")
    assert heard[0][:1] == b"\x16" and b"Berlin" not in heard[0]


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl to make a certificate")
def test_a_certificate_that_nobody_signed_is_not_believed(monkeypatch, tmp_path):
    """It even names the right host."""
    key, signed = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(key), "-out", str(signed), "-subj", "/CN=open-meteo"]
    command += ["-addext", "subjectAltName=DNS:geocoding-api.open-meteo.com"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed, key)
    with Server() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.answers = [raw(places(BERLIN))]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.server_port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address])
        failed(WeatherTool().run("Berlin"), "geocoding-api.open-meteo.com", "TLS")
        server.shutdown()
    assert server.seen == []


def test_of_several_places_the_first_is_taken_and_the_others_are_named(open_meteo):
    open_meteo.answers = [raw(places(BERLIN, NEW_HAMPSHIRE, NORTHERN)), raw(forecast())]
    found = tool(open_meteo.url).run("Berlin")
    assert found.place.country_code == "DE"
    assert [other.label for other in found.alternatives] == [
        "Berlin (New Hampshire, United States)", "Berlin",
    ]  # fmt: skip
    assert found.alternatives[0].position == "44.47° N 71.19° W"


@pytest.mark.parametrize("country", ["US", "us", "united states", " United  States "])
def test_a_country_chooses_among_them(open_meteo, country):
    open_meteo.answers = [
        raw(places(BERLIN, NEW_HAMPSHIRE)), raw(forecast(place=NEW_HAMPSHIRE)),
    ]  # fmt: skip
    found = tool(open_meteo.url).run("Berlin", country=country)
    assert (found.place.region, found.alternatives) == ("New Hampshire", ())
    assert asked(open_meteo)[0][1]["count"] == "100"
    assert asked(open_meteo)[1][1]["longitude"] == "-71.1851"


def test_a_name_that_nobody_knows(open_meteo):
    open_meteo.answers = [raw(places())]
    failed(tool(open_meteo.url).run("Xyzzy"), "no place named Xyzzy is known")
    assert len(open_meteo.seen) == 1
    open_meteo.answers = [raw(places(BERLIN))]
    failed(tool(open_meteo.url).run("Berlin", country="Mars"), "no place named Berlin in Mars")


@pytest.mark.parametrize(
    ("city", "days"),
    [("", 7), ("  ", 7), ("x" * 101, 7), ("a\x00b", 7), ("a\x1b[2Jb", 7), ("\ud800", 7),
     ("Berlin", 0), ("Berlin", 17), ("Berlin", -1), ("Berlin", 10**9), (None, 7), (b"Berlin", 7)],
)  # fmt: skip
def test_a_senseless_question_asks_nobody(open_meteo, city, days):
    found = failed(tool(open_meteo.url).run(city, days))
    assert open_meteo.seen == []
    assert all(line.isprintable() for line in found.explanation.split("\n"))


def test_days_of_which_too_little_is_known_are_left_out(open_meteo):
    def known(day, hour):
        return None if day == 2 and hour >= 17 else 5.0

    nothing = lambda day, hour: None  # noqa: E731
    open_meteo.answers = [
        raw(places(BERLIN)), raw(forecast(4, temperature=known, rain=nothing, wind=nothing)),
    ]  # fmt: skip
    found = tool(open_meteo.url).run("Berlin", 4)
    assert [day.date.day for day in found.daily] == [20, 21, 23]
    assert all(day.rolling_avg_c is None for day in found.daily), "no three days in a row"
    assert found.warnings == ("1 of 4 days left out: too little is known",)
    assert found.overall.precipitation_mm is None and found.overall.avg_wind_kmh is None
    assert "Nothing is known about rain" in found.explanation
    open_meteo.answers = [raw(places(BERLIN)), raw(forecast(2, temperature=nothing))]
    assert failed(tool(open_meteo.url).run("Berlin", 2), "too few hours").place is not None


@pytest.mark.parametrize("doubled", [True, False], ids=["back", "forward"])
def test_a_day_on_which_the_clocks_change_is_a_day(open_meteo, doubled):
    """One hour comes twice, or not at all."""
    whole = forecast(3)
    for column in whole["hourly"].values():
        if doubled:
            column.insert(3, column[3])
        else:
            del column[3]
    open_meteo.answers = [raw(places(BERLIN)), raw(whole)]
    found = tool(open_meteo.url).run("Berlin", 3)
    assert found.problem == "" and len(found.daily) == 3


def test_a_place_at_the_date_line_has_a_forecast_on_its_other_side(open_meteo):
    fiji = {**BERLIN, "name": "Naselesele", "latitude": -16.7, "longitude": 179.95}
    near = forecast(latitude=-16.7, longitude=-179.95)
    open_meteo.answers = [raw(places(fiji)), raw(near)]
    assert tool(open_meteo.url).run("Naselesele").problem == ""


# --- answers that are no answer ---------------------------------------------------------------


def drip(handler):
    """A byte now and then: no read times out, the whole never comes."""
    handler.head(content_length="100000")
    head_drip(handler)


def head_drip(handler):
    for _ in range(500):
        handler.wfile.write(b"X")
        handler.wfile.flush()
        time.sleep(0.02)


def cut(handler):
    handler.head(content_length="100000")
    handler.wfile.write(b'{"latitude": 52.5')
    handler.cut()


def huge(handler):
    handler.head(content_type="application/json")
    block = b"[" + b" " * 65_536
    for _ in range(64):
        handler.wfile.write(block)


def changed(**changes):
    return raw(body(forecast(**changes)))


def hourly(**columns):
    whole = forecast()
    whole["hourly"].update(columns)
    return raw(body(whole))


def without(*path):
    whole = forecast()
    place = whole
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return raw(body(whole))


NAN, INF = float("nan"), float("inf")
STAMPS = forecast()["hourly"]["time"]
BROKEN = {
    "nothing": raw(b""),
    "text": raw(b"<html>It works!</html>", content_type="text/html"),
    "cut JSON": raw(body(forecast())[:-200]),
    "cut connection": cut,
    "null": raw(b"null"),
    "a list": raw(b"[]"),
    "a number": raw(b"1e999"),
    "an error object": raw({"error": True, "reason": "No data is available"}),
    "no UTF-8": raw(b'{"latitude": "\xff\xfe"}'),
    "deep": raw(b"[" * 100_000),
    "deep objects": raw(b'{"hourly":' * 50_000),
    "no hours": without("hourly"),
    "no units": without("hourly_units"),
    "no column": without("hourly", "precipitation"),
    "no position": without("latitude"),
    "empty": hourly(time=[], temperature_2m=[], precipitation=[], wind_speed_10m=[]),
    "NaN": hourly(temperature_2m=[NAN] * 168),
    "infinity": hourly(wind_speed_10m=[INF] * 168),
    "1e999": raw(body(forecast()).replace(b"0.4", b"1e999")),
    "a number of 100,000 digits": raw(body(forecast()).replace(b"0.4", b"9" * 100_000, 1)),
    "too hot": hourly(temperature_2m=[71.0] * 168),
    "too cold": hourly(temperature_2m=[-273.2] * 168),
    "negative rain": hourly(precipitation=[-0.1] * 168),
    "words for numbers": hourly(temperature_2m=["4.0"] * 168),
    "booleans": hourly(temperature_2m=[True] * 168),
    "columns of other lengths": hourly(temperature_2m=[4.0] * 167),
    "hours that were forgotten": hourly(time=[*STAMPS[3:], "2026-11-27T00:00", "2026-11-27T01:00",
                                             "2026-11-27T05:00"]),
    "days backwards": hourly(time=STAMPS[::-1]),
    "two hours twice": hourly(time=[*STAMPS[:2], *STAMPS[:-2]]),
    "minutes": hourly(time=[stamp.replace(":00", ":30") if n % 2 else stamp
                            for n, stamp in enumerate(STAMPS)]),
    "dates that are none": hourly(time=["2026-02-30T00:00"] * 168),
    "hostile dates": hourly(time=[EVIL] * 168),
    "Fahrenheit": changed(hourly_units={"temperature_2m": "°F", "precipitation": "mm",
                                        "wind_speed_10m": "km/h"}),
    "another place": changed(latitude=35.68, longitude=139.69),
    "no place on Earth": changed(latitude=152.5),
    "one day more": changed(days=8),
    "a hundred days": changed(days=100),
    "more than a MiB": huge,
    "a forecast behind a MiB of blanks": raw(b" " * (1 << 20) + body(forecast())),
    "packed": raw(b"\x1f\x8b", content_encoding="gzip"),
    "moved": status(302, location="http://192.0.2.1/"),
    "moved for good": status(308, location="/v1/elsewhere"),
    "bad request": status(400),
    "no such page": status(404),
    "too many requests": status(429, retry_after="86400"),
    "out of order": status(503),
    "nothing to say": status(204),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_forecast_that_is_none_leaves_a_reason_and_no_figure(open_meteo, name):
    open_meteo.answers = [raw(places(BERLIN)), BROKEN[name]]
    found = failed(tool(open_meteo.url).run("Berlin", 7), "127.0.0.1")
    assert found.place.name == "Berlin", "what was found before is shown"
    assert "\x1b" not in found.explanation and len(found.explanation) < 400
    assert len(open_meteo.seen) == 2, "no second attempt, no redirect followed"


PLACELESS = {
    name: BROKEN[name]
    for name in ("nothing", "text", "null", "a list", "a number", "deep", "no UTF-8", "cut JSON",
                 "cut connection", "more than a MiB", "packed", "moved", "bad request",
                 "too many requests", "out of order", "nothing to say")
} | {
    "results that are no list": raw({"results": {"name": "Berlin"}}),
    "no position": raw(places({"name": "Berlin"})),
    "no name": raw(places({**BERLIN, "name": ""})),
    "a name of blanks": raw(places({**BERLIN, "name": " \n "})),
    "a long name": raw(places({**BERLIN, "name": "B" * 101})),
    "beyond the pole": raw(places({**BERLIN, "latitude": 90.5})),
    "NaN": raw(body(places({**BERLIN, "longitude": NAN}))),
    "a number as name": raw(places({**BERLIN, "name": 7})),
    "a hostile code": raw(places({**BERLIN, "country_code": "../"})),
    "thousands": raw(places(*[BERLIN] * 101)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACELESS)
def test_a_list_of_places_that_is_none_ends_the_look_up(open_meteo, name):
    open_meteo.answers = [PLACELESS[name]]
    if name in ("text", "cut JSON"):
        open_meteo.answers = [raw(b'{"results": [{"name": "Ber')]
    found = failed(tool(open_meteo.url).run("Berlin", 7), "127.0.0.1")
    assert found.place is None and len(open_meteo.seen) == 1


@pytest.mark.parametrize("slow", [drip, head_drip], ids=["body", "head"])
@pytest.mark.parametrize("first", [True, False], ids=["places", "forecast"])
def test_a_slow_answer_ends_with_the_clock(open_meteo, slow, first):
    """Each byte comes in time, the whole does not: the clock counts, not the silence."""

    class Impatient(OpenMeteo):
        """Gives little time to the question that is answered slowly, to the other all it needs."""

        def places(self, city, *, country="", limit_s):
            return super().places(city, country=country, limit_s=0.8 if first else limit_s)

        def hours(self, place, days, *, limit_s):
            return super().hours(place, days, limit_s=0.8)

    open_meteo.answers = [slow] if first else [raw(places(BERLIN)), slow]
    api = Impatient(geocoding_url=open_meteo.url, forecast_url=open_meteo.url)
    found = failed(WeatherTool(api).run("Berlin"), "no whole answer within")
    assert (found.place is None) == first


def test_both_questions_share_one_clock(open_meteo):
    """What the first one took is no longer there for the second."""
    clock, limits = [100.0], []

    class Timed(OpenMeteo):
        def places(self, city, *, country="", limit_s):
            limits.append(limit_s)
            clock[0] += 9.0
            return super().places(city, country=country, limit_s=limit_s)

        def hours(self, place, days, *, limit_s):
            limits.append(limit_s)
            return super().hours(place, days, limit_s=limit_s)

    api = Timed(geocoding_url=open_meteo.url, forecast_url=open_meteo.url, now=lambda: clock[0])
    assert WeatherTool(api).run("Berlin").problem == ""
    assert limits == [TIMEOUT_S, TIMEOUT_S - 9.0] == [15.0, 6.0]


def test_nobody_listens():
    with socket.socket() as taken:  # bound, never listening: refused at once
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        failed(tool(url).run("Berlin"), "connection refused")


def test_a_server_that_takes_the_connection_and_says_nothing():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        found = failed(tool(url, timeout_s=0.4).run("Berlin"))
        # which of two clocks ends it is up to the machine
        assert re.search("no answer in time|no whole answer within", found.problem)


def test_https_that_is_none():
    """TLS is spoken, and who answers otherwise is not believed."""
    with plain_listener() as (port, heard):
        failed(tool(f"https://127.0.0.1:{port}/v1").run("Berlin"), "TLS")
    assert heard[0][:1] == b"\x16", "a TLS handshake"


def test_a_broken_tool_does_not_break_its_face(open_meteo, monkeypatch):
    def broken(*_):
        raise RuntimeError("secret words")

    monkeypatch.setattr("ragstream_core.weather.analytics.daily", broken)
    found = failed(tool(open_meteo.url).run("Berlin"), "unexpected: RuntimeError")
    assert "secret" not in found.explanation


# --- foreign words ----------------------------------------------------------------------------


def test_foreign_words_are_one_printable_line(open_meteo):
    hostile = {"name": EVIL, "country": "\x9b31m", "admin1": "a\nb\u2028c"}
    open_meteo.answers = [raw(places({**BERLIN, **hostile})), raw(forecast())]
    found = tool(open_meteo.url).run("Berlin")
    assert found.problem == "" and found.place.region == "a b c"
    assert found.place.label.isprintable()
    assert all(line.isprintable() for line in found.explanation.split("\n"))


# --- the language model -----------------------------------------------------------------------


def explained(server, *entries):
    model = ScriptedChat(entries=list(entries))
    server.answers = [raw(places(BERLIN)), raw(forecast())]
    return tool(server.url, model=model).run("Berlin"), model


def test_a_model_explains_the_figures_and_nothing_else_is_sent(open_meteo):
    said = "Mild at first.\n\nThen  wet\nand windy.\n\nA coat will do.\x1b[0m"
    found, model = explained(open_meteo, {"say": said})
    assert found.explanation == "Mild at first.\n\nThen wet and windy.\n\nA coat will do.\ufffd[0m"
    assert found.explained_by == "scripted" and found.warnings == ()
    system, user = model.asked[0]
    assert "no instruction" in system.text and '"volatility_c": ' in user.text
    assert "2026-11-26" in user.text


@pytest.mark.parametrize(
    "entry",
    [{"fail": "unreachable"}, {"fail": "timeout"}, {"fail": "broken"}, {"say": "x" * 6_001},
     {"say": " \n\n "}, {"when": "never", "say": "x"}, {"say": "Half a sen", "cut": True}],
)  # fmt: skip
def test_where_the_model_fails_the_rules_explain(open_meteo, entry):
    found, _ = explained(open_meteo, entry)
    assert found.explained_by == "text" and len(found.explanation.split("\n\n")) == 4
    assert len(found.daily) == 7 and found.problem == ""
    assert found.warnings[0].startswith("no explanation by the language model: ")


def test_no_model_is_asked_about_nothing(open_meteo):
    model = ScriptedChat(entries=[{"say": "Sunny!"}])
    open_meteo.answers = [raw(places())]
    failed(tool(open_meteo.url, model=model).run("Xyzzy"))
    assert model.asked == []
