"""The page for browsers. `web/` has its source; what Vite builds from it is in `built/`, which git ignores."""
