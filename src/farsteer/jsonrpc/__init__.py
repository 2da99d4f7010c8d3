"""JSON-RPC 2.0 over newline-delimited JSON, for servers and clients alike."""
