"""`python -m ragstream_app` is `ragstream`."""

import sys
from pathlib import Path

if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
    del sys.path[0]  # the working directory, whose files are nobody's modules

from ragstream_app.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
