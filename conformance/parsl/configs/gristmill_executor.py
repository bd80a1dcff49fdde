"""Parsl configuration in which only the executor is ours."""

from parsl.config import Config

from gristmill.parsl import GristmillExecutor


def fresh_config() -> Config:
    """Returns a new configuration for each session, because an executor can be used only once."""
    return Config(executors=[GristmillExecutor(max_workers=2)], strategy="none")
