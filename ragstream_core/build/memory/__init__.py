"""Cached answers, the digest and remembered facts of one data root."""
