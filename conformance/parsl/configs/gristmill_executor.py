"""A configuration of Parsl with nothing of ours but the executor."""

from parsl.config import Config

from gristmill.parsl.executors import GristmillExecutor


def fresh_config() -> Config:
    """A new one for each session: executors are used once."""
    return Config(executors=[GristmillExecutor(max_workers=2)], strategy="none")
