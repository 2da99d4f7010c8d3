"""The scenarios of docs/scenarios.md, one test each."""
