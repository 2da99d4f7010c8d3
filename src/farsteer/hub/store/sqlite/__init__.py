"""The store of one hub in a SQLite database: one module for each group of tables.

These modules read rows, call a rule of `farsteer.hub.rules` and write what it returns.
"""
