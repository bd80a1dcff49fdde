"""Engines on a cluster of namespaces: each client is a process of its own at the login end."""
