"""Probes that try the features of executors."""
