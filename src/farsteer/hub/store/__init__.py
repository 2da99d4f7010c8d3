"""The hub's memory: one interface, and its SQLite form."""
