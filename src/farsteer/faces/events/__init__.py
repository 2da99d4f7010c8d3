"""Live events: Socket.IO with the namespace `/events`, and the same events as Server-Sent Events."""
