"""Extract a tool from its release archive."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import IO

from .releases import Asset, ReleaseError

_CHUNK = 1 << 18


def extract(archive: Path, item: Asset, folder: Path) -> None:
    """Extract a tool and its companion programs from an archive into a folder.

    Files in the archive are found by their file name and written under that name into the folder.
    Paths inside the archive are ignored, so an archive can't write outside of the folder.

    Args:
        archive: The downloaded file; a release that is no archive is moved into the folder.
        item: The release that the file belongs to.
        folder: The target folder.

    Raises:
        ReleaseError: A program is missing in the archive, or the archive can't be read.
    """
    release = item.pin.release
    if release is None or not release.archive:
        archive.rename(folder / item.pin.name)
        return
    file_names = {item.pin.name, *release.companions}
    try:
        if item.file_name.endswith(".zip"):
            with zipfile.ZipFile(archive) as packed:
                for name in packed.namelist():
                    if _last(name) in file_names:
                        _write_member(packed.open(name), folder / _last(name))
                        file_names.discard(_last(name))
        else:
            with tarfile.open(archive) as tarred:
                for member in tarred:
                    stream = tarred.extractfile(member) if member.isfile() else None
                    if stream is not None and _last(member.name) in file_names:
                        _write_member(stream, folder / _last(member.name))
                        file_names.discard(_last(member.name))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise ReleaseError(f"{item.url}: cannot be unpacked: {error}") from error
    if file_names:
        raise ReleaseError(f"{item.url}: holds no {', '.join(sorted(file_names))}")


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _write_member(stream: IO[bytes], target: Path) -> None:
    with stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file, _CHUNK)
