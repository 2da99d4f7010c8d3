"""Helpers for the tests. One noun per module, as in src/."""
