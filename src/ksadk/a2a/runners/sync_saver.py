"""Checkpointers of LangGraph that are only synchronous, for graphs that run asynchronously."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver


async def usable_saver(saver: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """The saver itself where it can be awaited, else one that calls it in threads."""
    try:
        await saver.aget_tuple(RunnableConfig(configurable={"thread_id": "", "checkpoint_ns": ""}))
    except NotImplementedError:
        return _InThreads(saver)
    return saver


class _InThreads(BaseCheckpointSaver[Any]):
    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver

    @property
    def config_specs(self) -> Any:
        return self._saver.config_specs

    def get_next_version(self, *args: Any) -> Any:
        return self._saver.get_next_version(*args)

    async def aget_tuple(self, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(self._saver.get_tuple, *args, **options)

    async def aput(self, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(self._saver.put, *args, **options)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        await asyncio.to_thread(self._saver.put_writes, *args, **options)

    async def adelete_thread(self, *args: Any, **options: Any) -> None:
        await asyncio.to_thread(self._saver.delete_thread, *args, **options)

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        for item in await asyncio.to_thread(lambda: list(self._saver.list(*args, **options))):
            yield item
