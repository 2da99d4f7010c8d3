"""Agents: the adapter contract, the catalogue, and one package per adapter."""
