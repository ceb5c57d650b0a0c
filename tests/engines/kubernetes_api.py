"""A double of Kubernetes with Dask's operator: it validates each object, and runs the commands of its containers here.

There is no cluster to be had on this machine. What is real: the client (dask-kubernetes with kr8s), the published
schema of the operator's resources, and the scheduler and the workers: the commands of the resource, as processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jsonschema
import yaml
from slurm import free_port

PROGRAMS = Path(sys.executable).parent
DASK = "kubernetes.dask.org/v1"


def published_schema(kind):
    """The schema of a resource, from the operator's chart, as Kubernetes has it."""
    import dask_kubernetes

    charts = Path(dask_kubernetes.__file__).parent / "operator" / "deployment" / "helm"
    file = charts / "dask-kubernetes-operator" / "crds" / f"{kind.lower()}.yaml"
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def check_resource(resource):
    """Raise `jsonschema.ValidationError` if the operator would not accept a resource as it is."""
    schema = published_schema(resource["kind"])
    jsonschema.validate(resource, schema)
    if unknown := list(_unknown_fields(resource["spec"], schema["properties"]["spec"], "spec")):
        raise jsonschema.ValidationError(f"Kubernetes would remove {', '.join(unknown)}.")


def _unknown_fields(value, schema, path):
    if isinstance(value, list):
        for each in value:
            yield from _unknown_fields(each, schema["items"], f"{path}[]")
    elif isinstance(value, dict) and "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for name, each in value.items():
            if name in schema["properties"]:
                yield from _unknown_fields(each, schema["properties"][name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"


class KubernetesApi:
    """The server, which listens on the loopback interface.

    Parameters
    ----------
    folder
        For the file with its address, and the logs of the containers.
    has_operator
        Whether the operator runs; else resources stay as they are.

    Attributes
    ----------
    cluster, autoscaler
        The ``DaskCluster`` and the ``DaskAutoscaler`` that exist; `None` without one.
    invalid
        Why resources were refused.
    nodes
        How many workers the cluster has room for; the pods of others are pending.
    processes
        Those of the scheduler and of the workers, by name of the pod.
    """

    token = "a-token-of-kubernetes"  # noqa: S105

    def __init__(self, folder: Path, *, has_operator: bool = True) -> None:
        self.folder, self.has_operator = folder, has_operator
        self.cluster = self.autoscaler = None
        self.invalid: list[str] = []
        self.processes: dict[str, subprocess.Popen] = {}
        self.nodes = 8
        self._waiting: list[str] = []
        self._lock = threading.RLock()
        self._port = free_port()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                with api._lock:
                    status, content = api.handle(self.command, urlsplit(self.path), body)
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.file = folder / "kubeconfig"
        self.file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "tests",
                    "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
                    "clusters": [
                        {"name": "tests", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}
                    ],
                    "users": [{"name": "tests", "user": {"token": self.token}}],
                }
            )
        )

    def handle(self, method, url, body):  # noqa: C901, PLR0911 - a table of requests
        """The status and the content of a response."""
        path = url.path.strip("/").split("/")
        kind, name = [*path[path.index("namespaces") + 2 :], ""][:2] if "namespaces" in path else ("", "")
        selector = parse_qs(url.query).get("labelSelector", [""])[0]
        match method, kind:
            case "GET", "" if path == ["version"]:
                return 200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
            case "POST", "daskclusters":
                return self._create(body)
            case "POST", "daskautoscalers":
                check_resource(body)
                self.autoscaler = body
                return 201, body
            case "DELETE", "daskautoscalers" if self.autoscaler:
                self.autoscaler = None
                return 200, {"kind": "Status", "status": "Success"}
            case "GET", "daskclusters" if self.cluster and name in ("", self.cluster["metadata"]["name"]):
                return _one_or_list(self.cluster, name)
            case "DELETE", "daskclusters" if self.cluster:
                self._remove()
                return 200, {"kind": "Status", "status": "Success"}
            case ("PATCH", "daskworkergroups") | ("PATCH", "daskclusters") if self.cluster:
                self._scale(body["spec"]["worker"]["replicas"])
                return 200, self._group()
            case "GET", "daskworkergroups" if self.processes:
                return _one_or_list(self._group(), name)
            case "GET", "pods" if self.processes and (name == "scheduler" or "component=scheduler" in selector):
                return _one_or_list(self._pod(), name)
            case "GET", "pods" if self.cluster and not name:
                pods = [self._pending_pod(each) for each in self._waiting]
                return 200, {"kind": "PodList", "apiVersion": "v1", "items": pods}
            case "GET", "services" if self.processes:
                return _one_or_list(self._service(), name)
        if method == "GET" and not name and kind:
            return 200, {"kind": "List", "items": []}
        return 404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}

    def _create(self, resource):
        try:
            check_resource(resource)
        except jsonschema.ValidationError as error:
            self.invalid.append(error.message)
            return 422, {"kind": "Status", "status": "Failure", "code": 422, "message": error.message}
        self.cluster = resource
        self.cluster["metadata"] |= {"namespace": "default", "uid": "1", "resourceVersion": "1"}
        if self.has_operator:
            self.cluster["status"] = {"phase": "Running"}
            network = ["--host", "127.0.0.1", "--port", str(self._port), "--dashboard-address", "127.0.0.1:0"]
            self._run("scheduler", resource["spec"]["scheduler"], network)
            self._scale(resource["spec"]["worker"]["replicas"])
        return 201, self.cluster

    def _scale(self, replicas):
        self.cluster["spec"]["worker"]["replicas"] = replicas
        names = [f"worker-{number}" for number in range(replicas)]
        for name in {*self.processes} - {"scheduler", *names}:
            _end(self.processes.pop(name))
        self._waiting = names[self.nodes :]
        for name in names[: self.nodes]:
            if name not in self.processes:
                self._run(name, self.cluster["spec"]["worker"], ["--dashboard-address", "127.0.0.1:0"])

    def _run(self, name, part, network):
        """Start a container as a process, with the network of this machine."""
        (container,) = part["spec"]["containers"]
        variables = {"DASK_WORKER_NAME": name, "DASK_SCHEDULER_ADDRESS": f"tcp://127.0.0.1:{self._port}"}
        words = []
        for word in container["args"]:
            for variable, value in variables.items():
                word = word.replace(f"$({variable})", value)  # noqa: PLW2901
            words.append(word)
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [PROGRAMS / words[0], *words[1:], *network], stdout=log, stderr=log, cwd=self.folder
            )

    def _group(self):
        return {
            "apiVersion": DASK,
            "kind": "DaskWorkerGroup",
            "metadata": {"name": f"{self.cluster['metadata']['name']}-default", "namespace": "default"},
            "spec": {"cluster": self.cluster["metadata"]["name"], "worker": self.cluster["spec"]["worker"]},
        }

    def _pod(self):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "scheduler", "namespace": "default"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")],
                "containerStatuses": [],
            },
        }

    def _pending_pod(self, name):
        """A pod as the scheduler of Kubernetes leaves it where no node has room."""
        (container,) = self.cluster["spec"]["worker"]["spec"]["containers"]
        lacks = "nvidia.com/gpu" if "nvidia.com/gpu" in container["resources"]["limits"] else "memory"
        message = f"0/1 nodes are available: 1 Insufficient {lacks}. preemption: 0/1 nodes are available."
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-7d4b9-x2x", "namespace": "default"},
            "spec": {"containers": [{"env": [{"name": "DASK_WORKER_NAME", "value": name}]}]},
            "status": {"phase": "Pending", "conditions": [unscheduled]},
        }

    def _service(self):
        ports = [{"name": name, "port": self._port} for name in ("tcp-comm", "http-dashboard")]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{self.cluster['metadata']['name']}-scheduler", "namespace": "default"},
            "spec": self.cluster["spec"]["scheduler"]["service"] | {"ports": ports},
            "status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}},
        }

    def _remove(self):
        self.cluster = None
        self._waiting = []
        for process in self.processes.values():
            _end(process)
        self.processes.clear()

    def stop(self):
        """Stop the server, and what it has started."""
        self._server.shutdown()
        self._server.server_close()
        self._remove()


def _one_or_list(item, name):
    return 200, item if name else {"kind": f"{item['kind']}List", "apiVersion": "v1", "items": [item]}


def _end(process):
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    process.kill()
    process.wait()
