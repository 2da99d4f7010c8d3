"""The ASGI server: uvicorn protocols, the request guard, authentication headers, responses and websocket helpers."""
