"""From files and turns to rows of an index."""
