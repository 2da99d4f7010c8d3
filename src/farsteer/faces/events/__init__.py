"""Live events: Socket.IO at `/events` and the same stream as SSE."""
