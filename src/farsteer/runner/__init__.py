"""The runner: the daemon of one machine. It launches agents and keeps their sessions' logs."""
