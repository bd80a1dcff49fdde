"""Engines on a cluster of namespaces. Each client is a separate process on the login machine."""
