"""The catalogue of what sessions live through, one test per scenario: docs/scenarios.md says which is where."""
