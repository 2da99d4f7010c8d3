"""The ASGI server: uvicorn with our protocols, the request guard, authentication headers and responses."""
