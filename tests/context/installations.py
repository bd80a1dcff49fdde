"""Folders that look like installations by pip, uv or conda."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Writes some files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def install(
    site: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    requires: Iterable[str] = (),
    installer: str = "pip",
    more: Mapping[str, str] | None = None,
) -> Path:
    """Installs a distribution as a wheel; returns the folder of its metadata. ``more`` are further files of that
    folder.
    """
    write(site, files)
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    headers += [f"Requires-Dist: {one}" for one in requires]
    own = {"METADATA": "\n".join([*headers, "", "Requires-Dist: this-is-text"]), **(more or {})}
    write(metadata, {**own, "INSTALLER": f"{installer}\n"})
    there = {**files, **{f"{metadata.name}/{file}": text for file, text in own.items()}}
    lines = [f"{file},sha256=x,{len(text)}" for file, text in there.items()]
    lines += [f"{metadata.name}/INSTALLER,,", f"{metadata.name}/RECORD,,"]
    write(metadata, {"RECORD": "\n".join(lines) + "\n"})
    return metadata


def conda_install(
    prefix: Path, name: str, version: str, files: Mapping[str, str], depends: Iterable[str] = ()
) -> None:
    """Installs a package as conda does."""
    write(prefix, files)
    record = {
        "name": name,
        "version": version,
        "build": "py_0",
        "channel": "conda-forge",
        "depends": list(depends),
        "files": list(files),
        "paths_data": {
            "paths": [{"_path": file, "size_in_bytes": len(text)} for file, text in files.items()]
        },
    }
    write(prefix, {f"conda-meta/{name}-{version}-py_0.json": json.dumps(record, indent=2)})
