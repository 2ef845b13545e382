"""A client of the Model Context Protocol, for the tests: lists the tools of a server, calls some of them, and prints what came as JSON.

Its arguments are the lifecycle (`auto`, or `legacy` for the handshake of older versions), and then a URL, or a command and its arguments. Standard
input has the calls, as a JSON array of names with arguments. `MCP_TOKEN` is sent to a URL.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main(mode: str, *server: str) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        if server[0].startswith("http"):
            token = os.environ.get("MCP_TOKEN")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=30))
            transport = streamable_http_client(server[0], http_client=http)
        else:
            transport = stdio_client(StdioServerParameters(command=server[0], args=list(server[1:])))
        client = await stack.enter_async_context(Client(transport, mode=mode))
        tools = (await client.list_tools()).tools
        answers = []
        for name, arguments in json.load(sys.stdin):
            result = await client.call_tool(name, arguments)
            answers.append({"is_error": result.is_error, "texts": [part.text for part in result.content]})
        return {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "tools": {tool.name: tool.input_schema for tool in tools},
            "answers": answers,
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
