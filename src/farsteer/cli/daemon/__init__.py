"""Processes that run until they are stopped: the hub, the runner, and both in one process."""
