"""The adapter for every agent that speaks the Agent Client Protocol (ACP): one client, and the agents as data."""
