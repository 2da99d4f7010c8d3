"""The REST API: a declarative table of endpoints, the code that serves it, and the documents made from it."""
