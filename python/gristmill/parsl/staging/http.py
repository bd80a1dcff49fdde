"""Files from web servers.

What a server says is taken at its word: an error status is an error, never the content of the file, and a connection
that ends early is one too. Redirects are followed. A name and a password come from the URL or from ``~/.netrc``,
proxies and certificates from the usual variables (``https_proxy``, ``SSL_CERT_FILE``, ``REQUESTS_CA_BUNDLE``).
"""

from __future__ import annotations

import os
import shutil

from gristmill.parsl.staging.arrival import PIECE_BYTES, SILENCE_LIMIT_S, arriving
from gristmill.parsl.staging.fetching import InTaskFetching, SeparateTaskFetching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from http.client import HTTPResponse
    from typing import Any, BinaryIO
    from urllib.parse import SplitResult
    from urllib.request import OpenerDirector, Request

    from gristmill.parsl.files import File

#: Characters that stay as they are in a path or a query: what has a meaning there, and what is quoted already.
_UNQUOTED = "%/:=&?~+!$,;'@()*[]"


def fetch(file: File) -> None:
    """Downloads a file to its local path. Raises ``StagingError``."""
    import zlib
    from http.client import HTTPException
    from urllib.error import HTTPError

    failures = (OSError, HTTPException, EOFError, ValueError, zlib.error)
    with arriving(file.url, file.filepath, failures) as arrived:
        try:
            with _opener().open(_request(file.url), timeout=SILENCE_LIMIT_S) as response:
                _copy(response, arrived)
        except HTTPError as refusal:
            refusal.close()
            raise


def _http_stage_in(
    parent_fut: Any = None, outputs: Sequence[File] = (), _parsl_staging_inhibit: bool = True
) -> None:
    """The task that downloads a file."""
    fetch(outputs[0])


class HTTPSeparateTaskStaging(SeparateTaskFetching):
    """Downloads ``http`` and ``https`` files by tasks of their own; workers have to share the working directory."""

    schemes = frozenset({"http", "https"})
    fetching_task = staticmethod(_http_stage_in)


class HTTPInTaskStaging(InTaskFetching):
    """Downloads ``http`` and ``https`` files within the task that reads them, on its worker."""

    schemes = frozenset({"http", "https"})
    fetch = staticmethod(fetch)


def _copy(response: HTTPResponse, arrived: BinaryIO) -> None:
    """Writes what a server sends, unpacked if it sent it packed without being asked to."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding in ("gzip", "x-gzip"):
        import gzip

        with gzip.GzipFile(fileobj=response) as content:
            shutil.copyfileobj(content, arrived, PIECE_BYTES)
    elif encoding == "identity":
        shutil.copyfileobj(response, arrived, PIECE_BYTES)
    else:
        raise ValueError(f"the server encodes the content as {encoding!r}")
    missing_bytes = getattr(response, "length", None)
    if missing_bytes:
        raise EOFError(f"the connection ended {missing_bytes} bytes early")


def _opener() -> OpenerDirector:
    """What follows redirects with cookies, and with the credentials of each host for that host only."""
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> Request | None:
            redirected = super().redirect_request(*arguments)
            return None if redirected is None else _request(redirected.full_url)

    handlers: list[urllib.request.BaseHandler] = [
        Redirects(),
        urllib.request.HTTPCookieProcessor(),
    ]
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if bundle:
        import ssl

        cafile, capath = (None, bundle) if os.path.isdir(bundle) else (bundle, None)
        trusted = ssl.create_default_context(cafile=cafile, capath=capath)
        handlers.append(urllib.request.HTTPSHandler(context=trusted))
    return urllib.request.build_opener(*handlers)


def _request(url: str) -> Request:
    """What is sent for a URL: its characters quoted, its credentials in a header."""
    from urllib.parse import quote, urlsplit, urlunsplit
    from urllib.request import Request

    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if not host.isascii():
        host = host.encode("idna").decode()
    path, query = quote(parts.path, _UNQUOTED), quote(parts.query, _UNQUOTED)
    request = Request(urlunsplit((parts.scheme, host, path, query, "")))
    # Servers are known to refuse the standard library's own name.
    request.add_header("User-Agent", "gristmill")
    request.add_header("Accept", "*/*")
    credentials = _credentials(parts)
    if credentials is not None:
        from base64 import b64encode

        encoded = b64encode(":".join(credentials).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    return request


def _credentials(parts: SplitResult) -> tuple[str, str] | None:
    """Name and password for a host: from the URL, else from the user's file of them."""
    import netrc
    from urllib.parse import unquote

    if parts.username is not None:
        return unquote(parts.username), unquote(parts.password or "")
    try:
        entry = netrc.netrc(os.environ.get("NETRC")).authenticators(parts.hostname or "")
    except (OSError, netrc.NetrcParseError):
        return None
    return None if entry is None else (entry[0], entry[2] or "")
