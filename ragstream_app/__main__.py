"""`python -m ragstream_app` is `ragstream`."""

from ragstream_app.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
