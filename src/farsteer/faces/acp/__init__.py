"""The Agent Client Protocol (ACP), for editors: on stdin and stdout, and as the hub's websocket `/acp`."""
