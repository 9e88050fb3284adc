"""Parsers of PDF, Office and HTML files, each in a limited child process."""
