"""Which addresses may be contacted, and which key goes where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.config import AppConfig
from ragstream_core.errors import UnknownSetting
from ragstream_core.platform.endpoint_address import endpoint_at, host_of
from ragstream_core.wiring.models import endpoint

REFUSED = [
    "", "h.example/v1", "//h.example/v1", "ftp://127.0.0.1/v1", "file:///etc/passwd", "https:///v1",
    "http://example.org/v1", "http://10.0.0.1/v1", "http://0.0.0.0/v1", "http://[::2]/v1",
    "http://[::]/v1", "http://2130706433/v1", "http://0x7f000001/v1", "http://127.1/v1",
    "http://0177.0.0.1/v1", "http://localhost.evil.example/v1", "http://127.0.0.1.evil.example/v1",
    "https://u:p@h.example/v1", "https://u@h.example/v1", "http://127.0.0.1:80@evil.example/v1",
    "http://evil.example#@127.0.0.1/v1", "https://h.example\\@evil.example/v1",
    "http://127.0.0.1\\.evil.example/v1", "https://h.example/v1?x=1", "https://h.example/v1?",
    "https://h.example/v1#x", "https://h\u00fcst.example/v1", "https://h example/v1",
    "https://h.example\t/v1", "https://h.example\r\nX-Evil: 1/v1", "https://h.example:99999/v1",
    "https://h.example:0x50/v1", "https://h.example:-1/v1", "https://h_x.example/v1",
    "https://h.example%00/v1", "http://[::1/v1",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_addresses_that_are_refused(url):
    with pytest.raises(UnknownSetting, match="refused") as caught:
        host_of(url)
    assert "u:p" not in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"embeddings.base_url": "ftp://a"}, "embeddings.base_url"),
        ({"provider.base_url": "ftp://a"}, "provider.base_url"),
        ({"embeddings.base_url": "ftp://a", "provider.base_url": "ftp://b"}, "embeddings.base_url"),
    ],
)
def test_the_setting_that_names_the_address_is_the_one_to_mend(given, setting):
    config = AppConfig.load(explicit={"embeddings.backend": "openai", **given})
    with pytest.raises(UnknownSetting, match=f"the address in {setting} is refused") as caught:
        endpoint(config)
    assert caught.value.hint.startswith(f"set {setting} to https://")


@pytest.mark.parametrize(
    ("url", "host", "local"),
    [
        ("http://127.0.0.1:11434/v1", "127.0.0.1:11434", True),
        ("http://127.8.9.1/v1", "127.8.9.1:80", True),
        ("http://localhost:8000/v1/", "localhost:8000", True),
        ("http://[::1]:8000/v1", "[::1]:8000", True),
        ("https://[::1]/v1", "[::1]:443", True),
        ("https://API.example.org/v1", "api.example.org:443", False),
        ("https://localhost.example/v1", "localhost.example:443", False),
        ("https://10.0.0.1:8443", "10.0.0.1:8443", False),
    ],
)
def test_addresses_that_are_taken(url, host, local):
    assert host_of(url) == host
    assert endpoint_at(url).is_local is local


HOSTS = ["https://a.example/v1", "https://A.example:443/other", "https://a.example:8443/v1",
         "https://b.example/v1", "http://127.0.0.1:443/v1", "https://sub.a.example/v1"]  # fmt: skip


@given(st.sampled_from(HOSTS), st.sampled_from(HOSTS), st.text("abc", max_size=9))
def test_a_key_goes_to_its_host_and_port_only_and_is_never_shown(url, home, key):
    endpoint = endpoint_at(url, key=key and f"sk-{key}", key_url=home)
    assert bool(endpoint.api_key) == (bool(key) and host_of(url) == host_of(home))
    assert "sk-" not in repr(endpoint) + str(endpoint)
