"""Simulates MIG manager: each node's GPUs divided as the layout of its label says."""

from __future__ import annotations

from collections.abc import Mapping

from lab.simulator import marks
from lab.simulator.api import MERGE, Api, ApiError, Json, gather
from lab.simulator.controller import operands


class MigManager:
    """Keeps MIG devices of nodes in step with their layouts."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def divide(self, policy: Json, namespace: str, nodes: Mapping[str, Json]) -> None:
        """Divide the GPUs of nodes, given by their names with labels and annotations."""
        manager = (policy.get("spec") or {}).get("migManager") or {}
        name = (manager.get("config") or {}).get("name")
        known: dict[str, str] = {operands.MIG_DISABLED: ""}
        if name and manager.get("enabled", True):
            found = await self._layouts(namespace, name)
            if found is None:
                return  # its pods wait for the volume
            known = found
        await self._write(
            nodes,
            {
                node: (known[layout], "success") if layout in known else (devices, "failed")
                for node, (layout, _, devices) in _divided(nodes).items()
                if layout
            },
        )

    async def clear(self, nodes: Mapping[str, Json]) -> None:
        """No MIG devices, and no state, on any node."""
        states = {name: state for name, (_, state, _) in _divided(nodes).items()}
        await self._write(nodes, {name: ("", "") for name, state in states.items() if state})

    async def _layouts(self, namespace: str, name: str) -> dict[str, str] | None:
        """The layouts of a ConfigMap; None where there is none."""
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        try:
            data = (await self._api.request("GET", path)).get("data") or {}
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        return operands.layouts(data.get("config.yaml", ""))

    async def _write(self, nodes: Mapping[str, Json], wanted: dict[str, tuple[str, str]]) -> None:
        async def patch(name: str, devices: str, state: str) -> None:
            body = {
                "metadata": {
                    "labels": {operands.MIG_STATE: state or None},
                    "annotations": {marks.MIG: devices or None},
                }
            }
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", body, MERGE)

        divided = _divided(nodes)
        await gather(
            *(
                patch(name, devices, state)
                for name, (devices, state) in wanted.items()
                if divided[name][1:] != (state, devices)
            )
        )


def _divided(nodes: Mapping[str, Json]) -> dict[str, tuple[str, str, str]]:
    """By node: the layout that it is to have, how far that is, and its MIG devices."""
    return {
        name: (
            node["labels"].get(operands.MIG_LAYOUT, ""),
            node["labels"].get(operands.MIG_STATE, ""),
            node["annotations"].get(marks.MIG, ""),
        )
        for name, node in nodes.items()
        if node["labels"].get(operands.OPERANDS_OFF) != "false"
    }
