"""From files to index rows: scan, read, diff, stage, commit; storage stands behind a port."""
