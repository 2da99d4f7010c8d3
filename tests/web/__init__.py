"""The page in a real browser, on a real hub with the demo agent. `make test-web` runs them."""
