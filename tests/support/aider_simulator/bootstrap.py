"""Runs `-I SCRIPT` as the Python of the simulated environment: with its packages instead of the tests' own."""

import runpy
import sys

packages, installed, isolated, script = sys.argv[1:]
assert isolated == "-I", "the worker must be started in isolated mode"
sys.path[:0] = [packages, installed]
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
