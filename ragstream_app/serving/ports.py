"""Whether a port of this machine is free, and whether something answers on it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

HOST = "127.0.0.1"


def is_free(port: int, host: str = HOST) -> bool:
    """Whether nothing listens on a port of an address, by default the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def direct() -> OpenerDirector:
    """Return what opens addresses without asking a proxy."""
    import urllib.request

    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, *, timeout_s: float = 2.0) -> bool:
    """Whether an address answers a GET with success; proxies are not asked."""
    import urllib.error

    try:
        with direct().open(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
