"""JSON-RPC 2.0 over lines of JSON, for both ends: a face that answers editors, an adapter that drives agents."""
