"""Serve the logs of simulated nodes' containers to the API server, as a kubelet does.

Only a client with a certificate of the cluster's authority may read them: the API server has one
(`gpu_cluster_lab.simulator.kubelets`), other users of the machine have none.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from aiohttp import web

from gpu_cluster_lab.simulator import logs
from gpu_cluster_lab.simulator.api import Access


async def serve_logs(access: Access, folder: Path, port: int) -> None:
    """Serve logs until the task is cancelled.

    Args:
        access: Certificates of the cluster.
        folder: Folder of the logs.
        port: Port on loopback.
    """

    async def serve_log(request: web.Request) -> web.Response:
        names = request.match_info
        text = logs.read(folder, names["namespace"], names["pod"], names["container"])
        if lines := request.query.get("tailLines"):
            text = "".join(text.splitlines(keepends=True)[-int(lines) :])
        if size := request.query.get("limitBytes"):
            text = text.encode()[: int(size)].decode(errors="ignore")
        return web.Response(text=text)

    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", serve_log)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=_tls_context(access)).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _tls_context(access: Access) -> ssl.SSLContext:
    """Return a TLS context that accepts only clients with a certificate of the cluster."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(access.ca))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(str(access.certificate), str(access.key))
    return context
