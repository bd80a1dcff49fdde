"""Import of the adapter in programs that loky's tests start."""

import adapter  # noqa: F401
