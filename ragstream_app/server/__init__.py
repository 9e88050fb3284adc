"""The servers of `ragstream up`: the page, its access control and their supervision."""
