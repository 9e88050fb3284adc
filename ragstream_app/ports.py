"""Whether a loopback port is free, and whether something answers on it."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether nothing listens on a port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(url: str, *, timeout_s: float = 2.0) -> bool:
    """Whether a loopback address answers a GET with success; proxies are not asked."""
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
