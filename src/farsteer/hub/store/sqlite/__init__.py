"""The store of one hub in a SQLite database: one module for each group of tables."""
