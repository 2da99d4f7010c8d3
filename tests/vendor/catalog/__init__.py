"""Scenarios for the real CLIs that the adapter of the Agent Client Protocol drives.

A directory beside this one has the `profile` of one CLI and classes that take these scenarios over.
"""
