"""The Agent Client Protocol: editors drive any agent on any machine."""
