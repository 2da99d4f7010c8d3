"""Reads the same flood of Droid notifications with our adapter and with Factory's Python SDK."""
