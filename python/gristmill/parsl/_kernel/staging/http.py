"""Files from web servers.

An error status of the server is an error, and its text never becomes the content of the file. A connection that ends
early is an error too. Redirects are followed. A name and a password come from the URL or from ``~/.netrc``, proxies and
certificates from the usual variables (``https_proxy``, ``SSL_CERT_FILE``, ``REQUESTS_CA_BUNDLE``).
"""

from __future__ import annotations

import os
import shutil

from gristmill.parsl._kernel.staging.arrival import PIECE_BYTES, SILENCE_LIMIT_S, arriving
from gristmill.parsl._kernel.staging.fetching import InTaskFetching, SeparateTaskFetching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from http.client import HTTPResponse
    from typing import Any, BinaryIO
    from urllib.parse import SplitResult
    from urllib.request import OpenerDirector, Request

    from gristmill.parsl._kernel.files import File

#: Characters that are not quoted in a path or a query: those with a meaning there, and those quoted already.
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
    """Downloads a file in a task."""
    fetch(outputs[0])


class HTTPSeparateTaskStaging(SeparateTaskFetching):
    """A provider that downloads ``http`` and ``https`` files in separate tasks.

    Workers have to share the working directory.
    """

    schemes = frozenset({"http", "https"})
    fetching_task = staticmethod(_http_stage_in)


class HTTPInTaskStaging(InTaskFetching):
    """A provider that downloads ``http`` and ``https`` files within the task that reads them, on its worker."""

    schemes = frozenset({"http", "https"})
    fetch = staticmethod(fetch)


def _copy(response: HTTPResponse, arrived: BinaryIO) -> None:
    """Writes a server's response, and decompresses it if the server compressed it without being asked."""
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
    """Returns an opener that follows redirects with cookies, and sends each host only its own credentials."""
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
    """Returns the request for a URL, with its characters quoted and its credentials in a header."""
    from urllib.parse import quote, urlsplit, urlunsplit
    from urllib.request import Request

    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if not host.isascii():
        host = host.encode("idna").decode()
    path, query = quote(parts.path, _UNQUOTED), quote(parts.query, _UNQUOTED)
    request = Request(urlunsplit((parts.scheme, host, path, query, "")))
    # Some servers refuse the default name of the standard library.
    request.add_header("User-Agent", "gristmill")
    request.add_header("Accept", "*/*")
    credentials = _credentials(parts)
    if credentials is not None:
        from base64 import b64encode

        encoded = b64encode(":".join(credentials).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    return request


def _credentials(parts: SplitResult) -> tuple[str, str] | None:
    """Returns name and password for a host: from the URL, else from the user's netrc file."""
    import netrc
    from urllib.parse import unquote

    if parts.username is not None:
        return unquote(parts.username), unquote(parts.password or "")
    try:
        entry = netrc.netrc(os.environ.get("NETRC")).authenticators(parts.hostname or "")
    except (OSError, netrc.NetrcParseError):
        return None
    return None if entry is None else (entry[0], entry[2] or "")
