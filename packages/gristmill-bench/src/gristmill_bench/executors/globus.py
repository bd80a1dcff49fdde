"""Globus Compute: a service that runs tasks on endpoints, which users set up on any machines."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field

from gristmill_bench.dependencies import AfterParents
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.interfaces import Backend


class GlobusCompute(ExecutorPlugin):
    """``globus_compute_sdk.Executor``: an endpoint, through Globus' service; needs an account and a network."""

    needs: ClassVar[tuple[str, ...]] = ("globus-compute-sdk",)
    without_groups: ClassVar[str] = "they are where their endpoint is"

    #: Id of the endpoint. Its configuration has to provide ``workers`` workers: the service does not report their
    #: number.
    endpoint: UUID
    #: Values of the endpoint's template, such as ``{"max_workers": 4}``.
    endpoint_options: dict[str, Any] = Field(default_factory=dict)
    #: Largest number of calls that are sent to the service at once.
    batch_size: Annotated[int, Field(ge=1)] = 128

    def open(self) -> Backend:
        """Connects to the service.

        Raises ``BenchError`` without a login, or if the service cannot be reached.
        """
        sdk = importlib.import_module("globus_compute_sdk")
        client = sdk.Client(do_version_check=False)
        if client.app.login_required():
            raise BenchError(
                "no user has logged in to Globus: globus-compute-endpoint login, or"
                " GLOBUS_COMPUTE_CLIENT_ID and GLOBUS_COMPUTE_CLIENT_SECRET"
            )
        try:
            status = client.get_endpoint_status(str(self.endpoint))["status"]
        except Exception as error:
            raise BenchError(f"endpoint {self.endpoint}: {error}") from error
        if status != "online":
            raise BenchError(f"endpoint {self.endpoint} is {status}")
        return AfterParents(
            sdk.Executor(
                endpoint_id=self.endpoint,
                client=client,
                user_endpoint_config=self.endpoint_options or None,
                batch_size=self.batch_size,
            )
        )
