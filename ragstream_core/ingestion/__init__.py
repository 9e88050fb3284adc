"""From files to rows of an index."""
