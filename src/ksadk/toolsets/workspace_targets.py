"""What a call of a workspace tool acts on, for the rules that are about paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ksadk.tools.registry import Target
from ksadk.toolsets.workspace import workspace_root
from ksadk.workspace import paths, writing


def one(arguments: Mapping[str, Any]) -> dict[str, Target]:
    """The file or directory of `path`: as named, and where links lead."""
    return _target([arguments["path"]])


def entry(arguments: Mapping[str, Any]) -> dict[str, Target]:
    """The same for what deletes `path`: a link at its end is itself what goes."""
    return _target([arguments["path"]], follow=False)


def many(arguments: Mapping[str, Any]) -> dict[str, Target]:
    """Every file of `files`, under the name `path`."""
    return _target(path for path, _ in writing.paths_and_contents(arguments["files"]))


def _target(named: Iterable[str], *, follow: bool = True) -> dict[str, Target]:
    root = workspace_root()
    places = [paths.locate(root, path, follow=follow) for path in named]
    return {"path": Target("path", tuple((place.shown, place.relative) for place in places), str(root))}
