"""Failures that are injected into applications, and the evidence of what happened to the tasks."""
