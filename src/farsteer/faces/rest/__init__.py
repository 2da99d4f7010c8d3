"""The REST API: a table of endpoints, what serves it, and the documents made from it."""
